"""What is known of one request so far; the app sees it as its context, the faces as an exchange."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
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

    def __init__(self, engine: Engine, received: RequestHead) -> None:
        self.engine, self._received = engine, received
        self.head = engine.public(received)
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
        """Return the user that the user sources name; asked once before the head leaves."""
        if not self._has_asked:
            self._user = self.engine.ask_user(self.source, self._received, self.started)
            self._has_asked = True
        return self._user

    def forget_user(self) -> None:
        """Have the user sources asked again."""
        self._user, self._has_asked = None, False

    def user_at_head(self) -> str | None:
        """Return that user as the head leaves; asked again if nobody was named before."""
        if self._user is None:
            self._has_asked = False
        return self.user()

    def forgetter(self) -> Callable[[], None]:
        """Return a function that forgets the errors recorded so far: a call has succeeded since."""
        so_far = list(self.recorded)

        def forget() -> None:
            self.recorded = deque(
                (kept for kept in self.recorded if not any(kept is old for old in so_far)),
                maxlen=MAX_RECORDED,
            )

        return forget

    def close(self) -> None:
        """End the request: what outlives it keeps identity and jobs, nothing else."""
        if self.engine.has_source and self.may_raise:
            self.find()  # while the source can still be asked
        self.is_closed = self.is_head_out = self._has_asked = True
        self.source = None
        self.recorded.clear()
