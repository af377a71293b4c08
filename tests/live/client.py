"""Clients made by hand: raw request targets, sockets, and answers as they come."""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import struct
from collections.abc import Mapping
from typing import Any

from tests.helpers import Answer
from tests.live.conftest import Running


class Client:
    """A client with one connection that is kept alive, and a jar for cookies."""

    def __init__(self, running: Running) -> None:
        self.jar: dict[str, str] = {}
        self._connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)

    def __call__(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """Send a request; a Cookie header stands in for the jar."""
        response = self.begin(method, target, headers, body)
        answer = Answer(response.status, response.getheaders(), response.read())
        for line in answer.all("Set-Cookie"):
            name, _, value = line.partition(";")[0].partition("=")
            self.jar[name] = value
        return answer

    def begin(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> http.client.HTTPResponse:
        """Send a request, and return when the head of the answer is there."""
        pairs = dict(headers or {})
        if self.jar and "Cookie" not in pairs:
            pairs["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.jar.items())
        self._connection.request(method, target, body, pairs)
        return self._connection.getresponse()

    def close(self) -> None:
        """Leave."""
        self._connection.close()


def raw(running: Running, target: bytes, *headers: tuple[str, str]) -> Answer:
    """Send a request target byte for byte; status 0: the server closed without an answer."""
    lines = [f"{name}: {value}".encode() for name, value in headers]
    head = [b"GET " + target + b" HTTP/1.1", b"Host: 127.0.0.1", b"Connection: close", *lines]
    with running.connect() as connection:
        connection.sendall(b"\r\n".join([*head, b"", b""]))
        response = http.client.HTTPResponse(connection)
        with contextlib.closing(response):
            try:
                response.begin()
                return Answer(response.status, response.getheaders(), response.read())
            except (http.client.HTTPException, ConnectionError):
                return Answer(0, [])


class Socket:
    """A WebSocket (RFC 6455), or the answer of a server that refused it."""

    def __init__(self, running: Running, path: str, headers: Mapping[str, str]) -> None:
        self._connection = running.connect()
        key = base64.b64encode(os.urandom(16)).decode()
        pairs = {
            "Host": f"127.0.0.1:{running.port}",
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": key,
            "Sec-WebSocket-Version": "13",
            **headers,
        }
        lines = [f"{name}: {value}" for name, value in pairs.items()]
        request = "\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""])
        self._connection.sendall(request.encode())
        self._file = self._connection.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        self.headers = http.client.parse_headers(self._file)

    def close(self) -> None:
        """Leave."""
        self._file.close()
        self._connection.close()

    def body(self) -> bytes:
        """Return the body of a refusal."""
        return self._file.read(int(self.headers.get("Content-Length") or 0))

    def receive(self) -> Any:
        """Return the text of a text frame, or the code and the reason of a close frame."""
        first, length = self._file.read(2)
        if length == 126:
            (length,) = struct.unpack(">H", self._file.read(2))
        payload = self._file.read(length)
        if first & 0x0F == 8:
            return struct.unpack(">H", payload[:2])[0], payload[2:].decode()
        return payload.decode()
