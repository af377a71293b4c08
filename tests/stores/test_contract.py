"""The laws of every store about jobs: submit, move, cancel, and end in time."""

from __future__ import annotations

import json

import pytest

from gaq_middleware import Job, JobNotFoundError, JobStateError, NotJobOwnerError, Owner
from gaq_middleware.core.commands import RETENTION, Outcome
from gaq_middleware.core.jobs import Status
from tests.stores.conftest import ALICE, BOB, GUEST, TTL, World, never

LOST = [{"message": "The job gave no sign of life and was given up.", "code": "job_lost"}]


class TestSubmit:
    """A job is kept once and given back as it was."""

    def test_a_new_job_is_pending_and_has_no_event(self, world: World) -> None:
        """Submitting publishes nothing."""
        assert world.submit("j").outcome is Outcome.OK
        job = world.get("j")

        assert job is not None
        assert (job.status, job.owner, job.errors, job.result_url) == ("pending", ALICE, [], None)
        assert world.ends() == []

    def test_an_id_that_exists_is_not_overwritten(self, world: World) -> None:
        """A second submit of an id changes nothing, whoever sends it."""
        world.submit("j", sql="first")

        assert world.submit("j", BOB, sql="second").outcome is Outcome.EXISTS
        job = world.get("j")
        assert job is not None
        assert (job.owner, job.extra) == (ALICE, {"sql": "first"})

    def test_the_same_attempt_again_is_a_success(self, world: World) -> None:
        """A submit repeated after a lost reply answers as the first did."""
        first = world.submit("j", attempt="a1")
        world.submit("other")
        world.done("other")

        assert world.submit("j", attempt="a1") == first

    def test_extra_fields_come_back_as_their_json(self, world: World) -> None:
        """What the app adds is given back, with NaN as null and tuples as lists."""
        world.submit("j", sql="ü\n", deep={"a": [1, (2.5, None)]}, nan=float("nan"))
        job = world.get("j")

        assert job is not None
        assert job.extra == {"sql": "ü\n", "deep": {"a": [1, [2.5, None]]}, "nan": None}

    def test_what_the_caller_changes_later_changes_nothing(self, world: World) -> None:
        """Neither the values given nor those read are the store's own."""
        given_list = [1]
        world.jobs(ALICE).submit(job_id="j", rows=given_list)
        given_list.append(2)
        world.jobs(ALICE).get("j").extra["rows"].append(3)

        assert world.jobs(ALICE).get("j").extra == {"rows": [1]}

    def test_case_5_a_worker_learns_the_owner_from_the_record(self, world: World) -> None:
        """The record holds channel and user, and says that a guest has none."""
        world.submit("j", GUEST)
        job = world.get("j")

        assert job is not None
        assert job.owner == GUEST
        assert job.owner.is_guest
        assert job.as_dict()["user_id"] is None

    def test_a_job_of_a_taken_id_is_refused_with_the_reason(self, world: World) -> None:
        """The operation raises where the store says EXISTS."""
        world.jobs(ALICE).submit(job_id="j")

        with pytest.raises(JobStateError, match="There is a job j already"):
            world.jobs(ALICE).submit(job_id="j")

    def test_what_json_does_not_have_is_refused_and_not_kept(self, world: World) -> None:
        """A job with an unwritable field is not half there."""
        with pytest.raises(TypeError, match="set cannot be written"):
            world.jobs(ALICE).submit(job_id="j", bad={1, 2})

        assert world.get("j") is None


class TestMoves:
    """pending, running, and one terminal status that nothing leaves."""

    def test_start_makes_a_job_running(self, world: World) -> None:
        """A started job is seen as running; starting twice is no error."""
        world.submit("j")

        assert [world.start("j"), world.start("j")] == [Outcome.OK, Outcome.OK]
        job = world.get("j")
        assert job is not None
        assert job.status is Status.RUNNING
        assert world.ends() == []

    @pytest.mark.parametrize("started", [True, False], ids=["running", "pending"])
    @pytest.mark.parametrize("end", ["done", "fail", "cancel"])
    def test_a_live_job_ends_in_each_way(self, world: World, end: str, started: bool) -> None:
        """Any live status may become any terminal one, with one event of six keys."""
        world.submit("j", sql="x")
        if started:
            world.start("j")
        getattr(world, end)("j")
        status = {"done": "done", "fail": "error", "cancel": "cancelled"}[end]
        (event,) = world.read().events

        assert json.loads(event.text) == {
            "id": event.id,
            "channel_id": "user-a",
            "job_id": "j",
            "user_id": 7,
            "status": status,
            "errors": [{"message": "no"}] if end == "fail" else [],
            "result_url": None,
        }
        job = world.get("j")
        assert job is not None
        assert (job.status, job.errors, job.extra) == (
            status,
            event.event().errors,
            {"sql": "x"},
        )

    @pytest.mark.parametrize("second", ["start", "touch", "done", "fail", "cancel"])
    @pytest.mark.parametrize("first", ["done", "fail", "cancel", "lose"])
    def test_nothing_leaves_a_terminal_status(self, world: World, first: str, second: str) -> None:
        """The first terminal status wins; later moves are told so and publish nothing."""
        world.submit("j")
        if first == "lose":
            world.clock.now += TTL
        else:
            getattr(world, first)("j")
        before = (world.get("j"), world.ends())
        reply = getattr(world, second)("j")

        assert getattr(reply, "outcome", reply) is Outcome.ENDED
        assert (world.get("j"), world.ends()) == before

    @pytest.mark.parametrize("move", ["start", "touch", "done", "fail", "cancel"])
    def test_an_unknown_job_is_missing(self, world: World, move: str) -> None:
        """Moving what is not there is answered, not raised."""
        reply = getattr(world, move)("nothing")

        assert getattr(reply, "outcome", reply) is Outcome.MISSING
        assert world.get("nothing") is None

    def test_the_same_attempt_of_an_end_is_a_success_again(self, world: World) -> None:
        """A finish or cancel repeated after a lost reply is no error and no second event."""
        world.submit("j")
        world.submit("k")
        finishes = [world.done("j", attempt="a1") for _ in range(2)]
        cancels = [world.cancel("k", attempt="a2") for _ in range(2)]

        assert finishes == [Outcome.OK, Outcome.OK]
        assert cancels[0] == cancels[1]
        assert cancels[1].job is not None
        assert world.ends() == [("j", "done"), ("k", "cancelled")]
        assert world.done("k", attempt="a3") is Outcome.ENDED

    def test_the_result_url_is_in_job_and_event(self, world: World) -> None:
        """Where the result is, both its owner's job and its event say."""
        world.submit("j")
        world.done("j", "/api/v1/chart/data/qc-1?x=ü")
        job = world.get("j")

        assert job is not None
        assert job.result_url == "/api/v1/chart/data/qc-1?x=ü"
        assert world.read().events[0].event().result_url == job.result_url

    def test_the_text_is_superset_s_own(self, world: World) -> None:
        """Events are written as Superset writes them: order, spaces, ASCII."""
        world.submit("j", Owner("c-ü", "x9"))
        world.fail("j", [{"message": "ü", "level": "error"}])

        assert world.read(owner=Owner("c-ü", "x9")).events[0].payload == (
            '{"channel_id": "c-\\u00fc", "job_id": "j", "user_id": "x9", "status": "error", '
            '"errors": [{"message": "\\u00fc", "level": "error"}], "result_url": null}'
        )

    def test_case_36_a_failing_query_publishes_its_error(self, world: World) -> None:
        """An exception in the work is one `error` event with something to read."""
        job = world.jobs(ALICE).submit()

        with pytest.raises(ValueError, match="boom"), world.registry().run(job):
            raise ValueError("boom")

        (event,) = world.jobs(ALICE).events()
        assert (event.job_id, event.status, event.errors) == (
            job.job_id,
            "error",
            [{"message": "boom"}],
        )


class TestCancel:
    """The owner may, once; nobody else ever may."""

    def test_case_49_cancel_calls_the_canceller_once_with_the_job(self, world: World) -> None:
        """The work behind a cancelled job is stopped."""
        stopped: list[Job] = []
        jobs = world.jobs(ALICE, stopped.append)
        job = jobs.submit(sql="x")

        assert jobs.cancel(job.job_id).status is Status.CANCELLED
        assert [(j.job_id, j.owner, j.extra) for j in stopped] == [
            (job.job_id, ALICE, {"sql": "x"})
        ]

    def test_case_50_a_late_finish_of_a_cancelled_job_publishes_nothing(self, world: World) -> None:
        """The request emits the event of a queued job that it cancels."""
        job = world.jobs(ALICE).submit()
        world.jobs(ALICE).cancel(job.job_id)

        assert not world.registry().done(job, "/late")
        assert not world.registry().start(job)
        assert world.ends() == [(job.job_id, "cancelled")]

    def test_case_52_every_way_to_an_end_publishes(self, world: World) -> None:
        """Cancel, the look of the owner at an overdue job, and the reaper: one event each."""
        for job_id in ("cancelled", "looked", "reaped"):
            world.submit(job_id)
        world.cancel("cancelled")
        world.touch("reaped")
        world.clock.now += TTL - 1
        world.touch("reaped")
        world.clock.now += 1
        world.get("looked")
        world.clock.now += TTL - 1

        assert world.reap() == 1
        assert world.ends() == [
            ("cancelled", "cancelled"),
            ("looked", "error"),
            ("reaped", "error"),
        ]

    def test_case_53_a_cancelled_job_cannot_fail(self, world: World) -> None:
        """A worker that reports a failure after the cancel is told no."""
        job = world.jobs(ALICE).submit()
        world.registry().start(job)
        world.jobs(ALICE).cancel(job.job_id)

        assert not world.registry().fail(job, "killed")
        assert world.registry().is_cancelled(job)
        assert world.ends() == [(job.job_id, "cancelled")]

    @pytest.mark.parametrize(
        "stranger",
        [
            Owner("user-b", "8"),
            Owner("user-a", "8"),
            Owner("user-b", "7"),
            Owner("user-a", None),
            Owner("user-a", "None"),
            Owner("user-a", ""),
        ],
        ids=["both differ", "user", "channel", "no user", "the word None", "an empty user"],
    )
    def test_case_143_both_ids_must_match(self, world: World, stranger: Owner) -> None:
        """A stranger gets 403 for a live job and for an ended one, and changes nothing."""
        job = world.jobs(ALICE, never).submit()
        for end in (lambda: None, lambda: world.done(job.job_id)):
            end()
            before = (world.get(job.job_id), world.ends())
            with pytest.raises(NotJobOwnerError):
                world.jobs(stranger, never).cancel(job.job_id)
            with pytest.raises(NotJobOwnerError):
                world.jobs(stranger).get(job.job_id)

            assert (world.get(job.job_id), world.ends()) == before

    def test_case_143_no_user_matches_only_no_user(self, world: World) -> None:
        """Among guests the channel decides; a user is never a guest."""
        world.submit("j", GUEST)

        assert world.cancel("j", Owner(GUEST.channel_id, "0")).outcome is Outcome.STRANGER
        assert world.cancel("j", GUEST).outcome is Outcome.OK

    def test_case_144_a_finished_job_is_not_revoked(self, world: World) -> None:
        """A cancel after the end is a 404 and calls nobody."""
        jobs = world.jobs(ALICE, never)
        job = jobs.submit()
        world.registry().done(job)

        with pytest.raises(JobNotFoundError):
            jobs.cancel(job.job_id)
        with pytest.raises(JobNotFoundError):
            jobs.cancel("unknown")

    def test_case_144_a_second_cancel_is_not_found(self, world: World) -> None:
        """Only the first cancel cancels and calls the canceller."""
        stopped: list[Job] = []
        jobs = world.jobs(ALICE, stopped.append)
        job = jobs.submit()
        jobs.cancel(job.job_id)

        with pytest.raises(JobNotFoundError):
            jobs.cancel(job.job_id)
        assert len(stopped) == 1

    def test_case_147_no_operation_serves_another_identity(self, world: World) -> None:
        """Reading a job, cancelling it and reading its event all fail for another user."""
        job = world.jobs(ALICE).submit()
        bob = world.jobs(BOB)
        for operation in (bob.get, bob.cancel):
            with pytest.raises(NotJobOwnerError):
                operation(job.job_id)
        world.registry().done(job)

        assert bob.events() == []
        assert len(world.jobs(ALICE).events()) == 1


class TestDeadline:
    """A job that gives no sign of life ends once, at the next look of anyone."""

    @pytest.mark.parametrize("look", ["read", "get", "start", "touch", "done", "cancel", "reap"])
    def test_case_35_a_silent_job_ends_in_one_event_at_any_look(
        self, world: World, look: str
    ) -> None:
        """Whoever looks first at an overdue job ends it as lost; later looks add nothing."""
        world.submit("j")
        world.clock.now += TTL
        arguments = [] if look in {"read", "reap"} else ["j"]
        for _ in range(3):
            getattr(world, look)(*arguments)
        (event,) = [text.event() for text in world.read().events]

        assert (event.job_id, event.status, event.errors) == ("j", "error", LOST)
        job = world.get("j")
        assert job is not None
        assert (job.status, job.errors) == ("error", LOST)

    def test_a_job_lives_until_the_last_moment_of_its_time(self, world: World) -> None:
        """The deadline is the first moment at which the job is lost, not earlier."""
        world.submit("j")
        world.clock.now += TTL - 0.001

        assert world.reap() == 0
        assert world.start("j") is Outcome.OK

    @pytest.mark.parametrize("sign", ["start", "touch"])
    def test_a_sign_of_life_moves_the_deadline(self, world: World, sign: str) -> None:
        """A job that is started or touched in time lives on from there."""
        world.submit("j")
        for _ in range(5):
            world.clock.now += TTL - 1
            assert getattr(world, sign)("j") is Outcome.OK
        world.clock.now += TTL

        assert world.ends() == [("j", "error")]

    @pytest.mark.parametrize("sign", ["start", "touch"])
    def test_a_sign_of_life_never_shortens_a_life(self, world: World, sign: str) -> None:
        """A worker whose clock is behind does not bring the end nearer."""
        world.submit("j")
        world.clock.now += TTL / 2
        world.touch("j")
        world.clock.now -= TTL
        assert getattr(world, sign)("j") is Outcome.OK
        world.clock.now += 2 * TTL - 1

        assert world.ends() == []

    def test_case_56_a_worker_does_not_start_what_is_past_its_deadline(self, world: World) -> None:
        """A worker that comes back late is told not to run the job."""
        job = world.jobs(ALICE).submit()
        world.clock.now += TTL

        assert not world.registry().start(job)
        with pytest.raises(JobStateError, match="past its deadline"), world.registry().run(job):
            pytest.fail("the body must not run")

    def test_case_57_a_killed_worker_s_job_is_lost_once(self, world: World) -> None:
        """A job whose worker died while running ends as lost; a cancel then finds nothing."""
        job = world.jobs(ALICE).submit()
        world.registry().start(job)
        world.clock.now += TTL

        assert [e.errors for e in world.jobs(ALICE).events()] == [LOST]
        with pytest.raises(JobNotFoundError):
            world.jobs(ALICE, never).cancel(job.job_id)
        assert len(world.jobs(ALICE).events()) == 1

    def test_reaping_ends_at_most_so_many(self, world: World) -> None:
        """The reaper's steps are bounded, and the registry repeats them until none is left."""
        for number in range(25):
            world.submit(f"j{number}")
        world.clock.now += TTL

        assert [world.reap(10), world.reap(10), world.reap(10), world.reap(10)] == [10, 10, 5, 0]
        assert len(world.ends()) == 25

    def test_the_reaper_ends_more_than_one_batch(self, world: World) -> None:
        """`reap()` counts every overdue job, of all owners."""
        for number in range(2100):
            world.submit(f"j{number}", Owner(f"user-{number % 3}", "1"))
        world.clock.now += TTL

        assert world.registry().reap() == 2100
        assert world.registry().reap() == 0

    def test_an_ended_job_is_kept_and_then_forgotten(self, world: World) -> None:
        """A record is there for its time to live and 24 hours after its end, then unknown."""
        world.submit("j")
        world.done("j")
        world.clock.now += TTL + RETENTION - 1
        assert world.get("j") is not None
        world.clock.now += 1

        assert world.get("j") is None
        assert world.cancel("j").outcome is Outcome.MISSING
        assert world.submit("j", BOB).outcome is Outcome.OK

    def test_events_are_kept_and_then_forgotten(self, world: World) -> None:
        """A channel to which nobody writes expires."""
        world.submit("j")
        world.done("j")
        world.clock.now += TTL + RETENTION - 1
        assert len(world.read().events) == 1
        world.clock.now += 1

        assert world.read("0-0") == world.read(owner=BOB)
