"""Words for people: texts, lengths and points of time, and values that came from outside."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from datetime import datetime, timezone

_UNITS = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}
_CENTURY = 36_525 * 86_400


def complain(text: str) -> int:
    """Say on standard error why nothing can be done, and return exit code 2."""
    print(text, file=sys.stderr)
    return 2


def tell(lead: str, text: str) -> None:
    """Print a text with hanging indent, in plain ASCII; words stay whole, to be copied."""
    wrapper = textwrap.TextWrapper(88, lead, " " * len(lead), break_long_words=False)
    wrapper.break_on_hyphens = False
    print(wrapper.fill(re.sub("[^ -~\t\r\n]", lambda found: ascii(found[0])[1:-1], text)))


def duration(seconds: float) -> str:
    """Return a length of time in words, in the largest unit that it holds twice."""
    if seconds > _CENTURY:
        return "more than 100 years"
    unit = next((unit for unit, size in _UNITS.items() if seconds >= 2 * size), "second")
    count = max(0, int(seconds // _UNITS[unit]))
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def moment(value: object, now: float, past: str, future: str) -> str:
    """Return a point of time in words, such as "expired 3 minutes ago, 2026-08-01 12:00:00 UTC".

    Args:
        value: Epoch seconds, as a claim holds them.
        now: Epoch seconds.
        past: The verb for a time that has come.
        future: The verb for one that has not.
    """
    try:
        date = datetime.fromtimestamp(float(str(value)), timezone.utc)
    except (ValueError, OverflowError, OSError):
        return "no date"
    ago = now - date.timestamp()
    words = f"{past} {duration(ago)} ago" if ago >= 0 else f"{future} in {duration(-ago)}"
    return f"{words}, {date:%Y-%m-%d %H:%M:%S} UTC"


def shown(value: object, limit: int = 200) -> str:
    """Return a value from outside as JSON in plain ASCII, cut where it gets long."""
    try:
        text = json.dumps(value)
    except RecursionError:
        return "(too deep to show)"
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"
