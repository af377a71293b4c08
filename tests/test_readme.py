"""README is true: its tables are those of the code, and its code blocks run."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import uuid
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from werkzeug.test import Client

from gaq_middleware import JobRegistry, Settings, issue_token, wsgi
from gaq_middleware.asgi import AsyncQueryMiddleware
from gaq_middleware.core.errors import CODES
from gaq_middleware.core.settings import table
from gaq_middleware.core.variables import Row
from tests.helpers import K2, POLL, Ask, K, ask, call_asgi, cookies
from tests.servers import RedisServer

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def readme_row(row: Row) -> str:
    """Return the line that the README must have for a setting."""
    if row.required:
        default = "required"
    elif row.default is None or row.default == "":
        default = "none"
    else:
        default = f"`{row.default}`".replace(",", "`, `")
    return f"| `{row.variable}` | {default} | {row.text} ({row.kind.words}) |"


def block(marker: str) -> str:
    """Return the one code block with a marker in it."""
    found: list[str] = [text for text in BLOCKS if marker in text]
    assert len(found) == 1, f"{len(found)} blocks have {marker!r}"
    return found[0]


def run(marker: str, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run a code block; return its names."""
    names = {"__name__": "readme", **(names or {})}
    exec(compile(block(marker), marker, "exec"), names)
    return names


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the one variable, and keep apart the jobs that this process remembers."""
    monkeypatch.setenv("GAQ_JWT_SECRET", K)
    monkeypatch.setenv("GAQ_STREAM_PREFIX", f"{uuid.uuid4()}-")


@pytest.mark.parametrize("row", table(), ids=lambda row: row.variable)
def test_the_table_of_variables_is_that_of_the_code(row: Row) -> None:
    """Each setting has its line: variable, default, meaning and kind."""
    assert readme_row(row) in README.splitlines()


def test_the_readme_names_no_variable_that_the_code_does_not_know() -> None:
    """Whoever sets a variable that README names gets what it says."""
    known = {row.variable for row in table()} | {f"{row.variable}_FILE" for row in table()}

    assert set(re.findall(r"GAQ_[A-Z_]+[A-Z]", README)) <= known


@pytest.mark.parametrize("code", [code for code in CODES if code != "bad_request"])
def test_every_code_has_its_line(code: str) -> None:
    """The table of answers names every code with its status."""
    lines = [line for line in README.splitlines() if f"`{code}`" in line]

    assert any(str(CODES[code][0]) in line.split("|")[1] for line in lines)


def test_the_three_lines_wrap_any_app() -> None:
    """The first block turns a bare app into a guarded one."""

    async def bare(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("the app was called")

    app = run("or gaq_middleware.wsgi", {"app": bare})["app"]

    assert isinstance(app, AsyncQueryMiddleware)
    assert asyncio.run(call_asgi(app, ask("GET", POLL))).code == "token_missing"


def test_flask() -> None:
    """The Flask block logs in, submits, and refuses strangers."""
    pytest.importorskip("flask")
    client = Client(run("from flask import")["app"].wsgi_app)

    assert client.post("/api/v1/chart/data").status_code == 401
    assert client.post("/login").text == "welcome"
    assert client.post("/api/v1/chart/data").status_code == 202
    assert client.get(POLL).json == {"result": []}


DJANGO = """
from django.conf import settings
settings.configure(ROOT_URLCONF="urls", SECRET_KEY="x" * 50, ALLOWED_HOSTS=["*"])
"""


def test_django(tmp_path: Path) -> None:
    """The Django blocks work together, the one for tests included."""
    pytest.importorskip("django")
    urls = (
        "from django.urls import path\nimport views\n"
        "urlpatterns = [path('login', views.login), "
        "path('api/v1/chart/data', views.chart_data)]\n"
    )
    (tmp_path / "urls.py").write_text(urls)
    (tmp_path / "views.py").write_text(block("def login(request)"))
    script = DJANGO + block("get_wsgi_application") + block("issue_token")
    script += "assert client.post('/api/v1/chart/data').status_code == 202\n"
    script += "assert Client(application).post('/login').headers['Set-Cookie']\n"
    (tmp_path / "main.py").write_text(script)

    done = subprocess.run(
        [sys.executable, "-W", "error", "main.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "GAQ_JWT_SECRET": K},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("module", "marker"),
    [("fastapi", "from fastapi import"), ("starlette", "from starlette.applications")],
)
def test_fastapi_and_starlette(module: str, marker: str) -> None:
    """The blocks submit for whoever has a token, and refuse strangers."""
    pytest.importorskip(module)
    app = run(marker)["app"]
    request = ask("POST", "/api/v1/chart/data")
    good = Ask(
        "POST",
        "/api/v1/chart/data",
        [*request.headers, ("Cookie", cookies(issue_token(Settings.from_env(), 7)))],
    )

    assert asyncio.run(call_asgi(app, request)).code == "token_missing"
    assert asyncio.run(call_asgi(app, good)).json()["status"] == "pending"


def test_the_worker_block_ends_a_job_once() -> None:
    """The worker block reports a job that a request submitted in the same process."""
    pytest.importorskip("flask")
    client = Client(run("from flask import")["app"].wsgi_app)
    client.post("/login")
    job = client.post("/api/v1/chart/data").json
    assert job is not None

    run("registry = JobRegistry")["work"](job["job_id"])

    assert JobRegistry.from_env().done(job["job_id"]) is False
    events = client.get(f"{POLL}?last_id={job['last_id']}").json
    assert events is not None
    assert [event["status"] for event in events["result"]] == ["done"]


def test_the_block_with_arguments_wraps_an_app() -> None:
    """user_from and canceller are what the middleware calls."""

    def bare(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/html")])
        return [b""]

    client = Client(run("def user_from(environ)", {"app": bare})["app"])

    assert client.get(POLL).status_code == 401
    assert client.get(POLL, environ_base={"myapp.user_id": 7}).json == {"result": []}


def test_the_celery_blocks() -> None:
    """A request queues the work of its job, the task does it, and its owner reads the end."""
    pytest.importorskip("celery")
    names = run("base=GaqTask")
    names["celery_app"].conf.task_always_eager = True
    chart_data = run("import submit", names)["chart_data"]

    def bare(environ: Any, start_response: Any) -> list[bytes]:
        body, status = chart_data()
        start_response(f"{status} Accepted", [("Content-Type", "application/json")])
        return [json.dumps(body).encode()]

    client = Client(wsgi.AsyncQueryMiddleware(bare))
    client.set_cookie("async-token", issue_token(Settings.from_env(), 7))
    job = client.post("/api/v1/chart/data").json
    events = client.get(POLL).json

    assert job is not None
    assert events is not None
    assert [event["job_id"] for event in events["result"]] == [job["job_id"]]
    assert events["result"][0]["result_url"] == "/results/42"
    assert names["reap"]() == 0
    assert names["celery_app"].conf.beat_schedule["reap"]["task"] in names["celery_app"].tasks


@pytest.mark.parametrize("events_path", ["/api/v1/async_event", ""])
def test_the_superset_block(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, events_path: str
) -> None:
    """Superset's login brings the cookie, and its events come from its Redis."""
    flask = pytest.importorskip("flask")
    superset = flask.Flask("superset", static_folder=None)
    superset.config.update(
        SECRET_KEY=K2,
        FEATURE_FLAGS={"GLOBAL_ASYNC_QUERIES": True},
        GLOBAL_ASYNC_QUERIES_JWT_SECRET=K,
        GLOBAL_ASYNC_QUERIES_CACHE_BACKEND={
            "CACHE_TYPE": "RedisCache",
            "CACHE_REDIS_HOST": "127.0.0.1",
            "CACHE_REDIS_PORT": redis_server.port,
        },
    )
    superset.config.from_mapping(run("REGISTER_REQUEST_HANDLERS"))  # the keys in capitals

    def login() -> str:
        flask.session["_user_id"] = "7"
        return "welcome"

    superset.add_url_rule("/login/", view_func=login, methods=["POST"])
    superset.add_url_rule(POLL, "events", lambda: "superset's own")
    module = ModuleType("superset.app")
    monkeypatch.setattr(module, "create_app", lambda: superset, raising=False)
    monkeypatch.setitem(sys.modules, "superset", ModuleType("superset"))
    monkeypatch.setitem(sys.modules, "superset.app", module)
    monkeypatch.delenv("GAQ_JWT_SECRET")
    monkeypatch.setenv("GAQ_EVENTS_PATH", events_path)

    client = Client(run("from superset.app import")["application"])

    assert client.get(POLL).status_code == 401
    assert "async-token=" in client.post("/login/").headers.getlist("Set-Cookie")[-1]
    answer = client.get(POLL)
    assert answer.text == "superset's own" if not events_path else answer.json == {"result": []}


@pytest.mark.live
def test_the_curl_lines_work_as_pasted(tmp_path: Path) -> None:
    """Log in, submit, cancel and poll, against the demo, on a port of our own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (lines,) = re.findall(r"```sh\n(URL=.*?)```", README, re.DOTALL)
    demo = [sys.executable, "-m", "gaq_middleware", "demo", "--port", str(port)]
    with subprocess.Popen(demo, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "Ctrl-C" in next(line for line in process.stdout if "Ctrl-C" in line)
            script = lines.replace(":8000", f":{port}")
            done = subprocess.run(
                ["sh", "-e", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
            )
        finally:
            process.kill()
    login, cancelled, events = done.stdout.splitlines()

    assert '"ada"' in login
    assert '"status": "cancelled"' in cancelled
    assert '"status": "cancelled"' in events
