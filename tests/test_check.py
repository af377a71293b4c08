"""`gaq check`: each planted fault is one finding with its mend, and a good set-up has none."""

from __future__ import annotations

import re
import socket
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gaq_middleware.cli import main
from gaq_middleware.cli.findings import Finding
from gaq_middleware.core.store_urls import BLOCK_SECONDS
from gaq_middleware.core.tokens import key_id
from tests.helpers import GUEST, K2, K
from tests.servers import RedisServer, free_port, need_redis

TLS = str(Path(__file__).parent / "tls.pem")
PASSWORD = "open-sesame"
Check = Callable[..., tuple[int, str]]
"""Runs the command with variables, given without `GAQ_`; gives its exit code and its text."""


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """The command; whatever it prints, no secret is in it."""

    def run(environ: dict[str, str] | None = None, **variables: str) -> tuple[int, str]:
        with monkeypatch.context() as patch:
            values = {f"GAQ_{name.upper()}": value for name, value in variables.items()}
            for name, value in {"GAQ_JWT_SECRET": K, **values, **(environ or {})}.items():
                patch.setenv(name, value)
            code = main(["check"])
        out, err = capsys.readouterr()
        assert err == ""
        assert not [secret for secret in (K, K2, GUEST, PASSWORD, "Traceback") if secret in out]
        return code, re.sub(r"\s+", " ", out)

    return run


def the_finding(ran: tuple[int, str]) -> str:
    """Return the one finding."""
    code, text = ran
    assert code == 1
    assert text.startswith("1 finding: - "), text
    return text.removeprefix("1 finding: - ").strip()


G = {"guest_secret": GUEST, "guest_audience": "superset"}
WITHOUT_RULES = "user,resources,datasets,rev,iat,exp,aud"
FAULTS: list[tuple[str, dict[str, str], str, str]] = [
    # wrong, and weak
    ("an empty secret", {"jwt_secret": ""}, "GAQ_JWT_SECRET", "give it a value"),
    ("a short secret", {"jwt_secret": "short"}, "GAQ_JWT_SECRET", "`gaq secret`"),
    ("a placeholder", {"jwt_secret": "change-me-" * 5}, "GAQ_JWT_SECRET", "`gaq secret`"),
    ("a filling", {"jwt_secret": "a" * 64}, "GAQ_JWT_SECRET", "`gaq secret`"),
    ("a secret with a blank", {"jwt_secret": f"{K} "}, "GAQ_JWT_SECRET", "at an edge"),
    ("a secret twice", {"jwt_secret_file": TLS}, "GAQ_JWT_SECRET", "keep one"),
    ("no such file", {"guest_secret_file": "/no"}, "GAQ_GUEST_SECRET_FILE", "readable file"),
    ("a short old secret", {"jwt_verify_secrets": "x"}, "GAQ_JWT_VERIFY_SECRETS", "`gaq secret`"),
    ("no number", {"stream_limit": "many"}, "GAQ_STREAM_LIMIT", "plain digits"),
    ("a short life", {"jwt_expiration_seconds": "5"}, "GAQ_JWT_EXPIRATION_SECONDS", "from 60"),
    ("no boolean", {"path_anchored": "maybe"}, "GAQ_PATH_ANCHORED", "true or false"),
    ("no cookie name", {"cookie_name": "a b"}, "GAQ_COOKIE_NAME", "RFC 6265"),
    ("a dropped domain", {"cookie_domain": "localhost"}, "GAQ_COOKIE_DOMAIN", "leave it unset"),
    ("a bad SameSite", {"cookie_samesite": "loose"}, "GAQ_COOKIE_SAMESITE", "Lax, Strict, None"),
    ("a bad mode", {"issue": "always"}, "GAQ_ISSUE", "session, login, anonymous, off"),
    ("any origin", {"allowed_origins": "*"}, "GAQ_ALLOWED_ORIGINS", "https://app.example.com"),
    ("no address", {"trusted_proxies": "nginx"}, "GAQ_TRUSTED_PROXIES", "10.0.0.0/8"),
    ("no store", {"store_url": f"mysql://:{PASSWORD}@h"}, "GAQ_STORE_URL", "redis://"),
    ("an option", {"store_url": "redis://h/0?nonsense=1"}, "GAQ_STORE_URL", "'nonsense'"),
    # contradictory
    (
        "SameSite=None, insecure",
        {"cookie_samesite": "None", "cookie_secure": "false"},
        "GAQ_COOKIE_SAMESITE=None",
        "unset GAQ_COOKIE_SECURE",
    ),
    (
        "Partitioned, insecure",
        {"cookie_partitioned": "1", "cookie_samesite": "None", "cookie_secure": "auto"}
        | {"cookie_name": "__Host-t", "cookie_path": "/app"},
        "GAQ_COOKIE_NAME",
        "unset them",
    ),
    (
        "a secure name, insecure",
        {"cookie_name": "__Secure-t", "cookie_secure": "false"},
        "GAQ_COOKIE_NAME",
        "unset GAQ_COOKIE_SECURE",
    ),
    ("one header for two", {"token_header": "x-guesttoken"}, "GAQ_TOKEN_HEADER", "rename one"),
    (
        "one header for token and user",
        {"remote_user_header": "X-Async-Token", "trusted_proxies": "10.0.0.1"},
        "GAQ_TOKEN_HEADER",
        "rename one",
    ),
    (
        "one cookie for two",
        {"session_format": "flask", "session_secret": K2, "cookie_name": "session"},
        "GAQ_COOKIE_NAME",
        "rename one",
    ),
    ("no session secret", {"session_format": "flask"}, "GAQ_SESSION_SECRET", "SECRET_KEY"),
    ("no session format", {"session_secret": K2}, "GAQ_SESSION_SECRET", "flask or starlette"),
    (
        "old session secrets only",
        {"session_previous_secrets": K2},
        "GAQ_SESSION_PREVIOUS_SECRETS",
        "unset this",
    ),
    ("no proxy to name users", {"remote_user_header": "X-User"}, "GAQ_REMOTE_USER_HEADER", "set"),
    (
        "two kinds of headers",
        {"trusted_proxies": "::1", "trusted_headers": "forwarded,x-forwarded-for"},
        "GAQ_TRUSTED_HEADERS",
        "Keep the one kind",
    ),
    ("no guest audience", {"guest_secret": GUEST}, "GAQ_GUEST_AUDIENCE", "* to check none"),
    ("old guest secrets only", {"guest_verify_secrets": K2}, "GAQ_GUEST_VERIFY_SECRETS", "unset"),
    ("a guest secret for users", {**G, "guest_secret": K}, "GAQ_GUEST_SECRET", "Use two secrets"),
    ("a short guest secret", {**G, "guest_algorithm": "HS512"}, "GAQ_GUEST_ALGORITHM", "64 bytes"),
    # works, but is not meant
    ("an unknown name", {"cookie_same_site": "x"}, "GAQ_COOKIE_SAME_SITE", "GAQ_COOKIE_SAMESITE?"),
    ("nothing is issued", {"issue": "off"}, "GAQ_ISSUE=off", "another part must"),
    (
        "guests share channels",
        {**G, "guest_channel_claims": WITHOUT_RULES},
        "GAQ_GUEST_CHANNEL_CLAIMS",
        "without rls_rules",
    ),
    (
        "guests outlive tokens",
        {**G, "guest_channel_claims": "user,rls_rules"},
        "GAQ_GUEST_CHANNEL_CLAIMS",
        "jti, sid or sub",
    ),
    ("guests are half on", {"guest_audience": "x"}, "GAQ_GUEST_AUDIENCE", "set that too"),
    (
        "no renewal",
        {"jwt_max_age_seconds": "600"},
        "GAQ_JWT_MAX_AGE_SECONDS",
        "Raise the former or lower the latter",
    ),
    (
        "a long leeway",
        {"jwt_leeway_seconds": "300", "jwt_expiration_seconds": "300"},
        "GAQ_JWT_LEEWAY_SECONDS",
        "lower it",
    ),
    ("tokens for ever", {"jwt_require_exp": "0"}, "GAQ_JWT_REQUIRE_EXP=false", "Set it to true"),
    (
        "Partitioned, but Lax",
        {"cookie_partitioned": "true"},
        "GAQ_COOKIE_PARTITIONED=true",
        "set that to None",
    ),
    ("login is logout", {"logout_paths": "/login"}, "GAQ_LOGIN_PATHS", "take it out of one"),
    (
        "an open login",
        {"login_paths": "/api/v1/chart/data"},
        "GAQ_LOGIN_PATHS",
        "take it out",
    ),
    ("an open logout", {"logout_paths": "/api/v1/async_event"}, "GAQ_LOGOUT_PATHS", "take it out"),
    ("no path", {"protected_paths": "", "events_path": ""}, "GAQ_PROTECTED_PATHS", "set one"),
    ("everybody", {"trusted_proxies": "10.0.0.0/8,::/0"}, "GAQ_TRUSTED_PROXIES=::/0", "name the"),
    ("no proxies", {"trusted_headers": "forwarded"}, "GAQ_TRUSTED_HEADERS", "there are none"),
]


@pytest.mark.parametrize(
    ("variables", "variable", "mend"),
    [pytest.param(*row[1:], id=row[0]) for row in FAULTS],
)
def test_a_fault_is_one_finding_with_the_variable_and_the_mend(
    variables: dict[str, str], variable: str, mend: str, check: Check
) -> None:
    """The variable comes first, what to do is in it, and the exit code is 1."""
    if "nonsense" in str(variables):
        need_redis()
    text = the_finding(check(**variables))

    assert text.startswith(variable)
    assert mend in text


@pytest.mark.parametrize(
    ("environ", "variables", "variable", "mend"),
    [
        ({"WEB_CONCURRENCY": "4"}, {}, "GAQ_STORE_URL", "one process with threads"),
        (
            {"FORWARDED_ALLOW_IPS": "*"},
            {"remote_user_header": "X-User", "trusted_proxies": "10.0.0.1"},
            "FORWARDED_ALLOW_IPS",
            "--no-proxy-headers",
        ),
    ],
)
def test_variables_of_servers_count(
    environ: dict[str, str], variables: dict[str, str], variable: str, mend: str, check: Check
) -> None:
    """What a server reads can contradict what the middleware reads."""
    text = the_finding(check(environ, **variables))

    assert text.startswith(variable)
    assert mend in text


class TestCelery:
    """The app that a cancel revokes tasks of is imported, as the middleware does."""

    @pytest.fixture(autouse=True)
    def celery(self) -> None:
        """These tests need Celery."""
        pytest.importorskip("celery")

    @pytest.mark.parametrize(
        ("attribute", "words"), [("nothing", "has no attribute"), ("answer", "is no Celery app")]
    )
    def test_no_app(
        self,
        attribute: str,
        words: str,
        check: Check,
        folder: str,
        redis_server: RedisServer,
    ) -> None:
        """What is named is not there, or is something else."""
        ran = check(celery_app=f"{folder}:{attribute}", store_url=redis_server.url)

        text = the_finding(ran)
        assert text.startswith(f"GAQ_CELERY_APP={folder}:{attribute}")
        assert words in text
        assert "run this in the folder" in text

    def test_a_good_one(self, check: Check, folder: str, redis_server: RedisServer) -> None:
        """Found in the current folder, as servers find it."""
        path = list(sys.path)
        code, text = check(celery_app=f"{folder}:app", store_url=redis_server.url)

        assert (code, f"cancel revokes tasks of {folder}:app" in text) == (0, True), text
        assert sys.path == path

    def test_jobs_in_memory(self, check: Check, folder: str) -> None:
        """Workers are other processes."""
        assert "set it to a Redis" in the_finding(check(celery_app=f"{folder}:app"))

    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        """A module in the current folder, with a Celery app; its name."""
        name = f"tasks_{uuid.uuid4().hex}"
        code = "from celery import Celery\napp, answer = Celery(set_as_current=False), 42\n"
        (tmp_path / f"{name}.py").write_text(code)
        monkeypatch.chdir(tmp_path)
        return name


def test_a_missing_secret_and_its_misspelt_name_are_told_together(
    check: Check, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name that is not known is told also when the settings are wrong."""
    monkeypatch.setenv("GAQ_JWT_SECERT", K)
    monkeypatch.setenv("GAQ_ISSUE", "never")

    assert main(["check"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("3 findings:\n\n- GAQ_JWT_SECRET is not set. ")
    assert "\n- GAQ_ISSUE must be one of" in text
    assert (
        "\n- GAQ_JWT_SECERT is not a setting and is ignored; did you mean GAQ_JWT_SECRET?" in text
    )


GOOD: list[tuple[str, dict[str, str], str]] = [
    ("only the secret", {}, "mode session: the cookie comes on logins"),
    (
        "a rotation",
        {"jwt_verify_secrets": K2, "channel_secret": K2},
        f"key {key_id(K.encode())}; 1 more verify",
    ),
    ("guests", G, "guests tokens in X-GuestToken, HS256, audience superset"),
    ("any audience", {**G, "guest_audience": "*"}, "audience *"),
    (
        "an embedding site",
        {"cookie_samesite": "none", "cookie_partitioned": "1", "allowed_origins": "https://e.org"},
        "Secure; HttpOnly; Path=/; SameSite=None; Partitioned token",
    ),
    (
        "a host cookie",
        {"cookie_name": "__Host-t", "cookie_secure": "true"},
        "cookie __Host-t=TOKEN; Max-Age=3600; Secure; HttpOnly; Path=/; SameSite=Lax token",
    ),
    ("by scheme", {"cookie_secure": "auto"}, "SameSite=Lax (Secure on https only)"),
    (
        "sessions",
        {"session_format": "flask", "session_secret": K2},
        "user named by the flask session session; named by login()",
    ),
    (
        "a proxy that logs in",
        {"remote_user_header": "X-User", "trusted_proxies": "10.0.0.0/8,unix"},
        "proxies 10.0.0.0/8, unix with x-forwarded-for, x-forwarded-proto; uvicorn must run with",
    ),
    ("a server that logs in", {"remote_user_header": "REMOTE_USER"}, "user named by REMOTE_USER;"),
    ("visitors", {"issue": "anonymous"}, "to visitors whom nobody knows"),
    ("logins only", {"issue": "login", "login_paths": ""}, "login none; logout /logout"),
    ("no endpoints", {"events_path": ""}, "events are not served"),
    ("no paths", {"protected_paths": ""}, "guarded /api/v1/async_event events"),
    ("everything", {"protected_paths": "/"}, "guarded /, /api/v1/async_event"),
    ("one life", {"jwt_max_age_seconds": "3600"}, "until 60 minutes after the login"),
    ("forwarded", {"trusted_proxies": "::1", "trusted_headers": "forwarded"}, "::1/128 with for"),
]


@pytest.mark.parametrize(
    ("variables", "words"), [pytest.param(*row[1:], id=row[0]) for row in GOOD]
)
def test_a_good_set_up_has_no_finding(variables: dict[str, str], words: str, check: Check) -> None:
    """Exit code 0, and what will happen, in words."""
    code, text = check({"WEB_CONCURRENCY": "1", "FORWARDED_ALLOW_IPS": ""}, **variables)

    assert code == 0, text
    assert text.startswith("Nothing is wrong. This will happen: ")
    assert words in text


def test_a_secret_from_a_file_is_good(check: Check, tmp_path: Path) -> None:
    """Where the secret comes from does not matter."""
    file = tmp_path / "secret"
    file.write_text(f"{GUEST}\n")

    assert check(guest_secret_file=str(file), guest_audience="x")[0] == 0


def test_options_for_a_url_need_one(capsys: pytest.CaptureFixture[str]) -> None:
    """--login-path without --url is wrong usage, not silently ignored."""
    assert main(["check", "--login-path", "/login"]) == 2
    assert "--url" in capsys.readouterr().err


def test_nothing_that_a_terminal_would_obey_is_printed(check: Check) -> None:
    """Names and values come out as plain ASCII."""
    code, text = check({"GAQ_\x1b[31m\u202e": "x"}, login_paths="/\u202e\u00e9?")

    assert code == 1
    assert text.isascii()
    assert text.isprintable()


def test_a_finding_is_a_sentence() -> None:
    """The subject begins it, the mend ends it; a text of the settings is taken as it is."""
    assert str(Finding("A", "is b.", "Do c.")) == "A is b. Do c."
    assert str(Finding.told("GAQ_A must be b: c.")) == "GAQ_A must be b: c."


class TestStore:
    """A store that the app could not use is found by doing what the app would do."""

    @pytest.fixture(autouse=True)
    def redis(self) -> None:
        """These tests need Redis."""
        need_redis()

    @pytest.fixture
    def check_store(self, check: Check) -> Callable[[str], str]:
        """Run the command on a store's URL; give the one finding."""

        def run(url: str) -> str:
            return the_finding(check(store_url=url, stream_prefix=f"{uuid.uuid4()}-"))

        return run

    def test_a_good_one(self, check: Check, redis_server: RedisServer) -> None:
        """It answers; nothing is left behind in it."""
        with redis_server.raw() as raw:
            raw.flushall()
            code, text = check({"WEB_CONCURRENCY": "4"}, store_url=redis_server.url)

            assert code == 0, text
            assert f"{redis_server.url} answers, takes writes and runs scripts" in text
            assert raw.keys() == []

    def test_by_tls(self, check: Check) -> None:
        """With the authority in the URL a certificate of one's own is good."""
        with _tls_server() as url:
            assert check(store_url=f"{url}?ssl_ca_certs={TLS}")[0] == 0

    def test_by_tls_with_trouble(self, check_store: Callable[[str], str]) -> None:
        """The certificate, its file, and a plain connection to a port with TLS."""
        with _tls_server() as url:
            assert "ssl_ca_certs" in check_store(url)
            assert "does not exist" in check_store(f"{url}?ssl_ca_certs=/no/such.pem")
            assert "rediss://" in check_store(url.replace("rediss", "redis"))

    def test_tls_where_there_is_none(
        self, check_store: Callable[[str], str], redis_server: RedisServer
    ) -> None:
        """Redis is silent then, and waits for more."""
        url = redis_server.url.replace("redis", "rediss") + "?socket_connect_timeout=0.3"

        assert "Write redis:// for rediss://" in check_store(f"{url}&socket_timeout=1.1")

    def test_nobody_there(self, check_store: Callable[[str], str], tmp_path: Path) -> None:
        """Neither on a port nor on a socket."""
        for url in (f"redis://:{PASSWORD}@127.0.0.1:{free_port()}/0", f"unix://{tmp_path}/no"):
            text = check_store(url)
            assert "where nobody listens" in text
            assert "Start Redis there" in text

    def test_nobody_answers(self, check_store: Callable[[str], str]) -> None:
        """A server that accepts and is silent."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]

            assert "socket_timeout" in check_store(f"redis://127.0.0.1:{port}/0?socket_timeout=1.1")

    @pytest.mark.parametrize("seconds", ["1", "0.25"])
    def test_too_little_time(
        self, seconds: str, check_store: Callable[[str], str], redis_server: RedisServer
    ) -> None:
        """Not more than a read of the firehose waits in the server."""
        text = check_store(f"{redis_server.url}?socket_timeout={seconds}")

        assert text.startswith(f"GAQ_STORE_URL has a socket_timeout of {seconds} s")
        assert "Raise it above 1, or leave it out" in text

    def test_time_enough(self, check: Check, redis_server: RedisServer) -> None:
        """A little more than such a read waits."""
        seconds = BLOCK_SECONDS + 0.1
        assert check(store_url=f"{redis_server.url}?socket_timeout={seconds}")[0] == 0

    def test_no_such_host(
        self, check_store: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A name that nobody knows."""

        def fail(*_: object, **__: object) -> None:
            raise socket.gaierror(-2, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", fail)

        assert "Correct the host" in check_store("redis://no-such-host/0")

    def test_logging_in(self, check_store: Callable[[str], str], redis_server: RedisServer) -> None:
        """A password too many, too few, or wrong."""
        url = f"127.0.0.1:{redis_server.port}/0"
        assert "Take the password out" in check_store(f"redis://:{PASSWORD}@{url}")
        assert "the user or the password" in check_store(f"redis://somebody:{PASSWORD}@{url}")
        with RedisServer(password="the-right-one") as server:
            assert "USER:PASSWORD" in check_store(server.url)
            url = f"redis://:{PASSWORD}@127.0.0.1:{server.port}/0"
            assert "%2F" in check_store(url)

    def test_no_such_database(
        self, check_store: Callable[[str], str], redis_server: RedisServer
    ) -> None:
        """A number beyond those that the server has."""
        assert "0 is always there" in check_store(f"redis://127.0.0.1:{redis_server.port}/99")

    @pytest.mark.parametrize(
        ("rules", "mend"),
        [
            ("+@all -@scripting ~*", "+eval +evalsha"),
            ("+@all ~other-*", "~PREFIX*"),
            ("+@all -@stream ~*", "+@stream"),
            ("+@all -zadd ~*", "+@sortedset"),
            ("+@all -xread ~*", "+@stream"),
            ("+@all -xrevrange ~*", "+@stream"),
            ("+@all -@blocking ~*", "+@stream"),
        ],
        ids=[
            *("no Lua", "no keys", "no streams", "one command"),
            *("no waiting read", "no look at the newest", "no waiting at all"),
        ],
    )
    def test_what_the_user_may_not(
        self, rules: str, mend: str, check_store: Callable[[str], str], redis_server: RedisServer
    ) -> None:
        """A user of Redis without the rights that the scripts need."""
        with redis_server.raw() as raw:
            raw.execute_command(
                "ACL", "SETUSER", "u", "reset", "on", f">{PASSWORD}", *rules.split()
            )
            url = f"redis://u:{PASSWORD}@127.0.0.1:{redis_server.port}/0"

            assert mend in check_store(url)
            raw.execute_command("ACL", "DELUSER", "u")

    def test_no_lua_at_all(self, check_store: Callable[[str], str]) -> None:
        """Commands that were renamed away."""
        with RedisServer(
            "--rename-command", "EVAL", "", "--rename-command", "EVALSHA", ""
        ) as server:
            assert "rename-command" in check_store(server.url)

    def test_no_writes(self, check_store: Callable[[str], str]) -> None:
        """A replica, and a server whose memory is full; reading would succeed on both."""
        with RedisServer("--replicaof", f"127.0.0.1 {free_port()}") as server:
            assert "the master" in check_store(server.url)
        with RedisServer("--maxmemory", "1", "--maxmemory-policy", "noeviction") as server:
            assert "maxmemory" in check_store(server.url)

    def test_a_cluster(self, check_store: Callable[[str], str]) -> None:
        """Without a hash tag our keys have no common slot."""
        with RedisServer("--cluster-enabled", "yes") as server:
            assert "hash tag" in check_store(server.url)

    def test_no_sentinel(
        self, check_store: Callable[[str], str], redis_server: RedisServer
    ) -> None:
        """Where there is none, or it is a plain Redis."""
        for port in (free_port(), redis_server.port):
            url = f"redis+sentinel://:{PASSWORD}@127.0.0.1:{port}/mymaster/0"
            assert "Correct the sentinels" in check_store(url)

    @pytest.mark.parametrize(
        ("answer", "mend"),
        [
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", "correct the port"),
            (b"", "correct the port"),
            (b"$24\r\nredis_version:5.0.14\r\n\r\n\r\n", "Update the server"),
            (b"-MISCONF it cannot save\r\n", "Make room on the disk"),
            (b"-EXOTIC something \xe2\x80\xae\r\n", "Look into the log of the server"),
        ],
        ids=["HTTP", "closes", "old", "full disk", "else"],
    )
    def test_strange_servers(
        self, answer: bytes, mend: str, check_store: Callable[[str], str]
    ) -> None:
        """Whatever a server says is a finding, not a crash."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(target=_speak, args=(server, answer), daemon=True).start()

            assert mend in check_store(f"redis://127.0.0.1:{server.getsockname()[1]}/0")

    def test_no_client(
        self, check_store: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without redis-py the extra that brings it is named."""
        monkeypatch.setitem(sys.modules, "gaq_middleware.registry.redis", None)

        assert "pip install redis" in check_store("redis://127.0.0.1/0")


def _tls_server() -> _TlsServer:
    return _TlsServer(free_port())


class _TlsServer(RedisServer):
    """A redis-server that speaks TLS on a port of its own."""

    def __init__(self, port: int) -> None:
        options = f"--tls-port {port} --tls-auth-clients no --tls-cert-file {TLS}"
        super().__init__(*options.split(), "--tls-key-file", TLS, "--tls-ca-cert-file", TLS)
        self._tls_port = port

    def __enter__(self) -> str:  # type: ignore[override]
        super().__enter__()
        return f"rediss://127.0.0.1:{self._tls_port}/0"


def _speak(server: socket.socket, answer: bytes) -> None:
    """Answer every command with the same, those that open a connection with OK."""
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            with connection:
                for command in _commands(connection):
                    connection.sendall(b"+OK\r\n" if command.startswith(b"CLIENT") else answer)
                    if not answer:
                        break


def _commands(connection: socket.socket) -> Iterator[bytes]:
    """Yield the names of the commands that come."""
    data = b""
    while part := connection.recv(65_536):
        data += part
        while found := re.match(rb"\*(\d+)\r\n((?:\$\d+\r\n[^\r]*\r\n)+)", data):
            yield re.sub(rb"\$\d+\r\n", b"", found[2])
            data = data[found.end() :]
