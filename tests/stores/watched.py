"""A store that is watched, and can be down; the operations of an owner over it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from gaq_middleware import Owner, StoreError
from gaq_middleware.core.commands import Command, TouchJob
from gaq_middleware.registry import AsyncOwnerJobs, Canceller, OwnerJobs, Store
from gaq_middleware.registry.memory import MemoryStore
from tests.helpers import make_settings

R = TypeVar("R")

ALICE, BOB = Owner("user-a", "7"), Owner("user-b", "8")


class Watched:
    """A memory store that counts commands, and is down while told so."""

    def __init__(self) -> None:
        self.inner = MemoryStore()
        self.bell = self.inner.bell
        self.commands: list[Command[Any]] = []
        self.is_down = False
        self.beats = threading.Semaphore(0)
        self.abeats = asyncio.Semaphore(0)
        self.before: Callable[[Command[Any]], None] = lambda command: None

    def execute(self, command: Command[R]) -> R:
        """Do a command, or be down."""
        try:
            return self._execute(command)
        finally:
            if isinstance(command, TouchJob):
                self.beats.release()

    async def aexecute(self, command: Command[R]) -> R:
        """Do the same after letting others have their turn."""
        await asyncio.sleep(0)
        try:
            return self._execute(command)
        finally:
            if isinstance(command, TouchJob):
                self.abeats.release()

    def _execute(self, command: Command[R]) -> R:
        self.commands.append(command)
        self.before(command)
        if self.is_down:
            raise StoreError
        return self.inner.execute(command)

    def wait_for_beats(self, count: int) -> None:
        """Wait until a thread has given so many more signs of life."""
        for _ in range(count):
            assert self.beats.acquire(timeout=5)

    async def await_beats(self, count: int) -> None:
        """Wait until a task has given so many more signs of life."""
        for _ in range(count):
            await asyncio.wait_for(self.abeats.acquire(), 5)

    def count(self, kind: type[Command[Any]]) -> int:
        """Return how many commands of a kind came."""
        return sum(isinstance(command, kind) for command in self.commands)


def owner_jobs(store: Store, owner: Owner = ALICE, canceller: Canceller | None = None) -> OwnerJobs:
    """Return the plain operations of an owner."""
    return OwnerJobs(store, lambda: owner, make_settings(), canceller)


def async_jobs(
    store: Store, owner: Owner = ALICE, canceller: Canceller | None = None
) -> AsyncOwnerJobs:
    """Return the awaitable operations of an owner."""
    return AsyncOwnerJobs(store, lambda: owner, make_settings(), canceller)
