"""What a job, an owner, an event and a cursor are."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaq_middleware.core.errors import BadRequestError
from gaq_middleware.core.jobs import (
    TERMINAL,
    Event,
    Job,
    Owner,
    Status,
    is_job_id,
    job_id_of,
    parse_cursor,
)

OWNER = Owner("user-a", "7")
UUID = "8776eb4e-229e-470a-99f2-5af62f3bc5c2"


class TestStatus:
    """The words."""

    def test_terminal_statuses_are_the_three_ends(self) -> None:
        """Done, error and cancelled are final; that nothing leaves them every store must show."""
        assert set(Status) - TERMINAL == {Status.PENDING, Status.RUNNING}

    def test_a_status_is_its_word(self) -> None:
        """Apps may compare, print and write a status as the text that goes over the wire."""
        assert Status("done") == "done"
        assert f"{Status.DONE} {Status.DONE!s}" == "done done"
        assert json.dumps(Status.DONE) == '"done"'


class TestOwner:
    """Both ids must match; who is not named owns nothing."""

    @pytest.mark.parametrize(
        ("owner", "owns"),
        [
            pytest.param(Owner("user-a", "7"), True, id="both match"),
            pytest.param(Owner("user-a", "8"), False, id="another user"),
            pytest.param(Owner("user-b", "7"), False, id="another channel"),
            pytest.param(Owner("user-a", None), False, id="no user"),
        ],
    )
    def test_an_owner_owns_what_has_both_their_ids(self, owner: Owner, owns: bool) -> None:
        """Channel and user decide together."""
        assert owner.owns(Job.new(OWNER, "j", {})) is owns

    def test_no_user_matches_only_no_user(self) -> None:
        """Among guests the channel decides; the word None is a user."""
        job = Job.new(Owner("guest-1", None), "j", {})

        assert Owner("guest-1", None).owns(job)
        assert not Owner("guest-1", "None").owns(job)
        assert not Owner("guest-2", None).owns(job)

    @pytest.mark.parametrize(
        "record",
        [
            pytest.param({"channel_id": "user-a"}, id="no user_id"),
            pytest.param({"user_id": 7}, id="no channel_id"),
            pytest.param({"channel_id": None, "user_id": 7}, id="channel null"),
            pytest.param({"channel_id": "", "user_id": 7}, id="channel empty"),
            pytest.param({"channel_id": 5, "user_id": 7}, id="channel a number"),
            pytest.param({"channel_id": "user-a", "user_id": True}, id="user a bool"),
            pytest.param({"channel_id": "user-a", "user_id": [7]}, id="user a list"),
            pytest.param({}, id="neither"),
        ],
    )
    def test_case_143_a_record_without_owner_matches_nobody(self, record: dict[str, Any]) -> None:
        """Records that do not name their owner fail closed."""
        job = Job.from_dict({"job_id": "j", **record})

        assert job.owner is None
        assert not any(
            Owner(channel, user).owns(job)
            for channel in ("user-a", "", "5", "None")
            for user in ("7", "True", "None", "", None)
        )

    @pytest.mark.parametrize(("user_id", "text"), [(7, "7"), ("7", "7"), (0, "0"), (None, None)])
    def test_ids_are_compared_as_text(self, user_id: object, text: str | None) -> None:
        """A number in a record is the user whose id is its text; 0 is an id."""
        job = Job.from_dict({"job_id": "j", "channel_id": "user-a", "user_id": user_id})

        assert Owner("user-a", text).owns(job)

    def test_a_guest_is_known_by_the_channel(self) -> None:
        """Only channels that start with guest- are a guest's."""
        assert Owner("guest-1", None).is_guest
        assert not Owner("user-guest-1", None).is_guest


class TestJob:
    """What goes in comes out, and nothing else gets in."""

    def test_the_body_has_the_six_keys_then_the_extra_ones_then_the_cursor(self) -> None:
        """The body of the 202 answer is Superset's, and ours behind it."""
        job = dataclasses.replace(Job.new(OWNER, "j", {"sql": "x", "a": 1}), last_id="5-1")

        assert list(job.as_dict().items()) == [
            ("channel_id", "user-a"),
            ("job_id", "j"),
            ("user_id", 7),
            ("status", "pending"),
            ("errors", []),
            ("result_url", None),
            ("sql", "x"),
            ("a", 1),
            ("last_id", "5-1"),
        ]
        assert type(job.as_dict()["status"]) is str

    @pytest.mark.parametrize("user_id", [None, "0", "7", "007", "ann", str(2**53)])
    def test_a_job_survives_its_dict_and_its_json(self, user_id: str | None) -> None:
        """`Job.from_dict` undoes `as_dict`, over JSON too."""
        job = dataclasses.replace(
            Job.new(Owner("c", user_id), UUID, {"deep": {"list": [1, None]}}),
            status=Status.ERROR,
            errors=[{"message": "no"}],
            result_url="/r",
            last_id="5-1",
        )

        assert Job.from_dict(json.loads(json.dumps(job.as_dict()))) == job

    def test_superset_s_metadata_is_read(self) -> None:
        """What is missing is as for a new job; unknown keys are extra fields."""
        job = Job.from_dict(
            {"channel_id": "c", "job_id": UUID, "user_id": 1, "status": "running", "more": 1}
        )

        assert job == Job("c", UUID, "1", Status.RUNNING, extra={"more": 1})
        assert job.last_id == "0-0"

    def test_its_dicts_are_copies(self) -> None:
        """Changing what came in or went out does not change the job."""
        data: dict[str, Any] = {"job_id": "j", "errors": [{"message": "a"}], "rows": [1]}
        job = Job.from_dict(data)
        for changed in (data, job.as_dict()):
            changed["errors"][0]["message"] = "b"
            changed["rows"].append(2)

        assert (job.errors, job.extra) == ([{"message": "a"}], {"rows": [1]})

    @pytest.mark.parametrize(
        "name",
        ["channel_id", "user_id", "status", "errors", "result_url", "last_id", "job_id"],
    )
    def test_extra_fields_do_not_shadow_ours(self, name: str) -> None:
        """The error says which name is taken."""
        with pytest.raises(ValueError, match=f"Every job has its own {name}: rename"):
            Job.new(OWNER, "j", {"fine": 1, name: 1})

    def test_extra_fields_are_bounded(self) -> None:
        """16,384 characters of JSON are kept, one more is not."""
        fits = "x" * (16_384 - len('{"a": ""}'))
        assert Job.new(OWNER, "j", {"a": fits}).extra == {"a": fits}

        with pytest.raises(ValueError, match="16385 characters of JSON; at most 16384"):
            Job.new(OWNER, "j", {"a": fits + "x"})

    def test_extra_fields_are_their_json(self) -> None:
        """NaN is null and a tuple a list, already in the job that submit returns."""
        extra = {"nan": math.nan, "pair": (1, 2)}

        assert Job.new(OWNER, "j", extra).extra == {"nan": None, "pair": [1, 2]}

    def test_what_json_does_not_have_is_refused(self) -> None:
        """A set is no JSON."""
        with pytest.raises(TypeError, match="set cannot be written as JSON"):
            Job.new(OWNER, "j", {"a": {1}})

    def test_an_impossible_id_is_refused_with_the_rule(self) -> None:
        """The error shows the id, cut, and says what one looks like."""
        with pytest.raises(ValueError, match="'a/b' cannot be the id of a job"):
            Job.new(OWNER, "a/b", {})

    @pytest.mark.parametrize(
        "data",
        [{}, {"job_id": None}, {"job_id": 5}, {"job_id": "a/b"}, {"job_id": "j", "status": "new"}],
        ids=["empty", "id null", "id a number", "id impossible", "status unknown"],
    )
    def test_what_is_no_job_is_refused(self, data: dict[str, Any]) -> None:
        """A dict that cannot be a job is a ValueError."""
        with pytest.raises(ValueError, match="not a"):
            Job.from_dict(data)

    def test_a_job_its_dict_and_its_id_name_it(self) -> None:
        """Workers may pass any of the three."""
        job = Job.new(OWNER, "j", {})

        assert [job_id_of(job), job_id_of(job.as_dict()), job_id_of("j")] == ["j", "j", "j"]

    @pytest.mark.parametrize("job", [None, 5, {}, {"job_id": 5}])
    def test_what_names_no_job_is_refused(self, job: Any) -> None:
        """Anything else is a TypeError that says what it may be."""
        with pytest.raises(TypeError, match="A job is a Job, its dict with a job_id, or its id"):
            job_id_of(job)

    @pytest.mark.parametrize(
        "text",
        [UUID, "a", "A-Z_0~9.", "...", "!$&'()*+,;=:@", "x" * 255, "Stream", "cancel", "full"],
    )
    def test_what_fits_a_path_segment_is_a_job_id(self, text: str) -> None:
        """Every character that stands unescaped in a path may be in an id."""
        assert is_job_id(text)

    @pytest.mark.parametrize(
        "text",
        [
            *("", ".", "..", "stream", "ws", "a/b", "a?b", "a#b", "a%62", "a b", "a\n", "\x00"),
            *("ü", "\u0663", "a\\b", 'a"b', "a<b", "x" * 256, None, 5, b"a"),
        ],
    )
    def test_what_does_not_is_none(self, text: object) -> None:
        """Slashes, escapes, spaces, other alphabets and our own words are no ids."""
        assert not is_job_id(text)


class TestCursor:
    """The last id that a reader has."""

    @pytest.mark.parametrize(
        ("text", "cursor"),
        [
            (None, (0, 0)),
            ("", (0, 0)),
            ("0-0", (0, 0)),
            ("5", (5, 0)),
            ("5-19", (5, 19)),
            ("1526919030474-55", (1526919030474, 55)),
            ("007-010", (7, 10)),
            ("00000000000000000005-00000000000000000001", (5, 1)),
            (f"{2**64 - 1}-{2**64 - 1}", (2**64 - 1, 2**64 - 1)),
        ],
    )
    def test_a_cursor_is_two_numbers(self, text: str | None, cursor: tuple[int, int]) -> None:
        """The sequence may be left out; zeros in front mean nothing; nothing is the start."""
        assert parse_cursor(text) == cursor

    @pytest.mark.parametrize(
        "text",
        [
            *("abc", "$", "+", "-", "(5-0", "5-", "-5", "1-2-3", "5 ", " 5", "5-0\n", "5\x00"),
            *(
                "\u0665-\u0660",
                "5-\u0660",
                "5\u20130",
                "1e3",
                "0x5",
                "5_0",
                "5.0",
                "+5",
                "5-+1",
                "1" * 10_240,
            ),
            *(f"{2**64}-0", f"0-{2**64}", "000000000000000000005"),
        ],
    )
    def test_case_42_anything_else_is_a_bad_request(self, text: str) -> None:
        """No mark, sign, space, other digit or number above 64 bits is a cursor."""
        with pytest.raises(BadRequestError) as caught:
            parse_cursor(text)

        assert (caught.value.status, caught.value.error_code) == (400, "bad_last_id")

    @given(st.text())
    def test_any_text_is_a_cursor_or_a_bad_request(self, text: str) -> None:
        """Nothing else comes out."""
        try:
            milliseconds, sequence = parse_cursor(text)
        except BadRequestError:
            return
        assert 0 <= milliseconds < 2**64
        assert 0 <= sequence < 2**64

    @given(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)))
    def test_every_stream_id_is_a_cursor(self, pair: tuple[int, int]) -> None:
        """What a store gives as an id is read as the same numbers."""
        assert parse_cursor("{}-{}".format(*pair)) == pair


class TestEvent:
    """The end of a job as apps and endpoints see it."""

    def test_its_dict_has_the_id_in_front_and_the_user_as_superset_writes_it(self) -> None:
        """Seven keys in the order of the wire; a copy."""
        event = Event("5-1", "c", "j", "7", "error", [{"message": "a"}], None)
        event.as_dict()["errors"][0]["message"] = "b"

        assert list(event.as_dict().items()) == [
            ("id", "5-1"),
            ("channel_id", "c"),
            ("job_id", "j"),
            ("user_id", 7),
            ("status", "error"),
            ("errors", [{"message": "a"}]),
            ("result_url", None),
        ]
