"""The operations that an identity does with its own jobs: submit, get, cancel, read events.

`OwnerJobs` and `AsyncOwnerJobs` are the same operations as plain calls and as awaitables. Both
ask who is asking first, then take one step of the store; which command that is and what its reply
means is said once, in `_Operations`. How a store keeps jobs is not said here.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from gaq_middleware.core.commands import (
    CancelJob,
    CancelReply,
    EventPage,
    GetJob,
    Outcome,
    ReadEvents,
    SubmitJob,
    SubmitReply,
)
from gaq_middleware.core.errors import JobNotFoundError, JobStateError, NotJobOwnerError
from gaq_middleware.core.jobs import Event, Job, Owner, is_job_id, parse_cursor
from gaq_middleware.core.settings import Settings
from gaq_middleware.registry.runs import to_the_end
from gaq_middleware.registry.stores import Store, new_attempt

R = TypeVar("R")

Canceller = Callable[[Job], object]
"""Stops the work behind a job; a plain function or a coroutine function."""

logger = logging.getLogger("gaq_middleware")

_CANCELLER_FAILED = "The canceller failed for job %s. The job is cancelled; its work may go on."


def _nothing() -> None:
    """Do nothing."""


class _Operations:
    """What the twins share: the command of each operation, and the meaning of each reply.

    Args:
        store: Where the jobs are.
        owner: Says who is asking; called first in every operation, and may raise.
        settings: For the time to live of jobs.
        canceller: Stops the work behind a job; called once for each job cancelled here.
        on_success: Called after every operation that came out well.
        clock: Seconds since 1970.
    """

    __slots__ = ("_canceller", "_clock", "_on_success", "_owner", "_store", "_ttl")

    def __init__(
        self,
        store: Store,
        owner: Callable[[], Owner],
        settings: Settings,
        canceller: Canceller | None = None,
        on_success: Callable[[], None] = _nothing,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._owner = owner
        self._ttl = float(settings.job_ttl_seconds)
        self._canceller = canceller
        self._on_success = on_success
        self._clock = clock

    def _submission(
        self, owner: Owner, job_id: str | None, extra: Mapping[str, object]
    ) -> tuple[Job, SubmitJob]:
        job = Job.new(owner, str(uuid.uuid4()) if job_id is None else job_id, extra)
        command = SubmitJob.of(job, now=self._clock(), ttl=self._ttl, attempt=new_attempt())
        return job, command

    def _submitted(self, job: Job, reply: SubmitReply) -> Job:
        if reply.outcome is Outcome.EXISTS:
            raise JobStateError(
                f"There is a job {job.job_id} already. Give each job its own id, or leave job_id "
                "out and one is made."
            )
        return self._succeeded(replace(job, last_id=reply.last_id))

    def _look(self, job_id: str) -> GetJob:
        return GetJob(job_id=_possible(job_id), now=self._clock())

    def _seen(self, owner: Owner, job: Job | None) -> Job:
        if job is None:
            raise JobNotFoundError
        if not owner.owns(job):
            raise NotJobOwnerError
        return self._succeeded(job)

    def _cancellation(self, owner: Owner, job_id: str) -> CancelJob:
        return CancelJob(
            job_id=_possible(job_id),
            owner=owner,
            now=self._clock(),
            ttl=self._ttl,
            attempt=new_attempt(),
        )

    def _cancelled(self, reply: CancelReply) -> Job:
        if reply.outcome is Outcome.STRANGER:
            raise NotJobOwnerError
        if reply.job is None:
            raise JobNotFoundError
        return reply.job

    def _reading(self, owner: Owner, last_id: str | None) -> ReadEvents:
        after = parse_cursor(last_id) if last_id else None
        return ReadEvents(channel_id=owner.channel_id, after=after, now=self._clock())

    def _succeeded(self, value: R) -> R:
        self._on_success()
        return value


class OwnerJobs(_Operations):
    """The jobs of whoever is asking, as plain calls.

    Every operation raises AuthenticationError when nobody is asking, and StoreError when the
    store fails.
    """

    __slots__ = ()

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
        job, command = self._submission(self._owner(), job_id, extra)
        return self._submitted(job, self._store.execute(command))

    def get(self, job_id: str) -> Job:
        """Return a job, ended or not.

        Raises:
            JobNotFoundError: It is unknown or has expired.
            NotJobOwnerError: It is somebody else's.
        """
        owner = self._owner()
        return self._seen(owner, self._store.execute(self._look(job_id)))

    def cancel(self, job_id: str) -> Job:
        """End a job as cancelled, publish that, and have its work stopped.

        Raises:
            JobNotFoundError: It is unknown, or has ended or expired.
            NotJobOwnerError: It is somebody else's.
        """
        command = self._cancellation(self._owner(), job_id)
        job = self._cancelled(self._store.execute(command))
        if self._canceller is not None:
            _stop(self._canceller, job)
        return self._succeeded(job)

    def read(self, last_id: str | None = None) -> EventPage:
        """Return up to 100 events after a cursor as texts, oldest first, and whether some are lost.

        Raises:
            BadRequestError: The cursor is none (`bad_last_id`).
        """
        return self._succeeded(self._store.execute(self._reading(self._owner(), last_id)))

    def events(self, last_id: str | None = None) -> list[Event]:
        """Return up to 100 events after a cursor, oldest first.

        Raises:
            BadRequestError: The cursor is none (`bad_last_id`).
        """
        return [text.event() for text in self.read(last_id).events]


class AsyncOwnerJobs(_Operations):
    """The jobs of whoever is asking, as awaitables; see `OwnerJobs` for what each raises."""

    __slots__ = ()

    async def submit(self, /, *, job_id: str | None = None, **extra: object) -> Job:
        """Register a new job, pending, for whoever is asking."""
        job, command = self._submission(self._owner(), job_id, extra)
        return self._submitted(job, await self._store.aexecute(command))

    async def get(self, job_id: str) -> Job:
        """Return a job, ended or not."""
        owner = self._owner()
        return self._seen(owner, await self._store.aexecute(self._look(job_id)))

    async def cancel(self, job_id: str) -> Job:
        """End a job as cancelled, publish that, and have its work stopped.

        Once begun it goes on to its end even if the task is cancelled: a job that says cancelled
        while nobody stops its work could not be cancelled again.
        """
        return await to_the_end(self._cancel(self._cancellation(self._owner(), job_id)))

    async def _cancel(self, command: CancelJob) -> Job:
        job = self._cancelled(await self._store.aexecute(command))
        if self._canceller is not None:
            await _astop(self._canceller, job)
        return self._succeeded(job)

    async def read(self, last_id: str | None = None) -> EventPage:
        """Return up to 100 events after a cursor as texts, oldest first."""
        return self._succeeded(await self._store.aexecute(self._reading(self._owner(), last_id)))

    async def events(self, last_id: str | None = None) -> list[Event]:
        """Return up to 100 events after a cursor, oldest first."""
        return [text.event() for text in (await self.read(last_id)).events]


def _possible(job_id: str) -> str:
    """Return the id if it can be one; what cannot is not worth asking the store for."""
    if not is_job_id(job_id):
        raise JobNotFoundError
    return job_id


def _stop(canceller: Canceller, job: Job) -> None:
    """Call the canceller from a plain call; the job stays cancelled if it fails."""
    try:
        result = canceller(job)
        if inspect.isawaitable(result):
            _wait_for(result)
    except Exception:
        logger.exception(_CANCELLER_FAILED, job.job_id)


async def _astop(canceller: Canceller, job: Job) -> None:
    """Call the canceller from a task, a plain one in a worker thread."""
    try:
        if _is_coroutine_function(canceller):
            result = canceller(job)
        else:
            result = await run_in_threadpool(canceller, job)
        if inspect.isawaitable(result):
            await result
    except Exception:
        logger.exception(_CANCELLER_FAILED, job.job_id)


def _is_coroutine_function(function: object) -> bool:
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__
    )


def _wait_for(awaitable: Awaitable[object]) -> None:
    """Run an awaitable to its end; in a thread of its own when this one has a loop running."""

    async def wait() -> None:
        await awaitable

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(wait())
        return
    with ThreadPoolExecutor(1) as pool:
        pool.submit(copy_context().run, asyncio.run, wait()).result()
