"""Real servers as child processes, each started once for all tests that want it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from tests.helpers import K

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0  # seconds until a server must answer, and until it must have ended
PROTECTED = "/api/x,/api/v1/async_event,/api/v1/chart/data"


@dataclass(frozen=True)
class Server:
    """How a server is started.

    Attributes:
        name: What the tests call it.
        face: Which app it serves.
        module: What is run by `python -m`.
        options: Its options; `{port}` is replaced.
        denies: Whether it can answer a socket with a real refusal.
        http2: Whether it speaks HTTP/2 in clear text.
        needs: What must be installed beside it.
        variables: Of its environment.
    """

    name: str
    face: Literal["asgi", "wsgi"]
    module: str
    options: tuple[str, ...]
    denies: bool = True
    http2: bool = False
    needs: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return self.name

    def command(self, port: int, app: str | None = None) -> list[str]:
        """Return the command line."""
        names = {"port": str(port), "app": app or f"tests.live.served:{self.face}_app"}
        options = [option.format(**names) for option in self.options]
        return [sys.executable, "-m", self.module, *options]


UVICORN = ("{app}", "--host=127.0.0.1", "--port={port}", "--log-level=warning")
HYPERCORN = ("--bind=127.0.0.1:{port}", "--workers=0")
GUNICORN = ("--bind=127.0.0.1:{port}", "{app}")
SERVERS = [
    Server("uvicorn with h11", "asgi", "uvicorn", (*UVICORN, "--http=h11")),
    Server(
        "uvicorn with httptools",
        "asgi",
        "uvicorn",
        (*UVICORN, "--http=httptools"),
        needs=("httptools",),
    ),
    Server("hypercorn", "asgi", "hypercorn", (*HYPERCORN, "{app}"), http2=True),
    Server(
        "hypercorn under a root path",
        "asgi",
        "hypercorn",
        (*HYPERCORN, "--root-path=/pre", "{app}"),
    ),
    Server(
        "granian",
        "asgi",
        "granian",
        ("--interface=asgi", "--host=127.0.0.1", "--port={port}", "{app}"),
        http2=True,
    ),
    Server("gunicorn's asgi worker", "asgi", "gunicorn", ("-k=asgi", *GUNICORN), denies=False),
    Server("gunicorn", "wsgi", "gunicorn", ("-k=sync", *GUNICORN)),
    Server("gunicorn with threads", "wsgi", "gunicorn", ("-k=gthread", "--threads=4", *GUNICORN)),
    Server(
        "waitress",
        "wsgi",
        "waitress",
        ("--host=127.0.0.1", "--port={port}", "{app}"),
    ),
    Server(
        "granian under WSGI",
        "wsgi",
        "granian",
        ("--interface=wsgi", "--host=127.0.0.1", "--port={port}", "{app}"),
        http2=True,
    ),
    Server("hypercorn under WSGI", "wsgi", "hypercorn", (*HYPERCORN, "wsgi:{app}"), http2=True),
]
BY_NAME = {server.name: server for server in SERVERS}


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of a server."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GAQ_", "COV_"))}
    ours = {
        "GAQ_JWT_SECRET": K,
        "GAQ_PROTECTED_PATHS": PROTECTED,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [kept.get("PYTHONPATH")])]),
        "PYTHONUNBUFFERED": "1",
    }
    return {**kept, **ours, **variables}


def require(server: Server) -> None:
    """Skip what is not installed; where everything must be installed, fail."""
    absent = [m for m in (server.module, *server.needs) if importlib.util.find_spec(m) is None]
    if absent:
        missing = f"{', '.join(absent)} not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)


def free_port() -> int:
    """Return a port of this host that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@dataclass
class Running:
    """A server that runs."""

    server: Server
    port: int
    gates: Path
    """Where streams look for the file that lets them go on."""
    log: Path
    process: subprocess.Popen[bytes] = field(repr=False)

    def connect(self) -> socket.socket:
        """Open a connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def check(self) -> None:
        """Fail when it has ended, and tell what it said."""
        assert self.process.poll() is None, f"{self.server} ended:\n{self.log.read_text()}"

    def wait(self) -> None:
        """Wait until it answers."""
        until = time.monotonic() + PATIENCE
        while True:
            self.check()
            assert time.monotonic() < until, f"{self.server} is slow:\n{self.log.read_text()}"
            with contextlib.suppress(OSError), self.connect() as connection:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                if connection.recv(12) == b"HTTP/1.1 200":
                    return
            time.sleep(0.02)

    def signal(self, number: int) -> None:
        """Send a signal to the server and to whatever it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def end(self) -> None:
        """Wait until it has ended, and see to it that it does."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        self.signal(signal.SIGKILL)
        self.process.wait(5)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Server], Running]]:
    """Return a function that starts a server, or gives the one that runs already."""
    running: dict[str, Running] = {}

    def start(server: Server) -> Running:
        if server.name not in running:
            require(server)
            folder, port = tmp_path_factory.mktemp("server"), free_port()
            log = folder / "log"
            with log.open("wb") as output:
                process = subprocess.Popen(
                    server.command(port),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=environment(
                        GATES=str(folder), XDG_RUNTIME_DIR=str(folder), **dict(server.variables)
                    ),
                    cwd=folder,
                    start_new_session=True,
                )
            running[server.name] = Running(server, port, folder, log, process)
            running[server.name].wait()
        running[server.name].check()
        return running[server.name]

    try:
        yield start
    finally:
        for each in running.values():
            each.signal(signal.SIGTERM)
        for each in running.values():
            each.end()
