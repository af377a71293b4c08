"""What only the store in Redis has: its layout, its scripts, and Superset beside it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any
from unittest.mock import AsyncMock

import pytest

from gaq_middleware import Job, JobNotFoundError, NotJobOwnerError, Owner, StoreError
from gaq_middleware.core.commands import RETENTION, Outcome
from gaq_middleware.registry.colours import at_once
from tests.helpers import Site, ask, guest_settings, guest_token, make_settings, submits
from tests.servers import Monitor, RedisServer, need_redis, wait_until
from tests.stores.conftest import BOB, TTL, AsyncWorld, SyncWorld, World, never

need_redis()

from gaq_middleware.registry import redis_entries  # noqa: E402
from gaq_middleware.registry.redis import RedisStore  # noqa: E402
from gaq_middleware.registry.redis_commands import Commands  # noqa: E402

CHANNEL = "0b0c0d0e-1111-4222-8333-444455556666"
JOB = "9f8e7d6c-5b4a-4321-8fed-cba987654321"
USER = Owner(CHANNEL, "7")
"""Whose events Superset 6.1.0 was made to write."""
DONE = (
    f'{{"channel_id": "{CHANNEL}", "job_id": "{JOB}", "user_id": 7, "status": "done", '
    '"errors": [], "result_url": "/api/v1/chart/data/qc-0123456789abcdef"}'
)
"""What it wrote for a good end, read back from its stream."""
FAILED = (
    f'{{"channel_id": "{CHANNEL}", "job_id": "{JOB}", "user_id": 7, "status": "error", '
    '"errors": [{"message": "Datenbank nicht erreichbar \\u2013 \\u00e9\\u2028\\u007f</script>", '
    '"error_type": "GENERIC_DB_ENGINE_ERROR", "level": "error", "extra": {"ratio": null, '
    '"n": 1.0}}], "result_url": null}'
)
"""And for an error with what JSON escapes, and NaN."""
P = "async-events-"


@pytest.fixture
def raw(redis_server: RedisServer) -> Iterator[Any]:
    """Return a plain client of the emptied server."""
    wait_until(lambda: all(t.name != "gaq-bell" for t in threading.enumerate()))  # of tests before
    with redis_server.raw(decode_responses=True) as client:
        client.flushall()
        yield client


@pytest.fixture(params=[SyncWorld, AsyncWorld], ids=["sync", "async"])
def world(request: pytest.FixtureRequest, raw: Any, redis_server: RedisServer) -> Iterator[World]:
    """Return the operations of an empty store, in both colours."""
    loop = asyncio.new_event_loop()
    yield request.param(RedisStore(make_settings(store_url=redis_server.url)), loop)
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def new_store(server: RedisServer, **variables: str) -> RedisStore:
    """Return a store on a server."""
    return RedisStore(make_settings(**{"store_url": server.url, **variables}))


class TestLayout:
    """Superset and its WebSocket server read what we write."""

    def test_events_are_those_of_superset_byte_for_byte(self, world: World, raw: Any) -> None:
        """On the channel's stream and on the firehose, `data` first; then our own field."""
        errors = {
            "message": "Datenbank nicht erreichbar \u2013 \u00e9\u2028\u007f</script>",
            "error_type": "GENERIC_DB_ENGINE_ERROR",
            "level": "error",
            "extra": {"ratio": float("nan"), "n": 1.0},
        }
        world.submit(JOB, USER)
        world.done(JOB, "/api/v1/chart/data/qc-0123456789abcdef")
        raw.delete(f"{P}job:{JOB}")
        world.submit(JOB, USER)
        world.fail(JOB, [errors])
        (first, one), (_, two) = raw.xrange(P + CHANNEL)

        assert list(one.items()) == [("data", DONE), ("gaq", "0-0")]
        assert list(two.items()) == [("data", FAILED), ("gaq", first)]
        assert [fields for _, fields in raw.xrange(P + "full")] == [
            {"data": DONE},
            {"data": FAILED},
        ]
        assert [event.payload for event in world.read(owner=USER).events] == [DONE, FAILED]

    def test_the_record_is_superset_s(self, world: World, raw: Any) -> None:
        """Written with the job, marked by a cancel, gone with any other end."""
        for job_id in ("cancelled", "done", "failed", "lost"):
            world.submit(job_id, USER)
            key = f"{P}job-cancel:{job_id}"
            assert raw.get(key) == f'{{"channel_id": "{CHANNEL}", "user_id": 7}}'
            assert 0 < raw.ttl(key) <= TTL
        world.cancel("cancelled", USER)
        world.done("done")
        world.fail("failed")
        world.clock.now += TTL
        world.reap()

        assert raw.get(f"{P}job-cancel:cancelled") == (
            f'{{"channel_id": "{CHANNEL}", "user_id": 7, "cancelled": true}}'
        )
        assert raw.keys(f"{P}job-cancel:*") == [f"{P}job-cancel:cancelled"]

    @pytest.mark.parametrize(
        ("user_id", "text"),
        [
            (None, "null"),
            ("x", '"x"'),
            (str(2**53 - 1), str(2**53 - 1)),
            (str(2**53), f'"{2**53}"'),
        ],
    )
    def test_users_are_written_as_superset_compares_them(
        self, world: World, raw: Any, user_id: str | None, text: str
    ) -> None:
        """A number where it is exact, else text; none is null."""
        world.submit("j", Owner("c", user_id))

        assert raw.get(f"{P}job-cancel:j") == f'{{"channel_id": "c", "user_id": {text}}}'

    def test_case_129_every_key_expires(self, world: World, raw: Any) -> None:
        """After every operation every key has a time to live: its job's, and a day."""
        for job_id in ("pending", "running", "done", "failed", "cancelled", "lost"):
            world.submit(job_id)
            getattr(world, {"running": "start"}.get(job_id, "get"))(job_id)
            assert min(map(raw.pttl, raw.keys())) > 0
        world.done("done")
        world.fail("failed")
        world.cancel("cancelled")
        world.clock.now += TTL - 1
        for job_id in ("pending", "running"):
            world.touch(job_id)
        world.clock.now += 1
        assert world.reap() == 1
        world.read()
        ttls = {key: raw.pttl(key) / 1000 for key in raw.scan_iter()}

        assert len(ttls) == 6 + 3 + 2 + 2
        assert 0 < min(ttls.values()) <= max(ttls.values()) <= TTL + RETENTION
        assert min(ttls[P + "user-a"], ttls[P + "full"]) > RETENTION

    def test_case_129_streams_are_trimmed(self, redis_server: RedisServer, raw: Any) -> None:
        """The channel's to its limit, the firehose to its own, up to a node of 100 more."""
        store = new_store(redis_server, stream_limit="50", stream_limit_firehose="500")
        world = SyncWorld(store, asyncio.new_event_loop())
        world.loop.close()
        for number in range(1000):
            world.submit(f"j{number}", Owner(f"c{number % 2}", None))
            world.done(f"j{number}")

        assert 50 <= raw.xlen(P + "c0") <= 150
        assert 500 <= raw.xlen(P + "full") <= 600

    def test_case_128_all_keys_are_in_the_slot_of_a_hash_tag(
        self, redis_server: RedisServer
    ) -> None:
        """With a tag in the prefix, a server in cluster mode runs every command."""
        from redis.crc import key_slot

        with RedisServer("--cluster-enabled", "yes") as server:
            raw = server.raw()
            raw.cluster("ADDSLOTS", *range(16_384))
            store = new_store(server, stream_prefix="{gaq}-async-events-")
            world = SyncWorld(store, asyncio.new_event_loop())
            world.loop.close()
            with Monitor(server) as monitor:
                wait_until(lambda: raw.cluster("INFO")["cluster_state"] == "ok")
                for job_id in ("a", "b", "c"):
                    assert world.submit(job_id).outcome is Outcome.OK
                    world.start(job_id)
                    world.touch(job_id)
                world.done("a")
                world.cancel("b")
                world.clock.now += TTL
                assert len(world.read().events) == 3
            keys = set(raw.keys())
            for command in monitor.commands:
                words = command.split(" ")
                if words[0] in ("EVAL", "EVALSHA"):
                    named = words[3 : 3 + int(words[2])] if words[0] == "EVALSHA" else []
                    keys |= {word.encode() for word in named}
            raw.close()

            assert len(keys) > 8
            assert {key_slot(key) for key in keys} == {key_slot(b"gaq")}

    def test_case_5_no_part_of_a_guest_s_token_is_kept(
        self, redis_server: RedisServer, raw: Any
    ) -> None:
        """The record has the guest's channel and no user; the token is nowhere."""
        site = Site("wsgi", guest_settings(), submits)
        site.app.engine.store = new_store(redis_server)
        secret = guest_token(user={"username": "very-secret-name"})
        job = site(ask("POST", "/api/v1/chart/data", X_GuestToken=secret)).json()
        kept = " ".join(
            str(raw.hgetall(key) if raw.type(key) == "hash" else raw.get(key))
            for key in list(raw.scan_iter())
            if raw.type(key) in ("hash", "string")
        )

        assert json.loads(raw.get(f"{P}job-cancel:{job['job_id']}")) == {
            "channel_id": job["channel_id"],
            "user_id": None,
        }
        assert job["channel_id"].startswith("guest-")
        assert not [part for part in (*secret.split("."), "very-secret-name") if part in kept]


class TestOneRoundTrip:
    """What is waited for once."""

    def test_each_operation_is_one_command(self, world: World, redis_server: RedisServer) -> None:
        """Submit, start, touch, get, finish, cancel, poll and reap: one EVALSHA each."""
        for job_id in ("warm", "j", "k", "late"):
            world.submit(job_id)
        world.done("warm")
        world.start("warm"), world.get("warm"), world.cancel("warm"), world.read(), world.reap()
        seen = {}
        for name, arguments in {
            "submit": ("new",),
            "start": ("j",),
            "touch": ("j",),
            "get": ("j",),
            "done": ("j",),
            "cancel": ("k",),
            "read": (),
            "reap": (),
        }.items():
            with Monitor(redis_server) as monitor:
                getattr(world, name)(*arguments)
            seen[name] = monitor.names

        assert set(map(tuple, seen.values())) == {("EVALSHA",)}

    def test_a_poll_that_ends_overdue_jobs_is_one_command(
        self, world: World, redis_server: RedisServer
    ) -> None:
        """The first poll after the deadline returns the event it makes."""
        world.submit("late")
        world.read()
        world.clock.now += TTL
        with Monitor(redis_server) as monitor:
            (event,) = world.read().events

        assert event.event().job_id == "late"
        assert monitor.names == ["EVALSHA"]

    def test_scripts_are_loaded_again_when_the_server_has_lost_them(
        self, world: World, raw: Any, redis_server: RedisServer
    ) -> None:
        """A restart or SCRIPT FLUSH in between is not noticed."""
        world.submit("j")
        raw.script_flush()
        with Monitor(redis_server) as monitor:
            assert world.done("j") is Outcome.OK
        world.submit("k")
        world.done("k")

        assert monitor.names == ["EVALSHA", "EVAL"]
        assert world.ends() == [("j", "done"), ("k", "done")]


BAD = [
    {"other": DONE},
    {"data": ""},
    {"data": "{"},
    {"data": "[1]"},
    {"data": "null"},
    {"data": "[" * 100_000},
    {"data": b"\xff\xfe"},
    {"data": b"\xff", "gaq": "0-0"},
    {"data": DONE.replace('"7"', "7").replace(CHANNEL, "other")},
    {"data": DONE.replace("user_id", "no_user")},
    {"data": DONE.replace('"user_id": 7', '"user_id": true')},
    {"data": DONE.replace('"job_id"', '"no_job"')},
    {"data": DONE.replace('"done"', '"running"')},
    {"data": DONE.replace('"done"', "[]")},
    {"data": DONE.replace("[]", '"text"')},
    {"data": DONE.replace('"/api', '5, "x": "/api')},
]
"""Entries that are no events of the channel."""


class TestReading:
    """We read what others write, and nothing that they write breaks us."""

    def test_superset_s_entries_are_served(self, world: World, raw: Any) -> None:
        """Entries in the form of 6.1.0 come with their stream id and are otherwise the same."""
        ids = [raw.xadd(P + CHANNEL, {"data": data}) for data in (DONE, FAILED)]
        page = world.read(owner=USER)

        assert [event.payload for event in page.events] == [DONE, FAILED]
        assert [event.id for event in page.events] == ids
        assert page.events[0].event().as_dict() == {"id": ids[0], **json.loads(DONE)}
        assert world.read(ids[0], USER).events == page.events[1:]
        assert world.read("0-0", USER) == page

    @pytest.mark.parametrize(
        ("data", "served"),
        [
            ({"id": "9-9"}, {}),
            ({"later": "key", "job": 1}, {}),
            ({"user_id": "x", "result_url": "/a\nevent: forged\n"}, {"user_id": "x"}),
            ({"user_id": None, "errors": ["bare", {"a": [{}]}]}, {"user_id": None}),
            ({"user_id": "07"}, {"user_id": "07"}),
            ({"errors": None}, {"errors": []}),
        ],
        ids=["its own id", "other keys", "newlines", "bare errors", "text", "no errors"],
    )
    def test_foreign_entries_are_written_anew(
        self, world: World, raw: Any, data: dict[str, Any], served: dict[str, Any]
    ) -> None:
        """Six keys in order on one line; a key `id` does not replace the stream's id."""
        foreign = {**json.loads(DONE), **data}
        event_id = raw.xadd(P + CHANNEL, {"more": "fields", "data": json.dumps(foreign, indent=1)})
        (event,) = world.read(owner=USER).events
        expected = {key: foreign[key] for key in json.loads(DONE)}

        assert json.loads(event.text) == {"id": event_id, **expected, **served}
        assert list(json.loads(event.payload)) == list(json.loads(DONE))
        assert "\n" not in event.text
        assert event.event().id == event_id

    @pytest.mark.parametrize("mark", ["bogus", "1-", "\u00e9", ""])
    def test_an_entry_with_a_mark_that_is_none_is_foreign(
        self, world: World, raw: Any, mark: str
    ) -> None:
        """A broken `gaq` field must not blame the client's cursor."""
        event_id = raw.xadd(P + CHANNEL, {"data": DONE, "gaq": mark})

        (event,) = world.read("0-1", USER).events
        assert (event.id, event.payload) == (event_id, DONE)

    @pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
    def test_a_bad_entry_is_left_out_and_logged_once(
        self, world: World, raw: Any, bad: dict[str, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        """It never breaks a poll, and says where it is."""
        raw.xadd(P + CHANNEL, {"data": DONE})
        bad_id = raw.xadd(P + CHANNEL, bad)
        raw.xadd(P + CHANNEL, {"data": FAILED})
        pages = [world.read(owner=USER) for _ in range(3)]

        assert [event.payload for event in pages[0].events] == [DONE, FAILED]
        assert pages[1:] == [pages[0]] * 2
        (line,) = caplog.records
        assert bad_id in line.getMessage()
        assert line.levelname == "WARNING"

    def test_many_bad_entries_do_not_hide_a_good_one(
        self, world: World, raw: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A poll goes on behind a page of nothing but bad ones; the log stays bounded."""
        for _ in range(1500):
            raw.xadd(P + CHANNEL, {"data": "bad"})
        raw.xadd(P + CHANNEL, {"data": DONE})

        for _ in range(2):
            assert [event.payload for event in world.read(owner=USER).events] == [DONE]
        assert len(caplog.records) == 15
        assert "100 entries" in caplog.records[0].getMessage()

    def test_bad_entries_of_many_channels_are_remembered_for_a_while(
        self,
        world: World,
        raw: Any,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """What is known of them is bounded: at worst a line comes again."""
        monkeypatch.setattr(redis_entries, "MAX_REMEMBERED", 2)
        owners = [Owner(f"c{number}", None) for number in range(3)]
        for owner in owners:
            raw.xadd(P + owner.channel_id, {"data": "bad"})
            assert world.read(owner=owner).events == ()
        for owner in reversed(owners):
            world.read(owner=owner)

        assert len(caplog.records) == 3 + 2

    def test_a_stream_that_superset_writes_to_lives_as_long_as_it_is_read(
        self, world: World, raw: Any
    ) -> None:
        """Superset does not prolong the life that our event gave the stream, so readers do."""
        world.submit("j", USER)
        world.done("j")
        raw.expire(P + CHANNEL, 5)
        world.read(owner=USER)
        assert raw.ttl(P + CHANNEL) <= 5
        raw.xadd(P + CHANNEL, {"data": DONE})
        world.read(owner=USER)
        assert raw.ttl(P + CHANNEL) > 5
        raw.xadd(P + "other", {"data": DONE})
        world.read(owner=Owner("other", None))

        assert raw.ttl(P + "other") == -1

    def test_between_two_entries_of_ours_a_foreign_one_is_not_missed(
        self, world: World, raw: Any
    ) -> None:
        """Our entry names the one before it, whoever wrote that."""
        world.submit("j", USER)
        cursor = world.submit("k", USER).last_id
        world.done("j")
        foreign = raw.xadd(P + CHANNEL, {"data": DONE})
        world.done("k")

        assert [event.event().job_id for event in world.read(cursor, USER).events] == [
            "j",
            JOB,
            "k",
        ]
        assert raw.xrange(P + CHANNEL)[2][1]["gaq"] == foreign
        assert world.submit("l", USER).last_id == world.read(owner=USER).events[-1].id

    def test_a_gap_begins_where_an_unread_event_is_gone(self, world: World, raw: Any) -> None:
        """A cursor at the last trimmed event has missed nothing; one before it has."""
        for number in range(4):
            world.submit(f"j{number}")
            world.done(f"j{number}")
        ids = [event.id for event in world.read().events]
        raw.xtrim(P + "user-a", minid=ids[2], approximate=False)

        assert [world.read(cursor).gap for cursor in ("0-0", *ids)] == [True, True] + [False] * 3
        assert [len(world.read(cursor).events) for cursor in ids] == [2, 2, 1, 0]

    def test_a_gap_before_a_foreign_entry_is_told(
        self, redis_server: RedisServer, raw: Any
    ) -> None:
        """Superset's entries do not say what was before them, but the stream counts."""
        world = SyncWorld(new_store(redis_server, stream_limit="3"), asyncio.new_event_loop())
        world.loop.close()
        ids = [raw.xadd(P + CHANNEL, {"data": DONE}) for _ in range(2)]
        assert not world.read("0-0", USER).gap
        ids += [raw.xadd(P + CHANNEL, {"data": DONE}) for _ in range(2)]
        raw.xtrim(P + CHANNEL, maxlen=3, approximate=False)
        cursors = ("0-0", ids[0], ids[1], ids[3])

        assert [world.read(cursor, USER).gap for cursor in cursors] == [True, True, False, False]

    def test_an_operator_s_own_key_in_our_place_stops_only_its_channel(
        self, world: World, raw: Any
    ) -> None:
        """A key of another type fails its own channel; the reaper goes on."""
        for channel in ("wrong", "right"):
            world.submit(channel, Owner(channel, None))
        raw.set(P + "wrong", "x")
        world.clock.now += TTL

        with pytest.raises(StoreError):
            world.read(owner=Owner("wrong", None))
        assert [world.reap(), world.reap()] == [1, 0]
        assert world.ends(Owner("right", None)) == [("right", "error")]
        with pytest.raises(StoreError):
            world.done("wrong")
        raw.delete(P + "wrong")
        assert world.ends(Owner("wrong", None)) == [("wrong", "error")]


def note(raw: Any, job_id: str, record: object, **options: Any) -> None:
    """Write a record as Superset does when it submits a job."""
    raw.set(f"{P}job-cancel:{job_id}", json.dumps(record), ex=3600, **options)


class TestBesideSuperset:
    """Jobs of Superset's own, and its hand on ours."""

    def test_a_job_of_superset_s_can_be_seen_and_cancelled_by_its_owner(
        self, world: World, raw: Any
    ) -> None:
        """The record is enough; from the cancel on the job is ours."""
        note(raw, JOB, {"user_id": 7, "channel_id": CHANNEL})
        stopped: list[Job] = []
        jobs = world.jobs(USER, stopped.append)

        assert (jobs.get(JOB).status, jobs.get(JOB).owner) == ("pending", USER)
        assert jobs.cancel(JOB).status == "cancelled"
        assert [job.job_id for job in stopped] == [JOB]
        assert jobs.get(JOB).status == "cancelled"
        assert [(e.job_id, e.status) for e in jobs.events()] == [(JOB, "cancelled")]
        assert json.loads(raw.get(f"{P}job-cancel:{JOB}"))["cancelled"] is True
        with pytest.raises(JobNotFoundError):
            jobs.cancel(JOB)
        with pytest.raises(NotJobOwnerError):
            world.jobs(BOB, never).cancel(JOB)
        assert len(raw.xrange(P + CHANNEL)) == len(stopped) == 1
        assert min(map(raw.pttl, raw.keys())) > 0

    def test_a_cancel_of_superset_s_job_repeated_after_a_lost_reply_is_a_success(
        self, world: World, raw: Any
    ) -> None:
        """The attempt is kept with it."""
        note(raw, JOB, {"user_id": 7, "channel_id": CHANNEL})
        replies = [world.cancel(JOB, USER, "a1") for _ in range(2)]

        assert replies[0] == replies[1]
        assert replies[1].outcome is Outcome.OK
        assert len(raw.xrange(P + CHANNEL)) == 1

    @pytest.mark.parametrize(
        "record",
        [
            {"channel_id": CHANNEL, "user_id": 8},
            {"channel_id": CHANNEL, "user_id": None},
            {"channel_id": CHANNEL},
            {"user_id": 7},
            {"channel_id": CHANNEL, "user_id": True},
            {"channel_id": None, "user_id": 7},
            {"channel_id": "other", "user_id": 7},
        ],
        ids=str,
    )
    def test_case_143_of_superset_s_jobs_too(
        self, world: World, raw: Any, record: dict[str, Any]
    ) -> None:
        """Both ids must match, and a record that lacks one belongs to nobody."""
        note(raw, JOB, record)

        for operation in (world.jobs(USER).get, world.jobs(USER, never).cancel):
            with pytest.raises(NotJobOwnerError):
                operation(JOB)
        assert json.loads(raw.get(f"{P}job-cancel:{JOB}")) == record
        assert raw.keys() == [f"{P}job-cancel:{JOB}"]

    @pytest.mark.parametrize("text", ["", "{", "[]", "7", "[" * 100_000])
    def test_a_record_that_is_none_is_no_job(self, world: World, raw: Any, text: str) -> None:
        """Malformed and missing are one."""
        raw.set(f"{P}job-cancel:{JOB}", text)

        for operation in (world.jobs(USER).get, world.jobs(USER, never).cancel):
            with pytest.raises(JobNotFoundError):
                operation(JOB)

    def test_a_job_that_superset_has_cancelled_is_not_cancelled_again(
        self, world: World, raw: Any
    ) -> None:
        """Its flag is seen; no second event, no second revoke."""
        note(raw, JOB, {"channel_id": CHANNEL, "user_id": 7, "cancelled": True})

        assert world.registry().is_cancelled(JOB)
        with pytest.raises(JobNotFoundError):
            world.jobs(USER, never).cancel(JOB)
        assert raw.exists(P + CHANNEL) == 0

    def test_a_job_of_ours_that_superset_cancels_ends_without_an_event_of_ours(
        self, world: World, raw: Any
    ) -> None:
        """Superset marks the record and publishes; our worker is told, and publishes nothing."""
        world.submit(JOB, USER)
        world.start(JOB)
        record = json.loads(raw.get(f"{P}job-cancel:{JOB}"))
        note(raw, JOB, {**record, "cancelled": True}, xx=True)
        raw.xadd(P + CHANNEL, {"data": DONE.replace('"done"', '"cancelled"')})

        assert world.registry().is_cancelled(JOB)
        assert world.touch(JOB) is world.start(JOB) is world.done(JOB) is Outcome.ENDED
        world.clock.now += TTL
        assert world.reap() == 0
        assert world.ends(USER) == [(JOB, "cancelled")]
        assert raw.exists(f"{P}job-cancel:{JOB}")

    def test_the_id_of_a_job_of_superset_s_is_taken(self, world: World, raw: Any) -> None:
        """Nothing is overwritten."""
        note(raw, JOB, {"channel_id": CHANNEL, "user_id": 8})

        assert world.submit(JOB, USER).outcome is Outcome.EXISTS
        assert raw.keys() == [f"{P}job-cancel:{JOB}"]

    def test_a_record_that_changes_under_a_cancel_is_looked_at_again(self) -> None:
        """Compared and set in one step: who finishes or cancels in between wins."""
        world = SyncWorld(RedisStore(make_settings(store_url="redis://")), asyncio.new_event_loop())
        world.loop.close()
        ours = json.dumps({"channel_id": CHANNEL, "user_id": 7}).encode()
        flagged = json.dumps({"channel_id": CHANNEL, "user_id": 7, "cancelled": True}).encode()
        for answers, outcome in (
            ([[b"foreign", ours], [b"missing"]], Outcome.MISSING),
            ([[b"foreign", ours], [b"foreign", flagged]], Outcome.ENDED),
            ([[b"foreign", ours], [b"foreign", ours + b" "], [b"stranger"]], Outcome.STRANGER),
        ):
            exchange = AsyncMock(side_effect=answers)
            commands = Commands(make_settings())
            reply = at_once(commands.do(world.cancel_command(JOB, USER), exchange))
            messages = [call.args[0] for call in exchange.await_args_list]
            assert reply.outcome is outcome
            assert [m[-1] for m in messages] == [b"", *(a[1] for a in answers[:-1])]
