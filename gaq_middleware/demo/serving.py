"""Run the demo on a real server, and say how to use it."""

from __future__ import annotations

import logging
import shlex
import socket
from importlib import import_module
from pathlib import Path
from typing import Any

from gaq_middleware.core.settings import Settings
from gaq_middleware.core.store_urls import shown_store_url
from gaq_middleware.demo.app import QUERY_PATH, QUERY_SECONDS, WSGI_WAITERS, Demo
from gaq_middleware.demo.faces import asgi_app, wsgi_app
from gaq_middleware.wsgi import AsyncQueryMiddleware

_THREADS = 2 * WSGI_WAITERS

_WELCOME = """\
gaq demo: {url} ({server})

Open that page, or paste these lines into another shell, one after the other.

  Log in as Ada and keep her token in a cookie jar:
    {curl} -c {jar} -d user=ada {url}/login
  Run a query; the answer is its job:
    {curl} -b {jar} -X POST {url}{query}
  It takes {seconds:.0f} seconds. Watch the stream for {watch:.0f}, and see its end arrive:
    {curl} -N -m {watch:.0f} -b {jar} {url}{events}stream
  Read events without a token, and see the refusal:
    {curl} {url}{events}

{kept} Ctrl-C ends the demo.
"""


def welcome(listener: socket.socket, jar: Path, settings: Settings, *, wsgi: bool) -> str:
    """Return what is printed at the start: the address, and lines to paste into a shell.

    Args:
        listener: The bound socket.
        jar: Where curl keeps the cookie.
        settings: Those of the demo.
        wsgi: Which server it is.
    """
    host, port = listener.getsockname()[:2]
    store = shown_store_url(settings.store_url)
    return _WELCOME.format(
        url=f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}",
        server="WSGI: werkzeug on waitress" if wsgi else "ASGI: Starlette on uvicorn",
        curl='curl -s -w "\\n"',
        jar=shlex.quote(str(jar)),
        query=QUERY_PATH,
        events="/api/v1/async_event/",
        seconds=QUERY_SECONDS,
        watch=QUERY_SECONDS + 2,
        kept="Jobs and secrets live in memory only."
        if store == "memory://"
        else f"Jobs live in {store}.",
    )


def serve(listener: socket.socket, settings: Settings, *, wsgi: bool) -> None:
    """Serve the demo until the process is interrupted.

    Args:
        listener: The bound socket.
        settings: Those of the demo.
        wsgi: Whether to run it as WSGI on waitress, else it is ASGI on uvicorn.
    """
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING)
    demo = Demo(settings)
    if wsgi:
        _run_waitress(wsgi_app(demo), listener)
    else:
        import_module("gaq_middleware.demo.on_uvicorn").run(asgi_app(demo), listener)


def _run_waitress(app: AsyncQueryMiddleware, listener: socket.socket) -> None:
    """Serve as `run()` of waitress does, which at the end waits 5 s for threads with a stream."""
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # it warns of one request
    channels: dict[int, Any] = {}  # the server's own sockets, and those of its clients
    server = import_module("waitress").create_server(
        app,
        sockets=[listener],
        map=channels,
        threads=_THREADS,
        channel_request_lookahead=1,  # so that it sees a reader of a stream leave
    )
    try:
        server.asyncore.loop(timeout=1.0, map=channels)
    finally:
        for channel in list(server.active_channels.values()):
            channel.close()
