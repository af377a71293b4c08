"""Event streams, sockets and waiting polls on real servers."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gaq_middleware import issue_token
from tests.helpers import POLL, cookies, make_settings, token
from tests.live.client import Client, Socket
from tests.live.conftest import BY_NAME, SERVERS, Running, Server

pytestmark = pytest.mark.live
Run = Callable[[Server], Running]
STREAM, SOCKET, CHART = f"{POLL}stream", f"{POLL}ws", "/api/v1/chart/data"
PLAIN = [server for server in SERVERS if "root path" not in server.name]
ASGI = [server for server in PLAIN if server.face == "asgi"]
THREADS = [
    dataclasses.replace(
        BY_NAME[name],
        name=f"{name}, ten of which may wait",
        options=("--threads=16", *(o for o in BY_NAME[name].options if "threads" not in o)),
        variables=(("GAQ_WSGI_MAX_WAITERS", "10"),),
    )
    for name in ("gunicorn with threads", "waitress")
]
"""A reader who leaves is noticed there at the next part, so a thread may wait for some seconds."""


def each(servers: list[Server]) -> pytest.MarkDecorator:
    """Return the mark that runs a test on each of some servers."""
    return pytest.mark.parametrize(
        "server", [pytest.param(server, id=server.name) for server in servers]
    )


@pytest.fixture
def running(run: Run, server: Server) -> Running:
    """Return the running server of the test."""
    return run(server)


class User:
    """A user with a channel of their own, who submits and cancels over one connection."""

    def __init__(self, running: Running) -> None:
        name = f"user at {time.monotonic_ns()}"
        self.headers = {"Cookie": cookies(issue_token(make_settings(), name))}
        self._client = Client(running)

    def job(self) -> str:
        """Submit a job, cancel it, and return its id."""
        job: str = self._client("POST", CHART, self.headers).json()["job_id"]
        assert self._client("POST", f"{POLL}{job}/cancel", self.headers).status == 200
        return job

    def close(self) -> None:
        """Leave."""
        self._client.close()


@pytest.fixture
def user(running: Running) -> Iterator[User]:
    """Return a user."""
    with contextlib.closing(User(running)) as user:
        yield user


@contextlib.contextmanager
def open_stream(
    running: Running, headers: dict[str, str], query: str = ""
) -> Iterator[http.client.HTTPResponse]:
    """Open a stream; its first part has come."""
    with contextlib.closing(Client(running)) as client:
        response = client.begin("GET", STREAM + query, headers)
        assert response.status == 200
        assert response.readline() == b"retry: 2000\n"
        yield response


def event(response: http.client.HTTPResponse) -> dict[str, Any]:
    """Return the next event on a stream."""
    while not (line := response.readline()).startswith(b"data: "):
        assert line, "the stream has ended"
    data: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
    return data


@each([*ASGI, *THREADS])
def test_events_arrive_on_an_open_stream(running: Running, user: User) -> None:
    """The head says what proxies must know; each event comes while the stream is open."""
    with open_stream(running, user.headers) as response:
        assert response.getheader("Content-Type") == "text/event-stream"
        assert response.getheader("X-Accel-Buffering") == "no"
        assert response.getheader("Content-Length") is None
        seen = []
        for _ in range(3):
            job = user.job()
            seen.append(event(response))
            assert (seen[-1]["job_id"], seen[-1]["status"]) == (job, "cancelled")
    with open_stream(running, {**user.headers, "Last-Event-ID": seen[0]["id"]}) as response:
        assert [event(response), event(response)] == seen[1:]


@each([server for server in PLAIN if server.face == "wsgi"])
def test_where_no_thread_may_wait_a_stream_ends_at_once(running: Running, user: User) -> None:
    """With what there is."""
    job = user.job()
    with contextlib.closing(Client(running)) as client:
        answer = client("GET", STREAM, user.headers)
        assert answer.status == 200
        assert answer.body.startswith(b"retry: 2000\n\nid: ")
        assert job.encode() in answer.body
        assert client("GET", f"{POLL}?wait=30", user.headers).json()["result"][0]["job_id"] == job


@each(ASGI)
def test_a_server_tells_when_a_reader_leaves(running: Running, user: User) -> None:
    """Or 20 streams of one user would be all there ever are."""
    for _ in range(25):
        with open_stream(running, user.headers) as response:
            job = user.job()
            while event(response)["job_id"] != job:
                pass


@each(THREADS)
def test_a_thread_is_free_again_when_its_reader_has_left(running: Running, user: User) -> None:
    """Noticed when parts cannot be sent: more readers come and go than may wait at a time."""
    for _ in range(12):
        with open_stream(running, user.headers) as response:
            job = user.job()
            while event(response)["job_id"] != job:
                pass
        for _ in range(3):  # to whom the last reader is no more
            user.job()


@each([*ASGI, *THREADS])
def test_case_122_a_stream_ends_with_its_token(running: Running) -> None:
    """T(exp=+3): ended by +13 s, and it says why (case 122)."""
    now = time.time()
    raw = token(3, now=now, channel=f"c{time.monotonic_ns()}")
    with open_stream(running, {"Cookie": cookies(raw)}) as response:
        rest = response.read()
    assert time.time() < now + 13
    assert b'event: end\ndata: {"code": "token_expired"' in rest


@each([*ASGI, *THREADS])
def test_a_poll_waits_for_an_event(running: Running, user: User) -> None:
    """And ends by itself when there is none."""
    with contextlib.closing(Client(running)) as client:
        assert client("GET", f"{POLL}?wait=0.3", user.headers).json() == {"result": []}
        job = user.job()
        (seen,) = client("GET", f"{POLL}?wait=30", user.headers).json()["result"]
        assert seen["job_id"] == job


@each(ASGI)
def test_events_arrive_on_an_open_socket(running: Running, user: User) -> None:
    """One frame each; it ends with 4401 when the token does."""
    origin = {"Origin": f"http://127.0.0.1:{running.port}"}
    with contextlib.closing(Socket(running, SOCKET, {**user.headers, **origin})) as socket:
        assert socket.status == 101
        for _ in range(3):
            job = user.job()
            assert json.loads(socket.receive())["job_id"] == job
    raw = token(2, now=time.time(), channel=f"c{time.monotonic_ns()}")
    offer = {"Sec-WebSocket-Protocol": "gaq.events"}
    headers = {"Cookie": cookies(raw), **origin, **offer}
    with contextlib.closing(Socket(running, SOCKET, headers)) as socket:
        assert socket.headers["Sec-WebSocket-Protocol"] == "gaq.events"
        assert socket.receive() == (4401, "token_expired")


@each(ASGI)
def test_a_socket_is_refused_with_its_status(running: Running, user: User) -> None:
    """401, 400 and 403, or 403 where the server can no better."""
    refusals: list[tuple[int, str, dict[str, str]]] = [
        (401, "", {}),
        (400, "?last_id=x", user.headers),
        (403, "", {**user.headers, "Origin": "https://evil.example"}),
    ]
    for status, query, headers in refusals:
        with contextlib.closing(Socket(running, SOCKET + query, headers)) as socket:
            assert socket.status == (status if running.server.denies else 403)


@each(ASGI)
def test_25_sockets_one_after_the_other(running: Running, user: User) -> None:
    """A server tells when a socket is gone."""
    for _ in range(25):
        with contextlib.closing(Socket(running, SOCKET, user.headers)) as socket:
            assert socket.status == 101
            job = user.job()
            while json.loads(socket.receive())["job_id"] != job:
                pass
