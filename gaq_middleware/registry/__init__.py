"""The registry of jobs: everything that waits.

- `stores`: what a store is, and the one this process has; `memory`: the store in the process.
- `owners`: submit, get, cancel and read as whoever is asking.
- `streams`: events as they happen; `bells`: what wakes those who wait.
- `workers`: start, keep alive and end jobs.
- `colours`: how plain calls and awaitables are one piece of code.

What may happen to a job is decided in `core.jobs` and `core.commands`, never here.
"""

from gaq_middleware.registry.owners import AsyncOwnerJobs, Canceller, OwnerJobs
from gaq_middleware.registry.stores import Store, store_for
from gaq_middleware.registry.streams import AsyncStream, Listening, Slots, Stream
from gaq_middleware.registry.workers import AsyncJobRegistry, JobRegistry

__all__ = [
    "AsyncJobRegistry",
    "AsyncOwnerJobs",
    "AsyncStream",
    "Canceller",
    "JobRegistry",
    "Listening",
    "OwnerJobs",
    "Slots",
    "Store",
    "Stream",
    "store_for",
]
