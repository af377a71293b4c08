"""The store of a process, and the operations of owners, as plain calls and as awaitables."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from gaq_middleware import (
    AuthenticationError,
    BadRequestError,
    Job,
    JobNotFoundError,
    JobStateError,
    NotJobOwnerError,
    Owner,
    StoreError,
)
from gaq_middleware.core.jobs import Status
from gaq_middleware.registry import (
    AsyncOwnerJobs,
    Canceller,
    OwnerJobs,
    Store,
    store_for,
)
from gaq_middleware.registry.memory import MemoryStore
from tests.helpers import make_settings
from tests.stores.watched import ALICE, Watched, async_jobs, owner_jobs

BAD_CURSORS = ["abc", "$", "+", "(5-0", "5-", "-5", "1-2-3", "18446744073709551616-0"]
BAD_IDS = ["", ".", "..", "stream", "ws", "a/b", "a b", "x" * 256, "ü"]


@pytest.fixture
def store() -> Watched:
    """Return an empty store."""
    return Watched()


def both(store: Store, call: Callable[[Any], Any], **arguments: Any) -> Iterator[Callable[[], Any]]:
    """Yield a call on the plain operations, and the same on the awaitable ones."""
    ask = arguments.pop("ask", lambda: ALICE)
    yield lambda: call(OwnerJobs(store, ask, make_settings(), **arguments))

    async def acall() -> Any:
        return await call(AsyncOwnerJobs(store, ask, make_settings(), **arguments))

    yield lambda: asyncio.run(acall())


class TestStoreFor:
    """One store per process and settings."""

    def test_equal_settings_share_a_store(self) -> None:
        """The app and the worker in one process see the same jobs."""
        settings = make_settings(stream_prefix="shared-")

        assert store_for(settings) is store_for(make_settings(stream_prefix="shared-"))

    @pytest.mark.parametrize("other", [{"stream_limit": "5"}, {"job_ttl_seconds": "5"}])
    def test_other_limits_share_it_too(self, other: dict[str, str]) -> None:
        """A worker with another time to live still sees the app's jobs."""
        assert store_for(make_settings()) is store_for(make_settings(**other))

    def test_another_prefix_has_another_store(self) -> None:
        """URL and prefix keep stores apart."""
        assert store_for(make_settings()) is not store_for(make_settings(stream_prefix="b-"))

    def test_threads_that_ask_at_once_get_one(self) -> None:
        """Making the store is safe for threads."""
        rounds = [make_settings(stream_prefix=f"raced-{number}-") for number in range(50)]
        barrier = threading.Barrier(8)

        def ask(_: int) -> list[Store]:
            barrier.wait()
            return [store_for(settings) for settings in rounds]

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)  # seconds; so that threads meet inside the function
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(ask, range(8)))
        sys.setswitchinterval(interval)
        assert [len({id(store) for store in stores}) for stores in zip(*answers, strict=True)] == [
            1
        ] * 50


class TestOwnerJobs:
    """Who is asking comes first, then the id or cursor, then the store."""

    OPERATIONS: tuple[Callable[[Any], Any], ...] = (
        lambda jobs: jobs.submit(bad={1}),
        lambda jobs: jobs.get("a/b"),
        lambda jobs: jobs.cancel("a/b"),
        lambda jobs: jobs.events("abc"),
        lambda jobs: jobs.read("abc"),
    )

    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_case_33_nobody_is_refused_before_the_store(
        self, store: Watched, operation: Callable[[Any], Any]
    ) -> None:
        """Without identity every operation is a 401, whatever else is wrong."""

        def nobody() -> Owner:
            raise AuthenticationError(code="token_expired")

        for call in both(store, operation, ask=nobody, on_success=pytest.fail):
            with pytest.raises(AuthenticationError):
                call()
        assert store.commands == []

    @pytest.mark.parametrize("last_id", BAD_CURSORS)
    def test_case_42_a_bad_cursor_does_not_reach_the_store(
        self, store: Watched, last_id: str
    ) -> None:
        """It is a 400 that says so."""
        for call in both(store, lambda jobs: jobs.events(last_id), on_success=pytest.fail):
            with pytest.raises(BadRequestError) as caught:
                call()
            assert caught.value.error_code == "bad_last_id"
        assert store.commands == []

    @pytest.mark.parametrize("job_id", BAD_IDS)
    def test_an_impossible_id_does_not_reach_the_store(self, store: Watched, job_id: str) -> None:
        """It is a 404 for get and cancel, and the app's mistake on submit."""
        for operation in ("get", "cancel"):
            for call in both(
                store,
                lambda jobs, name=operation: getattr(jobs, name)(job_id),  # type: ignore[misc]
            ):
                with pytest.raises(JobNotFoundError):
                    call()
        for call in both(store, lambda jobs: jobs.submit(job_id=job_id)):
            with pytest.raises(ValueError, match="cannot be the id of a job"):
                call()
        assert store.commands == []

    def test_an_unknown_job_is_not_found(self, store: Watched) -> None:
        """Get and cancel say 404."""
        for operation in ("get", "cancel"):
            with pytest.raises(JobNotFoundError):
                getattr(owner_jobs(store), operation)("unknown")

    def test_each_operation_is_one_step_of_the_store(self, store: Watched) -> None:
        """Submit, get, cancel and events cost one command each."""
        jobs = owner_jobs(store)
        job = jobs.submit()
        jobs.get(job.job_id)
        jobs.cancel(job.job_id)
        jobs.events()

        assert len(store.commands) == 4

    def test_success_is_told_once_per_operation(self, store: Watched) -> None:
        """Only what came out well is told."""
        told: list[int] = []
        jobs = OwnerJobs(store, lambda: ALICE, make_settings(), None, lambda: told.append(1))
        job = jobs.submit()
        jobs.get(job.job_id)
        jobs.cancel(job.job_id)
        jobs.events()
        jobs.read()
        assert len(told) == 5

        with pytest.raises(JobNotFoundError):
            jobs.cancel(job.job_id)
        with pytest.raises(JobStateError):
            jobs.submit(job_id=job.job_id)
        assert len(told) == 5

    def test_ids_are_random_uuids(self, store: Watched) -> None:
        """Superset's pages expect a UUID4 in text."""
        ids = {owner_jobs(store).submit().job_id for _ in range(100)}

        assert len(ids) == 100
        assert all(len(job_id) == 36 and job_id[14] == "4" for job_id in ids)

    def test_any_name_may_be_an_extra_field(self, store: Watched) -> None:
        """Names of parameters of Python are no exception."""
        job = owner_jobs(store).submit(self=1, jobs=2)

        assert job.extra == {"self": 1, "jobs": 2}

    def test_events_are_values_and_pages_are_texts(self, store: Watched) -> None:
        """`events` parses what `read` passes on."""
        jobs = owner_jobs(store)
        job = jobs.submit()
        jobs.cancel(job.job_id)
        (event,) = jobs.events()

        assert (event.job_id, event.user_id, event.status) == (job.job_id, "7", "cancelled")
        assert [text.event() for text in jobs.read().events] == [event]
        assert asyncio.run(async_jobs(store).events()) == [event]
        assert jobs.events(event.id) == []
        assert jobs.events("") == [event]

    def test_case_143_a_record_without_owner_belongs_to_nobody(self, store: Watched) -> None:
        """A job whose record does not name a user is refused to all."""
        job = Job.from_dict({"job_id": "j", "channel_id": "user-a"})
        store.execute = lambda command: job  # type: ignore[method-assign, assignment, return-value]

        for owner in (ALICE, Owner("user-a", None)):
            with pytest.raises(NotJobOwnerError):
                owner_jobs(store, owner).get("j")

    def test_a_broken_store_is_a_503(self, store: Watched) -> None:
        """Nothing is allowed when the store cannot be asked, and no canceller called."""
        store.is_down = True
        for operation in (
            lambda jobs: jobs.submit(),
            lambda jobs: jobs.get("j"),
            lambda jobs: jobs.cancel("j"),
            lambda jobs: jobs.events(),
        ):
            for call in both(store, operation, canceller=pytest.fail, on_success=pytest.fail):
                with pytest.raises(StoreError):
                    call()


class CallableObject:
    """An object with an async `__call__`."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    async def __call__(self, job: Job) -> None:
        await asyncio.sleep(0)
        self.calls.append(job.job_id)


def cancellers(calls: list[str]) -> dict[str, Canceller]:
    """Return one canceller of every form."""

    async def coroutine(job: Job) -> None:
        await asyncio.sleep(0)
        calls.append(job.job_id)

    async def curried(prefix: str, job: Job) -> None:
        await coroutine(job)

    def returns_awaitable(job: Job) -> Awaitable[None]:
        return coroutine(job)

    return {
        "plain": lambda job: calls.append(job.job_id),
        "coroutine function": coroutine,
        "partial of one": partial(curried, "x"),
        "plain that returns an awaitable": returns_awaitable,
        "object with async call": CallableObject(calls),
    }


current_user: ContextVar[str] = ContextVar("current_user")

SIDES = ["plain", "plain inside a loop", "async"]


def cancel_on(side: str, store: Store, canceller: Canceller, job: Job) -> Job:
    """Cancel a job by a plain call, by one in a thread with a running loop, or as a task."""

    async def in_a_loop() -> Job:
        return owner_jobs(store, canceller=canceller).cancel(job.job_id)

    async def in_a_task() -> Job:
        return await async_jobs(store, canceller=canceller).cancel(job.job_id)

    if side == "plain":
        return owner_jobs(store, canceller=canceller).cancel(job.job_id)
    return asyncio.run(in_a_task() if side == "async" else in_a_loop())


class TestCanceller:
    """It is called once, after the store said so, and cannot undo."""

    @pytest.mark.parametrize("form", cancellers([]))
    @pytest.mark.parametrize("side", SIDES)
    def test_every_form_is_called_once_on_both_sides(
        self, store: Watched, form: str, side: str
    ) -> None:
        """Functions, coroutine functions and what wraps them work on either side."""
        calls: list[str] = []
        job = owner_jobs(store).submit()
        cancel_on(side, store, cancellers(calls)[form], job)

        assert calls == [job.job_id]

    @pytest.mark.parametrize("form", ["plain", "coroutine function"])
    @pytest.mark.parametrize("side", SIDES)
    def test_one_that_fails_is_logged_and_undoes_nothing(
        self, store: Watched, form: str, side: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """One ERROR with the job's id; the job is cancelled all the same."""

        def plain(job: Job) -> None:
            raise RuntimeError("broker down")

        async def coroutine(job: Job) -> None:
            raise RuntimeError("broker down")

        job = owner_jobs(store).submit()
        cancelled = cancel_on(side, store, plain if form == "plain" else coroutine, job)
        (record,) = caplog.records

        assert cancelled.status is Status.CANCELLED
        assert owner_jobs(store).get(job.job_id).status is Status.CANCELLED
        assert (record.name, record.levelno) == ("gaq_middleware", logging.ERROR)
        assert job.job_id in record.getMessage()
        assert record.exc_info is not None

    def test_a_plain_one_does_not_block_the_loop(self, store: Watched) -> None:
        """On the async side it runs in another thread, with the caller's context."""
        seen: list[tuple[int, str]] = []
        job = owner_jobs(store).submit()

        async def main() -> None:
            current_user.set("7")
            jobs = async_jobs(
                store, canceller=lambda _: seen.append((threading.get_ident(), current_user.get()))
            )
            await jobs.cancel(job.job_id)

        asyncio.run(main())
        ((thread, user),) = seen

        assert thread != threading.get_ident()
        assert user == "7"

    def test_a_coroutine_in_a_running_loop_has_the_caller_s_context(self, store: Watched) -> None:
        """The helper thread sees the same context variables."""
        seen: list[str] = []
        job = owner_jobs(store).submit()

        async def canceller(job: Job) -> None:
            seen.append(current_user.get())

        async def main() -> None:
            current_user.set("7")
            owner_jobs(store, canceller=canceller).cancel(job.job_id)

        asyncio.run(main())

        assert seen == ["7"]

    def test_the_job_is_cancelled_before_it_is_called(self, store: Watched) -> None:
        """A canceller that looks finds the job cancelled and its event published."""
        seen: list[object] = []

        def canceller(job: Job) -> None:
            seen.append((jobs.get(job.job_id).status, len(jobs.events()), job.status))

        jobs = owner_jobs(store, canceller=canceller)
        jobs.cancel(jobs.submit().job_id)

        assert seen == [("cancelled", 1, "cancelled")]


def test_a_cancel_goes_on_to_its_end_when_its_task_is_cancelled() -> None:
    """A job must not say cancelled while nobody stops its work: the canceller is called."""
    store, stopped = MemoryStore(), list[str]()

    async def slow(job: Job) -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        stopped.append(job.job_id)

    async def main() -> None:
        jobs = AsyncOwnerJobs(store, lambda: Owner("c", "7"), make_settings(), slow)
        job = await jobs.submit()
        task = asyncio.create_task(jobs.cancel(job.job_id))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert stopped == [job.job_id]

    asyncio.run(main())
