"""Messages: plain values."""

from __future__ import annotations

from gaq_middleware.core.messages import RequestHead
from tests.helpers import cookies, token


def test_a_request_in_a_traceback_shows_no_token() -> None:
    """The repr names method and path, no header and no query."""
    headers = {"cookie": [cookies(token())]}
    head = RequestHead("GET", "http", "/x", None, "", "guest_token=secret", headers)

    assert repr(head) == "<RequestHead GET '/x'>"


def test_a_header_that_came_twice_is_not_one() -> None:
    """`one` gives the value of a header that came exactly once, `first` the first of any."""
    head = RequestHead("GET", "http", "/", None, "", "", {"a": ["1"], "b": ["1", "2"]})

    assert [head.one(name) for name in "abc"] == ["1", None, None]
    assert [head.first(name) for name in "abc"] == ["1", "1", None]
