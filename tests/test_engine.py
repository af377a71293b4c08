"""The engine: built once, from the environment if nothing else, and suspicious of user_from."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from gaq_middleware import SettingsError
from gaq_middleware.core.messages import RequestHead
from gaq_middleware.engine import Engine, as_user_id, check_app
from tests.helpers import NOW, K, make_settings

HEAD = RequestHead("GET", "http", "/", None, "", "", {})


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
        (7.0, None),
        (b"7", None),
        ([], None),
        (object, None),
        (10**100, None),
        pytest.param(10**5000, None, id="a huge number"),
        ("a\x00b", None),
        ("\udcff", None),
    ],
    ids=ascii,
)
def test_what_user_from_gives_becomes_text_or_nobody(value: Any, user_id: str | None) -> None:
    """Only text, whole numbers and UUIDs are ids; the text of an object would be everybody's."""
    assert as_user_id(value) == user_id


def test_a_failing_user_from_names_nobody_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An exception counts as None."""
    engine = Engine(make_settings(), lambda source: source["session"], None)
    caplog.clear()

    assert [engine.ask_user({}, HEAD, NOW) for _ in range(3)] == [None] * 3
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


def test_an_odd_user_is_nobody_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """An object or a bool from user_from counts as None, and says so; None and "" do silently."""
    engine = Engine(make_settings(), lambda source: source, None)
    caplog.clear()

    assert [engine.ask_user(s, HEAD, NOW) for s in (None, "", True, object())] == [None] * 4
    (line,) = caplog.records
    assert "cannot be a user id" in line.getMessage()


async def _named(source: Any) -> str:
    return "7"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (({}, None, None), "settings must be a Settings"),
        ((None, "7", None), "user_from must be a function"),
        ((None, _named, None), "user_from must be a plain function"),
        ((None, None, 3), "canceller must be a function"),
    ],
    ids=["a dict as settings", "a text as user_from", "a coroutine as user_from", "a number"],
)
def test_arguments_are_checked_at_once(arguments: Any, text: str) -> None:
    """What cannot work is refused when the app is built, not at the first request."""
    with pytest.raises(TypeError, match=text):
        Engine(*arguments)


async def _asgi(scope: Any, receive: Any, send: Any) -> None: ...


class _Framework:
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


class _OldFramework:
    def __call__(self, environ: Any, start_response: Any) -> Any: ...


@pytest.mark.parametrize(
    ("app", "kind"),
    [
        (_asgi, "asgi"),
        (_Framework(), "asgi"),
        (_Framework().__call__, "asgi"),
        (lambda scope, receive, send: None, "asgi"),
        (_OldFramework(), "wsgi"),
        (_OldFramework().__call__, "wsgi"),
        (lambda environ, start_response: [b""], "wsgi"),
    ],
)
def test_an_app_of_the_other_face_is_refused(app: Any, kind: str) -> None:
    """The mistake that both classes have one name invites; the message names the mend."""
    other = "wsgi" if kind == "asgi" else "asgi"
    check_app(app, kind)
    with pytest.raises(TypeError, match=f"from gaq_middleware.{kind}"):
        check_app(app, other)


def test_what_is_no_app_is_refused() -> None:
    """None and texts are not callable; what cannot be told is believed."""
    for app in (None, "app:app"):
        with pytest.raises(TypeError, match="is not an app"):
            check_app(app, "asgi")
    check_app(lambda *arguments: None, "asgi")
    check_app(lambda *arguments: None, "wsgi")
