"""What a variable may hold: each kind in words, and as a parser that says why it refuses.

Parsers take the text of one variable and raise ValueError with the reason and, where it is not
plain from the kind, the mend. What is wrong between two settings is settings.py's business.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from gaq_middleware.core.proxies import FORWARDED
from gaq_middleware.core.store_urls import check_store_url

MIN_SESSION_SECRET_BYTES = 16
MIN_SECRET_BYTES = 32  # RFC 7518 section 3.2: a key at least as long as the hash output
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 section 5.6.2
_PLACEHOLDER = re.compile(
    r"change.?me|change.?this|replace.?me|place.?holder|your.?(own|secret)|example.?secret"
    r"|this.?is.?a.?secret|this.?is.?my|not.?so.?secret|insecure|test.?non.?dev",
    re.IGNORECASE,
)
_PLACEHOLDER_CHARACTERS = 6
_NO_PATH = re.compile(r"[?#\s\\;\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_CLAIM = re.compile(r"[A-Za-z0-9_.:/-]+")


@dataclass(frozen=True, slots=True)
class Kind:
    """What a variable may hold: in words, and as a parser that raises ValueError with the why."""

    words: str
    parse: Callable[[str], Any]
    when_empty: Any = None  # None: an empty value is an error


def integer(low: int, high: int, unit: str = "") -> Kind:
    """Return the kind of whole numbers between two bounds, both allowed."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,12}", text):
            raise ValueError("it is not a whole number in plain digits")
        if not low <= int(text) <= high:
            raise ValueError(f"it is not between {low} and {high}")
        return int(text)

    return Kind(f"a whole number{unit} from {low} to {high}", parse)


def choice(*allowed: str) -> Kind:
    """Return the kind of these words, in any case."""
    names = {name.lower(): name for name in allowed}

    def parse(text: str) -> str:
        if text.lower() not in names:
            raise ValueError("it is none of them")
        return names[text.lower()]

    return Kind("one of " + ", ".join(allowed), parse)


def _boolean(text: str) -> bool:
    value = text.lower()
    if value in {"true", "1", "yes", "on"}:
        return True
    if value in {"false", "0", "no", "off"}:
        return False
    raise ValueError("it is neither")


def _auto_boolean(text: str) -> bool | None:
    return None if text.lower() == "auto" else _boolean(text)


def _secret(text: str, least: int = MIN_SECRET_BYTES) -> bytes:
    secret = text.encode("utf-8", "surrogateescape")
    if text != text.strip():
        raise ValueError("it has white space at an edge")
    if "," in text:
        raise ValueError("it contains a comma, which separates secrets in a list")
    if len(secret) < least:
        raise ValueError(f"it has only {len(secret)} bytes; `gaq secret` prints a good one")
    repeats = text in (text * 2)[1:-1]  # one word several times over
    if repeats or _PLACEHOLDER.search(text) or len(set(text)) < _PLACEHOLDER_CHARACTERS:
        raise ValueError("it is a placeholder; `gaq secret` prints a good one")
    return secret


def _header_name(text: str) -> str:
    if not _TOKEN.fullmatch(text) or "_" in text:
        raise ValueError("it is not a header name (letters, digits and hyphens)")
    if text.lower() in {"cookie", "host", "origin", "authorization"}:
        raise ValueError("that header has a meaning of its own")
    return text


def _cookie_name(text: str) -> str:
    if not _TOKEN.fullmatch(text):
        raise ValueError("it has characters that a cookie name may not have (RFC 6265)")
    return text


def _domain(text: str) -> str:
    host = text.removeprefix(".").lower()
    if host == "localhost" or ":" in host or not re.fullmatch(r"[a-z0-9.-]+\.[a-z0-9-]+", host):
        raise ValueError("browsers drop a cookie with such a domain; leave it unset")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host
    raise ValueError("browsers drop a cookie whose domain is an IP address; leave it unset")


def _path(text: str) -> str:
    if not text.startswith("/") or text.startswith("//") or _NO_PATH.search(text):
        raise ValueError(f"{text!r} is not a path such as /api/v1/jobs")
    return text if text == "/" else text.rstrip("/")


def _below_root(text: str) -> str:
    path = _path(text)
    if path == "/":
        raise ValueError("it may not be the root")
    return path


def _origin(text: str) -> str:
    parts = urlsplit(text.lower())
    if parts.scheme not in {"http", "https"} or not parts.hostname or text.endswith("/"):
        raise ValueError(f"{text!r} is not an origin such as https://app.example.com")
    if parts.path or parts.query or parts.fragment or "@" in parts.netloc or "*" in text:
        raise ValueError(f"{text!r} is more than scheme, host and port, or has a wildcard")
    default = {"http": 80, "https": 443}[parts.scheme]
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = "" if parts.port in {None, default} else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def _claim(text: str) -> str:
    if not _CLAIM.fullmatch(text):
        raise ValueError(f"{text!r} is not a claim name")
    return text


def _prefix(text: str) -> str:
    if not re.fullmatch(r"[!-~]{1,200}", text):
        raise ValueError("it has white space or characters outside ASCII")
    return text


def _attribute(text: str) -> str:
    if not re.fullmatch(r"\w+(\.\w+)*:\w+(\.\w+)*", text):
        raise ValueError("it is not the name of a module, a colon, and a name in that module")
    return text


def _list(words: str, parse: Callable[[str], Any], *, may_be_empty: bool = True) -> Kind:
    def parse_all(text: str) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(parse(item.strip()) for item in text.split(",")))

    return Kind(f"a comma-separated list of {words}", parse_all, () if may_be_empty else None)


def _secrets(text: str) -> tuple[bytes, ...]:
    return tuple(_secret(item) for item in text.split(","))


def _session_secret(text: str) -> bytes:
    return _secret(text, MIN_SESSION_SECRET_BYTES)


def _session_secrets(text: str) -> tuple[bytes, ...]:
    return tuple(_session_secret(item) for item in text.split(","))


def _peer(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | str:
    if text.lower() == "unix":
        return "unix"
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{text!r} is not an address or network such as 10.0.0.0/8") from None


def _forwarded(text: str) -> str:
    if text.lower() not in FORWARDED:
        raise ValueError(f"{text!r} is none of {', '.join(sorted(FORWARDED))}")
    return text.lower()


def _user_header(text: str) -> str:
    return text if text == "REMOTE_USER" else _header_name(text)


SECRET = Kind(f"a secret of at least {MIN_SECRET_BYTES} bytes", _secret)
SECRETS = Kind("a comma-separated list of secrets", _secrets, ())
BOOLEAN = Kind("true or false (also 1/0, yes/no, on/off)", _boolean)
HEADER = Kind("a header name", _header_name)
PATHS = _list("paths", _path)
COOKIE_NAME = Kind("a cookie name", _cookie_name)
DOMAIN = Kind("a domain name", _domain, "")
PATH = Kind("a path", _path)
AUTO = Kind("auto, true or false", _auto_boolean)
TEXT = Kind("text", str)
CLAIMS = _list("claim names", _claim, may_be_empty=False)
EVENTS_PATH = Kind("a path", _below_root, "")
ORIGINS = _list("origins", _origin)
STORE_URL = Kind(
    "the URL of a store: memory://, redis://, rediss://, unix:// or redis+sentinel://",
    check_store_url,
)
SESSION_SECRET = Kind(f"a secret of at least {MIN_SESSION_SECRET_BYTES} bytes", _session_secret)
SESSION_SECRETS = Kind("a comma-separated list of secrets", _session_secrets, ())
SESSION_FORMAT = Kind("flask or starlette", choice("flask", "starlette").parse, "")
PEERS = _list("addresses or networks, or unix", _peer)
FORWARDED_HEADERS = _list("forwarded headers", _forwarded, may_be_empty=False)
USER_HEADER = Kind("a header name, or REMOTE_USER", _user_header, "")
FIRM_SECRETS = (SECRET, SECRETS, SESSION_SECRET, SESSION_SECRETS)
"""The kinds whose values may come from a file."""
HIDDEN = (*FIRM_SECRETS, STORE_URL)
"""The kinds whose values are never shown; a store's URL may hold a password."""
STREAM_PREFIX = Kind("printable ASCII without spaces", _prefix)
ATTRIBUTE = Kind("module:attribute", _attribute, "")
