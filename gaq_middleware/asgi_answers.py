"""What the ASGI face answers without the app: replies, our endpoints, event streams and sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from contextlib import aclosing, suppress
from typing import Any, Protocol

from gaq_middleware.core.commands import EventPage
from gaq_middleware.core.errors import Refusal, RequestError
from gaq_middleware.core.frames import HELLO, socket_frames, stream_end, stream_part
from gaq_middleware.core.messages import Endpoint, Reply
from gaq_middleware.exchange import Exchange
from gaq_middleware.registry.colours import stop, to_the_end

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

SUBPROTOCOL = "gaq.events"
SLOW_SECONDS = 10.0
"""How long a reader may take to make room for a part before its stream is ended."""
_END_SECONDS = 1.0  # for the last words to such a reader
_PIECE = 65_536  # bytes sent at a time: what a slow reader leaves behind in the server is no more
_TRY_AGAIN_LATER = 1013  # registered by RFC 6455 section 11.7


async def answer(
    exchange: Exchange, scope: Scope, receive: Receive, send: Send, outcome: Reply | Endpoint
) -> None:
    """Send a reply of the guard, or serve one of our endpoints."""
    is_socket = scope["type"] == "websocket"
    if isinstance(outcome, Endpoint) and outcome.operation == "stream":
        if is_socket:
            await receive()  # that the client connects
        reader = (_Socket if is_socket else _EventStream)(exchange, scope, _bounded(send))
        await _unless_gone(receive, _serve_stream(exchange, outcome, reader, send))
    elif isinstance(outcome, Reply) and is_socket:
        await deny(scope, send, outcome)
    elif isinstance(outcome, Reply):
        await send_reply(send, outcome, head_only=scope.get("method") == "HEAD")
    elif outcome.wait:
        await _unless_gone(receive, _serve(exchange, scope, send, outcome))
    else:
        await _serve(exchange, scope, send, outcome)


async def send_reply(send: Send, reply: Reply, *, head_only: bool, kind: str = "http") -> None:
    """Send a whole reply, without its body for HEAD."""
    start = {"type": f"{kind}.response.start", "status": reply.status, "headers": encode(reply)}
    await send(start)
    body = b"" if head_only else reply.body
    await send({"type": f"{kind}.response.body", "body": body, "more_body": False})


async def deny(scope: Scope, send: Send, reply: Reply) -> None:
    """Refuse a socket before it is accepted: with a real response where the server can."""
    if "websocket.http.response" in (scope.get("extensions") or {}):
        await send_reply(send, reply, head_only=False, kind="websocket.http")
    else:
        code = close_code(reply.status)
        await send({"type": "websocket.close", "code": code, "reason": ""})


def close_code(status: int) -> int:
    """Return the code that closes a socket for what would be a status (RFC 6455 section 7.4.2)."""
    return 4000 + status if status in {401, 403, 404, 503} else 4400


def encode(reply: Reply) -> list[tuple[bytes, bytes]]:
    """Return the headers of a reply as ASGI has them."""
    return [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in reply.headers]


async def _serve(exchange: Exchange, scope: Scope, send: Send, endpoint: Endpoint) -> None:
    reply = await exchange.aserve(endpoint)
    await send_reply(send, reply, head_only=scope.get("method") == "HEAD")


async def _unless_gone(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Do some work, unless the client leaves meanwhile."""

    async def gone() -> None:
        while not (await receive())["type"].endswith(".disconnect"):
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        is_done = working.done()
        leaving.cancel()
        await to_the_end(stop(working))
        await asyncio.gather(working, leaving, return_exceptions=True)
    if is_done:
        working.result()


class _TooSlow(Exception):  # noqa: N818 - nothing is wrong here
    """A reader has taken no message in time."""


def _bounded(send: Send) -> Send:
    """Return what sends a message and raises _TooSlow when it is not taken in time."""

    async def bounded(message: Message) -> None:
        if not await _within(SLOW_SECONDS, send(message)):
            raise _TooSlow

    return bounded


async def _within(seconds: float, work: Awaitable[None]) -> bool:
    """Do some work, no longer than so; return whether it was done.

    `asyncio.wait_for` of Python before 3.12 loses a cancellation that comes as the work ends.
    """
    working = asyncio.ensure_future(work)
    try:
        await asyncio.wait({working}, timeout=seconds)
        is_done = working.done()
    finally:
        await stop(working)
        failure = None if working.cancelled() else working.exception()  # or asyncio logs it
    if is_done and failure is not None:
        raise failure
    return is_done


class _Reader(Protocol):
    """Whoever reads a stream."""

    async def open(self) -> None:
        """Say that it begins."""

    async def tell(self, page: EventPage) -> None:
        """Send a page."""

    def last(self, refusal: Refusal | None) -> Message:
        """Return the message that says why it ends; None: the reader may come back at once."""

    async def refuse(self, reply: Reply) -> None:
        """Say why it does not begin."""


async def _serve_stream(
    exchange: Exchange, endpoint: Endpoint, reader: _Reader, send: Send
) -> None:
    is_open, refusal = False, None
    try:
        with exchange.stream(endpoint) as stream:
            async with aclosing(stream.pages()) as pages:
                async for page in pages:
                    if not is_open:
                        is_open = True
                        await reader.open()
                    await reader.tell(page)
            refusal = stream.ending
    except _TooSlow:
        pass
    except OSError:  # by a send: the client has left (ASGI 2.4)
        return
    except RequestError as error:
        refusal = error.refusal()
    if refusal is not None and not is_open:
        await reader.refuse(exchange.problem(refusal))
        return
    if refusal is not None:
        exchange.ended(refusal)
    with suppress(OSError):
        await _within(_END_SECONDS, send(reader.last(refusal)))


class _EventStream:
    """A reader of server-sent events."""

    def __init__(self, exchange: Exchange, _: Scope, send: Send) -> None:
        self._exchange, self._send = exchange, send

    async def open(self) -> None:
        head = self._exchange.stream_head()
        headers = encode(head)
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._part(HELLO)

    async def tell(self, page: EventPage) -> None:
        part = stream_part(page)
        for start in range(0, len(part), _PIECE):
            await self._part(part[start : start + _PIECE])

    def last(self, refusal: Refusal | None) -> Message:
        body = b"" if refusal is None else stream_end(refusal)
        return {"type": "http.response.body", "body": body, "more_body": False}

    async def refuse(self, reply: Reply) -> None:
        await send_reply(self._send, reply, head_only=False)

    async def _part(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": True})


class _Socket:
    """A reader at a WebSocket."""

    def __init__(self, _: Exchange, scope: Scope, send: Send) -> None:
        self._scope, self._send = scope, send

    async def open(self) -> None:
        is_offered = SUBPROTOCOL in (self._scope.get("subprotocols") or ())
        chosen = SUBPROTOCOL if is_offered else None
        await self._send({"type": "websocket.accept", "subprotocol": chosen, "headers": []})

    async def tell(self, page: EventPage) -> None:
        for frame in socket_frames(page):
            await self._send({"type": "websocket.send", "text": frame})

    def last(self, refusal: Refusal | None) -> Message:
        code = _TRY_AGAIN_LATER if refusal is None else close_code(refusal.status)
        reason = "" if refusal is None else refusal.code
        return {"type": "websocket.close", "code": code, "reason": reason}

    async def refuse(self, reply: Reply) -> None:
        await deny(self._scope, self._send, reply)
