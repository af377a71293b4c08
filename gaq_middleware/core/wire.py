"""The JSON in which jobs and events are kept and sent: as Superset writes it.

ASCII only, `", "` and `": "` as separators, keys in the order given, NaN and infinities as null,
dates as ISO 8601, UUIDs as text. What a job is, is said in `jobs`.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from collections.abc import Callable, Mapping

MAX_ERRORS = 16_384  # characters of JSON; as much as the longest token that is read
MAX_MESSAGE = 2_000  # characters kept of the first message when errors are too long
MAX_EXACT = 2**53 - 1  # RFC 8259 section 6: beyond it JSON readers may round

_DECIMAL = re.compile(r"0|[1-9][0-9]{0,15}")
_NO_NUMBERS = dict.fromkeys(("NaN", "Infinity", "-Infinity"))


def to_json(value: object, default: Callable[[object], object] | None = None) -> str:
    """Return a value as the JSON text that Superset writes.

    NaN and infinities become null, dates ISO 8601, UUIDs text.

    Args:
        value: What to write.
        default: Writes what JSON does not have; dates and UUIDs only, if not given.

    Raises:
        TypeError: The value holds something that JSON does not have.
        ValueError: The value contains itself, or is nested too deeply.
    """
    default = default or _plain
    try:
        try:
            return json.dumps(value, default=default, allow_nan=False)
        except ValueError:  # NaN or an infinity; or a circle, which fails again below
            text = json.dumps(value, default=default)
            return json.dumps(json.loads(text, parse_constant=_NO_NUMBERS.get))
    except RecursionError:
        raise ValueError("The value is nested too deeply for JSON.") from None


def _plain(value: object) -> object:
    if isinstance(value, dt.date | dt.time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON.")


def _plain_or_text(value: object) -> object:
    try:
        return _plain(value)
    except TypeError:
        return _text(value)


def _text(value: object) -> str:
    """Return the text of anything, even of what cannot say its own."""
    try:
        return str(value) or type(value).__name__
    except Exception:  # noqa: BLE001 - a broken __str__ must not hide that a job failed
        return type(value).__name__


def wire_id(user_id: str | None) -> int | str | None:
    """Return a user id as JSON carries it: a number where Superset would write one."""
    if user_id is not None and _DECIMAL.fullmatch(user_id) and int(user_id) <= MAX_EXACT:
        return int(user_id)
    return user_id


def error_texts(errors: object) -> str:
    """Return errors as the JSON text of a list of objects; this always succeeds.

    Args:
        errors: A list of objects, texts or exceptions, or one of them alone. Texts and exceptions
            become `{"message": text}`; what JSON does not have is written as its text; what is
            longer than 16,384 characters is cut to the first message.
    """
    items = errors if isinstance(errors, list | tuple) else [errors]
    listed = [dict(i) if isinstance(i, Mapping) else {"message": _text(i)} for i in items]
    listed = listed or [{"message": "The job failed."}]
    try:
        text = to_json(listed, _plain_or_text)
        if len(text) <= MAX_ERRORS:
            return text
    except (TypeError, ValueError):  # a key that is no text, a circle, or too deep
        pass
    first = _text(listed[0].get("message", listed[0]))
    return to_json([{"message": first[:MAX_MESSAGE], "truncated": True}])
