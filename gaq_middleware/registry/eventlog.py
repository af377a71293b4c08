"""The events of the memory store: one log of all channels, cut into a stream per channel.

Not safe for threads by itself; whoever owns the log holds a lock. What becomes an event, and when,
is not decided here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field

from gaq_middleware.core.commands import EventPage, EventText

EventId = tuple[int, int]

OVERHEAD = 512  # bytes; what the objects around an event's text cost, rounded up
MAX_FORGOTTEN = 10_000  # channels without events of which the newest id is still known
START_ID: EventId = (0, 0)
_DROPPED = EventText("", "")


@dataclass(slots=True)
class _Stream:
    """The events of a channel; those before `first` are dropped."""

    channel_id: str
    last_dropped: EventId
    ids: list[EventId] = field(default_factory=list)
    events: list[EventText] = field(default_factory=list)
    first: int = 0

    def __len__(self) -> int:
        return len(self.ids) - self.first

    def drop_first(self) -> None:
        """Drop the oldest event, and the room of all dropped ones once they are the most."""
        self.last_dropped = self.ids[self.first]
        self.events[self.first] = _DROPPED
        self.first += 1
        if self.first * 2 > len(self.ids):
            del self.ids[: self.first], self.events[: self.first]
            self.first = 0


@dataclass(frozen=True, slots=True)
class _Entry:
    """An event in the order of all channels; its stream may have dropped it already."""

    stream: _Stream
    id: EventId
    expires: float
    size: int


class EventLog:
    """Events of all channels in the order of their ids.

    Ids are `<milliseconds>-<sequence>` and rise strictly over all channels, even when the clock
    goes back.

    Args:
        stream_limit: Events kept per channel.
        max_bytes: Bytes kept of all channels together; the newest event is kept whatever its size.
    """

    def __init__(self, stream_limit: int, max_bytes: int) -> None:
        self._stream_limit = stream_limit
        self._max_bytes = max_bytes
        self._bytes = 0
        self._last_id: EventId = START_ID
        self._entries: deque[_Entry] = deque()
        self._streams: dict[str, _Stream] = {}
        self._forgotten: dict[str, EventId] = {}  # newest id of channels that have none left

    def last_id(self, channel_id: str) -> str:
        """Return the cursor that is older than every later event of a channel."""
        stream = self._streams.get(channel_id)
        if stream is not None:
            return stream.events[-1].id
        return "{}-{}".format(*self._forgotten.get(channel_id, START_ID))

    def append(self, channel_id: str, payload: str, now: float, expires: float) -> None:
        """Put an event on a channel, and drop the oldest where there are too many.

        Args:
            channel_id: The channel.
            payload: The JSON text of the event, without its id.
            now: Seconds since 1970.
            expires: When to drop it, in seconds since 1970.
        """
        last, sequence = self._last_id
        milliseconds = int(now * 1000)
        new_id = (milliseconds, 0) if milliseconds > last else (last, sequence + 1)
        self._last_id = new_id
        stream = self._streams.get(channel_id)
        if stream is None:
            before = self._forgotten.pop(channel_id, START_ID)
            stream = self._streams[channel_id] = _Stream(channel_id, before)
        stream.ids.append(new_id)
        stream.events.append(EventText("{}-{}".format(*new_id), payload))
        if len(stream) > self._stream_limit:
            stream.drop_first()
        self._entries.append(_Entry(stream, new_id, expires, len(payload) + OVERHEAD))
        self._bytes += len(payload) + OVERHEAD
        while self._bytes > self._max_bytes and len(self._entries) > 1:
            crowded = self._drop_oldest()
            if not crowded:  # its owner shall see a gap
                self._forgotten[crowded.channel_id] = crowded.last_dropped
                if len(self._forgotten) > MAX_FORGOTTEN:
                    del self._forgotten[next(iter(self._forgotten))]

    def read(self, channel_id: str, after: EventId | None, limit: int) -> EventPage:
        """Return the events of a channel after a cursor, oldest first."""
        stream = self._streams.get(channel_id)
        if stream is None:
            newest = self._forgotten.get(channel_id, START_ID)
            return EventPage((), gap=after is not None and after < newest, newest=newest)
        start = bisect_right(stream.ids, after or START_ID, lo=stream.first)
        gap = after is not None and after < stream.last_dropped
        end = start + limit
        return EventPage(tuple(stream.events[start:end]), gap, has_more=end < len(stream.ids))

    def drop_expired(self, now: float) -> None:
        """Drop the events that have expired, and the channels that have none left."""
        while self._entries and self._entries[0].expires <= now:
            self._drop_oldest()

    def _drop_oldest(self) -> _Stream:
        """Drop the oldest event, and its stream if that has no other; return the stream."""
        entry = self._entries.popleft()
        self._bytes -= entry.size
        stream = entry.stream
        if entry.id > stream.last_dropped:
            stream.drop_first()
            if not stream:
                del self._streams[stream.channel_id]
        return stream
