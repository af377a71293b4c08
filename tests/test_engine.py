"""The engine: built once, from the environment if nothing else, and suspicious of user_from."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from gaq_middleware import SettingsError
from gaq_middleware.engine import Engine, as_user_id
from tests.helpers import K, make_settings


def test_case_61_without_a_secret_it_does_not_start() -> None:
    """The missing variable is named; no default is made up (case 78)."""
    with pytest.raises(SettingsError, match="GAQ_JWT_SECRET is not set"):
        Engine(None, None, None)


def test_the_environment_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes later changes nothing."""
    monkeypatch.setenv("GAQ_JWT_SECRET", K)
    engine = Engine(None, None, None)
    monkeypatch.setenv("GAQ_COOKIE_NAME", "later")

    assert engine.settings.cookie_name == "async-token"


@pytest.mark.parametrize(
    ("value", "user_id"),
    [
        ("7", "7"),
        (7, "7"),
        (0, "0"),
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (None, None),
        ("", None),
        (True, None),
        (False, None),
        ("a\x00b", None),
        ("\udcff", None),
    ],
    ids=ascii,
)
def test_what_user_from_gives_becomes_text_or_nobody(value: Any, user_id: str | None) -> None:
    """Bool, empty text and what no token could carry name nobody."""
    assert as_user_id(value) == user_id


def test_a_failing_user_from_names_nobody_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An exception counts as None."""
    engine = Engine(make_settings(), lambda source: source["session"], None)
    caplog.clear()

    assert [engine.ask_user({}) for _ in range(3)] == [None] * 3
    (line,) = caplog.records
    assert "user_from raised" in line.getMessage()
    assert line.exc_info is not None


@pytest.mark.parametrize(("workers", "warned"), [("4", True), ("1", False), ("x", False)])
def test_memory_with_several_processes_is_warned_about(
    workers: str, warned: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """WEB_CONCURRENCY above 1 with memory:// cannot work, and says so once."""
    monkeypatch.setenv("WEB_CONCURRENCY", workers)

    engine = Engine(make_settings(), None, None)
    engine.note_processes(several=warned)

    assert ("several processes" in caplog.text) == warned
    assert caplog.text.count("several processes") == int(warned)
