"""For the tests of wrapped apps."""

from __future__ import annotations

import time

from gaq_middleware.core.settings import Settings
from gaq_middleware.core.tokens import TokenCodec
from gaq_middleware.engine import as_user_id


def issue_token(settings: Settings, user_id: str | int) -> str:
    """Return a token of a user, for the cookie or the header of a test request.

    Args:
        settings: The settings of the wrapped app, e.g. `Settings.from_env()`.
        user_id: The app's id of the user.

    Raises:
        ValueError: The id is empty or has control characters or lone surrogates.
    """
    text = as_user_id(user_id)
    if text is None:
        raise ValueError(f"{user_id!r} is not a user id: it must be text or a number")
    codec = TokenCodec(settings)
    return codec.issue(codec.user_channel(text), text, time.time()).raw
