"""The three steps of README that rotate the secret, with two processes always at different ones."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from gaq_middleware import Settings
from gaq_middleware.core.tokens import key_id
from tests.helpers import (
    GUEST,
    K2,
    POLL,
    Answer,
    Ask,
    K,
    Site,
    ask,
    cookies,
    guest_token,
    submits,
)

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
CLIENTS = 200
GUESTS = {"GAQ_GUEST_SECRET": GUEST, "GAQ_GUEST_AUDIENCE": "superset"}


def steps() -> list[dict[str, str]]:
    """Return the variables of each step, as README writes them."""
    lines = re.findall(r"^GAQ_JWT_SECRET=\$.*$", README, re.MULTILINE)
    assert len(lines) == 3
    secrets = {"$OLD": K, "$NEW": K2}
    pairs = [[word.split("=") for word in line.split()] for line in lines]
    return [{name: secrets[value] for name, value in step} for step in pairs]


class Client:
    """A client who keeps their cookie, and one job; every fourth is a guest."""

    def __init__(self, number: int) -> None:
        self.number, self.cookie, self.job = number, "", ""
        self.guest = guest_token(user={"username": str(number)}) if number % 4 == 0 else None

    def __call__(self, site: Site, method: str, target: str) -> Answer:
        request = ask(method, target)
        if self.guest:
            request.headers.append(("X-GuestToken", self.guest))
        elif self.cookie:
            request.headers.append(("Cookie", cookies(self.cookie)))
        answer = site(request)
        self.cookie = answer.cookie() or self.cookie
        return answer


def app(request: Ask) -> tuple[int, list[tuple[str, str]], bytes]:
    """Log in who asks for it, and submit."""
    from gaq_middleware import current

    if request.target.startswith("/login"):
        current().login(request.target.rpartition("/")[2])
        return 200, [("Content-Type", "text/html")], b""
    return submits(request)


@pytest.mark.parametrize("face", ["asgi", "wsgi"])
def test_nobody_is_thrown_out_and_no_job_is_lost(face: str) -> None:
    """200 clients poll and cancel through all steps: not one 401, all cookies signed anew."""
    before = {"GAQ_JWT_SECRET": K}
    sites = [
        Site(face, Settings.from_env({**variables, **GUESTS}), app)
        for variables in [before, *steps()]
    ]
    for site in sites[1:]:
        site.app.engine.store = sites[0].app.engine.store
    clients = [Client(number) for number in range(1, CLIENTS + 1)]
    for client in clients:
        if not client.guest:
            client(sites[0], "POST", f"/login/{client.number}")
        client.job = client(sites[0], "POST", "/api/v1/chart/data").json()["job_id"]

    # while a step rolls out, requests of one client meet processes of both steps in turn
    for old, new in itertools.pairwise(sites):
        for process in (old, new, old, new, new):
            answers = [client(process, "GET", POLL).status for client in clients]
            assert answers == [200] * CLIENTS
        for client in clients:
            assert client(old, "POST", f"{POLL}{client.job}/cancel").status == 200
            assert client(new, "GET", f"{POLL}{client.job}").json()["result"]["status"]
            client.job = client(new, "POST", "/api/v1/chart/data").json()["job_id"]

    users = [client for client in clients if not client.guest]
    last = sites[-1].app.engine.codec
    assert last.key_ids == (key_id(K2.encode()),)
    assert all(client(sites[-1], "GET", POLL).status == 200 for client in clients)
    assert len({client.cookie for client in users}) == len(users) == 150
