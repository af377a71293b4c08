"""What the Redis store sends for each command, and what the answer means: encode and decode, once.

A flow yields messages and is sent their answers, or thrown their errors; it neither waits nor knows
whether anybody does. The scripts and the layout of the keys are in `redis_scripts`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, TypeVar, cast

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError

from gaq_middleware.core.commands import (
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
    event_head,
    stored_job,
)
from gaq_middleware.core.jobs import Job, Owner, Status
from gaq_middleware.core.settings import Settings
from gaq_middleware.core.wire import to_json, wire_id
from gaq_middleware.registry import redis_scripts as scripts
from gaq_middleware.registry.redis_connect import Message, is_read_only
from gaq_middleware.registry.redis_entries import EntryReader, entry_id, foreign_job

R = TypeVar("R")
Flow = Generator[Message, Any, R]
"""Yields messages, is sent their answers or thrown their errors, and returns the reply."""


class Flows:
    """The flow of each command.

    Args:
        settings: The prefix of all keys, and the limits of streams.
    """

    def __init__(self, settings: Settings) -> None:
        self._prefix = settings.stream_prefix
        self._limits = settings.stream_limit, settings.stream_limit_firehose
        self._entries = EntryReader()
        self._flows: dict[type[Command[Any]], Callable[[Any], Flow[Any]]] = {
            SubmitJob: self._submit,
            GetJob: self._get,
            StartJob: self._keep,
            TouchJob: self._keep,
            FinishJob: self._finish,
            CancelJob: self._cancel,
            ReadEvents: self._read,
            ReapJobs: self._reap,
        }

    def of(self, command: Command[R]) -> Flow[R]:
        """Return the flow of a command."""
        return cast("Flow[R]", self._flows[type(command)](command))

    def _run(
        self, script: scripts.Script, command: Command[Any], keys: list[str], *rest: object
    ) -> Flow[Any]:
        """Run a script; once more when the server has forgotten it, or has just changed.

        Every command may be sent twice: an attempt id, or its nature, makes the second harmless.
        """
        names = [self._prefix + key for key in keys]
        values = [len(names), *names, self._prefix, repr(command.now), *self._limits, *rest]
        arguments = tuple(str(value).encode("utf-8", "surrogatepass") for value in values)
        message = b"EVALSHA", script.sha.encode(), *arguments
        may_repeat = True
        while True:
            try:
                return (yield message)
            except NoScriptError:
                message = b"EVAL", script.text.encode(), *arguments
            except (RedisConnectionError, ResponseError) as error:
                if not may_repeat or not (
                    isinstance(error, RedisConnectionError) or is_read_only(error)
                ):
                    raise
                may_repeat = False

    def _submit(self, command: SubmitJob) -> Flow[SubmitReply]:
        job_id, channel = command.job_id, command.owner.channel_id
        keys = [*_job_keys(job_id), f"jobs:{channel}", channel]
        outcome, last_id = yield from self._run(
            scripts.SUBMIT,
            command,
            keys,
            job_id,
            command.attempt,
            _life(command.ttl),
            repr(command.now + command.ttl),
            _milliseconds(command.ttl),
            channel,
            command.head,
            command.extra,
            _record(command.owner),
        )
        return SubmitReply(Outcome(outcome.decode()), last_id.decode())

    def _get(self, command: GetJob) -> Flow[Job | None]:
        answer = yield from self._run(
            scripts.GET, command, _job_keys(command.job_id), command.job_id
        )
        if answer[0] == b"foreign":
            return foreign_job(command.job_id, answer[1])
        return _job(answer) if answer[0] == b"ok" else None

    def _keep(self, command: StartJob | TouchJob) -> Flow[Outcome]:
        answer = yield from self._run(
            scripts.KEEP,
            command,
            _job_keys(command.job_id),
            command.job_id,
            _life(command.ttl),
            repr(command.now + command.ttl),
            _milliseconds(command.ttl),
            int(isinstance(command, StartJob)),
        )
        return Outcome(answer.decode())

    def _finish(self, command: FinishJob) -> Flow[Outcome]:
        answer = yield from self._run(
            scripts.FINISH,
            command,
            _job_keys(command.job_id),
            command.job_id,
            command.attempt,
            _life(command.ttl),
            command.status.value,
            command.tail,
        )
        return Outcome(answer.decode())

    def _cancel(self, command: CancelJob) -> Flow[CancelReply]:
        job_id, owner, expected = command.job_id, command.owner, ""
        channel = owner.channel_id
        while True:
            answer = yield from self._run(
                scripts.CANCEL,
                command,
                [*_job_keys(job_id), f"jobs:{channel}", channel],
                job_id,
                command.attempt,
                _life(command.ttl),
                _milliseconds(command.ttl),
                channel,
                event_head(Job(channel, job_id, owner.user_id)),
                _record(owner, cancelled=True),
                expected,
            )
            if answer[0] != b"foreign":
                job = _job(answer) if answer[0] == b"ok" else None
                return CancelReply(Outcome(answer[0].decode()), job)
            foreign = foreign_job(job_id, answer[1])
            if foreign is None:
                return CancelReply(Outcome.MISSING)
            if not owner.owns(foreign):
                return CancelReply(Outcome.STRANGER)
            if foreign.status is Status.CANCELLED:
                return CancelReply(Outcome.ENDED)
            expected = answer[1].decode()

    def _read(self, command: ReadEvents) -> Flow[EventPage]:
        channel, has_gap = command.channel_id, False
        while True:
            after = command.after
            entries, is_trimmed = yield from self._run(
                scripts.READ,
                command,
                [channel, f"jobs:{channel}", "deadlines", "full"],
                channel,
                "" if after is None else "{}-{}".format(*after),
                command.limit,
            )
            page = self._entries.page(channel, after, entries, is_trimmed=bool(is_trimmed))
            has_gap = has_gap or page.gap
            if page.events or len(entries) < command.limit:
                return replace(page, gap=has_gap)
            command = replace(command, after=entry_id(entries[-1]))

    def _reap(self, command: ReapJobs) -> Flow[int]:
        answer = yield from self._run(scripts.REAP, command, ["deadlines", "full"], command.limit)
        return int(answer)


def _job_keys(job_id: str) -> list[str]:
    return [f"job:{job_id}", f"job-cancel:{job_id}", "deadlines", "full"]


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _life(ttl: float) -> int:
    """Return for how many milliseconds a job is kept that lives so long."""
    return _milliseconds(ttl + RETENTION)


def _record(owner: Owner, *, cancelled: bool = False) -> str:
    """Return Superset's record of whose job it is."""
    known = {"channel_id": owner.channel_id, "user_id": wire_id(owner.user_id)}
    return to_json({**known, "cancelled": True} if cancelled else known)


def _job(answer: list[bytes]) -> Job:
    head, tail, extra, last_id = (part.decode() for part in answer[1:])
    return stored_job(head, tail, extra, last_id)
