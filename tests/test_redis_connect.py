"""Connections to Redis: late, each call its own, thrown away when in doubt; and failures told."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gaq_middleware import AsyncJobRegistry, JobRegistry, SettingsError, StoreError
from gaq_middleware.core.commands import GetJob, Outcome, SubmitJob
from gaq_middleware.core.jobs import Job
from gaq_middleware.registry import store_for
from tests.helpers import NOW, Site, make_settings
from tests.servers import Proxy, RedisServer, free_port, need_redis, wait_until
from tests.stores.conftest import ALICE, TTL

need_redis()

from gaq_middleware.registry import redis as redis_store  # noqa: E402
from gaq_middleware.registry import redis_connect  # noqa: E402
from gaq_middleware.registry.redis import RedisStore  # noqa: E402

P = "async-events-"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """Return a server that nobody else uses."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def raw(server: RedisServer) -> Iterator[Any]:
    """Return a plain client of it."""
    with server.raw(decode_responses=True) as client:
        yield client


def new_store(url: str, **options: str) -> RedisStore:
    """Return a store on a server; options go into the URL."""
    query = "&".join(f"{name}={value}" for name, value in options.items())
    return RedisStore(make_settings(store_url=f"{url}?{query}" if query else url))


def submit(job_id: str) -> SubmitJob:
    """Return the command that submits a job."""
    return SubmitJob.of(Job.new(ALICE, job_id, {}), now=NOW, ttl=TTL, attempt=job_id)


def look(job_id: str) -> GetJob:
    """Return the command that reads a job."""
    return GetJob(job_id=job_id, now=NOW)


def our_clients(raw: Any) -> set[str]:
    """Return the ids of the connections that are not the raw client's own."""
    return {c["id"] for c in raw.client_list() if c["id"] != str(raw.client_id())}


class TestInterruptedCalls:
    """A connection whose answer was not read is never used again."""

    def test_case_124_a_cancelled_call_s_connection_is_dropped(
        self, server: RedisServer, raw: Any
    ) -> None:
        """The next 50 calls are all right, on another connection."""
        store = new_store(server.url)

        async def run() -> None:
            for number in range(50):
                await store.aexecute(submit(f"j{number}"))
            before = our_clients(raw)
            raw.client_pause(300)
            call = asyncio.create_task(store.aexecute(look("j0")))
            await asyncio.sleep(0.05)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            jobs = [await store.aexecute(look(f"j{number}")) for number in range(50)]
            assert [job.job_id for job in jobs if job] == [f"j{number}" for number in range(50)]
            assert len(before) == 1
            assert not before & our_clients(raw)
            assert len(our_clients(raw)) == 1

        asyncio.run(run())

    def test_a_storm_of_cancelled_calls_leaves_all_connections_to_the_next(
        self, server: RedisServer, raw: Any
    ) -> None:
        """Calls cancelled while they wait for a connection, connect, send or read."""
        store = new_store(server.url, max_connections="3")
        order = random.Random(1)

        async def run() -> None:
            await store.aexecute(submit("j"))
            for _ in range(20):
                calls = [asyncio.create_task(store.aexecute(look("j"))) for _ in range(20)]
                for call in order.sample(calls, 15):
                    for _ in range(order.randrange(4)):
                        await asyncio.sleep(0)
                    call.cancel()
                answers = await asyncio.gather(*calls, return_exceptions=True)
                assert {type(answer) for answer in answers} <= {Job, asyncio.CancelledError}
                assert {a.job_id for a in answers if isinstance(a, Job)} == {"j"}
            jobs = await asyncio.gather(*(store.aexecute(look("j")) for _ in range(100)))
            assert [job.job_id for job in jobs if job] == ["j"] * 100
            assert len(our_clients(raw)) <= 3

        asyncio.run(run())

    def test_a_call_that_a_signal_interrupts_drops_its_connection(
        self, server: RedisServer, raw: Any
    ) -> None:
        """The time limit of a worker strikes in the middle of a call; the next are right."""
        store = new_store(server.url)
        for number in range(50):
            store.execute(submit(f"j{number}"))
        before = our_clients(raw)

        class TimeLimitError(Exception):
            """As Celery's."""

        def strike(*_: object) -> None:
            raise TimeLimitError

        known = signal.signal(signal.SIGALRM, strike)
        raw.client_pause(300)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(TimeLimitError):
            store.execute(look("j0"))
        signal.signal(signal.SIGALRM, known)
        jobs = [store.execute(look(f"j{number}")) for number in range(50)]

        assert [job.job_id for job in jobs if job] == [f"j{number}" for number in range(50)]
        assert not before & our_clients(raw)

    @pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
    def test_a_server_that_hangs_is_given_up_and_its_late_answers_are_nobody_s(
        self, server: RedisServer, is_async: bool
    ) -> None:
        """The timeout of the URL counts; when the server goes on, all answers are right."""
        store = new_store(server.url, socket_timeout="0.2")
        loop = asyncio.new_event_loop()

        def do(command: Any) -> Any:
            if is_async:
                return loop.run_until_complete(store.aexecute(command))
            return store.execute(command)

        for number in range(20):
            do(submit(f"j{number}"))
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        started = time.monotonic()
        for number in range(3):
            with pytest.raises(StoreError):
                do(look(f"j{number}"))
        took = time.monotonic() - started
        server.process.send_signal(signal.SIGCONT)
        jobs = [do(look(f"j{number}")) for number in range(20)]
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

        assert took < 2
        assert [job.job_id for job in jobs if job] == [f"j{number}" for number in range(20)]


class TestRepeats:
    """A command is sent twice where that is right, and never counts twice."""

    @pytest.fixture
    def proxy(self, server: RedisServer) -> Iterator[Proxy]:
        """Return a proxy to the server."""
        proxy = Proxy(server.port)
        yield proxy
        proxy.close()

    def test_a_lost_answer_is_asked_for_again(self, proxy: Proxy, raw: Any) -> None:
        """Submit, finish and cancel whose answers were lost are successes, with one event each."""
        registry = JobRegistry(make_settings(), store=(store := new_store(proxy.url)))
        registry.is_cancelled("warm")
        operations: list[Callable[[], bool]] = [
            lambda: store.execute(submit("j")).outcome is Outcome.OK,
            lambda: registry.start("j"),
            lambda: registry.done("j"),
            lambda: store.execute(submit("k")).outcome is Outcome.OK,
            lambda: registry.fail("k", "no"),
        ]
        for operation in operations:
            proxy.loses_next_answer = True
            assert operation()
            assert not proxy.loses_next_answer

        assert raw.xlen(P + "user-a") == raw.xlen(P + "full") == 2

    def test_a_master_that_became_a_replica_is_left(
        self, proxy: Proxy, server: RedisServer
    ) -> None:
        """READONLY: the name is looked up again, and the command sent once more."""
        with RedisServer() as other:
            store = new_store(proxy.url)
            store.execute(submit("before"))
            with server.raw() as raw:
                raw.replicaof("127.0.0.1", str(other.port))
            with pytest.raises(StoreError):
                store.execute(submit("not-moved"))
            proxy.target = other.port

            assert store.execute(submit("after")).outcome is Outcome.OK
            with other.raw() as raw:
                assert raw.exists(P + "job:after")

    def test_a_restart_in_between_is_not_noticed(self, server: RedisServer) -> None:
        """All idle connections are gone at once, and so is the script."""
        store = new_store(server.url)
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(store.execute, [submit(f"j{number}") for number in range(100)]))
            server.stop()
            server.start()
            replies = list(threads.map(store.execute, [submit(f"k{n}") for n in range(100)]))

        assert {reply.outcome for reply in replies} == {Outcome.OK}


class TestPools:
    """One for each process and each loop, and not larger than told."""

    def test_case_126_loops_and_threads_have_connections_of_their_own(
        self, server: RedisServer, raw: Any
    ) -> None:
        """Loops one after the other, two at once, and threads; all are closed with their loop."""
        store = new_store(server.url)

        async def work(name: str) -> None:
            for number in range(50):
                await store.aexecute(submit(f"{name}{number}"))
                assert await store.aexecute(look(f"{name}{number}"))

        asyncio.run(work("a"))
        assert our_clients(raw) == set()
        asyncio.run(work("b"))
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda name: asyncio.run(work(name)), "cdef"))
            list(threads.map(lambda n: store.execute(submit(f"g{n}")), range(50)))

        assert len(raw.keys(P + "job:*")) == 7 * 50
        assert len(our_clients(raw)) <= 4

    def test_a_loop_closed_without_a_word_is_forgotten(self, server: RedisServer) -> None:
        """A loop that never closed its generators leaves nothing behind for good."""
        store = new_store(server.url)
        for number in range(3):
            loop = asyncio.new_event_loop()
            loop.run_until_complete(store.aexecute(submit(f"j{number}")))
            pool = store._connections._pools[loop]
            loop.run_until_complete(pool.aclose())
            loop.close()

        assert len(store._connections._pools) == 1

    @pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
    def test_many_callers_share_a_few_connections(
        self, server: RedisServer, raw: Any, is_async: bool
    ) -> None:
        """The limit of the URL holds, and everybody gets their turn."""
        store = new_store(server.url, max_connections="3")
        most = [0]

        async def submit_all() -> None:
            await asyncio.gather(*(store.aexecute(submit(f"j{n}")) for n in range(200)))
            most[0] = len(our_clients(raw))

        if is_async:
            asyncio.run(submit_all())
        else:
            with ThreadPoolExecutor(50) as threads:
                list(threads.map(store.execute, [submit(f"j{n}") for n in range(200)]))
            most[0] = len(our_clients(raw))

        assert most[0] == 3
        assert len(raw.keys(P + "job:*")) == 200

    @pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
    def test_who_waits_too_long_for_a_connection_is_told_503(
        self, server: RedisServer, raw: Any, is_async: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A store that is busy for good does not hold requests for ever."""
        monkeypatch.setattr(redis_connect, "MAX_WAIT", 0.05)
        store = new_store(server.url, max_connections="1")

        async def two() -> list[Any]:
            await store.aexecute(look("warm"))
            raw.client_pause(400)
            calls = (store.aexecute(look("j")) for _ in range(2))
            return await asyncio.gather(*calls, return_exceptions=True)

        if is_async:
            answers = asyncio.run(two())
        else:
            store.execute(look("warm"))
            raw.client_pause(400)
            with ThreadPoolExecutor(2) as threads:
                calls = [threads.submit(store.execute, look("j")) for _ in range(2)]
            answers = [call.exception() for call in calls]

        assert sorted(type(answer).__name__ for answer in answers) == ["NoneType", "StoreError"]

    @pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
    def test_a_connection_that_rested_too_long_is_not_used(
        self, server: RedisServer, raw: Any, is_async: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Firewalls forget a silent connection, and a call on it would hang."""
        store = new_store(server.url)
        seen: list[set[str]] = []

        async def look_up(count: int) -> None:
            if is_async:
                calls = [store.aexecute(look("j")) for _ in range(count)]
            else:
                calls = [asyncio.to_thread(store.execute, look("j")) for _ in range(count)]
            await asyncio.gather(*calls)
            seen.append(our_clients(raw))

        async def run() -> None:
            await look_up(1)
            raw.client_pause(200)
            await look_up(4)  # three more connections; then only one is used
            await look_up(1)
            monkeypatch.setattr(redis_connect, "MAX_IDLE", -1.0)
            await look_up(1)

        asyncio.run(run())

        assert [len(clients) for clients in seen] == [1, 4, 4, 1]
        assert seen[1] == seen[2]
        assert not seen[2] & seen[3]

    @pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
    def test_case_126_a_fork_has_connections_of_its_own(
        self, server: RedisServer, raw: Any
    ) -> None:
        """Parent and children use the store at the same time after a fork; nobody hears another."""
        store = new_store(server.url)
        registry = JobRegistry(make_settings(), store=store)
        for number in range(100):
            store.execute(submit(f"j{number}"))
        mine = our_clients(raw)
        children = []
        for _ in range(3):
            pid = os.fork()
            if pid == 0:
                try:
                    jobs = [store.execute(look(f"j{number}")) for number in range(100)]
                    good = [job.job_id for job in jobs if job] == [f"j{n}" for n in range(100)]
                    arun = AsyncJobRegistry(make_settings(), store=store).is_cancelled("j1")
                    os._exit(0 if good and not asyncio.run(arun) else 1)
                finally:
                    os._exit(2)
            children.append(pid)
        for number in range(100):
            job = store.execute(look(f"j{number}"))
            assert job is not None
            assert job.job_id == f"j{number}"

        assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0]
        assert not registry.is_cancelled("j1")
        assert our_clients(raw) == mine


def test_a_store_that_nobody_needs_goes_at_once(server: RedisServer, raw: Any) -> None:
    """Nothing in it holds it, so its connections are closed in order and not by a collection."""
    store = new_store(server.url)
    store.execute(look("j1"))
    gone, mine = weakref.ref(store), our_clients(raw)
    assert mine
    del store
    assert gone() is None
    wait_until(lambda: not our_clients(raw))


@pytest.mark.parametrize("form", ["socket", "tls"])
def test_every_kind_of_url_is_spoken(form: str, tmp_path: Path) -> None:
    """By socket and by TLS with the server's certificate verified, logged in, on database 3."""
    options: list[str] = []
    if form == "tls":
        make_certificate(tmp_path)
        names = {"cert-file": "pem", "key-file": "key", "ca-cert-file": "pem"}
        options = [f"--tls-{name} {tmp_path}/tls.{end}" for name, end in names.items()]
        options += ["--tls-auth-clients no", f"--tls-port {(port := free_port())}"]
    words = [word for option in options for word in option.split()]
    with RedisServer(*words, password="hunter2") as server:
        url = f"unix://default:hunter2@{server.folder}/socket?db=3"
        if form == "tls":
            url = f"rediss://:hunter2@127.0.0.1:{port}/3?ssl_ca_certs={tmp_path}/tls.pem"
        store = new_store(url)

        async def look_up() -> Job | None:
            return await store.aexecute(look("j"))

        assert store.execute(submit("j")).outcome is Outcome.OK
        assert asyncio.run(look_up()) == store.execute(look("j"))
        with server.raw(db=3) as raw:
            assert raw.exists(P + "job:j")


def make_certificate(folder: Path) -> None:
    """Write a certificate of 127.0.0.1 and its key."""
    if shutil.which("openssl") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("openssl is missing")
        pytest.skip("openssl is missing")
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=127.0.0.1 -addext"
    files = ["-keyout", f"{folder}/tls.key", "-out", f"{folder}/tls.pem"]
    command = [*words.split(), "subjectAltName=IP:127.0.0.1", *files]
    subprocess.run(command, check=True, capture_output=True)


class TestLoops:
    """A plain call may not stop a loop."""

    def test_a_plain_call_in_a_loop_says_what_to_await(self, server: RedisServer) -> None:
        """It names ajobs, and nothing was sent."""
        store = new_store("redis://127.0.0.1:1")

        async def call() -> None:
            store.execute(look("j"))

        with pytest.raises(RuntimeError, match=r"ajobs or AsyncJobRegistry"):
            asyncio.run(call())

    def test_a_plain_call_in_a_thread_beside_a_loop_is_fine(self, server: RedisServer) -> None:
        """A worker's registry, or a plain handler in a thread pool."""
        registry = JobRegistry(make_settings(), store=new_store(server.url))

        async def call() -> bool:
            return await asyncio.to_thread(registry.start, "unknown")

        assert asyncio.run(call()) is False


class TestFailures:
    """Down is a StoreError, and good again without a restart."""

    def test_down_and_up_again(self, caplog: pytest.LogCaptureFixture) -> None:
        """Both colours; one line says which store and why, without a password."""
        with RedisServer(password="hunter2") as server:
            store = new_store(server.url.replace("//", "//default:hunter2@"))
            registry = JobRegistry(make_settings(), store=store)
            aregistry = AsyncJobRegistry(make_settings(), store=store)

            async def look_up(*, is_up: bool) -> None:
                if is_up:
                    assert not await aregistry.start("j")
                    return
                with pytest.raises(StoreError):
                    await aregistry.start("j")

            for is_up in (True, False, True):
                if not is_up:
                    server.stop()
                    for _ in range(5):
                        with pytest.raises(StoreError) as error:
                            registry.start("j")
                        assert str(server.port) not in str(error.value)
                else:
                    if server.process is None:
                        server.start()
                    assert not registry.start("j")
                asyncio.run(look_up(is_up=is_up))

            (line,) = caplog.records
            assert line.levelname == "ERROR"
            assert f"redis://127.0.0.1:{server.port}/0 failed" in line.getMessage()
            assert "hunter2" not in caplog.text

    def test_a_wrong_password_is_a_store_error(self, caplog: pytest.LogCaptureFixture) -> None:
        """The log says what the server says, never what was sent."""
        with RedisServer(password="hunter2") as server:
            for login in (":wrong-word@", ""):
                store = new_store(server.url.replace("//", f"//{login}"))
                with pytest.raises(StoreError):
                    store.execute(look("j"))

        assert "password" in caplog.text
        assert "Authentication required" in caplog.text
        assert "wrong-word" not in caplog.text

    def test_a_user_that_may_not_ask_for_the_version_is_served(
        self, server: RedisServer, raw: Any
    ) -> None:
        """A user of the operator's own, allowed our keys and commands only."""
        allowed = ["~async-events-*", "+evalsha", "+eval", "+@read", "+@write", "-info"]
        raw.execute_command("ACL", "SETUSER", "gaq", "on", ">pw", *allowed)
        store = new_store(server.url.replace("//", "//gaq:pw@"))

        assert store.execute(submit("j")).outcome is Outcome.OK
        assert JobRegistry(make_settings(), store=store).done("j")

    def test_a_server_that_is_too_old_is_refused(
        self, server: RedisServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Before anything is sent to it."""
        monkeypatch.setattr(redis_store, "OLDEST_SERVER", (99, 0))
        store = new_store(server.url)
        for _ in range(2):
            with pytest.raises(StoreError):
                store.execute(submit("j"))
        with server.raw() as raw:
            assert raw.keys() == []

        assert "older than Redis 6.2" in caplog.text

    def test_a_failing_server_has_a_line_in_ten_seconds(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A flood of failures is not a flood of lines."""
        store = new_store("redis://127.0.0.1:1")
        for _ in range(20):
            with pytest.raises(StoreError):
                store.execute(look("j"))
        assert len(caplog.records) == 1
        store._failures._next_line = 0.0
        with pytest.raises(StoreError):
            store.execute(look("j"))

        assert len(caplog.records) == 2


class TestStartUp:
    """What can be known at start-up is told at start-up."""

    @pytest.mark.parametrize(
        ("url", "why"),
        [
            ("redis://localhost?nonsense=1", "unknown option 'nonsense'"),
            ("redis://localhost?socket_timeout=soon", "socket_timeout"),
            ("rediss://localhost?ssl_cert_reqs=maybe", "maybe"),
            ("redis+sentinel://a,b/m?nonsense=1", "unknown option 'nonsense'"),
        ],
    )
    def test_an_option_that_redis_py_does_not_take_stops_the_start(
        self, url: str, why: str
    ) -> None:
        """It is named."""
        with pytest.raises(SettingsError, match=f"GAQ_STORE_URL has an option.*{why}"):
            store_for(make_settings(store_url=url))

    @pytest.mark.parametrize(
        "url",
        [
            "redis://",
            "redis://u:p@localhost:1/2?protocol=3&decode_responses=True&retry_on_timeout=True",
            "rediss://localhost:1?ssl_cert_reqs=none&health_check_interval=10",
            "unix:///nowhere?db=2&password=x",
            "redis+sentinel://u:p@a:1,b/m/3?sentinel_username=x&sentinel_password=y",
            "rediss+sentinel://a/m?ssl_cert_reqs=none&max_connections=5&timeout=1",
        ],
    )
    def test_every_good_url_makes_a_store_without_a_connection(self, url: str) -> None:
        """Nothing is opened before the first command; then it is down, in both colours."""
        store = store_for(make_settings(store_url=url))

        assert store_for(make_settings(store_url=url)) is store

    def test_options_that_would_change_what_we_read_do_nothing(self, server: RedisServer) -> None:
        """Replies stay bytes in the old protocol."""
        store = new_store(server.url, protocol="3", decode_responses="True")

        assert store.execute(submit("j")).outcome is Outcome.OK

    def test_without_redis_py_the_start_says_what_to_install(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The extra is named; a memory store does without."""
        for name in [n for n in sys.modules if n == "redis" or n.startswith("redis.")]:
            monkeypatch.delitem(sys.modules, name)
        for name in [n for n in sys.modules if n.startswith("gaq_middleware.registry.redis")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "redis", None)

        with pytest.raises(SettingsError, match="pip install redis"):
            store_for(make_settings(store_url="redis://localhost:2"))
        assert store_for(make_settings(stream_prefix="without-redis-"))

    def test_the_start_up_line_shows_no_password(self, caplog: pytest.LogCaptureFixture) -> None:
        """It says which store it is."""
        caplog.set_level(logging.INFO, "gaq_middleware")
        Site(
            "asgi", make_settings(store_url="redis://me:hunter2@localhost:6379/1?password=hunter2")
        )

        (line,) = caplog.records
        assert "store=redis://localhost:6379/1 " in line.getMessage()
        assert "hunter2" not in line.getMessage()

    def test_one_store_serves_all_threads_from_the_first_moment(self, server: RedisServer) -> None:
        """Thirty threads that come at once, before anything is open."""
        store, barrier = new_store(server.url), threading.Barrier(30)

        def go(number: int) -> Outcome:
            barrier.wait()
            return store.execute(submit(f"j{number}")).outcome

        with ThreadPoolExecutor(30) as threads:
            assert set(threads.map(go, range(30))) == {Outcome.OK}
