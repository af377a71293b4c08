"""The bell of the Redis store: who writes rings it, and a store that is lost is told."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from gaq_middleware import StoreError
from gaq_middleware.core.commands import EventPage
from gaq_middleware.core.store_urls import BLOCK_SECONDS
from gaq_middleware.registry import Listening, Stream, streams
from tests.helpers import make_settings
from tests.servers import Proxy, RedisServer, need_redis, wait_until
from tests.stores.conftest import ALICE, SyncWorld

need_redis()

from gaq_middleware.registry.redis import RedisStore  # noqa: E402

Pages = Generator[EventPage, None, None]
P = "async-events-"
STREAM = f"{P}{ALICE.channel_id}"
LOST_SECONDS = 10.0
"""Within so long a stream ends when its store is lost (design 7)."""


@pytest.fixture(autouse=True)
def only_rings_wake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream does not look by itself while a test lasts."""
    monkeypatch.setattr(streams, "HEARTBEAT", 3600.0)


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


def follow(store: RedisStore, after: str = "") -> Pages:
    """Return the pages of a stream; it ends after 30 s."""
    listening = Listening(channel_id=ALICE.channel_id, after=after, seconds=30.0, clock=time.time)
    return Stream(store, listening).pages()


def new_store(url: str, **variables: str) -> RedisStore:
    """Return a store."""
    return RedisStore(make_settings(store_url=url, **variables))


def listening_clients(raw: Any) -> list[dict[str, str]]:
    """Return the connections that wait for the firehose."""
    return [each for each in raw.client_list() if each["cmd"] == "xread"]


def open_stream(store: RedisStore, raw: Any) -> Pages:
    """Return a stream after its first page, when its bell listens."""
    pages = follow(store)
    next(pages)
    wait_until(lambda: listening_clients(raw))
    return pages


def finish(store: RedisStore, job_id: str) -> None:
    """Submit and end a job."""
    world = SyncWorld(store, None)  # type: ignore[arg-type]
    world.submit(job_id)
    world.done(job_id)


def jobs_of(page: EventPage) -> list[str]:
    """Return the jobs of a page."""
    return [event.event().job_id for event in page.events]


def as_superset(job_id: str, channel_id: str = ALICE.channel_id) -> dict[str, str]:
    """Return an entry as Superset writes it."""
    known = {"channel_id": channel_id, "job_id": job_id, "user_id": 7, "status": "done"}
    return {"data": json.dumps({**known, "errors": [], "result_url": None})}


def test_another_writer_rings_too(server: RedisServer, raw: Any) -> None:
    """Superset puts its event on the channel and then on the firehose, each with its own id."""
    pages = open_stream(new_store(server.url), raw)
    for stream in (STREAM, f"{P}full"):
        raw.xadd(stream, as_superset("theirs"))
    assert jobs_of(next(pages)) == ["theirs"]


def test_a_foreign_event_between_two_of_ours_is_not_missed(server: RedisServer, raw: Any) -> None:
    """What rings is not what is passed on: the channel is read."""
    store = new_store(server.url)
    pages = open_stream(store, raw)
    raw.xadd(STREAM, as_superset("theirs"))
    finish(store, "ours")
    seen = jobs_of(next(pages))
    assert seen == ["theirs", "ours"]


@pytest.mark.parametrize(
    "entry",
    [
        {"data": "no json"},
        {"data": "[1]"},
        {"data": "{}"},
        {"other": "x"},
        {"data": "[" * 100_000},
    ],
    ids=["no json", "a list", "no channel", "no data", "deep"],
)
def test_nonsense_on_the_firehose_rings_for_nobody(
    server: RedisServer, raw: Any, entry: dict[str, str]
) -> None:
    """And the next event is still heard."""
    store = new_store(server.url)
    pages = open_stream(store, raw)
    raw.xadd(f"{P}full", entry)
    finish(store, "j1")
    assert jobs_of(next(pages)) == ["j1"]


def test_entries_that_are_no_events_hold_nothing_up(server: RedisServer, raw: Any) -> None:
    """A page that lost some of its entries is full all the same."""
    for number in range(300):
        entry = {"data": "junk"} if number in (50, 150) else as_superset(f"j{number}")
        raw.xadd(STREAM, entry)
    pages = follow(new_store(server.url))
    sizes = [len(next(pages).events) for _ in range(3)]
    assert sizes == [99, 99, 100]


def test_an_entry_of_ours_cannot_forge_an_event(server: RedisServer, raw: Any) -> None:
    """Whoever writes to Redis by hand: a line break in what is passed on would end an event."""
    forged = '{"channel_id": "x"}\n\nid: 9-9\ndata: {"status": "done"}'
    raw.xadd(STREAM, {"data": forged, "gaq": "0-0"})
    raw.xadd(STREAM, as_superset("j1"))
    assert jobs_of(next(follow(new_store(server.url)))) == ["j1"]


def test_a_connection_that_is_cut_is_made_again(server: RedisServer, raw: Any) -> None:
    """Nothing is lost meanwhile, and the streams stay open."""
    store = new_store(server.url)
    pages = open_stream(store, raw)
    for number in range(3):
        (client,) = listening_clients(raw)
        raw.client_kill_filter(_id=client["id"])
        finish(store, f"j{number}")
        assert jobs_of(next(pages)) == [f"j{number}"]
        wait_until(lambda: listening_clients(raw))


def test_one_connection_listens_for_all_streams(server: RedisServer, raw: Any) -> None:
    """One reader of the firehose per process (design 7)."""
    store = new_store(server.url)
    opened = [open_stream(store, raw) for _ in range(5)]
    assert len(listening_clients(raw)) == 1
    finish(store, "j1")
    assert [jobs_of(next(pages)) for pages in opened] == [["j1"]] * 5


def test_the_connection_is_closed_when_nobody_listens(server: RedisServer, raw: Any) -> None:
    """No server of ours waits for nobody."""
    pages = open_stream(new_store(server.url), raw)
    pages.close()
    wait_until(lambda: not listening_clients(raw))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_case_46_a_stream_ends_when_redis_is_lost(
    server: RedisServer, raw: Any, how: signal.Signals
) -> None:
    """It ends within 10 s; nobody is left deaf with an open stream (case 46)."""
    pages = open_stream(new_store(server.url), raw)
    assert server.process is not None
    server.process.send_signal(how)
    began = time.monotonic()
    with pytest.raises(StoreError):
        next(pages)
    assert time.monotonic() - began < LOST_SECONDS


def test_streams_open_again_when_redis_is_back(server: RedisServer, raw: Any) -> None:
    """The bell goes on listening, and tells that the store was lost no longer than it is."""
    store = new_store(server.url)
    pages, other = open_stream(store, raw), follow(store)
    next(other)
    server.stop(signal.SIGKILL)
    for lost in (pages, other):
        with pytest.raises(StoreError):
            next(lost)
    with pytest.raises(StoreError):
        next(follow(store))
    server.start()
    again = open_stream(store, raw)
    finish(store, "j1")
    assert jobs_of(next(again)) == ["j1"]


def test_a_redis_that_moves_is_followed(server: RedisServer, raw: Any) -> None:
    """Behind a name that leads elsewhere, as after a fail-over."""
    proxy = Proxy(server.port)
    store = new_store(proxy.url)
    pages = open_stream(store, raw)
    with RedisServer() as other, other.raw() as other_raw:
        proxy.target = other.port
        (client,) = listening_clients(raw)
        raw.client_kill_filter(_id=client["id"])
        wait_until(lambda: listening_clients(other_raw))
        server.stop(signal.SIGKILL)
        finish(store, "j1")
        assert jobs_of(next(pages)) == ["j1"]
        pages.close()
    proxy.close()


def test_case_123_waiting_reads_have_a_timeout_of_their_own(server: RedisServer, raw: Any) -> None:
    """A socket timeout of the URL that is shorter than a waiting read ends no stream."""
    store = new_store(f"{server.url}?socket_timeout=0.3")
    pages = open_stream(store, raw)
    until = time.monotonic() + 2.5 * BLOCK_SECONDS
    wait_until(lambda: time.monotonic() > until)
    finish(store, "j1")
    assert jobs_of(next(pages)) == ["j1"]


def test_a_redis_that_lets_nobody_listen_ends_streams(server: RedisServer, raw: Any) -> None:
    """Refused XREAD is a store that is lost, not an open stream that is deaf."""
    raw.acl_setuser("app", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-xread"])
    url = server.url.replace("redis://", "redis://app:x@")
    pages = follow(new_store(url))
    next(pages)
    with pytest.raises(StoreError):
        next(pages)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_case_126_streams_work_in_a_fork(server: RedisServer, raw: Any) -> None:
    """The child listens by a thread and a connection of its own."""
    store = new_store(server.url)
    pages = open_stream(store, raw)
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            mine = follow(store)
            next(mine)
            theirs.sendall(b"open")
            os._exit(0 if jobs_of(next(mine)) == ["j1"] else 1)
        finally:
            os._exit(2)
    assert ours.recv(4) == b"open"
    finish(store, "j1")
    assert jobs_of(next(pages)) == ["j1"]
    assert os.waitpid(pid, 0)[1] == 0
    ours.close()
    theirs.close()
