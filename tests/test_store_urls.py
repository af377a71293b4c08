"""The URLs of stores: what is refused and why, and what of them is shown."""

from __future__ import annotations

import pytest

from gaq_middleware import Settings, SettingsError
from gaq_middleware.core.store_urls import (
    check_store_url,
    sentinel_parts,
    shown_store_url,
    socket_timeout,
)
from tests.helpers import K, make_settings


@pytest.mark.parametrize(
    "url",
    [
        "memory://",
        "redis://",
        "redis://localhost",
        "redis://localhost:6379/0",
        "redis://user:p%40ss@redis.example.com:6380/15?socket_timeout=1",
        "redis://:pw@[::1]:6379/",
        "redis://[fe80::1%25eth0]:6379",
        "redis://redis_1.internal.:6379",
        "redis://localhost?db=3",
        "rediss://localhost:6379/0?ssl_cert_reqs=none",
        "unix:///run/redis.sock",
        "unix://user@/run/redis.sock?db=1&password=x",
        "redis+sentinel://a/mymaster",
        "redis+sentinel://u:pw@a:26379,b,[::1]:26380/my.master-1/3?sentinel_password=x",
        "rediss+sentinel://a/mymaster/",
    ],
)
def test_a_good_url_is_taken_as_it_is(url: str) -> None:
    """All that redis-py takes, and the sentinels' form."""
    assert check_store_url(url) == url


def test_the_scheme_may_be_in_any_case() -> None:
    """RFC 3986 section 3.1."""
    assert check_store_url("REDIS://User@host") == "redis://User@host"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("localhost:6379", "no store of that scheme"),
        ("http://localhost", "no store of that scheme"),
        ("redis:localhost", "no store of that scheme"),
        ("redis+cluster://localhost", "no store of that scheme"),
        ("memory://x", "stands alone"),
        ("memory:///1", "stands alone"),
        ("redis://local host", "white space"),
        ("redis://localhost\n", "white space"),
        ("redis://localhost:port", "port is not a number from 1 to 65535"),
        ("redis://localhost:0", "port is not a number from 1 to 65535"),
        ("redis://localhost:", "port is not a number from 1 to 65535"),
        ("redis://localhost:65536", "port is not a number from 1 to 65535"),
        ("redis://user:pa/ss@localhost", "port is not a number.*%2F"),
        ("redis://:pa#ss@localhost", "has a #.*%23"),
        ("redis://:pa?ss@localhost", "port is not a number.*%3F"),
        ("redis://[::1", "host is not one"),
        ("redis://a..b", "host is not one"),
        ("redis://a,b", "host is not one"),
        ("redis:///localhost:6379", "number of a database"),
        ("redis://localhost/zero", "number of a database"),
        ("redis://localhost/0/1", "number of a database"),
        ("redis://localhost?db=x", "db is not the number"),
        ("redis://localhost?db=", "db is not the number"),
        ("unix://run/redis.sock", "not absolute"),
        ("unix:///", "not absolute"),
        ("unix://", "not absolute"),
        ("redis+sentinel://a:26379,b:26379", "name of the master"),
        ("redis+sentinel://a:26379/", "name of the master"),
        ("redis+sentinel://a:26379//0", "name of the master"),
        ("redis+sentinel://a:26379/mymaster/x", "name of the master"),
        ("redis+sentinel://a:26379/mymaster/0/1", "name of the master"),
        ("redis+sentinel:///mymaster", "host is not one"),
        ("redis+sentinel://a:26379,/mymaster", "host is not one"),
        ("redis+sentinel://a:26379,b:x/mymaster", "port is not a number"),
    ],
)
def test_a_bad_url_stops_the_start_and_says_why(url: str, why: str) -> None:
    """The message names variable, reason and mend, and quotes nothing of the URL."""
    with pytest.raises(SettingsError, match=f"(?s)GAQ_STORE_URL must be the URL of a store.*{why}"):
        make_settings(store_url=url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://me:hunter2@localhost:6379/0",
        "redis://localhost?password=hunter2",
        "unix:///run/redis.sock?password=hunter2",
        "redis+sentinel://me:hunter2@a,b/mymaster?sentinel_password=hunter2",
        "redis://me:hunter2/x@localhost",
        "redis://:hunter2#x@localhost:6379",
        "redis://me:@hunter2@localhost:66666",
    ],
)
def test_the_password_is_never_shown(url: str) -> None:
    """Neither in the repr of settings, nor in errors, nor in what the start-up line says."""
    try:
        settings = make_settings(store_url=url)
    except SettingsError as error:
        shown = str(error)
    else:
        shown = repr(settings) + shown_store_url(settings.store_url)

    assert "hunter2" not in shown
    assert "localhost" not in repr(Settings.from_env({"GAQ_JWT_SECRET": K}))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("memory://", "memory://"),
        ("redis://u:p@host:6379/2?x=1", "redis://host:6379/2"),
        ("unix://u@/run/redis.sock?db=1", "unix:///run/redis.sock"),
        ("redis+sentinel://u:p@a:1,b/m/0?x=1", "redis+sentinel://a:1,b/m/0"),
    ],
)
def test_what_is_shown_says_which_store_it_is(url: str, shown: str) -> None:
    """Scheme, hosts, path; no user, no password, no options."""
    assert shown_store_url(url) == shown


def test_a_sentinel_url_comes_apart() -> None:
    """Sentinels with their ports, the master, and a URL of all else."""
    assert sentinel_parts("redis+sentinel://u:p%2F@a:1,[::1],b/my%2Dmaster/3?x=1") == (
        [("a", 1), ("::1", 26379), ("b", 26379)],
        "my-master",
        "redis://u:p%2F@/3?x=1",
    )
    assert sentinel_parts("redis+sentinel://a/m") == ([("a", 26379)], "m", "redis://@/?")


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ("", None),
        ("?socket_connect_timeout=1", None),
        ("?socket_timeout=", None),
        ("?socket_timeout=soon", None),
        ("?db=1&socket_timeout=0.5", 0.5),
        ("?socket_timeout=3&socket_timeout=1", 3.0),
    ],
)
def test_the_timeout_of_a_url(options: str, seconds: float | None) -> None:
    """The first one counts, as for redis-py; what it refuses is none."""
    assert socket_timeout(f"redis+sentinel://a/m{options}") == seconds
