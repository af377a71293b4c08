"""Redis as it is in production: several processes, crashes, fail-overs, and being down."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gaq_middleware import Job, Settings, issue_token
from gaq_middleware.core.commands import ReapJobs, SubmitJob
from tests.helpers import NOW, POLL, K, Site, ask, cookies, make_settings, token
from tests.live.race import CHANNELS, TTL, owner_of
from tests.servers import RedisServer, Sentinel, free_port, need_redis, wait_until

pytestmark = pytest.mark.live
need_redis()

from gaq_middleware.registry.redis import RedisStore  # noqa: E402

ROOT = Path(__file__).parents[2]
JOBS, PROCESSES, ROUNDS = 2_000, 8, 1_000
CHART = "/api/v1/chart/data"
P = "async-events-"

UVICORN = ["uvicorn", "tests.live.several:asgi_app", "--port={port}", "--log-level=warning"]
GUNICORN = ["gunicorn", "tests.live.several:wsgi_app", "--bind=127.0.0.1:{port}", "--preload"]


class TestRaces:
    """Exactly one event for each job, whatever happens."""

    def submit_all(self, server: RedisServer) -> RedisStore:
        """Submit the jobs; every second one can be overdue soon."""
        store = RedisStore(make_settings(store_url=server.url, stream_limit="100000"))
        for number in range(JOBS):
            job = Job.new(owner_of(number), f"j{number}", {})
            ttl = TTL if number % 2 else 100 * TTL
            store.execute(SubmitJob.of(job, now=NOW, ttl=ttl, attempt=str(number)))
        return store

    def start(self, server: RedisServer) -> list[subprocess.Popen[bytes]]:
        """Start the processes that end them."""
        command = [sys.executable, "-m", "tests.live.race", server.url]
        return [
            subprocess.Popen([*command, str(seed), str(JOBS)], cwd=ROOT, stdout=subprocess.PIPE)
            for seed in range(PROCESSES)
        ]

    def results(self, processes: list[subprocess.Popen[bytes]]) -> tuple[list[str], int]:
        """Wait for them; return who was ended by a call, and how many were reaped."""
        outs = [process.communicate(timeout=300)[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * PROCESSES
        reports = [json.loads(out) for out in outs]
        return [job for r in reports for job in r["ended"]], sum(r["reaped"] for r in reports)

    def events(self, server: RedisServer) -> list[tuple[str, str]]:
        """Return job and status of all events, counted raw."""
        with server.raw() as raw:
            streams = [raw.xrange(f"{P}user-{number}") for number in range(CHANNELS)]
            assert raw.xlen(P + "full") == sum(map(len, streams))
        data = [json.loads(fields[b"data"]) for stream in streams for _, fields in stream]
        return [(event["job_id"], event["status"]) for event in data]

    def test_processes_and_threads_race_to_end_the_same_jobs(self) -> None:
        """Finish, fail, cancel and reap by 8 processes of 8 threads: 2,000 jobs, 2,000 events."""
        with RedisServer() as server:
            store = self.submit_all(server)
            ended, reaped = self.results(self.start(server))
            events = self.events(server)

            assert Counter(job for job, _ in events) == Counter(f"j{n}" for n in range(JOBS))
            assert {status for _, status in events} == {"done", "error", "cancelled"}
            assert len(ended) == len(set(ended))
            assert len(ended) + reaped == JOBS
            assert reaped > 0
            assert store.execute(ReapJobs(now=NOW + 1000 * TTL, limit=10)) == 0

    def test_a_server_that_is_killed_meanwhile_loses_and_doubles_nothing(self) -> None:
        """SIGKILL three times in the race; what was acknowledged is there, and nothing twice."""
        durable = ("--appendonly", "yes", "--appendfsync", "always")
        with RedisServer(*durable) as server:
            store = self.submit_all(server)
            processes = self.start(server)
            with server.raw() as raw:
                for number in range(1, 4):
                    wait_until(lambda: raw.xlen(P + "full") > number * JOBS // 5)  # noqa: B023
                    server.stop(signal.SIGKILL)
                    time.sleep(random.uniform(0.05, 0.3))
                    server.start()
            ended, _ = self.results(processes)
            while store.execute(ReapJobs(now=NOW + 1000 * TTL, limit=100)):
                pass
            events = self.events(server)

            assert Counter(job for job, _ in events) == Counter(f"j{n}" for n in range(JOBS))
            assert len(ended) == len(set(ended))


@contextmanager
def serving(command: list[str], server: RedisServer, **variables: str) -> Iterator[int]:
    """Run a server of the app on a Redis; give its port."""
    port = free_port()
    words = [word.format(port=port) for word in command]
    environ = {**os.environ, "GAQ_JWT_SECRET": K, "GAQ_STORE_URL": server.url, **variables}
    process = subprocess.Popen(
        [sys.executable, "-m", *words], cwd=ROOT, env=environ, start_new_session=True
    )
    try:
        wait_until(lambda: call(port, "GET", "/")[0] == 200)
        yield port
    finally:
        process.terminate()
        try:
            process.wait(10)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def call(port: int, method: str, path: str, user: str = "7") -> tuple[int, Any, Any]:
    """Send a request on a new connection; return status, body and headers."""
    settings = Settings.from_env({"GAQ_JWT_SECRET": K})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=15)
    try:
        headers = {"X-Async-Token": issue_token(settings, user), "Connection": "close"}
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        is_json = "json" in (answer.headers["Content-Type"] or "") or path == CHART
        return answer.status, json.loads(body) if is_json else body, answer.headers
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("command", "variables"),
    [
        ([*GUNICORN, "--workers=4"], {"TEST_EARLY": "1"}),
        ([*GUNICORN, "--workers=4", "--threads=4"], {"TEST_EARLY": "1"}),
        ([*UVICORN, "--workers=4"], {}),
    ],
    ids=["gunicorn preload", "gunicorn preload with threads", "uvicorn"],
)
def test_case_126_four_workers_are_one_app(command: list[str], variables: dict[str, str]) -> None:
    """1,000 rounds of submit on one worker, cancel and poll on others."""
    with RedisServer() as server, serving(command, server, **variables) as port:
        crossed = 0
        for number in range(ROUNDS):
            user = str(number % 50)
            status, job, first = call(port, "POST", CHART, user)
            assert status == 202
            cancel = call(port, "POST", f"{POLL}{job['job_id']}/cancel", user)
            assert cancel[:2] == (
                200,
                {"result": {"job_id": job["job_id"], "status": "cancelled"}},
            )
            status, page, last = call(port, "GET", f"{POLL}?last_id={job['last_id']}", user)
            assert status == 200
            assert [(e["job_id"], e["status"]) for e in page["result"]] == [
                (job["job_id"], "cancelled")
            ]
            assert call(port, "GET", POLL + job["job_id"], "stranger")[0] == 403
            crossed += first["X-Worker"] != last["X-Worker"]

        assert crossed > ROUNDS / 20  # the kernel spreads connections as it likes
        with server.raw() as raw:
            assert raw.xlen(P + "full") == ROUNDS


@pytest.mark.parametrize(
    "command",
    [[*GUNICORN, "--threads=8"], UVICORN],
    ids=["gunicorn with threads", "uvicorn"],
)
def test_case_137_redis_down_is_503_and_nothing_else_suffers(command: list[str]) -> None:
    """Polls and cancels are refused, the rest goes on; good within 2 s, and nothing leaks."""
    with RedisServer() as server, serving(command, server) as port:
        _, job, _ = call(port, "POST", CHART)
        stopping, statuses = threading.Event(), list[tuple[float, int, str | None]]()

        def client(method: str, path: str) -> None:
            while not stopping.is_set():
                status, _, headers = call(port, method, path)
                statuses.append((time.monotonic(), status, headers.get("Retry-After")))

        work = [("GET", POLL)] * 25 + [("POST", f"{POLL}{job['job_id']}/cancel")] * 25
        threads = [threading.Thread(target=client, args=each) for each in work]
        for thread in threads:
            thread.start()
        time.sleep(1)
        stopped = time.monotonic()
        server.stop()
        time.sleep(1)
        status, _, headers = call(port, "GET", "/login?user=9")
        assert (status, call(port, "GET", "/")[0]) == (200, 200)
        down = [entry for entry in statuses if entry[0] > stopped + 0.5]
        server.start()
        back = time.monotonic()
        time.sleep(3)
        stopping.set()
        for thread in threads:
            thread.join()
        up = [entry for entry in statuses if entry[0] > back + 2]

        assert headers["Set-Cookie"].startswith("async-token=")
        assert {(status, retry) for _, status, retry in down} == {(503, "2")}
        assert {status for _, status, _ in up} <= {200, 404}
        assert len(up) > 100
        with server.raw() as raw:
            assert len(raw.client_list()) <= 1 + len(work)


@pytest.mark.parametrize(
    "command",
    [[*GUNICORN, "--threads=8"], UVICORN],
    ids=["gunicorn with threads", "uvicorn"],
)
def test_case_46_streams_end_when_redis_stops(command: list[str]) -> None:
    """Ended within 10 s, and told why; new ones are 503; the next ones go on (case 46)."""
    variables = {"GAQ_WSGI_MAX_WAITERS": "4"}
    with RedisServer() as server, serving(command, server, **variables) as port:
        for _ in range(2):
            wait_until(lambda: call(port, "GET", POLL)[0] == 200)
            with streaming(port) as (status, _, stream):
                job = cancel_one(port)
                assert (status, next_job(stream, job)) == (200, job)
                server.stop()
                began = time.monotonic()
                rest = stream.read()
                assert time.monotonic() - began < 10
            assert b'event: end\ndata: {"code": "store_unavailable"' in rest
            with streaming(port) as (status, headers, _):
                assert (status, headers["Retry-After"]) == (503, "2")
            server.start()


@contextmanager
def streaming(port: int) -> Iterator[tuple[int, Any, http.client.HTTPResponse]]:
    """Open a stream; yields status, headers and the answer."""
    settings = Settings.from_env({"GAQ_JWT_SECRET": K})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=15)
    try:
        headers = {"X-Async-Token": issue_token(settings, "7")}
        connection.request("GET", f"{POLL}stream", headers=headers)
        answer = connection.getresponse()
        yield answer.status, answer.headers, answer
    finally:
        connection.close()


def cancel_one(port: int) -> str:
    """Submit a job and cancel it; return its id."""
    job: str = call(port, "POST", CHART)[1]["job_id"]
    assert call(port, "POST", f"{POLL}{job}/cancel")[0] == 200
    return job


def next_job(stream: http.client.HTTPResponse, wanted: str) -> str:
    """Return the wanted job, when it comes on a stream."""
    while not (line := stream.readline()).startswith(b"data: ") or wanted not in line.decode():
        assert line, "the stream has ended"
    job: str = json.loads(line.removeprefix(b"data: "))["job_id"]
    return job


@contextmanager
def watched_pair() -> Iterator[tuple[RedisServer, RedisServer, list[Sentinel]]]:
    """Run a master, its replica, and three sentinels that know of both."""
    with ExitStack() as stack:
        options = ("--repl-diskless-sync-delay", "0", "--masterauth", "master-word")
        master = stack.enter_context(RedisServer(*options, password="master-word"))
        follow = ("--replicaof", "127.0.0.1", str(master.port))
        replica = stack.enter_context(RedisServer(*options, *follow, password="master-word"))
        sentinels = [stack.enter_context(Sentinel(master, "sentinel-word")) for _ in range(3)]
        for sentinel in sentinels:
            with sentinel.raw() as raw:
                wait_until(lambda: _is_ready(raw.sentinel_master("mymaster")))
        with replica.raw() as raw:
            wait_until(lambda: raw.info("replication")["master_link_status"] == "up")
        yield master, replica, sentinels


def _is_ready(state: Any) -> bool:
    return bool(state["num-other-sentinels"] == 2 and state["num-slaves"] == 1)


@pytest.mark.parametrize("face", ["asgi", "wsgi"])
@pytest.mark.parametrize("is_crash", [False, True], ids=["planned", "crash"])
def test_case_59_a_fail_over_is_survived(face: str, is_crash: bool) -> None:
    """The master changes between two polls, and the second is 200."""
    with watched_pair() as (master, replica, sentinels):
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in sentinels)
        login = "redis+sentinel://default:master-word@"
        url = f"{login}{hosts}/mymaster/3?sentinel_password=sentinel-word"
        store = RedisStore(make_settings(store_url=url))
        site = Site(face, make_settings())
        site.app.engine.store = store
        poll = ask("GET", POLL, Cookie=cookies(token()))
        job = Job.new(owner_of(1), "before", {})
        store.execute(SubmitJob.of(job, now=NOW, ttl=TTL, attempt="a"))
        with replica.raw(db=3) as raw:
            wait_until(lambda: raw.exists(f"{P}job:before"))
        assert site(poll).status == 200
        if is_crash:
            master.stop(signal.SIGKILL)
            assert site(poll).code == "store_unavailable"
        else:
            with sentinels[0].raw() as raw:
                raw.execute_command("SENTINEL", "FAILOVER", "mymaster")
        for sentinel in sentinels:
            wait_until(lambda: sentinel.master_port() == replica.port)  # noqa: B023
        for server, role in [(replica, "master"), *([] if is_crash else [(master, "slave")])]:
            with server.raw() as raw:
                wait_until(lambda: raw.info("replication")["role"] == role)  # noqa: B023

        assert site(poll).status == 200
        job = Job.new(owner_of(1), "after", {})
        store.execute(SubmitJob.of(job, now=NOW, ttl=TTL, attempt="a"))
        with replica.raw(db=3) as raw:
            assert raw.exists(f"{P}job:before", f"{P}job:after") == 2
