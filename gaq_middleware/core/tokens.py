"""Tokens: issue and verify the JWT of the cookie, and derive channels and key ids.

The one module that knows PyJWT. An HMAC check comes first, so nothing unsigned is ever parsed
beyond its header; then PyJWT decides. Times are judged on every call, never remembered.
"""

from __future__ import annotations

import base64
import hmac
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import jwt
from jwt.types import Options

from gaq_middleware.core.errors import Refusal
from gaq_middleware.core.settings import Settings

MAX_TOKEN_BYTES = 4096
_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")  # RFC 7515 section 7.1
_DIGESTS = {"HS256": "sha256", "HS384": "sha384", "HS512": "sha512"}
_RESERVED_CHANNEL = re.compile(r"full\Z|deadlines\Z|job-cancel:|job:|jobs:|guest-")
_TIME = "a time in epoch seconds"
T = TypeVar("T")


class TokenError(Exception):
    """A JWS is refused; `reason` is malformed, signature or claims."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def read_jws(
    raw: str, secrets: tuple[bytes, ...], algorithm: str, audience: str | None
) -> tuple[dict[str, Any], int]:
    """Return the claims of a signed token and which of the secrets signed it; times unjudged.

    Args:
        raw: The token as it came; its size is the caller's business.
        secrets: The keys to try, in order.
        algorithm: The one algorithm that is accepted, whatever the token says.
        audience: The required audience; None: the token must name none; "*": not checked.

    Raises:
        TokenError: The token is not such a JWS, signed with another key, or for others.
    """
    if not _COMPACT.fullmatch(raw):
        raise TokenError("malformed")
    signed, _, signature = raw.rpartition(".")
    for index, secret in enumerate(secrets):
        digest = hmac.digest(secret, signed.encode(), _DIGESTS[algorithm])
        expected = base64.urlsafe_b64encode(digest).rstrip(b"=")
        if hmac.compare_digest(expected, signature.encode()):
            return _decode(raw, secret, algorithm, audience), index
    raise TokenError("signature" if _algorithm(raw) == algorithm else "malformed")


def _decode(raw: str, secret: bytes, algorithm: str, audience: str | None) -> dict[str, Any]:
    any_audience = audience == "*"
    options: Options = {
        "verify_aud": not any_audience,
        "verify_exp": False,
        "verify_nbf": False,
        "verify_iat": False,
        "verify_sub": False,
        "verify_jti": False,
    }
    try:
        return jwt.decode(
            raw,
            secret,
            algorithms=[algorithm],  # never from the token: RFC 8725 section 3.1
            audience=None if any_audience else audience,
            options=options,
        )
    except (jwt.InvalidAudienceError, jwt.MissingRequiredClaimError):
        raise TokenError("claims") from None
    except Exception:  # noqa: BLE001 - whatever PyJWT raises, the token is refused
        raise TokenError("malformed") from None


def _algorithm(raw: str) -> object:
    try:
        return jwt.get_unverified_header(raw).get("alg")
    except Exception:  # noqa: BLE001 - as above
        return None


@dataclass(frozen=True, slots=True)
class Window:
    """When a token is valid, in epoch seconds."""

    not_before: float
    expires_at: float

    def refusal_at(self, now: float, leeway: int) -> str | None:
        """Return "expired" or "claims" when the token is not valid now, else None."""
        if self.expires_at <= now - leeway:
            return "expired"
        return "claims" if self.not_before > now + leeway else None


def read_window(claims: dict[str, Any], *, require_exp: bool) -> Window:
    """Return when a token is valid, from its exp, nbf and iat (RFC 7519 section 4.1).

    Raises:
        TokenError: exp is missing, or one of them is not a finite number.
    """
    if any(time_faults(claims, require_exp=require_exp)):
        raise TokenError("claims")
    not_before = max(claims.get("nbf", -math.inf), claims.get("iat", -math.inf))
    return Window(float(not_before), float(claims.get("exp", math.inf)))


def time_faults(claims: dict[str, Any], *, require_exp: bool) -> Iterator[tuple[str, str]]:
    """Yield the name of each of exp, nbf and iat that is not usable, and what it must be."""
    for name in ("exp", "nbf", "iat"):
        is_needed = name in claims or (name == "exp" and require_exp)
        if is_needed and not _is_time(claims.get(name)):
            yield name, _TIME


def user_faults(claims: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name of each other claim that is not usable, and what it must be."""
    channel, subject, auth_time = (claims.get(name) for name in ("channel", "sub", "auth_time"))
    if not is_channel(channel):
        yield "channel", "1 to 255 printable characters, no space, no reserved name like full"
    if not (subject is None or type(subject) is int or is_user_id(subject)):
        yield "sub", "text without control characters"
    if not (auth_time is None or _is_time(auth_time)):
        yield "auth_time", _TIME


def _is_time(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Claims:
    """A verified token."""

    channel: str
    subject: str | None
    window: Window
    auth_time: float | None
    needs_reissue: bool
    """Signed with a verify-only secret, or its `sub` is written the old way."""


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token just signed."""

    raw: str = field(repr=False)
    channel: str
    subject: str | None
    expires_at: int
    max_age: int


class Remembered(Generic[T]):
    """A bounded memory of verified tokens: two generations, each bounded in entries and bytes.

    The older generation is dropped whole; what is used moves to the younger one. Races between
    threads can only lose an entry, never mix two up.
    """

    def __init__(self, entries: int = 4096, size: int = 8 * 1024 * 1024, weight: int = 1) -> None:
        self._entries, self._size, self._weight = entries, size, weight
        self._young: dict[str, T] = {}
        self._old: dict[str, T] = {}
        self._bytes = 0

    def get(self, raw: str) -> T | None:
        """Return what was remembered for a token, None if nothing."""
        found = self._young.get(raw)
        if found is None:
            found = self._old.get(raw)
            if found is not None:
                self.put(raw, found)
        return found

    def put(self, raw: str, value: T) -> None:
        """Remember a verified token."""
        size = len(raw) * self._weight  # what it costs to remember, for each byte of the token
        if len(self._young) >= self._entries or self._bytes + size > self._size:
            self._old, self._young, self._bytes = self._young, {}, 0
        self._young[raw] = value
        self._bytes += size


class TokenCodec:
    """Verifies and issues the tokens of one set of settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._channel_secret = settings.channel_secret or settings.jwt_secret
        self._remembered: Remembered[Claims] = Remembered()
        self.key_ids = tuple(key_id(secret) for secret in settings.secrets)

    def verify(self, raw: str, now: float) -> Claims | Refusal:
        """Return the claims of a valid token, else why it is refused.

        Args:
            raw: The text of the cookie or header.
            now: Epoch seconds.
        """
        claims = self._remembered.get(raw)
        if claims is None:
            if len(raw) > MAX_TOKEN_BYTES:
                return Refusal.of("token_malformed")
            try:
                claims = self._read(raw)
            except TokenError as error:
                return Refusal.of(f"token_{error.reason}")
            self._remembered.put(raw, claims)
        reason = claims.window.refusal_at(now, self._settings.jwt_leeway_seconds)
        return claims if reason is None else Refusal.of(f"token_{reason}")

    def _read(self, raw: str) -> Claims:
        claims, key = read_jws(raw, self._settings.secrets, "HS256", None)
        window = read_window(claims, require_exp=self._settings.jwt_require_exp)
        if any(user_faults(claims)):
            raise TokenError("claims")
        subject, logged_in = claims.get("sub"), claims.get("auth_time", claims.get("iat"))
        old_style = "sub" in claims and not isinstance(subject, str)
        return Claims(
            channel=claims["channel"],
            subject=None if subject is None else str(subject),
            window=window,
            auth_time=None if logged_in is None else float(logged_in),
            needs_reissue=key > 0 or old_style,
        )

    def issue(
        self, channel: str, subject: str | None, now: float, auth_time: float | None = None
    ) -> IssuedToken:
        """Sign a token that lives as the settings say, never past the maximum age.

        Args:
            channel: The channel it opens.
            subject: The user id as text; None for anonymous visitors.
            now: Epoch seconds.
            auth_time: When the user logged in, epoch seconds; now if not known.
        """
        auth_time = now if auth_time is None else auth_time
        expires = min(
            int(now) + self._settings.jwt_expiration_seconds,
            int(auth_time) + self._settings.jwt_max_age_seconds,
        )
        claims: dict[str, Any] = {"channel": channel, "exp": expires, "auth_time": int(auth_time)}
        if subject is not None:
            claims["sub"] = subject
        raw = jwt.encode(
            claims, self._settings.jwt_secret, algorithm="HS256", headers={"kid": self.key_ids[0]}
        )
        return IssuedToken(raw, channel, subject, expires, expires - int(now))

    def user_channel(self, user_id: str) -> str:
        """Return the channel of a user: the same in every process, browser and session."""
        purpose = b"\0".join(
            (b"gaq:user:v1", self._settings.stream_prefix.encode(), user_id.encode())
        )
        return "user-" + hmac.digest(self._channel_secret, purpose, "sha256").hex()


def is_channel(value: object) -> bool:
    """Whether a value may be the channel of a token: no reserved key name, no guest's."""
    return (
        isinstance(value, str)
        and 1 <= len(value) <= 255
        and value.isprintable()
        and " " not in value
        and not _RESERVED_CHANNEL.match(value)
    )


def is_user_id(value: object) -> bool:
    """Whether a value may be a user id: text without control characters or lone surrogates."""
    return (
        isinstance(value, str)
        and value != ""
        and not re.search("[\x00-\x1f\x7f-\x9f\ud800-\udfff]", value)
    )


def key_id(secret: bytes) -> str:
    """Return the public fingerprint of a secret: 8 hex digits, not reversible."""
    return hmac.digest(secret, b"gaq:kid:v1", "sha256").hex()[:8]
