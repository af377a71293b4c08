"""What is told when Redis fails: a line now and then to operators, a 503 to clients."""

from __future__ import annotations

import logging
import time

from redis.exceptions import RedisError

from gaq_middleware.core.errors import StoreError

SECONDS_PER_LINE = 10.0
"""At most one line about a failing server in this time."""

logger = logging.getLogger("gaq_middleware")


class Failures:
    """Tells operators of a failing server, and clients that it fails.

    Args:
        shown_url: Where it is, without a password.
    """

    def __init__(self, shown_url: str) -> None:
        self._shown_url, self._next_line = shown_url, 0.0

    def told(self, error: RedisError) -> StoreError:
        """Log a failure, unless one was logged a moment ago; return what the client is told."""
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + SECONDS_PER_LINE
            kind = type(error).__name__
            logger.error("The store %s failed: %s: %s", self._shown_url, kind, ascii(str(error)))
        return StoreError()
