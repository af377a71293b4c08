"""The operations of a store: each one value, one atomic step, one typed reply.

Also the texts that they carry: an event's JSON is kept as a head, known when the job is
submitted, and a tail, known when it ends, so that no store ever has to write JSON.

A command holds everything the store needs, in the form in which it is kept: ids, texts, the time
in seconds since 1970, a time to live in seconds, and an attempt id by which a repeated command is
known. What is expected is a reply, never an exception; only a broken or full store raises
(`StoreError`). How a store does it is not said here.

Laws for every store, held by one suite of tests:

1. A command is atomic against all others.
2. Before anything else it ends the overdue jobs that it would see (`LOST`), each exactly once.
3. A job that becomes terminal puts exactly one event on its channel, in the same step.
4. Ids of events rise strictly per channel; reading is strictly after the cursor.
5. Unknown and expired are one: `MISSING` or None.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from gaq_middleware.core.jobs import Event, Job, Owner, Status
from gaq_middleware.core.wire import error_texts, to_json, wire_id

R_co = TypeVar("R_co", covariant=True)

MAX_RESULT_URL = 8_192  # characters; RFC 9110 section 4.1 asks for at least 8,000
PAGE = 100  # events in one read, as in Superset
RETENTION = 86_400.0
"""Seconds that records and events are kept beyond the deadline of their job."""


@dataclass(frozen=True, slots=True)
class EventText:
    """An event as it is kept: an id, and the JSON text of the six keys. Polls pass the text on."""

    id: str
    payload: str

    @property
    def text(self) -> str:
        """The JSON text to send: the payload with the id in front."""
        return f'{{"id": "{self.id}", {self.payload[1:]}'

    def event(self) -> Event:
        """Return the event that the text says."""
        data = json.loads(self.payload)
        user_id = data["user_id"]
        return Event(self.id, **{**data, "user_id": None if user_id is None else str(user_id)})


def event_head(job: Job) -> str:
    """Return the first part of an event's text: channel, job and user."""
    known = {
        "channel_id": job.channel_id,
        "job_id": job.job_id,
        "user_id": wire_id(job.user_id),
    }
    return f'{to_json(known)[:-1]}, "status": '


def event_tail(status: Status, errors: str = "[]", result_url: str | None = None) -> str:
    """Return the rest of an event's text: status, errors (as JSON), result.

    Raises:
        TypeError: The result URL is not text.
        ValueError: It is longer than 8,192 characters.
    """
    if result_url is not None and not isinstance(result_url, str):
        raise TypeError(f"result_url must be text or None, not {type(result_url).__name__}.")
    if result_url is not None and len(result_url) > MAX_RESULT_URL:
        raise ValueError(f"result_url has more than {MAX_RESULT_URL} characters.")
    return f'"{status.value}", "errors": {errors}, "result_url": {json.dumps(result_url)}}}'


LOST = event_tail(
    Status.ERROR,
    to_json([{"message": "The job gave no sign of life and was given up.", "code": "job_lost"}]),
)
"""The tail of a job past its deadline."""
CANCELLED = event_tail(Status.CANCELLED)


def stored_job(head: str, tail: str, extra: str, last_id: str) -> Job:
    """Return the job that a store keeps as these texts."""
    fixed = json.loads(head + tail)
    return Job.from_dict({**json.loads(extra), **fixed, "last_id": last_id})


class Outcome(Enum):
    """What came of a command."""

    OK = "ok"
    EXISTS = "exists"
    STRANGER = "stranger"
    ENDED = "ended"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Generic[R_co]):
    """One atomic step of a store; the parameter is the type of its reply.

    Args:
        now: Seconds since 1970.
    """

    now: float


@dataclass(frozen=True, slots=True)
class SubmitReply:
    """OK or EXISTS, and the cursor from which the owner sees every event of the job."""

    outcome: Outcome
    last_id: str


@dataclass(frozen=True, slots=True)
class CancelReply:
    """OK, STRANGER, ENDED or MISSING; with the job as it is now, if OK."""

    outcome: Outcome
    job: Job | None = None


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events in order; `gap` when events after the cursor were trimmed away unread.

    `has_more` when there may be further events already. `newest` is the cursor older than all
    later events, as far as the store knows, for whoever had none and was given no event.
    """

    events: tuple[EventText, ...]
    gap: bool = False
    has_more: bool = False
    newest: tuple[int, int] = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitJob(Command[SubmitReply]):
    """Keep a new, pending job.

    An id that exists is not overwritten: EXISTS, unless it is the same attempt once more.
    `extra` is the JSON text of the extra fields, `head` that of `event_head`.
    """

    job_id: str
    owner: Owner
    head: str
    extra: str
    ttl: float
    attempt: str

    @classmethod
    def of(cls, job: Job, *, now: float, ttl: float, attempt: str) -> SubmitJob:
        """Return the command that submits a job made by `Job.new`."""
        return cls(
            job_id=job.job_id,
            owner=Owner(job.channel_id, job.user_id),
            head=event_head(job),
            extra=to_json(job.extra) if job.extra else "{}",
            now=now,
            ttl=ttl,
            attempt=attempt,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GetJob(Command[Job | None]):
    """Read a job, whoever owns it."""

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartJob(Command[Outcome]):
    """Make a job running and move its deadline: OK, ENDED or MISSING. Twice is no error."""

    job_id: str
    ttl: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchJob(Command[Outcome]):
    """Move the deadline of a job that has not ended, never back: OK, ENDED or MISSING."""

    job_id: str
    ttl: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishJob(Command[Outcome]):
    """End a job and publish its event: OK, ENDED or MISSING.

    OK also when this very attempt has ended the job already. `tail` is an `event_tail`.
    """

    job_id: str
    status: Status
    tail: str
    ttl: float
    attempt: str

    @classmethod
    def done(
        cls, job_id: str, result_url: str | None, *, now: float, ttl: float, attempt: str
    ) -> FinishJob:
        """Return the command for a good end.

        Raises:
            TypeError: The result URL is not text.
            ValueError: It is too long.
        """
        tail = event_tail(Status.DONE, result_url=result_url)
        return cls(job_id=job_id, status=Status.DONE, tail=tail, now=now, ttl=ttl, attempt=attempt)

    @classmethod
    def error(
        cls, job_id: str, errors: object, *, now: float, ttl: float, attempt: str
    ) -> FinishJob:
        """Return the command for a bad end; any errors will do."""
        tail = event_tail(Status.ERROR, error_texts(errors))
        return cls(job_id=job_id, status=Status.ERROR, tail=tail, now=now, ttl=ttl, attempt=attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelJob(Command[CancelReply]):
    """End a job as its owner and publish its event.

    The owner is compared first, so that a stranger learns STRANGER of an ended job too. OK also
    when this very attempt has cancelled the job already.
    """

    job_id: str
    owner: Owner
    ttl: float
    attempt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEvents(Command[EventPage]):
    """Read the events of a channel, oldest first, strictly after a cursor.

    Without a cursor the oldest event kept is the first, and there is no gap.
    """

    channel_id: str
    after: tuple[int, int] | None = None
    limit: int = PAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class ReapJobs(Command[int]):
    """End at most `limit` overdue jobs of all owners; the reply is how many this step ended."""

    limit: int
