"""The Celery app of the tests: what its workers do, and a note of what they did.

The environment says where the broker is; the registry of jobs is that of the variables of ours.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import redis
from celery import Celery
from celery.exceptions import Reject
from celery.signals import task_postrun

from gaq_middleware import Owner, Settings
from gaq_middleware.celery import GaqTask, canceller
from gaq_middleware.registry import OwnerJobs, store_for

BROKER = os.environ.get("BROKER", "redis://127.0.0.1:1/1")
OWNER = Owner("user-a", "7")
"""Whose jobs the tests submit."""
NOTES = "notes:"
"""Prefix of the lists, one for each job, in which a worker notes what it does."""

app = Celery("tests", broker=BROKER, set_as_current=False)
app.conf.update(
    worker_lost_wait=0.5,  # seconds; 10 if not given
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    task_ignore_result=True,
)


def task(**options: Any) -> Callable[[Callable[..., object]], Any]:
    """Return a decorator that makes a task of a function."""
    decorator: Callable[[Callable[..., object]], Any] = app.task(
        base=GaqTask, shared=False, **options
    )
    return decorator


def note(job_id: str, what: str) -> None:
    """Tell the test what happens."""
    with redis.Redis.from_url(BROKER) as client:
        client.rpush(NOTES + job_id, what)


def _note_end(task_id: str = "", state: str = "", **_: Any) -> None:
    note(task_id, f"over {state}")


task_postrun.connect(_note_end)


@task(bind=True)
def give(self: Any, result: object = None) -> object:
    """Give back what was passed."""
    note(self.request.id, "ran")
    return result


@task()
def crash() -> None:
    """Fail."""
    raise ValueError("no such column: region")


@task(bind=True)
def sleep(self: Any, seconds: float = 60.0, result: object = "/late") -> object:
    """Work for a while, and note in which process."""
    note(self.request.id, f"pid {os.getpid()}")
    time.sleep(seconds)
    return result


@task(bind=True, max_retries=2)
def try_again(self: Any, times: int, countdown: float) -> str:
    """Fail so many times, then succeed."""
    note(self.request.id, f"try {self.request.retries}")
    if self.request.retries < times:
        raise self.retry(exc=OSError("connection reset"), countdown=countdown)
    return "/after-retries"


@task(bind=True, acks_late=True)
def refuse(self: Any, times: int) -> str:
    """Give the message back to the broker so many times, then succeed."""
    note(self.request.id, "ran")
    with redis.Redis.from_url(BROKER) as client:
        seen = client.llen(NOTES + self.request.id)
    if seen <= 2 * times:  # each run leaves two notes
        raise Reject("not here", requeue=True)
    return "/after-refusals"


@task(bind=True)
def replace(self: Any) -> None:
    """Let another task do the work."""
    self.replace(give.s("/by-another"))


@task(bind=True)
def finish_too_late(self: Any) -> str:
    """End in the very moment in which the owner cancels."""
    settings = Settings.from_env()
    jobs = OwnerJobs(store_for(settings), lambda: OWNER, settings, canceller(app))
    note(self.request.id, f"pid {os.getpid()}")
    jobs.cancel(self.request.id)
    return "/too-late"
