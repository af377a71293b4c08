"""The operations that an identity does with its own jobs: submit, get, cancel, read events.

`OwnerJobs` and `AsyncOwnerJobs` are the same operations as plain calls and as awaitables. Both
ask who is asking first, then take one step of the store, as is written once in `_Operations`. How
a store keeps jobs is not said here.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from gaq_middleware.core.commands import (
    CancelJob,
    Command,
    EventPage,
    GetJob,
    Outcome,
    ReadEvents,
    SubmitJob,
)
from gaq_middleware.core.errors import JobNotFoundError, JobStateError, NotJobOwnerError
from gaq_middleware.core.jobs import Event, Job, Owner, is_job_id, parse_cursor
from gaq_middleware.core.settings import Settings
from gaq_middleware.registry.colours import at_once, to_the_end
from gaq_middleware.registry.stores import Store, new_attempt

R = TypeVar("R")

Canceller = Callable[[Job], object]
"""Stops the work behind a job; a plain function or a coroutine function."""

logger = logging.getLogger("gaq_middleware")


class _Operations(ABC):
    """Every operation, once for both twins.

    Args:
        store: Where the jobs are.
        owner: Says who is asking; called first in every operation, and may raise.
        settings: For the time to live of jobs.
        canceller: Stops the work behind a job; called once for each job cancelled here.
        on_success: Called after every operation that came out well.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        store: Store,
        owner: Callable[[], Owner],
        settings: Settings,
        canceller: Canceller | None = None,
        on_success: Callable[[], None] = lambda: None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._owner = owner
        self._ttl = float(settings.job_ttl_seconds)
        self._canceller = canceller
        self._on_success = on_success
        self._clock = clock

    @abstractmethod
    async def _do(self, command: Command[R]) -> R:
        """Take one step of the store."""

    @abstractmethod
    async def _stop(self, canceller: Canceller, job: Job) -> None:
        """Call the canceller."""

    async def _submit(self, job_id: str | None, extra: Mapping[str, object]) -> Job:
        job = Job.new(self._owner(), str(uuid.uuid4()) if job_id is None else job_id, extra)
        command = SubmitJob.of(job, now=self._clock(), ttl=self._ttl, attempt=new_attempt())
        reply = await self._do(command)
        if reply.outcome is Outcome.EXISTS:
            raise JobStateError(
                f"There is a job {job.job_id} already. Give each job its own id, or leave job_id "
                "out and one is made."
            )
        return self._succeeded(replace(job, last_id=reply.last_id))

    async def _get(self, job_id: str) -> Job:
        owner = self._owner()
        job = await self._do(GetJob(job_id=_possible(job_id), now=self._clock()))
        if job is None:
            raise JobNotFoundError
        if not owner.owns(job):
            raise NotJobOwnerError
        return self._succeeded(job)

    async def _cancel(self, job_id: str) -> Job:
        owner, now = self._owner(), self._clock()
        reply = await self._do(
            CancelJob(
                job_id=_possible(job_id), owner=owner, now=now, ttl=self._ttl, attempt=new_attempt()
            )
        )
        if reply.outcome is Outcome.STRANGER:
            raise NotJobOwnerError
        if reply.job is None:
            raise JobNotFoundError
        if self._canceller is not None:
            try:
                await self._stop(self._canceller, reply.job)
            except Exception:
                logger.exception(
                    "The canceller failed for job %s. The job is cancelled; its work may go on.",
                    job_id,
                )
        return self._succeeded(reply.job)

    async def _read(self, last_id: str | None) -> EventPage:
        channel_id = self._owner().channel_id
        after = parse_cursor(last_id) if last_id else None
        command = ReadEvents(channel_id=channel_id, after=after, now=self._clock())
        return self._succeeded(await self._do(command))

    def _succeeded(self, value: R) -> R:
        self._on_success()
        return value


class OwnerJobs(_Operations):
    """The jobs of whoever is asking, as plain calls.

    Every operation raises AuthenticationError when nobody is asking, and StoreError when the
    store fails.
    """

    def submit(self, /, *, job_id: str | None = None, **extra: object) -> Job:
        """Register a new job, pending, for whoever is asking.

        Args:
            job_id: Its id; a random UUID if not given.
            extra: Fields that are kept with the job and given back.

        Raises:
            JobStateError: There is a job of that id.
            TypeError: An extra field holds something that JSON does not have.
            ValueError: The id cannot be one, or an extra field may not have its name or size.
        """
        return at_once(self._submit(job_id, extra))

    def get(self, job_id: str) -> Job:
        """Return a job, ended or not.

        Raises:
            JobNotFoundError: It is unknown or has expired.
            NotJobOwnerError: It is somebody else's.
        """
        return at_once(self._get(job_id))

    def cancel(self, job_id: str) -> Job:
        """End a job as cancelled, publish that, and have its work stopped.

        Raises:
            JobNotFoundError: It is unknown, or has ended or expired.
            NotJobOwnerError: It is somebody else's.
        """
        return at_once(self._cancel(job_id))

    def read(self, last_id: str | None = None) -> EventPage:
        """Return up to 100 events after a cursor as texts, oldest first, and whether some are lost.

        Raises:
            BadRequestError: The cursor is none (`bad_last_id`).
        """
        return at_once(self._read(last_id))

    def events(self, last_id: str | None = None) -> list[Event]:
        """Return up to 100 events after a cursor, oldest first.

        Raises:
            BadRequestError: The cursor is none (`bad_last_id`).
        """
        return [text.event() for text in self.read(last_id).events]

    async def _do(self, command: Command[R]) -> R:
        return self._store.execute(command)

    async def _stop(self, canceller: Canceller, job: Job) -> None:
        result = canceller(job)
        if inspect.isawaitable(result):
            with ThreadPoolExecutor(1) as pool:  # this thread may have a loop running
                pool.submit(copy_context().run, asyncio.run, _wait_for(result)).result()


class AsyncOwnerJobs(_Operations):
    """The jobs of whoever is asking, as awaitables; see `OwnerJobs` for what each raises."""

    async def submit(self, /, *, job_id: str | None = None, **extra: object) -> Job:
        """Register a new job, pending, for whoever is asking."""
        return await self._submit(job_id, extra)

    async def get(self, job_id: str) -> Job:
        """Return a job, ended or not."""
        return await self._get(job_id)

    async def cancel(self, job_id: str) -> Job:
        """End a job as cancelled, publish that, and have its work stopped.

        Once begun it goes on to its end even if the task is cancelled: a job that says cancelled
        while nobody stops its work could not be cancelled again.
        """
        return await to_the_end(self._cancel(job_id))

    async def read(self, last_id: str | None = None) -> EventPage:
        """Return up to 100 events after a cursor as texts, oldest first."""
        return await self._read(last_id)

    async def events(self, last_id: str | None = None) -> list[Event]:
        """Return up to 100 events after a cursor, oldest first."""
        return [text.event() for text in (await self.read(last_id)).events]

    async def _do(self, command: Command[R]) -> R:
        return await self._store.aexecute(command)

    async def _stop(self, canceller: Canceller, job: Job) -> None:
        """Call a plain one in a thread, so that it does not hold up the loop."""
        is_async = inspect.iscoroutinefunction(canceller)
        result = canceller(job) if is_async else await run_in_threadpool(canceller, job)
        if inspect.isawaitable(result):
            await result


def _possible(job_id: str) -> str:
    """Return the id if it can be one; what cannot is not worth asking the store for."""
    if not is_job_id(job_id):
        raise JobNotFoundError
    return job_id


async def _wait_for(awaitable: Awaitable[object]) -> None:
    await awaitable
