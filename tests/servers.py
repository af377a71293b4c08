"""Real Redis servers for tests: started on free ports and sockets of this machine, and stopped."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from typing_extensions import Self

PATIENCE = 20.0  # seconds


def need_redis() -> None:
    """Skip the test where redis-server or redis-py is missing; in CI that is a failure."""
    for what, is_there in (
        ("redis-server", shutil.which("redis-server") is not None),
        ("redis-py", _has_redis_py()),
    ):
        if not is_there:
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"{what} is missing")


def _has_redis_py() -> bool:
    try:
        import redis  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on, nor on the one 10,000 above (clusters)."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
            if port < 55_000:
                return port


def wait_until(what: Callable[[], object], patience: float = PATIENCE) -> None:
    """Wait until something is true; errors count as not yet."""
    end = time.monotonic() + patience
    while True:
        try:
            if what():
                return
        except Exception:
            if time.monotonic() > end:
                raise
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.02)


class RedisServer:
    """A redis-server of its own, on a port and on a socket."""

    def __init__(self, *options: str, password: str | None = None) -> None:
        need_redis()
        self.password = password
        self.folder = Path(tempfile.mkdtemp(prefix="gaq-"))
        self.port = free_port()
        self.options = options
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL by TCP."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def socket_url(self) -> str:
        """The URL by socket."""
        return f"unix://{self.folder}/socket?db=0"

    def command(self) -> list[str]:
        """Return the command that starts it."""
        fixed = f"--port {self.port} --bind 127.0.0.1 --unixsocket {self.folder}/socket"
        fixed += f" --dir {self.folder} --logfile {self.folder}/log"
        options = self.options if "--save" in self.options else ("--save", "", *self.options)
        login = ["--requirepass", self.password] if self.password else []
        return ["redis-server", *fixed.split(), *login, *options]

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.process = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL)
        with self.raw() as raw:
            wait_until(raw.ping)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop it, with SIGKILL as a crash would."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(how)
            self.process.wait(PATIENCE)
            self.process = None

    def raw(self, **options: Any) -> Any:
        """Return a client of redis-py that knows nothing of us."""
        import redis

        return redis.Redis(port=self.port, password=self.password, protocol=2, **options)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


class Proxy:
    """A TCP proxy to a port of this machine: its target can move, and it can swallow an answer."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.loses_next_answer = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The URL of a Redis behind it."""
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"

    def close(self) -> None:
        """Stop listening, and end all connections."""
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            self._sockets += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(
                    target=self._pump, args=(source, sink, source is server), daemon=True
                ).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if is_answer and self.loses_next_answer:
                    self.loses_next_answer = False
                    break
                sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Monitor:
    """Listens to all commands that clients send to a server, those of scripts left out."""

    def __init__(self, server: RedisServer) -> None:
        self._raw = server.raw()
        self.commands: list[str] = []

    def __enter__(self) -> Self:
        self._monitor = self._raw.monitor().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._raw.echo("the end of the monitor")
        while "the end of the monitor" not in (line := self._monitor.next_command())["command"]:
            if line["client_type"] != "lua":
                self.commands.append(line["command"])
        self._monitor.__exit__(None, None, None)
        self._raw.close()

    @property
    def names(self) -> list[str]:
        """The names of the commands."""
        return [command.partition(" ")[0] for command in self.commands]


class Sentinel(RedisServer):
    """A Redis Sentinel that watches a master called mymaster, and needs one other to agree."""

    def __init__(self, master: RedisServer, password: str) -> None:
        super().__init__(password=password)
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {self.folder}",
            f"sentinel monitor mymaster 127.0.0.1 {master.port} 2",
            "sentinel down-after-milliseconds mymaster 500",
            "sentinel failover-timeout mymaster 3000",
            f"sentinel auth-pass mymaster {master.password}",
            f"requirepass {password}",
            f"sentinel sentinel-pass {password}",
        ]
        (self.folder / "sentinel.conf").write_text("\n".join(lines))

    def command(self) -> list[str]:
        """Return the command that starts it."""
        return ["redis-server", str(self.folder / "sentinel.conf"), "--sentinel"]

    def master_port(self) -> int:
        """Return the port of the master, as this sentinel sees it."""
        with self.raw() as raw:
            return int(raw.sentinel_get_master_addr_by_name("mymaster")[1])
