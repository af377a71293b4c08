"""Every framework, in every mode: errors arrive as their status, and all else as without us."""

from __future__ import annotations

import asyncio
import functools
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from gaq_middleware import (
    JobNotFoundError,
    NotJobOwnerError,
    StoreError,
    asgi,
    issue_token,
    wsgi,
)
from gaq_middleware.registry.memory import MemoryStore
from tests.faces.apps import (
    CHART,
    HANDLERS,
    KINDS,
    RAISED,
    Kind,
    Mode,
    async_handlers,
    django_wsgi,
    falcon_asgi,
    falcon_wsgi,
    fastapi_app,
    fastapi_async_endpoint,
    flask_app,
    load,
    quart_app,
    starlette_outside,
)
from tests.faces.drive import Seen, see_asgi, see_wsgi
from tests.helpers import Ask, ask, cookies, make_settings, read_claims

SETTINGS = make_settings()


class Site:
    """An app of one kind in one mode, wrapped, and once more unwrapped."""

    def __init__(self, kind: Kind, mode: Mode) -> None:
        self.kind, self.mode = kind, mode
        self._wrapped = kind.build(mode, SETTINGS)
        self._unwrapped = kind.build(mode, None)

    def __call__(self, path: str, method: str = "GET", *, user: int | None = 7) -> Seen:
        """Send a request to the wrapped app, with a token unless nobody asks."""
        return self._see(self._wrapped, self._ask(path, method, user))

    def without_us(self, path: str, method: str = "GET") -> Seen:
        """Send the same request to the unwrapped app."""
        return self._see(self._unwrapped, self._ask(path, method, 7))

    def _ask(self, path: str, method: str, user: int | None) -> Ask:
        target = f"{self.kind.prefix}{path}"
        if user is None:
            return ask(method, target)
        return ask(method, target, Cookie=cookies(issue_token(SETTINGS, user)))

    def _see(self, app: Any, request: Ask) -> Seen:
        return see_asgi(app, request) if self.kind.face == "asgi" else see_wsgi(app, request)

    @property
    def tells_foreign(self) -> bool:
        """Whether a foreign error of a handler is known when its 500 leaves."""
        return self.mode in self.kind.tells_foreign


@functools.cache
def build(kind: Kind, mode: Mode) -> Site:
    """Return the site of a kind and a mode, built once."""
    return Site(kind, mode)


MODES = {"off": "", "debug": ", debugging", "test": ", testing"}


def sites(*, awaiting: bool = False) -> list[Any]:
    """Return all kinds in all their modes, or only those with coroutine functions as handlers."""
    return [
        pytest.param((kind, mode), id=f"{kind.name}{MODES[mode]}")
        for kind in KINDS
        for mode in kind.modes
        if kind.is_async or not awaiting
    ]


AWAITING = pytest.mark.parametrize("site", sites(awaiting=True), indirect=True)


@pytest.fixture(params=sites())
def site(request: pytest.FixtureRequest) -> Site:
    """Return each site in turn; skip those whose framework is not installed."""
    return build(*request.param)


def assert_problem(seen: Seen, status: int, code: str) -> None:
    """Check that a whole refusal of ours left, and nothing else."""
    assert (seen.raised, seen.status, seen.code) == (None, status, code)
    assert seen.get("Content-Type") == "application/problem+json"
    assert seen.get("Content-Length") == str(len(seen.body))
    assert seen.get("Location") is None
    assert (seen.json()["status"], seen.json()["code"]) == (status, code)


def is_the_same(seen: Seen, expected: Seen, *, body: bool = True) -> bool:
    """Say whether two answers are the same, exceptions included."""
    return (
        (seen.status, type(seen.raised), str(seen.raised))
        == (expected.status, type(expected.raised), str(expected.raised))
        and seen.all("Content-Type") == expected.all("Content-Type")
        and (not body or (seen.headers, seen.body) == (expected.headers, expected.body))
    )


# --- errors of ours -----------------------------------------------------------------------------


@pytest.mark.parametrize("status", RAISED)
def test_an_error_that_a_handler_raises_is_its_status(site: Site, status: int) -> None:
    """On an unprotected path, and whatever member was used or not."""
    code = RAISED[status].error_code
    assert_problem(site(f"/raise/{status}"), status, code)
    assert_problem(site(f"/raise/{status}", user=None), status, code)


def test_a_member_raises_401_without_an_identity(site: Site) -> None:
    """On an unprotected path the context refuses, not the guard."""
    assert_problem(site("/member", user=None), 401, "token_missing")
    assert site("/member").body.startswith(b"user-")


def test_a_protected_path_is_401_before_the_app(site: Site) -> None:
    """The guard refuses, whatever the framework would say."""
    assert_problem(site(CHART, "POST", user=None), 401, "token_missing")


def test_a_job_is_its_owners(site: Site) -> None:
    """202 for the owner; 403 for another user, 404 for what is unknown or has ended."""
    submitted = site(CHART, "POST")
    assert (submitted.raised, submitted.status) == (None, 202)
    path = f"/jobs/{json.loads(submitted.body)['job_id']}/cancel"
    assert_problem(site(path, "POST", user=None), 401, "token_missing")
    assert_problem(site(path, "POST", user=8), 403, "not_job_owner")
    cancelled = site(path, "POST")
    assert (cancelled.raised, cancelled.status, cancelled.body) == (None, 200, b"cancelled")
    assert_problem(site(path, "POST"), 404, "job_not_found")
    assert_problem(site("/jobs/unknown/cancel", "POST"), 404, "job_not_found")


def test_a_store_that_fails_is_503(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is never "allowed"."""

    def broken(self: MemoryStore, command: Any) -> Any:
        raise StoreError

    async def abroken(self: MemoryStore, command: Any) -> Any:
        raise StoreError

    monkeypatch.setattr(MemoryStore, "execute", broken)
    monkeypatch.setattr(MemoryStore, "aexecute", abroken)
    assert_problem(site(CHART, "POST"), 503, "store_unavailable")


def test_an_error_in_a_thread_pool_is_its_status(site: Site) -> None:
    """The context goes where the framework's own context variables go."""
    assert_problem(site("/pool"), 403, "not_job_owner")


@AWAITING
def test_an_error_in_gathered_tasks_is_a_status_of_ours(site: Site) -> None:
    """The exception seen and the newest recorded may differ; either is right."""
    seen = site("/gather")
    assert (seen.raised, seen.status in {403, 404}) == (None, True)
    assert_problem(seen, seen.status, {403: "forbidden", 404: "not_found"}[seen.status])


@pytest.mark.skipif(sys.version_info < (3, 11), reason="TaskGroup came with Python 3.11")
@AWAITING
def test_an_error_in_a_task_group_is_its_status(site: Site) -> None:
    """An ExceptionGroup of only ours is mapped."""
    assert_problem(site("/group"), 403, "forbidden")


def test_an_error_that_a_handler_catches_is_its_own_business(site: Site) -> None:
    """The answer stays."""
    assert is_the_same(site("/catch"), site.without_us("/catch"))
    assert (site("/catch").status, site("/catch").body) == (200, b"caught")


def test_a_foreign_error_after_one_of_ours_is_foreign_where_that_can_be_known(
    site: Site,
) -> None:
    """Frameworks that only say 500 hide it; then the recorded error answers, as documented."""
    seen, expected = site("/catch/fail"), site.without_us("/catch/fail")
    if site.tells_foreign:
        assert is_the_same(seen, expected, body=has_stable_pages(site))
    else:
        assert_problem(seen, 403, "not_job_owner")


def test_a_foreign_error_after_a_success_is_foreign(site: Site) -> None:
    """The next successful call on the context clears what was recorded."""
    seen, expected = site("/catch/succeed/fail"), site.without_us("/foreign")
    assert is_the_same(seen, expected, body=False)


@pytest.mark.parametrize("status", RAISED)
def test_frameworks_that_know_our_errors_log_no_traceback(
    site: Site, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """They are HTTP exceptions of starlette and werkzeug; others may log what they do not know."""
    site(f"/raise/{status}")
    traces = [record.name for record in caplog.records if record.exc_info]
    if site.kind.name.startswith(("Flask", "Quart", "Starlette", "a ", "FastAPI", "Litestar")):
        assert traces == []
    assert not any(name.startswith("gaq_middleware") for name in traces)


# --- what stays as without us -------------------------------------------------------------------


def has_stable_pages(site: Site) -> bool:
    """Say whether two error pages for the same error are byte for byte the same."""
    traced = ("Django", "Litestar", "Quart", "Starlette with the middleware added")
    return site.mode == "off" or not site.kind.name.startswith(traced)


def test_foreign_errors_are_as_without_us(site: Site) -> None:
    """Status, page and the exception that comes out."""
    seen, expected = site("/foreign"), site.without_us("/foreign")
    assert is_the_same(seen, expected, body=has_stable_pages(site))
    assert (seen.status, type(seen.raised)) in {
        (500, type(None)),
        (500, ValueError),
        (0, ValueError),
    }


@pytest.mark.parametrize(
    "path", [path for path in HANDLERS if path.startswith("/own/")] + ["/teapot", "/nowhere"]
)
def test_the_apps_own_answers_are_as_without_us(site: Site, path: str) -> None:
    """Its statuses, its bodies, its error handlers and its 404: to the byte."""
    shows_addresses = (site.kind.name, site.mode, path) == ("Pyramid", "debug", "/nowhere")
    for user in (7, None):
        seen, expected = site(path, user=user), site.without_us(path)
        assert is_the_same(seen, expected, body=not shows_addresses)
    status = {"/teapot": 418, "/nowhere": 404}.get(path) or int(path[-3:])
    assert site(path).status == status


def test_login_issues_the_cookie_after_the_apps_own(site: Site) -> None:
    """The app's two stay first, in order and unchanged."""
    seen, expected = site("/login", "POST", user=None), site.without_us("/login", "POST")
    assert (seen.raised, seen.status, seen.body) == (None, 200, b"hello")
    lines = seen.all("Set-Cookie")
    assert len(expected.all("Set-Cookie")) == 2
    assert lines[:2] == expected.all("Set-Cookie")
    assert len(lines) == 3
    assert read_claims(seen.cookie() or "")["sub"] == "7"
    assert seen.all("Cache-Control") == ["private, no-store"]


def test_logout_deletes_the_cookie(site: Site) -> None:
    """With Max-Age=0."""
    seen = site("/logout", "POST")
    assert (seen.status, seen.body, seen.cookie()) == (200, b"bye", "")
    (line,) = seen.all("Set-Cookie")
    assert "Max-Age=0" in line


# --- streams ------------------------------------------------------------------------------------


def test_a_stream_knows_who_is_asking(site: Site) -> None:
    """The context is current in the body, too."""
    seen = site("/stream")
    channel = site("/member").body
    assert (seen.raised, seen.status, seen.body) == (None, 200, channel + b" " + channel)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(f"{CHART}/stream/fails", id="on a protected path"),
        pytest.param("/stream/fails/asked", id="after the context was asked"),
    ],
)
def test_an_error_before_the_first_part_of_a_stream_is_its_status(site: Site, path: str) -> None:
    """The head was held; except under a BaseHTTPMiddleware, which has sent an empty end."""
    seen = site(path)
    if site.kind.name == "Starlette with a BaseHTTPMiddleware":
        assert (seen.status, seen.body) == (200, b"")
        assert type(seen.raised) is RuntimeError  # Starlette's, of an answer that has begun
        assert isinstance(seen.raised.__cause__, NotJobOwnerError)
    else:
        assert_problem(seen, 403, "not_job_owner")


def test_an_error_after_the_first_part_of_a_stream_is_as_without_us(site: Site) -> None:
    """What is on the wire cannot be mapped; the connection is cut by the exception."""
    seen = site("/stream/fails/late")
    assert (seen.status, seen.body) == (200, b"first")
    assert seen.raised is not None


# --- error handlers of the app ------------------------------------------------------------------


def flask_with(error: Any, status: int) -> Any:
    """Flask with an error handler of the app."""
    flask = load("flask")
    app = flask.Flask("app")
    app.add_url_rule("/", "index", fail_with_404)
    app.register_error_handler(error, lambda caught: ("own", status))
    return wsgi.AsyncQueryMiddleware(app, SETTINGS)


def quart_with(error: Any, status: int) -> Any:
    """Quart with an error handler of the app."""
    quart = load("quart")
    app = quart.Quart("app")

    async def on_error(caught: Exception) -> Any:
        return "own", status

    app.add_url_rule("/", "index", afail_with_404)
    app.register_error_handler(error, on_error)
    return asgi.AsyncQueryMiddleware(app, SETTINGS)


def starlette_with(error: Any, status: int) -> Any:
    """Starlette with an error handler of the app."""
    applications, routing = load("starlette.applications"), load("starlette.routing")
    responses = load("starlette.responses")

    async def on_error(request: Any, caught: Exception) -> Any:
        return responses.PlainTextResponse("own", status)

    routes = [routing.Route("/", afail_with_404)]
    app = applications.Starlette(routes=routes, exception_handlers={error: on_error})
    return asgi.AsyncQueryMiddleware(app, SETTINGS)


def litestar_with(error: Any, status: int) -> Any:
    """Litestar with an error handler of the app."""
    litestar = load("litestar")

    async def endpoint() -> None:
        raise JobNotFoundError

    def on_error(request: Any, caught: Exception) -> Any:
        return litestar.Response("own", status_code=status, media_type="text/plain")

    app = litestar.Litestar(
        [litestar.get("/")(endpoint)], exception_handlers={error: on_error}, openapi_config=None
    )
    return asgi.AsyncQueryMiddleware(app, SETTINGS)


def falcon_with(error: Any, status: int) -> Any:
    """Falcon with an error handler of the app."""
    falcon = load("falcon")

    class Resource:
        def on_get(self, request: Any, response: Any) -> None:
            raise JobNotFoundError

    def on_error(request: Any, response: Any, caught: Exception, values: Any) -> None:
        response.status, response.text = status, "own"

    app = falcon.App()
    app.add_route("/", Resource())
    app.add_error_handler(error, on_error)
    return wsgi.AsyncQueryMiddleware(app, SETTINGS)


def bottle_with(error: Any, status: int) -> Any:
    """Bottle with an error page of the app."""
    app = load("bottle").Bottle()
    app.route("/", "GET", fail_with_404)
    app.error(error, lambda caught: "own")
    return wsgi.AsyncQueryMiddleware(app, SETTINGS)


def pyramid_with(error: Any, status: int) -> Any:
    """Pyramid with an exception view of the app."""
    config, responses = load("pyramid.config").Configurator(), load("pyramid.response")
    config.add_route("index", "/")
    config.add_view(lambda context, request: fail_with_404(), route_name="index")
    config.add_exception_view(
        lambda context, request: responses.Response("own", status), context=error
    )
    return wsgi.AsyncQueryMiddleware(config.make_wsgi_app(), SETTINGS)


def fail_with_404() -> None:
    """Fail with an error of ours."""
    raise JobNotFoundError


async def afail_with_404(*request: Any) -> None:
    """Fail with an error of ours."""
    raise JobNotFoundError


HANDLED = [
    pytest.param(flask_with, 404, 404, None, id="Flask, for 404, which is not asked"),
    pytest.param(flask_with, Exception, 400, "own", id="Flask, for everything, 400"),
    pytest.param(flask_with, Exception, 200, "own", id="Flask, for everything, 200"),
    pytest.param(flask_with, Exception, 500, None, id="Flask, for everything, 500"),
    pytest.param(flask_with, 500, 500, None, id="Flask, for 500"),
    pytest.param(flask_with, JobNotFoundError, 500, None, id="Flask, for ours, 500"),
    pytest.param(quart_with, 404, 404, None, id="Quart, for 404, which is not asked"),
    pytest.param(quart_with, Exception, 400, "own", id="Quart, for everything, 400"),
    pytest.param(quart_with, Exception, 500, None, id="Quart, for everything, 500"),
    pytest.param(starlette_with, 404, 404, "own", id="Starlette, for 404"),
    pytest.param(starlette_with, HTTPException, 400, "own", id="Starlette, for HTTPException, 400"),
    pytest.param(starlette_with, Exception, 400, None, id="Starlette, for everything, 400"),
    pytest.param(starlette_with, 500, 400, None, id="Starlette, for 500"),
    pytest.param(litestar_with, 404, 404, None, id="Litestar, for 404, which is not asked"),
    pytest.param(litestar_with, Exception, 400, None, id="Litestar, for everything, not asked"),
    pytest.param(litestar_with, JobNotFoundError, 400, "own", id="Litestar, for ours, 400"),
    pytest.param(litestar_with, JobNotFoundError, 500, None, id="Litestar, for ours, 500"),
    pytest.param(falcon_with, Exception, 400, "own", id="Falcon, for everything, 400"),
    pytest.param(falcon_with, Exception, 500, None, id="Falcon, for everything, 500"),
    pytest.param(bottle_with, 500, 500, None, id="Bottle, for 500"),
    pytest.param(bottle_with, 404, 404, None, id="Bottle, for 404, which is not asked"),
    pytest.param(pyramid_with, Exception, 400, "own", id="Pyramid, for everything, 400"),
    pytest.param(pyramid_with, Exception, 500, None, id="Pyramid, for everything, 500"),
]


@pytest.mark.parametrize(("build_with", "error", "status", "body"), HANDLED)
def test_an_error_handler_of_the_app_has_the_last_word_unless_it_says_500(
    build_with: Callable[[Any, int], Any], error: Any, status: int, body: str | None
) -> None:
    """What it answers stays, as far as the framework asks it; its 500 is ours to explain."""
    app = build_with(error, status)
    request = ask("GET", "/")
    seen = (
        see_wsgi(app, request)
        if isinstance(app, wsgi.AsyncQueryMiddleware)
        else see_asgi(app, request)
    )
    if body is None:
        assert_problem(seen, 404, "job_not_found")
    else:
        assert (seen.raised, seen.status, seen.body.decode()) == (None, status, body)
        assert seen.code is None


# --- test clients of the frameworks -------------------------------------------------------------


def flask_client() -> Any:
    """Flask's."""
    client = flask_app("test", SETTINGS).test_client()
    return lambda path: client.get(path).status_code


def starlette_client() -> Any:
    """Starlette's, which raises what the app raises."""
    load("httpx")
    client = load("starlette.testclient").TestClient(starlette_outside("off", SETTINGS))
    return lambda path: client.get(path).status_code


def fastapi_client() -> Any:
    """FastAPI's."""
    build = fastapi_app(fastapi_async_endpoint, async_handlers())
    load("httpx")
    client = load("fastapi.testclient").TestClient(build("off", SETTINGS))
    return lambda path: client.get(path).status_code


def quart_client() -> Any:
    """Quart's."""
    client = quart_app("test", SETTINGS).test_client()

    async def get(path: str) -> Any:
        return (await client.get(path)).status_code

    return lambda path: asyncio.run(get(path))


def falcon_client() -> Any:
    """Falcon's."""
    client = load("falcon.testing").TestClient(falcon_wsgi("off", SETTINGS))
    return lambda path: client.simulate_get(path).status_code


def falcon_asgi_client() -> Any:
    """Falcon's for ASGI, lifespan included; it wants a plain function."""
    testing, app = load("falcon.testing"), falcon_asgi("off", SETTINGS)

    async def plain(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, receive, send)

    async def get(path: str) -> Any:
        async with testing.ASGIConductor(plain) as client:
            return (await client.simulate_get(path)).status_code

    return lambda path: asyncio.run(get(path))


def werkzeug_client() -> Any:
    """Werkzeug's, for Django, whose own client bypasses wrappers."""
    client = load("werkzeug.test").Client(django_wsgi("test", SETTINGS))
    return lambda path: client.get(path).status_code


@pytest.mark.parametrize(
    "client",
    [
        flask_client,
        starlette_client,
        fastapi_client,
        quart_client,
        falcon_client,
        falcon_asgi_client,
        werkzeug_client,
    ],
)
def test_test_clients_see_what_users_see(client: Callable[[], Callable[[str], int]]) -> None:
    """A mapped error is an answer there too, not an exception."""
    get = client()
    assert [get(f"/raise/{status}") for status in RAISED] == list(RAISED)
    assert get(CHART) == 401
    assert get("/own/504") == 504
