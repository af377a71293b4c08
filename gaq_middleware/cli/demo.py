"""`gaq demo`: find a server and a port, then serve the demo app until Ctrl-C."""

from __future__ import annotations

import argparse
import errno
import signal
import socket
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from gaq_middleware.cli.words import complain
from gaq_middleware.core.errors import StoreError
from gaq_middleware.core.store_urls import shown_store_url
from gaq_middleware.demo.app import demo_settings
from gaq_middleware.demo.serving import serve, welcome
from gaq_middleware.registry import JobRegistry

DEFAULT_PORT = 8000
_TRIES = 100


def run(options: argparse.Namespace) -> int:
    """Run a small app to try everything in a browser.

    It is wrapped by the middleware, and needs no settings: jobs live in memory and secrets are
    made for this run. Its address is printed; Ctrl-C ends it.
    """
    server = "waitress" if options.wsgi else "uvicorn"
    try:
        import_module(server)
    except ModuleNotFoundError:
        mend = "pip install '.[demo]' where the package was installed from."
        return complain(f"`gaq demo` needs {server}, which is not installed: {mend}")
    settings = demo_settings(options.store)
    try:
        JobRegistry(settings).is_cancelled("demo")
    except StoreError:
        return complain(f"No Redis that can be used at {shown_store_url(settings.store_url)}.")
    try:
        listener = _listen(options.host, options.port)
    except (OSError, UnicodeError) as error:
        return complain(f"Cannot listen on {options.host}: {_why(error, options.port)}")
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell had them ignored
        signal.signal(number, signal.default_int_handler)
    with listener, TemporaryDirectory(prefix="gaq-demo-") as folder, suppress(KeyboardInterrupt):
        jar = Path(folder) / "cookies"
        print(welcome(listener, jar, settings, wsgi=options.wsgi), flush=True)
        serve(listener, settings, wsgi=options.wsgi)
    return 0


def port(text: str) -> int:
    """Return the port that an option names; ValueError if it names none."""
    if int(text) not in range(65_536):
        raise ValueError(text)
    return int(text)


def _listen(host: str, port: int | None) -> socket.socket:
    """Return a listening socket; without a port the default one, or the next that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if port is not None:
        return socket.create_server((host, port), family=family)
    for number in range(DEFAULT_PORT, DEFAULT_PORT + _TRIES):
        try:
            return socket.create_server((host, number), family=family)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, "")


def _why(error: Exception, port: int | None) -> str:
    if not isinstance(error, OSError):
        return "this is no host name."
    if error.errno != errno.EADDRINUSE:
        return f"{str(error.strerror).partition(' (')[0]}."
    if port is None:
        return f"the {_TRIES} ports from {DEFAULT_PORT} on are all in use. Name one with --port."
    return f"port {port} is in use. Leave out --port, and a free one is found."
