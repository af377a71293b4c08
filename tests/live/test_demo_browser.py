"""A stranger uses the demo in a real browser: Chromium, driven by the W3C WebDriver protocol."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

pytestmark = pytest.mark.live
T = TypeVar("T")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # W3C WebDriver, section 12
SECONDS = 20
EVENTS = "/api/v1/async_event/"
POLL = r"async_event/?(\?|$)"
ARGUMENTS = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
SIZES = {"wide": (1280, 800), "narrow": (390, 844)}


def eventually(look: Callable[[], T], what: Callable[[], str]) -> T:
    """Return the first true value of a look, taken again and again."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"never seen: {what()}")


class Browser:
    """One session of a browser."""

    def __init__(self, driver: str, profile: Path) -> None:
        self._base = driver
        options = {
            "binary": CHROMIUM,
            "args": [*ARGUMENTS, f"--user-data-dir={profile}"],
        }
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._base = f"{driver}/session/{session['sessionId']}"

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, url: str) -> None:
        """Open a page."""
        self._call("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: object) -> Any:
        """Run a script in the page."""
        return self._call("POST", "/execute/sync", {"script": script, "args": arguments})

    def text(self, css: str = "main") -> str:
        """Return the text that a reader sees in an element."""
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", css))

    def sees(self, words: str, css: str = "main") -> str:
        """Wait until an element shows a text that matches words; return its text."""
        return eventually(
            lambda: text if re.search(words, text := self.text(css)) else "",
            lambda: f"{words!r} in {css}, which says {self.text(css)!r}",
        )

    def click(self, name: str) -> None:
        """Click the first button that is visible, enabled and has this text on it."""
        path = f"//button[normalize-space()='{name}' and not(@disabled)]"
        body = {"using": "xpath", "value": path}

        def find() -> str:
            for found in self._call("POST", "/elements", body):
                if self._call("GET", f"/element/{found[ELEMENT]}/displayed"):
                    return str(found[ELEMENT])
            return ""

        element = eventually(find, lambda: f"a button {name!r}")
        self._call("POST", f"/element/{element}/click", {})

    def into_frame(self, index: int | None) -> None:
        """Go into a frame; None: back to the page."""
        self._call("POST", "/frame", {"id": index})

    def devtools(self, command: str, **parameters: Any) -> Any:
        """Send a command of the DevTools protocol."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def log(self) -> list[dict[str, Any]]:
        """Return what the console has shown."""
        entries: list[dict[str, Any]] = self._call("POST", "/se/log", {"type": "browser"})
        return entries

    def shoot(self, file: Path, *, whole: bool = False) -> None:
        """Save a picture of what is seen, or of the whole page."""
        shot = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(shot["data"]))

    def asked(self, pattern: str) -> list[str]:
        """Return the addresses that the page, or the frame, has asked for and that match."""
        names = "return performance.getEntriesByType('resource').map(entry => entry.name)"
        return [name for name in self.run(names) if re.search(pattern, name)]

    def lose_cookies(self) -> None:
        """Drop all cookies, as the browser does when they expire."""
        self._call("DELETE", "/cookie")

    def quit(self) -> None:
        """End the session."""
        self._call("DELETE", "")


def first_line(process: subprocess.Popen[str], pattern: str) -> str:
    """Return the first group of the first line of output that matches."""
    assert process.stdout is not None
    for line in process.stdout:
        match = re.search(pattern, line)
        if match:
            return match[1]
    raise AssertionError(f"the process ended without saying {pattern!r}")


@pytest.fixture(params=["asgi", "wsgi"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the demo on a free port and tell its address."""
    command = [sys.executable, "-m", "gaq_middleware", "demo", "--port", "0"]
    if request.param == "wsgi":
        command.append("--wsgi")
    out = subprocess.PIPE
    with subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield first_line(process, r"(http://\S+)")
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=SECONDS)
            assert process.returncode == 0
            assert not re.search("ERROR|Traceback", said), said
        finally:
            process.kill()


ONE_FACE = pytest.mark.parametrize("address", ["asgi"], indirect=True)  # it is the page that acts


class Outside:
    """Ada with a script, beside her browser."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._headers: dict[str, str] = {}
        self._headers["X-Async-Token"] = self("POST", "/token", b"user=ada")["token"]

    def open(self, method: str, path: str, body: bytes | None = None) -> Any:
        """Send a request; return the answer while it still comes."""
        request = urllib.request.Request(self._address + path, body, self._headers, method=method)
        return urllib.request.urlopen(request, timeout=SECONDS)

    def __call__(self, method: str, path: str, body: bytes | None = None) -> Any:
        """Return the JSON of an answer."""
        with self.open(method, path, body) as answer:
            return json.load(answer)

    def make_event(self) -> str:
        """Run a query and cancel it; return the start of its id, as the page shows it."""
        job_id = str(self("POST", "/api/v1/chart/data")["job_id"])
        self("POST", f"{EVENTS}{job_id}/cancel")
        return job_id[:8]


class Relay:
    """Passes bytes between a browser and the demo, until it cuts all connections."""

    def __init__(self, target: str) -> None:
        host, port = target.removeprefix("http://").split(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._start(self._accept)

    @staticmethod
    def _start(run: Callable[..., None], *arguments: socket.socket) -> None:
        threading.Thread(target=run, args=arguments, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, far = self._listener.accept()[0], socket.create_connection(self._target)
                self._open += [near, far]
                self._start(self._pass, near, far)
                self._start(self._pass, far, near)

    @staticmethod
    def _pass(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def cut(self) -> None:
        """End all connections that are open."""
        while self._open:
            ended = self._open.pop()
            with suppress(OSError):
                ended.shutdown(socket.SHUT_RDWR)
            ended.close()

    def close(self) -> None:
        """End everything."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()


@pytest.fixture
def relay(address: str) -> Iterator[Relay]:
    """Stand between the browser and the demo."""
    with closing(Relay(address)) as between:
        yield between


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """Start a browser with an empty profile."""
    if not (CHROMIUM and DRIVER):
        missing = "chromium and chromedriver are not both installed"
        pytest.fail(missing) if os.environ.get("CI") == "true" else pytest.skip(missing)
    command = [str(DRIVER), "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = first_line(process, r"started successfully on port (\d+)")
            session = Browser(f"http://127.0.0.1:{port}", tmp_path / "profile")
            yield session
            session.quit()
        finally:
            process.terminate()


def look(browser: Browser, size: str, scheme: str) -> None:
    """Look at the page in a size and a colour scheme."""
    width, height = SIZES[size]
    browser.devtools(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=height,
        deviceScaleFactor=1,
        mobile=size == "narrow",
    )
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.devtools("Emulation.setEmulatedMedia", features=media)


def test_stranger(browser: Browser, address: str, tmp_path: Path) -> None:
    """A stranger finds everything by the names on the buttons, and sees why they are refused."""
    browser.open(address)
    browser.click("Run query")
    browser.sees(r"401 Unauthorized\. No async token came", "#message")
    browser.click("Log in")
    browser.sees("Logged in as Ada", "header")
    browser.sees(r"Valid for [45]:\d\d", "#token")
    browser.sees(r"user sub\s+ada", "#token")

    browser.click("Run query")
    browser.sees(r"Query 1 \w{8} \d+ %", "#jobs")
    browser.sees(r"Query 1 \w{8} done", "#jobs")
    browser.sees(r"done\s*\w{8}\s*result", "#events")

    browser.click("Run query")
    browser.sees(r"Query 2 \w{8} \d+ %", "#jobs")
    browser.click("Try as the second user")
    said = browser.sees("may not cancel", "#second-says")
    assert "Bob may not read query 2 of Ada." in said
    assert said.count("403 Forbidden. The job belongs to somebody else.") == 2
    browser.click("Cancel")
    browser.sees(r"Query 2 \w{8} cancelled", "#jobs")
    browser.sees(r"cancelled\s*\w{8}", "#events")

    browser.click("Poll without a token")
    browser.sees(r"nobody\s+GET /api/v1/async_event/\s+401 token_missing", "#log")
    browser.into_frame(0)
    browser.click("Run query")
    browser.sees("These are all events", "body")
    assert len(browser.text("#events").splitlines()) == 1
    browser.into_frame(None)
    browser.sees(r"Guest\s+POST /api/v1/chart/data\s+202", "#log")

    for size in SIZES:
        for scheme in ("light", "dark"):
            look(browser, size, scheme)
            browser.shoot(tmp_path / f"{size}-{scheme}.png")
            assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    browser.click("Log out")
    browser.sees("You have none: log in", "main")
    # The refusals that were asked for are all that the console may show.
    shown = [str(entry["message"]) for entry in browser.log()]
    assert [text for text in shown if not re.search("status of 40[13]", text)] == []
    assert len(shown) == 4


def test_second_login(browser: Browser, address: str) -> None:
    """Bob sees nothing of Ada; after a reload Ada's events are there again."""
    browser.open(address)
    browser.click("Log in")
    browser.click("Run query")
    browser.sees(r"done\s*\w{8}\s*result", "#events")
    browser.click("Log out")
    browser.run("document.querySelector('[value=bob]').click()")
    browser.click("Log in")
    browser.sees("Logged in as Bob", "header")
    assert browser.text("#events") == browser.text("#jobs") == ""
    browser.click("Log out")
    browser.run("document.querySelector('[value=ada]').click()")
    browser.click("Log in")
    browser.sees(r"done\s*\w{8}\s*result", "#events")
    browser.open(address)
    browser.sees(r"done\s*\w{8}\s*result", "#events")


def test_expired(browser: Browser, address: str) -> None:
    """When the token's life ends the page says so, and offers the log in."""
    browser.open(address)
    browser.click("Log in")
    browser.sees("Logged in as Ada", "header")
    browser.lose_cookies()
    browser.run("me.expires = performance.now()")
    browser.sees(r"Your token has expired\. Log in again\.", "#message")
    browser.click("Log in")
    browser.sees("Logged in as Ada", "header")
    assert browser.text("#message") == ""


def log_in(browser: Browser, address: str) -> None:
    """Open the page and log in as Ada; her stream is open then."""
    browser.open(address)
    browser.click("Log in")
    browser.sees("^live$", "#live")


def test_live(browser: Browser, address: str) -> None:
    """Events come by the stream, also those that others caused; nothing is polled for."""
    log_in(browser, address)
    browser.sees(rf"Ada\s+GET {EVENTS}stream\s+200 open", "#log")
    job = Outside(address).make_event()
    browser.sees(rf"cancelled\s*{job}", "#events")
    browser.sees(rf"Ada\s+event \d+-\d+ of query {job}\s+cancelled", "#log")
    browser.into_frame(0)
    for count in (1, 2):  # the second stream begins after the first one's event
        browser.click("Run query")
        browser.sees("Running", "#message")
        browser.sees("These are all events", "body")
        assert browser.text("#events").count("done") == count
    assert browser.asked("progress")
    assert browser.asked(POLL) == []
    browser.into_frame(None)
    browser.sees(rf"Guest\s+GET {EVENTS}stream\s+200 open", "#log")
    browser.sees(r"Guest\s+event \d+-\d+ of query \w{8}\s+done", "#log")
    assert "cut off" not in browser.text("#log")
    assert browser.asked(POLL) == []
    browser.click("Poll without a token")
    browser.sees("401 token_missing", "#log")
    assert len(browser.asked(POLL)) == 1
    browser.click("Log out")
    browser.sees(r"Ada\s+end The page has closed the stream\.\s+closed", "#log")
    assert browser.text("#live") == ""


def test_reload(browser: Browser, address: str) -> None:
    """A query that runs is still there after a reload, and can be cancelled."""
    log_in(browser, address)
    browser.click("Run query")
    browser.click("Run query")
    browser.sees(r"Query 2 \w{8} \d+ %", "#jobs")
    browser.click("Cancel")
    job = browser.sees(r"Query 1 \w{8} [1-9]\d* %", "#jobs").split()[-4]
    browser.open(address)
    assert f"Query 1 {job}" in browser.sees(r"Query \d \w{8} [1-9]\d* %", "#jobs")
    assert "Query 2" not in browser.text("#jobs")
    browser.sees(rf"Query 1 {job} done", "#jobs")
    browser.sees(rf"done\s*{job}", "#events")
    assert browser.text("#events").count(job) == 1
    browser.open(address)
    browser.sees(rf"done\s*{job}", "#events")
    assert browser.text("#jobs") == ""
    browser.click("Run query")
    browser.sees(r"Query 1 \w{8} \d+ %", "#jobs")
    browser.open(address)
    browser.click("Cancel")
    browser.sees(r"Query 1 \w{8} cancelled", "#jobs")


def test_comes_back(browser: Browser, address: str, relay: Relay) -> None:
    """After the stream was cut it goes on where it was: nothing is missing, nothing twice."""
    log_in(browser, relay.address)
    ada = Outside(address)
    first = ada.make_event()
    browser.sees(rf"cancelled\s*{first}", "#events")
    relay.cut()
    browser.sees("coming back", "#live")
    second = ada.make_event()
    browser.sees(rf"cancelled\s*{second}", "#events")
    assert re.findall(r"\b[0-9a-f]{8}\b", browser.text("#events")) == [second, first]
    browser.sees("^live$", "#live")
    browser.sees(r"end The stream has ended\. The browser opens it again\.\s+cut off", "#log")
    browser.sees(rf"GET {EVENTS}stream Last-Event-ID: \d+-\d+\s+200 open", "#log")
    browser.into_frame(0)
    browser.click("Run query")
    browser.sees("These are all events", "body")
    browser.click("Run query")
    browser.sees("Running, [1-9]", "body")
    relay.cut()
    browser.sees("These are all events", "body")
    assert browser.text("#events").count("done") == 2
    browser.into_frame(None)
    browser.sees(r"Guest\s+end The stream has ended\. The frame opens it again\.\s+cut off", "#log")


@ONE_FACE
def test_out_of_view(browser: Browser, address: str) -> None:
    """A page that nobody looks at holds no stream; when it is seen again it has missed nothing."""
    log_in(browser, address)
    ada = Outside(address)
    first = ada.make_event()
    browser.sees(first, "#events")
    hide = (
        "Object.defineProperty(document, 'hidden', {value: arguments[0], configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'));"
    )
    browser.run(hide, True)
    browser.sees("The page has closed the stream", "#log")
    second = ada.make_event()
    assert second not in browser.text("#events")
    browser.run(hide, False)
    browser.sees(second, "#events")
    assert re.findall(r"\b[0-9a-f]{8}\b", browser.text("#events")) == [second, first]
    browser.sees(rf"GET {EVENTS}stream\?last_id=\d+-\d+\s+200 open", "#log")


@ONE_FACE
def test_refused(browser: Browser, relay: Relay) -> None:
    """When the stream is refused the page says why; so does the frame of the guest."""
    log_in(browser, relay.address)
    browser.into_frame(0)
    browser.run("token = 'x'")
    browser.click("Run query")
    browser.sees(r"^401\. \w", "#message")
    browser.click("Run query")
    browser.sees("Running, [1-9]", "#message")
    browser.run("token = 'x'")
    relay.cut()
    browser.sees(r"^401\. \w", "#message")
    browser.into_frame(None)
    browser.lose_cookies()
    relay.cut()
    browser.sees(r"401 Unauthorized\. No async token came", "#message")
    browser.sees("You have none: log in", "main")
    browser.click("Log in")
    browser.sees("^live$", "#live")


@ONE_FACE
def test_other_user(browser: Browser, relay: Relay) -> None:
    """When another tab has logged in as Bob, nothing of the two is mixed."""
    log_in(browser, relay.address)
    browser.click("Run query")
    browser.sees(r"done\s*\w{8}", "#events")
    asks = "return fetch('/%s', {method: 'POST', body: new URLSearchParams({user: 'bob'})})"
    browser.run(asks % "login" + ".then(() => 1)")
    browser.run(asks % "api/v1/chart/data" + ".then(() => 1)")
    relay.cut()
    browser.sees("Logged in as Bob", "header")
    browser.sees(r"done\s*\w{8}", "#events")
    assert len(re.findall(r"\b[0-9a-f]{8}\b", browser.text("#events"))) == 1
    assert browser.text("#jobs") == ""


def test_too_many(browser: Browser, address: str, request: pytest.FixtureRequest) -> None:
    """With too many streams open the page says so, or comes back for events; then it is live."""
    ada = Outside(address)
    with ExitStack() as opened:
        for _ in range(20):
            opened.enter_context(ada.open("GET", f"{EVENTS}stream"))
        browser.open(address)
        browser.click("Log in")
        if request.node.callspec.params["address"] == "asgi":
            browser.sees("503 Service Unavailable", "#message")
            browser.sees("503 too_many_streams", "#log")
        else:
            browser.sees("coming back", "#live")
            browser.sees(ada.make_event(), "#events")
    browser.sees("^live$", "#live")
    browser.sees(ada.make_event(), "#events")
    assert browser.text("#message") == ""
