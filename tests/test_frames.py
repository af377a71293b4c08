"""How events are framed in streams and sockets."""

from __future__ import annotations

import json

from gaq_middleware.core.commands import EventPage, EventText
from gaq_middleware.core.errors import Refusal
from gaq_middleware.core.frames import HELLO, socket_frames, stream_end, stream_part

PAYLOAD = '{"channel_id": "c1", "job_id": "j1", "user_id": 7, "status": "done"}'
TEXT = '{"id": "5-19", "channel_id": "c1", "job_id": "j1", "user_id": 7, "status": "done"}'
PAGE = EventPage((EventText("5-19", PAYLOAD), EventText("5-20", "{}")))


def test_case_135_each_event_is_a_part_with_its_id() -> None:
    """The id is that of the event on its channel (HTML 9.2.6, case 135)."""
    parts = stream_part(PAGE).decode().split("\n\n")
    assert parts == [f"id: 5-19\ndata: {TEXT}", 'id: 5-20\ndata: {"id": "5-20", }', ""]


def test_a_gap_comes_before_the_events() -> None:
    """It has no id, so a browser that comes back resumes where it was."""
    page = EventPage(PAGE.events[:1], gap=True)
    assert stream_part(page).decode() == (
        f'event: gap\ndata: {{"gap": true}}\n\nid: 5-19\ndata: {TEXT}\n\n'
    )
    assert list(socket_frames(page)) == ['{"gap": true}', TEXT]


def test_case_136_an_empty_page_is_a_comment() -> None:
    """A sign of life without id and without event (case 136)."""
    assert stream_part(EventPage(())) == b":\n\n"
    assert list(socket_frames(EventPage(()))) == []


def test_the_end_tells_why() -> None:
    """`event: end` with the code and the detail of a refusal."""
    lines = stream_end(Refusal.of("token_expired")).decode().split("\n")
    assert (lines[0], lines[2:]) == ("event: end", ["", ""])
    told = json.loads(lines[1].removeprefix("data: "))
    assert told == {"code": "token_expired", "detail": Refusal.of("token_expired").detail}


def test_a_stream_begins_with_when_to_come_back() -> None:
    """A browser comes back 2 s after the end."""
    assert HELLO == b"retry: 2000\n\n"
