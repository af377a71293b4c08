"""The guard: a request head in; out comes a whole reply, one of our endpoints, or leave to pass.

Everything it needs comes in as a value. An exception here is a refusal: nothing catches it on
the way to the server.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gaq_middleware.core.errors import Refusal
from gaq_middleware.core.identify import Finding
from gaq_middleware.core.issuing import Issuer, vary_on_cookie, with_cookie
from gaq_middleware.core.messages import Endpoint, Headers, Reply, RequestHead
from gaq_middleware.core.origins import cors_headers, preflight_headers, refuse_cross_origin
from gaq_middleware.core.paths import PathRules
from gaq_middleware.core.proxies import FORWARDED
from gaq_middleware.core.settings import Settings

MAX_WAIT = 30.0
"""Seconds that a poll may wait for an event."""
_READ = ("GET", "HEAD")
_SECONDS = re.compile(r"[0-9]{1,2}(\.[0-9]{1,3})?")


class Guard:
    """Decides about requests by one set of settings."""

    def __init__(self, settings: Settings, issuer: Issuer) -> None:
        self._issuer = issuer
        self._origins = settings.allowed_origins
        self.paths = PathRules.compile(
            protected=settings.protected_paths,
            open=settings.open_paths,
            anchored=settings.path_anchored,
            events=settings.events_path,
            login=settings.login_paths,
            logout=settings.logout_paths,
        )
        self.wanted = frozenset(
            {
                *("cookie", "host", "origin", "sec-fetch-site", "x-vhm-root"),
                *("last-event-id", "sec-websocket-protocol"),
                *("access-control-request-method", "access-control-request-headers"),
                *(settings.token_header.lower(), settings.guest_header.lower()),
                *(settings.remote_user_header.lower(), *FORWARDED),
            }
            - {"", "remote_user"}  # the latter is no header
        )
        """Lower-case names of the request headers that decisions look at."""

    def is_protected(self, head: RequestHead) -> bool:
        """Whether the path needs an identity; login and logout paths are never refused.

        Pyramid's traversal puts the header X-Vhm-Root in front of the path, whoever sent it.
        """
        in_front = ["", *head.headers.get("x-vhm-root", ())]
        return any(
            self.paths.is_protected(
                f"{vhm_root}{head.path}",
                None if vhm_root else head.raw_path,
                head.root_path,
                root_in_path=head.root_in_path,
            )
            for vhm_root in in_front
        )

    def is_login(self, head: RequestHead) -> bool:
        """Whether this is a login path."""
        return self.paths.is_login(head.path, head.root_path if head.root_in_path else "")

    def is_logout(self, head: RequestHead) -> bool:
        """Whether this is a logout path."""
        return self.paths.is_logout(head.path, head.root_path if head.root_in_path else "")

    def check(
        self, head: RequestHead, find: Callable[[], Finding]
    ) -> Reply | Endpoint | Refusal | None:
        """Decide about a request on a protected path.

        Args:
            head: The request.
            find: Who is asking; called once at most.

        Returns:
            A whole reply, an operation to serve, a refusal (for `refuse`), or None: the app may
            have the request.
        """
        if self._is_preflight(head):
            return self.reply(204, preflight_headers(head, self._origins), b"")
        finding = find()
        if finding.refusal is not None:
            return finding.refusal
        tail = self.paths.events_tail(head.path, head.root_path)
        segments = [] if tail is None else tail.strip("/").split("/")
        if head.is_websocket:
            refusal = self._refuse_foreign(head, finding)
            return refusal or (_stream(head) if segments == ["ws"] else None)
        return self._endpoint(head, finding, segments) if segments else None

    def is_stream(self, head: RequestHead) -> bool:
        """Whether this is the address of our event stream, or of our socket if it is one."""
        tail = self.paths.events_tail(head.path, head.root_path)
        return tail is not None and tail.strip("/") == ("ws" if head.is_websocket else "stream")

    @staticmethod
    def _is_preflight(head: RequestHead) -> bool:
        asks = "origin" in head.headers and "access-control-request-method" in head.headers
        return head.method == "OPTIONS" and asks

    def _refuse_foreign(self, head: RequestHead, finding: Finding) -> Refusal | None:
        return refuse_cross_origin(head, self._origins) if finding.is_ambient else None

    def _endpoint(
        self, head: RequestHead, finding: Finding, segments: list[str]
    ) -> Reply | Endpoint | Refusal | None:
        if segments == [""]:
            is_foreign = self._refuse_foreign(head, finding) is not None
            return self._by_method(head, _READ, _poll(head, may_wait=not is_foreign))
        if segments == ["stream"]:
            allowed = self._by_method(head, _READ, _stream(head))
            if isinstance(allowed, Endpoint):
                allowed = self._refuse_foreign(head, finding) or allowed
            is_asked = isinstance(allowed, Endpoint) and head.method == "HEAD"
            return self.stream_head(head) if is_asked else allowed
        if segments == ["ws"]:
            return self._by_method(head, _READ, Refusal.of("upgrade_required"))
        if len(segments) == 1:
            return self._by_method(head, _READ, Endpoint("get", segments[0]))
        if len(segments) == 2 and segments[1] == "cancel":
            allowed = self._by_method(head, ("POST",), Endpoint("cancel", segments[0]))
            if isinstance(allowed, Reply):
                return allowed
            return self._refuse_foreign(head, finding) or allowed
        return None

    def _by_method(
        self, head: RequestHead, methods: tuple[str, ...], outcome: Endpoint | Refusal
    ) -> Reply | Endpoint | Refusal:
        if head.method in methods:
            return outcome
        allow = ("Allow", ", ".join((*methods, "OPTIONS")))
        if head.method == "OPTIONS":
            return self.reply(204, [allow, *cors_headers(head, self._origins)], b"")
        reply = self.refuse(head, Refusal.of("method_not_allowed"))
        return Reply(reply.status, [*reply.headers, allow], reply.body)

    def refuse(
        self, head: RequestHead, refusal: Refusal, finding: Finding | None = None, now: float = 0
    ) -> Reply:
        """Return the reply that tells a refusal, with CORS headers for listed origins.

        Args:
            head: The request.
            refusal: What to tell.
            finding: Who was asking, when that is what is refused: in mode `anonymous` the reply
                then carries a first cookie.
            now: Epoch seconds, for that cookie.
        """
        headers = [*refusal.headers(), *cors_headers(head, self._origins)]
        if finding is not None and finding.refusal is refusal:
            line = self._issuer.first_anonymous(head, finding, now).line
            headers = headers if line is None else with_cookie(headers, line)
        return self.reply(refusal.status, headers, refusal.body())

    def answer(self, head: RequestHead, body: bytes) -> Reply:
        """Return the 200 of an endpoint of ours with a JSON body."""
        headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
        return self.reply(200, vary_on_cookie([*headers, *cors_headers(head, self._origins)]), body)

    def stream_head(self, head: RequestHead) -> Reply:
        """Return the head of an event stream: nothing on the way may keep or hold its parts.

        Source: the HTML standard, section 9.2 (server-sent events); nginx reads X-Accel-Buffering.
        """
        headers = [
            ("Content-Type", "text/event-stream"),
            ("Cache-Control", "no-cache, no-store, no-transform"),
            ("X-Accel-Buffering", "no"),
        ]
        return Reply(200, vary_on_cookie([*headers, *cors_headers(head, self._origins)]), b"")

    @staticmethod
    def reply(status: int, headers: Headers, body: bytes) -> Reply:
        """Return a reply with its length (none on 204: RFC 9110 section 8.6)."""
        if status != 204:
            headers = [*headers, ("Content-Length", str(len(body)))]
        return Reply(status, headers, body)


def _poll(head: RequestHead, *, may_wait: bool) -> Endpoint | Refusal:
    """Return the poll that is asked for; a foreign page shall not use up who may wait."""
    wait = "&".join(head.parameters("wait")) or "0"
    if not _SECONDS.fullmatch(wait) or float(wait) > MAX_WAIT:
        return Refusal.of("bad_wait")
    seconds = float(wait) if may_wait and head.method != "HEAD" else 0.0
    return Endpoint("read", "&".join(head.parameters("last_id")), seconds)


def _stream(head: RequestHead) -> Endpoint:
    """Return the stream that is asked for; a browser that comes back says where it was."""
    came_back = "&".join(head.headers.get("last-event-id", ()))
    return Endpoint("stream", came_back or "&".join(head.parameters("last_id")))
