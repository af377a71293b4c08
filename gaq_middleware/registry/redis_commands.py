"""What the Redis store sends for each command, and what the answer means: encode and decode, once.

How messages are exchanged is not known here. The scripts and the layout of the keys are in
`redis_scripts`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
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
Exchange = Callable[[Message], Awaitable[Any]]
"""Sends a message and returns the answer, or raises it."""


class Commands:
    """Does each command by way of its script.

    Args:
        settings: The prefix of all keys, and the limits of streams.
    """

    def __init__(self, settings: Settings) -> None:
        self._prefix = settings.stream_prefix
        self._limits = settings.stream_limit, settings.stream_limit_firehose
        self._entries = EntryReader()
        self._steps: dict[type[Command[Any]], Callable[[Any, Exchange], Awaitable[Any]]] = {
            SubmitJob: self._submit,
            GetJob: self._get,
            StartJob: self._keep,
            TouchJob: self._keep,
            FinishJob: self._finish,
            CancelJob: self._cancel,
            ReadEvents: self._read,
            ReapJobs: self._reap,
        }

    async def do(self, command: Command[R], exchange: Exchange) -> R:
        """Do a command.

        Raises:
            RedisError: The server does not do it, or is not reached.
        """
        return cast("R", await self._steps[type(command)](command, exchange))

    async def _run(
        self,
        exchange: Exchange,
        script: scripts.Script,
        command: Command[Any],
        keys: list[str],
        *rest: object,
    ) -> Any:
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
                return await exchange(message)
            except NoScriptError:
                message = b"EVAL", script.text.encode(), *arguments
            except (RedisConnectionError, ResponseError) as error:
                is_worth_it = isinstance(error, RedisConnectionError) or is_read_only(error)
                if not (may_repeat and is_worth_it):
                    raise
                may_repeat = False

    async def _run_on_job(
        self,
        exchange: Exchange,
        script: scripts.Script,
        command: SubmitJob | StartJob | TouchJob | FinishJob | CancelJob,
        *rest: object,
        channel: str | None = None,
    ) -> Any:
        """Run a script that changes a job; all of these begin with the same arguments."""
        keys = _job_keys(command.job_id) + ([f"jobs:{channel}", channel] if channel else [])
        deadline = repr(command.now + command.ttl)
        ttl, life = round(command.ttl * 1000), round((command.ttl + RETENTION) * 1000)
        return await self._run(
            exchange, script, command, keys, command.job_id, deadline, ttl, life, *rest
        )

    async def _submit(self, command: SubmitJob, exchange: Exchange) -> SubmitReply:
        channel, record = command.owner.channel_id, _record(command.owner)
        rest = command.attempt, channel, command.head, command.extra, record
        answer = await self._run_on_job(exchange, scripts.SUBMIT, command, *rest, channel=channel)
        outcome, last_id = answer
        return SubmitReply(Outcome(outcome.decode()), last_id.decode())

    async def _get(self, command: GetJob, exchange: Exchange) -> Job | None:
        job_id = command.job_id
        answer = await self._run(exchange, scripts.GET, command, _job_keys(job_id), job_id)
        if answer[0] == b"foreign":
            return foreign_job(job_id, answer[1])
        return _job(answer) if answer[0] == b"ok" else None

    async def _keep(self, command: StartJob | TouchJob, exchange: Exchange) -> Outcome:
        is_start = int(isinstance(command, StartJob))
        answer = await self._run_on_job(exchange, scripts.KEEP, command, is_start)
        return Outcome(answer.decode())

    async def _finish(self, command: FinishJob, exchange: Exchange) -> Outcome:
        rest = command.attempt, command.status.value, command.tail
        answer = await self._run_on_job(exchange, scripts.FINISH, command, *rest)
        return Outcome(answer.decode())

    async def _cancel(self, command: CancelJob, exchange: Exchange) -> CancelReply:
        job_id, owner, expected = command.job_id, command.owner, ""
        channel, record = owner.channel_id, _record(owner, cancelled=True)
        head = event_head(Job(channel, job_id, owner.user_id))
        while True:
            rest = command.attempt, channel, head, record, expected
            answer = await self._run_on_job(
                exchange, scripts.CANCEL, command, *rest, channel=channel
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

    async def _read(self, command: ReadEvents, exchange: Exchange) -> EventPage:
        channel, has_gap = command.channel_id, False
        keys = [channel, f"jobs:{channel}", "deadlines", "full"]
        while True:
            after, limit = command.after, command.limit
            cursor = "" if after is None else "{}-{}".format(*after)
            entries, is_trimmed = await self._run(
                exchange, scripts.READ, command, keys, channel, cursor, limit
            )
            page = self._entries.page(
                channel,
                after,
                entries,
                is_trimmed=bool(is_trimmed),
                has_more=len(entries) >= limit,
            )
            has_gap = has_gap or page.gap
            if page.events or not page.has_more:
                return replace(page, gap=has_gap)
            command = replace(command, after=entry_id(entries[-1]))

    async def _reap(self, command: ReapJobs, exchange: Exchange) -> int:
        keys = ["deadlines", "full"]
        return int(await self._run(exchange, scripts.REAP, command, keys, command.limit))


def _job_keys(job_id: str) -> list[str]:
    return [f"job:{job_id}", f"job-cancel:{job_id}", "deadlines", "full"]


def _record(owner: Owner, *, cancelled: bool = False) -> str:
    """Return Superset's record of whose job it is."""
    known = {"channel_id": owner.channel_id, "user_id": wire_id(owner.user_id)}
    return to_json({**known, "cancelled": True} if cancelled else known)


def _job(answer: list[bytes]) -> Job:
    head, tail, extra, last_id = (part.decode() for part in answer[1:])
    return stored_job(head, tail, extra, last_id)
