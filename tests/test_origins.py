"""Origins: the same-origin proof, what counts as https, and CORS for listed origins."""

from __future__ import annotations

import pytest

from gaq_middleware.core.errors import Refusal
from gaq_middleware.core.messages import RequestHead
from gaq_middleware.core.origins import (
    cors_headers,
    is_https,
    listed_origin,
    preflight_headers,
    refuse_cross_origin,
)
from tests.helpers import Ask, head_of

LISTED = ("https://listed.example", "http://other.example:8080")


def head(
    *headers: tuple[str, str], host: str | None = "app.example", scheme: str = "http"
) -> RequestHead:
    """Return the head of a request with these headers."""
    hosts = [] if host is None else [("Host", host)]
    return head_of(Ask("POST", "/", [*hosts, *headers], scheme))


def is_refused(request: RequestHead) -> bool:
    """Whether a request counts as sent by a foreign page."""
    return refuse_cross_origin(request, LISTED) is not None


def from_origin(origin: str, *, host: str | None = "app.example", scheme: str = "http") -> bool:
    """Whether a request from an origin is let through."""
    return not is_refused(head(("Origin", origin), host=host, scheme=scheme))


# --- the proof --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("site", "origin", "allowed"),
    [
        pytest.param(None, None, True, id="neither header: no browser"),
        pytest.param(None, "", True, id="an empty Origin: no browser"),
        pytest.param("same-origin", None, True, id="a page of ours"),
        pytest.param("none", None, True, id="the address bar"),
        pytest.param("same-origin", "https://evil.example", True, id="the browser's word counts"),
        pytest.param("cross-site", None, False, id="case 77: a foreign site"),
        pytest.param("same-site", None, False, id="a sister host"),
        pytest.param("Same-Origin", None, False, id="another spelling"),
        pytest.param("", None, False, id="an empty Sec-Fetch-Site proves nothing"),
        pytest.param("cross-site", "", False, id="a foreign site without Origin"),
        pytest.param("cross-site", "https://listed.example", True, id="a listed origin"),
        pytest.param("same-site", "http://app.example", True, id="our origin by its Origin"),
        pytest.param(None, "https://evil.example", False, id="case 77: a foreign origin"),
        pytest.param(None, "null", False, id="null never"),
    ],
)
def test_case_77_a_same_origin_proof(site: str | None, origin: str | None, allowed: bool) -> None:
    """Sec-Fetch-Site same-origin or none, else Origin; neither: not a browser (design 6)."""
    headers = [("Sec-Fetch-Site", site), ("Origin", origin)]
    request = head(*((name, value) for name, value in headers if value is not None))
    assert is_refused(request) is not allowed


@pytest.mark.parametrize(
    ("origin", "host", "scheme", "allowed"),
    [
        pytest.param("http://app.example", "app.example", "http", True, id="the same"),
        pytest.param("http://APP.example", "App.Example", "http", True, id="in another case"),
        pytest.param("http://app.example", "app.example:80", "http", True, id="port 80 by default"),
        pytest.param("https://app.example", "app.example", "http", True, id="https before a proxy"),
        pytest.param(
            "https://app.example", "app.example:443", "http", True, id="port 443 by default"
        ),
        pytest.param("http://app.example:8080", "app.example:8080", "http", True, id="a port"),
        pytest.param("http://app.example", "app.example", "ws", True, id="ws counts as http"),
        pytest.param("ws://app.example", "app.example:80", "http", True, id="in an Origin too"),
        pytest.param("wss://app.example", "app.example:443", "ws", True, id="wss in an Origin"),
        pytest.param("https://app.example", "app.example", "wss", True, id="wss counts as https"),
        pytest.param("http://[::1]:8080", "[::1]:8080", "http", True, id="an IPv6 address"),
        pytest.param("http://app.example", "app.example", "https", False, id="http to https"),
        pytest.param("http://app.example", "app.example", "wss", False, id="http to wss"),
        pytest.param("http://app.example:8080", "app.example", "http", False, id="another port"),
        pytest.param("http://app.example", "app.example:8080", "http", False, id="a port less"),
        pytest.param("https://app.example", "app.example:80", "http", False, id="its own default"),
        pytest.param("http://evil.example", "app.example", "http", False, id="another host"),
        pytest.param("http://app.example.evil", "app.example", "http", False, id="a longer host"),
        pytest.param("http://sub.app.example", "app.example", "http", False, id="a host below"),
        pytest.param("http://app.example/", "app.example", "http", False, id="a path"),
        pytest.param("http://app.example?x", "app.example", "http", False, id="a query"),
        pytest.param("http://app.example#x", "app.example", "http", False, id="a fragment"),
        pytest.param("http://u@app.example", "app.example", "http", False, id="a user"),
        pytest.param("ftp://app.example", "app.example", "http", False, id="another scheme"),
        pytest.param("app.example", "app.example", "http", False, id="no scheme"),
        pytest.param("http://", "", "http", False, id="no host at all"),
        pytest.param("http://app.example:x", "app.example", "http", False, id="no port number"),
        pytest.param("http://app.example:99999", "app.example", "http", False, id="no real port"),
        pytest.param("http://[::1", "[::1", "http", False, id="a broken IPv6 address"),
        pytest.param("http://app.example", "app.example:x", "http", False, id="a broken Host"),
        pytest.param("http://app.example", None, "http", False, id="no Host"),
        pytest.param(
            "http://app.example,http://app.example", "app.example", "http", False, id="joined lines"
        ),
        pytest.param("http://app.example\xe9", "app.example", "http", False, id="odd bytes"),
    ],
)
def test_an_origin_against_the_requests_own_host(
    origin: str, host: str | None, scheme: str, allowed: bool
) -> None:
    """Host and port equal, default ports by the Origin's own scheme, https if the request is."""
    assert from_origin(origin, host=host, scheme=scheme) is allowed


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("https://listed.example", True),
        ("HTTPS://Listed.example", True),
        ("http://other.example:8080", True),
        ("http://listed.example", False),
        ("https://listed.example:444", False),
        ("http://other.example", False),
        ("https://sub.listed.example", False),
    ],
)
def test_listed_origins_are_exact(origin: str, allowed: bool) -> None:
    """A listed origin is scheme, host and port, to https too (design 6)."""
    assert from_origin(origin) is from_origin(origin, scheme="https") is allowed


def test_an_empty_list_is_same_origin_only() -> None:
    """Nothing listed never means anything goes (case 63)."""
    assert refuse_cross_origin(head(("Origin", "https://listed.example")), ()) is not None
    assert refuse_cross_origin(head(("Origin", "http://app.example")), ()) is None


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([("Origin", "http://app.example")] * 2, id="two Origin lines"),
        pytest.param([("Origin", ""), ("Origin", "http://app.example")], id="one of them empty"),
        pytest.param([("Sec-Fetch-Site", "same-origin")] * 2, id="two Sec-Fetch-Site lines"),
        pytest.param([("Host", "app.example"), ("Origin", "http://app.example")], id="two Hosts"),
    ],
)
def test_what_comes_twice_proves_nothing(headers: list[tuple[str, str]]) -> None:
    """Two Origin lines never; nor two of the others (design 6)."""
    assert is_refused(head(*headers))


@pytest.mark.parametrize(
    ("request_head", "detail"),
    [
        pytest.param(
            head(("Origin", "https://evil.example")),
            "The request comes from the origin https://evil.example but http://app.example or one "
            "of GAQ_ALLOWED_ORIGINS is expected.",
            id="an origin",
        ),
        pytest.param(
            head(("Sec-Fetch-Site", "cross-site"), host=None, scheme="https"),
            "The request comes from the origin none but https://? or one of GAQ_ALLOWED_ORIGINS is "
            "expected.",
            id="no origin, no host",
        ),
        pytest.param(
            head(("Origin", "https://a.example"), ("Origin", "b'c"), scheme="wss"),
            "The request comes from the origin https://a.example, b'c but https://app.example or "
            "one of GAQ_ALLOWED_ORIGINS is expected.",
            id="two origins",
        ),
    ],
)
def test_the_refusal_names_the_origin_seen_and_the_expected(
    request_head: RequestHead, detail: str
) -> None:
    """403 cross_origin; the detail names both (design 5)."""
    assert refuse_cross_origin(request_head, ()) == Refusal("cross_origin", detail, 403)


def test_the_refusal_shows_no_more_than_it_must() -> None:
    """What is echoed is cut, and in ASCII."""
    request = head(("Origin", "\x1b\xe9" + "x" * 9000), host="h" * 9000)
    refusal = refuse_cross_origin(request, ())
    assert refusal is not None
    assert len(refusal.detail) < 600
    assert refusal.detail.isascii()
    assert refusal.detail.isprintable()


# --- https ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "scheme", "expected"),
    [
        pytest.param([], "http", False, id="http"),
        pytest.param([], "ws", False, id="ws"),
        pytest.param([], "https", True, id="https"),
        pytest.param([], "wss", True, id="wss"),
        pytest.param([("X-Forwarded-Proto", "https")], "http", True, id="case 93: anybody's claim"),
        pytest.param([("X-Forwarded-Proto", "http, HTTPS")], "http", True, id="one of several"),
        pytest.param([("X-Forwarded-Proto", "http")], "http", False, id="a claim of http"),
        pytest.param([("X-Forwarded-Proto", "http")], "https", True, id="the scheme counts first"),
        pytest.param([("Origin", "https://app.example")], "http", True, id="our https origin"),
        pytest.param([("Origin", "http://app.example")], "http", False, id="our http origin"),
        pytest.param([("Origin", "https://a.example")], "http", False, id="another https origin"),
        pytest.param([("Origin", "https://app.example")] * 2, "http", False, id="two origins"),
    ],
)
def test_case_93_what_counts_as_https_for_the_cookie(
    headers: list[tuple[str, str]], scheme: str, expected: bool
) -> None:
    """Secure follows any claim of https; it binds only the sender's own cookie (case 93)."""
    assert is_https(head(*headers, scheme=scheme)) is expected


# --- CORS -------------------------------------------------------------------------------------


def test_case_117_a_listed_origin_may_read_our_answers() -> None:
    """Allow-Origin equal to it, credentials allowed, Vary: Origin (case 117)."""
    assert cors_headers(head(("Origin", "https://listed.example")), LISTED) == [
        ("Access-Control-Allow-Origin", "https://listed.example"),
        ("Access-Control-Allow-Credentials", "true"),
        ("Access-Control-Expose-Headers", "X-GAQ-Error, Retry-After"),
        ("Vary", "Origin"),
    ]


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([], id="no origin"),
        pytest.param([("Origin", "https://evil.example")], id="an unlisted origin"),
        pytest.param([("Origin", "null")], id="the null origin"),
        pytest.param([("Origin", "https://listed.example")] * 2, id="two origins"),
        pytest.param([("Origin", "https://listed.example, *")], id="an origin and more"),
    ],
)
def test_case_117_nobody_else_may(headers: list[tuple[str, str]]) -> None:
    """Unlisted origins get none; the answer only varies by Origin (case 117)."""
    assert cors_headers(head(*headers), LISTED) == [("Vary", "Origin")]
    assert cors_headers(head(*headers), ()) == []
    assert listed_origin(head(*headers), LISTED) is None


def test_case_116_a_preflight_of_a_listed_origin() -> None:
    """Methods and the headers asked for are allowed, with credentials (case 116)."""
    request = head(
        ("Origin", "https://listed.example"),
        ("Access-Control-Request-Headers", "content-type, x-async-token~"),
    )
    assert preflight_headers(request, LISTED) == [
        ("Cache-Control", "no-store"),
        *cors_headers(request, LISTED),
        ("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE"),
        ("Access-Control-Allow-Headers", "content-type, x-async-token~"),
        ("Access-Control-Max-Age", "600"),
    ]


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param([], id="none"),
        pytest.param([""], id="an empty list"),
        pytest.param(["a\r\nSet-Cookie: b"], id="a line break"),
        pytest.param(["\xe9"], id="a byte outside ASCII"),
        pytest.param(["a\x7f"], id="a delete character"),
        pytest.param(["a\x1f"], id="a control character"),
        pytest.param(["a", "b"], id="two lines"),
    ],
)
def test_only_plain_header_names_are_echoed(asked: list[str]) -> None:
    """What a preflight asks for is repeated only as printable ASCII, once."""
    lines = [("Access-Control-Request-Headers", value) for value in asked]
    names = dict(preflight_headers(head(("Origin", "https://listed.example"), *lines), LISTED))
    assert "Access-Control-Allow-Headers" not in names


def test_case_116_a_preflight_of_another_origin_has_no_cors_headers() -> None:
    """For other origins the 204 comes without CORS headers (design 6)."""
    request = head(("Origin", "https://evil.example"))
    assert preflight_headers(request, LISTED) == [("Cache-Control", "no-store"), ("Vary", "Origin")]
    assert preflight_headers(request, ()) == [("Cache-Control", "no-store")]
