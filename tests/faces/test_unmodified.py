"""Apps that cannot be changed get the cookie by environment variables alone."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gaq_middleware import Settings, asgi, wsgi
from gaq_middleware.registry.memory import MemoryStore
from tests.helpers import POLL, Answer, Ask, Clock, K, call_asgi, call_wsgi, read_claims, token

SECRET = "the-secret-of-the-app"
VARIABLES = {"GAQ_JWT_SECRET": K, "GAQ_SESSION_SECRET": SECRET}


class Browser:
    """A browser: it keeps cookies, and sends them back."""

    def __init__(self, send: Callable[[Ask], Answer]) -> None:
        self._send, self.jar, self.clock = send, {"early": "bird"}, Clock()

    def __call__(self, method: str, target: str, body: bytes = b"", **headers: str) -> Answer:
        """Send a request with the cookies of the jar."""
        pairs = [("Host", "app.example"), *headers.items()]
        if self.jar:
            pairs.append(("Cookie", "; ".join(f"{k}={v}" for k, v in self.jar.items())))
        if body:
            pairs.append(("Content-Type", "application/x-www-form-urlencoded"))
            pairs.append(("Content-Length", str(len(body))))
        answer = self._send(Ask(method, target, pairs, body=body))
        for line in answer.all("Set-Cookie"):
            name, _, value = line.partition(";")[0].partition("=")
            self.jar.pop(name, None)
            if value and "Max-Age=0" not in line:
                self.jar[name] = value
        return answer


def flask_browser(clock: Clock) -> Browser:
    """Return a browser of an app with flask-login that knows nothing of us."""
    flask: Any = pytest.importorskip("flask")
    login: Any = pytest.importorskip("flask_login")
    app = flask.Flask("app")
    app.secret_key = SECRET
    manager = login.LoginManager(app)

    class User(login.UserMixin):  # type: ignore[misc]
        def __init__(self, user_id: str) -> None:
            self.id = user_id

    manager.user_loader(User)

    @app.post("/login")
    def enter() -> Any:
        if flask.request.form.get("password") != "right":
            return "wrong password"
        login.login_user(User(flask.request.form["user"]))
        return flask.redirect("/")

    @app.get("/sso")
    def single_sign_on() -> Any:
        login.login_user(User("9"))
        return flask.redirect("/")

    @app.get("/logout")
    def leave() -> Any:
        login.logout_user()
        return flask.redirect("/")

    @app.get("/")
    def home() -> str:
        return login.current_user.get_id() or "nobody"

    settings = Settings.from_env(
        {**VARIABLES, "GAQ_SESSION_FORMAT": "flask", "GAQ_LOGIN_PATHS": "/login,/sso"}
    )
    wrapped = wsgi.AsyncQueryMiddleware(app.wsgi_app, settings)
    wrapped.engine.clock = clock
    wrapped.engine.store = MemoryStore()
    return Browser(lambda request: call_wsgi(wrapped, request))


def starlette_browser(clock: Clock) -> Browser:
    """Return a browser of an app with SessionMiddleware that knows nothing of us."""
    pytest.importorskip("starlette.middleware.sessions")
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.sessions import SessionMiddleware
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, RedirectResponse, Response
    from starlette.routing import Route

    async def enter(request: Request) -> Response:
        fields = dict(pair.split("=") for pair in (await request.body()).decode().split("&"))
        if fields.get("password") != "right":
            return PlainTextResponse("wrong password")
        request.session["_user_id"] = fields["user"]
        return RedirectResponse("/", 302)

    async def single_sign_on(request: Request) -> Response:
        request.session["_user_id"] = "9"
        return RedirectResponse("/", 302)

    async def leave(request: Request) -> Response:
        request.session.clear()
        return RedirectResponse("/", 302)

    async def home(request: Request) -> Response:
        text = request.session.get("_user_id", "nobody")
        return Response(text, media_type="text/html")

    app = Starlette(
        routes=[
            Route("/login", enter, methods=["POST"]),
            Route("/sso", single_sign_on),
            Route("/logout", leave),
            Route("/", home),
        ],
        middleware=[Middleware(SessionMiddleware, secret_key=SECRET)],
    )
    settings = Settings.from_env(
        {**VARIABLES, "GAQ_SESSION_FORMAT": "starlette", "GAQ_LOGIN_PATHS": "/login,/sso"}
    )
    wrapped = asgi.AsyncQueryMiddleware(app, settings)
    wrapped.engine.clock = clock
    wrapped.engine.store = MemoryStore()
    return Browser(lambda request: asyncio.run(call_asgi(wrapped, request)))


@pytest.fixture(params=[flask_browser, starlette_browser], ids=["flask-login", "starlette"])
def browser(request: pytest.FixtureRequest) -> Browser:
    """A browser of either app; the clock is the real one, as the sessions' is."""
    import time

    clock = Clock(time.time())
    made: Browser = request.param(clock)
    made.clock = clock
    return made


def test_a_login_sets_the_cookie(browser: Browser) -> None:
    """POST to the login path, below 400, a user in the new session: the cookie is issued."""
    answer = browser("POST", "/login", b"user=7&password=right")

    assert answer.status == 302
    assert read_claims(answer.cookie() or "")["sub"] == "7"
    assert len(answer.all("Set-Cookie")) == 2
    assert browser("GET", POLL).status == 200


def test_case_115_a_wrong_password_sets_none(browser: Browser) -> None:
    """A login path that answers 200 without a user issues nothing."""
    answer = browser("POST", "/login", b"user=7&password=wrong")

    assert (answer.status, answer.cookie()) == (200, None)
    assert browser("GET", POLL).code == "token_missing"


def test_single_sign_on_is_a_login_by_get(browser: Browser) -> None:
    """GET to a login path whose response itself sets a session with a user."""
    assert read_claims(browser("GET", "/sso").cookie() or "")["sub"] == "9"


def test_the_cookie_is_renewed_while_used(browser: Browser) -> None:
    """In the second half of its life, with the same channel, while the session is the user's."""
    browser("POST", "/login", b"user=7&password=right")
    first = read_claims(browser.jar["async-token"])
    browser.clock.now += 1900

    second = read_claims(browser("GET", POLL).cookie() or "")

    assert second["exp"] == first["exp"] + 1900
    assert second["channel"] == first["channel"]
    assert second["auth_time"] == first["auth_time"]


def test_the_cookie_is_replaced_when_the_user_changes(browser: Browser) -> None:
    """Another user in the same browser gets another channel (case 29)."""
    browser("POST", "/login", b"user=7&password=right")
    first = read_claims(browser.jar["async-token"])

    second = read_claims(browser("POST", "/login", b"user=8&password=right").cookie() or "")

    assert second["sub"] == "8"
    assert second["channel"] != first["channel"]


def test_a_cookie_of_somebody_else_is_repaired(browser: Browser) -> None:
    """The session's user counts; a page brings them their own cookie."""
    browser("POST", "/login", b"user=7&password=right")
    browser.jar["async-token"] = token(sub="8", now=browser.clock.now)

    assert browser("GET", POLL).json() == {"result": []}
    assert read_claims(browser.jar["async-token"])["sub"] == "7"


def test_a_lost_cookie_comes_back_with_the_next_page(browser: Browser) -> None:
    """Sessions older than the middleware, too: the first page brings the cookie (case 106)."""
    browser("POST", "/login", b"user=7&password=right")
    channel = read_claims(browser.jar.pop("async-token"))["channel"]

    assert read_claims(browser("GET", "/").cookie() or "")["channel"] == channel


def test_a_logout_deletes_the_cookie(browser: Browser) -> None:
    """The logout path below 400 deletes it, and nothing brings it back."""
    browser("POST", "/login", b"user=7&password=right")

    assert browser("GET", "/logout").cookie() == ""
    assert browser("GET", "/").cookie() is None
    assert browser("GET", POLL).code == "token_missing"


def test_a_session_without_a_user_leaves_the_word_to_other_sources() -> None:
    """A counter in the session is no log-out: whom user_from names still gets the cookie."""
    flask: Any = pytest.importorskip("flask")
    app = flask.Flask("app")
    app.secret_key = SECRET

    @app.get("/")
    def home() -> str:
        flask.session["seen"] = flask.session.get("seen", 0) + 1
        return "page"

    settings = Settings.from_env({**VARIABLES, "GAQ_SESSION_FORMAT": "flask"})
    wrapped = wsgi.AsyncQueryMiddleware(app.wsgi_app, settings, user_from=lambda environ: 7)
    answer = call_wsgi(wrapped, Ask("GET", "/"))

    assert len(answer.all("Set-Cookie")) == 2
    assert read_claims(answer.cookie() or "")["sub"] == "7"
