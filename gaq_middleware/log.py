"""What operators read: the start-up line, refusals (rate-limited, no values), one-time warnings.

Logger `gaq_middleware`. Nothing here decides anything.
"""

from __future__ import annotations

import logging
import threading
import time

from gaq_middleware.core.cookies import cookie_names
from gaq_middleware.core.errors import Refusal
from gaq_middleware.core.messages import RequestHead
from gaq_middleware.core.settings import Settings
from gaq_middleware.core.store_urls import shown_store_url
from gaq_middleware.core.tokens import key_id

logger = logging.getLogger("gaq_middleware")

SECONDS_PER_LINE = 10.0
"""At most one line per code in this time; the next line tells how many were left out."""
_EXPECTED = {"token_missing", "token_expired", "guest_expired"}
NOTICES = {
    "login_without_user": (
        logging.WARNING,
        "A login path answered below 400, but nobody told who logged in, so no cookie was issued. "
        "Call gaq_middleware.current().login(user_id) in the handler, or pass user_from.",
    ),
    "dropped_by_browser": (
        logging.WARNING,
        "The cookie is Secure and the request came by plain http: browsers will drop it. Use https "
        "or GAQ_COOKIE_SECURE=auto.",
    ),
    "too_large": (
        logging.ERROR,
        "The cookie would be larger than 4096 bytes, which browsers drop; it was not sent. The "
        "user id or the channel is too long.",
    ),
    "user_from_failed": (
        logging.WARNING,
        "user_from raised, so the user counts as unknown. Its further failures are not logged.",
    ),
    "user_from_odd": (
        logging.WARNING,
        "user_from returned what cannot be a user id (text, a whole number or a UUID); the user "
        "counts as unknown.",
    ),
    "hyphen_under_wsgi": (
        logging.WARNING,
        "GAQ_REMOTE_USER_HEADER has a hyphen, and under WSGI a client's header with _ in its place "
        "looks the same to us. Let the proxy delete both spellings, or choose a name without one.",
    ),
    "remote_user_under_asgi": (
        logging.WARNING,
        "GAQ_REMOTE_USER_HEADER=REMOTE_USER is a variable of WSGI servers; under ASGI nobody is "
        "named by it. Let a trusted proxy set a header.",
    ),
    "rewritten_peer": (
        logging.WARNING,
        "GAQ_REMOTE_USER_HEADER came, but the server has put a forwarded address in the place of "
        "the proxy's, so nobody is believed. Run uvicorn with --no-proxy-headers.",
    ),
    "multiprocess": (
        logging.WARNING,
        "GAQ_STORE_URL is memory:// but the server runs several processes: jobs submitted in one "
        "are unknown in the others. Run one process with threads, or set GAQ_STORE_URL to a Redis.",
    ),
}


class Log:
    """The log of one middleware."""

    def __init__(self, settings: Settings) -> None:
        self._keys = [key_id(secret) for secret in settings.secrets]
        self._lock = threading.Lock()
        self._told: set[str] = set()
        self._next_line: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def started(self, settings: Settings) -> None:
        """Say how the middleware will behave, and what in the settings is doubtful."""
        secure = {True: "Secure", False: "not Secure", None: "Secure on https"}
        logger.info(
            "gaq_middleware: issue=%s cookie=%s (%s, SameSite=%s, Path=%s%s) token=%ds max=%ds "
            "guests=%s store=%s key=%s",
            settings.issue,
            settings.cookie_name,
            secure[settings.cookie_secure],
            settings.cookie_samesite,
            settings.cookie_path,
            f", Domain={settings.cookie_domain}" if settings.cookie_domain else "",
            settings.jwt_expiration_seconds,
            settings.jwt_max_age_seconds,
            "on" if settings.guest_secret else "off",
            shown_store_url(settings.store_url),
            self._keys[0],
        )
        for doubt in settings.warnings:
            logger.warning("%s", doubt)

    def once(self, notice: str, *, exc_info: bool = False) -> None:
        """Give a notice of the table, the first time only."""
        with self._lock:
            if notice in self._told:
                return
            self._told.add(notice)
        level, text = NOTICES[notice]
        logger.log(level, text, exc_info=exc_info)

    def distrusted(self, name: str, head: RequestHead) -> None:
        """Say, once per header, that a forwarded header came from a peer that is not trusted."""
        with self._lock:
            if name in self._told:
                return
            self._told.add(name)
        logger.warning(
            "%s came from %s, which is not in GAQ_TRUSTED_PROXIES: it is not believed, but for the "
            "cookie's Secure. If that is your proxy, add its address, and what it overwrites to "
            "GAQ_TRUSTED_HEADERS.",
            name,
            _shown(head.peer),
        )

    def refused(self, head: RequestHead, refusal: Refusal) -> None:
        """Say that a request was refused, unless its code had a line a moment ago."""
        more = self._may_tell(refusal.code)
        if more is None:
            return
        logger.log(
            logging.INFO if refusal.code in _EXPECTED else logging.WARNING,
            "refused %d %s: %s %s from %s, cookies seen=[%s], own keys=%s%s",
            refusal.status,
            refusal.code,
            ascii(head.method)[1:-1][:20],
            ascii(head.path)[:200],
            _shown(head.peer),
            ", ".join(f'"{name}"' for name in cookie_names(head.headers.get("cookie", ()))),
            ",".join(self._keys),
            f" ({more} more were not logged)" if more else "",
        )

    def replaced(self, head: RequestHead, refusal: Refusal) -> None:
        """Say that the app's 500 was answered with an error of ours instead."""
        more = self._may_tell(f"replaced {refusal.code}")
        if more is None:
            return
        logger.warning(
            "the app answered %s %s with 500 after %s was raised in it; answered %d instead%s",
            ascii(head.method)[1:-1][:20],
            ascii(head.path)[:200],
            refusal.code,
            refusal.status,
            f" ({more} more were not logged)" if more else "",
        )

    def _may_tell(self, code: str) -> int | None:
        """Return how many lines of a code were left out before this one; None: leave it out."""
        now = time.monotonic()
        with self._lock:
            if now < self._next_line.get(code, 0.0):
                self._left_out[code] = self._left_out.get(code, 0) + 1
                return None
            self._next_line[code] = now + SECONDS_PER_LINE
            return self._left_out.pop(code, 0)


def _shown(peer: str | None) -> str:
    """Return a peer as one short word; a server may take it from a client's header."""
    return ascii(peer)[1:-1][:64] if peer else "a Unix socket"
