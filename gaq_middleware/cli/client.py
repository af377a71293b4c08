"""A small HTTP client to look at a deployment: one connection a request, no redirect followed."""

from __future__ import annotations

import argparse
import base64
import json
import re
import ssl
import time
import uuid
from contextlib import closing, suppress
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from gaq_middleware.cli.findings import Finding
from gaq_middleware.core.errors import CODES, MARKER_HEADER
from gaq_middleware.core.frames import HELLO

TIMEOUT = 10.0  # seconds, for each step of a request
STREAM_TIMEOUT = 5.0  # the same where a stream must begin at once; less than its heartbeat
_MAX_BODY = 65_536
_CACHE_HEADERS = ("X-Cache", "X-Cache-Status", "X-Proxy-Cache", "CF-Cache-Status")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, and when, in seconds since 1970."""

    status: int
    headers: Message
    body: bytes
    at: float

    def get(self, name: str) -> str:
        """Return a header, its lines joined; empty if it did not come."""
        return ", ".join(map(str, self.headers.get_all(name, [])))

    @property
    def code(self) -> str:
        """The code of a refusal of ours, from its header or else its body; empty if it is none."""
        return self.get(MARKER_HEADER) or str(self.problem.get("code", ""))

    @property
    def problem(self) -> dict[str, object]:
        """The problem document in the body; empty if it is none of ours."""
        try:
            document = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        is_ours = isinstance(document, dict) and str(document.get("code")) in CODES
        return document if is_ours else {}

    @property
    def is_cached(self) -> bool:
        """Whether a cache says that it had this answer already (RFC 9111 section 5.1)."""
        is_hit = any(re.search(r"(?i)\bhit\b", self.get(name)) for name in _CACHE_HEADERS)
        return is_hit or self.get("Age").strip("0") != ""

    @property
    def skew(self) -> float:
        """The seconds that the clock of who answered is ahead of ours; 0 if it does not tell."""
        try:
            return parsedate_to_datetime(self.get("Date")).timestamp() - self.at
        except (ValueError, TypeError, OverflowError):
            return 0.0


class Client:
    """Sends requests to the site behind a URL; they raise OSError or HTTPException.

    Args:
        url: Scheme, host, and the prefix of the app if it has one.
        path: The guarded path that is asked for, below the prefix.
        ca_file: Certificates of the authorities that are trusted beside the usual ones.

    Raises:
        OSError: The file cannot be used.
    """

    def __init__(self, url: str, path: str, ca_file: str | None = None) -> None:
        parts = urlsplit(url)
        self._host, self._prefix = parts.netloc, parts.path.rstrip("/")
        self.path = self._prefix + path
        self.hostname = (parts.hostname or "").lower()
        self.is_https = parts.scheme == "https"
        self.url = f"{parts.scheme}://{parts.netloc}{self._prefix}"
        host = parts.netloc.lower().removesuffix(":443" if self.is_https else ":80")
        self.origin = f"{parts.scheme}://{host}"  # as browsers name it: RFC 6454 section 6.1
        self._tls = ssl.create_default_context()
        if ca_file is not None:
            self._tls.load_verify_locations(ca_file)

    def get(self, headers: dict[str, str], mark: str | None = None) -> Answer:
        """Get the guarded path; no cache has the answer unless it had one for the same mark."""
        return self._ask("GET", f"{self.path}?check={mark or uuid.uuid4()}", headers)

    def cancel(self, headers: dict[str, str]) -> Answer:
        """Cancel a job that does not exist; the guarded path must be that of our endpoints."""
        return self._ask("POST", f"{self.path}{uuid.uuid4()}/cancel", headers)

    def stream(self, headers: dict[str, str]) -> Answer:
        """Open the event stream as a browser does, read its first part, and leave."""
        wanted = {"Accept": "text/event-stream", "Accept-Encoding": "gzip, deflate, br"}
        path = f"{self.path}stream?check={uuid.uuid4()}"
        return self._ask("GET", path, {**headers, **wanted}, is_stream=True)

    def socket(self, headers: dict[str, str]) -> Answer:
        """Open the WebSocket as a page of the site does, and leave (RFC 6455 section 4.1)."""
        key = base64.b64encode(uuid.uuid4().bytes).decode()
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Origin": self.origin}
        upgrade |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key}
        return self._ask("GET", f"{self.path}ws", {**headers, **upgrade})

    def post(self, path: str) -> Answer:
        """Post nothing to a path below the prefix."""
        return self._ask("POST", self._prefix + path, {})

    def _ask(
        self, method: str, path: str, headers: dict[str, str], *, is_stream: bool = False
    ) -> Answer:
        """Send a request and return the answer; of a stream, its first part."""
        timeout = STREAM_TIMEOUT if is_stream else TIMEOUT
        connection = HTTPConnection(self._host, timeout=timeout)
        if self.is_https:
            connection = HTTPSConnection(self._host, timeout=timeout, context=self._tls)
        with closing(connection):
            body = b"" if method == "POST" else None
            connection.request(method, path, body, {"Accept": "*/*", **headers})
            with connection.getresponse() as response:
                at = time.time()
                most = len(HELLO) if is_stream and response.status == 200 else _MAX_BODY
                return Answer(response.status, response.headers, response.read(most), at)

    def failure(self, error: Exception) -> Finding:
        """Return what keeps the site from answering, in words."""
        if isinstance(error, ssl.SSLCertVerificationError):
            reason = f"has a certificate that is not trusted here: {error.verify_message}."
            return Finding(self.url, reason, "Name its authority with --ca-file, or renew it.")
        if isinstance(error, ssl.SSLError):
            return Finding(self.url, "does not speak TLS.", "Write http://, or correct the port.")
        if isinstance(error, TimeoutError):
            return Finding(self.url, f"gives no answer in {TIMEOUT:.0f} s.", "Look at its log.")
        if isinstance(error, ConnectionError | HTTPException):
            reason = f"cannot be talked to by HTTP ({type(error).__name__})."
            return Finding(self.url, reason, "Correct host, port or scheme.")
        why = getattr(error, "strerror", None) or error
        return Finding(self.url, f"cannot be reached: {why}.", "Correct the host.")


def site_url(text: str) -> str:
    """Return the URL of a site that an option names; ArgumentTypeError if it names none."""
    with suppress(ValueError):
        parts = urlsplit(text)
        is_site = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        if is_site and not re.search(r"[@?#]|[^!-~]", text):
            return text
    raise argparse.ArgumentTypeError("it must be like https://host or https://host/prefix")


def site_path(text: str) -> str:
    """Return the path on a site that an option names; ArgumentTypeError if it names none."""
    if not re.fullmatch(r"/[!-~]*", text):
        raise argparse.ArgumentTypeError("it must be like /login")
    return text
