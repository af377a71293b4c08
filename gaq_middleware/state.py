"""What is known of one request so far; the app sees it as its context, the faces as an exchange."""

from __future__ import annotations

from collections import deque
from typing import Any, Literal

from gaq_middleware.core.errors import Refusal
from gaq_middleware.core.identify import Finding
from gaq_middleware.core.messages import RequestHead
from gaq_middleware.core.tokens import IssuedToken
from gaq_middleware.engine import Engine

MAX_RECORDED = 8


class RequestState:
    """The state of one request. Not shared between requests; threads of one request may share it.

    Attributes:
        source: The scope or environ that the app was given, until the request ends.
        wish: What the handler asked for by login() or logout().
        recorded: The newest errors that were made while the request was handled.
        may_raise: Whether the app used a member of the context that raises.
        is_head_out: Whether the head of the response has left.
    """

    def __init__(self, engine: Engine, head: RequestHead) -> None:
        self.engine, self.head = engine, head
        self.started = engine.clock()
        self.source: Any = None
        self.wish: IssuedToken | Literal["logout"] | None = None
        self.recorded: deque[Refusal] = deque(maxlen=MAX_RECORDED)
        self.may_raise = self.is_head_out = self.is_closed = False
        self.finding: Finding | None = None
        self._user: str | None = None
        self._has_asked = False

    def find(self) -> Finding:
        """Return who is asking; decided once."""
        if self.finding is None:
            self.finding = self.engine.identifier.find(self.head, self.started, self.user)
        return self.finding

    def user(self) -> str | None:
        """Return the user that the user source names; it is asked once before the head leaves."""
        if not self._has_asked:
            self._has_asked = True
            self._user = self.engine.ask_user(self.source)
        return self._user

    def user_at_head(self) -> str | None:
        """Return that user as the head leaves; asked again if nobody was named before."""
        if self._user is None:
            self._has_asked = False
        return self.user()

    def close(self) -> None:
        """End the request: what outlives it keeps identity and jobs, nothing else."""
        if self.engine.has_source:
            self.find()  # while the source can still be asked
        self.is_closed = self.is_head_out = self._has_asked = True
        self.source = None
        self.recorded.clear()
