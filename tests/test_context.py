"""The context: what an app sees of a request, and when it may still change it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from typing import Any

import pytest

from gaq_middleware import (
    AnonymousIdentity,
    AuthenticationError,
    GuestIdentity,
    JobNotFoundError,
    RequestContext,
    UserIdentity,
    current,
)
from tests.helpers import (
    Ask,
    Site,
    ask,
    cookies,
    guest_settings,
    guest_token,
    make_settings,
    read_claims,
    token,
)

FACES = pytest.mark.parametrize("face", ["asgi", "wsgi"])
PAGE = (200, [("Content-Type", "text/html")], b"")


class Visit:
    """A handler that does one thing in a request and keeps what came of it."""

    def __init__(self, act: Any) -> None:
        self.act = act
        self.result: Any = None
        self.context: Any = None
        self.answer: Any = None

    def __call__(self, request: Ask) -> Any:
        self.context = current()
        self.result = self.act(self.context)
        return PAGE


def visit(face: str, act: Any, request: Ask | None = None, **options: Any) -> Visit:
    """Return what came of doing something in a request."""
    handler = Visit(act)
    settings = options.pop("settings", None) or make_settings()
    handler.answer = Site(face, settings, handler, **options)(request or ask())
    return handler


def test_there_is_no_context_outside_a_request() -> None:
    """current() says what is missing."""
    with pytest.raises(LookupError, match="outside a request that AsyncQueryMiddleware wraps"):
        current()


@FACES
def test_the_identity_is_a_value_and_never_raises(face: str) -> None:
    """The identity is None for strangers, and one of three kinds otherwise."""
    seen = [
        visit(face, lambda c: c.identity, request, settings=guest_settings()).result
        for request in (
            ask(),
            ask(Cookie=cookies(token())),
            ask(Cookie=cookies(token(sub=...))),
            ask(X_GuestToken=guest_token()),
        )
    ]

    assert seen[:3] == [None, UserIdentity("c1", "7"), AnonymousIdentity("c1")]
    assert isinstance(seen[3], GuestIdentity)
    assert seen[3].claims["user"] == {"username": "g"}


@FACES
def test_claims_are_copies(face: str) -> None:
    """Who changes the claims of a guest changes nobody else's."""

    def act(context: RequestContext) -> Any:
        assert isinstance(context.identity, GuestIdentity)
        context.identity.claims["user"]["username"] = "admin"
        return context.identity.claims["user"]["username"]

    request = ask(X_GuestToken=guest_token())

    assert visit(face, act, request, settings=guest_settings()).result == "g"


@FACES
@pytest.mark.parametrize("member", ["channel_id", "user_id", "owner"])
def test_members_raise_the_401_on_any_path(face: str, member: str) -> None:
    """Without a valid identity the members raise what the guard would have answered."""

    def act(context: RequestContext) -> Any:
        with pytest.raises(AuthenticationError) as info:
            getattr(context, member)
        return info.value.error_code

    assert visit(face, act, ask(Cookie=cookies(token(-99)))).result == "token_expired"


@FACES
def test_a_login_counts_at_once(face: str) -> None:
    """After login() the request is the user's, and its answer carries their cookie."""

    def act(context: RequestContext) -> Any:
        context.login(9)
        return context.user_id, context.channel_id

    visited = visit(face, act, ask(Cookie=cookies(token())))

    claims = read_claims(visited.answer.cookie())
    assert visited.result == ("9", claims["channel"])
    assert claims["sub"] == "9"
    assert claims["channel"] != "c1"


@FACES
def test_a_login_of_the_same_user_keeps_the_channel(face: str) -> None:
    """Who logs in again keeps the jobs in flight."""
    visited = visit(face, lambda c: (c.login("7"), c.channel_id), ask(Cookie=cookies(token())))

    assert visited.result[1] == "c1"


@FACES
def test_a_logout_counts_at_once(face: str) -> None:
    """After logout() nobody is asking, and the answer deletes the cookie."""

    def act(context: RequestContext) -> Any:
        context.logout()
        assert context.identity is None
        with pytest.raises(AuthenticationError, match="logged out"):
            context.owner  # noqa: B018
        return True

    visited = visit(face, act, ask(Cookie=cookies(token())))

    assert visited.result is True
    assert visited.answer.cookie() == ""


@FACES
def test_the_last_word_counts(face: str) -> None:
    """login() after logout() issues; logout() after login() deletes."""
    first = visit(face, lambda c: (c.logout(), c.login(1)))
    second = visit(face, lambda c: (c.login(1), c.logout()))

    assert read_claims(first.answer.cookie())["sub"] == "1"
    assert second.answer.cookie() == ""


@FACES
def test_issue_off_makes_login_and_logout_do_nothing(face: str) -> None:
    """With GAQ_ISSUE=off nothing is set, deleted or changed."""
    settings = make_settings(issue="off")
    visited = visit(
        face, lambda c: (c.login(9), c.identity), ask(Cookie=cookies(token())), settings=settings
    )
    out = visit(face, lambda c: c.logout(), settings=settings)

    assert visited.result[1] == UserIdentity("c1", "7")
    assert visited.answer.all("Set-Cookie") == out.answer.all("Set-Cookie") == []


@FACES
@pytest.mark.parametrize("user_id", ["", None, True, "a\nb", "\ud800", "\x7f"], ids=ascii)
def test_what_cannot_be_a_user_id_is_refused(face: str, user_id: Any) -> None:
    """login() raises ValueError for it, and issues nothing."""

    def act(context: RequestContext) -> Any:
        with pytest.raises(ValueError, match="is not a user id"):
            context.login(user_id)

    assert visit(face, act).answer.all("Set-Cookie") == []


@FACES
def test_after_the_head_it_is_too_late(face: str) -> None:
    """login() and logout() raise RuntimeError once the head of the response has left."""
    context = visit(face, lambda c: None).context

    with pytest.raises(RuntimeError, match=r"login\(\) came too late"):
        context.login(7)
    with pytest.raises(RuntimeError, match=r"logout\(\) came too late"):
        context.logout()


@FACES
def test_what_outlives_the_request_keeps_identity_and_jobs(face: str) -> None:
    """A task of the app may go on with the context; scope, environ and errors are gone."""
    visited = visit(face, lambda c: None, ask(Cookie=cookies(token())), user_from=lambda s: "7")
    context = visited.context

    job = context.jobs.submit()

    assert context.jobs.get(job.job_id).user_id == "7"
    with pytest.raises(JobNotFoundError):
        context.jobs.get("unknown")
    assert context._state.source is None
    assert not context._state.recorded


@FACES
def test_a_source_that_knew_nobody_is_asked_again_at_the_head(face: str) -> None:
    """user_from is called before the app, and once more when the head is about to leave."""
    calls: list[Any] = []

    def user_from(source: Any) -> str | None:
        calls.append(source)
        return "7" if source.get("late") else None

    def act(context: RequestContext) -> Any:
        context._state.source["late"] = True

    visited = visit(face, act, ask(Cookie="session=1"), user_from=user_from)

    assert len(calls) == 2
    assert calls[0] is calls[1]
    assert read_claims(visited.answer.cookie())["sub"] == "7"


@FACES
def test_a_source_that_names_somebody_is_asked_once(face: str) -> None:
    """The answer of user_from is kept for the request."""
    calls: list[Any] = []

    def named(source: Any) -> str:
        calls.append(source)
        return "7"

    visit(
        face,
        lambda c: (c.identity, c.identity),
        ask(Cookie=cookies(token())),
        user_from=named,
    )

    assert len(calls) == 1


@FACES
def test_errors_are_bounded_and_cleared_by_the_next_success(face: str) -> None:
    """The last 8 errors are kept as values; a successful call forgets them."""

    def act(context: RequestContext) -> Any:
        for _ in range(20):
            with pytest.raises(JobNotFoundError):
                context.jobs.get("unknown")
        kept = len(context._state.recorded)
        context.jobs.events()
        return kept, len(context._state.recorded)

    assert visit(face, act, ask(Cookie=cookies(token()))).result == (8, 0)


@FACES
def test_a_thread_of_the_app_has_the_context_if_it_copies_it(face: str) -> None:
    """contextvars.copy_context() carries current() into a thread."""

    def act(context: RequestContext) -> Any:
        found: list[RequestContext] = []
        copied = contextvars.copy_context()
        thread = threading.Thread(target=lambda: found.append(copied.run(current)))
        thread.start()
        thread.join()
        return found == [context]

    assert visit(face, act).result is True


def test_the_awaitable_jobs_do_the_same() -> None:
    """They submit, get, read and cancel as jobs does."""

    async def act(context: RequestContext) -> Any:
        job = await context.ajobs.submit(chart=1)
        seen = await context.ajobs.get(job.job_id)
        await context.ajobs.cancel(job.job_id)
        (event,) = await context.ajobs.events(job.last_id)
        return seen.extra, event.status

    visited = visit("wsgi", lambda c: asyncio.run(act(c)), ask(Cookie=cookies(token())))

    assert visited.result == ({"chart": 1}, "cancelled")


@FACES
def test_reading_who_asks_after_an_error_does_not_hide_it(face: str) -> None:
    """An audit hook may read user_id between the error and the framework's 500."""

    def handler(request: Ask) -> Any:
        try:
            current().jobs.get("unknown")
        except JobNotFoundError:
            assert current().user_id == "7"
        return 500, [("Content-Type", "text/html")], b"oops"

    answer = Site(face, make_settings(), handler)(ask(Cookie=cookies(token())))

    assert answer.code == "job_not_found"


@FACES
def test_a_call_that_began_before_an_error_does_not_hide_it(face: str) -> None:
    """Of two operations at a time one fails and the other succeeds after it."""

    def handler(request: Ask) -> Any:
        jobs = current().jobs
        with pytest.raises(JobNotFoundError):
            current().jobs.get("unknown")
        jobs.events()
        return 500, [("Content-Type", "text/html")], b"oops"

    answer = Site(face, make_settings(), handler)(ask(Cookie=cookies(token())))

    assert answer.code == "job_not_found"


@FACES
def test_a_login_response_asks_for_the_user_again(face: str) -> None:
    """Whoever was logged in when the request came, now somebody else may be."""
    logged_in = ["ada"]

    def handler(request: Ask) -> Any:
        logged_in[0] = "bob"
        return PAGE

    site = Site(face, make_settings(), handler, user_from=lambda source: logged_in[0])
    answer = site(ask("POST", "/login", Cookie=cookies(token(sub="ada"))))

    assert read_claims(answer.cookie() or "")["sub"] == "bob"


@FACES
def test_the_app_sees_only_the_token_that_counts(face: str) -> None:
    """Of several values the app must not read another than we do, whichever it takes."""
    seen: list[str] = []

    class Spy:
        """An app that reads the Cookie header itself."""

        async def asgi(self, scope: Any, receive: Any, send: Any) -> None:
            seen.append(dict(scope["headers"])[b"cookie"].decode())

        def wsgi(self, environ: Any, start_response: Any) -> Any:
            seen.append(environ["HTTP_COOKIE"])
            start_response("204 No Content", [])
            return []

    site = Site(face, make_settings(), user_from=lambda source: "7")
    site.app.app = getattr(Spy(), face)
    mine, evil = token(), token(sub="8", channel="evil")
    for values in ((mine, evil), (evil, mine), (mine, "garbage"), (evil,)):
        with contextlib.suppress(AssertionError):
            site(ask(Cookie=f"a=1; {cookies(*values)}"))

    assert seen[:3] == [f"async-token={mine}; a=1"] * 3
    assert read_claims(seen[3].split("=")[1])["sub"] == "7"


@FACES
def test_a_guest_cannot_log_in(face: str) -> None:
    """login() has no effect on a guest's request: no cookie reaches them, so no identity either."""
    visited = visit(
        face,
        lambda c: (c.login(9), c.identity),
        ask(X_GuestToken=guest_token()),
        settings=guest_settings(),
    )

    assert isinstance(visited.result[1], GuestIdentity)
    assert visited.answer.all("Set-Cookie") == []
