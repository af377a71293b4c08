"""The guard: a request head in; a reply, an endpoint, a refusal or leave to pass out."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from gaq_middleware.core.errors import Refusal
from gaq_middleware.core.guard import Guard
from gaq_middleware.core.identify import Finding, Identifier
from gaq_middleware.core.identities import GuestIdentity, UserIdentity
from gaq_middleware.core.issuing import Issuer
from gaq_middleware.core.messages import Endpoint, Reply, RequestHead
from gaq_middleware.core.proxies import FORWARDED
from gaq_middleware.core.settings import Settings
from gaq_middleware.core.tokens import TokenCodec
from tests.helpers import (
    NOW,
    POLL,
    Ask,
    ask,
    cookies,
    guest_settings,
    head_of,
    make_settings,
    token,
)

LISTED = "https://listed.example"
ME = Finding("cookie", UserIdentity("c1", "7"))
BY_HEADER = Finding("header", UserIdentity("c1", "7"))
GUEST = Finding("guest", GuestIdentity("guest-1", {}))
NOBODY = Finding("cookie", refusal=Refusal.of("token_missing"))


def guard_of(settings: Settings) -> Guard:
    """Return the guard of settings."""
    return Guard(settings, Issuer(settings, TokenCodec(settings), lambda: "random"))


GUARD = guard_of(make_settings(allowed_origins=LISTED))


def check(
    request: Ask, finding: Finding = ME, *, is_websocket: bool = False, guard: Guard = GUARD
) -> Reply | Endpoint | Refusal | None:
    """Return what the guard decides when this is who is asking."""
    return guard.check(head_of(request, is_websocket=is_websocket), lambda: finding)


def never() -> Finding:
    """Fail: nobody may ask who is asking."""
    raise AssertionError("it was asked who is asking")


# --- what is protected ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", False),
        ("/api/v1/async_event/", True),
        ("/api/v1/chart/7/data", True),
        ("/API/v1//chart/data", True),
        ("/login", False),
    ],
)
def test_which_requests_are_protected(path: str, expected: bool) -> None:
    """The paths of the settings (design 3); the whole law is in test_paths."""
    assert GUARD.is_protected(head_of(ask("GET", path))) is expected


def test_login_and_logout_paths_are_never_refused() -> None:
    """Even when a pattern protects them (design 3)."""
    guard = guard_of(make_settings(protected_paths="/"))
    paths = ("/login", "/login/", "/api/v1/security/login", "/logout", "/x", "/login/x")
    found = [guard.is_protected(head_of(ask("POST", path))) for path in paths]
    assert found == [False, False, False, False, True, True]
    heads = [head_of(ask("POST", path)) for path in paths]
    assert [guard.is_login(head) for head in heads] == [True, True, True, False, False, False]
    assert [guard.is_logout(head) for head in heads] == [False, False, False, True, False, False]


def test_the_headers_that_decisions_look_at() -> None:
    """Faces translate only these; the names of both token headers are settings."""
    names = {"token_header": "X-Mine", "guest_header": "X-Guests", "trusted_proxies": "10.0.0.1"}
    guard = guard_of(make_settings(remote_user_header="X-User", **names))
    assert guard.wanted == {
        *("cookie", "host", "origin", "sec-fetch-site", "x-vhm-root"),
        *("access-control-request-method", "access-control-request-headers"),
        *("last-event-id", "sec-websocket-protocol"),
        *("x-mine", "x-guests", "x-user", *FORWARDED),
    }


# --- who may pass -----------------------------------------------------------------------------


def test_a_request_without_identity_is_refused() -> None:
    """The finding's refusal, whatever the path below (design 4)."""
    for target in (POLL, f"{POLL}j/cancel", "/api/v1/chart/data"):
        for method in ("GET", "POST", "DELETE", "OPTIONS", "BREW"):
            assert check(ask(method, target), NOBODY) is NOBODY.refusal


@pytest.mark.parametrize("finding", [ME, BY_HEADER, GUEST], ids=["cookie", "header", "guest"])
def test_a_request_with_identity_passes_to_the_app(finding: Finding) -> None:
    """On a protected path that is not ours (design 3)."""
    assert check(ask("POST", "/api/v1/chart/data", Origin="https://evil.example"), finding) is None


def test_who_is_asking_is_found_once() -> None:
    """The finding is asked for once at most."""
    asked: list[int] = []

    def find() -> Finding:
        asked.append(1)
        return ME

    GUARD.check(head_of(ask("POST", f"{POLL}j/cancel", Host="app.example")), find)
    assert asked == [1]


# --- our endpoints ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "", Endpoint("read", "")),
        ("GET", "/", Endpoint("read", "")),
        ("HEAD", "/", Endpoint("read", "")),
        ("GET", "/?last_id=5-0", Endpoint("read", "5-0")),
        ("GET", "/?last_id=", Endpoint("read", "")),
        ("GET", "/?x=1&last_id=5-0&y", Endpoint("read", "5-0")),
        ("GET", "/?last_id=1-0&last_id=2-0", Endpoint("read", "1-0&2-0")),
        ("GET", "/?LAST_ID=5-0", Endpoint("read", "")),
        ("GET", "/?last_id=%35-0", Endpoint("read", "5-0")),
        ("GET", "/?last_id=%ff", Endpoint("read", "\ufffd")),
        ("GET", "/?" + "a&" * 200, Refusal.of("bad_wait")),
        ("GET", "/j1", Endpoint("get", "j1")),
        ("HEAD", "/j1/", Endpoint("get", "j1")),
        ("POST", "/j1/cancel", Endpoint("cancel", "j1")),
        ("POST", "/j1/cancel/", Endpoint("cancel", "j1")),
        ("POST", "/stream/cancel", Endpoint("cancel", "stream")),
        ("GET", "/?wait=25", Endpoint("read", "", 25.0)),
        ("GET", "/?wait=0.5&last_id=5-0", Endpoint("read", "5-0", 0.5)),
        ("GET", "/?wait=30.000", Endpoint("read", "", 30.0)),
        ("GET", "/?wait=", Endpoint("read", "")),
        ("HEAD", "/?wait=30", Endpoint("read", "")),
        ("GET", "/?wait=31", Refusal.of("bad_wait")),
        ("GET", "/?wait=30.001", Refusal.of("bad_wait")),
        ("GET", "/?wait=-1", Refusal.of("bad_wait")),
        ("GET", "/?wait=nan", Refusal.of("bad_wait")),
        ("GET", "/?wait=1&wait=2", Refusal.of("bad_wait")),
        ("GET", "/?wait=\u0663", Refusal.of("bad_wait")),
        ("HEAD", "/?wait=soon", Refusal.of("bad_wait")),
        ("GET", "/stream", Endpoint("stream", "")),
        ("GET", "/stream/?last_id=5-0", Endpoint("stream", "5-0")),
        ("GET", "/ws", Refusal.of("upgrade_required")),
        ("HEAD", "/ws/", Refusal.of("upgrade_required")),
        ("GET", "/a/b", None),
        ("GET", "/stream/x", None),
        ("POST", "/a/b/cancel", None),
        ("GET", "//j1", None),
    ],
)
def test_our_endpoints(method: str, target: str, expected: Endpoint | None) -> None:
    """The table of design 2, with or without trailing slash; the rest goes to the app."""
    assert check(ask(method, f"/api/v1/async_event{target}")) == expected


@pytest.mark.parametrize(
    ("target", "methods", "allow"),
    [
        ("", ("POST", "PUT", "DELETE", "BREW", "get"), "GET, HEAD, OPTIONS"),
        ("j1", ("POST", "DELETE", "PATCH"), "GET, HEAD, OPTIONS"),
        ("stream", ("POST", "PUT"), "GET, HEAD, OPTIONS"),
        ("ws/", ("POST", "DELETE"), "GET, HEAD, OPTIONS"),
        ("j1/cancel", ("GET", "HEAD", "PUT", "DELETE"), "POST, OPTIONS"),
    ],
)
def test_a_wrong_method_is_405_with_allow(
    target: str, methods: tuple[str, ...], allow: str
) -> None:
    """405 with `Allow`, after the 401 (design 2)."""
    for method in methods:
        reply = check(ask(method, POLL + target))
        assert isinstance(reply, Reply)
        assert (reply.status, dict(reply.headers)["Allow"]) == (405, allow)
        assert json.loads(reply.body)["code"] == "method_not_allowed"
        assert check(ask(method, POLL + target), NOBODY) is NOBODY.refusal


@pytest.mark.parametrize(
    ("target", "allow"), [("", "GET, HEAD, OPTIONS"), ("j1/cancel", "POST, OPTIONS")]
)
def test_options_that_is_no_preflight_is_guarded_and_then_answered(target: str, allow: str) -> None:
    """Any other OPTIONS is guarded like GET (design 6)."""
    reply = check(ask("OPTIONS", POLL + target))
    assert reply == Reply(204, [("Allow", allow), ("Vary", "Origin")], b"")
    assert check(ask("OPTIONS", POLL + target), NOBODY) is NOBODY.refusal


def test_without_an_events_path_nothing_is_ours() -> None:
    """Empty: none are served; the default protected paths stay (design 3)."""
    guard = guard_of(make_settings(events_path=""))
    for request in (ask("GET", POLL), ask("POST", f"{POLL}j/cancel", Origin="https://evil")):
        assert guard.is_protected(head_of(request))
        assert check(request, guard=guard) is None
        assert check(request, NOBODY, guard=guard) is NOBODY.refusal


# --- origins ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "is_foreign"),
    [
        pytest.param({"Origin": "https://evil.example"}, True, id="a foreign origin"),
        pytest.param({"Sec_Fetch_Site": "cross-site"}, True, id="a foreign site"),
        pytest.param({"Origin": "http://app.example"}, False, id="the same origin"),
        pytest.param({"Origin": LISTED}, False, id="a listed origin"),
        pytest.param({}, False, id="no browser"),
    ],
)
def test_case_77_cancel_by_what_a_browser_sends_needs_a_proof(
    headers: dict[str, str], is_foreign: bool
) -> None:
    """CANCEL by cookie needs a same-origin proof; by header it does not (case 77)."""
    cancel = ask("POST", f"{POLL}j1/cancel", **headers)
    session = Finding("source", UserIdentity("c1", "7"))
    for finding in (ME, session):
        outcome = check(cancel, finding)
        if is_foreign:
            assert isinstance(outcome, Refusal)
            assert outcome.code == "cross_origin"
        else:
            assert outcome == Endpoint("cancel", "j1")
    for finding in (BY_HEADER, GUEST):
        assert check(cancel, finding) == Endpoint("cancel", "j1")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_stream_by_what_a_browser_sends_needs_a_proof(method: str) -> None:
    """Cookie, session and proxy user need one for `...stream`; headers and guests do not."""
    foreign = ask(method, f"{POLL}stream", Origin="https://evil.example")
    outcome = check(foreign)
    assert isinstance(outcome, Refusal)
    assert outcome.code == "cross_origin"
    for finding in (BY_HEADER, GUEST):
        assert not isinstance(check(foreign, finding), Refusal)


@pytest.mark.parametrize(
    ("last_event_id", "query", "after"),
    [
        ("5-19", "?last_id=5-0", "5-19"),
        ("", "?last_id=5-0", "5-0"),
        (None, "?last_id=5-0", "5-0"),
        ("5-19", "", "5-19"),
    ],
)
def test_case_135_a_browser_that_comes_back_says_where_it_was(
    last_event_id: str | None, query: str, after: str
) -> None:
    """`Last-Event-ID` wins over `last_id` (design 2, case 135)."""
    headers = {} if last_event_id is None else {"Last_Event_ID": last_event_id}
    assert check(ask("GET", f"{POLL}stream{query}", **headers)) == Endpoint("stream", after)


def test_case_136_the_head_of_a_stream_keeps_proxies_from_holding_it_back() -> None:
    """`X-Accel-Buffering: no`, no-cache, no length; HEAD is answered with it (case 136)."""
    reply = check(ask("HEAD", f"{POLL}stream"))
    assert isinstance(reply, Reply)
    assert reply == GUARD.stream_head(head_of(ask("GET", f"{POLL}stream")))
    assert (reply.status, reply.body) == (200, b"")
    headers = dict(reply.headers)
    assert headers["Content-Type"] == "text/event-stream"
    assert headers["X-Accel-Buffering"] == "no"
    assert headers["Cache-Control"] == "no-cache, no-store, no-transform"
    assert headers["Vary"] == "Origin, Cookie"
    assert "Content-Length" not in headers


def test_reading_needs_no_proof() -> None:
    """A foreign page cannot read the answer, so only cancel, sockets and streams need it."""
    for target in ("", "j1"):
        request = ask("GET", POLL + target, Origin="https://evil.example")
        assert isinstance(check(request), Endpoint)


@pytest.mark.parametrize(
    ("finding", "headers", "expected"),
    [
        pytest.param(ME, {"Origin": "https://evil.example"}, "cross_origin", id="case 63: foreign"),
        pytest.param(ME, {"Origin": "null"}, "cross_origin", id="a sandboxed frame"),
        pytest.param(ME, {"Origin": "http://app.example"}, None, id="the same origin"),
        pytest.param(ME, {"Origin": LISTED}, None, id="a listed origin"),
        pytest.param(ME, {}, None, id="no browser"),
        pytest.param(GUEST, {"Origin": "https://evil.example"}, None, id="a guest's frame"),
        pytest.param(NOBODY, {"Origin": "http://app.example"}, "token_missing", id="nobody"),
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/async_event/ws", "/api/v1/chart/data", POLL])
def test_case_63_sockets_need_a_same_origin_proof(
    path: str, finding: Finding, headers: dict[str, str], expected: str | None
) -> None:
    """Same origin and listed origins only, for our own sockets and the app's (case 63)."""
    request = ask("GET", path, **headers)
    request.scheme = "ws"
    outcome = check(request, finding, is_websocket=True)
    admitted = Endpoint("stream", "") if path.endswith("/ws") else None
    allowed = admitted if expected is None else expected
    assert (outcome.code if isinstance(outcome, Refusal) else outcome) == allowed


# --- preflights -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [POLL, f"{POLL}j1/cancel", "/api/v1/chart/data"])
@pytest.mark.parametrize("origin", [LISTED, "https://evil.example", "null"])
def test_case_116_a_preflight_is_answered_by_us(path: str, origin: str) -> None:
    """204 without an identity; CORS headers for a listed origin only (case 116)."""
    request = ask("OPTIONS", path, Origin=origin, Access_Control_Request_Method="POST")
    reply = GUARD.check(head_of(request), never)
    assert isinstance(reply, Reply)
    assert (reply.status, reply.body) == (204, b"")
    names = {name for name, _ in reply.headers}
    assert ("Access-Control-Allow-Origin" in names) is (origin == LISTED)
    assert "Content-Length" not in names


@pytest.mark.parametrize(
    "headers",
    [{"Origin": LISTED}, {"Access_Control_Request_Method": "POST"}],
    ids=["only an origin", "only a method"],
)
def test_half_a_preflight_is_none(headers: dict[str, str]) -> None:
    """A preflight has `Origin` and `Access-Control-Request-Method` (Fetch standard)."""
    assert check(ask("OPTIONS", POLL, **headers), NOBODY) is NOBODY.refusal
    both = {"Origin": LISTED, "Access_Control_Request_Method": "POST"}
    assert check(ask("GET", POLL, **both), NOBODY) is NOBODY.refusal


# --- replies ----------------------------------------------------------------------------------


def test_a_refusal_as_a_reply() -> None:
    """Its headers, CORS for listed origins, its length, its body (cases 97, 117)."""
    refusal = Refusal.of("token_missing")
    reply = GUARD.refuse(head_of(ask("GET", POLL, Origin=LISTED, Accept="text/html")), refusal)
    assert reply.status == 401
    assert reply.body == refusal.body()
    assert reply.headers == [
        *refusal.headers(),
        ("Access-Control-Allow-Origin", LISTED),
        ("Access-Control-Allow-Credentials", "true"),
        ("Access-Control-Expose-Headers", "X-GAQ-Error, Retry-After"),
        ("Vary", "Origin"),
        ("Content-Length", str(len(reply.body))),
    ]


def anonymous_reply(finding: Callable[[RequestHead, Identifier], Finding], code: str) -> Reply:
    """Return the reply to a refusal in mode anonymous."""
    settings = guest_settings(issue="anonymous", allowed_origins=LISTED)
    head = head_of(ask("GET", POLL, Cookie=cookies(token(-61))))
    found = finding(head, Identifier(settings, TokenCodec(settings)))
    refusal = found.refusal or Refusal.of(code)
    return guard_of(settings).refuse(head, refusal, found, NOW)


def test_case_1_in_mode_anonymous_the_401_brings_a_cookie() -> None:
    """The 401 carries a first cookie, private to this client (design 4)."""
    reply = anonymous_reply(lambda head, by: by.find(head, NOW, lambda: None), "")
    headers = dict(reply.headers)
    assert headers["Set-Cookie"].startswith("async-token=")
    assert headers["Cache-Control"] == "private, no-store"
    assert headers["Vary"] == "Origin, Cookie"
    assert headers["X-GAQ-Error"] == "token_expired"


def test_another_refusal_brings_no_cookie() -> None:
    """Only when the identity is what is refused."""
    reply = anonymous_reply(lambda _, __: ME, "cross_origin")
    assert "Set-Cookie" not in dict(reply.headers)
    assert reply.status == 403


def test_an_answer_of_ours() -> None:
    """200s carry no-store and Vary: Cookie, and CORS for listed origins (design 2, 6)."""
    reply = GUARD.answer(head_of(ask("GET", POLL, Origin=LISTED)), b"{}")
    assert reply == Reply(
        200,
        [
            ("Content-Type", "application/json"),
            ("Cache-Control", "no-store"),
            ("Access-Control-Allow-Origin", LISTED),
            ("Access-Control-Allow-Credentials", "true"),
            ("Access-Control-Expose-Headers", "X-GAQ-Error, Retry-After"),
            ("Vary", "Origin, Cookie"),
            ("Content-Length", "2"),
        ],
        b"{}",
    )


def test_a_root_path_that_a_client_names_opens_nothing() -> None:
    """Gunicorn cuts a SCRIPT_NAME header off the target: what is left in the path is the path."""
    path = "/api/v1/chart/data/api/v1/chart/data/login"
    head = head_of(ask("GET", path))._replace(
        path=path, root_path="/api/v1/chart/data/api/v1/chart/data", root_in_path=False
    )
    assert GUARD.is_protected(head)
    assert not GUARD.is_login(head)
    assert GUARD.is_login(head._replace(root_in_path=True))


@pytest.mark.parametrize(
    ("vhm_root", "path"), [("/api/v1", "/chart/data"), ("/api/v1/chart/data", "/")]
)
def test_a_header_that_pyramid_puts_in_front_of_the_path_counts(vhm_root: str, path: str) -> None:
    """X-Vhm-Root is an ordinary header to a server, and a prefix to Pyramid's traversal."""
    assert GUARD.is_protected(head_of(ask("GET", path, X_Vhm_Root=vhm_root)))
    assert not GUARD.is_protected(head_of(ask("GET", "/x", X_Vhm_Root="/y")))
