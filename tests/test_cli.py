"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import io
import os
import re
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gaq_middleware
from gaq_middleware import Owner
from gaq_middleware.cli import demo, main
from gaq_middleware.cli.words import duration, moment, shown
from gaq_middleware.core.kinds import SECRET
from gaq_middleware.core.tokens import key_id
from gaq_middleware.registry import OwnerJobs, store_for
from tests.helpers import (
    GUEST,
    K2,
    NOW,
    Clock,
    K,
    forge,
    guest_claims,
    guest_token,
    make_settings,
    read_claims,
    token,
)
from tests.servers import RedisServer

MINUTE = 60.5  # and a bit, so that the test's own time does not matter


@dataclass
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """What was printed, as one line."""
        return re.sub(r"\s+", " ", self.out)


class Gaq:
    """Runs commands in this process and watches that no secret is ever printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self._capsys, self._patch = capsys, patch

    def __call__(
        self, *arguments: str, stdin: bytes = b"", environ: dict[str, str] | None = None
    ) -> Ran:
        """Run a command with variables, given without their prefix."""
        with self._patch.context() as patch:
            for name, value in (environ or {}).items():
                patch.setenv(f"GAQ_{name.upper()}", value)
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            try:
                code = main(arguments)
            except SystemExit as exit_:
                code = int(exit_.code or 0)
        out, err = self._capsys.readouterr()
        for secret in (K, K2, GUEST):
            assert secret not in out + err
        assert "Traceback" not in out + err
        return Ran(code, out, err)

    def inspect(self, raw: str, **environ: str) -> Ran:
        """Inspect a token with K in the environment, unless told otherwise."""
        return self("token", "inspect", raw, environ={"jwt_secret": K, **environ})


@pytest.fixture
def gaq(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Gaq:
    """The command, run in this process."""
    return Gaq(capsys, monkeypatch)


def fresh(exp: float = 3000, **claims: Any) -> str:
    """Return a token that is valid now, unless told otherwise."""
    return token(exp, now=time.time(), **claims)


class TestWords:
    @pytest.mark.parametrize(
        ("seconds", "words"),
        [
            (-1, "0 seconds"),
            (0.9, "0 seconds"),
            (1, "1 second"),
            (119, "119 seconds"),
            (120, "2 minutes"),
            (3600, "60 minutes"),
            (7200, "2 hours"),
            (90_000, "25 hours"),
            (172_800, "2 days"),
            (1e18, "more than 100 years"),
            (1e308, "more than 100 years"),
        ],
    )
    def test_duration(self, seconds: float, words: str) -> None:
        """A length of time is told in the largest unit that it holds twice."""
        assert duration(seconds) == words

    @pytest.mark.parametrize(
        ("value", "words"),
        [
            (NOW - 180, "expired 3 minutes ago, 2027-01-15 07:57:00 UTC"),
            (NOW + 180, "expires in 3 minutes, 2027-01-15 08:03:00 UTC"),
            (1e300, "no date"),
            (float("nan"), "no date"),
            (10**400, "no date"),
            (None, "no date"),
            ([], "no date"),
        ],
    )
    def test_moment(self, value: object, words: str) -> None:
        """A time is told from now, and as a date; what is none is called so."""
        assert moment(value, NOW, "expired", "expires") == words

    def test_shown(self) -> None:
        """Values from outside come out as plain ASCII, and not at length."""
        assert shown("\x1b[31m\u202e") == r'"\u001b[31m\u202e"'
        assert shown("a" * 300) == '"' + "a" * 199 + "... (302 characters)"


class TestMain:
    def test_version(self, gaq: Gaq) -> None:
        """--version tells the name and the version."""
        ran = gaq("--version")
        assert (ran.code, ran.out) == (0, f"gaq_middleware {gaq_middleware.__version__}\n")

    @pytest.mark.parametrize("words", ["", "token", "nonsense", "token issue", "demo --port x"])
    def test_wrong_usage(self, gaq: Gaq, words: str) -> None:
        """Wrong usage is told on standard error with exit code 2."""
        ran = gaq(*words.split())
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("usage: gaq")

    @pytest.mark.parametrize(
        "words", ["", "check", "secret", "token", "token issue", "token inspect", "demo"]
    )
    def test_help(self, gaq: Gaq, words: str) -> None:
        """Every command has a help."""
        ran = gaq(*words.split(), "--help")
        assert ran.code == 0
        assert ran.out.startswith(f"usage: {' '.join(['gaq', *words.split()])}")

    def test_module(self) -> None:
        """`python -m gaq_middleware` is the same command."""
        command = [sys.executable, "-m", "gaq_middleware", "secret"]
        ran = subprocess.run(command, env={}, capture_output=True, text=True, check=True)
        assert len(ran.stdout) == 65
        assert ran.stderr == ""

    @pytest.mark.parametrize("flag", [["-u"], []], ids=["unbuffered", "buffered"])
    @pytest.mark.parametrize("words", ["check", "secret", "--help"])
    def test_a_reader_that_leaves(self, words: str, flag: list[str]) -> None:
        """Nobody reads it any more, as in `gaq check | head -1`: it ends without a traceback."""
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, *flag, "-m", "gaq_middleware", words]
        ran = subprocess.run(command, env={}, stdout=writer, stderr=subprocess.PIPE, check=False)
        os.close(writer)
        assert ran.returncode in (0, 1)
        assert ran.stderr == b""


class TestSecret:
    def test_is_good(self, gaq: Gaq) -> None:
        """The secret is one that the settings accept, URL-safe, and new every time."""
        secrets = {gaq("secret").out for _ in range(3)}
        assert len(secrets) == 3
        for secret in secrets:
            assert re.fullmatch(r"[\w-]{64}\n", secret, re.ASCII)
            assert SECRET.parse(secret.strip()) == secret.strip().encode()


class TestIssue:
    def test_prints_the_token_only(self, gaq: Gaq) -> None:
        """The one thing on standard output is a token of the user, valid under the settings."""
        ran = gaq("token", "issue", "7", environ={"jwt_secret": K, "jwt_expiration_seconds": "120"})
        assert (ran.code, ran.err) == (0, "")
        claims = read_claims(ran.out)
        assert claims["sub"] == "7"
        assert 0 < claims["exp"] - time.time() <= 120
        assert gaq.inspect(ran.out.strip()).code == 0

    def test_no_user(self, gaq: Gaq) -> None:
        """An id that cannot be one is refused in a sentence."""
        ran = gaq("token", "issue", "", environ={"jwt_secret": K})
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == (
            "'' is not a user id: it must be text, a whole number or a UUID. Pass the id, such as "
            "user.pk, not the user.\n"
        )

    def test_wrong_settings(self, gaq: Gaq) -> None:
        """Wrong settings are listed on standard error with exit code 2."""
        ran = gaq("token", "issue", "7", environ={"cookie_secure": "maybe"})
        assert (ran.code, ran.out) == (2, "")
        assert "GAQ_JWT_SECRET is not set" in ran.err
        assert "GAQ_COOKIE_SECURE must be" in ran.err


class TestFacts:
    def test_of_a_valid_token(self, gaq: Gaq) -> None:
        """A valid token is shown with its claims in words, and exit code 0."""
        raw = gaq("token", "issue", "7", environ={"jwt_secret": K}).out.strip()
        ran = gaq.inspect(raw)
        assert ran.code == 0
        assert f'kid "{key_id(K.encode())}" (our current secret)' in ran.text
        assert 'channel "user-' in ran.text
        assert 'sub "7"' in ran.text
        assert "(expires in 59 minutes, " in ran.text
        assert "(logged in " in ran.text
        assert 'VALID It is good for 59 minutes more, for the user "7", in the cookie' in ran.text

    def test_issued(self, gaq: Gaq) -> None:
        """When a token was issued is told in words."""
        assert "(issued 3 minutes ago, " in gaq.inspect(fresh(iat=time.time() - 180.5)).text

    def test_old_key(self, gaq: Gaq) -> None:
        """The key id is told to be that of a verify-only secret of ours."""
        raw = gaq("token", "issue", "7", environ={"jwt_secret": K}).out.strip()
        ran = gaq.inspect(raw, jwt_secret=K2, jwt_verify_secrets=K)
        assert ran.code == 0
        assert "(our verify-only secret)" in ran.text

    def test_anonymous(self, gaq: Gaq) -> None:
        """A token without a user is a visitor's."""
        ran = gaq.inspect(fresh(sub=...))
        assert ran.code == 0
        assert "a visitor without a user id" in ran.text

    def test_for_ever(self, gaq: Gaq) -> None:
        """A token without exp is valid for ever where that is allowed."""
        raw = forge({"channel": "c1"})
        assert "good for ever" in gaq.inspect(raw, jwt_require_exp="false").text

    def test_standard_input(self, gaq: Gaq) -> None:
        """`-` reads the token from standard input, white space around it cut."""
        ran = gaq(
            "token", "inspect", "-", stdin=f" {fresh()}\n".encode(), environ={"jwt_secret": K}
        )
        assert (ran.code, "VALID" in ran.out) == (0, True)

    @pytest.mark.parametrize("stdin", [b"", b"\n"])
    def test_no_token(self, gaq: Gaq, stdin: bytes) -> None:
        """No token is wrong usage."""
        ran = gaq("token", "inspect", "-", stdin=stdin, environ={"jwt_secret": K})
        assert (ran.code, ran.out, ran.err) == (2, "", "No token was given.\n")

    def test_terminal(self, gaq: Gaq) -> None:
        """Names and values of claims cannot speak to the terminal."""
        ran = gaq.inspect(forge({"\x1b[2J": "\x07\u202e", "exp": "\x9b"}))
        assert ran.out.isascii()
        assert ran.out.replace("\n", "").isprintable()


REFUSED = [
    pytest.param(
        lambda: fresh(-3 * MINUTE),
        "token_expired",
        ["expired 3 minutes ago", "10 seconds of clock skew are allowed", "Log in again."],
        id="expired",
    ),
    pytest.param(
        lambda: fresh(secret=K2),
        "token_signature",
        ["with another key than ours", "has no key id", "GAQ_JWT_VERIFY_SECRETS"],
        id="another key",
    ),
    pytest.param(
        lambda: forge({"channel": "c1", "exp": 9e9}, K2, header={"alg": "HS256", "kid": "0ldkey"}),
        "token_signature",
        ['names the key "0ldkey"', "(none of ours: "],
        id="another key with its id",
    ),
    pytest.param(
        lambda: forge({"channel": "c1"}, K2, header={"alg": "HS256", "kid": key_id(K.encode())}),
        "token_signature",
        ["changed or cut off after it was signed", "Besides: It has no exp"],
        id="changed",
    ),
    pytest.param(
        lambda: forge({"channel": "c1", "exp": 9e9}, header={"alg": "HS512"}, digest="sha512"),
        "token_malformed",
        ['algorithm is "HS512"; only HS256'],
        id="another algorithm",
    ),
    pytest.param(
        lambda: forge({"channel": "c1", "exp": 9e9}, header={"alg": "none"}),
        "token_malformed",
        ['algorithm is "none"; only HS256'],
        id="no algorithm",
    ),
    pytest.param(
        lambda: forge({"channel": "c1"}),
        "token_claims",
        ["has no exp", "GAQ_JWT_REQUIRE_EXP=false"],
        id="no exp",
    ),
    pytest.param(
        lambda: fresh(exp=0, channel=None) and forge({"exp": [1]}),
        "token_claims",
        ["Its exp is [1], not a time", "Its channel is null"],
        id="exp no number, no channel",
    ),
    pytest.param(
        lambda: fresh(channel="full"), "token_claims", ['channel is "full"'], id="channel"
    ),
    pytest.param(lambda: fresh(sub=["7"]), "token_claims", ['user (sub) is ["7"]'], id="sub"),
    pytest.param(lambda: fresh(aud="x"), "token_claims", ["names an audience"], id="audience"),
    pytest.param(
        lambda: fresh(nbf=time.time() + 10 * MINUTE),
        "token_claims",
        ["valid only in 10 minutes", "Set the clocks right"],
        id="not yet",
    ),
    pytest.param(
        lambda: fresh(auth_time="x"), "token_claims", ['auth_time is "x", not a time'], id="login"
    ),
    pytest.param(
        lambda: fresh(more="x" * 4000), "token_malformed", ["too long", "at most 4096"], id="long"
    ),
    pytest.param(lambda: "hello", "token_malformed", ["not a JWT"], id="no JWT"),
    pytest.param(lambda: fresh()[:-2], "token_malformed", ["something was cut off"], id="cut off"),
]


class TestRefused:
    @pytest.mark.parametrize(("make", "code", "words"), REFUSED)
    def test_reason(self, gaq: Gaq, make: Any, code: str, words: list[str]) -> None:
        """A refused token is exit code 1, the code of the refusal, the reason and the mend."""
        ran = gaq.inspect(make())
        assert ran.code == 1
        assert f"REFUSED: {code} " in ran.text
        for part in words:
            assert part in ran.text

    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.one_of(st.text(min_size=1), st.from_regex(r"[\w.-]{1,80}", fullmatch=True)))
    def test_any_text(self, gaq: Gaq, text: str) -> None:
        """Any text is refused, never a crash."""
        assert gaq(
            "token", "inspect", "-", stdin=text.encode(), environ={"jwt_secret": K}
        ).code in (1, 2)

    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        ),
        st.sampled_from(["exp", "nbf", "iat", "auth_time", "sub", "channel", "aud", "type"]),
        st.booleans(),
    )
    def test_any_claim(self, gaq: Gaq, value: Any, name: str, as_guest: bool) -> None:
        """Any claim gives a verdict, never a crash."""
        now = time.time()
        claims = guest_claims(now=now) if as_guest else {"channel": "c1", "exp": now + 3000}
        raw = forge({**claims, name: value}, GUEST if as_guest else K)
        assert gaq.inspect(raw, guest_secret=GUEST, guest_audience="superset").code in (0, 1)


class TestWithoutSecret:
    def test_good_otherwise(self, gaq: Gaq) -> None:
        """Without a secret the facts are shown, and that nobody can tell: exit code 2."""
        ran = gaq("token", "inspect", fresh())
        assert ran.code == 2
        assert 'channel "c1"' in ran.text
        assert "NOT CHECKED GAQ_JWT_SECRET is not set here" in ran.text

    @pytest.mark.parametrize(
        ("raw", "code"),
        [
            (fresh(-100), "token_expired"),
            (forge({"channel": "c1"}), "token_claims"),
            (forge({}, header={"alg": "none"}), "token_malformed"),
            ("hello", "token_malformed"),
        ],
    )
    def test_wrong_anyway(self, gaq: Gaq, raw: str, code: str) -> None:
        """What every secret would refuse is refused without one."""
        ran = gaq("token", "inspect", raw)
        assert ran.code == 1
        assert f"REFUSED: {code}" in ran.out

    def test_secret_file(self, gaq: Gaq, tmp_path: Path) -> None:
        """A secret that comes from a file checks the signature too."""
        file = tmp_path / "secret"
        file.write_text(K + "\n")
        ran = gaq("token", "inspect", fresh(), environ={"jwt_secret_file": str(file)})
        assert (ran.code, "VALID" in ran.out) == (0, True)

    def test_wrong_settings(self, gaq: Gaq) -> None:
        """Settings that are wrong are told before any verdict."""
        ran = gaq("token", "inspect", fresh(), environ={"jwt_secret": "short"})
        assert (ran.code, ran.out) == (2, "")
        assert "it has only 5 bytes" in ran.err


ON = {"guest_secret": GUEST, "guest_audience": "superset"}


class TestGuest:
    def test_valid(self, gaq: Gaq) -> None:
        """A guest token is judged as one, and told where it belongs."""
        ran = gaq.inspect(guest_token(now=time.time()), **ON)
        assert ran.code == 0
        assert "This guest token says" in ran.text
        assert "for a guest, in the header X-GuestToken" in ran.text

    def test_guests_off(self, gaq: Gaq) -> None:
        """Without the guests' secret it is shown but cannot be checked."""
        ran = gaq.inspect(guest_token(now=time.time()))
        assert ran.code == 2
        assert "NOT CHECKED GAQ_GUEST_SECRET is not set here" in ran.text

    @pytest.mark.parametrize(
        ("claims", "code", "words"),
        [
            ({"exp": NOW - 9e7}, "guest_expired", "Fetch a new one"),
            ({"secret": K2}, "guest_signature", "another GAQ_GUEST_SECRET"),
            ({"aud": "other"}, "guest_claims", 'audience (aud) is "other", but GAQ_GUEST_AUDIENCE'),
            ({"aud": ["x"]}, "guest_claims", 'audience (aud) is ["x"]'),
            ({"type": ...}, "guest_claims", 'Its type is null, not "guest"'),
            ({"user": "u"}, "guest_claims", 'Its user is "u", not an object'),
            ({"rls_rules": {}}, "guest_claims", "Its rls_rules is {}, not a list"),
            ({"exp": ...}, "guest_claims", "has no exp"),
        ],
    )
    def test_refused(self, gaq: Gaq, claims: dict[str, Any], code: str, words: str) -> None:
        """A refused guest token is told why."""
        ran = gaq.inspect(guest_token(now=time.time(), **claims), **ON)
        assert ran.code == 1
        assert f"REFUSED: {code} " in ran.text
        assert words in ran.text
        assert "REQUIRE_EXP" not in ran.text

    def test_algorithm(self, gaq: Gaq) -> None:
        """Another algorithm than the configured one is refused, and the setting is named."""
        raw = forge({"type": "guest"}, GUEST, header={"alg": "HS512"}, digest="sha512")
        ran = gaq.inspect(raw, **ON)
        assert ran.code == 1
        assert "GAQ_GUEST_ALGORITHM" in ran.text


class TestReap:
    @pytest.mark.parametrize(
        ("overdue", "line"),
        [
            (0, "0 jobs were past the deadline and ended.\n"),
            (1, "1 job was past the deadline and ended.\n"),
            (2, "2 jobs were past the deadline and ended.\n"),
        ],
    )
    def test_ends_what_is_overdue(
        self, gaq: Gaq, redis_server: RedisServer, overdue: int, line: str
    ) -> None:
        """Jobs past their deadline end with an event, others do not; the number is printed."""
        environ = {"jwt_secret": K, "store_url": redis_server.url, "job_ttl_seconds": "60"}
        settings, owner = make_settings(**environ), Owner("user-reaped", "7")
        with redis_server.raw() as raw:
            raw.flushall()
        for ago in [0] + [61] * overdue:
            clock = Clock(time.time() - ago)
            OwnerJobs(store_for(settings), lambda: owner, settings, clock=clock).submit()

        ran = gaq("reap", environ=environ)

        assert (ran.code, ran.out, ran.err) == (0, line, "")
        events = OwnerJobs(store_for(settings), lambda: owner, settings).events()
        assert [event.errors[0]["code"] for event in events] == ["job_lost"] * overdue
        assert gaq("reap", environ=environ).out.startswith("0 jobs")

    def test_in_memory_there_is_nothing_to_do(self, gaq: Gaq) -> None:
        """The jobs are in another process; whoever runs this has set up the wrong store."""
        ran = gaq("reap", environ={"jwt_secret": K})

        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("GAQ_STORE_URL is memory://")

    def test_a_store_that_is_down(self, gaq: Gaq) -> None:
        """Cron is told, by the exit code and on standard error."""
        pytest.importorskip("redis")
        environ = {"jwt_secret": K, "store_url": "redis://127.0.0.1:1"}

        ran = gaq("reap", environ=environ)

        assert (ran.code, ran.out) == (1, "")
        assert "No job was ended. The store of jobs cannot be reached." in ran.err


class TestDemo:
    def test_a_store_that_is_down(self, gaq: Gaq, installed: None) -> None:
        """Nothing is served that could only answer 503."""
        pytest.importorskip("redis")

        ran = gaq("demo", "--store", "redis://:pw@127.0.0.1:1/0")

        assert (ran.code, ran.out) == (2, "")
        assert ran.err.endswith("No Redis that can be used at redis://127.0.0.1:1/0.\n")
        assert "pw" not in ran.err

    def test_no_store(self, gaq: Gaq, installed: None) -> None:
        """What is no URL of a store is told as for the variable."""
        assert gaq("demo", "--store", "localhost").code == 2

    @pytest.mark.parametrize(("words", "server"), [([], "uvicorn"), (["--wsgi"], "waitress")])
    def test_extra_missing(
        self, gaq: Gaq, monkeypatch: pytest.MonkeyPatch, words: list[str], server: str
    ) -> None:
        """A server that is not installed is named, with the command that installs it."""
        monkeypatch.setitem(sys.modules, server, None)
        ran = gaq("demo", *words)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == (
            f"`gaq demo` needs {server}, which is not installed: "
            "pip install '.[demo]' where the package was installed from.\n"
        )

    @pytest.fixture
    def installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "uvicorn", ModuleType("uvicorn"))

    def test_port_in_use(self, gaq: Gaq, installed: None) -> None:
        """A port that was named and is in use is an error."""
        with demo._listen("127.0.0.1", 0) as taken:
            port = str(taken.getsockname()[1])
            ran = gaq("demo", "--port", port)
        assert (ran.code, ran.out) == (2, "")
        assert f"port {port} is in use" in ran.err

    def test_next_free_port(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a port the default is taken, or the next that is free; then one is asked for."""
        with demo._listen("127.0.0.1", 0) as taken:
            busy = taken.getsockname()[1]
            monkeypatch.setattr(demo, "DEFAULT_PORT", busy)
            with demo._listen("127.0.0.1", None) as found:
                assert busy < found.getsockname()[1] < busy + 100
            monkeypatch.setattr(demo, "_TRIES", 1)
            with pytest.raises(OSError) as error:
                demo._listen("127.0.0.1", None)
            assert "Name one with --port" in demo._why(error.value, None)

    @pytest.mark.parametrize(
        ("error", "words"),
        [
            (socket.gaierror(-2, "Name or service not known"), "Name or service not known."),
            (OSError(13, "Permission denied (while attempting ...)"), "Permission denied."),
            (UnicodeError("label too long"), "this is no host name."),
        ],
    )
    def test_no_address(
        self,
        gaq: Gaq,
        installed: None,
        monkeypatch: pytest.MonkeyPatch,
        error: Exception,
        words: str,
    ) -> None:
        """An address that cannot be listened on is an error in one sentence."""
        monkeypatch.setattr(socket, "create_server", Mock(side_effect=error))
        ran = gaq("demo", "--host", "elsewhere")
        assert (ran.code, ran.out, ran.err) == (2, "", f"Cannot listen on elsewhere: {words}\n")

    @pytest.mark.parametrize("port", ["-1", "65536", "http"])
    def test_wrong_port(self, gaq: Gaq, port: str) -> None:
        """What is no port is wrong usage."""
        ran = gaq("demo", f"--port={port}")
        assert ran.code == 2
        assert "--port" in ran.err


def test_a_token_that_a_guest_secret_signed_is_judged_as_a_guests(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it lacks; to make the secrets equal would be the wrong mend."""
    for name, value in (("JWT_SECRET", K), ("GUEST_SECRET", GUEST), ("GUEST_AUDIENCE", "superset")):
        monkeypatch.setenv(f"GAQ_{name}", value)
    claims = {"user": {"username": "g"}, "exp": int(time.time()) + 300, "aud": "superset"}
    assert main(["token", "inspect", forge(claims, GUEST)]) == 1
    said = capsys.readouterr().out
    assert "guest_claims" in said
    assert 'Its type is null, not "guest".' in said
    assert "Its resources is null, not a list." in said
