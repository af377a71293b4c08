"""Who is asking: guest token, token header, token cookies, and the user the app knows.

The rules are tried in this order and the first that applies decides; see `Identifier.find`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gaq_middleware.core.cookies import cookie_values
from gaq_middleware.core.errors import Refusal
from gaq_middleware.core.guests import GuestVerifier
from gaq_middleware.core.identities import AnonymousIdentity, Identity, UserIdentity
from gaq_middleware.core.messages import RequestHead
from gaq_middleware.core.settings import Settings
from gaq_middleware.core.tokens import Claims, IssuedToken, TokenCodec

KnownUser = Callable[[], str | None]
"""Tells the user that a user source names; None when it names nobody or there is none."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Who is asking, or why nobody is believed."""

    via: Literal["guest", "header", "cookie", "source"]
    """What decided: a browser sends cookies and what user sources read by itself."""
    identity: Identity | None = None
    refusal: Refusal | None = None
    """Set when `identity` is None."""
    claims: Claims | None = None
    """The valid token cookie that counts, also when the identity is not its own."""
    fresh: IssuedToken | None = None
    """A token signed for this request, because the identity is not the cookie's."""

    @property
    def is_ambient(self) -> bool:
        """Whether a browser sends the proof by itself, so a foreign page could make it do so."""
        return self.via in {"cookie", "source"}


class Identifier:
    """Finds the identity behind a request head."""

    def __init__(self, settings: Settings, codec: TokenCodec) -> None:
        self._codec = codec
        self._guests = GuestVerifier(settings) if settings.guest_secret else None
        self._guest_header = settings.guest_header.lower()
        self._token_header = settings.token_header.lower()
        self._cookie_name = settings.cookie_name
        self._repairs = settings.issue in {"session", "anonymous"}
        self._missing = Refusal.of(
            "token_missing",
            f"No async token came with the request: neither the cookie {settings.cookie_name} nor "
            f"the header {settings.token_header}. Logging in sets the cookie; scripts without a "
            "cookie jar send its value in the header.",
        )

    def find(self, head: RequestHead, now: float, known: KnownUser) -> Finding:
        """Return who is asking.

        1. A guest token decides, and no cookie is looked at. 2. A token header decides.
        3. The token cookies, against the known user. 4. Without a valid one the known user.

        Args:
            head: The request.
            now: Epoch seconds.
            known: Asked only when a rule needs it.
        """
        guest = head.headers.get(self._guest_header) if self._guests else None
        if guest is not None and self._guests is not None:
            raw = guest[0] if len(guest) == 1 else ""
            found = self._guests.verify(raw, now)
            if isinstance(found, Refusal):
                return Finding("guest", refusal=found)
            return Finding("guest", found)
        header = head.headers.get(self._token_header)
        if header is not None:
            claims = self._codec.verify(header[0] if len(header) == 1 else "", now)
            if isinstance(claims, Refusal):
                return Finding("header", refusal=claims)
            return Finding("header", _identity(claims))
        return self._from_cookies(head, now, known)

    def _from_cookies(self, head: RequestHead, now: float, known: KnownUser) -> Finding:
        values = cookie_values(head.headers.get("cookie", ()), self._cookie_name)
        verdicts = [self._codec.verify(value, now) for value in values if value]
        valid = [verdict for verdict in verdicts if isinstance(verdict, Claims)]
        user = known()
        if not valid:
            if user is not None and self._repairs:
                return self._of_user(user, None, now)
            refused = [verdict for verdict in verdicts if isinstance(verdict, Refusal)]
            return Finding("cookie", refusal=refused[0] if refused else self._missing)
        claims = valid[0] if len(valid) == 1 else _choose(valid, user)
        if claims is None:
            return Finding("cookie", refusal=Refusal.of("token_ambiguous"))
        if user is None or user == claims.subject:
            return Finding("cookie", _identity(claims), claims=claims)
        if self._repairs:
            return self._of_user(user, claims, now)
        return Finding("cookie", refusal=Refusal.of("token_user_mismatch"), claims=claims)

    def _of_user(self, user: str, claims: Claims | None, now: float) -> Finding:
        """Return the known user on their derived channel, with a token to replace the cookie."""
        fresh = self._codec.issue(self._codec.user_channel(user), user, now)
        identity = UserIdentity(fresh.channel, user)
        return Finding("source", identity, claims=claims, fresh=fresh)


def _choose(valid: list[Claims], user: str | None) -> Claims | None:
    """Return the token that counts among several valid ones; None if they contradict.

    Those of the known user count; those without `sub` yield to those with one; of one `sub` the
    latest login counts.
    """
    with_subject = [claims for claims in valid if claims.subject is not None] or valid
    if len({claims.subject for claims in with_subject}) > 1:
        if user is None:
            return None
        with_subject = [c for c in with_subject if c.subject == user] or with_subject
    return max(with_subject, key=_login_time)


def _login_time(claims: Claims) -> float:
    return -math.inf if claims.auth_time is None else claims.auth_time


def _identity(claims: Claims) -> Identity:
    if claims.subject is None:
        return AnonymousIdentity(claims.channel)
    return UserIdentity(claims.channel, claims.subject)
