"""Which paths are guarded, and which requests are for our own endpoints.

The law of this module: **doubt protects**. What some server, front or router may dispatch as a
protected path is protected, however it is spelled; what opens or serves (open paths, login,
logout, our endpoints) is matched byte for byte, in the form that the server decoded once.

Only the path, the raw path and the root path are looked at, never the Host header nor a URL that
was rebuilt from it. Work grows linearly with the length of the path, and no input raises.
Unusual spellings are read in every way that some server, framework or proxy has been seen to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote, unquote_to_bytes

__all__ = ["PathRules"]

Finder = Callable[[str], "re.Match[str] | None"]

# RFC 9110 section 4.1 has everybody support so much; a longer odd path is protected unread.
_LONGEST = 8000
# Letters that all servers and routers read alike (RFC 3986 section 2.3).
_PLAIN = re.compile(r"(?:/[A-Za-z0-9._~-]+)*/?").fullmatch
# Where a pattern may end: with its segment, or where a router may cut the path.
_END = r"(?=[/?#]|\Z)"
# What parsers drop without a word: urllib tabs and newlines, Bottle bytes that are no UTF-8.
_SILENT = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ufffd]+")
# Scheme and authority: some servers pass the whole URL on as path (RFC 9112 section 3.2.2).
_ORIGIN = re.compile(r"(?:[^/?#:]*:)?(?://[^/?#]*)?")
# Path parameters (RFC 3986 section 3.3), and the view selector of Pyramid's traversal.
_EXTRAS = re.compile(r";[^/]*|(?<=/)@@")


@dataclass(frozen=True, slots=True)
class PathRules:
    """The rules about paths, compiled once from the settings.

    A pattern protects by whole segments what begins with it, at any segment, or only at the
    start when anchored. `*` is one segment, an empty one included: Falcon dispatches `/a//b` to
    `/a/{x}/b`. Behind other text, `*` is the rest of its segment. `/` is everything.

    Attributes:
        hit: Finds a protected pattern in one reading of a path.
        hit_events: Finds the events path in one reading of a path.
        events: The events path in canonical form; None when we serve none.
        open: Exempt paths, with and without a trailing slash; login and logout paths too.
        login: Login paths, likewise.
        logout: Logout paths, likewise.
    """

    hit: Finder
    hit_events: Finder
    events: str | None
    open: frozenset[str]
    login: frozenset[str]
    logout: frozenset[str]

    @classmethod
    def compile(
        cls,
        *,
        protected: Sequence[str],
        open: Sequence[str],  # noqa: A002
        anchored: bool,
        events: str,
        login: Sequence[str],
        logout: Sequence[str],
    ) -> PathRules:
        """Compile the settings of the same names; an empty text among them names nothing."""
        patterns, ours = _pattern([*protected, events]), _pattern([events])
        return cls(
            hit=patterns.match if anchored else patterns.search,
            hit_events=ours.match if anchored else ours.search,
            events=_canonical(unquote(events)) if events else None,
            open=_exact([*open, *login, *logout]),
            login=_exact(login),
            logout=_exact(logout),
        )

    def is_protected(
        self, path: str, raw_path: str | None, root_path: str, *, root_in_path: bool = True
    ) -> bool:
        """Say whether a request needs an identity before the app is called.

        Args:
            path: ASGI `path`, or WSGI `PATH_INFO` decoded as UTF-8.
            raw_path: ASGI `raw_path`, or WSGI `RAW_URI` or `REQUEST_URI`, as Latin-1; None
                where the server gives none. A query in it is no part of the path.
            root_path: ASGI `root_path`, or WSGI `SCRIPT_NAME`; empty when there is none.
            root_in_path: Whether the path may begin with the root path, as in ASGI; a WSGI server
                has cut SCRIPT_NAME off, and a client may name a second one to be cut off.
        """
        raw = None if raw_path is None else raw_path.partition("?")[0]
        found = _finds(self.hit, path, raw, root_path)
        return found and not self._is_open(path, raw, root_path, root_in_path)

    def is_login(self, path: str, root_path: str) -> bool:
        """Say whether this is a login path, in canonical form; no root path, none to cut off."""
        return not self.login.isdisjoint(_own(path, root_path))

    def is_logout(self, path: str, root_path: str) -> bool:
        """Say whether this is a logout path, in canonical form."""
        return not self.logout.isdisjoint(_own(path, root_path))

    def events_tail(self, path: str, root_path: str) -> str | None:
        """Return what follows the events path when the request is for our own endpoints.

        Returns:
            `""` or `"/"` for the collection, `"/<rest>"` below it; None if it is not ours.
            Whatever is ours is protected, too.
        """
        if self.events is None:
            return None
        for own in _own(path, root_path):
            if own.startswith(self.events) and _is_tail(own[len(self.events) :]):
                return own[len(self.events) :]
        return None

    def _is_open(self, path: str, raw: str | None, root: str, root_in_path: bool) -> bool:
        """Say whether the path is exempt: byte-equal, raw form included.

        The root path is stripped only when the raw path shows it to be in `path`: gunicorn takes
        SCRIPT_NAME from a header and strips it itself, so a client could name a second one.
        """
        if self.open.isdisjoint(_own(path, root)):
            return False
        if not root_in_path:
            own: tuple[str, ...] = (path,)
        elif raw is None or raw in _written(path):
            own = _own(path, root)
        else:
            own = (path,) if raw in _written(root + path) else ()
        ours = _finds(self.hit_events, path, raw, root)
        return not ours and not self.open.isdisjoint(own)


def _pattern(patterns: Iterable[str]) -> re.Pattern[str]:
    """Compile patterns into one expression that finds any of them in a reading."""
    names = {name for pattern in patterns if pattern for name in _names(pattern)}
    if "" in names:
        return re.compile("")
    either = "|".join(sorted(map(_expression, names))) or r"(?!)"
    return re.compile(f"(?:{either}){_END}", re.IGNORECASE)


def _names(pattern: str) -> set[str]:
    """Return a pattern's name as it is, and as the readings of a path fold it."""
    name = _caseless(_canonical(unquote(pattern)))
    return {name, _canonical(_bare(_SILENT.sub("", name)))} - {""} or {""}


def _expression(name: str) -> str:
    """Write a pattern's name as an expression that takes linear time."""
    parts = (segment.partition("*") for segment in name[1:].split("/"))
    return "".join(f"/{re.escape(head)}{'[^/]*' if star else ''}" for head, star, _ in parts)


def _exact(settings: Iterable[str]) -> frozenset[str]:
    """Return paths in canonical form, with and without a trailing slash."""
    names = [_canonical(unquote(setting)) for setting in settings if setting]
    return frozenset(names) | {f"{name}/" for name in names}


def _own(path: str, root: str) -> tuple[str, ...]:
    """Return the path as our exact rules see it: below the root path, and as it is."""
    root = root.rstrip("/")
    if root and path.startswith(f"{root}/"):
        return path[len(root) :], path
    return (path,)


def _written(path: str) -> tuple[str, str]:
    """Return the two raw forms that a canonical path has: as it is, and percent-encoded."""
    return path, quote(path, errors="replace")


def _is_tail(text: str) -> bool:
    """Say whether a text may follow the events path: printable, by whole plain segments."""
    whole = _canonical(text) == text.removesuffix("/")
    return whole and "\\" not in text and text.isprintable()


def _finds(hit: Finder, path: str, raw: str | None, root: str) -> bool:
    """Say whether a pattern is found in anything that the path may be taken for."""
    if hit(path):
        return True
    if raw in (None, path, root + path) and _is_plain(path) and _is_plain(root + path):
        return bool(root) and any(map(hit, _plain_readings(path, root)))
    long = max(len(path), len(raw or "")) > _LONGEST
    return long or any(map(hit, _odd_readings(path, raw, root)))


def _plain_readings(path: str, root: str) -> Iterator[str]:
    """Yield a plain path behind the root path, and what follows the root path in it.

    Quart asks for no boundary there, and Litestar drops all before the first occurrence.
    """
    yield root + path
    yield f"/{path.partition(root)[2].lstrip('/')}"
    yield f"/{path.lower().partition(root.lower())[2].lstrip('/')}"


def _odd_readings(path: str, raw: str | None, root: str) -> set[str]:
    """Return every reading of a path that is spelled in an unusual way."""
    bases = {path, unquote(path)}
    bases |= {f"{root}/{base.lstrip('/')}" for base in bases if root}
    if raw is not None:
        octets = unquote_to_bytes(raw.encode("latin-1", "replace"))
        bases |= {raw, octets.decode("utf-8", "replace")}
    roots = {root, f"/{root.strip('/')}"} - {"", "/"}
    roots |= set(map(_caseless, roots))
    texts = {text for base in bases for text in _starts(base)}
    texts |= set(map(_caseless, texts))
    texts |= {text.partition(prefix)[2] for text in texts for prefix in roots}
    texts = {f"/{_caseless(text).lstrip('/')}" for text in texts}
    texts |= set(map(_bare, texts))
    merged = {f"/{'/'.join(filter(None, text.split('/')))}" for text in texts if "//" in text}
    return texts | merged | {_canonical(text) for text in texts if "/." in text}


def _starts(base: str) -> set[str]:
    """Return a text with and without what parsers drop, and what may follow its origin."""
    texts = {base, _SILENT.sub("", base)}
    if not base.startswith("/"):
        texts |= {_ORIGIN.sub("", text, count=1) for text in texts}
        texts |= {text.partition("/")[2] for text in texts}
    return texts


def _is_plain(path: str) -> bool:
    """Say whether there is but one way to read a path."""
    return _PLAIN(path) is not None and "/." not in path


def _caseless(text: str) -> str:
    """Fold case. To `re.IGNORECASE` a dotted capital I is an i, which `casefold` leaves out."""
    return text.replace("\u0130", "i").casefold()


def _bare(text: str) -> str:
    """Drop path parameters, and take backslashes for slashes."""
    return _EXTRAS.sub("", text.replace("\\", "/"))


def _canonical(text: str) -> str:
    """Merge slashes, resolve dot segments (RFC 3986 section 5.2.4), and cut a trailing slash."""
    kept: list[str] = []
    for segment in text.split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    return "".join(f"/{segment}" for segment in kept)
