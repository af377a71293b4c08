"""A stranger uses the demo in a real browser: Chromium, driven by the W3C WebDriver protocol."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

pytestmark = pytest.mark.live
T = TypeVar("T")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # W3C WebDriver, section 12
SECONDS = 20
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
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield first_line(process, r"(http://\S+)")
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()


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
