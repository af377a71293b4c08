"""Cookies: one scanner for both faces, and the writer of ours.

The one module that knows werkzeug.http.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from werkzeug.http import dump_cookie

from gaq_middleware.core.settings import Settings

MAX_VALUES = 8
MAX_PAIRS = 200
MAX_COOKIE_BYTES = 4096
_PLAIN = re.compile(r"[\w.-]+=[\w.~+/=-]*\Z", re.ASCII)
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")


def cookie_values(headers: Iterable[str], name: str) -> list[str]:
    """Return the values of one cookie name, in order, from all `Cookie` headers.

    Pairs are split at `;` only, names are exact, one pair of quotes is stripped (RFC 6265bis
    section 5.7); at most 8 values of the first 200 pairs count.
    """
    values = []
    for header in headers:
        if name in header:
            for key, value in _pairs(header):
                if key == name:
                    quoted = len(value) > 1 and value[0] == value[-1] == '"'
                    values.append(value[1:-1] if quoted else value)
    return values[:MAX_VALUES]


def cookie_names(headers: Iterable[str]) -> list[str]:
    """Return at most 10 names of cookies for the log: tokens of at most 64 characters."""
    names = (key for header in headers for key, _ in _pairs(header) if _NAME.fullmatch(key))
    return [name for name, _ in zip(dict.fromkeys(names), range(10), strict=False)]


def replace_cookie(headers: Iterable[str], name: str, value: str) -> str:
    """Return one `Cookie` header in which `name` holds just this value, and stands first.

    Whatever any framework could read as that name is gone: some strip what is white space only
    in UTF-8, and `http.cookies` begins a new pair after every blank. So a pair that mentions the
    name stays only if it is spelled in letters that all of them read alike.
    """
    pairs = (pair.strip(" \t") for header in headers for pair in header.split(";"))
    kept = [
        pair
        for pair in pairs
        if pair and (name not in pair or (_PLAIN.match(pair) and not pair.startswith(f"{name}=")))
    ]
    return "; ".join([f"{name}={value}", *kept])


def _pairs(header: str) -> Iterator[tuple[str, str]]:
    for pair in header.split(";", MAX_PAIRS)[:MAX_PAIRS]:
        key, equals, value = pair.partition("=")
        if equals:
            yield key.strip(" \t"), value.strip(" \t")


class CookieWriter:
    """Writes and deletes the cookie of one set of settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._always_secure = (
            settings.cookie_secure is True
            or settings.cookie_name.lower().startswith(("__host-", "__secure-"))
            or settings.cookie_samesite == "None"
            or settings.cookie_partitioned
        )

    def write(self, value: str, max_age: int, *, https: bool) -> str:
        """Return the `Set-Cookie` line of a token; the caller judges its size.

        Args:
            value: The token, or "" to delete.
            max_age: Seconds; 0 deletes.
            https: Whether the request came by https, for `GAQ_COOKIE_SECURE=auto`.
        """
        settings = self._settings
        return dump_cookie(
            settings.cookie_name,
            value,
            max_age=max_age,
            path=settings.cookie_path,
            domain=settings.cookie_domain,
            secure=self._always_secure or (settings.cookie_secure is None and https),
            httponly=True,
            samesite=settings.cookie_samesite,
            partitioned=settings.cookie_partitioned,
            sync_expires=False,
            max_size=0,
        )

    def delete(self, *, https: bool) -> str:
        """Return the line that deletes the cookie, with the attributes it was set with."""
        return self.write("", 0, https=https)

    def is_dropped(self, *, https: bool) -> bool:
        """Whether browsers drop the cookie: it is Secure and the request was plain http."""
        return self._always_secure and not https


def sets_cookie(lines: Iterable[str], name: str) -> bool:
    """Whether one of these `Set-Cookie` lines sets or deletes the named cookie."""
    return any(line.partition("=")[0].strip(" \t") == name for line in lines)
