"""Who is asking: the rules in their order, for every mode of issuing."""

from __future__ import annotations

import pytest

from gaq_middleware.core.identify import Finding, Identifier
from gaq_middleware.core.identities import AnonymousIdentity, GuestIdentity, UserIdentity
from gaq_middleware.core.tokens import TokenCodec
from tests.helpers import (
    GUEST,
    K2,
    NOW,
    Ask,
    cookies,
    forge,
    guest_claims,
    guest_settings,
    guest_token,
    head_of,
    make_settings,
    read_claims,
    token,
)

T = token()
EXPIRED, FORGED = token(-61), token(secret=K2)


def find(*headers: tuple[str, str], user: str | None = None, **variables: str) -> Finding:
    """Return who is asking, with guests on; `user` is whom the user source names."""
    settings = guest_settings(**variables)
    head = head_of(Ask("GET", "/", list(headers)))
    return Identifier(settings, TokenCodec(settings)).find(head, NOW, lambda: user)


def find_cookies(*values: str, user: str | None = None, **variables: str) -> Finding:
    """Return who is asking with these values of our cookie."""
    return find(("Cookie", cookies(*values)), user=user, **variables)


def outcome(finding: Finding) -> str:
    """Return a finding in short: via, then channel and user, or the code of the refusal."""
    if finding.identity is None:
        assert finding.refusal is not None
        return f"{finding.via} {finding.refusal.code}"
    assert finding.refusal is None
    return f"{finding.via} {finding.identity.channel_id[:6]} {finding.identity.user_id}"


# --- guests -----------------------------------------------------------------------------------


def test_case_3_a_guest_token_decides_without_any_cookie() -> None:
    """Valid: the derived channel, user id None (case 3)."""
    finding = find(("X-GuestToken", guest_token()))
    assert isinstance(finding.identity, GuestIdentity)
    assert finding.identity.channel_id.startswith("guest-")
    assert (finding.via, finding.refusal, finding.claims, finding.fresh) == ("guest", *[None] * 3)


def test_case_11_a_guest_token_beats_the_cookie_and_the_user() -> None:
    """Both present: the guest decides this request; nobody asks for the user (case 11)."""

    def never() -> str | None:
        raise AssertionError("the user source was asked")

    settings = guest_settings()
    pairs = [("X-GuestToken", guest_token()), ("Cookie", cookies(T)), ("X-Async-Token", T)]
    head = head_of(Ask("GET", "/", pairs))
    finding = Identifier(settings, TokenCodec(settings)).find(head, NOW, never)
    assert finding.via == "guest"
    assert isinstance(finding.identity, GuestIdentity)


@pytest.mark.parametrize(
    ("values", "code"),
    [
        pytest.param([guest_token(secret=K2)], "guest_signature", id="another key"),
        pytest.param([guest_token(exp=NOW - 99)], "guest_expired", id="expired"),
        pytest.param([guest_token(type="user")], "guest_claims", id="no guest"),
        pytest.param([""], "guest_malformed", id="empty"),
        pytest.param([guest_token()] * 2, "guest_malformed", id="two of them"),
        pytest.param([f"{guest_token()},x"], "guest_malformed", id="joined lines"),
        pytest.param(
            [forge(guest_claims(), GUEST, header={"alg": "none"}) + "x"],
            "guest_malformed",
            id="another algorithm",
        ),
    ],
)
def test_an_invalid_guest_token_does_not_fall_back_to_the_cookie(
    values: list[str], code: str
) -> None:
    """Invalid: 401, no fall-back to the cookie (design 4)."""
    pairs = [("X-GuestToken", value) for value in values]
    finding = find(*pairs, ("Cookie", cookies(T)), user="7")
    assert outcome(finding) == f"guest {code}"


def test_without_guests_the_guest_header_is_nothing() -> None:
    """Guests off: the header is not looked at (design 3)."""
    settings = make_settings()
    head = head_of(Ask("GET", "/", [("X-GuestToken", "x"), ("Cookie", cookies(T))]))
    finding = Identifier(settings, TokenCodec(settings)).find(head, NOW, lambda: None)
    assert outcome(finding) == "cookie c1 7"


# --- the token header -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([T], "header c1 7", id="a good one"),
        pytest.param([token(sub=...)], "header c1 None", id="an anonymous one"),
        pytest.param([""], "header token_malformed", id="an empty one"),
        pytest.param([T, T], "header token_malformed", id="two of them"),
        pytest.param([f"{T},{T}"], "header token_malformed", id="two of them, joined"),
        pytest.param([f"Bearer {T}"], "header token_malformed", id="with a scheme"),
        pytest.param([EXPIRED], "header token_expired", id="expired"),
        pytest.param([FORGED], "header token_signature", id="forged"),
    ],
)
def test_a_token_header_decides_alone(values: list[str], expected: str) -> None:
    """It decides whatever cookie or user there is; invalid is 401 (design 4)."""
    pairs = [("X-Async-Token", value) for value in values]
    finding = find(*pairs, ("Cookie", cookies(token(sub="8"))), user="9")
    assert outcome(finding) == expected
    assert (finding.claims, finding.fresh) == (None, None)


def test_header_names_are_settings() -> None:
    """The names of both headers are from the settings, any case on the wire (design 3)."""
    names = {"token_header": "X-Mine", "guest_header": "X-Guests"}
    assert find(("x-mine", T), **names).via == "header"
    assert find(("X-GUESTS", guest_token()), **names).via == "guest"
    assert find(("X-Async-Token", T), **names).via == "cookie"


# --- the cookie -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "user", "expected"),
    [
        pytest.param([], None, "cookie token_missing", id="none"),
        pytest.param([""], None, "cookie token_missing", id="an empty one"),
        pytest.param(["", '""'], None, "cookie token_missing", id="empty ones"),
        pytest.param([T], None, "cookie c1 7", id="a good one"),
        pytest.param([T], "7", "cookie c1 7", id="a good one of the known user"),
        pytest.param([f'"{T}"'], None, "cookie c1 7", id="a good one in quotes"),
        pytest.param([token(sub=...)], None, "cookie c1 None", id="an anonymous one"),
        pytest.param([EXPIRED], None, "cookie token_expired", id="an expired one"),
        pytest.param([FORGED], None, "cookie token_signature", id="a forged one"),
        pytest.param(["x"], None, "cookie token_malformed", id="garbage"),
        pytest.param(
            [EXPIRED, FORGED], None, "cookie token_expired", id="the first refusal speaks"
        ),
        pytest.param(["x", T], None, "cookie c1 7", id="tossing: bad, good"),
        pytest.param([T, "x"], None, "cookie c1 7", id="tossing: good, bad"),
        pytest.param([*["x"] * 7, T], None, "cookie c1 7", id="the eighth value counts"),
        pytest.param([*["x"] * 8, T], None, "cookie token_malformed", id="the ninth does not"),
        pytest.param(
            [token(channel="c2", auth_time=NOW - 9), T], None, "cookie c1 7", id="the latest login"
        ),
        pytest.param(
            [T, token(channel="c2", auth_time=NOW - 9)], None, "cookie c1 7", id="in any order"
        ),
        pytest.param(
            [token(channel="c2", auth_time=...), token(auth_time=-5)],
            None,
            "cookie c1 7",
            id="any login time beats none",
        ),
        pytest.param(
            [token(channel="c2", auth_time=-5), token(auth_time=0)],
            None,
            "cookie c1 7",
            id="zero is a time",
        ),
        pytest.param(
            [token(channel="c2", sub=..., auth_time=NOW + 9), T],
            None,
            "cookie c1 7",
            id="those without sub yield",
        ),
        pytest.param(
            [token(sub=...), token(channel="c2", sub=..., auth_time=NOW + 9)],
            None,
            "cookie c2 None",
            id="of those without sub the latest",
        ),
        pytest.param([T, token(sub="8")], None, "cookie token_ambiguous", id="two users"),
        pytest.param([T, token(sub="8", channel="c2")], "8", "cookie c2 8", id="the known of two"),
        pytest.param(
            [
                token(sub="8", channel="c2", auth_time=5),
                T,
                token(sub="8", channel="c3", auth_time=6),
            ],
            "8",
            "cookie c3 8",
            id="of the known user the latest login",
        ),
    ],
)
def test_which_cookie_counts(values: list[str], user: str | None, expected: str) -> None:
    """At most 8, in order; of one sub the latest login; of several the known user's (design 4)."""
    for mode in ("session", "login", "off"):
        assert outcome(find_cookies(*values, user=user, issue=mode)) == expected


def test_case_65_the_401_names_the_cookie_and_the_header() -> None:
    """The detail names both and how to get the cookie (case 65)."""
    finding = find(("Authorization", "Bearer x"), cookie_name="mine", token_header="X-Mine")
    assert finding.refusal is not None
    assert finding.refusal.code == "token_missing"
    assert "the cookie mine nor the header X-Mine" in finding.refusal.detail
    assert "Logging in sets the cookie" in finding.refusal.detail


def test_ambiguity_recommends_a_host_name() -> None:
    """The detail recommends a `__Host-` name (design 4)."""
    finding = find_cookies(T, token(sub="8"))
    assert finding.refusal is not None
    assert "__Host-" in finding.refusal.detail


# --- the cookie that the app may see ----------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "user", "expected"),
    [
        pytest.param([T], None, None, id="one value: what came"),
        pytest.param([T, T], None, None, id="twice the same: what came"),
        pytest.param(["x", T], None, T, id="a good one among others: only that"),
        pytest.param([T, token(channel="c2", auth_time=5)], "7", T, id="the one that counts"),
        pytest.param(["x"], None, None, id="none valid: what came"),
    ],
)
def test_the_app_sees_the_token_that_counts(
    values: list[str], user: str | None, expected: str | None
) -> None:
    """An app that reads the cookie itself must not find another value first (design 4)."""
    assert find_cookies(*values, user=user).for_app == expected


def test_the_app_sees_the_fresh_token_of_the_known_user() -> None:
    """Whenever the identity is not the cookie's (design 4)."""
    for values in ([], [T], ["x", T]):
        finding = find_cookies(*values, user="8")
        assert finding.fresh is not None
        assert finding.for_app == finding.fresh.raw


@pytest.mark.parametrize(
    ("header", "has_source", "expected"),
    [
        pytest.param(None, True, False, id="no cookie"),
        pytest.param("a=1", True, True, id="a user source may name another user"),
        pytest.param("a=1", False, False, id="not our cookie"),
        pytest.param(cookies(T), False, False, id="one value"),
        pytest.param(cookies("x", T), False, True, id="two values"),
    ],
)
def test_when_the_header_may_have_to_be_replaced(
    header: str | None, has_source: bool, expected: bool
) -> None:
    """Elsewhere the cookie need not be verified before the app asks (design 9)."""
    settings = make_settings()
    identifier = Identifier(settings, TokenCodec(settings))
    head = head_of(Ask("GET", "/", [] if header is None else [("Cookie", header)]))
    assert identifier.may_replace_cookie(head, has_source=has_source) is expected


# --- the user that the app knows --------------------------------------------------------------


@pytest.mark.parametrize("mode", ["session", "anonymous"])
@pytest.mark.parametrize(
    "values",
    [
        pytest.param([], id="no token"),
        pytest.param(["x"], id="a bad token"),
        pytest.param([EXPIRED], id="an expired token"),
        pytest.param([T], id="a token of another user"),
        pytest.param([token(sub=...)], id="a token without sub"),
        pytest.param([T, token(sub="9")], id="tokens of two other users"),
    ],
)
def test_in_session_mode_the_request_is_the_known_users(mode: str, values: list[str]) -> None:
    """On their derived channel, with a fresh token for the cookie and the app (design 4)."""
    finding = find_cookies(*values, user="8", issue=mode)
    channel = TokenCodec(guest_settings()).user_channel("8")
    assert finding.identity == UserIdentity(channel, "8")
    assert finding.via == "source"
    assert finding.fresh is not None
    assert finding.fresh.channel == channel
    claims = {"channel": channel, "sub": "8", "exp": NOW + 3600, "auth_time": NOW}
    assert read_claims(finding.fresh.raw) == claims
    is_valid = values not in ([], ["x"], [EXPIRED])
    assert (finding.claims is not None) is is_valid


@pytest.mark.parametrize("mode", ["login", "off"])
@pytest.mark.parametrize(
    ("values", "code"),
    [
        pytest.param([], "token_missing", id="no token"),
        pytest.param([EXPIRED], "token_expired", id="an expired token"),
        pytest.param([T], "token_user_mismatch", id="a token of another user"),
        pytest.param([token(sub=...)], "token_user_mismatch", id="a token without sub"),
        pytest.param([T, token(sub="9")], "token_user_mismatch", id="tokens of two other users"),
    ],
)
def test_in_other_modes_the_known_user_needs_their_own_token(
    mode: str, values: list[str], code: str
) -> None:
    """Else 401: missing, or token_user_mismatch (design 4)."""
    finding = find_cookies(*values, user="8", issue=mode)
    assert outcome(finding) == f"cookie {code}"
    assert finding.fresh is None


def test_an_anonymous_token_is_an_identity_of_its_own() -> None:
    """Without sub and without a known user: an anonymous visitor (design 4)."""
    assert find_cookies(token(sub=...)).identity == AnonymousIdentity("c1")


@pytest.mark.parametrize(
    ("finding", "expected"),
    [
        pytest.param(find(("X-GuestToken", guest_token())), False, id="a guest header"),
        pytest.param(find(("X-Async-Token", T)), False, id="a token header"),
        pytest.param(find_cookies(T), True, id="a cookie"),
        pytest.param(find_cookies(user="8"), True, id="a session"),
    ],
)
def test_what_a_browser_sends_by_itself(finding: Finding, expected: bool) -> None:
    """Cookie and session need a same-origin proof, headers do not (design 6)."""
    assert finding.is_ambient is expected


def test_the_cookie_name_is_a_setting() -> None:
    """Only the configured name counts (case 92)."""
    pair = ("Cookie", f"a={T}; async-token={token(sub='8')}")
    assert outcome(find(pair, cookie_name="a")) == "cookie c1 7"


def test_a_guest_offer_counts_for_our_own_socket_alone() -> None:
    """At the app's a foreign page would be spared the proof of its origin by a token of its own."""
    settings = guest_settings()
    offers = [("Sec-WebSocket-Protocol", f"gaq.events, gaq.guest.{guest_token()}")]
    for path, expected in (("/api/v1/async_event/ws", "guest"), ("/api/v1/chart/data", "cookie")):
        head = head_of(Ask("GET", path, [*offers, ("Cookie", cookies(T))]), is_websocket=True)
        identifier = Identifier(settings, TokenCodec(settings), lambda head: "/ws" in head.path)
        finding = identifier.find(head, NOW, lambda: None)
        assert (finding.via, finding.is_ambient) == (expected, expected == "cookie")


def test_what_a_cookie_header_was_found_to_say_is_judged_again_every_time() -> None:
    """Time and user decide on every request; only the reading of the header is remembered."""
    settings = make_settings()
    identifier = Identifier(settings, TokenCodec(settings))
    head = head_of(ask_with(cookies(token(100, nbf=NOW))))
    first = identifier.find(head, NOW, lambda: None)
    assert outcome(first) == "cookie c1 7"
    assert identifier.find(head, NOW + 50, lambda: "7") is first
    assert outcome(identifier.find(head, NOW - 11, lambda: None)) == "cookie token_claims"
    assert outcome(identifier.find(head, NOW + 111, lambda: None)) == "cookie token_expired"
    assert identifier.find(head, NOW + 109, lambda: None) is first
    assert outcome(identifier.find(head, NOW, lambda: "8")).startswith("source user-")
    twice = head_of(ask_with(cookies(token(100, nbf=NOW)), cookies(token(sub="8", channel="c8"))))
    assert outcome(identifier.find(twice, NOW, lambda: None)) == "cookie token_ambiguous"


def ask_with(*headers: str) -> Ask:
    """Return a request with these Cookie headers."""
    return Ask("GET", "/", [("Cookie", header) for header in headers])


def test_only_headers_with_one_good_value_are_remembered() -> None:
    """Refusals are found out every time, and so is which of several values counts."""
    settings = make_settings()
    identifier = Identifier(settings, TokenCodec(settings))
    for header in (cookies("bad"), cookies(token(), "bad"), cookies(token(-61))):
        head = head_of(ask_with(header))
        first = identifier.find(head, NOW, lambda: None)
        assert identifier.find(head, NOW, lambda: None) is not first
