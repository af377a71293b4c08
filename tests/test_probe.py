"""`gaq check --url`: each planted fault is one finding, and a good deployment has none."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from werkzeug.serving import make_server

from gaq_middleware.cli import main
from gaq_middleware.core.frames import HELLO
from gaq_middleware.wsgi import AsyncQueryMiddleware
from tests.helpers import GUEST, K2, Answer, Ask, K, make_settings, page
from tests.servers import free_port, need_redis

TLS = str(Path(__file__).parent / "tls.pem")
Forward = Callable[[Ask], Answer]
Fault = Callable[[Ask, Forward], Answer]
"""What a proxy does to a request, and to the answer that comes when it is forwarded."""
Probe = Callable[..., tuple[int, str]]
"""Runs the command with words after the URL, and with variables without `GAQ_`, None for
not set; gives its exit code and its text."""


def good(request: Ask, forward: Forward) -> Answer:
    """Pass on everything."""
    return forward(request)


def strips(*names: str) -> Fault:
    """Drop headers of requests."""

    def proxy(request: Ask, forward: Forward) -> Answer:
        request.headers = [pair for pair in request.headers if pair[0].lower() not in names]
        return forward(request)

    return proxy


def hides(*names: str) -> Fault:
    """Drop headers of answers."""

    def proxy(request: Ask, forward: Forward) -> Answer:
        answer = forward(request)
        answer.headers = [pair for pair in answer.headers if pair[0].lower() not in names]
        return answer

    return proxy


def sets(name: str, pattern: str, replacement: str) -> Fault:
    """Rewrite a header of answers."""

    def proxy(request: Ask, forward: Forward) -> Answer:
        answer = forward(request)
        answer.headers = [
            (key, re.sub(pattern, replacement, value) if key == name else value)
            for key, value in answer.headers
        ]
        return answer

    return proxy


def answers(status: int, body: bytes = b"", *headers: tuple[str, str], when: int = 401) -> Fault:
    """Put an answer of its own in the place of those with a status."""

    def proxy(request: Ask, forward: Forward) -> Answer:
        answer = forward(request)
        return Answer(status, list(headers), body) if answer.status == when else answer

    return proxy


def adds(*pairs: tuple[str, str]) -> Fault:
    """Add headers to requests."""

    def proxy(request: Ask, forward: Forward) -> Answer:
        request.headers += pairs
        return forward(request)

    return proxy


def renames_host(request: Ask, forward: Forward) -> Answer:
    """Ask the app by its inner name, as nginx does unless told otherwise."""
    request.headers = [
        (key, "inner:8080" if key.lower() == "host" else value) for key, value in request.headers
    ]
    return forward(request)


def caches(*, by: str = "", age: bool = False) -> Fault:
    """Keep good answers, by the path and a header, and give them again."""
    kept: dict[tuple[str, str], Answer] = {}

    def proxy(request: Ask, forward: Forward) -> Answer:
        asked = "".join(value for key, value in request.headers if key.lower() == by)
        key = (f"{request.method} {request.target}", asked)
        if key in kept:
            extra = [("Age", "7")] if age else []
            return Answer(kept[key].status, [*kept[key].headers, *extra], kept[key].body)
        answer = forward(request)
        if answer.status == 200:
            kept[key] = answer
        return answer

    return proxy


def replaces_body(request: Ask, forward: Forward) -> Answer:
    """Put a page in the place of a refusal's body, and keep its headers."""
    answer = forward(request)
    if answer.status == 401:
        answer.headers = [pair for pair in answer.headers if pair[0] != "Content-Length"]
        answer.body = LOGIN_PAGE
    return answer


def changes_status(request: Ask, forward: Forward) -> Answer:
    """Say 403 for 401."""
    answer = forward(request)
    answer.status = 403 if answer.status == 401 else answer.status
    return answer


def blocks_post(request: Ask, forward: Forward) -> Answer:
    """Let only reading pass."""
    return Answer(403, [], b"no") if request.method == "POST" else forward(request)


def on_streams(fault: Fault) -> Fault:
    """Have a fault where event streams are asked for."""

    def proxy(request: Ask, forward: Forward) -> Answer:
        return (fault if "/stream?" in request.target else good)(request, forward)

    return proxy


def begins(body: bytes, *headers: tuple[str, str]) -> Fault:
    """Answer as an event stream that begins so."""
    return on_streams(answers(200, body, ("Content-Type", "text/event-stream"), *headers, when=200))


def holds_back(request: Ask, forward: Forward) -> Answer:
    """Collect for longer than anybody waits."""
    time.sleep(3)
    return Answer(504, [], b"")


def knows_no_streams(request: Ask, forward: Forward) -> Answer:
    """Have our endpoints as they were before there were streams."""
    request.target = request.target.replace("/stream?", "/an-unknown-job?")
    return forward(request)


def below(prefix: str) -> Fault:
    """Serve the app below a prefix that the app does not know."""

    def proxy(request: Ask, forward: Forward) -> Answer:
        if not request.target.startswith(prefix):
            return Answer(404, [], b"nothing")
        request.target = request.target.removeprefix(prefix)
        return forward(request)

    return proxy


class Proxy(ThreadingHTTPServer):
    """A reverse proxy in front of a port of this machine, with a fault."""

    daemon_threads = True

    def __init__(self, target: int, fault: Fault, *, tls: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target, self.fault = target, fault
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server_port}"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(TLS)
            self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that go away."""

    def forward(self, request: Ask) -> Answer:
        """Ask the app."""
        connection = HTTPConnection("127.0.0.1", self.target, timeout=10)
        try:
            connection.putrequest(
                request.method, request.target, skip_host=True, skip_accept_encoding=True
            )
            for key, value in request.headers:
                connection.putheader(key, value)
            connection.endheaders()
            response = connection.getresponse()
            headers = [pair for pair in response.getheaders() if pair[0] != "Transfer-Encoding"]
            return Answer(response.status, headers, response.read())
        finally:
            connection.close()


class _Handler(BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        request = Ask(self.command, self.path, list(self.headers.items()))
        answer = self.server.fault(request, self.server.forward)
        self.send_response_only(answer.status)
        for key, value in answer.headers:
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(answer.body)

    do_POST = do_GET  # noqa: N815 - as http.server wants it

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def wsgi_page(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Answer everything with a page."""
    status, headers, body = page(Ask())
    start_response(f"{status} OK", headers)
    return [body]


class World:
    """Starts apps and proxies in threads, and stops them."""

    def __init__(self) -> None:
        self._servers: list[Any] = []

    def app(self, app: Any = None, **options: Any) -> int:
        """Serve an app, ours with these settings unless given; return its port."""
        if app is None:
            user_from = options.pop("user_from", None)
            app = AsyncQueryMiddleware(wsgi_page, make_settings(**options), user_from=user_from)
        server = make_server("127.0.0.1", 0, app, threaded=True)
        self._start(server)
        return server.server_port

    def proxy(self, target: int, fault: Fault = good, *, tls: bool = False) -> str:
        """Serve a proxy; return its URL."""
        server = Proxy(target, fault, tls=tls)
        self._start(server)
        return server.url

    def _start(self, server: Any) -> None:
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Stop all."""
        for server in self._servers:
            server.shutdown()
            server.server_close()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Nothing is served yet."""
    monkeypatch.setattr("werkzeug.serving.WSGIRequestHandler.log", lambda *_, **__: None)
    world = World()
    yield world
    world.stop()


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Probe:
    """The command, with K in the environment unless told otherwise."""

    def run(url: str, *words: str, **variables: str | None) -> tuple[int, str]:
        with monkeypatch.context() as patch:
            for name, value in {"jwt_secret": K, **variables}.items():
                if value is not None:
                    patch.setenv(f"GAQ_{name.upper()}", value)
            code = main(["check", "--url", url, *words])
        out, err = capsys.readouterr()
        assert not [secret for secret in (K, K2, GUEST, "Traceback", "eyJ") if secret in out + err]
        return code, re.sub(r"\s+", " ", out or err)

    return run


def the_finding(ran: tuple[int, str]) -> str:
    """Return the one finding."""
    code, text = ran
    assert code == 1
    assert text.startswith("1 finding: - "), text
    return text.removeprefix("1 finding: - ").strip()


LOGIN_PAGE = b"<html>log in</html>"
HTML = ("Content-Type", "text/html")
LATE = formatdate(time.time() - 3600, usegmt=True)
STREAM = "GET http"
TOO_MANY = on_streams(answers(503, b"", ("X-GAQ-Error", "too_many_streams"), when=200))
FAULTS: list[tuple[str, Fault, str, str]] = [
    # our 401
    ("a redirect", answers(302, b"", ("Location", "/login")), "GET http", "Exempt the path"),
    ("a page with 200", answers(200, LOGIN_PAGE, HTML), "GET http", "answers 200, without"),
    ("a page with 401", answers(401, LOGIN_PAGE, HTML), "GET http", "proxy_intercept_errors"),
    ("a page with our headers", replaces_body, "Our 401", "the body"),
    ("a 404", answers(404, b""), "GET http", "the prefix of the app in --url"),
    ("a 502", answers(502, b"<html>"), "GET http", "logs of the proxy"),
    ("another status", changes_status, "Our 401", "the status"),
    ("no X-GAQ-Error", hides("x-gaq-error"), "Our 401", "X-GAQ-Error"),
    ("no WWW-Authenticate", hides("www-authenticate"), "Our 401", "WWW-Authenticate"),
    ("a clock", sets("Date", ".*", LATE), "The clock", "behind the one here"),
    # what does not arrive
    ("no cookie", strips("cookie"), "Cookie", "Let the proxy pass Cookie"),
    ("no header", strips("x-async-token"), "X-Async-Token", "pass X-Async-Token"),
    ("no guest header", strips("x-guesttoken"), "X-GuestToken", "pass X-GuestToken"),
    ("no POST", blocks_post, "POST", "pass POST"),
    ("another host", renames_host, "Host", "proxy_set_header Host"),
    # the cookie that is set
    ("no Set-Cookie", hides("set-cookie"), "Set-Cookie", "does not arrive"),
    ("no HttpOnly", sets("Set-Cookie", "; HttpOnly", ""), "Set-Cookie", "no HttpOnly"),
    ("a Secure too many", sets("Set-Cookie", "$", "; Secure"), "Set-Cookie", "with Secure"),
    ("another SameSite", sets("Set-Cookie", "=Lax", "=None"), "Set-Cookie", "SameSite=None"),
    ("a domain", sets("Set-Cookie", "$", "; Domain=a.example"), "Set-Cookie", "Domain=a.example"),
    ("another path", sets("Set-Cookie", "Path=/", "Path=/x"), "Set-Cookie", "Path=/x"),
    ("no Max-Age", sets("Set-Cookie", "Max-Age=[0-9]+; ", ""), "Set-Cookie", "no Max-Age"),
    ("another value", sets("Set-Cookie", "=[^;]*;", "=sealed;"), "Set-Cookie", "another value"),
    # caches
    ("a cache for all", caches(), "A cache", "to others"),
    ("a cache for users", caches(by="cookie", age=True), "A cache", "say no-store"),
    ("no no-store", sets("Cache-Control", "private, no-store", "public"), "Cache-Control", "loses"),
    # event streams
    ("held back", on_streams(holds_back), STREAM, "is held back: nothing"),
    ("another type", sets("Content-Type", "text/event-s.*", "text/x"), STREAM, 'Type "text/x"'),
    ("no type", on_streams(hides("content-type")), STREAM, "Let the proxy pass it on"),
    ("compressed", begins(b"", ("Content-Encoding", "br")), STREAM, 'compressed ("br")'),
    ("a length", begins(HELLO, ("Content-Length", "13")), STREAM, "waits for all of it"),
    ("another first part", begins(b"data: x\n\n"), STREAM, "another first part"),
    ("no first part", begins(b""), STREAM, "another first part"),
    ("a gate", on_streams(answers(403, when=200)), STREAM, "answers 403, which is not ours"),
    ("an own refusal", on_streams(strips("cookie")), "A good token", "leads to 401 token_missing"),
    ("too many streams", TOO_MANY, "GAQ_MAX_STREAMS", "Raise it"),
]


@pytest.mark.parametrize(
    ("fault", "subject", "words"), [pytest.param(*row[1:], id=row[0]) for row in FAULTS]
)
def test_a_fault_of_a_proxy_is_one_finding(
    fault: Fault,
    subject: str,
    words: str,
    world: World,
    probe: Probe,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the proxy breaks is named, with the mend; the exit code is 1."""
    monkeypatch.setattr("gaq_middleware.cli.client.STREAM_TIMEOUT", 1.0)
    guests = {"guest_secret": GUEST, "guest_audience": "superset"}
    url = world.proxy(world.app(**guests), fault)

    text = the_finding(probe(url, **guests))

    assert text.startswith(subject)
    assert words in text


@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [
        (200, [], "Wrap the app from outside"),
        (401, [("WWW-Authenticate", "Basic")], "wrap the app from outside"),
        (404, [], "Wrap the app from outside"),
        (500, [], "logs of the proxy and of the app"),
    ],
)
def test_no_middleware_at_all(
    status: int, headers: list[tuple[str, str]], words: str, world: World, probe: Probe
) -> None:
    """The app's own answer is not ours, its own 401 and codes included."""

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response(f"{status} Own", [("Content-Type", "application/json"), *headers])
        return [b'{"code": "token_not_valid"}']

    text = the_finding(probe(world.proxy(world.app(app))))

    assert f"answers {status}" in text
    assert words in text


def test_http_that_is_sent_on_to_https(world: World, probe: Probe) -> None:
    """That is no fault of the site: the URL is to be given as it is meant."""
    there = answers(301, b"", ("Location", "https://127.0.0.1/api/v1/async_event/"))

    assert "Give the URL with https." in the_finding(probe(world.proxy(world.app(), there)))


DEPLOYED: list[tuple[str, dict[str, str], dict[str, str], str, str]] = [
    ("another secret", {"jwt_secret": K2}, {}, "GAQ_JWT_SECRET", "key= in its start-up line"),
    ("other names", {"cookie_name": "t"}, {}, "GAQ_COOKIE_NAME", 'reads "t" and "X-Async-Token"'),
    (
        "no store",
        {"store_url": f"redis://127.0.0.1:{free_port()}/0"},
        {},
        "GAQ_STORE_URL",
        "Run `gaq check` there",
    ),
    ("Secure by http", {}, {"cookie_secure": "true"}, "GAQ_COOKIE_SECURE", "Use https"),
    ("another domain", {}, {"cookie_domain": "a.example"}, "GAQ_COOKIE_DOMAIN", "Unset it"),
    ("another path", {}, {"cookie_path": "/app"}, "GAQ_COOKIE_PATH", "Unset it"),
]


@pytest.mark.parametrize(
    ("there", "both", "subject", "words"), [pytest.param(*row[1:], id=row[0]) for row in DEPLOYED]
)
def test_a_fault_of_the_settings_is_one_finding(
    there: dict[str, str],
    both: dict[str, str],
    subject: str,
    words: str,
    world: World,
    probe: Probe,
) -> None:
    """What differs between here and there, and what does not suit the URL."""
    if "store_url" in there:
        need_redis()
    text = the_finding(probe(world.proxy(world.app(**both, **there)), **both))

    assert text.startswith(subject)
    assert words in text


def test_a_user_that_the_app_knows_better(world: World, probe: Probe) -> None:
    """Where everybody is somebody, the token of nobody is refused."""
    url = world.proxy(world.app(user_from=lambda environ: 7, issue="login"))

    assert "leads to 401 token_user_mismatch" in the_finding(probe(url, issue="login"))


def test_a_clock_that_is_really_wrong(world: World, probe: Probe) -> None:
    """Tokens made here have then expired there, which is not told again."""
    ahead = AsyncQueryMiddleware(wsgi_page, make_settings())
    ahead.engine.clock = lambda: time.time() + 3600
    date = formatdate(time.time() + 3600, usegmt=True)

    text = the_finding(probe(world.proxy(world.app(ahead), sets("Date", ".*", date))))

    assert "The clock there is" in text
    assert "ahead of" in text


def test_a_token_that_the_proxy_adds(world: World, probe: Probe) -> None:
    """Whoever asks without a token must be told so."""
    url = world.proxy(world.app(), adds(("X-Async-Token", "x")))

    code, text = probe(url, jwt_secret=None)

    assert code == 1
    assert 'Our 401 to a request without a token says "token_malformed".' in text


def test_nothing_that_a_terminal_would_obey_is_printed(world: World, probe: Probe) -> None:
    """What a deployment says comes out as plain ASCII."""
    url = world.proxy(world.app(), sets("X-GAQ-Error", "$", "\x1b[31m\xa0"))

    code, text = probe(url, jwt_secret=None)

    assert (code, text.isascii(), text.isprintable()) == (1, True, True)
    assert "\\x1b[31m" in text


def test_https_without_forwarded_proto(world: World, probe: Probe) -> None:
    """The app then takes the request for plain http, and the cookie is not Secure."""
    text = the_finding(probe(world.proxy(world.app(), tls=True), "--ca-file", TLS))

    assert text.startswith("Set-Cookie arrives with no Secure.")
    assert "X-Forwarded-Proto: https" in text


HTTPS = adds(("X-Forwarded-Proto", "https"))


@pytest.mark.parametrize("name", ["async-token", "__Host-token"])
def test_a_good_deployment_by_https(name: str, world: World, probe: Probe) -> None:
    """With the authority of its certificate named, nothing is wrong."""
    url = world.proxy(world.app(cookie_name=name), HTTPS, tls=True)

    code, text = probe(url, "--ca-file", TLS, cookie_name=name)

    assert (code, f"{url} may cancel" in text) == (0, True), text


GOOD: list[tuple[str, Fault, dict[str, str], str]] = [
    ("as it is", good, {}, "cookie arrives as it was set"),
    ("guests", good, {"guest_secret": GUEST, "guest_audience": "x"}, "X-GuestToken"),
    ("visitors", good, {"issue": "anonymous"}, "caches none gives an answer twice"),
    ("nothing issued", good, {"issue": "off"}, "cookie not seen: none was set"),
    ("a short life", good, {"jwt_expiration_seconds": "60"}, "arrives as it was set"),
    ("never renewed", good, {"jwt_max_age_seconds": "60"}, "token one of the secret here"),
    ("the app's endpoints", good, {"events_path": ""}, "not seen cookie"),
    ("endpoints elsewhere", good, {"events_path": "/x/events"}, "may cancel"),
    ("streams", good, {}, "stream begins at once: nothing holds it back"),
    ("no sockets under WSGI", good, {}, "socket does not open: WSGI servers have none"),
    ("streams are off", TOO_MANY, {"max_streams": "0"}, "stream not seen: GAQ_MAX_STREAMS is 0"),
    ("no streams yet", on_streams(knows_no_streams), {}, "the deployment is older and has none"),
    ("no clock", hides("date"), {}, "origin http://127.0.0.1:"),
]


@pytest.mark.parametrize(
    ("fault", "variables", "words"), [pytest.param(*row[1:], id=row[0]) for row in GOOD]
)
def test_a_good_deployment_has_no_finding(
    fault: Fault, variables: dict[str, str], words: str, world: World, probe: Probe
) -> None:
    """Exit code 0, and what was seen, in words."""
    url = world.proxy(world.app(**variables), fault)

    code, text = probe(url, **variables)

    assert code == 0, text
    assert text.startswith(f"Nothing is wrong at {url}. Seen from here:")
    assert words in text


def test_an_app_that_knows_its_users_otherwise_is_good(world: World, probe: Probe) -> None:
    """Then a token alone is not renewed, and no cookie is missed."""
    url = world.proxy(world.app(user_from=lambda environ: None))

    code, text = probe(url)

    assert (code, "cookie not seen" in text) == (0, True), text


@pytest.mark.parametrize("end", ["/app", "/app/"])
def test_a_good_deployment_below_a_prefix(end: str, world: World, probe: Probe) -> None:
    """The prefix that a proxy takes away is given in the URL."""
    url = world.proxy(world.app(), below("/app"))

    assert probe(f"{url}{end}", "--login-path", "/login")[0] == 0
    assert "the prefix of the app" in the_finding(probe(url))


def test_without_the_secret_the_refusals_are_seen(world: World, probe: Probe) -> None:
    """And it is told what is not."""
    url = world.proxy(world.app())

    code, text = probe(url, jwt_secret=None)

    assert code == 0
    assert "not seen cookie, caches and Host, which need GAQ_JWT_SECRET" in text
    assert "X-GAQ-Error" in the_finding(
        probe(world.proxy(world.app(), hides("x-gaq-error")), jwt_secret=None)
    )


class TestLoginPath:
    """A login path must not be refused; whether it logs in needs a password."""

    def test_good(self, world: World, probe: Probe) -> None:
        """It reaches the app."""
        code, text = probe(world.proxy(world.app()), "--login-path", "/login/")

        assert (code, "a POST to /login/ is not refused by us (200)" in text) == (0, True), text

    @pytest.mark.parametrize(
        ("path", "variables", "words"),
        [
            ("/superset/explore_json", {}, "GAQ_LOGIN_PATHS of the deployment lacks"),
            ("/enter", {}, "GAQ_LOGIN_PATHS here lacks /enter"),
        ],
    )
    def test_not_in_the_settings(
        self, path: str, variables: dict[str, str], words: str, world: World, probe: Probe
    ) -> None:
        """Refused there, or not known here."""
        url = world.proxy(world.app())

        assert words in the_finding(probe(url, "--login-path", path))

    def test_not_there(self, world: World, probe: Probe) -> None:
        """A path that takes no POST is not where the form posts to."""

        def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
            start_response("405 No", [])
            return [b""]

        url = world.proxy(world.app(AsyncQueryMiddleware(app, make_settings())))

        assert "answers 405 to a POST" in the_finding(probe(url, "--login-path", "/login"))


class TestUnreachable:
    """What keeps a site from answering is a finding, too."""

    def test_nobody(self, probe: Probe) -> None:
        """Nobody listens."""
        text = the_finding(probe(f"http://127.0.0.1:{free_port()}"))

        assert "ConnectionRefusedError" in text

    def test_silence(self, probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
        """Somebody listens and says nothing."""
        monkeypatch.setattr("gaq_middleware.cli.client.TIMEOUT", 0.2)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            text = the_finding(probe(f"http://127.0.0.1:{silent.getsockname()[1]}"))

        assert "gives no answer" in text

    def test_no_such_host(self, probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nobody knows the name."""
        error = socket.gaierror(-2, "Name or service not known")
        monkeypatch.setattr(socket, "create_connection", Mock(side_effect=error))

        assert "cannot be reached" in the_finding(probe("http://no-such-host"))

    @pytest.mark.parametrize("scheme", ["http", "https"])
    def test_the_other_scheme(self, scheme: str, world: World, probe: Probe) -> None:
        """TLS where there is none, and the reverse."""
        url = world.proxy(world.app(), tls=scheme == "http")

        text = the_finding(probe(url.replace(url.partition(":")[0], scheme, 1)))

        assert "Correct host, port or scheme" in text or "does not speak TLS" in text

    def test_a_certificate_that_is_not_trusted(self, world: World, probe: Probe) -> None:
        """The option that names its authority is told."""
        assert "--ca-file" in the_finding(probe(world.proxy(world.app(), HTTPS, tls=True)))

    def test_it_goes_away(self, world: World, probe: Probe) -> None:
        """What was found before is told with it."""
        came: list[int] = []

        def breaks(request: Ask, forward: Forward) -> Answer:
            came.append(1)
            assert len(came) < 3
            return hides("x-gaq-error")(request, forward)

        code, text = probe(world.proxy(world.app(), breaks))

        assert code == 1
        assert "2 findings" in text
        assert "RemoteDisconnected" in text


def test_the_commands_of_the_readme_are_true(world: World, probe: Probe) -> None:
    """What README says to type finds nothing at a good deployment."""
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    (words,) = re.findall(r"^gaq check --url https://app\.example\.com (.*)$", readme, re.MULTILINE)

    assert probe(world.proxy(world.app()), *words.split())[0] == 0


@pytest.mark.parametrize("path", ["login", "/a b", "https://host/login"])
def test_what_is_no_path_is_wrong_usage(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The form is told."""
    with pytest.raises(SystemExit) as end:
        main(["check", "--url", "http://127.0.0.1:1", "--login-path", path])

    assert end.value.code == 2
    assert "--login-path: it must be like /login" in capsys.readouterr().err


@pytest.mark.parametrize(
    "url",
    [
        "host",
        "ftp://host",
        "https://",
        "https://user:pw@host",
        "https://host/?q",
        "https://host:x",
        "https://host:0",
        "http://[::1",
        "https://h/\u00e9",
        "https://h/a b",
    ],
)
def test_what_is_no_url_of_a_site_is_wrong_usage(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The form is told; a password is not repeated."""
    with pytest.raises(SystemExit) as end:
        main(["check", "--url", url])

    assert end.value.code == 2
    err = capsys.readouterr().err
    assert "--url: it " in err
    assert "pw@" not in err


@pytest.mark.parametrize(
    ("words", "variables", "text"),
    [
        (["--ca-file", "/no/such.pem"], {}, "--ca-file cannot be used: No such file"),
        ([], {"events_path": "", "protected_paths": "/a/*"}, "No path can be asked"),
        ([], {"jwt_secret": "short"}, "it has only 5 bytes"),
    ],
)
def test_what_cannot_be_looked_at_is_wrong_usage(
    words: list[str],
    variables: dict[str, str],
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Told on standard error, before anything is asked."""
    for name, value in {"jwt_secret": K, **variables}.items():
        monkeypatch.setenv(f"GAQ_{name.upper()}", value)

    assert main(["check", "--url", "http://127.0.0.1:1", *words]) == 2
    assert text in capsys.readouterr().err
