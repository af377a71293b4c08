"""The table of settings: every variable, its kind, its default and what it means.

The parser, the README and the tests read this one table. How a row is read out of the environment
is said in `variables`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from gaq_middleware.core import kinds, superset
from gaq_middleware.core.conflicts import contradictions, doubts
from gaq_middleware.core.errors import SettingsError
from gaq_middleware.core.proxies import Network
from gaq_middleware.core.variables import Row, read, unknown


def _setting(kind: kinds.Kind, default: str | None, text: str, *, required: bool = False) -> Any:
    """Declare a row: `default` is what an unset variable means, as text (None: nothing)."""
    row = {"kind": kind, "default": default, "text": text, "required": required}
    return field(metadata=row, repr=kind not in kinds.HIDDEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of one middleware. Build it with `Settings.from_env()`.

    Each field is the variable `GAQ_<FIELD>`; secrets are bytes and stay out of the repr.
    """

    jwt_secret: bytes = _setting(kinds.SECRET, None, "signs tokens", required=True)
    jwt_verify_secrets: tuple[bytes, ...] = _setting(
        kinds.SECRETS, "", "verify only: old secrets, or the next one during a rolling change"
    )
    channel_secret: bytes | None = _setting(
        kinds.SECRET, None, "derives channels; the JWT secret if unset. Pin it while rotating"
    )
    jwt_expiration_seconds: int = _setting(
        kinds.integer(60, 34_560_000, " of seconds"), "3600", "life of a token"
    )
    jwt_max_age_seconds: int = _setting(
        kinds.integer(60, 34_560_000, " of seconds"), "43200", "renewal ends this long after login"
    )
    jwt_leeway_seconds: int = _setting(
        kinds.integer(0, 300, " of seconds"), "10", "clock skew allowed on exp, nbf and iat"
    )
    jwt_require_exp: bool = _setting(
        kinds.BOOLEAN, "true", "false: accept cookies that never expire, as Superset 6.1 sets them"
    )
    cookie_name: str = _setting(kinds.COOKIE_NAME, "async-token", "name of the token cookie")
    cookie_domain: str | None = _setting(kinds.DOMAIN, "", "none: this host only")
    cookie_path: str = _setting(kinds.PATH, "/", "path of the cookie")
    cookie_samesite: str = _setting(
        kinds.choice("Lax", "Strict", "None"), "Lax", "when browsers send the cookie cross-site"
    )
    cookie_secure: bool | None = _setting(
        kinds.AUTO, "auto", "auto: Secure when the request is https"
    )
    cookie_partitioned: bool = _setting(
        kinds.BOOLEAN, "false", "true: one cookie per embedding site (CHIPS)"
    )
    token_header: str = _setting(
        kinds.HEADER, "X-Async-Token", "the same token for scripts without a cookie jar"
    )
    issue: str = _setting(
        kinds.choice("session", "login", "anonymous", "off"),
        "session",
        "when the cookie is issued: on logins and to known users; on logins only; also to "
        "visitors nobody knows; never",
    )
    login_paths: tuple[str, ...] = _setting(
        kinds.PATHS, "/login,/api/v1/security/login", "a successful POST there is a login"
    )
    logout_paths: tuple[str, ...] = _setting(
        kinds.PATHS, "/logout", "an answer below 400 there deletes the cookie"
    )
    session_format: str = _setting(
        kinds.SESSION_FORMAT, "", "the app's signed session cookie tells its user, in this form"
    )
    session_cookie: str = _setting(kinds.COOKIE_NAME, "session", "name of that session cookie")
    session_secret: bytes | None = _setting(
        kinds.SESSION_SECRET, None, "required with a format: the secret that signs sessions"
    )
    session_previous_secrets: tuple[bytes, ...] = _setting(
        kinds.SESSION_SECRETS, "", "older secrets that sessions may be signed with"
    )
    session_user_key: str = _setting(
        kinds.TEXT, "_user_id", "where the session has the user id (flask-login's by default)"
    )
    session_max_age: int = _setting(
        kinds.integer(1, 34_560_000, " of seconds"), "2678400", "a session is trusted that long"
    )
    remote_user_header: str = _setting(
        kinds.USER_HEADER,
        "",
        "header in which a trusted proxy names the user; REMOTE_USER: the server variable",
    )
    guest_secret: bytes | None = _setting(
        kinds.SECRET, None, "verifies guest tokens; unset: no guests"
    )
    guest_verify_secrets: tuple[bytes, ...] = _setting(
        kinds.SECRETS, "", "further secrets that verify guest tokens"
    )
    guest_header: str = _setting(kinds.HEADER, "X-GuestToken", "header of the guest token")
    guest_audience: str | None = _setting(
        kinds.TEXT, None, "required with guests: the `aud` of guest tokens; `*`: any"
    )
    guest_algorithm: str = _setting(
        kinds.choice("HS256", "HS384", "HS512"), "HS256", "the one algorithm of guest tokens"
    )
    guest_channel_claims: tuple[str, ...] = _setting(
        kinds.CLAIMS,
        "user,resources,rls_rules,datasets,rev,iat,exp,aud",
        "claims that make up a guest's channel",
    )
    guest_query: bool = _setting(
        kinds.BOOLEAN,
        "false",
        "true: the event stream takes a guest token as `?guest_token=`, which access logs keep",
    )
    protected_paths: tuple[str, ...] = _setting(
        kinds.PATHS,
        "/api/v1/async_event,/api/v1/chart/data,/api/v1/chart/*/data,/superset/explore_json",
        "requests there need an identity; whole segments, `*` is one segment, at any offset",
    )
    path_anchored: bool = _setting(
        kinds.BOOLEAN, "false", "true: protected paths count only at the start of a path"
    )
    open_paths: tuple[str, ...] = _setting(kinds.PATHS, "", "exact paths exempt from protection")
    events_path: str = _setting(
        kinds.EVENTS_PATH,
        "/api/v1/async_event",
        "where the endpoints below live; empty: none are served",
    )
    trusted_proxies: tuple[Network | str, ...] = _setting(
        kinds.PEERS, "", "peers whose forwarded headers are believed"
    )
    trusted_headers: tuple[str, ...] = _setting(
        kinds.FORWARDED_HEADERS,
        "x-forwarded-for,x-forwarded-proto",
        "forwarded headers that those peers overwrite; `forwarded` stands alone",
    )
    allowed_origins: tuple[str, ...] = _setting(
        kinds.ORIGINS,
        "",
        "origins besides the request's own that may cancel, open streams, read our answers (CORS)",
    )
    store_url: str = _setting(kinds.STORE_URL, "memory://", "where jobs live")
    stream_prefix: str = _setting(kinds.STREAM_PREFIX, "async-events-", "prefix of stream names")
    stream_limit: int = _setting(kinds.integer(1, 1_000_000), "1000", "events kept per channel")
    stream_limit_firehose: int = _setting(
        kinds.integer(1, 100_000_000), "1000000", "Redis: events kept on the stream of all channels"
    )
    job_ttl_seconds: int = _setting(
        kinds.integer(1, 31_536_000, " of seconds"),
        "3600",
        "a job that shows no sign of life this long ends with one `error` event",
    )
    celery_app: str = _setting(
        kinds.ATTRIBUTE, "", "the Celery app whose tasks a cancel revokes, as `module:attribute`"
    )
    max_streams: int = _setting(
        kinds.integer(0, 1_000_000), "10000", "ASGI: streams, sockets and waiting polls at one time"
    )
    max_streams_per_channel: int = _setting(
        kinds.integer(1, 1_000_000), "20", "the same per user; guests count only in all"
    )
    wsgi_max_waiters: int = _setting(
        kinds.integer(0, 10_000),
        "0",
        "WSGI: streams and polls that may each hold a thread; above it they end at once",
    )
    warnings: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read all settings.

        Args:
            environ: The variables; those of the process if not given.

        Raises:
            SettingsError: With every problem found, not only the first.
        """
        environ = os.environ if environ is None else environ
        problems: list[str] = []
        values: dict[str, Any] = {}
        for row in table():
            try:
                values[row.name] = read(row, environ)
            except ValueError as error:
                problems.append(str(error))
        if not problems:
            values["cookie_domain"] = values["cookie_domain"] or None
            problems += contradictions(values)
        if problems:
            raise SettingsError([*problems, *unknown(table(), environ)])
        return cls(**values, warnings=(*unknown(table(), environ), *doubts(values)))

    @classmethod
    def from_superset(
        cls, config: Mapping[str, Any], environ: Mapping[str, str] | None = None
    ) -> Settings:
        """Read the settings of a Superset from its own configuration.

        Args:
            config: Superset's configuration, as `app.config` of its Flask app.
            environ: Variables that win over it; those of the process if not given.

        Raises:
            SettingsError: With every problem found, and the keys of Superset it comes from.
        """
        environ = os.environ if environ is None else environ
        found = superset.read(config, environ)
        try:
            settings = cls.from_env({**found.variables, **environ})
        except SettingsError as error:
            raise SettingsError(found.problems(error.problems)) from None
        if found.wrong:
            raise SettingsError(found.problems())
        return replace(settings, warnings=(*settings.warnings, *found.doubts))

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """The secrets that verify tokens; the first one signs."""
        return (self.jwt_secret, *self.jwt_verify_secrets)

    @property
    def guest_secrets(self) -> tuple[bytes, ...]:
        """The secrets that verify guest tokens; empty when there are no guests."""
        return (self.guest_secret, *self.guest_verify_secrets) if self.guest_secret else ()


def table() -> list[Row]:
    """Return the rows, in the order of the README."""
    return [Row(item.name, **item.metadata) for item in fields(Settings) if item.metadata]
