"""What a job is, and who owns it.

Here live the words of the registry: status, owner, job, event, cursor. The operations on them are
in `commands`, the JSON they are written in is in `wire`. Nothing here knows a store, a request or
the time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from gaq_middleware.core.errors import BadRequestError
from gaq_middleware.core.wire import to_json, wire_id

EVENT_KEYS = ("channel_id", "job_id", "user_id", "status", "errors", "result_url")
FIXED_KEYS = frozenset({*EVENT_KEYS, "last_id"})
START = "0-0"
"""The cursor older than every event."""
MAX_JOB_ID = 255  # characters: as long as a file name may be, so that any tool can hold it
MAX_EXTRA = 16_384  # characters of JSON; as much as the longest token that is read
MAX_ID_PART = 2**64 - 1  # both halves of a Redis stream id are unsigned 64-bit numbers

_JOB_ID = re.compile(rf"[A-Za-z0-9._~!$&'()*+,;=:@-]{{1,{MAX_JOB_ID}}}")  # RFC 3986 pchar
_NO_JOB_IDS = frozenset({".", "..", "stream", "ws"})  # what paths and our own endpoints mean
_CURSOR = re.compile(r"([0-9]{1,20})(?:-([0-9]{1,20}))?")


class Status(str, Enum):
    """The state of a job; equal to the word that goes over the wire."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    ERROR = "error"
    CANCELLED = "cancelled"

    __str__ = str.__str__


TERMINAL = frozenset({Status.DONE, Status.ERROR, Status.CANCELLED})
"""A job may come to each of these from any other status, and then never leaves it."""


def _has_owner(data: Mapping[str, Any]) -> bool:
    """Whether a record names its owner; one that does not belongs to nobody (fails closed)."""
    channel_id, user_id = data.get("channel_id"), data.get("user_id")
    known = user_id is None or (isinstance(user_id, str | int) and not isinstance(user_id, bool))
    return isinstance(channel_id, str) and channel_id != "" and "user_id" in data and known


def is_job_id(text: object) -> bool:
    """Return whether this can be the id of a job.

    It is 1 to 255 ASCII characters that stand unescaped in one segment of a path (RFC 3986
    pchar), and no word that means something else there: `.`, `..`, `stream`, `ws`.
    """
    return isinstance(text, str) and _JOB_ID.fullmatch(text) is not None and text not in _NO_JOB_IDS


def parse_cursor(text: str | None) -> tuple[int, int]:
    """Read a cursor: the id of the last event that somebody has.

    Args:
        text: `<milliseconds>-<sequence>`, or `<milliseconds>` for the sequence 0; leading zeros
            mean nothing, more than 20 digits are refused. None and `""` mean the start.

    Raises:
        BadRequestError: With the code `bad_last_id`, for anything else.
    """
    if not text:
        return 0, 0
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise BadRequestError(code="bad_last_id")
    milliseconds, sequence = int(match[1]), int(match[2] or 0)
    if max(milliseconds, sequence) > MAX_ID_PART:
        raise BadRequestError(code="bad_last_id")
    return milliseconds, sequence


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose jobs and events these are.

    Args:
        channel_id: The id of the one event stream of this identity.
        user_id: The user as text; None for guests and anonymous visitors.
    """

    channel_id: str
    user_id: str | None

    @property
    def is_guest(self) -> bool:
        """Whether the owner is the viewer of an embedded page."""
        return self.channel_id.startswith("guest-")

    def owns(self, job: Job) -> bool:
        """Return whether both ids of a job are these; no user only matches no user."""
        return job.owner == self


@dataclass(frozen=True, slots=True)
class Job:
    """One asynchronous query, as its owner and its worker see it.

    Args:
        channel_id: The channel that its event goes to.
        job_id: Its id, unique in the store.
        user_id: Its user as text; None for guests and anonymous visitors.
        status: Where it is.
        errors: What went wrong, as objects with a `message`; empty unless the status is `error`.
        result_url: Where the result is, once done.
        extra: What the app added; kept and given back.
        last_id: A cursor older than every event of this job.
        has_owner: False only for a record that does not name its owner; nobody may have it.
    """

    channel_id: str
    job_id: str
    user_id: str | None = None
    status: Status = Status.PENDING
    errors: list[Any] = field(default_factory=list)
    result_url: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    last_id: str = START
    has_owner: bool = True

    @classmethod
    def new(cls, owner: Owner, job_id: str, extra: Mapping[str, object]) -> Job:
        """Return a pending job.

        Args:
            owner: Whose job it is.
            job_id: Its id.
            extra: Fields of the app. What is kept is their JSON, so that it is the same for
                whoever reads the job later, and nothing the caller does afterwards changes it.

        Raises:
            TypeError: A field holds something that JSON does not have.
            ValueError: The id cannot be one, a field has the name of one of ours, or the fields
                are more than 16,384 characters of JSON.
        """
        if not is_job_id(job_id):
            raise ValueError(
                f"{ascii(job_id)[:80]} cannot be the id of a job. It must be 1 to {MAX_JOB_ID} "
                "ASCII letters, digits or -._~!$&'()*+,;=:@ and not . or .. or stream or ws; "
                "leave job_id out and one is made."
            )
        if names := ", ".join(sorted(FIXED_KEYS & extra.keys())):
            raise ValueError(f"Every job has its own {names}: rename the extra field.")
        text = to_json(dict(extra)) if extra else "{}"
        if len(text) > MAX_EXTRA:
            raise ValueError(
                f"The extra fields of a job are {len(text)} characters of JSON; at most "
                f"{MAX_EXTRA} are kept. Store the data elsewhere and pass its key."
            )
        return cls(owner.channel_id, job_id, owner.user_id, extra=json.loads(text))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Job:
        """Read a job from the dict that `as_dict` made, or from Superset's job metadata.

        Raises:
            ValueError: There is no usable `job_id`, or the status is none.
        """
        if not is_job_id(data.get("job_id")):
            raise ValueError("This is not a job: it has no job_id, or one that cannot be one.")
        user_id, has_owner = data.get("user_id"), _has_owner(data)
        return cls(
            channel_id=str(data.get("channel_id") or ""),
            job_id=data["job_id"],
            user_id=None if user_id is None or not has_owner else str(user_id),
            status=Status(data.get("status", Status.PENDING)),
            errors=deepcopy(data.get("errors") or []),
            result_url=data.get("result_url"),
            extra=deepcopy({key: data[key] for key in data if key not in FIXED_KEYS}),
            last_id=str(data.get("last_id") or START),
            has_owner=has_owner,
        )

    @property
    def owner(self) -> Owner | None:
        """Whose job it is; None when its record does not say."""
        return Owner(self.channel_id, self.user_id) if self.has_owner else None

    def as_dict(self) -> dict[str, Any]:
        """Return the body of the 202 answer, as a new dict that JSON can write."""
        return {
            "channel_id": self.channel_id,
            "job_id": self.job_id,
            "user_id": wire_id(self.user_id),
            "status": self.status.value,
            "errors": deepcopy(self.errors),
            "result_url": self.result_url,
            **deepcopy(self.extra),
            "last_id": self.last_id,
        }


JobRef: TypeAlias = Job | Mapping[str, Any] | str
"""A job, the dict of one, or its id."""


def job_id_of(job: JobRef) -> str:
    """Return the id of a job.

    Raises:
        TypeError: This is not a job in any of the three forms.
    """
    if isinstance(job, Job):
        return job.job_id
    job_id = job.get("job_id") if isinstance(job, Mapping) else job
    if not isinstance(job_id, str):
        raise TypeError("A job is a Job, its dict with a job_id, or its id as text.")
    return job_id


@dataclass(frozen=True, slots=True)
class Event:
    """The end of a job, as it stands on its owner's channel.

    Args:
        id: Its id on the channel, `<milliseconds>-<sequence>`; the cursor to go on after it.
        channel_id: The channel.
        job_id: The job that ended.
        user_id: Its user as text, or None.
        status: How it ended.
        errors: What went wrong.
        result_url: Where the result is.
    """

    id: str
    channel_id: str
    job_id: str
    user_id: str | None
    status: str
    errors: list[Any]
    result_url: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return what the endpoints send of this event, as a new dict."""
        return {**asdict(self), "user_id": wire_id(self.user_id)}
