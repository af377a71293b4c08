"""The table of settings: every variable, its kind, its default and what it means.

The parser, the README and the tests read this one table. `Settings.from_env` is the only place
of the core that looks at the environment and at files.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from gaq_middleware.core import kinds
from gaq_middleware.core.errors import SettingsError

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
        kinds.BOOLEAN,
        "true",
        "false: accept cookies that never expire, as Superset 6.1 issues them",
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
    allowed_origins: tuple[str, ...] = _setting(
        kinds.ORIGINS,
        "",
        "origins besides the request's own that may cancel and read our answers (CORS)",
    )
    store_url: str = _setting(kinds.STORE_URL, "memory://", "where jobs live")
    stream_prefix: str = _setting(kinds.STREAM_PREFIX, "async-events-", "prefix of stream names")
    stream_limit: int = _setting(kinds.integer(1, 1_000_000), "1000", "events kept per channel")
    job_ttl_seconds: int = _setting(
        kinds.integer(1, 31_536_000, " of seconds"),
        "3600",
        "a job that shows no sign of life this long ends with one `error` event",
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
            problems += _contradictions(values)
        if problems:
            raise SettingsError(problems)
        return cls(**values, warnings=tuple(_doubts(values, environ)))

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
        return self.kind in (kinds.SECRET, kinds.SECRETS)


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


def _contradictions(v: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong between settings that are each right."""
    name, secure = v["cookie_name"], v["cookie_secure"]
    is_host = name.lower().startswith("__host-")  # in any case: RFC 6265bis section 5.7
    needs_secure = {
        "GAQ_COOKIE_NAME starting with __Host-": is_host,
        "GAQ_COOKIE_NAME starting with __Secure-": name.lower().startswith("__secure-"),
        "GAQ_COOKIE_SAMESITE=None": v["cookie_samesite"] == "None",
        "GAQ_COOKIE_PARTITIONED=true": v["cookie_partitioned"],
    }
    for cause, applies in needs_secure.items():
        if applies and secure is False:
            yield (
                f"{cause} needs a Secure cookie, or browsers drop it: unset GAQ_COOKIE_SECURE or "
                "set it to true."
            )
    if is_host and (v["cookie_domain"] or v["cookie_path"] != "/"):
        yield (
            "GAQ_COOKIE_NAME starting with __Host- allows no GAQ_COOKIE_DOMAIN and no "
            "GAQ_COOKIE_PATH but /: unset them."
        )
    if v["token_header"].lower() == v["guest_header"].lower():
        yield "GAQ_TOKEN_HEADER and GAQ_GUEST_HEADER must differ: rename one of them."
    if v["guest_secret"] is None and v["guest_verify_secrets"]:
        yield "GAQ_GUEST_VERIFY_SECRETS is set without GAQ_GUEST_SECRET: set that, or unset this."
    if v["guest_secret"] is not None:
        yield from _guest_contradictions(v)


def _guest_contradictions(v: Mapping[str, Any]) -> Iterator[str]:
    if v["guest_audience"] is None:
        yield (
            "GAQ_GUEST_AUDIENCE is not set. With GAQ_GUEST_SECRET it must be the `aud` text of "
            "your guest tokens (Superset: GUEST_TOKEN_JWT_AUDIENCE), or * to check none."
        )
    guests = {v["guest_secret"], *v["guest_verify_secrets"]}
    if guests & {v["jwt_secret"], *v["jwt_verify_secrets"]}:
        yield (
            "GAQ_GUEST_SECRET equals a token secret: whoever mints guests could then mint users. "
            "Use two secrets."
        )
    least = int(v["guest_algorithm"][2:]) // 8
    if min(map(len, guests)) < least:
        yield (
            f"GAQ_GUEST_ALGORITHM={v['guest_algorithm']} needs guest secrets of at least {least} "
            "bytes (RFC 7518 section 3.2): `gaq secret` prints a good one."
        )


def _doubts(v: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[str]:
    """Yield what works but is probably not meant; logged at start-up."""
    known = {row.variable for row in table()}
    known |= {f"{row.variable}_FILE" for row in table() if row.is_secret}
    for name in sorted(set(environ) - known):
        if name.startswith(PREFIX):
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
            yield f"{ascii(name)[1:-1]} is not a setting and is ignored; did you mean {near}?"
    if v["issue"] == "off":
        yield "GAQ_ISSUE=off: the cookie is only verified here; another part must issue it."
    claims = set(v["guest_channel_claims"])
    if v["guest_secret"] is not None:
        if "rls_rules" not in claims:
            yield (
                "GAQ_GUEST_CHANNEL_CLAIMS without rls_rules: guests with different row-level "
                "rules can share a channel."
            )
        if not {"iat", "exp"} <= claims and not {"jti", "sid", "sub"} & claims:
            yield (
                "GAQ_GUEST_CHANNEL_CLAIMS without iat and exp: guests with equal claims share a "
                "channel; add jti, sid or sub."
            )
