"""The URLs of stores: what each scheme may say, and what of a URL may be shown.

Messages never quote a URL: a password with a character that should have been encoded may stand
where a host, a port or a path is expected. Opening what a URL names is not done here.
"""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

SENTINEL_PORT = 26379
_HOST = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%\w+)?")
_ENCODE = "in a password / ? # @ and : are written %2F %3F %23 %40 %3A"

BLOCK_SECONDS = 1.0
"""How long a read of the firehose waits in Redis."""


def check_store_url(text: str) -> str:
    """Return the URL of a store, its scheme in lower case.

    Raises:
        ValueError: With the reason, for what cannot be one.
    """
    if re.search(r"[\s\x00-\x1f\x7f]", text):
        raise ValueError("it has white space or control characters")
    try:
        parts = urlsplit(text)
    except ValueError:
        raise ValueError("its host is not one; an IPv6 address stands in []") from None
    if parts.scheme not in _CHECKS or not text[len(parts.scheme) :].startswith("://"):
        raise ValueError("no store of that scheme is known")
    if "#" in text:
        raise ValueError(f"it has a #; {_ENCODE}")
    database = parse_qs(parts.query, keep_blank_values=True).get("db", ["0"])[0]
    if not re.fullmatch("[0-9]{1,5}", database):
        raise ValueError("db is not the number of a database")
    _CHECKS[parts.scheme](parts)
    return parts.scheme + text[len(parts.scheme) :]


def shown_store_url(text: str) -> str:
    """Return what of a store's URL may be shown: no user, no password, no options."""
    parts = urlsplit(text)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def socket_timeout(text: str) -> float | None:
    """Return the seconds after which a URL gives up an answer; None if it does not say."""
    values = parse_qs(urlsplit(text).query).get("socket_timeout", [""])
    try:
        return float(values[0])
    except ValueError:
        return None


def sentinel_parts(text: str) -> tuple[list[tuple[str, int]], str, str]:
    """Return the sentinels, the name of the master, and all else as a redis:// URL.

    Args:
        text: A URL that passed `check_store_url`.
    """
    parts = urlsplit(text)
    login, _, hosts = parts.netloc.rpartition("@")
    _, master, *database = parts.path.split("/")
    rest = f"redis://{login}@/{database[0] if database else ''}?{parts.query}"
    pairs = [_host(host) for host in hosts.split(",")]
    return [(host, port or SENTINEL_PORT) for host, port in pairs], unquote(master), rest


def _host(text: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(f"its port is not a number from 1 to 65535; {_ENCODE}") from None
    if port == 0 or text.endswith(":"):
        raise ValueError("its port is not a number from 1 to 65535")
    if host is None or not _HOST.fullmatch(host):
        raise ValueError(f"its host is not one; {_ENCODE}")
    return host, port


def _check_memory(parts: SplitResult) -> None:
    if parts.netloc or parts.path or parts.query:
        raise ValueError("memory:// stands alone")


def _check_redis(parts: SplitResult) -> None:
    host = parts.netloc.rpartition("@")[2]
    if host:  # without one, redis-py means localhost
        _host(host)
    if not re.fullmatch(r"(/[0-9]{0,5})?", parts.path):
        raise ValueError(f"after the host comes only / and the number of a database; {_ENCODE}")


def _check_unix(parts: SplitResult) -> None:
    if parts.netloc.rpartition("@")[2] or len(parts.path) < 2:
        raise ValueError("the path of the socket is not absolute: unix:///run/redis.sock")


def _check_sentinel(parts: SplitResult) -> None:
    for host in parts.netloc.rpartition("@")[2].split(","):
        _host(host)
    if not re.fullmatch(r"/[^/]+(/[0-9]{0,5})?", parts.path):
        raise ValueError(
            "after the sentinels comes the name of the master, and perhaps / and the number of a "
            "database: redis+sentinel://host:26379,host2:26379/mymaster/0"
        )


_CHECKS = {
    "memory": _check_memory,
    "redis": _check_redis,
    "rediss": _check_redis,
    "unix": _check_unix,
    "redis+sentinel": _check_sentinel,
    "rediss+sentinel": _check_sentinel,
}
