"""The run of a job by a worker: start it, keep it alive, end it exactly once.

`running` and `arunning` are what `JobRegistry.run` and `AsyncJobRegistry.run` return. Which end a
job may have is not decided here: the registry says whether it took one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from gaq_middleware.core.errors import JobStateError
from gaq_middleware.registry.colours import stop, to_the_end

if TYPE_CHECKING:
    from gaq_middleware.registry.workers import AsyncJobRegistry, JobRegistry

logger = logging.getLogger("gaq_middleware")

_CANNOT_START = (
    "Job {} cannot start: it was cancelled, has ended, is past its deadline, or is unknown here. "
    "Do not run it. To a worker in another process all are unknown without the web app's "
    "GAQ_STORE_URL, which cannot be memory://."
)
_UNPUBLISHED = "The failure of job %s could not be published; its time to live will end it."
_NO_BEAT = "No sign of life could be given for job %s; trying on."


class Run:
    """The run of one job; every operation raises StoreError when the store fails.

    Attributes:
        job_id: Which job.
        is_over: Whether leaving adds nothing: the job has ended, or something else will end it.
    """

    def __init__(self, registry: JobRegistry, job_id: str) -> None:
        self.job_id = job_id
        self.is_over = False
        self._registry = registry

    def done(self, result_url: str | None = None) -> bool:
        """End the job well; False when it had ended before (cancelled, for instance).

        Raises:
            TypeError: The URL is not text.
            ValueError: The URL is too long.
        """
        published = self._registry.done(self.job_id, result_url)
        self.is_over = True
        return published

    def fail(self, errors: object) -> bool:
        """End the job badly; False when it had ended before."""
        published = self._registry.fail(self.job_id, errors)
        self.is_over = True
        return published


class AsyncRun:
    """The run of one job, with awaitables; see `Run` for what each raises."""

    def __init__(self, registry: AsyncJobRegistry, job_id: str) -> None:
        self.job_id = job_id
        self.is_over = False
        self._registry = registry

    async def done(self, result_url: str | None = None) -> bool:
        """End the job well; False when it had ended before (cancelled, for instance)."""
        published = await self._registry.done(self.job_id, result_url)
        self.is_over = True
        return published

    async def fail(self, errors: object) -> bool:
        """End the job badly; False when it had ended before."""
        published = await self._registry.fail(self.job_id, errors)
        self.is_over = True
        return published


@contextmanager
def running(registry: JobRegistry, job_id: str) -> Iterator[Run]:
    """Start a job, keep it alive, and end it exactly once."""
    if not registry.start(job_id):
        raise JobStateError(_CANNOT_START.format(job_id))
    run = Run(registry, job_id)
    try:
        with _heartbeat(registry, job_id):
            yield run
            if not run.is_over:
                run.done()
    except BaseException as error:  # the body's, no store, or the signal of a time limit just now
        _publish(run, error)
        raise


def _publish(run: Run, error: BaseException) -> None:
    """Publish an exception that is on its way out; no other may take its place."""
    if run.is_over:
        return
    try:
        run.fail(error)
    except Exception:
        logger.exception(_UNPUBLISHED, run.job_id)


@contextmanager
def _heartbeat(registry: JobRegistry, job_id: str) -> Iterator[None]:
    """Give signs of life from a thread."""
    leaving = threading.Event()

    def beat() -> None:
        is_heard = True
        while not leaving.wait(registry.heartbeat_seconds):
            try:
                if not registry.touch(job_id):
                    return
                is_heard = True
            except Exception:
                if is_heard:
                    logger.warning(_NO_BEAT, job_id, exc_info=True)
                is_heard = False

    heart = threading.Thread(target=beat, name=f"gaq-heartbeat-{job_id}", daemon=True)
    heart.start()
    try:
        yield
    finally:
        leaving.set()
        heart.join()


@asynccontextmanager
async def arunning(registry: AsyncJobRegistry, job_id: str) -> AsyncIterator[AsyncRun]:
    """Do the same for a task, which may be cancelled at any point and often."""
    run = AsyncRun(registry, job_id)
    try:
        has_started = await to_the_end(registry.start(job_id))
    except asyncio.CancelledError as error:  # it may have started: nobody else will end it
        await to_the_end(_apublish(run, error))
        raise
    if not has_started:
        raise JobStateError(_CANNOT_START.format(job_id))
    heart = asyncio.create_task(_keep_alive(registry, job_id))
    try:
        yield run
        if not run.is_over:
            await to_the_end(run.done())
    except BaseException as error:
        await to_the_end(_apublish(run, error))
        raise
    finally:
        await to_the_end(stop(heart))


async def _apublish(run: AsyncRun, error: BaseException) -> None:
    if run.is_over:
        return
    try:
        await run.fail(error)
    except Exception:
        logger.exception(_UNPUBLISHED, run.job_id)


async def _keep_alive(registry: AsyncJobRegistry, job_id: str) -> None:
    is_heard = True
    while True:
        await asyncio.sleep(registry.heartbeat_seconds)
        try:
            if not await registry.touch(job_id):
                return
            is_heard = True
        except Exception:
            if is_heard:
                logger.warning(_NO_BEAT, job_id, exc_info=True)
            is_heard = False
