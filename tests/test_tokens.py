"""Tokens: what is issued and verified, derived channels, and the memory of what was verified."""

from __future__ import annotations

import math
from base64 import urlsafe_b64decode
from typing import Any

import jwt
import pytest

from gaq_middleware.core.errors import Refusal
from gaq_middleware.core.tokens import (
    Claims,
    Remembered,
    TokenCodec,
    TokenError,
    Window,
    is_channel,
    is_user_id,
    key_id,
    read_jws,
    read_window,
)
from tests.helpers import K2, NOW, K, b64, forge, make_settings, read_claims, token


def codec(**variables: str) -> TokenCodec:
    """Return the codec of settings."""
    return TokenCodec(make_settings(**variables))


def verdict(raw: str, now: float = NOW, **variables: str) -> str:
    """Return "valid", or the code of the refusal."""
    found = codec(**variables).verify(raw, now)
    return found.code if isinstance(found, Refusal) else "valid"


def claims_of(raw: str, **variables: str) -> Claims:
    """Return the claims of a token that must be valid."""
    found = codec(**variables).verify(raw, NOW)
    assert isinstance(found, Claims), found
    return found


# --- reading ----------------------------------------------------------------------------------


def test_a_good_token_gives_its_claims() -> None:
    """channel, sub, exp and auth_time are read as they are (design 4)."""
    assert claims_of(token(3000)) == Claims(
        channel="c1",
        subject="7",
        window=Window(-math.inf, NOW + 3000),
        auth_time=NOW,
        needs_reissue=False,
    )


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(token(), "valid", id="a good one"),
        pytest.param(token(sub=...), "valid", id="without sub: anonymous"),
        pytest.param(token(aud=""), "valid", id="an empty audience"),
        pytest.param(token(iss="x", jti=7, foo=[1]), "valid", id="claims nobody asked for"),
        pytest.param(token(exp=...), "token_claims", id="case 24: without exp"),
        pytest.param(token(channel=...), "token_claims", id="without channel"),
        pytest.param(token(channel="full"), "token_claims", id="a reserved channel"),
        pytest.param(token(sub=""), "token_claims", id="an empty sub"),
        pytest.param(token(sub=7.0), "token_claims", id="a sub that is a fraction"),
        pytest.param(token(sub=True), "token_claims", id="a sub that is a boolean"),
        pytest.param(token(sub="a\nb"), "token_claims", id="a sub with a line break"),
        pytest.param(token(aud="other"), "token_claims", id="an audience"),
        pytest.param(token(auth_time="now"), "token_claims", id="an auth_time that is text"),
        pytest.param(token(nbf=None), "token_claims", id="a null nbf"),
        pytest.param(token(secret=K2), "token_signature", id="another key"),
        pytest.param("", "token_malformed", id="nothing"),
        pytest.param("a.b", "token_malformed", id="two parts"),
        pytest.param("a.b.c.d.e", "token_malformed", id="five parts"),
        pytest.param("a.b.c", "token_malformed", id="three parts of nothing"),
        pytest.param(token() + "\n", "token_malformed", id="a line break after it"),
        pytest.param("é" + token(), "token_malformed", id="a letter outside ASCII"),
        pytest.param(forge({}, header={"alg": "none"}), "token_malformed", id="case 69: none"),
        pytest.param(forge([1, 2]), "token_malformed", id="signed, but no object"),
        pytest.param(forge(b"{"), "token_malformed", id="signed, but no JSON"),
    ],
)
def test_verdicts(raw: str, expected: str) -> None:
    """Each refusal has the code of design 5."""
    assert verdict(raw) == expected


@pytest.mark.parametrize(
    ("raw", "subject", "needs_reissue"),
    [
        pytest.param(token(), "7", False, id="text"),
        pytest.param(token(sub=...), None, False, id="none"),
        pytest.param(token(sub=None), None, True, id="null, as Superset 6.1 issues it"),
        pytest.param(token(sub=7), "7", True, id="case 71: a number"),
        pytest.param(token(sub=0), "0", True, id="zero is an id"),
        pytest.param(token(sub="0"), "0", False, id="zero as text"),
    ],
)
def test_case_71_old_subjects_are_read_kindly(
    raw: str, subject: str | None, needs_reissue: bool
) -> None:
    """A null sub means none, an integer its text; both are re-issued right (design 4, 71)."""
    claims = claims_of(raw)
    assert (claims.subject, claims.needs_reissue) == (subject, needs_reissue)


@pytest.mark.parametrize(
    ("claims", "auth_time"),
    [
        pytest.param({"auth_time": 5, "iat": 3}, 5.0, id="auth_time"),
        pytest.param({"auth_time": ..., "iat": 3.5}, 3.5, id="else iat"),
        pytest.param({"auth_time": ...}, None, id="else unknown"),
    ],
)
def test_when_the_user_logged_in(claims: dict[str, Any], auth_time: float | None) -> None:
    """A token without auth_time counts from iat, else from now (design 4)."""
    assert claims_of(token(**claims)).auth_time == auth_time


def test_case_24_exp_may_be_left_out_only_by_a_setting() -> None:
    """`GAQ_JWT_REQUIRE_EXP=false` accepts what Superset 6.1 issues (design 3, case 24)."""
    eternal = token(exp=...)
    assert verdict(eternal, jwt_require_exp="false") == "valid"
    assert verdict(eternal, now=NOW + 1e9, jwt_require_exp="false") == "valid"
    assert verdict(token(-61), jwt_require_exp="false") == "token_expired"


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param({"exp": NOW - 61}, "token_expired", id="case 66: long ago"),
        pytest.param({"exp": NOW - 10}, "token_expired", id="as long ago as the leeway"),
        pytest.param({"exp": NOW - 9.9}, "valid", id="within the leeway"),
        pytest.param({"nbf": NOW + 10}, "valid", id="nbf ahead by the leeway"),
        pytest.param({"nbf": NOW + 10.1}, "token_claims", id="nbf ahead by more"),
        pytest.param({"iat": NOW + 10}, "valid", id="iat ahead by the leeway"),
        pytest.param({"iat": NOW + 10.1}, "token_claims", id="iat ahead by more"),
        pytest.param({"iat": NOW + 99, "nbf": 0}, "token_claims", id="the later of nbf and iat"),
        pytest.param({"iat": NOW + 99, "exp": 0}, "token_expired", id="expired before it begins"),
    ],
)
def test_case_66_times_allow_the_leeway_and_no_more(
    claims: dict[str, float], expected: str
) -> None:
    """Exp, nbf and iat are judged with the leeway, by the clock given (RFC 7519 4.1, case 66)."""
    assert verdict(forge({"channel": "c1", "exp": NOW + 9, **claims})) == expected


def test_case_141_old_secrets_verify_and_the_current_one_signs() -> None:
    """A token of an old secret is valid and wants to be re-issued (case 141)."""
    assert verdict(token(), jwt_secret=K2) == "token_signature"
    assert claims_of(token(), jwt_secret=K2, jwt_verify_secrets=K).needs_reissue
    assert not claims_of(token(), jwt_verify_secrets=K2).needs_reissue


def test_a_token_of_the_largest_size_is_read_and_one_byte_more_is_not() -> None:
    """At most 4 KiB (design 4)."""
    room = (4096 - len(token(pad=""))) * 3 // 4
    sizes = {len(raw): verdict(raw) for n in range(-9, 9) if (raw := token(pad="x" * (room + n)))}
    assert sizes[4096] == "valid"
    assert {code for size, code in sizes.items() if size <= 4096} == {"valid"}
    assert {code for size, code in sizes.items() if size > 4096} == {"token_malformed"}


def test_any_audience_may_be_allowed() -> None:
    """`*` is no audience check; None means the token must name none."""
    raw = forge({"aud": "x"})
    assert read_jws(raw, (K.encode(),), "HS256", "*") == ({"aud": "x"}, 0)
    assert read_jws(raw, (K2.encode(), K.encode()), "HS256", "x") == ({"aud": "x"}, 1)
    for audience in (None, "y"):
        with pytest.raises(TokenError, match="claims"):
            read_jws(raw, (K.encode(),), "HS256", audience)


@pytest.mark.parametrize(
    "value",
    ["1", None, True, [], {}, math.nan, math.inf, -math.inf, 10**400],
    ids=["text", "null", "boolean", "list", "object", "NaN", "inf", "-inf", "too big for a float"],
)
@pytest.mark.parametrize("name", ["exp", "nbf", "iat"])
def test_times_are_finite_numbers(name: str, value: Any) -> None:
    """A NumericDate is a JSON number (RFC 7519 section 2)."""
    with pytest.raises(TokenError, match="claims"):
        read_window({"exp": 1, name: value}, require_exp=True)


def test_the_window_of_a_token() -> None:
    """Its exp ends it; the later of nbf and iat begins it; what is missing does not limit."""
    assert read_window({"exp": 9, "nbf": 2, "iat": 3.5}, require_exp=True) == Window(3.5, 9.0)
    assert read_window({}, require_exp=False) == Window(-math.inf, math.inf)
    with pytest.raises(TokenError, match="claims"):
        read_window({"iat": 1}, require_exp=True)


# --- issuing ----------------------------------------------------------------------------------


def test_an_issued_token_has_exactly_these_claims() -> None:
    """channel, exp, auth_time, sub; the header names the key; no iat (design 4)."""
    issued = codec().issue("c1", "7", NOW + 0.9)
    assert read_claims(issued.raw) == {
        "channel": "c1",
        "sub": "7",
        "exp": NOW + 3600,
        "auth_time": NOW,
    }
    assert jwt.get_unverified_header(issued.raw) == {
        "alg": "HS256",
        "typ": "JWT",
        "kid": key_id(K.encode()),
    }
    assert (issued.channel, issued.subject) == ("c1", "7")
    assert (issued.expires_at, issued.max_age) == (NOW + 3600, 3600)


def test_case_1_an_anonymous_token_has_no_sub_at_all() -> None:
    """The sub is left out when there is no user id (case 1)."""
    raw = codec().issue("c1", None, NOW).raw
    assert "sub" not in read_claims(raw)
    assert claims_of(raw).subject is None


def test_an_issued_token_never_outlives_the_maximum_age() -> None:
    """A new exp never passes auth_time + the maximum age (design 3)."""
    issued = codec(jwt_max_age_seconds="5000").issue("c1", "7", NOW, NOW - 4000.7)
    assert read_claims(issued.raw)["exp"] == NOW + 999
    assert read_claims(issued.raw)["auth_time"] == NOW - 4001
    assert issued.max_age == 999


def test_the_current_secret_signs() -> None:
    """Issuing never uses a verify-only secret (case 141)."""
    issued = codec(jwt_secret=K2, jwt_verify_secrets=K).issue("c1", "7", NOW)
    assert verdict(issued.raw, jwt_secret=K2) == "valid"
    assert verdict(issued.raw) == "token_signature"


def test_pyjwt_alone_reads_what_we_issue() -> None:
    """Superset's verifier (PyJWT, no leeway, no options) accepts our tokens (contract 2)."""
    raw = codec().issue("c1", "7", 4e9).raw
    assert jwt.decode(raw, K, algorithms=["HS256"])["channel"] == "c1"


# --- channels and ids -------------------------------------------------------------------------


def test_the_channel_of_a_user_is_pinned() -> None:
    """`user-` + HMAC-SHA256(channel secret, gaq:user:v1 NUL prefix NUL user id) (design 4)."""
    # printf 'gaq:user:v1\0async-events-\0007' | openssl dgst -sha256 -hmac "$K"
    digest = "fcc6483af561324ff540d1381a5795df2acc2aa4dc93e101b84c0d2e2013e23c"
    assert codec().user_channel("7") == f"user-{digest}"


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({"jwt_secret": K2}, id="the secret"),
        pytest.param({"channel_secret": K2}, id="the channel secret"),
        pytest.param({"stream_prefix": "other-"}, id="the stream prefix"),
    ],
)
def test_what_the_channel_of_a_user_depends_on(variables: dict[str, str]) -> None:
    """Another app on the same Redis or secret has other channels (design 4)."""
    assert codec(**variables).user_channel("7") != codec().user_channel("7")


def test_a_pinned_channel_secret_keeps_channels_while_rotating() -> None:
    """`GAQ_CHANNEL_SECRET` set to the old value: channels do not move (design 3)."""
    rotated = codec(jwt_secret=K2, jwt_verify_secrets=K, channel_secret=K)
    assert rotated.user_channel("7") == codec().user_channel("7")


def test_the_derived_channel_is_a_right_channel() -> None:
    """What we derive, our own reader accepts."""
    assert is_channel(codec().user_channel("😀 any id"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("c", True, id="one character"),
        pytest.param("x" * 255, True, id="255 characters"),
        pytest.param("канал-1", True, id="letters of any script"),
        pytest.param("fuller", True, id="a longer name than a reserved one"),
        pytest.param("FULL", True, id="keys of Redis have a case"),
        pytest.param("jobless", True, id="not quite job:"),
        pytest.param("user-guest-1", True, id="guest- elsewhere"),
        pytest.param("x" * 256, False, id="256 characters"),
        pytest.param("", False, id="nothing"),
        pytest.param("a b", False, id="a space"),
        pytest.param("a\u00a0b", False, id="a space of another kind"),
        pytest.param("a\n", False, id="a line break"),
        pytest.param("a\x00", False, id="a NUL"),
        pytest.param("a\ud800", False, id="a lone surrogate"),
        pytest.param("a\u202e", False, id="a mark that turns text around"),
        pytest.param("full", False, id="the firehose"),
        pytest.param("deadlines", False, id="the deadlines"),
        pytest.param("job-cancel:1", False, id="a registry key"),
        pytest.param("job:1", False, id="a job"),
        pytest.param("jobs:c1", False, id="the jobs of a channel"),
        pytest.param("guest-1", False, id="a guest's"),
        pytest.param(None, False, id="null"),
        pytest.param(1, False, id="a number"),
        pytest.param(True, False, id="a boolean"),
        pytest.param(["c1"], False, id="a list"),
        pytest.param({"c1": 1}, False, id="an object"),
    ],
)
def test_what_may_be_a_channel(value: object, expected: bool) -> None:
    """1 to 255 printable characters without space, none of the reserved names (design 4)."""
    assert is_channel(value) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("7", True, id="digits"),
        pytest.param("0", True, id="zero"),
        pytest.param("Zoë 😀", True, id="any text"),
        pytest.param("", False, id="nothing"),
        pytest.param(None, False, id="null"),
        pytest.param(7, False, id="a number"),
        pytest.param("a\x00", False, id="a NUL"),
        pytest.param("a\r\nSet-Cookie: b", False, id="a line break"),
        pytest.param("a\x7f", False, id="a delete character"),
        pytest.param("a\x9f", False, id="a C1 control character"),
        pytest.param("a\ud800", False, id="a lone surrogate"),
    ],
)
def test_what_may_be_a_user_id(value: object, expected: bool) -> None:
    """Not empty, no control characters, no lone surrogates (design 2)."""
    assert is_user_id(value) is expected


def test_case_70_the_fingerprint_of_a_secret() -> None:
    """First 8 hex of HMAC-SHA256(secret, gaq:kid:v1): equal for equal secrets only (case 70)."""
    # printf 'gaq:kid:v1' | openssl dgst -sha256 -hmac "$K"
    assert key_id(K.encode()) == codec().key_ids[0] == "eb73b707"
    assert key_id(K2.encode()) != key_id(K.encode())
    assert codec(jwt_verify_secrets=K2).key_ids == (key_id(K.encode()), key_id(K2.encode()))


# --- the memory -------------------------------------------------------------------------------


def test_what_was_verified_is_remembered() -> None:
    """The same token gives the very same claims, without being read again (design 9)."""
    one, raw = codec(), token()
    assert one.verify(raw, NOW) is one.verify(raw, NOW + 1)


def test_a_remembered_token_still_expires() -> None:
    """Times are judged on every call, also after a refusal (design 9)."""
    one, raw = codec(), token(100)
    verdicts = [one.verify(raw, NOW + seconds) for seconds in (0, 109, 110, 0)]
    assert [isinstance(found, Claims) for found in verdicts] == [True, True, False, True]


def test_the_memory_drops_the_older_generation_whole() -> None:
    """Two generations; what is used moves to the younger one."""
    memory: Remembered[int] = Remembered(entries=2)
    for number, raw in enumerate("ab"):
        memory.put(raw, number)
    memory.put("c", 2)  # a and b are old now
    assert [memory.get(raw) for raw in "abc"] == [0, 1, 2]  # a moves up; b pushes them down
    memory.put("d", 3)  # and a, which nobody asked for again, is gone
    assert [memory.get(raw) for raw in "abcd"] == [None, 1, 2, 3]


def test_the_size_of_the_memory() -> None:
    """Two generations of 4,096 tokens, and of 8 MiB (design 9)."""
    memory: Remembered[int] = Remembered()
    assert (memory._entries, memory._size) == (4096, 8 * 1024 * 1024)


def test_the_memory_is_bounded_in_entries() -> None:
    """Never more than twice the entries of a generation."""
    memory: Remembered[int] = Remembered(entries=10)
    for number in range(1000):
        memory.put(str(number), number)
        assert len(memory._young) <= 10
        assert len(memory._old) <= 10
    assert memory.get("999") == 999


def test_the_memory_is_bounded_in_bytes() -> None:
    """Never more than twice the bytes of a generation."""
    memory: Remembered[int] = Remembered(size=100)
    for number in range(1000):
        memory.put(f"{number:030}", number)
        assert sum(map(len, memory._young)) <= 100
        assert sum(map(len, memory._old)) <= 100
    assert memory.get(f"{999:030}") == 999


def test_the_signature_is_compared_as_it_is_written() -> None:
    """A part that decodes alike but is spelled otherwise is another token (RFC 7515 section 2)."""
    head, payload, signature = token().split(".")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    other = signature[:-1] + alphabet[alphabet.index(signature[-1]) + 1]
    assert urlsafe_b64decode(other + "=") == urlsafe_b64decode(signature + "=")
    assert verdict(f"{head}.{payload}.{other}") == "token_malformed"
    assert verdict(f"{head}.{payload}.{signature}=") == "token_malformed"
    assert verdict(f"{head}.{b64(b'{}')}.{signature}") == "token_signature"
