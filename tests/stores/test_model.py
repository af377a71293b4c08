"""Any sequence of commands gives what a plain dict would."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from gaq_middleware import Owner
from gaq_middleware.core.commands import RETENTION, Outcome
from tests.stores.conftest import ALICE, BOB, GUEST, TTL, MakeWorld, World

IDS = st.sampled_from(["j0", "j1", "j2", "j3"])
OWNERS = st.sampled_from([ALICE, BOB, GUEST])
ATTEMPTS = st.sampled_from(["a0", "a1", "a2", "a3", "a4"])


@dataclass
class Kept:
    """What the model knows of a job."""

    owner: Owner
    submit_attempt: str
    deadline: float
    status: str = "pending"
    end_attempt: str = ""
    expires: float = field(default=float("inf"))


class Machine(RuleBasedStateMachine):
    """A store beside a dict of jobs and a list of events per channel."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.jobs: dict[str, Kept] = {}
        self.events: dict[str, list[tuple[str, str, float]]] = {}

    def look(self, job_id: str) -> Kept | None:
        """Bring the model up to the present; return a job."""
        now = self.world.clock.now
        for known, job in sorted(self.jobs.items(), key=lambda item: item[1].deadline):
            if job.status in ("pending", "running") and job.deadline <= now:
                self.end(known, "error")
        self.jobs = {known: job for known, job in self.jobs.items() if job.expires > now}
        return self.jobs.get(job_id)

    def end(self, job_id: str, status: str, attempt: str = "") -> None:
        """End a job in the model."""
        job = self.jobs[job_id]
        job.status, job.end_attempt = status, attempt
        job.expires = self.world.clock.now + TTL + RETENTION
        self.events.setdefault(job.owner.channel_id, []).append((job_id, status, job.expires))

    @rule(job_id=IDS, owner=OWNERS, attempt=ATTEMPTS)
    def submit(self, job_id: str, owner: Owner, attempt: str) -> None:
        """An id is taken once, except by the same attempt."""
        job = self.look(job_id)
        if job is None:
            self.jobs[job_id] = Kept(owner, attempt, self.world.clock.now + TTL)
        expected = Outcome.OK if job is None or job.submit_attempt == attempt else Outcome.EXISTS
        assert self.world.submit(job_id, owner, attempt).outcome is expected

    @rule(job_id=IDS, status=st.sampled_from(["running", None]))
    def keep_alive(self, job_id: str, status: str | None) -> None:
        """A start or touch moves the deadline of a live job."""
        job = self.look(job_id)
        expected = Outcome.MISSING
        if job is not None:
            expected = Outcome.OK if job.expires == float("inf") else Outcome.ENDED
            if expected is Outcome.OK:
                job.deadline = self.world.clock.now + TTL
                job.status = status or job.status
        call = self.world.start if status else self.world.touch
        assert call(job_id) is expected

    @rule(job_id=IDS, attempt=ATTEMPTS)
    def finish(self, job_id: str, attempt: str) -> None:
        """The first end wins; its own attempt may repeat it."""
        expected = self.expect_end(job_id, "done", attempt)
        assert self.world.done(job_id, attempt=attempt) is expected

    @rule(job_id=IDS, owner=OWNERS, attempt=ATTEMPTS)
    def cancel(self, job_id: str, owner: Owner, attempt: str) -> None:
        """As any end, but for the owner only."""
        job = self.look(job_id)
        if job is not None and job.owner != owner:
            expected = Outcome.STRANGER
        else:
            expected = self.expect_end(job_id, "cancelled", attempt)
        assert self.world.cancel(job_id, owner, attempt).outcome is expected

    def expect_end(self, job_id: str, status: str, attempt: str) -> Outcome:
        """End a job in the model if it may end; return what the store must say."""
        job = self.look(job_id)
        if job is None:
            return Outcome.MISSING
        if job.end_attempt == attempt:
            return Outcome.OK
        if job.expires != float("inf"):
            return Outcome.ENDED
        self.end(job_id, status, attempt)
        return Outcome.OK

    @rule(seconds=st.sampled_from([0.5, TTL / 2, TTL]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.world.clock.now += seconds

    @rule()
    def wait_until_all_is_forgotten(self) -> None:
        """A long time passes after everything has ended."""
        self.wait(TTL)
        self.store_and_model_agree()
        self.wait(TTL + RETENTION)

    @rule(limit=st.integers(1, 3))
    def reap_what_is_overdue(self, limit: int) -> None:
        """The reaper ends all overdue jobs, at most so many at a time."""
        self.wait(TTL / 2)
        now = self.world.clock.now
        due = sum(job.deadline <= now and job.expires == float("inf") for job in self.jobs.values())
        counts = [self.world.reap(limit) for _ in range(len(self.jobs) + 1)]
        assert sum(counts) == due
        assert max(counts) <= limit
        self.look("")

    @invariant()
    def store_and_model_agree(self) -> None:
        """Every job and every channel is as the model says."""
        for job_id in ("j0", "j1", "j2", "j3"):
            job, kept = self.world.get(job_id), self.look(job_id)
            assert (job is None) == (kept is None)
            if job is not None and kept is not None:
                assert (job.owner, job.status) == (kept.owner, kept.status)
        now = self.world.clock.now
        for owner in (ALICE, BOB, GUEST):
            events = self.events.get(owner.channel_id, [])
            kept_events = sorted((job, status) for job, status, expires in events if expires > now)
            assert sorted(self.world.ends(owner)) == kept_events


def test_any_sequence_of_commands_gives_what_a_plain_dict_would(make_world: MakeWorld) -> None:
    """Jobs, replies and events are those of the model after every step."""

    class Fresh(Machine):
        def __init__(self) -> None:
            super().__init__(make_world())

    run_state_machine_as_test(
        Fresh, settings=settings(max_examples=60, stateful_step_count=40, deadline=None)
    )
