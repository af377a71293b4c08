"""Sessions: the user that the app's own signed session cookie names, Flask's or Starlette's.

The one module that knows itsdangerous. A session is trusted until its age ends.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from itsdangerous import BadData, TimestampSigner, URLSafeTimedSerializer

from gaq_middleware.core.cookies import cookie_values
from gaq_middleware.core.settings import Settings


@dataclass(frozen=True, slots=True)
class NewSession:
    """The session that a response sets: a user's, or nobody's when it ended."""

    user: object


class SessionReader:
    """Reads the session cookies of one set of settings."""

    def __init__(self, settings: Settings) -> None:
        self._cookie = settings.session_cookie
        self._key = settings.session_user_key
        self._max_age = settings.session_max_age
        # itsdangerous wants the newest secret last
        keys = [*settings.session_previous_secrets[::-1], settings.session_secret or b""]
        if settings.session_format == "flask":
            options = {"key_derivation": "hmac", "digest_method": hashlib.sha1}
            self._flask: URLSafeTimedSerializer | None = URLSafeTimedSerializer(
                keys, salt="cookie-session", signer_kwargs=options
            )
        else:
            self._flask = None
        self._starlette = TimestampSigner(keys)

    def user(self, cookies: Iterable[str], now: float) -> object:
        """Return the user that the request's session names, None if there is none.

        Args:
            cookies: The `Cookie` headers.
            now: Epoch seconds.
        """
        for value in cookie_values(cookies, self._cookie):
            session = self._read(value, now)
            if session is not None:
                return session.get(self._key)
        return None

    def new_session(self, lines: Iterable[str], now: float) -> NewSession | None:
        """Return the session that `Set-Cookie` lines of a response set, None if they set none."""
        found = None
        for line in lines:
            pair = line.partition(";")[0]
            if pair.partition("=")[0].strip() == self._cookie:
                session = self._read(pair.partition("=")[2].strip().strip('"'), now)
                found = NewSession(None if session is None else session.get(self._key))
        return found

    def _read(self, value: str, now: float) -> dict[str, Any] | None:
        try:
            if self._flask is not None:
                session, signed = self._flask.loads(value, return_timestamp=True)
            else:
                raw, signed = self._starlette.unsign(value, return_timestamp=True)
                session = json.loads(base64.b64decode(raw))
        except (BadData, ValueError, RecursionError):
            return None
        age = now - signed.timestamp()
        return session if isinstance(session, dict) and age <= self._max_age else None
