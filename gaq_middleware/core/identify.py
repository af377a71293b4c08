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
from gaq_middleware.core.tokens import Claims, IssuedToken, Remembered, TokenCodec

GUEST_OFFER = "gaq.guest."
"""What stands before a guest token that is offered as a subprotocol of a socket."""
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
    expires_at: float = math.inf
    """When the proof ends, epoch seconds; a stream that it opened ends with it."""

    @property
    def for_app(self) -> str | None:
        """The only value of our cookie that the app may see; None: it may see what came."""
        return self.chosen if self.fresh is None else self.fresh.raw

    @property
    def is_ambient(self) -> bool:
        """Whether a browser sends the proof by itself, so a foreign page could make it do so."""
        return self.via in {"cookie", "source"}


class Identifier:
    """Finds the identity behind a request head.

    Args:
        settings: The settings.
        codec: Verifies and signs the tokens.
        is_stream: Tells where a guest token may also stand in the subprotocols, or in the query.
    """

    def __init__(
        self,
        settings: Settings,
        codec: TokenCodec,
        is_stream: Callable[[RequestHead], bool] = lambda _: False,
    ) -> None:
        self._is_stream, self._takes_query = is_stream, settings.guest_query
        self._codec = codec
        self._guests = GuestVerifier(settings) if settings.guest_secret else None
        self._guest_header = settings.guest_header.lower()
        self._token_header = settings.token_header.lower()
        self._cookie_name = settings.cookie_name
        self._leeway = settings.jwt_leeway_seconds
        self._remembered: Remembered[Finding] = Remembered()  # by whole Cookie headers
        self._repairs = settings.issue in {"session", "anonymous"}
        self._missing = Refusal.of(
            "token_missing",
            f"No async token came with the request: neither the cookie {settings.cookie_name} nor "
            f"the header {settings.token_header}. Logging in sets the cookie; scripts without a "
            "cookie jar send its value in the header. Authorization is not read.",
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
        raw = self._guest_token(head)
        if raw is not None and self._guests is not None:
            guest = self._guests.verify(raw, now)
            if isinstance(guest, Refusal):
                return Finding("guest", refusal=guest)
            return Finding("guest", guest, expires_at=float(guest.verified_claims["exp"]))
        header = head.headers.get(self._token_header)
        if header is not None:
            claims = self._codec.verify(header[0] if len(header) == 1 else "", now)
            if isinstance(claims, Refusal):
                if header[0].lower().startswith("bearer "):
                    claims = Refusal.of(claims.code, "Send the token alone, without 'Bearer'.")
                return Finding("header", refusal=claims)
            return Finding("header", _identity(claims), expires_at=claims.window.expires_at)
        return self._from_cookies(head, now, known)

    def _guest_token(self, head: RequestHead) -> str | None:
        """Return the guest token of a request, "" if several came, None if none did."""
        if self._guests is None:
            return None
        found = head.headers.get(self._guest_header)
        if found is None and head.is_websocket and self._is_stream(head):
            # Browsers can set no header there. A foreign page can make offers, so they count for
            # our own socket alone: at the app's it would be spared the proof of its origin.
            offers = ",".join(head.headers.get("sec-websocket-protocol", ())).split(",")
            named = [offer.strip() for offer in offers]
            found = [o.removeprefix(GUEST_OFFER) for o in named if o.startswith(GUEST_OFFER)]
        elif found is None and self._takes_query and self._is_stream(head):
            found = head.parameters("guest_token")
        return (found[0] if len(found) == 1 else "") if found else None

    def may_replace_cookie(self, head: RequestHead, *, has_source: bool) -> bool:
        """Whether the app may have to be handed another Cookie header than the one that came.

        An app that reads the cookie itself would otherwise serve another user's events.
        """
        came = head.headers.get("cookie")
        if came is None or has_source:
            return came is not None
        return sum(header.count(self._cookie_name) for header in came) > 1

    def _from_cookies(self, head: RequestHead, now: float, known: KnownUser) -> Finding:
        headers, user = head.headers.get("cookie", ()), known()
        whole = headers[0] if len(headers) == 1 else ""
        remembered = self._remembered.get(whole)
        if remembered is not None and self._still_holds(remembered, user, now):
            return remembered
        values = cookie_values(headers, self._cookie_name)
        verdicts = {value: self._codec.verify(value, now) for value in values if value}
        valid = [(raw, v) for raw, v in verdicts.items() if isinstance(v, Claims)]
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
            is_alone = len(set(values)) == 1
            finding = Finding(
                "cookie",
                _identity(claims),
                claims=claims,
                chosen=None if is_alone else raw,
                expires_at=claims.window.expires_at,
            )
            if is_alone and whole:
                self._remembered.put(whole, finding)
            return finding
        if self._repairs:
            return self._of_user(user, claims, now)
        return Finding("cookie", refusal=Refusal.of("token_user_mismatch"), claims=claims)

    def _still_holds(self, finding: Finding, user: str | None, now: float) -> bool:
        """Whether what a whole Cookie header was found to say is so now, and for this user."""
        claims = finding.claims
        if claims is None or (user is not None and user != claims.subject):
            return False
        return claims.window.refusal_at(now, self._leeway) is None

    def _of_user(self, user: str, claims: Claims | None, now: float) -> Finding:
        """Return the known user on their derived channel, with a token to replace the cookie."""
        fresh = self._codec.issue(self._codec.user_channel(user), user, now)
        identity = UserIdentity(fresh.channel, user)
        expires = float(fresh.expires_at)
        return Finding("source", identity, claims=claims, fresh=fresh, expires_at=expires)


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
