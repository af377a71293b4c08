"""Streams over every store, in threads and in tasks: each event once, as it happens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeVar

import pytest

from gaq_middleware import BadRequestError, Job, Owner
from gaq_middleware.core.commands import Command, EventPage, ReadEvents, SubmitJob
from gaq_middleware.registry import AsyncStream, Listening, Stream, bells, streams
from tests.servers import wait_until
from tests.stores.conftest import ALICE, BOB, AsyncWorld, MakeWorld, World

R = TypeVar("R")
SECONDS = 20.0
"""After so long a stream has ended, which fails the test that still waits for something."""
EMPTY = EventPage(())


class Following:
    """A stream that is read page by page, whatever its colour."""

    def __init__(
        self, world: World, after: str = "", owner: Owner = ALICE, seconds: float = SECONDS
    ) -> None:
        listening = Listening(
            channel_id=owner.channel_id, after=after, seconds=seconds, clock=world.clock
        )
        self._world = world
        if isinstance(world, AsyncWorld):
            self._pages: Any = AsyncStream(world.store, listening).pages()
        else:
            self._pages = Stream(world.store, listening).pages()

    def page(self) -> EventPage | None:
        """Return the next page, None after the last."""
        if isinstance(self._world, AsyncWorld):
            found = self._world.loop.run_until_complete(anext(self._pages, None))
        else:
            found = next(self._pages, None)
        assert found is None or isinstance(found, EventPage)
        return found

    def jobs(self) -> list[str]:
        """Return the ids of the jobs of the next page."""
        page = self.page()
        assert page is not None, "the stream has ended"
        return [event.event().job_id for event in page.events]

    def close(self) -> None:
        """Leave."""
        if isinstance(self._world, AsyncWorld):
            self._world.loop.run_until_complete(self._pages.aclose())
        else:
            self._pages.close()


Follow = Callable[..., Following]


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Follow]:
    """Return a function that opens a stream that only a ring can wake; all are closed."""
    monkeypatch.setattr(streams, "HEARTBEAT", 3600.0)
    with ExitStack() as stack:

        def open_stream(*args: Any, **kwargs: Any) -> Following:
            following = Following(*args, **kwargs)
            stack.callback(following.close)
            return following

        yield open_stream


def later(action: Callable[[], object]) -> None:
    """Do something in another thread while this one waits."""
    threading.Timer(0.1, action).start()


def end(world: World, job_id: str, owner: Owner = ALICE) -> None:
    """Submit a job and end it, from whatever thread this is."""
    world.store.execute(world.submit_command(job_id, owner))
    world.store.execute(world.done_command(job_id))


def test_what_there_is_comes_first_then_what_happens(world: World, follow: Follow) -> None:
    """The oldest first, from the start without a cursor; then each as it ends."""
    end(world, "j1")
    stream = follow(world)
    assert stream.jobs() == ["j1"]
    later(lambda: end(world, "j2"))
    assert stream.jobs() == ["j2"]
    later(lambda: end(world, "j3"))
    assert stream.jobs() == ["j3"]


def test_a_stream_begins_with_a_page_even_if_nothing_is_there(world: World, follow: Follow) -> None:
    """So that its reader sees at once that it is open."""
    assert follow(world).page() == EMPTY


def test_case_43_more_than_a_page_comes_page_by_page(world: World, follow: Follow) -> None:
    """250 events come as 100, 100 and 50 without waiting for a ring."""
    for number in range(250):
        end(world, f"j{number}")
    stream = follow(world)
    pages = [stream.jobs() for _ in range(3)]
    assert [len(page) for page in pages] == [100, 100, 50]
    assert [job for page in pages for job in page] == [f"j{number}" for number in range(250)]


def test_case_45_a_stream_resumes_after_a_cursor(world: World, follow: Follow) -> None:
    """What was published while the reader was away is delivered once."""
    end(world, "j1")
    page = follow(world).page()
    assert page is not None
    end(world, "j2")
    stream = follow(world, after=page.events[-1].id)
    assert stream.jobs() == ["j2"]


def test_only_its_own_channel_is_on_a_stream(world: World, follow: Follow) -> None:
    """Another's end neither shows nor wakes (case 147)."""
    stream = follow(world)
    assert stream.page() == EMPTY
    end(world, "b1", BOB)
    later(lambda: end(world, "a1"))
    assert stream.jobs() == ["a1"]


def test_several_streams_of_one_channel_each_see_everything(world: World, follow: Follow) -> None:
    """Two browsers of one user."""
    both = [follow(world), follow(world)]
    assert [stream.page() for stream in both] == [EMPTY, EMPTY]
    end(world, "j1")
    assert [stream.jobs() for stream in both] == [["j1"], ["j1"]]


def test_a_gap_is_told(make_world: MakeWorld, follow: Follow) -> None:
    """Events after the cursor were trimmed away."""
    world = make_world(2)
    end(world, "j0")
    first = world.read().events[0].id
    for number in range(1, 300):
        end(world, f"j{number}")
    page = follow(world, after=first).page()
    assert page is not None
    assert page.gap


def test_a_gap_is_told_to_a_stream_that_was_opened_without_cursor(
    make_world: MakeWorld, follow: Follow
) -> None:
    """What was trimmed away after it was open is missed, whether it had seen an event or not."""
    world = make_world(2)
    stream = follow(world)
    assert stream.page() == EMPTY
    for number in range(300):
        end(world, f"j{number}")
    page = stream.page()
    assert page is not None
    assert page.gap
    assert page.events


def test_signs_of_life_ask_the_store_for_nothing(
    world: World, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of silent streams cost it nothing."""
    monkeypatch.setattr(streams, "HEARTBEAT", 0.01)
    asked: list[object] = []
    execute, aexecute = world.store.execute, world.store.aexecute

    def watched(command: Command[R]) -> R:
        asked.append(command)
        return execute(command)

    async def awatched(command: Command[R]) -> R:
        asked.append(command)
        return await aexecute(command)

    stream = follow(world)
    assert stream.page() == EMPTY
    monkeypatch.setattr(world.store, "execute", watched)
    monkeypatch.setattr(world.store, "aexecute", awatched)
    assert [stream.page() for _ in range(20)] == [EMPTY] * 20
    assert len([each for each in asked if isinstance(each, ReadEvents)]) <= 1  # it rings at first


def test_a_stream_ends_when_its_time_is_over(world: World, follow: Follow) -> None:
    """After what was there, and without being rung."""
    end(world, "j1")
    stream = follow(world, seconds=0.2)
    assert stream.jobs() == ["j1"]
    assert stream.page() is None


def test_a_silent_stream_gives_signs_of_life(
    world: World, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty pages, again and again."""
    monkeypatch.setattr(streams, "HEARTBEAT", 0.05)
    stream = follow(world)
    assert [stream.page() for _ in range(4)] == [EMPTY] * 4


def test_a_look_at_the_heartbeat_finds_what_no_ring_told(
    world: World, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bell is a help, not a promise."""
    monkeypatch.setattr(streams, "HEARTBEAT", 0.05)
    monkeypatch.setattr(streams, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(bells.Bell, "ring", lambda self, channel_id: None)
    stream = follow(world)
    assert stream.page() is not None
    for number in range(250):
        end(world, f"j{number}")
    monkeypatch.setattr(streams, "LOOK_SECONDS", 3600.0)  # one look finds all pages
    seen: list[str] = []
    while len(seen) < 250:
        seen += stream.jobs()
    assert seen == [f"j{number}" for number in range(250)]


def test_case_52_a_job_that_is_lost_shows_on_an_open_stream(world: World, follow: Follow) -> None:
    """Nobody polls; whoever listens ends what is overdue."""
    world.clock.now = time.time()
    stream = follow(world)
    assert stream.page() == EMPTY
    job = Job.new(ALICE, "lost", {})
    world.store.execute(SubmitJob.of(job, now=time.time(), ttl=0.01, attempt="a"))
    page = stream.page()
    assert page is not None
    (event,) = [text.event() for text in page.events]
    assert (event.job_id, event.status, event.errors[0]["code"]) == ("lost", "error", "job_lost")


@pytest.mark.parametrize("after", ["abc", "$", "1-2-3", "5-", "18446744073709551616-0"])
def test_case_42_a_cursor_that_is_none_opens_nothing(world: World, after: str) -> None:
    """400 `bad_last_id`, before the store is asked."""
    with pytest.raises(BadRequestError) as caught:
        Following(world, after=after)
    assert caught.value.error_code == "bad_last_id"


def test_nobody_listens_when_all_have_left(world: World, follow: Follow) -> None:
    """The thread that listens ends, and begins again with the next stream."""
    for job_id in ("j1", "j2"):
        stream = follow(world, owner=Owner(f"user-{job_id}", "7"))
        assert stream.page() == EMPTY
        later(partial(end, world, job_id, Owner(f"user-{job_id}", "7")))
        assert stream.jobs() == [job_id]
        stream.close()
        wait_until(lambda: not listeners())


def listeners() -> list[str]:
    """Return the threads that listen."""
    return [thread.name for thread in threading.enumerate() if thread.name == "gaq-bell"]


def test_every_reader_sees_every_event_once_and_in_order(world: World, follow: Follow) -> None:
    """8 threads end 200 jobs of two owners while streams of both are open."""
    readers = {owner: follow(world, owner=owner) for owner in (ALICE, BOB)}
    jobs = {owner: [f"{owner.user_id}-{number}" for number in range(100)] for owner in readers}

    def work(start: int) -> None:
        for number in range(start, 100, 8):
            for owner in readers:
                end(world, jobs[owner][number], owner)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(8)]
    for thread in threads:
        thread.start()
    seen: dict[Owner, list[str]] = {owner: [] for owner in readers}
    for owner, reader in readers.items():
        while len(seen[owner]) < 100:
            seen[owner] += reader.jobs()
    for thread in threads:
        thread.join()
    for owner in readers:
        assert seen[owner] == [job for job, _ in world.ends(owner)]
        assert sorted(seen[owner]) == sorted(jobs[owner])
