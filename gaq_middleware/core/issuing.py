"""What happens to the cookie as a response leaves: issued, renewed, repaired, deleted, or nothing.

A decision is a `Set-Cookie` line or None; faces add the line with `with_cookie`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gaq_middleware.core.cookies import MAX_COOKIE_BYTES, CookieWriter, sets_cookie
from gaq_middleware.core.identify import Finding, KnownUser
from gaq_middleware.core.messages import Headers, RequestHead
from gaq_middleware.core.origins import is_https
from gaq_middleware.core.settings import Settings
from gaq_middleware.core.tokens import Claims, IssuedToken, TokenCodec

MAX_AGE_OF_REQUEST = 2.0
"""Seconds after which an answer may no longer bring a cookie that nobody asked for: another tab
may have logged out meanwhile."""
_PAGE = re.compile(
    r"\s*(text/html|application/xhtml\+xml|application/([\w.-]+\+)?json)\b", re.IGNORECASE
)
_STATIC = re.compile(
    r"\s*(image/|font/|audio/|video/|text/css|(text|application)/(\w+-)?javascript"
    r"|application/(wasm|octet-stream|pdf|zip)|text/event-stream|application/x-ndjson|multipart/)",
    re.IGNORECASE,
)
# Headers by which caches are told more than Cache-Control says (RFC 9213 and its forerunners).
_TARGETED = re.compile(
    r"(.*-)?cdn-cache-control|surrogate-control|edge-control|x-accel-expires|cache-control"
)


@dataclass(frozen=True, slots=True)
class Departure:
    """A response about to leave, and what matters of its request."""

    head: RequestHead
    finding: Finding
    wish: IssuedToken | Literal["logout"] | None
    """What the handler asked for by `login()` or `logout()`."""
    is_login: bool
    is_logout: bool
    is_protected: bool
    has_source: bool
    known: KnownUser
    status: int
    values: Callable[[str], list[str]]
    """The values of a header of the response, by lower-case name."""
    age: float
    """Seconds since the request came in."""
    signs_in: bool = False
    """Whether the response itself sets a session with a user."""
    signs_out: bool = False
    """Whether the response itself ends the session of the user."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A `Set-Cookie` line, if any, and what the log should say about it, if anything."""

    line: str | None = None
    notice: Literal["login_without_user", "dropped_by_browser", "too_large"] | None = None


NOTHING = Decision()


class Issuer:
    """Decides about the cookie.

    Args:
        settings: The settings.
        codec: Signs the tokens.
        new_channel: Draws a random channel for an anonymous visitor.
    """

    def __init__(
        self, settings: Settings, codec: TokenCodec, new_channel: Callable[[], str]
    ) -> None:
        self._codec, self._new_channel = codec, new_channel
        self._writer = CookieWriter(settings)
        self._name = settings.cookie_name
        self._half_life = settings.jwt_expiration_seconds / 2
        self._off = settings.issue == "off"
        self._repairs = settings.issue in {"session", "anonymous"}
        self._anonymous = settings.issue == "anonymous"

    def login_token(self, user_id: str, claims: Claims | None, now: float) -> IssuedToken:
        """Return a token for a user who logs in; their channel is kept if the cookie was theirs."""
        kept = claims is not None and claims.subject == user_id
        channel = claims.channel if kept and claims else self._codec.user_channel(user_id)
        return self._codec.issue(channel, user_id, now)

    def is_settled(self, finding: Finding, now: float) -> bool:
        """Whether nothing can become of the cookie: nobody asks, and no user source is there."""
        if self._off or finding.via in {"guest", "header"}:
            return True
        return finding.claims is not None and self._is_young(finding.claims, now)

    def decide(self, departure: Departure, now: float) -> Decision:
        """Return what the response does to the cookie."""
        d = departure
        if self._off or d.status >= 400 or d.finding.via == "guest":
            return NOTHING
        if sets_cookie(d.values("set-cookie"), self._name):
            return NOTHING
        https = is_https(d.head)
        if d.wish == "logout" or (d.is_logout and d.wish is None):
            return Decision(self._writer.delete(https=https))
        if d.wish is not None:
            return self._line(d.wish, https=https)
        if d.signs_out:
            return NOTHING
        if d.is_login and (d.head.method == "POST" or (d.head.method == "GET" and d.signs_in)):
            user = d.known()
            if user is None:
                return Decision(notice="login_without_user")
            return self._line(self.login_token(user, d.finding.claims, now), https=https)
        token = self._unasked(d, now) if self._may_bring(d) else None
        return NOTHING if token is None else self._line(token, https=https)

    def first_anonymous(self, head: RequestHead, finding: Finding, now: float) -> Decision:
        """Return the first cookie that a 401 carries in mode `anonymous`."""
        if not self._anonymous or finding.via != "cookie" or finding.claims is not None:
            return NOTHING
        if finding.refusal is not None and finding.refusal.code == "token_ambiguous":
            return NOTHING
        token = self._codec.issue(self._new_channel(), None, now)
        return self._line(token, https=is_https(head))

    def _line(self, token: IssuedToken, *, https: bool) -> Decision:
        line = self._writer.write(token.raw, token.max_age, https=https)
        if len(line) > MAX_COOKIE_BYTES:
            return Decision(notice="too_large")
        dropped = self._writer.is_dropped(https=https)
        return Decision(line, "dropped_by_browser" if dropped else None)

    def _may_bring(self, d: Departure) -> bool:
        if d.age > MAX_AGE_OF_REQUEST or d.status in {204, 206, 304} or d.finding.via == "header":
            return False
        return not any(_STATIC.match(value) for value in d.values("content-type"))

    def _unasked(self, d: Departure, now: float) -> IssuedToken | None:
        """Return the token of a renewal, a repair or a first issue, None if there is no need."""
        claims, user = d.finding.claims, d.known()
        is_page = d.is_protected or any(_PAGE.match(value) for value in d.values("content-type"))
        if user is not None and (claims is None or claims.subject != user):
            if not (self._repairs and is_page):
                return None
            fresh = d.finding.fresh
            if fresh is not None and fresh.subject == user:
                return fresh
            return self._codec.issue(self._codec.user_channel(user), user, now)
        if claims is not None:
            source_agrees = not d.has_source or user == claims.subject
            return self._renewed(claims, now) if source_agrees else None
        if self._anonymous and is_page and d.finding.identity is None and not _ambiguous(d.finding):
            return self._codec.issue(self._new_channel(), None, now)
        return None

    def _renewed(self, claims: Claims, now: float) -> IssuedToken | None:
        if self._is_young(claims, now):
            return None
        token = self._codec.issue(claims.channel, claims.subject, now, claims.auth_time)
        if token.max_age <= 0:  # its maximum age is over; a renewal never deletes
            return None
        is_later = token.expires_at > claims.window.expires_at
        return token if claims.needs_reissue or is_later else None

    def _is_young(self, claims: Claims, now: float) -> bool:
        """Whether a token is in the first half of its life, and as we would write it."""
        return not claims.needs_reissue and claims.window.expires_at - now >= self._half_life


def _ambiguous(finding: Finding) -> bool:
    return finding.refusal is not None and finding.refusal.code == "token_ambiguous"


def with_cookie(headers: Headers, line: str) -> Headers:
    """Return response headers with our cookie last, private to this client in every cache.

    The app's own `Set-Cookie` lines stay, in order; what told caches to keep the answer goes.
    """
    kept = [(k, v) for k, v in headers if not _TARGETED.fullmatch(k.lower())]
    return [*vary_on_cookie(kept), ("Cache-Control", "private, no-store"), ("Set-Cookie", line)]


def vary_on_cookie(headers: Headers) -> Headers:
    """Return headers whose `Vary` names Cookie; several lines become one."""
    listed = [v for k, v in headers if k.lower() == "vary"]
    fields = [field.strip() for value in listed for field in value.split(",") if field.strip()]
    if "*" not in fields and "cookie" not in (field.lower() for field in fields):
        fields.append("Cookie")
    return [*((k, v) for k, v in headers if k.lower() != "vary"), ("Vary", ", ".join(fields))]
