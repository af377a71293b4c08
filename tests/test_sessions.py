"""Sessions: the user in a signed cookie of Flask or Starlette, and in the one a response sets."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from itsdangerous import TimestampSigner

from gaq_middleware.core.sessions import NewSession, SessionReader
from tests.helpers import NOW, make_settings

SECRET = "the-secret-of-the-app"
OLD = "an-older-secret-of-the-app"


def reader(kind: str = "flask", **variables: str) -> SessionReader:
    """Return a reader."""
    options = {"session_format": kind, "session_secret": SECRET, **variables}
    return SessionReader(make_settings(**options))


def flask_session(values: dict[str, Any], secret: str = SECRET, at: float = NOW) -> str:
    """Return a session cookie signed by Flask itself."""
    flask = pytest.importorskip("flask")
    app = flask.Flask("app")
    app.secret_key = secret
    serializer = flask.sessions.SecureCookieSessionInterface().get_signing_serializer(app)
    signer = serializer.signer
    serializer.signer = type("At", (signer,), {"get_timestamp": lambda self: int(at)})
    return str(serializer.dumps(values))


def starlette_session(values: Any, secret: str = SECRET, at: float = NOW) -> str:
    """Return a session cookie in Starlette's form."""
    signer = type("At", (TimestampSigner,), {"get_timestamp": lambda self: int(at)})(secret)
    raw = base64.b64encode(json.dumps(values).encode())
    return str(signer.sign(raw).decode())


SIGN = {"flask": flask_session, "starlette": starlette_session}
KINDS = pytest.mark.parametrize("kind", ["flask", "starlette"])


@KINDS
def test_the_user_of_a_session(kind: str) -> None:
    """The configured key of a session that verifies names the user."""
    cookie = f"a=1; session={SIGN[kind]({'_user_id': '7', 'csrf': 'x'})}"

    assert reader(kind).user([cookie], NOW) == "7"
    assert reader(kind, session_user_key="csrf").user([cookie], NOW) == "x"
    assert reader(kind, session_cookie="other").user([cookie], NOW) is None


@KINDS
@pytest.mark.parametrize(
    ("values", "secret", "at"),
    [
        ({"_user_id": "7"}, "another-secret-of-another-app", NOW),
        ({"_user_id": "7"}, SECRET, NOW - 2_678_401),
        ({}, SECRET, NOW),
    ],
    ids=["another secret", "too old", "nobody logged in"],
)
def test_a_session_that_names_nobody(kind: str, values: Any, secret: str, at: float) -> None:
    """Forged, aged and empty sessions name nobody."""
    assert reader(kind).user([f"session={SIGN[kind](values, secret, at)}"], NOW) is None


@KINDS
def test_an_older_secret_still_verifies(kind: str) -> None:
    """GAQ_SESSION_PREVIOUS_SECRETS are tried too."""
    cookie = f"session={SIGN[kind]({'_user_id': '7'}, OLD)}"

    assert reader(kind).user([cookie], NOW) is None
    assert reader(kind, session_previous_secrets=OLD).user([cookie], NOW) == "7"


@KINDS
def test_of_several_sessions_the_first_that_verifies_counts(kind: str) -> None:
    """A tossed cookie in front of the app's own does no harm."""
    good = SIGN[kind]({"_user_id": "7"})

    assert reader(kind).user([f"session=garbage; session={good}"], NOW) == "7"


def test_a_session_that_is_not_an_object_names_nobody() -> None:
    """Signed, but a list."""
    assert reader("starlette").user([f"session={starlette_session([1])}"], NOW) is None


@KINDS
def test_the_session_that_a_response_sets(kind: str) -> None:
    """The last line of that name counts; without one nothing is known of the session."""
    line = f"session={SIGN[kind]({'_user_id': '7'})}; HttpOnly; Path=/"
    sessions = reader(kind)

    assert sessions.new_session(["a=1", line], NOW) == NewSession("7")
    assert sessions.new_session([line, "session=; Max-Age=0"], NOW) == NewSession(None)
    assert sessions.new_session(["session2=x"], NOW) is None


@given(st.text(max_size=100), st.sampled_from(["flask", "starlette"]))
def test_any_value_names_nobody_or_somebody(value: str, kind: str) -> None:
    """No client-made value raises."""
    assert reader(kind).user([f"session={value}"], NOW) is None
