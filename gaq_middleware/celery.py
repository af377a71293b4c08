"""The workers' face: queue the work of a job on Celery, run it once, and stop it.

The id of a task is the id of its job. A message carries what the app passes and nothing else: whose
job it is stands in the record, and no token leaves the web process. What may happen to a job is not
decided here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import datetime, timezone
from importlib import import_module
from operator import attrgetter
from typing import Any

from celery import Celery, Task
from celery.exceptions import (
    Ignore,
    SoftTimeLimitExceeded,
    TaskPredicate,
    TimeLimitExceeded,
    WorkerLostError,
)
from celery.result import AsyncResult
from celery.signals import task_failure, task_revoked
from celery.utils.time import maybe_make_aware

from gaq_middleware.core.errors import JobStateError, SettingsError, StoreError
from gaq_middleware.core.jobs import Job, JobRef, job_id_of
from gaq_middleware.core.settings import Settings
from gaq_middleware.registry import JobRegistry
from gaq_middleware.registry.runs import Run

MAX_SIGNAL_SECONDS = 1.0
"""How long the signal of a cancel may be on its way to a worker."""
_NOT_QUEUED = {"message": "The job could not be queued."}
_TIME_LIMIT = {"message": "The job took longer than its time limit."}
_LOST = {"message": "The worker that ran the job was lost.", "code": "job_lost"}
_EXPIRED = {"message": "No worker took the job in time."}
_STOPPED = {"message": "The work of the job was stopped."}

logger = logging.getLogger("gaq_middleware")


class GaqTask(Task):  # type: ignore[misc]
    """A task that does the work of the job whose id it has.

        @app.task(base=GaqTask)
        def load(user_id, query):
            return save(run(query))  # text is the `result_url`

    The job starts with the body and ends with it in one event: `done`, or `error` after an
    exception or a time limit. It lives on through `retry` and `replace`. A job that was cancelled,
    has ended, is overdue or unknown is not run. Called directly, a task is a plain function.

    Attributes:
        settings: Those of the registry; read from the environment if None.
    """

    abstract = True
    settings: Settings | None = None

    @property
    def registry(self) -> JobRegistry:
        """The registry of jobs, as this process sees it."""
        return JobRegistry(self.settings or Settings.from_env())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do the work of a job when a worker calls."""
        if self.request.called_directly:
            return super().__call__(*args, **kwargs)
        with ExitStack() as stack:
            try:
                run = stack.enter_context(self.registry.run(self.request.id))
            except JobStateError as why:
                logger.info("%s", why)
                raise Ignore(str(why)) from None
            result = self._work(run, *args, **kwargs)
            if not run.done(result if isinstance(result, str) else None):
                with suppress(SoftTimeLimitExceeded):  # or it would hit this process's next task
                    time.sleep(MAX_SIGNAL_SECONDS)
                raise Ignore("The job had ended before.")
        return result

    def _work(self, run: Run, /, *args: Any, **kwargs: Any) -> Any:
        """Run the body; what it raises ends the job unless the task is going to run again."""
        try:
            return self.run(*args, **kwargs)
        except SoftTimeLimitExceeded:
            if run.fail(_TIME_LIMIT):
                raise
            raise Ignore("The job was cancelled.") from None
        except (TaskPredicate, SystemExit) as end:  # Retry, Ignore, Reject; or this process must go
            runs_again = getattr(end, "requeue", isinstance(end, TaskPredicate) or self.acks_late)
            with suppress(StoreError):
                if runs_again:
                    run.is_over = True
                    self.registry.touch(run.job_id, _silence(end))
                else:
                    run.fail(getattr(end, "reason", None) or _STOPPED)
            raise

    def signature_from_request(self, *args: Any, **options: Any) -> Any:
        """Return the signature of a retry: whether it comes too late, the job's deadline tells."""
        return super().signature_from_request(*args, **{"expires": None, **options})


def submit(
    task: Task, job: JobRef, /, *args: Any, expires: float | datetime | None = None, **kwargs: Any
) -> AsyncResult:
    """Queue the work of a job.

    It waits for the broker: in a coroutine, call it by `asyncio.to_thread`.

    Args:
        task: A Celery task, or its signature with options: `task.s().set(queue="slow")`.
        job: The job that was submitted.
        args: The task's arguments.
        expires: After so many seconds, or then, no worker takes it any more; the time to live of
            jobs if not given.
        kwargs: The task's named arguments.

    Raises:
        Exception: Whatever Celery raises when it cannot queue the task; the job has then failed.
    """
    job_id, kind = job_id_of(job), getattr(task, "type", task)
    settings = kind.settings if isinstance(kind, GaqTask) else None
    settings = settings or Settings.from_env()
    lives = settings.job_ttl_seconds if expires is None else expires
    try:
        return task.apply_async(args, kwargs, task_id=job_id, expires=lives)
    except Exception:
        _give_up(JobRegistry(settings), job_id)
        raise


def canceller(app: Celery) -> Callable[[Job], None]:
    """Return a canceller of the middleware: it revokes the tasks of cancelled jobs.

    A task that waits is dropped. One that runs sees SoftTimeLimitExceeded in a prefork worker; in
    pools of threads, and in solo workers, it runs on, and its late result is dropped.
    """

    def cancel(job: Job) -> None:
        app.control.revoke(job.job_id, terminate=True, signal="SIGUSR1")

    return cancel


def canceller_of(name: str) -> Callable[[Job], None]:
    """Return the canceller for an app that is named as `module:attribute`.

    Raises:
        SettingsError: There is no such Celery app.
    """
    module, _, attribute = name.partition(":")
    try:
        app = attrgetter(attribute)(import_module(module))
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise SettingsError(f"GAQ_CELERY_APP={name} cannot be imported: {why}.") from error
    if not isinstance(app, Celery):
        raise SettingsError(f"GAQ_CELERY_APP={name} is no Celery app, but {ascii(app)[:80]}.")
    return canceller(app)


def _silence(word: BaseException) -> float:
    """Return for how many seconds a task that is tried again gives no sign of life."""
    when = getattr(word, "when", None)
    if isinstance(when, datetime):
        when = (maybe_make_aware(when) - datetime.now(timezone.utc)).total_seconds()
    return max(0.0, when or 0.0)


def _give_up(registry: JobRegistry, job_id: str) -> None:
    """End a job that could not be queued, in a thread: this one may have an event loop running."""
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(registry.fail, job_id, _NOT_QUEUED).result()
    except StoreError:
        logger.exception("Job %s could not be ended; its time to live will end it.", job_id)


def _on_failure(sender: Any = None, task_id: str = "", exception: Any = None, **_: Any) -> None:
    """End the job of a child process that is gone: only the worker's main process knows."""
    if isinstance(sender, GaqTask) and isinstance(exception, WorkerLostError | TimeLimitExceeded):
        is_lost = isinstance(exception, WorkerLostError)
        sender.registry.fail(task_id, _LOST if is_lost else _TIME_LIMIT)


def _on_revoked(sender: Any = None, request: Any = None, expired: Any = False, **_: Any) -> None:
    """End the job of a task that a worker drops; after a cancel it has ended already."""
    if isinstance(sender, GaqTask):
        sender.registry.fail(request.id, _EXPIRED if expired else _STOPPED)


task_failure.connect(_on_failure)
task_revoked.connect(_on_revoked)
