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

Message = tuple[bytes, ...]
"""A command and its arguments, as they go over the wire."""

TIMEOUTS = {"socket_timeout": 5.0, "socket_connect_timeout": 2.0}
"""Seconds, unless the URL says otherwise."""
MAX_CONNECTIONS = 50  # of a pool, unless the URL says otherwise; a call holds one for a moment
MAX_WAIT = 5.0  # seconds that a call waits for one of them
MAX_IDLE = 60.0  # seconds; firewalls forget a silent connection after some minutes
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
        modules: Any = redis.connection
        options = modules.parse_url(self._url)
        self.max_connections: int = options.get("max_connections", MAX_CONNECTIONS)
        self.maker()[0]()  # opens nothing, but every option is looked at

    def maker(self, **options: Any) -> tuple[Callable[[], Any], list[Any]]:
        """Return what makes a connection for plain calls, and the sentinels it asks.

        Args:
            options: Of redis-py, in the place of those of the URL.
        """
        return self._maker(redis.connection, redis.sentinel, redis.retry, options)

    def amaker(self) -> tuple[Callable[[], Any], list[Any]]:
        """Return what makes a connection for one event loop, and the sentinels it asks."""
        return self._maker(
            redis.asyncio.connection, redis.asyncio.sentinel, redis.asyncio.retry, {}
        )

    def _maker(
        self, connection: Any, sentinel: Any, retry: Any, overrides: dict[str, Any]
    ) -> tuple[Callable[[], Any], list[Any]]:
        """Do the same in either colour: redis-py has the same names in both."""
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


class _Idle:
    """Connections at rest; the last one used is the first to be used again."""

    def __init__(self) -> None:
        self._rested: list[tuple[float, Any]] = []

    def put(self, connection: Any) -> None:
        self._rested.append((time.monotonic(), connection))

    def take(self) -> tuple[Any | None, list[Any]]:
        """Return a connection, None if none is fresh, and those that have rested too long."""
        try:
            since, connection = self._rested.pop()
        except IndexError:
            return None, []
        if time.monotonic() - since <= MAX_IDLE:
            return connection, []
        return None, [connection, *self.clear()]  # the others have rested even longer

    def clear(self) -> list[Any]:
        """Return all connections, to be closed."""
        rested, self._rested = self._rested, []
        return [connection for _, connection in rested]


class Pool:
    """The connections of the plain calls of one process; safe for threads."""

    def __init__(self, target: Target) -> None:
        self._make, _ = target.maker()
        self._slots = threading.Semaphore(target.max_connections)
        self._idle = _Idle()

    def roundtrip(self, message: Message) -> Any:
        """Send a command and return the answer.

        Raises:
            RedisError: The answer is an error, or there is none.
        """
        if not self._slots.acquire(timeout=MAX_WAIT):
            raise RedisError(_BUSY)
        try:
            return self._roundtrip(message)
        finally:
            self._slots.release()

    def _roundtrip(self, message: Message) -> Any:
        rested, stale = self._idle.take()
        _close(stale)
        connection, is_clean = rested or self._make(), False
        try:
            connection.connect()
            connection.send_command(*message)
            answer = connection.read_response()
            is_clean = True
        except RedisError as error:
            is_clean = isinstance(error, ResponseError) and not is_read_only(error)
            if not is_clean:
                _close(self._idle.clear())  # whatever ended this one has ended the others too
            raise
        finally:
            if is_clean:
                self._idle.put(connection)
            else:
                connection.disconnect()
        return answer


def _close(connections: list[Any]) -> None:
    for connection in connections:
        connection.disconnect()


class AsyncPool:
    """The connections of one event loop."""

    def __init__(self, target: Target) -> None:
        self._make, self._sentinels = target.amaker()
        self._slots = asyncio.Semaphore(target.max_connections)
        self._idle = _Idle()

    async def roundtrip(self, message: Message) -> Any:
        """Send a command and return the answer.

        Raises:
            RedisError: The answer is an error, or there is none.
        """
        began = time.monotonic()
        async with self._slots:
            if time.monotonic() - began > MAX_WAIT:
                raise RedisError(_BUSY)
            return await self._roundtrip(message)

    async def aclose(self) -> None:
        """Close all connections."""
        await _aclose(self._idle.clear())
        for sentinel in self._sentinels:
            await sentinel.connection_pool.disconnect()
        await asyncio.sleep(
            0
        )  # the loop closes the sockets in its next turn, and may have no other

    async def _roundtrip(self, message: Message) -> Any:
        rested, stale = self._idle.take()
        await _aclose(stale)
        connection, is_clean = rested or self._make(), False
        try:
            await connection.connect()
            await connection.send_command(*message)
            answer = await connection.read_response()
            is_clean = True
        except RedisError as error:
            is_clean = isinstance(error, ResponseError) and not is_read_only(error)
            if not is_clean:
                await _aclose(
                    self._idle.clear()
                )  # whatever ended this one has ended the others too
            raise
        finally:
            if is_clean:
                self._idle.put(connection)
            else:
                await connection.disconnect(nowait=True)
        return answer


async def _aclose(connections: list[Any]) -> None:
    for connection in connections:
        await connection.disconnect(nowait=True)  # waits for nothing, so no cancel can strike here


class Connections:
    """The pools of this process: one for plain calls, one for each event loop.

    After a fork the child makes pools of its own; those of its parent are kept, so that nothing
    here closes what the parent still uses.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._kept: list[object] = []
        self._renew()

    def pool(self) -> Pool:
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
            pool = AsyncPool(self._target)
            self._pools[loop] = pool, self._close_with(loop)
            await self._pools[loop][1].__anext__()
        return self._pools[loop][0]

    async def _close_with(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None, None]:
        """Close the pool of a loop when the loop, at its end, closes generators that wait."""
        try:
            yield
        finally:
            pool, _ = self._pools.pop(loop, (None, None))
            if pool is not None:
                await pool.aclose()

    def _renew(self) -> None:
        self._pool = Pool(self._target)
        self._pools: dict[
            asyncio.AbstractEventLoop, tuple[AsyncPool, AsyncGenerator[None, None]]
        ] = {}
        self._kept.append((self._pool, self._pools))
        self._process = os.getpid()
