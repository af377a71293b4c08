"""The table of settings: every variable, its kind, its default and what it means.

The parser, the README and the tests read this one table. `Settings.from_env` is the only place
of the core that looks at the environment and at files.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from gaq_middleware.core import kinds, superset
from gaq_middleware.core.conflicts import contradictions, doubts
from gaq_middleware.core.errors import SettingsError
from gaq_middleware.core.proxies import Network

PREFIX = "GAQ_"


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
        "origins besides the request's own that may cancel and read our answers (CORS)",
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
                values[row.name] = _value(row, environ)
            except ValueError as error:
                problems.append(str(error))
        if not problems:
            values["cookie_domain"] = values["cookie_domain"] or None
            problems += contradictions(values)
        if problems:
            raise SettingsError([*problems, *_unknown(environ)])
        return cls(**values, warnings=(*_unknown(environ), *doubts(values)))

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


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table."""

    name: str
    kind: kinds.Kind
    default: str | None
    text: str
    required: bool

    @property
    def variable(self) -> str:
        """The environment variable."""
        return PREFIX + self.name.upper()

    @property
    def is_secret(self) -> bool:
        """Whether the value must never be shown, and may come from `<variable>_FILE`."""
        return self.kind in kinds.FIRM_SECRETS


def table() -> list[Row]:
    """Return the rows, in the order of the README."""
    return [Row(item.name, **item.metadata) for item in fields(Settings) if item.metadata]


def _value(row: Row, environ: Mapping[str, str]) -> Any:
    text = _text(row, environ)
    if text is None and row.required:
        raise ValueError(
            f"{row.variable} is not set. It must be {row.kind.words}: "
            f"`gaq secret` prints a good one; every process of the app needs the same."
        )
    text = row.default if text is None else text
    if text is None:
        return None
    if text == "" and row.kind.when_empty is not None:
        return row.kind.when_empty
    try:
        if text == "":
            raise ValueError("it is set but empty; unset it or give it a value")
        return row.kind.parse(text)
    except ValueError as why:
        shown = "" if row.kind in kinds.HIDDEN else f" (got {ascii(text)[:80]})"
        raise ValueError(f"{row.variable} must be {row.kind.words}: {why}{shown}.") from None


def _text(row: Row, environ: Mapping[str, str]) -> str | None:
    text, file = environ.get(row.variable), f"{row.variable}_FILE"
    if not row.is_secret or file not in environ:
        return text
    if text is not None:
        raise ValueError(f"{row.variable} and {file} are both set; keep one of them.")
    try:
        with open(environ[file], encoding="utf-8", errors="surrogateescape", newline="") as stream:
            return re.sub(r"\r?\n\Z", "", stream.read(65_536), count=1)
    except OSError as error:
        raise ValueError(
            f"{file} must name a readable file with the secret: {error.strerror}."
        ) from None


def _unknown(environ: Mapping[str, str]) -> Iterator[str]:
    known = {row.variable for row in table()}
    known |= {f"{row.variable}_FILE" for row in table() if row.is_secret}
    for name in sorted(set(environ) - known):
        if name.startswith(PREFIX):
            rest = [variable.removeprefix(PREFIX) for variable in known]
            (near,) = difflib.get_close_matches(name.removeprefix(PREFIX), rest, n=1, cutoff=0.0)
            yield (
                f"{ascii(name)[1:-1]} is not a setting and is ignored; did you mean {PREFIX}{near}?"
            )
