"""The store in this process's memory: one lock, and every structure bounded.

Jobs are gone when the process is, and other processes do not see them. What is kept, at most:

- jobs: 128 MiB (each counts its texts and 1 KiB, so about 100,000 small ones). One that has ended
  is kept for its time to live and 24 hours more; when there is no room for a new job, the ones
  that ended first make it. A job that has not ended is never dropped: a store full of them
  refuses new ones.
- events: `GAQ_STREAM_LIMIT` per channel, and 128 MiB of all channels together (each counts its
  text and half a KiB); then the oldest go. They are kept as long as their job; of a channel whose
  events were all crowded out the newest id is kept (for 10,000 channels), so that a gap shows.

Every command costs O(log n) in the number of jobs, amortised; none looks through them all.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from gaq_middleware.core.commands import (
    CANCELLED,
    LOST,
    RETENTION,
    CancelJob,
    CancelReply,
    Command,
    EventPage,
    FinishJob,
    GetJob,
    Outcome,
    ReadEvents,
    ReapJobs,
    StartJob,
    SubmitJob,
    SubmitReply,
    TouchJob,
    event_tail,
    stored_job,
)
from gaq_middleware.core.errors import StoreError
from gaq_middleware.core.jobs import TERMINAL, Job, Owner, Status
from gaq_middleware.registry.bells import Bell
from gaq_middleware.registry.eventlog import EventLog

R = TypeVar("R")

MAX_BYTES = 128 * 2**20  # of jobs, and of events
OVERHEAD = 1024  # bytes; what the objects around a job's texts cost, rounded up
BATCH = 1000  # overdue jobs ended before others get their turn: some milliseconds
SLACK = 1024  # deadlines of ended jobs that may wait to be cleared out, whatever the others
_PENDING = event_tail(Status.PENDING)
_RUNNING = event_tail(Status.RUNNING)


@dataclass(slots=True)
class _Record:
    """A job as it is kept."""

    job_id: str
    owner: Owner
    head: str
    extra: str
    last_id: str
    deadline: float
    ttl: float
    submit_attempt: str
    status: Status = Status.PENDING
    tail: str = _PENDING
    end_attempt: str | None = None
    expires: float = 0.0

    @property
    def has_ended(self) -> bool:
        return self.status in TERMINAL

    @property
    def size(self) -> int:
        return len(self.head) + len(self.extra) + len(self.tail) + OVERHEAD

    def job(self) -> Job:
        return stored_job(self.head, self.tail, self.extra, self.last_id)


class MemoryStore:
    """A store for one process, safe for threads and for tasks.

    Args:
        stream_limit: Events kept per channel.
        max_job_bytes: Bytes kept of all jobs together.
        max_event_bytes: Bytes kept of all events together.
    """

    def __init__(
        self,
        stream_limit: int = 1000,
        *,
        max_job_bytes: int = MAX_BYTES,
        max_event_bytes: int = MAX_BYTES,
    ) -> None:
        self.bell = Bell(lambda: _Reaper(self))
        self._lock = threading.Lock()
        self._log = EventLog(stream_limit, max_event_bytes)
        self._max_bytes = max_job_bytes
        self._bytes = 0
        self._jobs: dict[str, _Record] = {}
        self._ended: deque[_Record] = deque()
        self._deadlines: list[tuple[float, int, _Record]] = []  # a heap, one entry per live job
        self._submitted = 0
        self._steps: dict[type[Command[Any]], Callable[[Any], Any]] = {
            SubmitJob: self._submit,
            GetJob: self._get,
            StartJob: self._keep,
            TouchJob: self._keep,
            FinishJob: self._finish,
            CancelJob: self._cancel,
            ReadEvents: self._read,
        }

    def execute(self, command: Command[R]) -> R:
        """Do one step.

        Raises:
            StoreError: The store is full of jobs that have not ended and cannot take another.
        """
        if isinstance(command, ReapJobs):
            with self._lock:
                return cast("R", self._end_overdue(command.now, command.limit))
        while True:
            with self._lock:
                if self._end_overdue(command.now, BATCH) < BATCH:
                    self._drop_expired(command.now)
                    return cast("R", self._steps[type(command)](command))

    async def aexecute(self, command: Command[R]) -> R:
        """Do one step; it waits for nothing but the lock."""
        return self.execute(command)

    def _submit(self, command: SubmitJob) -> SubmitReply:
        known = self._jobs.get(command.job_id)
        if known is not None:
            is_repeated = known.submit_attempt == command.attempt
            return SubmitReply(Outcome.OK if is_repeated else Outcome.EXISTS, known.last_id)
        last_id = self._log.last_id(command.owner.channel_id)
        record = _Record(
            job_id=command.job_id,
            owner=command.owner,
            head=command.head,
            extra=command.extra,
            last_id=last_id,
            deadline=command.now + command.ttl,
            ttl=command.ttl,
            submit_attempt=command.attempt,
        )
        self._make_room(record.size)
        self._jobs[command.job_id] = record
        self._bytes += record.size
        self._submitted += 1  # orders equal deadlines in the heap
        heapq.heappush(self._deadlines, (record.deadline, self._submitted, record))
        return SubmitReply(Outcome.OK, last_id)

    def _make_room(self, size: int) -> None:
        while self._bytes + size > self._max_bytes:
            if not self._ended:
                raise StoreError("The store is full of jobs that have not ended. Try again later.")
            self._drop_ended()

    def _get(self, command: GetJob) -> Job | None:
        record = self._jobs.get(command.job_id)
        return None if record is None else record.job()

    def _keep(self, command: StartJob | TouchJob) -> Outcome:
        record = self._jobs.get(command.job_id)
        if record is None:
            return Outcome.MISSING
        if record.has_ended:
            return Outcome.ENDED
        record.deadline = max(record.deadline, command.now + command.ttl)
        if isinstance(command, StartJob):
            record.status, record.tail = Status.RUNNING, _RUNNING
        return Outcome.OK

    def _finish(self, command: FinishJob) -> Outcome:
        record = self._jobs.get(command.job_id)
        if record is None:
            return Outcome.MISSING
        return self._try_to_end(record, command, command.status, command.tail)

    def _cancel(self, command: CancelJob) -> CancelReply:
        record = self._jobs.get(command.job_id)
        if record is None:
            return CancelReply(Outcome.MISSING)
        if record.owner != command.owner:
            return CancelReply(Outcome.STRANGER)
        outcome = self._try_to_end(record, command, Status.CANCELLED, CANCELLED)
        return CancelReply(outcome, record.job() if outcome is Outcome.OK else None)

    def _read(self, command: ReadEvents) -> EventPage:
        return self._log.read(command.channel_id, command.after, command.limit)

    def _try_to_end(
        self, record: _Record, command: FinishJob | CancelJob, status: Status, tail: str
    ) -> Outcome:
        if record.end_attempt == command.attempt:
            return Outcome.OK
        if record.has_ended:
            return Outcome.ENDED
        record.end_attempt = command.attempt
        self._end(record, status, tail, now=command.now, ttl=command.ttl)
        return Outcome.OK

    def _end(self, record: _Record, status: Status, tail: str, *, now: float, ttl: float) -> None:
        self._bytes += len(tail) - len(record.tail)
        record.status, record.tail = status, tail
        record.expires = now + ttl + RETENTION
        self._ended.append(record)
        channel_id = record.owner.channel_id
        self._log.append(channel_id, record.head + tail, now, record.expires)
        self.bell.ring(channel_id)
        while self._bytes > self._max_bytes and len(self._ended) > 1:
            self._drop_ended()
        live = len(self._jobs) - len(self._ended)
        if len(self._deadlines) > 2 * live + SLACK:
            self._deadlines[:] = [entry for entry in self._deadlines if not entry[2].has_ended]
            heapq.heapify(self._deadlines)

    def _end_overdue(self, now: float, limit: int) -> int:
        """End the jobs past their deadline, at most so many; return how many."""
        count, deadlines = 0, self._deadlines
        while count < limit and deadlines and deadlines[0][0] <= now:
            _, number, record = heapq.heappop(deadlines)
            if record.has_ended:
                continue
            if record.deadline > now:  # a sign of life came after the entry was made
                heapq.heappush(deadlines, (record.deadline, number, record))
                continue
            self._end(record, Status.ERROR, LOST, now=now, ttl=record.ttl)
            count += 1
        return count

    def _drop_expired(self, now: float) -> None:
        while self._ended and self._ended[0].expires <= now:
            self._drop_ended()
        self._log.drop_expired(now)

    def _drop_ended(self) -> None:
        record = self._ended.popleft()
        self._bytes -= record.size
        del self._jobs[record.job_id]


class _Reaper:
    """Ends overdue jobs once a second while somebody waits; all other ends ring by themselves."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def listen(self, _: Bell, /) -> bool:
        """Look at what is due."""
        time.sleep(1.0)
        self._store.execute(ReapJobs(now=time.time(), limit=BATCH))
        return False

    def close(self) -> None:
        """Nothing is held."""
