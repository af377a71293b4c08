"""Laws that hold for any input.

`GAQ_TEST_EXAMPLES=5000` tries that many examples of each law; the default is small.
"""

from __future__ import annotations

import json
import os
from http.cookies import CookieError, SimpleCookie
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from starlette.requests import cookie_parser
from werkzeug.sansio.http import parse_cookie

from gaq_middleware.core.cookies import cookie_names, cookie_values, replace_cookie
from gaq_middleware.core.errors import CODES, Refusal, SettingsError
from gaq_middleware.core.guard import Guard
from gaq_middleware.core.guests import GuestVerifier, guest_channel
from gaq_middleware.core.identify import Identifier
from gaq_middleware.core.identities import GuestIdentity
from gaq_middleware.core.issuing import Issuer, vary_on_cookie, with_cookie
from gaq_middleware.core.messages import Endpoint, Reply
from gaq_middleware.core.origins import refuse_cross_origin
from gaq_middleware.core.settings import Settings
from gaq_middleware.core.tokens import Claims, TokenCodec, is_channel, is_user_id
from tests.helpers import (
    GUEST,
    K2,
    NOW,
    POLL,
    Ask,
    K,
    Site,
    cookies,
    forge,
    guest_claims,
    guest_settings,
    guest_token,
    head_of,
    make_settings,
    token,
)

EXAMPLES = int(os.environ.get("GAQ_TEST_EXAMPLES", "60"))
many = settings(max_examples=EXAMPLES)
NAME = "async-token"

CONFIGURED = guest_settings(
    jwt_verify_secrets=K2, allowed_origins="https://listed.example", issue="anonymous"
)
CODEC = TokenCodec(CONFIGURED)
IDENTIFIER = Identifier(CONFIGURED, CODEC)
GUARD = Guard(CONFIGURED, Issuer(CONFIGURED, CODEC, lambda: "random"))
SITES = {face: Site(face, CONFIGURED) for face in ("asgi", "wsgi")}

latin = st.text(st.characters(max_codepoint=255), max_size=60)
good = st.sampled_from(
    [
        token(),
        token(100),
        token(-99),
        token(sub="8"),
        token(sub=...),
        token(secret=K2),
        token(secret=GUEST),
        guest_token(),
        guest_token(exp=1),
        "https://listed.example",
        "http://app.example",
        "cross-site",
        "same-origin",
        "https",
    ]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=8,
)
claims = st.dictionaries(
    st.sampled_from(["channel", "sub", "exp", "nbf", "iat", "aud", "auth_time", "iss", "jti"])
    | st.text(max_size=6),
    json_values,
    max_size=6,
)
odd_claims = st.builds(lambda more: {"channel": "c1", "exp": NOW + 99, **more}, claims)
signed = st.builds(forge, claims | odd_claims, st.sampled_from([K, K2, GUEST]))
odd_guests = st.builds(lambda more: forge({**guest_claims(), **more}, GUEST), claims)
values = latin | good | signed | odd_guests
names = st.sampled_from(
    [
        *("cookie", "x-async-token", "x-guesttoken", "origin", "host", "sec-fetch-site"),
        *("x-forwarded-proto", "access-control-request-method", "access-control-request-headers"),
    ]
)
cookie_pair = st.builds(
    lambda key, value: f"{key}={value}",
    st.sampled_from([NAME, f" {NAME}", "a", "", f'"{NAME}"', f"{NAME} "]) | latin,
    values,
)
headers = st.lists(
    st.tuples(names, values)
    | st.tuples(st.just("cookie"), st.lists(cookie_pair, max_size=12).map("; ".join)),
    max_size=6,
)
targets = st.sampled_from([POLL, f"{POLL}j1", f"{POLL}j1/cancel", "/api/v1/chart/data", "/"]) | (
    st.binary(max_size=30).map(lambda raw: "/" + raw.decode("latin-1"))
)
queries = st.just("") | latin.map("?{}".format) | latin.map("?last_id={}".format)
methods = st.sampled_from(["GET", "HEAD", "POST", "OPTIONS", "DELETE", "TRACE"])
requests = st.builds(
    lambda method, target, query, pairs, scheme: Ask(method, target + query, pairs, scheme),
    methods,
    targets,
    queries,
    headers,
    st.sampled_from(["http", "https"]),
)
user_ids = st.text(min_size=1, max_size=40).filter(is_user_id)
channels = st.text(min_size=1, max_size=255).filter(is_channel)


# --- any input is answered --------------------------------------------------------------------


@many
@given(request=requests, user=st.none() | st.just("7"), is_websocket=st.booleans())
def test_any_request_gives_forward_or_a_documented_refusal(
    request: Ask, user: str | None, is_websocket: bool
) -> None:
    """Any header bytes and token bytes: a decision, never an exception (design 10)."""
    head = head_of(request, is_websocket=is_websocket)
    finding = IDENTIFIER.find(head, NOW, lambda: user)
    assert (finding.identity is None) is not (finding.refusal is None)
    if finding.refusal is not None:
        assert finding.refusal.status == CODES[finding.refusal.code][0] == 401
    outcome = GUARD.check(head, lambda: finding)
    if isinstance(outcome, Refusal):
        assert outcome.status == CODES[outcome.code][0]
        outcome = GUARD.refuse(head, outcome, finding, NOW)
        assert outcome.status in {401, 403}
    assert outcome is None or isinstance(outcome, Endpoint | Reply)
    if isinstance(outcome, Reply):
        for name, value in outcome.headers:
            assert f"{name}{value}".isascii()
            assert value.isprintable()


@many
@given(request=requests)
@example(request=Ask("GET", "/api/v1/async_event/?last_id=%"))
@example(request=Ask("GET", "/\xff?\xff", [("cookie", "\xe9")]))
@pytest.mark.parametrize("face", SITES)
def test_any_request_is_answered_by_both_faces(face: str, request: Ask) -> None:
    """Any bytes in path, query, headers and tokens: an answer, ours or the app's (design 10)."""
    without_line_breaks = [(k, v.translate({10: 32, 13: 32, 0: 32})) for k, v in request.headers]
    if face == "wsgi":  # servers join what comes several times, and name no host twice
        without_line_breaks = list(dict(without_line_breaks).items())
    target = request.target.translate({10: 32, 13: 32, 35: 32})
    answer = SITES[face](Ask(request.method, target, without_line_breaks, request.scheme))
    if answer.code is None:
        assert answer.status in {200, 204}
    else:
        assert answer.status == CODES[answer.code][0]
        assert request.method == "HEAD" or answer.json()["code"] == answer.code


@many
@given(raw=values | st.text(max_size=200), now=st.floats(allow_nan=False, allow_infinity=False))
def test_any_text_is_a_token_or_is_refused(raw: str, now: float) -> None:
    """Both verifiers answer any text at any time."""
    for found in (CODEC.verify(raw, now), GuestVerifier(CONFIGURED).verify(raw, now)):
        if isinstance(found, Refusal):
            assert CODES[found.code][0] == 401
        else:
            assert isinstance(found, Claims | GuestIdentity)


@many
@given(payload=odd_claims)
def test_any_signed_claims_are_read_or_refused(payload: dict[str, Any]) -> None:
    """What is accepted has a channel, a subject that is an id or none, and times that hold."""
    found = CODEC.verify(forge(payload), NOW)
    if isinstance(found, Claims):
        assert is_channel(found.channel)
        assert found.subject is None or is_user_id(found.subject)
        assert found.window.expires_at > NOW - 10
        again = CODEC.issue(found.channel, found.subject, NOW, found.auth_time)
        if again.max_age > 0:
            assert isinstance(CODEC.verify(again.raw, NOW), Claims)


# --- issue, then verify -----------------------------------------------------------------------


@many
@given(
    channel=channels,
    subject=st.none() | user_ids,
    now=st.integers(0, 2**33),
    later=st.integers(0, 3599),
)
def test_what_is_issued_verifies_to_the_same_identity(
    channel: str, subject: str | None, now: int, later: int
) -> None:
    """Issue, then verify: the identity, as long as the token lives and not after (design 10)."""
    issued = CODEC.issue(channel, subject, now)
    found = CODEC.verify(issued.raw, now + later)
    if len(issued.raw) > 4096:
        assert isinstance(found, Refusal)
        return
    assert isinstance(found, Claims)
    assert (found.channel, found.subject, found.needs_reissue) == (channel, subject, False)
    assert (issued.channel, issued.subject, issued.max_age) == (channel, subject, 3600)
    assert isinstance(CODEC.verify(issued.raw, now + 3610), Refusal)


@many
@given(data=st.data(), raw=st.sampled_from([token(), token(sub=...), guest_token()]))
def test_any_changed_byte_refuses(data: st.DataObject, raw: str) -> None:
    """A byte changed, left out or put in: refused, also when the true token is remembered."""
    verify = GuestVerifier(CONFIGURED).verify if raw == guest_token() else CODEC.verify
    assert not isinstance(verify(raw, NOW), Refusal)
    place = data.draw(st.integers(0, len(raw) - 1), label="place")
    other = data.draw(st.characters(max_codepoint=255), label="other")
    changed = raw[:place] + other + raw[place + 1 :]
    if changed != raw:
        assert isinstance(verify(changed, NOW), Refusal)
    assert isinstance(verify(raw[:place] + raw[place + 1 :], NOW), Refusal)
    assert isinstance(verify(raw[:place] + other + raw[place:], NOW), Refusal)


@many
@given(secret=st.binary(min_size=32, max_size=64))
def test_no_other_secret_verifies(secret: bytes) -> None:
    """A token opens only with the key that signed it."""
    other = TokenCodec(Settings(**{**_fields(CONFIGURED), "jwt_secret": secret}))
    found = other.verify(token(secret="the-third-good-secret-0123456789abcdef"), NOW)
    assert isinstance(found, Refusal)
    assert found.code == "token_signature"


def _fields(configured: Settings) -> dict[str, Any]:
    return {name: getattr(configured, name) for name in configured.__dataclass_fields__}


# --- channels ---------------------------------------------------------------------------------


@many
@given(one=user_ids, other=user_ids)
def test_derived_channels_differ_for_different_users_and_purposes(one: str, other: str) -> None:
    """One user one channel; no other user, secret or prefix has it, and no guest."""
    channel = CODEC.user_channel(one)
    assert (channel == CODEC.user_channel(other)) is (one == other)
    assert is_channel(channel)
    assert channel.startswith("user-")
    for variables in ({"jwt_secret": K2}, {"channel_secret": K2}, {"stream_prefix": "x-"}):
        assert TokenCodec(make_settings(**variables)).user_channel(one) != channel
    assert not is_channel(guest_channel({"user": one}, ("user",), K.encode()))


@many
@given(prefix=st.text("ab7-", min_size=2, max_size=6), user=user_ids)
def test_no_prefix_and_user_read_as_another_pair(prefix: str, user: str) -> None:
    """The parts of the digest are separated: moving letters between them changes it."""
    whole, shorter = (TokenCodec(make_settings(stream_prefix=p)) for p in (prefix, prefix[:-1]))
    assert shorter.user_channel(prefix[-1] + user) != whole.user_channel(user)


@many
@given(one=claims, other=claims)
def test_guests_share_a_channel_only_with_equal_claims(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """The channel is a function of the chosen claims, and tells them apart (contract 3)."""
    listed = ("channel", "sub", "exp", "nbf", "iat", "aud", "auth_time", "iss", "jti")
    texts = [_without_nan({name: c.get(name) for name in listed}) for c in (one, other)]
    found = [guest_channel(c, listed, K.encode()) for c in (one, other)]
    assert (found[0] == found[1]) is (texts[0] == texts[1])
    assert found[0] == guest_channel(dict(reversed(one.items())), listed[::-1], K.encode())


def _without_nan(value: Any) -> str:
    """Write claims as Superset does; NaN and infinities become null."""
    text = json.dumps(value, sort_keys=True)
    parsed = json.loads(text, parse_constant=lambda _: None)
    return json.dumps(parsed, sort_keys=True)


# --- cookies ----------------------------------------------------------------------------------

fragments = st.lists(
    st.sampled_from(
        [
            *(NAME, "=", ";", " ", '"', ",", "\\", "\t", "\x0b", "\x0c", "\x1c", "\x85", "\xa0"),
            *("\xc2\xa0", "\xe2\x80\x83", "a", "evil", "{", "[", "(", "$", "@", "%", "\xe9"),
            *("expires", "Wed, 01-Jan-2030 00:00:00 GMT", "path", "'", ":", "/", "\xef\xbb\xbf"),
        ]
    ),
    max_size=14,
).map("".join)


def readings(text: str) -> set[str]:
    """Return every value of our cookie that any of these readers finds in a header."""
    as_text = text.encode("latin-1").decode("utf-8", "replace")
    found = set(parse_cookie(as_text).getlist(NAME))
    for form in (text, as_text):
        found.update(value for key, value in cookie_parser(form).items() if key == NAME)
        try:
            jar: SimpleCookie = SimpleCookie(form)
        except CookieError:
            continue
        found.update(jar[NAME].value for _ in range(NAME in jar))
    return found


@settings(max_examples=EXAMPLES * 5)
@given(lines=st.lists(fragments | latin, max_size=3))
def test_a_replaced_header_holds_no_other_value(lines: list[str]) -> None:
    """Whoever reads the replaced header finds the fresh token or nothing (design 4)."""
    replaced = replace_cookie(lines, NAME, "fresh")
    assert readings(replaced) <= {"fresh"}
    assert cookie_values([replaced], NAME) == ["fresh"]
    assert replace_cookie([replaced], NAME, "fresh") == replaced


@many
@given(lines=st.lists(fragments | latin, max_size=3))
def test_the_scanner_reads_any_header(lines: list[str]) -> None:
    """At most 8 values and 10 names, none of them with a semicolon (design 9)."""
    found = cookie_values(lines, NAME)
    assert len(found) <= 8
    assert all(";" not in value for value in found)
    listed = cookie_names(lines)
    assert len(listed) <= 10
    assert all(name.isascii() and name.isprintable() and len(name) <= 64 for name in listed)


@many
@given(value=st.text("abcdefXYZ0189-_.", min_size=1, max_size=60), others=st.lists(fragments))
def test_the_scanner_finds_our_cookie_among_any_others(value: str, others: list[str]) -> None:
    """Whatever else came in the header, before or after, ours is read (design 9)."""
    around = "; ".join([*others[:4], f"{NAME}={value}", *others[4:8]])
    found = cookie_values([around], NAME)
    assert value in found or len(found) == 8


@many
@given(
    pairs=st.lists(
        st.tuples(
            st.sampled_from(["Vary", "vary", "Cache-Control", "Set-Cookie", "X-A"]),
            st.text("ab,* =", max_size=9),
        )
    )
)
def test_headers_with_our_cookie_are_always_private(pairs: list[tuple[str, str]]) -> None:
    """One Cache-Control, one Vary that names Cookie or *, the app's cookies kept (case 102)."""
    changed = with_cookie(pairs, f"{NAME}=x")
    lower = [(name.lower(), value) for name, value in changed]
    assert [v for k, v in lower if k == "cache-control"] == ["private, no-store"]
    (vary,) = [v for k, v in lower if k == "vary"]
    assert {"*", "Cookie"} & {field.strip() for field in vary.split(",")}
    before = [v for k, v in pairs if k == "Set-Cookie"]
    assert [v for k, v in changed if k == "Set-Cookie"] == [*before, f"{NAME}=x"]
    assert vary_on_cookie(vary_on_cookie(pairs)) == vary_on_cookie(pairs)


# --- origins and settings ---------------------------------------------------------------------


@many
@given(origin=latin, host=latin, scheme=st.sampled_from(["http", "https", "ws", "wss"]))
def test_an_origin_of_any_bytes_is_judged(origin: str, host: str, scheme: str) -> None:
    """A refusal or leave, never an exception; the detail is printable and short (design 5)."""
    head = head_of(Ask("POST", "/", [("Host", host), ("Origin", origin)], scheme))
    refusal = refuse_cross_origin(head, CONFIGURED.allowed_origins)
    if refusal is not None:
        assert refusal.detail.isascii()
        assert refusal.detail.isprintable()


@many
@given(
    host=st.from_regex(r"[a-z]{1,9}\.example(:[1-9][0-9]{0,3})?", fullmatch=True),
    other=st.from_regex(r"[a-z]{1,9}\.example(:[1-9][0-9]{0,3})?", fullmatch=True),
)
def test_only_the_own_host_and_port_are_the_same_origin(host: str, other: str) -> None:
    """http://host is let through exactly when it is the Host (RFC 6454 section 5)."""
    head = head_of(Ask("POST", "/", [("Host", host), ("Origin", f"http://{other}")]))
    same = host.removesuffix(":80") == other.removesuffix(":80")
    assert (refuse_cross_origin(head, ()) is None) is same


def settings_or_problems(variables: dict[str, str]) -> Settings | tuple[str, ...]:
    """Return settings, or what is wrong with their variables."""
    try:
        return make_settings(**variables)
    except SettingsError as error:
        return error.problems


@many
@given(
    variables=st.dictionaries(
        st.sampled_from(sorted(set(_fields(CONFIGURED)) - {"warnings", "jwt_secret"})),
        st.text(st.characters(blacklist_characters="\0"), max_size=20)
        | st.sampled_from(["true", "0", "*", "/", "60", "https://a.example", K2, "a.b", "none"]),
        max_size=4,
    )
)
def test_any_environment_gives_settings_or_a_list_of_problems(variables: dict[str, str]) -> None:
    """Never another exception, and the parts of a middleware can be built from what passes."""
    made = settings_or_problems(variables)
    if not isinstance(made, Settings):
        assert made
        assert all(problem.startswith("GAQ_") for problem in made)
        return
    codec = TokenCodec(made)
    guard = Guard(made, Issuer(made, codec, lambda: "random"))
    head = head_of(Ask("GET", POLL, [("Cookie", cookies("x", name=made.cookie_name))], "https"))
    finding = Identifier(made, codec).find(head, NOW, lambda: None)
    if finding.refusal is not None:
        assert guard.refuse(head, finding.refusal, finding, NOW).status == 401
