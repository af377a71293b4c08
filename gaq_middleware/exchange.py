"""One request's way through, as both faces walk it: admit, serve, map errors, let the head leave.

The faces only translate; what must be the same under ASGI and WSGI is here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, aclosing, closing, contextmanager
from typing import Any

from gaq_middleware.context import RequestContext
from gaq_middleware.core.commands import EventPage
from gaq_middleware.core.cookies import replace_cookie
from gaq_middleware.core.errors import MARKER_HEADER, Refusal, RequestError
from gaq_middleware.core.frames import HELLO, stream_end, stream_part
from gaq_middleware.core.identities import GuestIdentity
from gaq_middleware.core.issuing import Departure, with_cookie
from gaq_middleware.core.messages import Endpoint, Reply, RequestHead
from gaq_middleware.engine import Engine, as_user_id
from gaq_middleware.registry import AsyncStream, Listening, Slots, Stream
from gaq_middleware.state import RequestState

_MARKER = MARKER_HEADER.lower()
ASGI_TURN_SECONDS, WSGI_TURN_SECONDS = 900.0, 60.0
"""How long a stream may last before the browser must come back for another turn, sooner where it
holds a thread: some servers do not always tell that a reader has left."""
_STREAMS = ("text/event-stream", "application/x-ndjson", "multipart/")


class Exchange:
    """A request and its response."""

    def __init__(self, engine: Engine, received: RequestHead) -> None:
        self._engine, self._state = engine, RequestState(engine, received)
        self.head = self._state.head
        self.context = RequestContext(self._state)
        self.is_protected = engine.guard.is_protected(self.head)

    def admit(self, source: Any) -> Reply | Endpoint | None:
        """Decide about the request; None lets the app have it.

        Args:
            source: The scope or environ that the app will be given.
        """
        state, engine = self._state, self._engine
        state.source = source
        if not self.is_protected:
            if engine.identifier.may_replace_cookie(self.head, has_source=engine.has_source):
                state.find()  # an app that reads the cookie itself needs it mended now
            return None
        outcome = engine.guard.check(self.head, state.find)
        if not isinstance(outcome, Refusal):
            if isinstance(outcome, Reply) and outcome.status == 405:
                engine.log.refused(self.head, Refusal.of("method_not_allowed"))
            return outcome
        engine.log.refused(self.head, outcome)
        return engine.guard.refuse(self.head, outcome, state.finding, state.started)

    @property
    def cookie_header(self) -> str | None:
        """The Cookie header to hand to the app instead of the request's; None: leave it."""
        finding = self._state.finding
        if finding is None or finding.for_app is None:
            return None
        name = self._engine.settings.cookie_name
        return replace_cookie(self.head.headers.get("cookie", ()), name, finding.for_app)

    def serve(self, endpoint: Endpoint) -> Reply:
        """Answer one of our endpoints by plain calls."""
        operation = getattr(self.context.jobs, endpoint.operation)
        try:
            awaited = self._awaited_in_thread(endpoint) if endpoint.wait else None
            return self._answer(endpoint, awaited or operation(endpoint.argument))
        except RequestError as error:
            return self.problem(error.refusal())

    async def aserve(self, endpoint: Endpoint) -> Reply:
        """Answer one of our endpoints by awaiting."""
        operation = getattr(self.context.ajobs, endpoint.operation)
        try:
            awaited = await self._awaited(endpoint) if endpoint.wait else None
            return self._answer(endpoint, awaited or await operation(endpoint.argument))
        except RequestError as error:
            return self.problem(error.refusal())

    async def _awaited(self, endpoint: Endpoint) -> EventPage | None:
        """Wait for events; None when there are none in time, or too many wait already."""
        with self._slot(self._engine.streams) as is_free:
            if is_free:
                stream = AsyncStream(self._engine.store, self._listening(endpoint))
                async with aclosing(stream.pages()) as pages:
                    async for page in pages:
                        if page.events:
                            return page
        return None

    def _awaited_in_thread(self, endpoint: Endpoint) -> EventPage | None:
        with self._slot(self._engine.waiters) as is_free:
            if is_free:
                stream = Stream(self._engine.store, self._listening(endpoint))
                with closing(stream.pages()) as pages:
                    return next((page for page in pages if page.events), None)
        return None

    @contextmanager
    def stream(self, endpoint: Endpoint) -> Iterator[AsyncStream]:
        """Open a stream for a task.

        Raises:
            AuthenticationError: The proof of identity ends now.
            BadRequestError: The cursor is none.
            StoreError: Too many streams are open.
        """
        with self._slot(self._engine.streams) as is_free:
            if not is_free:
                raise Refusal.of("too_many_streams").error()
            socket_turn = self._engine.settings.jwt_max_age_seconds
            turn = socket_turn if self.head.is_websocket else ASGI_TURN_SECONDS
            yield AsyncStream(self._engine.store, self._listening(endpoint, turn))

    def stream_parts(self, endpoint: Endpoint) -> Generator[bytes, None, None]:
        """Yield the parts of a stream from a thread; what there is now, if no thread may wait.

        Raises:
            RequestError: As `stream`, before the first part; later it becomes the last part.
        """
        with self._slot(self._engine.waiters) as may_wait:
            stream = Stream(self._engine.store, self._listening(endpoint, WSGI_TURN_SECONDS))
            with closing(stream.pages(may_wait=may_wait)) as pages:
                yield HELLO + stream_part(next(pages))
                ending = stream.ending if may_wait else None
                try:
                    yield from map(stream_part, pages)
                except RequestError as error:
                    ending = error.refusal()
                if ending is not None:
                    yield stream_end(self.ended(ending))

    def stream_head(self) -> Reply:
        """Return the head of an event stream."""
        return self._engine.guard.stream_head(self.head)

    def ended(self, refusal: Refusal) -> Refusal:
        """Log why a stream ended before its reader left."""
        self._engine.log.refused(self.head, refusal)
        return refusal

    def _slot(self, slots: Slots) -> AbstractContextManager[bool]:
        identity = self.context.identity
        is_guest = isinstance(identity, GuestIdentity)
        return slots.one(self.context.channel_id, is_guest=is_guest)

    def _listening(self, endpoint: Endpoint, turn: float = 0.0) -> Listening:
        """Return what to listen to, and how long: at most a turn, or the wait of a poll.

        No leeway counts: a stream ends with its token's `exp`.
        """
        engine, finding = self._engine, self._state.find()
        expired = Refusal.of("guest_expired" if finding.via == "guest" else "token_expired")
        left, most = finding.expires_at - engine.clock(), endpoint.wait or turn
        if left <= 0 and not endpoint.wait:
            raise expired.error()
        return Listening(
            channel_id=self.context.channel_id,
            after=endpoint.argument,
            seconds=min(left, most),
            clock=engine.clock,
            ending=expired if left <= most else None,
        )

    def _answer(self, endpoint: Endpoint, result: Any) -> Reply:
        if endpoint.operation == "read":
            events = ", ".join(event.text for event in result.events)
            gap = ', "gap": true' if result.gap else ""
            body = f'{{"result": [{events}]{gap}}}'
        elif endpoint.operation == "get":
            body = json.dumps({"result": result.as_dict()})
        else:
            body = json.dumps({"result": {"job_id": result.job_id, "status": result.status}})
        reply = self._engine.guard.answer(self.head, body.encode())
        line = None
        if not endpoint.wait:  # what ends late must not bring a cookie back
            line = self.depart(
                reply.status, lambda name: [v for k, v in reply.headers if k.lower() == name]
            )
        if line is None:
            return reply
        return Reply(reply.status, with_cookie(reply.headers, line), reply.body)

    def problem(self, refusal: Refusal, *, replaces_500: bool = False) -> Reply:
        """Return the reply that tells an error raised while the request was handled."""
        if replaces_500:
            self._engine.log.replaced(self.head, refusal)
        else:
            self._engine.log.refused(self.head, refusal)
        return self._engine.guard.refuse(self.head, refusal)

    def replacement(self, status: int, values: Callable[[str], list[str]]) -> Refusal | None:
        """Return the recorded error that answers instead of the app's response, if one does.

        A plain 500 is a framework's answer to an error it does not know; a response with our
        marker is its answer to one it took for its own.
        """
        recorded = self._state.recorded
        if not recorded:
            return None
        if status == 500:
            return recorded[-1]
        marked = values(_MARKER)
        return next(
            (r for r in reversed(recorded) if r.status == status and r.code in marked), None
        )

    @property
    def latest(self) -> Refusal | None:
        """The newest error recorded, None if there is none."""
        recorded = self._state.recorded
        return recorded[-1] if recorded else None

    def forget(self) -> None:
        """Forget the errors recorded: the app has dealt with them."""
        self._state.recorded.clear()

    def holds_head(self, values: Callable[[str], list[str]]) -> bool:
        """Whether the head waits for the body's first part, so that an error can replace it."""
        if not (self.is_protected or self._state.may_raise):
            return False
        return not any(v.strip().lower().startswith(_STREAMS) for v in values("content-type"))

    def depart(self, status: int, values: Callable[[str], list[str]]) -> str | None:
        """Return the `Set-Cookie` line of a response whose head leaves now, None if there is none.

        Args:
            status: The status of the response.
            values: Gives the values of a header of the response by its lower-case name.
        """
        state, engine, head = self._state, self._engine, self.head
        state.is_head_out = True
        is_login, is_logout = engine.guard.is_login(head), engine.guard.is_logout(head)
        if is_login:
            state.forget_user()  # whoever was logged in before, now somebody else may be
        now, sessions = engine.clock(), engine.sources.sessions
        is_asked = state.wish is not None or is_login or is_logout or engine.has_source
        if not is_asked and engine.issuer.is_settled(state.find(), now):
            return None
        session = sessions.new_session(values("set-cookie"), now) if sessions else None
        new_user = as_user_id(session.user) if session else None
        old_user = sessions.user(head.headers.get("cookie", ()), now) if sessions else None
        departure = Departure(
            head=head,
            finding=state.find(),
            wish=state.wish,
            is_login=is_login,
            is_logout=is_logout,
            is_protected=self.is_protected,
            has_source=engine.has_source,
            signs_in=new_user is not None,
            signs_out=session is not None and new_user is None and old_user is not None,
            known=state.user_at_head if new_user is None else lambda: new_user,
            status=status,
            values=values,
            age=now - state.started,
        )
        decision = engine.issuer.decide(departure, now)
        if decision.notice is not None:
            engine.log.once(decision.notice)
        return decision.line

    def close(self) -> None:
        """End the request."""
        self._state.close()
