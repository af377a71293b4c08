"""The settings: right environments, wrong ones with one clear error each, doubts, files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gaq_middleware.core import kinds
from gaq_middleware.core.errors import SettingsError
from gaq_middleware.core.settings import Settings, table
from gaq_middleware.core.variables import Row
from tests.helpers import GUEST, K2, K, guest_settings, make_settings

ROWS = table()
LONG = "a-long-secret-of-the-guests-0123456789-abcdefghijklmnopqrstuvwxyz"


def problems(**variables: str) -> tuple[str, ...]:
    """Return what is wrong with settings; the JWT secret is good unless given."""
    with pytest.raises(SettingsError) as caught:
        make_settings(**variables)
    return caught.value.problems


# --- the table --------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.variable)
def test_every_variable_has_a_kind_in_words_and_a_text(row: Row) -> None:
    """The one table feeds the parser, the README and the tests (design 3)."""
    assert row.variable == f"GAQ_{row.name.upper()}"
    assert row.text
    assert row.kind.words


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.variable)
def test_every_variable_has_a_default_that_parses(row: Row) -> None:
    """What the table says an unset variable means is itself a right value."""
    if row.default:
        row.kind.parse(row.default)
    elif row.default == "":
        assert row.kind.when_empty is not None


def test_the_defaults_of_the_law() -> None:
    """With only the secret set, everything is as design 3 says."""
    settings = make_settings()
    expected = {
        "jwt_secret": K.encode(),
        "jwt_verify_secrets": (),
        "channel_secret": None,
        "jwt_expiration_seconds": 3600,
        "jwt_max_age_seconds": 43200,
        "jwt_leeway_seconds": 10,
        "jwt_require_exp": True,
        "cookie_name": "async-token",
        "cookie_domain": None,
        "cookie_path": "/",
        "cookie_samesite": "Lax",
        "cookie_secure": None,
        "cookie_partitioned": False,
        "token_header": "X-Async-Token",
        "issue": "session",
        "login_paths": ("/login", "/api/v1/security/login"),
        "logout_paths": ("/logout",),
        "guest_secret": None,
        "guest_verify_secrets": (),
        "guest_header": "X-GuestToken",
        "guest_audience": None,
        "guest_algorithm": "HS256",
        "guest_channel_claims": (
            *("user", "resources", "rls_rules", "datasets", "rev", "iat", "exp", "aud"),
        ),
        "protected_paths": (
            "/api/v1/async_event",
            "/api/v1/chart/data",
            "/api/v1/chart/*/data",
            "/superset/explore_json",
        ),
        "path_anchored": False,
        "open_paths": (),
        "events_path": "/api/v1/async_event",
        "allowed_origins": (),
        "store_url": "memory://",
        "stream_prefix": "async-events-",
        "stream_limit": 1000,
        "job_ttl_seconds": 3600,
    }
    assert {name: getattr(settings, name) for name in expected} == expected
    assert settings.warnings == ()


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """`from_env()` reads the variables of the process."""
    monkeypatch.setenv("GAQ_JWT_SECRET", K)
    monkeypatch.setenv("GAQ_ISSUE", "LOGIN")
    settings = Settings.from_env()
    assert (settings.jwt_secret, settings.issue) == (K.encode(), "login")


def test_secrets_verify_in_order_and_the_first_signs() -> None:
    """The current secret first, then the verify-only ones (case 141)."""
    assert make_settings(jwt_verify_secrets=K2).secrets == (K.encode(), K2.encode())
    assert guest_settings(guest_verify_secrets=K2).guest_secrets == (GUEST.encode(), K2.encode())
    assert make_settings().guest_secrets == ()


def test_supersets_own_configuration_is_read_beneath_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`from_superset` takes its mapping and variables win; more in test_superset (design 3)."""
    config: dict[str, object] = {
        "FEATURE_FLAGS": {"GLOBAL_ASYNC_QUERIES": True},
        "GLOBAL_ASYNC_QUERIES_JWT_SECRET": K,
        "GLOBAL_ASYNC_QUERIES_JWT_COOKIE_NAME": "t",
    }
    monkeypatch.setenv("GAQ_STORE_URL", "memory://")
    assert Settings.from_superset(config).cookie_name == "t"
    environ = {"GAQ_STORE_URL": "memory://", "GAQ_COOKIE_NAME": "mine"}
    assert Settings.from_superset(config, environ).cookie_name == "mine"
    for key, value in (("SECRET", "short"), ("COOKIE_NAME", ["t"])):
        wrong = {**config, f"GLOBAL_ASYNC_QUERIES_JWT_{key}": value}
        with pytest.raises(SettingsError, match=f"GLOBAL_ASYNC_QUERIES_JWT_{key}"):
            Settings.from_superset(wrong)


# --- wrong environments -----------------------------------------------------------------------

WRONG: list[tuple[str, dict[str, str], str, str]] = [
    ("a short secret", {"jwt_secret": "short"}, "GAQ_JWT_SECRET", "gaq secret"),
    ("an empty secret", {"jwt_secret": ""}, "GAQ_JWT_SECRET", "unset it or give it a value"),
    ("a placeholder", {"jwt_secret": "change-me-" * 5}, "GAQ_JWT_SECRET", "gaq secret"),
    ("a secret with a blank", {"jwt_secret": f"{K} "}, "GAQ_JWT_SECRET", "white space"),
    ("a bad old secret", {"jwt_verify_secrets": "x"}, "GAQ_JWT_VERIFY_SECRETS", "gaq secret"),
    ("an empty channel secret", {"channel_secret": ""}, "GAQ_CHANNEL_SECRET", "unset it"),
    ("a short life", {"jwt_expiration_seconds": "59"}, "GAQ_JWT_EXPIRATION_SECONDS", "60"),
    ("a life of no number", {"jwt_max_age_seconds": "1h"}, "GAQ_JWT_MAX_AGE_SECONDS", "digits"),
    ("a long leeway", {"jwt_leeway_seconds": "301"}, "GAQ_JWT_LEEWAY_SECONDS", "0 and 300"),
    ("no boolean", {"jwt_require_exp": "maybe"}, "GAQ_JWT_REQUIRE_EXP", "true or false"),
    ("an empty boolean", {"path_anchored": ""}, "GAQ_PATH_ANCHORED", "unset it"),
    ("a bad cookie name", {"cookie_name": "a b"}, "GAQ_COOKIE_NAME", "RFC 6265"),
    ("localhost", {"cookie_domain": "localhost"}, "GAQ_COOKIE_DOMAIN", "leave it unset"),
    ("a port", {"cookie_domain": "a.example:80"}, "GAQ_COOKIE_DOMAIN", "leave it unset"),
    ("an IP address", {"cookie_domain": "10.0.0.1"}, "GAQ_COOKIE_DOMAIN", "leave it unset"),
    ("a relative path", {"cookie_path": "app"}, "GAQ_COOKIE_PATH", "/api/v1/jobs"),
    ("a bad SameSite", {"cookie_samesite": "loose"}, "GAQ_COOKIE_SAMESITE", "Lax, Strict, None"),
    ("a bad Secure", {"cookie_secure": "sometimes"}, "GAQ_COOKIE_SECURE", "auto, true or false"),
    ("a bad header", {"token_header": "X Token"}, "GAQ_TOKEN_HEADER", "letters, digits"),
    ("a bad mode", {"issue": "always"}, "GAQ_ISSUE", "session, login, anonymous, off"),
    ("a bad path", {"login_paths": "/login,,"}, "GAQ_LOGIN_PATHS", "/api/v1/jobs"),
    ("the root", {"events_path": "/"}, "GAQ_EVENTS_PATH", "may not be the root"),
    ("no claims", {"guest_channel_claims": ""}, "GAQ_GUEST_CHANNEL_CLAIMS", "unset it"),
    ("another algorithm", {"guest_algorithm": "RS256"}, "GAQ_GUEST_ALGORITHM", "HS384, HS512"),
    ("a star", {"allowed_origins": "*"}, "GAQ_ALLOWED_ORIGINS", "https://app.example.com"),
    ("another store", {"store_url": "mysql://h"}, "GAQ_STORE_URL", "memory://"),
    ("an empty store", {"store_url": ""}, "GAQ_STORE_URL", "unset it"),
    ("a prefix with a blank", {"stream_prefix": "a b"}, "GAQ_STREAM_PREFIX", "white space"),
    ("no events", {"stream_limit": "0"}, "GAQ_STREAM_LIMIT", "between 1 and 1000000"),
    ("no time to live", {"job_ttl_seconds": "0"}, "GAQ_JOB_TTL_SECONDS", "between 1 and"),
]


@pytest.mark.parametrize(
    ("variables", "variable", "mend"),
    [pytest.param(variables, variable, mend, id=name) for name, variables, variable, mend in WRONG],
)
def test_a_wrong_variable_is_one_error_that_names_it_its_kind_and_the_mend(
    variables: dict[str, str], variable: str, mend: str
) -> None:
    """One problem: the variable, what it must be, and what to do (design 2, 3)."""
    (problem,) = problems(**variables)
    kind = next(row.kind for row in ROWS if row.variable == variable)
    assert problem.startswith(f"{variable} must be {kind.words}: ")
    assert mend in problem


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("jwt_expiration_seconds", 60, 34_560_000),
        ("jwt_max_age_seconds", 60, 34_560_000),
        ("jwt_leeway_seconds", 0, 300),
        ("stream_limit", 1, 1_000_000),
        ("job_ttl_seconds", 1, 31_536_000),
    ],
)
def test_the_bounds_of_a_number(name: str, least: int, most: int) -> None:
    """Both bounds are allowed; 400 days is what browsers keep a cookie (RFC 6265bis 5.5)."""
    for right in (least, most):
        assert getattr(make_settings(**{name: str(right)}), name) == right
    for wrong in (least - 1, most + 1):
        (problem,) = problems(**{name: str(wrong)})
        assert problem.startswith(f"GAQ_{name.upper()} must be a whole number")


def test_all_wrong_variables_are_listed_at_once() -> None:
    """Everything wrong is listed in one SettingsError (design 2)."""
    found = problems(issue="always", jwt_secret="short", stream_limit="many")
    assert [problem.partition(" ")[0] for problem in found] == [
        "GAQ_JWT_SECRET",
        "GAQ_ISSUE",
        "GAQ_STREAM_LIMIT",
    ]


def test_case_61_a_missing_secret_is_named_with_the_mend() -> None:
    """The missing setting is named; there is no default secret (case 61)."""
    with pytest.raises(SettingsError) as caught:
        Settings.from_env({})
    (problem,) = caught.value.problems
    assert problem.startswith("GAQ_JWT_SECRET is not set.")
    assert "gaq secret" in problem
    assert "every process" in problem


@pytest.mark.parametrize("face", ["asgi", "wsgi"])
def test_case_78_without_a_secret_every_worker_exits(face: str) -> None:
    """No secret is ever made up: construction ends the process, code not 0 (cases 61, 78)."""
    code = f"from gaq_middleware.{face} import AsyncQueryMiddleware as M; M(lambda *a: [])"
    environ = {k: v for k, v in os.environ.items() if not k.startswith("GAQ_")}
    worker = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False
    )
    assert worker.returncode != 0
    assert "GAQ_JWT_SECRET is not set" in worker.stderr


@pytest.mark.parametrize(
    "secret",
    ["change-me-" * 5, "a" * 64, "test-secret-change-me", "CHANGE_ME_TO_A_COMPLEX_RANDOM_SECRET"],
)
def test_case_62_a_placeholder_never_starts(secret: str) -> None:
    """Known placeholders, fillings and Superset's shipped defaults are refused (case 62)."""
    for name in ("jwt_secret", "jwt_verify_secrets", "channel_secret", "guest_secret"):
        (problem,) = problems(**{name: secret})
        assert problem.startswith(f"GAQ_{name.upper()} must be ")


@pytest.mark.parametrize(
    "value",
    [f"{K}\t", "hunter2-hunter2", f"{K},", "change-me-and-hunter2-0123456789-abcdef"],
)
def test_a_wrong_secret_is_not_shown(value: str) -> None:
    """Secrets never appear in errors (design 3)."""
    for name in ("jwt_secret", "jwt_verify_secrets", "guest_secret"):
        (problem,) = problems(**{name: value})
        assert value.strip("\t,") not in problem
        assert "hunter2" not in problem


def test_the_password_of_a_wrong_store_url_is_not_shown() -> None:
    """A store's URL may hold a password; errors and the repr leave it out (design 3)."""
    (problem,) = problems(store_url="mysql://user:hunter2@h/0")
    assert "hunter2" not in problem
    assert "store_url" not in repr(make_settings())


def test_a_wrong_value_is_shown_cut_and_in_ascii() -> None:
    """Other values are shown, so that a typing error is seen, but cannot flood a log."""
    (problem,) = problems(issue="Énergie\n" + "x" * 500)
    assert "(got '\\xc9nergie\\n" in problem
    assert len(problem) < 250
    assert problem.isascii()


# --- contradictions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "cause"),
    [
        pytest.param({"cookie_name": "__Host-t"}, "__Host-", id="a __Host- name"),
        pytest.param({"cookie_name": "__host-t"}, "__Host-", id="a __host- name, in any case"),
        pytest.param({"cookie_name": "__Secure-t"}, "__Secure-", id="a __Secure- name"),
        pytest.param({"cookie_name": "__SECURE-t"}, "__Secure-", id="a __SECURE- name"),
        pytest.param({"cookie_samesite": "None"}, "GAQ_COOKIE_SAMESITE=None", id="SameSite=None"),
        pytest.param({"cookie_partitioned": "1"}, "GAQ_COOKIE_PARTITIONED", id="Partitioned"),
    ],
)
def test_case_23_what_needs_secure_refuses_secure_false(
    variables: dict[str, str], cause: str
) -> None:
    """Pairs that browsers drop are refused at start-up, and fine with auto (cases 23, 105)."""
    (problem,) = problems(**variables, cookie_secure="0")
    assert cause in problem
    assert "GAQ_COOKIE_SECURE" in problem
    assert make_settings(**variables).cookie_secure is None


@pytest.mark.parametrize(
    "variables",
    [{"cookie_domain": "app.example"}, {"cookie_path": "/app"}],
    ids=["a domain", "a path"],
)
@pytest.mark.parametrize("name", ["__Host-t", "__HOST-t"])
def test_a_host_cookie_has_no_domain_and_the_root_path(
    name: str, variables: dict[str, str]
) -> None:
    """`__Host-` names enforce their rules at start-up (RFC 6265bis section 5.7)."""
    (problem,) = problems(cookie_name=name, **variables)
    assert "__Host-" in problem
    assert "unset" in problem
    assert make_settings(cookie_name="__Secure-t", **variables)


def test_the_two_token_headers_must_differ() -> None:
    """One header cannot carry both kinds of token, in whatever case it is written."""
    (problem,) = problems(token_header="X-Token", guest_header="x-token")
    assert "GAQ_TOKEN_HEADER and GAQ_GUEST_HEADER must differ" in problem


def test_old_guest_secrets_need_a_current_one() -> None:
    """Verify-only guest secrets alone would turn nothing on."""
    (problem,) = problems(guest_verify_secrets=K2)
    assert "GAQ_GUEST_VERIFY_SECRETS is set without GAQ_GUEST_SECRET" in problem


def test_guests_need_an_audience() -> None:
    """The audience is required with guests; `*` says that none is checked (design 3)."""
    (problem,) = problems(guest_secret=GUEST)
    assert "GAQ_GUEST_AUDIENCE is not set" in problem
    assert guest_settings(guest_audience="*").guest_audience == "*"


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({"guest_secret": K}, id="the guest secret is the JWT secret"),
        pytest.param({"guest_secret": K2, "jwt_verify_secrets": K2}, id="it is an old JWT secret"),
        pytest.param({"guest_verify_secrets": K}, id="an old guest secret is the JWT secret"),
    ],
)
def test_a_guest_secret_never_equals_a_token_secret(variables: dict[str, str]) -> None:
    """Whoever mints guests could otherwise mint users (design 3)."""
    (problem,) = problems(**{"guest_secret": GUEST, "guest_audience": "a", **variables})
    assert "equals a token secret" in problem


@pytest.mark.parametrize(
    ("algorithm", "size"), [("HS384", 48), ("HS512", 64)], ids=["HS384", "HS512"]
)
def test_a_guest_secret_is_as_long_as_the_hash(algorithm: str, size: int) -> None:
    """A key is no shorter than the hash output (RFC 7518 section 3.2); PyJWT warns of others."""
    fits = LONG[:size]
    guest_settings(guest_secret=fits, guest_algorithm=algorithm)
    for secrets in ({"guest_secret": fits[:-1]}, {"guest_verify_secrets": GUEST}):
        variables = {"guest_secret": fits, "guest_audience": "a", **secrets}
        (problem,) = problems(**variables, guest_algorithm=algorithm)
        assert f"GAQ_GUEST_ALGORITHM={algorithm}" in problem
        assert f"at least {size} bytes" in problem


# --- empty values -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jwt_verify_secrets", ()),
        ("guest_verify_secrets", ()),
        ("cookie_domain", None),
        ("login_paths", ()),
        ("logout_paths", ()),
        ("protected_paths", ()),
        ("open_paths", ()),
        ("events_path", ""),
        ("allowed_origins", ()),
    ],
)
def test_empty_means_none_where_none_is_possible(name: str, value: object) -> None:
    """Set but empty: none for lists and paths (design 3)."""
    assert getattr(make_settings(**{name: ""}), name) == value


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if row.kind.when_empty is None],
    ids=lambda row: row.variable,
)
def test_empty_is_an_error_everywhere_else(row: Row) -> None:
    """Set but empty: an error, secrets and store URL included (design 3)."""
    (problem,) = problems(**{row.name: ""})
    assert problem.startswith(f"{row.variable} must be {row.kind.words}: it is set but empty")


# --- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "secret"),
    [
        pytest.param(K.encode(), K.encode(), id="without a newline"),
        pytest.param(f"{K}\n".encode(), K.encode(), id="with one"),
        pytest.param(f"{K}\r\n".encode(), K.encode(), id="with one of Windows"),
        pytest.param(b"\xff" + K.encode(), b"\xff" + K.encode(), id="with bytes that are no UTF-8"),
    ],
)
def test_a_secret_may_come_from_a_file(tmp_path: Path, content: bytes, secret: bytes) -> None:
    """`…_FILE` names a file, whose one trailing newline is cut (design 3)."""
    file = tmp_path / "secret"
    file.write_bytes(content)
    assert Settings.from_env({"GAQ_JWT_SECRET_FILE": str(file)}).jwt_secret == secret


@pytest.mark.parametrize("row", [row for row in ROWS if row.is_secret], ids=lambda r: r.variable)
def test_every_secret_may_come_from_a_file(tmp_path: Path, row: Row) -> None:
    """Every secret can also come from a file (design 3)."""
    assert row.kind in kinds.FIRM_SECRETS
    file = tmp_path / "secret"
    file.write_text(K2)
    environ = {"GAQ_JWT_SECRET": K, "GAQ_GUEST_SECRET": GUEST, "GAQ_GUEST_AUDIENCE": "a"}
    if row.name.startswith("session_"):
        environ |= {"GAQ_SESSION_FORMAT": "flask", "GAQ_SESSION_SECRET": GUEST}
    environ.pop(row.variable, None)
    settings = Settings.from_env({**environ, f"{row.variable}_FILE": str(file)})
    assert getattr(settings, row.name) in (K2.encode(), (K2.encode(),))
    assert settings.warnings == ()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(f"{K}\n\n", "white space", id="only one newline is cut"),
        pytest.param("", "set but empty", id="an empty file"),
        pytest.param("\n", "set but empty", id="a file of one newline"),
    ],
)
def test_a_file_is_read_exactly(tmp_path: Path, content: str, reason: str) -> None:
    """Nothing but one trailing newline is forgiven."""
    file = tmp_path / "secret"
    file.write_bytes(content.encode())
    with pytest.raises(SettingsError, match=f"GAQ_JWT_SECRET must be .*{reason}"):
        Settings.from_env({"GAQ_JWT_SECRET_FILE": str(file)})


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    """The variable with the path is named, with the system's reason."""
    with pytest.raises(SettingsError, match="GAQ_JWT_SECRET_FILE must name a readable file"):
        Settings.from_env({"GAQ_JWT_SECRET_FILE": str(tmp_path / name)})


def test_a_secret_comes_from_one_place(tmp_path: Path) -> None:
    """Variable and file together are a mistake, whichever is meant."""
    (problem,) = problems(jwt_secret_file=str(tmp_path / "secret"))
    assert problem == "GAQ_JWT_SECRET and GAQ_JWT_SECRET_FILE are both set; keep one of them."


def test_other_variables_do_not_come_from_files() -> None:
    """Only secrets have a `_FILE`; for anything else the name is unknown."""
    settings = make_settings(cookie_name_file="/etc/passwd")
    assert settings.cookie_name == "async-token"
    assert "GAQ_COOKIE_NAME_FILE is not a setting" in settings.warnings[0]


# --- doubts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("GAQ_JWT_SECRETS", "GAQ_JWT_SECRET"),
        ("GAQ_COOKIE_SAME_SITE", "GAQ_COOKIE_SAMESITE"),
        ("GAQ_PROTECTED_PATH", "GAQ_PROTECTED_PATHS"),
        ("GAQ_JWT_VERIFY_SECRET", "GAQ_JWT_VERIFY_SECRETS"),
        ("GAQ_JWT_SECRET_FILES", "GAQ_JWT_SECRET_FILE"),
        ("GAQ_ISSUE_", "GAQ_ISSUE"),
    ],
)
def test_an_unknown_name_is_reported_with_the_nearest(name: str, near: str) -> None:
    """An unknown `GAQ_…` name is a doubt that tells the nearest known one (design 3)."""
    (doubt,) = Settings.from_env({"GAQ_JWT_SECRET": K, name: "x"}).warnings
    assert doubt == f"{name} is not a setting and is ignored; did you mean {near}?"


def test_names_without_our_prefix_are_nobodys_business() -> None:
    """Only names that begin with GAQ_ are looked at; odd ones are shown in ASCII."""
    environ = {"GAQ_JWT_SECRET": K, "GAQJWT": "x", "PATH": "x", "gaq_issue": "x", "GAQ_\u00e9": "x"}
    (doubt,) = Settings.from_env(environ).warnings
    assert doubt.startswith("GAQ_\\xe9 is not a setting")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        pytest.param({"issue": "off"}, "GAQ_ISSUE=off", id="nothing is issued (case 17)"),
        pytest.param(
            {"guest_channel_claims": "user,resources,datasets,rev,iat,exp,aud"},
            "without rls_rules",
            id="rules are not in the channel (case 8)",
        ),
        pytest.param(
            {"guest_channel_claims": "user,rls_rules"}, "without iat and exp", id="no times"
        ),
        pytest.param(
            {"guest_channel_claims": "user,rls_rules,exp"}, "without iat and exp", id="one time"
        ),
        pytest.param(
            {"store_url": "redis://h/0?socket_timeout=1.0"}, "socket_timeout of 1 s", id="no time"
        ),
    ],
)
def test_what_works_but_is_doubtful(variables: dict[str, str], words: str) -> None:
    """A doubt is one sentence that names the setting (design 3)."""
    (doubt,) = guest_settings(**variables).warnings
    assert words in doubt


@pytest.mark.parametrize("claim", ["jti", "sid", "sub"])
def test_a_claim_that_tells_viewers_apart_settles_the_doubt(claim: str) -> None:
    """Without times, `jti`, `sid` or `sub` keeps viewers with equal claims apart (case 10)."""
    assert guest_settings(guest_channel_claims=f"user,rls_rules,{claim}").warnings == ()


def test_claims_are_nobodys_business_without_guests() -> None:
    """Doubts about guests come only when guests are on."""
    assert make_settings(guest_channel_claims="user").warnings == ()


# --- secrets stay secret ----------------------------------------------------------------------


def test_no_secret_is_in_the_repr() -> None:
    """Secrets never appear in repr (design 3)."""
    settings = guest_settings(
        jwt_verify_secrets=K2,
        channel_secret="channel-" + LONG,
        guest_verify_secrets="guests-" + LONG,
    )
    for secret in (K, K2, GUEST, LONG):
        assert secret not in repr(settings)
        assert secret not in str(settings)
        assert secret not in f"{settings}"
    assert "cookie_name='async-token'" in repr(settings)


def test_settings_are_values() -> None:
    """Settings cannot be changed, and equal ones are equal."""
    assert make_settings() == make_settings()
    with pytest.raises(AttributeError):
        make_settings().issue = "off"  # type: ignore[misc]
