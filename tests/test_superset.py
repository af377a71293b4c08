"""Superset's own configuration, read as settings: every key, with Superset's defaults."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gaq_middleware import Settings, SettingsError
from gaq_middleware.core.guests import GuestVerifier
from tests.helpers import GUEST, K2, K, guest_token

P = "GLOBAL_ASYNC_QUERIES_"
PRE_6_2: dict[str, Any] = {
    "DEFAULT_FEATURE_FLAGS": {"GLOBAL_ASYNC_QUERIES": False, "EMBEDDED_SUPERSET": False},
    "FEATURE_FLAGS": {"GLOBAL_ASYNC_QUERIES": True},
    f"{P}REDIS_STREAM_PREFIX": "async-events-",
    f"{P}REDIS_STREAM_LIMIT": 1000,
    f"{P}REDIS_STREAM_LIMIT_FIREHOSE": 1000000,
    f"{P}REGISTER_REQUEST_HANDLERS": False,
    f"{P}JWT_COOKIE_NAME": "async-token",
    f"{P}JWT_COOKIE_SECURE": False,
    f"{P}JWT_COOKIE_SAMESITE": None,
    f"{P}JWT_COOKIE_DOMAIN": None,
    f"{P}JWT_SECRET": K,
    f"{P}CACHE_BACKEND": {"CACHE_TYPE": "RedisCache", "CACHE_REDIS_HOST": "localhost"},
    "GUEST_TOKEN_JWT_SECRET": "test-guest-secret-change-me",
    "GUEST_TOKEN_JWT_ALGO": "HS256",
    "GUEST_TOKEN_HEADER_NAME": "X-GuestToken",
    "GUEST_TOKEN_JWT_AUDIENCE": None,
    "WEBDRIVER_BASEURL": "http://0.0.0.0:8080/",
}
"""What `app.config` of Superset 6.1.0 says of these keys, one side issuing, with a good secret."""
SUPERSET = {**PRE_6_2, f"{P}JWT_EXPIRATION_SECONDS": 3600}
"""The same in 2026-08."""
EMBEDDED = {
    "FEATURE_FLAGS": {"GLOBAL_ASYNC_QUERIES": True, "EMBEDDED_SUPERSET": True},
    "GUEST_TOKEN_JWT_SECRET": GUEST,
}


def settings_of(changes: dict[str, Any], environ: dict[str, str] | None = None) -> Settings:
    """Return the settings of a Superset whose configuration is changed so; ... leaves a key out."""
    config = {key: value for key, value in {**SUPERSET, **changes}.items() if value is not ...}
    return Settings.from_superset(config, environ or {})


def backend(**changes: Any) -> dict[str, Any]:
    """Return a configuration with another backend; names without CACHE_."""
    return {f"{P}CACHE_BACKEND": {f"CACHE_{name}": value for name, value in changes.items()}}


ROWS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({f"{P}JWT_COOKIE_NAME": "t"}, {"cookie_name": "t"}),
    ({f"{P}JWT_COOKIE_DOMAIN": "bi.example.com"}, {"cookie_domain": "bi.example.com"}),
    ({}, {"cookie_domain": None, "cookie_samesite": "Lax", "cookie_secure": False}),
    ({f"{P}JWT_COOKIE_SAMESITE": "Strict"}, {"cookie_samesite": "Strict"}),
    (
        {f"{P}JWT_COOKIE_SAMESITE": "None", f"{P}JWT_COOKIE_SECURE": True},
        {"cookie_samesite": "None", "cookie_secure": True},
    ),
    ({f"{P}JWT_COOKIE_SECURE": ...}, {"cookie_secure": None}),
    ({f"{P}JWT_SECRET": K2}, {"jwt_secret": K2.encode(), "channel_secret": None}),
    (
        {f"{P}JWT_EXPIRATION_SECONDS": 600},
        {
            "jwt_expiration_seconds": 600,
            "jwt_max_age_seconds": 43200,
            "job_ttl_seconds": 600,
            "jwt_require_exp": True,
        },
    ),
    (
        {f"{P}JWT_EXPIRATION_SECONDS": 86400},
        {"jwt_expiration_seconds": 86400, "jwt_max_age_seconds": 86400},
    ),
    (
        {f"{P}JWT_EXPIRATION_SECONDS": ...},
        {"jwt_expiration_seconds": 3600, "job_ttl_seconds": 3600, "jwt_require_exp": True},
    ),
    (
        {f"{P}JWT_EXPIRATION_SECONDS": ..., f"{P}REGISTER_REQUEST_HANDLERS": True},
        {"issue": "off", "jwt_require_exp": False},
    ),
    ({f"{P}REGISTER_REQUEST_HANDLERS": False}, {"issue": "session"}),
    ({f"{P}REGISTER_REQUEST_HANDLERS": True}, {"issue": "off"}),
    ({f"{P}REGISTER_REQUEST_HANDLERS": ...}, {"issue": "off"}),
    (
        {
            f"{P}REDIS_STREAM_PREFIX": "x-",
            f"{P}REDIS_STREAM_LIMIT": 5,
            f"{P}REDIS_STREAM_LIMIT_FIREHOSE": 7,
        },
        {"stream_prefix": "x-", "stream_limit": 5, "stream_limit_firehose": 7},
    ),
    (
        {f"{P}REDIS_STREAM_LIMIT": None, f"{P}REDIS_STREAM_LIMIT_FIREHOSE": None},
        {"stream_limit": 1_000_000, "stream_limit_firehose": 100_000_000},
    ),
    ({"GUEST_TOKEN_JWT_SECRET": GUEST}, {"guest_secret": None, "guest_audience": None}),
    (
        EMBEDDED,
        {
            "guest_secret": GUEST.encode(),
            "guest_audience": "http://0.0.0.0:8080/",
            "guest_header": "X-GuestToken",
            "guest_algorithm": "HS256",
            "guest_channel_claims": ("user", "resources", "datasets", "rev", "iat", "exp", "aud"),
        },
    ),
    ({**EMBEDDED, "GUEST_TOKEN_JWT_AUDIENCE": "superset"}, {"guest_audience": "superset"}),
    ({**EMBEDDED, "GUEST_TOKEN_JWT_AUDIENCE": ""}, {"guest_audience": "http://0.0.0.0:8080/"}),
    ({**EMBEDDED, "GUEST_TOKEN_JWT_AUDIENCE": lambda: "called"}, {"guest_audience": "called"}),
    ({**EMBEDDED, "WEBDRIVER_BASEURL": "http://bi/"}, {"guest_audience": "http://bi/"}),
    ({**EMBEDDED, "WEBDRIVER_BASEURL": ...}, {"guest_audience": "http://0.0.0.0:8080/"}),
    ({**EMBEDDED, "GUEST_TOKEN_HEADER_NAME": "X-G"}, {"guest_header": "X-G"}),
    ({"AUTH_TYPE": object(), "GUEST_TOKEN_VALIDATOR_HOOK": print}, {"issue": "session"}),
]


@pytest.mark.parametrize(("changes", "fields"), ROWS)
def test_a_key_becomes_its_setting(changes: dict[str, Any], fields: dict[str, Any]) -> None:
    """Every key that Superset reads means here what it means there; others mean nothing."""
    settings = settings_of(changes)

    assert {name: getattr(settings, name) for name in fields} == fields


SENTINELS = {"TYPE": "RedisSentinelCache"}
STORES: list[tuple[dict[str, Any], str]] = [
    ({"TYPE": "RedisCache"}, "redis://localhost:6379/0"),
    ({}, "redis://localhost:6379/0"),
    (
        {"REDIS_HOST": "r", "REDIS_PORT": "6380", "REDIS_DB": 3, "REDIS_USER": ""},
        "redis://r:6380/3",
    ),
    (
        {"REDIS_HOST": "::1", "REDIS_PASSWORD": "p:/?#@ü"},
        "redis://:p%3A%2F%3F%23%40%C3%BC@[::1]:6379/0",
    ),
    ({"REDIS_USER": "u@", "REDIS_PASSWORD": "p"}, "redis://u%40:p@localhost:6379/0"),
    ({"REDIS_USER": "u", "REDIS_PASSWORD": None}, "redis://u:@localhost:6379/0"),
    ({"REDIS_SSL": True}, "rediss://localhost:6379/0?ssl_cert_reqs=required"),
    (
        {
            "REDIS_SSL": True,
            "REDIS_SSL_CERTFILE": "/a b/c.pem",
            "REDIS_SSL_KEYFILE": "/k&k.pem",
            "REDIS_SSL_CA_CERTS": "/ca.pem",
            "REDIS_SSL_CERT_REQS": None,
        },
        "rediss://localhost:6379/0?ssl_certfile=/a%20b/c.pem&ssl_keyfile=/k%26k.pem"
        "&ssl_ca_certs=/ca.pem&ssl_cert_reqs=none",
    ),
    (SENTINELS, "redis+sentinel://127.0.0.1:26379/mymaster/0"),
    (
        {
            **SENTINELS,
            "REDIS_SENTINELS": [("a", 1), ("::1", 2)],
            "REDIS_SENTINEL_MASTER": "m/1",
            "REDIS_SENTINEL_PASSWORD": "s&",
            "REDIS_PASSWORD": "p",
            "REDIS_USER": "never read",
            "REDIS_DB": 5,
        },
        "redis+sentinel://:p@a:1,[::1]:2/m%2F1/0?sentinel_password=s%26",
    ),
    (
        {**SENTINELS, "REDIS_SSL": True, "REDIS_SSL_CERT_REQS": "optional"},
        "rediss+sentinel://127.0.0.1:26379/mymaster/0?ssl_cert_reqs=optional",
    ),
]


@pytest.mark.parametrize(("changes", "url"), STORES)
def test_the_store_is_the_redis_of_superset(changes: dict[str, Any], url: str) -> None:
    """Host, user, password, database, certificates and sentinels, as Superset reads them."""
    assert settings_of(backend(**changes)).store_url == url


@pytest.mark.parametrize(("changes", "url"), STORES)
def test_every_such_store_can_be_opened(changes: dict[str, Any], url: str) -> None:
    """No option of the URLs is unknown to the store, and passwords arrive as they were."""
    pytest.importorskip("redis")
    from gaq_middleware.registry.redis_connect import Target

    connection = Target(url).maker()[0]()

    password = changes.get("REDIS_PASSWORD") or None
    assert getattr(connection, "password", None) == password or connection.credential_provider


def test_without_a_backend_it_is_superset_s_default() -> None:
    """The store is never in memory: the events are written by others."""
    assert settings_of({f"{P}CACHE_BACKEND": ...}).store_url == "redis://localhost:6379/0"


PROBLEMS: list[tuple[dict[str, Any], str]] = [
    ({f"{P}JWT_SECRET": ...}, r"GAQ_JWT_SECRET is not set.*\(Superset: \w+_JWT_SECRET\)"),
    ({f"{P}JWT_SECRET": "test-secret-change-me"}, r"only 21 bytes.*\(Superset: \w+_JWT_SECRET\)"),
    ({f"{P}JWT_SECRET": "CHANGE_ME_" * 4}, r"placeholder.*\(Superset: \w+_JWT_SECRET\)"),
    ({f"{P}JWT_SECRET": K.encode()}, r"Superset's \w+_JWT_SECRET is wrong: .*type bytes, not text"),
    ({f"{P}JWT_EXPIRATION_SECONDS": 0}, r"from 60 .*\(Superset: \w+_JWT_EXPIRATION_SECONDS\)"),
    (
        {f"{P}JWT_COOKIE_SAMESITE": "None"},
        r"needs a Secure cookie.*\(Superset: \w+_COOKIE_SAMESITE, \w+_COOKIE_SECURE\)",
    ),
    ({f"{P}JWT_COOKIE_DOMAIN": "localhost"}, r"\(Superset: \w+_COOKIE_DOMAIN\)"),
    ({f"{P}REDIS_STREAM_LIMIT": 0}, r"\(Superset: \w+_STREAM_LIMIT\)"),
    (
        {**EMBEDDED, "GUEST_TOKEN_JWT_SECRET": ...},
        r"only 27 bytes.*\(Superset: GUEST_TOKEN_JWT_SECRET\)",
    ),
    (
        {**EMBEDDED, "GUEST_TOKEN_JWT_SECRET": K},
        r"equals a token secret.*\(Superset: GUEST_TOKEN_JWT_SECRET\)",
    ),
    ({**EMBEDDED, "GUEST_TOKEN_JWT_ALGO": "RS256"}, r"\(Superset: GUEST_TOKEN_JWT_ALGO\)"),
    (
        {**EMBEDDED, "GUEST_TOKEN_JWT_AUDIENCE": lambda: 1 // 0},
        r"Superset's GUEST_TOKEN_JWT_AUDIENCE is wrong: calling it raised ZeroDivisionError",
    ),
    (
        {**EMBEDDED, "GUEST_TOKEN_JWT_AUDIENCE": lambda: None},
        r"GAQ_GUEST_AUDIENCE is not set.*\(Superset: GUEST_TOKEN_JWT_AUDIENCE",
    ),
    ({**EMBEDDED, "GUEST_TOKEN_JWT_AUDIENCE": ["a"]}, "of the type list, not text"),
    (backend(TYPE="NullCache"), "CACHE_TYPE is neither RedisCache nor RedisSentinelCache"),
    ({f"{P}CACHE_BACKEND": "redis://"}, r"Superset's \w+_CACHE_BACKEND is wrong: its CACHE_TYPE"),
    (backend(TYPE="RedisSentinelCache", REDIS_SENTINELS=["a:1"]), r"no list of \(host, port\)"),
    (backend(REDIS_HOST="a b"), r"GAQ_STORE_URL .*white space.*\(Superset: \w+_CACHE_BACKEND\)"),
    (backend(REDIS_DB="x"), r"\(Superset: \w+_CACHE_BACKEND\)"),
]


@pytest.mark.parametrize(("changes", "words"), PROBLEMS)
def test_what_is_wrong_is_told_with_superset_s_key(changes: dict[str, Any], words: str) -> None:
    """One problem each, in the words of the variables, and no value that is secret."""
    with pytest.raises(SettingsError, match=words) as caught:
        settings_of(changes)

    (problem,) = caught.value.problems
    assert K not in problem


def test_all_that_is_wrong_is_told_at_once() -> None:
    """What Superset alone knows comes with what the parser finds."""
    with pytest.raises(SettingsError) as caught:
        settings_of({f"{P}JWT_SECRET": "short", f"{P}JWT_COOKIE_NAME": "", **backend(TYPE="x")})

    assert len(caught.value.problems) == 3


def test_a_configuration_without_doubts() -> None:
    """One side issues, the flag is on: nothing is left to say."""
    assert settings_of({}).warnings == ()


DOUBTS: list[tuple[dict[str, Any], str]] = [
    ({"FEATURE_FLAGS": {}}, "flag GLOBAL_ASYNC_QUERIES is off"),
    ({"FEATURE_FLAGS": ..., "DEFAULT_FEATURE_FLAGS": ...}, "flag GLOBAL_ASYNC_QUERIES is off"),
    ({f"{P}REGISTER_REQUEST_HANDLERS": True}, "REGISTER_REQUEST_HANDLERS is on"),
    (EMBEDDED, "without rls_rules"),
]


@pytest.mark.parametrize(("changes", "words"), DOUBTS)
def test_what_works_but_is_hardly_meant_is_told(changes: dict[str, Any], words: str) -> None:
    """They become warnings at start-up (case 17)."""
    assert any(words in doubt for doubt in settings_of(changes).warnings)


def test_the_environment_wins(tmp_path: Path) -> None:
    """For what Superset has no key for, and where it differs; files of secrets count too."""
    file = tmp_path / "secret"
    file.write_text(K2)
    environ = {
        "GAQ_JWT_SECRET_FILE": str(file),
        "GAQ_ISSUE": "login",
        "GAQ_STORE_URL": "redis://elsewhere",
        "GAQ_EVENTS_PATH": "",
    }
    settings = settings_of(
        {**backend(TYPE="x"), f"{P}JWT_SECRET": "short", f"{P}REGISTER_REQUEST_HANDLERS": True},
        environ,
    )

    assert settings.jwt_secret == K2.encode()
    assert (settings.issue, settings.store_url, settings.events_path) == (
        "login",
        "redis://elsewhere",
        "",
    )


def test_what_the_environment_has_wrong_is_not_blamed_on_superset() -> None:
    """Its own name is enough."""
    with pytest.raises(SettingsError) as caught:
        settings_of({}, {"GAQ_JWT_SECRET": "short"})

    assert "Superset" not in caught.value.problems[0]


def test_the_environment_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless another one is passed."""
    monkeypatch.setenv("GAQ_COOKIE_NAME", "from-env")

    assert os.environ["GAQ_COOKIE_NAME"] == Settings.from_superset(SUPERSET).cookie_name


def test_a_guest_has_the_channel_that_superset_derives() -> None:
    """Row-level rules are not in it, and the key is the secret of the tokens."""
    settings = settings_of(EMBEDDED)
    now = 1_800_000_000.0
    tokens = [
        guest_token(now=now, aud="http://0.0.0.0:8080/", rls_rules=rules)
        for rules in ([], [{"clause": "1=1"}])
    ]
    channels = {
        getattr(GuestVerifier(settings).verify(raw, now), "channel_id", raw) for raw in tokens
    }

    assert len(channels) == 1
    assert channels.pop().startswith("guest-")
