"""What stands on streams and in records of Redis, whoever wrote it, read into our words.

Entries of ours are passed on as the text they are; those of others are parsed and written anew, so
that nothing in them can break the frame they are sent in. What is no event is left out, and logged
once. Nothing is fetched here.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Any

from gaq_middleware.core.commands import EventPage, EventText, event_head, event_tail
from gaq_middleware.core.jobs import TERMINAL, Job, Status, parse_cursor
from gaq_middleware.core.wire import to_json

Entry = tuple[bytes, list[bytes]]
"""An id, and names and values in turn."""
EventId = tuple[int, int]

MAX_REMEMBERED = 1000  # channels, of which it is known up to where bad entries were logged
_ID = re.compile(rb"[0-9]{1,20}-[0-9]{1,20}")
_BREAK = re.compile(rb"[\r\n]")  # what we write has none, and passed on it would forge an event

logger = logging.getLogger("gaq_middleware")


def entry_id(entry: Entry) -> EventId:
    """Return the id of an entry."""
    return parse_cursor(entry[0].decode())


class EntryReader:
    """Reads entries of streams."""

    def __init__(self) -> None:
        self._told: dict[str, EventId] = {}

    def page(
        self,
        channel_id: str,
        after: EventId | None,
        entries: list[Entry],
        *,
        is_trimmed: bool,
        has_more: bool,
    ) -> EventPage:
        """Return the events among entries that were read after a cursor.

        Args:
            channel_id: Whose stream they are on.
            after: The cursor.
            entries: In order.
            is_trimmed: Whether some between the cursor and a foreign first entry are gone.
            has_more: Whether there may be further entries.
        """
        events = tuple(filter(None, (_event(channel_id, entry) for entry in entries)))
        if len(events) < len(entries):
            self._tell(
                channel_id, {entry[0] for entry in entries} - {e.id.encode() for e in events}
            )
        if after is not None and entries and _is_ours(entries[0]):
            is_trimmed = parse_cursor(entries[0][1][3].decode()) > after
        return EventPage(events, is_trimmed, has_more)

    def _tell(self, channel_id: str, bad: set[bytes]) -> None:
        """Log the bad entries of a page that were not logged before."""
        told = self._told.get(channel_id, (0, 0))
        new = sorted(found for text in bad if (found := parse_cursor(text.decode())) > told)
        if not new:
            return
        if len(self._told) >= MAX_REMEMBERED:
            self._told.clear()
        self._told[channel_id] = new[-1]
        logger.warning(
            "%d entries on the stream of channel %s are no events of it and are left out: %s",
            len(new),
            ascii(channel_id)[:80],
            " to ".join("{}-{}".format(*found) for found in dict.fromkeys([new[0], new[-1]])),
        )


def _event(channel_id: str, entry: Entry) -> EventText | None:
    """Return the event that an entry is, None if it is none."""
    event_id, fields = entry
    try:
        payload = fields[1].decode("ascii") if _is_ours(entry) else _foreign(channel_id, fields)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return EventText(event_id.decode(), payload)


def _is_ours(entry: Entry) -> bool:
    fields = entry[1]
    if len(fields) != 4 or fields[0] != b"data" or fields[2] != b"gaq":
        return False
    return _ID.fullmatch(fields[3]) is not None and not _BREAK.search(fields[1])


def _foreign(channel_id: str, fields: list[bytes]) -> str:
    """Return the six keys of another writer's event as text.

    Raises:
        ValueError, TypeError, KeyError, RecursionError: It is none that may stand on this channel.
    """
    data = json.loads(dict(zip(fields[::2], fields[1::2], strict=True))[b"data"])
    if not isinstance(data, dict):
        raise TypeError("not an object")
    job, status = Job.from_dict(data), Status(data["status"])
    errors = [] if data.get("errors") is None else data["errors"]
    if job.channel_id != channel_id or not job.has_owner or status not in TERMINAL:
        raise ValueError("not an event of this channel")
    if not isinstance(errors, list):
        raise TypeError("errors are no list")
    return event_head(job) + event_tail(status, to_json(errors), job.result_url)


def foreign_job(job_id: str, record: bytes) -> Job | None:
    """Return a job of which only Superset's record tells; None if it tells nothing.

    The job has no owner if the record names none, and then belongs to nobody.
    """
    try:
        data: Any = json.loads(record.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    status = Status.CANCELLED if data.get("cancelled") is True else Status.PENDING
    known = {key: data[key] for key in ("channel_id", "user_id") if key in data}
    return Job.from_dict({**known, "job_id": job_id, "status": status})
