"""The bell: whom it wakes, and what becomes of those who wait when it cannot hear."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import signal
import subprocess
import sys
import threading

import pytest

from gaq_middleware import StoreError
from gaq_middleware.registry import bells
from gaq_middleware.registry.bells import AsyncWaiter, Bell
from tests.servers import wait_until

SECONDS = 20.0


class Ear:
    """Does at each turn what it is told; an exception is raised."""

    def __init__(self) -> None:
        self.turns: queue.Queue[BaseException | bool] = queue.Queue()
        self.closed = 0

    def listen(self, bell: Bell, /) -> bool:
        """Do the next turn."""
        told = self.turns.get(timeout=SECONDS)
        if isinstance(told, BaseException):
            raise told
        return bool(told)

    def close(self) -> None:
        """Count."""
        self.closed += 1


@pytest.fixture
def ear() -> Ear:
    """Return an ear."""
    return Ear()


@pytest.fixture
def bell(ear: Ear, monkeypatch: pytest.MonkeyPatch) -> Bell:
    """Return a bell that makes no pauses."""
    monkeypatch.setattr(bells, "PAUSE", 0.0)
    return Bell(lambda: ear)


def test_a_ring_wakes_whoever_waits_for_the_channel(bell: Bell, ear: Ear) -> None:
    """All of one channel, nobody else, and nobody who has left."""
    rung: list[str] = []
    with bell.waking("a", lambda: rung.append("a1")), bell.waking("b", lambda: rung.append("b")):
        with bell.waking("a", lambda: rung.append("a2")):
            bell.ring("a")
        bell.ring("c")
        assert rung == ["a1", "a2"]
        bell.ring_all()
        assert rung == ["a1", "a2", "a1", "b"]
    bell.ring_all()
    assert len(rung) == 4
    ear.turns.put(False)


def test_a_ring_before_the_wait_is_not_lost() -> None:
    """Woken since the last wait, then no more."""

    async def wait() -> None:
        waiter = AsyncWaiter()
        waiter.wake()
        assert await waiter.wait(SECONDS)
        assert not await waiter.wait(0.01)  # nobody has rung since

    asyncio.run(wait())


def test_a_task_is_woken_from_another_thread() -> None:
    """Streams of every loop hear the one thread that listens."""

    async def wait() -> None:
        waiter = AsyncWaiter()
        thread = threading.Thread(target=waiter.wake)
        thread.start()
        assert await waiter.wait(SECONDS)
        thread.join()

    asyncio.run(wait())


def test_a_loop_that_has_ended_is_no_error() -> None:
    """A ring may come a moment after it."""

    async def make() -> AsyncWaiter:
        return AsyncWaiter()

    asyncio.run(make()).wake()


def test_who_has_only_now_begun_to_listen_wakes_everybody(bell: Bell, ear: Ear) -> None:
    """Something may have been missed before."""
    rung = threading.Event()
    with bell.waking("a", rung.set):
        ear.turns.put(True)
        assert rung.wait(SECONDS)
    ear.turns.put(False)


@pytest.mark.parametrize(
    ("error", "lines"), [(StoreError(), 0), (RuntimeError("what nobody expected"), 1)]
)
def test_whoever_waits_learns_that_nothing_is_heard(
    bell: Bell, ear: Ear, caplog: pytest.LogCaptureFixture, error: Exception, lines: int
) -> None:
    """Fails closed: also when what listens fails in a way that nobody has foreseen."""
    rung = threading.Event()
    with caplog.at_level(logging.ERROR), bell.waking("a", rung.set):
        bell.check()
        ear.turns.put(error)
        assert rung.wait(SECONDS)
        rung.clear()
        with pytest.raises(StoreError):
            bell.check()
        ear.turns.put(False)
        assert rung.wait(SECONDS)
        bell.check()
    ear.turns.put(False)
    wait_until(lambda: ear.closed == 2)
    assert len(caplog.records) == lines


def test_a_thread_that_cannot_start_is_started_for_the_next_one(
    bell: Bell, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one learns of it, and leaves nothing behind; the next one is heard."""

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError), bell.waking("a", lambda: None):
            pytest.fail("somebody waits in vain")
    rung = threading.Event()
    with bell.waking("a", rung.set):
        ear.turns.put(True)
        assert rung.wait(SECONDS)
    ear.turns.put(False)


def test_what_was_lost_is_forgotten_when_listening_begins_anew(bell: Bell, ear: Ear) -> None:
    """Who waits next must not be told of a failure before their time."""
    rung = threading.Event()
    with bell.waking("a", rung.set):
        ear.turns.put(StoreError())
        assert rung.wait(SECONDS)
        with pytest.raises(StoreError):
            bell.check()
    ear.turns.put(StoreError())
    wait_until(lambda: bell._thread is None)
    ear.turns = queue.Queue()
    with bell.waking("a", rung.set):
        bell.check()
    ear.turns.put(False)


def test_a_cancelled_wait_is_cancelled_even_as_it_is_rung() -> None:
    """Nothing swallows it, whatever the Python."""

    async def main() -> None:
        for order in ("ring first", "cancel first"):
            waiter = AsyncWaiter()
            task = asyncio.create_task(waiter.wait(SECONDS))
            await asyncio.sleep(0)
            if order == "ring first":
                waiter._ring()
            task.cancel()
            waiter._ring()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_while_the_bell_is_held_begins_anew(bell: Bell, ear: Ear) -> None:
    """The child has neither the lock of its parent nor those who waited there."""
    ear.turns.put(False)
    with bell.waking("a", lambda: None):
        with bell._lock:
            pid = os.fork()
            if pid == 0:
                signal.alarm(int(SECONDS))
                bell.ring("a")
                os._exit(0 if not bell._waiting and bell._thread is None else 1)
        ear.turns.put(False)
    assert os.waitpid(pid, 0)[1] == 0
    ear.turns.put(False)


EXITS = """
import time
from gaq_middleware.registry import Listening, Stream
from gaq_middleware.registry.memory import MemoryStore
listening = Listening(channel_id="c", after="", seconds=60.0, clock=time.time)
pages = Stream(MemoryStore(), listening).pages()
next(pages)
raise SystemExit(3)
"""


def test_a_process_may_end_as_its_first_stream_opens() -> None:
    """The thread that listens must not hold what the end of the process waits for."""
    for _ in range(5):
        ended = subprocess.run([sys.executable, "-c", EXITS], timeout=SECONDS, check=False)
        assert ended.returncode == 3
