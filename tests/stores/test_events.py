"""The laws of every store about events, and about many callers at once."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gaq_middleware import NotJobOwnerError, Owner
from gaq_middleware.core.commands import Outcome
from gaq_middleware.core.jobs import parse_cursor
from tests.stores.conftest import ALICE, BOB, TTL, MakeWorld, Script, World, never

SAFE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
"""The fixture makes a new world for every example."""


class TestEvents:
    """In order, strictly after the cursor, each once."""

    def finish(self, world: World, count: int) -> list[str]:
        """End so many jobs; return their ids in that order."""
        ids = [f"j{number}" for number in range(count)]
        for job_id in ids:
            world.submit(job_id)
            world.done(job_id)
        return ids

    def test_case_38_the_cursor_of_a_submit_is_older_than_its_event(self, world: World) -> None:
        """Reading from the 202's cursor shows the job's end, the channel's first one too."""
        first = world.jobs(ALICE).submit()
        world.registry().done(first)
        second = world.jobs(ALICE).submit()
        world.registry().done(second)

        assert [e.job_id for e in world.jobs(ALICE).events(first.last_id)] == [
            first.job_id,
            second.job_id,
        ]
        assert [e.job_id for e in world.jobs(ALICE).events(second.last_id)] == [second.job_id]
        assert world.jobs(ALICE).get(second.job_id).last_id == second.last_id

    def test_case_40_reading_after_any_event_gives_the_next(self, world: World) -> None:
        """Ids are pairs of numbers: events of one millisecond are not lost after number 19."""
        self.finish(world, 60)
        events = world.read().events
        ids = [parse_cursor(event.id) for event in events]

        assert ids == sorted(set(ids))
        for place, event in enumerate(events[:-1]):
            assert world.read(event.id, limit=1).events == (events[place + 1],)

    def test_case_43_following_the_last_id_pages_through(self, world: World) -> None:
        """250 events come as 100, 100 and 50, ascending and each once."""
        ids = self.finish(world, 250)
        sizes, seen, after = [], list[str](), None
        while events := world.jobs(ALICE).events(after):
            sizes.append(len(events))
            seen += [event.job_id for event in events]
            after = events[-1].id

        assert sizes == [100, 100, 50]
        assert seen == ids

    def test_case_45_events_of_an_absence_are_delivered_once(self, world: World) -> None:
        """Whoever comes back with the last id gets what happened meanwhile, once."""
        self.finish(world, 1)
        last = world.read().events[-1].id
        world.submit("away")
        world.cancel("away")
        (event,) = world.read(last).events

        assert event.event().job_id == "away"
        assert world.read(event.id).events == ()

    def test_case_129_a_channel_keeps_at_most_its_limit(self, make_world: MakeWorld) -> None:
        """Old events go, up to a tenth above the limit; the newest stay."""
        world = make_world(1000)
        self.finish(world, 5000)
        kept = world.ends()

        assert 1000 <= len(kept) <= 1100
        assert kept[-1] == ("j4999", "done")

    def test_case_131_the_cursor_is_exclusive_once(self, world: World) -> None:
        """After the first of three events the other two come."""
        ids = self.finish(world, 3)
        first = world.read().events[0].id

        assert [e.event().job_id for e in world.read(first).events] == ids[1:]

    def test_case_134_writers_with_different_clocks_disturb_nobody(self, world: World) -> None:
        """Ids rise strictly when one of two writers is two seconds behind."""
        for number in range(1000):
            world.submit(f"j{number}")
            world.clock.now += 2 if number % 2 else -2
            world.done(f"j{number}")
        ids: list[tuple[int, int]] = []
        after = None
        while events := world.read(after).events:
            ids += [parse_cursor(event.id) for event in events]
            after = events[-1].id

        assert len(ids) == 1000
        assert ids == sorted(set(ids))

    def test_a_gap_is_told_when_unread_events_were_trimmed(self, make_world: MakeWorld) -> None:
        """A cursor older than what is gone has a gap; a newer one or none has not."""
        world = make_world(10)
        self.finish(world, 1)
        old = world.read().events[0].id
        assert not world.read(old).gap
        for number in range(500):
            world.submit(f"k{number}")
            world.done(f"k{number}")
        kept = world.read().events

        assert world.read(old).gap
        assert world.read("0-0").gap
        assert not world.read(kept[0].id).gap
        assert not world.read(kept[-1].id).gap
        assert not world.read().gap
        assert world.jobs(ALICE).read(old).gap
        assert not world.jobs(ALICE).read().gap
        assert not world.jobs(ALICE).read("").gap

    def test_channels_do_not_mix(self, world: World) -> None:
        """An owner reads their own channel only."""
        world.submit("a", ALICE)
        world.submit("b", BOB)
        world.done("a")
        world.done("b")

        assert (world.ends(ALICE), world.ends(BOB)) == ([("a", "done")], [("b", "done")])

    def test_a_cursor_ahead_of_everything_reads_nothing(self, world: World) -> None:
        """The greatest cursor there can be is no error."""
        self.finish(world, 1)

        assert world.read(f"{2**64 - 1}-{2**64 - 1}").events == ()

    @SAFE
    @given(chunks=st.lists(st.integers(1, 9), min_size=1, max_size=20))
    def test_any_chunks_yield_each_event_once(
        self, make_world: MakeWorld, chunks: list[int]
    ) -> None:
        """Reading on from the last id, in chunks of any size, loses and repeats nothing."""
        world = make_world(1000)
        ids = self.finish(world, 30)
        seen, after = list[str](), None
        for chunk in [*chunks, 30]:
            events = world.read(after, limit=chunk).events
            seen += [event.event().job_id for event in events]
            after = events[-1].id if events else after

        assert seen == ids


class TestTogether:
    """What holds for one caller holds for many at once."""

    def test_every_job_ends_exactly_once_under_every_race(self, make_world: MakeWorld) -> None:
        """50 callers submit, finish and cancel the same 1,000 jobs: one event for each job."""
        world = make_world(2000)
        ids = [f"j{number}" for number in range(1000)]
        won: list[str] = []

        def script(seed: int) -> Script:
            order = random.Random(seed)
            for job_id in order.sample(ids, len(ids)):
                yield world.submit_command(job_id)
                if order.random() < 0.5:
                    outcome = yield world.done_command(job_id)
                else:
                    outcome = (yield world.cancel_command(job_id)).outcome
                won.extend([job_id] if outcome is Outcome.OK else [])

        world.together([script(seed) for seed in range(50)])

        assert Counter(won) == Counter(ids)
        assert Counter(job_id for job_id, _ in world.ends()) == Counter(ids)

    def test_no_event_is_lost_to_readers_while_others_write(self, world: World) -> None:
        """Readers that follow the cursor in small chunks see all events, in one order."""
        ids = {f"w{writer}-{number}" for writer in range(5) for number in range(100)}
        for job_id in ids:
            world.submit(job_id)

        def writer(number: int) -> Script:
            for job_id in [f"w{number}-{n}" for n in range(100)]:
                yield world.done_command(job_id)

        seen: list[list[str]] = [[] for _ in range(5)]

        def reader(number: int) -> Script:
            after = None
            for _ in range(100_000):
                page = yield world.read_command(after, limit=number + 1)
                seen[number] += [text.event().job_id for text in page.events]
                after = page.events[-1].id if page.events else after
                if len(seen[number]) >= len(ids):
                    return

        world.together([*map(writer, range(5)), *map(reader, range(5))])

        assert set(seen[0]) == ids
        assert seen[1:] == [seen[0]] * 4

    def test_an_overdue_job_is_lost_once_however_many_look(self, world: World) -> None:
        """Twenty callers that look at the same time make one event."""
        world.submit("j")
        world.clock.now += TTL

        def look() -> Script:
            yield world.read_command()
            yield world.done_command("j")
            yield world.cancel_command("j")

        world.together([look() for _ in range(20)])

        assert world.ends() == [("j", "error")]


OWNERS = st.builds(
    Owner,
    st.sampled_from(["user-a", "user-b", "guest-a", "guest-b"]),
    st.sampled_from([None, "7", "07", "7.0", "None", ""]),
)


@SAFE
@given(owner=OWNERS, other=OWNERS)
def test_no_identity_reads_or_cancels_another_s_job(
    make_world: MakeWorld, owner: Owner, other: Owner
) -> None:
    """Whoever differs in channel or user is refused; whoever differs in neither is not."""
    world = make_world(1000)
    job = world.jobs(owner).submit()
    if owner == other:
        assert world.jobs(other).get(job.job_id) == job
        return
    for operation in (world.jobs(other).get, world.jobs(other, never).cancel):
        with pytest.raises(NotJobOwnerError):
            operation(job.job_id)
    world.registry().done(job)

    assert world.ends(owner) == [(job.job_id, "done")]
    if owner.channel_id != other.channel_id:
        assert world.jobs(other).events() == []
