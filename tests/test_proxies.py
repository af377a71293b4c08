"""Proxies: trusted peers only, from the right, and nothing undone that the server rewrote."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaq_middleware.core.messages import RequestHead
from gaq_middleware.core.proxies import FORWARDED, ProxyTrust, is_rewritten

PEERS = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))
ALL = tuple(sorted(FORWARDED - {"forwarded"}))


def head(peer: str | None = "10.0.0.1", *, rewritten: bool = False, **headers: Any) -> RequestHead:
    """Return a request with forwarded headers; text is one line, a list several."""
    found = {
        name.replace("_", "-"): [v] if isinstance(v, str) else v for name, v in headers.items()
    }
    return RequestHead(
        "GET", "http", "/", None, "", "", {"host": ["inner"], **found}, peer, rewritten
    )


def public(request: RequestHead, *names: str, peers: Any = PEERS) -> RequestHead:
    """Return the request as trusted proxies tell it."""
    return ProxyTrust(peers, names or ("x-forwarded-for", "x-forwarded-proto")).public(request)


@pytest.mark.parametrize(
    ("peer", "rewritten", "trusted"),
    [
        ("10.1.2.3", False, True),
        ("11.1.2.3", False, False),
        ("fd00::1", False, True),
        ("::ffff:10.1.2.3", False, True),
        ("10.1.2.3", True, False),
        ("not an address", False, False),
        ("", False, False),
        (None, False, False),
    ],
    ids=["inside", "outside", "inside v6", "mapped", "rewritten", "text", "empty", "unix socket"],
)
def test_who_is_trusted(peer: str | None, rewritten: bool, trusted: bool) -> None:
    """Networks count, mapped addresses too; a peer that the server rewrote never (section 6)."""
    assert ProxyTrust(PEERS, ()).trusts(head(peer, rewritten=rewritten)) is trusted


def test_a_unix_socket_is_trusted_by_name() -> None:
    """`unix` stands for peers without an address."""
    assert ProxyTrust(("unix",), ()).trusts(head(None))
    assert not ProxyTrust(("unix",), ()).trusts(head("10.0.0.1"))


@pytest.mark.parametrize(
    ("forwarded_for", "client"),
    [
        ("1.2.3.4", "1.2.3.4"),
        ("6.6.6.6, 1.2.3.4", "1.2.3.4"),
        ("6.6.6.6, 1.2.3.4, 10.0.0.2", "1.2.3.4"),
        (["6.6.6.6", "1.2.3.4, 10.0.0.2"], "1.2.3.4"),
        ("10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("6.6.6.6, garbage, 10.0.0.2", "garbage"),
        ("", "10.0.0.1"),
    ],
    ids=["one", "spoofed", "two hops", "two lines", "all trusted", "garbage", "empty"],
)
def test_the_client_is_the_first_that_is_not_trusted(forwarded_for: Any, client: str) -> None:
    """The list is walked from the right through trusted hops only; what stands left is hearsay."""
    assert public(head(x_forwarded_for=forwarded_for)).peer == client


@pytest.mark.parametrize(
    ("proto", "forwarded_for", "scheme"),
    [
        ("https", "1.2.3.4", "https"),
        ("HTTPS", "1.2.3.4", "https"),
        ("ftp", "1.2.3.4", "http"),
        ("https, http", "1.2.3.4", "http"),
        ("https, http", "1.2.3.4, 10.0.0.2", "https"),
        ("http, https, http", "6.6.6.6, 1.2.3.4, 10.0.0.2", "https"),
        ("https", "1.2.3.4, 10.0.0.2", "https"),
        ("https", "", "https"),
    ],
    ids=[
        "set",
        "case",
        "unknown",
        "appended, spoofed left",
        "appended by two",
        "spoofed beyond two",
        "set by the outer one",
        "without addresses",
    ],
)
def test_the_scheme_is_what_the_outermost_trusted_proxy_says(
    proto: str, forwarded_for: str, scheme: str
) -> None:
    """A value counts at the place of the proxy that wrote it."""
    request = head(x_forwarded_proto=proto, x_forwarded_for=forwarded_for)

    assert public(request).scheme == scheme


def test_case_93_an_untrusted_peer_changes_nothing() -> None:
    """Headers of anybody else are left alone, and named for one warning each."""
    request = head("6.6.6.6", x_forwarded_for="1.2.3.4", x_forwarded_host="evil")
    trust = ProxyTrust(PEERS, ALL)

    assert trust.public(request) is request
    assert trust.distrusted(request) == ["x-forwarded-for", "x-forwarded-host"]
    assert trust.distrusted(head(x_forwarded_for="1.2.3.4")) == []
    assert trust.distrusted(head("6.6.6.6")) == []
    assert trust.distrusted(head("6.6.6.6", rewritten=True, x_forwarded_for="1")) == []


@pytest.mark.parametrize(
    ("headers", "host"),
    [
        ({"x_forwarded_host": "app.example"}, "app.example"),
        ({"x_forwarded_host": "app.example", "x_forwarded_port": "8443"}, "app.example:8443"),
        ({"x_forwarded_host": "app.example:1", "x_forwarded_port": "8443"}, "app.example:1"),
        ({"x_forwarded_host": "[::1]", "x_forwarded_port": "x"}, "[::1]"),
        ({"x_forwarded_host": "evil/path"}, "inner"),
        ({"x_forwarded_port": "8443"}, "inner"),
    ],
    ids=["host", "host and port", "port in host", "v6", "not a host", "port alone"],
)
def test_the_public_host_is_believed_only_when_listed(headers: Any, host: str) -> None:
    """GAQ_TRUSTED_HEADERS decides; nginx passes a client's X-Forwarded-Host through."""
    assert public(head(**headers), *ALL).one("host") == host
    assert public(head(**headers)).one("host") == "inner"


@pytest.mark.parametrize(
    ("prefix", "root"),
    [("/pre", "/pre"), ("/pre/", "/pre"), ("pre", ""), ("/../x y", ""), ("//evil", "")],
)
def test_a_prefix_becomes_the_root_path(prefix: str, root: str) -> None:
    """A trusted prefix counts for path matching, if it is one."""
    assert public(head(x_forwarded_prefix=prefix), *ALL).root_path == root


def test_a_prefix_does_not_replace_the_servers_own() -> None:
    """What the server says of its root path stands."""
    request = head(x_forwarded_prefix="/pre")._replace(root_path="/app")

    assert public(request, *ALL).root_path == "/app"


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ("for=1.2.3.4;proto=https;host=app.example", ("1.2.3.4", "https", "app.example")),
        ('for="[2001:db8::1]:4711";proto=https', ("2001:db8::1", "https", "inner")),
        ("for=1.2.3.4:80", ("1.2.3.4", "http", "inner")),
        ("for=6.6.6.6, for=1.2.3.4;proto=https", ("1.2.3.4", "https", "inner")),
        ('FOR=1.2.3.4; Proto="ht\\tps"', ("1.2.3.4", "https", "inner")),
        ("for=_hidden", ("_hidden", "http", "inner")),
        ("for=1.2.3.4;by=10.0.0.9", ("1.2.3.4", "http", "inner")),
        ("broken", ("10.0.0.1", "http", "inner")),
    ],
)
def test_forwarded_of_rfc_7239(value: str, seen: tuple[str, str, str]) -> None:
    """The standard header is read when it is the one that is trusted."""
    request = public(head(forwarded=value, x_forwarded_for="6.6.6.6"), "forwarded")

    assert (request.peer, request.scheme, request.one("host")) == seen


@given(
    st.dictionaries(st.sampled_from(sorted(FORWARDED)), st.lists(st.text(max_size=60), max_size=3)),
    st.sampled_from([ALL, ("forwarded",)]),
)
def test_any_text_gives_an_answer(headers: dict[str, list[str]], names: tuple[str, ...]) -> None:
    """Whatever a proxy writes, nothing raises, and the scheme is one of two."""
    request = RequestHead("GET", "http", "/", None, "", "", headers, "10.0.0.1")

    assert ProxyTrust(PEERS, names).public(request).scheme in {"http", "https"}


@pytest.mark.parametrize(
    ("client", "headers", "rewritten"),
    [
        (None, {}, False),
        (("10.0.0.1", 4711), {}, False),
        (("6.6.6.6", 0), {}, True),
        (("10.0.0.1", 4711), {"x-forwarded-for": ["6.6.6.6, 10.0.0.1:4711"]}, True),
        (("10.0.0.1", 4711), {"x-forwarded-for": ["10.0.0.1:+4_711"]}, True),
        (("fd00::1", 4711), {"x-forwarded-for": ["6.6.6.6", "[fd00::1]:4711"]}, True),
        (("10.0.0.1", 4711), {"x-forwarded-for": ["10.0.0.1:80, 6.6.6.6:4711, 10.0.0.1"]}, False),
        (
            ("10.0.0.1", 443),
            {"x-forwarded-for": ["10.0.0.1"], "x-forwarded-port": ["443"]},
            True,
        ),
        (
            ("10.0.0.1", 4711),
            {"x-forwarded-for": ["10.0.0.1"], "x-forwarded-port": ["443"]},
            False,
        ),
        (("10.0.0.1", None), {"x-forwarded-for": ["10.0.0.1:x"]}, True),
    ],
    ids=[
        "unix socket",
        "nothing forwarded",
        "port 0",
        "its port told",
        "its port in other letters",
        "its port told, v6",
        "other ports told",
        "its port told apart",
        "another port told apart",
        "no port",
    ],
)
def test_an_address_that_a_client_could_have_written_is_no_peer(
    client: Any, headers: dict[str, list[str]], rewritten: bool
) -> None:
    """Servers put forwarded addresses in the place of the peer's, ports included."""
    assert is_rewritten(client, headers) is rewritten
