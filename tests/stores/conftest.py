"""Every store in both colours behind one plain face, so that one suite of tests holds them all."""

from __future__ import annotations

import asyncio
import sys
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import pytest

from gaq_middleware import Job, JobRegistry, Owner
from gaq_middleware.core.commands import (
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
)
from gaq_middleware.core.jobs import parse_cursor
from gaq_middleware.core.settings import Settings
from gaq_middleware.registry import (
    AsyncJobRegistry,
    AsyncOwnerJobs,
    Canceller,
    OwnerJobs,
    Store,
)
from gaq_middleware.registry.memory import MemoryStore
from tests.helpers import NOW, make_settings
from tests.servers import RedisServer

if TYPE_CHECKING:
    from typing_extensions import Self

R = TypeVar("R")
Script = Generator[Command[Any], Any, Any]
"""What one of several callers does: yields commands, is sent their replies."""
MakeStore = Callable[[int], Store]
"""Makes an empty store that keeps so many events per channel."""

TTL = 60.0
ALICE = Owner("user-a", "7")
BOB = Owner("user-b", "8")
GUEST = Owner("guest-" + "0" * 64, None)


def never(job: Job) -> None:
    """Fail the test: this canceller must not be called."""
    pytest.fail(f"the canceller was called for {job.job_id}")


class Clock:
    """Time that moves only when told."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


class World(ABC):
    """A store, its clock, and every operation as a plain call, whatever its colour."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self.store = store
        self.loop = loop
        self.clock = Clock()
        self.settings: Settings = make_settings(job_ttl_seconds=str(int(TTL)))

    @abstractmethod
    def execute(self, command: Command[R]) -> R:
        """Do one step."""

    @abstractmethod
    def together(self, scripts: list[Script]) -> None:
        """Run scripts at the same time, in threads or in tasks."""

    @abstractmethod
    def jobs(self, owner: Owner, canceller: Canceller | None = None) -> OwnerJobs:
        """Return the owner's operations."""

    @abstractmethod
    def registry(self) -> JobRegistry:
        """Return the worker's operations."""

    def submit(
        self, job_id: str, owner: Owner = ALICE, attempt: str | None = None, **extra: object
    ) -> SubmitReply:
        """Submit a job."""
        return self.execute(self.submit_command(job_id, owner, attempt, **extra))

    def submit_command(
        self, job_id: str, owner: Owner = ALICE, attempt: str | None = None, **extra: object
    ) -> SubmitJob:
        """Return the command that submits a job."""
        job = Job.new(owner, job_id, extra)
        attempt = attempt or uuid.uuid4().hex
        return SubmitJob.of(job, now=self.clock.now, ttl=TTL, attempt=attempt)

    def get(self, job_id: str) -> Job | None:
        """Read a job."""
        return self.execute(GetJob(job_id=job_id, now=self.clock.now))

    def start(self, job_id: str) -> Outcome:
        """Start a job."""
        return self.execute(StartJob(job_id=job_id, now=self.clock.now, ttl=TTL))

    def touch(self, job_id: str) -> Outcome:
        """Give a sign of life."""
        return self.execute(TouchJob(job_id=job_id, now=self.clock.now, ttl=TTL))

    def done(self, job_id: str, url: str | None = None, attempt: str | None = None) -> Outcome:
        """End a job well."""
        return self.execute(self.done_command(job_id, url, attempt))

    def done_command(
        self, job_id: str, url: str | None = None, attempt: str | None = None
    ) -> FinishJob:
        """Return the command that ends a job well."""
        attempt = attempt or uuid.uuid4().hex
        return FinishJob.done(job_id, url, now=self.clock.now, ttl=TTL, attempt=attempt)

    def fail(self, job_id: str, errors: object = "no") -> Outcome:
        """End a job badly."""
        attempt = uuid.uuid4().hex
        return self.execute(
            FinishJob.error(job_id, errors, now=self.clock.now, ttl=TTL, attempt=attempt)
        )

    def cancel(self, job_id: str, owner: Owner = ALICE, attempt: str | None = None) -> CancelReply:
        """Cancel a job."""
        return self.execute(self.cancel_command(job_id, owner, attempt))

    def cancel_command(
        self, job_id: str, owner: Owner = ALICE, attempt: str | None = None
    ) -> CancelJob:
        """Return the command that cancels a job."""
        attempt = attempt or uuid.uuid4().hex
        return CancelJob(job_id=job_id, owner=owner, now=self.clock.now, ttl=TTL, attempt=attempt)

    def read(self, after: str | None = None, owner: Owner = ALICE, limit: int = 100) -> EventPage:
        """Read a page of events."""
        return self.execute(self.read_command(after, owner, limit))

    def read_command(
        self, after: str | None = None, owner: Owner = ALICE, limit: int = 100
    ) -> ReadEvents:
        """Return the command that reads a page of events."""
        return ReadEvents(
            channel_id=owner.channel_id,
            after=parse_cursor(after) if after else None,
            limit=limit,
            now=self.clock.now,
        )

    def reap(self, limit: int = 1000) -> int:
        """End overdue jobs."""
        return self.execute(ReapJobs(now=self.clock.now, limit=limit))

    def ends(self, owner: Owner = ALICE) -> list[tuple[str, str]]:
        """Return all events of an owner as pairs of job and status, in order."""
        found: list[tuple[str, str]] = []
        after = None
        while events := self.read(after, owner).events:
            found += [(e.event().job_id, e.event().status) for e in events]
            after = events[-1].id
        return found


class SyncWorld(World):
    """The plain calls of a store."""

    def execute(self, command: Command[R]) -> R:
        """Do one step."""
        return self.store.execute(command)

    def together(self, scripts: list[Script]) -> None:
        """Run scripts in threads."""
        failures: list[BaseException] = []
        barrier = threading.Barrier(len(scripts))

        def play(script: Script) -> None:
            barrier.wait()
            try:
                command = next(script)
                while True:
                    command = script.send(self.store.execute(command))
            except StopIteration:
                pass
            except BaseException as failure:
                failures.append(failure)
                raise

        threads = [threading.Thread(target=play, args=(script,)) for script in scripts]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)  # seconds; so that threads meet inside a step
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval)
        assert not failures

    def jobs(self, owner: Owner, canceller: Canceller | None = None) -> OwnerJobs:
        """Return the owner's operations."""
        return OwnerJobs(self.store, lambda: owner, self.settings, canceller, clock=self.clock)

    def registry(self) -> JobRegistry:
        """Return the worker's operations."""
        return JobRegistry(self.settings, store=self.store, clock=self.clock)


class AsyncWorld(World):
    """The awaitables of a store, in an event loop that runs while a call does."""

    def execute(self, command: Command[R]) -> R:
        """Do one step."""
        return self.loop.run_until_complete(self.store.aexecute(command))

    def together(self, scripts: list[Script]) -> None:
        """Run scripts in tasks that take turns after every step."""

        async def play(script: Script) -> None:
            try:
                command = next(script)
                while True:
                    reply = await self.store.aexecute(command)
                    await asyncio.sleep(0)
                    command = script.send(reply)
            except StopIteration:
                pass

        async def play_all() -> None:
            await asyncio.gather(*(play(script) for script in scripts))

        self.loop.run_until_complete(play_all())

    def jobs(self, owner: Owner, canceller: Canceller | None = None) -> OwnerJobs:
        """Return the owner's operations, each awaited at once."""
        jobs = AsyncOwnerJobs(self.store, lambda: owner, self.settings, canceller, clock=self.clock)
        return cast("OwnerJobs", Awaited(jobs, self.loop))

    def registry(self) -> JobRegistry:
        """Return the worker's operations, each awaited at once."""
        registry = AsyncJobRegistry(self.settings, store=self.store, clock=self.clock)
        return cast("JobRegistry", Awaited(registry, self.loop))


class Awaited:
    """Calls an object's coroutine methods as plain ones; its contexts are entered likewise."""

    def __init__(self, target: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._target = target
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = getattr(self._target, name)(*args, **kwargs)
            if isinstance(result, Coroutine):
                return self._loop.run_until_complete(result)
            return Awaited(result, self._loop)

        return call

    def __enter__(self) -> Self:
        self._loop.run_until_complete(self._target.__aenter__())
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.run_until_complete(self._target.__aexit__(*error))


class MakeWorld(Protocol):
    """Makes an empty world whose channels keep so many events."""

    def __call__(self, stream_limit: int = 1000) -> World:
        """Make one."""


PASS_TIME = """
for _, key in ipairs(redis.call('KEYS', '*')) do
  local left = redis.call('PTTL', key)
  if left >= 0 then redis.call('PEXPIRE', key, left - tonumber(ARGV[1])) end
end
"""


class PassingTime:
    """A Redis store in which keys expire by the time of the commands."""

    def __init__(self, store: Store, raw: Any) -> None:
        self._store, self._raw = store, raw
        self.bell = store.bell
        self._lock, self._now = threading.Lock(), NOW

    def execute(self, command: Command[R]) -> R:
        """Let the time pass that has passed, and do one step."""
        self._pass_time(command.now)
        return self._store.execute(command)

    async def aexecute(self, command: Command[R]) -> R:
        """Do the same."""
        self._pass_time(command.now)
        return await self._store.aexecute(command)

    def _pass_time(self, now: float) -> None:
        with self._lock:
            if now > self._now:
                self._raw.eval(PASS_TIME, 0, round((now - self._now) * 1000))
                self._now = now


def redis_store(server: RedisServer, stream_limit: int) -> Store:
    """Return a store in an empty Redis."""
    from gaq_middleware.registry.redis import RedisStore

    raw = server.raw()
    raw.flushall()
    settings = make_settings(store_url=server.socket_url, stream_limit=str(stream_limit))
    return PassingTime(RedisStore(settings), raw)


COLOURS: dict[str, type[World]] = {
    "memory-sync": SyncWorld,
    "memory-async": AsyncWorld,
    "redis-sync": SyncWorld,
    "redis-async": AsyncWorld,
}


@pytest.fixture(params=COLOURS)
def make_world(request: pytest.FixtureRequest) -> Iterator[MakeWorld]:
    """Return a function that makes an empty world whose channels keep so many events."""
    make_store: MakeStore = MemoryStore
    if request.param.startswith("redis"):
        make_store = partial(redis_store, request.getfixturevalue("redis_server"))
    loop, worlds = asyncio.new_event_loop(), list[World]()

    def make(stream_limit: int = 1000) -> World:
        worlds.append(COLOURS[request.param](make_store(stream_limit), loop))
        return worlds[-1]

    yield make
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """Return an empty world."""
    return make_world()
