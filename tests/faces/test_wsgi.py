"""The WSGI face, call by call: start_response, write, parts, close."""

from __future__ import annotations

import builtins
import contextlib
import io
import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from wsgiref.util import FileWrapper
from wsgiref.validate import validator

import pytest

from gaq_middleware import (
    AuthenticationError,
    ForbiddenError,
    JobNotFoundError,
    NotJobOwnerError,
    RequestContext,
    StoreError,
    UserIdentity,
    current,
)
from gaq_middleware.wsgi import AsyncQueryMiddleware
from tests.faces.drive import PROTECTED, guard_wsgi, nobody_is_current, quiet, see_wsgi
from tests.helpers import (
    POLL,
    Ask,
    K,
    ask,
    cookies,
    environ_of,
    make_settings,
    read_claims,
    token,
)

__all__ = ["quiet"]

TEXT = [("Content-Type", "text/plain")]
MARKED = [*TEXT, ("X-GAQ-Error", "forbidden")]
App = Callable[[Any, Any], Iterable[bytes]]
pytestmark = pytest.mark.usefixtures("quiet")
WRITE = pytest.mark.parametrize(
    "has_write", [True, False], ids=["server has write", "server has none"]
)


class Body:
    """A body that is not its own iterator; what it yields may be functions and exceptions."""

    def __init__(self, *steps: Any, on_close: Callable[[], object] | None = None) -> None:
        self.steps, self.closed = steps, 0
        self._on_close = on_close

    def __iter__(self) -> Iterator[bytes]:
        for step in self.steps:
            done = step() if callable(step) else step
            if isinstance(done, BaseException):
                raise done
            if isinstance(done, bytes):
                yield done

    def close(self) -> None:
        """Count the calls."""
        self.closed += 1
        if self._on_close is not None:
            self._on_close()


def answers(
    *before: Any,
    status: str = "200 OK",
    headers: Any = None,
    body: Any = None,
    exc: BaseException | None = None,
) -> App:
    """Return an app that does steps, calls start_response, and returns a body."""

    def app(environ: Any, start_response: Any) -> Any:
        for step in before:
            done = step() if callable(step) else step
            if isinstance(done, BaseException):
                raise done
        more = () if exc is None else ((type(exc), exc, None),)
        start_response(status, list(TEXT if headers is None else headers), *more)
        return [b"the app"] if body is None else body

    return app


def catches(error: type[BaseException] = NotJobOwnerError) -> Callable[[], None]:
    """Return a step that makes an error while the request is handled, and goes on."""

    def step() -> None:
        error()

    return step


def current_events() -> None:
    """Read events: an operation on jobs that succeeds."""
    current().jobs.events()


def uses_member() -> None:
    """Use a member of the context that raises without an identity."""
    with contextlib.suppress(AuthenticationError):
        current().channel_id  # noqa: B018 - it raises


def with_token(target: str = PROTECTED, method: str = "GET", **headers: str) -> Ask:
    """Return a request with a good token."""
    return ask(method, target, Cookie=cookies(token()), **headers)


# --- heads --------------------------------------------------------------------------------------


def test_case_90_the_cookies_of_the_app_stay_first_and_unchanged() -> None:
    """Ours is the last of three `Set-Cookie` lines."""
    own = [*TEXT, ("Set-Cookie", "a=1"), ("X-Between", "yes"), ("Set-Cookie", "b=2; Path=/x")]
    app = answers(lambda: current().login(7), status="302 Found", headers=own)
    seen = see_wsgi(guard_wsgi(app), ask("POST", "/login"))
    lines = seen.all("Set-Cookie")
    assert lines[:2] == ["a=1", "b=2; Path=/x"]
    assert len(lines) == 3
    assert read_claims(seen.cookie() or "")["sub"] == "7"


def test_headers_kept_by_the_app_are_not_written_to() -> None:
    """A list kept for all requests must not carry one user's cookie to the next."""
    constant = list(TEXT)

    def app(environ: Any, start_response: Any) -> list[bytes]:
        if environ["REQUEST_METHOD"] == "POST":
            current().login(7)
        start_response("200 OK", constant)
        return [b""]

    guarded = guard_wsgi(app)
    assert see_wsgi(guarded, ask("POST", "/login")).cookie()
    assert constant == TEXT
    assert see_wsgi(guarded).all("Set-Cookie") == []


@pytest.mark.parametrize("target", ["/", PROTECTED])
def test_the_status_line_of_the_app_is_passed_on_as_it_is(target: str) -> None:
    """Reason and headers are the app's own."""
    app = answers(status="299 Quite So", headers=[*TEXT, ("X-Own", "1")])
    seen = see_wsgi(guard_wsgi(app), with_token(target))
    assert seen.heads == [("299 Quite So", [*TEXT, ("X-Own", "1")])]


def test_a_foreign_exc_info_is_passed_on() -> None:
    """The server may log it; the answer stays the app's."""
    error = ValueError("foreign")
    seen = see_wsgi(guard_wsgi(answers(exc=error)), with_token(), validate=False)
    assert seen.heads[0][2][1] is error
    assert (seen.status, seen.body) == (200, b"the app")


def test_case_111_the_last_start_response_before_the_body_counts() -> None:
    """The cookie is decided on it: none on a login that ends as a 500."""

    def app(environ: Any, start_response: Any) -> list[bytes]:
        current().login(7)
        start_response("200 OK", list(TEXT))
        try:
            raise ValueError("late")
        except ValueError:
            start_response("500 Oops", [*TEXT, ("X-Own", "1")], sys.exc_info())
        return [b"sorry"]

    seen = see_wsgi(guard_wsgi(app), ask("POST", "/login"))
    assert (seen.status, seen.get("X-Own"), seen.body) == (500, "1", b"sorry")
    assert seen.all("Set-Cookie") == []


def test_a_second_start_response_without_exc_info_is_an_error() -> None:
    """As PEP 3333 says."""

    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", list(TEXT))
        start_response("200 OK", list(TEXT))
        return [b""]

    seen = see_wsgi(guard_wsgi(app), validate=False)
    assert isinstance(seen.raised, AssertionError)
    assert seen.heads == []


@pytest.mark.parametrize("kind", [ValueError, NotJobOwnerError])
def test_exc_info_after_the_head_has_left_is_raised(kind: type[Exception]) -> None:
    """Nothing can be taken back; the app sees its own exception, with its own traceback."""
    error = kind("late")

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", list(TEXT))
        yield b"first"
        try:
            raise error
        except Exception:  # noqa: BLE001 - as apps do
            start_response("500 Oops", list(TEXT), sys.exc_info())
        yield b"never"

    seen = see_wsgi(guard_wsgi(app), with_token())
    assert seen.raised is error
    assert (seen.status, seen.body) == (200, b"first")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param([b"x"], id="a list"),
        pytest.param([], id="an empty list"),
        pytest.param(iter([b"x"]), id="an iterator"),
        pytest.param(iter([]), id="an empty iterator"),
    ],
)
def test_a_body_without_a_head_is_an_error(body: Any) -> None:
    """The server would have nothing to send."""
    seen = see_wsgi(guard_wsgi(lambda *_: body), validate=False)
    assert isinstance(seen.raised, AssertionError)
    assert seen.heads == []


@pytest.mark.parametrize(
    ("app", "sub"),
    [
        pytest.param(answers(ValueError("x")), None, id="the app raises"),
        pytest.param(answers(status="500 Oops"), None, id="a 500"),
        pytest.param(answers(status="401 No"), None, id="a 401"),
        pytest.param(answers(body=[b"wrong password"]), None, id="a 200 without a user"),
        pytest.param(
            answers(lambda: current().login(7), status="302 Found"), "7", id="a 302 with one"
        ),
        pytest.param(answers(lambda: current().login(7)), "7", id="a 200 with one"),
        pytest.param(
            answers(lambda: current().login(7), status="400 No"), None, id="a late refusal"
        ),
        pytest.param(
            answers(lambda: current().login(7), NotJobOwnerError), None, id="a late error of ours"
        ),
        pytest.param(answers(body=Body(lambda: current().login(7), b"x")), "7", id="a late login"),
    ],
)
def test_case_115_the_cookie_depends_on_the_final_status_and_on_a_user(
    app: App, sub: str | None
) -> None:
    """Nothing is issued on errors, nor when nobody logged in."""
    issued = see_wsgi(guard_wsgi(app), ask("POST", "/login")).cookie()
    assert (issued and read_claims(issued)["sub"]) == sub


@pytest.mark.parametrize(
    ("value", "status"),
    [pytest.param(token(), 200, id="good token"), pytest.param("bad", 401, id="bad token")],
)
def test_case_113_our_answers_to_head_have_no_body(value: str, status: int) -> None:
    """HEAD has the headers of GET, its length too, and nothing after them."""
    app = guard_wsgi(answers())
    head, get = (see_wsgi(app, ask(m, POLL, Cookie=cookies(value))) for m in ("HEAD", "GET"))
    assert head.status == get.status == status
    assert head.body == b""
    assert head.headers == get.headers
    assert get.get("Content-Length") == str(len(get.body))


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
@pytest.mark.parametrize("body", [[], [b""], iter([])], ids=["[]", "[b'']", "an empty iterator"])
def test_case_113_empty_answers_of_the_app_stay_empty(status: str, body: Any) -> None:
    """We give no body to a 204 or a 304."""
    app = answers(status=status, headers=[], body=body)
    seen = see_wsgi(guard_wsgi(app), with_token())
    assert (seen.heads, seen.body) == ([(status, [])], b"")


def test_case_113_a_mapped_error_has_no_body_for_head() -> None:
    """An error raised in a handler is a refusal like any other."""
    seen = see_wsgi(guard_wsgi(answers(NotJobOwnerError)), with_token(method="HEAD"))
    assert (seen.status, seen.body) == (403, b"")
    assert int(seen.get("Content-Length") or 0) > 0


# --- bodies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["/", PROTECTED])
def test_case_114_file_wrappers_lists_and_tuples_come_out_as_the_very_same_object(
    target: str,
) -> None:
    """The server may send files itself, and count the parts of lists."""
    for body in (FileWrapper(io.BytesIO(b"a file")), [b"a", b"b"], (b"a",)):
        environ = {**environ_of(with_token(target)), "wsgi.file_wrapper": FileWrapper}
        assert guard_wsgi(answers(body=body))(environ, lambda *head: None) is body


def test_a_file_wrapper_that_is_a_function_is_iterated() -> None:
    """Only a class tells its objects from others."""
    body = FileWrapper(io.BytesIO(b"a file"))
    seen = see_wsgi(guard_wsgi(answers(body=body)), wsgi_file_wrapper=lambda file: None)
    assert seen.body == b"a file"


@WRITE
def test_an_empty_list_is_never_passed_on(has_write: bool) -> None:
    """Some servers never start the answer of an empty list."""
    guarded = guard_wsgi(answers(body=[]))
    seen = see_wsgi(guarded, validate=False, has_write=has_write)
    assert (seen.status, seen.returned) == (200, [b""])


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param([b"a", b"b"], [b"a", b"b"], id="two parts"),
        pytest.param([b"", b"", b"a", b"", b"b"], [b"a", b"", b"b"], id="empty ones first"),
        pytest.param([b"", b""], [b""], id="only empty ones"),
        pytest.param([], [b""], id="none"),
    ],
)
def test_an_iterated_body_starts_with_its_first_part_that_is_not_empty(
    parts: list[bytes], expected: list[bytes]
) -> None:
    """Part by part after that, as the app makes them."""
    seen = see_wsgi(guard_wsgi(answers(body=Body(*parts))), with_token())
    assert seen.parts == expected


def test_a_stream_is_not_read_ahead() -> None:
    """The first part is fetched inside the call, each other when the server asks for it."""
    made: list[int] = []

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", list(TEXT))
        for number in range(3):
            made.append(number)
            yield str(number).encode()

    heads: list[Any] = []
    stream = iter(guard_wsgi(app)(environ_of(with_token()), lambda *head: heads.append(head)))
    assert (made, len(heads)) == ([0], 1)
    assert (next(stream), made) == (b"0", [0])
    assert (next(stream), made) == (b"1", [0, 1])


def test_a_generator_may_start_its_response_late() -> None:
    """Its code runs when its first part is fetched; the server still gets the head in the call."""

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        current().login(7)
        start_response("201 Made", list(TEXT))
        yield b""
        yield b"a"

    heads: list[Any] = []
    environ = environ_of(ask("POST", "/login"))
    body = guard_wsgi(app)(environ, lambda *head: heads.append(head))
    assert [head[0] for head in heads] == ["201 Made"]
    assert any(name == "Set-Cookie" for name, _ in heads[0][1])
    assert list(body) == [b"a"]


def read_fully(app: AsyncQueryMiddleware) -> None:
    """Read all of a body."""
    see_wsgi(app, with_token())


def stop_early(app: AsyncQueryMiddleware) -> None:
    """Leave after the first part."""
    assert see_wsgi(app, with_token(), stop_after=1).parts == [b"a"]


@pytest.mark.parametrize(
    ("steps", "read"),
    [
        pytest.param([b"a", b"b"], read_fully, id="read fully"),
        pytest.param([b"a", b"b"], stop_early, id="left early"),
        pytest.param([b"a", ValueError("x")], read_fully, id="an error half-way"),
        pytest.param([ValueError("x")], read_fully, id="an error at the start"),
        pytest.param([NotJobOwnerError], read_fully, id="an error of ours at the start"),
        pytest.param([b"a", NotJobOwnerError], read_fully, id="an error of ours half-way"),
        pytest.param([KeyboardInterrupt], read_fully, id="an interruption at the start"),
        pytest.param([SystemExit], read_fully, id="an exit at the start"),
        pytest.param([], read_fully, id="no parts"),
    ],
)
def test_case_109_the_body_of_the_app_is_closed_once(
    steps: list[Any], read: Callable[[AsyncQueryMiddleware], None]
) -> None:
    """The iterable, not its iterator, on every way out."""
    body = Body(*steps)
    read(guard_wsgi(answers(body=body)))
    assert body.closed == 1


@pytest.mark.parametrize(
    "before",
    [
        pytest.param({"status": "500 Oops"}, id="a 500"),
        pytest.param({"status": "403 No", "headers": MARKED}, id="a marked answer"),
    ],
)
def test_case_109_a_body_that_is_replaced_is_closed_once(before: dict[str, Any]) -> None:
    """It is not sent, but it was made."""
    body = Body(b"a")
    seen = see_wsgi(guard_wsgi(answers(catches(ForbiddenError), body=body, **before)), with_token())
    assert (seen.status, seen.code, body.closed) == (403, "forbidden", 1)


def test_case_109_a_body_is_closed_when_the_server_fails() -> None:
    """start_response may raise, for instance at headers it will not send."""
    body = Body(b"a")

    def start_response(*head: Any) -> None:
        raise ValueError("bad header")

    with pytest.raises(ValueError, match="bad header"):
        guard_wsgi(answers(body=body))(environ_of(with_token()), start_response)
    assert body.closed == 1
    assert nobody_is_current()


def test_case_109_closing_twice_closes_once() -> None:
    """Servers and layers around us may both do it."""
    body = Body(b"a")
    returned: Any = guard_wsgi(answers(body=body))(environ_of(with_token()), lambda *head: None)
    returned.close()
    returned.close()
    assert body.closed == 1


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([b"a"], id="after all parts"),
        pytest.param([ValueError("x")], id="after a foreign error"),
        pytest.param([NotJobOwnerError], id="after an error of ours"),
    ],
)
def test_an_error_in_close_comes_out(steps: list[Any]) -> None:
    """It is the app's; nothing of the request is left behind."""
    body = Body(*steps, on_close={}.popitem)
    seen = see_wsgi(guard_wsgi(answers(body=body)), with_token(), validate=False)
    assert isinstance(seen.raised, KeyError)
    assert body.closed == 1


def test_the_context_is_current_in_streamed_bodies_and_in_close() -> None:
    """Only while the app works on the body: the thread's next request must not see it."""
    found: list[RequestContext] = []
    body = Body(
        lambda: found.append(current()),
        b"a",
        lambda: found.append(current()),
        b"b",
        lambda: found.append(current()),
        on_close=lambda: found.append(current()),
    )
    seen = see_wsgi(guard_wsgi(answers(lambda: found.append(current()), body=body)), with_token())
    assert (seen.raised, seen.body) == (None, b"ab")
    assert len(found) == 5
    assert len(set(map(id, found))) == 1


def test_two_streams_in_one_thread_do_not_mix() -> None:
    """A server may go back and forth between bodies."""

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", list(TEXT))
        for _ in range(3):
            yield str(current().user_id).encode()

    guarded = guard_wsgi(app)
    streams: list[Iterator[bytes]] = []
    for user in ("7", "8"):
        request = ask("GET", PROTECTED, Cookie=cookies(token(sub=user)))
        streams.append(iter(guarded(environ_of(request), lambda *head: None)))
    assert [next(stream) for _ in range(3) for stream in streams] == [b"7", b"8"] * 3


# --- write --------------------------------------------------------------------------------------


def writes(*data: bytes, body: Any = (), before: Any = None, **head: Any) -> App:
    """Return an app that uses write(), then returns a body."""

    def app(environ: Any, start_response: Any) -> Any:
        if before is not None:
            before()
        write = start_response(head.get("status", "200 OK"), list(head.get("headers", TEXT)))
        for part in data:
            write(part)
        return body

    return app


BODIES = [
    pytest.param(list, id="a list"),
    pytest.param(lambda parts: Body(*parts), id="an iterable"),
]


@pytest.mark.parametrize("make", BODIES)
@WRITE
@pytest.mark.parametrize(
    "rest",
    [
        pytest.param([], id="nothing follows"),
        pytest.param([b"c"], id="one part follows"),
        pytest.param([b"", b"c", b"d"], id="three parts follow"),
    ],
)
def test_what_is_written_comes_before_the_body(
    rest: list[bytes], has_write: bool, make: Callable[[list[bytes]], Any]
) -> None:
    """By the server's write, or in front of the body where the server has none."""
    app = guard_wsgi(writes(b"a", b"b", body=make(rest)))
    seen = see_wsgi(app, with_token(), validate=has_write, has_write=has_write)
    assert (seen.raised, seen.status, seen.body) == (None, 200, b"ab" + b"".join(rest))


def test_written_data_is_sent_at_once_where_the_server_can() -> None:
    """That is what write() is for; the cookie leaves with it."""
    sent: list[Any] = []

    def start_response(*head: Any) -> Callable[[bytes], None]:
        sent.append(head)
        return sent.append

    app = guard_wsgi(writes(b"a", before=lambda: current().login(7)))
    list(app(environ_of(ask("POST", "/login")), start_response))
    assert sent[1] == b"a"
    assert any(name == "Set-Cookie" for name, _ in sent[0][1])


def test_nothing_is_written_of_an_answer_that_is_replaced() -> None:
    """The error recorded answers instead."""
    app = writes(b"a", status="500 Oops", before=catches(), body=[b"b"])
    seen = see_wsgi(guard_wsgi(app), with_token())
    assert (seen.status, seen.code) == (403, "not_job_owner")
    assert seen.json()["code"] == "not_job_owner"


@WRITE
@pytest.mark.parametrize("error", [NotJobOwnerError, ValueError])
def test_an_error_after_written_data_comes_out(error: type[Exception], has_write: bool) -> None:
    """The head has left."""

    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", list(TEXT))(b"a")
        raise error

    seen = see_wsgi(guard_wsgi(app), with_token(), validate=False, has_write=has_write)
    assert type(seen.raised) is error
    assert seen.parts == ([b"a"] if has_write else [])


# --- what is mapped -----------------------------------------------------------------------------


def late(error: Any) -> App:
    """Return an app whose body fails before its first part."""
    return answers(body=Body(b"", error))


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
@pytest.mark.parametrize("make", [answers, late], ids=["at once", "before the first part"])
@pytest.mark.parametrize("target", ["/", PROTECTED])
def test_an_error_of_ours_becomes_its_status(
    target: str, make: Callable[[Any], App], error: type[Exception], status: int, code: str
) -> None:
    """The problem document answers, with the headers of section 5."""
    seen = see_wsgi(guard_wsgi(make(error)), with_token(target))
    assert (seen.raised, seen.status, seen.code) == (None, status, code)
    assert seen.get("Content-Type") == "application/problem+json"
    assert seen.get("Cache-Control") == "no-store"
    assert (seen.get("WWW-Authenticate") is None) == (status != 401)
    assert (seen.get("Retry-After") is None) == (status != 503)
    assert (seen.json()["code"], seen.json()["status"]) == (code, status)


def test_an_error_after_the_first_part_comes_out() -> None:
    """What is on the wire cannot be mapped."""
    seen = see_wsgi(guard_wsgi(answers(body=Body(b"a", NotJobOwnerError))), with_token())
    assert isinstance(seen.raised, NotJobOwnerError)
    assert (seen.status, seen.parts) == (200, [b"a"])


@pytest.mark.parametrize("make", [answers, late], ids=["at once", "before the first part"])
def test_a_foreign_error_comes_out(make: Callable[[Any], App]) -> None:
    """The server answers it, as without us."""
    error = ValueError("foreign")
    seen = see_wsgi(guard_wsgi(make(error)), with_token())
    assert (seen.raised, seen.heads) == (error, [])


def test_a_foreign_error_after_a_500_of_ours_comes_out() -> None:
    """The error recorded was dealt with; the server answers the foreign one."""
    error = ValueError("foreign")
    body = Body(error)
    app = answers(catches(), status="500 Oops", body=body)
    seen = see_wsgi(guard_wsgi(app), with_token())
    assert (seen.raised, seen.heads, body.closed) == (error, [], 1)


@pytest.mark.parametrize(
    "head",
    [
        pytest.param({"status": "500 Oops"}, id="a 500"),
        pytest.param({"status": "500 Oops", "headers": MARKED}, id="a marked 500"),
        pytest.param({"status": "403 No", "headers": MARKED}, id="a marked answer"),
        pytest.param({"status": "500 Oops", "body": Body(b"", b"a")}, id="an iterated 500"),
    ],
)
@pytest.mark.parametrize("target", ["/", PROTECTED])
def test_the_frameworks_answer_to_our_error_is_replaced(head: dict[str, Any], target: str) -> None:
    """A 500 to what they do not know, or one with our header."""
    seen = see_wsgi(guard_wsgi(answers(catches(ForbiddenError), **head)), with_token(target))
    assert (seen.raised, seen.status, seen.code) == (None, 403, "forbidden")
    assert seen.get("Content-Type") == "application/problem+json"


def test_a_generator_that_starts_with_a_500_late_is_replaced() -> None:
    """Its head is known with its first part."""

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        NotJobOwnerError()
        start_response("500 Oops", list(TEXT))
        yield b""
        yield b"oops"

    assert see_wsgi(guard_wsgi(app), with_token()).code == "not_job_owner"


@pytest.mark.parametrize(
    "head",
    [
        pytest.param({"status": "403 No"}, id="no marker"),
        pytest.param({"status": "400 No", "headers": MARKED}, id="another status"),
        pytest.param({"status": "401 No"}, id="its own 401"),
        pytest.param({"status": "404 No"}, id="its own 404"),
        pytest.param({"status": "504 No"}, id="its own 504"),
        pytest.param({"status": "501 No"}, id="its own 501"),
        pytest.param({"status": "200 OK"}, id="caught, and 200"),
    ],
)
def test_whatever_else_the_app_answers_stays(head: dict[str, Any]) -> None:
    """The app may catch our errors, and its own statuses are its own."""
    seen = see_wsgi(guard_wsgi(answers(catches(ForbiddenError), **head)), with_token())
    assert seen.heads == [(head["status"], head.get("headers", TEXT))]
    assert seen.body == b"the app"


def test_a_500_after_a_success_stays() -> None:
    """The next operation on jobs that succeeds clears what was recorded before it."""
    app = answers(catches(), current_events, status="500 Oops")
    assert see_wsgi(guard_wsgi(app), with_token()).status == 500


def test_exc_info_tells_whose_500_it_is() -> None:
    """Ours is answered, even if a newer one was recorded; a foreign one is the app's own 500."""
    for error, status in ((ForbiddenError, 403), (ValueError, 500)):

        def app(environ: Any, start_response: Any, error: Any = error) -> list[bytes]:
            try:
                raise error
            except Exception:  # noqa: BLE001 - as Bottle does
                StoreError()
                start_response("500 Oops", list(TEXT), sys.exc_info())
            return [b"the app"]

        assert see_wsgi(guard_wsgi(app), with_token()).status == status


def test_exc_info_does_not_change_the_apps_own_statuses() -> None:
    """An app that answers our error with a status of its own means it."""
    error = ForbiddenError()
    seen = see_wsgi(guard_wsgi(answers(status="418 Teapot", exc=error)), with_token())
    assert (seen.status, seen.body) == (418, b"the app")


def test_a_replaced_500_is_told_in_one_warning_that_names_both(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever looks for the 500 in the log of the app finds why the client saw a 403."""
    with caplog.at_level(logging.INFO, "gaq_middleware"):
        see_wsgi(guard_wsgi(answers(catches(), status="500 Oops")), with_token())
    lines = [r.getMessage() for r in caplog.records if "500" in r.getMessage()]
    assert len(lines) == 1
    assert "not_job_owner" in lines[0]
    assert "403" in lines[0]


GROUP: Any = getattr(builtins, "ExceptionGroup", None)


@pytest.mark.skipif(GROUP is None, reason="ExceptionGroup came with Python 3.11")
def test_groups_of_errors() -> None:
    """One of only ours is mapped, the newest answers; a mixed one comes out."""
    ours = answers(lambda: GROUP("ours", [JobNotFoundError(), ForbiddenError()]))
    assert see_wsgi(guard_wsgi(ours), with_token()).code == "forbidden"
    mixed = answers(lambda: GROUP("mixed", [ForbiddenError(), ValueError("foreign")]))
    assert type(see_wsgi(guard_wsgi(mixed), with_token()).raised) is GROUP


# --- the context --------------------------------------------------------------------------------


def test_the_context_is_in_the_environ_and_current() -> None:
    """Both ways give the same object; its key has a dot, or wsgiref.validate would refuse it."""
    found: list[Any] = []

    def app(environ: Any, start_response: Any) -> list[bytes]:
        found.extend([environ["gaq.context"], current()])
        start_response("200 OK", list(TEXT))
        return [b""]

    see_wsgi(guard_wsgi(validator(app)), with_token("/"))
    assert isinstance(found[0], RequestContext)
    assert found[0] is found[1]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(None, id="after a list"),
        pytest.param(Body(b"a"), id="after a stream"),
        pytest.param(Body(b"", b""), id="after an empty stream"),
    ],
)
def test_what_outlives_a_request_keeps_identity_and_jobs_only(body: Any) -> None:
    """Environ, errors and the way to the head are dropped at the end."""
    kept: list[RequestContext] = []
    app = answers(lambda: kept.append(current()), catches(), body=body)
    see_wsgi(guard_wsgi(app), with_token("/"))
    context = kept[0]
    assert context.identity == UserIdentity("c1", "7")
    assert context.jobs.events() == []
    state = context._state
    assert state.source is None
    assert not state.recorded
    assert state.is_closed
    with pytest.raises(RuntimeError, match="too late"):
        context.login(7)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_request_that_ends_by_an_exception_is_closed_too(error: type[BaseException]) -> None:
    """Nothing is kept of it."""
    kept: list[RequestContext] = []
    see_wsgi(guard_wsgi(answers(lambda: kept.append(current()), error)), with_token("/"))
    assert kept[0]._state.is_closed


def test_login_after_the_first_part_says_so() -> None:
    """The cookie could not be sent any more."""
    app = answers(body=Body(b"a", lambda: current().login(7)))
    seen = see_wsgi(guard_wsgi(app), with_token())
    assert isinstance(seen.raised, RuntimeError)


def test_the_user_source_is_asked_with_the_environ_that_the_app_was_given() -> None:
    """What the app puts into its environ is known when the head leaves."""

    def app(environ: Any, start_response: Any) -> list[bytes]:
        environ["app.user"] = 8
        start_response("200 OK", [("Content-Type", "text/html")])
        return [b""]

    guarded = guard_wsgi(app, user_from=lambda environ: environ.get("app.user"))
    assert read_claims(see_wsgi(guarded).cookie() or "")["sub"] == "8"


def test_the_app_is_handed_the_cookie_of_whom_it_serves() -> None:
    """An app that reads our cookie itself must not see another user's token."""
    handed: list[str] = []

    def app(environ: Any, start_response: Any) -> list[bytes]:
        handed.append(environ["HTTP_COOKIE"])
        start_response("200 OK", list(TEXT))
        return [b""]

    request = ask("GET", "/", Cookie=f"a=1; {cookies(token(), token())}; b=2")
    see_wsgi(guard_wsgi(app, user_from=lambda environ: 8), request)
    see_wsgi(guard_wsgi(app, user_from=lambda environ: 7), request)
    ours, *others = handed[0].split("; ")
    assert read_claims(ours.removeprefix("async-token="))["sub"] == "8"
    assert others == ["a=1", "b=2"]
    assert handed[1] == dict(request.headers)["Cookie"]


def test_an_inner_middleware_for_the_same_cookie_passes_everything_through() -> None:
    """Whatever its settings: the outer one has decided."""
    found: list[Any] = []
    inner = guard_wsgi(answers(lambda: found.append(current())), protected_paths="/", issue="off")
    outer = guard_wsgi(inner)
    assert see_wsgi(outer).status == 200
    assert found[0]._state.engine is outer.engine


def test_an_inner_middleware_for_another_cookie_guards() -> None:
    """Two middlewares with two names work side by side, and both leave without a trace."""
    inner = guard_wsgi(answers(body=Body(b"a", b"b")), cookie_name="other")
    outer = guard_wsgi(inner)
    assert see_wsgi(outer, with_token()).status == 401
    request = ask("GET", PROTECTED, Cookie=f"{cookies(token())}; other={token(sub='8')}")
    assert see_wsgi(outer, request).body == b"ab"


def test_paths_are_read_as_utf_8() -> None:
    """PEP 3333 strings are latin-1 for bytes; what is no UTF-8 is no error."""
    guarded = guard_wsgi(answers(), protected_paths="/kraków")
    for target, status in (("/krak%C3%B3w", 401), ("/krak%F3w", 200), ("/krak%C5%82w", 200)):
        assert see_wsgi(guarded, ask("GET", target)).status == status
    assert see_wsgi(guarded, PATH_INFO="/€", validate=False).status == 200


def test_several_processes_with_jobs_in_memory_are_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A job submitted in one would be unknown in the others."""
    guarded = guard_wsgi(answers())
    for _ in range(2):
        see_wsgi(guarded, wsgi_multiprocess=True)
    assert sum("several processes" in record.getMessage() for record in caplog.records) == 1


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """When none are given."""
    monkeypatch.setenv("GAQ_JWT_SECRET", K)
    assert AsyncQueryMiddleware(answers()).engine.settings == make_settings()


# --- our own endpoints --------------------------------------------------------------------------


def test_a_job_is_submitted_polled_read_and_cancelled() -> None:
    """The endpoints answer without the app."""

    def app(environ: Any, start_response: Any) -> list[bytes]:
        job = current().jobs.submit(chart=5)
        start_response("202 Accepted", [("Content-Type", "application/json")])
        return [json.dumps(job.as_dict()).encode()]

    guarded = guard_wsgi(app)
    request = cookies(token(channel="wsgi-endpoints"))
    submitted = see_wsgi(guarded, ask("POST", PROTECTED, Cookie=request)).json()
    path = f"{POLL}{submitted['job_id']}"
    job = see_wsgi(guarded, ask("GET", path, Cookie=request)).json()["result"]
    assert (job["status"], job["chart"]) == ("pending", 5)
    stranger = ask("POST", f"{path}/cancel", Cookie=cookies(token(sub="8")))
    assert see_wsgi(guarded, stranger).code == "not_job_owner"
    cancelled = see_wsgi(guarded, ask("POST", f"{path}/cancel", Cookie=request))
    assert cancelled.json() == {"result": {"job_id": submitted["job_id"], "status": "cancelled"}}
    again = see_wsgi(guarded, ask("POST", f"{path}/cancel", Cookie=request))
    assert (again.status, again.code) == (404, "job_not_found")
    poll = see_wsgi(guarded, ask("GET", f"{POLL}?last_id={submitted['last_id']}", Cookie=request))
    (event,) = poll.json()["result"]
    assert (event["job_id"], event["status"]) == (submitted["job_id"], "cancelled")
    assert (poll.get("Cache-Control"), poll.get("Vary")) == ("no-store", "Cookie")
    assert see_wsgi(guarded, ask("GET", f"{POLL}?last_id=x", Cookie=request)).code == "bad_last_id"


def test_the_cookie_is_renewed_on_our_endpoints() -> None:
    """A page that only polls stays logged in."""
    seen = see_wsgi(guard_wsgi(answers()), ask("GET", POLL, Cookie=cookies(token(exp=100))))
    assert seen.status == 200
    assert read_claims(seen.cookie() or "")["channel"] == "c1"


def test_every_refusal_of_ours_has_a_status_line() -> None:
    """The phrase is the registered one."""
    seen = see_wsgi(guard_wsgi(answers()), ask("GET", PROTECTED))
    assert seen.heads[0][0] == "401 Unauthorized"
    seen = see_wsgi(guard_wsgi(answers()), ask("DELETE", POLL, Cookie=cookies(token())))
    assert seen.heads[0][0] == "405 Method Not Allowed"


# --- wsgiref.validate on both sides -------------------------------------------------------------


@pytest.mark.parametrize(
    "app",
    [
        pytest.param(answers(), id="a list"),
        pytest.param(answers(body=Body(b"a", b"b")), id="an iterable"),
        pytest.param(answers(NotJobOwnerError), id="an error of ours"),
        pytest.param(answers(ValueError("x")), id="a foreign error"),
        pytest.param(late(NotJobOwnerError), id="an error before the first part"),
        pytest.param(answers(catches(), status="500 Oops"), id="a 500 that is replaced"),
        pytest.param(answers(catches(), status="500 Oops", body=Body(b"a")), id="and iterated"),
        pytest.param(writes(b"a", b"b", body=[b"c"]), id="written data"),
        pytest.param(answers(body=[]), id="an empty list"),
        pytest.param(
            answers(status="204 No Content", headers=[], body=Body()), id="an answer without body"
        ),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS"])
@pytest.mark.parametrize("target", ["/", "/login", PROTECTED])
def test_validators_on_both_sides_are_quiet(app: App, method: str, target: str) -> None:
    """We are a good app to the server, and a good server to the app."""
    seen = see_wsgi(guard_wsgi(validator(app)), with_token(target, method))
    assert not isinstance(seen.raised, AssertionError)
    seen = see_wsgi(guard_wsgi(validator(app)), ask(method, target), stop_after=1)
    assert not isinstance(seen.raised, AssertionError)


def test_a_preflight_is_quiet_too() -> None:
    """A 204 has neither type nor length."""
    asks = {"Origin": "https://page.example", "Access_Control_Request_Method": "GET"}
    seen = see_wsgi(guard_wsgi(answers()), ask("OPTIONS", POLL, **asks))
    assert (seen.raised, seen.status, seen.body) == (None, 204, b"")
