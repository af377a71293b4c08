"""The bell of a store: it rings for a channel when there may be something new on it.

It carries nothing: whoever is woken reads the channel. One thread listens for all of a process,
streams of every event loop and waiting threads alike; it lives while somebody waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol
from weakref import WeakSet

from gaq_middleware.core.errors import StoreError

Wake = Callable[[], None]
"""Wakes somebody; called in any thread, never waits, never fails."""

PAUSE = 1.0
"""Seconds before a store that cannot be heard is tried again."""

logger = logging.getLogger("gaq_middleware")


class Ear(Protocol):
    """What the bell's thread listens with."""

    def listen(self, bell: Bell, /) -> bool:
        """Wait about a second for something to happen, and ring for it.

        Returns:
            Whether it has only now begun to listen, so that something may have been missed.

        Raises:
            StoreError: The store cannot be heard.
        """

    def close(self) -> None:
        """Let go of what is held; listening may begin again."""


_bells: WeakSet[Bell] = WeakSet()


class Bell:
    """Wakes whoever waits, in this process.

    Args:
        new_ear: Makes what is listened with.
    """

    def __init__(self, new_ear: Callable[[], Ear]) -> None:
        self._new_ear = new_ear
        self.renew()
        _bells.add(self)

    def renew(self) -> None:
        """Begin anew in a forked child: the thread, and those who waited, are the parent's."""
        self._lock = threading.Lock()
        self._waiting: dict[str, list[Wake]] = {}
        self._thread: threading.Thread | None = None
        self._is_lost = False

    def ring(self, channel_id: str) -> None:
        """Wake whoever waits for a channel."""
        if channel_id in self._waiting:
            with self._lock:
                wakes = list(self._waiting.get(channel_id, ()))
            for wake in wakes:
                wake()

    def ring_all(self) -> None:
        """Wake everybody."""
        for channel_id in list(self._waiting):
            self.ring(channel_id)

    @contextlib.contextmanager
    def waking(self, channel_id: str, wake: Wake) -> Iterator[None]:
        """Have somebody woken for a channel for a while."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._is_lost = False
                thread = threading.Thread(target=self._run, name="gaq-bell", daemon=True)
                thread.start()  # it may fail; then nobody must seem to listen
                self._thread = thread
            self._waiting.setdefault(channel_id, []).append(wake)
        try:
            yield
        finally:
            with self._lock:
                wakes = self._waiting.get(channel_id, [])
                if wake in wakes:  # it is not, after a fork
                    wakes.remove(wake)
                if not wakes:
                    self._waiting.pop(channel_id, None)

    def check(self) -> None:
        """Raise StoreError when whoever waits would wait in vain."""
        if self._is_lost:
            raise StoreError

    def _run(self) -> None:
        ear, is_wanted = self._new_ear(), True
        while is_wanted:
            try:
                has_begun = ear.listen(self)
            except Exception as error:
                if not isinstance(error, StoreError) and not self._is_lost:
                    logger.exception("The bell of the store failed.")
                ear.close()
                self._is_lost = True
                self.ring_all()
                time.sleep(PAUSE)
            else:
                if has_begun or self._is_lost:
                    self._is_lost = False
                    self.ring_all()
            # Asked last: a process that ends meanwhile would find the lock held by this thread.
            is_wanted = self._is_wanted()
        ear.close()

    def _is_wanted(self) -> bool:
        with self._lock:
            if not self._waiting:
                self._thread = None
            return self._thread is not None


def _renew_all() -> None:
    for bell in list(_bells):
        bell.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)


class AsyncWaiter:
    """Waits for a ring in a task; in a thread, a `threading.Event` does."""

    def __init__(self) -> None:
        self._loop, self._is_rung = asyncio.get_running_loop(), False
        self._sleep: asyncio.Future[None] = self._loop.create_future()

    def wake(self) -> None:
        """End the wait."""
        with contextlib.suppress(RuntimeError):  # the loop was closed a moment ago
            self._loop.call_soon_threadsafe(self._ring)

    async def wait(self, seconds: float) -> bool:
        """Wait until woken since the last wait, at most so long; return whether that was so."""
        if not self._is_rung:
            self._sleep = self._loop.create_future()
            timer = self._loop.call_later(seconds, self._end)
            try:
                await self._sleep
            finally:
                timer.cancel()
        is_rung, self._is_rung = self._is_rung, False
        return is_rung

    def _ring(self) -> None:
        self._is_rung = True
        self._end()

    def _end(self) -> None:
        if not self._sleep.done():
            self._sleep.set_result(None)
