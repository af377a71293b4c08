"""What a store is, and the one store that a process has for its settings."""

from __future__ import annotations

import secrets
import threading
from typing import Protocol, TypeVar

from gaq_middleware.core.commands import Command
from gaq_middleware.core.settings import Settings
from gaq_middleware.registry.memory import MemoryStore

R = TypeVar("R")

_stores: dict[tuple[object, ...], Store] = {}
_lock = threading.Lock()


class Store(Protocol):
    """What keeps jobs and events; its laws are in `core.commands`.

    Both calls do the same. They are safe for threads and for tasks, and raise StoreError when the
    store is broken or full.
    """

    def execute(self, command: Command[R]) -> R:
        """Do one step and return its reply."""

    async def aexecute(self, command: Command[R]) -> R:
        """Do one step and return its reply."""


def store_for(settings: Settings) -> Store:
    """Return this process's store: one and the same for the same URL, prefix, limit and ttl."""
    key = (
        settings.store_url,
        settings.stream_prefix,
        settings.stream_limit,
        settings.job_ttl_seconds,
    )
    with _lock:
        if key not in _stores:
            _stores[key] = MemoryStore(settings.stream_limit)
        return _stores[key]


def new_attempt() -> str:
    """Return a random attempt id, by which a store knows a command that is repeated."""
    return secrets.token_hex(8)
