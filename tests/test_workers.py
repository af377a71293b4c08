"""The operations of workers and the runs of jobs, as plain calls and as awaitables."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext, suppress
from typing import Any, TypeVar

import pytest

from gaq_middleware import (
    Job,
    JobStateError,
    Settings,
    SettingsError,
    StoreError,
)
from gaq_middleware.core.commands import Command, FinishJob, TouchJob
from gaq_middleware.core.jobs import Status
from gaq_middleware.registry import (
    AsyncJobRegistry,
    JobRegistry,
    store_for,
)
from tests.helpers import K, make_settings
from tests.stores.watched import BOB, Watched, async_jobs, owner_jobs

R = TypeVar("R")
Registry = TypeVar("Registry", JobRegistry, AsyncJobRegistry)


@pytest.fixture
def store() -> Watched:
    """Return an empty store."""
    return Watched()


def hearts() -> list[threading.Thread]:
    """Return the threads that give signs of life."""
    return [t for t in threading.enumerate() if t.name.startswith("gaq-heartbeat-")]


@pytest.fixture(autouse=True)
def no_leaked_threads() -> Iterator[None]:
    """No test leaves a thread of ours."""
    yield
    assert hearts() == []


class TestWorkers:
    """Start, touch, done, fail: the record decides."""

    def test_from_env_reads_the_environment(self) -> None:
        """Both registries, in the app's process on the app's own store."""
        environ = {"GAQ_JWT_SECRET": K, "GAQ_STREAM_PREFIX": "from-env-"}
        job = owner_jobs(store_for(Settings.from_env(environ))).submit()

        assert JobRegistry.from_env(environ).start(job)
        assert asyncio.run(AsyncJobRegistry.from_env(environ).done(job))

    def test_from_env_without_a_secret_says_so(self) -> None:
        """Workers need the same environment as the app."""
        with pytest.raises(SettingsError, match="GAQ_JWT_SECRET"):
            JobRegistry.from_env()

    def test_a_job_its_dict_and_its_id_will_do(self, store: Watched) -> None:
        """Workers get whatever the queue carries."""
        registry = JobRegistry(make_settings(), store=store)
        job = owner_jobs(store).submit()

        assert [registry.start(j) for j in (job, job.as_dict(), job.job_id)] == [True] * 3

    def test_the_owner_comes_from_the_record(self, store: Watched) -> None:
        """A job that says another owner than its record ends on the record's channel."""
        job = owner_jobs(store).submit()
        forged = Job.from_dict({**job.as_dict(), "channel_id": "user-b", "user_id": 8})
        JobRegistry(make_settings(), store=store).done(forged)

        assert owner_jobs(store, BOB).events() == []
        assert [e.user_id for e in owner_jobs(store).events()] == ["7"]

    def test_unknown_and_ended_jobs_answer_false(self, store: Watched) -> None:
        """Every operation of both registries."""
        registry = JobRegistry(make_settings(), store=store)
        job = owner_jobs(store).submit()
        assert not registry.is_cancelled(job)
        registry.fail(job, "no")

        async def ask(call: str, *arguments: object) -> bool:
            method = getattr(AsyncJobRegistry(make_settings(), store=store), call)
            return bool(await method(*arguments))

        for target in (job, "unknown"):
            for call, *rest in (
                ("start",),
                ("touch",),
                ("done", "/r"),
                ("fail", "no"),
                ("is_cancelled",),
            ):
                assert getattr(registry, call)(target, *rest) is False
                assert asyncio.run(ask(call, target, *rest)) is False

    def test_the_pace_of_the_heart_is_a_third_of_the_time_to_live(self) -> None:
        """At most 30 seconds."""
        paces = {
            ttl: JobRegistry(make_settings(job_ttl_seconds=ttl)).heartbeat_seconds
            for ttl in ("1", "60", "3600")
        }

        assert paces == {"1": pytest.approx(1 / 3), "60": 20, "3600": 30}


Body = Callable[[Any], Generator[Any, Any, None]]
"""What happens inside a run: gets the run, yields what it calls, is sent what came of it."""


class Bench:
    """A job, and a way to run a body for it on one side."""

    def __init__(self, store: Watched, *, is_async: bool) -> None:
        self.store = store
        self.is_async = is_async
        self.job = owner_jobs(store).submit()

    def run(self, body: Body) -> None:
        """Run a body for the job."""
        if self.is_async:
            asyncio.run(self._arun(body))
            return
        registry = JobRegistry(make_settings(), store=self.store)
        with registry.run(self.job) as run, suppress(StopIteration):
            script = body(run)
            reply = next(script)
            while True:
                reply = script.send(reply)

    async def _arun(self, body: Body) -> None:
        async with AsyncJobRegistry(make_settings(), store=self.store).run(self.job) as run:
            with suppress(StopIteration):
                script = body(run)
                reply = next(script)
                while True:
                    reply = script.send(await reply)

    def ends(self) -> list[tuple[str, object]]:
        """Return what was published: status, and errors or result."""
        self.store.is_down = False
        events = owner_jobs(self.store).events()
        return [(e.status, e.errors or e.result_url) for e in events]


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def bench(request: pytest.FixtureRequest, store: Watched) -> Bench:
    """Return a job to run."""
    return Bench(store, is_async=request.param)


class TestRun:
    """Started once, kept alive, ended exactly once, whatever happens inside."""

    def test_done_publishes_the_result(self, bench: Bench) -> None:
        """Leaving adds nothing."""

        def body(run: Any) -> Generator[Any, Any, None]:
            assert (yield run.done("/r")) is True

        bench.run(body)
        assert bench.ends() == [("done", "/r")]
        assert bench.store.count(FinishJob) == 1

    def test_leaving_without_done_is_done_without_result(self, bench: Bench) -> None:
        """A body that just ends has succeeded."""

        def body(run: Any) -> Generator[Any, Any, None]:
            yield from ()

        bench.run(body)
        assert bench.ends() == [("done", None)]

    @pytest.mark.parametrize(
        "error",
        [
            ValueError("boom"),
            KeyboardInterrupt("boom"),
            SystemExit("boom"),
            asyncio.CancelledError("boom"),
            GeneratorExit("boom"),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_any_exception_is_published_and_comes_out(
        self, bench: Bench, error: BaseException
    ) -> None:
        """Interrupts, exits and cancellations too."""
        out: list[BaseException] = []

        def body(run: Any) -> Generator[Any, Any, None]:
            yield from ()
            raise error

        try:
            bench.run(body)
        except BaseException as caught:  # noqa: BLE001 - any kind is what is tested
            out.append(caught)
        assert [type(caught) for caught in out] == [type(error)]
        assert bench.ends() == [("error", [{"message": "boom"}])]

    def test_the_exception_that_comes_out_is_the_one_that_was_raised(self, bench: Bench) -> None:
        """It is the same object, not a copy or another from it."""
        error = ValueError("boom")

        def body(run: Any) -> Generator[Any, Any, None]:
            yield from ()
            raise error

        with pytest.raises(ValueError, match="boom") as caught:
            bench.run(body)
        assert caught.value is error
        assert error.__cause__ is None
        assert error.__context__ is None

    def test_an_exception_after_done_publishes_nothing_more(self, bench: Bench) -> None:
        """The result stands; the exception comes out."""

        def body(run: Any) -> Generator[Any, Any, None]:
            yield run.done("/r")
            raise ValueError("late")

        with pytest.raises(ValueError, match="late"):
            bench.run(body)
        assert bench.ends() == [("done", "/r")]

    def test_fail_publishes_the_errors(self, bench: Bench) -> None:
        """Leaving adds nothing, and there is nothing to raise."""

        def body(run: Any) -> Generator[Any, Any, None]:
            assert (yield run.fail("no rows")) is True
            assert (yield run.fail("again")) is False

        bench.run(body)
        assert bench.ends() == [("error", [{"message": "no rows"}])]

    @pytest.mark.parametrize("fails", [False, True])
    def test_a_job_that_is_handed_over_stays_alive(self, bench: Bench, fails: bool) -> None:
        """However the body leaves; it may be silent for as long as was told."""
        registry = JobRegistry(make_settings(), store=bench.store)

        def body(run: Any) -> Generator[Any, Any, None]:
            yield from ()
            run.is_over = True
            registry.touch(run.job_id, 90)
            if fails:
                raise ValueError("later")

        with pytest.raises(ValueError, match="later") if fails else nullcontext():
            bench.run(body)
        assert bench.ends() == []
        (touch,) = [c for c in bench.store.commands if isinstance(c, TouchJob)]
        assert touch.ttl == make_settings().job_ttl_seconds + 90

    def test_a_cancelled_job_publishes_nothing_more(self, bench: Bench) -> None:
        """The cancel's event is the only one, however the body leaves."""

        def body(run: Any) -> Generator[Any, Any, None]:
            yield from ()
            owner_jobs(bench.store).cancel(bench.job.job_id)
            raise ValueError("killed")

        with pytest.raises(ValueError, match="killed"):
            bench.run(body)
        assert bench.ends() == [("cancelled", None)]

    def test_done_tells_that_the_job_was_cancelled(self, bench: Bench) -> None:
        """A result that nobody waits for is answered False."""

        def body(run: Any) -> Generator[Any, Any, None]:
            owner_jobs(bench.store).cancel(bench.job.job_id)
            assert (yield run.done("/r")) is False

        bench.run(body)
        assert bench.ends() == [("cancelled", None)]

    def test_a_job_that_cannot_start_is_not_run(self, bench: Bench) -> None:
        """JobStateError in place of the body; nothing is published."""
        owner_jobs(bench.store).cancel(bench.job.job_id)

        def body(run: Any) -> Generator[Any, Any, None]:
            pytest.fail("the body must not run")
            yield

        with pytest.raises(JobStateError, match="cannot start"):
            bench.run(body)
        assert bench.ends() == [("cancelled", None)]

    def test_a_result_that_is_no_text_fails_the_job(self, bench: Bench) -> None:
        """The mistake is published, not swallowed."""

        def body(run: Any) -> Generator[Any, Any, None]:
            yield run.done(5)

        with pytest.raises(TypeError, match="result_url"):
            bench.run(body)
        ((status, errors),) = bench.ends()
        assert status == "error"
        assert "result_url must be text" in str(errors)

    def test_a_store_that_is_down_hides_no_exception(
        self, bench: Bench, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The body's exception comes out; that it was not published is one ERROR."""

        def body(run: Any) -> Generator[Any, Any, None]:
            yield from ()
            bench.store.is_down = True
            raise ValueError("boom")

        with pytest.raises(ValueError, match="boom"):
            bench.run(body)
        (record,) = caplog.records
        assert bench.ends() == []
        assert record.levelno == logging.ERROR
        assert bench.job.job_id in record.getMessage()

    def test_a_store_that_is_down_at_the_end_is_told(self, bench: Bench) -> None:
        """The worker learns that its result was not published."""

        def body(run: Any) -> Generator[Any, Any, None]:
            yield from ()
            bench.store.is_down = True

        with pytest.raises(StoreError):
            bench.run(body)
        assert bench.ends() == []

    def test_an_interruption_of_the_end_is_published(self, bench: Bench) -> None:
        """A time limit's signal that strikes while the end is published makes it an error."""
        strikes = [TimeoutError("time limit")]

        def strike(command: Command[Any]) -> None:
            if isinstance(command, FinishJob) and strikes:
                raise strikes.pop()

        def body(run: Any) -> Generator[Any, Any, None]:
            yield from ()
            bench.store.before = strike

        with pytest.raises(TimeoutError, match="time limit"):
            bench.run(body)
        assert bench.ends() == [("error", [{"message": "time limit"}])]


def fast(registry: Registry) -> Registry:
    """Return a registry whose runs give signs of life a hundred times a second."""
    registry.heartbeat_seconds = 0.01
    return registry


class TestHeartbeat:
    """A running job gives signs of life, through outages too, and stops at once at the end."""

    def test_a_running_job_outlives_its_time_to_live(self, store: Watched) -> None:
        """A thread touches it while the body runs, and is gone when the run is."""
        job = owner_jobs(store).submit()
        with JobRegistry(make_settings(job_ttl_seconds="1"), store=store).run(job):
            store.wait_for_beats(4)
        assert owner_jobs(store).get(job.job_id).status is Status.DONE

    def test_a_task_gives_signs_of_life(self, store: Watched) -> None:
        """The same under asyncio; no task is left."""

        async def main() -> None:
            job = await async_jobs(store).submit()
            async with fast(AsyncJobRegistry(make_settings(), store=store)).run(job):
                await store.await_beats(4)
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(main())

    def test_a_thread_survives_outages_and_goes_on(
        self, store: Watched, caplog: pytest.LogCaptureFixture
    ) -> None:
        """One WARNING per outage, with the job's id."""
        job = owner_jobs(store).submit()
        with fast(JobRegistry(make_settings(), store=store)).run(job):
            for is_down in (True, False, True, False):
                store.is_down = is_down
                store.wait_for_beats(3)
        assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
        assert job.job_id in caplog.text

    def test_a_task_survives_outages_and_goes_on(
        self, store: Watched, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The same under asyncio."""

        async def main() -> None:
            job = await async_jobs(store).submit()
            async with fast(AsyncJobRegistry(make_settings(), store=store)).run(job):
                for is_down in (True, False, True, False):
                    store.is_down = is_down
                    await store.await_beats(3)

        asyncio.run(main())
        assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2

    def test_a_thread_ends_when_the_job_has_ended(self, store: Watched) -> None:
        """A job that its owner cancelled needs no signs of life."""
        job = owner_jobs(store).submit()
        with fast(JobRegistry(make_settings(), store=store)).run(job):
            (heart,) = hearts()
            owner_jobs(store).cancel(job.job_id)
            heart.join(5)
            assert not heart.is_alive()

    def test_a_task_ends_when_the_job_has_ended(self, store: Watched) -> None:
        """The same under asyncio."""

        async def main() -> None:
            job = await async_jobs(store).submit()
            async with fast(AsyncJobRegistry(make_settings(), store=store)).run(job):
                await async_jobs(store).cancel(job.job_id)
                await store.await_beats(1)
                await asyncio.sleep(0)
                assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(main())

    def test_leaving_waits_for_a_beat_that_is_under_way(self, store: Watched) -> None:
        """When the run is left its thread is gone, whatever it was doing."""
        job = owner_jobs(store).submit()
        is_beating = threading.Event()

        def beat_slowly(command: Command[Any]) -> None:
            if isinstance(command, TouchJob):
                is_beating.set()
                time.sleep(0.05)

        store.before = beat_slowly
        with fast(JobRegistry(make_settings(), store=store)).run(job):
            assert is_beating.wait(5)
        assert hearts() == []

    def test_leaving_waits_until_a_beat_is_given_up(self, store: Watched) -> None:
        """The same under asyncio, where the beat is cancelled and may need turns to clean up."""
        turns: list[int] = []

        class Reluctant(Watched):
            async def aexecute(self, command: Command[R]) -> R:
                if not isinstance(command, TouchJob):
                    return await super().aexecute(command)
                self.abeats.release()
                try:
                    await asyncio.Event().wait()
                finally:
                    for turn in range(10):
                        await asyncio.sleep(0)
                        turns.append(turn)
                raise AssertionError("nothing sets the event")

        async def main() -> None:
            store = Reluctant()
            job = await async_jobs(store).submit()
            async with fast(AsyncJobRegistry(make_settings(), store=store)).run(job):
                await store.await_beats(1)
            assert turns == list(range(10))
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(main())

    def test_a_thread_that_cannot_start_fails_the_job(
        self, store: Watched, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Between start and body nothing is lost either."""

        def refuse(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        job = owner_jobs(store).submit()
        monkeypatch.setattr(threading.Thread, "start", refuse)
        with (
            pytest.raises(RuntimeError, match="new thread"),
            JobRegistry(make_settings(), store=store).run(job),
        ):
            pytest.fail("the body must not run")
        assert [e.status for e in owner_jobs(store).events()] == ["error"]


class TestCancelledTask:
    """Tasks can be cancelled, once or often, at any point."""

    def test_a_cancelled_task_s_job_is_an_error(self, store: Watched) -> None:
        """CancelledError is published and comes out."""
        job = owner_jobs(store).submit()

        async def work(is_running: asyncio.Event) -> None:
            async with AsyncJobRegistry(make_settings(), store=store).run(job):
                is_running.set()
                await asyncio.Event().wait()

        async def main() -> None:
            is_running = asyncio.Event()
            task = asyncio.create_task(work(is_running))
            await is_running.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert [e.errors for e in owner_jobs(store).events()] == [[{"message": "CancelledError"}]]

    @pytest.mark.parametrize("body_fails", [True, False], ids=["error", "done"])
    def test_cancelling_again_and_again_does_not_stop_the_end(
        self, store: Watched, body_fails: bool
    ) -> None:
        """The event is published however often the task is cancelled while it leaves."""
        job = owner_jobs(store).submit()

        async def work(is_leaving: asyncio.Event) -> None:
            async with AsyncJobRegistry(make_settings(), store=store).run(job):
                is_leaving.set()
                if body_fails:
                    raise ValueError("boom")

        async def main() -> None:
            is_leaving = asyncio.Event()
            task = asyncio.create_task(work(is_leaving))
            await is_leaving.wait()
            while not task.done():
                task.cancel()
                await asyncio.sleep(0)
            assert task.cancelled()

        asyncio.run(main())
        assert [e.status for e in owner_jobs(store).events()] == ["error" if body_fails else "done"]
