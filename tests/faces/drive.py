"""Servers made by hand, one per face: they keep everything that left an app, in order."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from wsgiref.validate import validator

import pytest

from gaq_middleware import asgi, current, wsgi
from tests.helpers import Answer, Ask, Clock, environ_of, make_settings, scope_of

PROTECTED = "/api/v1/chart/data"
SOCKET_PATH = f"{PROTECTED}/socket"
Message = MutableMapping[str, Any]


@dataclass
class Seen(Answer):
    """An answer (status 0: there was none), what came out of the app, and how it all went."""

    raised: BaseException | None = None
    messages: list[Message] = field(default_factory=list)
    """ASGI messages, in order."""
    heads: list[tuple[Any, ...]] = field(default_factory=list)
    """Arguments of the calls of WSGI's start_response, in order."""
    parts: list[bytes] = field(default_factory=list)
    """Parts of the body, those of write() first."""
    returned: Any = None
    """What the WSGI app returned."""

    @property
    def types(self) -> list[str]:
        """The types of the ASGI messages."""
        return [message["type"] for message in self.messages]

    @property
    def close_code(self) -> int | None:
        """The code that the socket was closed with, if it was, and only once."""
        codes = [m["code"] for m in self.messages if m["type"] == "websocket.close"]
        assert len(codes) <= 1, f"closed {len(codes)} times"
        return codes[0] if codes else None


def nobody_is_current() -> bool:
    """Say whether no request is left behind as the current one."""
    with contextlib.suppress(LookupError):
        current()
        return False
    return True


def guard_asgi(app: Any, *, user_from: Any = None, **settings: str) -> asgi.AsyncQueryMiddleware:
    """Wrap an ASGI app, with a clock that stands still."""
    guarded = asgi.AsyncQueryMiddleware(app, make_settings(**settings), user_from=user_from)
    guarded.engine.clock = Clock()
    return guarded


def guard_wsgi(app: Any, *, user_from: Any = None, **settings: str) -> wsgi.AsyncQueryMiddleware:
    """Wrap a WSGI app, with a clock that stands still."""
    guarded = wsgi.AsyncQueryMiddleware(app, make_settings(**settings), user_from=user_from)
    guarded.engine.clock = Clock()
    return guarded


def see_asgi(
    app: Any,
    request: Ask | None = None,
    *,
    receives: Iterable[Message] | None = None,
    **scope: Any,
) -> Seen:
    """Send a request to an ASGI app, and see all of it."""
    request = request or Ask()
    return run_asgi(app, {**scope_of(request), **scope}, receives, request.body)


def see_socket(
    app: Any,
    path: str = SOCKET_PATH,
    *,
    denial: bool = True,
    receives: Iterable[Message] | None = None,
    **headers: str,
) -> Seen:
    """Open a socket at an ASGI app, and see all of it.

    Args:
        app: The app.
        path: Where.
        denial: Whether the server offers `websocket.http.response`.
        receives: What the client sends after its connect; then it waits for the end.
        headers: Header names with _ for -.
    """
    pairs = [("Host", "app.example"), *((k.replace("_", "-"), v) for k, v in headers.items())]
    scope = {
        **scope_of(Ask(target=path, headers=pairs)),
        "type": "websocket",
        "scheme": "ws",
        "subprotocols": [],
        "extensions": {"websocket.http.response": {}} if denial else {},
    }
    del scope["method"]
    return run_asgi(app, scope, [{"type": "websocket.connect"}, *(receives or ())])


MAX_SECONDS = 60.0
"""How long an app may take before it counts as hanging, which is then what came out."""


def run_asgi(
    app: Any, scope: Any, receives: Iterable[Message] | None = None, body: bytes = b""
) -> Seen:
    """Serve one connection."""
    seen = Seen(0, [])
    whole: Message = {"type": "http.request", "body": body, "more_body": False}
    received = iter([whole] if receives is None else receives)
    ended = asyncio.Event()

    async def receive() -> Message:
        for message in received:
            return message
        await ended.wait()  # as real servers do
        kind = "websocket" if scope["type"] == "websocket" else "http"
        return {"type": f"{kind}.disconnect", "code": 1000}

    async def send(message: Message) -> None:
        seen.messages.append(message)
        is_last = message["type"].endswith("body") and not message.get("more_body", False)
        if is_last or message["type"] == "websocket.close":
            ended.set()

    async def serve() -> None:
        task = asyncio.current_task()
        assert task is not None
        watchdog = asyncio.get_running_loop().call_later(MAX_SECONDS, task.cancel)
        try:
            await app(scope, receive, send)
        except BaseException as error:  # noqa: BLE001 - whatever comes out is what is looked at
            seen.raised = error
        watchdog.cancel()
        assert nobody_is_current()

    asyncio.run(serve())
    for message in seen.messages:
        if message["type"].endswith("response.start"):
            assert not seen.status, "two heads were sent"
            seen.status = message["status"]
            seen.headers = [
                (k.decode("latin-1"), v.decode("latin-1")) for k, v in message.get("headers", ())
            ]
        elif message["type"].endswith("response.body"):
            seen.parts.append(message.get("body", b""))
    seen.body = b"".join(seen.parts)
    return seen


def see_wsgi(
    app: Any,
    request: Ask | None = None,
    *,
    validate: bool = True,
    has_write: bool = True,
    stop_after: int | None = None,
    **environ: Any,
) -> Seen:
    """Send a request to a WSGI app, and see all of it.

    Args:
        app: The app.
        request: The request.
        validate: Whether wsgiref.validate stands between.
        has_write: Whether start_response returns a write callable.
        stop_after: Parts of the body after which the client is gone.
        environ: Further keys, `wsgi_` for `wsgi.`.
    """
    seen = Seen(0, [])
    more = {key.replace("wsgi_", "wsgi."): value for key, value in environ.items()}

    def start_response(*head: Any) -> Any:
        seen.heads.append(head)
        return seen.parts.append if has_write else None

    try:
        served: Any = validator(app) if validate else app
        seen.returned = served({**environ_of(request or Ask()), **more}, start_response)
        assert nobody_is_current()
        try:
            for number, part in enumerate(seen.returned, 1):
                assert nobody_is_current()
                seen.parts.append(part)
                if number == stop_after:
                    break
        finally:
            if hasattr(seen.returned, "close"):
                seen.returned.close()
    except BaseException as error:  # noqa: BLE001 - whatever comes out is what is looked at
        seen.raised = error
    assert nobody_is_current()
    if seen.heads:
        assert len(seen.heads) == 1, "start_response was called twice"
        seen.status, seen.headers = int(seen.heads[0][0][:3]), seen.heads[0][1]
    seen.body = b"".join(seen.parts)
    return seen


@pytest.fixture
def quiet(capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Check that nothing is written to stderr, where wsgiref.validate tells of unclosed bodies."""
    yield
    gc.collect(1)
    assert capsys.readouterr().err == ""
