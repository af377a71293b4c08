"""A forger of tokens that knows nothing of PyJWT, and one client for both faces."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import io
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes
from wsgiref.validate import validator

from gaq_middleware import asgi, current, wsgi
from gaq_middleware.core.messages import RequestHead
from gaq_middleware.core.settings import Settings
from gaq_middleware.registry.memory import MemoryStore

K = "the-first-good-secret-0123456789abcdef"
K2 = "the-other-good-secret-9876543210fedcba"
GUEST = "the-secret-of-the-guests-0123456789abc"
NOW = 1_800_000_000.0
POLL = "/api/v1/async_event/"


def make_settings(**variables: str) -> Settings:
    """Return settings from variables without their prefix; the secret is K unless given."""
    variables = {"jwt_secret": K, **variables}
    return Settings.from_env({f"GAQ_{name.upper()}": value for name, value in variables.items()})


def b64(data: bytes) -> str:
    """Return base64url without padding (RFC 7515)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forge(claims: Any, secret: str = K, *, header: Any = None, digest: str = "sha256") -> str:
    """Return a JWS over any claims and any header."""
    header = {"alg": "HS256", "typ": "JWT"} if header is None else header
    parts = [
        part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, claims)
    ]
    signed = ".".join(b64(part) for part in parts)
    signature = hmac.new(secret.encode(), signed.encode(), getattr(hashlib, digest)).digest()
    return f"{signed}.{b64(signature)}"


def token(exp: Any = 3000, *, now: float = NOW, secret: str = K, **claims: Any) -> str:
    """Return T: channel c1, sub "7", logged in now, unless told otherwise; ... leaves one out.

    `exp` counts from now if it is a number, else it is written as it is.
    """
    exp = int(now + exp) if isinstance(exp, int | float) else exp
    merged = {"channel": "c1", "sub": "7", "exp": exp, "auth_time": int(now), **claims}
    return forge({k: v for k, v in merged.items() if v is not ...}, secret)


def guest_claims(*, now: float = NOW, **claims: Any) -> dict[str, Any]:
    """Return the claims of a good guest token, changed as told; ... leaves one out."""
    base = {
        "user": {"username": "g"},
        "resources": [{"type": "dashboard", "id": "d1"}],
        "rls_rules": [],
        "iat": now - 10.5,
        "exp": now + 290.5,
        "aud": "superset",
        "type": "guest",
    }
    return {k: v for k, v in {**base, **claims}.items() if v is not ...}


def guest_token(*, now: float = NOW, secret: str = GUEST, **claims: Any) -> str:
    """Return a guest token."""
    return forge(guest_claims(now=now, **claims), secret)


def guest_settings(**variables: str) -> Settings:
    """Return settings with guests on."""
    return make_settings(**{"guest_secret": GUEST, "guest_audience": "superset", **variables})


def read_claims(raw: str) -> dict[str, Any]:
    """Return the claims of a token, unverified."""
    payload = raw.split(".")[1]
    claims: dict[str, Any] = json.loads(
        base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
    )
    return claims


@dataclass
class Answer:
    """What a client sees of an answer."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes = b""

    def all(self, name: str) -> list[str]:
        """Return all values of a header."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def get(self, name: str) -> str | None:
        """Return the only value of a header, None if it did not come."""
        values = self.all(name)
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else None

    @property
    def code(self) -> str | None:
        """The machine code of a refusal of ours."""
        return self.get("X-GAQ-Error")

    def json(self) -> Any:
        """Return the parsed body."""
        return json.loads(self.body)

    def cookie(self, name: str = "async-token") -> str | None:
        """Return the value that the answer sets for a cookie, "" if it deletes it."""
        for line in self.all("Set-Cookie"):
            if line.startswith(f"{name}="):
                return line.removeprefix(f"{name}=").partition(";")[0]
        return None


@dataclass
class Ask:
    """A request, the same for both faces."""

    method: str = "GET"
    target: str = "/"
    headers: list[tuple[str, str]] = field(default_factory=list)
    scheme: str = "http"
    root_path: str = ""
    body: bytes = b""

    @property
    def path(self) -> bytes:
        """The path as a server decodes it, once."""
        return unquote_to_bytes(self.target.partition("?")[0])


def ask(method: str = "GET", target: str = "/", **headers: str) -> Ask:
    """Return a request; header names with _ for -."""
    pairs = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return Ask(method, target, [("Host", "app.example"), *pairs])


def cookies(*values: str, name: str = "async-token") -> str:
    """Return a Cookie header with these values of our cookie."""
    return "; ".join(f"{name}={value}" for value in values)


def scope_of(request: Ask) -> dict[str, Any]:
    """Return the ASGI scope of a request."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path.decode("utf-8", "replace"),
        "raw_path": request.target.partition("?")[0].encode("latin-1"),
        "query_string": request.target.partition("?")[2].encode("latin-1"),
        "root_path": request.root_path,
        "headers": [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in request.headers],
        "client": ("127.0.0.1", 4711),
        "server": ("app.example", 80),
    }


async def call_asgi(app: Any, request: Ask) -> Answer:
    """Send a request to an ASGI app; what the app raises comes out."""
    sent: list[dict[str, Any]] = []
    received = iter([{"type": "http.request", "body": request.body, "more_body": False}])
    ended = asyncio.Event()

    async def receive() -> dict[str, Any]:
        for message in received:
            return message
        await ended.wait()  # as real servers do
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            ended.set()

    await app(scope_of(request), receive, send)
    starts = [m for m in sent if m["type"] == "http.response.start"]
    assert len(starts) == 1, f"{len(starts)} heads were sent"
    headers = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in starts[0]["headers"]]
    body = b"".join(m.get("body", b"") for m in sent if m["type"] == "http.response.body")
    return Answer(starts[0]["status"], headers, body)


def environ_of(request: Ask) -> dict[str, Any]:
    """Return the WSGI environ of a request."""
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": request.root_path,
        "PATH_INFO": request.path.decode("latin-1"),
        "RAW_URI": request.target,
        "QUERY_STRING": request.target.partition("?")[2],
        "SERVER_NAME": "app.example",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": request.scheme,
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for key, value in request.headers:
        name = key.upper().replace("-", "_")
        name = name if name in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{name}"
        joiner = "; " if name == "HTTP_COOKIE" else ","
        environ[name] = joiner.join([environ[name], value]) if name in environ else value
    return environ


def call_wsgi(app: Any, request: Ask, *, validate: bool = True) -> Answer:
    """Send a request to a WSGI app, watched by wsgiref.validate; what it raises comes out."""
    heads: list[tuple[str, list[tuple[str, str]]]] = []
    written: list[bytes] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        heads.append((status, headers))
        return written.append

    body = (validator(app) if validate else app)(environ_of(request), start_response)
    try:
        parts = list(body)
    finally:
        if hasattr(body, "close"):
            body.close()
    assert len(heads) == 1, f"{len(heads)} heads were sent"
    return Answer(int(heads[0][0][:3]), heads[0][1], b"".join([*written, *parts]))


class Clock:
    """A clock that stands still until told."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


Handler = Callable[[Ask], tuple[int, list[tuple[str, str]], bytes]]
"""A handler of a test app: status, headers and body; `gaq_middleware.current()` works in it."""


def page(_: Ask) -> tuple[int, list[tuple[str, str]], bytes]:
    """Answer with a page."""
    return 200, [("Content-Type", "text/html")], b"the app"


class Site:
    """One app behind one face, with a clock that stands still: what most tests talk to."""

    def __init__(
        self, face: str, settings: Settings, handler: Handler = page, **options: Any
    ) -> None:
        self.face, self.clock, self.calls = face, Clock(), 0
        self._handler = handler
        self._request = Ask()
        if face == "asgi":
            self.app: Any = asgi.AsyncQueryMiddleware(self._asgi, settings, **options)
        else:
            self.app = wsgi.AsyncQueryMiddleware(self._wsgi, settings, **options)
        self.app.engine.clock = self.clock
        self.app.engine.store = MemoryStore()  # nobody else's jobs

    def __call__(self, request: Ask) -> Answer:
        """Send a request."""
        self._request = request
        if self.face == "asgi":
            return asyncio.run(call_asgi(self.app, request))
        return call_wsgi(self.app, request)

    async def _asgi(self, scope: Any, receive: Any, send: Any) -> None:
        self.calls += 1
        status, headers, body = self._handler(self._request)
        raw = [(k.lower().encode(), v.encode()) for k, v in headers]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": body})

    def _wsgi(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        self.calls += 1
        status, headers, body = self._handler(self._request)
        start_response(f"{status} Because", headers)
        return [body]


def submits(_: Ask) -> tuple[int, list[tuple[str, str]], bytes]:
    """Submit a job and answer 202 with it."""
    job = current().jobs.submit()
    return 202, [("Content-Type", "application/json")], json.dumps(job.as_dict()).encode()


def head_of(request: Ask, *, is_websocket: bool = False) -> RequestHead:
    """Return the head that a face would make of a request, with all its headers."""
    headers: dict[str, list[str]] = {}
    for key, value in request.headers:
        headers.setdefault(key.lower(), []).append(value)
    path, _, query = request.target.partition("?")
    return RequestHead(
        method=request.method,
        scheme=request.scheme,
        path=request.path.decode("utf-8", "replace"),
        raw_path=path,
        root_path=request.root_path,
        query=query,
        headers=headers,
        peer="127.0.0.1",
        is_websocket=is_websocket,
    )
