"""Real proxies with TLS before real servers: cookies, origins, prefixes, streams, who is who."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import ssl
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from gaq_middleware import issue_token
from gaq_middleware.cli import main
from tests.helpers import POLL, Answer, K, cookies, make_settings, read_claims
from tests.live.conftest import Running, Server, require

pytestmark = pytest.mark.live
ABSENT = [name for name in ("httpx", "h2") if importlib.util.find_spec(name) is None]
if ABSENT and os.environ.get("CI") != "true":
    pytest.skip(f"{', '.join(ABSENT)} not installed", allow_module_level=True)

from tests.live.proxies import (  # noqa: E402
    BACKENDS,
    HOLDS_BACK,
    KEEPS_HOST,
    KEEPS_PREFIX,
    NAMES_ADA,
    NAMES_NOBODY,
    PREFIX,
    PROXIES,
    REWRITES_HOST,
    SECOND,
    STRIPS_PREFIX,
    TRUSTED,
    Backend,
    Proxy,
    RunningProxy,
    Visitor,
    Way,
    host_of,
    make_certificate,
)

Run = Callable[[Server], Running]
Visit = Callable[..., Visitor]
CHART = "/api/v1/chart/data"
REACHED = b"the protected handler was reached"
EVIL = "https://evil.example"
STRANGER = "127.0.0.2"  # an address of this host that no deployment trusts
TOKEN = {"Cookie": cookies(issue_token(make_settings(), "somebody without jobs"))}
LIES = {
    "X-Forwarded-For": "127.0.0.1",
    "X-Forwarded-Proto": "http",
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Prefix": "/evil",
    "X-Forwarded-Port": "443",
    "Forwarded": "for=127.0.0.1;host=evil.example;proto=http",
}
WARNING = "WARNING {} came from"

each_backend = pytest.mark.parametrize("backend", [pytest.param(b, id=b.label) for b in BACKENDS])
each_pair = pytest.mark.parametrize(
    ("proxy", "backend"),
    [pytest.param(p, b, id=f"{b} behind {p}") for p in PROXIES for b in BACKENDS],
)
STREAMING = [backend for backend in BACKENDS if backend.server.face == "asgi"]
each_stream = pytest.mark.parametrize(
    ("proxy", "backend"),
    [pytest.param(p, b, id=f"{b} behind {p}") for p in PROXIES for b in STREAMING],
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    """Return the certificate of all hosts, and what trusts it."""
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def start(
    run: Run,
    certificate: tuple[Path, ssl.SSLContext],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[Proxy], RunningProxy]]:
    """Return a function that starts a proxy before all servers, or gives the one that runs."""
    running: dict[str, RunningProxy] = {}

    def start(proxy: Proxy) -> RunningProxy:
        proxy.require()
        if proxy.name not in running:
            servers = [s for b in BACKENDS for s in (b.server, b.under) if s and can_run(s)]
            upstreams = {server.name: run(server).port for server in servers}
            folder = tmp_path_factory.mktemp(proxy.name)
            running[proxy.name] = RunningProxy.start(proxy, folder, certificate[0], upstreams)
            running[proxy.name].wait()
        running[proxy.name].check()
        return running[proxy.name]

    try:
        yield start
    finally:
        for each in running.values():
            each.end()


def can_run(server: Server) -> bool:
    """Say whether a server is installed; in CI it must be."""
    if os.environ.get("CI") == "true":
        require(server)
    return importlib.util.find_spec(server.module) is not None


@pytest.fixture
def visit(
    start: Callable[[Proxy], RunningProxy],
    certificate: tuple[Path, ssl.SSLContext],
    proxy: Proxy,
    backend: Backend,
) -> Iterator[Visit]:
    """Return a function that makes a visitor of a way through the proxy."""
    require(backend.server)
    running = start(proxy)
    with ExitStack() as stack:

        def visit(way: Way, listener: str = "https", **options: Any) -> Visitor:
            scheme = "http" if listener == "http" else "https"
            origin = f"{scheme}://{host_of(way, backend)}:{running.ports[listener]}"
            visitor = Visitor(origin, certificate[1], **options)
            stack.callback(visitor.close)
            return visitor

        yield visit


@pytest.fixture
def direct(run: Run, certificate: tuple[Path, ssl.SSLContext], backend: Backend) -> Iterator[Visit]:
    """Return a function that makes a visitor of the server itself, by its deployment."""
    running = run(backend.server)
    with ExitStack() as stack:

        def direct(deployment: str, **options: Any) -> Visitor:
            headers = {"X-Deployment": deployment, **options.pop("headers", {})}
            origin = f"http://direct.gaq.example:{running.port}"
            visitor = Visitor(origin, certificate[1], headers=headers, **options)
            stack.callback(visitor.close)
            return visitor

        yield direct


@pytest.fixture
def said(run: Run, backend: Backend) -> Callable[[], list[str]]:
    """Return a function that tells the lines that the server has logged since the test began."""
    log = run(backend.server).log
    before = log.stat().st_size

    def said() -> list[str]:
        return log.read_bytes()[before:].decode().splitlines()

    return said


def run_of_its_own() -> dict[str, str]:
    """Return the header that gives a test a middleware that has not logged anything yet."""
    return {"X-Run": uuid.uuid4().hex}


def attributes(answer: Answer, name: str = "async-token") -> set[str]:
    """Return the attributes of the cookie that an answer sets."""
    (line,) = [v for v in answer.all("Set-Cookie") if v.startswith(f"{name}=")]
    return {part.strip() for part in line.split(";")[1:]}


def submit(visitor: Visitor, prefix: str = "") -> str:
    """Log in as a new user and submit a job; return where it is cancelled."""
    assert visitor("POST", f"{prefix}/login?user={uuid.uuid4().hex}").status == 200
    submitted = visitor("POST", f"{prefix}{CHART}")
    assert submitted.status == 202
    return f"{prefix}{POLL}{submitted.json()['job_id']}/cancel"


def cancels(visitor: Visitor, cancel: str, origin: str, **headers: str) -> tuple[int, str | None]:
    """Return how a cancel from a page is answered."""
    pairs = {"Origin": origin, **{k.replace("_", "-"): v for k, v in headers.items()}}
    seen = visitor("POST", cancel, pairs)
    return seen.status, seen.code


# --- the cookie ---------------------------------------------------------------------------------


@each_pair
@pytest.mark.parametrize("way", [KEEPS_HOST, TRUSTED], ids=["proxy unknown", "proxy trusted"])
def test_the_cookie_is_secure_through_tls_and_not_over_plain_http(visit: Visit, way: Way) -> None:
    """`auto` follows what the client speaks, with nothing configured (cases 22 and 93)."""
    assert "Secure" in attributes(visit(way)("POST", "/login?user=7"))
    plain = visit(way, "http")
    assert "Secure" not in attributes(plain("POST", "/login?user=7"))
    assert plain("GET", POLL).status == 200


@each_backend
def test_anybody_may_claim_https_for_their_own_cookie(direct: Visit) -> None:
    """The claim of an untrusted peer makes it Secure, which harms only themselves (case 93)."""
    stranger = direct("trusting", source=STRANGER)
    assert "Secure" not in attributes(stranger("POST", "/login?user=7"))
    claimed = stranger("POST", "/login?user=7", {"X-Forwarded-Proto": "https"})
    assert "Secure" in attributes(claimed)


@each_pair
def test_case_92_two_environments_on_one_host(visit: Visit) -> None:
    """Cookies know no ports: with names of their own neither logs the other out."""
    one = visit(KEEPS_HOST)
    other = visit(SECOND, "second", jar=one.jar)
    assert one.origin.rpartition(":")[0] == other.origin.rpartition(":")[0]
    cancel_one = submit(one)
    assert (one("GET", POLL).status, other("GET", POLL).status) == (200, 401)
    cancel = submit(other)
    assert one.holds("async-token")
    assert one.holds("second-token")
    assert (one("GET", POLL).status, other("GET", POLL).status) == (200, 200)
    assert one("POST", cancel).code == "not_job_owner"
    assert other("POST", cancel).status == 200
    assert one("GET", POLL).json()["result"] == []
    assert one("POST", cancel_one).status == 200
    one("POST", "/logout")
    assert not one.holds("async-token")
    assert (one("GET", POLL).status, other("GET", POLL).status) == (401, 200)


@each_pair
def test_case_88_cookie_crumbs_of_http_2(visit: Visit) -> None:
    """A browser splits its cookies over several fields; the token among them is found."""
    crumbs = [("cookie", "a=1"), ("cookie", TOKEN["Cookie"]), ("cookie", "b=2")]
    visitor = visit(KEEPS_HOST, http2=True)
    assert visitor("GET", POLL, crumbs).json() == {"result": []}
    assert visitor("GET", POLL, [crumbs[0], crumbs[2]]).code == "token_missing"


@pytest.mark.parametrize(
    "backend", [pytest.param(b, id=b.label) for b in BACKENDS if b.server.http2]
)
def test_case_88_cookie_crumbs_straight_to_a_server(direct: Visit) -> None:
    """The same without a proxy that would join them."""
    crumbs = [("cookie", "a=1"), ("cookie", TOKEN["Cookie"]), ("cookie", "b=2")]
    visitor = direct("bare", http2=True)
    assert visitor("GET", POLL, crumbs).json() == {"result": []}
    assert visitor("GET", POLL, [crumbs[0], crumbs[2]]).code == "token_missing"


# --- the life of a job --------------------------------------------------------------------------


@each_pair
@pytest.mark.parametrize("http2", [False, True], ids=["HTTP 1.1", "HTTP 2"])
def test_the_life_of_a_job_with_nothing_configured(visit: Visit, http2: bool) -> None:
    """A proxy that keeps Host: log in, submit, be refused from a foreign page, cancel, poll."""
    page, stranger = visit(KEEPS_HOST, http2=http2), visit(KEEPS_HOST, http2=http2)
    assert page("POST", CHART).code == "token_missing"
    cancel = submit(page)
    submit(stranger)
    assert cancels(stranger, cancel, page.origin) == (403, "not_job_owner")
    assert cancels(page, cancel, EVIL) == (403, "cross_origin")
    assert page("POST", cancel, {"Sec-Fetch-Site": "cross-site"}).code == "cross_origin"
    assert cancels(page, cancel, page.origin) == (200, None)
    assert cancels(page, cancel, page.origin) == (404, "job_not_found")
    events = page("GET", POLL).json()["result"]
    assert (events[-1]["job_id"], events[-1]["status"]) == (cancel.split("/")[-2], "cancelled")
    assert page("GET", f"{POLL}?last_id={events[-1]['id']}").json() == {"result": []}


@each_pair
def test_refusals_arrive_unchanged(visit: Visit, direct: Visit) -> None:
    """The problem document and its headers are those that the server sent."""
    kept = ("Content-Type", "X-GAQ-Error", "WWW-Authenticate", "Cache-Control", "Allow")
    through, straight = visit(KEEPS_HOST), direct("bare")
    cancel = submit(visit(KEEPS_HOST))
    requests: list[tuple[int, str, str, dict[str, str]]] = [
        (401, "GET", POLL, {}),
        (401, "POST", CHART, {"Accept": "text/html"}),
        (401, "GET", POLL, {"Cookie": cookies("bad")}),
        (400, "GET", f"{POLL}?last_id=x", TOKEN),
        (403, "POST", cancel, TOKEN),
        (404, "GET", f"{POLL}unknown", TOKEN),
        (404, "GET", "/fails", {}),
        (405, "PUT", POLL, TOKEN),
    ]
    for status, method, target, headers in requests:
        seen, sent = (each(method, target, headers) for each in (through, straight))
        assert (seen.status, seen.body) == (status, sent.body)
        assert seen.code == seen.json()["code"]
        assert [seen.get(name) for name in kept] == [sent.get(name) for name in kept]
        assert seen.get("Content-Type") == "application/problem+json"
    head = through("HEAD", POLL)
    assert (head.status, head.code, head.body) == (401, "token_missing", b"")


# --- origins ------------------------------------------------------------------------------------


@each_pair
def test_the_public_origin_counts_behind_a_proxy_that_rewrites_host(
    visit: Visit, backend: Backend
) -> None:
    """With x-forwarded-host in GAQ_TRUSTED_HEADERS the public page may cancel, a foreign not."""
    page = visit(REWRITES_HOST)
    cancel = submit(page)
    assert cancels(page, cancel, EVIL) == (403, "cross_origin")
    public = cancels(page, cancel, page.origin)
    # A server that hides who told the host leaves it unknown: fail closed.
    assert public == ((403, "cross_origin") if backend.hides_peer else (200, None))


@each_pair
def test_a_page_without_tls_is_foreign_to_one_with_it(visit: Visit) -> None:
    """A trusted proxy tells that the request came by https, so its page did, too."""
    page = visit(TRUSTED)
    cancel = submit(page)
    assert cancels(page, cancel, page.origin.replace("https", "http")) == (403, "cross_origin")
    assert cancels(page, cancel, page.origin) == (200, None)


@each_pair
@pytest.mark.parametrize(
    "way",
    [KEEPS_HOST, TRUSTED, REWRITES_HOST, NAMES_NOBODY],
    ids=["proxy unknown", "proxy trusted", "host trusted", "user trusted"],
)
def test_what_clients_say_of_themselves_does_not_win(
    visit: Visit, backend: Backend, way: Way
) -> None:
    """Forwarded headers sent through the proxy: no origin, path or identity follows from them."""
    page = visit(way)
    cancel = submit(page)
    lies = {name.replace("-", "_"): value for name, value in LIES.items()}
    assert cancels(page, cancel, EVIL, **lies) == (403, "cross_origin")
    assert page("GET", f"/evil{POLL}", LIES).body == b"nothing here"
    assert visit(way)("GET", f"/evil{POLL}", LIES).code == "token_missing"
    hidden = way is REWRITES_HOST and backend.hides_peer
    public = cancels(page, cancel, page.origin, **lies)
    assert public == ((403, "cross_origin") if hidden else (200, None))


# --- prefixes -----------------------------------------------------------------------------------


@each_pair
@pytest.mark.parametrize("way", [STRIPS_PREFIX, KEEPS_PREFIX], ids=["stripped", "kept"])
def test_a_prefix(visit: Visit, way: Way) -> None:
    """Protected is protected, our endpoints are served, the cookie's path is as configured."""
    page = visit(way)
    for path in (POLL, "/api/x", CHART):
        assert page("GET", f"{PREFIX}{path}").code == "token_missing"
    login = page("POST", f"{PREFIX}/login?user=7")
    assert "Path=/" in attributes(login)
    assert page("GET", f"{PREFIX}/api/x").body == REACHED
    cancel = submit(page, prefix=PREFIX)
    assert cancels(page, cancel, EVIL) == (403, "cross_origin")
    assert cancels(page, cancel, page.origin) == (200, None)
    assert page("GET", f"{PREFIX}{POLL}").json()["result"][-1]["status"] == "cancelled"
    page("POST", f"{PREFIX}/logout")
    assert not page.holds("async-token")


@each_pair
def test_a_prefix_that_nobody_knows_of(visit: Visit) -> None:
    """The path is protected at any offset; it is the app's, which has no such page."""
    assert visit(KEEPS_HOST)("GET", f"{PREFIX}{POLL}").code == "token_missing"
    assert visit(KEEPS_HOST)("GET", f"{PREFIX}{POLL}", TOKEN).body == b"nothing here"


# --- streams ------------------------------------------------------------------------------------


def read_until(word: str, parts: Iterator[str]) -> tuple[str, float]:
    """Read on until a word has come; return what came, and how long it took."""
    text, began = "", time.monotonic()
    while word not in text:
        text += next(parts)
    return text, time.monotonic() - began


@each_stream
@pytest.mark.parametrize("http2", [False, True], ids=["HTTP 1.1", "HTTP 2"])
def test_case_136_nginx_holds_sse_back(visit: Visit, proxy: Proxy, http2: bool) -> None:
    """No proxy does as it comes: what happens while a stream is open arrives at once."""
    page = visit(KEEPS_HOST, http2=http2)
    cancel = submit(page)
    with page.stream(f"{POLL}stream") as seen:
        parts = seen.iter_text()
        first, took = read_until("\n\n", parts)
        assert (seen.status_code, seen.headers["Content-Type"]) == (200, "text/event-stream")
        assert seen.headers["Cache-Control"] == "no-cache, no-store, no-transform"
        passed_on = None if proxy.name == "nginx" else "no"  # nginx obeys it and keeps it
        assert seen.headers.get("X-Accel-Buffering") == passed_on
        assert not {"content-length", "content-encoding"} & set(seen.headers)
        assert first.startswith("retry: 2000\n\n")
        assert took < 2
        assert cancels(visit(KEEPS_HOST, jar=page.jar), cancel, page.origin) == (200, None)
        text, took = read_until('"cancelled"', parts)
        assert cancel.split("/")[-2] in text
        assert took < 2


def test_case_136_a_silent_stream_shows_life(
    start: Callable[[Proxy], RunningProxy], certificate: tuple[Path, ssl.SSLContext]
) -> None:
    """A comment comes at least every 15 s, through every proxy."""
    with ExitStack() as stack:
        streams = list[tuple[float, Iterator[str]]]()
        for proxy, backend in product(PROXIES, filter(lambda b: can_run(b.server), STREAMING)):
            port = start(proxy).ports["https"]
            origin = f"https://{host_of(KEEPS_HOST, backend)}:{port}"
            visitor = Visitor(origin, certificate[1], headers=TOKEN)
            stack.callback(visitor.close)
            seen = stack.enter_context(visitor.stream(f"{POLL}stream"))
            streams.append((time.monotonic(), seen.iter_text()))
        for began, parts in streams:
            for _ in range(2):  # the first at the beginning
                read_until(":\n\n", parts)
            assert time.monotonic() - began < 15


Check = Callable[[str], tuple[int, str]]


@pytest.fixture
def check(
    certificate: tuple[Path, ssl.SSLContext],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Check:
    """Return a function that runs `gaq check --url` here, where every host is this one."""
    find, authority = socket.getaddrinfo, str(certificate[0].with_name("ca.pem"))

    def check(origin: str) -> tuple[int, str]:
        monkeypatch.setattr(socket, "getaddrinfo", lambda _, *rest: find("127.0.0.1", *rest))
        monkeypatch.setattr("gaq_middleware.cli.client.STREAM_TIMEOUT", 2.0)
        monkeypatch.setenv("GAQ_JWT_SECRET", K)
        code = main(["check", "--url", origin, "--ca-file", authority])
        return code, re.sub(r"\s+", " ", capsys.readouterr().out)

    return check


@each_pair
def test_check_finds_nothing_with_nothing_configured(visit: Visit, check: Check) -> None:
    """Every proxy by its defaults is good for streams too."""
    code, text = check(visit(KEEPS_HOST).origin)
    assert (code, "stream begins at once" in text) == (0, True), text


@pytest.mark.parametrize(
    ("proxy", "backend"), [pytest.param(PROXIES[0], b, id=b.label) for b in STREAMING]
)
def test_check_finds_an_nginx_that_holds_streams_back(visit: Visit, check: Check) -> None:
    """It ignores X-Accel-Buffering, and compresses: one finding, with the mend."""
    code, text = check(visit(HOLDS_BACK).origin)
    assert (code, text.startswith("1 finding: ")) == (1, True), text
    assert "async_event/stream is held back" in text
    assert "proxy_buffering off" in text


# --- who is believed ----------------------------------------------------------------------------


@each_backend
@pytest.mark.parametrize(
    "deployment", ["trusting", "trusting the host", "trusting the prefix", "trusting the user"]
)
def test_case_93_forwarded_headers_of_a_stranger_change_nothing(
    direct: Visit, said: Callable[[], list[str]], deployment: str
) -> None:
    """Not the origin, not the prefix, not the address in the log; one WARNING for each header."""
    stranger = direct(deployment, source=STRANGER, headers={**LIES, **run_of_its_own()})
    assert stranger("GET", POLL, {"Cookie": cookies("bad")}).code == "token_malformed"
    cancel = submit(stranger)
    assert cancels(stranger, cancel, EVIL) == (403, "cross_origin")
    assert stranger("GET", f"/evil{POLL}").body == b"nothing here"
    assert cancels(stranger, cancel, stranger.origin) == (200, None)
    lines = said()
    for name in LIES:
        warnings = [line for line in lines if WARNING.format(name.lower()) in line]
        assert len(warnings) == 1
        assert STRANGER in warnings[0]
    (refused,) = [line for line in lines if "token_malformed" in line]
    assert f"from {STRANGER}," in refused


@each_pair
def test_case_93_a_proxy_that_is_not_trusted_is_named_once(
    visit: Visit, backend: Backend, said: Callable[[], list[str]]
) -> None:
    """So the operator learns of GAQ_TRUSTED_PROXIES; a server that hides the proxy knows better."""
    visitor = visit(KEEPS_HOST, headers=run_of_its_own())
    for _ in range(2):
        assert visitor("GET", "/").status == 200
    warnings = [line for line in said() if WARNING.format("x-forwarded-for") in line]
    assert len(warnings) == (0 if backend.hides_peer else 1)
    assert all("127.0.0.1, which is not in GAQ_TRUSTED_PROXIES" in line for line in warnings)


@each_pair
def test_the_client_is_the_one_that_the_trusted_proxy_saw(
    visit: Visit, said: Callable[[], list[str]]
) -> None:
    """The list is walked from the right: what the client put to its left is hearsay."""
    visitor = visit(TRUSTED, source=STRANGER, headers=run_of_its_own())
    lie = {"X-Forwarded-For": "6.6.6.6, 127.0.0.1", "Cookie": cookies("bad")}
    assert visitor("GET", POLL, lie).code == "token_malformed"
    lines = said()
    assert [line for line in lines if f"from {STRANGER}," in line]
    assert not [line for line in lines if "6.6.6.6" in line or "GAQ_TRUSTED_PROXIES" in line]


@each_pair
def test_the_proxy_names_the_user(
    visit: Visit, backend: Backend, said: Callable[[], list[str]]
) -> None:
    """The trusted proxy's header does, whatever the client sent; a hidden proxy's does not."""
    visitor = visit(NAMES_ADA, headers=run_of_its_own())
    for sent in ({}, {"X-Remote-User": "admin"}):
        visitor.jar.clear()
        seen = visitor("GET", POLL, sent)
        if backend.hides_peer:
            assert seen.code == "token_missing"
        else:
            assert seen.status == 200
            assert read_claims(seen.cookie() or "")["sub"] == "ada"
    warnings = [line for line in said() if "--no-proxy-headers" in line]
    assert len(warnings) == (1 if backend.hides_peer else 0)


@each_pair
@pytest.mark.parametrize(
    "sent",
    [
        {"X-Remote-User": "admin"},
        {"X_Remote_User": "admin"},
        {"X-Remote-User": "admin", "X_Remote_User": "admin"},
        {"X-Remote-User": "admin", "X-Forwarded-For": "127.0.0.1:4711"},
        {"Remote-User": "admin"},
        {"Connection": "X-Remote-User", "X-Remote-User": "admin"},
    ],
    ids=["its name", "underscores", "both", "an address with port", "another", "hop by hop"],
)
def test_case_138_the_clients_own_header_names_nobody(visit: Visit, sent: dict[str, str]) -> None:
    """A proxy that deletes it leaves an anonymous request, however it was spelled."""
    assert visit(NAMES_NOBODY)("GET", POLL, sent).code == "token_missing"


@each_pair
def test_hop_by_hop_options_cannot_remove_the_proxys_word(visit: Visit, backend: Backend) -> None:
    """`Connection` lists headers for the proxy to drop; the user it names is not among them."""
    sent = {"Connection": "close, X-Remote-User, X-Forwarded-For"}
    seen = visit(NAMES_ADA)("GET", POLL, sent)
    assert seen.status == (401 if backend.hides_peer else 200)


@each_backend
def test_case_138_a_user_named_by_a_stranger_is_nobody(direct: Visit) -> None:
    """Straight to the server: only the trusted address is believed, and the value is one name."""
    named = {"X-Remote-User": "admin"}
    assert direct("trusting the user", source=STRANGER)("GET", POLL, named).status == 401
    assert direct("trusting the user")("GET", POLL, named).status == 200
    for sent in ([("X-Remote-User", "ada"), ("X-Remote-User", "admin")], {"X-Remote-User": "a,b"}):
        assert direct("trusting the user")("GET", POLL, sent).status == 401


@each_backend
@pytest.mark.parametrize(
    "address",
    ["127.0.0.9", "127.0.0.9:4711", "127.0.0.9:+4711", "[127.0.0.9]:4711", "6.6.6.6, 127.0.0.9:80"],
)
def test_no_forwarded_address_makes_a_stranger_trusted(direct: Visit, address: str) -> None:
    """What a server took from X-Forwarded-For is no peer, with or without a port in it."""
    visitor = direct("trusting the user of another proxy")
    sent = {"X-Remote-User": "admin", "X-Forwarded-For": address, "X-Forwarded-Port": "4711"}
    assert visitor("GET", POLL, sent).code == "token_missing"
    real = direct("trusting the user of another proxy", source="127.0.0.9")
    assert real("GET", POLL, {"X-Remote-User": "ada"}).status == 200
