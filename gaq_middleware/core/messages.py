"""What goes into a decision and what comes out of it: plain values, no rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl

Headers = list[tuple[str, str]]


class RequestHead(NamedTuple):
    """All of a request that a decision may look at; header text is latin-1 as on the wire.

    `headers` holds the values of the headers that the guard asked for (`Guard.wanted`), in order,
    by lower-case name. `path` is what the app routes on; `raw_path` the request target as it
    came, where the server tells; `root_path` is ASGI's, or SCRIPT_NAME. `peer` is the address of
    the other end of the connection; it `is_rewritten` when the server put a forwarded one there.
    `remote_user` is the server variable of that name, which no client can set. `root_in_path` is
    False where the server has cut the root path off `path`, as WSGI servers do.
    """

    method: str
    scheme: str
    path: str
    raw_path: str | None
    root_path: str
    query: str
    headers: Mapping[str, list[str]]
    peer: str | None = None
    peer_is_rewritten: bool = False
    remote_user: str | None = None
    root_in_path: bool = True
    is_websocket: bool = False

    def __repr__(self) -> str:
        return f"<RequestHead {self.method} {self.path!r}>"  # no token in a traceback

    def one(self, name: str) -> str | None:
        """Return the value of a header that came exactly once, else None."""
        values = self.headers.get(name)
        return values[0] if values is not None and len(values) == 1 else None

    def parameters(self, name: str) -> list[str]:
        """Return the values of a query parameter; of a query that cannot be read, a wrong one."""
        try:
            pairs = parse_qsl(self.query, keep_blank_values=True, max_num_fields=100)
        except ValueError:
            return ["unreadable"]
        return [value for key, value in pairs if key == name]

    def first(self, name: str) -> str | None:
        """Return the first value of a header, None if it did not come."""
        values = self.headers.get(name)
        return values[0] if values else None


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer, made without the app."""

    status: int
    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A request that we serve: the operation on the owner's jobs and its one argument.

    A read `wait`s so many seconds for an event when there is none yet.
    """

    operation: Literal["read", "get", "cancel", "stream"]
    argument: str
    wait: float = 0.0
