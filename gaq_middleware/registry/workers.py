"""The workers' side of the registry: start, keep alive and end jobs.

`JobRegistry` and `AsyncJobRegistry` are the same operations as plain calls and as awaitables, for
whoever does the work: nobody is asked who they are, and the owner always comes from the record.
A job is given as a `Job`, as its dict, or as its id. Which command an operation is, is said once,
in `_Commands`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING

from gaq_middleware.core.commands import FinishJob, GetJob, Outcome, ReapJobs, StartJob, TouchJob
from gaq_middleware.core.jobs import Job, JobRef, Status, job_id_of
from gaq_middleware.core.settings import Settings
from gaq_middleware.registry.runs import AsyncRun, Run, arunning, running
from gaq_middleware.registry.stores import Store, new_attempt, store_for

if TYPE_CHECKING:
    from typing_extensions import Self  # typing.Self came with Python 3.11

MAX_HEARTBEAT = 30.0  # seconds
REAP_BATCH = 1000  # jobs ended in one step of the store, so that others get their turn


class _Commands:
    """What the twins share: the command of each operation, and the pace of the heartbeat.

    Args:
        settings: Which store, and the time to live of jobs.
        store: The store, if not the one that the settings name.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        store: Store | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store_for(settings) if store is None else store
        self._ttl = float(settings.job_ttl_seconds)
        self._clock = clock
        self.heartbeat_seconds = min(MAX_HEARTBEAT, self._ttl / 3)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Return the registry that the environment describes.

        Args:
            environ: The variables; those of the process if not given.

        Raises:
            SettingsError: With everything that is wrong with them.
        """
        return cls(Settings.from_env(environ))

    def _start(self, job: JobRef) -> StartJob:
        return StartJob(job_id=job_id_of(job), now=self._clock(), ttl=self._ttl)

    def _touch(self, job: JobRef, silent_for: float = 0.0) -> TouchJob:
        return TouchJob(job_id=job_id_of(job), now=self._clock(), ttl=self._ttl + silent_for)

    def _done(self, job: JobRef, result_url: str | None) -> FinishJob:
        now, attempt = self._clock(), new_attempt()
        return FinishJob.done(job_id_of(job), result_url, now=now, ttl=self._ttl, attempt=attempt)

    def _fail(self, job: JobRef, errors: object) -> FinishJob:
        now, attempt = self._clock(), new_attempt()
        return FinishJob.error(job_id_of(job), errors, now=now, ttl=self._ttl, attempt=attempt)

    def _look(self, job: JobRef) -> GetJob:
        return GetJob(job_id=job_id_of(job), now=self._clock())

    def _reap(self) -> ReapJobs:
        return ReapJobs(now=self._clock(), limit=REAP_BATCH)


class JobRegistry(_Commands):
    """Starts, keeps alive and ends jobs, as plain calls.

    Every operation raises StoreError when the store fails, and TypeError for what is no job.
    """

    def start(self, job: JobRef) -> bool:
        """Mark a job as running. False: cancelled, ended, unknown or overdue; do not run it."""
        return self._store.execute(self._start(job)) is Outcome.OK

    def touch(self, job: JobRef, silent_for: float = 0.0) -> bool:
        """Give a sign of life, which moves the deadline; False when the job has ended.

        Args:
            job: Which job.
            silent_for: Seconds in which it will give none, beyond its time to live.
        """
        return self._store.execute(self._touch(job, silent_for)) is Outcome.OK

    def done(self, job: JobRef, result_url: str | None = None) -> bool:
        """End a job well and publish that; False when it had ended before.

        Args:
            job: Which job.
            result_url: Where its owner finds the result; at most 8,192 characters.

        Raises:
            TypeError: The URL is not text.
            ValueError: The URL is too long.
        """
        return self._store.execute(self._done(job, result_url)) is Outcome.OK

    def fail(self, job: JobRef, errors: object) -> bool:
        """End a job badly and publish that; False when it had ended before.

        Args:
            job: Which job.
            errors: What its owner reads: an exception, a text, an object with a `message`, or a
                list of these.
        """
        return self._store.execute(self._fail(job, errors)) is Outcome.OK

    def is_cancelled(self, job: JobRef) -> bool:
        """Return whether the owner has cancelled a job."""
        return _is_cancelled(self._store.execute(self._look(job)))

    def reap(self) -> int:
        """End every overdue job, publish that, and return how many there were."""
        total, ended = 0, REAP_BATCH
        while ended == REAP_BATCH:
            ended = self._store.execute(self._reap())
            total += ended
        return total

    def run(self, job: JobRef) -> AbstractContextManager[Run]:
        """Return a context that starts a job, keeps it alive, and ends it exactly once.

            with registry.run(job) as run:
                run.done(save(work()))

        Left without `done`, the job is done without a result; left by an exception, it has
        failed, and the exception comes out. Entering raises JobStateError when the job cannot
        start.
        """
        return running(self, job_id_of(job))


class AsyncJobRegistry(_Commands):
    """Starts, keeps alive and ends jobs, as awaitables; see `JobRegistry` for what each does."""

    async def start(self, job: JobRef) -> bool:
        """Mark a job as running. False: cancelled, ended, unknown or overdue; do not run it."""
        return await self._store.aexecute(self._start(job)) is Outcome.OK

    async def touch(self, job: JobRef) -> bool:
        """Give a sign of life, which moves the deadline; False when the job has ended."""
        return await self._store.aexecute(self._touch(job)) is Outcome.OK

    async def done(self, job: JobRef, result_url: str | None = None) -> bool:
        """End a job well and publish that; False when it had ended before."""
        return await self._store.aexecute(self._done(job, result_url)) is Outcome.OK

    async def fail(self, job: JobRef, errors: object) -> bool:
        """End a job badly and publish that; False when it had ended before."""
        return await self._store.aexecute(self._fail(job, errors)) is Outcome.OK

    async def is_cancelled(self, job: JobRef) -> bool:
        """Return whether the owner has cancelled a job."""
        return _is_cancelled(await self._store.aexecute(self._look(job)))

    async def reap(self) -> int:
        """End every overdue job, publish that, and return how many there were."""
        total, ended = 0, REAP_BATCH
        while ended == REAP_BATCH:
            ended = await self._store.aexecute(self._reap())
            total += ended
        return total

    def run(self, job: JobRef) -> AbstractAsyncContextManager[AsyncRun]:
        """Return a context (`async with`) that starts a job, keeps it alive, and ends it once."""
        return arunning(self, job_id_of(job))


def _is_cancelled(job: Job | None) -> bool:
    return job is not None and job.status is Status.CANCELLED
