"""The connections to Redis: made late, a pool for each process and for each event loop.

A pool does one round trip at a time on a connection of its own, and throws the connection away
unless the answer was read to its end: a call that was cancelled, or that a signal interrupted,
leaves no answer behind for the next one. redis-py (5 to 8) opens, logs in and speaks; its pools
and retries are not used. What is sent is not known here.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from typing import Any

import redis.asyncio.connection
import redis.asyncio.retry
import redis.asyncio.sentinel
import redis.connection
import redis.retry
import redis.sentinel
from redis.backoff import NoBackoff
from redis.exceptions import ReadOnlyError, RedisError, ResponseError

from gaq_middleware.core.store_urls import sentinel_parts
from gaq_middleware.registry.colours import at_once

Message = tuple[bytes, ...]
"""A command and its arguments, as they go over the wire."""

TIMEOUTS = {"socket_timeout": 5.0, "socket_connect_timeout": 2.0}
"""Seconds, unless the URL says otherwise."""
MAX_CONNECTIONS = 50  # of a pool, unless the URL says otherwise; a call holds one for a moment
MAX_WAIT = 5.0  # seconds that a call waits for one of them
MAX_IDLE = 60.0  # seconds; firewalls forget a silent connection after some minutes
PLAIN: tuple[Any, Any, Any] = redis.connection, redis.sentinel, redis.retry
AWAITABLE: tuple[Any, Any, Any] = (
    redis.asyncio.connection,
    redis.asyncio.sentinel,
    redis.asyncio.retry,
)
"""The modules of redis-py that have the same names in both colours."""
_BUSY = "All connections are busy."
_SENTINEL_TIMEOUTS = {"socket_timeout": 1.0, "socket_connect_timeout": 1.0}  # there are others
_NOT_OURS = ("max_connections", "timeout", "retry_on_timeout", "retry_on_error")  # of other pools


def is_read_only(error: RedisError) -> bool:
    """Return whether a server says that it is no master; 6.2 says it inside another error."""
    is_hidden = isinstance(error, ResponseError) and "READONLY" in str(error)
    return is_hidden or isinstance(error, ReadOnlyError)


class Target:
    """What a URL names.

    Args:
        url: A URL that passed `check_store_url`.

    Raises:
        Exception: An option of the URL is unknown to redis-py, or has no good value.
    """

    def __init__(self, url: str) -> None:
        self._sentinels: list[tuple[str, int]] = []
        self._url, self._master, self._is_tls = url, "", url.startswith("rediss")
        if "+sentinel:" in url:
            self._sentinels, self._master, self._url = sentinel_parts(url)
        options = PLAIN[0].parse_url(self._url)
        self.max_connections: int = options.get("max_connections", MAX_CONNECTIONS)
        self.maker()[0]()  # opens nothing, but every option is looked at

    def maker(
        self, colour: tuple[Any, Any, Any] = PLAIN, **overrides: Any
    ) -> tuple[Callable[[], Any], list[Any]]:
        """Return what makes a connection, and the sentinels it asks.

        Args:
            colour: PLAIN, or AWAITABLE for connections of one event loop.
            overrides: Options of redis-py, in the place of those of the URL.
        """
        connection, sentinel, retry = colour
        options = {**TIMEOUTS, **connection.parse_url(self._url)}
        options.update(protocol=2, decode_responses=False, **overrides)
        options = {name: value for name, value in options.items() if name not in _NOT_OURS}
        kind = options.pop("connection_class", connection.Connection)
        if "path" not in options:
            options.setdefault("socket_keepalive", True)
        if not self._sentinels:
            return lambda: kind(**options), []
        asking: dict[str, Any] = {**_SENTINEL_TIMEOUTS, "protocol": 2}
        asking["retry"] = retry.Retry(NoBackoff(), 0)
        for name in ("username", "password"):
            asking[name] = options.pop(f"sentinel_{name}", None)
        manager = sentinel.Sentinel(self._sentinels, sentinel_kwargs=asking)
        pool = sentinel.SentinelConnectionPool(
            self._master, manager, ssl=self._is_tls, max_connections=2**31, **options
        )
        return pool.make_connection, manager.sentinels


class _Plain:
    """A plain connection with the face of an awaitable one: what is awaited has been done."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def connect(self) -> None:
        self._connection.connect()

    async def send_command(self, *message: bytes) -> None:
        self._connection.send_command(*message)

    async def read_response(self) -> Any:
        return self._connection.read_response()

    async def disconnect(self, *, nowait: bool) -> None:  # noqa: ARG002 - a plain one never waits
        self._connection.disconnect()


class Pool(ABC):
    """Connections, each for one call at a time; the last one used is the first used again."""

    _slots: Any  # a semaphore of this colour

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._rested: list[tuple[float, Any]] = []

    @abstractmethod
    async def _take_slot(self) -> None:
        """Wait for a slot; RedisError if that takes too long."""

    async def exchange(self, message: Message) -> Any:
        """Send a command and return the answer.

        Raises:
            RedisError: The answer is an error, or there is none.
        """
        await self._take_slot()
        try:
            return await self._exchange(message)
        finally:
            self._slots.release()

    async def _exchange(self, message: Message) -> Any:
        connection, is_clean = await self._take_connection(), False
        try:
            await connection.connect()
            await connection.send_command(*message)
            answer = await connection.read_response()
            is_clean = True
        except RedisError as error:
            is_clean = isinstance(error, ResponseError) and not is_read_only(error)
            if not is_clean:
                await self._close_rested()  # whatever ended this one has ended the others too
            raise
        finally:
            if is_clean:
                self._rested.append((time.monotonic(), connection))
            else:
                await connection.disconnect(nowait=True)
        return answer

    async def _take_connection(self) -> Any:
        """Return the one used last, or a new one if none is fresh."""
        try:
            since, connection = self._rested.pop()
        except IndexError:
            return self._make()
        if time.monotonic() - since <= MAX_IDLE:
            return connection
        await connection.disconnect(nowait=True)
        await self._close_rested()  # the others have rested even longer
        return self._make()

    async def _close_rested(self) -> None:
        """Close all at rest; this waits for nothing, so that no cancel can strike here."""
        rested, self._rested = self._rested, []
        for _, connection in rested:
            await connection.disconnect(nowait=True)


class PlainPool(Pool):
    """The connections of plain calls; safe for threads.

    Args:
        target: Where they lead.
        overrides: Options of redis-py, in the place of those of the URL.
    """

    def __init__(self, target: Target, **overrides: Any) -> None:
        make, _ = target.maker(**overrides)
        super().__init__(lambda: _Plain(make()))
        self._slots = threading.Semaphore(target.max_connections)

    def roundtrip(self, message: Message) -> Any:
        """Do the same as `exchange`, as a plain call."""
        return at_once(self.exchange(message))

    def close(self) -> None:
        """Close all connections at rest."""
        at_once(self._close_rested())

    async def _take_slot(self) -> None:
        if not self._slots.acquire(timeout=MAX_WAIT):
            raise RedisError(_BUSY)


class AsyncPool(Pool):
    """The connections of one event loop; the loop closes them at its end."""

    def __init__(self, target: Target) -> None:
        make, self._sentinels = target.maker(AWAITABLE)
        super().__init__(make)
        self._slots = asyncio.Semaphore(target.max_connections)
        self._closer = self._close_with_loop()

    async def open(self) -> None:
        """Have the running loop close the pool."""
        await anext(self._closer)

    async def aclose(self) -> None:
        """Close all connections to the end, for the loop may have no other turn."""
        rested, self._rested = self._rested, []
        closing = (connection.disconnect() for _, connection in rested)
        await asyncio.gather(*closing, return_exceptions=True)
        for sentinel in self._sentinels:
            await sentinel.connection_pool.disconnect()

    async def _close_with_loop(self) -> AsyncGenerator[None, None]:
        """Wait for ever: a loop that ends closes the generators that wait."""
        try:
            yield
        finally:
            await self.aclose()

    async def _take_slot(self) -> None:
        began = time.monotonic()
        await self._slots.acquire()
        if time.monotonic() - began > MAX_WAIT:
            self._slots.release()
            raise RedisError(_BUSY)


class Connections:
    """The pools of this process: one for plain calls, one for each event loop.

    After a fork the child makes pools of its own; those of its parent are kept, so that nothing
    here closes what the parent still uses.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._kept: list[object] = []
        self._renew()

    def pool(self) -> PlainPool:
        """Return the pool for plain calls."""
        if self._process != os.getpid():
            self._renew()
        return self._pool

    async def apool(self) -> AsyncPool:
        """Return the pool of the running loop."""
        if self._process != os.getpid():
            self._renew()
        loop = asyncio.get_running_loop()
        if loop not in self._pools:
            for known in list(self._pools):
                if known.is_closed():
                    self._pools.pop(known, None)  # another thread may have been first
            self._pools[loop] = AsyncPool(self._target)
            await self._pools[loop].open()
        return self._pools[loop]

    def _renew(self) -> None:
        self._pool = PlainPool(self._target)
        self._pools: dict[asyncio.AbstractEventLoop, AsyncPool] = {}
        self._kept.append((self._pool, self._pools))
        self._process = os.getpid()
