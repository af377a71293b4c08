"""The log: the start-up line, one line per refusal and ten seconds, and never a value."""

from __future__ import annotations

import logging

import pytest

from gaq_middleware.core.tokens import key_id
from tests.helpers import K2, POLL, K, Site, ask, cookies, make_settings, token

FACES = pytest.mark.parametrize("face", ["asgi", "wsgi"])


@pytest.fixture(autouse=True)
def all_levels(caplog: pytest.LogCaptureFixture) -> None:
    """See INFO too."""
    caplog.set_level(logging.INFO, "gaq_middleware")


@FACES
def test_case_17_one_line_says_how_it_will_behave(
    face: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Start-up logs mode, cookie and its attributes, lifetimes, store and key fingerprint."""
    Site(face, make_settings(issue="off", cookie_domain="example.com"))

    line, doubt = caplog.records
    assert line.levelname == "INFO"
    for part in (
        "issue=off",
        "cookie=async-token (Secure on https, SameSite=Lax, Path=/, Domain=example.com)",
        "token=3600s max=43200s",
        "store=memory://",
        f"key={key_id(K.encode())}",
    ):
        assert part in line.getMessage()
    assert doubt.levelname == "WARNING"
    assert "GAQ_ISSUE=off" in doubt.getMessage()


def test_case_70_the_fingerprint_tells_secrets_apart(caplog: pytest.LogCaptureFixture) -> None:
    """The same secret has the same fingerprint, another one another; the secret is not told."""
    for secret in (K, K, K2):
        Site("asgi", make_settings(jwt_secret=secret))

    first, again, other = (record.getMessage().split("key=")[1] for record in caplog.records)
    assert first == again != other
    assert K not in caplog.text


@FACES
def test_case_32_a_flood_of_refusals_is_one_line_with_a_count(
    face: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 bad polls in 10 s: 20 answers with the code, at most 2 lines; the next one counts."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    site = Site(face, make_settings())
    caplog.clear()

    codes = [site(ask("GET", POLL, Cookie=cookies("bad"))).code for _ in range(20)]
    now[0] += 10
    site(ask("GET", POLL, Cookie=cookies("bad")))

    assert codes == ["token_malformed"] * 20
    first, second = caplog.records
    assert first.levelname == "WARNING"
    assert "not logged" not in first.getMessage()
    assert "(19 more were not logged)" in second.getMessage()


@FACES
def test_case_100_the_line_names_the_cookies_that_did_come(
    face: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A hop that drops cookies shows: names only, at most ten, and only what is a name."""
    site = Site(face, make_settings())
    caplog.clear()

    site(ask("GET", POLL, Cookie="__cfduid=secret; no-equals; b\x01d=1; " + "x" * 65 + "=1"))

    (line,) = caplog.records
    assert line.levelname == "INFO"
    assert 'cookies seen=["__cfduid"]' in line.getMessage()
    assert "401 token_missing" in line.getMessage()
    assert "secret" not in line.getMessage()


@FACES
def test_a_line_cannot_be_forged(face: str, caplog: pytest.LogCaptureFixture) -> None:
    """Path and method go through ascii() and are cut; the query and the token are left out."""
    site = Site(face, make_settings())
    caplog.clear()

    site(ask("GET", POLL + "x" * 300 + "%0aevil?token=query", Cookie=cookies(token(-99))))

    (line,) = caplog.records
    message = line.getMessage()
    assert "\n" not in message
    assert "query" not in message
    assert token(-99) not in message
    assert len(message) < 450


@FACES
def test_a_replaced_500_names_both(face: str, caplog: pytest.LogCaptureFixture) -> None:
    """When an own error answers instead of the app's 500, one WARNING says so."""
    from gaq_middleware import ForbiddenError

    def handler(request: object) -> tuple[int, list[tuple[str, str]], bytes]:
        ForbiddenError()
        return 500, [("Content-Type", "text/html")], b"oops"

    site = Site(face, make_settings(), handler)
    caplog.clear()

    assert site(ask()).status == 403
    (line,) = caplog.records
    assert line.levelname == "WARNING"
    assert "with 500 after forbidden" in line.getMessage()


@FACES
@pytest.mark.parametrize(
    ("variables", "request_path", "level", "text"),
    [
        ({}, "/login", "WARNING", "nobody told who logged in"),
        ({"cookie_secure": "true"}, "/cookie", "WARNING", "browsers will drop it"),
        ({}, "/large", "ERROR", "larger than 4096 bytes"),
    ],
    ids=["login without a user", "case 22 secure over http", "too large"],
)
def test_notices_are_given_once(
    face: str,
    variables: dict[str, str],
    request_path: str,
    level: str,
    text: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What an operator must mend is said once per middleware, and says how."""
    from gaq_middleware import current

    def handler(request: object) -> tuple[int, list[tuple[str, str]], bytes]:
        if request_path != "/login":
            current().login("u" * (4000 if request_path == "/large" else 3))
        return 200, [("Content-Type", "text/html")], b""

    site = Site(face, make_settings(**variables), handler)
    caplog.clear()

    for _ in range(3):
        answer = site(ask("POST", request_path))

    (line,) = caplog.records
    assert line.levelname == level
    assert text in line.getMessage()
    assert bool(answer.cookie()) == (request_path == "/cookie")


@FACES
def test_replaced_500s_are_rate_limited_too(face: str, caplog: pytest.LogCaptureFixture) -> None:
    """A flood of them is one line in ten seconds."""
    from gaq_middleware import ForbiddenError

    def handler(request: object) -> tuple[int, list[tuple[str, str]], bytes]:
        ForbiddenError()
        return 500, [("Content-Type", "text/html")], b"oops"

    site = Site(face, make_settings(), handler)
    caplog.clear()

    assert [site(ask()).status for _ in range(20)] == [403] * 20
    assert len(caplog.records) == 1


def test_a_peer_cannot_speak_to_the_terminal(caplog: pytest.LogCaptureFixture) -> None:
    """A server may take the peer from a client's header: it is escaped and cut."""
    from gaq_middleware.core.errors import Refusal
    from gaq_middleware.core.messages import RequestHead
    from gaq_middleware.log import Log

    head = RequestHead("GET", "http", "/", None, "", "", {}, "\x1b[31m" + "x" * 500)
    Log(make_settings()).refused(head, Refusal.of("token_missing"))

    assert "\x1b" not in caplog.text
    assert len(caplog.records[-1].getMessage()) < 250


def test_a_header_that_has_a_twin_under_wsgi_is_warned_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """CGI names make X-User and X_User one variable, and some servers let a client's in."""
    variables = {"trusted_proxies": "10.0.0.1"}
    for face, name in (("wsgi", "X-User"), ("wsgi", "XUser"), ("asgi", "X-User")):
        Site(face, make_settings(remote_user_header=name, **variables))

    assert caplog.text.count("has a hyphen") == 1


def test_a_server_variable_under_asgi_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    """REMOTE_USER is a variable of WSGI servers: under ASGI it names nobody, and says so."""
    for face in ("asgi", "wsgi"):
        Site(face, make_settings(remote_user_header="REMOTE_USER"))

    assert caplog.text.count("under ASGI nobody is named") == 1


@FACES
def test_a_wrong_method_is_logged_too(face: str, caplog: pytest.LogCaptureFixture) -> None:
    """One line per refusal, a 405 included."""
    site = Site(face, make_settings())
    caplog.clear()

    assert site(ask("POST", POLL, Cookie=cookies(token()))).status == 405
    (line,) = caplog.records
    assert "405 method_not_allowed" in line.getMessage()
