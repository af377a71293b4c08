"""Streams: the events of a channel as they happen, and polls that wait for one.

A stream holds no events, only a cursor: woken by the store's bell it reads on from there. So
nothing is lost, sent twice or queued, and a slow reader costs no memory. It ends when its time is
over, and when the store is lost. `Stream` and `AsyncStream` are twins.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from gaq_middleware.core.commands import EventPage, ReadEvents
from gaq_middleware.core.errors import Refusal
from gaq_middleware.core.jobs import parse_cursor
from gaq_middleware.registry.bells import AsyncWaiter
from gaq_middleware.registry.stores import Store

HEARTBEAT = 10.0
"""Seconds after which a silent stream gives a sign of life; proxies cut after 60 or more."""
LOOK_SECONDS = 30.0
"""Seconds after which a stream looks though nothing has rung: the bell is a help, not a promise."""
_NOTHING = EventPage(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """What is listened to, and how long.

    Attributes:
        channel_id: The channel.
        after: The cursor, as it came; empty: from the oldest event kept.
        seconds: How long at most.
        clock: Seconds since 1970.
        ending: What the reader is told then; None: to come back.
    """

    channel_id: str
    after: str
    seconds: float
    clock: Callable[[], float]
    ending: Refusal | None = None


class _Stream:
    """What the twins share: where the reader is, what to read next, how long to wait.

    Raises:
        BadRequestError: The cursor is none (`bad_last_id`).
    """

    def __init__(self, store: Store, listening: Listening) -> None:
        self.ending = listening.ending
        self._store, self._listening = store, listening
        self._after = parse_cursor(listening.after) if listening.after else None
        self._end = time.monotonic() + listening.seconds
        self._next_beat = self._next_look = 0.0
        self._has_more = True  # so that it reads before it waits
        self._is_gap_told = False

    def _reading(self) -> ReadEvents:
        self._next_look = time.monotonic() + LOOK_SECONDS
        now, channel_id = self._listening.clock(), self._listening.channel_id
        return ReadEvents(channel_id=channel_id, after=self._after, now=now)

    def _looks(self, *, is_rung: bool) -> bool:
        """Whether to read after a wait."""
        return self._has_more or is_rung or time.monotonic() >= self._next_look

    def _news(self, page: EventPage) -> EventPage | None:
        """Take note of a page; return what the reader shall have, if only to see life."""
        self._has_more = page.has_more
        if page.events:
            self._after, self._is_gap_told = parse_cursor(page.events[-1].id), False
        elif page.gap:  # told once, for without events the cursor stays before it
            page, self._is_gap_told = replace(page, gap=not self._is_gap_told), True
        if self._after is None:  # what is trimmed away from now on is missed
            self._after = page.newest
        now = time.monotonic()
        if not (page.events or page.gap or now >= self._next_beat):
            return None
        share = random.uniform(0.7, 1.0)  # noqa: S311 - no secret: all shall not beat at one time
        self._next_beat = now + HEARTBEAT * share
        return page

    def _patience(self) -> float:
        """Return how long to wait for a ring; 0 when the time is over."""
        now = time.monotonic()
        return 0.0 if now >= self._end else max(0.001, min(self._end, self._next_beat) - now)


class Stream(_Stream):
    """A stream for a thread."""

    def pages(self, *, may_wait: bool = True) -> Generator[EventPage, None, None]:
        """Yield pages of events until the time is over; an empty one is a sign of life.

        Args:
            may_wait: False: only what there is now.

        Raises:
            StoreError: The store is lost.
        """
        rung, bell, is_rung = threading.Event(), self._store.bell, False
        listening = bell.waking(self._listening.channel_id, rung.set)
        with listening if may_wait else nullcontext():
            while True:
                if not self._has_more:
                    patience = self._patience()
                    if not (may_wait and patience):
                        return
                    is_rung = rung.wait(patience)
                    rung.clear()
                    bell.check()
                looks = self._looks(is_rung=is_rung)
                news = self._news(self._store.execute(self._reading()) if looks else _NOTHING)
                if news is not None:
                    yield news


class AsyncStream(_Stream):
    """A stream for a task."""

    async def pages(self) -> AsyncGenerator[EventPage, None]:
        """Yield pages of events until the time is over; an empty one is a sign of life.

        Raises:
            StoreError: The store is lost.
        """
        waiter, bell, is_rung = AsyncWaiter(), self._store.bell, False
        with bell.waking(self._listening.channel_id, waiter.wake):
            while True:
                if not self._has_more:
                    patience = self._patience()
                    if not patience:
                        return
                    is_rung = await waiter.wait(patience)
                    bell.check()
                looks = self._looks(is_rung=is_rung)
                page = await self._store.aexecute(self._reading()) if looks else _NOTHING
                news = self._news(page)
                if news is not None:
                    yield news


class Slots:
    """Counts what is open: streams, and polls that wait.

    Args:
        most: So many in all.
        most_per_channel: So many of one user.
    """

    def __init__(self, most: int, most_per_channel: int) -> None:
        self._most, self._most_per_channel = most, most_per_channel
        self._lock = threading.Lock()
        self._taken = 0
        self._per_channel: dict[str, int] = {}

    @contextmanager
    def one(self, channel_id: str, *, is_guest: bool) -> Iterator[bool]:
        """Hold a slot for a while; yields whether there was one.

        Args:
            channel_id: Whose it is.
            is_guest: Guests count only in all: equal claims make one channel of many viewers.
        """
        with self._lock:
            here = 0 if is_guest else self._per_channel.get(channel_id, 0)
            is_free = self._taken < self._most and here < self._most_per_channel
            if is_free:
                self._count(channel_id, 1)
        try:
            yield is_free
        finally:
            if is_free:
                with self._lock:
                    self._count(channel_id, -1)

    def _count(self, channel_id: str, step: int) -> None:
        self._taken += step
        self._per_channel[channel_id] = self._per_channel.get(channel_id, 0) + step
        if not self._per_channel[channel_id]:
            del self._per_channel[channel_id]
