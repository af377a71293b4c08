"""What several processes serve with one Redis: log in, submit; every answer names its process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs

from gaq_middleware import JobRegistry, Settings, asgi, current, wsgi

SETTINGS = Settings.from_env()
if os.environ.get("TEST_EARLY"):  # a connection is open before the server forks
    JobRegistry(SETTINGS).is_cancelled("early")


def _answer(path: str, query: str) -> tuple[int, str] | None:
    if path == "/login":
        current().login(parse_qs(query)["user"][0])
        return 200, "welcome"
    return None if path == "/api/v1/chart/data" else (200, "home")


def _wsgi(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    answer = _answer(environ["PATH_INFO"], environ["QUERY_STRING"])
    status, body = answer or (202, json.dumps(current().jobs.submit().as_dict()))
    start_response(f"{status} OK", [("Content-Type", "text/html")])
    return [body.encode()]


async def _asgi(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    answer = _answer(scope["path"], scope["query_string"].decode())
    status, body = answer or (202, json.dumps((await current().ajobs.submit()).as_dict()))
    headers = [(b"content-type", b"text/html")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body.encode()})


_wsgi_guarded = wsgi.AsyncQueryMiddleware(_wsgi, SETTINGS)
_asgi_guarded = asgi.AsyncQueryMiddleware(_asgi, SETTINGS)


def wsgi_app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """The app by WSGI."""

    def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        return start_response(status, [*headers, ("X-Worker", str(os.getpid()))], exc_info)

    return _wsgi_guarded(environ, start)


async def asgi_app(scope: Any, receive: Any, send: Any) -> None:
    """The app by ASGI."""

    async def name_process(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = [*message["headers"], (b"x-worker", str(os.getpid()).encode())]
            message = {**message, "headers": headers}
        await send(message)

    await _asgi_guarded(scope, receive, name_process)
