"""The table of failures: every code, its status and the words a client sees.

Errors are exceptions that handlers may raise or catch; a `Refusal` is the same finding before
anybody raised it. This module knows no request and no store.

    GaqError
    ├── RequestError                 answers a request with `status`
    │   ├── BadRequestError          400
    │   ├── AuthenticationError      401
    │   ├── ForbiddenError           403: NotJobOwnerError, CrossOriginError
    │   ├── NotFoundError            404: JobNotFoundError
    │   └── StoreError               503
    ├── JobStateError                a worker asked for a move that the job does not allow
    └── SettingsError                start-up
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

from starlette.exceptions import HTTPException as StarletteHTTPException
from werkzeug.exceptions import HTTPException as WerkzeugHTTPException

MARKER_HEADER = "X-GAQ-Error"

CODES: dict[str, tuple[int, str]] = {
    "bad_request": (400, "The request is not valid."),
    "bad_last_id": (
        400,
        "last_id must be <milliseconds>-<sequence> or <milliseconds>, in plain digits within "
        "64 bits. Send the id of the last event you have, or no last_id to start at the oldest.",
    ),
    "bad_wait": (400, "wait must be a number of seconds from 0 to 30, such as 25 or 2.5."),
    "unauthorized": (401, "Authentication is required."),
    "token_missing": (401, "No async token came with the request."),
    "token_malformed": (401, "The async token is no HS256 JWT of up to 4096 bytes. Log in again."),
    "token_signature": (
        401,
        "The async token was signed with another key. Log in again; if that does not help, the "
        "issuer and this server have different secrets.",
    ),
    "token_expired": (401, "The async token has expired. Log in again."),
    "token_claims": (
        401,
        "The async token is signed but its claims are not usable: it needs a channel and an exp, "
        "and no audience. Log in again.",
    ),
    "token_ambiguous": (
        401,
        "Several valid async tokens of different users came with the request. Delete the cookies "
        "of this site; a __Host- cookie name keeps other hosts from adding theirs.",
    ),
    "token_user_mismatch": (401, "The async token is not of the user logged in. Log in again."),
    "guest_malformed": (
        401,
        "The guest token is not a JWT of the configured algorithm of at most 16384 bytes.",
    ),
    "guest_signature": (401, "The guest token was signed with another key."),
    "guest_expired": (401, "The guest token has expired. Fetch a new one."),
    "guest_claims": (
        401,
        "The guest token is signed but its claims are not usable: it needs exp, the configured "
        'audience, type "guest", user (object), resources (list) and rls_rules (list).',
    ),
    "forbidden": (403, "This is not allowed."),
    "not_job_owner": (403, "The job belongs to somebody else."),
    "cross_origin": (403, "The request comes from another origin."),
    "not_found": (404, "There is nothing here."),
    "job_not_found": (404, "There is no such job, or it has ended or expired."),
    "method_not_allowed": (405, "This method is not allowed here."),
    "upgrade_required": (
        426,
        "This is a WebSocket, but no upgrade arrived: open it with ws:// or wss://. WSGI servers "
        "have none, uvicorn needs the package websockets, proxies pass on Upgrade and Connection.",
    ),
    "store_unavailable": (503, "The store of jobs cannot be reached. Try again shortly."),
    "too_many_streams": (503, "Too many event streams are open. Close some, or try again shortly."),
}
"""Error code -> HTTP status and the detail given when no better one is known."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A failure as a value: a code of `CODES` and the detail that the client reads."""

    code: str
    detail: str
    status: int

    @classmethod
    def of(cls, code: str, detail: str | None = None) -> Refusal:
        """Return the refusal for a code of the table, with its own detail unless one is given."""
        status, text = CODES[code]
        return cls(code, detail or text, status)

    def error(self) -> RequestError:
        """Return this refusal as the exception that handlers know."""
        return _BY_CODE.get(self.code, _BY_STATUS[self.status])(self.detail, code=self.code)

    def body(self) -> bytes:
        """Return the problem document (RFC 9457) as bytes."""
        title = next((each.phrase for each in HTTPStatus if each == self.status), "Error")
        message = "Not authorized" if self.status == 401 else title.capitalize()  # as in Superset
        document = {
            "type": "about:blank",
            "title": title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "message": message,
        }
        return json.dumps(document).encode()

    def headers(self) -> list[tuple[str, str]]:
        """Return the headers of the answer, without its length."""
        headers = [("Content-Type", "application/problem+json"), (MARKER_HEADER, self.code)]
        headers.append(("Cache-Control", "no-store"))
        if self.status == 401:
            headers.append(("WWW-Authenticate", f'AsyncToken error="{self.code}"'))
        if self.status == 426:  # RFC 9110 section 15.5.22
            headers.append(("Upgrade", "websocket"))
        if self.status == 503:
            headers.append(("Retry-After", "2"))
        return headers


class Recorder(Protocol):
    """Whoever wants to hear of request errors as they are made: the current request's context."""

    def record(self, refusal: Refusal) -> None:
        """Remember that an error with this content was made."""


current_recorder: ContextVar[Recorder | None] = ContextVar("gaq_current", default=None)
"""The context of the request being handled; set by the faces."""


class GaqError(Exception):
    """Base of every error of this package.

    Args:
        detail: What is wrong and how to mend it, in words for whoever reads the error.
    """

    detail: str = "Something is wrong."

    def __init__(self, detail: str | None = None) -> None:
        if detail is not None:
            self.detail = detail
        Exception.__init__(self, self.detail)

    def __str__(self) -> str:
        return self.detail

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.detail!r})"


class RequestError(GaqError, WerkzeugHTTPException, StarletteHTTPException):
    """An error that answers a request, whatever framework the handler runs in.

    It is an `HTTPException` of werkzeug and of starlette, so their frameworks answer it without
    a traceback in the log, and it records itself with the current request when it is made, so
    that every other framework's plain 500 can be replaced by it.

    Args:
        detail: What the client reads.
        code: Machine code of the failure; the class's own if not given.
    """

    status: int = 400
    error_code: str = "bad_request"

    def __init__(self, detail: str | None = None, *, code: str | None = None) -> None:
        if code is not None:
            self.error_code = code
        if detail is None and self.error_code in CODES:
            detail = CODES[self.error_code][1]
        GaqError.__init__(self, detail)
        self.code = self.status_code = self.status
        self.description = self.detail
        self.response = None
        self.headers = {MARKER_HEADER: self.error_code}
        recorder = current_recorder.get()
        if recorder is not None:
            recorder.record(self.refusal())

    def refusal(self) -> Refusal:
        """Return the error's content as a value."""
        return Refusal(self.error_code, self.detail, self.status)

    def get_headers(self, *args: Any, **kwargs: Any) -> list[tuple[str, str]]:
        """Return werkzeug's headers and our marker."""
        headers: list[tuple[str, str]] = super().get_headers(*args, **kwargs)
        return [*headers, (MARKER_HEADER, self.error_code)]


class BadRequestError(RequestError):
    """400: the request cannot be understood."""


class AuthenticationError(RequestError):
    """401: nobody, or nobody we can believe, is asking."""

    status = 401
    error_code = "unauthorized"


class ForbiddenError(RequestError):
    """403: we know who is asking, and they may not."""

    status = 403
    error_code = "forbidden"


class NotJobOwnerError(ForbiddenError):
    """403: the job exists and belongs to somebody else."""

    error_code = "not_job_owner"


class CrossOriginError(ForbiddenError):
    """403: a browser sent the credentials from another origin."""

    error_code = "cross_origin"


class NotFoundError(RequestError):
    """404: there is nothing of that name."""

    status = 404
    error_code = "not_found"


class JobNotFoundError(NotFoundError):
    """404: the job is unknown or expired; for a cancel also: it has ended."""

    error_code = "job_not_found"


class StoreError(RequestError):
    """503: the store of jobs cannot be reached."""

    status = 503
    error_code = "store_unavailable"


class JobStateError(GaqError):
    """A worker asked for a move that the state of the job does not allow."""

    detail = "The state of the job does not allow this."


class SettingsError(GaqError):
    """The settings are wrong; every problem found is listed.

    Args:
        problems: One text each, naming the variable, what is wrong with it and how to mend it.
    """

    def __init__(self, problems: Iterable[str] | str = ()) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        lines = "".join(f"\n  - {problem}" for problem in self.problems)
        super().__init__(f"gaq_middleware cannot start, the settings are wrong:{lines}")


_STARLETTE_STARTED = ("Caught handled exception, but response already started.",)
_BY_STATUS: dict[int, type[RequestError]] = {
    kind.status: kind
    for kind in (BadRequestError, AuthenticationError, ForbiddenError, NotFoundError, StoreError)
}
_BY_CODE: dict[str, type[RequestError]] = {
    kind.error_code: kind for kind in (NotJobOwnerError, CrossOriginError, JobNotFoundError)
}


def own_error(exc: BaseException | None) -> RequestError | None:
    """Return the request error that an exception is, or is only a wrapping of.

    Looked through: groups of nothing but request errors (the newest speaks), and what Litestar
    raises from the one it caught, and Starlette once it has sent a head that we may still hold.
    """
    if exc is None or isinstance(exc, RequestError):
        return exc
    members = getattr(exc, "exceptions", None)
    if isinstance(members, tuple) and members:
        own = [own_error(member) for member in members]
        return own[-1] if all(own) else None
    wraps = type(exc).__module__.partition(".")[0] == "litestar" or exc.args == _STARLETTE_STARTED
    return own_error(exc.__cause__) if wraps else None
