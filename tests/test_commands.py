"""Commands carry what a store needs, as texts that need no more work."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaq_middleware.core import commands
from gaq_middleware.core.commands import (
    CANCELLED,
    LOST,
    Command,
    EventText,
    FinishJob,
    SubmitJob,
    event_head,
    event_tail,
    stored_job,
)
from gaq_middleware.core.jobs import Event, Job, Owner, Status

OWNER = Owner("user-a", "7")
HEAD = '{"channel_id": "user-a", "job_id": "j", "user_id": 7, "status": '


def test_head_and_tail_are_the_text_that_superset_writes() -> None:
    """Six keys in order, its separators, ASCII."""
    job = Job.new(Owner("c-ü", None), "j", {"not": "in events"})

    assert event_head(job) + event_tail(Status.DONE, result_url="/r?ü") == (
        '{"channel_id": "c-\\u00fc", "job_id": "j", "user_id": null, "status": "done", '
        '"errors": [], "result_url": "/r?\\u00fc"}'
    )


@pytest.mark.parametrize("result_url", [5, b"/r", ["/r"]])
def test_a_result_url_is_text(result_url: object) -> None:
    """Anything else is a mistake of the worker."""
    with pytest.raises(TypeError, match="result_url must be text or None, not"):
        FinishJob.done("j", result_url, now=1, ttl=2, attempt="a")  # type: ignore[arg-type]


def test_a_result_url_is_bounded() -> None:
    """8,192 characters are kept, one more is not."""
    assert "x" * 8192 in event_tail(Status.DONE, result_url="x" * 8192)

    with pytest.raises(ValueError, match="more than 8192"):
        event_tail(Status.DONE, result_url="x" * 8193)


def test_a_lost_job_says_so_by_code() -> None:
    """Pages and tests know it by `job_lost`."""
    (error,) = json.loads(HEAD + LOST)["errors"]

    assert error["code"] == "job_lost"
    assert error["message"]


def test_a_cancelled_job_has_no_error_and_no_result() -> None:
    """The tail of every cancel is the same."""
    assert json.loads(HEAD + CANCELLED) == {
        "channel_id": "user-a",
        "job_id": "j",
        "user_id": 7,
        "status": "cancelled",
        "errors": [],
        "result_url": None,
    }


def test_submit_carries_owner_and_texts() -> None:
    """What a store keeps of a job is text."""
    job = Job.new(OWNER, "j", {"sql": "ü"})

    assert SubmitJob.of(job, now=1.5, ttl=60, attempt="a") == SubmitJob(
        job_id="j",
        owner=OWNER,
        head=HEAD,
        extra='{"sql": "\\u00fc"}',
        now=1.5,
        ttl=60,
        attempt="a",
    )
    assert SubmitJob.of(Job.new(OWNER, "j", {}), now=1, ttl=60, attempt="a").extra == "{}"


def test_finish_carries_the_end_as_text() -> None:
    """Done has a result, error has errors."""
    done = FinishJob.done("j", "/r", now=1, ttl=60, attempt="a")
    error = FinishJob.error("j", ValueError("no"), now=1, ttl=60, attempt="a")

    assert (done.status, done.tail) == (Status.DONE, '"done", "errors": [], "result_url": "/r"}')
    assert (error.status, error.tail) == (
        Status.ERROR,
        '"error", "errors": [{"message": "no"}], "result_url": null}',
    )


def test_every_command_is_a_frozen_value_with_a_time() -> None:
    """Commands are data: they compare, they do not change, they know when."""
    kinds = [
        kind
        for kind in vars(commands).values()
        if isinstance(kind, type) and issubclass(kind, Command) and kind is not Command
    ]

    assert len(kinds) == 8
    for kind in kinds:
        assert "now" in {field.name for field in dataclasses.fields(kind)}
        assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
        assert "__slots__" in vars(kind)


def test_an_event_is_sent_as_its_text_with_the_id_in_front() -> None:
    """The payload is passed on as it is kept."""
    text = EventText("5-1", HEAD + CANCELLED)

    assert text.text == '{"id": "5-1", ' + (HEAD + CANCELLED)[1:]
    assert json.loads(text.text) == text.event().as_dict()


@pytest.mark.parametrize("user_id", ["7", "007", None, "ann"])
def test_an_event_is_read_from_its_text(user_id: str | None) -> None:
    """The user is text inside, whatever it is on the wire."""
    payload = event_head(Job.new(Owner("c", user_id), "j", {})) + CANCELLED

    assert EventText("5-1", payload).event() == Event(
        "5-1", "c", "j", user_id, "cancelled", [], None
    )


@given(
    channel_id=st.text(min_size=1),
    user_id=st.none() | st.text(),
    extra=st.dictionaries(st.text().map("x".__add__), st.none() | st.integers() | st.text()),
    result_url=st.none() | st.text(),
)
def test_a_stored_job_is_the_job(
    channel_id: str, user_id: str | None, extra: dict[str, object], result_url: str | None
) -> None:
    """What a store keeps of a job gives the job back, whatever is in it."""
    job = dataclasses.replace(
        Job.new(Owner(channel_id, user_id), "j", extra),
        status=Status.DONE,
        result_url=result_url,
        last_id="5-1",
    )
    command = SubmitJob.of(job, now=1, ttl=60, attempt="a")
    tail = FinishJob.done("j", result_url, now=1, ttl=60, attempt="a").tail

    assert stored_job(command.head, tail, command.extra, "5-1") == job
