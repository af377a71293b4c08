"""What a variable may hold: for each kind what it takes, what it makes of it, what it refuses."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest

from gaq_middleware.core import kinds
from gaq_middleware.core.kinds import Kind, choice, integer
from tests.helpers import K2, K

LIMIT = integer(5, 300, " of seconds")
LEVEL = choice("Lax", "Strict", "None")


def why(kind: Kind, text: str) -> str:
    """Return why a kind refuses a text."""
    with pytest.raises(ValueError) as caught:
        kind.parse(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        pytest.param(LIMIT, "5", 5, id="the lower bound"),
        pytest.param(LIMIT, "300", 300, id="the upper bound"),
        pytest.param(LIMIT, "007", 7, id="leading zeros"),
        pytest.param(LEVEL, "lax", "Lax", id="a word in another case"),
        pytest.param(LEVEL, "NONE", "None", id="a word in capitals"),
        pytest.param(kinds.SECRET, K, K.encode(), id="a secret"),
        pytest.param(
            kinds.SECRET, "äöüßÄÖÜ€" * 3 + "x", ("äöüßÄÖÜ€" * 3 + "x").encode(), id="32 bytes count"
        ),
        pytest.param(
            kinds.SECRET,
            "0123456789abcdef0123456789abcdeX",
            b"0123456789abcdef0123456789abcdeX",
            id="exactly 32 bytes",
        ),
        pytest.param(
            kinds.SECRET,
            "\udcff" + "abcdefgh" * 4,
            b"\xff" + b"abcdefgh" * 4,
            id="a byte that is no UTF-8",
        ),
        pytest.param(kinds.SECRETS, f"{K},{K2}", (K.encode(), K2.encode()), id="secrets, in order"),
        pytest.param(kinds.HEADER, "X-Async-Token", "X-Async-Token", id="a header name"),
        pytest.param(kinds.COOKIE_NAME, "__Host-a.b", "__Host-a.b", id="a cookie name"),
        pytest.param(kinds.DOMAIN, ".App.Example.com", "app.example.com", id="a domain, folded"),
        pytest.param(kinds.PATH, "/", "/", id="the root"),
        pytest.param(kinds.PATH, "/a/b/", "/a/b", id="a trailing slash is cut"),
        pytest.param(kinds.PATH, "/é/%20", "/é/%20", id="a path with any letters"),
        pytest.param(kinds.PATHS, "/a, /b/ ,/a", ("/a", "/b"), id="paths, trimmed, once each"),
        pytest.param(kinds.EVENTS_PATH, "/jobs/", "/jobs", id="the events path"),
        pytest.param(kinds.CLAIMS, "user, aud", ("user", "aud"), id="claims"),
        pytest.param(kinds.CLAIMS, "https://a.b/c", ("https://a.b/c",), id="a claim that is a URL"),
        pytest.param(kinds.TEXT, " any thing ", " any thing ", id="text as it is"),
        pytest.param(kinds.STREAM_PREFIX, "{gaq}-", "{gaq}-", id="a prefix with a hash tag"),
        pytest.param(kinds.STORE_URL, "memory://", "memory://", id="the memory store"),
        pytest.param(kinds.ATTRIBUTE, "my.app:a.b", "my.app:a.b", id="a name in a module"),
        pytest.param(kinds.SESSION_FORMAT, "Flask", "flask", id="a session format in any case"),
        pytest.param(kinds.SESSION_SECRET, K, K.encode(), id="a session secret"),
        pytest.param(kinds.SESSION_SECRETS, f"{K},{K2}", (K.encode(), K2.encode()), id="two of it"),
        pytest.param(kinds.USER_HEADER, "REMOTE_USER", "REMOTE_USER", id="the server variable"),
        pytest.param(kinds.USER_HEADER, "X-User", "X-User", id="a header of the proxy"),
        pytest.param(
            kinds.PEERS,
            "10.1.2.3/8, ::1, Unix, 192.0.2.1",
            (ip_network("10.0.0.0/8"), ip_network("::1"), "unix", ip_network("192.0.2.1")),
            id="peers",
        ),
        pytest.param(
            kinds.FORWARDED_HEADERS,
            "X-Forwarded-For,x-forwarded-host",
            ("x-forwarded-for", "x-forwarded-host"),
            id="forwarded headers",
        ),
        pytest.param(
            kinds.ORIGINS,
            "HTTPS://App.example:443, http://b.example:8080,http://c.example:80",
            ("https://app.example", "http://b.example:8080", "http://c.example"),
            id="origins, folded as browsers send them",
        ),
        pytest.param(kinds.ORIGINS, "http://[::1]:90", ("http://[::1]:90",), id="an IPv6 origin"),
    ],
)
def test_what_a_kind_takes(kind: Kind, text: str, value: Any) -> None:
    """A right text gives the value that the settings hold (design 3)."""
    assert kind.parse(text) == value


@pytest.mark.parametrize("kind", [kinds.BOOLEAN, kinds.AUTO])
@pytest.mark.parametrize(
    ("texts", "value"),
    [(("true", "1", "yes", "on"), True), (("false", "0", "no", "off"), False)],
)
def test_booleans_take_four_words_each_in_any_case(
    kind: Kind, texts: tuple[str, ...], value: bool
) -> None:
    """true/false, 1/0, yes/no, on/off, any case (design 3)."""
    for text in texts:
        assert kind.parse(text) is kind.parse(text.upper()) is value


def test_auto_is_neither_true_nor_false() -> None:
    """`auto`, in any case, is None."""
    assert kinds.AUTO.parse("Auto") is None


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        pytest.param(LIMIT, "4", "not between 5 and 300", id="below the bounds"),
        pytest.param(LIMIT, "301", "not between 5 and 300", id="above the bounds"),
        pytest.param(LIMIT, "-5", "not a whole number", id="a sign"),
        pytest.param(LIMIT, "60.0", "not a whole number", id="a fraction"),
        pytest.param(LIMIT, "1e2", "not a whole number", id="an exponent"),
        pytest.param(LIMIT, "60s", "not a whole number", id="a unit"),
        pytest.param(LIMIT, "60\n", "not a whole number", id="a line break"),
        pytest.param(LIMIT, "٦٠", "not a whole number", id="Arabic digits"),
        pytest.param(LIMIT, "9" * 5000, "not a whole number", id="a number of any size"),
        pytest.param(LEVEL, "loose", "none of them", id="another word"),
        pytest.param(kinds.BOOLEAN, "maybe", "neither", id="no boolean"),
        pytest.param(kinds.BOOLEAN, "auto", "neither", id="auto where it is not allowed"),
        pytest.param(kinds.BOOLEAN, " true", "neither", id="a blank before a boolean"),
        pytest.param(kinds.AUTO, "automatic", "neither", id="nearly auto"),
        pytest.param(kinds.SECRET, f" {K}", "white space at an edge", id="a blank before a secret"),
        pytest.param(kinds.SECRET, f"{K}\n", "white space at an edge", id="a line break after it"),
        pytest.param(kinds.SECRET, f"{K},{K2}", "contains a comma", id="a comma in a secret"),
        pytest.param(kinds.SECRET, "short", "only 5 bytes", id="a short secret"),
        pytest.param(kinds.SECRET, K[:31], "only 31 bytes", id="one byte short"),
        pytest.param(kinds.SECRET, "change-me-" * 5, "placeholder", id="a placeholder"),
        pytest.param(kinds.SECRET, "a" * 64, "placeholder", id="a one-character filling"),
        pytest.param(kinds.SECRET, "abcde" * 13, "placeholder", id="five characters repeated"),
        pytest.param(kinds.SECRETS, f"{K},", "only 0 bytes", id="a comma at the end of secrets"),
        pytest.param(kinds.SECRETS, f"{K}, {K2}", "white space", id="a blank between secrets"),
        pytest.param(kinds.HEADER, "X Token", "not a header name", id="a blank in a header name"),
        pytest.param(kinds.HEADER, "X_Token", "not a header name", id="an underscore (CGI)"),
        pytest.param(kinds.HEADER, "X-Token\r\nA: b", "not a header name", id="a line break in it"),
        pytest.param(kinds.HEADER, "Cookie", "meaning of its own", id="the Cookie header"),
        pytest.param(kinds.HEADER, "authorization", "meaning of its own", id="Authorization"),
        pytest.param(kinds.COOKIE_NAME, "a=b", "cookie name", id="an equals sign in a cookie name"),
        pytest.param(kinds.COOKIE_NAME, "a;b", "cookie name", id="a semicolon in a cookie name"),
        pytest.param(kinds.COOKIE_NAME, "é", "cookie name", id="a cookie name outside ASCII"),
        pytest.param(kinds.DOMAIN, "localhost", "browsers drop", id="localhost as domain"),
        pytest.param(kinds.DOMAIN, "app.example:80", "browsers drop", id="a port in a domain"),
        pytest.param(kinds.DOMAIN, "intranet", "browsers drop", id="a domain without a dot"),
        pytest.param(kinds.DOMAIN, "127.0.0.1", "IP address", id="an IP address as domain"),
        pytest.param(kinds.DOMAIN, "::1", "browsers drop", id="an IPv6 address as domain"),
        pytest.param(kinds.DOMAIN, "a.b; Secure", "browsers drop", id="an attribute in a domain"),
        pytest.param(kinds.PATH, "a/b", "not a path", id="a path without a slash"),
        pytest.param(kinds.PATH, "//a", "not a path", id="a path that names a host"),
        pytest.param(kinds.PATH, "/a?b", "not a path", id="a query in a path"),
        pytest.param(kinds.PATH, "/a;b", "not a path", id="a semicolon in a path"),
        pytest.param(kinds.PATH, "/a\\b", "not a path", id="a backslash in a path"),
        pytest.param(kinds.PATH, "/a b", "not a path", id="a blank in a path"),
        pytest.param(kinds.PATH, "/a\x85", "not a path", id="a control character in a path"),
        pytest.param(kinds.PATH, "/a\udce9", "not a path", id="a byte that is no text in a path"),
        pytest.param(kinds.PATHS, "/a,,/b", "'' is not a path", id="an empty path in a list"),
        pytest.param(kinds.PATHS, "/a,b", "'b' is not a path", id="a wrong path in a list"),
        pytest.param(kinds.EVENTS_PATH, "/", "may not be the root", id="events at the root"),
        pytest.param(kinds.CLAIMS, "user,", "'' is not a claim name", id="an empty claim"),
        pytest.param(kinds.CLAIMS, "a b", "'a b' is not a claim name", id="a blank in a claim"),
        pytest.param(kinds.STREAM_PREFIX, "a b", "white space", id="a blank in a prefix"),
        pytest.param(kinds.STREAM_PREFIX, "é", "outside ASCII", id="a prefix outside ASCII"),
        pytest.param(kinds.STREAM_PREFIX, "a" * 201, "white space", id="a prefix that is too long"),
        pytest.param(kinds.STORE_URL, "mysql://h", "no store of that scheme", id="another store"),
        pytest.param(kinds.SESSION_FORMAT, "django", "none of them", id="another session format"),
        pytest.param(kinds.SESSION_SECRET, "dev", "only 3 bytes", id="a short session secret"),
        pytest.param(kinds.USER_HEADER, "remote_user", "not a header name", id="its lower case"),
        pytest.param(kinds.PEERS, "10.0.0.0/8,,", "'' is not an address", id="an empty peer"),
        pytest.param(kinds.PEERS, "proxy", "'proxy' is not an address", id="a peer by its name"),
        pytest.param(kinds.FORWARDED_HEADERS, "via", "'via' is none of", id="another header"),
        pytest.param(kinds.ATTRIBUTE, "my.app", "not the name of a module", id="only a module"),
        pytest.param(kinds.ATTRIBUTE, "my.app:", "not the name of a module", id="only a colon"),
        pytest.param(kinds.ATTRIBUTE, "./app:a", "not the name of a module", id="a path"),
        pytest.param(kinds.ORIGINS, "app.example", "not an origin", id="an origin without scheme"),
        pytest.param(kinds.ORIGINS, "null", "not an origin", id="the null origin"),
        pytest.param(kinds.ORIGINS, "*", "not an origin", id="a star"),
        pytest.param(kinds.ORIGINS, "https://", "not an origin", id="an origin without host"),
        pytest.param(kinds.ORIGINS, "ftp://a.example", "not an origin", id="another scheme"),
        pytest.param(kinds.ORIGINS, "https://a.example/", "not an origin", id="a trailing slash"),
        pytest.param(kinds.ORIGINS, "https://a.example/x", "more than scheme", id="a path in it"),
        pytest.param(kinds.ORIGINS, "https://a.example?x", "more than scheme", id="a query in it"),
        pytest.param(kinds.ORIGINS, "https://a.example#x", "more than scheme", id="a fragment"),
        pytest.param(kinds.ORIGINS, "https://u@a.example", "more than scheme", id="a user in it"),
        pytest.param(kinds.ORIGINS, "https://*.example", "wildcard", id="a wildcard"),
        pytest.param(kinds.ORIGINS, "https://a.example:x", "Port", id="a port that is no number"),
        pytest.param(kinds.ORIGINS, "https://[::1", "IPv6", id="a broken IPv6 address"),
    ],
)
def test_what_a_kind_refuses(kind: Kind, text: str, reason: str) -> None:
    """A wrong text is refused with a reason in words (design 3)."""
    assert reason in why(kind, text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("test-secret-change-me", id="Superset's shipped JWT secret"),
        pytest.param("test-guest-secret-change-me", id="Superset's shipped guest secret"),
        pytest.param("CHANGE_ME_TO_A_COMPLEX_RANDOM_SECRET", id="Superset's later constant"),
        pytest.param("CHANGE-ME-IN-PRODUCTION-GOTTA-BE-LONG-AND-SECRET", id="the socket server's"),
        pytest.param("change-me-" * 5, id="change-me five times"),
        pytest.param("please-replace-me-with-32-random-bytes", id="replace-me"),
        pytest.param("your-secret-key-goes-here-0123456789", id="your-secret"),
        pytest.param("this is a secret that everybody knows", id="this is a secret"),
        pytest.param("django-insecure-0123456789abcdefghijklm", id="Django's start-project key"),
        pytest.param("0" * 64, id="zeros"),
        pytest.param("secret" * 8, id="secret eight times"),
        pytest.param("0f8a3bc2d1e9" * 3, id="any word three times"),
        pytest.param("YOUR_OWN_RANDOM_GENERATED_SECRET_KEY", id="Superset's documentation"),
        pytest.param("TEST_NON_DEV_SECRET_0123456789abcdef", id="Superset's compose file"),
    ],
)
def test_case_62_placeholders_and_fillings_are_refused(text: str) -> None:
    """Known placeholders, one-character fillings and Superset's defaults never sign (case 62)."""
    assert "gaq secret" in why(kinds.SECRET, text)
    assert "gaq secret" in why(kinds.SESSION_SECRET, text)


@pytest.mark.parametrize(
    "text", ["TEST_NON_DEV_SECRET", "\x02\x01thisismyscretkey\x01\x02\\e\\y\\y\\h"]
)
def test_case_62_sessions_signed_with_a_shipped_default_are_anybodys(text: str) -> None:
    """Superset's SECRET_KEY of its compose file, and the old default (CVE-2023-27524)."""
    assert "placeholder" in why(kinds.SESSION_SECRET, text)


def test_a_refused_secret_is_not_in_the_reason() -> None:
    """Secrets never appear in errors (design 3)."""
    for text in (f" {K}", f"{K},x", K[:31], "change-me-" * 5):
        assert text.strip() not in why(kinds.SECRET, text)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (kinds.SECRET, None),
        (kinds.SECRETS, ()),
        (kinds.PATHS, ()),
        (kinds.ORIGINS, ()),
        (kinds.EVENTS_PATH, ""),
        (kinds.DOMAIN, ""),
        (kinds.CLAIMS, None),
        (kinds.STORE_URL, None),
        (kinds.BOOLEAN, None),
    ],
    ids=lambda value: value.words if isinstance(value, Kind) else "",
)
def test_what_an_empty_value_means(kind: Kind, value: Any) -> None:
    """Empty means none where none is possible, else (None) it is an error (design 3)."""
    assert kind.when_empty == value
