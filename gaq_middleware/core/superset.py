"""What Superset's own configuration says, as our variables.

Only what Superset itself reads is read, with the defaults that it has; every other key is ignored.
Whether a value is good is decided by the parser of `settings`, as for any other variable.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

PREFIX = "GLOBAL_ASYNC_QUERIES_"
BACKEND = f"{PREFIX}CACHE_BACKEND"
EXPIRATION = f"{PREFIX}JWT_EXPIRATION_SECONDS"
HANDLERS = f"{PREFIX}REGISTER_REQUEST_HANDLERS"
AUDIENCE = "GUEST_TOKEN_JWT_AUDIENCE"

_KEYS = {
    "GAQ_JWT_SECRET": f"{PREFIX}JWT_SECRET",
    "GAQ_JWT_EXPIRATION_SECONDS": EXPIRATION,
    "GAQ_COOKIE_NAME": f"{PREFIX}JWT_COOKIE_NAME",
    "GAQ_COOKIE_DOMAIN": f"{PREFIX}JWT_COOKIE_DOMAIN",
    "GAQ_COOKIE_SAMESITE": f"{PREFIX}JWT_COOKIE_SAMESITE",
    "GAQ_COOKIE_SECURE": f"{PREFIX}JWT_COOKIE_SECURE",
    "GAQ_STREAM_PREFIX": f"{PREFIX}REDIS_STREAM_PREFIX",
    "GAQ_STREAM_LIMIT": f"{PREFIX}REDIS_STREAM_LIMIT",
    "GAQ_STREAM_LIMIT_FIREHOSE": f"{PREFIX}REDIS_STREAM_LIMIT_FIREHOSE",
}
_GUEST_KEYS = {
    "GAQ_GUEST_SECRET": "GUEST_TOKEN_JWT_SECRET",
    "GAQ_GUEST_ALGORITHM": "GUEST_TOKEN_JWT_ALGO",
    "GAQ_GUEST_HEADER": "GUEST_TOKEN_HEADER_NAME",
}
_NAMES = {
    **_KEYS,
    **_GUEST_KEYS,
    "GAQ_GUEST_AUDIENCE": AUDIENCE,
    "GAQ_SESSION_SECRET": "SECRET_KEY",
    "GAQ_SESSION_COOKIE": "SESSION_COOKIE_NAME",
    "GAQ_STORE_URL": BACKEND,
    "GAQ_JOB_TTL_SECONDS": EXPIRATION,
    "GAQ_JWT_MAX_AGE_SECONDS": EXPIRATION,
}
_DEFAULTS = {"GUEST_TOKEN_JWT_SECRET": "test-guest-secret-change-me"}  # refused, as it should be
_NO_LIMIT = {"GAQ_STREAM_LIMIT": "1000000", "GAQ_STREAM_LIMIT_FIREHOSE": "100000000"}
_CHANNEL_CLAIMS = "user,resources,datasets,rev,iat,exp,aud"
_MAX_AGE = 43_200  # seconds; our default, unless a token lives longer


@dataclass(slots=True)
class Found:
    """What was found.

    Attributes:
        given: The names of variables that are given elsewhere; they win.
        variables: Ours, as text.
        wrong: What no text can be made of, by the variable that it would have been, and why.
        doubts: What works but is probably not meant.
    """

    given: Collection[str]
    variables: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)

    def put(self, variable: str, value: object) -> None:
        """Keep a value, or what it gives when called, unless given elsewhere; None is none."""
        if {variable, f"{variable}_FILE"} & set(self.given):
            return
        try:
            value = value() if callable(value) else value
        except ValueError as why:
            self.wrong[variable] = str(why)
            return
        except Exception as error:  # noqa: BLE001 - the operator's function may raise anything
            self.wrong[variable] = f"calling it raised {error!r}"
            return
        if isinstance(value, str | int | float):
            self.variables[variable] = str(value).lower() if isinstance(value, bool) else str(value)
        elif value is not None:
            self.wrong[variable] = f"it is of the type {type(value).__name__}, not text"

    def problems(self, others: Iterable[str] = ()) -> list[str]:
        """Return what is wrong, with the keys of Superset that it comes from.

        Args:
            others: What is wrong with the variables.
        """
        known = tuple(f"{name} is not set" for name in self.wrong)
        wrong = [f"Superset's {_NAMES[name]} is wrong: {why}." for name, why in self.wrong.items()]
        return [*wrong, *(self._named(text) for text in others if not text.startswith(known))]

    def _named(self, problem: str) -> str:
        names = dict.fromkeys(re.findall(r"GAQ_[A-Z_]*[A-Z]", problem))
        keys = [_NAMES[name] for name in names if name in _NAMES and name not in self.given]
        return f"{problem} (Superset: {', '.join(keys)})" if keys else problem


def read(config: Mapping[str, Any], given: Collection[str]) -> Found:
    """Return what Superset's configuration says.

    Args:
        config: Superset's configuration.
        given: The names of variables that are given elsewhere.
    """
    found = Found(given)
    flags = _flags(config)
    for variable, key in _KEYS.items():
        has_no_limit = variable in _NO_LIMIT and config.get(key, ...) is None
        found.put(variable, _NO_LIMIT[variable] if has_no_limit else config.get(key))
    seconds = config.get(EXPIRATION)
    if isinstance(seconds, int) and seconds > 0:
        found.put("GAQ_JOB_TTL_SECONDS", seconds)
        found.put("GAQ_JWT_MAX_AGE_SECONDS", max(seconds, _MAX_AGE))
    if config.get(HANDLERS, True):
        _read_issuer(found, is_old=seconds is None)
    if flags.get("EMBEDDED_SUPERSET"):
        _read_guests(config, found)
    if config.get("SECRET_KEY") is not None and not config.get("SESSION_SERVER_SIDE"):
        found.put("GAQ_SESSION_FORMAT", "flask")
        found.put("GAQ_SESSION_SECRET", config["SECRET_KEY"])
        found.put("GAQ_SESSION_COOKIE", config.get("SESSION_COOKIE_NAME"))
    found.put("GAQ_STORE_URL", lambda: _store_url(config.get(BACKEND) or {}))
    if not flags.get("GLOBAL_ASYNC_QUERIES"):
        found.doubts.append(
            "Superset's feature flag GLOBAL_ASYNC_QUERIES is off: no query is asynchronous, and "
            "charts need a token for nothing. Turn it on in FEATURE_FLAGS."
        )
    return found


def _flags(config: Mapping[str, Any]) -> dict[str, Any]:
    names = ("DEFAULT_FEATURE_FLAGS", "FEATURE_FLAGS")
    return {flag: value for name in names for flag, value in (config.get(name) or {}).items()}


def _read_issuer(found: Found, *, is_old: bool) -> None:
    """Superset issues the cookie; without a key for their life, as in 6.1, it never expires."""
    found.put("GAQ_ISSUE", "off")
    if is_old:
        found.put("GAQ_JWT_REQUIRE_EXP", False)
    found.doubts.append(
        f"Superset's {HANDLERS} is on: Superset issues the cookie, and here it is only verified. "
        "Set it to False, and it is issued, renewed and repaired here."
    )


def _read_guests(config: Mapping[str, Any], found: Found) -> None:
    for variable, key in _GUEST_KEYS.items():
        found.put(variable, config.get(key, _DEFAULTS.get(key)))
    found.put("GAQ_GUEST_CHANNEL_CLAIMS", _CHANNEL_CLAIMS)
    audience = config.get(AUDIENCE) or config.get("WEBDRIVER_BASEURL", "http://0.0.0.0:8080/")
    found.put("GAQ_GUEST_AUDIENCE", audience)


def _store_url(backend: Mapping[str, Any]) -> str:
    """Return the URL of the Redis that Superset talks to.

    Raises:
        ValueError: With the reason, when it is none that Superset can talk to.
    """
    kind = backend.get("CACHE_TYPE", "RedisCache") if isinstance(backend, Mapping) else None
    options = {}
    if kind == "RedisCache":
        scheme, user = "redis", backend.get("CACHE_REDIS_USER")
        host, port = backend.get("CACHE_REDIS_HOST"), backend.get("CACHE_REDIS_PORT")
        address = _address(host or "localhost", port or 6379)
        path = str(backend.get("CACHE_REDIS_DB") or 0)
    elif kind == "RedisSentinelCache":  # here Superset reads neither the user nor the database
        scheme, user = "redis+sentinel", None
        address = _sentinels(backend.get("CACHE_REDIS_SENTINELS") or [("127.0.0.1", 26379)])
        path = f"{_quoted(backend.get('CACHE_REDIS_SENTINEL_MASTER') or 'mymaster')}/0"
        if password := backend.get("CACHE_REDIS_SENTINEL_PASSWORD"):
            options["sentinel_password"] = password
    else:
        raise ValueError("its CACHE_TYPE is neither RedisCache nor RedisSentinelCache")
    if backend.get("CACHE_REDIS_SSL"):
        scheme = scheme.replace("redis", "rediss")
        options |= _tls_options(backend)
    login = ":".join(_quoted(text or "") for text in (user, backend.get("CACHE_REDIS_PASSWORD")))
    login = "" if login == ":" else f"{login}@"
    query = f"?{urlencode(options, safe='/', quote_via=quote)}" if options else ""
    return f"{scheme}://{login}{address}/{path}{query}"


def _quoted(text: object) -> str:
    return quote(str(text), safe="")


def _address(host: object, port: object) -> str:
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def _sentinels(pairs: Any) -> str:
    try:
        return ",".join(_address(host, port) for host, port in pairs)
    except (TypeError, ValueError):
        raise ValueError("its CACHE_REDIS_SENTINELS is no list of (host, port)") from None


def _tls_options(backend: Mapping[str, Any]) -> dict[str, str]:
    names = ("ssl_certfile", "ssl_keyfile", "ssl_ca_certs")
    files = {name: backend.get(f"CACHE_REDIS_{name.upper()}") for name in names}
    checks = backend.get("CACHE_REDIS_SSL_CERT_REQS", "required")
    return {
        **{name: str(file) for name, file in files.items() if file},
        "ssl_cert_reqs": "none" if checks is None else str(checks),
    }
