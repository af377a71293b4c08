"""One table of requests that both faces answer identically: status, code, headers and cookie."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gaq_middleware import (
    AuthenticationError,
    ForbiddenError,
    JobNotFoundError,
    NotFoundError,
    NotJobOwnerError,
    Settings,
    StoreError,
    current,
)
from tests.helpers import (
    GUEST,
    K2,
    NOW,
    POLL,
    Answer,
    Ask,
    Site,
    ask,
    cookies,
    forge,
    guest_claims,
    guest_settings,
    guest_token,
    make_settings,
    read_claims,
    token,
)

CHART = "/api/v1/chart/data"
HTML = [("Content-Type", "text/html; charset=utf-8")]
JSON = [("Content-Type", "application/json")]
Reaction = tuple[int, list[tuple[str, str]], bytes]


def chart(request: Ask) -> Reaction:
    """Submit a job with a known id."""
    job = current().jobs.submit(job_id="j2", chart=5)
    return 202, JSON, json.dumps(job.as_dict()).encode()


def login(request: Ask) -> Reaction:
    """Log user 7 in by POST, beside two cookies of the app."""
    if request.method == "POST":
        current().login(7)
    cookies = [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2; Path=/x")]
    return 302, [*HTML, ("Location", "/"), *cookies], b""


def logout(request: Ask) -> Reaction:
    """Log out by the path alone."""
    return 204, [], b""


def raises(error: type[Exception]) -> Callable[[Ask], Reaction]:
    """Return a handler that raises."""

    def handler(request: Ask) -> Reaction:
        current().identity  # noqa: B018 - never raises
        raise error

    return handler


def plain(
    status: int, headers: list[tuple[str, str]], body: bytes = b"the app"
) -> Callable[[Ask], Reaction]:
    """Return a handler that answers what it is told."""
    return lambda request: (status, headers, body)


def who(request: Ask) -> Reaction:
    """Tell who is asking, by the members that raise."""
    context = current()
    return 200, JSON, json.dumps([context.channel_id, context.user_id]).encode()


def peek(request: Ask) -> Reaction:
    """Tell who is asking, by the member that never raises."""
    identity = current().identity
    return 200, JSON, json.dumps(identity and [type(identity).__name__, identity.user_id]).encode()


def caught(request: Ask) -> Reaction:
    """Catch our error and answer on purpose."""
    try:
        current().jobs.get("unknown")
    except (AuthenticationError, JobNotFoundError):
        return 200, HTML, b"caught"
    return 200, HTML, b"not raised"


def five_hundred(request: Ask) -> Reaction:
    """Answer as a framework does when a handler raised something of ours."""
    try:
        current().jobs.get("unknown")
    except (AuthenticationError, JobNotFoundError):
        return 500, HTML, b"Internal Server Error"
    return 200, HTML, b"not raised"


def own_job(request: Ask) -> Reaction:
    """Get a job of the registry through the context."""
    return 200, JSON, json.dumps(current().jobs.get("j1").as_dict()).encode()


def seen_cookie(request: Ask) -> Reaction:
    """Leave at once: used to look at what the app was handed."""
    return 200, JSON, b"{}"


ROUTES: dict[str, Callable[[Ask], Reaction]] = {
    CHART: chart,
    "/login": login,
    "/login/sso": login,
    "/logout": logout,
    "/401": raises(AuthenticationError),
    "/403": raises(ForbiddenError),
    "/403/owner": raises(NotJobOwnerError),
    "/404": raises(NotFoundError),
    "/404/job": raises(JobNotFoundError),
    "/503": raises(StoreError),
    "/own/401": plain(401, JSON, b'{"mine": 401}'),
    "/own/404": plain(404, HTML),
    "/own/500": plain(500, HTML),
    "/own/504": plain(504, HTML),
    "/own/marked": plain(403, [*HTML, ("X-GAQ-Error", "forbidden")]),
    "/who": who,
    "/peek": peek,
    "/caught": caught,
    "/500": five_hundred,
    "/job": own_job,
    "/public": plain(200, [*HTML, ("Cache-Control", "public, max-age=60"), ("Vary", "Accept")]),
    "/cdn": plain(200, [*HTML, ("CDN-Cache-Control", "max-age=9"), ("Vary", "cookie")]),
    "/vary-all": plain(200, [*HTML, ("Vary", "*")]),
    "/json": plain(200, JSON, b"{}"),
    "/text": plain(200, [("Content-Type", "text/plain")]),
    "/logo.png": plain(200, [("Content-Type", "image/png")]),
    "/app.js": plain(200, [("Content-Type", "text/javascript")]),
    "/untyped": plain(200, [("Content-Type", "text/unknown")]),
    "/204": plain(204, [], b""),
    "/304": plain(304, [], b""),
    "/sets-ours": plain(200, [*HTML, ("Set-Cookie", "async-token=mine; Path=/")]),
    "/sets-near": plain(200, [*HTML, ("Set-Cookie", "async-token2=mine; Path=/")]),
}


def app(request: Ask) -> Reaction:
    """Route; everything unknown is a page."""
    path = request.target.partition("?")[0]
    return ROUTES.get(path, plain(200, HTML))(request)


SETTINGS: dict[str, Callable[[], Settings]] = {
    "session": make_settings,
    "login": lambda: make_settings(issue="login"),
    "anonymous": lambda: make_settings(issue="anonymous"),
    "off": lambda: make_settings(issue="off"),
    "guests": guest_settings,
    "cors": lambda: make_settings(allowed_origins="https://good.example,http://localhost:3000"),
    "own events": lambda: make_settings(events_path=""),
    "moved events": lambda: make_settings(events_path="/jobs/events", protected_paths="/guarded"),
    "anchored": lambda: make_settings(path_anchored="true", open_paths="/api/v1/chart/data/docs"),
    "host cookie": lambda: make_settings(cookie_name="__Host-t"),
    "strict": lambda: make_settings(cookie_samesite="strict", cookie_secure="true"),
    "partitioned": lambda: make_settings(cookie_partitioned="1", cookie_samesite="none"),
    "domain": lambda: make_settings(cookie_domain="example.com", cookie_path="/app"),
    "rotated": lambda: make_settings(
        jwt_secret=K2, jwt_verify_secrets="the-first-good-secret-0123456789abcdef"
    ),
    "no exp": lambda: make_settings(jwt_require_exp="false"),
}
USERS: dict[str, Callable[[Any], object]] = {
    "7": lambda _: "7",
    "8": lambda _: 8,
    "nobody": lambda _: None,
    "broken": lambda _: 1 / 0,
    "true": lambda _: True,
}

GOOD, OTHER = cookies(token()), cookies(token(sub="8", channel="c8"))
STREAM = POLL + "stream"
J1, CANCEL = POLL + "j1", POLL + "j1/cancel"
SAME, EVIL = "http://app.example", "https://evil.example"


def row(
    title: str,
    request: Ask,
    status: int,
    code: str | None = None,
    cookie: str | None = None,
    *,
    settings: str = "session",
    user: str | None = None,
) -> Any:
    """Return a row; `cookie`: None nothing is set, "new", "same" channel c1, "gone" deleted."""
    return pytest.param(request, status, code, cookie, settings, user, id=title)


def api(target: str = POLL, method: str = "GET", **headers: str) -> Ask:
    """Return a request of user 7."""
    return ask(method, target, **{"Cookie": GOOD, **headers})


ROWS = [
    # no token, and tokens of every bad kind
    row("no token", ask("GET", POLL), 401, "token_missing"),
    row("no token, no trailing slash", ask("GET", POLL[:-1]), 401, "token_missing"),
    row(
        "no token, browser asks for html",
        ask("GET", POLL, Accept="text/html"),
        401,
        "token_missing",
    ),
    row("no token, HEAD", ask("HEAD", POLL), 401, "token_missing"),
    row("no token, POST to the app's own path", ask("POST", CHART), 401, "token_missing"),
    row("no token, wrong method", ask("DELETE", POLL), 401, "token_missing"),
    row("bearer only", ask("GET", POLL, Authorization="Bearer x"), 401, "token_missing"),
    row(
        "other cookies only",
        ask("GET", POLL, Cookie="session=1; async-token2=x"),
        401,
        "token_missing",
    ),
    row(
        "name in another case",
        ask("GET", POLL, Cookie=f"Async-Token={token()}"),
        401,
        "token_missing",
    ),
    row("empty cookie", ask("GET", POLL, Cookie="async-token="), 401, "token_missing"),
    row("cookie without equals", ask("GET", POLL, Cookie="async-token"), 401, "token_missing"),
    row("garbage", ask("GET", POLL, Cookie=cookies("garbage")), 401, "token_malformed"),
    row("two parts", ask("GET", POLL, Cookie=cookies("a.b")), 401, "token_malformed"),
    row("bytes", ask("GET", POLL, Cookie=cookies("\xe9\xff.a.b")), 401, "token_malformed"),
    row(
        "too long", ask("GET", POLL, Cookie=cookies(token(pad="x" * 4000))), 401, "token_malformed"
    ),
    row(
        "alg none",
        ask("GET", POLL, Cookie=cookies(forge({}, header={"alg": "none"}))),
        401,
        "token_malformed",
    ),
    row(
        "alg HS512",
        ask("GET", POLL, Cookie=cookies(forge({}, header={"alg": "HS512"}, digest="sha512"))),
        401,
        "token_malformed",
    ),
    row("another key", ask("GET", POLL, Cookie=cookies(token(secret=K2))), 401, "token_signature"),
    row("expired", ask("GET", POLL, Cookie=cookies(token(-61))), 401, "token_expired"),
    row(
        "expired within the leeway", ask("GET", POLL, Cookie=cookies(token(-5))), 200, cookie="same"
    ),
    row("no exp", ask("GET", POLL, Cookie=cookies(token(exp=...))), 401, "token_claims"),
    row(
        "no exp, allowed", ask("GET", POLL, Cookie=cookies(token(exp=...))), 200, settings="no exp"
    ),
    row(
        "exp as text",
        ask("GET", POLL, Cookie=cookies(token(exp=str(NOW + 99)))),
        401,
        "token_claims",
    ),
    row(
        "not yet valid", ask("GET", POLL, Cookie=cookies(token(nbf=NOW + 60))), 401, "token_claims"
    ),
    row(
        "issued in the future",
        ask("GET", POLL, Cookie=cookies(token(iat=NOW + 60))),
        401,
        "token_claims",
    ),
    row("for an audience", ask("GET", POLL, Cookie=cookies(token(aud="x"))), 401, "token_claims"),
    row("no channel", ask("GET", POLL, Cookie=cookies(token(channel=...))), 401, "token_claims"),
    row(
        "channel full", ask("GET", POLL, Cookie=cookies(token(channel="full"))), 401, "token_claims"
    ),
    row(
        "channel of a guest",
        ask("GET", POLL, Cookie=cookies(token(channel="guest-1"))),
        401,
        "token_claims",
    ),
    row(
        "channel is a number",
        ask("GET", POLL, Cookie=cookies(token(channel=1))),
        401,
        "token_claims",
    ),
    row("sub is a list", ask("GET", POLL, Cookie=cookies(token(sub=["7"]))), 401, "token_claims"),
    # good tokens
    row("good", api(), 200),
    row("good, no trailing slash", api(POLL[:-1]), 200),
    row("good, HEAD", api(method="HEAD"), 200),
    row("good, quoted", ask("GET", POLL, Cookie=f'async-token="{token()}"'), 200),
    row("good, among others", ask("GET", POLL, Cookie=f"a=1; {GOOD}; b=2"), 200),
    row("sub is a number", ask("GET", POLL, Cookie=cookies(token(sub=7))), 200, cookie="same"),
    row("sub is null", ask("GET", POLL, Cookie=cookies(token(sub=None))), 200, cookie="same"),
    row("no sub", ask("GET", POLL, Cookie=cookies(token(sub=...))), 200),
    row("user id 0", ask("GET", POLL, Cookie=cookies(token(sub="0"))), 200),
    row("bad and good", ask("GET", POLL, Cookie=cookies("bad", token())), 200),
    row("good and bad", ask("GET", POLL, Cookie=cookies(token(), "bad")), 200),
    row(
        "bad and expired",
        ask("GET", POLL, Cookie=cookies("bad", token(-99))),
        401,
        "token_malformed",
    ),
    row(
        "good in ninth place",
        ask("GET", POLL, Cookie=cookies(*["bad"] * 8, token())),
        401,
        "token_malformed",
    ),
    row("good in eighth place", ask("GET", POLL, Cookie=cookies(*["bad"] * 7, token())), 200),
    row("two users", ask("GET", POLL, Cookie=f"{GOOD}; {OTHER}"), 401, "token_ambiguous"),
    row("two users, one known", ask("GET", POLL, Cookie=f"{GOOD}; {OTHER}"), 200, user="7"),
    row(
        "two logins of one user", ask("GET", POLL, Cookie=cookies(token(auth_time=1), token())), 200
    ),
    row(
        "anonymous yields to a user",
        ask("GET", "/who", Cookie=cookies(token(sub=...), token())),
        200,
    ),
    row("signed with a verify-only secret", api(), 200, cookie="same", settings="rotated"),
    # the header
    row("header", ask("GET", POLL, X_Async_Token=token()), 200),
    row("header near its end", ask("GET", POLL, X_Async_Token=token(60)), 200),
    row("bad header beats a good cookie", api(X_Async_Token="x"), 401, "token_malformed"),
    row("empty header", api(X_Async_Token=""), 401, "token_malformed"),
    row(
        "header cancels from anywhere", ask("POST", CANCEL, X_Async_Token=token(), Origin=EVIL), 200
    ),
    # renewal
    row("first half", ask("GET", POLL, Cookie=cookies(token(1801))), 200),
    row("second half", ask("GET", POLL, Cookie=cookies(token(1799))), 200, cookie="same"),
    row("second half, page", ask("GET", "/", Cookie=cookies(token(100))), 200, cookie="same"),
    row("second half, text", ask("GET", "/text", Cookie=cookies(token(100))), 200, cookie="same"),
    row(
        "second half, untyped",
        ask("GET", "/untyped", Cookie=cookies(token(100))),
        200,
        cookie="same",
    ),
    row("second half, image", ask("GET", "/logo.png", Cookie=cookies(token(100))), 200),
    row("second half, script", ask("GET", "/app.js", Cookie=cookies(token(100))), 200),
    row("second half, 204", ask("GET", "/204", Cookie=cookies(token(100))), 204),
    row("second half, 304", ask("GET", "/304", Cookie=cookies(token(100))), 304),
    row("second half, error", ask("GET", "/own/404", Cookie=cookies(token(100))), 404),
    row(
        "second half, refused",
        ask("POST", CANCEL, Cookie=cookies(token(100, sub="9"))),
        403,
        "not_job_owner",
    ),
    row("second half, off", ask("GET", POLL, Cookie=cookies(token(100))), 200, settings="off"),
    row(
        "second half, login mode",
        ask("GET", POLL, Cookie=cookies(token(100))),
        200,
        cookie="same",
        settings="login",
    ),
    row(
        "too long after the login",
        ask("GET", POLL, Cookie=cookies(token(100, auth_time=NOW - 43_150))),
        200,
    ),
    row(
        "app sets ours itself",
        ask("GET", "/sets-ours", Cookie=cookies(token(100))),
        200,
        cookie="mine",
    ),
    row(
        "app sets a cookie of a near name",
        ask("GET", "/sets-near", Cookie=cookies(token(100))),
        200,
        cookie="same",
    ),
    row(
        "public page becomes private",
        ask("GET", "/public", Cookie=cookies(token(100))),
        200,
        cookie="same",
    ),
    row(
        "cdn page becomes private",
        ask("GET", "/cdn", Cookie=cookies(token(100))),
        200,
        cookie="same",
    ),
    row("vary all", ask("GET", "/vary-all", Cookie=cookies(token(100))), 200, cookie="same"),
    row("public page stays public", api("/public"), 200),
    # login and logout
    row("login", ask("POST", "/login"), 302, cookie="new"),
    row("login by GET", ask("GET", "/login"), 302),
    row("login, own cookie kept", ask("POST", "/login", Cookie=GOOD), 302, cookie="same"),
    row("login, another's cookie", ask("POST", "/login", Cookie=OTHER), 302, cookie="new"),
    row(
        "login with an expired cookie",
        ask("POST", "/login", Cookie=cookies(token(-99))),
        302,
        cookie="new",
    ),
    row("login, off", ask("POST", "/login"), 302, settings="off"),
    row("login, login mode", ask("POST", "/login"), 302, cookie="new", settings="login"),
    row(
        "login by https",
        Ask("POST", "/login", [("Host", "app.example")], scheme="https"),
        302,
        cookie="new",
    ),
    row(
        "login, proxy says https",
        ask("POST", "/login", X_Forwarded_Proto="https"),
        302,
        cookie="new",
    ),
    row(
        "login, https origin",
        ask("POST", "/login", Origin="https://app.example"),
        302,
        cookie="new",
    ),
    row("login, __Host- cookie", ask("POST", "/login"), 302, cookie="new", settings="host cookie"),
    row("login, strict and secure", ask("POST", "/login"), 302, cookie="new", settings="strict"),
    row("login, partitioned", ask("POST", "/login"), 302, cookie="new", settings="partitioned"),
    row("login, domain and path", ask("POST", "/login"), 302, cookie="new", settings="domain"),
    row(
        "login path by a source", ask("POST", "/api/v1/security/login"), 200, cookie="new", user="7"
    ),
    row(
        "login path, source knows nobody",
        ask("POST", "/api/v1/security/login/"),
        200,
        user="nobody",
    ),
    row("login path, no source", ask("POST", "/api/v1/security/login"), 200),
    row("logout", api("/logout"), 204, cookie="gone"),
    row("logout without cookie", ask("POST", "/logout/"), 200, cookie="gone"),
    row("logout, domain and path", api("/logout"), 204, cookie="gone", settings="domain"),
    row("logout, off", api("/logout"), 204, settings="off"),
    # user sources
    row("known user, no token", ask("GET", POLL), 200, cookie="new", user="7"),
    row("known user, page", ask("GET", "/"), 200, cookie="new", user="7"),
    row("known user, json", ask("GET", "/json"), 200, cookie="new", user="7"),
    row("known user, text", ask("GET", "/text"), 200, user="7"),
    row("known user, image", ask("GET", "/logo.png"), 200, user="7"),
    row("known user, error", ask("GET", "/own/404"), 404, user="7"),
    row(
        "known user, garbage token",
        ask("GET", POLL, Cookie=cookies("x")),
        200,
        cookie="new",
        user="7",
    ),
    row("known user, good token", api(), 200, user="7"),
    row("another user", api(), 200, cookie="new", user="8"),
    row("another user, page", api("/"), 200, cookie="new", user="8"),
    row("another user, cancel", api(CANCEL, "POST"), 403, "not_job_owner", user="8"),
    row("another user, login mode", api(), 401, "token_user_mismatch", settings="login", user="8"),
    row("another user, off", api(), 401, "token_user_mismatch", settings="off", user="8"),
    row(
        "known user, login mode, no token",
        ask("GET", POLL),
        401,
        "token_missing",
        settings="login",
        user="7",
    ),
    row("nobody known, good token", api(), 200, user="nobody"),
    row(
        "nobody known, second half",
        ask("GET", POLL, Cookie=cookies(token(100))),
        200,
        user="nobody",
    ),
    row("source raises", api(), 200, user="broken"),
    row("source raises, no token", ask("GET", POLL), 401, "token_missing", user="broken"),
    row("source gives a bool", ask("GET", POLL), 401, "token_missing", user="true"),
    # anonymous visitors: their random channels differ, so only their presence is compared
    row(
        "anonymous, refused with a cookie",
        ask("GET", POLL),
        401,
        "token_missing",
        "random",
        settings="anonymous",
    ),
    row("anonymous, page", ask("GET", "/"), 200, None, "random", settings="anonymous"),
    row("anonymous, text", ask("GET", "/text"), 200, settings="anonymous"),
    row(
        "anonymous, garbage",
        ask("GET", POLL, Cookie=cookies("x")),
        401,
        "token_malformed",
        "random",
        settings="anonymous",
    ),
    row(
        "anonymous, two users",
        ask("GET", POLL, Cookie=f"{GOOD}; {OTHER}"),
        401,
        "token_ambiguous",
        settings="anonymous",
    ),
    # guests
    row("guest", ask("GET", POLL, X_GuestToken=guest_token()), 200, settings="guests"),
    row("guest with a user's cookie", api(X_GuestToken=guest_token()), 200, settings="guests"),
    row("guest submits", ask("POST", CHART, X_GuestToken=guest_token()), 202, settings="guests"),
    row(
        "guest cancels another's",
        ask("POST", CANCEL, X_GuestToken=guest_token()),
        403,
        "not_job_owner",
        settings="guests",
    ),
    row("guest on a page", ask("GET", "/", X_GuestToken=guest_token()), 200, settings="guests"),
    row("guest logs in", ask("POST", "/login", X_GuestToken=guest_token()), 302, settings="guests"),
    row("guests off", ask("GET", POLL, X_GuestToken=guest_token()), 401, "token_missing"),
    row(
        "guest garbage beats a good cookie",
        api(X_GuestToken="x"),
        401,
        "guest_malformed",
        settings="guests",
    ),
    row(
        "guest of another key",
        ask("GET", POLL, X_GuestToken=guest_token(secret=K2)),
        401,
        "guest_signature",
        settings="guests",
    ),
    row(
        "guest expired",
        ask("GET", POLL, X_GuestToken=guest_token(exp=NOW - 60)),
        401,
        "guest_expired",
        settings="guests",
    ),
    row(
        "guest without exp",
        ask("GET", POLL, X_GuestToken=guest_token(exp=...)),
        401,
        "guest_claims",
        settings="guests",
    ),
    row(
        "guest of another audience",
        ask("GET", POLL, X_GuestToken=guest_token(aud="x")),
        401,
        "guest_claims",
        settings="guests",
    ),
    row(
        "guest user is text",
        ask("GET", POLL, X_GuestToken=guest_token(user="bob")),
        401,
        "guest_claims",
        settings="guests",
    ),
    row(
        "guest token as cookie",
        ask("GET", POLL, Cookie=cookies(guest_token())),
        401,
        "token_signature",
        settings="guests",
    ),
    row(
        "guest of another algorithm",
        ask(
            "GET",
            POLL,
            X_GuestToken=forge(guest_claims(), GUEST, header={"alg": "HS512"}, digest="sha512"),
        ),
        401,
        "guest_malformed",
        settings="guests",
    ),
    # our endpoints
    row("cursor", api(POLL + "?last_id=5-19"), 200),
    row("cursor without sequence", api(POLL + "?last_id=5"), 200),
    row("empty cursor", api(POLL + "?last_id="), 200),
    row("bad cursor", api(POLL + "?last_id=abc"), 400, "bad_last_id"),
    row("dollar cursor", api(POLL + "?last_id=$"), 400, "bad_last_id"),
    row("two cursors", api(POLL + "?last_id=1-0&last_id=2-0"), 400, "bad_last_id"),
    row("one job", api(J1), 200),
    row("one job, trailing slash", api(J1 + "/"), 200),
    row("one job, HEAD", api(J1, "HEAD"), 200),
    row("one job of another", ask("GET", J1, Cookie=OTHER), 403, "not_job_owner"),
    row("unknown job", api(POLL + "unknown"), 404, "job_not_found"),
    row("impossible job", api(POLL + "a%20b"), 404, "job_not_found"),
    row("cancel", api(CANCEL, "POST"), 200),
    row("cancel, trailing slash", api(CANCEL + "/", "POST"), 200),
    row("cancel another's", ask("POST", CANCEL, Cookie=OTHER), 403, "not_job_owner"),
    row("cancel unknown", api(POLL + "unknown/cancel", "POST"), 404, "job_not_found"),
    row("cancel by GET", api(CANCEL), 405, "method_not_allowed"),
    row("events by POST", api(POLL, "POST"), 405, "method_not_allowed"),
    row("one job by PUT", api(J1, "PUT"), 405, "method_not_allowed"),
    row("OPTIONS without origin", api(POLL, "OPTIONS"), 204),
    row("OPTIONS without token", ask("OPTIONS", POLL), 401, "token_missing"),
    row("deeper path is the app's", api(POLL + "a/b/c"), 200),
    row("deeper path without token", ask("GET", POLL + "a/b/c"), 401, "token_missing"),
    row("own events, guarded", ask("GET", POLL), 401, "token_missing", settings="own events"),
    row("own events, passed", api(), 200, settings="own events"),
    row("moved events", api("/jobs/events/"), 200, settings="moved events"),
    row(
        "moved events, guarded",
        ask("GET", "/jobs/events"),
        401,
        "token_missing",
        settings="moved events",
    ),
    row("old place is free", ask("GET", POLL), 200, settings="moved events"),
    row(
        "other protected path",
        ask("GET", "/x/guarded/y"),
        401,
        "token_missing",
        settings="moved events",
    ),
    # origins
    row("cancel, same origin", api(CANCEL, "POST", Origin=SAME), 200),
    row("cancel, same origin, default port", api(CANCEL, "POST", Origin=SAME + ":80"), 200),
    row(
        "cancel, https origin behind a proxy",
        api(CANCEL, "POST", Origin="https://app.example"),
        200,
    ),
    row("cancel, foreign origin", api(CANCEL, "POST", Origin=EVIL), 403, "cross_origin"),
    row("cancel, null origin", api(CANCEL, "POST", Origin="null"), 403, "cross_origin"),
    row("cancel, other port", api(CANCEL, "POST", Origin=SAME + ":81"), 403, "cross_origin"),
    row(
        "cancel, cross-site", api(CANCEL, "POST", Sec_Fetch_Site="cross-site"), 403, "cross_origin"
    ),
    row("cancel, same-site", api(CANCEL, "POST", Sec_Fetch_Site="same-site"), 403, "cross_origin"),
    row("cancel, browser's same-origin", api(CANCEL, "POST", Sec_Fetch_Site="same-origin"), 200),
    row("cancel, typed", api(CANCEL, "POST", Sec_Fetch_Site="none"), 200),
    row(
        "cancel another's from afar",
        ask("POST", CANCEL, Cookie=OTHER, Origin=EVIL),
        403,
        "cross_origin",
    ),
    row(
        "cancel, listed origin",
        api(CANCEL, "POST", Origin="https://good.example"),
        200,
        settings="cors",
    ),
    row("poll from a foreign origin", api(Origin=EVIL), 200),
    # CORS
    row(
        "preflight, none listed",
        ask("OPTIONS", POLL, Origin=EVIL, Access_Control_Request_Method="GET"),
        204,
    ),
    row(
        "preflight, listed",
        ask(
            "OPTIONS",
            POLL,
            Origin="https://good.example",
            Access_Control_Request_Method="GET",
            Access_Control_Request_Headers="x-guesttoken",
        ),
        204,
        settings="cors",
    ),
    row(
        "preflight, unlisted",
        ask("OPTIONS", CHART, Origin=EVIL, Access_Control_Request_Method="POST"),
        204,
        settings="cors",
    ),
    row(
        "preflight elsewhere is the app's",
        ask("OPTIONS", "/", Origin=EVIL, Access_Control_Request_Method="GET"),
        200,
    ),
    row(
        "refusal for a listed origin",
        ask("GET", POLL, Origin="https://good.example"),
        401,
        "token_missing",
        settings="cors",
    ),
    row(
        "refusal for an unlisted origin",
        ask("GET", POLL, Origin=EVIL),
        401,
        "token_missing",
        settings="cors",
    ),
    row("events for a listed origin", api(Origin="http://localhost:3000"), 200, settings="cors"),
    row(
        "own error for a listed origin",
        ask("GET", "/404", Origin="https://good.example"),
        404,
        "not_found",
        settings="cors",
    ),
    # paths
    row("encoded once is served", api("/api/v1/%61sync_event/"), 200),
    row("encoded twice is guarded", ask("GET", "/api/v1/%2561sync_event/"), 401, "token_missing"),
    row("encoded twice is the app's", api("/api/v1/%2561sync_event/"), 200),
    row("doubled slash", ask("GET", "//api/v1/async_event/"), 401, "token_missing"),
    row("upper case", ask("GET", "/API/v1/async_event/"), 401, "token_missing"),
    row("behind a prefix of the app", ask("GET", "/pre/api/v1/chart/data"), 401, "token_missing"),
    row("one segment for the star", ask("GET", "/api/v1/chart/12/data"), 401, "token_missing"),
    row("two segments for the star", ask("GET", "/api/v1/chart/1/2/data"), 200),
    row("longer segment", ask("GET", "/api/v1/async_events/"), 200),
    row(
        "root path",
        Ask("GET", "/app/api/v1/async_event/", [("Cookie", GOOD)], root_path="/app"),
        200,
    ),
    row("root path, bare", Ask("GET", POLL, [("Cookie", GOOD)], root_path="/app"), 200),
    row(
        "root path, no boundary",
        Ask("GET", "/apple/api/v1/async_event/", [], root_path="/app"),
        401,
        "token_missing",
    ),
    row("crafted host", Ask("GET", POLL, [("Host", "h/health?")]), 401, "token_missing"),
    row("anchored, elsewhere", ask("GET", "/docs/api/v1/chart/data"), 200, settings="anchored"),
    row("anchored, open path", ask("GET", "/api/v1/chart/data/docs"), 200, settings="anchored"),
    row(
        "anchored, below the open path",
        ask("GET", "/api/v1/chart/data/docs/x"),
        401,
        "token_missing",
        settings="anchored",
    ),
    # the app's own answers and errors of ours raised in it
    row("page", ask("GET", "/"), 200),
    row("submit", api(CHART, "POST"), 202),
    row("raised 401", ask("GET", "/401"), 401, "unauthorized"),
    row("raised 403", ask("GET", "/403"), 403, "forbidden"),
    row("raised 403 owner", ask("GET", "/403/owner"), 403, "not_job_owner"),
    row("raised 404", ask("GET", "/404"), 404, "not_found"),
    row("raised 404 job", ask("GET", "/404/job"), 404, "job_not_found"),
    row("raised 503", ask("GET", "/503"), 503, "store_unavailable"),
    row("raised, HEAD", ask("HEAD", "/404"), 404, "not_found"),
    row("stream, no token", ask("GET", STREAM), 401, "token_missing"),
    row("stream, HEAD", api(STREAM, "HEAD"), 200),
    row("stream, HEAD, soon over", ask("HEAD", STREAM, Cookie=cookies(token(100))), 200),
    row("stream, wrong method", api(STREAM, "POST"), 405, "method_not_allowed"),
    row("stream, OPTIONS", api(STREAM, "OPTIONS"), 204),
    row("stream, a foreign page", api(STREAM, Origin=EVIL), 403, "cross_origin"),
    row("stream, a foreign site", api(STREAM, Sec_Fetch_Site="same-site"), 403, "cross_origin"),
    row("stream, bad cursor", api(f"{STREAM}?last_id=x"), 400, "bad_last_id"),
    row("stream, bad Last-Event-ID", api(STREAM, Last_Event_ID="x"), 400, "bad_last_id"),
    row(
        "stream, in the leeway", ask("GET", STREAM, Cookie=cookies(token(-5))), 401, "token_expired"
    ),
    row(
        "stream, guest, HEAD, a foreign page",
        ask("HEAD", STREAM, X_GuestToken=guest_token(), Origin=EVIL),
        200,
        settings="guests",
    ),
    row(
        "stream, guest in the query, which is off",
        ask("GET", f"{STREAM}?guest_token={guest_token()}"),
        401,
        "token_missing",
        settings="guests",
    ),
    row("stream, moved away", api("/jobs/events/stream", "HEAD"), 200, settings="moved events"),
    row("stream, not ours", api(STREAM), 200, settings="own events"),
    row("below the stream", api(f"{STREAM}/x"), 200),
    row("socket by plain HTTP", api(f"{POLL}ws"), 426, "upgrade_required"),
    row("socket by plain HTTP, no token", ask("GET", f"{POLL}ws"), 401, "token_missing"),
    row("socket, wrong method", api(f"{POLL}ws", "PUT"), 405, "method_not_allowed"),
    row("wait that is none", api(f"{POLL}?wait=soon"), 400, "bad_wait"),
    row("wait too long", api(f"{POLL}?wait=31"), 400, "bad_wait"),
    row("wait, HEAD", api(f"{POLL}?wait=30", "HEAD"), 200),
    row("wait, soon over", ask("GET", f"{POLL}?wait=0.01", Cookie=cookies(token(100))), 200),
    row("own 401", ask("GET", "/own/401"), 401),
    row("own 404", ask("GET", "/own/404"), 404),
    row("own 500", ask("GET", "/own/500"), 500),
    row("own 504", ask("GET", "/own/504"), 504),
    row("own answer with our marker", ask("GET", "/own/marked"), 403, "forbidden"),
    row("caught 401", ask("GET", "/caught"), 200),
    row("caught 404", api("/caught"), 200),
    row("framework's 500 after 401", ask("GET", "/500"), 401, "token_missing"),
    row("framework's 500 after 404", api("/500"), 404, "job_not_found"),
    row("member without token", ask("GET", "/who"), 401, "token_missing"),
    row("member with token", api("/who"), 200),
    row("identity without token", ask("GET", "/peek"), 200),
    row("identity with token", api("/peek"), 200),
    row("own job", api("/job"), 200),
    row("another's job", ask("GET", "/job", Cookie=OTHER), 403, "not_job_owner"),
]


def seeds(request: Ask) -> Reaction:
    """Submit job j1."""
    return 200, HTML, current().jobs.submit(job_id="j1").job_id.encode()


def answer_of(face: str, request: Ask, settings: str, user: str | None) -> Answer:
    """Return the answer of a fresh app in which user 7 has one running job, j1."""
    site = Site(face, SETTINGS[settings](), app, user_from=USERS[user] if user else None)
    seed = Site(face, make_settings(), seeds)
    seed.app.engine.store = site.app.engine.store
    assert seed(api("/")).status == 200
    return site(request)


def seen(answer: Answer) -> dict[str, Any]:
    """Return an answer in a form that does not depend on the face."""
    headers = sorted((name.lower(), value) for name, value in answer.headers)
    return {"status": answer.status, "headers": headers, "body": answer.body}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("request_", "status", "code", "cookie", "settings", "user"), ROWS)
def test_both_faces_answer_the_same(
    request_: Ask,
    status: int,
    code: str | None,
    cookie: str | None,
    settings: str,
    user: str | None,
) -> None:
    """Status, code, headers, cookie and body are those of the table, under ASGI and WSGI."""
    asgi, wsgi = (answer_of(face, request_, settings, user) for face in ("asgi", "wsgi"))

    assert (asgi.status, asgi.code) == (status, code)
    name = SETTINGS[settings]().cookie_name
    value = asgi.cookie(name)
    if cookie is None or cookie == "mine":
        assert value == cookie
    elif cookie == "gone":
        assert value == ""
    else:
        channel = read_claims(value or "")["channel"]
        assert (channel == "c1") == (cookie == "same")
    if value is not None and cookie != "mine":
        assert asgi.get("Cache-Control") == "private, no-store"
    if cookie == "random":
        assert wsgi.cookie(name)
        drop = {"set-cookie"}
        asgi.headers = [pair for pair in asgi.headers if pair[0].lower() not in drop]
        wsgi.headers = [pair for pair in wsgi.headers if pair[0].lower() not in drop]
    assert seen(asgi) == seen(wsgi)


def test_the_table_is_large_and_has_no_row_twice() -> None:
    """The table holds at least 150 rows, each with a title of its own."""
    titles = [param.id for param in ROWS]

    assert len(titles) >= 150
    assert len(set(titles)) == len(titles)
