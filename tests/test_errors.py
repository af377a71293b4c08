"""The table of failures, and the exceptions that carry it into every framework."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import Request
from starlette.routing import Route
from werkzeug.exceptions import HTTPException as WerkzeugHTTPException
from werkzeug.test import Client
from werkzeug.wrappers import Request as WerkzeugRequest

from gaq_middleware.core.errors import (
    CODES,
    MARKER_HEADER,
    AuthenticationError,
    BadRequestError,
    CrossOriginError,
    ForbiddenError,
    GaqError,
    JobNotFoundError,
    JobStateError,
    NotFoundError,
    NotJobOwnerError,
    Refusal,
    RequestError,
    SettingsError,
    StoreError,
    current_recorder,
    own_error,
)
from tests.helpers import ask, call_asgi

CLASSES: list[tuple[type[RequestError], int, str]] = [
    (RequestError, 400, "bad_request"),
    (BadRequestError, 400, "bad_request"),
    (AuthenticationError, 401, "unauthorized"),
    (ForbiddenError, 403, "forbidden"),
    (NotJobOwnerError, 403, "not_job_owner"),
    (CrossOriginError, 403, "cross_origin"),
    (NotFoundError, 404, "not_found"),
    (JobNotFoundError, 404, "job_not_found"),
    (StoreError, 503, "store_unavailable"),
]


class Notes:
    """A recorder that keeps everything."""

    def __init__(self) -> None:
        self.kept: list[Refusal] = []

    def record(self, refusal: Refusal) -> None:
        """Keep a refusal."""
        self.kept.append(refusal)


@pytest.fixture
def notes() -> Iterator[Notes]:
    """Make a recorder the current one."""
    recorder = Notes()
    token = current_recorder.set(recorder)
    yield recorder
    current_recorder.reset(token)


STATUSES = {
    400: ("Bad Request", "Bad request"),
    401: ("Unauthorized", "Not authorized"),
    403: ("Forbidden", "Forbidden"),
    404: ("Not Found", "Not found"),
    405: ("Method Not Allowed", "Method not allowed"),
    426: ("Upgrade Required", "Upgrade required"),
    503: ("Service Unavailable", "Service unavailable"),
}
"""Title (RFC 9110 section 15) and message (as Superset words it) of each status."""


# --- the table --------------------------------------------------------------------------------


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_status_of_the_table_and_a_sentence(code: str) -> None:
    """Each code has a status with a title and message, and a detail in words (design 5)."""
    status, detail = CODES[code]
    assert status in STATUSES
    assert " " in detail
    assert detail.endswith(".")


@pytest.mark.parametrize(
    ("status", "codes"),
    [
        (400, "bad_last_id"),
        (401, "token_missing token_malformed token_signature token_expired token_claims"),
        (401, "token_ambiguous token_user_mismatch unauthorized"),
        (401, "guest_malformed guest_signature guest_expired guest_claims"),
        (403, "not_job_owner cross_origin forbidden"),
        (404, "job_not_found not_found"),
        (503, "store_unavailable"),
    ],
)
def test_the_codes_of_the_law(status: int, codes: str) -> None:
    """The table of design 5, by its letters."""
    assert {CODES[code][0] for code in codes.split()} == {status}
    assert {Refusal.of(code).status for code in codes.split()} == {status}


@pytest.mark.parametrize("code", CODES)
def test_every_refusal_is_a_problem_document(code: str) -> None:
    """The body is RFC 9457 with code and message beside its members (design 5)."""
    refusal = Refusal.of(code)
    title, message = STATUSES[refusal.status]
    assert json.loads(refusal.body()) == {
        "type": "about:blank",
        "title": title,
        "status": refusal.status,
        "detail": CODES[code][1],
        "code": code,
        "message": message,
    }


@pytest.mark.parametrize(
    ("code", "more"),
    [
        pytest.param(
            "token_expired",
            [("WWW-Authenticate", 'AsyncToken error="token_expired"')],
            id="a 401 names its scheme (RFC 9110 section 11.6.1)",
        ),
        pytest.param("cross_origin", [], id="a 403 has nothing more"),
        pytest.param("job_not_found", [], id="a 404 has nothing more"),
        pytest.param(
            "store_unavailable", [("Retry-After", "2")], id="a 503 tells when to come back"
        ),
    ],
)
def test_the_headers_of_a_refusal(code: str, more: list[tuple[str, str]]) -> None:
    """Every refusal has its type, the marker and no-store; some have one header more (design 5)."""
    assert Refusal.of(code).headers() == [
        ("Content-Type", "application/problem+json"),
        (MARKER_HEADER, code),
        ("Cache-Control", "no-store"),
        *more,
    ]


def test_a_refusal_may_have_a_detail_of_its_own() -> None:
    """A detail that is given replaces the table's; an empty one does not."""
    assert Refusal.of("not_found", "No such thing.").detail == "No such thing."
    assert Refusal.of("not_found", "").detail == CODES["not_found"][1]


def test_a_status_outside_the_table_still_has_a_body() -> None:
    """An app's own RequestError subclass may have any status."""
    for status, title in ((422, "Unprocessable"), (499, "Error")):
        body = json.loads(Refusal("mine", "Not this way.", status).body())
        assert body["status"] == status
        assert body["title"].startswith(title)
        assert body["message"] == body["title"].capitalize()


def test_a_detail_of_any_characters_is_ascii_on_the_wire() -> None:
    """Lone surrogates, quotes and line breaks in a detail cannot break the body (RFC 8259)."""
    detail = 'a\ud800"\r\n\u2028é'
    body = Refusal.of("not_found", detail).body()
    assert body.isascii()
    assert json.loads(body)["detail"] == detail


# --- exceptions -------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "status", "code"), CLASSES)
def test_every_class_has_its_status_and_code(
    kind: type[RequestError], status: int, code: str
) -> None:
    """`status` and `error_code` are ours, `status_code` and `code` the frameworks' (design 5)."""
    error = kind()
    assert (error.status, error.error_code) == (status, code)
    assert error.status_code == error.code == status
    assert str(error) == error.detail == error.description == CODES[code][1]
    assert error.headers == {MARKER_HEADER: code}
    assert repr(error) == f"{kind.__name__}({error.detail!r})"


@pytest.mark.parametrize(("kind", "status", "code"), CLASSES)
def test_every_class_takes_a_detail(kind: type[RequestError], status: int, code: str) -> None:
    """`Error(detail=None)` is every constructor (design 5)."""
    assert kind("Look here.").refusal() == Refusal(code, "Look here.", status)
    assert kind(detail="Look here.").refusal() == Refusal(code, "Look here.", status)


@pytest.mark.parametrize("code", [code for code in CODES if CODES[code][0] not in {405, 426}])
def test_a_refusal_becomes_an_exception_and_back(code: str) -> None:
    """Nothing is lost between the value and the exception; every status has its class."""
    refusal = Refusal.of(code, "In other words.")
    error = refusal.error()
    assert error.refusal() == refusal
    assert type(error) is not RequestError


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("token_missing", AuthenticationError),
        ("not_job_owner", NotJobOwnerError),
        ("cross_origin", CrossOriginError),
        ("job_not_found", JobNotFoundError),
        ("not_found", NotFoundError),
        ("bad_last_id", BadRequestError),
        ("store_unavailable", StoreError),
    ],
)
def test_a_refusal_raises_as_the_narrowest_class(code: str, kind: type[RequestError]) -> None:
    """Handlers may catch the class that the design names for a code."""
    assert type(Refusal.of(code).error()) is kind


def test_a_code_outside_the_table_keeps_the_detail_of_its_class() -> None:
    """An app may subclass with a code of its own."""

    class TeapotError(RequestError):
        status = 418
        error_code = "teapot"
        detail = "Short and stout."

    assert TeapotError().refusal() == Refusal("teapot", "Short and stout.", 418)


@pytest.mark.parametrize("kind", [kind for kind, _, _ in CLASSES])
def test_errors_survive_pickle_and_copy(kind: type[RequestError]) -> None:
    """Task queues pickle exceptions; what comes out says the same."""
    error = kind("Look here.", code="mine")
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is kind
        assert twin.refusal() == error.refusal()


def test_request_errors_record_themselves_when_made(notes: Notes) -> None:
    """Whoever raises it, the current request hears of it (design 5)."""
    NotJobOwnerError("first")
    AuthenticationError()
    assert [refusal.detail for refusal in notes.kept] == ["first", CODES["unauthorized"][1]]


def test_other_errors_record_nothing(notes: Notes) -> None:
    """Worker and start-up errors answer no request."""
    JobStateError()
    SettingsError("x")
    GaqError()
    assert notes.kept == []


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(GaqError(), "Something is wrong.", id="the base has a default"),
        pytest.param(GaqError("This."), "This.", id="the base takes a detail"),
        pytest.param(
            JobStateError(), "The state of the job does not allow this.", id="a worker's error"
        ),
    ],
)
def test_plain_errors_say_their_detail(error: GaqError, text: str) -> None:
    """`str()` is the detail, without a status in front."""
    assert str(error) == error.detail == text


@pytest.mark.parametrize(
    ("problems", "lines"),
    [
        pytest.param(("a is wrong.", "b too."), ["  - a is wrong.", "  - b too."], id="several"),
        pytest.param("a is wrong.", ["  - a is wrong."], id="one as text"),
        pytest.param((), [], id="none"),
    ],
)
def test_settings_errors_list_every_problem(
    problems: tuple[str, ...] | str, lines: list[str]
) -> None:
    """Each problem is on its own line, and kept as it was given (design 2)."""
    error = SettingsError(problems)
    head, *rest = str(error).split("\n")
    assert head == "gaq_middleware cannot start, the settings are wrong:"
    assert rest == lines
    assert error.problems == ((problems,) if isinstance(problems, str) else problems)


# --- in the frameworks ------------------------------------------------------------------------


def test_starlette_answers_with_status_detail_and_marker() -> None:
    """To Starlette it is an HTTPException: no traceback, our marker on the answer (design 5)."""

    def handler(request: Request) -> None:
        raise NotJobOwnerError

    app = Starlette(routes=[Route("/", handler)])
    answer = asyncio.run(call_asgi(app, ask("GET", "/")))
    assert isinstance(NotJobOwnerError(), StarletteHTTPException)
    assert (answer.status, answer.body.decode()) == (403, CODES["not_job_owner"][1])
    assert answer.code == "not_job_owner"


def test_werkzeug_answers_with_status_detail_and_marker() -> None:
    """To werkzeug it is an HTTPException and a WSGI app, with our marker (design 5)."""

    @WerkzeugRequest.application
    def app(request: WerkzeugRequest) -> WerkzeugHTTPException:
        return StoreError()

    answer = Client(app).get("/")
    assert (answer.status_code, answer.headers[MARKER_HEADER]) == (503, "store_unavailable")
    assert CODES["store_unavailable"][1] in answer.text


def test_werkzeug_escapes_the_detail() -> None:
    """A detail with mark-up stays text in werkzeug's HTML."""
    assert "<script>" not in ForbiddenError("<script>").get_body()


# --- wrapped errors ---------------------------------------------------------------------------


class Group(Exception):  # noqa: N818 - stands for ExceptionGroup, which Python 3.10 lacks
    """A group of exceptions, as the built-in one and its backport look."""

    def __init__(self, *exceptions: BaseException) -> None:
        super().__init__("several")
        self.exceptions = exceptions


class LitestarError(Exception):
    """An exception of Litestar, by the name of its module."""


LitestarError.__module__ = "litestar.exceptions.http_exceptions"


def caused(error: Exception, cause: BaseException | None) -> Exception:
    """Return an exception with a cause."""
    error.__cause__ = cause
    return error


OWN, NEWER = ForbiddenError("a"), NotFoundError("b")
STARTED = "Caught handled exception, but response already started."


@pytest.mark.parametrize(
    ("error", "own"),
    [
        pytest.param(None, None, id="nothing"),
        pytest.param(OWN, OWN, id="ours"),
        pytest.param(JobStateError(), None, id="a worker's error answers nothing"),
        pytest.param(ValueError("x"), None, id="a foreign one"),
        pytest.param(Group(OWN, NEWER), NEWER, id="a group of only ours: the newest speaks"),
        pytest.param(Group(OWN, Group(NEWER)), NEWER, id="a group in a group"),
        pytest.param(Group(OWN, ValueError("x")), None, id="a group with a foreign one"),
        pytest.param(Group(), None, id="an empty group"),
        pytest.param(caused(LitestarError(), OWN), OWN, id="Litestar's wrapping of ours"),
        pytest.param(caused(LitestarError(), ValueError("x")), None, id="Litestar's of another"),
        pytest.param(caused(LitestarError(), None), None, id="Litestar's own"),
        pytest.param(caused(ValueError("x"), OWN), None, id="a foreign one caused by ours"),
        pytest.param(caused(RuntimeError(STARTED), OWN), OWN, id="Starlette's, after a head"),
        pytest.param(caused(RuntimeError(STARTED), None), None, id="Starlette's of its own"),
    ],
)
def test_what_counts_as_an_error_of_ours(
    error: BaseException | None, own: RequestError | None
) -> None:
    """Groups of only ours and Litestar's wrapping are looked through; nothing else (design 5)."""
    assert own_error(error) is own
