"""How events are framed: as parts of an event stream, and as text frames of a socket.

The form of a stream is that of the HTML standard, section 9.2.6. The id of a part is the id of the
event on its channel, so a browser that comes back resumes after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from gaq_middleware.core.commands import EventPage
from gaq_middleware.core.errors import Refusal

HELLO = b"retry: 2000\n\n"
"""The first part of a stream: come back 2 s after it ends."""
_BEAT = b":\n\n"
_GAP = '{"gap": true}'


def stream_part(page: EventPage) -> bytes:
    """Return the part of a stream that tells a page of events; of an empty one, a sign of life."""
    parts = [f"event: gap\ndata: {_GAP}\n\n"] if page.gap else []
    parts += [f"id: {event.id}\ndata: {event.text}\n\n" for event in page.events]
    return "".join(parts).encode() or _BEAT


def stream_end(refusal: Refusal) -> bytes:
    """Return the last part of a stream that ends before its reader leaves, and why."""
    why = json.dumps({"code": refusal.code, "detail": refusal.detail})
    return f"event: end\ndata: {why}\n\n".encode()


def socket_frames(page: EventPage) -> Iterator[str]:
    """Yield the text frames that tell a page of events; pings are the server's business."""
    if page.gap:
        yield _GAP
    for event in page.events:
        yield event.text
