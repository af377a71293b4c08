"""The bell: whom it wakes, and what becomes of those who wait when it cannot hear."""

from __future__ import annotations

import asyncio
import logging
import queue
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
        await waiter.wait(SECONDS)
        await waiter.wait(0.01)  # nobody has rung since

    asyncio.run(wait())


def test_a_task_is_woken_from_another_thread() -> None:
    """Streams of every loop hear the one thread that listens."""

    async def wait() -> None:
        waiter = AsyncWaiter()
        thread = threading.Thread(target=waiter.wake)
        thread.start()
        await asyncio.wait_for(waiter.wait(SECONDS * 2), SECONDS)
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
