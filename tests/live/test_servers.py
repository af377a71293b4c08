"""Real servers: what clients see of the whole life of a job, and paths in every form."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator

import pytest

from gaq_middleware import issue_token
from tests.faces.apps import load
from tests.helpers import POLL, cookies, make_settings, read_claims
from tests.live.client import Client, Socket, raw
from tests.live.conftest import (
    BY_NAME,
    PATIENCE,
    SERVERS,
    Running,
    Server,
    environment,
    free_port,
    require,
)

pytestmark = pytest.mark.live
Run = Callable[[Server], Running]
CHART = "/api/v1/chart/data"
REACHED = b"the protected handler was reached"
TOKEN = {"Cookie": cookies(issue_token(make_settings(), "somebody without jobs"))}


def each(*, wanted: Callable[[Server], bool] = lambda server: True) -> pytest.MarkDecorator:
    """Return the mark that runs a test on each wanted server."""
    servers = [pytest.param(server, id=server.name) for server in SERVERS if wanted(server)]
    return pytest.mark.parametrize("server", servers)


def is_plain(server: Server) -> bool:
    """Say whether a server runs without a root path."""
    return "root path" not in server.name


@pytest.fixture
def running(run: Run, server: Server) -> Running:
    """Return the running server of the test."""
    return run(server)


@pytest.fixture
def client(running: Running) -> Iterator[Client]:
    """Return a client with an empty jar."""
    client = Client(running)
    yield client
    client.close()


# --- the life of a job --------------------------------------------------------------------------


@each(wanted=is_plain)
def test_the_life_of_a_job(client: Client, running: Running) -> None:
    """401 without token; log in, submit, poll, be refused as a stranger, cancel, see the event."""
    refused = client("GET", POLL)
    assert (refused.status, refused.code) == (401, "token_missing")
    assert refused.get("Content-Type") == "application/problem+json"
    assert client("POST", CHART).status == 401

    assert client("POST", "/login?user=7").body == b"hello"
    assert client.jar["app"] == "1"
    assert read_claims(client.jar["async-token"])["sub"] == "7"
    assert client("GET", POLL).json()["result"] == []

    submitted = client("POST", CHART)
    assert submitted.status == 202
    job = submitted.json()
    assert client("GET", f"{POLL}{job['job_id']}").json()["result"]["status"] == "pending"

    stranger = Client(running)
    with contextlib.closing(stranger):
        stranger("POST", "/login?user=8")
        for method, path in (("GET", job["job_id"]), ("POST", f"{job['job_id']}/cancel")):
            seen = stranger(method, f"{POLL}{path}")
            assert (seen.status, seen.code) == (403, "not_job_owner")
        assert stranger("GET", POLL).json() == {"result": []}

    cancel = f"{POLL}{job['job_id']}/cancel"
    foreign = client("POST", cancel, {"Origin": "https://evil.example"})
    assert (foreign.status, foreign.code) == (403, "cross_origin")
    assert client("POST", cancel).json()["result"]["status"] == "cancelled"
    again = client("POST", cancel)
    assert (again.status, again.code) == (404, "job_not_found")
    (event,) = client("GET", f"{POLL}?last_id={job['last_id']}").json()["result"]
    assert (event["job_id"], event["status"]) == (job["job_id"], "cancelled")
    client("POST", "/logout")
    assert client.jar["async-token"] == ""


@each(wanted=is_plain)
def test_an_error_of_a_handler_is_its_status(client: Client) -> None:
    """404 for ours, on an unprotected path; the app's 404 and foreign errors stay what they are."""
    seen = client("GET", "/fails")
    assert (seen.status, seen.code, seen.json()["code"]) == (404, *["job_not_found"] * 2)
    seen = client("GET", "/nowhere")
    assert (seen.status, seen.code, seen.body) == (404, None, b"nothing here")
    seen = client("GET", "/foreign")
    assert (seen.status, seen.code) == (500, None)


@each(wanted=is_plain)
def test_head_has_no_body_and_keeps_the_connection(client: Client) -> None:
    """The headers of GET and not one byte more, or the next answer would be misread."""
    tokens: list[dict[str, str]] = [{}, TOKEN]
    for token in tokens:
        for _ in range(2):
            head, get = client("HEAD", POLL, token), client("GET", POLL, token)
            assert head.status == get.status == (200 if token else 401)
            assert head.body == b""
            assert head.get("Content-Length") == get.get("Content-Length") == str(len(get.body))
    assert client("GET", "/").body == b"home"


@each(wanted=is_plain)
@pytest.mark.parametrize("size", [1_000, 300_000], ids=["1 kB", "300 kB"])
def test_a_refusal_does_not_wait_for_the_body(running: Running, size: int) -> None:
    """It arrives whether the server reads the body or closes; the next request is not misread."""
    for _ in range(2):
        early = contextlib.suppress(ConnectionError)  # closed while we were sending
        with contextlib.closing(Client(running)) as client, early:
            assert client("POST", CHART, body=b"x" * size).status == 401
        with contextlib.closing(Client(running)) as client:
            assert client("GET", "/").body == b"home"


@each(wanted=is_plain)
def test_a_streamed_body_arrives_in_pieces(client: Client, running: Running) -> None:
    """The first part is here before the second is made."""
    gate = running.gates / "gate"
    response = client.begin("GET", f"/stream?gate={gate.name}")
    assert response.readline() == b"first\n"
    gate.touch()
    assert response.read() == b"second\n"
    gate.unlink()


@each(wanted=is_plain)
def test_two_cookie_headers_are_no_way_around(running: Running) -> None:
    """However a server joins them: a good token is found, or the request is refused."""
    several = [("Cookie", "a=1"), *TOKEN.items()]
    assert raw(running, POLL.encode(), *several).status in {200, 401}
    assert raw(running, POLL.encode(), *TOKEN.items()).status == 200


# --- HTTP/2 -------------------------------------------------------------------------------------


@each(wanted=lambda server: server.http2)
def test_http_2(running: Running) -> None:
    """Refusals, HEAD, a mapped error and cookie crumbs."""
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("h2")
    crumbs = [("cookie", "a=1"), ("cookie", TOKEN["Cookie"]), ("cookie", "b=2")]
    with httpx.Client(
        http1=False, http2=True, base_url=f"http://127.0.0.1:{running.port}", trust_env=False
    ) as client:
        refused = client.get(POLL)
        assert (refused.http_version, refused.status_code) == ("HTTP/2", 401)
        assert refused.json()["code"] == refused.headers["x-gaq-error"] == "token_missing"
        assert client.head(POLL).content == b""
        polled = client.get(POLL, headers=crumbs)
        assert (polled.status_code, polled.json()) == (200, {"result": []})
        assert client.get("/fails").status_code == 404
        assert client.post("/login?user=7").cookies["async-token"]


# --- sockets ------------------------------------------------------------------------------------


@each(wanted=lambda server: is_plain(server) and server.face == "asgi")
def test_sockets(running: Running) -> None:
    """Refused before accept with the status, or with 403 where the server can no better."""
    path = f"{CHART}/socket"
    good = {**TOKEN, "Origin": f"http://127.0.0.1:{running.port}"}
    refusals: list[tuple[int, str, str, dict[str, str]]] = [
        (401, "token_missing", path, {}),
        (401, "token_malformed", path, {"Cookie": cookies("bad")}),
        (403, "cross_origin", path, {**TOKEN, "Origin": "https://evil.example"}),
        (404, "job_not_found", "/socket/fails", {}),
    ]
    for status, code, where, headers in refusals:
        with contextlib.closing(Socket(running, where, headers)) as socket:
            if running.server.denies:
                assert (socket.status, json.loads(socket.body())["code"]) == (status, code)
            else:
                assert socket.status == 403
    with contextlib.closing(Socket(running, path, good)) as socket:
        assert socket.status == 101
        assert socket.receive().startswith("user-")
        assert socket.receive()[0] == 4000
    with contextlib.closing(Socket(running, f"{path}/fails/late", good)) as socket:
        assert socket.receive().startswith("user-")
        assert socket.receive() == (4404, "job_not_found")


# --- paths --------------------------------------------------------------------------------------

FORMS = [
    b"/api/x",
    b"//api/x",
    b"///api/x",
    b"api/x",
    b"/api//x",
    b"/api/x/",
    b"/api/x//",
    b"/api/x%0a",
    b"/api/x%0d%0a",
    b"/api/x?a=1",
    b"/api/x;a=1",
    b"/api/x#f",
    b"/api/./x",
    b"/api/y/../x",
    b"/api/%78",
    b"/%61pi/x",
    b"/api%2Fx",
    b"/api%2fx",
    b"/api/%2578",
    b"/API/x",
    b"/api/X",
    b"\\api\\x",
    b"/api\\x",
    b"/%20api/x",
    b"/api/x%20",
    b"/api/x%00",
    b"/api/x%ff",
    b"/api/x.",
    b"http://evil/api/x",
    b"http://evil//api/x",
    b"https://evil/api/x",
    b"x:/api/x",
    b"//evil/api/x",
    b"/pre/api/x",
    b"/preapi/x",
    b"/pre//api/x",
    b"/zzz/pre/api/x",
    b"/pre/pre/api/x",
    b"/zzz/api/x",
]
APPS = {
    "wsgi": ["flask", "falcon", "pyramid", "bottle"],
    "asgi": ["quart", "litestar", "starlette", "fastapi", "fastapi under /pre", "falcon"],
}
MODULES = {
    "fastapi under /pre": "fastapi",
    "pyramid": "pyramid.config",
}
PAIRS = [
    pytest.param(server, app, id=f"{app} on {server.name}")
    for server in SERVERS
    for app in APPS[server.face]
]
PREFIXES: list[dict[str, str]] = [{}, {"SCRIPT_NAME": "/pre"}, {"SCRIPT_NAME": "/zzz"}]
BYPASSES = [
    ("gunicorn", "flask", b"//api/x", {}),
    ("gunicorn", "flask", b"/preapi/x", {"SCRIPT_NAME": "/pre"}),
    ("waitress", "flask", b"api/x", {}),
    ("hypercorn under WSGI", "flask", b"api/x", {}),
    ("granian under WSGI", "falcon", b"//api/x", {}),
    ("gunicorn", "pyramid", b"/api/x%0a", {}),
    ("uvicorn with h11", "quart", b"http://evil/api/x", {}),
    ("hypercorn", "quart", b"api/x", {}),
    ("gunicorn's asgi worker", "quart", b"//api/x", {}),
    ("uvicorn with h11", "litestar", b"//api/x", {}),
    ("granian", "litestar", b"/api//x", {}),
    ("granian", "litestar", b"/api/x/", {}),
    ("uvicorn with h11", "fastapi", b"/api/x%0a", {}),
    ("granian", "starlette", b"/api/x%0a", {}),
    ("uvicorn with h11", "fastapi under /pre", b"/pre/api/x", {}),
    ("uvicorn with h11", "falcon", b"//api/x", {}),
    ("hypercorn under a root path", "litestar", b"/zzz/pre/api/x", {}),
    ("uvicorn with h11", "blacksheep", b"/API/x", {}),
]


@pytest.mark.parametrize(("server", "app"), PAIRS)
def test_no_form_of_a_path_reaches_a_protected_handler_without_a_token(
    running: Running, app: str
) -> None:
    """Whatever the server makes of the request target, and the framework of that."""
    load(MODULES.get(app, app))  # or skip
    for prefix in PREFIXES:
        for form in FORMS:
            seen = raw(running, form, ("X-App", app), *prefix.items())
            assert REACHED not in seen.body, (form, prefix)
            assert seen.status != 200, (form, prefix)
    if is_plain(running.server):
        assert REACHED in raw(running, b"/api/x", ("X-App", app), *TOKEN.items()).body


@pytest.mark.parametrize(
    ("name", "app", "form", "prefix"),
    [pytest.param(*pair, id=f"{pair[1]} on {pair[0]}, {pair[2].decode()}") for pair in BYPASSES],
)
def test_a_form_that_passes_naive_matchers_is_refused(
    run: Run, name: str, app: str, form: bytes, prefix: dict[str, str]
) -> None:
    """Each was seen to get past a plain prefix or exact matcher, and reaches the handler still."""
    running = run(BY_NAME[name])
    load(MODULES.get(app, app))  # or skip
    headers = [("X-App", app), *prefix.items()]
    seen = raw(running, form, *headers)
    assert (seen.status, seen.code) == (401, "token_missing")
    assert REACHED in raw(running, form, *headers, *TOKEN.items()).body


# --- start-up -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["uvicorn with h11", "gunicorn", "gunicorn with threads", "hypercorn", "waitress"]
)
def test_wrong_settings_end_the_server_and_say_why(name: str) -> None:
    """Not 0, and every problem on stderr."""
    server = BY_NAME[name]
    require(server)
    wrong = environment(GAQ_COOKIE_SAMESITE="Sometimes", GAQ_JWT_EXPIRATION_SECONDS="1")
    del wrong["GAQ_JWT_SECRET"]
    ended = subprocess.run(
        server.command(free_port()),
        env=wrong,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    text = ended.stderr.decode()
    assert ended.returncode != 0
    for variable in ("GAQ_JWT_SECRET is not set", "GAQ_COOKIE_SAMESITE", "GAQ_JWT_EXPIRATION"):
        assert variable in text
