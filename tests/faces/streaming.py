"""Clients of event streams, sockets and waiting polls, message by message."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gaq_middleware import Job, Owner, Settings, asgi
from gaq_middleware.core.commands import FinishJob, SubmitJob
from gaq_middleware.registry import Store
from gaq_middleware.registry.memory import MemoryStore
from tests.faces.drive import Message
from tests.helpers import NOW, POLL, Ask, Clock, ask, cookies, make_settings, scope_of, token

STREAM, SOCKET = f"{POLL}stream", f"{POLL}ws"
SECONDS = 10.0
"""What takes longer hangs."""
SAME = "http://app.example"


def end(
    store: Store, job_id: str, channel: str = "c1", user: str | None = "7", url: str | None = None
) -> None:
    """Submit a job and end it."""
    job, attempt = Job.new(Owner(channel, user), job_id, {}), uuid.uuid4().hex
    store.execute(SubmitJob.of(job, now=NOW, ttl=60, attempt=attempt))
    store.execute(FinishJob.done(job_id, url, now=NOW, ttl=60, attempt=attempt))


def with_token(target: str, exp: float = 3000, **headers: str) -> Ask:
    """Return a request with a good cookie, from a page of ours."""
    return ask("GET", target, Cookie=cookies(token(exp)), Origin=SAME, **headers)


def jobs_in(part: str) -> list[str]:
    """Return the jobs of the events in a part of a stream."""
    lines = [line for line in part.split("\n") if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: "))["job_id"] for line in lines]


def ids_in(part: str) -> list[str]:
    """Return the ids of the events in a part of a stream."""
    return [line[4:] for line in part.split("\n") if line.startswith("id: ")]


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test in a loop of its own."""
    asyncio.run(asyncio.wait_for(test(), 6 * SECONDS))


async def _app(scope: Any, receive: Any, send: Any) -> None:
    pytest.fail("the app was called for an endpoint of ours")


class Served:
    """A wrapped app of which only our endpoints matter, with a clock that stands still."""

    def __init__(self, settings: Settings | None = None, store: Store | None = None) -> None:
        self.app = asgi.AsyncQueryMiddleware(_app, settings or make_settings())
        self.store = store or MemoryStore()
        self.app.engine.store = self.store
        self.app.engine.clock = Clock()

    def end(
        self, job_id: str, channel: str = "c1", user: str | None = "7", url: str | None = None
    ) -> None:
        """Submit a job and end it."""
        end(self.store, job_id, channel, user, url)

    async def is_waited_for(self) -> None:
        """Wait until somebody waits for an event."""
        while not self.store.bell._waiting:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)

    def connect(self, request: Ask, *protocols: str, denial: bool = True) -> Client:
        """Return a client that has sent a request; to the socket, if that is its address."""
        scope = scope_of(request)
        if request.path.endswith(b"/ws"):
            offers = ", ".join(protocols)
            scope["headers"] += [(b"sec-websocket-protocol", offers.encode())] * bool(protocols)
            scope |= {"type": "websocket", "scheme": "ws", "subprotocols": list(protocols)}
            scope["extensions"] = {"websocket.http.response": {}} if denial else {}
            del scope["method"]
        return Client(self.app, scope)


class Client:
    """A client of an ASGI app.

    While `reads` is cleared it takes nothing; `blocks` is set when the app waits for it.
    """

    def __init__(self, app: Any, scope: Any) -> None:
        self._kind = scope["type"]
        self.failure: OSError | None = None
        self._received: asyncio.Queue[Message] = asyncio.Queue()
        self._sent: asyncio.Queue[Message] = asyncio.Queue()
        self.reads, self.blocks = asyncio.Event(), asyncio.Event()
        self.reads.set()
        is_http = self._kind == "http"
        self._received.put_nowait({"type": "http.request" if is_http else "websocket.connect"})
        self.task = asyncio.ensure_future(app(scope, self._received.get, self._send))

    async def _send(self, message: Message) -> None:
        if self.failure is not None:
            raise self.failure
        if not self.reads.is_set():
            self.blocks.set()
        await self.reads.wait()
        self._sent.put_nowait(message)

    @property
    def has_more(self) -> bool:
        """Whether the app has sent what was not read."""
        return not self._sent.empty()

    async def next(self) -> Message:
        """Return the next message that the app sends."""
        return await asyncio.wait_for(self._sent.get(), SECONDS)

    async def head(self) -> dict[str, str]:
        """Return the headers of an answer with status 200."""
        start = await self.next()
        assert (start["type"], start["status"]) == ("http.response.start", 200)
        return {k.decode(): v.decode() for k, v in start["headers"]}

    async def part(self) -> str:
        """Return the next part of a body that goes on."""
        message = await self.next()
        assert message["type"] == "http.response.body"
        return str(message["body"].decode())

    async def opened(self) -> str:
        """Return what is on a stream when it opens."""
        await self.head()
        assert await self.part() == "retry: 2000\n\n"
        return await self.part()

    async def accepted(self) -> str | None:
        """Return the subprotocol with which a socket is accepted."""
        message = await self.next()
        assert message["type"] == "websocket.accept"
        chosen: str | None = message["subprotocol"]
        return chosen

    async def frame(self) -> Any:
        """Return the next frame, parsed."""
        message = await self.next()
        assert message["type"] == "websocket.send"
        return json.loads(message["text"])

    async def closed(self) -> tuple[int, str]:
        """Return with which code and reason the socket is closed, and wait for the app."""
        message = await self.next()
        assert message["type"] == "websocket.close"
        await self.over()
        return message["code"], message["reason"]

    async def ended(self) -> str:
        """Return the code with which a stream ends, and wait for the app."""
        message = await self.next()
        assert not message["more_body"]
        await self.over()
        event, data = message["body"].decode().split("\n")[:2]
        assert event == "event: end"
        code: str = json.loads(data.removeprefix("data: "))["code"]
        return code

    async def refusal(self) -> tuple[int, str]:
        """Return status and code of a refusal, and wait for the app."""
        prefix = "http" if self._kind == "http" else "websocket.http"
        start = await self.next()
        assert start["type"] == f"{prefix}.response.start"
        code: str = json.loads((await self.next())["body"])["code"]
        await self.over()
        return start["status"], code

    async def over(self) -> None:
        """Wait until the app has returned, and has sent nothing more."""
        await asyncio.wait_for(self.task, SECONDS)
        assert not self.has_more

    def goes(self) -> None:
        """Leave."""
        self._received.put_nowait({"type": f"{self._kind}.disconnect", "code": 1000})

    async def leave(self) -> None:
        """Leave, and wait until the app has noticed."""
        self.goes()
        await asyncio.wait_for(self.task, SECONDS)
