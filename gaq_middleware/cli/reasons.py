"""Why a token is refused and how to mend it, in words. The verdict itself is the core's.

What a token says of itself is read here without believing it, only to tell people about it.
"""

from __future__ import annotations

import base64
import hmac
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gaq_middleware.cli.words import duration, shown
from gaq_middleware.core.errors import Refusal
from gaq_middleware.core.guests import MAX_GUEST_TOKEN_BYTES, GuestVerifier
from gaq_middleware.core.settings import Settings
from gaq_middleware.core.tokens import MAX_TOKEN_BYTES, TokenCodec, is_channel, is_user_id, key_id


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it came, and the header and claims it says; empty where they cannot be read."""

    raw: str
    header: dict[str, Any]
    claims: dict[str, Any]

    @classmethod
    def read(cls, raw: str) -> Token:
        """Read a token without believing it."""
        header, claims, *_ = [*raw[: 2 * MAX_GUEST_TOKEN_BYTES].split("."), ""]
        return cls(raw, _object(header), _object(claims))

    @property
    def is_guest(self) -> bool:
        """Whether it looks like the token of a guest."""
        claims = self.claims
        return claims.get("type") == "guest" or {"resources", "rls_rules"} <= claims.keys()

    def signed_with(self, secret: bytes, algorithm: str) -> Token:
        """Return it as if a secret had signed it, to judge all but its signature."""
        signed = self.raw.rpartition(".")[0]
        digest = hmac.digest(secret, signed.encode(errors="replace"), f"sha{algorithm[2:]}")
        signature = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        return replace(self, raw=f"{signed}.{signature}")


class Judge:
    """Judges tokens of one kind, users' or guests', as the middleware does.

    Args:
        settings: The settings.
        guests: Whether it is guest tokens that are judged.
    """

    def __init__(self, settings: Settings, *, guests: bool) -> None:
        self._settings, self._guests = settings, guests
        self.secrets = settings.guest_secrets if guests else settings.secrets
        self.algorithm = settings.guest_algorithm if guests else "HS256"
        self.variable = "GAQ_GUEST_SECRET" if guests else "GAQ_JWT_SECRET"
        self._key_ids = [key_id(secret) for secret in self.secrets]
        self._max_bytes = MAX_GUEST_TOKEN_BYTES if guests else MAX_TOKEN_BYTES
        self._anew = "Fetch a new one." if guests else "Log in again."
        self._verifier = GuestVerifier(settings) if guests else TokenCodec(settings)

    def refusal(self, token: Token, now: float) -> Refusal | None:
        """Return why a token is refused now, None if it is valid."""
        found = self._verifier.verify(token.raw, now)
        return found if isinstance(found, Refusal) else None

    def explain(self, token: Token, refusal: Refusal, now: float) -> list[str]:
        """Return what is wrong with a refused token and how to mend it, one text per finding."""
        reason = refusal.code.partition("_")[2]
        if reason == "malformed":
            return [self._malformed(token)]
        if reason == "expired":
            ago = duration(now - float(token.claims["exp"]))
            leeway = duration(self._settings.jwt_leeway_seconds)
            return [f"It expired {ago} ago; {leeway} of clock skew are allowed. {self._anew}"]
        if reason == "claims":
            return list(self._claims(token.claims, now)) or [refusal.detail]
        besides = self.refusal(token.signed_with(self.secrets[0], self.algorithm), now)
        more = self.explain(token, besides, now) if besides else []
        return [self._signature(token), *(f"Besides: {text}" for text in more)]

    def praise(self, token: Token, now: float) -> str:
        """Return how long a valid token is good, for whom, and where it goes."""
        exp = token.claims.get("exp")
        until = "for ever" if exp is None else f"for {duration(exp - now)} more"
        user, names = token.claims.get("sub"), self._settings
        who, where = f"the user {shown(user, 80)}", f"the cookie {names.cookie_name} or the header"
        if self._guests:
            who, where = "a guest", "the header"
        elif user is None:
            who = "a visitor without a user id"
        header = names.guest_header if self._guests else names.token_header
        return f"It is good {until}, for {who}, in {where} {header}."

    def key_words(self, kid: object) -> str:
        """Return whose key a key id names."""
        if kid not in self._key_ids:
            return f"none of ours: {', '.join(self._key_ids)}"
        return "our current secret" if kid == self._key_ids[0] else "our verify-only secret"

    def _malformed(self, token: Token) -> str:
        algorithm = token.header.get("alg")
        if len(token.raw) > self._max_bytes:
            return (
                f"It is too long: {len(token.raw)} bytes, and at most {self._max_bytes} are read. "
                "Let the issuer put less into its claims."
            )
        if token.header and algorithm != self.algorithm:
            return (
                f"Its algorithm is {shown(algorithm, 40)}; only {self.algorithm} is accepted, "
                f"whatever a token says. Let the issuer sign with {self.algorithm}"
                + (", or set GAQ_GUEST_ALGORITHM to its own." if self._guests else ".")
            )
        if token.header and token.claims:
            return (
                "Its header and claims can be read, but the whole is no JWT: something was cut off "
                "or added. Copy the whole value of the cookie or header again."
            )
        return (
            "It is not a JWT: three base64url parts with dots between them, the first two JSON "
            "objects, are expected. Copy the whole value of the cookie or header, without its name."
        )

    def _signature(self, token: Token) -> str:
        kid = token.header.get("kid")
        if kid in self._key_ids:
            return (
                "Its key id is one of ours but its signature does not fit: it was changed or cut "
                f"off after it was signed. Copy the whole of it. {self._anew}"
            )
        which = "has no key id" if kid is None else f"names the key {shown(kid, 40)}"
        verify_only = self.variable.replace("SECRET", "VERIFY_SECRETS")
        return (
            f"It was signed with another key than ours ({', '.join(self._key_ids)}); it {which}. "
            f"{self._anew} If that does not help, its issuer has another {self.variable} than "
            f"this environment: give both the same, or list the issuer's in {verify_only}."
        )

    def _claims(self, claims: dict[str, Any], now: float) -> Iterator[str]:
        times = {name: claims[name] for name in ("exp", "nbf", "iat") if name in claims}
        for name, value in times.items():
            if not _is_time(value):
                yield f"Its {name} is {shown(value, 40)}, not a time in epoch seconds."
        if "exp" not in claims:
            yield "It has no exp, so it would be valid for ever." + (
                ""
                if self._guests
                else " GAQ_JWT_REQUIRE_EXP=false accepts such cookies, which Superset 6.1 issues."
            )
        starts = [times[name] for name in ("nbf", "iat") if _is_time(times.get(name))]
        if starts and max(starts) > now + self._settings.jwt_leeway_seconds:
            yield (
                f"It is valid only in {duration(max(starts) - now)}: the clock of its issuer is "
                "ahead of the one here. Set the clocks right."
            )
        yield from self._guest_claims(claims) if self._guests else _user_claims(claims)

    def _guest_claims(self, claims: dict[str, Any]) -> Iterator[str]:
        wanted, named = self._settings.guest_audience, claims.get("aud")
        if wanted != "*" and wanted not in (named if isinstance(named, list) else [named]):
            yield (
                f"Its audience (aud) is {shown(named, 80)}, but GAQ_GUEST_AUDIENCE is "
                f"{shown(wanted, 80)}. Let both be the same, or set GAQ_GUEST_AUDIENCE=*."
            )
        if claims.get("type") != "guest":
            yield f'Its type is {shown(claims.get("type"), 40)}, not "guest".'
        for name, shape in {"user": dict, "resources": list, "rls_rules": list}.items():
            if not isinstance(claims.get(name), shape):
                kind = "an object" if shape is dict else "a list"
                yield f"Its {name} is {shown(claims.get(name), 40)}, not {kind}."


def _user_claims(claims: dict[str, Any]) -> Iterator[str]:
    channel, subject = claims.get("channel"), claims.get("sub")
    if not is_channel(channel):
        yield (
            f"Its channel is {shown(channel, 80)}. A channel is text of 1 to 255 printable "
            "characters without spaces, not a reserved name such as full or guest-..."
        )
    if subject is not None and type(subject) is not int and not is_user_id(subject):
        yield f"Its user (sub) is {shown(subject, 80)}, not text without control characters."
    if "aud" in claims:
        yield "It names an audience (aud), so it is meant for something else."


def _is_time(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max  # type: ignore[arg-type]


def _object(part: str) -> dict[str, Any]:
    """Return the JSON object in a part of a token, {} if there is none."""
    try:
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
