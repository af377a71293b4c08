"""The ASGI face, message by message: what passes, what is held, what is replaced."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest

from gaq_middleware import (
    AuthenticationError,
    BadRequestError,
    ForbiddenError,
    JobNotFoundError,
    NotJobOwnerError,
    RequestContext,
    StoreError,
    UserIdentity,
    current,
)
from gaq_middleware.asgi import MAX_HELD_BYTES
from tests.faces.drive import (
    PROTECTED,
    SOCKET_PATH,
    Message,
    guard_asgi,
    run_asgi,
    see_asgi,
    see_socket,
)
from tests.helpers import POLL, ask, cookies, read_claims, scope_of, token

TEXT = [(b"content-type", b"text/plain")]
MARKED = [*TEXT, (b"x-gaq-error", b"forbidden")]
App = Callable[[Any, Any, Any], Awaitable[None]]


def start(status: int = 200, headers: Any = None) -> Message:
    """Return a head."""
    headers = TEXT if headers is None else headers
    return {"type": "http.response.start", "status": status, "headers": headers}


def body(text: bytes = b"the app", *, more: bool = False) -> Message:
    """Return a part of a body."""
    return {"type": "http.response.body", "body": text, "more_body": more}


def close(code: int = 1000) -> Message:
    """Return an end of a socket."""
    return {"type": "websocket.close", "code": code, "reason": ""}


ACCEPT: Message = {"type": "websocket.accept"}
HELLO: Message = {"type": "websocket.send", "text": "hello"}


def sends(*steps: Any) -> App:
    """Return an app that sends messages, calls functions and raises exceptions, in this order."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for step in steps:
            done = step() if callable(step) else step
            if isinstance(done, BaseException):
                raise done
            if isinstance(done, dict):
                await send(dict(done))

    return app


def fails(error: type[BaseException] = NotJobOwnerError) -> Callable[[], BaseException]:
    """Return a step that makes an error while the request is handled, and raises it."""
    return error


def catches(error: type[BaseException] = NotJobOwnerError) -> Callable[[], None]:
    """Return a step that makes an error while the request is handled, and goes on."""

    def step() -> None:
        error()

    return step


def uses_member() -> None:
    """Use a member of the context that raises without an identity."""
    with contextlib.suppress(AuthenticationError):
        current().channel_id  # noqa: B018 - it raises


def succeeds() -> None:
    """Do something with jobs that succeeds."""
    current().jobs.events()


def with_token(target: str = PROTECTED, method: str = "GET", **headers: str) -> Any:
    """Return a request with a good token."""
    return ask(method, target, Cookie=cookies(token()), **headers)


# --- what passes untouched ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lifespan", "foo"])
def test_case_79_other_scopes_pass_with_the_very_same_arguments(kind: str) -> None:
    """Only http and websocket are touched: the app gets the same scope, receive and send."""
    seen: list[Any] = []

    async def app(*arguments: Any) -> None:
        seen.extend(arguments)

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        raise AssertionError

    scope = {"type": kind}
    asyncio.run(guard_asgi(app)(scope, receive, send))
    assert [id(argument) for argument in seen] == [id(scope), id(receive), id(send)]
    assert scope == {"type": kind}


def test_case_79_a_failing_lifespan_comes_out() -> None:
    """Some apps raise on lifespan (Django does); servers know what that means."""
    seen = run_asgi(guard_asgi(sends(ValueError("no lifespan"))), {"type": "lifespan"})
    assert str(seen.raised) == "no lifespan"


def test_case_79_a_socket_without_method_is_no_error() -> None:
    """Websocket scopes have no method, and may lack whatever is optional."""
    app = guard_asgi(sends(ACCEPT, close()))
    seen = run_asgi(app, {"type": "websocket", "path": "/", "headers": []})
    assert seen.raised is None
    assert seen.types == ["websocket.accept", "websocket.close"]


def test_case_81_context_variables_set_inside_are_seen_outside() -> None:
    """The app is awaited in the same task."""
    variable: ContextVar[str] = ContextVar("variable", default="outside")
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        variable.set("inside")

    async def outermost(scope: Any, receive: Any, send: Any) -> None:
        await guard_asgi(app)(scope, receive, send)
        seen.append(variable.get())

    assert see_asgi(outermost).raised is None
    assert seen == ["inside"]


@pytest.mark.parametrize(
    ("target", "types"),
    [
        pytest.param("/", ["http.response.start"], id="the head has left elsewhere"),
        pytest.param(PROTECTED, [], id="the head is still held on protected paths"),
    ],
)
def test_case_82_an_error_after_the_head_comes_out_and_nothing_more_is_sent(
    target: str, types: list[str]
) -> None:
    """A foreign error is re-raised as it is; there is never a second head."""
    error = ValueError("foreign")
    seen = see_asgi(guard_asgi(sends(start(), error)), with_token(target))
    assert seen.raised is error
    assert seen.types == types


def test_case_82_our_own_error_after_the_first_part_comes_out() -> None:
    """What is on the wire cannot be mapped."""
    app = guard_asgi(sends(start(), body(more=True), fails()))
    seen = see_asgi(app, with_token())
    assert isinstance(seen.raised, NotJobOwnerError)
    assert seen.types == ["http.response.start", "http.response.body"]


def test_case_88_several_cookie_headers_are_all_read() -> None:
    """HTTP/2 sends crumbs, one header each."""
    request = ask("GET", POLL)
    request.headers += [("Cookie", "a=1"), ("Cookie", cookies(token())), ("Cookie", "b=2")]
    seen = see_asgi(guard_asgi(sends()), request)
    assert (seen.status, seen.json()) == (200, {"result": []})


def test_case_90_the_cookies_of_the_app_stay_first_and_unchanged() -> None:
    """Ours is the last of three `Set-Cookie` lines."""
    own = [(b"set-cookie", b"a=1"), (b"x-between", b"yes"), (b"Set-Cookie", b"b=2; Path=/x")]
    app = guard_asgi(sends(lambda: current().login(7), start(302, own), body(b"")))
    seen = see_asgi(app, ask("POST", "/login"))
    lines = seen.all("set-cookie")
    assert lines[:2] == ["a=1", "b=2; Path=/x"]
    assert len(lines) == 3
    assert read_claims(seen.cookie() or "")["sub"] == "7"


@pytest.mark.parametrize(
    ("value", "status"),
    [pytest.param(token(), 200, id="good token"), pytest.param("bad", 401, id="bad token")],
)
def test_case_113_our_answers_to_head_have_no_body(value: str, status: int) -> None:
    """HEAD has the headers of GET, its length too, and nothing after them."""
    app = guard_asgi(sends())
    head, get = (see_asgi(app, ask(m, POLL, Cookie=cookies(value))) for m in ("HEAD", "GET"))
    assert head.status == get.status == status
    assert head.body == b""
    assert head.headers == get.headers
    assert get.get("content-length") == str(len(get.body))


@pytest.mark.parametrize("status", [204, 304])
def test_case_113_empty_answers_of_the_app_stay_empty(status: int) -> None:
    """We give no body to a 204 or a 304."""
    seen = see_asgi(guard_asgi(sends(start(status, []), body(b""))), with_token())
    assert (seen.status, seen.body, seen.headers) == (status, b"", [])


def test_case_113_a_mapped_error_has_no_body_for_head() -> None:
    """An error raised in a handler is a refusal like any other."""
    seen = see_asgi(guard_asgi(sends(fails())), with_token(method="HEAD"))
    assert (seen.status, seen.body) == (403, b"")
    assert int(seen.get("content-length") or 0) > 0


@pytest.mark.parametrize(
    ("steps", "sub"),
    [
        pytest.param([ValueError("x")], None, id="the app raises"),
        pytest.param([start(500), body()], None, id="a 500"),
        pytest.param([start(401), body()], None, id="a 401"),
        pytest.param([start(200), body(b"wrong password")], None, id="a 200 without a user"),
        pytest.param([lambda: current().login(7), start(302), body()], "7", id="a 302 with one"),
        pytest.param([lambda: current().login(7), start(200), body()], "7", id="a 200 with one"),
        pytest.param([lambda: current().login(7), start(400), body()], None, id="a late refusal"),
        pytest.param([lambda: current().login(7), fails()], None, id="a late error of ours"),
    ],
)
def test_case_115_the_cookie_depends_on_the_final_status_and_on_a_user(
    steps: list[Any], sub: str | None
) -> None:
    """Nothing is issued on errors, nor when nobody logged in."""
    seen = see_asgi(guard_asgi(sends(*steps)), ask("POST", "/login"))
    issued = seen.cookie()
    assert (issued and read_claims(issued)["sub"]) == sub


@pytest.mark.parametrize("denial", [True, False], ids=["denial offered", "denial not offered"])
def test_case_121_a_socket_without_token_is_refused_before_the_app(denial: bool) -> None:
    """A real 401 where the server can, else a close before accept, and the call returns."""
    seen = see_socket(guard_asgi(sends(AssertionError("called"))), denial=denial)
    assert seen.raised is None
    if denial:
        assert seen.types == ["websocket.http.response.start", "websocket.http.response.body"]
        assert (seen.status, seen.code, seen.json()["code"]) == (401, *["token_missing"] * 2)
    else:
        assert seen.messages == [close(4401)]


@pytest.mark.parametrize("denial", [True, False], ids=["denial offered", "denial not offered"])
def test_a_socket_from_a_foreign_page_is_refused(denial: bool) -> None:
    """A cookie needs a same-origin proof on sockets."""
    app = guard_asgi(sends(AssertionError("called")))
    cookie = cookies(token())
    seen = see_socket(app, denial=denial, Cookie=cookie, Origin="https://evil.example")
    assert seen.raised is None
    assert (seen.status, seen.close_code) == ((403, None) if denial else (0, 4403))


def test_case_146_a_client_that_left_is_the_apps_to_notice() -> None:
    """The disconnect reaches the app as the server sent it."""
    received: list[Message] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        received.append(await receive())
        received.append(await receive())

    gone = {"type": "http.disconnect"}
    seen = see_asgi(guard_asgi(app), with_token(), receives=[body(), gone])
    assert received[1] is gone
    assert seen.messages == []


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((), id="nothing is held"),
        pytest.param((start(),), id="a head is held"),
        pytest.param((catches(), start(500), body()), id="a 500 is held"),
    ],
)
def test_case_146_a_cancelled_request_sends_nothing_more(steps: tuple[Any, ...]) -> None:
    """Cancellation is passed on as it is, whatever is held."""
    seen = see_asgi(guard_asgi(sends(*steps, asyncio.CancelledError())), with_token())
    assert isinstance(seen.raised, asyncio.CancelledError)
    assert seen.messages == []


@pytest.mark.parametrize("target", ["/", PROTECTED])
@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([start(), body()], id="an answer"),
        pytest.param([start(), body(more=True), body()], id="a stream"),
        pytest.param([start()], id="a head only"),
        pytest.param([], id="nothing at all"),
        pytest.param(
            [{"type": "http.response.early_hint", "links": [b"</a>"]}, start(), body()],
            id="early hints before the head",
        ),
        pytest.param([{"type": "http.response.debug", "info": {}}, start(), body()], id="debug"),
        pytest.param([start(), {"type": "http.response.pathsend", "path": "/f"}], id="pathsend"),
        pytest.param([start(), {"type": "http.response.zerocopysend", "file": 1}], id="zero copy"),
        pytest.param(
            [
                {**start(), "trailers": True},
                body(),
                {"type": "http.response.trailers", "headers": [], "more_trailers": False},
            ],
            id="trailers",
        ),
        pytest.param([start(), {"type": "http.response.push", "path": "/f"}, body()], id="push"),
        pytest.param([start(), start(500), body()], id="two heads, which the server refuses"),
        pytest.param([start(), body(), body()], id="too many parts"),
        pytest.param([start(500), body()], id="a 500 of the app"),
    ],
)
def test_messages_of_the_app_pass_in_order(messages: list[Message], target: str) -> None:
    """Held or not, what leaves is what the app sent."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError

    app = guard_asgi(sends(*messages))
    asyncio.run(app(scope_of(with_token(target)), receive, send))
    assert sent == messages


def test_a_head_without_headers_is_legal() -> None:
    """`headers` is optional in a response start; ours still finds its place."""
    bare = {"type": "http.response.start", "status": 200}
    app = guard_asgi(sends(lambda: current().login(7), bare, body()))
    seen = see_asgi(app, ask("POST", "/login"))
    assert seen.cookie()
    assert see_asgi(guard_asgi(sends(bare, body()))).status == 200


def test_response_headers_may_be_an_iterator_that_is_read_once() -> None:
    """Sanic gives one; what we read must still reach the server."""
    app = guard_asgi(sends(lambda: start(200, iter(TEXT)), body()))
    assert see_asgi(app, with_token()).headers == [("content-type", "text/plain")]
    app = guard_asgi(sends(lambda: start(200, iter(TEXT)), lambda: current().login(7), body()))
    assert see_asgi(app).headers == [("content-type", "text/plain")]


def test_request_headers_may_be_an_iterator_that_is_read_once() -> None:
    """The app reads them after us."""
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.extend(scope["headers"])

    headers = [(b"cookie", cookies(token()).encode()), (b"x-more", b"1")]
    see_asgi(guard_asgi(app), ask("GET", PROTECTED), headers=iter(headers))
    assert seen == headers


def test_a_head_that_the_app_sends_again_and_again_is_not_written_to() -> None:
    """A message kept by the app for all requests must not carry one user's cookie to the next."""
    constant = {"type": "http.response.start", "status": 200, "headers": list(TEXT)}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "POST":
            current().login(7)
        await send(constant)
        await send(body())

    guarded = guard_asgi(app)
    assert see_asgi(guarded, ask("POST", "/login")).cookie()
    assert constant == {"type": "http.response.start", "status": 200, "headers": TEXT}
    assert see_asgi(guarded, ask("GET", "/")).all("set-cookie") == []


# --- what is held, and what is mapped -----------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (AuthenticationError, 401, "unauthorized"),
        (ForbiddenError, 403, "forbidden"),
        (NotJobOwnerError, 403, "not_job_owner"),
        (JobNotFoundError, 404, "job_not_found"),
        (StoreError, 503, "store_unavailable"),
    ],
)
@pytest.mark.parametrize("steps", [(), (start(),)], ids=["at once", "after a held head"])
def test_an_error_of_ours_becomes_its_status(
    error: type[Exception], status: int, code: str, steps: tuple[Any, ...]
) -> None:
    """The problem document answers, with the headers of section 5."""
    seen = see_asgi(guard_asgi(sends(*steps, fails(error))), with_token())
    assert (seen.raised, seen.status, seen.code) == (None, status, code)
    assert seen.get("content-type") == "application/problem+json"
    assert seen.get("cache-control") == "no-store"
    assert (seen.get("www-authenticate") is None) == (status != 401)
    assert (seen.get("retry-after") is None) == (status != 503)
    assert seen.json()["code"] == code
    assert seen.json()["status"] == status


def test_a_mapped_error_carries_cors_headers_for_listed_origins() -> None:
    """A browser would hide the status otherwise."""
    app = guard_asgi(sends(fails()), allowed_origins="https://page.example")
    seen = see_asgi(app, with_token(Origin="https://page.example"))
    assert (seen.status, seen.get("access-control-allow-origin")) == (403, "https://page.example")


@pytest.mark.parametrize(
    ("target", "before", "content_type", "is_mapped"),
    [
        pytest.param(PROTECTED, None, b"text/html", True, id="protected path"),
        pytest.param("/", uses_member, b"text/html", True, id="a raising member was used"),
        pytest.param("/", lambda: current().identity, b"text/html", False, id="identity is none"),
        pytest.param("/", None, b"text/html", False, id="no member used"),
        pytest.param(PROTECTED, None, b"text/event-stream", False, id="server-sent events"),
        pytest.param(PROTECTED, None, b"Text/Event-Stream; charset=utf-8", False, id="spelled so"),
        pytest.param(PROTECTED, None, b"application/x-ndjson", False, id="ndjson"),
        pytest.param(PROTECTED, None, b"multipart/x-mixed-replace", False, id="multipart"),
    ],
)
def test_the_head_is_held_where_an_error_may_still_replace_it(
    target: str, before: Any, content_type: bytes, is_mapped: bool
) -> None:
    """Only on protected paths or once a raising member was used, and never for streams."""
    sent_early: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if before is not None:
            before()
        await send(start(200, [(b"content-type", content_type)]))
        sent_early.append(len(seen_by_server))
        raise NotJobOwnerError

    seen_by_server: list[Message] = []

    async def server(scope: Any, receive: Any, send: Any) -> None:
        async def noting(message: Message) -> None:
            seen_by_server.append(message)
            await send(message)

        await guard_asgi(app)(scope, receive, noting)

    seen = see_asgi(server, with_token(target))
    assert sent_early == [0 if is_mapped else 1]
    assert seen.status == (403 if is_mapped else 200)
    assert (seen.raised is None) == is_mapped


RAISED_THEN_500 = [
    pytest.param([start(500), body()], id="returned"),
    pytest.param([start(500), body(), fails(ForbiddenError)], id="and raised one of ours"),
    pytest.param([start(500), body(more=True), body()], id="in parts"),
    pytest.param([start(500)], id="a head only"),
    pytest.param([start(500, MARKED), body()], id="marked"),
    pytest.param([start(500), start(500), body()], id="two heads"),
]


@pytest.mark.parametrize("steps", RAISED_THEN_500)
@pytest.mark.parametrize("target", ["/", PROTECTED])
def test_a_500_with_an_error_recorded_is_replaced(steps: list[Any], target: str) -> None:
    """Frameworks answer 500 to what they do not know, with or without raising it again."""
    seen = see_asgi(guard_asgi(sends(catches(ForbiddenError), *steps)), with_token(target))
    assert (seen.raised, seen.status, seen.code) == (None, 403, "forbidden")
    assert seen.types == ["http.response.start", "http.response.body"]


def test_the_newest_error_answers() -> None:
    """Of several recorded, the last made."""
    steps = [catches(JobNotFoundError), catches(NotJobOwnerError), start(500), body()]
    assert see_asgi(guard_asgi(sends(*steps)), with_token()).code == "not_job_owner"


def test_a_replaced_500_is_told_in_one_warning_that_names_both(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever looks for the 500 in the log of the app finds why the client saw a 403."""
    with caplog.at_level(logging.INFO, "gaq_middleware"):
        see_asgi(guard_asgi(sends(catches(), start(500), body())), with_token())
    lines = [r.getMessage() for r in caplog.records if "500" in r.getMessage()]
    assert len(lines) == 1
    assert "not_job_owner" in lines[0]
    assert "403" in lines[0]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([body()], id="whole"),
        pytest.param([body(more=True), body(b"")], id="in parts"),
        pytest.param([], id="a head only"),
    ],
)
def test_a_held_500_goes_out_when_the_app_raises_something_else(parts: list[Message]) -> None:
    """The error recorded was dealt with; the 500 is about the foreign one, which comes out too."""
    error = ValueError("foreign")
    seen = see_asgi(guard_asgi(sends(catches(), start(500), *parts, error)), with_token())
    assert seen.raised is error
    assert seen.messages == [start(500), *parts]


def test_a_500_is_held_up_to_64_kib() -> None:
    """Beyond that the error recorded answers, and the rest is dropped."""
    half = b"x" * (MAX_HELD_BYTES // 2)
    more = [body(half, more=True), body(half, more=True)]
    error = ValueError("foreign")
    full = see_asgi(guard_asgi(sends(catches(), start(500), *more, error)), with_token())
    assert (full.raised, full.status) == (error, 500)
    steps = [catches(), start(500), *more, body(b"x", more=True), body(b"more"), error]
    over = see_asgi(guard_asgi(sends(*steps)), with_token())
    assert (over.raised, over.status, over.code) == (error, 403, "not_job_owner")
    assert over.types == ["http.response.start", "http.response.body"]


@pytest.mark.parametrize("listens", ["beside", "afterwards"])
def test_a_held_500_goes_out_when_the_app_listens_for_the_end(listens: str) -> None:
    """Quart 0.23 serves a request until the client has gone, which it does after the answer."""
    is_over = False

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal is_over

        async def listen() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        listener = asyncio.create_task(listen()) if listens == "beside" else None
        await asyncio.sleep(0)
        NotJobOwnerError()
        await send(start(500))
        await send(body(more=True))
        await send(body(b""))
        await (listener or listen())
        is_over = True

    seen = see_asgi(guard_asgi(app), with_token())
    assert (seen.raised, seen.status, seen.code) == (None, 403, "not_job_owner")
    assert is_over


def test_messages_with_a_500_are_held_in_order() -> None:
    """Extension messages after the head wait with it."""
    path = {"type": "http.response.pathsend", "path": "/500.html"}
    error = ValueError("foreign")
    seen = see_asgi(guard_asgi(sends(catches(), start(500), path, error)), with_token())
    assert seen.messages == [start(500), path]


@pytest.mark.parametrize(
    ("steps", "status"),
    [
        pytest.param([catches(ForbiddenError), start(403, MARKED), body()], 403, id="equal"),
        pytest.param(
            [catches(ForbiddenError), catches(StoreError), start(403, MARKED), body()],
            403,
            id="not the newest",
        ),
    ],
)
def test_a_marked_answer_of_a_recorded_status_is_replaced(steps: list[Any], status: int) -> None:
    """Frameworks of starlette and werkzeug answer our errors themselves, with our header."""
    seen = see_asgi(guard_asgi(sends(*steps)), with_token("/"))
    assert (seen.status, seen.code) == (status, "forbidden")
    assert seen.get("content-type") == "application/problem+json"


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([start(403, MARKED), body()], id="marked, but nothing recorded"),
        pytest.param([catches(), start(403, MARKED), body()], id="the marker of another error"),
        pytest.param([catches(ForbiddenError), start(400, MARKED), body()], id="another status"),
        pytest.param([catches(ForbiddenError), start(403), body()], id="no marker"),
        pytest.param([catches(AuthenticationError), start(401), body()], id="its own 401"),
        pytest.param([catches(JobNotFoundError), start(404), body()], id="its own 404"),
        pytest.param([catches(StoreError), start(504), body()], id="its own 504"),
        pytest.param([catches(StoreError), start(501), body()], id="its own 501"),
        pytest.param([catches(), start(200), body()], id="caught, and 200"),
        pytest.param([catches(), succeeds, start(500), body()], id="a success came after"),
        pytest.param([start(500), catches(), body()], id="made after the head"),
    ],
)
@pytest.mark.parametrize("target", ["/", PROTECTED])
def test_whatever_else_the_app_answers_stays(steps: list[Any], target: str) -> None:
    """The app may catch our errors, and its own statuses are its own."""
    seen = see_asgi(guard_asgi(sends(*steps)), with_token(target))
    assert seen.raised is None
    assert seen.messages == [step for step in steps if isinstance(step, dict)]


class LitestarLike(Exception):  # noqa: N818 - as Litestar names its own
    """What Litestar raises from the exception it caught."""


LitestarLike.__module__ = "litestar.exceptions"


def wrapped_by(kind: type[Exception], cause: type[BaseException]) -> Callable[[], Exception]:
    """Return a step that raises an error with a cause."""

    def step() -> Exception:
        error = kind("wrapping")
        error.__cause__ = cause()
        return error

    return step


def test_an_error_of_ours_is_seen_through_starlettes() -> None:
    """Starlette wraps what it has a handler for, once it has sent the head, which we still hold."""

    def wrapping(cause: Exception) -> Exception:
        error = RuntimeError("Caught handled exception, but response already started.")
        error.__cause__ = cause
        return error

    seen = see_asgi(guard_asgi(sends(start(), lambda: wrapping(NotJobOwnerError()))), with_token())
    assert (seen.raised, seen.status) == (None, 403)
    foreign = wrapping(ValueError("foreign"))
    seen = see_asgi(guard_asgi(sends(start(), foreign)), with_token())
    assert (seen.raised, seen.messages) == (foreign, [])


def test_an_error_of_ours_is_seen_through_litestars() -> None:
    """Litestar re-raises what it caught after the head as the cause of its own exception."""
    app = guard_asgi(sends(start(), wrapped_by(LitestarLike, NotJobOwnerError)))
    seen = see_asgi(app, with_token())
    assert (seen.raised, seen.status) == (None, 403)


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (ValueError, NotJobOwnerError),
        (RuntimeError, NotJobOwnerError),
        (LitestarLike, ValueError),
    ],
)
def test_other_exceptions_with_a_cause_come_out(
    kind: type[Exception], cause: type[Exception]
) -> None:
    """A handler that raises its own error from ours means its own."""
    app = guard_asgi(sends(start(), wrapped_by(kind, cause)))
    seen = see_asgi(app, with_token())
    assert type(seen.raised) is kind
    assert seen.messages == []


def test_a_foreign_error_after_a_mapped_answer_comes_out() -> None:
    """A background task that fails is told to the server; the answer is not touched."""
    error = ValueError("background")
    app = guard_asgi(sends(catches(ForbiddenError), start(403, MARKED), body(), error))
    seen = see_asgi(app, with_token())
    assert (seen.raised, seen.status, seen.code) == (error, 403, "forbidden")


def test_our_error_after_a_mapped_answer_is_swallowed() -> None:
    """Starlette raises again what it has answered; the server would log a traceback for it."""
    app = guard_asgi(sends(catches(ForbiddenError), start(403, MARKED), body(), fails()))
    seen = see_asgi(app, with_token())
    assert (seen.raised, seen.status, seen.code) == (None, 403, "forbidden")


def test_an_error_made_in_a_task_of_the_request_is_recorded() -> None:
    """A task copies the context; the request is the same."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def work() -> None:
            raise NotJobOwnerError

        with contextlib.suppress(NotJobOwnerError):
            await asyncio.create_task(work())
        await send(start(500))
        await send(body())

    assert see_asgi(guard_asgi(app), with_token()).status == 403


# --- groups (Python 3.11 and newer) -------------------------------------------------------------

GROUP: Any = getattr(builtins, "ExceptionGroup", None)
has_groups = pytest.mark.skipif(GROUP is None, reason="ExceptionGroup came with Python 3.11")


@has_groups
@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
def test_a_group_of_only_our_errors_is_mapped(nested: bool) -> None:
    """A TaskGroup raises groups; the newest error answers."""

    def step() -> Any:
        group = GROUP("inner", [JobNotFoundError(), ForbiddenError()])
        return GROUP("outer", [group]) if nested else group

    seen = see_asgi(guard_asgi(sends(step)), with_token())
    assert (seen.raised, seen.status, seen.code) == (None, 403, "forbidden")


@has_groups
def test_a_group_with_a_foreign_error_comes_out() -> None:
    """Ours would hide the other."""
    app = guard_asgi(sends(lambda: GROUP("mixed", [NotJobOwnerError(), ValueError("foreign")])))
    seen = see_asgi(app, with_token())
    assert type(seen.raised) is GROUP
    assert seen.messages == []


@has_groups
def test_a_group_with_a_cancellation_comes_out() -> None:
    """Cancellation is not ours to swallow."""
    group: Any = getattr(builtins, "BaseExceptionGroup", None)
    mixed = group("mixed", [NotJobOwnerError(), asyncio.CancelledError()])
    seen = see_asgi(guard_asgi(sends(lambda: mixed)), with_token())
    assert seen.raised is mixed


# --- the context --------------------------------------------------------------------------------


def test_the_context_is_in_the_scope_and_current() -> None:
    """Both ways give the same object; the scope of the server is not written to."""
    found: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        found.extend([scope["gaq"], current()])

    scope = scope_of(with_token("/"))
    run_asgi(guard_asgi(app), scope)
    assert isinstance(found[0], RequestContext)
    assert found[0] is found[1]
    assert "gaq" not in scope


def test_what_outlives_a_request_keeps_identity_and_jobs_only() -> None:
    """Scope, errors and the way to the head are dropped at the end."""
    kept: list[RequestContext] = []
    app = guard_asgi(sends(lambda: kept.append(current()), catches(), start(), body()))
    see_asgi(app, with_token("/"))
    context = kept[0]
    assert context.identity == UserIdentity("c1", "7")
    assert context.jobs.events() == []
    state = context._state
    assert state.source is None
    assert not state.recorded
    with pytest.raises(RuntimeError, match="too late"):
        context.login(7)
    with pytest.raises(RuntimeError, match="too late"):
        context.logout()


@pytest.mark.parametrize("status", [200, 401])
def test_login_after_the_head_says_so(status: int) -> None:
    """The cookie could not be sent any more."""
    steps = [start(status), body(more=True), lambda: current().login(7)]
    seen = see_asgi(guard_asgi(sends(*steps)), with_token())
    assert isinstance(seen.raised, RuntimeError)


def test_login_while_the_head_is_held_is_in_time() -> None:
    """Only what is on the wire counts."""
    app = guard_asgi(sends(start(), lambda: current().login(8), body()))
    seen = see_asgi(app, with_token())
    assert read_claims(seen.cookie() or "")["sub"] == "8"


def test_the_user_source_is_asked_with_the_scope_that_the_app_was_given() -> None:
    """What the app puts into its scope is known when the head leaves."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope["session"] = {"user": 8}
        await send(start(200, [(b"content-type", b"text/html")]))
        await send(body())

    guarded = guard_asgi(app, user_from=lambda scope: scope.get("session", {}).get("user"))
    seen = see_asgi(guarded, ask("GET", "/"))
    assert read_claims(seen.cookie() or "")["sub"] == "8"


def test_the_app_is_handed_the_cookie_of_whom_it_serves() -> None:
    """An app that reads our cookie itself must not see another user's token."""
    handed: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        handed.extend(value.decode() for key, value in scope["headers"] if key == b"cookie")
        assert (b"host", b"app.example") in scope["headers"]

    request = ask("GET", "/", Cookie=f"a=1; {cookies(token(), token())}")
    request.headers.append(("Cookie", "b=2"))
    see_asgi(guard_asgi(app, user_from=lambda scope: 8), request)
    (header,) = handed
    ours, *others = header.split("; ")
    assert read_claims(ours.removeprefix("async-token="))["sub"] == "8"
    assert others == ["a=1", "b=2"]


def test_the_cookie_header_is_left_alone_otherwise() -> None:
    """The app gets the very headers that the server gave."""
    handed: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        handed.append(scope["headers"])

    scope = scope_of(with_token("/"))
    run_asgi(guard_asgi(app, user_from=lambda scope: 7), scope)
    assert handed[0] is scope["headers"]


def test_an_inner_middleware_for_the_same_cookie_passes_everything_through() -> None:
    """Whatever its settings: the outer one has decided."""
    found: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        found.append(scope["gaq"])
        await send(start())
        await send(body())

    inner = guard_asgi(app, protected_paths="/", issue="off")
    outer = guard_asgi(inner)
    assert see_asgi(outer, ask("GET", "/")).status == 200
    assert found[0]._state.engine is outer.engine


def test_an_inner_middleware_for_another_cookie_guards() -> None:
    """Two middlewares with two names work side by side, and both leave without a trace."""
    inner = guard_asgi(sends(start(), body()), cookie_name="other")
    outer = guard_asgi(inner)
    assert see_asgi(outer, with_token()).status == 401
    request = ask("GET", PROTECTED, Cookie=f"{cookies(token())}; other={token(sub='8')}")
    assert see_asgi(outer, request).status == 200


# --- our own endpoints --------------------------------------------------------------------------


def test_a_job_is_submitted_polled_read_and_cancelled() -> None:
    """The endpoints answer without the app."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        job = await current().ajobs.submit(chart=5)
        await send(start(202, [(b"content-type", b"application/json")]))
        await send(body(json.dumps(job.as_dict()).encode()))

    guarded = guard_asgi(app)
    request = cookies(token(channel="asgi-endpoints"))
    submitted = see_asgi(guarded, ask("POST", PROTECTED, Cookie=request)).json()
    path = f"{POLL}{submitted['job_id']}"
    job = see_asgi(guarded, ask("GET", path, Cookie=request)).json()["result"]
    assert (job["status"], job["chart"]) == ("pending", 5)
    stranger = ask("POST", f"{path}/cancel", Cookie=cookies(token(sub="8")))
    assert see_asgi(guarded, stranger).code == "not_job_owner"
    cancelled = see_asgi(guarded, ask("POST", f"{path}/cancel", Cookie=request))
    assert cancelled.json() == {"result": {"job_id": submitted["job_id"], "status": "cancelled"}}
    again = see_asgi(guarded, ask("POST", f"{path}/cancel", Cookie=request))
    assert (again.status, again.code) == (404, "job_not_found")
    poll = see_asgi(guarded, ask("GET", f"{POLL}?last_id={submitted['last_id']}", Cookie=request))
    (event,) = poll.json()["result"]
    assert (event["job_id"], event["status"]) == (submitted["job_id"], "cancelled")
    assert (poll.get("cache-control"), poll.get("vary")) == ("no-store", "Cookie")
    assert see_asgi(guarded, ask("GET", f"{POLL}?last_id=x", Cookie=request)).code == "bad_last_id"


def test_the_cookie_is_renewed_on_our_endpoints() -> None:
    """A page that only polls stays logged in."""
    seen = see_asgi(guard_asgi(sends()), ask("GET", POLL, Cookie=cookies(token(exp=100))))
    assert seen.status == 200
    assert read_claims(seen.cookie() or "")["channel"] == "c1"


# --- sockets ------------------------------------------------------------------------------------

DENIAL = pytest.mark.parametrize(
    "denial", [True, False], ids=["denial offered", "denial not offered"]
)
CODES = [
    (AuthenticationError, 401, 4401),
    (ForbiddenError, 403, 4403),
    (JobNotFoundError, 404, 4404),
    (StoreError, 503, 4503),
    (BadRequestError, 400, 4400),
]


def denies(status: int, headers: Any = None) -> list[Message]:
    """Return an answer of an app that does not accept."""
    answer = [start(status, headers), body(more=True), body(b" again")]
    return [{**message, "type": f"websocket.{message['type']}"} for message in answer]


def opens(*steps: Any, path: str = SOCKET_PATH, denial: bool = True) -> Any:
    """Open a socket with a token at an app that does these steps."""
    return see_socket(guard_asgi(sends(*steps)), path, denial=denial, Cookie=cookies(token()))


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([ACCEPT, HELLO, close()], id="accepted"),
        pytest.param([ACCEPT], id="accepted, and gone"),
        pytest.param([close(4000)], id="refused by a close"),
        pytest.param(denies(403), id="refused by an answer"),
        pytest.param([ACCEPT, close(), HELLO], id="a send after the close, which servers refuse"),
    ],
)
def test_sockets_of_the_app_pass(messages: list[Message]) -> None:
    """Message by message, as the app sends them."""
    seen = opens(*messages)
    assert (seen.raised, seen.messages) == (None, messages)


def test_a_socket_elsewhere_needs_no_token() -> None:
    """Only sockets on protected paths are checked, their origin too."""
    app = guard_asgi(sends(ACCEPT, close()))
    seen = see_socket(app, "/chat", Origin="https://evil.example")
    assert seen.types == ["websocket.accept", "websocket.close"]


@DENIAL
@pytest.mark.parametrize(("error", "status", "code"), CODES)
def test_an_error_before_accept_is_a_refusal(
    error: type[Exception], status: int, code: int, denial: bool
) -> None:
    """A real answer where the server can, else a close, which clients see as 403."""
    seen = opens(fails(error), denial=denial)
    assert seen.raised is None
    if denial:
        assert (seen.status, seen.json()["status"]) == (status, status)
        assert seen.types == ["websocket.http.response.start", "websocket.http.response.body"]
    else:
        assert seen.messages == [close(code)]


@pytest.mark.parametrize(("error", "status", "code"), CODES)
def test_an_error_after_accept_closes_with_its_code(
    error: type[Exception], status: int, code: int
) -> None:
    """The reason is the code of the error."""
    seen = opens(ACCEPT, HELLO, fails(error))
    assert seen.raised is None
    assert seen.messages[:-1] == [ACCEPT, HELLO]
    assert seen.messages[-1]["code"] == code
    assert seen.messages[-1]["reason"] == error().refusal().code  # type: ignore[attr-defined]


@DENIAL
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(denies(500), id="Quart's plain 500"),
        pytest.param(denies(403, MARKED), id="a marked answer, as Starlette's"),
        pytest.param([close(4500)], id="Litestar's close"),
        pytest.param([*denies(403, MARKED), fails()], id="and raised again"),
        pytest.param([lambda: denies(403, iter(MARKED))[0]], id="headers in an iterator"),
    ],
)
def test_the_frameworks_answer_to_our_error_before_accept_is_replaced(
    steps: list[Any], denial: bool
) -> None:
    """The client sees our refusal, once."""
    seen = opens(catches(ForbiddenError), *steps, denial=denial)
    assert seen.raised is None
    if denial:
        assert (seen.status, seen.json()["code"]) == (403, "forbidden")
        assert len(seen.messages) == 2
    else:
        assert seen.messages == [close(4403)]


def test_the_apps_own_refusal_of_a_socket_stays() -> None:
    """As with http: other statuses, and those without our header, are its own."""
    for answer in (denies(403), denies(404, MARKED)):
        assert opens(catches(ForbiddenError), *answer).messages == answer


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([close(1000)], id="Quart's close"),
        pytest.param([close(4500)], id="Litestar's close"),
        pytest.param(denies(403, MARKED), id="Starlette's answer on an open socket"),
        pytest.param([*denies(403), fails()], id="and raised again"),
    ],
)
@pytest.mark.parametrize("before", [[], [HELLO]], ids=["at once", "after a message"])
def test_the_frameworks_answer_to_our_error_after_accept_becomes_our_close(
    steps: list[Any], before: list[Any]
) -> None:
    """An http answer on an open socket would be a protocol error."""
    seen = opens(ACCEPT, *before, catches(), *steps)
    assert seen.raised is None
    assert seen.messages[:-1] == [ACCEPT, *before]
    assert seen.close_code == 4403


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([catches(), ACCEPT, close()], id="it accepts after it"),
        pytest.param([ACCEPT, catches(), HELLO, close()], id="it sends after it"),
        pytest.param([ACCEPT, catches(), succeeds, close()], id="a success came after it"),
    ],
)
def test_a_socket_that_goes_on_after_our_error_closes_as_it_likes(steps: list[Any]) -> None:
    """What the app has dealt with is forgotten."""
    seen = opens(*steps)
    assert seen.close_code == 1000


@pytest.mark.parametrize("before", [[], [ACCEPT]], ids=["before accept", "after accept"])
def test_a_foreign_error_of_a_socket_comes_out(before: list[Message]) -> None:
    """Nothing is sent in its place."""
    error = ValueError("foreign")
    seen = opens(*before, error)
    assert (seen.raised, seen.messages) == (error, before)


def test_an_error_after_the_end_of_a_socket_comes_out() -> None:
    """There is nobody to tell any more."""
    seen = opens(ACCEPT, close(), fails())
    assert isinstance(seen.raised, NotJobOwnerError)
    assert seen.messages == [ACCEPT, close()]


def test_an_error_after_the_client_has_left_comes_out() -> None:
    """Some servers raise when a socket is closed that is gone."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(ACCEPT)
        while (await receive())["type"] != "websocket.disconnect":
            pass
        raise NotJobOwnerError

    gone = {"type": "websocket.disconnect", "code": 1005}
    seen = see_socket(guard_asgi(app), receives=[gone], Cookie=cookies(token()))
    assert isinstance(seen.raised, NotJobOwnerError)
    assert seen.messages == [ACCEPT]


def test_no_cookie_is_set_when_a_socket_is_accepted() -> None:
    """Some servers drop the headers of an accept; the next answer has time."""
    seen = opens(lambda: current().login(8), ACCEPT, close())
    assert seen.messages == [ACCEPT, close()]


def test_guests_and_scripts_open_sockets_from_anywhere() -> None:
    """A header is nothing that a browser sends by itself."""
    app = guard_asgi(sends(ACCEPT, close()))
    seen = see_socket(app, Origin="https://evil.example", X_Async_Token=token())
    assert seen.types == ["websocket.accept", "websocket.close"]
