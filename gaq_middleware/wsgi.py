"""The WSGI face (PEP 3333): translate environ and start_response, call the app, answer.

The first part of the body is fetched inside the call, and the server's start_response is called
exactly once before the call returns: some servers read the head right there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from types import TracebackType
from typing import Any

from gaq_middleware.context import RequestContext
from gaq_middleware.core.errors import Refusal, RequestError, current_recorder, own_error
from gaq_middleware.core.issuing import with_cookie
from gaq_middleware.core.messages import Endpoint, Headers, Reply, RequestHead
from gaq_middleware.core.settings import Settings
from gaq_middleware.engine import Engine, UserFrom, check_app
from gaq_middleware.exchange import Exchange
from gaq_middleware.registry import Canceller

Environ = dict[str, Any]
ExcInfo = tuple[type[BaseException], BaseException, TracebackType]
Write = Callable[[bytes], object]
StartResponse = Callable[..., Any]
WSGIApp = Callable[[Environ, StartResponse], Iterable[bytes]]


class AsyncQueryMiddleware:
    """Guards the async queries of a WSGI app.

    Args:
        app: The app to wrap.
        settings: The settings; read from the environment if None.
        user_from: Tells the current user id from the environ, None if there is none.
        canceller: Stops the work behind a cancelled job; a plain or a coroutine function.

    Raises:
        SettingsError: The environment is wrong; every problem is listed.
        TypeError: An argument cannot be what it is for.
    """

    def __init__(
        self,
        app: WSGIApp,
        settings: Settings | None = None,
        *,
        user_from: UserFrom | None = None,
        canceller: Canceller | None = None,
    ) -> None:
        check_app(app, "wsgi")
        self.app = app
        self.engine = Engine(settings, user_from, canceller)
        if "-" in self.engine.settings.remote_user_header:
            self.engine.log.once("hyphen_under_wsgi")
        self._wanted = [
            ("HTTP_" + name.upper().replace("-", "_"), name) for name in self.engine.guard.wanted
        ]

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Handle one request (PEP 3333)."""
        outer = environ.get("gaq.context")
        if isinstance(outer, RequestContext) and outer.guards_same_cookie(self.engine):
            return self.app(environ, start_response)
        exchange = Exchange(self.engine, self._head(environ))
        environ["gaq.context"] = exchange.context
        self.engine.note_processes(several=bool(environ.get("wsgi.multiprocess")))
        call = _Call(exchange, environ, start_response)
        with _Current(exchange.context):
            try:
                outcome = exchange.admit(environ)
                if outcome is None:
                    cookie = exchange.cookie_header
                    if cookie is not None:
                        environ["HTTP_COOKIE"] = cookie
                    return call.run(self.app)
                return call.answer(outcome)
            except BaseException:
                exchange.close()
                raise

    def _head(self, environ: Environ) -> RequestHead:
        original = environ.get("werkzeug.proxy_fix.orig", environ)
        return RequestHead(
            method=environ.get("REQUEST_METHOD", "GET"),
            scheme=environ.get("wsgi.url_scheme", "http"),
            path=_text(environ.get("PATH_INFO", "")),
            raw_path=environ.get("RAW_URI", environ.get("REQUEST_URI")),
            root_path=_text(environ.get("SCRIPT_NAME", "")),
            query=environ.get("QUERY_STRING", ""),
            headers={name: [environ[key]] for key, name in self._wanted if key in environ},
            peer=original.get("REMOTE_ADDR"),
            remote_user=environ.get("REMOTE_USER"),
            root_in_path=False,
        )


def _text(path: str) -> str:
    """Return a path as the text that routers see: PEP 3333 strings are latin-1 for bytes."""
    return path if path.isascii() else path.encode("latin-1", "replace").decode(errors="replace")


class _Current:
    """Makes a context the current one for a while; the thread's next request must not see it."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._token = current_recorder.set(self._context)

    def __exit__(self, *exc_info: object) -> None:
        current_recorder.reset(self._token)


def _values_of(headers: Headers) -> Callable[[str], list[str]]:
    return lambda name: [value for key, value in headers if key.lower() == name]


class _Call:
    """One call of the app, and what it has told start_response so far."""

    def __init__(self, exchange: Exchange, environ: Environ, start_response: StartResponse) -> None:
        self._exchange, self._environ = exchange, environ
        self._start_response = start_response
        self._head: tuple[str, Headers, ExcInfo | None] | None = None
        self._refusal: Refusal | None = None  # what answers instead of the app
        self._replaces_500 = False
        self._is_committed = False
        self._server_write: Write | None = None
        self._written: list[bytes] = []  # by write(), where the server has none

    def answer(self, outcome: Reply | Endpoint) -> Iterable[bytes]:
        """Answer with a reply of the guard, or serve one of our endpoints."""
        if isinstance(outcome, Reply):
            return self._send_reply(outcome)
        if outcome.operation == "stream":
            return self._stream(outcome)
        return self._send_reply(self._exchange.serve(outcome))

    def _stream(self, endpoint: Endpoint) -> Iterable[bytes]:
        parts = self._exchange.stream_parts(endpoint)
        try:
            first = next(parts)
        except RequestError as error:
            return self._send_reply(self._exchange.problem(error.refusal()))
        try:
            self._start_response("200 OK", self._exchange.stream_head().headers)
        except BaseException:
            parts.close()
            raise
        return _Body(self._exchange, [first], parts, parts)

    def run(self, app: WSGIApp) -> Iterable[bytes]:
        """Call the app; return its body, or the answer that replaces it."""
        source: Iterable[bytes] = ()
        try:
            source = app(self._environ, self.start_response)
            primed: list[bytes] = []
            if not self._is_whole(source):
                rest = iter(source)
                primed = self._prime(rest)
                if self._refusal is None:
                    self._commit()
                    return _Body(self._exchange, [*self._written, *primed], rest, source)
            if self._refusal is None:
                self._commit()
                self._exchange.close()
                return source or [b""]  # some servers never start an empty list
        except BaseException as exc:  # a time limit or an exit must not leave the body open either
            own = own_error(exc)
            if own is None or self._is_committed:
                _close(source)
                raise
            return self._replace(source, own.refusal())
        return self._replace(source, self._refusal)

    def start_response(
        self, status: str, headers: Headers, exc_info: ExcInfo | None = None
    ) -> Write:
        """Take the app's head; the last one before the body counts."""
        if exc_info is not None and self._is_committed:
            raise exc_info[1].with_traceback(exc_info[2])
        if exc_info is None and self._head is not None:
            raise AssertionError("start_response() was called twice without exc_info")
        self._head = (status, list(headers), exc_info)
        code = int(status[:3])
        self._replaces_500 = code == 500
        if exc_info is not None and code == 500:  # it tells what the 500 is about
            own = own_error(exc_info[1])
            self._refusal = None if own is None else own.refusal()
        else:
            self._refusal = self._exchange.replacement(code, _values_of(headers))
        return self._write

    def _write(self, data: bytes) -> None:
        if self._refusal is not None and not self._is_committed:
            return
        self._commit()
        if self._server_write is not None:
            self._server_write(data)
        else:
            self._written.append(data)

    def _is_whole(self, source: Iterable[bytes]) -> bool:
        """Whether a body may go to the server untouched: nothing in it can still fail."""
        if self._head is None or self._written:
            return False
        wrapper = self._environ.get("wsgi.file_wrapper")
        is_file = isinstance(wrapper, type) and isinstance(source, wrapper)
        return type(source) in (list, tuple) or is_file

    def _prime(self, body: Iterator[bytes]) -> list[bytes]:
        """Fetch the body up to its first part that is not empty."""
        for part in body:
            if part or self._refusal is not None:
                return [part]
        return []

    def _commit(self) -> None:
        if self._is_committed:
            return
        if self._head is None:
            raise AssertionError("the app returned a body without calling start_response()")
        status, headers, exc_info = self._head
        self._is_committed = True
        line = self._exchange.depart(int(status[:3]), _values_of(headers))
        if line is not None:
            headers = with_cookie(headers, line)
        arguments = (status, headers) if exc_info is None else (status, headers, exc_info)
        self._head = (status, headers, None)  # a traceback that is kept would keep its frames
        self._server_write = self._start_response(*arguments)

    def _replace(self, source: Iterable[bytes], refusal: Refusal) -> Iterable[bytes]:
        _close(source)
        reply = self._exchange.problem(refusal, replaces_500=self._replaces_500)
        return self._send_reply(reply)

    def _send_reply(self, reply: Reply) -> Iterable[bytes]:
        status = f"{reply.status} {HTTPStatus(reply.status).phrase}"
        self._start_response(status, reply.headers)
        self._exchange.close()
        return [b"" if self._environ.get("REQUEST_METHOD") == "HEAD" else reply.body]


def _close(source: Iterable[bytes]) -> None:
    close = getattr(source, "close", None)
    if close is not None:
        close()


class _Body:
    """The rest of a body; the context is current while the app works on it, and only then."""

    def __init__(
        self,
        exchange: Exchange,
        primed: list[bytes],
        rest: Iterator[bytes],
        source: Iterable[bytes],
    ) -> None:
        self._exchange, self._rest, self._source = exchange, rest, source
        self._primed = iter(primed or [b""])
        self._is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        for part in self._primed:
            return part
        with _Current(self._exchange.context):
            return next(self._rest)

    def close(self) -> None:
        """Close the app's body, once."""
        if not self._is_closed:
            self._is_closed = True
            try:
                with _Current(self._exchange.context):
                    _close(self._source)
            finally:
                self._exchange.close()
