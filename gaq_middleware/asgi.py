"""The ASGI face: translate scope and messages, call the app in the same task, buffer nothing.

Only `http` and `websocket` are touched; lifespan, unknown scopes and extension messages pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gaq_middleware.asgi_answers import (
    ASGIApp,
    Message,
    Receive,
    Scope,
    Send,
    answer,
    close_code,
    deny,
    encode,
    send_reply,
)
from gaq_middleware.context import RequestContext
from gaq_middleware.core.errors import Refusal, current_recorder, own_error
from gaq_middleware.core.issuing import with_cookie
from gaq_middleware.core.messages import Reply, RequestHead
from gaq_middleware.core.proxies import is_rewritten
from gaq_middleware.core.settings import Settings
from gaq_middleware.engine import Engine, UserFrom, check_app
from gaq_middleware.exchange import Exchange
from gaq_middleware.registry import Canceller

__all__ = ["ASGIApp", "AsyncQueryMiddleware", "Message", "Receive", "Scope", "Send"]

MAX_HELD_BYTES = 65_536
"""How much of an app's 500 is held while we wait whether the app also raises."""


class AsyncQueryMiddleware:
    """Guards the async queries of an ASGI app.

    Args:
        app: The app to wrap.
        settings: The settings; read from the environment if None.
        user_from: Tells the current user id from the scope, None if there is none.
        canceller: Stops the work behind a cancelled job; a plain or a coroutine function.

    Raises:
        SettingsError: The environment is wrong; every problem is listed.
        TypeError: An argument cannot be what it is for.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings | None = None,
        *,
        user_from: UserFrom | None = None,
        canceller: Canceller | None = None,
    ) -> None:
        check_app(app, "asgi")
        self.app = app
        self.engine = Engine(settings, user_from, canceller)
        if self.engine.settings.remote_user_header == "REMOTE_USER":
            self.engine.log.once("remote_user_under_asgi")
        self._wanted = {name.encode("latin-1"): name for name in self.engine.guard.wanted}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection (ASGI 3)."""
        if scope["type"] not in ("http", "websocket") or self._is_inside(scope):
            await self.app(scope, receive, send)
            return
        exchange = Exchange(self.engine, self._head(scope))
        scope = {**scope, "gaq": exchange.context}
        token = current_recorder.set(exchange.context)
        try:
            outcome = exchange.admit(scope)
            if outcome is None:
                self._replace_cookie(scope, exchange.cookie_header)
                kind = _HttpResponse if scope["type"] == "http" else _Socket
                await kind(exchange, scope, send).run(self.app, receive)
            else:
                await answer(exchange, scope, receive, send, outcome)
        finally:
            current_recorder.reset(token)
            exchange.close()

    def _is_inside(self, scope: Scope) -> bool:
        outer = scope.get("gaq")
        return isinstance(outer, RequestContext) and outer.guards_same_cookie(self.engine)

    def _head(self, scope: Scope) -> RequestHead:
        found: dict[str, list[str]] = {}
        headers = scope.get("headers", ())
        if not isinstance(headers, list | tuple):
            headers = scope["headers"] = list(headers)  # it may be an iterator: read it once
        for key, value in headers:
            name = self._wanted.get(key)
            if name is not None:
                found.setdefault(name, []).append(value.decode("latin-1"))
        raw_path, client = scope.get("raw_path"), scope.get("client")
        return RequestHead(
            method=scope.get("method", "GET"),
            scheme=scope.get("scheme", "http"),
            path=scope["path"],
            raw_path=None if raw_path is None else raw_path.decode("latin-1"),
            root_path=scope.get("root_path", ""),
            query=scope.get("query_string", b"").decode("latin-1"),
            headers=found,
            peer=str(client[0]) if client else None,
            peer_is_rewritten=is_rewritten(client, found),
            is_websocket=scope["type"] == "websocket",
        )

    @staticmethod
    def _replace_cookie(scope: Scope, cookie: str | None) -> None:
        if cookie is not None:
            others = [pair for pair in scope.get("headers", ()) if pair[0] != b"cookie"]
            scope["headers"] = [*others, (b"cookie", cookie.encode("latin-1"))]


def _values_of(headers: Iterable[tuple[bytes, bytes]]) -> Callable[[str], list[str]]:
    def values(name: str) -> list[str]:
        wanted = name.encode("latin-1")
        return [v.decode("latin-1") for k, v in headers if k.lower() == wanted]

    return values


class _HttpResponse:
    """The response of the app on its way out: held, replaced, or passed with our cookie."""

    def __init__(self, exchange: Exchange, scope: Scope, send: Send) -> None:
        self._exchange, self._scope, self._send = exchange, scope, send
        self._start: Message | None = None  # a head that waits for the first part of its body
        self._held: list[Message] = []  # a 500 that waits for the app to return or raise
        self._held_bytes = 0
        self._listeners = 0  # calls of receive() that wait
        self._refusal: Refusal | None = None  # what answers instead of the 500
        self._is_started = self._is_out = self._is_replaced = False

    async def run(self, app: ASGIApp, receive: Receive) -> None:
        async def listen() -> Message:
            self._listeners += 1
            try:
                if self._is_held_whole():
                    await self._return()
                return await receive()
            finally:
                self._listeners -= 1

        try:
            await app(self._scope, listen, self.send)
        except Exception as exc:
            own = own_error(exc)
            if own is None:
                await self._release()
                raise
            if self._is_replaced:
                return
            if self._is_out:
                raise
            await self._replace(own.refusal())
        else:
            await self._return()

    async def send(self, message: Message) -> None:
        if self._is_replaced:
            return
        if self._held:
            self._held.append(message)
            self._held_bytes += len(message.get("body", b""))
            if self._held_bytes > MAX_HELD_BYTES or (self._listeners and self._is_held_whole()):
                await self._return()
        elif message["type"] == "http.response.start" and not self._is_started:
            await self._on_start(message)
        else:
            await self._pass_start()
            await self._send(message)

    async def _on_start(self, message: Message) -> None:
        self._is_started = True
        headers = list(message.get("headers", ()))  # it may be an iterator: read it once
        message = {**message, "headers": headers}  # the app may keep its own for other requests
        values, status = _values_of(headers), message["status"]
        refusal = self._exchange.replacement(status, values)
        if refusal is not None and status == 500:
            self._held, self._refusal = [message], refusal
        elif refusal is not None:
            await self._replace(refusal)
        else:
            self._start = message
            if not self._exchange.holds_head(values):
                await self._pass_start()

    async def _pass_start(self) -> None:
        message, self._start = self._start, None
        if message is None:
            return
        self._is_out = True
        line = self._exchange.depart(message["status"], _values_of(message["headers"]))
        if line is not None:
            text = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in message["headers"]]
            message["headers"] = encode(Reply(200, with_cookie(text, line), b""))
        await self._send(message)

    def _is_held_whole(self) -> bool:
        """Whether all of a 500 is held; an app that then listens waits for it to go out."""
        last = self._held[-1] if self._held else {"type": ""}
        return last["type"] == "http.response.body" and not last.get("more_body", False)

    async def _return(self) -> None:
        """The app is done, listens, or has sent more than is held: what waits goes out."""
        if self._refusal is not None:
            await self._replace(self._refusal)
        else:
            await self._pass_start()

    async def _replace(self, refusal: Refusal) -> None:
        replaces_500 = bool(self._held)
        self._start, self._held, self._refusal, self._is_replaced = None, [], None, True
        reply = self._exchange.problem(refusal, replaces_500=replaces_500)
        await send_reply(self._send, reply, head_only=self._scope.get("method") == "HEAD")

    async def _release(self) -> None:
        """Let the app's own 500 go: it raised something that is not ours."""
        held, self._held = self._held, []
        for message in held:
            await self._send(message)


class _Socket:
    """The socket of the app: errors of ours become a refusal before accept, a close after."""

    def __init__(self, exchange: Exchange, scope: Scope, send: Send) -> None:
        self._exchange, self._scope, self._send = exchange, scope, send
        self._is_accepted = self._is_closed = self._is_replaced = False

    async def run(self, app: ASGIApp, receive: Receive) -> None:
        async def watched() -> Message:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                self._is_closed = True
            return message

        try:
            await app(self._scope, watched, self.send)
        except Exception as exc:
            own = own_error(exc)
            if own is None:
                raise
            if self._is_replaced:
                return
            if self._is_closed:
                raise
            await self._replace(own.refusal())

    async def send(self, message: Message) -> None:
        if self._is_replaced:
            return
        kind = message["type"]
        if kind in ("websocket.accept", "websocket.send"):
            self._is_accepted = True
            self._exchange.forget()  # whatever was raised before, the app has gone on
        elif kind in ("websocket.close", "websocket.http.response.start") and not self._is_closed:
            if "headers" in message:
                message = {**message, "headers": list(message["headers"])}  # as for http
            refusal = self._replacement(message)
            if refusal is not None:
                await self._replace(refusal)
                return
            self._is_closed = True
        await self._send(message)

    def _replacement(self, message: Message) -> Refusal | None:
        """Return the recorded error that ends the socket instead of the app's own end."""
        if self._is_accepted or message["type"] == "websocket.close":
            return self._exchange.latest  # a close does not tell what the framework means by it
        values = _values_of(message.get("headers", ()))
        return self._exchange.replacement(message["status"], values)

    async def _replace(self, refusal: Refusal) -> None:
        self._is_replaced = True
        reply = self._exchange.problem(refusal)
        if self._is_accepted:
            code = close_code(refusal.status)
            await self._send({"type": "websocket.close", "code": code, "reason": refusal.code})
        else:
            await deny(self._scope, self._send, reply)
