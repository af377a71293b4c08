"""One configuration of Django for all tests: it can be configured only once in a process."""

from __future__ import annotations

import pytest


def configure_django() -> None:
    """Configure Django unless that was done; skip the test where it is not installed."""
    django, conf = pytest.importorskip("django"), pytest.importorskip("django.conf")
    if not conf.settings.configured:
        conf.settings.configure(ALLOWED_HOSTS=["*"], SECRET_KEY="s", ROOT_URLCONF=(), USE_TZ=True)
        django.setup()
