"""Who is asking: guest token, token header, token cookies, and the user the app knows.

The rules are tried in this order and the first that applies decides; see `Identifier.find`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
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
    chosen: str | None = field(default=None, repr=False)
    """The token that counts, when it came among several values of our cookie."""

    @property
    def for_app(self) -> str | None:
        """The only value of our cookie that the app may see; None: it may see what came."""
        return self.chosen if self.fresh is None else self.fresh.raw

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

    def may_replace_cookie(self, head: RequestHead, *, has_source: bool) -> bool:
        """Whether the app may have to be handed another Cookie header than the one that came.

        An app that reads the cookie itself would otherwise serve another user's events.
        """
        came = head.headers.get("cookie")
        if came is None or has_source:
            return came is not None
        return sum(header.count(self._cookie_name) for header in came) > 1

    def _from_cookies(self, head: RequestHead, now: float, known: KnownUser) -> Finding:
        values = cookie_values(head.headers.get("cookie", ()), self._cookie_name)
        verdicts = {value: self._codec.verify(value, now) for value in values if value}
        valid = [(raw, v) for raw, v in verdicts.items() if isinstance(v, Claims)]
        user = known()
        if not valid:
            if user is not None and self._repairs:
                return self._of_user(user, None, now)
            refused = [v for v in verdicts.values() if isinstance(v, Refusal)]
            return Finding("cookie", refusal=refused[0] if refused else self._missing)
        chosen = valid[0] if len(valid) == 1 else _choose(valid, user)
        if chosen is None:
            return Finding("cookie", refusal=Refusal.of("token_ambiguous"))
        raw, claims = chosen
        if user is None or user == claims.subject:
            only = raw if len(set(values)) > 1 else None
            return Finding("cookie", _identity(claims), claims=claims, chosen=only)
        if self._repairs:
            return self._of_user(user, claims, now)
        return Finding("cookie", refusal=Refusal.of("token_user_mismatch"), claims=claims)

    def _of_user(self, user: str, claims: Claims | None, now: float) -> Finding:
        """Return the known user on their derived channel, with a token to replace the cookie."""
        fresh = self._codec.issue(self._codec.user_channel(user), user, now)
        identity = UserIdentity(fresh.channel, user)
        return Finding("source", identity, claims=claims, fresh=fresh)


def _choose(valid: list[tuple[str, Claims]], user: str | None) -> tuple[str, Claims] | None:
    """Return the token that counts among several valid ones; None if they contradict.

    Those of the known user count; those without `sub` yield to those with one; of one `sub` the
    latest login counts.
    """
    named = [pair for pair in valid if pair[1].subject is not None] or valid
    if len({claims.subject for _, claims in named}) > 1:
        if user is None:
            return None
        named = [pair for pair in named if pair[1].subject == user] or named
    return max(named, key=_login_time)


def _login_time(pair: tuple[str, Claims]) -> float:
    return -math.inf if pair[1].auth_time is None else pair[1].auth_time


def _identity(claims: Claims) -> Identity:
    if claims.subject is None:
        return AnonymousIdentity(claims.channel)
    return UserIdentity(claims.channel, claims.subject)
