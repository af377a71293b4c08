"""User sources that a request itself carries: a session cookie, a trusted proxy's header."""

from __future__ import annotations

from gaq_middleware.core.messages import RequestHead
from gaq_middleware.core.proxies import ProxyTrust
from gaq_middleware.core.sessions import SessionReader
from gaq_middleware.core.settings import Settings


class HeadSources:
    """Reads the users that requests name, by one set of settings."""

    def __init__(self, settings: Settings, trust: ProxyTrust) -> None:
        self._trust = trust
        self._header = settings.remote_user_header.lower()
        self.sessions = SessionReader(settings) if settings.session_format else None
        self.exist = bool(self._header or self.sessions)

    def user(self, head: RequestHead, now: float) -> object:
        """Return whom the request names, None for nobody.

        Args:
            head: The request as it came, before proxies were believed.
            now: Epoch seconds.
        """
        named = self._named_by_proxy(head)
        if named is None and self.sessions is not None:
            return self.sessions.user(head.headers.get("cookie", ()), now)
        return named

    def _named_by_proxy(self, head: RequestHead) -> str | None:
        if self._header == "remote_user":
            value = head.remote_user
        elif not self._header or not self._trust.trusts(head):
            return None
        else:
            value = head.one(self._header)  # a client's own line beside the proxy's: nobody
        return None if value is None or "," in value else value

    def is_named_by_rewritten_peer(self, head: RequestHead) -> bool:
        """Whether the proxy's header came, but the server has hidden who sent it."""
        return head.peer_is_rewritten and self._header in head.headers
