"""The store in Redis: for many processes, and read and written by Superset too.

Each command is one call of a script, so one round trip. `redis_commands` says what is sent and what
the answer means, `redis_scripts` has the scripts and the layout of the keys, `redis_connect` the
connections; here they are brought together, and failures are told.
"""

from __future__ import annotations

import asyncio
import re
from typing import TypeVar

from redis.exceptions import RedisError, ResponseError

from gaq_middleware.core.commands import Command
from gaq_middleware.core.errors import SettingsError
from gaq_middleware.core.settings import Settings
from gaq_middleware.core.store_urls import shown_store_url
from gaq_middleware.registry.bells import Bell
from gaq_middleware.registry.colours import at_once
from gaq_middleware.registry.redis_bell import Firehose
from gaq_middleware.registry.redis_commands import Commands
from gaq_middleware.registry.redis_connect import Connections, Pool, Target
from gaq_middleware.registry.redis_failures import Failures

R = TypeVar("R")

OLDEST_SERVER = (6, 2)
"""The first server that reads strictly after an id."""


class RedisStore:
    """A store in Redis, safe for threads, tasks, event loops and forks.

    Args:
        settings: Where it is, the prefix of all keys, and the limits of streams.

    Raises:
        SettingsError: The URL has an option that redis-py does not take.
    """

    def __init__(self, settings: Settings) -> None:
        try:
            target = Target(settings.store_url)
            self._connections = Connections(target)
        except Exception as error:  # TypeError, ValueError, RedisError: redis-py's mood
            why = re.sub(r"^.*unexpected keyword argument", "unknown option", str(error))
            raise SettingsError(f"GAQ_STORE_URL has an option that cannot be: {why}.") from error
        self._failures = failures = Failures(shown_store_url(settings.store_url))
        self._commands = commands = Commands(settings)
        key = f"{settings.stream_prefix}full".encode()
        self.bell = Bell(lambda: Firehose(target, key, commands, failures))  # it holds no store
        self._is_known_server = False

    def execute(self, command: Command[R]) -> R:
        """Do one step.

        Raises:
            RuntimeError: An event loop runs in this thread, which the call would block.
            StoreError: Redis is down, or not one that can be used.
        """
        _refuse_to_block_a_loop()
        return at_once(self._do(command, self._connections.pool()))

    async def aexecute(self, command: Command[R]) -> R:
        """Do one step.

        Raises:
            StoreError: Redis is down, or not one that can be used.
        """
        return await self._do(command, await self._connections.apool())

    async def _do(self, command: Command[R], pool: Pool) -> R:
        try:
            if not self._is_known_server:
                await self._look_at_server(pool)
            return await self._commands.do(command, pool.exchange)
        except RedisError as error:
            raise self._failures.told(error) from error

    async def _look_at_server(self, pool: Pool) -> None:
        try:
            info = await pool.exchange((b"INFO", b"server"))
        except ResponseError:  # not allowed to ask; the first command will tell
            info = b""
        found = re.search(rb"redis_version:([0-9]+)\.([0-9]+)", info)
        if found is not None and (int(found[1]), int(found[2])) < OLDEST_SERVER:
            raise RedisError("it is older than Redis 6.2, the oldest that can be used")
        self._is_known_server = True


def _refuse_to_block_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "A plain call to Redis would block the event loop that runs in this thread. Await the "
        "operations of current().ajobs or AsyncJobRegistry, or make the call in another thread."
    )
