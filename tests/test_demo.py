"""The demo: the app behind both faces, and the command as a stranger runs it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import Client as WerkzeugClient

from gaq_middleware.demo.app import Demo, demo_settings
from gaq_middleware.demo.faces import asgi_app, wsgi_app
from gaq_middleware.demo.serving import welcome
from tests.helpers import POLL, Answer, Ask, call_asgi, cookies

Process = subprocess.Popen[str]
QUERY = "/api/v1/chart/data"
MEMORY = "Jobs and secrets live in memory only."


class Browser:
    """A client of the demo that keeps its cookie."""

    def __init__(self, face: str, demo: Demo) -> None:
        self._app: Any = asgi_app(demo) if face == "asgi" else wsgi_app(demo)
        self._is_asgi = face == "asgi"
        self.cookie = ""

    def __call__(self, method: str, target: str, body: str = "", **headers: str) -> Answer:
        """Send a request with the cookie; header names with _ for -."""
        pairs = [("Host", "app.example"), *((k.replace("_", "-"), v) for k, v in headers.items())]
        if self.cookie:
            pairs.append(("Cookie", cookies(self.cookie)))
        if self._is_asgi:
            request = Ask(method, target, pairs, body=body.encode())
            answer = asyncio.run(call_asgi(self._app, request))
        else:
            found = WerkzeugClient(self._app, use_cookies=False).open(
                target, method=method, headers=pairs, data=body.encode()
            )
            answer = Answer(found.status_code, list(found.headers), found.data)
        cookie = answer.cookie()
        self.cookie = self.cookie if cookie is None else cookie
        return answer

    def log_in(self, user: str = "ada") -> Browser:
        """Log in."""
        assert self("POST", "/login", f"user={user}").status == 200
        return self

    def events_after(self, count: int, **headers: str) -> list[dict[str, Any]]:
        """Poll until there are so many events; return them all."""
        end = time.monotonic() + 10
        while time.monotonic() < end:
            events: list[dict[str, Any]] = self("GET", POLL, **headers).json()["result"]
            if len(events) >= count:
                return events
            time.sleep(0.01)
        raise AssertionError(f"{count} events never came")


@pytest.fixture
def demo() -> Demo:
    """The demo with queries that take no time."""
    return Demo(demo_settings(), seconds=0.05)


@pytest.fixture
def slow() -> Demo:
    """The demo with queries that do not end by themselves while a test looks."""
    return Demo(demo_settings(), seconds=600)


@pytest.fixture(params=["asgi", "wsgi"])
def face(request: pytest.FixtureRequest) -> str:
    """Each of the faces."""
    return str(request.param)


def test_query(face: str, demo: Demo) -> None:
    """Who is logged in runs a query, sees its one event, its progress and its result."""
    ada = Browser(face, demo).log_in()
    job = ada("POST", QUERY)
    assert (job.status, job.json()["user_id"]) == (202, "ada")
    (event,) = ada.events_after(1)
    assert (event["status"], event["job_id"]) == ("done", job.json()["job_id"])
    assert ada("GET", f"/progress/{event['job_id']}").json() == {"status": "done", "percent": 100}
    assert ada("GET", event["result_url"]).json()["job_id"] == event["job_id"]
    assert ada("GET", f"{POLL}?last_id={event['id']}").json()["result"] == []


def test_cancel(face: str, slow: Demo) -> None:
    """A cancel ends the query with one event, and stops the work behind it."""
    ada = Browser(face, slow).log_in()
    job_id = ada("POST", QUERY).json()["job_id"]
    (work,) = slow._works.values()
    assert ada("GET", f"/progress/{job_id}").json()["percent"] == 0
    assert ada("POST", f"{POLL}{job_id}/cancel").status == 200
    assert work.stop.is_set()
    (event,) = ada.events_after(1)
    assert event["status"] == "cancelled"
    assert ada("POST", f"{POLL}{job_id}/cancel").code == "job_not_found"
    assert ada("GET", f"/result/{job_id}").code == "not_found"


def test_second_user(face: str, slow: Demo) -> None:
    """The second user may neither read nor cancel nor see the query, with a token that is fine."""
    ada, bob = Browser(face, slow).log_in(), Browser(face, slow)
    job_id = ada("POST", QUERY).json()["job_id"]
    header = {"X_Async_Token": bob("POST", "/token", "user=bob").json()["token"]}
    for method, target in [
        ("GET", f"{POLL}{job_id}"),
        ("POST", f"{POLL}{job_id}/cancel"),
        ("GET", f"/progress/{job_id}"),
        ("GET", f"/result/{job_id}"),
    ]:
        answer = bob(method, target, **header)
        assert (answer.status, answer.code) == (403, "not_job_owner")
        assert answer.json()["detail"] == "The job belongs to somebody else."
    assert bob("GET", POLL, **header).json() == {"result": []}
    ada("POST", f"{POLL}{job_id}/cancel")


def test_guest(face: str, demo: Demo) -> None:
    """A guest needs no cookie, gets none, and sees their own events only."""
    ada, guest = Browser(face, demo).log_in(), Browser(face, demo)
    ada("POST", QUERY)
    ada.events_after(1)
    header = {"X_GuestToken": guest("POST", "/guest-token").json()["token"]}
    assert guest("GET", POLL, **header).json() == {"result": []}
    job = guest("POST", QUERY, **header).json()
    assert job["channel_id"].startswith("guest-")
    (event,) = guest.events_after(1, **header)
    assert event["job_id"] == job["job_id"]
    assert len(ada.events_after(1)) == 1
    assert guest("GET", "/whoami", **header).json()["name"] == "A guest"
    assert guest.cookie == ""


def test_two_guests(demo: Demo) -> None:
    """Every guest has a channel of their own."""
    channels = set()
    for _ in range(2):
        guest = Browser("wsgi", demo)
        token = guest("POST", "/guest-token").json()["token"]
        channels.add(guest("POST", QUERY, X_GuestToken=token).json()["channel_id"])
    assert len(channels) == 2


def test_nobody(face: str, demo: Demo) -> None:
    """Without a token nothing is run and nothing is told."""
    nobody = Browser(face, demo)
    for method, target in [("POST", QUERY), ("GET", POLL), ("GET", "/progress/x")]:
        answer = nobody(method, target)
        assert (answer.status, answer.code) == (401, "token_missing")
    assert nobody("GET", "/whoami").json()["code"] == "token_missing"


def test_whoami(face: str, demo: Demo) -> None:
    """The app tells what the cookie says, and how long it is good."""
    ada = Browser(face, demo).log_in()
    told = ada("GET", "/whoami").json()
    assert (told["user"], told["name"], told["claims"]["sub"]) == ("ada", "Ada", "ada")
    assert 290 < told["seconds_left"] <= 300
    assert ada("POST", "/logout").cookie() == ""
    assert ada("GET", "/whoami").json()["user"] is None
    assert ada("GET", POLL).code == "token_missing"


@pytest.mark.parametrize("cookie", ["x", "a.b.c", "a.W10.c"])
def test_whoami_by_header(face: str, demo: Demo, cookie: str) -> None:
    """Who comes by the header is told without claims, whatever the cookie holds."""
    bob = Browser(face, demo)
    token = bob("POST", "/token", "user=bob").json()["token"]
    bob.cookie = cookie
    told = bob("GET", "/whoami", X_Async_Token=token).json()
    assert (told["user"], told["claims"], told["seconds_left"]) == ("bob", {}, None)


@pytest.mark.parametrize("body", ["", "user=eve", "user", "\xff=%ff"])
def test_unknown_user(face: str, demo: Demo, body: str) -> None:
    """Only Ada and Bob are known."""
    answer = Browser(face, demo)("POST", "/login", body)
    assert (answer.status, answer.code, answer.cookie()) == (400, "bad_request", None)


def test_pages(face: str, demo: Demo) -> None:
    """The pages load nothing from elsewhere, and the browser would not let them."""
    for target in ("/", "/guest"):
        answer = Browser(face, demo)("GET", target)
        assert (answer.status, answer.get("Content-Type")) == (200, "text/html; charset=utf-8")
        assert str(answer.get("Content-Security-Policy")).startswith("default-src 'none'; ")
        links = re.findall(rb"(?:src|href)=\"([^\"]*)\"", answer.body)
        assert all(link.startswith((b"/", b"data:")) for link in links)
    assert Browser(face, demo)("GET", "/elsewhere").status == 404
    assert Browser(face, demo)("GET", "/login").status == 405


def test_address_of_ipv6(tmp_path: Path) -> None:
    """An IPv6 address stands in brackets."""

    class Listener(socket.socket):
        def getsockname(self) -> Any:
            return ("::1", 8000, 0, 0)

    with Listener() as listener:
        assert "http://[::1]:8000 (WSGI" in welcome(listener, tmp_path, demo_settings(), wsgi=True)


@contextmanager
def running(*options: str, folder: Path, kept: str = MEMORY) -> Iterator[tuple[Process, str]]:
    """Run `gaq demo` on a free port; tell what it has printed. Ctrl-C must end it well."""
    command = [sys.executable, "-W", "error", "-m", "gaq_middleware", "demo", "--port", "0"]
    with subprocess.Popen(
        [*command, *options],
        env={"TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            printed = "".join(iter(process.stdout.readline, f"{kept} Ctrl-C ends the demo.\n"))
            yield process, printed
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, out.strip(), err) == (0, "", "")
    assert not list(folder.iterdir())


SERVERS = pytest.mark.parametrize(
    ("options", "server"), [([], "uvicorn"), (["--wsgi"], "waitress")], ids=["asgi", "wsgi"]
)


@pytest.mark.skipif(
    not shutil.which("curl") and os.environ.get("CI") != "true", reason="the lines need curl"
)
@SERVERS
@pytest.mark.parametrize("store", ["memory", "redis"])
def test_printed_lines(
    request: pytest.FixtureRequest, options: list[str], server: str, store: str, tmp_path: Path
) -> None:
    """The lines that `gaq demo` prints work as they are; Ctrl-C ends it well, without a trace."""
    pytest.importorskip(server)
    kept = MEMORY
    if store == "redis":
        url = request.getfixturevalue("redis_server").url
        options, kept = [*options, "--store", url], f"Jobs live in {url}."
    with running(*options, folder=tmp_path, kept=kept) as (_, printed):
        lines = [line.strip() for line in printed.splitlines() if "curl " in line]
        ran = [
            subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
            for line in lines
        ]
    login, submitted, refusal = (json.loads(ran[i].stdout) for i in (0, 1, 3))
    assert login == {"user": "ada", "name": "Ada"}
    (told,) = re.findall(r"^id: (.+)\ndata: (.+)\n\n", ran[2].stdout, re.MULTILINE)
    event = json.loads(told[1])
    assert (event["id"], event["job_id"]) == (told[0], submitted["job_id"])
    assert event["status"] == "done"
    assert (refusal["status"], refusal["code"]) == (401, "token_missing")
    timeout = 28  # of curl: the stream was open to the end of its time
    assert [done.returncode for done in ran] == [0, 0, timeout, 0]
    assert server in printed


@SERVERS
def test_ctrl_c(options: list[str], server: str, tmp_path: Path) -> None:
    """Ctrl-C ends the demo at once and in silence, also with streams open and queries running."""
    pytest.importorskip(server)
    with running(*options, folder=tmp_path) as (process, printed), ExitStack() as opened:
        host, port = re.findall(r"http://([\d.]+):(\d+)", printed)[0]

        def send(method: str, target: str, body: str = "", **headers: str) -> HTTPResponse:
            connection = HTTPConnection(host, int(port), timeout=5)
            opened.callback(connection.close)
            connection.request(method, target, body, headers)
            return connection.getresponse()

        login = send("POST", "/login", "user=ada")
        cookie = str(login.getheader("Set-Cookie")).partition(";")[0]
        assert send("POST", QUERY, Cookie=cookie).status == 202
        for _ in range(3):
            stream = send("GET", f"{POLL}stream", Cookie=cookie)
            assert stream.readline() == b"retry: 2000\n"
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        assert process.wait(10) == 0
        assert time.monotonic() - start < 1.5
