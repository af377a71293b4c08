"""Event streams, sockets and polls that wait, as the faces serve them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest

from gaq_middleware import Settings, asgi_answers, exchange, wsgi
from gaq_middleware.core.commands import Command
from gaq_middleware.registry import AsyncStream, Listening, Store, bells, streams
from gaq_middleware.registry.memory import MemoryStore
from tests.faces.streaming import (
    SAME,
    SECONDS,
    SOCKET,
    STREAM,
    Client,
    Served,
    end,
    ids_in,
    jobs_in,
    run,
    with_token,
)
from tests.helpers import (
    K2,
    NOW,
    POLL,
    Ask,
    Clock,
    Site,
    ask,
    call_wsgi,
    cookies,
    environ_of,
    guest_settings,
    guest_token,
    make_settings,
    token,
)
from tests.servers import wait_until
from tests.stores.watched import Watched

R = TypeVar("R")

BOTH = pytest.mark.parametrize("target", [STREAM, SOCKET], ids=["stream", "socket"])
FACES = pytest.mark.parametrize("face", ["asgi", "wsgi"])


@pytest.fixture(autouse=True)
def only_rings_wake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream does not look by itself while a test lasts."""
    monkeypatch.setattr(streams, "HEARTBEAT", 3600.0)


async def opened(client: Client, target: str) -> None:
    """See that a stream or socket is open."""
    if target == SOCKET:
        await client.accepted()
    else:
        await client.opened()


async def ended(client: Client, target: str) -> str:
    """Return the code with which a stream or socket ends."""
    if target == SOCKET:
        return (await client.closed())[1]
    return await client.ended()


class TestEventStream:
    """Server-sent events under ASGI."""

    def test_what_there_is_and_then_what_happens(self) -> None:
        """The first part comes at once; each event as it happens, with its id."""

        async def test() -> None:
            served = Served()
            served.end("j1")
            client = served.connect(with_token(STREAM))
            first = await client.opened()
            served.end("j2")
            second = await client.part()
            assert (jobs_in(first), jobs_in(second)) == (["j1"], ["j2"])
            assert ids_in(first) < ids_in(second)
            await client.leave()

        run(test)

    def test_case_135_last_event_id_wins(self) -> None:
        """A browser that comes back resumes where it was (case 135)."""

        async def test() -> None:
            served = Served()
            for number in range(3):
                served.end(f"j{number}")
            client = served.connect(with_token(STREAM))
            ids = ids_in(await client.opened())
            await client.leave()
            request = with_token(f"{STREAM}?last_id={ids[0]}", Last_Event_ID=ids[1])
            client = served.connect(request)
            assert jobs_in(await client.opened()) == ["j2"]
            await client.leave()

        run(test)

    def test_case_136_a_silent_stream_shows_life(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Both headers, no length, a comment line at least every 15 s (case 136)."""
        monkeypatch.undo()
        assert streams.HEARTBEAT < 15
        monkeypatch.setattr(streams, "HEARTBEAT", 0.02)

        async def test() -> None:
            client = Served().connect(with_token(STREAM))
            headers = await client.head()
            assert headers["content-type"] == "text/event-stream"
            assert headers["x-accel-buffering"] == "no"
            assert "no-cache" in headers["cache-control"]
            assert "no-store" in headers["cache-control"]
            assert headers["vary"] == "Cookie"
            assert "content-length" not in headers
            assert [await client.part() for _ in range(4)] == ["retry: 2000\n\n", *[":\n\n"] * 3]
            await client.leave()

        run(test)

    def test_a_gap_is_told(self) -> None:
        """Events after the cursor were trimmed away."""

        async def test() -> None:
            served = Served(store=MemoryStore(2))
            served.end("j0")
            client = served.connect(with_token(STREAM))
            (first,) = ids_in(await client.opened())
            await client.leave()
            for number in range(1, 5):
                served.end(f"j{number}")
            client = served.connect(with_token(f"{STREAM}?last_id={first}"))
            part = await client.opened()
            assert part.startswith('event: gap\ndata: {"gap": true}\n\nid: ')
            await client.leave()

        run(test)

    def test_no_cookie_is_set_or_renewed(self) -> None:
        """Not on streams, however soon the token ends (design 6)."""

        async def test() -> None:
            client = Served().connect(with_token(STREAM, exp=100))
            assert "set-cookie" not in await client.head()
            await client.leave()

        run(test)

    @FACES
    def test_head_is_the_head_alone(self, face: str) -> None:
        """HEAD as GET without streaming (design 2)."""
        request = with_token(STREAM)
        request.method = "HEAD"
        answer = Site(face, make_settings())(request)
        assert (answer.status, answer.body) == (200, b"")
        assert answer.get("Content-Type") == "text/event-stream"


class TestSocket:
    """WebSockets of ours."""

    def test_frames_are_the_events_of_a_poll(self) -> None:
        """One JSON text frame each, as the poll has them."""

        async def test() -> None:
            served = Served()
            served.end("j1")
            client = served.connect(with_token(SOCKET))
            assert await client.accepted() is None
            first = await client.frame()
            served.end("j2")
            second = await client.frame()
            poll = served.connect(with_token(POLL))
            await poll.head()
            assert json.loads(await poll.part())["result"] == [first, second]
            await client.leave()
            again = served.connect(with_token(f"{SOCKET}?last_id={first['id']}"))
            await again.accepted()
            assert await again.frame() == second
            await again.leave()

        run(test)

    def test_what_the_client_says_means_nothing(self) -> None:
        """It is read, so that its end is seen, and dropped."""

        async def test() -> None:
            served = Served()
            client = served.connect(with_token(SOCKET))
            await client.accepted()
            for _ in range(100):
                client._received.put_nowait({"type": "websocket.receive", "text": "x"})
            served.end("j1")
            assert (await client.frame())["job_id"] == "j1"
            await client.leave()

        run(test)

    @pytest.mark.parametrize(
        ("protocols", "chosen"), [(("gaq.events",), "gaq.events"), (("other",), None), ((), None)]
    )
    def test_our_subprotocol_is_selected(
        self, protocols: tuple[str, ...], chosen: str | None
    ) -> None:
        """A browser closes a socket whose offer was not taken."""

        async def test() -> None:
            client = Served().connect(with_token(SOCKET), *protocols)
            assert await client.accepted() == chosen
            await client.leave()

        run(test)

    def test_a_guest_offers_their_token_as_subprotocol(self) -> None:
        """Where browsers can set no header; from any page (design 4)."""

        async def test() -> None:
            served, raw = Served(guest_settings()), guest_token()
            request = ask("GET", SOCKET, Origin="https://embeds.example")
            client = served.connect(request, "gaq.events", f"gaq.guest.{raw}")
            assert await client.accepted() == "gaq.events"
            channel = served.app.engine.identifier._guests.verify(raw, served.app.engine.clock())  # type: ignore[union-attr]
            served.end("g1", channel.channel_id, None)  # type: ignore[union-attr]
            assert (await client.frame())["job_id"] == "g1"
            await client.leave()
            for offers in ([f"gaq.guest.{raw}x"], [f"gaq.guest.{raw}"] * 2, ["gaq.guest."]):
                refused = served.connect(request, "gaq.events", *offers)
                status, code = await refused.refusal()
                assert (status, code[:6]) == (401, "guest_")

        run(test)

    @FACES
    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_plain_http_is_told_to_upgrade(self, face: str, method: str) -> None:
        """426 with `Upgrade`, after the 401 (RFC 9110 section 15.5.22)."""
        site = Site(face, make_settings())
        request = with_token(SOCKET)
        request.method = method
        answer = site(request)
        assert (answer.status, answer.code, answer.get("Upgrade")) == (
            426,
            "upgrade_required",
            "websocket",
        )
        assert site(ask(method, SOCKET)).status == 401


class TestWhoMayOpen:
    """Nobody sees another's events, and a refusal comes before anything is open."""

    @BOTH
    @pytest.mark.parametrize(
        ("request_", "status", "code"),
        [
            (ask("GET", ""), 401, "token_missing"),
            (ask("GET", "", Cookie=cookies(token(secret=K2))), 401, "token_signature"),
            (ask("GET", "", Cookie=cookies(token(-61))), 401, "token_expired"),
            (ask("GET", "", Cookie=cookies(token(-5))), 401, "token_expired"),
            (ask("GET", "", X_Async_Token=token(-5)), 401, "token_expired"),
            (ask("GET", "", X_GuestToken=guest_token(exp=...)), 401, "guest_claims"),
            (
                ask("GET", "", Cookie=cookies(token()), Sec_Fetch_Site="cross-site"),
                403,
                "cross_origin",
            ),
            (
                ask("GET", "", Cookie=cookies(token()), Origin="https://evil.example"),
                403,
                "cross_origin",
            ),
            (with_token("?last_id=abc"), 400, "bad_last_id"),
            (with_token("", Last_Event_ID="5-0,6-0"), 400, "bad_last_id"),
        ],
    )
    def test_refused(self, target: str, request_: Ask, status: int, code: str) -> None:
        """With status and code; a stream has no leeway, which a poll has."""

        async def test() -> None:
            request = Ask("GET", target + request_.target, request_.headers)
            client = Served(guest_settings()).connect(request)
            assert await client.refusal() == (status, code)
            if target == SOCKET:
                client = Served(guest_settings()).connect(request, denial=False)
                message = await client.next()
                expected = status + 4000 if status != 400 else 4400
                assert (message["type"], message["code"]) == ("websocket.close", expected)
                await client.over()

        run(test)

    @BOTH
    def test_case_147_only_ones_own_events_come(self, target: str) -> None:
        """Not another user's, whatever the transport (case 147)."""

        async def test() -> None:
            served = Served()
            served.end("theirs", "c2", "8")
            client = served.connect(with_token(target))
            await opened(client, target)
            served.end("theirs-2", "c2", "8")
            served.end("ours")
            if target == SOCKET:
                assert (await client.frame())["job_id"] == "ours"
            else:
                assert jobs_in(await client.part()) == ["ours"]
            await client.leave()

        run(test)

    @BOTH
    def test_a_listed_origin_may(self, target: str) -> None:
        """`GAQ_ALLOWED_ORIGINS`, with CORS headers on the stream."""

        async def test() -> None:
            served = Served(make_settings(allowed_origins="https://b.example"))
            request = ask("GET", target, Cookie=cookies(token()), Origin="https://b.example")
            client = served.connect(request)
            if target == STREAM:
                headers = await client.head()
                assert headers["access-control-allow-origin"] == "https://b.example"
            else:
                await client.accepted()
            await client.leave()

        run(test)

    def test_a_header_token_may_from_anywhere(self) -> None:
        """A script's token is not sent by a browser by itself."""

        async def test() -> None:
            request = ask("GET", STREAM, X_Async_Token=token(), Origin="https://evil.example")
            client = Served().connect(request)
            await client.opened()
            await client.leave()

        run(test)

    @FACES
    @pytest.mark.parametrize("is_allowed", [True, False])
    def test_a_guest_token_in_the_query(self, face: str, is_allowed: bool) -> None:
        """Only with `GAQ_GUEST_QUERY`, only on the stream, and one only."""
        settings = guest_settings(guest_query=str(is_allowed))
        site, raw = Site(face, settings), guest_token()
        request = ask("HEAD", f"{STREAM}?guest_token={raw}", Origin="https://embeds.example")
        assert site(request).status == (200 if is_allowed else 401)
        for target in (POLL, f"{POLL}j1", "/api/v1/chart/data"):
            answer = site(ask("GET", f"{target}?guest_token={raw}"))
            assert (answer.status, answer.code) == (401, "token_missing")
        if is_allowed:
            for query in (f"guest_token={raw}&guest_token={raw}", "guest_token=", "guest_token=x"):
                assert site(ask("HEAD", f"{STREAM}?{query}")).code == "guest_malformed"
            both = ask("HEAD", f"{STREAM}?guest_token=x", X_GuestToken=raw)
            assert site(both).status == 200


class TestEnds:
    """A stream ends with its token, with its store, with its reader, and in no other way."""

    @BOTH
    @pytest.mark.parametrize(
        ("headers", "code"),
        [
            ({"Cookie": cookies(token(1))}, "token_expired"),
            ({"X_Async_Token": token(1)}, "token_expired"),
            ({"X_GuestToken": guest_token(exp=NOW + 1)}, "guest_expired"),
        ],
        ids=["cookie", "header", "guest"],
    )
    def test_case_122_it_ends_with_its_token(
        self, target: str, headers: dict[str, str], code: str
    ) -> None:
        """At `exp`, without leeway; the socket with 4401 (case 122)."""

        async def test() -> None:
            served = Served(guest_settings())
            served.app.engine.clock = Clock(NOW + 0.8)
            client = served.connect(ask("GET", target, Origin=SAME, **headers))
            await opened(client, target)
            if target == SOCKET:
                assert await client.closed() == (4401, code)
            else:
                assert await client.ended() == code

        run(test)

    @pytest.mark.parametrize(
        ("request_", "target", "seconds", "code"),
        [
            (ask("GET", "", X_User="7"), SOCKET, 3600.0, "token_expired"),
            (ask("GET", "", X_User="7"), STREAM, 900.0, None),
            (ask("GET", "", Cookie=cookies(token(...))), SOCKET, 43200.0, None),
            (ask("GET", "", Cookie=cookies(token(...))), STREAM, 900.0, None),
            (ask("GET", "", Cookie=cookies(token(500))), STREAM, 500.0, "token_expired"),
        ],
        ids=["source", "source, a turn", "no exp", "no exp, a turn", "exp"],
    )
    def test_how_long_a_stream_lasts(
        self,
        monkeypatch: pytest.MonkeyPatch,
        request_: Ask,
        target: str,
        seconds: float,
        code: str | None,
    ) -> None:
        """As long as its token, also one made for the request; a turn; never for ever."""
        seen: list[Listening] = []

        class Watching(AsyncStream):
            def __init__(self, store: Store, listening: Listening) -> None:
                seen.append(listening)
                super().__init__(store, listening)

        monkeypatch.setattr(exchange, "AsyncStream", Watching)
        names = {"remote_user_header": "X-User", "trusted_proxies": "127.0.0.1"}

        async def test() -> None:
            served = Served(make_settings(jwt_require_exp="false", **names))
            request = Ask("GET", target, [*request_.headers, ("Origin", SAME)])
            client = served.connect(request)
            await opened(client, target)
            await client.leave()

        run(test)
        ending = seen[0].ending
        assert (seen[0].seconds, ending and ending.code) == (seconds, code)

    @BOTH
    def test_case_46_it_ends_when_the_store_is_lost(
        self, target: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A retryable close, and new ones get 503 with `Retry-After` (case 46)."""
        monkeypatch.setattr(bells, "PAUSE", 0.01)

        async def test() -> None:
            store = Watched()
            served = Served(store=store)
            client = served.connect(with_token(target))
            await opened(client, target)
            store.is_down = True
            store.bell.ring_all()
            if target == SOCKET:
                assert await client.closed() == (4503, "store_unavailable")
            else:
                assert await client.ended() == "store_unavailable"
            client = served.connect(with_token(target))
            start = await client.next()
            assert start["status"] == 503
            assert (b"retry-after", b"2") in start["headers"]

        run(test)

    @BOTH
    def test_case_146_it_ends_when_the_client_leaves(self, target: str) -> None:
        """Nothing more is sent, and nobody waits any more (case 146)."""

        async def test() -> None:
            served = Served(make_settings(max_streams="1"))
            for _ in range(3):
                client = served.connect(with_token(target))
                await opened(client, target)
                await client.leave()
            assert not served.store.bell._waiting

        run(test)

    @pytest.mark.parametrize("target", [STREAM, SOCKET, f"{POLL}?wait=30"])
    def test_it_ends_when_the_client_leaves_as_an_event_comes(self, target: str) -> None:
        """A cancellation that comes together with a ring is not lost, whatever the Python."""

        async def test() -> None:
            served = Served()
            for number in range(20):
                client = served.connect(with_token(target))
                if "wait" in target:
                    await served.is_waited_for()
                else:
                    await opened(client, target)
                client.goes()
                for _ in range(number % 3):
                    await asyncio.sleep(0)
                served.store.bell.ring("c1")
                await asyncio.wait_for(client.task, SECONDS)
            assert not served.store.bell._waiting

        run(test)

    def test_a_cancellation_that_got_lost_is_repeated(self) -> None:
        """What the store awaits may swallow one, as redis-py does on Python before 3.12."""

        class Deaf(Watched):
            def __init__(self) -> None:
                super().__init__()
                self.asked = asyncio.Event()

            async def aexecute(self, command: Command[R]) -> R:
                self.asked.set()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(SECONDS)
                return await super().aexecute(command)

        async def test() -> None:
            store = Deaf()
            client = Served(store=store).connect(with_token(STREAM))
            await asyncio.wait_for(store.asked.wait(), SECONDS)
            await client.leave()

        run(test)

    def test_after_its_turn_a_browser_comes_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A plain end: some servers do not tell of every reader who has left."""
        monkeypatch.setattr(exchange, "ASGI_TURN_SECONDS", 0.1)

        async def test() -> None:
            client = Served().connect(with_token(STREAM))
            await client.opened()
            message = await client.next()
            assert (message["body"], message["more_body"]) == (b"", False)
            await client.over()

        run(test)

    def test_a_large_page_is_sent_in_pieces(self) -> None:
        """So that little is left in the server of a reader who takes nothing."""

        async def test() -> None:
            served = Served()
            for number in range(100):
                served.end(f"j{number}", url="/" + "x" * 2_000)
            client = served.connect(with_token(STREAM))
            await client.head()
            parts = [await client.part()]
            while not parts[-1].endswith("}\n\n"):
                parts.append(await client.part())
            assert len(jobs_in("".join(parts))) == 100
            assert len(parts) > 3
            assert max(map(len, parts)) <= 65_536
            await client.leave()

        run(test)

    @BOTH
    def test_it_ends_when_the_server_cancels_it(self, target: str) -> None:
        """The cancellation comes out, and nobody waits any more."""

        async def test() -> None:
            served = Served()
            client = served.connect(with_token(target))
            await opened(client, target)
            client.task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await client.task
            assert not served.store.bell._waiting

        run(test)

    @BOTH
    def test_a_slow_reader_is_cut(self, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """It holds no memory and no slot for ever; the socket closes with 1013."""
        monkeypatch.setattr(asgi_answers, "SLOW_SECONDS", 0.05)

        async def test() -> None:
            served = Served(make_settings(max_streams="1"))
            client = served.connect(with_token(target))
            await opened(client, target)
            client.reads.clear()
            served.end("j1")
            for _ in range(2):  # for the event, and then for the last words
                await asyncio.wait_for(client.blocks.wait(), SECONDS)
                client.blocks.clear()
            client.reads.set()
            if target == SOCKET:
                assert await client.closed() == (1013, "")
            else:
                message = await client.next()
                assert (message["body"], message["more_body"]) == (b"", False)
                await client.over()

        run(test)

    def test_a_reader_of_many_small_parts_may_take_longer(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each part has its time, not a page of a hundred together."""
        monkeypatch.setattr(asgi_answers, "SLOW_SECONDS", 0.3)

        async def test() -> None:
            served = Served()
            for number in range(100):
                served.end(f"j{number}")
            client = served.connect(with_token(SOCKET))
            await client.accepted()
            seen = []
            for _ in range(100):
                seen.append((await client.frame())["job_id"])
                client.reads.clear()
                await asyncio.sleep(0.005)
                client.reads.set()
            assert seen == [f"j{number}" for number in range(100)]
            await client.leave()

        run(test)

    @BOTH
    def test_a_reader_who_takes_not_even_the_head_is_left(
        self, target: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Or a slot would be held for nobody."""
        monkeypatch.setattr(asgi_answers, "SLOW_SECONDS", 0.05)
        monkeypatch.setattr(asgi_answers, "_END_SECONDS", 0.05)

        async def test() -> None:
            client = Served().connect(with_token(target))
            client.reads.clear()
            await client.over()

        run(test)

    def test_a_reader_that_never_reads_again_is_left(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Not even the end can be sent."""
        monkeypatch.setattr(asgi_answers, "SLOW_SECONDS", 0.05)
        monkeypatch.setattr(asgi_answers, "_END_SECONDS", 0.05)

        async def test() -> None:
            served = Served()
            client = served.connect(with_token(STREAM))
            await client.opened()
            client.reads.clear()
            served.end("j1")
            await client.over()

        run(test)


class TestLimits:
    """So many streams, and no more."""

    @BOTH
    def test_above_the_limits_are_503(self, target: str) -> None:
        """`too_many_streams` with `Retry-After`, per channel and in all; polls go on."""

        async def test() -> None:
            served = Served(make_settings(max_streams="3", max_streams_per_channel="2"))
            other = ask("GET", target, Cookie=cookies(token(channel="c2", sub="8")), Origin=SAME)
            clients = [served.connect(with_token(target)) for _ in range(2)]
            for client in clients:
                await opened(client, target)
            refused = served.connect(with_token(target))
            assert await refused.refusal() == (503, "too_many_streams")
            clients.append(served.connect(other))
            await opened(clients[-1], target)
            assert await served.connect(other).refusal() == (503, "too_many_streams")
            poll = served.connect(with_token(f"{POLL}?wait=30"))  # at once, for nobody may wait
            await poll.head()
            assert await poll.part() == '{"result": []}'
            for client in clients:
                await client.leave()
            again = served.connect(with_token(target))
            await opened(again, target)
            await again.leave()

        run(test)


class TestWaitingPolls:
    """`?wait=`: the answer is held until there is something."""

    @FACES
    def test_a_foreign_page_does_not_wait(self, face: str) -> None:
        """It gets its answer, which it cannot read, but takes nobody's turn."""
        site = Site(face, make_settings(wsgi_max_waiters="1"))
        request = ask("GET", f"{POLL}?wait=30", Cookie=cookies(token()), Origin="https://b.example")
        assert site(request).json() == {"result": []}

    def test_an_event_ends_the_wait(self) -> None:
        """It is answered as soon as it happens."""

        async def test() -> None:
            served = Served()
            client = served.connect(with_token(f"{POLL}?wait=30"))
            await served.is_waited_for()
            assert not client.has_more
            served.end("j1")
            headers = await client.head()
            assert "set-cookie" not in headers
            (event,) = json.loads(await client.part())["result"]
            assert event["job_id"] == "j1"
            await client.over()

        run(test)

    @FACES
    def test_what_is_there_is_answered_at_once(self, face: str) -> None:
        """Without a wait, and never with a cookie (design 6: not on long polls)."""
        site = Site(face, make_settings(wsgi_max_waiters="1"))
        end(site.app.engine.store, "j1")
        answer = site(with_token(f"{POLL}?wait=30", exp=100))
        assert [event["job_id"] for event in answer.json()["result"]] == ["j1"]
        assert answer.all("Set-Cookie") == []
        assert site(with_token(POLL, exp=100)).cookie()

    @FACES
    def test_the_wait_ends_by_itself(self, face: str) -> None:
        """200 with what there is: nothing."""
        answer = Site(face, make_settings(wsgi_max_waiters="1"))(with_token(f"{POLL}?wait=0.2"))
        assert (answer.status, answer.json()) == (200, {"result": []})

    @FACES
    def test_it_ends_with_the_token(self, face: str) -> None:
        """Not with the leeway in which polls are still answered."""
        site = Site(face, make_settings(wsgi_max_waiters="1"))
        site.clock.now += 0.8
        for exp in (1, -5):
            assert site(with_token(f"{POLL}?wait=30", exp=exp)).json() == {"result": []}

    @FACES
    def test_a_gap_comes_with_the_events_after_it(self, face: str) -> None:
        """Events after the cursor were trimmed away."""
        site = Site(face, make_settings(wsgi_max_waiters="1"))
        store = MemoryStore(1)
        site.app.engine.store = store
        for number in range(3):
            end(store, f"j{number}")
        answer = site(with_token(f"{POLL}?wait=30&last_id=1-0")).json()
        assert (answer["gap"], answer["result"][0]["job_id"]) == (True, "j2")

    @FACES
    def test_a_gap_without_events_ends_no_wait(self, face: str) -> None:
        """It cannot move the cursor, so the client would come again at once, for ever."""
        site = Site(face, make_settings(wsgi_max_waiters="1"))
        store = MemoryStore(max_event_bytes=1)
        site.app.engine.store = store
        end(store, "j1")
        end(store, "other", "c2", "8")  # crowds it out
        for wait in ("0", "0.2"):
            answer = site(with_token(f"{POLL}?wait={wait}&last_id=1-0"))
            assert answer.json() == {"result": [], "gap": True}

    @FACES
    def test_errors_are_those_of_a_poll(self, face: str) -> None:
        """400 for cursor and wait, 503 for the store."""
        site = Site(face, make_settings(wsgi_max_waiters="1"))
        assert site(with_token(f"{POLL}?wait=1&last_id=x")).code == "bad_last_id"
        assert site(with_token(f"{POLL}?wait=31")).code == "bad_wait"
        store = Watched()
        store.is_down = True
        site.app.engine.store = store
        assert site(with_token(f"{POLL}?wait=1")).code == "store_unavailable"

    def test_case_146_a_client_that_left_ends_the_wait(self) -> None:
        """The handler ends and sends nothing more (case 146)."""

        async def test() -> None:
            served = Served()
            client = served.connect(with_token(f"{POLL}?wait=30"))
            await served.is_waited_for()
            await client.leave()
            assert not client.has_more
            assert not served.store.bell._waiting

        run(test)


class Reading:
    """A WSGI client that reads a body part by part."""

    def __init__(self, settings: Settings) -> None:
        def app(environ: Any, start_response: Any) -> list[bytes]:
            pytest.fail("the app was called for an endpoint of ours")

        self.app = wsgi.AsyncQueryMiddleware(app, settings)
        self.app.engine.clock = Clock()
        self.store = self.app.engine.store = MemoryStore()
        self.heads: list[tuple[str, dict[str, str]]] = []

    def open(self, request: Ask) -> Iterator[bytes]:
        """Send a request; the head is there when this returns."""

        def start_response(status: str, headers: list[tuple[str, str]]) -> None:
            self.heads.append((status, dict(headers)))

        return iter(self.app(environ_of(request), start_response))


class TestWsgi:
    """Where each stream that waits holds a thread."""

    def test_without_waiters_a_stream_sends_what_there_is(self) -> None:
        """And ends at once: the browser comes back 2 s later (design 3)."""
        reading = Reading(make_settings())
        for number in range(150):
            end(reading.store, f"j{number}")
        answer = call_wsgi(reading.app, with_token(STREAM))
        text = answer.body.decode()
        assert answer.status == 200
        assert answer.get("X-Accel-Buffering") == "no"
        assert text.startswith("retry: 2000\n\nid: ")
        assert jobs_in(text) == [f"j{number}" for number in range(150)]
        assert "event: end" not in text
        assert not reading.store.bell._waiting

    def test_with_waiters_a_stream_goes_on(self) -> None:
        """Event by event; closing it gives the thread back."""
        reading = Reading(make_settings(wsgi_max_waiters="1"))
        body = reading.open(with_token(STREAM))
        assert reading.heads[0][0] == "200 OK"
        assert next(body) == b"retry: 2000\n\n:\n\n"
        for number in range(3):
            threading.Timer(0.05, end, (reading.store, f"j{number}")).start()
            assert jobs_in(next(body).decode()) == [f"j{number}"]
        second = b"".join(reading.open(with_token(STREAM)))  # above the number of waiters
        assert jobs_in(second.decode()) == ["j0", "j1", "j2"]
        body.close()  # type: ignore[attr-defined]
        assert not reading.store.bell._waiting
        again = reading.open(with_token(STREAM))
        next(again)
        assert reading.store.bell._waiting
        again.close()  # type: ignore[attr-defined]

    def test_case_122_it_ends_with_its_token(self) -> None:
        """At `exp`, and says so (case 122)."""
        reading = Reading(make_settings(wsgi_max_waiters="1"))
        reading.app.engine.clock = Clock(NOW + 0.8)
        parts = list(reading.open(with_token(STREAM, exp=1)))
        assert parts[-1].startswith(b'event: end\ndata: {"code": "token_expired"')
        assert len(parts) == 2

    def test_it_ends_after_its_turn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a reason: the browser comes back, and others had a chance meanwhile."""
        monkeypatch.setattr(exchange, "WSGI_TURN_SECONDS", 0.1)
        reading = Reading(make_settings(wsgi_max_waiters="1"))
        assert list(reading.open(with_token(STREAM))) == [b"retry: 2000\n\n:\n\n"]

    def test_case_46_it_ends_when_the_store_is_lost(self) -> None:
        """And says so; a new one is 503 (case 46)."""
        reading, store = Reading(make_settings(wsgi_max_waiters="1")), Watched()
        reading.app.engine.store = store
        body = reading.open(with_token(STREAM))
        next(body)
        store.is_down = True
        threading.Timer(0.05, store.bell.ring_all).start()
        (last,) = body
        assert last.startswith(b'event: end\ndata: {"code": "store_unavailable"')
        answer = call_wsgi(reading.app, with_token(STREAM))
        assert (answer.status, answer.code) == (503, "store_unavailable")
        assert answer.get("Retry-After")

    def test_a_poll_waits_in_its_thread(self) -> None:
        """With waiters; above their number it answers at once."""
        reading = Reading(make_settings(wsgi_max_waiters="1"))
        found: list[Any] = []
        request = with_token(f"{POLL}?wait=30")
        thread = threading.Thread(
            target=lambda: found.append(call_wsgi(reading.app, request).json())
        )
        thread.start()
        wait_until(lambda: reading.store.bell._waiting)
        assert call_wsgi(reading.app, request).json() == {"result": []}
        end(reading.store, "j1")
        thread.join(SECONDS)
        assert [event["job_id"] for event in found[0]["result"]] == ["j1"]

    def test_a_refusal_comes_before_the_head(self) -> None:
        """400, 401 and 403 as elsewhere."""
        reading = Reading(make_settings(wsgi_max_waiters="1"))
        foreign = ask("GET", STREAM, Cookie=cookies(token()), Origin="https://evil.example")
        for request, code in (
            (ask("GET", STREAM), "token_missing"),
            (with_token(STREAM, exp=-5), "token_expired"),
            (with_token(f"{STREAM}?last_id=x"), "bad_last_id"),
            (foreign, "cross_origin"),
        ):
            assert call_wsgi(reading.app, request).code == code


@BOTH
def test_a_send_that_tells_that_the_client_has_left_is_no_error(
    target: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Servers may raise an OSError then (ASGI 2.4); nothing is logged and nobody waits."""

    async def test() -> None:
        served = Served()
        client = served.connect(with_token(target))
        await opened(client, target)
        client.failure = ConnectionResetError()
        served.end("j1")
        await client.over()
        assert not served.store.bell._waiting

    run(test)
    assert caplog.records == []
