"""Guest tokens: what is verified, and the channel that their claims give."""

from __future__ import annotations

import hashlib
import hmac
import json
import subprocess
import sys
from typing import Any

import pytest

from gaq_middleware.core.errors import Refusal
from gaq_middleware.core.guests import GuestVerifier, guest_channel
from gaq_middleware.core.identities import GuestIdentity
from tests.helpers import (
    GUEST,
    K2,
    NOW,
    K,
    forge,
    guest_claims,
    guest_settings,
    guest_token,
)

LONG = "a-long-secret-of-the-guests-0123456789-abcdefghijklmnopqrstuvwxyz"
DEFAULT = ("user", "resources", "rls_rules", "datasets", "rev", "iat", "exp", "aud")
SUPERSET = ("user", "resources", "datasets", "rev", "iat", "exp", "aud")
LASTING = ("user", "resources", "rls_rules", "datasets", "rev", "aud", "jti")


def verdict(raw: str, **variables: str) -> str:
    """Return "valid", or the code of the refusal."""
    found = GuestVerifier(guest_settings(**variables)).verify(raw, NOW)
    return found.code if isinstance(found, Refusal) else "valid"


def guest_of(raw: str, **variables: str) -> GuestIdentity:
    """Return the guest of a token that must be valid."""
    found = GuestVerifier(guest_settings(**variables)).verify(raw, NOW)
    assert isinstance(found, GuestIdentity), found
    return found


def channel(names: tuple[str, ...] = DEFAULT, /, **changes: Any) -> str:
    """Return the channel of a guest token with changed claims."""
    return guest_channel(guest_claims(**changes), names, K.encode())


# --- verification -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(guest_token(), "valid", id="a good one"),
        pytest.param(guest_token(iat=...), "valid", id="without iat"),
        pytest.param(guest_token(user={}), "valid", id="case 4: a user without an id, or anything"),
        pytest.param(guest_token(aud=["x", "superset"]), "valid", id="one of several audiences"),
        pytest.param(guest_token(sub=7, jti=8), "valid", id="claims nobody asked for"),
        pytest.param(guest_token(exp=...), "guest_claims", id="without exp"),
        pytest.param(guest_token(exp="1"), "guest_claims", id="an exp that is text"),
        pytest.param(guest_token(aud=...), "guest_claims", id="without an audience"),
        pytest.param(guest_token(aud=None), "guest_claims", id="a null audience"),
        pytest.param(guest_token(aud="other"), "guest_claims", id="another audience"),
        pytest.param(guest_token(aud=7), "guest_claims", id="an audience that is a number"),
        pytest.param(guest_token(aud=[7]), "guest_claims", id="a list with a number"),
        pytest.param(guest_token(aud="superset2"), "guest_claims", id="an audience that is longer"),
        pytest.param(guest_token(type=...), "guest_claims", id="without a type"),
        pytest.param(guest_token(type="user"), "guest_claims", id="another type"),
        pytest.param(guest_token(user=...), "guest_claims", id="without a user"),
        pytest.param(guest_token(user="bob"), "guest_claims", id="a user that is text"),
        pytest.param(guest_token(user=None), "guest_claims", id="a null user"),
        pytest.param(guest_token(resources={}), "guest_claims", id="resources that are no list"),
        pytest.param(guest_token(rls_rules=...), "guest_claims", id="without rules"),
        pytest.param(guest_token(rls_rules=None), "guest_claims", id="null rules"),
        pytest.param(guest_token(exp=NOW - 10), "guest_expired", id="expired by the leeway"),
        pytest.param(guest_token(exp=NOW - 9.9), "valid", id="expired within the leeway"),
        pytest.param(guest_token(iat=NOW + 10.1), "guest_claims", id="minted in the future"),
        pytest.param(guest_token(nbf=NOW + 11), "guest_claims", id="not valid yet"),
        pytest.param(guest_token(secret=K), "guest_signature", id="signed with the JWT secret"),
        pytest.param("", "guest_malformed", id="nothing"),
        pytest.param("a.b.c", "guest_malformed", id="no JWT"),
        pytest.param(forge([], GUEST), "guest_malformed", id="signed, but no object"),
    ],
)
def test_verdicts(raw: str, expected: str) -> None:
    """Required exp, aud, type, user, resources, rls_rules, else guest_claims (design 4)."""
    assert verdict(raw) == expected


def test_any_audience_may_be_allowed() -> None:
    """`*`: not checked (design 3)."""
    for audience in ("other", 7, ...):
        assert verdict(guest_token(aud=audience), guest_audience="*") == "valid"


@pytest.mark.parametrize(
    ("algorithm", "digest"), [("HS256", "sha256"), ("HS384", "sha384"), ("HS512", "sha512")]
)
def test_the_configured_algorithm_and_no_other(algorithm: str, digest: str) -> None:
    """Exactly the configured algorithm is accepted, whatever the header says (contract 3)."""
    raw = forge(guest_claims(), LONG, header={"alg": algorithm}, digest=digest)
    for configured in ("HS256", "HS384", "HS512"):
        expected = "valid" if configured == algorithm else "guest_malformed"
        assert verdict(raw, guest_secret=LONG, guest_algorithm=configured) == expected


def test_old_guest_secrets_verify() -> None:
    """Further secrets verify (design 3)."""
    assert verdict(guest_token(secret=K2)) == "guest_signature"
    assert verdict(guest_token(secret=K2), guest_verify_secrets=K2) == "valid"


def test_a_token_of_16_kib_is_read_and_a_longer_one_is_not() -> None:
    """At most 16 KiB (design 4)."""
    room = (16_384 - len(guest_token(pad=""))) * 3 // 4
    tokens = [guest_token(pad="x" * (room + n)) for n in range(-9, 9)]
    fits = {verdict(raw) for raw in tokens if len(raw) <= 16_384}
    longer = {verdict(raw) for raw in tokens if len(raw) > 16_384}
    assert (fits, longer) == ({"valid"}, {"guest_malformed"})


def test_a_guest_is_remembered_and_still_expires() -> None:
    """Times are judged on every call (design 9)."""
    verifier, raw = GuestVerifier(guest_settings()), guest_token(exp=NOW + 100)
    assert verifier.verify(raw, NOW) is verifier.verify(raw, NOW + 109)
    late = verifier.verify(raw, NOW + 110)
    assert isinstance(late, Refusal)
    assert late.code == "guest_expired"


def test_nothing_refused_is_remembered() -> None:
    """What does not verify leaves nothing behind (design 9)."""
    verifier = GuestVerifier(guest_settings())
    for raw in (guest_token(secret=K), guest_token(type="user"), "a.b.c", guest_token(exp=...)):
        assert isinstance(verifier.verify(raw, NOW), Refusal)
    assert verifier._remembered._young == {}


def test_the_guest_has_the_claims_and_no_user_id() -> None:
    """User id None; the claims are those of the token (design 4)."""
    guest = guest_of(guest_token())
    assert guest.claims == guest_claims()
    assert guest.user_id is None
    assert guest.channel_id == channel()


@pytest.mark.parametrize(
    ("depth", "expected"),
    [(62, {"valid"}), (63, {"guest_claims"}), (2000, {"guest_claims", "guest_malformed"})],
)
@pytest.mark.parametrize(
    ("opening", "innermost", "closing"), [("[", "", "]"), ('{"":', "1", "}")], ids=["[]", "{}"]
)
def test_claims_are_nested_64_deep_at_most(
    opening: str, innermost: str, closing: str, depth: int, expected: set[str]
) -> None:
    """The same verdict on every Python, and what is valid can be copied (levels 1, 2: around)."""
    nested = opening * depth + innermost + closing * depth
    text = json.dumps(guest_claims(resources=["@"])).replace('"@"', nested)
    raw = forge(text.encode(), GUEST)
    assert verdict(raw) in expected
    if expected == {"valid"}:
        assert guest_of(raw).claims["resources"]


# --- the channel ------------------------------------------------------------------------------


def test_case_7_a_fixed_vector_pins_the_digest() -> None:
    """`guest-` + HMAC-SHA256(channel secret, sorted ASCII JSON of the claims) (contract 3)."""
    message = (
        '{"aud": "superset", "datasets": null, "exp": 1800000290.5, "iat": 1799999989.5, '
        '"resources": [{"id": "d1", "type": "dashboard"}], "rev": null, "rls_rules": [], '
        '"user": {"username": "g"}}'
    )
    digest = hmac.new(K.encode(), message.encode(), hashlib.sha256).hexdigest()
    assert (
        channel()
        == f"guest-{digest}"
        == "guest-bdd2f80b87b111f8ba37cbd6c683a3cb751b646fd436c332c5ad087682b30d35"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"datasets": [1]}, {"datasets": [2]}, id="datasets"),
        pytest.param({"datasets": []}, {}, id="no datasets and datasets not named"),
        pytest.param({"rev": 1}, {"rev": 2}, id="revocation versions"),
        pytest.param({"rev": 0}, {}, id="version 0 and none"),
        pytest.param({"rls_rules": [{"clause": "a"}]}, {"rls_rules": []}, id="rules"),
        pytest.param({"user": {"username": "a"}}, {"user": {"username": "b"}}, id="users"),
        pytest.param({"resources": [1, 2]}, {"resources": [2, 1]}, id="the order of resources"),
        pytest.param({"exp": 5.0}, {"exp": 5}, id="kinds of number"),
        pytest.param({"iat": 5.1}, {"iat": 5.2}, id="times of issue"),
        pytest.param({"aud": "a"}, {"aud": ["a"]}, id="forms of audience"),
    ],
)
def test_case_7_what_differs_has_another_channel(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """Every claim that changes what the guest may see changes the channel (cases 7, 8)."""
    assert channel(**one) != channel(**other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            {"user": {"a": 1, "b": 2}}, {"user": {"b": 2, "a": 1}}, id="the order of keys"
        ),
        pytest.param({"datasets": None}, {}, id="null and absent"),
        pytest.param({"foo": 1}, {"foo": 2}, id="claims not listed"),
        pytest.param({"iat": float("nan")}, {"iat": None}, id="NaN and null"),
        pytest.param({"iat": float("inf")}, {"iat": None}, id="infinity and null"),
    ],
)
def test_what_is_the_same_has_one_channel(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Keys are sorted at every depth, absent is null, NaN and infinities are null (contract 3)."""
    assert channel(**one) == channel(**other)


def test_nan_is_null_at_every_depth() -> None:
    """The serialiser of Superset writes NaN and infinities as null (contract 3)."""
    odd = {"resources": [{"a": [float("-inf"), 1.5, {"b": float("nan")}]}]}
    even = {"resources": [{"a": [None, 1.5, {"b": None}]}]}
    assert channel(**odd) == channel(**even)


def test_case_8_rules_count_by_default_and_not_in_supersets_list() -> None:
    """Rules are part of the digest by default; with Superset's list guests share (case 8)."""
    one, other = {"rls_rules": [{"clause": "a"}]}, {"rls_rules": [{"clause": "b"}]}
    assert channel(DEFAULT, **one) != channel(DEFAULT, **other)
    assert channel(SUPERSET, **one) == channel(SUPERSET, **other)


def test_case_10_the_channel_can_outlive_the_renewal_of_the_token() -> None:
    """Without iat and exp in the list, a renewed token has the same channel (case 10)."""
    first, second = {"iat": 1000, "exp": 1300}, {"iat": 1290, "exp": 1590}
    assert channel(LASTING, jti="x", **first) == channel(LASTING, jti="x", **second)
    assert channel(LASTING, jti="x", **first) != channel(LASTING, jti="y", **first)
    assert channel(DEFAULT, **first) != channel(DEFAULT, **second)


def test_case_73_fractional_times_give_one_channel_in_every_process() -> None:
    """Floats are written the same everywhere (case 73)."""
    claims = guest_claims(iat=1734112254.027939, exp=1734112554.027939)
    code = (
        "import json, sys\n"
        "from gaq_middleware.core.guests import guest_channel\n"
        "claims, names, secret = json.loads(sys.argv[1])\n"
        "print(guest_channel(claims, tuple(names), secret.encode()))"
    )
    arguments = [sys.executable, "-c", code, json.dumps([claims, DEFAULT, K])]
    there = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.strip()
    assert there == guest_channel(claims, DEFAULT, K.encode())


@pytest.mark.parametrize(
    ("variables", "moves"),
    [
        pytest.param({"jwt_secret": K2}, True, id="the JWT secret"),
        pytest.param({"channel_secret": K2}, True, id="the channel secret"),
        pytest.param({"jwt_secret": K2, "channel_secret": K}, False, id="pinned while rotating"),
        pytest.param({"guest_verify_secrets": K2}, False, id="guest secrets"),
        pytest.param({"stream_prefix": "other-"}, False, id="the stream prefix"),
    ],
)
def test_what_the_channel_of_a_guest_depends_on(variables: dict[str, str], moves: bool) -> None:
    """The key is the channel secret, not the guest secret (contract 3)."""
    assert (guest_of(guest_token(), **variables).channel_id != channel()) is moves
