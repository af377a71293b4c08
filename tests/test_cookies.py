"""Cookies: one scanner for both faces, the header handed to the app, the writer of ours."""

from __future__ import annotations

import pytest

from gaq_middleware.core.cookies import (
    CookieWriter,
    cookie_names,
    cookie_values,
    replace_cookie,
    sets_cookie,
)
from tests.helpers import make_settings


def values(*headers: str) -> list[str]:
    """Return the values of the cookie `t`."""
    return cookie_values(headers, "t")


def written(*, https: bool = False, **variables: str) -> str:
    """Return the line that sets the cookie to `x` for 60 seconds."""
    return CookieWriter(make_settings(**variables)).write("x", 60, https=https)


# --- reading ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param([], [], id="no header"),
        pytest.param([""], [], id="an empty header"),
        pytest.param(["t=a"], ["a"], id="one"),
        pytest.param(["x=1; t=a; y=2"], ["a"], id="among others"),
        pytest.param(["t=a; t=b"], ["a", "b"], id="several, in order"),
        pytest.param(["x=1", "t=a", "t=b"], ["a", "b"], id="case 88: in several headers"),
        pytest.param(["t=a;t=b"], ["a", "b"], id="without a blank"),
        pytest.param([" \tt\t =\t a \t"], ["a"], id="blanks and tabs around"),
        pytest.param(['t="a"'], ["a"], id="one pair of quotes"),
        pytest.param(['t=""a""'], ['"a"'], id="only one pair of quotes"),
        pytest.param(['t="'], ['"'], id="one quote"),
        pytest.param(['t="a'], ['"a'], id="an open quote"),
        pytest.param(['t=""'], [""], id="an empty value in quotes"),
        pytest.param(["t="], [""], id="an empty value"),
        pytest.param(["t=a=b=="], ["a=b=="], id="equals signs in the value"),
        pytest.param(["t=a,t=b"], ["a,t=b"], id="a comma separates nothing"),
        pytest.param(["t"], [], id="a name alone"),
        pytest.param(["=t"], [], id="a value alone"),
        pytest.param(["T=a"], [], id="another case"),
        pytest.param(["tt=a; at=b; t-=c; $t=d"], [], id="longer names"),
        pytest.param(["x=t=a"], [], id="the name in a value"),
        pytest.param(['"t"=a'], [], id="the name in quotes"),
        pytest.param(["\xa0t=a"], [], id="a space of another kind before the name"),
        pytest.param(["t=\xe9\xff"], ["\xe9\xff"], id="bytes that are no text"),
        pytest.param(["t=a b"], ["a b"], id="a blank in the value"),
        pytest.param(['x="; t=a; y="'], ["a"], id="quotes do not hide a semicolon"),
    ],
)
def test_what_the_scanner_reads(headers: list[str], expected: list[str]) -> None:
    """Split at `;` only, exact name, one pair of quotes, all values in order (design 9)."""
    assert values(*headers) == expected


def test_at_most_eight_values_count() -> None:
    """The ninth value is not read, in one header or in several (design 4)."""
    pairs = [f"t={n}" for n in range(20)]
    assert values("; ".join(pairs)) == values(*pairs) == [str(n) for n in range(8)]


def test_at_most_two_hundred_pairs_are_looked_at() -> None:
    """Counts are capped (design 9)."""
    filling = "x=1; " * 199
    assert values(f"{filling}t=a") == ["a"]
    assert values(f"x=1; {filling}t=a") == []


def test_case_100_names_for_the_log() -> None:
    """At most 10 names, once each: tokens of at most 64 characters, with a value (design 5)."""
    odd = (
        f"{'n' * 65}=1; a b=1; \xe9=1; alone; =1; c\x1b[0m=1; {'n' * 64}=1; __cfduid=x; __cfduid=y"
    )
    assert cookie_names([odd]) == ["n" * 64, "__cfduid"]
    assert cookie_names([f"c{n}=1" for n in range(20)]) == [f"c{n}" for n in range(10)]
    assert cookie_names([]) == []


# --- the header that the app gets -------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param([], "async-token=new", id="no header"),
        pytest.param([""], "async-token=new", id="an empty header"),
        pytest.param(["async-token=old"], "async-token=new", id="the old value"),
        pytest.param(
            ["a=1; async-token=old; b=2", "async-token=x; c=3"],
            "async-token=new; a=1; b=2; c=3",
            id="several headers and values",
        ),
        pytest.param(["a=1;;; b=2; "], "async-token=new; a=1; b=2", id="empty pairs"),
        pytest.param(["flag; a=\xe9"], "async-token=new; flag; a=\xe9", id="odd ones of the app"),
        pytest.param(["my-async-token=1"], "async-token=new; my-async-token=1", id="a longer name"),
        pytest.param(["a=async-token"], "async-token=new; a=async-token", id="the name as a value"),
        pytest.param(["async-token"], "async-token=new", id="the name alone"),
        pytest.param(["async-token\xc2\x85=x"], "async-token=new", id="white space in UTF-8"),
        pytest.param(["a=b async-token=x"], "async-token=new", id="a blank that begins a pair"),
        pytest.param(['"async-token"=x'], "async-token=new", id="the name in quotes"),
    ],
)
def test_the_app_gets_our_value_and_no_other(headers: list[str], expected: str) -> None:
    """Ours holds the fresh token and stands first; every other value is gone (design 4)."""
    assert replace_cookie(headers, "async-token", "new") == expected


# --- writing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "https", "attributes"),
    [
        pytest.param({}, False, "Path=/; SameSite=Lax", id="on http"),
        pytest.param({}, True, "Path=/; SameSite=Lax; Secure", id="on https"),
        pytest.param(
            {"cookie_secure": "1"},
            False,
            "Path=/; SameSite=Lax; Secure",
            id="case 22: Secure as configured",
        ),
        pytest.param({"cookie_secure": "0"}, True, "Path=/; SameSite=Lax", id="never Secure"),
        pytest.param(
            {"cookie_samesite": "strict"}, False, "Path=/; SameSite=Strict", id="case 20: Strict"
        ),
        pytest.param(
            {"cookie_samesite": "none"},
            False,
            "Path=/; SameSite=None; Secure",
            id="SameSite=None forces Secure",
        ),
        pytest.param(
            {"cookie_partitioned": "1"},
            False,
            "Partitioned; Path=/; SameSite=Lax; Secure",
            id="case 105: Partitioned forces Secure",
        ),
        pytest.param(
            {"cookie_name": "__Host-t"},
            False,
            "Path=/; SameSite=Lax; Secure",
            id="__Host- forces Secure",
        ),
        pytest.param(
            {"cookie_name": "__secure-t", "cookie_domain": ".app.example", "cookie_path": "/app/"},
            False,
            "Domain=app.example; Path=/app; SameSite=Lax; Secure",
            id="__Secure- in any case forces Secure, beside domain and path",
        ),
        pytest.param(
            {"cookie_path": "/\xe9"}, False, "Path=/%C3%A9; SameSite=Lax", id="a path outside ASCII"
        ),
    ],
)
def test_the_line_that_sets_the_cookie(
    variables: dict[str, str], https: bool, attributes: str
) -> None:
    """Attributes are from the settings, always HttpOnly (design 3; cases 20, 22, 105)."""
    pair, *rest = written(https=https, **variables).split("; ")
    assert pair == f"{variables.get('cookie_name', 'async-token')}=x"
    assert sorted(rest) == sorted(["HttpOnly", "Max-Age=60", *attributes.split("; ")])


@pytest.mark.parametrize("https", [True, False])
@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"cookie_name": "__Secure-t", "cookie_domain": "app.example", "cookie_path": "/app"},
        {"cookie_samesite": "None", "cookie_partitioned": "1"},
    ],
    ids=["the defaults", "a domain and a path", "a cookie for frames"],
)
def test_the_cookie_is_deleted_with_the_attributes_it_was_set_with(
    variables: dict[str, str], https: bool
) -> None:
    """Max-Age=0 and the very attributes, or browsers keep it (design 6)."""
    gone = CookieWriter(make_settings(**variables)).delete(https=https)
    kept = written(https=https, **variables)
    assert gone == kept.replace("=x;", "=;").replace("Max-Age=60", "Max-Age=0")


def test_the_writer_does_not_judge_sizes() -> None:
    """The caller judges the size; no warning comes (warnings are errors here)."""
    line = CookieWriter(make_settings()).write("x" * 9000, 60, https=False)
    assert len(line) > 9000


@pytest.mark.parametrize(
    ("variables", "https", "expected"),
    [
        pytest.param({}, False, False, id="auto on http"),
        pytest.param({"cookie_secure": "1"}, False, True, id="Secure on http"),
        pytest.param({"cookie_secure": "1"}, True, False, id="Secure on https"),
        pytest.param({"cookie_secure": "0"}, False, False, id="never Secure"),
        pytest.param({"cookie_name": "__Host-t"}, False, True, id="__Host- on http"),
        pytest.param({"cookie_samesite": "None"}, False, True, id="SameSite=None on http"),
        pytest.param({"cookie_partitioned": "1"}, False, True, id="Partitioned on http"),
    ],
)
def test_case_22_what_browsers_drop(variables: dict[str, str], https: bool, expected: bool) -> None:
    """A Secure cookie from plain http is dropped, whatever made it Secure (case 22)."""
    assert CookieWriter(make_settings(**variables)).is_dropped(https=https) is expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([], False, id="no line"),
        pytest.param(["t=x; Path=/"], True, id="ours"),
        pytest.param(["a=1", "t=; Max-Age=0"], True, id="ours, deleted, after another"),
        pytest.param([" t =x"], True, id="blanks around the name"),
        pytest.param(["tt=x", "T=x", "a=t=x", "t; Path=/"], False, id="others"),
    ],
)
def test_whether_the_app_sets_our_cookie(lines: list[str], expected: bool) -> None:
    """Set or deleted by the app itself, by exact name (design 6)."""
    assert sets_cookie(lines, "t") is expected
