"""Why a token is refused and how to mend it, in words. The verdict itself is the core's.

What a token says of itself is read here without believing it, only to tell people about it.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import Any

from gaq_middleware.cli.words import duration, shown
from gaq_middleware.core.errors import Refusal
from gaq_middleware.core.guests import MAX_GUEST_TOKEN_BYTES, GuestVerifier, guest_faults
from gaq_middleware.core.settings import Settings
from gaq_middleware.core.tokens import (
    MAX_TOKEN_BYTES,
    TokenCodec,
    TokenError,
    key_id,
    read_window,
    time_faults,
    user_faults,
)


class Token:
    """A token, and the header and claims that it says of itself, empty where none can be read.

    Args:
        raw: The token as it came.
    """

    def __init__(self, raw: str) -> None:
        header, claims, *_ = [*raw[: 2 * MAX_GUEST_TOKEN_BYTES].split("."), ""]
        self.raw, self.header, self.claims = raw, _object(header), _object(claims)
        self.is_guest = {"resources", "rls_rules"} <= self.claims.keys()
        self.is_guest |= self.claims.get("type") == "guest"


def _object(part: str) -> dict[str, Any]:
    """Return the JSON object in a part of a token, {} if there is none."""
    try:
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _is_signed_for_guests(token: Token, settings: Settings, now: float) -> bool:
    """Whether one of our guest secrets signed a token, whatever it says of itself."""
    found = GuestVerifier(settings).verify(token.raw, now) if settings.guest_secrets else None
    codes = {"guest_malformed", "guest_signature"}
    return found is not None and not (isinstance(found, Refusal) and found.code in codes)


class Judge:
    """Judges a token as the middleware does.

    Args:
        token: The token.
        settings: The settings.
        now: Epoch seconds.
    """

    def __init__(self, token: Token, settings: Settings, now: float) -> None:
        token.is_guest = guests = token.is_guest or _is_signed_for_guests(token, settings, now)
        self._token, self._settings, self._now = token, settings, now
        self.variable = "GAQ_GUEST_SECRET" if guests else "GAQ_JWT_SECRET"
        self._secrets = settings.guest_secrets if guests else settings.secrets
        self._algorithm = settings.guest_algorithm if guests else "HS256"
        self._key_ids = [key_id(secret) for secret in self._secrets]
        self._anew = "Fetch a new one." if guests else "Log in again."
        self._verifier = GuestVerifier(settings) if guests else TokenCodec(settings)

    def refusal(self, *, any_signature: bool = False) -> Refusal | None:
        """Return why the token is refused, as if we had signed it if wanted; None if it is not."""
        raw = self._token.raw
        if any_signature:
            signed, digest = raw.rpartition(".")[0], f"sha{self._algorithm[2:]}"
            signature = hmac.digest(self._secrets[0], signed.encode(errors="replace"), digest)
            raw = f"{signed}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"
        found = self._verifier.verify(raw, self._now)
        return found if isinstance(found, Refusal) else None

    def explain(self, refusal: Refusal) -> list[str]:
        """Return what is wrong with the token and how to mend it, one text per finding."""
        reason = refusal.code.partition("_")[2]
        if reason == "malformed":
            return [self._malformed()]
        if reason == "expired":
            ago = duration(self._now - self._token.claims["exp"])
            leeway = duration(self._settings.jwt_leeway_seconds)
            return [f"It expired {ago} ago; {leeway} of clock skew are allowed. {self._anew}"]
        if reason == "claims":
            return [*self._claims()] or [refusal.detail]
        besides = self.refusal(any_signature=True)
        more = self.explain(besides) if besides else []
        return [self._signature(), *(f"Besides: {text}" for text in more)]

    def praise(self) -> str:
        """Return how long the token is good, for whom, and where it goes."""
        exp, user = self._token.claims.get("exp"), self._token.claims.get("sub")
        until = "for ever" if exp is None else f"for {duration(exp - self._now)} more"
        names = self._settings
        if self._token.is_guest:
            return f"It is good {until}, for a guest, in the header {names.guest_header}."
        who = "a visitor without a user id" if user is None else f"the user {shown(user, 80)}"
        where = f"the cookie {names.cookie_name} or the header {names.token_header}"
        return f"It is good {until}, for {who}, in {where}."

    def key_words(self, kid: object) -> str:
        """Return whose key a key id names."""
        if kid not in self._key_ids:
            return f"none of ours: {', '.join(self._key_ids)}"
        return "our current secret" if kid == self._key_ids[0] else "our verify-only secret"

    def _malformed(self) -> str:
        token, size, algorithm = self._token, len(self._token.raw), self._token.header.get("alg")
        most = MAX_GUEST_TOKEN_BYTES if token.is_guest else MAX_TOKEN_BYTES
        if size > most:
            return f"It is too long: {size} bytes, and at most {most} are read. Put less into it."
        if token.header and algorithm != self._algorithm:
            other = ", or set GAQ_GUEST_ALGORITHM" if token.is_guest else ""
            only = f"only {self._algorithm} is accepted. Let the issuer sign with that{other}."
            return f"Its algorithm is {shown(algorithm, 40)}; {only}"
        what = "It is not a JWT: three base64url parts with dots between them."
        if token.header and token.claims:
            what = "Its header and claims can be read, but something was cut off or added."
        return f"{what} Copy the whole value of the cookie or header, without its name."

    def _signature(self) -> str:
        kid = self._token.header.get("kid")
        if kid in self._key_ids:
            return (
                "Its key id is one of ours but its signature does not fit: it was changed or cut "
                f"off after it was signed. Copy the whole of it. {self._anew}"
            )
        which = "has no key id" if kid is None else f"names the key {shown(kid, 40)}"
        return (
            f"It was signed with another key than ours ({', '.join(self._key_ids)}); it {which}. "
            f"{self._anew} If that does not help, its issuer has another {self.variable} than this "
            "environment: give both the same, or list the issuer's in "
            f"{self.variable.replace('SECRET', 'VERIFY_SECRETS')}."
        )

    def _claims(self) -> Iterator[str]:
        """Yield what the core finds wrong with claims, beside what they are."""
        claims, is_guest = self._token.claims, self._token.is_guest
        times = time_faults(claims, require_exp=is_guest or self._settings.jwt_require_exp)
        for name, wanted in chain(times, guest_faults(claims) if is_guest else user_faults(claims)):
            if name == "exp" and name not in claims:
                hint = " GAQ_JWT_REQUIRE_EXP=false accepts such cookies; Superset 6.1 sets them."
                yield f"It has no exp, so it would be valid for ever.{'' if is_guest else hint}"
            else:
                label = "user (sub)" if name == "sub" else name
                yield f"Its {label} is {shown(claims.get(name), 80)}, not {wanted}."
        with suppress(TokenError):  # of times that are none, which is told above
            ahead = read_window(claims, require_exp=False).not_before - self._now
            if ahead > self._settings.jwt_leeway_seconds:
                clocks = "the clock of its issuer is ahead of the one here. Set the clocks right."
                yield f"It is valid only in {duration(ahead)}: {clocks}"
        audience, named = self._settings.guest_audience, claims.get("aud")
        if not is_guest:
            if named:
                yield "It names an audience (aud), so it is meant for something else."
        elif audience not in ("*", *(named if isinstance(named, list) else [named])):
            there = (
                f"but GAQ_GUEST_AUDIENCE is {shown(audience, 80)}. Make them equal, or set it to *."
            )
            yield f"Its audience (aud) is {shown(named, 80)}, {there}"
