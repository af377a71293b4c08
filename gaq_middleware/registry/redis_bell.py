"""What rings the bell of the Redis store: the firehose, read by a thread.

The firehose is the stream of all channels, on which every event stands a second time. It is read
for the names of channels only: ids differ between the two, and only those of channels reach
clients.
"""

from __future__ import annotations

import json
import time

from redis.exceptions import RedisError, ResponseError

from gaq_middleware.core.commands import ReapJobs
from gaq_middleware.core.store_urls import BLOCK_SECONDS
from gaq_middleware.registry.bells import Bell
from gaq_middleware.registry.colours import at_once
from gaq_middleware.registry.redis_commands import Commands
from gaq_middleware.registry.redis_connect import PlainPool, Target
from gaq_middleware.registry.redis_failures import Failures

TIMEOUT = BLOCK_SECONDS + 2.0
"""Seconds until a waiting read counts as lost; instead of the URL's, which may be shorter."""
REAP_SECONDS = 1.0
REAPED = 1000  # overdue jobs ended at a time
RECONNECT_SECONDS = 0.1
_BLOCK = str(int(BLOCK_SECONDS * 1000)).encode()
_READ = (b"XREAD", b"COUNT", b"1000", b"BLOCK", _BLOCK, b"STREAMS")


class Firehose:
    """Listens to the firehose, and ends overdue jobs meanwhile; for one thread.

    Args:
        target: Where Redis is.
        key: The key of the firehose.
        commands: For those that end overdue jobs.
        failures: Tells of errors.
    """

    def __init__(
        self,
        target: Target,
        key: bytes,
        commands: Commands,
        failures: Failures,
    ) -> None:
        self._pool = PlainPool(target, socket_timeout=TIMEOUT)
        self._key, self._commands, self._failures = key, commands, failures
        self._position: bytes | None = None  # None: it does not listen
        self._next_reap = 0.0

    def listen(self, bell: Bell, /) -> bool:
        """Wait a moment for events, and ring for their channels; or connect, and return True.

        Raises:
            StoreError: Redis is lost: there is no new connection, or it does not let us read.
        """
        position = self._position
        try:
            if position is None:
                newest = self._pool.roundtrip((b"XREVRANGE", self._key, b"+", b"-", b"COUNT", b"1"))
                self._position = newest[0][0] if newest else b"0-0"
                return True
            self._hear(bell, position)
        except RedisError as error:
            self.close()
            if position is None or isinstance(error, ResponseError):
                raise self._failures.told(error) from error
            time.sleep(RECONNECT_SECONDS)
            return False
        if time.monotonic() >= self._next_reap:
            self._next_reap = time.monotonic() + REAP_SECONDS
            self._reap()
        return False

    def _reap(self) -> None:
        command = ReapJobs(now=time.time(), limit=REAPED)
        try:
            at_once(self._commands.do(command, self._pool.exchange))
        except RedisError as error:  # what is read tells whether Redis is lost
            self._failures.told(error)

    def close(self) -> None:
        """Close the connection."""
        self._position = None
        self._pool.close()

    def _hear(self, bell: Bell, position: bytes) -> None:
        answer = self._pool.roundtrip((*_READ, self._key, position))
        for _, entries in answer or ():
            self._position = entries[-1][0]
            for channel_id in {_channel(fields) for _, fields in entries}:
                bell.ring(channel_id)


def _channel(fields: list[bytes]) -> str:
    """Return the channel of an event, "" if it is none."""
    try:
        data = json.loads(dict(zip(fields[::2], fields[1::2], strict=True))[b"data"])
        return str(data["channel_id"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
