"""What a store is, and the one store that a process has for its settings."""

from __future__ import annotations

import secrets
import threading
from typing import Protocol, TypeVar

from gaq_middleware.core.commands import Command
from gaq_middleware.core.errors import SettingsError
from gaq_middleware.core.settings import Settings
from gaq_middleware.registry.bells import Bell
from gaq_middleware.registry.memory import MemoryStore

R = TypeVar("R")

_stores: dict[tuple[str, str], Store] = {}
_lock = threading.Lock()


class Store(Protocol):
    """What keeps jobs and events; its laws are in `core.commands`.

    Both calls do the same. They are safe for threads and for tasks, and raise StoreError when the
    store is broken or full. The bell rings for a channel when there is something new on it.
    """

    bell: Bell

    def execute(self, command: Command[R]) -> R:
        """Do one step and return its reply."""

    async def aexecute(self, command: Command[R]) -> R:
        """Do one step and return its reply."""


def store_for(settings: Settings) -> Store:
    """Return this process's store: one and the same for a URL and prefix.

    The app and its workers may differ in other settings; the limits of whoever came first hold.

    Raises:
        SettingsError: The URL cannot be used.
    """
    key = (settings.store_url, settings.stream_prefix)
    with _lock:
        if key not in _stores:
            _stores[key] = _new_store(settings)
        return _stores[key]


def _new_store(settings: Settings) -> Store:
    if settings.store_url == "memory://":
        return MemoryStore(settings.stream_limit)
    try:
        from gaq_middleware.registry.redis import RedisStore
    except ModuleNotFoundError as error:
        raise SettingsError(
            "GAQ_STORE_URL needs redis-py: pip install redis, or this package's extra [redis]."
        ) from error
    return RedisStore(settings)


def new_attempt() -> str:
    """Return a random attempt id, by which a store knows a command that is repeated."""
    return secrets.token_hex(8)
