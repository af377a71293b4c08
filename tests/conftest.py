"""Every test starts without the variables that the middleware reads."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.servers import RedisServer

settings.register_profile(
    "suite", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("suite")


@pytest.fixture(autouse=True)
def clean_environ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove every variable of ours, and the one that tells of several processes."""
    for name in list(os.environ):
        if name.startswith("GAQ_") or name == "WEB_CONCURRENCY":
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """Return a running redis-server, the same for all tests; whoever uses it empties it first."""
    with RedisServer() as server:
        yield server
