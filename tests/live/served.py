"""What the real servers serve; the header `X-App` chooses among the apps of this module.

Every app is wrapped by itself, with settings from the environment. `plain` has the whole life of
a job; the frameworks have one protected path, `/api/x`, for the forms in which paths can come.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from gaq_middleware import JobNotFoundError, Settings, asgi, current, wsgi

SETTINGS = Settings.from_env()
REACHED = "the protected handler was reached"
FIRST, SECOND = b"first\n", b"second\n"
SECONDS = 10.0  # how long a stream waits for its gate


@dataclass(frozen=True)
class Out:
    """An answer in plain text."""

    body: str
    status: str = "200 OK"
    headers: tuple[tuple[str, str], ...] = ()


def login(query: dict[str, list[str]]) -> Out:
    """Log the user of the query in."""
    current().login(query["user"][0])
    return Out("hello", headers=(("Set-Cookie", "app=1"),))


def chart(query: dict[str, list[str]]) -> Out:
    """Submit a job."""
    return Out(json.dumps(current().jobs.submit().as_dict()), "202 Accepted")


def fail(query: dict[str, list[str]]) -> Out:
    """Fail with an error of ours."""
    raise JobNotFoundError


def fail_otherwise(query: dict[str, list[str]]) -> Out:
    """Fail with another error."""
    raise ValueError("foreign")


HANDLERS: dict[str, Callable[[dict[str, list[str]]], Out]] = {
    "/": lambda query: Out("home"),
    "/login": login,
    "/logout": lambda query: Out("bye"),
    "/api/v1/chart/data": chart,
    "/api/x": lambda query: Out(REACHED),
    "/fails": fail,
    "/foreign": fail_otherwise,
}


def answer(path: str, query: str) -> Out:
    """Call the handler of a path."""
    if path not in HANDLERS:
        return Out("nothing here", "404 Not Found")
    return HANDLERS[path](parse_qs(query))


def gate(query: str) -> Path:
    """Return the file that a stream waits for."""
    return Path(os.environ["GATES"]) / parse_qs(query)["gate"][0]


# --- plain apps ---------------------------------------------------------------------------------


def plain_wsgi(environ: Any, start_response: Any) -> Iterable[bytes]:
    """A WSGI app without a framework."""
    text = ("Content-Type", "text/plain")
    if environ["PATH_INFO"] == "/stream":
        start_response("200 OK", [text])
        return gated(gate(environ["QUERY_STRING"]))
    out = answer(environ["PATH_INFO"], environ["QUERY_STRING"])
    body = out.body.encode()
    start_response(out.status, [text, ("Content-Length", str(len(body))), *out.headers])
    return [body]


def gated(file: Path) -> Iterator[bytes]:
    """Yield a second part once the file is there: the client has then read the first."""
    yield FIRST
    until = time.monotonic() + SECONDS
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.005)
    yield SECOND


async def plain_asgi(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI app without a framework."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
    elif scope["type"] == "websocket":
        await socket(scope["path"], receive, send)
    elif scope["path"] == "/stream":
        await head(send, 200)
        async for part in agated(gate(scope["query_string"].decode())):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})
    else:
        out = answer(scope["path"], scope["query_string"].decode())
        body = out.body.encode()
        await head(send, int(out.status[:3]), ("Content-Length", str(len(body))), *out.headers)
        await send({"type": "http.response.body", "body": body})


async def agated(file: Path) -> AsyncIterator[bytes]:
    """Yield a second part once the file is there."""
    yield FIRST
    until = time.monotonic() + SECONDS
    while not file.exists() and time.monotonic() < until:  # noqa: ASYNC110, ASYNC240 - a file
        await asyncio.sleep(0.005)
    yield SECOND


async def head(send: Any, status: int, *headers: tuple[str, str]) -> None:
    """Send a head."""
    pairs = (("Content-Type", "text/plain"), *headers)
    raw = [(name.lower().encode(), value.encode()) for name, value in pairs]
    await send({"type": "http.response.start", "status": status, "headers": raw})


async def lifespan(receive: Any, send: Any) -> None:
    """Start and stop."""
    for phase in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{phase}.complete"})


async def socket(path: str, receive: Any, send: Any) -> None:
    """Tell the channel of who is asking; other paths fail before and after accept."""
    await receive()
    if path.endswith("/fails"):
        raise JobNotFoundError
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.send", "text": current().channel_id})
    if path.endswith("/fails/late"):
        raise JobNotFoundError
    await send({"type": "websocket.close", "code": 4000})


# --- frameworks ---------------------------------------------------------------------------------


def flask() -> Any:
    """Flask."""
    app = importlib.import_module("flask").Flask("served")
    app.add_url_rule("/api/x", "x", lambda: REACHED)
    return app


def falcon() -> Any:
    """Falcon under WSGI."""

    class Resource:
        def on_get(self, request: Any, response: Any) -> None:
            response.text = REACHED

    app = importlib.import_module("falcon").App()
    app.add_route("/api/x", Resource())
    return app


def pyramid() -> Any:
    """Pyramid."""
    response = importlib.import_module("pyramid.response").Response
    config = importlib.import_module("pyramid.config").Configurator()
    config.add_route("x", "/api/x")
    config.add_view(lambda context, request: response(REACHED), route_name="x")
    return config.make_wsgi_app()


def bottle() -> Any:
    """Bottle."""
    app = importlib.import_module("bottle").Bottle()
    app.route("/api/x", "GET", lambda: REACHED)
    return app


def quart() -> Any:
    """Quart."""

    async def view() -> str:
        return REACHED

    app = importlib.import_module("quart").Quart("served")
    app.add_url_rule("/api/x", "x", view)
    return app


def litestar() -> Any:
    """Litestar."""
    module = importlib.import_module("litestar")

    async def endpoint() -> str:
        return REACHED

    return module.Litestar([module.get("/api/x")(endpoint)], openapi_config=None)


def starlette() -> Any:
    """Starlette."""
    routing = importlib.import_module("starlette.routing")
    text = importlib.import_module("starlette.responses").PlainTextResponse

    async def endpoint(request: Any) -> Any:
        return text(REACHED)

    routes = [routing.Route("/api/x", endpoint)]
    return importlib.import_module("starlette.applications").Starlette(routes=routes)


def fastapi(root_path: str = "") -> Any:
    """FastAPI."""

    async def endpoint() -> str:
        return REACHED

    app = importlib.import_module("fastapi").FastAPI(root_path=root_path)
    app.add_api_route("/api/x", endpoint)
    return app


def falcon_asgi() -> Any:
    """Falcon under ASGI."""

    class Resource:
        async def on_get(self, request: Any, response: Any) -> None:
            response.text = REACHED

    app = importlib.import_module("falcon.asgi").App()
    app.add_route("/api/x", Resource())
    return app


def blacksheep() -> Any:
    """BlackSheep, whose routes know no case."""

    async def endpoint() -> str:
        return REACHED

    app = importlib.import_module("blacksheep").Application()
    app.router.add_get("/api/x", endpoint)
    return app


WSGI_APPS: dict[str, Callable[[], Any]] = {
    "plain": lambda: plain_wsgi,
    "flask": flask,
    "falcon": falcon,
    "pyramid": pyramid,
    "bottle": bottle,
}
ASGI_APPS: dict[str, Callable[[], Any]] = {
    "plain": lambda: plain_asgi,
    "quart": quart,
    "litestar": litestar,
    "starlette": starlette,
    "fastapi": fastapi,
    "fastapi under /pre": lambda: fastapi("/pre"),
    "falcon": falcon_asgi,
    "blacksheep": blacksheep,
}


@functools.cache
def guarded_wsgi(name: str) -> Any:
    """Return a wrapped WSGI app, built when it is first asked for."""
    return wsgi.AsyncQueryMiddleware(WSGI_APPS[name](), SETTINGS)


@functools.cache
def guarded_asgi(name: str) -> Any:
    """Return a wrapped ASGI app, built when it is first asked for."""
    return asgi.AsyncQueryMiddleware(ASGI_APPS[name](), SETTINGS)


def wsgi_app(environ: Any, start_response: Any) -> Any:
    """Serve the app that is asked for."""
    return guarded_wsgi(environ.get("HTTP_X_APP", "plain"))(environ, start_response)


async def asgi_app(scope: Any, receive: Any, send: Any) -> None:
    """Serve the app that is asked for."""
    name = dict(scope.get("headers", ())).get(b"x-app", b"plain").decode()
    await guarded_asgi(name)(scope, receive, send)
