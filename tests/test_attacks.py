"""One test per known attack on tokens, cookies and headers; each fails closed, without noise."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
import logging
from collections.abc import Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Any

import pytest
from starlette.requests import cookie_parser
from werkzeug.sansio.http import parse_cookie

from gaq_middleware import ForbiddenError, asgi, current, wsgi
from gaq_middleware.core.cookies import replace_cookie
from gaq_middleware.core.errors import Refusal
from gaq_middleware.core.guests import GuestVerifier
from gaq_middleware.core.tokens import TokenCodec
from tests.helpers import (
    GUEST,
    K2,
    NOW,
    POLL,
    Answer,
    Ask,
    K,
    Site,
    ask,
    b64,
    call_asgi,
    call_wsgi,
    cookies,
    forge,
    guest_claims,
    guest_settings,
    guest_token,
    make_settings,
    read_claims,
    token,
)

FACES = ["asgi", "wsgi"]
JSON = [("Content-Type", "application/json")]
CLAIMS: dict[str, Any] = {"channel": "c1", "sub": "7", "exp": NOW + 3000, "auth_time": NOW}
NAME = "async-token"
PUBLIC_KEY = (
    "-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAMYJ9kq0pZ1u4CkM0Gq8l7a7bT1nqf2s"
    "\nXg0VvGkGmJk5mHh3x0v0a9q7nqk4i5p2r1J0qz6vX3m2Yw8C6Xn0p0cCAwEAAQ==\n-----END PUBLIC KEY-----"
)


def verdict(raw: str) -> str:
    """Return what the verifier says of a token; what is not signed right leaves nothing behind."""
    codec = TokenCodec(make_settings())
    found = codec.verify(raw, NOW)
    code = found.code if isinstance(found, Refusal) else "valid"
    assert code == "valid" or not codec._remembered._young or raw == forge_again(raw)
    return code


def forge_again(raw: str) -> str:
    """Return a token signed once more with our key and hash."""
    header, claims, _ = (base64.urlsafe_b64decode(part + "==") for part in raw.split("."))
    return forge(claims, header=header)


def guest_verdict(raw: str) -> str:
    """Return what the verifier says of a guest token."""
    found = GuestVerifier(guest_settings()).verify(raw, NOW)
    return found.code if isinstance(found, Refusal) else "valid"


def with_header(header: Any, digest: str = "sha256", secret: str = K) -> str:
    """Return a token of good claims with any header."""
    return forge(CLAIMS, secret, header=header, digest=digest)


def with_claims(text: str) -> str:
    """Return a token with the right signature over any text."""
    return forge(text.encode())


def unsigned(header: Any) -> str:
    """Return a token of good claims without a signature."""
    return f"{b64(json.dumps(header).encode())}.{b64(json.dumps(CLAIMS).encode())}."


# --- the header of the token ------------------------------------------------------------------


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", ""])
def test_alg_none(alg: str) -> None:
    """A token that says it needs no signature (RFC 8725 section 2.1; case 69)."""
    assert verdict(unsigned({"alg": alg})) == "token_malformed"
    assert verdict(unsigned({"alg": alg}) + "AA") == "token_malformed"
    assert verdict(with_header({"alg": alg})) == "token_malformed"


@pytest.mark.parametrize("header", [{}, {"typ": "JWT"}, {"alg": None}, {"alg": ["HS256"]}, [], 7])
def test_missing_alg(header: Any) -> None:
    """A header without an algorithm, though the signature is right (RFC 7515 section 4.1.1)."""
    assert verdict(with_header(header)) == "token_malformed"
    assert verdict(with_header(header, secret=K2)) == "token_malformed"


@pytest.mark.parametrize(("alg", "digest"), [("HS384", "sha384"), ("HS512", "sha512")])
def test_another_hash(alg: str, digest: str) -> None:
    """HS256 only, whatever the header says, with our own key too (case 69)."""
    assert verdict(with_header({"alg": alg}, digest)) == "token_malformed"
    assert verdict(with_header({"alg": "HS256"}, digest)) == "token_signature"
    assert verdict(with_header({"alg": alg})) == "token_malformed"


@pytest.mark.parametrize("alg", ["RS256", "ES256", "PS256", "EdDSA"])
def test_public_key_confusion(alg: str) -> None:
    """An HMAC under a public key, or our HMAC under another name (RFC 8725 section 2.1)."""
    assert verdict(with_header({"alg": alg})) == "token_malformed"
    assert verdict(with_header({"alg": alg}, secret=PUBLIC_KEY)) == "token_malformed"
    assert verdict(with_header({"alg": "HS256"}, secret=PUBLIC_KEY)) == "token_signature"


@pytest.mark.parametrize(
    "kid",
    ["../../dev/null", "' UNION SELECT 'k' --", "| id", "\x00", "http://evil.example/k", "x" * 900],
)
def test_kid_injection(kid: str) -> None:
    """The kid never chooses a key: ours verifies, another does not (RFC 8725 section 3.10)."""
    assert verdict(with_header({"alg": "HS256", "kid": kid})) == "valid"
    for secret in ("", "\0", K2):
        assert (
            verdict(with_header({"alg": "HS256", "kid": kid}, secret=secret)) == "token_signature"
        )


@pytest.mark.parametrize("kid", [7, None, ["k"], {"k": 1}, True], ids=repr)
def test_kid_of_a_wrong_type(kid: Any) -> None:
    """A kid is text (RFC 7515 section 4.1.4); whatever it is, nothing raises."""
    assert verdict(with_header({"alg": "HS256", "kid": kid})) == "token_malformed"


@pytest.mark.parametrize("name", ["jwk", "jku", "x5u", "x5c"])
def test_key_in_the_token(name: str) -> None:
    """Keys that a token brings or points to are not used (RFC 8725 section 3.10)."""
    key = {"kty": "oct", "k": b64(K2.encode())}
    value: Any = {"jwk": key, "jku": "http://evil.example/keys", "x5u": "http://e/x", "x5c": ["x"]}
    assert verdict(with_header({"alg": "HS256", name: value[name]}, secret=K2)) == "token_signature"


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "HS256", "crit": ["b64"], "b64": False},
        {"alg": "HS256", "b64": False},
        {"alg": "HS256", "crit": ["exp"], "exp": 1},
        {"alg": "HS256", "crit": []},
        {"alg": "HS256", "crit": "b64"},
        {"alg": "HS256", "crit": ["unknown"]},
    ],
    ids=json.dumps,
)
def test_crit_and_unencoded_payload(header: Any) -> None:
    """What a token declares critical and nobody understands is refused (RFC 7515 4.1.11)."""
    assert verdict(with_header(header)) == "token_malformed"


def test_unencoded_payload_with_a_signature_over_it() -> None:
    """A b64=false signature over the raw payload is no signature here (RFC 7797)."""
    header = b64(json.dumps({"alg": "HS256", "b64": False, "crit": ["b64"]}).encode())
    payload = json.dumps(CLAIMS)
    assert verdict(f"{header}.{payload}.{b64(b'x' * 32)}") == "token_malformed"


def test_encrypted_token() -> None:
    """A JWE in five parts is none of ours (RFC 7516)."""
    assert verdict(".".join([b64(b'{"alg":"dir","enc":"A256GCM"}'), "", "AA", "AA", "AA"])) == (
        "token_malformed"
    )


@pytest.mark.parametrize("secret", [K, K2], ids=["signed", "unsigned"])
@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_deep_nesting_in_the_header(secret: str, brackets: str) -> None:
    """A header that no reader can follow is a refusal, not a RecursionError."""
    deep = ("[" * 1300 + "]" * 1300) if brackets == "[]" else '{"a":' * 450 + "1" + "}" * 450
    raw = with_header(f'{{"alg":"HS256","x":{deep}}}'.encode(), secret=secret)
    assert len(raw) <= 4096
    code = "valid" if secret == K else "token_signature"
    assert verdict(raw) in {code, "token_malformed"}


@pytest.mark.parametrize("secret", [K, K2], ids=["signed", "unsigned"])
def test_deep_nesting_in_the_payload(secret: str) -> None:
    """A payload that no reader can follow is a refusal, not a RecursionError."""
    text = f'{{"channel":"c1","exp":{NOW + 9},"x":{"[" * 1300}{"]" * 1300}}}'
    raw = forge(text.encode(), secret)
    assert len(raw) <= 4096
    code = "valid" if secret == K else "token_signature"
    assert verdict(raw) in {code, "token_malformed"}


@pytest.mark.parametrize("secret", [GUEST, K2], ids=["signed", "unsigned"])
@pytest.mark.parametrize("name", ["user", "resources", "foo"])
def test_deep_nesting_in_a_guest_token(secret: str, name: str) -> None:
    """Claims that no digest can follow are a refusal, not a RecursionError."""
    claims = json.dumps(guest_claims(foo=1)).replace(
        f'"{name}": ', f'"{name}": {"[" * 5000}{"]" * 5000}, "old": '
    )
    raw = forge(claims.encode(), secret)
    assert len(raw) <= 16_384
    expected = {"guest_signature"} if secret == K2 else {"guest_claims", "guest_malformed"}
    assert guest_verdict(raw) in expected


# --- the claims of the token ------------------------------------------------------------------


@pytest.mark.parametrize("where", ["header", "claims"])
def test_duplicate_keys(where: str) -> None:
    """The last one counts, for us and for every reader of ours (RFC 7519 section 4)."""
    if where == "header":
        twice = b'{"alg":"none","alg":"HS256"}'
        assert verdict(with_header(twice)) == "valid"
        assert verdict(with_header(b'{"alg":"HS256","alg":"none"}')) == "token_malformed"
    else:
        good, bad = f'"exp":{NOW + 9}', f'"exp":{NOW - 99}'
        assert verdict(with_claims(f'{{"channel":"c1",{bad},{good}}}')) == "valid"
        assert verdict(with_claims(f'{{"channel":"c1",{good},{bad}}}')) == "token_expired"


@pytest.mark.parametrize(
    "exp",
    ['"4e9"', '"4000000000"', "true", "null", "[4000000000]", "{}", "Infinity", "-Infinity", "NaN"],
)
def test_exp_that_is_no_number(exp: str) -> None:
    """A NumericDate is a finite JSON number (RFC 7519 section 2)."""
    assert verdict(with_claims(f'{{"channel":"c1","exp":{exp}}}')) == "token_claims"


@pytest.mark.parametrize(
    ("exp", "expected"),
    [
        ("1e308", "valid"),
        ("1e309", "token_claims"),
        ("1" + "0" * 400, "token_claims"),
        ("9" * 2900, "token_claims"),
        ("-1e308", "token_expired"),
        ("-" + "9" * 400, "token_claims"),
        ("0", "token_expired"),
        ("-0.0", "token_expired"),
    ],
    ids=["1e308", "1e309", "ten to the 400th", "2900 nines", "-1e308", "-(1e400)", "0", "-0.0"],
)
def test_exp_of_any_size(exp: str, expected: str) -> None:
    """Numbers beyond a float are refused; none raises."""
    assert verdict(with_claims(f'{{"channel":"c1","exp":{exp}}}')) == expected


def test_exp_far_away_is_renewed_without_harm() -> None:
    """A signed token with the largest times is served, and nothing overflows on the way out."""
    for face in FACES:
        site = Site(face, make_settings(jwt_verify_secrets=K2))
        for name in ("exp", "auth_time"):
            for value in ("1e308", "-1e308", "0"):
                claims = {**CLAIMS, name: "@"}
                raw = forge(json.dumps(claims).replace('"@"', value).encode(), K2)
                answer = site(ask("GET", POLL, Cookie=cookies(raw)))
                assert answer.status in {200, 401}
                assert answer.cookie() != ""


@pytest.mark.parametrize("name", ["nbf", "iat"])
@pytest.mark.parametrize("value", [NOW + 11, NOW + 1e9, 1e308])
def test_token_from_the_future(name: str, value: float) -> None:
    """Not valid yet by more than the leeway (RFC 7519 sections 4.1.5 and 4.1.6)."""
    assert verdict(forge({**CLAIMS, name: value, "exp": 1.1e308})) == "token_claims"


@pytest.mark.parametrize("aud", ["x", ["x"], ["x", "y"], 7, {"a": 1}, True], ids=repr)
def test_token_for_another_audience(aud: Any) -> None:
    """A token of the same key made for others is not for us (RFC 7519 section 4.1.3)."""
    assert verdict(forge({**CLAIMS, "aud": aud})) == "token_claims"


@pytest.mark.parametrize(
    "channel",
    [None, 1, 1.5, True, [], ["c1"], {}, {"c1": 1}, "", " ", "a b", "a\n", "\x00", "x" * 256],
    ids=repr,
)
def test_channel_of_a_wrong_shape(channel: Any) -> None:
    """A channel is 1 to 255 printable characters without space (design 4)."""
    assert verdict(forge({**CLAIMS, "channel": channel})) == "token_claims"


@pytest.mark.parametrize(
    "channel",
    ["full", "deadlines", "job-cancel:1", "job:1", "jobs:c1", "guest-1", "guest-" + "0" * 64],
)
def test_channel_of_a_reserved_name(channel: str) -> None:
    """The firehose, the registry's keys and guests' channels open to no token (contract 9.9)."""
    assert verdict(forge({**CLAIMS, "channel": channel})) == "token_claims"


@pytest.mark.parametrize("sub", [True, False, 1.5, [], ["7"], {}, {"7": 1}, ""], ids=repr)
def test_sub_of_a_wrong_type(sub: Any) -> None:
    """Text, an old integer or an old null; nothing else (design 4)."""
    assert verdict(forge({**CLAIMS, "sub": sub})) == "token_claims"


@pytest.mark.parametrize(
    "sub", ["7\r\nSet-Cookie: a=b", "7\x00", "\x7f", "\x85", "\ud800"], ids=ascii
)
def test_sub_of_control_characters(sub: str) -> None:
    """What could break a log line or a header is no user id (design 2)."""
    assert verdict(forge({**CLAIMS, "sub": sub})) == "token_claims"


# --- the text of the token --------------------------------------------------------------------


def test_trailing_bits_of_the_signature() -> None:
    """Another spelling of the same signature is another token (RFC 4648 section 3.5)."""
    head, _, signature = token().rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "=")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    twins = [signature[:-1] + letter for letter in alphabet if letter != signature[-1]]
    twins = [twin for twin in twins if base64.urlsafe_b64decode(twin + "=") == raw]
    assert len(twins) == 3
    assert {verdict(f"{head}.{twin}") for twin in twins} <= {"token_malformed", "token_signature"}


@pytest.mark.parametrize("position", range(3), ids=["header", "claims", "signature"])
@pytest.mark.parametrize("odd", ["=", "==", "+", "/", " ", "\n", "\t", "\x00", "%3D", "é", "."])
def test_odd_letters_in_a_part(position: int, odd: str) -> None:
    """Padding, white space and other alphabets are no base64url (RFC 7515 section 2)."""
    parts = token().split(".")
    for spelled in (parts[position] + odd, odd + parts[position]):
        changed = [*parts[:position], spelled, *parts[position + 1 :]]
        assert verdict(".".join(changed)) == "token_malformed"


def test_empty_parts() -> None:
    """Each of the three parts must be there."""
    for raw in ("", ".", "..", "...", "a..b", ".a.b", "a.b.", token().rpartition(".")[0] + "."):
        assert verdict(raw) == "token_malformed"


def test_oversized_token() -> None:
    """Above 4 KiB nothing is looked at, however well it is signed (design 4)."""
    assert verdict(forge({**CLAIMS, "x": "x" * 4000})) == "token_malformed"
    assert guest_verdict(guest_token(x="x" * 16_000)) == "guest_malformed"
    assert verdict("." * 1_000_000) == "token_malformed"


# --- the memory of verified tokens ------------------------------------------------------------


def test_memory_poisoning() -> None:
    """Nothing unverified is ever remembered, not even after the true token was (design 9)."""
    codec, good = TokenCodec(make_settings()), token()
    codec.verify(good, NOW)
    for raw in (token(secret=K2), good + "x", good[:-1], "a.b.c", token(exp=...), good.lower()):
        for _ in range(2):
            assert isinstance(codec.verify(raw, NOW), Refusal)
    assert list(codec._remembered._young) == [good]
    assert codec._remembered._old == {}


def test_memory_flooding() -> None:
    """The memory is bounded in entries and bytes, whoever has how many tokens (design 9)."""
    codec = TokenCodec(make_settings())
    memory = codec._remembered
    memory._entries, memory._size = 50, 10_000
    for number in range(200):
        codec.verify(token(sub=str(number)), NOW)
        assert len(memory._young) <= 50
        assert sum(map(len, memory._young)) <= 10_000
        assert len(memory._young) + len(memory._old) <= 100
    codec.verify(token(), NOW)
    assert token() in memory._young


def test_expiry_after_being_remembered() -> None:
    """A remembered token is refused once it has expired, on both faces (design 9; case 33)."""
    for face in FACES:
        site = Site(face, make_settings(jwt_leeway_seconds="0"))
        raw = token(100)
        seen = []
        for seconds in (0, 99, 100, 99):
            site.clock.now = NOW + seconds
            seen.append(site(ask("GET", POLL, Cookie=cookies(raw))).status)
        assert seen == [200, 200, 401, 200]


def test_changed_claims_of_a_guest_stay_the_changers_own() -> None:
    """Claims are handed out as copies: a handler cannot poison the memory (design 9)."""

    def handler(_: Ask) -> tuple[int, list[tuple[str, str]], bytes]:
        identity: Any = current().identity
        identity.claims["user"]["username"] = "admin"
        return 200, JSON, json.dumps(identity.claims["user"]).encode()

    for face in FACES:
        site = Site(face, guest_settings(), handler)
        for _ in range(2):
            answer = site(ask("GET", "/", X_GuestToken=guest_token()))
            assert answer.json() == {"username": "g"}


# --- one secret for the other -----------------------------------------------------------------


def test_guest_token_as_cookie() -> None:
    """Whoever mints guests does not mint users (design 3)."""
    crafted = forge({**guest_claims(), **CLAIMS, "aud": ...} | {"aud": ""}, GUEST)
    for raw in (guest_token(), crafted):
        assert verdict(raw) == "token_signature"


def test_cookie_token_as_guest() -> None:
    """Whoever has a user's token is no guest (design 4)."""
    assert guest_verdict(token()) == "guest_signature"
    assert guest_verdict(forge({**guest_claims(), **CLAIMS}, K)) == "guest_signature"


def test_one_secret_for_both_would_still_not_mix_them() -> None:
    """The claims of either kind are refused as the other, were the secrets ever equal."""
    settings = dataclasses.replace(guest_settings(), guest_secret=K.encode())
    found = TokenCodec(settings).verify(guest_token(secret=K), NOW)
    assert isinstance(found, Refusal)
    assert found.code == "token_claims"
    other = GuestVerifier(settings).verify(token(), NOW)
    assert isinstance(other, Refusal)
    assert other.code == "guest_claims"


# --- cookies ----------------------------------------------------------------------------------


def poll(face: str, *headers: tuple[str, str], **options: Any) -> Answer:
    """Poll with these headers."""
    site = Site(face, make_settings(), **options)
    return site(Ask("GET", POLL, [("Host", "app.example"), *headers]))


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    "values",
    [
        pytest.param(["x", token()], id="bad, good"),
        pytest.param([token(), "x"], id="good, bad"),
        pytest.param(
            [token(secret=K2), token(-99), "", token()], id="forged, expired, empty, good"
        ),
        pytest.param([*["x"] * 7, token()], id="good as the eighth"),
    ],
)
def test_cookie_tossing(face: str, values: list[str]) -> None:
    """Values that do not verify are ignored if one does (design 4)."""
    assert poll(face, ("Cookie", cookies(*values))).status == 200


@pytest.mark.parametrize("face", FACES)
def test_ninth_cookie_value(face: str) -> None:
    """A flood of values costs at most eight verifications (design 4)."""
    answer = poll(face, ("Cookie", cookies(*["x"] * 8, token())))
    assert (answer.status, answer.code) == (401, "token_malformed")


@pytest.mark.parametrize("face", FACES)
def test_tossed_token_of_another_user(face: str) -> None:
    """Two users' tokens and nobody known: 401, never one of them by chance (design 4)."""
    for values in ([token(), token(sub="8", channel="c2")], [token(sub="8"), token()]):
        answer = poll(face, ("Cookie", cookies(*values)))
        assert (answer.status, answer.code) == (401, "token_ambiguous")


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    ("header", "code"),
    [
        pytest.param(f"{NAME}={token()},a=b", "token_malformed", id="after"),
        pytest.param(f"a=b,{NAME}={token()}", "token_missing", id="before"),
        pytest.param(f"{NAME}={token()},{NAME}={token()}", "token_malformed", id="twice"),
    ],
)
def test_comma_joining(face: str, header: str, code: str) -> None:
    """What servers join with commas may cost a 401, never give access (design 9)."""
    answer = poll(face, ("Cookie", header))
    assert (answer.status, answer.code) == (401, code)


@pytest.mark.parametrize("face", FACES)
def test_quoted_value(face: str) -> None:
    """One pair of quotes belongs to the syntax (RFC 6265 section 4.1.1)."""
    assert poll(face, ("Cookie", f'{NAME}="{token()}"')).status == 200
    assert poll(face, ("Cookie", f'{NAME}=""{token()}""')).code == "token_malformed"


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("byte", ["\xe9", "\xff", "\x80", "\x7f", "\x01"])
def test_bytes_that_are_no_text(face: str, byte: str) -> None:
    """A foreign cookie of any bytes does not hide ours; in ours they are malformed (design 9)."""
    for odd in (f"caf{byte}=1", f"a={byte}", byte):
        assert poll(face, ("Cookie", f"{odd}; {NAME}={token()}")).status == 200
        assert poll(face, ("Cookie", f"{NAME}={token()}; {odd}")).status == 200
    assert poll(face, ("Cookie", f"{NAME}={token()}{byte}")).code == "token_malformed"
    assert poll(face, ("X-Async-Token", f"{token()}{byte}")).code == "token_malformed"


@pytest.mark.parametrize("face", FACES)
def test_name_shadowing(face: str) -> None:
    """Only the exact name counts, whatever other parsers fold it to (RFC 6265bis 5.7)."""
    for name in ("Async-Token", "async-token ", "$async-token", '"async-token"', "async_token"):
        answer = poll(face, ("Cookie", f"{name.strip()}x={token()}; X{name}={token()}"))
        assert answer.code == "token_missing"
    for name in ("Async-Token", "\xa0async-token", '"async-token"', "async_token"):
        assert poll(face, ("Cookie", f"{name}={token()}")).code == "token_missing"


# --- the Cookie header that the app gets ------------------------------------------------------


def _utf8(text: str) -> str:
    """Decode a header as WSGI frameworks do."""
    return text.encode("latin-1").decode("utf-8", "replace")


def by_http_cookies(text: str) -> list[str]:
    """Read a header as Bottle does, and everything else on the standard library."""
    try:
        jar: SimpleCookie = SimpleCookie(text)
    except CookieError:
        return []
    return [jar[NAME].value] if NAME in jar else []


def by_werkzeug(text: str) -> list[str]:
    """Read a header as Flask and Quart do."""
    return parse_cookie(_utf8(text)).getlist(NAME)


def by_starlette(text: str) -> list[str]:
    """Read a header as Starlette and FastAPI do."""
    return [value for key, value in cookie_parser(text).items() if key == NAME]


def by_django(text: str) -> list[str]:
    """Read a header as Django does, under WSGI and under ASGI."""
    parse = pytest.importorskip("django.http.cookie").parse_cookie
    return [v for form in (text, _utf8(text)) for k, v in parse(form).items() if k == NAME]


def by_webob(text: str) -> list[str]:
    """Read a header as Pyramid does."""
    parse = pytest.importorskip("webob.cookies").parse_cookie
    return [v.decode("latin-1") for k, v in parse(text) if k == NAME.encode()]


def by_litestar(text: str) -> list[str]:
    """Read a header as Litestar does."""
    parse = pytest.importorskip("litestar._parsers").parse_cookie_string
    return [v for k, v in parse(text).items() if k == NAME]


def by_falcon(text: str) -> list[str]:
    """Read a header as Falcon does."""
    module = pytest.importorskip("falcon.request_helpers")
    found: dict[str, list[str]] = module._parse_cookie_header(text)
    return found.get(NAME, [])


READERS = [
    by_http_cookies,
    by_werkzeug,
    by_starlette,
    by_django,
    by_webob,
    by_litestar,
    by_falcon,
]
TOSSED = [
    f"{NAME}=evil",
    f"a=1; {NAME}=evil; b=2",
    f"{NAME} = evil",
    f"\t{NAME}\t=\tevil",
    f"{NAME}",
    f'"{NAME}"=evil',
    f"a=b {NAME}=evil",
    f"a=b\t{NAME}=evil",
    f"a=b\x0b{NAME}=evil",
    f"a=b\x0c{NAME}=evil",
    f"a b {NAME}=evil",
    f"a=b, {NAME}=evil",
    f"a=b,{NAME}=evil",
    f'a="x; {NAME}=evil"',
    f'a="x"{NAME}=evil',
    f'a="x" {NAME}=evil; b="',
    f"a=\xe9{NAME}=evil",
    f"a={{{NAME}=evil}}",
    f"a=[{NAME}=evil",
    f"a=b\\{NAME}=evil",
    f"\xa0{NAME}=evil",
    f"\x1c{NAME}=evil",
    f"\xc2\xa0{NAME}=evil",
    f"\xe2\x80\x83{NAME}=evil",
    f"{NAME}\xc2\x85=evil",
    f"{NAME}\xe3\x80\x80=evil",
    f"\xef\xbb\xbf{NAME}=evil",
    f"x={NAME}=evil",
    f"={NAME}=evil",
    f"{NAME}==evil",
    f"$Version=1; {NAME}=evil; $Path=/",
    f"expires=Wed, 01-Jan-2030 00:00:00 GMT {NAME}=evil",
]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
@pytest.mark.parametrize("header", TOSSED, ids=ascii)
def test_replaced_header_hides_no_other_value(
    reader: Callable[[str], list[str]], header: str
) -> None:
    """Whatever the app is built on, it reads our fresh token or nothing (design 4)."""
    replaced = replace_cookie([header], NAME, "fresh")
    assert set(reader(replaced)) <= {"fresh"}
    assert set(reader(replace_cookie(["z=0", header, header], NAME, "fresh"))) <= {"fresh"}


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_replaced_header_is_readable(reader: Callable[[str], list[str]]) -> None:
    """With ordinary cookies beside it, every framework reads the fresh token."""
    header = f"session=abc.def-_~; {NAME}=evil; theme=dark; my-{NAME}=other"
    assert set(reader(replace_cookie([header], NAME, "fresh"))) == {"fresh"}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("header", [header for header in TOSSED if "\x1c" not in header], ids=ascii)
def test_app_never_reads_another_users_token(face: str, header: str) -> None:
    """An app that reads the cookie itself gets the known user's, on every path (design 4)."""
    seen: list[str] = []

    async def on_asgi(scope: Any, receive: Any, send: Any) -> None:
        seen.extend(v.decode("latin-1") for k, v in scope["headers"] if k == b"cookie")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def on_wsgi(environ: Any, start_response: Any) -> Iterable[bytes]:
        seen.append(environ["HTTP_COOKIE"])
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b""]

    sent = header.replace("evil", token(sub="7"))
    for target in ("/", "/api/v1/chart/data"):
        request = ask("GET", target, Cookie=f"a=1; {sent}; {NAME}={token(sub='9')}")
        if face == "asgi":
            guarded = asgi.AsyncQueryMiddleware(on_asgi, make_settings(), user_from=lambda _: "8")
            guarded.engine.clock = lambda: NOW
            asyncio.run(call_asgi(guarded, request))
        else:
            wrapped = wsgi.AsyncQueryMiddleware(on_wsgi, make_settings(), user_from=lambda _: "8")
            wrapped.engine.clock = lambda: NOW
            call_wsgi(wrapped, request)
    assert len(seen) == 2
    for text in seen:
        for reader in (by_http_cookies, by_werkzeug, by_starlette):
            assert {read_claims(raw).get("sub") for raw in reader(text)} <= {"8"}


# --- injection --------------------------------------------------------------------------------

EVIL_TEXT = 'x\r\nSet-Cookie: evil=1\r\n\r\n<script>"'


@pytest.mark.parametrize("face", FACES)
def test_injection_by_a_user_id(face: str) -> None:
    """Control characters are no user id, for login() and for user sources (design 2)."""

    def handler(_: Ask) -> tuple[int, list[tuple[str, str]], bytes]:
        with pytest.raises(ValueError, match="not a user id"):
            current().login(EVIL_TEXT)
        return 200, [("Content-Type", "text/html")], b""

    site = Site(face, make_settings(), handler, user_from=lambda _: EVIL_TEXT)
    assert site(ask("GET", "/")).all("Set-Cookie") == []
    assert site(ask("GET", POLL)).code == "token_missing"


@pytest.mark.parametrize("face", FACES)
def test_injection_by_an_odd_but_right_user_id(face: str) -> None:
    """Whatever text an id is, it travels inside the token, never beside it (RFC 7515)."""

    def handler(request: Ask) -> tuple[int, list[tuple[str, str]], bytes]:
        if request.method == "POST":
            current().login('a; Path=/x, b="c" é😀')
        return 200, [("Content-Type", "text/plain")], (current().user_id or "").encode()

    site = Site(face, make_settings(), handler)
    (line,) = site(ask("POST", "/")).all("Set-Cookie")
    assert line.isascii()
    assert line.count(";") == 4
    value = line.partition("=")[2].partition(";")[0]
    again = site(ask("GET", "/api/v1/chart/data", Cookie=cookies(value)))
    assert again.body.decode() == 'a; Path=/x, b="c" é😀'


@pytest.mark.parametrize("face", FACES)
def test_injection_by_a_detail(face: str) -> None:
    """The detail is in the body alone, as JSON (RFC 9457)."""

    def handler(_: Ask) -> tuple[int, list[tuple[str, str]], bytes]:
        raise ForbiddenError(EVIL_TEXT)

    answer = Site(face, make_settings(), handler)(
        ask("GET", "/api/v1/chart/data", Cookie=cookies(token()))
    )
    assert answer.status == 403
    assert answer.json()["detail"] == EVIL_TEXT
    assert all(text.isprintable() for pair in answer.headers for text in pair)
    assert answer.get("Content-Type") == "application/problem+json"


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    "origin",
    [
        "https://listed.example\r\nX-Evil: 1",
        "https://listed.example, https://evil.example",
        "https://evil.example",
        "HTTPS://LISTED.example",
        "null",
    ],
)
def test_injection_by_an_origin(face: str, origin: str) -> None:
    """Only an origin that is listed, letter by letter but for case, is echoed (Fetch, CORS)."""
    site = Site(face, make_settings(allowed_origins="https://listed.example"))
    for method, target in (("GET", POLL), ("POST", f"{POLL}j/cancel"), ("OPTIONS", POLL)):
        answer = site(ask(method, target, Origin=origin, Access_Control_Request_Method="POST"))
        echoed = answer.all("Access-Control-Allow-Origin")
        assert echoed == ([origin] if origin.lower() == "https://listed.example" else [])
        assert answer.all("X-Evil") == []


@pytest.mark.parametrize("face", FACES)
def test_injection_by_headers_asked_for(face: str) -> None:
    """A preflight's header names are echoed only as printable ASCII."""
    site = Site(face, make_settings(allowed_origins="https://listed.example"))
    answer = site(
        ask(
            "OPTIONS",
            POLL,
            Origin="https://listed.example",
            Access_Control_Request_Method="POST",
            Access_Control_Request_Headers="a\r\nX-Evil: 1",
        )
    )
    assert answer.status == 204
    assert answer.all("Access-Control-Allow-Headers") == answer.all("X-Evil") == []


# --- leaks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("face", FACES)
def test_secrets_and_tokens_are_in_no_log_and_no_answer(
    face: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No secret and no credential, good or refused, in logs or bodies (design 3, 5)."""
    caplog.set_level(logging.DEBUG)
    settings = guest_settings(jwt_verify_secrets=K2, allowed_origins="https://listed.example")
    site = Site(face, settings, user_from=lambda _: 1 / 0)
    tokens = [token(), token(-99), token(secret="x" * 40), token(sub="8"), "not-a-token-at-all"]
    guests = [guest_token(), guest_token(exp=1), guest_token(secret=K), "not-a-guest-token"]
    answers: list[Answer] = []
    for raw in tokens:
        for headers in ({"Cookie": cookies(raw)}, {"X_Async_Token": raw}):
            answers += [site(ask("GET", POLL, **headers)), site(ask("POST", "/login", **headers))]
            answers.append(site(ask("POST", f"{POLL}j/cancel", Origin="https://evil", **headers)))
    answers.append(site(ask("GET", POLL, Cookie=cookies(token(), token(sub="8")))))
    for raw in guests:
        answers.append(site(ask("GET", f"{POLL}?guest_token={raw}", X_GuestToken=raw)))
    assert len({answer.code for answer in answers}) > 8
    told = caplog.text + "".join(record.getMessage() for record in caplog.records)
    told += "".join(answer.body.decode() for answer in answers)
    for secret in (K, K2, GUEST, *tokens, *guests):
        assert secret not in told
        assert secret.rpartition(".")[2] not in told
    assert "refused 401 token_expired" in told


@pytest.mark.parametrize("face", FACES)
def test_secrets_and_tokens_are_in_no_repr(face: str) -> None:
    """What a debugger or an error reporter prints of our objects tells no secret (design 3)."""
    settings = guest_settings(jwt_verify_secrets=K2, channel_secret="channel-secret-" + K)
    site = Site(face, settings)
    codec = TokenCodec(settings)
    issued, claims = codec.issue("c1", "7", NOW), codec.verify(token(), NOW)
    guest = GuestVerifier(settings).verify(guest_token(), NOW)
    things = (
        settings,
        codec,
        issued,
        claims,
        guest,
        site.app,
        site.app.engine,
        Refusal.of("token_missing"),
    )
    told = "".join(form(thing) for thing in things for form in (repr, str))
    for secret in (K, K2, GUEST, issued.raw, token(), "username"):
        assert secret not in told
