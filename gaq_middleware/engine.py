"""What one middleware is made of, built once from its settings and shared by all its requests."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from typing import Any

from gaq_middleware.core.guard import Guard
from gaq_middleware.core.identify import Identifier
from gaq_middleware.core.issuing import Issuer
from gaq_middleware.core.settings import Settings
from gaq_middleware.core.tokens import TokenCodec, is_user_id
from gaq_middleware.log import Log
from gaq_middleware.registry import Canceller, store_for

UserFrom = Callable[[Any], object]
"""Tells the user id from the scope or environ that the app was given; None: nobody."""


class Engine:
    """The parts of one middleware.

    Args:
        settings: The settings; the environment is read if None.
        user_from: Tells the current user of a request, see the README.
        canceller: Stops the work behind a cancelled job.

    Raises:
        SettingsError: The environment is wrong; every problem is listed.
    """

    def __init__(
        self, settings: Settings | None, user_from: UserFrom | None, canceller: Canceller | None
    ) -> None:
        self.settings = Settings.from_env() if settings is None else settings
        self.codec = TokenCodec(self.settings)
        self.identifier = Identifier(self.settings, self.codec)
        self.issuer = Issuer(self.settings, self.codec, lambda: str(uuid.uuid4()))
        self.guard = Guard(self.settings, self.issuer)
        self.store = store_for(self.settings)
        self.canceller = canceller
        self.has_source = user_from is not None
        self._user_from = user_from
        self.clock: Callable[[], float] = time.time
        self.log = Log(self.settings)
        self.log.started(self.settings)
        workers = os.environ.get("WEB_CONCURRENCY", "")
        self.note_processes(several=workers.isdigit() and int(workers) > 1)

    def ask_user(self, source: Any) -> str | None:
        """Return the user that `user_from` names; None when it names nobody or fails."""
        if self._user_from is None:
            return None
        try:
            user_id = self._user_from(source)
        except Exception:  # noqa: BLE001 - the app's function; a failure names nobody
            self.log.once("user_from_failed", exc_info=True)
            return None
        return as_user_id(user_id)

    def note_processes(self, *, several: bool) -> None:
        """Warn once when jobs live in memory but several processes serve the app."""
        if several and self.settings.store_url == "memory://":
            self.log.once("multiprocess")


def as_user_id(value: object) -> str | None:
    """Return a user id as text; None when the value cannot be one."""
    if value is None or isinstance(value, bool):
        return None
    text = str(value)
    return text if is_user_id(text) else None
