"""Which paths are guarded: tables of rules, laws, and real routers as judges.

`GAQ_TEST_PATHS=50000` spreads that many examples over the routers, and half as many over the other
laws; the default is small.
"""

import asyncio
import contextlib
import inspect
import io
import os
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, unquote, unquote_to_bytes

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gaq_middleware.core.paths import PathRules
from tests.django_setup import configure_django

EVENTS = "/api/v1/async_event"
PROTECTED = (EVENTS, "/api/v1/chart/data", "/api/v1/chart/*/data", "/superset/explore_json")
TOTAL = int(os.environ.get("GAQ_TEST_PATHS", "1800"))


def rules(
    *protected: str, opened: tuple[str, ...] = (), anchored: bool = False, events: str = EVENTS
) -> PathRules:
    """Compile rules; the default patterns when none are named."""
    return PathRules.compile(
        protected=protected or PROTECTED,
        open=opened,
        anchored=anchored,
        events=events,
        login=["/login", "/api/v1/security/login/"],
        logout=["/logout"],
    )


def protects(path: str, *patterns: str, root: str = "", anchored: bool = False) -> bool:
    """Say whether a path is protected when the server gives no raw path."""
    return rules(*patterns, anchored=anchored).is_protected(path, None, root)


def target(text: str, root: str = "") -> tuple[str, str, str]:
    """Return what a server makes of a request target: decoded once, and the raw form beside it."""
    return unquote(text.partition("?")[0]), text, root


# --- patterns ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("/api/v1/async_event", True, id="the path itself"),
        pytest.param("/api/v1/async_event/", True, id="with a trailing slash"),
        pytest.param("/api/v1/async_event/7/cancel", True, id="below it"),
        pytest.param("/superset/explore_json/table/1/", True, id="below another one"),
        pytest.param("/pre/fix/api/v1/async_event/", True, id="at a later segment"),
        pytest.param("/API/V1/Async_Event", True, id="in another case"),
        pytest.param("/api/v1/async_events", False, id="a longer last segment"),
        pytest.param("/api/v1/async_even", False, id="a shorter last segment"),
        pytest.param("/xapi/v1/async_event", False, id="a longer first segment"),
        pytest.param("/api/v1", False, id="a parent"),
        pytest.param("/v1/async_event", False, id="only the end of the pattern"),
        pytest.param("/api/v2/async_event", False, id="another segment in the middle"),
        pytest.param("/", False, id="the root"),
        pytest.param("", False, id="an empty path"),
        pytest.param("*", False, id="the asterisk form of OPTIONS"),
        pytest.param("/caf\u00e9/v1/async_event", False, id="an odd path without the pattern"),
        pytest.param("/static/api:v1/async_event", False, id="a colon is no slash"),
        pytest.param("/api/v1/async@@_event", False, id="a view selector inside a segment"),
    ],
)
def test_a_pattern_protects_by_whole_segments_at_any_offset(path: str, expected: bool) -> None:
    """A pattern is a prefix of whole segments that may begin at any segment."""
    assert protects(path) is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("/api/v1/chart/12/data", True, id="any segment"),
        pytest.param("/api/v1/chart/12/data/more", True, id="and below"),
        pytest.param("/api/v1/chart/a%2Fb/data", True, id="an encoded slash is no slash"),
        pytest.param("/api/v1/chart/;x/data", True, id="a segment of parameters only"),
        pytest.param("/api/v1/chart/ /data", True, id="a blank segment"),
        pytest.param("/api/v1/chart/\\/data", True, id="a backslash"),
        pytest.param("/api/v1/chart/../data", True, id="a dot segment"),
        pytest.param("/api/v1/chart//data", True, id="an empty segment, as Falcon dispatches it"),
        pytest.param("//api/v1/chart/;x/data\n", True, id="odd in three ways"),
        pytest.param("/api//v1/chart/ /data", True, id="a blank segment beside an empty one"),
        pytest.param("/api/v1/chart/;x/data;y", True, id="a parameter here, another at the end"),
        pytest.param("/api/v1/chart/1/2/data", False, id="not two segments"),
        pytest.param("/api/v1/chart/12", False, id="not a parent"),
    ],
)
def test_a_star_is_one_segment(path: str, expected: bool) -> None:
    """`*` stands for exactly one segment, whatever is in it."""
    assert protects(path, "/api/v1/chart/*/data") is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("/a/", True, id="an empty last segment"),
        pytest.param("/a/b/c", True, id="below"),
        pytest.param("/a", False, id="no segment at all"),
    ],
)
def test_a_star_at_the_end_is_one_segment(path: str, expected: bool) -> None:
    """`/a/*` protects `/a/`, which Falcon dispatches to `/a/{x}`, but not `/a`."""
    assert protects(path, "/a/*") is expected


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        pytest.param("/a/b/", "/a/b", True, id="a trailing slash is ignored"),
        pytest.param("a/b", "/a/b", True, id="a missing leading slash is ignored"),
        pytest.param("//a/./c/../b", "/a/b", True, id="slashes and dots are resolved"),
        pytest.param("/A/b", "/a/B", True, id="case is ignored"),
        pytest.param("/caf%C3%A9", "/caf\u00e9", True, id="encoded letters"),
        pytest.param("/caf\u00e9", "/CAF\u00c9", True, id="letters beyond ASCII, any case"),
        pytest.param("/stra\u00dfe", "/STRASSE", True, id="letters that fold to two"),
        pytest.param("/%61b", "/ab", True, id="an encoded letter of ASCII"),
        pytest.param("/100%25", "/100%", True, id="an encoded percent sign"),
        pytest.param("/my%20report", "/my report", True, id="an encoded space"),
        pytest.param("/my%20report", "/my\\/r\teport", False, id="no slash where none is named"),
        pytest.param("/my%20report", "/\\my report", True, id="a space in an odd path"),
        pytest.param("/a%20b/*/c", "/a b\ufffd/;x/c", True, id="a space in a path odd in two ways"),
        pytest.param("/a;b/c", "/a;b/c", True, id="a pattern with a parameter"),
        pytest.param("/a;b/c", "/\\a;b/c", True, id="a parameter in an odd path"),
        pytest.param(";a", "/b", False, id="a pattern of a parameter only is not everything"),
        pytest.param("/a.b", "/axb", False, id="a dot is a dot"),
        pytest.param("/v*/x", "/v2/x", True, id="a star after text is the rest of the segment"),
        pytest.param("/v*/x", "/w/x", False, id="text before a star counts"),
        pytest.param("/v*2/x", "/v1/x", True, id="text after a star does not"),
        pytest.param("/", "/any/thing", True, id="a lone slash is everything"),
        pytest.param("/", "", True, id="and everything includes the empty path"),
        pytest.param("", "/any/thing", False, id="an empty text is nothing"),
    ],
)
def test_a_pattern_protects_what_it_names(pattern: str, path: str, expected: bool) -> None:
    """However a pattern is written, what it names is protected."""
    assert rules(pattern, events="").is_protected(path, None, "") is expected


def test_no_patterns_protect_nothing() -> None:
    """Without patterns and events path everything is open, odd paths included."""
    free = PathRules.compile(protected=[], open=[], anchored=False, events="", login=[], logout=[])
    assert not any(free.is_protected(path, None, "") for path in ("/", EVENTS, "//\n%2561"))
    assert free.events_tail(EVENTS, "") is None


@pytest.mark.parametrize("anchored", [False, True], ids=["at any offset", "anchored"])
def test_the_events_path_is_always_protected(anchored: bool) -> None:
    """No pattern needs to name the events path."""
    moved = rules("/other", events="/my/events", anchored=anchored)
    assert moved.is_protected("/my/events/7", None, "")
    assert moved.is_protected("/My//events", None, "")
    assert not moved.is_protected(EVENTS, None, "")


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        pytest.param("/api/x", "", True, id="at the start"),
        pytest.param("api/x", "", True, id="without the leading slash"),
        pytest.param("//api//x", "", True, id="doubled slashes"),
        pytest.param("/docs/api/x", "", False, id="not at a later segment"),
        pytest.param("//docs/api/x", "", False, id="not at a later segment of an odd path"),
        pytest.param("/x", "/api", True, id="across root path and path"),
        pytest.param("/docs/api/x", "/docs", True, id="after the root path"),
        pytest.param("/DOCS/api/x", "/docs", True, id="after the root path in another case"),
        pytest.param("/docsapi/x", "/docs", True, id="after the root path without a boundary"),
        pytest.param("/docs//api/x", "/docs/", True, id="after a root path with a slash"),
        pytest.param("/docsapi/x", "/docs/", True, id="after a root path without its slash"),
        pytest.param("/docs2/docs/api/x", "/docs/", True, id="after the very root path"),
        pytest.param("//docs/api/x", "//docs", True, id="after a root path with two slashes"),
        pytest.param("/x/docs/api/x", "/docs", True, id="after the first root path"),
        pytest.param("/docs/api/x", "docs", True, id="after a root path without a slash"),
        pytest.param("/caf\u00e9/api/x", "/CAF\u00c9", True, id="after a root path beyond ASCII"),
        pytest.param("/docs/api/x", "/other", False, id="not after another root path"),
        pytest.param("/docs/a:b/x", "/docs", False, id="an odd path without the pattern"),
        pytest.param("http://evil/api/x", "", True, id="after an origin"),
        pytest.param("http:///api/x", "", True, id="after an empty origin"),
        pytest.param("http:api/x", "", True, id="after a scheme"),
        pytest.param(" //evil/api/x", "", True, id="after a blank and an authority"),
        pytest.param("ht\ttp:/\t/evil/api/x", "", True, id="after an origin with tabs"),
        pytest.param("junk/api/x", "", True, id="after text without a slash"),
        pytest.param("http://docs/docsapi/x", "/docs", True, id="after origin and root path"),
        pytest.param("/x/../api/x", "", True, id="after resolved dots"),
    ],
)
def test_an_anchored_pattern_counts_at_the_start(path: str, root: str, expected: bool) -> None:
    """Anchored patterns count at the start of every reading, and nowhere else."""
    assert protects(path, "/api/x", root=root, anchored=True) is expected


# --- forms that get round naive tests ------------------------------------------------------------

BYPASSES = [
    pytest.param("api/v1/async_event", "", id="no leading slash (Flask, Quart, Falcon, Litestar)"),
    pytest.param("//api/v1/async_event", "", id="two leading slashes (Flask, Quart, Falcon)"),
    pytest.param("///api/v1/async_event", "", id="three leading slashes"),
    pytest.param("/api//v1/async_event", "", id="an inner double slash (Litestar)"),
    pytest.param("/api/v1/async_event//", "", id="a trailing double slash (Litestar)"),
    pytest.param("http://evil/api/v1/async_event", "", id="an absolute URL (Quart, Sanic)"),
    pytest.param("x:/api/v1/async_event", "", id="any scheme (Quart)"),
    pytest.param("x:api/v1/async_event", "", id="a scheme without slash"),
    pytest.param("%20/api/v1/async_event", "", id="a leading blank (Quart)"),
    pytest.param("%09/api/v1/async_event", "", id="a leading tab (Quart)"),
    pytest.param("x:/api/v1/asy%0Anc_event", "", id="a newline that urllib drops (Quart)"),
    pytest.param("/api/v1/async_event%0A", "", id="a newline before the end (Starlette, Pyramid)"),
    pytest.param("/api/v1/async_%FFevent", "", id="a byte that is no UTF-8 (Bottle)"),
    pytest.param("/api/v1/@@async_event", "", id="a view selector (Pyramid's traversal)"),
    pytest.param("/api/x/../v1/./async_event", "", id="dot segments (Pyramid's traversal)"),
    pytest.param("/API/v1/async_Event", "", id="another case (BlackSheep)"),
    pytest.param("/ap%C4%B0/v1/async_event", "", id="a dotted capital I (re.IGNORECASE)"),
    pytest.param("/ap%C4%B1/v1/a%C5%BFync_event", "", id="a dotless i, a long s (re.IGNORECASE)"),
    pytest.param("/ap%C4%B0//v1/async_event", "", id="a dotted capital I in an odd path"),
    pytest.param("/api/v1/async_event#f", "", id="a fragment (uvicorn, hypercorn keep it)"),
    pytest.param("/api/v1/async_event%3Fx", "", id="an encoded query"),
    pytest.param("/api/v1/async_event;x=1", "", id="a parameter"),
    pytest.param("/api;x/v1;y=1/async_event", "", id="inner parameters"),
    pytest.param("/api/..;/api/v1/async_event", "", id="a parameter after dots"),
    pytest.param("/api\\v1\\async_event", "", id="backslashes"),
    pytest.param("/api%5Cv1%2Fasync_event", "", id="encoded slashes"),
    pytest.param("/api/v1/async_event/../../q", "", id="dots that a path converter swallows"),
    pytest.param("/api/v1/async_event%00", "", id="a NUL"),
    pytest.param("/api/v1/%61sync_event", "", id="an encoded letter"),
    pytest.param("/api/v1/%2561sync_event", "", id="a doubly encoded letter"),
    pytest.param("/pre/api/v1/async_event", "", id="an unseen root path (FastAPI, Django)"),
    pytest.param("/pre/api/v1/async_event", "/pre", id="the root path in the path"),
    pytest.param("/zzz/pre/api/v1/async_event", "/pre", id="text before the root path (Litestar)"),
    pytest.param("/preapi/v1/async_event", "/pre", id="no boundary after the root (Quart)"),
    pytest.param("/zzz/PREapi//v1/async_event", "/pre", id="neither boundary nor case"),
    pytest.param("/Pre/preapi/v1/async_event", "/pre", id="the root path in two cases (Litestar)"),
    pytest.param("http://pre/preapi/v1/async_event", "/pre", id="an authority like the root"),
    pytest.param("/v1/async_event", "/api", id="a pattern across root path and path"),
    pytest.param("v1/async_event", "/api", id="and without the slash between them"),
    pytest.param("/v1;x/async_event", "/api", id="and in an odd path"),
    pytest.param("/v1/async_event", "/api;x", id="and with an odd root path"),
]


@pytest.mark.parametrize(("text", "root"), BYPASSES)
def test_every_known_bypass_is_protected(text: str, root: str) -> None:
    """What reached a handler past a naive test is protected, with and without a raw path."""
    path, raw, _ = target(text, root)
    assert rules().is_protected(path, raw, root)
    assert rules().is_protected(path, None, root)


@pytest.mark.parametrize(
    ("path", "raw"),
    [
        pytest.param("/x", "/api/v1/async_event", id="the raw path alone (Sanic, BlackSheep)"),
        pytest.param("/x", "/api/v1/%61sync_event", id="the raw path, decoded"),
        pytest.param("/x", "/api/v1/async_event?q=1", id="the raw path, its query cut"),
        pytest.param("/x", "http://h/api/v1/async_event", id="an absolute URL"),
        pytest.param("/x", "http:api/v1/async_event", id="an absolute URL without slash"),
        pytest.param("/api/v1/chart/a/b/data", "/api/v1/chart/a%2Fb/data", id="an encoded slash"),
    ],
)
def test_the_raw_path_protects_too(path: str, raw: str) -> None:
    """Routers that look at the raw path are covered."""
    assert rules().is_protected(path, raw, "")


def test_a_raw_path_beyond_ascii_protects_what_it_decodes_to() -> None:
    """A raw path is Latin-1 text of bytes that spell UTF-8."""
    raw = "/caf\u00e9".encode().decode("latin-1")
    assert rules("/caf\u00e9").is_protected("/x", raw, "")
    assert rules("/caf\u00e9").is_protected("/x", "/caf%C3%A9", "")
    assert not rules("/caf\u00e9").is_protected("/x", "/caf\u20ac", "")


@pytest.mark.parametrize(
    ("path", "raw", "root"),
    [
        pytest.param("/start", f"/start?next={EVENTS}", "", id="a query"),
        pytest.param("/start", f"/pre/start?next={EVENTS}", "/pre", id="a query under a root"),
        pytest.param("/x y", f"/x%20y?next={EVENTS}", "", id="a query of an odd path"),
        pytest.param("/x", "/pre/x", "/pre", id="a plain path under a root path"),
        pytest.param("/pre/x", "/pre/x", "/pre", id="a root path in the path"),
        pytest.param("/%", "/%25", "", id="a lone percent sign"),
    ],
)
def test_other_paths_stay_free(path: str, raw: str, root: str) -> None:
    """A query names no path, and odd forms of other paths are not protected."""
    assert not rules().is_protected(path, raw, root)


# --- cases ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/app/api/v1/async_event/", "/api/v1/async_event/"])
def test_case_83_both_forms_under_a_root_path_are_served(path: str) -> None:
    """Servers disagree whether the path includes the root path; both forms are ours."""
    assert rules().events_tail(path, "/app") == "/"
    assert rules().is_protected(path, path, "/app")


def test_case_83_a_root_path_ends_at_a_boundary() -> None:
    """A longer segment is not the root path: not served, yet protected."""
    path = "/apple/api/v1/async_event/"
    assert rules().events_tail(path, "/app") is None
    assert rules().is_protected(path, path, "/app")


def test_case_84_the_host_header_has_no_say() -> None:
    """No host is asked for, and a raw URL with a crafted host opens nothing."""
    assert list(inspect.signature(PathRules.is_protected).parameters)[1:] == [
        "path",
        "raw_path",
        "root_path",
        "root_in_path",
    ]
    exempt = rules(opened=("/health",))
    assert exempt.is_protected(f"{EVENTS}/", f"http://h/health?{EVENTS}/", "")
    assert exempt.is_protected(f"{EVENTS}/", "/health", "")


def test_case_86_an_encoded_letter_is_served_once_decoded() -> None:
    """`/api/v1/%61sync_event/` is the events path to every server."""
    path, raw, root = target("/api/v1/%61sync_event/")
    assert rules().events_tail(path, root) == "/"
    assert rules().is_protected(path, raw, root)


def test_case_86_a_doubly_encoded_letter_is_protected_but_not_served() -> None:
    """`/api/v1/%2561sync_event/` is the app's business, for those who may."""
    path, raw, root = target("/api/v1/%2561sync_event/")
    assert rules().events_tail(path, root) is None
    assert rules().is_protected(path, raw, root)
    assert rules().is_protected(path, None, root)


# --- what opens -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "raw", "root", "exempt"),
    [
        pytest.param("/api/health", None, "", True, id="the path"),
        pytest.param("/api/health/", None, "", True, id="with a trailing slash"),
        pytest.param("/api/health", "/api/health?x=1", "", True, id="with a query"),
        pytest.param("/api/\u00fc b", "/api/%C3%BC%20b", "", True, id="its canonical encoding"),
        pytest.param("/pre/api/health", "/pre/api/health", "/pre", True, id="a root in the path"),
        pytest.param("/pre/api/health", None, "/pre/", True, id="a root path with a slash"),
        pytest.param("/api/health", "/pre/api/health", "/pre", True, id="a root that was stripped"),
        pytest.param("/api/\u00fc b", "/p/api/%C3%BC%20b", "/p", True, id="both, encoded"),
        pytest.param("/api/health//", None, "", False, id="two trailing slashes"),
        pytest.param("/api/health/x", None, "", False, id="below it"),
        pytest.param("/api/healthy", None, "", False, id="a longer segment"),
        pytest.param("/x/api/health", None, "", False, id="a later segment"),
        pytest.param("/Api/health", None, "", False, id="another case"),
        pytest.param("//api/health", None, "", False, id="a doubled slash"),
        pytest.param("/api/health", "/api/%68ealth", "", False, id="an encoded letter"),
        pytest.param("/api/health", "//api/health", "", False, id="an odd raw path"),
        pytest.param("/api/health", "/api/x", "", False, id="another raw path"),
        pytest.param("/api/health;x", None, "", False, id="a parameter"),
        pytest.param("/preapi/health", None, "/pre", False, id="a root path without a boundary"),
        pytest.param("/r/api/health", "/r/r/api/health", "/r", False, id="a root stripped twice"),
    ],
)
def test_an_open_path_is_exempt_in_canonical_form_only(
    path: str, raw: str | None, root: str, exempt: bool
) -> None:
    """Open paths are whole paths, byte-equal, with or without one trailing slash."""
    opened = rules("/api", "/preapi", opened=("/api/health/", "/api/%C3%BC b"))
    assert opened.is_protected(path, raw, root) is not exempt


@pytest.mark.parametrize(
    ("path", "root"),
    [
        pytest.param("/api/v1/async_event/7", "", id="below the events path"),
        pytest.param("/api/v1/async_event", "", id="the events path itself"),
        pytest.param("/API/v1/async_event/7", "", id="in another case"),
        pytest.param("/v1/async_event/7", "/api", id="across root path and path"),
        pytest.param("/pre/api/v1/async_event/7", "", id="at a later segment"),
    ],
)
def test_nothing_opens_the_events_path(path: str, root: str) -> None:
    """At and below the events path no open path counts."""
    assert rules(opened=(path,)).is_protected(path, None, root)


def test_an_anchored_open_path_may_look_like_the_events_path() -> None:
    """Anchored, the events path is what begins with it, and no later segments."""
    path = f"/docs{EVENTS}"
    assert not rules("/docs", opened=(path,), anchored=True).is_protected(path, None, "")
    assert rules("/docs", opened=(path,), anchored=True).is_protected(path, None, "/docs")


def test_an_open_path_of_any_text_raises_nothing() -> None:
    """Lone surrogates have no percent-encoding."""
    assert rules("/", opened=("/\ud800",)).is_protected("/\ud800", "/x", "")


def test_an_empty_text_opens_nothing() -> None:
    """A list of paths with an empty text in it does not name the root."""
    nothing = PathRules.compile(
        protected=["/"], open=[""], anchored=False, events="", login=[""], logout=[""]
    )
    assert nothing.is_protected("/", None, "")
    assert not nothing.is_login("/", "")
    assert not nothing.is_logout("/", "")


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        pytest.param("/login", "", True, id="the path"),
        pytest.param("/login/", "", True, id="with a trailing slash"),
        pytest.param("/api/v1/security/login", "", True, id="a setting with a trailing slash"),
        pytest.param("/pre/login", "/pre", True, id="below the root path"),
        pytest.param("/login", "/pre", True, id="root path stripped"),
        pytest.param("/login/", "/login", True, id="a root path of the same name"),
        pytest.param("/prelogin", "/pre", False, id="no boundary"),
        pytest.param("/pre/login", "", False, id="another path"),
        pytest.param("//login", "", False, id="a doubled slash"),
        pytest.param("/login//", "", False, id="two trailing slashes"),
        pytest.param("/Login", "", False, id="another case"),
        pytest.param("/login/x", "", False, id="below it"),
    ],
)
def test_login_and_logout_paths_are_canonical(path: str, root: str, expected: bool) -> None:
    """Login and logout paths count in canonical form, with or without a trailing slash."""
    assert rules().is_login(path, root) is expected
    logout = path.replace("/api/v1/security/login", "/logout").replace("login", "logout")
    assert rules().is_logout(logout.replace("Login", "Logout"), root) is expected
    assert not rules().is_logout(path, root)


# --- what we serve --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "root", "tail"),
    [
        pytest.param(EVENTS, "", "", id="the collection"),
        pytest.param(f"{EVENTS}/", "", "/", id="with a trailing slash"),
        pytest.param(f"{EVENTS}/7", "", "/7", id="one job"),
        pytest.param(f"{EVENTS}/7/cancel/", "", "/7/cancel/", id="its cancellation"),
        pytest.param(f"/app{EVENTS}/ws", "/app", "/ws", id="below the root path"),
        pytest.param(f"/app{EVENTS}/ws", "/app/", "/ws", id="below a root path with a slash"),
        pytest.param(f"{EVENTS}/ws", "/app", "/ws", id="root path stripped"),
        pytest.param(f"{EVENTS}/ws", "/api", "/ws", id="root path stripped, and named alike"),
        pytest.param(f"{EVENTS}{EVENTS}/7", EVENTS, "/7", id="the root path goes first"),
        pytest.param(f"{EVENTS}s", "", None, id="a longer segment"),
        pytest.param("/api/v1", "", None, id="a parent"),
        pytest.param(f"/app{EVENTS}", "", None, id="another root path"),
        pytest.param(f"/app{EVENTS}", "/other", None, id="not this root path"),
        pytest.param(EVENTS.upper(), "", None, id="another case"),
        pytest.param(f"/{EVENTS}", "", None, id="a doubled slash"),
        pytest.param(EVENTS[1:], "", None, id="no leading slash"),
        pytest.param(f"{EVENTS}//", "", None, id="a doubled slash at the end"),
        pytest.param(f"{EVENTS}//7", "", None, id="a doubled slash before the job"),
        pytest.param(f"{EVENTS}/7//cancel", "", None, id="a doubled slash in the tail"),
        pytest.param(f"{EVENTS}/../7", "", None, id="dots"),
        pytest.param(f"{EVENTS}/.", "", None, id="a dot"),
        pytest.param(f"{EVENTS}/7\\cancel", "", None, id="a backslash"),
        pytest.param(f"{EVENTS}\n", "", None, id="a newline"),
        pytest.param(f"{EVENTS}/7\x00", "", None, id="a NUL"),
        pytest.param(f"{EVENTS}/\ud800", "", None, id="a lone surrogate"),
        pytest.param(f"{EVENTS};x", "", None, id="a parameter"),
    ],
)
def test_our_endpoints_are_served_in_the_exact_form(path: str, root: str, tail: str | None) -> None:
    """The tail is what follows the events path; odd forms are not ours, yet protected."""
    assert rules().events_tail(path, root) == tail
    assert rules().is_protected(path, None, root) is (path not in {f"{EVENTS}s", "/api/v1"})


def test_an_encoded_events_path_is_served_in_its_decoded_form() -> None:
    """The setting names a path; how it is written does not matter."""
    moved = rules(events="/%C3%BC/events/")
    assert moved.events_tail("/\u00fc/events/7", "") == "/7"
    assert moved.events_tail("/%C3%BC/events/7", "") is None


def test_a_lone_slash_as_events_path_serves_and_protects_everything() -> None:
    """`/` is a path, not the absence of one."""
    whole = rules(events="/")
    assert whole.events_tail("/7/cancel", "") == "/7/cancel"
    assert whole.is_protected("/7/cancel", None, "")


# --- laws -----------------------------------------------------------------------------------------


def examples(share: int) -> settings:
    """Return settings for a law that gets `1/share` of all examples."""
    return settings(
        max_examples=max(20, TOTAL // share),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


FRAGMENTS = st.sampled_from(
    [
        *"/\\;.%?#:@ \t\r\n\x00\x7f\x85\ufffd\ud800\u0130\u017f\u00df",
        *("..", "//", "/./", "/../", "%2f", "%25", "%61", "http://evil", "/pre", "@@"),
        *("api", "v1", "async_event", "7"),
    ]
)
ANY_TEXT = st.text() | st.lists(FRAGMENTS).map("".join)


@examples(10)
@given(path=ANY_TEXT, raw=st.none() | ANY_TEXT, root=ANY_TEXT, anchored=st.booleans())
def test_any_text_gets_an_answer(path: str, raw: str | None, root: str, anchored: bool) -> None:
    """Whatever the path, the raw path and the root path are, there is an answer."""
    asked = rules(anchored=anchored, opened=(path, root), events=root)
    assert isinstance(asked.is_protected(path, raw, root), bool)
    assert isinstance(asked.is_login(path, root), bool)
    assert isinstance(asked.is_logout(path, root), bool)
    assert isinstance(asked.events_tail(path, root), str | None)


@examples(10)
@given(
    parts=st.lists(FRAGMENTS | st.just(EVENTS), max_size=5),
    raw=st.none() | ANY_TEXT,
    root=st.sampled_from(["", "/", "/pre", "/pre/", "//pre", "pre", "/caf\u00e9", "/api", "/\n"]),
    rooted=st.booleans(),
    anchored=st.booleans(),
)
def test_what_we_serve_is_protected(
    parts: list[str], raw: str | None, root: str, rooted: bool, anchored: bool
) -> None:
    """Whatever `events_tail` takes for ours is protected, and no open path changes that."""
    path = (root if rooted else "") + EVENTS + "".join(parts)
    served = rules("/other", anchored=anchored, opened=(path, "".join(parts)))
    if served.events_tail(path, root) is not None:
        assert served.is_protected(path, raw, root)


def encoded(letter: str, times: int) -> str:
    """Percent-encode a letter again and again, unreserved letters too."""
    text = "".join(f"%{octet:02x}" for octet in letter.encode())
    return (letter, text, text.replace("%", "%25"))[times]


BLANK = st.sampled_from([*" \t\r\n\x00\x1f\x7f\u00a0\u2028", "%0a", "%20", "%FF", "%2509", "%25FE"])
SLASH = st.sampled_from(
    ["/", "//", "\\", "/./", "/junk/../", "/;x/", "%2f", "%5C", "%252F", "/ /", "/@@"]
)
FILLERS = ["12", ";x", "%20", "..", "\\", "%FF", "@@", "%25", "%C3%A9", "*"]


@st.composite
def odd_segments(draw: st.DrawFn, name: str) -> str:
    """Spell one segment in an odd way that some router or front still reads as that segment."""
    letters = [
        encoded(letter.upper() if draw(st.booleans()) else letter, draw(st.integers(0, 2)))
        for letter in name
    ]
    for blank in draw(st.lists(BLANK, max_size=2)):
        letters.insert(draw(st.integers(0, len(letters))), blank)
    return "".join(letters) + draw(st.sampled_from(["", ";", ";v=1;w"]))


@st.composite
def odd_targets(draw: st.DrawFn, root: str) -> str:
    """Spell a protected path in an odd way, behind an odd beginning, before an odd end."""
    segments = draw(st.sampled_from([pattern[1:].split("/") for pattern in PROTECTED]))
    text = draw(st.sampled_from(["", "/", "//", "x:", "x:/", "http://evil/", "http://pre/", " /"]))
    if root and draw(st.booleans()):
        text += root[1:] if text.endswith("/") else root
        text += draw(st.sampled_from(["", "/", "//"]))
    text += draw(st.sampled_from(["", "junk/../", "./"])) if text.endswith("/") else ""
    names = [draw(st.just("7") if name == "*" else odd_segments(name)) for name in segments]
    text += names[0] + "".join(draw(SLASH) + name for name in names[1:])
    return text + draw(st.sampled_from(["", "/", "//", "/more", "#f", "%3fq", "\n", ";x"]))


@pytest.mark.parametrize("anchored", [False, True], ids=["at any offset", "anchored"])
@pytest.mark.parametrize("root", ["", "/pre"], ids=["no root path", "a root path"])
def test_every_odd_spelling_is_protected(root: str, anchored: bool) -> None:
    """No mixture of odd spellings gets a protected path past the rules."""
    strict = rules(anchored=anchored)

    @examples(20)
    @given(text=odd_targets(root), raw=st.booleans())
    def law(text: str, raw: bool) -> None:
        assert strict.is_protected(unquote(text), text if raw else None, root)

    law()


@examples(20)
@given(
    filler=st.sampled_from(FILLERS),
    lead=st.sampled_from(["", "/", "//"]),
    end=st.sampled_from(["", "/", "%0a"]),
)
def test_whatever_fills_a_star_is_protected(filler: str, lead: str, end: str) -> None:
    """A segment that looks odd still fills a star."""
    path, raw, root = target(f"{lead}api/v1/chart/{filler}/data{end}")
    assert rules("/api/v1/chart/*/data").is_protected(path, None, root)
    assert rules("/api/v1/chart/*/data").is_protected(path, raw, root)


@examples(20)
@given(text=odd_targets(""))
def test_no_odd_spelling_is_exempt(text: str) -> None:
    """An open path is exempt as its own bytes, never by another spelling."""
    opened = rules("/api", "/superset", events="", opened=("/superset/explore_json",))
    plain = text.rstrip("/") == "/superset/explore_json" and not text.endswith("//")
    assert opened.is_protected(*target(text)) is not plain


@pytest.mark.parametrize(
    ("path", "raw", "expected"),
    [
        pytest.param("/a" * 50_000, None, False, id="a plain path of any length is read"),
        pytest.param("/:" + "a" * 7_998, None, False, id="an odd path of 8,000 characters too"),
        pytest.param("/:" + "a" * 7_999, None, True, id="a longer one is protected unread"),
        pytest.param("/:", "/%3A" + "a" * 7_997, True, id="and so is one with a longer raw path"),
    ],
)
def test_an_odd_path_that_is_too_long_is_protected(
    path: str, raw: str | None, expected: bool
) -> None:
    """Nobody can make us read in every way what servers need not even take."""
    assert rules().is_protected(path, raw, "") is expected


@pytest.mark.parametrize("size", [8_000, 100_000])
@pytest.mark.parametrize("unit", ["/", "/.", "/../a", ";/", "%25", "\n/", "\\@@", "/api/v1/chart"])
def test_the_worst_paths_take_little_time(unit: str, size: int) -> None:
    """Work grows linearly with the path, and ends at some length."""
    asked = rules("/*/*/b*/c", *PROTECTED)
    path = f"h:{unit * size}"[:size]
    began = time.process_time()
    asked.is_protected(path, path, "/pre")
    asked.events_tail(EVENTS + path, "/pre")
    assert time.process_time() - began < 1


# --- real routers as judges -----------------------------------------------------------------------

ROUTED = ("/api/x", "/api/w/*/data")
FIXED, WILD = "/api/x", "/api/w/{pk}/data"

Dispatches = Callable[[str, bytes, str], bool]
"""Ask a real app, by path, its bytes and root path, whether a handler at `ROUTED` was called."""

Hit = Callable[..., str]
Loop = asyncio.AbstractEventLoop


def wsgi(app: Any, hits: list[str]) -> Dispatches:
    """Call a WSGI app: the path comes as its bytes, in Latin-1 text (PEP 3333)."""

    def dispatches(path: str, octets: bytes, root: str) -> bool:
        hits.clear()
        environ = {
            "REQUEST_METHOD": "GET",
            "SCRIPT_NAME": root,
            "PATH_INFO": octets.decode("latin-1"),
            "QUERY_STRING": "",
            "SERVER_NAME": "h",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(),
            "wsgi.errors": io.StringIO(),
        }
        with contextlib.suppress(UnicodeDecodeError):  # Pyramid's answer to bytes that are no UTF-8
            b"".join(app(environ, lambda status, headers, exc_info=None: None))
        return bool(hits)

    return dispatches


def asgi(app: Any, hits: list[str], loop: Loop) -> Dispatches:
    """Call an ASGI app; only the call of its handler counts, not the answer."""

    def dispatches(path: str, octets: bytes, root: str) -> bool:
        hits.clear()
        ended = asyncio.Event()
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": quote(octets).encode(),
            "query_string": b"",
            "root_path": root,
            "headers": [(b"host", b"h")],
            "client": ("127.0.0.1", 1),
            "server": ("h", 80),
        }
        messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> dict[str, Any]:
            for message in messages:
                return message
            await ended.wait()  # as real servers do
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                ended.set()

        with contextlib.suppress(IndexError, ValueError):  # Quart: no path, an odd authority
            loop.run_until_complete(app(scope, receive, send))
        return bool(hits)

    return dispatches


def flask_judge(hit: Hit, hits: list[str], loop: Loop) -> Dispatches:
    """Flask: leading slashes do not matter to it."""
    app = pytest.importorskip("flask").Flask("judge")
    app.add_url_rule(FIXED, "x", hit)
    app.add_url_rule("/api/w/<pk>/data", "w", hit)
    return wsgi(app.wsgi_app, hits)


def bottle_judge(hit: Hit, hits: list[str], loop: Loop) -> Dispatches:
    """Bottle: it drops bytes that are no UTF-8."""
    app = pytest.importorskip("bottle").Bottle()
    app.route(FIXED, callback=hit)
    app.route("/api/w/<pk>/data", callback=hit)
    return wsgi(app, hits)


def falcon_judge(hit: Hit, hits: list[str], loop: Loop) -> Dispatches:
    """Falcon: leading slashes do not matter to it, and an empty segment is a segment."""
    app = pytest.importorskip("falcon").App()
    resource = type("Resource", (), {"on_get": lambda self, request, response, pk="": hit()})()
    app.add_route(FIXED, resource)
    app.add_route(WILD, resource)
    return wsgi(app, hits)


def falcon_asgi_judge(hit: Hit, hits: list[str], loop: Loop) -> Dispatches:
    """Falcon's other face."""

    async def on_get(self: object, request: object, response: object, pk: str = "") -> None:
        hit()

    app = pytest.importorskip("falcon.asgi").App()
    resource = type("Resource", (), {"on_get": on_get})()
    app.add_route(FIXED, resource)
    app.add_route(WILD, resource)
    return asgi(app, hits, loop)


def pyramid_app(configure: Callable[[Any, Any], None], root_factory: Any = None) -> Any:
    """Build a Pyramid app."""
    response = pytest.importorskip("pyramid.response").Response
    config = pytest.importorskip("pyramid.config").Configurator(root_factory=root_factory)
    configure(config, response)
    return config.make_wsgi_app()


def pyramid_judge(hit: Hit, hits: list[str], loop: Loop) -> Dispatches:
    """Pyramid's routes: `$` lets a newline pass."""

    def configure(config: Any, response: Any) -> None:
        for name, route in (("x", FIXED), ("w", WILD)):
            config.add_route(name, route)
            config.add_view(lambda request: response(hit()), route_name=name)

    return wsgi(pyramid_app(configure), hits)


def traversal_judge(hit: Hit, hits: list[str], loop: Loop) -> Dispatches:
    """Pyramid's traversal: slashes merge, dots are resolved, `@@` selects a view."""
    api = type("Api", (dict,), {})

    def configure(config: Any, response: Any) -> None:
        config.add_view(lambda request: response(hit()), context=api, name="x")

    return wsgi(pyramid_app(configure, lambda request: {"api": api(), "junk": {}}), hits)


def django_judge(hit: Hit, hits: list[str], loop: Loop) -> Dispatches:
    """Django's resolver, with an expression that ignores case."""
    configure_django()
    urls, resolvers = (
        pytest.importorskip("django.urls"),
        pytest.importorskip("django.urls.resolvers"),
    )
    routes = [urls.path("api/w/<str:pk>/data", hit), urls.re_path(r"(?i)^api/x$", hit)]
    resolver = resolvers.URLResolver(resolvers.RegexPattern(r"^/"), routes)

    def dispatches(path: str, octets: bytes, root: str) -> bool:
        with contextlib.suppress(urls.Resolver404):
            return bool(resolver.resolve(path.removeprefix(root)))
        return False

    return dispatches


def quart_judge(hit: Hit, hits: list[str], loop: Loop) -> Dispatches:
    """Quart: it parses what has no leading slash as a URL."""

    async def handler(pk: str = "") -> str:
        return hit()

    app = pytest.importorskip("quart").Quart("judge")
    app.add_url_rule(FIXED, "x", handler)
    app.add_url_rule("/api/w/<pk>/data", "w", handler)
    return asgi(app, hits, loop)


def litestar_judge(hit: Hit, hits: list[str], loop: Loop) -> Dispatches:
    """Litestar: it merges slashes, and drops all before the first root path."""
    litestar = pytest.importorskip("litestar")

    async def fixed() -> str:
        return hit()

    async def wild(pk: str) -> str:
        return hit()

    routes = [litestar.get(FIXED)(fixed), litestar.get("/api/w/{pk:str}/data")(wild)]
    return asgi(litestar.Litestar(routes, openapi_config=None), hits, loop)


def starlette_judge(hit: Hit, hits: list[str], loop: Loop) -> Dispatches:
    """Starlette: `$` lets a newline pass; a mount behind dots."""
    applications = pytest.importorskip("starlette.applications")
    responses, routing = (pytest.importorskip(f"starlette.{m}") for m in ("responses", "routing"))

    async def handler(request: object) -> Any:
        return responses.Response(hit())

    mounted = routing.Mount("/mnt", routes=[routing.Route(FIXED, handler)])
    routes = [routing.Route(FIXED, handler), routing.Route(WILD, handler), mounted]
    return asgi(applications.Starlette(routes=routes), hits, loop)


def fastapi_judge(hit: Hit, hits: list[str], loop: Loop, root_path: str = "") -> Dispatches:
    """FastAPI."""
    app = pytest.importorskip("fastapi").FastAPI(root_path=root_path)

    async def handler(pk: str = "") -> str:
        return hit()

    app.add_api_route(FIXED, handler)
    app.add_api_route(WILD, handler)
    return asgi(app, hits, loop)


def rooted_fastapi_judge(hit: Hit, hits: list[str], loop: Loop) -> Dispatches:
    """FastAPI with a root path of its own, which a wrapper does not see."""
    return fastapi_judge(hit, hits, loop, "/pre")


WSGI_JUDGES = [flask_judge, bottle_judge, falcon_judge, pyramid_judge, traversal_judge]
ASGI_JUDGES = [
    *[django_judge, falcon_asgi_judge, quart_judge, litestar_judge],
    *[starlette_judge, fastapi_judge, rooted_fastapi_judge],
]
JUDGES = [pytest.param(judge, id=judge.__name__) for judge in [*WSGI_JUDGES, *ASGI_JUDGES]]


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    """An event loop for the ASGI judges."""
    running = asyncio.new_event_loop()
    yield running
    running.close()


@pytest.fixture(scope="module")
def judge_of(loop: Loop) -> Callable[[Any], Dispatches]:
    """A factory of judges, each built once."""
    built: dict[Any, Dispatches] = {}

    def judge_of(build: Any) -> Dispatches:
        hits: list[str] = []

        def hit(*args: object, **kwargs: object) -> str:
            hits.append("hit")
            return ""

        if build not in built:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # deprecations of the frameworks are not our matter
                built[build] = build(hit, hits, loop)
        return built[build]

    return judge_of


PIECES = st.sampled_from(
    [
        *"/ \\;.?#:@*%xX",
        *("//", "/.", "/..", "/junk/..", "@@", "%0a", "%09", "%0d", "%00", "%20", "%ff", "%c3"),
        *("%2f", "%5c", "%3b", "%3f", "%23", "%25", "%61", "%2561", "%c4%b0", "%c4%b1", "%c5%bf"),
        *("x:", "http:", "//evil", "http://evil", "http://pre"),
        *("/pre", "/PRE", "pre", "/mnt", "/zzz"),
    ]
)


@st.composite
def fuzzed(draw: st.DrawFn) -> str:
    """Take a path that has a handler, and put pieces into it, mostly at its joints."""
    text = draw(st.just(FIXED) | st.sampled_from(FILLERS).map("/api/w/{}/data".format))
    text = draw(st.sampled_from(["", "", "/pre", "/pre/pre", "/mnt", "http://evil"])) + text
    for _ in range(draw(st.integers(0, 3))):
        slashes = [place for place, letter in enumerate(text) if letter == "/"]
        joints = [0, len(text), *slashes, *(place + 1 for place in slashes)]
        at = draw(st.sampled_from(joints) | st.integers(0, len(text)))
        piece = draw(PIECES | st.sampled_from(["", text[at : at + 1].swapcase()]))
        text = text[:at] + piece + text[at + draw(st.sampled_from([0, 0, 1])) :]
    return text


@pytest.mark.parametrize("root", ["", "/pre"], ids=["no root path", "a root path"])
@pytest.mark.parametrize("build", JUDGES)
def test_whatever_a_real_router_dispatches_is_protected(
    build: Any, root: str, judge_of: Callable[[Any], Dispatches]
) -> None:
    """Whenever a handler at a protected path is called, the path was protected."""
    dispatches = judge_of(build)
    strict, anchored = rules(*ROUTED, events=""), rules(*ROUTED, events="", anchored=True)

    @examples(len(JUDGES) * 2)
    @given(text=fuzzed(), raw=st.booleans())
    def law(text: str, raw: bool) -> None:
        octets = unquote_to_bytes(text)
        path = octets.decode("utf-8", "replace")
        if dispatches(path, octets, root):
            asked = (path, text if raw else None, root)
            assert strict.is_protected(*asked)
            unseen = build is rooted_fastapi_judge or "/mnt" in path  # prefixes no setting names
            assert anchored.is_protected(*asked) or unseen

    law()


@pytest.mark.parametrize(
    ("build", "text", "root"),
    [
        pytest.param(flask_judge, "///api/x", "", id="Flask strips leading slashes"),
        pytest.param(flask_judge, "api/w/;v/data", "", id="Flask fills a segment with anything"),
        pytest.param(bottle_judge, "/ap%FFi/x", "", id="Bottle drops bytes that are no UTF-8"),
        pytest.param(falcon_judge, "//api/x", "", id="Falcon strips leading slashes"),
        pytest.param(falcon_judge, "/api/w//data", "", id="Falcon fills a segment with nothing"),
        pytest.param(falcon_asgi_judge, "api/w//data", "", id="and so does its ASGI face"),
        pytest.param(pyramid_judge, "/api/x%0a", "", id="Pyramid lets a newline pass"),
        pytest.param(traversal_judge, "//junk/../api/./@@x", "", id="Pyramid's traversal resolves"),
        pytest.param(django_judge, "/AP%C4%B0/x", "", id="Django's expressions ignore case"),
        pytest.param(django_judge, "/pre/api/x", "/pre", id="Django strips the root path"),
        pytest.param(quart_judge, "http://evil/a%09pi/x?q", "", id="Quart parses a URL"),
        pytest.param(quart_judge, "http:/api/w/;v/data;p", "", id="Quart cuts the last parameter"),
        pytest.param(
            quart_judge, "http://pre/preapi/x", "/pre", id="Quart strips without boundary"
        ),
        pytest.param(litestar_judge, "api//w/;v//data//", "", id="Litestar merges slashes"),
        pytest.param(litestar_judge, "/api//w/%20/data", "", id="Litestar fills with a blank"),
        pytest.param(litestar_judge, "/zzz/preapi/x", "/pre", id="Litestar drops what is before"),
        pytest.param(litestar_judge, "/Pre/preapi/x", "/pre", id="Litestar heeds case"),
        pytest.param(starlette_judge, "/api/x%0a", "", id="Starlette lets a newline pass"),
        pytest.param(starlette_judge, "/pre/mnt/api/x", "/pre", id="Starlette mounts"),
        pytest.param(fastapi_judge, "/pre/api/x", "/pre", id="FastAPI strips the root path"),
        pytest.param(rooted_fastapi_judge, "/pre/api/x", "", id="FastAPI has its own root path"),
    ],
)
def test_a_router_takes_what_its_name_says(
    build: Any, text: str, root: str, judge_of: Callable[[Any], Dispatches]
) -> None:
    """The judges do dispatch odd forms, so that their verdicts mean something."""
    octets = unquote_to_bytes(text)
    path = octets.decode("utf-8", "replace")
    assert judge_of(build)(path, octets, root)
    assert rules(*ROUTED, events="").is_protected(path, text, root)
