"""The cookie as a response leaves: issued, renewed, repaired, deleted, or nothing."""

from __future__ import annotations

from http.cookies import SimpleCookie
from typing import Any

import pytest

from gaq_middleware.core.identify import Identifier
from gaq_middleware.core.issuing import (
    Decision,
    Departure,
    Issuer,
    vary_on_cookie,
    with_cookie,
)
from gaq_middleware.core.messages import Headers
from gaq_middleware.core.tokens import Claims, TokenCodec
from tests.helpers import (
    K2,
    NOW,
    Ask,
    cookies,
    guest_settings,
    guest_token,
    head_of,
    read_claims,
    token,
)

HTML = [("Content-Type", "text/html; charset=utf-8")]
T100, T3000 = token(100), token(3000)
NOBODY = token(100, sub=...)


class Scene:
    """One request and its response, with everything that a decision depends on."""

    def __init__(self, mode: str = "session", **variables: str) -> None:
        self.settings = guest_settings(issue=mode, **variables)
        self.codec = TokenCodec(self.settings)
        self.issuer = Issuer(self.settings, self.codec, lambda: "random")

    def decide(
        self,
        *values: str,
        user: str | None = None,
        status: int = 200,
        sent: Headers | None = None,
        request: list[tuple[str, str]] | None = None,
        method: str = "GET",
        scheme: str = "http",
        login: str | None = None,
        logout: bool = False,
        age: float = 0,
        now: float = NOW,
        has_source: bool | None = None,
        is_login: bool = False,
        is_logout: bool = False,
        is_protected: bool = False,
        signs_in: bool = False,
        signs_out: bool = False,
    ) -> Decision:
        """Return the decision; `user` is whom a user source names, if there is one."""
        pairs = [("Cookie", cookies(*values))] if values else []
        head = head_of(Ask(method, "/", [*pairs, *(request or [])], scheme))
        finding = Identifier(self.settings, self.codec).find(head, now, lambda: user)
        wish: Any = "logout" if logout else None
        if login is not None:
            wish = self.issuer.login_token(login, finding.claims, now)
        headers = HTML if sent is None else sent
        departure = Departure(
            head=head,
            finding=finding,
            wish=wish,
            is_login=is_login,
            is_logout=is_logout,
            is_protected=is_protected,
            has_source=user is not None if has_source is None else has_source,
            known=lambda: user,
            status=status,
            values=lambda name: [v for k, v in headers if k.lower() == name],
            age=age,
            signs_in=signs_in,
            signs_out=signs_out,
        )
        return self.issuer.decide(departure, now)


def issued(decision: Decision) -> str | None:
    """Return "channel sub" of what a decision sets, "deleted", or None."""
    if decision.line is None:
        return None
    raw = next(iter(SimpleCookie(decision.line).values())).value
    if raw == "":
        assert "Max-Age=0;" in decision.line
        return "deleted"
    assert "Max-Age=0;" not in decision.line
    claims = read_claims(raw)
    channel = claims["channel"]
    return f"{channel[:5] if channel.startswith('user-') else channel} {claims.get('sub')}"


# --- login ------------------------------------------------------------------------------------

LOGINS = [
    pytest.param({"login": "7"}, id="login() was called"),
    pytest.param({"is_login": True, "method": "POST", "user": "7"}, id="a POST to a login path"),
]


@pytest.mark.parametrize("mode", ["session", "login", "anonymous"])
@pytest.mark.parametrize("how", LOGINS)
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([], "user- 7", id="first login"),
        pytest.param([T3000], "c1 7", id="again: the channel is kept"),
        pytest.param([token(sub="8")], "user- 7", id="case 29: after another user"),
        pytest.param([token(sub=...)], "user- 7", id="after an anonymous visit"),
        pytest.param([token(-61)], "user- 7", id="after the token expired"),
        pytest.param(["x"], "user- 7", id="after garbage"),
    ],
)
def test_a_login_response_issues_the_cookie(
    mode: str, how: dict[str, Any], values: list[str], expected: str
) -> None:
    """The channel is kept only if a valid token's sub is present and equal (design 6)."""
    for status in (200, 204, 302):
        assert issued(Scene(mode).decide(*values, status=status, **how)) == expected


@pytest.mark.parametrize("how", LOGINS)
@pytest.mark.parametrize("status", [400, 401, 500])
def test_case_115_a_failed_login_issues_nothing(how: dict[str, Any], status: int) -> None:
    """Status below 400 is needed (case 115)."""
    assert Scene().decide(status=status, **how) == Decision()


def test_a_login_response_without_a_known_user_issues_nothing() -> None:
    """No cookie, and the log says why (design 6)."""
    decision = Scene().decide(T100, is_login=True, method="POST", has_source=False)
    assert decision == Decision(notice="login_without_user")


def test_a_page_at_a_login_path_is_no_login() -> None:
    """Only a POST counts (design 6)."""
    assert Scene().decide(is_login=True) == Decision()


def test_a_post_elsewhere_is_no_login() -> None:
    """Only login paths count (design 6)."""
    decision = Scene("login").decide(user="7", method="POST", is_protected=True)
    assert decision == Decision()


def test_a_token_header_may_log_in_by_login() -> None:
    """What the handler asks for is done, whatever the proof was."""
    assert issued(Scene().decide(request=[("X-Async-Token", T100)], login="7")) == "user- 7"


def test_a_login_starts_the_maximum_age_anew() -> None:
    """auth_time is now, also when the channel is kept (design 4)."""
    scene = Scene()
    claims = scene.codec.verify(token(100, auth_time=NOW - 40_000), NOW)
    assert isinstance(claims, Claims)
    fresh = scene.issuer.login_token("7", claims, NOW)
    assert read_claims(fresh.raw)["auth_time"] == NOW
    assert fresh.channel == "c1"


# --- logout -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{"logout": True}, {"is_logout": True}], ids=["logout()", "path"])
@pytest.mark.parametrize("values", [[], [T3000], ["x"], [token(sub="8")]])
def test_case_29_a_logout_deletes_the_cookie(how: dict[str, Any], values: list[str]) -> None:
    """Whatever its value, below 400 (design 6, case 29)."""
    for status in (200, 204, 302):
        assert issued(Scene().decide(*values, user="7", status=status, **how)) == "deleted"
    assert Scene().decide(*values, status=403, **how) == Decision()


def test_login_on_a_logout_path_is_a_login() -> None:
    """What the handler asks for counts more than the path."""
    assert issued(Scene().decide(login="7", is_logout=True)) == "user- 7"


# --- renewal ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["session", "login", "anonymous"])
@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(T3000, None, id="the first half of its life"),
        pytest.param(token(1800), None, id="exactly half of its life"),
        pytest.param(token(1799), "c1 7", id="the second half of its life"),
        pytest.param(T100, "c1 7", id="near its end"),
        pytest.param(token(-5), "c1 7", id="past its end, within the leeway"),
        pytest.param(NOBODY, "c1 None", id="an anonymous one"),
        pytest.param(token(3000, secret=K2), "c1 7", id="case 141: signed with an old secret"),
        pytest.param(token(3000, sub=7), "c1 7", id="case 71: an integer sub"),
        pytest.param(token(3000, sub=None), "c1 None", id="a null sub"),
        pytest.param(token(100, auth_time=NOW - 43200 + 100), None, id="at the maximum age"),
        pytest.param(token(100, auth_time=NOW - 43200 + 101), "c1 7", id="just before it"),
        pytest.param(token(100, auth_time=NOW - 50000), None, id="past the maximum age"),
        pytest.param(
            token(3000, sub=7, auth_time=NOW - 50000), None, id="an old one past the maximum age"
        ),
        pytest.param(
            token(3000, sub=7, auth_time=NOW - 43200), None, id="an old one at the maximum age"
        ),
        pytest.param(
            token(3000, sub=7, auth_time=NOW - 40200), "c1 7", id="an old one with all its life"
        ),
        pytest.param(token(100, auth_time=...), "c1 7", id="without auth_time: from now"),
    ],
)
def test_case_25_renewal(mode: str, raw: str, expected: str | None) -> None:
    """In the second half, or old in key or form, with the same channel (case 25, design 6)."""
    assert issued(Scene(mode, jwt_verify_secrets=K2).decide(raw)) == expected


@pytest.mark.parametrize("raw", [token(-61), "x", token(secret=K2)])
def test_what_is_not_valid_is_not_renewed(raw: str) -> None:
    """An expired or forged cookie stays what it is: refusals delete nothing (design 5)."""
    assert Scene().decide(raw) == Decision()


def test_a_renewal_keeps_the_time_of_the_login() -> None:
    """The maximum age counts from the login, not from the renewal (design 3)."""
    decision = Scene().decide(token(100, auth_time=NOW - 40_000))
    assert decision.line is not None
    claims = read_claims(decision.line.partition("=")[2].partition(";")[0])
    assert claims["auth_time"] == NOW - 40_000
    assert claims["exp"] == NOW + 3200
    assert "Max-Age=3200;" in decision.line


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.999])
def test_case_104_a_token_that_cannot_live_longer_is_not_reissued(fraction: float) -> None:
    """Set-Cookie only when something changes, at any fraction of a second (case 104)."""
    at_its_end = token(100, auth_time=NOW - 43100)
    assert Scene().decide(at_its_end, now=NOW + fraction) == Decision()


@pytest.mark.parametrize("seconds", [0, 1, 2, 3, 4, 5])
def test_case_96_a_renewal_never_deletes(seconds: int) -> None:
    """Within the leeway of exp but past the maximum age there is nothing to give (case 96)."""
    raw = token(-5, auth_time=NOW - 43200 - seconds)
    assert Scene().decide(raw) == Decision()


def test_case_96_renewals_race_without_harm() -> None:
    """Ten renewals of one token have its channel, and none deletes (case 96)."""
    assert {issued(Scene().decide(T100)) for _ in range(10)} == {"c1 7"}


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        pytest.param({"age": 2.0}, "c1 7", id="two seconds after the request"),
        pytest.param({"age": 2.1}, None, id="case 104: a slow answer"),
        pytest.param({"status": 204}, None, id="204"),
        pytest.param({"status": 206}, None, id="206"),
        pytest.param({"status": 304}, None, id="304"),
        pytest.param({"status": 302}, "c1 7", id="302"),
        pytest.param({"status": 400}, None, id="400"),
        pytest.param({"status": 404}, None, id="404"),
        pytest.param({"sent": []}, "c1 7", id="no type"),
        pytest.param({"sent": [("Content-Type", "text/plain")]}, "c1 7", id="text"),
        pytest.param({"sent": [("Content-Type", "image/png")]}, None, id="an image"),
        pytest.param({"sent": [("Content-Type", "text/css")]}, None, id="a style sheet"),
        pytest.param({"sent": [("content-type", "Text/JavaScript")]}, None, id="a script"),
        pytest.param(
            {"sent": [("Content-Type", "application/x-javascript")]}, None, id="an old script"
        ),
        pytest.param({"sent": [("Content-Type", "font/woff2")]}, None, id="a font"),
        pytest.param({"sent": [("Content-Type", "application/pdf")]}, None, id="a document"),
        pytest.param({"sent": [("Content-Type", "text/event-stream")]}, None, id="a stream"),
        pytest.param(
            {"sent": [("Content-Type", "application/x-ndjson")]}, None, id="a JSON stream"
        ),
        pytest.param({"sent": [("Content-Type", "multipart/mixed; boundary=x")]}, None, id="parts"),
        pytest.param(
            {"sent": [("Content-Type", "image/png")], "is_protected": True},
            None,
            id="an image on a protected path",
        ),
        pytest.param({"user": "7"}, "c1 7", id="a user source names the token's user"),
        pytest.param({"has_source": True}, None, id="a user source names nobody"),
    ],
)
def test_when_a_renewal_may_leave(how: dict[str, Any], expected: str | None) -> None:
    """Not late, not on streams and static files, not on 204, 206, 304 and above 399 (design 6)."""
    assert issued(Scene().decide(T100, **how)) == expected


def test_an_anonymous_token_is_renewed_while_the_source_names_nobody() -> None:
    """A user source that names nobody names the token's user: nobody."""
    assert issued(Scene().decide(NOBODY, has_source=True)) == "c1 None"


def test_a_token_header_never_leads_to_a_cookie() -> None:
    """Neither renewal nor repair (design 4)."""
    scene = Scene("anonymous")
    for user in (None, "7", "8"):
        decision = scene.decide(request=[("X-Async-Token", T100)], user=user, is_protected=True)
        assert decision == Decision()


# --- repair and first issue -------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["session", "anonymous"])
@pytest.mark.parametrize(
    "values",
    [
        pytest.param([], id="no cookie"),
        pytest.param([token(sub="8")], id="case 29: another user's cookie"),
        pytest.param([token(sub=...)], id="an anonymous cookie"),
        pytest.param([token(-61)], id="an expired cookie"),
        pytest.param(["x"], id="garbage"),
        pytest.param([T3000, token(sub="8", channel="c2")], id="cookies of two users"),
    ],
)
def test_a_known_user_gets_their_cookie(mode: str, values: list[str]) -> None:
    """Repaired or first issued whenever a user source names the user (design 3)."""
    scene = Scene(mode)
    for sent in (HTML, [("Content-Type", "application/json")]):
        found = issued(scene.decide(*values, user="9", sent=sent))
        assert found == "user- 9"


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        pytest.param({}, "user- 7", id="a page"),
        pytest.param({"sent": [("Content-Type", "application/json")]}, "user- 7", id="JSON"),
        pytest.param(
            {"sent": [("Content-Type", "application/vnd.api+json; charset=utf-8")]},
            "user- 7",
            id="a kind of JSON",
        ),
        pytest.param({"sent": [("Content-Type", "application/xhtml+xml")]}, "user- 7", id="XHTML"),
        pytest.param({"sent": []}, None, id="no type"),
        pytest.param({"sent": [("Content-Type", "text/plain")]}, None, id="text"),
        pytest.param({"sent": [("Content-Type", "text/htmlx")]}, None, id="nearly a page"),
        pytest.param({"sent": [], "is_protected": True}, "user- 7", id="a protected path"),
        pytest.param(
            {"sent": [("Content-Type", "text/css")], "is_protected": True},
            None,
            id="a style sheet on a protected path",
        ),
        pytest.param({"status": 302}, "user- 7", id="a redirect with a page"),
        pytest.param({"status": 404}, None, id="404"),
        pytest.param({"status": 304}, None, id="304"),
        pytest.param({"age": 2.1}, None, id="a slow answer"),
    ],
)
def test_where_a_repair_may_leave(how: dict[str, Any], expected: str | None) -> None:
    """On html, json and protected paths below 400, never on static files (design 6)."""
    assert issued(Scene().decide(user="7", **how)) == expected


@pytest.mark.parametrize(
    ("before", "at_head", "expected"),
    [
        pytest.param("7", "7", NOW + 3600, id="known before: the token that the app was given"),
        pytest.param(None, "7", NOW + 3601, id="known only at the head: a token of then"),
        pytest.param("8", "7", NOW + 3601, id="another user at the head: theirs"),
    ],
)
def test_whose_token_a_repair_brings(before: str | None, at_head: str, expected: float) -> None:
    """Cookie and what the app read are one token; the user at the head counts (design 2, 4)."""
    scene = Scene()
    head = head_of(Ask("GET", "/"))
    departure = Departure(
        head=head,
        finding=Identifier(scene.settings, scene.codec).find(head, NOW, lambda: before),
        wish=None,
        is_login=False,
        is_logout=False,
        is_protected=False,
        has_source=True,
        known=lambda: at_head,
        status=200,
        values=lambda _: ["text/html"],
        age=1,
    )
    decision = scene.issuer.decide(departure, NOW + 1)
    assert issued(decision) == "user- 7"
    assert decision.line is not None
    raw = decision.line.partition("=")[2].partition(";")[0]
    assert read_claims(raw)["exp"] == expected


def test_in_mode_login_nothing_is_repaired() -> None:
    """`login`: on login responses and renewal only (design 3)."""
    for values in ([], [token(sub="8")], ["x"], [token(-61)]):
        assert Scene("login").decide(*values, user="7", is_protected=True) == Decision()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([], "random None", id="no cookie"),
        pytest.param(["x"], "random None", id="garbage"),
        pytest.param([token(-61)], "random None", id="an expired cookie"),
        pytest.param([T3000], None, id="a good one"),
        pytest.param([T3000, token(sub="8")], None, id="cookies of two users"),
    ],
)
def test_case_1_visitors_get_a_cookie_in_mode_anonymous(
    values: list[str], expected: str | None
) -> None:
    """`anonymous`: also for visitors without identity, on a random channel (case 1)."""
    assert issued(Scene("anonymous").decide(*values)) == expected
    assert issued(Scene("anonymous").decide(*values, sent=[("Content-Type", "text/css")])) is None
    assert issued(Scene("anonymous").decide(*values, sent=[])) is None
    assert issued(Scene("session").decide(*values)) is None


@pytest.mark.parametrize(
    ("mode", "values", "pairs", "expected"),
    [
        pytest.param("anonymous", [], [], "random None", id="no cookie"),
        pytest.param("anonymous", ["x"], [], "random None", id="garbage"),
        pytest.param("anonymous", [T3000], [], None, id="a good one"),
        pytest.param("anonymous", [T3000, token(sub="8")], [], None, id="cookies of two users"),
        pytest.param("anonymous", [], [("X-Async-Token", "x")], None, id="a bad token header"),
        pytest.param("anonymous", [], [("X-GuestToken", "x")], None, id="a bad guest token"),
        pytest.param("session", [], [], None, id="mode session"),
        pytest.param("off", [], [], None, id="mode off"),
    ],
)
def test_case_1_a_401_carries_the_first_cookie_in_mode_anonymous(
    mode: str, values: list[str], pairs: list[tuple[str, str]], expected: str | None
) -> None:
    """With `anonymous` the 401 carries a first cookie (design 4)."""
    scene = Scene(mode)
    cookie = [("Cookie", cookies(*values))] if values else []
    head = head_of(Ask("GET", "/", [*cookie, *pairs]))
    finding = Identifier(scene.settings, scene.codec).find(head, NOW, lambda: None)
    assert issued(scene.issuer.first_anonymous(head, finding, NOW)) == expected


# --- none of these ----------------------------------------------------------------------------

EVERYTHING = [
    pytest.param({"login": "7"}, id="login()"),
    pytest.param({"logout": True}, id="logout()"),
    pytest.param({"is_logout": True}, id="a logout path"),
    pytest.param({"is_login": True, "method": "POST", "user": "7"}, id="a login path"),
    pytest.param({"user": "9"}, id="a repair"),
    pytest.param({}, id="a renewal"),
]


@pytest.mark.parametrize("how", EVERYTHING)
def test_case_68_off_sets_and_deletes_nothing(how: dict[str, Any]) -> None:
    """`off`: verify only, nothing is set or deleted (case 68)."""
    assert Scene("off").decide(T100, **how) == Decision()


@pytest.mark.parametrize("how", EVERYTHING)
@pytest.mark.parametrize("line", ["async-token=mine; Path=/", "async-token=; Max-Age=0"])
def test_what_the_app_does_with_our_cookie_stays(how: dict[str, Any], line: str) -> None:
    """None of these if the app set or deleted our cookie (design 6)."""
    sent = [*HTML, ("Set-Cookie", "a=1"), ("Set-Cookie", line)]
    assert Scene().decide(T100, sent=sent, **how) == Decision()
    other = [*HTML, ("Set-Cookie", "xasync-token=1")]
    assert Scene().decide(T100, sent=other, **how).line is not None


@pytest.mark.parametrize("how", EVERYTHING)
def test_case_11_nothing_leaves_on_a_guests_answer(how: dict[str, Any]) -> None:
    """No cookie is read, set or deleted (cases 3, 11)."""
    request = [("X-GuestToken", guest_token()), ("Cookie", cookies(T100))]
    assert Scene("anonymous").decide(request=request, **how) == Decision()


# --- the line ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "pairs", "secure"),
    [
        pytest.param("http", [], False, id="http"),
        pytest.param("https", [], True, id="https"),
        pytest.param("http", [("X-Forwarded-Proto", "https")], True, id="a claim of https"),
    ],
)
def test_secure_follows_the_request(
    scheme: str, pairs: list[tuple[str, str]], secure: bool
) -> None:
    """`auto`: Secure when the request is https or says so (design 3)."""
    for how in ({"login": "7"}, {"logout": True}):
        decision = Scene().decide(scheme=scheme, request=pairs, **how)
        assert decision.line is not None
        assert ("Secure" in decision.line) is secure


def test_case_22_a_cookie_that_browsers_drop_is_sent_with_a_notice() -> None:
    """Kept as configured, and the log says so (case 22)."""
    decision = Scene(cookie_secure="1").decide(login="7")
    assert decision.line is not None
    assert decision.notice == "dropped_by_browser"
    assert Scene(cookie_secure="1").decide(login="7", scheme="https").notice is None
    assert Scene().decide(login="7").notice is None


def test_a_cookie_above_4096_bytes_is_not_sent() -> None:
    """Browsers drop it; the log says so (design 6)."""
    decisions = [Scene().decide(login="u" * n) for n in range(2700, 2900)]
    lines = [decision.line for decision in decisions if decision.line is not None]
    assert max(map(len, lines)) == 4096
    refused = [decision for decision in decisions if decision.line is None]
    assert set(refused) == {Decision(notice="too_large")}


def test_max_age_is_the_life_of_the_token() -> None:
    """Max-Age is the token's life (design 6)."""
    decision = Scene(jwt_expiration_seconds="120").decide(login="7")
    assert decision.line is not None
    assert "Max-Age=120;" in decision.line


# --- headers ----------------------------------------------------------------------------------


def test_case_102_a_response_with_our_cookie_is_private_in_every_cache() -> None:
    """What told caches to keep it goes; the app's own cookies stay, in order (cases 90, 102)."""
    headers = [
        ("Content-Type", "text/html"),
        ("Cache-Control", "public, max-age=60"),
        ("CDN-Cache-Control", "max-age=60"),
        ("Cloudflare-CDN-Cache-Control", "max-age=60"),
        ("Surrogate-Control", "max-age=60"),
        ("X-Accel-Expires", "60"),
        ("Set-Cookie", "a=1"),
        ("Vary", "Accept"),
        ("Set-Cookie", "b=2"),
    ]
    assert with_cookie(headers, "t=x") == [
        ("Content-Type", "text/html"),
        ("Set-Cookie", "a=1"),
        ("Set-Cookie", "b=2"),
        ("Vary", "Accept, Cookie"),
        ("Cache-Control", "private, no-store"),
        ("Set-Cookie", "t=x"),
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([], "Cookie", id="none"),
        pytest.param(["Accept"], "Accept, Cookie", id="another field"),
        pytest.param(["Accept, cookie"], "Accept, cookie", id="ours already, in any case"),
        pytest.param(
            ["Accept", "Origin,Accept-Encoding"],
            "Accept, Origin, Accept-Encoding, Cookie",
            id="several lines",
        ),
        pytest.param(["*"], "*", id="everything"),
        pytest.param([" , "], "Cookie", id="empty fields"),
    ],
)
def test_vary_names_cookie(lines: list[str], expected: str) -> None:
    """`Vary: Cookie` merged into one line (design 6)."""
    headers = [("A", "1"), *(("vary", line) for line in lines)]
    assert vary_on_cookie(headers) == [("A", "1"), ("Vary", expected)]


def test_headers_are_not_changed_in_place() -> None:
    """The app's list stays the app's."""
    headers = [("Cache-Control", "public")]
    with_cookie(headers, "t=x")
    assert headers == [("Cache-Control", "public")]


# --- sessions that the response itself sets ---------------------------------------------------


def test_single_sign_on_is_a_login_by_get() -> None:
    """A GET to a login path logs in only if its response sets a session with a user (design 6)."""
    scene = Scene()
    assert issued(scene.decide(user="7", is_login=True, signs_in=True, sent=[])) == "user- 7"
    assert issued(scene.decide(user="7", is_login=True, sent=[])) is None
    assert (
        issued(scene.decide(user="7", is_login=True, signs_in=True, method="PUT", sent=[])) is None
    )


def test_a_response_that_ends_the_session_brings_no_cookie() -> None:
    """Neither renewal, repair nor login; login() and logout paths are the handler's own word."""
    scene = Scene()
    assert issued(scene.decide(token(60), signs_out=True)) is None
    assert issued(scene.decide(user="7", is_login=True, method="POST", signs_out=True)) is None
    assert issued(scene.decide(login="7", signs_out=True)) == "user- 7"
    assert issued(scene.decide(is_logout=True, signs_out=True)) == "deleted"
