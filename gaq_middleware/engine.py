"""What one middleware is made of, built once from its settings and shared by all its requests."""

from __future__ import annotations

import inspect
import os
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from gaq_middleware.core.errors import SettingsError
from gaq_middleware.core.guard import Guard
from gaq_middleware.core.identify import Identifier
from gaq_middleware.core.issuing import Issuer
from gaq_middleware.core.messages import RequestHead
from gaq_middleware.core.proxies import ProxyTrust
from gaq_middleware.core.settings import Settings
from gaq_middleware.core.sources import HeadSources
from gaq_middleware.core.tokens import TokenCodec, is_user_id
from gaq_middleware.log import Log
from gaq_middleware.registry import Canceller, Slots, store_for

MAX_USER_ID_BITS = 256
NOT_A_USER_ID = (
    "{!r:.80} is not a user id: it must be text, a whole number or a UUID. Pass the id, such as "
    "user.pk, not the user."
)
UserFrom = Callable[[Any], object]
"""Tells the user id from the scope or environ that the app was given; None: nobody."""


class Engine:
    """The parts of one middleware.

    Args:
        settings: The settings; the environment is read if None.
        user_from: Tells the current user of a request, see the README.
        canceller: Stops the work behind a cancelled job; that of GAQ_CELERY_APP if None.

    Raises:
        SettingsError: The environment is wrong; every problem is listed.
        TypeError: An argument cannot be what it is for.
    """

    def __init__(
        self, settings: Settings | None, user_from: UserFrom | None, canceller: Canceller | None
    ) -> None:
        _check_arguments(settings, user_from, canceller)
        self.settings = Settings.from_env() if settings is None else settings
        self.codec = TokenCodec(self.settings)
        self.issuer = Issuer(self.settings, self.codec, lambda: str(uuid.uuid4()))
        self.guard = Guard(self.settings, self.issuer)
        self.identifier = Identifier(self.settings, self.codec, self.guard.is_stream)
        self.store = store_for(self.settings)
        per_channel = self.settings.max_streams_per_channel
        self.streams = Slots(self.settings.max_streams, per_channel)
        self.waiters = Slots(self.settings.wsgi_max_waiters, per_channel)
        if canceller is None and self.settings.celery_app:
            canceller = celery_canceller(self.settings.celery_app)
        self.canceller = canceller
        self.proxies = ProxyTrust(self.settings.trusted_proxies, self.settings.trusted_headers)
        self.sources = HeadSources(self.settings, self.proxies)
        self.has_source = user_from is not None or self.sources.exist
        self._user_from = user_from
        self.clock: Callable[[], float] = time.time
        self.log = Log(self.settings)
        self.log.started(self.settings)
        self.note_processes(several=has_several_workers(os.environ))

    def ask_user(self, source: Any, received: RequestHead, now: float) -> str | None:
        """Return the user that the first user source names: `user_from`, then the request."""
        if not self.has_source:
            return None
        user_id = self._ask_app(source)
        return as_user_id(self.sources.user(received, now)) if user_id is None else user_id

    def _ask_app(self, source: Any) -> str | None:
        if self._user_from is None:
            return None
        try:
            value = self._user_from(source)
        except Exception:  # noqa: BLE001 - the app's function; a failure names nobody
            self.log.once("user_from_failed", exc_info=True)
            return None
        user_id = as_user_id(value)
        if user_id is None and value is not None and value != "":
            self.log.once("user_from_odd")
        return user_id

    def public(self, received: RequestHead) -> RequestHead:
        """Return a request as the client made it, as far as trusted proxies tell."""
        for name in self.proxies.distrusted(received):
            self.log.distrusted(name, received)
        if self.sources.is_named_by_rewritten_peer(received):
            self.log.once("rewritten_peer")
        return self.proxies.public(received)

    def note_processes(self, *, several: bool) -> None:
        """Warn once when jobs live in memory but several processes serve the app."""
        if several and self.settings.store_url == "memory://":
            self.log.once("multiprocess")


def celery_canceller(name: str) -> Canceller:
    """Return the canceller for a Celery app that is named as `module:attribute`.

    Raises:
        SettingsError: There is no such app, or no Celery.
    """
    try:
        from gaq_middleware.celery import canceller_of
    except ModuleNotFoundError as error:
        raise SettingsError(
            "GAQ_CELERY_APP needs Celery: pip install celery, or this package's extra [celery]."
        ) from error
    return canceller_of(name)


def has_several_workers(environ: Mapping[str, str]) -> bool:
    """Whether the environment tells servers to run several processes."""
    workers = environ.get("WEB_CONCURRENCY", "")
    return workers.isdecimal() and int(workers) > 1


def as_user_id(value: object) -> str | None:
    """Return a user id as text; None when the value is neither text, a whole number nor a UUID.

    Nothing else counts: the text of any object would name one user for all strangers.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | uuid.UUID):
        return None
    if isinstance(value, int) and value.bit_length() > MAX_USER_ID_BITS:
        return None
    text = str(value)
    return text if is_user_id(text) else None


def _check_arguments(settings: object, user_from: object, canceller: object) -> None:
    if settings is not None and not isinstance(settings, Settings):
        raise TypeError("settings must be a Settings, such as Settings.from_env() makes.")
    if user_from is not None and not callable(user_from):
        raise TypeError("user_from must be a function from scope or environ to a user id.")
    if inspect.iscoroutinefunction(user_from):
        raise TypeError("user_from must be a plain function: it is called, never awaited.")
    if canceller is not None and not callable(canceller):
        raise TypeError("canceller must be a function of one job.")


def check_app(app: object, kind: str) -> None:
    """Refuse an app that plainly is not of a kind.

    Args:
        app: What shall be wrapped.
        kind: "asgi" or "wsgi".

    Raises:
        TypeError: It is no app, or one for the other face; the mend is named.
    """
    if not callable(app):
        raise TypeError(f"{app!r:.80} is not an app: wrap the callable that the server runs.")
    call = app if inspect.isroutine(app) else type(app).__call__
    found = "asgi" if inspect.iscoroutinefunction(call) else _kind_by_arguments(app)
    if found not in {kind, ""}:
        raise TypeError(
            f"{type(app).__name__} is not for {kind.upper()} but for {found.upper()}: import "
            f"AsyncQueryMiddleware from gaq_middleware.{found}."
            + (" For Flask: app.wsgi_app = AsyncQueryMiddleware(app.wsgi_app)." * (found == "wsgi"))
        )


def _kind_by_arguments(app: Callable[..., object]) -> str:
    """Return the face of an app that takes just two or just three arguments, "" if unsure."""
    fits = []
    for count in (2, 3):
        try:
            inspect.signature(app).bind(*[None] * count)
        except (TypeError, ValueError):
            continue
        fits.append({2: "wsgi", 3: "asgi"}[count])
    return fits[0] if len(fits) == 1 else ""
