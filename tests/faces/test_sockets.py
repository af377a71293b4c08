"""Sockets of real frameworks: our errors become a refusal before accept, a close after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gaq_middleware import JobNotFoundError, asgi, current, issue_token
from tests.faces.apps import load
from tests.faces.drive import Seen, see_socket
from tests.helpers import cookies, make_settings

SETTINGS = make_settings()
DENIAL = pytest.mark.parametrize(
    "denial", [True, False], ids=["denial offered", "denial not offered"]
)
Socket = Any
"""What a handler is given: `accept`, `send` and `close` are awaitable."""


class Steps:
    """One socket handler for all frameworks; the path tells what it does."""

    def __init__(
        self,
        accept: Callable[[], Awaitable[Any]],
        send: Callable[[str], Awaitable[Any]],
        close: Callable[[int], Awaitable[Any]],
    ) -> None:
        self._accept, self._send, self._close = accept, send, close

    async def run(self, path: str) -> None:
        """Do what the path says."""
        for step in path.strip("/").split("-"):
            await getattr(self, step)()

    async def accept(self) -> None:
        """Accept."""
        await self._accept()

    async def hello(self) -> None:
        """Send a message: the channel of who is asking."""
        await self._send(current().channel_id)

    async def fails(self) -> None:
        """Fail with an error of ours."""
        raise JobNotFoundError

    async def catches(self) -> None:
        """Fail, and go on."""
        try:
            await self.fails()
        except JobNotFoundError:
            return

    async def foreign(self) -> None:
        """Fail with another error."""
        raise ValueError("foreign")

    async def close(self) -> None:
        """End with a code of the app."""
        await self._close(4000)


PATHS = [
    "accept-hello-close",
    "close",
    "fails",
    "accept-fails",
    "accept-hello-fails",
    "accept-catches-hello-close",
    "catches-accept-hello-close",
    "foreign",
    "accept-foreign",
]


def starlette_sockets() -> Any:
    """Starlette."""
    applications, routing = load("starlette.applications"), load("starlette.routing")

    def endpoint(path: str) -> Any:
        async def run(socket: Any) -> None:
            await Steps(socket.accept, socket.send_text, socket.close).run(path)

        return run

    routes = [routing.WebSocketRoute(f"/{path}", endpoint(path)) for path in PATHS]
    return applications.Starlette(routes=routes)


def fastapi_sockets() -> Any:
    """FastAPI, with the work in a dependency."""
    fastapi = load("fastapi")
    app = fastapi.FastAPI()

    def add(path: str) -> None:
        async def endpoint(websocket: Any) -> None:
            await Steps(websocket.accept, websocket.send_text, websocket.close).run(path)

        endpoint.__annotations__ = {"websocket": fastapi.WebSocket}
        app.add_api_websocket_route(f"/{path}", endpoint)

    for path in PATHS:
        add(path)
    return app


def litestar_sockets() -> Any:
    """Litestar."""
    litestar = load("litestar")

    def route(path: str) -> Any:
        async def endpoint(socket: Any) -> None:
            await Steps(socket.accept, socket.send_text, lambda code: socket.close(code=code)).run(
                path
            )

        endpoint.__annotations__ = {"socket": litestar.WebSocket, "return": None}
        return litestar.websocket(f"/{path}")(endpoint)

    return litestar.Litestar([route(path) for path in PATHS], logging_config=None)


def quart_sockets() -> Any:
    """Quart."""
    quart = load("quart")
    app = quart.Quart("app")

    def add(path: str) -> None:
        async def view() -> None:
            socket = quart.websocket
            await Steps(socket.accept, socket.send, lambda code: socket.close(code, "")).run(path)

        app.add_websocket(f"/{path}", path, view)

    for path in PATHS:
        add(path)
    return app


def falcon_sockets() -> Any:
    """Falcon."""
    falcon = load("falcon.asgi")
    app = falcon.App()

    class Resource:
        def __init__(self, path: str) -> None:
            self.path = path

        async def on_websocket(self, request: Any, socket: Any) -> None:
            await Steps(socket.accept, socket.send_text, socket.close).run(self.path)

    for path in PATHS:
        app.add_route(f"/{path}", Resource(path))
    return app


BUILDERS = [starlette_sockets, fastapi_sockets, litestar_sockets, quart_sockets, falcon_sockets]
NAMES = ["Starlette", "FastAPI", "Litestar", "Quart", "Falcon"]


@pytest.fixture(params=BUILDERS, ids=NAMES)
def app(request: pytest.FixtureRequest) -> Any:
    """Return the app of each framework in turn."""
    return request.param()


def opens(app: Any, path: str, *, denial: bool = True, guarded: bool = True) -> Seen:
    """Open a socket with a token."""
    assert path in PATHS
    served = asgi.AsyncQueryMiddleware(app, SETTINGS) if guarded else app
    cookie = cookies(issue_token(SETTINGS, 7))
    return see_socket(served, f"/{path}", denial=denial, Cookie=cookie)


def test_a_socket_knows_who_is_asking(app: Any) -> None:
    """The context is current in the handler."""
    seen = opens(app, "accept-hello-close")
    assert seen.raised is None
    assert seen.messages[1]["text"].startswith("user-")
    assert seen.close_code == 4000


@DENIAL
def test_an_error_before_accept_is_a_refusal(app: Any, denial: bool) -> None:
    """A real answer where the server can, else a close."""
    seen = opens(app, "fails", denial=denial)
    assert seen.raised is None
    if denial:
        assert (seen.status, seen.code, seen.json()["code"]) == (404, *["job_not_found"] * 2)
        assert len(seen.messages) == 2
    else:
        assert seen.types == ["websocket.close"]
        assert seen.close_code == 4404


@pytest.mark.parametrize("path", ["accept-fails", "accept-hello-fails"])
def test_an_error_after_accept_closes_with_its_code(app: Any, path: str) -> None:
    """Whatever the framework sends: a close of its own, or an answer on an open socket."""
    seen = opens(app, path)
    assert seen.raised is None
    assert seen.close_code == 4404
    assert seen.messages[-1]["reason"] == "job_not_found"
    assert "websocket.http.response.start" not in seen.types


@pytest.mark.parametrize("path", ["accept-catches-hello-close", "catches-accept-hello-close"])
def test_a_socket_that_goes_on_after_our_error_closes_as_it_likes(app: Any, path: str) -> None:
    """What the app has dealt with is forgotten."""
    assert opens(app, path).close_code == 4000


@pytest.mark.parametrize("path", ["close", "foreign", "accept-foreign"])
@DENIAL
def test_all_else_is_as_without_us(app: Any, path: str, denial: bool) -> None:
    """Refusals and foreign errors of the app, message by message."""
    seen, expected = (opens(app, path, denial=denial, guarded=guarded) for guarded in (True, False))
    assert (seen.messages, repr(seen.raised)) == (expected.messages, repr(expected.raised))
