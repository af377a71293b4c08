"""Proxies: whose address, which scheme, which host, which prefix.

Forwarded headers are believed from trusted peers only and are walked from the right, through
trusted hops (RFC 7239 section 8.1). What the server itself rewrote is neither believed nor undone.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gaq_middleware.core.messages import RequestHead

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
FORWARDED = frozenset(
    {
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-port",
        "x-forwarded-prefix",
        "x-forwarded-proto",
    }
)
_PAIR = re.compile(r'\s*([A-Za-z]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*))\s*([;,]|\Z)')
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", re.IGNORECASE)
_PREFIX = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:@-]+)+")


class ProxyTrust:
    """Which peers are believed, and for which headers.

    Args:
        peers: The trusted networks; "unix" stands for peers on a Unix socket.
        headers: Lower-case names of the forwarded headers that trusted peers overwrite.
    """

    def __init__(self, peers: tuple[Network | str, ...], headers: tuple[str, ...]) -> None:
        self._networks = [peer for peer in peers if not isinstance(peer, str)]
        self._unix = "unix" in peers
        self._headers = frozenset(headers)

    def trusts(self, head: RequestHead) -> bool:
        """Whether the peer of a request is a trusted proxy, seen as itself."""
        return not head.peer_is_rewritten and self._trusts(head.peer)

    def _trusts(self, address: str | None) -> bool:
        if not address:
            return self._unix
        try:
            ip = ipaddress.ip_address(address)
        except ValueError:
            return False
        ip = getattr(ip, "ipv4_mapped", None) or ip
        return any(ip in network for network in self._networks)

    def distrusted(self, head: RequestHead) -> list[str]:
        """Return the forwarded headers of a request that are not believed, for the log."""
        if FORWARDED.isdisjoint(head.headers) or head.peer_is_rewritten or self.trusts(head):
            return []
        return sorted(FORWARDED & head.headers.keys())

    def public(self, head: RequestHead) -> RequestHead:
        """Return the request as the client made it, as far as trusted proxies tell."""
        if FORWARDED.isdisjoint(head.headers) or not self.trusts(head):
            return head
        if "forwarded" in self._headers:
            told = _read_forwarded(head.headers.get("forwarded", []))
        else:
            told = {
                name.removeprefix("x-forwarded-"): _items(head.headers.get(name, []))
                for name in self._headers
            }
        hops = [*told.get("for", []), head.peer or ""]
        outermost = len(hops) - 1
        while outermost > 0 and self._trusts(hops[outermost]):
            outermost -= 1
        return _as_told(head, told, hops[outermost], len(hops) - 1 - outermost)


def is_rewritten(client: Sequence[Any] | None, headers: Mapping[str, list[str]]) -> bool:
    """Whether a server has put a forwarded address in the place of the peer's (ASGI).

    Those that do tell port 0 where they know none; else uvicorn has the port from the same item
    of X-Forwarded-For, and Daphne from X-Forwarded-Port. A client could write either.

    Args:
        client: Address and port, as the server tells them.
        headers: The request's.
    """
    if client is None or client[1] == 0:
        return client is not None
    peer, port = str(client[0]), client[1]
    ports = {_number(item) for item in _items(headers.get("x-forwarded-port", []))}
    for item in _items(headers.get("x-forwarded-for", [])):
        host, _, told = item.rpartition(":")
        if host.removeprefix("[").removesuffix("]") == peer and _number(told) == port:
            return True
        if item == peer and port in ports:
            return True
    return False


def _number(text: str) -> int | None:
    """Return a number as leniently as servers read one."""
    try:
        return int(text)
    except ValueError:
        return None


def _as_told(
    head: RequestHead, told: Mapping[str, list[str]], client: str, distance: int
) -> RequestHead:
    """Return a request with what the outermost of so many trusted proxies says of it."""

    def said(name: str) -> str | None:
        values = told.get(name)
        return values[-max(1, min(distance, len(values)))] if values else None

    proto, host, port, prefix = (said(name) for name in ("proto", "host", "port", "prefix"))
    scheme = proto.lower() if proto and proto.lower() in {"http", "https"} else head.scheme
    headers, root, root_in_path = head.headers, head.root_path, head.root_in_path
    if host is not None and _HOST.fullmatch(host):
        if port is not None and port.isdecimal() and not re.search(r":[0-9]+\Z", host):
            host = f"{host}:{port}"
        headers = {**headers, "host": [host]}
    if prefix is not None and _PREFIX.fullmatch(prefix.rstrip("/")) and not root:
        root, root_in_path = prefix.rstrip("/"), True
    return head._replace(
        scheme=scheme, headers=headers, root_path=root, root_in_path=root_in_path, peer=client
    )


def _items(values: list[str]) -> list[str]:
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


def _read_forwarded(values: list[str]) -> dict[str, list[str]]:
    """Return the parameters of `Forwarded` headers (RFC 7239 section 4); broken ones are none."""
    told: dict[str, list[str]] = {"for": [], "proto": [], "host": []}
    for name, value in _pairs(", ".join(values)):
        if name in told:
            told[name].append(_address(value) if name == "for" else value)
    return told


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        pair = _PAIR.match(text, at)
        if pair is None:
            return
        quoted = pair.group(2)
        value = pair.group(3) if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        yield pair.group(1).lower(), value
        at = pair.end()


def _address(node: str) -> str:
    """Return the address of a node, without port and brackets (RFC 7239 section 6)."""
    bracketed = re.fullmatch(r"\[([0-9A-Fa-f:.]+)\](:[0-9]+)?", node)
    if bracketed:
        return bracketed.group(1)
    return node.partition(":")[0] if node.count(":") == 1 else node
