"""Plain calls and awaitables of one piece of code: it is written once, as a coroutine.

What it awaits depends on the colour. For a plain call everything that it awaits has been done by
the time there is something to await, so the coroutine ends at its first step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

R = TypeVar("R")

CANCEL_SECONDS = 0.05
"""Until what was cancelled is cancelled again."""


def at_once(work: Coroutine[Any, Any, R]) -> R:
    """Do the work of a coroutine that waits for nothing, in this thread, without an event loop.

    Raises:
        RuntimeError: It waits for something.
    """
    try:
        work.send(None)
    except StopIteration as end:
        result: R = end.value
        return result
    work.close()
    raise RuntimeError("A plain call came to something that only an event loop can wait for.")


async def stop(task: asyncio.Future[Any]) -> None:
    """Cancel a task until it has ended: redis-py on Python before 3.12 loses a cancellation."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=CANCEL_SECONDS)


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
