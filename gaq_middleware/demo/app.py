"""The demo app without a framework: what each path answers, and the work behind a query.

It knows neither ASGI nor WSGI: a handler takes an `Ask`, returns an `Answer`, and asks
`gaq_middleware.current()` for everything about who is asking.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, NamedTuple

from gaq_middleware import (
    AuthenticationError,
    BadRequestError,
    Job,
    JobRegistry,
    JobStateError,
    NotFoundError,
    Settings,
    current,
    issue_token,
)

USERS = {"ada": "Ada", "bob": "Bob"}
QUERY_PATH = "/api/v1/chart/data"
QUERY_SECONDS = 4.0
WSGI_WAITERS = 8
_STEPS = 50
_GUEST_SECONDS = 3600
_PAGE_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; connect-src 'self'; frame-src 'self'; "
    "img-src data:; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'",
}


class Ask(NamedTuple):
    """What a handler is told of a request: fields of its path and form, and its cookies."""

    fields: Mapping[str, str]
    cookies: Mapping[str, str]


class Answer(NamedTuple):
    """What a handler answers."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Handler = Callable[[Ask], Answer]


@dataclass(slots=True)
class _Work:
    """The work behind one query."""

    step: int = 0
    stop: threading.Event = field(default_factory=threading.Event)


def demo_settings(store_url: str = "memory://") -> Settings:
    """Return settings with fresh secrets; tokens live 5 minutes, so that renewal can be seen."""
    return Settings.from_env(
        {
            "GAQ_JWT_SECRET": secrets.token_urlsafe(48),
            "GAQ_JWT_EXPIRATION_SECONDS": "300",
            "GAQ_GUEST_SECRET": secrets.token_urlsafe(48),
            "GAQ_GUEST_AUDIENCE": "gaq-demo",
            "GAQ_STORE_URL": store_url,
            "GAQ_WSGI_MAX_WAITERS": str(WSGI_WAITERS),
        }
    )


class Demo:
    """The app.

    Args:
        settings: Those of the middleware around it.
        seconds: How long a query takes.
    """

    def __init__(self, settings: Settings, *, seconds: float = QUERY_SECONDS) -> None:
        self.settings = settings
        self.routes: list[tuple[str, str, Handler]] = [
            ("GET", "/", _page("page.html")),
            ("GET", "/guest", _page("guest.html")),
            ("POST", "/login", self._login),
            ("POST", "/logout", self._logout),
            ("GET", "/whoami", self._whoami),
            ("POST", "/token", self._token),
            ("POST", "/guest-token", self._guest_token),
            ("POST", QUERY_PATH, self._query),
            ("GET", "/progress/{job_id}", self._progress),
            ("GET", "/result/{job_id}", self._result),
        ]
        self._registry = JobRegistry(settings)
        self._works: dict[str, _Work] = {}
        self._seconds_per_step = seconds / _STEPS

    def stop(self, job: Job) -> None:
        """Stop the work behind a cancelled query: the canceller of the middleware."""
        work = self._works.get(job.job_id)
        if work is not None:
            work.stop.set()

    def _login(self, ask: Ask) -> Answer:
        user = _user(ask)
        current().login(user)
        return _json({"user": user, "name": USERS[user]})

    def _logout(self, _: Ask) -> Answer:
        current().logout()
        return _json({"user": None})

    def _whoami(self, ask: Ask) -> Answer:
        try:
            user = current().user_id
        except AuthenticationError as error:
            return _json({"user": None, "code": error.error_code, "why": error.detail})
        claims = _claims(ask.cookies.get(self.settings.cookie_name, ""))
        left = claims["exp"] - time.time() if "exp" in claims else None
        name = USERS.get(user or "", "A guest")
        return _json({"user": user, "name": name, "claims": claims, "seconds_left": left})

    def _token(self, ask: Ask) -> Answer:
        return _json({"token": issue_token(self.settings, _user(ask))})

    def _guest_token(self, _: Ask) -> Answer:
        now = time.time()
        claims = {
            "user": {"username": f"guest-{secrets.token_hex(4)}"},
            "resources": [{"type": "dashboard", "id": "demo"}],
            "rls_rules": [],
            "iat": now,
            "exp": now + _GUEST_SECONDS,
            "aud": self.settings.guest_audience,
            "type": "guest",
        }
        return _json({"token": _signed(claims, self.settings.guest_secrets[0])})

    def _query(self, _: Ask) -> Answer:
        job = current().jobs.submit()
        work = self._works[job.job_id] = _Work()
        threading.Thread(target=self._run, args=(job.job_id, work), daemon=True).start()
        return _json(job.as_dict(), 202)

    def _progress(self, ask: Ask) -> Answer:
        job = current().jobs.get(ask.fields["job_id"])
        work = self._works.get(job.job_id)
        percent = 100 if work is None else 100 * work.step // _STEPS
        return _json({"status": job.status, "percent": percent})

    def _result(self, ask: Ask) -> Answer:
        job = current().jobs.get(ask.fields["job_id"])
        if job.result_url is None:
            raise NotFoundError("This query has no result: it has not ended, or not well.")
        return _json({"job_id": job.job_id, "data": [{"region": "North", "sales": 1204}]})

    def _run(self, job_id: str, work: _Work) -> None:
        """Do the work of a query; whoever cancelled it before it starts ends it too."""
        with suppress(JobStateError), self._registry.run(job_id) as run:
            while work.step < _STEPS and not work.stop.wait(self._seconds_per_step):
                work.step += 1
            run.done(f"/result/{job_id}")  # nothing is published if it was cancelled
        self._works.pop(job_id, None)


def _page(name: str) -> Handler:
    answer = Answer(200, _PAGE_HEADERS, files(__package__).joinpath(name).read_bytes())
    return lambda _: answer


def _json(value: Mapping[str, Any], status: int = 200) -> Answer:
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
    return Answer(status, headers, json.dumps(value).encode())


def _user(ask: Ask) -> str:
    user = ask.fields.get("user", "")
    if user not in USERS:
        raise BadRequestError("Say who you are: the form field user must be ada or bob.")
    return user


def _claims(token: str) -> dict[str, Any]:
    """Return the claims of a token that the middleware has verified already."""
    try:
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    except (IndexError, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _signed(claims: Mapping[str, Any], secret: bytes) -> str:
    """Return a JWT, as the server that embeds the guest's page would make it."""
    parts = ({"alg": "HS256", "typ": "JWT"}, claims)
    signed = b".".join(_base64(json.dumps(part).encode()) for part in parts)
    return (signed + b"." + _base64(hmac.digest(secret, signed, "sha256"))).decode()


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
