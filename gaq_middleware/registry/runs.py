"""The run of a job by a worker: start it, keep it alive, end it exactly once.

`Run` and `AsyncRun` are what `JobRegistry.run` and `AsyncJobRegistry.run` return. Which end a job
may have is not decided here: the registry says whether it took one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from gaq_middleware.core.errors import JobStateError

if TYPE_CHECKING:
    from typing_extensions import Self  # typing.Self came with Python 3.11

    from gaq_middleware.registry.workers import AsyncJobRegistry, JobRegistry

R = TypeVar("R")

logger = logging.getLogger("gaq_middleware")

_UNPUBLISHED = "The failure of job %s could not be published; its time to live will end it."
_NO_BEAT = "No sign of life could be given for job %s; trying on."


class Run:
    """The run of one job; made by `JobRegistry.run`."""

    def __init__(self, registry: JobRegistry, job_id: str) -> None:
        self.job_id = job_id
        self._registry = registry
        self._ended = False
        self._leaving = threading.Event()
        self._heartbeat = threading.Thread(
            target=self._keep_alive, name=f"gaq-heartbeat-{job_id}", daemon=True
        )

    def __enter__(self) -> Self:
        if not self._registry.start(self.job_id):
            raise _cannot_start(self.job_id)
        try:
            self._heartbeat.start()
        except BaseException as error:
            self._fail(error)
            raise
        return self

    def done(self, result_url: str | None = None) -> bool:
        """End the job well; False when it had ended before (cancelled, for instance).

        Raises:
            StoreError: The store failed.
            TypeError: The URL is not text.
            ValueError: The URL is too long.
        """
        published = self._registry.done(self.job_id, result_url)
        self._ended = True
        return published

    def fail(self, errors: object) -> bool:
        """End the job badly; False when it had ended before."""
        published = self._registry.fail(self.job_id, errors)
        self._ended = True
        return published

    def hand_over(self, silent_for: float = 0.0) -> None:
        """Leave the job alive at the end of this run: something else is going to end it.

        Args:
            silent_for: Seconds in which it will give no sign of life.
        """
        self._ended = True
        self._registry.touch(self.job_id, silent_for)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leaving.set()
        try:
            if error is not None:
                self._fail(error)
            elif not self._ended:
                self.done()
        except BaseException as failure:  # no store, or the signal of a time limit just now
            self._fail(failure)
            raise
        finally:
            self._heartbeat.join()

    def _fail(self, error: BaseException) -> None:
        """Publish an exception that is on its way out; no other may take its place."""
        if self._ended:
            return
        try:
            self.fail(error)
        except Exception:
            logger.exception(_UNPUBLISHED, self.job_id)

    def _keep_alive(self) -> None:
        beats = True
        while not self._leaving.wait(self._registry.heartbeat_seconds):
            try:
                if not self._registry.touch(self.job_id):
                    return
                beats = True
            except Exception:
                if beats:
                    logger.warning(_NO_BEAT, self.job_id, exc_info=True)
                beats = False


class AsyncRun:
    """The run of one job; made by `AsyncJobRegistry.run`."""

    def __init__(self, registry: AsyncJobRegistry, job_id: str) -> None:
        self.job_id = job_id
        self._registry = registry
        self._ended = False

    async def __aenter__(self) -> Self:
        try:
            started = await to_the_end(self._registry.start(self.job_id))
        except asyncio.CancelledError as error:  # it may have started: nobody else will end it
            await to_the_end(self._fail(error))
            raise
        if not started:
            raise _cannot_start(self.job_id)
        self._heartbeat = asyncio.create_task(self._keep_alive())
        return self

    async def done(self, result_url: str | None = None) -> bool:
        """End the job well; False when it had ended before (cancelled, for instance)."""
        published = await self._registry.done(self.job_id, result_url)
        self._ended = True
        return published

    async def fail(self, errors: object) -> bool:
        """End the job badly; False when it had ended before."""
        published = await self._registry.fail(self.job_id, errors)
        self._ended = True
        return published

    async def hand_over(self, silent_for: float = 0.0) -> None:
        """Leave the job alive at the end of this run: something else is going to end it.

        Args:
            silent_for: Seconds in which it will give no sign of life.
        """
        self._ended = True
        await self._registry.touch(self.job_id, silent_for)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._heartbeat.cancel()
        await to_the_end(self._leave(error))

    async def _leave(self, error: BaseException | None) -> None:
        await asyncio.wait({self._heartbeat})
        try:
            if error is not None:
                await self._fail(error)
            elif not self._ended:
                await self.done()
        except BaseException as failure:
            await self._fail(failure)
            raise

    async def _fail(self, error: BaseException) -> None:
        if self._ended:
            return
        try:
            await self.fail(error)
        except Exception:
            logger.exception(_UNPUBLISHED, self.job_id)

    async def _keep_alive(self) -> None:
        beats = True
        while True:
            await asyncio.sleep(self._registry.heartbeat_seconds)
            try:
                if not await self._registry.touch(self.job_id):
                    return
                beats = True
            except Exception:
                if beats:
                    logger.warning(_NO_BEAT, self.job_id, exc_info=True)
                beats = False


async def to_the_end(work: Coroutine[Any, Any, R]) -> R:
    """Wait until work is done, however often this task is cancelled meanwhile; then say so."""
    try:
        task = asyncio.get_running_loop().create_task(work)
    except RuntimeError:  # another kind of event loop: its cancellation is its own
        return await work
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled from task.exception()
    return task.result()


def _cannot_start(job_id: str) -> JobStateError:
    return JobStateError(
        f"Job {job_id} cannot start: it was cancelled, has ended, is past its deadline, or is "
        "unknown here. Do not run it."
    )
