"""For the tests of wrapped apps."""

from __future__ import annotations

import time

from gaq_middleware.core.settings import Settings
from gaq_middleware.core.tokens import MAX_TOKEN_BYTES, TokenCodec
from gaq_middleware.engine import NOT_A_USER_ID, as_user_id


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
        raise ValueError(NOT_A_USER_ID.format(user_id))
    codec = TokenCodec(settings)
    raw = codec.issue(codec.user_channel(text), text, time.time()).raw
    if len(raw) > MAX_TOKEN_BYTES:
        raise ValueError(
            f"The user id is too long: its token has more than {MAX_TOKEN_BYTES} bytes."
        )
    return raw
