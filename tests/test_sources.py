"""User sources of the request itself: a proxy's header, the server variable, the session."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from gaq_middleware.core.messages import RequestHead
from gaq_middleware.core.proxies import ProxyTrust
from gaq_middleware.core.sources import HeadSources
from tests.helpers import NOW, make_settings
from tests.test_sessions import SECRET, starlette_session


def user(request: RequestHead, **variables: str) -> object:
    """Return whom a request names."""
    return sources(**variables).user(request, NOW)


def sources(**variables: str) -> HeadSources:
    """Return sources that trust 10.0.0.0/8."""
    settings = make_settings(trusted_proxies="10.0.0.0/8", **variables)
    return HeadSources(settings, ProxyTrust((ipaddress.ip_network("10.0.0.0/8"),), ()))


def head(peer: str = "10.0.0.1", **options: Any) -> RequestHead:
    """Return a request."""
    headers = options.pop("headers", {})
    return RequestHead("GET", "http", "/", None, "", "", headers, peer, **options)


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (head(headers={"x-user": ["ada"]}), "ada"),
        (head("6.6.6.6", headers={"x-user": ["admin"]}), None),
        (head(headers={"x-user": ["ada"]}, peer_is_rewritten=True), None),
        (head(headers={"x-user": ["ada, admin"]}), None),
        (head(headers={"x-user": ["ada", "admin"]}), None),
        (head(headers={"remote-user": ["admin"]}), None),
        (head(remote_user="admin"), None),
    ],
    ids=[
        "from the proxy",
        "case 138 from a client",
        "peer rewritten",
        "with a comma",
        "twice",
        "another header",
        "server variable, not asked for",
    ],
)
def test_a_header_names_the_user_when_the_proxy_sent_it(
    request_: RequestHead, named: str | None
) -> None:
    """The client's own header of that name is never believed (section 6)."""
    assert user(request_, remote_user_header="X-User") == named


def test_the_server_variable_is_another_thing_than_a_header() -> None:
    """REMOTE_USER is set by the server; a header Remote-User is not it, and no peer is asked."""
    assert user(head("6.6.6.6", remote_user="ada"), remote_user_header="REMOTE_USER") == "ada"
    assert user(head(remote_user="cn=a,dc=b"), remote_user_header="REMOTE_USER") is None
    forged = head(headers={"remote-user": ["admin"], "remote_user": ["admin"]})
    assert user(forged, remote_user_header="REMOTE_USER") is None


def test_the_session_is_asked_when_no_proxy_names_anybody() -> None:
    """The proxy's word comes first, then the session's."""
    variables = {"session_format": "starlette", "session_secret": SECRET}
    cookie = f"session={starlette_session({'_user_id': '7'})}"
    request = head(headers={"cookie": [cookie], "x-user": ["ada"]})

    assert user(request, remote_user_header="X-User", **variables) == "ada"
    assert user(request, **variables) == "7"
    assert sources(**variables).exist
    assert not sources().exist


def test_a_hidden_proxy_is_noticed() -> None:
    """The header came, but uvicorn put the forwarded address in the peer's place."""
    hidden = head(headers={"x-user": ["ada"]}, peer_is_rewritten=True)

    assert sources(remote_user_header="X-User").is_named_by_rewritten_peer(hidden)
    assert not sources(remote_user_header="X-User").is_named_by_rewritten_peer(head())
