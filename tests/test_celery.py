"""The workers' face on real workers: one end of every job, whatever becomes of its worker."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from gaq_middleware import (
    Job,
    JobNotFoundError,
    JobRegistry,
    Settings,
    SettingsError,
    StoreError,
    current,
)
from gaq_middleware.engine import Engine
from gaq_middleware.registry import Canceller, OwnerJobs, store_for
from tests.helpers import GUEST, Ask, K, Site, ask, cookies, guest_token, make_settings, token
from tests.servers import PATIENCE, RedisServer, wait_until

if TYPE_CHECKING:
    from typing_extensions import Self

for module in ("redis", "celery"):
    if importlib.util.find_spec(module) is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{module} is missing")
        pytest.skip(f"{module} is missing", allow_module_level=True)

import kombu.exceptions  # noqa: E402
from celery import Celery  # noqa: E402
from celery.exceptions import (  # noqa: E402
    Ignore,
    Reject,
    Retry,
    SoftTimeLimitExceeded,
    TimeLimitExceeded,
    WorkerLostError,
)
from celery.signals import task_failure, task_revoked  # noqa: E402

from gaq_middleware.celery import GaqTask, _silence, canceller, submit  # noqa: E402
from tests import celery_tasks  # noqa: E402
from tests.celery_tasks import OWNER  # noqa: E402

ROOT = Path(__file__).parent.parent
TTL = 3  # seconds


@dataclass
class Worker:
    """A worker process with its children, killed at the end."""

    log: Path
    process: subprocess.Popen[bytes] = field(repr=False)

    def kill(self) -> None:
        """End all its processes at once, as a power failure would."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(PATIENCE)

    def is_ready(self) -> bool:
        """Return whether it takes tasks."""
        assert self.process.poll() is None, self.log.read_text()
        return "ready." in self.log.read_text()


class Farm:
    """A broker and a store on one Redis, and the workers started on them."""

    def __init__(self, server: RedisServer, folder: Path) -> None:
        self.tasks, self.server, self.folder = celery_tasks, server, folder
        self.raw = server.raw(decode_responses=True)
        self.broker_url = server.url.removesuffix("0") + "1"
        self.broker = server.raw(db=1, decode_responses=True)
        self.app = celery_tasks.app
        self.app.conf.broker_url = self.broker_url
        self.settings = make_settings(store_url=server.url, job_ttl_seconds=str(TTL))
        self.store = store_for(self.settings)
        self.workers: list[Worker] = []

    def environ(self, ttl: int = TTL) -> dict[str, str]:
        """Return our variables, for workers and for this process."""
        return {
            "GAQ_JWT_SECRET": K,
            "GAQ_STORE_URL": self.server.url,
            "GAQ_JOB_TTL_SECONDS": str(ttl),
        }

    def start(self, *options: str, queue: str = "celery", ttl: int = TTL) -> Worker:
        """Start a worker and wait until it takes tasks."""
        log = self.folder / f"{uuid.uuid4()}.log"
        command = [sys.executable, "-m", "celery", "-A", "tests.celery_tasks", "worker"]
        command += ["--loglevel=INFO", "--without-gossip", "--without-mingle", f"--queues={queue}"]
        command += [f"--hostname={uuid.uuid4()}@localhost", *options]
        environ = {**os.environ, **self.environ(ttl), "BROKER": self.broker_url}
        environ["PYTHONPATH"] = str(ROOT)
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environ,
                cwd=self.folder,
                start_new_session=True,
            )
        self.workers.append(Worker(log, process))
        wait_until(self.workers[-1].is_ready)
        return self.workers[-1]

    def jobs(self, stop: Canceller | None = None) -> OwnerJobs:
        """Return what the owner may do."""
        return OwnerJobs(self.store, lambda: OWNER, self.settings, stop)

    def submit(self, task: Any, *args: object, **options: Any) -> Job:
        """Submit a job and queue its work."""
        job = self.jobs().submit()
        submit(task, job, *args, **options)
        return job

    def cancel(self, job: Job) -> Job:
        """Cancel a job as its owner, by way of the Celery app."""
        return self.jobs(canceller(self.app)).cancel(job.job_id)

    def events(self, job: Job) -> list[dict[str, Any]]:
        """Return what stands on the stream of a job, read without us, so that nobody looks."""
        streams = [
            [json.loads(entry["data"]) for _, entry in self.raw.xrange(f"async-events-{name}")]
            for name in (job.channel_id, "full")
        ]
        mine, of_all = ([event for event in s if event["job_id"] == job.job_id] for s in streams)
        assert mine == of_all
        return mine

    def record(self, job_id: str) -> tuple[Any, Any]:
        """Return all that the store keeps of a job."""
        prefix = "async-events-job"
        return self.raw.hgetall(f"{prefix}:{job_id}"), self.raw.get(f"{prefix}-cancel:{job_id}")

    def notes(self, job: Job) -> list[str]:
        """Return what workers noted of a job."""
        notes: list[str] = self.broker.lrange(f"{self.tasks.NOTES}{job.job_id}", 0, -1)
        return notes

    def is_over(self, job: Job) -> bool:
        """Return whether a worker is done with a job for good."""
        return any(note.startswith("over") and "RETRY" not in note for note in self.notes(job))

    def pid(self, job: Job) -> int:
        """Wait until a child process works on a job, and return which."""
        wait_until(lambda: self.notes(job))
        return int(self.notes(job)[0].removeprefix("pid "))

    def the_end(self, job: Job) -> dict[str, Any]:
        """Wait for the one event of a job, and for whoever still works on it; return the event."""
        wait_until(lambda: self.events(job))
        (event,) = self.events(job)
        return event

    def passes(self, queue: str = "celery") -> None:
        """Wait until a worker has done everything before this: one more job runs well.

        Celery may take longer to replace a child than a job waits, hence perhaps more than one.
        """
        task = self.tasks.give.s("/passed").set(queue=queue)
        wait_until(lambda: self.the_end(self.submit(task))["result_url"] == "/passed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self.workers:
            worker.kill()
        self.app.pool.force_close_all()
        for client in (self.raw, self.broker):
            client.close()


@pytest.fixture(scope="module")
def whole_farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    """Return a farm on a Redis of its own: nobody else may empty a broker."""
    with RedisServer() as server, Farm(server, tmp_path_factory.mktemp("farm")) as farm:
        yield farm


@pytest.fixture
def farm(whole_farm: Farm, monkeypatch: pytest.MonkeyPatch) -> Farm:
    """Return the farm, with its variables in the environment of the web process."""
    for name, value in whole_farm.environ().items():
        monkeypatch.setenv(name, value)
    return whole_farm


@pytest.fixture(scope="module")
def started(whole_farm: Farm) -> Worker:
    """A worker with one child process, for all tests that do it no harm."""
    return whole_farm.start("--pool=prefork", "--concurrency=1")


@pytest.mark.live
@pytest.mark.usefixtures("started")
class TestWorker:
    """A prefork worker with one child."""

    @pytest.mark.parametrize(
        ("result", "url"), [("/r/1", "/r/1"), (None, None), ({"rows": 3}, None), (7, None)]
    )
    def test_done(self, farm: Farm, result: object, url: str | None) -> None:
        """Text that the body returns is where the result is; anything else is no result."""
        event = farm.the_end(farm.submit(farm.tasks.give, result))

        assert (event["status"], event["result_url"], event["user_id"]) == ("done", url, 7)

    def test_case_36_an_exception_is_an_error(self, farm: Farm) -> None:
        """One event with what went wrong."""
        event = farm.the_end(farm.submit(farm.tasks.crash))

        assert event["status"] == "error"
        assert event["errors"] == [{"message": "no such column: region"}]

    def test_a_long_job_lives_by_its_heartbeat(self, farm: Farm) -> None:
        """Longer than its time to live, while others look."""
        job = farm.submit(farm.tasks.sleep, TTL + 1, result="/slow")
        wait_until(lambda: farm.notes(job))
        time.sleep(TTL + 0.5)

        assert farm.jobs().get(job.job_id).status == "running"
        assert farm.the_end(job)["result_url"] == "/slow"

    def test_a_soft_time_limit_is_an_error(self, farm: Farm) -> None:
        """In words that its owner understands."""
        job = farm.submit(farm.tasks.sleep.s().set(soft_time_limit=1))

        assert farm.the_end(job)["errors"] == [
            {"message": "The job took longer than its time limit."}
        ]
        farm.passes()
        assert farm.notes(job)[1:] == ["over FAILURE"]

    def test_a_hard_time_limit_is_an_error_at_once(self, farm: Farm) -> None:
        """The child process is killed; the main process tells, long before the time to live."""
        job = farm.submit(farm.tasks.sleep.s().set(time_limit=1))

        assert farm.the_end(job)["errors"] == [
            {"message": "The job took longer than its time limit."}
        ]
        farm.passes()
        assert len(farm.events(job)) == 1

    def test_cases_49_50_cancel_what_waits_and_what_runs(self, farm: Farm) -> None:
        """One event each, from the cancel; what waits never runs, and the child goes on."""
        running = farm.submit(farm.tasks.sleep)
        waiting = farm.submit(farm.tasks.give, "/never")
        pid = farm.pid(running)

        assert farm.cancel(waiting).status == "cancelled"
        assert farm.cancel(running).status == "cancelled"
        farm.passes()

        assert [event["status"] for event in farm.events(running)] == ["cancelled"]
        assert [event["status"] for event in farm.events(waiting)] == ["cancelled"]
        assert farm.notes(running) == [f"pid {pid}", "over IGNORED"]
        assert farm.notes(waiting) == []
        assert farm.pid(farm.submit(farm.tasks.sleep, 0)) == pid

    def test_cancel_by_http(self, farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
        """GAQ_CELERY_APP is all that the middleware needs."""
        monkeypatch.setenv("GAQ_CELERY_APP", "tests.celery_tasks:app")
        site = Site("wsgi", Settings.from_env())
        site.app.engine.store, site.app.engine.clock = farm.store, time.time
        cookie = cookies(token(now=time.time(), channel=OWNER.channel_id))
        job = farm.submit(farm.tasks.sleep)
        wait_until(lambda: farm.notes(job))

        answer = site(ask("POST", f"/api/v1/async_event/{job.job_id}/cancel", Cookie=cookie))

        assert answer.json() == {"result": {"job_id": job.job_id, "status": "cancelled"}}
        farm.passes()
        assert farm.is_over(job)
        assert [event["status"] for event in farm.events(job)] == ["cancelled"]

    def test_case_56_a_job_that_has_ended_is_not_run(self, farm: Farm) -> None:
        """Though nobody told the worker: no revoke reached it."""
        job = farm.jobs().submit()
        farm.jobs().cancel(job.job_id)
        submit(farm.tasks.give, job, "/never")
        farm.passes()

        assert farm.notes(job) == ["over IGNORED"]
        assert [event["status"] for event in farm.events(job)] == ["cancelled"]

    def test_case_144_no_revoke_after_the_end(self, farm: Farm) -> None:
        """A signal could hit the next task of that child."""
        stopped: list[Job] = []
        job = farm.submit(farm.tasks.give)
        farm.the_end(job)

        with pytest.raises(JobNotFoundError):
            farm.jobs(stopped.append).cancel(job.job_id)
        assert stopped == []

    def test_the_signal_of_a_late_cancel_hits_no_other_task(self, farm: Farm) -> None:
        """The child waits for it, or the next job would see a time limit that it never had."""
        for _ in range(5):
            late = farm.submit(farm.tasks.finish_too_late)
            after = farm.submit(farm.tasks.sleep, 0.1, result="/after")

            assert farm.the_end(after)["result_url"] == "/after"
            assert [event["status"] for event in farm.events(late)] == ["cancelled"]
            assert farm.pid(late) == farm.pid(after)
            assert farm.is_over(late)

    def test_an_operator_s_revoke_is_told_to_the_owner(self, farm: Farm) -> None:
        """Case 52: every way out publishes, not only ours."""
        job = farm.submit(farm.tasks.sleep)
        pid = farm.pid(job)

        farm.app.control.revoke(job.job_id, terminate=True, signal="SIGTERM")

        assert farm.the_end(job)["errors"] == [{"message": "The work of the job was stopped."}]
        farm.passes()
        assert len(farm.events(job)) == 1
        assert farm.pid(farm.submit(farm.tasks.sleep, 0)) != pid

    def test_a_retry_keeps_the_job_alive(self, farm: Farm) -> None:
        """No event between the attempts, also when the wait is longer than the time to live."""
        job = farm.submit(farm.tasks.try_again, 1, TTL + 1)
        wait_until(lambda: "over RETRY" in farm.notes(job))
        time.sleep(TTL + 0.2)

        assert farm.jobs().get(job.job_id).status == "running"
        assert farm.the_end(job)["result_url"] == "/after-retries"
        assert farm.notes(job)[::2] == ["try 0", "try 1"]

    def test_the_last_retry_fails_the_job(self, farm: Farm) -> None:
        """One error, that of the last attempt."""
        job = farm.submit(farm.tasks.try_again, 9, 0)

        assert farm.the_end(job)["errors"] == [{"message": "connection reset"}]
        assert [note for note in farm.notes(job) if "try" in note] == ["try 0", "try 1", "try 2"]

    def test_a_job_that_is_cancelled_between_two_tries_is_not_tried_again(self, farm: Farm) -> None:
        """The retry finds it ended."""
        job = farm.submit(farm.tasks.try_again, 1, 1)
        wait_until(lambda: "over RETRY" in farm.notes(job))
        farm.jobs().cancel(job.job_id)
        wait_until(lambda: farm.is_over(job))

        assert [event["status"] for event in farm.events(job)] == ["cancelled"]
        assert farm.notes(job) == ["try 0", "over RETRY", "over IGNORED"]

    def test_a_message_given_back_keeps_the_job_alive(self, farm: Farm) -> None:
        """Reject with requeue: somebody else is going to run it."""
        job = farm.submit(farm.tasks.refuse, 1)

        assert farm.the_end(job)["result_url"] == "/after-refusals"

    def test_a_task_that_replaces_itself_keeps_the_job_alive(self, farm: Farm) -> None:
        """The other task has the same id."""
        assert farm.the_end(farm.submit(farm.tasks.replace))["result_url"] == "/by-another"


@pytest.mark.live
class TestLoss:
    """Workers that come too late, or that die."""

    def test_case_57_a_child_that_was_killed_is_an_error_soon(self, farm: Farm) -> None:
        """Celery sees it, so nobody has to wait for the time to live, nor to look."""
        farm.start("--pool=prefork", "--concurrency=1", queue="child", ttl=60)
        job = farm.submit(farm.tasks.sleep.s().set(queue="child"))
        os.kill(farm.pid(job), signal.SIGKILL)

        assert farm.the_end(job)["errors"] == [
            {"message": "The worker that ran the job was lost.", "code": "job_lost"}
        ]
        farm.passes("child")
        assert len(farm.events(job)) == 1

    def test_case_57_a_worker_that_was_killed_is_an_error_after_the_time_to_live(
        self, farm: Farm
    ) -> None:
        """The next look of anyone ends the job, once."""
        worker = farm.start("--pool=prefork", "--concurrency=1", queue="whole")
        job = farm.submit(farm.tasks.sleep.s().set(queue="whole"))
        farm.pid(job)
        worker.kill()
        killed = time.monotonic()

        assert farm.jobs().get(job.job_id).status == "running"
        wait_until(lambda: farm.jobs().get(job.job_id).status == "error")

        assert time.monotonic() - killed <= TTL + 1
        assert farm.the_end(job)["errors"][0]["code"] == "job_lost"
        JobRegistry(farm.settings).reap()
        assert len(farm.events(job)) == 1

    def test_case_35_a_task_that_nobody_takes_is_an_error_after_the_time_to_live(
        self, farm: Farm
    ) -> None:
        """No worker at all."""
        job = farm.submit(farm.tasks.give.s().set(queue="nobody"))

        registry = JobRegistry(farm.settings)
        wait_until(lambda: registry.reap() >= 0 and farm.events(job))

        assert farm.the_end(job)["errors"][0]["code"] == "job_lost"

    def test_an_expired_task_is_an_error_when_a_worker_drops_it(self, farm: Farm) -> None:
        """Though its job has time to live left, and nobody looks."""
        job = farm.submit(farm.tasks.give.s().set(queue="late"), expires=0.5)
        time.sleep(0.6)
        farm.start("--pool=solo", queue="late")

        assert farm.the_end(job)["errors"] == [{"message": "No worker took the job in time."}]
        assert farm.notes(job) == []

    @pytest.mark.parametrize("pool", ["threads", "solo"])
    def test_where_no_signal_can_be_sent_the_late_result_is_dropped(
        self, farm: Farm, pool: str
    ) -> None:
        """The job is cancelled for its owner at once; the work runs to its end."""
        farm.start(f"--pool={pool}", "--concurrency=1", queue=pool)
        job = farm.submit(farm.tasks.sleep.s().set(queue=pool), 1.0)
        farm.pid(job)

        farm.cancel(job)

        assert [event["status"] for event in farm.events(job)] == ["cancelled"]
        farm.passes(pool)
        assert farm.notes(job)[1:] == ["over IGNORED"]
        assert [event["status"] for event in farm.events(job)] == ["cancelled"]


def jobs_of(settings: Settings) -> OwnerJobs:
    """Return what the owner may do."""
    return OwnerJobs(store_for(settings), lambda: OWNER, settings)


def nothing() -> str:
    """Do nothing: the body of tasks that are not about their body."""
    return "nothing"


class TestSubmit:
    """What the web process puts on the broker, and what it does when it cannot."""

    def test_case_5_no_part_of_a_guest_s_token_leaves_the_web_process(self, farm: Farm) -> None:
        """The task has the id of the job, and expires; whose job it is stands in the record."""
        guest = guest_token(now=time.time())
        settings = make_settings(
            store_url=farm.server.url, guest_secret=GUEST, guest_audience="superset"
        )

        def handler(_: Ask) -> tuple[int, list[tuple[str, str]], bytes]:
            job = current().jobs.submit()
            submit(farm.tasks.give.s().set(queue="guests"), job, job.channel_id)
            return 202, [("Content-Type", "application/json")], json.dumps(job.as_dict()).encode()

        site = Site("wsgi", settings, handler)
        site.app.engine.store, site.app.engine.clock = farm.store, time.time
        job = site(ask("POST", "/api/v1/chart/data", X_GuestToken=guest)).json()

        (message,) = map(json.loads, farm.broker.lrange("guests", 0, -1))
        assert message["headers"]["id"] == job["job_id"]
        assert message["headers"]["expires"] is not None
        assert job["channel_id"].startswith("guest-")
        assert job["user_id"] is None
        kept = (
            repr(message) + b64decode(message["body"]).decode() + repr(farm.record(job["job_id"]))
        )
        assert job["channel_id"] in kept
        assert not any(part in kept for part in guest.split("."))

    @pytest.mark.parametrize(
        ("given", "seconds"), [({}, TTL), ({"expires": 60}, 60)], ids=["time to live", "given"]
    )
    def test_a_task_expires(self, farm: Farm, given: dict[str, Any], seconds: int) -> None:
        """With the job, unless told otherwise."""
        queue = str(uuid.uuid4())
        farm.submit(farm.tasks.give.s().set(queue=queue), **given)
        (message,) = map(json.loads, farm.broker.lrange(queue, 0, -1))

        left = datetime.fromisoformat(message["headers"]["expires"]) - datetime.now(timezone.utc)
        assert seconds - 2 < left.total_seconds() <= seconds

    @pytest.mark.parametrize("in_loop", [False, True])
    def test_a_broker_that_refuses_fails_the_job(self, farm: Farm, in_loop: bool) -> None:
        """The error comes out, and the owner reads that nothing was queued, and not why."""
        away = Celery("away", broker="redis://127.0.0.1:1/0", set_as_current=False)
        task = away.task(base=GaqTask, shared=False)(nothing)
        patient = make_settings(job_ttl_seconds="60")  # older releases take six seconds
        job = OwnerJobs(farm.store, lambda: OWNER, patient).submit()

        async def in_a_coroutine() -> None:
            submit(task, job)

        with pytest.raises(kombu.exceptions.OperationalError):
            asyncio.run(in_a_coroutine()) if in_loop else submit(task, job)
        assert farm.the_end(job)["errors"] == [{"message": "The job could not be queued."}]

    def test_arguments_that_no_message_can_hold_fail_the_job(self, farm: Farm) -> None:
        """It is Celery's error that comes out."""
        job = farm.jobs().submit()

        with pytest.raises(kombu.exceptions.EncodeError):
            submit(farm.tasks.give, job, object())
        assert farm.the_end(job)["status"] == "error"

    def test_without_a_store_the_error_of_the_broker_comes_out(
        self, farm: Farm, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And the log says what becomes of the job."""
        monkeypatch.setenv("GAQ_STORE_URL", "redis://127.0.0.1:1/0")

        with pytest.raises(kombu.exceptions.EncodeError):
            submit(farm.tasks.give, "j", object())
        assert "Job j could not be ended" in caplog.text

    def test_a_plain_task_will_do(self, farm: Farm) -> None:
        """One that reports by itself; only then the variables are read."""
        queue = str(uuid.uuid4())
        task = farm.app.task(nothing, name="plain", shared=False)

        farm.submit(task.s().set(queue=queue))
        assert farm.broker.llen(queue) == 1


@pytest.fixture
def eager() -> Iterator[Celery]:
    """Return an app whose tasks run where they are submitted."""
    with Celery("eager", broker="memory://", set_as_current=False) as app:
        app.conf.task_always_eager = True
        yield app


class TestTask:
    """What a task makes of its body, in this process and on a store in memory."""

    @pytest.fixture
    def settings(self) -> Settings:
        """Return settings with a store that nobody else has."""
        return make_settings(stream_prefix=f"{uuid.uuid4()}-")

    def work(self, app: Celery, settings: Settings, body: Callable[[], object]) -> Job:
        """Submit a job, run its body, and return what became of it."""
        jobs = jobs_of(settings)
        job = jobs.submit(job_id="j")
        submit(app.task(base=GaqTask, shared=False, settings=settings)(body), job)
        assert len(jobs.events()) <= 1
        return jobs.get("j")

    @pytest.mark.parametrize(
        ("error", "status", "message"),
        [
            (KeyError("x"), "error", "'x'"),
            (SoftTimeLimitExceeded(), "error", "The job took longer than its time limit."),
            (Reject("no", requeue=False), "error", "no"),
            (Reject(requeue=False), "error", "The work of the job was stopped."),
            (Reject("no", requeue=True), "running", None),
            (Ignore(), "running", None),
            (Retry("later", when=5), "running", None),
            (SystemExit(-241), "error", "The work of the job was stopped."),
        ],
    )
    def test_what_the_body_raises(
        self,
        eager: Celery,
        settings: Settings,
        error: BaseException,
        status: str,
        message: str | None,
    ) -> None:
        """Celery's words for "not yet" leave the job alive; all else ends it."""

        def body() -> None:
            raise error

        with suppress(SystemExit):
            self.work(eager, settings, body)
        job = jobs_of(settings).get("j")

        assert job.status == status
        assert job.errors == ([] if message is None else [{"message": message}])

    @pytest.mark.parametrize("error", [None, SoftTimeLimitExceeded()])
    def test_a_body_that_is_cancelled_meanwhile(
        self,
        eager: Celery,
        settings: Settings,
        error: Exception | None,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The cancel's event is the only one, and nothing more is made of the task."""
        monkeypatch.setattr("gaq_middleware.celery.MAX_SIGNAL_SECONDS", 0)

        def body() -> str:
            jobs_of(settings).cancel("j")
            if error is not None:
                raise error
            return "/late"

        assert self.work(eager, settings, body).status == "cancelled"
        assert [event.status for event in jobs_of(settings).events()] == ["cancelled"]

    def test_a_task_without_a_job_is_not_run_and_says_so(
        self, eager: Celery, settings: Settings, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Whoever calls delay() in place of submit() finds out why nothing happens."""
        caplog.set_level(logging.INFO, "gaq_middleware")
        task = eager.task(base=GaqTask, shared=False, settings=settings)(nothing)

        assert task.delay().state == "IGNORED"
        assert "unknown here. Do not run it." in caplog.text

    @pytest.mark.parametrize(
        ("tell", "message"),
        [
            (
                lambda task: task_failure.send(task, task_id="j", exception=WorkerLostError()),
                "The worker that ran the job was lost.",
            ),
            (
                lambda task: task_failure.send(task, task_id="j", exception=TimeLimitExceeded()),
                "The job took longer than its time limit.",
            ),
            (
                lambda task: task_revoked.send(task, request=Mock(id="j"), expired=True),
                "No worker took the job in time.",
            ),
            (
                lambda task: task_revoked.send(task, request=Mock(id="j"), expired=False),
                "The work of the job was stopped.",
            ),
        ],
    )
    def test_what_only_the_main_process_knows(
        self, eager: Celery, settings: Settings, tell: Callable[[object], object], message: str
    ) -> None:
        """Celery tells by signals; tasks that are not ours are none of our business."""
        jobs = jobs_of(settings)
        jobs.submit(job_id="j")

        tell(eager.task(nothing, name="plain", shared=False))
        assert jobs.events() == []
        tell(eager.task(base=GaqTask, shared=False, settings=settings)(nothing))
        assert [event.errors[0]["message"] for event in jobs.events()] == [message]

    def test_a_result_url_that_is_too_long_fails_the_job(
        self, eager: Celery, settings: Settings
    ) -> None:
        """The job must not stay without an end."""

        def body() -> str:
            return "/" * 10_000

        job = self.work(eager, settings, body)

        assert "more than 8192 characters" in job.errors[0]["message"]

    @pytest.mark.parametrize(
        ("when", "seconds"),
        [
            (None, 0),
            (-1, 0),
            (90, 90),
            (lambda: datetime.now(timezone.utc) + timedelta(seconds=900), 900),
            (lambda: datetime.now() + timedelta(seconds=900), 900),  # noqa: DTZ005 - Celery's
        ],
        ids=["at once", "in the past", "a countdown", "a time", "a time without zone"],
    )
    def test_a_retry_may_be_silent_until_it_is_due(self, when: Any, seconds: float) -> None:
        """Its countdown, or the time until it."""
        when = when() if callable(when) else when
        assert seconds - 60 <= _silence(Retry(when=when)) <= seconds

    def test_called_directly_it_is_a_plain_function(
        self, eager: Celery, settings: Settings
    ) -> None:
        """Without a worker there is no job."""
        task = eager.task(base=GaqTask, shared=False)(nothing)

        assert task() == "nothing"

    def test_without_a_store_nothing_runs(self, eager: Celery) -> None:
        """The body would publish nothing."""
        settings = make_settings(store_url="redis://127.0.0.1:1/0")
        task = eager.task(base=GaqTask, shared=False, settings=settings)(nothing)

        assert isinstance(task.apply(task_id="j").result, StoreError)


class TestCanceller:
    """How the middleware finds the app whose tasks it revokes."""

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("no.such.module:app", "cannot be imported: ModuleNotFoundError: No module named 'no'"),
            ("tests.celery_tasks:nothing", "cannot be imported: AttributeError"),
            ("tests.celery_tasks:BROKER", "is no Celery app, but 'redis://"),
        ],
    )
    def test_what_is_no_app_stops_the_start(self, name: str, words: str) -> None:
        """The error says what was found instead."""
        with pytest.raises(SettingsError, match=re.escape(words)) as caught:
            Engine(make_settings(celery_app=name), None, None)
        assert caught.value.problems[0].startswith(f"GAQ_CELERY_APP={name} ")

    def test_a_canceller_that_is_passed_wins(self) -> None:
        """Then nothing is imported."""
        assert Engine(make_settings(celery_app="no.such:app"), None, print).canceller is print

    def test_it_revokes_with_the_signal_of_a_soft_time_limit(self) -> None:
        """The tasks of prefork workers can clean up."""
        app = Mock()
        canceller(app)(Job("c", "j"))

        app.control.revoke.assert_called_once_with("j", terminate=True, signal="SIGUSR1")

    def test_without_celery_the_extra_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With the command that installs it."""
        monkeypatch.setitem(sys.modules, "celery", None)
        monkeypatch.delitem(sys.modules, "gaq_middleware.celery")

        with pytest.raises(SettingsError, match=re.escape("pip install celery")):
            Engine(make_settings(celery_app="a:b"), None, None)
