"""Faults of systems like ours, as whole requests through both faces, by their case numbers."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gaq_middleware import asgi, current
from gaq_middleware.core.settings import Settings
from gaq_middleware.core.tokens import key_id
from tests.helpers import (
    K2,
    NOW,
    POLL,
    Answer,
    Ask,
    Clock,
    K,
    Site,
    ask,
    cookies,
    forge,
    guest_settings,
    guest_token,
    make_settings,
    page,
    read_claims,
    scope_of,
    submits,
    token,
)

Reaction = tuple[int, list[tuple[str, str]], bytes]
HTML = [("Content-Type", "text/html")]
CHART = "/api/v1/chart/data"
SUBMIT = ask("POST", CHART)
CLAIMS_WITHOUT_TIMES = "user,resources,rls_rules,datasets,rev,aud,jti"
SUPERSET_CLAIMS = "user,resources,datasets,rev,iat,exp,aud"


@pytest.fixture(params=["asgi", "wsgi"])
def face(request: pytest.FixtureRequest) -> str:
    """Each case is driven through both faces."""
    return str(request.param)


def app(request: Ask) -> Reaction:
    """Log in as 7 or 8 by POST, log out, submit jobs, and serve pages."""
    path = request.target.partition("?")[0]
    if path == "/login" and request.method == "POST":
        current().login(request.body.decode() or 7)
        return 302, [*HTML, ("Location", "/")], b""
    if path == CHART:
        return submits(request)
    return page(request)


def login_as(user: str = "7", **options: Any) -> Ask:
    """Return the request that logs a user in."""
    request = ask("POST", "/login", **options)
    request.body = user.encode()
    return request


def poll(site: Site, raw: str | None = None, **headers: str) -> Answer:
    """Poll with a token in the cookie."""
    if raw is not None:
        headers["Cookie"] = cookies(raw, name=site.app.engine.settings.cookie_name)
    return site(ask("GET", POLL, **headers))


def channel_of(answer: Answer, name: str = "async-token") -> str:
    """Return the channel of the cookie that an answer sets."""
    raw = answer.cookie(name)
    assert raw, answer
    channel: str = read_claims(raw)["channel"]
    return channel


def attributes(answer: Answer) -> set[str]:
    """Return the attributes of the one cookie that an answer sets."""
    (line,) = answer.all("Set-Cookie")
    return set(line.split("; ")[1:])


def warned(caplog: pytest.LogCaptureFixture, words: str) -> int:
    """Return how many warnings hold these words."""
    found = (r for r in caplog.records if r.levelno == logging.WARNING)
    return sum(words in record.getMessage() for record in found)


# --- token ------------------------------------------------------------------------------------


def test_case_1_an_anonymous_visitor_gets_a_token_without_sub_that_works(face: str) -> None:
    """The issued cookie has no sub; replayed on POLL it is 200 (case 1)."""
    site = Site(face, make_settings(issue="anonymous"))
    raw = site(ask("GET", "/")).cookie()
    assert raw
    assert "sub" not in read_claims(raw)
    assert poll(site, raw).status == 200
    first = poll(site)
    assert (first.status, first.code) == (401, "token_missing")
    assert poll(site, first.cookie()).status == 200


def test_case_24_a_token_without_exp_is_401(face: str) -> None:
    """T without exp: 401 token_claims (case 24)."""
    answer = poll(Site(face, make_settings()), token(exp=...))
    assert (answer.status, answer.code) == (401, "token_claims")


def test_case_66_an_expired_token_is_401(face: str) -> None:
    """T(exp=-61): 401 token_expired (case 66)."""
    site = Site(face, make_settings())
    answer = poll(site, token(-61))
    assert (answer.status, answer.code) == (401, "token_expired")
    assert answer.all("Set-Cookie") == []
    assert site.calls == 0


@pytest.mark.parametrize(
    ("header", "digest"),
    [
        ({"alg": "none"}, "sha256"),
        ({"alg": "HS512"}, "sha512"),
        ({"alg": "RS256"}, "sha256"),
        ({"typ": "JWT"}, "sha256"),
    ],
    ids=["none", "HS512", "RS256", "missing"],
)
def test_case_69_any_other_algorithm_is_401(face: str, header: Any, digest: str) -> None:
    """HS256 only, whatever the header says (case 69)."""
    claims = {"channel": "c1", "sub": "7", "exp": NOW + 600}
    answer = poll(Site(face, make_settings()), forge(claims, header=header, digest=digest))
    assert (answer.status, answer.code) == (401, "token_malformed")


def test_case_71_subjects_are_text_and_old_integers_are_read(face: str) -> None:
    """Identity 7: sub "7". T(sub=7 as number): 200, re-issued with "7" (case 71)."""
    site = Site(face, make_settings(), app)
    issued = site(login_as("7")).cookie()
    assert issued
    assert read_claims(issued)["sub"] == "7"
    answer = poll(site, token(3000, sub=7))
    assert answer.status == 200
    again = answer.cookie()
    assert again
    assert (read_claims(again)["sub"], read_claims(again)["channel"]) == ("7", "c1")
    assert poll(site, again).all("Set-Cookie") == []


def test_case_97_own_refusals_never_redirect(face: str) -> None:
    """POLL, no cookie, Accept text/html: 401 problem+json, no Location (case 97)."""
    answer = poll(Site(face, make_settings()), Accept="text/html")
    assert (answer.status, answer.get("Content-Type")) == (401, "application/problem+json")
    assert answer.get("Location") is None


def test_case_141_a_rotation_throws_nobody_out(face: str) -> None:
    """Old secrets verify, the current one signs; without verify secrets 401 (case 141)."""
    rotated = Site(face, make_settings(jwt_secret=K2, jwt_verify_secrets=K, channel_secret=K))
    for raw in (token(100), token(3000)):
        answer = poll(rotated, raw)
        assert answer.status == 200
        assert channel_of(answer) == "c1"
        assert poll(Site(face, make_settings(jwt_secret=K2)), answer.cookie()).status == 200
        assert poll(Site(face, make_settings(jwt_secret=K2)), raw).code == "token_signature"


# --- cookie -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "expected"), [(None, "Lax"), ("strict", "Strict")])
def test_case_20_samesite_is_from_the_settings(face: str, given: str | None, expected: str) -> None:
    """Default Lax, case ignored (case 20)."""
    settings = make_settings() if given is None else make_settings(cookie_samesite=given)
    assert f"SameSite={expected}" in attributes(Site(face, settings, app)(login_as()))


def test_case_22_secure_as_configured_warns_once_on_http(
    face: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Secure and one WARNING; with auto no Secure (case 22)."""
    site = Site(face, make_settings(cookie_secure="1"), app)
    assert all("Secure" in attributes(site(login_as())) for _ in range(3))
    assert warned(caplog, "browsers will drop it") == 1
    assert "Secure" not in attributes(Site(face, make_settings(), app)(login_as()))


def test_case_25_the_cookie_slides_in_the_second_half_of_its_life(face: str) -> None:
    """T(exp=+100) POLL: Set-Cookie with channel c1; T(exp=+3000): none (case 25)."""
    site = Site(face, make_settings())
    late = poll(site, token(100))
    assert late.status == 200
    assert channel_of(late) == "c1"
    assert poll(site, token(3000)).all("Set-Cookie") == []


def test_case_29_the_next_user_never_inherits_the_channel(face: str) -> None:
    """New cookie, another channel, sub "8"; LOGOUT deletes it (case 29)."""
    site = Site(face, make_settings(), app, user_from=lambda _: "8")
    answer = site(ask("GET", "/", Cookie=cookies(token(sub="7"))))
    raw = answer.cookie()
    assert raw
    assert read_claims(raw)["sub"] == "8"
    assert channel_of(answer) != "c1"
    gone = site(ask("POST", "/logout", Cookie=cookies(raw)))
    assert gone.cookie() == ""
    assert "Max-Age=0" in attributes(gone)


def test_case_92_two_instances_share_one_jar(face: str) -> None:
    """Names a and b, one jar: both POLL 200 after either LOGIN (case 92)."""
    sites = {
        "a": Site(face, make_settings(cookie_name="a"), app),
        "b": Site(face, make_settings(cookie_name="b", jwt_secret=K2), app),
    }
    jar: dict[str, str] = {}
    for name in ("a", "b"):
        header = "; ".join(f"{key}={value}" for key, value in jar.items())
        answer = sites[name](login_as(**({"Cookie": header} if header else {})))
        (line,) = answer.all("Set-Cookie")
        assert "Domain" not in line
        jar[name] = answer.cookie(name) or ""
    header = "; ".join(f"{key}={value}" for key, value in jar.items())
    for site in sites.values():
        answer = site(ask("GET", POLL, Cookie=header))
        assert (answer.status, answer.all("Set-Cookie")) == (200, [])


def test_case_96_parallel_renewals_agree_and_never_delete(face: str) -> None:
    """Ten requests with T(exp=+100): all 2xx, channel c1, no Max-Age=0 (case 96)."""
    site, raw = Site(face, make_settings()), token(100)
    answers = [poll(site, raw) for _ in range(10)]
    assert {answer.status for answer in answers} == {200}
    assert {channel_of(answer) for answer in answers} == {"c1"}
    assert all("Max-Age=3600" in attributes(answer) for answer in answers)


def test_case_102_a_response_with_our_cookie_is_never_stored(face: str) -> None:
    """Cache-Control private, no-store; without a cookie inner's headers untouched (case 102)."""
    public = [*HTML, ("Cache-Control", "public, max-age=60")]
    site = Site(face, make_settings(), lambda _: (200, public, b"x"))
    issued = site(ask("GET", "/", Cookie=cookies(token(100))))
    assert issued.cookie()
    assert issued.get("Cache-Control") == "private, no-store"
    assert issued.get("Vary") == "Cookie"
    plain = site(ask("GET", "/", Cookie=cookies(token(3000))))
    assert plain.get("Cache-Control") == "public, max-age=60"
    assert plain.get("Vary") is None


def test_case_104_a_slow_answer_brings_no_cookie(face: str) -> None:
    """A slow GET that ends after another tab may have logged in: no Set-Cookie (case 104)."""

    def slow(request: Ask) -> Reaction:
        site.clock.now += 3 if request.target == "/slow" else 1
        return page(request)

    site, raw = Site(face, make_settings(), slow), cookies(token(100))
    assert site(ask("GET", "/slow", Cookie=raw)).all("Set-Cookie") == []
    assert channel_of(site(ask("GET", "/", Cookie=raw))) == "c1"


def test_case_105_partitioned_comes_with_secure(face: str) -> None:
    """Partitioned and Secure in the header, on every Python (case 105)."""
    answer = Site(face, make_settings(cookie_partitioned="1"), app)(login_as())
    assert {"Partitioned", "Secure", "HttpOnly"} <= attributes(answer)


def test_case_106_with_strict_the_next_answer_gives_the_same_channel(face: str) -> None:
    """LOGIN 302 sets c; GET / without cookie, same session: Set-Cookie with c (case 106)."""
    settings = make_settings(cookie_samesite="Strict")
    site = Site(face, settings, app, user_from=lambda _: "7")
    first = site(login_as("7"))
    landing = site(ask("GET", "/"))
    assert (first.status, landing.status) == (302, 200)
    assert channel_of(first) == channel_of(landing)


# --- guest ------------------------------------------------------------------------------------


def test_case_3_a_guest_polls_without_any_cookie(face: str) -> None:
    """Valid guest token header, no Cookie, POLL: 200, no Set-Cookie (case 3)."""
    answer = poll(Site(face, guest_settings()), X_GuestToken=guest_token())
    assert (answer.status, answer.json(), answer.all("Set-Cookie")) == (200, {"result": []}, [])


def test_case_4_a_guest_without_an_id_submits(face: str) -> None:
    """SUBMIT: 202; the record has user_id null and a channel starting guest- (case 4)."""
    site = Site(face, guest_settings(), app)
    answer = site(ask("POST", CHART, X_GuestToken=guest_token(user={"username": "g"})))
    assert answer.status == 202
    assert answer.json()["user_id"] is None
    assert answer.json()["channel_id"].startswith("guest-")


def test_case_6_a_guest_with_rules_sees_one_channel(face: str) -> None:
    """One rule, all cookies dropped: SUBMIT then POLL see the same channel, 200 (case 6)."""
    site, seen = Site(face, guest_settings(), app), []
    raw = guest_token(rls_rules=[{"clause": "tenant = 1"}])
    submitted = site(ask("POST", CHART, X_GuestToken=raw))
    job = submitted.json()["job_id"]
    seen.append(submitted.json()["channel_id"])
    assert site(ask("POST", f"{POLL}{job}/cancel", X_GuestToken=raw)).status == 200
    (event,) = poll(site, X_GuestToken=raw).json()["result"]
    seen.append(event["channel_id"])
    assert len(set(seen)) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [({"datasets": [1]}, {"datasets": [2]}), ({"rev": 1}, {"rev": 2})],
    ids=["datasets", "rev"],
)
def test_case_7_other_rights_are_another_channel(face: str, one: Any, other: Any) -> None:
    """Equal except datasets, or except rev: channels differ (case 7)."""
    site = Site(face, guest_settings(), app)
    answers = [site(ask("POST", CHART, X_GuestToken=guest_token(**c))) for c in (one, other)]
    assert len({answer.json()["channel_id"] for answer in answers}) == 2


@pytest.mark.parametrize(("claims", "is_shared"), [(None, False), (SUPERSET_CLAIMS, True)])
def test_case_8_guests_with_other_rules_never_see_the_event(
    face: str, claims: str | None, is_shared: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """POLL as B never shows A's event; with Superset's list they share and it says so (case 8)."""
    settings = guest_settings(**({} if claims is None else {"guest_channel_claims": claims}))
    site = Site(face, settings, app)
    a, b = (guest_token(rls_rules=[{"clause": f"tenant = {n}"}]) for n in "AB")
    job = site(ask("POST", CHART, X_GuestToken=a)).json()["job_id"]
    assert site(ask("POST", f"{POLL}{job}/cancel", X_GuestToken=a)).status == 200
    assert len(poll(site, X_GuestToken=a).json()["result"]) == 1
    assert len(poll(site, X_GuestToken=b).json()["result"]) == is_shared
    assert warned(caplog, "without rls_rules") == is_shared


def test_case_10_a_renewed_guest_token_keeps_the_channel(face: str) -> None:
    """SUBMIT by g1, g2: CANCEL is 2xx, POLL contains the job (case 10)."""
    site = Site(face, guest_settings(guest_channel_claims=CLAIMS_WITHOUT_TIMES), app)
    site.clock.now = 1005
    first = guest_token(iat=1000, exp=1300, jti="x")
    second = guest_token(iat=1290, exp=1590, jti="x")
    job = site(ask("POST", CHART, X_GuestToken=first)).json()["job_id"]
    site.clock.now = 1295
    stranger = guest_token(iat=1290, exp=1590, jti="y")
    refused = site(ask("POST", f"{POLL}{job}/cancel", X_GuestToken=stranger))
    assert (refused.status, refused.code) == (403, "not_job_owner")
    assert site(ask("POST", f"{POLL}{job}/cancel", X_GuestToken=second)).status == 200
    assert [e["job_id"] for e in poll(site, X_GuestToken=second).json()["result"]] == [job]


def test_case_11_a_guest_beats_the_session_of_the_browser(face: str) -> None:
    """Cookie T(sub "1") and guest token, POLL: channel guest-..., no Set-Cookie (case 11)."""
    site = Site(face, guest_settings(), app, user_from=lambda _: "1")
    both = {"Cookie": cookies(token(100, sub="1")), "X_GuestToken": guest_token()}
    submitted = site(ask("POST", CHART, **both))
    polled = site(ask("GET", POLL, **both))
    assert submitted.json()["channel_id"].startswith("guest-")
    assert (submitted.status, polled.status) == (202, 200)
    assert [*submitted.all("Set-Cookie"), *polled.all("Set-Cookie")] == []


def test_case_13_and_14_no_step_of_a_guest_needs_a_cookie(face: str) -> None:
    """The very first call works; SUBMIT, POLL, CANCEL all 2xx without a jar (cases 13, 14)."""
    site, guest = Site(face, guest_settings(), app), {"X_GuestToken": guest_token()}
    submitted = site(ask("POST", CHART, **guest))
    job = submitted.json()["job_id"]
    origin = {"Origin": "https://embedding.example", "Sec_Fetch_Site": "cross-site"}
    answers = [
        submitted,
        site(ask("GET", POLL, **guest)),
        site(ask("GET", POLL + job, **guest)),
        site(ask("POST", f"{POLL}{job}/cancel", **guest, **origin)),
    ]
    assert [answer.status for answer in answers] == [202, 200, 200, 200]
    assert all(answer.all("Set-Cookie") == [] for answer in answers)


def test_case_15_one_identity_on_submit_and_on_fetch(face: str) -> None:
    """`current().channel_id` is equal on both requests with one guest token (case 15)."""

    def handler(_: Ask) -> Reaction:
        return 200, HTML, current().channel_id.encode()

    site = Site(face, guest_settings(), handler)
    guest = {"X_GuestToken": guest_token(rls_rules=[{"clause": "a"}])}
    found = {site(ask(m, t, **guest)).body for m, t in (("POST", CHART), ("GET", "/result"))}
    assert len(found) == 1


def test_case_73_fractional_times_give_one_channel(face: str) -> None:
    """iat=1734112254.027939: the same channel in two middlewares (case 73)."""
    raw = guest_token(iat=1734112254.027939, exp=NOW + 0.123457)
    sites = [Site(face, guest_settings(), app) for _ in range(2)]
    answers = [site(ask("POST", CHART, X_GuestToken=raw)) for site in sites]
    assert len({answer.json()["channel_id"] for answer in answers}) == 1


# --- origins ----------------------------------------------------------------------------------


async def _upgrade(guarded: Any, origin: str) -> list[dict[str, Any]]:
    request = ask("GET", "/api/v1/async_event/ws", Cookie=cookies(token()), Origin=origin)
    scope = {**scope_of(request), "type": "websocket", "scheme": "ws"}
    scope["extensions"] = {"websocket.http.response": {}}
    sent: list[dict[str, Any]] = []
    received = iter(["connect"])

    async def receive() -> dict[str, Any]:
        for kind in received:
            return {"type": f"websocket.{kind}"}
        await asyncio.sleep(0.01)
        return {"type": "websocket.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await guarded(scope, receive, send)
    return sent


@pytest.mark.parametrize(
    ("origin", "types"),
    [
        ("https://evil.example", ["websocket.http.response.start", "websocket.http.response.body"]),
        ("null", ["websocket.http.response.start", "websocket.http.response.body"]),
        ("http://app.example", ["websocket.accept"]),
    ],
)
def test_case_63_a_socket_from_another_origin_is_never_accepted(
    origin: str, types: list[str]
) -> None:
    """Upgrade with T and a foreign Origin: refused; same origin: accepted (case 63)."""

    async def accept(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})

    guarded = asgi.AsyncQueryMiddleware(accept, make_settings())
    guarded.engine.clock = Clock()
    sent = asyncio.run(_upgrade(guarded, origin))
    assert [message["type"] for message in sent] == types
    assert sent[0].get("status", 403) == 403


def test_case_77_a_cancel_by_cookie_needs_a_proof(face: str) -> None:
    """Foreign Origin or site: 403 cross_origin; same Origin or no browser: 2xx (case 77)."""
    site, raw = Site(face, make_settings(), app), {"Cookie": cookies(token())}
    outcomes = {}
    for name, headers in {
        "foreign origin": {"Origin": "https://evil.example"},
        "foreign site": {"Sec_Fetch_Site": "cross-site"},
        "same origin": {"Origin": "http://app.example"},
        "no browser": {},
    }.items():
        job = site(ask("POST", CHART, **raw)).json()["job_id"]
        answer = site(ask("POST", f"{POLL}{job}/cancel", **raw, **headers))
        outcomes[name] = (answer.status, answer.code)
        state = site(ask("GET", POLL + job, **raw)).json()["result"]["status"]
        assert state == ("cancelled" if answer.status == 200 else "pending")
    assert outcomes == {
        "foreign origin": (403, "cross_origin"),
        "foreign site": (403, "cross_origin"),
        "same origin": (200, None),
        "no browser": (200, None),
    }


@pytest.mark.parametrize("target", [POLL, CHART])
def test_case_116_a_preflight_is_204_by_us(face: str, target: str) -> None:
    """Inner is not called; CORS headers for a listed origin only (case 116)."""
    site = Site(face, make_settings(allowed_origins="https://listed.example"), app)
    for origin in ("https://listed.example", "https://evil.example"):
        answer = site(ask("OPTIONS", target, Origin=origin, Access_Control_Request_Method="POST"))
        allowed = [origin] if "listed" in origin else []
        assert (answer.status, answer.all("Access-Control-Allow-Origin")) == (204, allowed)
        assert bool(answer.all("Access-Control-Allow-Methods")) is bool(allowed)
    assert site.calls == 0
    assert site(ask("OPTIONS", target)).code == "token_missing"


def test_case_117_a_refusal_has_cors_headers_for_listed_origins(face: str) -> None:
    """401 with Allow-Origin, Allow-Credentials, Vary: Origin; unlisted: none (case 117)."""
    site = Site(face, make_settings(allowed_origins="https://listed.example"))
    answer = poll(site, Origin="https://listed.example")
    assert answer.status == 401
    assert answer.get("Access-Control-Allow-Origin") == "https://listed.example"
    assert answer.get("Access-Control-Allow-Credentials") == "true"
    assert answer.get("Vary") == "Origin"
    unlisted = poll(site, Origin="https://evil.example")
    assert [k for k, _ in unlisted.headers if k.lower().startswith("access-control")] == []


# --- config -----------------------------------------------------------------------------------


def test_case_68_issuing_off_verifying_on(face: str) -> None:
    """LOGIN has no Set-Cookie of ours; POLL with T: 200 (case 68)."""
    site = Site(face, make_settings(issue="off"), app, user_from=lambda _: "7")
    assert site(login_as()).all("Set-Cookie") == []
    assert site(ask("POST", "/logout", Cookie=cookies(token()))).all("Set-Cookie") == []
    for raw in (token(100), token(3000)):
        answer = poll(site, raw)
        assert (answer.status, answer.all("Set-Cookie")) == (200, [])


def test_case_70_start_up_prints_the_fingerprint_of_the_secret(
    face: str, caplog: pytest.LogCaptureFixture
) -> None:
    """K and K2: different; both K: same; the secret is not in the log (case 70)."""
    caplog.set_level(logging.INFO)
    for secret in (K, K2, K):
        Site(face, make_settings(jwt_secret=secret))
    lines = [r.getMessage() for r in caplog.records if "key=" in r.getMessage()]
    prints = [line.partition("key=")[2] for line in lines]
    assert prints == [key_id(K.encode()), key_id(K2.encode()), key_id(K.encode())]
    assert K not in caplog.text
    assert K2 not in caplog.text


# --- diagnosis --------------------------------------------------------------------------------


def test_case_17_start_up_says_that_nothing_is_issued(
    face: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One line with mode, cookie, lifetime, store; off: one WARNING naming it (case 17)."""
    caplog.set_level(logging.INFO)
    Site(face, make_settings(issue="off"))
    (line,) = (r.getMessage() for r in caplog.records if r.levelno == logging.INFO)
    for fact in ("issue=off", "cookie=async-token", "SameSite=Lax", "token=3600s", "memory://"):
        assert fact in line
    assert warned(caplog, "GAQ_ISSUE=off") == 1


def test_case_32_refusals_say_why_and_log_lines_are_limited(
    face: str, caplog: pytest.LogCaptureFixture
) -> None:
    """20 bad POLLs: 20 answers 401 with code; at most 2 log lines (case 32)."""
    caplog.set_level(logging.INFO)
    site = Site(face, make_settings())
    answers = [poll(site, "x") for _ in range(20)]
    assert {(a.status, a.json()["code"]) for a in answers} == {(401, "token_malformed")}
    assert 1 <= sum("token_malformed" in r.getMessage() for r in caplog.records) <= 2


def test_case_33_a_refused_poll_costs_nothing(face: str) -> None:
    """POLL with expired T: own 401; inner calls 0, store calls 0 (case 33)."""
    site = Site(face, make_settings())
    site.app.engine.store = None
    answer = poll(site, token(-61))
    assert (answer.status, answer.code, site.calls) == (401, "token_expired", 0)


def test_case_65_a_script_is_told_what_is_missing(face: str) -> None:
    """POLL with Authorization only: 401 token_missing, body names async-token (case 65)."""
    answer = poll(Site(face, make_settings()), Authorization="Bearer x")
    assert (answer.status, answer.code) == (401, "token_missing")
    assert "async-token" in answer.json()["detail"]
    assert "X-Async-Token" in answer.json()["detail"]


def test_case_100_the_log_shows_that_other_cookies_arrived(
    face: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Cookie __cfduid=x only: 401 token_missing, log seen=["__cfduid"] (case 100)."""
    caplog.set_level(logging.INFO)
    answer = Site(face, make_settings())(ask("GET", POLL, Cookie="__cfduid=hush"))
    assert answer.code == "token_missing"
    (line,) = (r.getMessage() for r in caplog.records if "refused" in r.getMessage())
    assert 'seen=["__cfduid"]' in line
    assert "hush" not in caplog.text


# --- the way of a user ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(make_settings(), id="the defaults"),
        pytest.param(make_settings(cookie_name="__Host-t"), id="a __Host- cookie"),
        pytest.param(guest_settings(issue="login"), id="mode login, guests on"),
    ],
)
def test_login_submit_cancel_poll_and_logout(face: str, settings: Settings) -> None:
    """The whole way on one cookie, and nobody else's; the jobs outlast a new login."""
    name = settings.cookie_name
    site = Site(face, settings, app)
    raw = site(login_as("7")).cookie(name)
    assert raw
    mine = {"Cookie": cookies(raw, name=name)}
    job = site(ask("POST", CHART, **mine)).json()["job_id"]
    other = {"Cookie": cookies(site(login_as("8")).cookie(name) or "", name=name)}
    assert site(ask("POST", f"{POLL}{job}/cancel", **other)).code == "not_job_owner"
    assert site(ask("GET", POLL, **other)).json() == {"result": []}
    cancelled = site(ask("POST", f"{POLL}{job}/cancel", **mine))
    assert cancelled.json() == {"result": {"job_id": job, "status": "cancelled"}}
    again = {"Cookie": cookies(site(login_as("7")).cookie(name) or "", name=name)}
    (event,) = site(ask("GET", POLL, **again)).json()["result"]
    assert (event["job_id"], event["status"], event["user_id"]) == (job, "cancelled", 7)
    assert site(ask("POST", "/logout", **mine)).cookie(name) == ""
    assert site(ask("GET", POLL)).code == "token_missing"


@pytest.mark.parametrize("face", ["asgi", "wsgi"])
def test_case_27_parallel_first_requests_agree_on_the_channel(face: str) -> None:
    """Two requests of one session without a token: both new cookies open one channel."""
    site = Site(face, make_settings(), user_from=lambda source: "7")

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(site, [ask("GET", "/"), ask("GET", "/")]))

    channels = {read_claims(answer.cookie() or "")["channel"] for answer in answers}
    assert len(channels) == 1
