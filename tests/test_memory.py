"""The memory store: its ids, its bounds, and what makes room for what."""

from __future__ import annotations

import asyncio

import pytest

from gaq_middleware import Owner, StoreError
from gaq_middleware.core.commands import (
    RETENTION,
    EventPage,
    FinishJob,
    GetJob,
    Outcome,
    ReadEvents,
    ReapJobs,
    SubmitJob,
    SubmitReply,
    TouchJob,
)
from gaq_middleware.core.jobs import Job, parse_cursor
from gaq_middleware.registry import Listening, Stream, streams
from gaq_middleware.registry.eventlog import OVERHEAD as EVENT_OVERHEAD
from gaq_middleware.registry.eventlog import EventLog
from gaq_middleware.registry.memory import OVERHEAD, SLACK, MemoryStore
from tests.helpers import NOW

ALICE, BOB = Owner("user-a", "7"), Owner("user-b", "8")
TTL = 60.0
KIB = 1024


class Memory(MemoryStore):
    """A memory store with short calls and a time that is set by hand."""

    now = 1_800_000_000.0

    def submit(self, job_id: str, owner: Owner = ALICE, **extra: object) -> SubmitReply:
        """Submit a job."""
        job = Job.new(owner, job_id, extra)
        return self.execute(SubmitJob.of(job, now=self.now, ttl=TTL, attempt=f"s-{job_id}"))

    def done(self, job_id: str, url: str | None = None) -> Outcome:
        """End a job."""
        return self.execute(
            FinishJob.done(job_id, url, now=self.now, ttl=TTL, attempt=f"d-{job_id}")
        )

    def finish(self, *job_ids: str, owner: Owner = ALICE) -> None:
        """Submit and end jobs."""
        for job_id in job_ids:
            self.submit(job_id, owner)
            self.done(job_id)

    def read(self, after: str | None = None, owner: Owner = ALICE) -> EventPage:
        """Read all events after a cursor."""
        cursor = None if after is None else parse_cursor(after)
        return self.execute(
            ReadEvents(channel_id=owner.channel_id, after=cursor, limit=10_000, now=self.now)
        )

    def ids(self, after: str | None = None, owner: Owner = ALICE) -> list[str]:
        """Return the ids of all events after a cursor."""
        return [event.id for event in self.read(after, owner).events]

    def get(self, job_id: str) -> Job | None:
        """Read a job."""
        return self.execute(GetJob(job_id=job_id, now=self.now))

    def knows(self, *job_ids: str) -> list[bool]:
        """Return which of these jobs are kept."""
        return [self.get(job_id) is not None for job_id in job_ids]


class TestIds:
    """Milliseconds and sequence, as Redis makes them."""

    def test_case_40_after_5_19_comes_5_20(self) -> None:
        """The sequence is a number, not a last digit."""
        store = Memory()
        store.now = 0.005
        store.finish(*(f"j{number}" for number in range(22)))

        assert store.ids("5-19") == ["5-20", "5-21"]

    def test_case_131_after_1_0_come_the_other_two(self) -> None:
        """Reading is exclusive once."""
        store = Memory()
        store.now = 0.001
        store.finish("a", "b", "c")

        assert store.ids() == ["1-0", "1-1", "1-2"]
        assert store.ids("1-0") == ["1-1", "1-2"]
        assert store.ids("1") == ["1-1", "1-2"]
        assert store.ids("1-1") == ["1-2"]
        assert store.ids("2-0") == []

    def test_ids_rise_when_the_clock_goes_back(self) -> None:
        """An id is never below the one before it."""
        store = Memory()
        for now in (0.005, 0.003, 0.006, 0.001):
            store.now = now
            store.finish(f"j{now}")

        assert store.ids() == ["5-0", "5-1", "6-0", "6-1"]

    def test_ids_rise_over_the_end_of_a_channel(self) -> None:
        """A channel that was forgotten goes on with greater ids, even if the clock went back."""
        store = Memory()
        store.finish("a")
        (old,) = store.ids()
        store.now += TTL + RETENTION
        assert store.ids() == []
        store.now -= 2 * RETENTION
        store.finish("b")

        assert parse_cursor(store.ids()[0]) > parse_cursor(old)


class TestTrimming:
    """A channel keeps its newest events, and says what it has dropped."""

    @pytest.mark.parametrize("limit", [1, 2, 3, 10])
    def test_a_channel_keeps_exactly_its_limit(self, limit: int) -> None:
        """The oldest go first."""
        store = Memory(limit)
        store.now = 0.001
        store.finish(*(f"j{number}" for number in range(50)))

        assert store.ids() == [f"1-{number}" for number in range(50 - limit, 50)]
        assert store.ids("1-48") == ["1-49"]

    def test_a_gap_is_exact(self) -> None:
        """Whoever has the last trimmed event has missed nothing."""
        store = Memory(3)
        store.now = 0.001
        store.finish(*(f"j{number}" for number in range(10)))

        assert store.read("1-5").gap
        assert not store.read("1-6").gap
        assert not store.read("1-7").gap
        assert not store.read().gap

    def test_trimming_leaves_other_channels_alone(self) -> None:
        """The limit is per channel."""
        store = Memory(2)
        store.finish("b", owner=BOB)
        store.finish("a1", "a2", "a3")

        assert (len(store.ids()), len(store.ids(owner=BOB))) == (2, 1)
        assert not store.read("0-0", BOB).gap


class TestBounds:
    """Nothing grows without end, and nothing that matters is dropped silently."""

    def test_a_store_full_of_live_jobs_refuses_new_ones(self) -> None:
        """503 with the reason; what is there stays, and works on."""
        store = Memory(max_job_bytes=5 * (OVERHEAD + KIB))
        kept = [f"j{number}" for number in range(5)]
        for job_id in kept:
            store.submit(job_id, sql="x" * 800)
        with pytest.raises(StoreError, match="full of jobs that have not ended"):
            store.submit("j5", sql="x" * 800)

        assert store.knows(*kept, "j5") == [True] * 5 + [False]
        assert [store.done(job_id) for job_id in kept] == [Outcome.OK] * 5
        assert len(store.ids()) == 5

    def test_ended_jobs_make_room_oldest_end_first(self) -> None:
        """A new job takes the place of the one that ended first, not of a live one."""
        store = Memory(max_job_bytes=4 * (OVERHEAD + 200))
        for job_id in ("live", "second", "first"):
            store.submit(job_id)
        store.done("first")
        store.done("second")
        store.submit("new1")
        store.submit("new2")

        assert store.knows("live", "first", "second", "new1", "new2") == [
            True,
            False,
            True,
            True,
            True,
        ]
        assert len(store.ids()) == 2

    def test_a_big_end_makes_room_among_the_ended(self) -> None:
        """The end of a job is always taken; older ended ones go."""
        store = Memory(max_job_bytes=4 * (OVERHEAD + 200))
        for job_id in ("a", "b", "c"):
            store.submit(job_id)
        store.done("a")
        store.done("b", "u" * 8_000)

        assert store.knows("a", "b", "c") == [False, True, True]
        assert store.done("c", "u" * 8_000) is Outcome.OK
        assert store.knows("b", "c") == [False, True]
        assert len(store.ids()) == 3

    def test_room_is_given_back(self) -> None:
        """What has ended and expired no longer counts."""
        store = Memory(max_job_bytes=3 * (OVERHEAD + 200))
        for _ in range(5):
            store.finish("a", "b", "c")
            store.now += TTL + RETENTION
        for job_id in ("a", "b", "c"):
            store.submit(job_id)

        assert store.knows("a", "b", "c") == [True, True, True]

    def test_events_of_all_channels_share_their_room(self) -> None:
        """The oldest events go first, whatever their channel; a cursor before them has a gap."""
        store = Memory(max_event_bytes=10 * KIB)
        store.finish("b1", "b2", owner=BOB)
        first, second = store.ids(owner=BOB)
        for number in range(10):
            store.submit(f"a{number}")
            store.done(f"a{number}", "u" * 300)

        assert len(store.ids()) == 10
        assert store.ids(owner=BOB) == [second]
        assert store.read("0-0", BOB).gap
        assert not store.read(first, BOB).gap

    def test_a_channel_without_events_is_forgotten(self) -> None:
        """Channels do not add up."""
        store = Memory(max_event_bytes=1)
        for number in range(50):
            store.finish(f"j{number}", owner=Owner(f"user-{number}", "1"))

        assert [len(store.ids(owner=Owner(f"user-{n}", "1"))) for n in (0, 48, 49)] == [0, 0, 1]
        assert len(store._log._streams) == 1

    def test_the_newest_event_is_kept_whatever_its_size(self) -> None:
        """An end is never lost at once."""
        store = Memory(max_event_bytes=1)
        store.submit("a")
        store.done("a", "u" * 8_000)

        assert len(store.ids()) == 1

    def test_a_busy_channel_does_not_fill_the_log(self) -> None:
        """Events that their channel trimmed do not pile up elsewhere."""
        store = Memory(2, max_event_bytes=64 * KIB)
        store.finish("b", owner=BOB)
        store.finish(*(f"j{number}" for number in range(500)))

        assert len(store.ids()) == 2
        assert len(store._log._entries) <= 64 * KIB // EVENT_OVERHEAD

    def test_the_texts_of_trimmed_events_are_let_go(self) -> None:
        """A channel holds the texts of the events that it keeps, and room for as many more."""
        store = Memory(10)
        for number in range(47):
            store.finish(f"j{number}")
        events = store._log._streams["user-a"].events

        assert len(events) <= 20
        assert len([event for event in events if event.payload]) == 10

    def test_deadlines_of_ended_jobs_do_not_pile_up(self) -> None:
        """The heap is cleared of them once they are more than the live ones."""
        store = Memory()
        for number in range(10):
            store.submit(f"live{number}")
        for number in range(5 * SLACK):
            store.finish(f"j{number}")

        assert len(store._deadlines) <= 2 * 11 + SLACK
        store.now += TTL
        assert store.execute(ReapJobs(now=store.now, limit=100)) == 10

    def test_touching_does_not_grow_the_heap(self) -> None:
        """A live job has one deadline, however often it moves."""
        store = Memory()
        store.submit("j")
        for _ in range(100):
            store.now += TTL / 2
            assert store.execute(TouchJob(job_id="j", now=store.now, ttl=TTL)) is Outcome.OK

        assert len(store._deadlines) == 1

    def test_clearing_the_heap_while_jobs_are_lost_loses_none(self) -> None:
        """Many jobs overdue at once all end, each once."""
        store = Memory(10_000)
        for number in range(3 * SLACK):
            store.submit(f"j{number}")
        store.now += TTL
        assert len(set(store.ids())) == 3 * SLACK
        assert store._deadlines == []


def test_a_record_is_kept_for_the_time_to_live_of_its_end() -> None:
    """The one that ended it says how long; for a lost job, the one that submitted it."""
    store = Memory()
    store.submit("lost")
    store.now += TTL
    store.submit("done")
    store.execute(FinishJob.done("done", None, now=store.now, ttl=TTL + 5, attempt="a"))
    store.now += RETENTION + TTL - 1
    assert store.knows("lost", "done") == [True, True]
    store.now += 1
    assert store.knows("lost", "done") == [False, True]
    store.now += 5
    assert store.knows("done") == [False]


def test_the_awaitable_does_the_same() -> None:
    """`aexecute` is `execute`."""
    store = Memory()
    store.submit("j")

    assert asyncio.run(store.aexecute(GetJob(job_id="j", now=store.now))) == store.get("j")


def test_a_channel_that_was_crowded_out_shows_a_gap() -> None:
    """One owner's flood must not erase another's events silently: the cursor tells of a gap."""
    log = EventLog(10, 2_000)
    log.append("quiet", "{}", NOW, NOW + 9)
    seen = log.last_id("quiet")
    for _ in range(10):
        log.append("loud", "{}", NOW, NOW + 9)

    assert log.read("quiet", (0, 0), 100) == EventPage((), gap=True)
    assert log.read("quiet", parse_cursor(seen), 100) == EventPage(())
    assert log.last_id("quiet") == seen
    assert log.read("never", (0, 0), 100) == EventPage(())
    log.append("quiet", "{}", NOW, NOW + 9)
    assert log.read("quiet", (0, 0), 100).gap


def test_the_memory_of_crowded_out_channels_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most so many newest ids are kept; the oldest go."""
    monkeypatch.setattr("gaq_middleware.registry.eventlog.MAX_FORGOTTEN", 3)
    log = EventLog(10, 1)
    for number in range(9):
        log.append(str(number), "{}", NOW, NOW + 9)

    gaps = [log.read(str(number), (0, 0), 100).gap for number in range(9)]
    assert gaps == [False] * 5 + [True] * 3 + [False]


def test_a_gap_without_events_is_told_once_on_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """All events of the channel were crowded out, so its cursor cannot move."""
    monkeypatch.setattr(streams, "HEARTBEAT", 0.01)
    monkeypatch.setattr(streams, "LOOK_SECONDS", 0.0)
    store = MemoryStore(max_event_bytes=1)
    for job_id, owner in (("a1", ALICE), ("b1", BOB)):
        store.execute(SubmitJob.of(Job.new(owner, job_id, {}), now=NOW, ttl=TTL, attempt="a"))
        store.execute(FinishJob.done(job_id, None, now=NOW, ttl=TTL, attempt="b"))
    listening = Listening(channel_id=ALICE.channel_id, after="1-0", seconds=5.0, clock=lambda: NOW)
    pages = Stream(store, listening).pages()
    assert [next(pages).gap for _ in range(4)] == [True, False, False, False]
