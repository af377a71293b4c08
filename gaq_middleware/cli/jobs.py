"""`gaq reap`: end the jobs that nobody works on any more."""

from __future__ import annotations

import argparse
import sys

from gaq_middleware.cli.words import complain
from gaq_middleware.core.errors import StoreError
from gaq_middleware.core.settings import Settings
from gaq_middleware.registry import JobRegistry


def reap(_: argparse.Namespace) -> int:
    """End the jobs that are past their deadline, and print how many there were.

    Each that gave no sign of life for GAQ_JOB_TTL_SECONDS ends with one `error` event. Run it each
    minute (cron). Exit codes: 0 done, 1 the store failed, 2 wrong usage or wrong settings.
    """
    settings = Settings.from_env()
    if settings.store_url == "memory://":
        return complain(
            "GAQ_STORE_URL is memory://: the app itself ends its jobs. Set it to a Redis."
        )
    try:
        count = JobRegistry(settings).reap()
    except StoreError as error:
        print(f"No job was ended. {error.detail}", file=sys.stderr)
        return 1
    print(f"{count} {'job was' if count == 1 else 'jobs were'} past the deadline and ended.")
    return 0
