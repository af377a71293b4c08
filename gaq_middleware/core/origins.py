"""Origins: proof that a browser's request comes from our own pages, and CORS for listed others.

A proxy that rewrites Host without `GAQ_TRUSTED_HEADERS` knowing weakens nothing: the comparison
then fails and the request is refused.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from gaq_middleware.core.errors import Refusal
from gaq_middleware.core.messages import Headers, RequestHead

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_HTTPS = {"https", "wss"}


def is_https(head: RequestHead) -> bool:
    """Whether the request came by https, or anybody says so.

    Good for the `Secure` attribute only: a false claim harms just the sender's own cookie.
    """
    claimed = head.headers.get("x-forwarded-proto")
    if head.scheme in _HTTPS or (claimed and any("https" in value.lower() for value in claimed)):
        return True
    origin = head.one("origin")
    return origin is not None and origin.lower().startswith("https://") and _same(origin, head)


def refuse_cross_origin(head: RequestHead, allowed: tuple[str, ...]) -> Refusal | None:
    """Return the refusal of a request that a browser sent from a foreign page, else None.

    `Sec-Fetch-Site` is believed first, then `Origin` against the request's own host (Fetch
    standard; RFC 6454). Neither of them: the sender is no browser.
    """
    site, origins = head.headers.get("sec-fetch-site"), head.headers.get("origin")
    if site in (["same-origin"], ["none"]):
        return None
    origin = origins[0] if origins and len(origins) == 1 else None
    if not site and (not origins or origin == ""):
        return None
    if origin is not None and (listed_origin(head, allowed) or _is_own(origin, head)):
        return None
    seen = ", ".join(origins or ()) or "none"
    expected = f"{'https' if head.scheme in _HTTPS else 'http'}://{head.first('host') or '?'}"
    return Refusal.of(
        "cross_origin",
        f"The request comes from the origin {_shown(seen)} but {_shown(expected)} or one of "
        "GAQ_ALLOWED_ORIGINS is expected.",
    )


def _shown(text: str) -> str:
    return ascii(text[:200])[1:-1]


def listed_origin(head: RequestHead, allowed: tuple[str, ...]) -> str | None:
    """Return the request's `Origin` if it is one of the allowed ones, else None."""
    origin = head.one("origin")
    return origin if origin is not None and origin.lower() in allowed else None


def _is_own(origin: str, head: RequestHead) -> bool:
    https_enough = origin.lower().startswith("https://") or head.scheme not in _HTTPS
    return https_enough and _same(origin, head)


def _same(origin: str, head: RequestHead) -> bool:
    """Whether an origin has the host and port of the request; ports default by its own scheme."""
    host = head.one("host")
    try:
        there, here = urlsplit(origin.lower()), urlsplit(f"//{(host or '').lower()}")
        default = _PORTS.get(there.scheme)
        ports = (there.port or default, here.port or default)
    except ValueError:  # no port number, or a broken IPv6 address
        return False
    bare = not (there.path or there.query or there.fragment or "@" in there.netloc)
    same_host = bool(there.hostname) and there.hostname == here.hostname
    return bare and same_host and default is not None and ports[0] == ports[1]


def preflight_headers(head: RequestHead, allowed: tuple[str, ...]) -> Headers:
    """Return the headers of the answer to a preflight; for unlisted origins no CORS ones."""
    headers = [("Cache-Control", "no-store"), *cors_headers(head, allowed)]
    if listed_origin(head, allowed) is not None:
        headers.append(("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE"))
        asked = head.one("access-control-request-headers")
        if asked and all(32 <= ord(c) < 127 for c in asked):
            headers.append(("Access-Control-Allow-Headers", asked))
        headers.append(("Access-Control-Max-Age", "600"))
    return headers


def cors_headers(head: RequestHead, allowed: tuple[str, ...]) -> Headers:
    """Return the CORS headers of an answer of ours (Fetch standard, CORS protocol)."""
    if not allowed:
        return []
    origin = listed_origin(head, allowed)
    if origin is None:
        return [("Vary", "Origin")]
    return [
        ("Access-Control-Allow-Origin", origin),
        ("Access-Control-Allow-Credentials", "true"),
        ("Access-Control-Expose-Headers", "X-GAQ-Error, Retry-After"),
        ("Vary", "Origin"),
    ]
