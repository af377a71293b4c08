"""What Superset itself does with tokens and guests, from `vectors.json`, and where we differ.

We differ from Superset 6.1 in four places (design 4): a token without exp is refused unless the
setting says so, a channel that is no text is refused, a null sub is read as none, a guest token
without exp is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import jwt
import pytest

from gaq_middleware.core.cookies import CookieWriter
from gaq_middleware.core.errors import Refusal
from gaq_middleware.core.guests import GuestVerifier, guest_channel
from gaq_middleware.core.identities import GuestIdentity
from gaq_middleware.core.tokens import Claims, TokenCodec
from tests.helpers import NOW, forge, guest_claims, make_settings, read_claims

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "vectors.json").read_text(encoding="utf-8")
)["vectors"]
CLAIMS = {
    "2026-06": "user,resources,iat,exp,aud",
    "2026-08": "user,resources,datasets,rev,iat,exp,aud",
}
"""The claims in the channel, by revision (contract 3)."""
EXPIRED_OR_FORGED = {
    "cookie-expired": "token_expired",
    "cookie-wrong-secret": "token_signature",
}


def vectors(kind: str) -> list[Any]:
    """Return the vectors of a kind, by their names."""
    found = [pytest.param(v, id=v["name"]) for v in VECTORS if v["kind"] == kind]
    assert found, kind
    return found


def guest_of(raw: str, secret: str, guest_secret: str, **variables: str) -> GuestIdentity | Refusal:
    """Verify a guest token with the secrets of a vector."""
    settings = make_settings(
        jwt_secret=secret,
        guest_secret=guest_secret,
        guest_audience="superset-vectors",
        **variables,
    )
    return GuestVerifier(settings).verify(raw, NOW)


@pytest.mark.parametrize("vector", vectors("cookie_parse"))
def test_cookies_of_superset_are_read_as_it_reads_them(vector: dict[str, Any]) -> None:
    """With `GAQ_JWT_REQUIRE_EXP=false`; only the null sub is read, where Superset refuses it."""
    settings = make_settings(jwt_secret=vector["input"]["secret"], jwt_require_exp="false")
    found = TokenCodec(settings).verify(vector["input"]["token"], NOW)
    expected = EXPIRED_OR_FORGED.get(vector["name"])
    if expected is not None:
        assert not vector["expected"]["accepted"]
        assert isinstance(found, Refusal)
        assert found.code == expected
        return
    assert isinstance(found, Claims)
    claims = read_claims(vector["input"]["token"])
    assert found.channel == vector["expected"].get("channel", claims["channel"])
    assert found.subject == claims.get("sub")
    is_null = "sub" in claims and claims["sub"] is None
    assert found.needs_reissue is is_null
    assert vector["expected"]["accepted"] is not is_null


@pytest.mark.parametrize("vector", vectors("cookie_parse"))
def test_cookies_of_superset_6_1_never_expire_so_they_are_refused(vector: dict[str, Any]) -> None:
    """`exp` is required unless the setting says otherwise (design 4, case 24)."""
    settings = make_settings(jwt_secret=vector["input"]["secret"])
    found = TokenCodec(settings).verify(vector["input"]["token"], NOW)
    assert isinstance(found, Refusal)
    assert found.code == EXPIRED_OR_FORGED.get(vector["name"], "token_claims")


@pytest.mark.parametrize("channel", [123, None, True, ["a"], {"a": 1}], ids=repr)
def test_a_channel_that_superset_would_format_is_refused(channel: object) -> None:
    """6.1 reads stream async-events-123 or -None; here a channel is text (design 4)."""
    raw = forge({"channel": channel, "exp": NOW + 60})
    found = TokenCodec(make_settings()).verify(raw, NOW)
    assert isinstance(found, Refusal)
    assert found.code == "token_claims"


@pytest.mark.parametrize("vector", vectors("cookie_issue"))
def test_the_cookie_we_issue_has_all_that_superset_issues(vector: dict[str, Any]) -> None:
    """Its claims, header and attributes; beside them exp, auth_time, kid and Max-Age (design 4)."""
    given, expected = vector["input"], vector["expected"]
    settings = make_settings(
        jwt_secret=given["secret"],
        cookie_secure=str(given["secure"]),
        cookie_samesite=given["samesite"],
    )
    codec, user = TokenCodec(settings), str(given["user_id"])
    issued = codec.issue(codec.user_channel(user), user, NOW)
    claims = read_claims(issued.raw)
    assert set(claims) - {"exp", "auth_time"} == set(expected["claims"])
    assert claims["sub"] == expected["claims"]["sub"]
    header = jwt.get_unverified_header(issued.raw)
    assert header.pop("kid") == codec.key_ids[0]
    assert header == expected["jwt_header"]
    line = CookieWriter(settings).write(issued.raw, issued.max_age, https=False)
    attributes = set(line.split("; ")[1:])
    assert attributes - {"Max-Age=3600"} == set(expected["cookie_attributes"])


@pytest.mark.parametrize("vector", vectors("guest_verify"))
def test_guest_tokens_of_superset_are_judged_as_it_judges_them(vector: dict[str, Any]) -> None:
    """Accepted or not; the claims are the very ones, floats and all (contract 3)."""
    given = vector["input"]
    found = guest_of(
        given["token"],
        "vector-secret-one-0123456789abcdef",
        given["secret"],
        guest_algorithm=given["algorithm"],
    )
    if vector["expected"]["accepted"]:
        assert isinstance(found, GuestIdentity)
        assert json.dumps(found.claims) == json.dumps(given["claims"])
    else:
        assert isinstance(found, Refusal)
        assert found.code == "guest_claims"


def test_a_guest_token_without_exp_is_refused() -> None:
    """6.1 accepts it for ever (design 4)."""
    secret = "guest-jwt-secret-for-vectors-0123456789ab"
    raw = forge(guest_claims(exp=..., aud="superset-vectors"), secret)
    found = guest_of(raw, "vector-secret-one-0123456789abcdef", secret)
    assert isinstance(found, Refusal)
    assert found.code == "guest_claims"


@pytest.mark.parametrize("vector", vectors("guest_channel"))
def test_the_channels_of_guests_are_those_of_superset(vector: dict[str, Any]) -> None:
    """From the claims, and from the token by the whole way of a request (contract 3)."""
    given, expected = vector["input"], vector["expected"]
    names, secret = CLAIMS[vector["revision"]], given["async_jwt_secret"]
    channel = expected["channel"]
    assert guest_channel(given["claims"], tuple(names.split(",")), secret.encode()) == channel
    assert guest_channel(given["claims"], tuple(names.split(",")[::-1]), secret.encode()) == channel
    found = guest_of(
        given["guest_token"], secret, given["guest_secret"], guest_channel_claims=names
    )
    assert isinstance(found, GuestIdentity)
    assert found.channel_id == channel
    assert make_settings().stream_prefix + channel == expected["stream"]


@pytest.mark.parametrize("vector", vectors("guest_channel"))
def test_the_messages_of_the_vectors_give_their_channels(vector: dict[str, Any]) -> None:
    """The vectors agree with themselves: HMAC-SHA256 of the message (contract 3)."""
    message = vector["expected"]["hmac_message"].encode()
    key = vector["input"]["async_jwt_secret"].encode()
    digest = hmac.new(key, message, hashlib.sha256).hexdigest()
    assert vector["expected"]["channel"] == f"guest-{digest}"
