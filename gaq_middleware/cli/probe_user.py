"""What somebody with a token sees: what becomes of the cookie, of Host, of streams, in caches.

Tokens of two users who do not exist are made with the deployment's secret; they live a minute.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Collection, Iterator

from gaq_middleware.cli.client import STREAM_TIMEOUT, Answer, Client
from gaq_middleware.cli.findings import Finding
from gaq_middleware.cli.words import shown
from gaq_middleware.core.cookies import CookieWriter, sets_cookie
from gaq_middleware.core.frames import HELLO
from gaq_middleware.core.settings import Settings
from gaq_middleware.core.tokens import Claims, TokenCodec, key_id

_ONE, _OTHER = "gaq-check-1", "gaq-check-2"
_LIFE = 60  # seconds that a token made here is good for
_PASS = "Let the proxy pass it on as it is."  # noqa: S105 - no password
_PLAIN = "Let nobody compress text/event-stream (nginx: take it out of gzip_types)."
_AT_ONCE = (
    "Let the proxy, or the CDN, pass on at once what comes (nginx: obey X-Accel-Buffering or set "
    "proxy_buffering off; haproxy: no wait-for-body; Caddy: flush_interval -1; Apache: "
    f"flushpackets=on). {_PLAIN}"
)


class UserProbe:
    """One look at a deployment as somebody who has a good token.

    Args:
        client: Asks it.
        settings: Those of the deployment.
        seen: Where to add what was found good, as names and texts.
    """

    def __init__(self, client: Client, settings: Settings, seen: dict[str, str]) -> None:
        self._client, self._settings, self._seen = client, settings, seen
        self._codec, self._writer = TokenCodec(settings), CookieWriter(settings)
        self._mine, self._others = self._cookie(_ONE), self._cookie(_OTHER)
        self._mark = str(uuid.uuid4())
        self._key = f"key {key_id(settings.jwt_secret)}"

    def look(self, before: Collection[str]) -> Iterator[Finding]:
        """Yield what is wrong.

        Args:
            before: The subjects of what was found before, such as `Cookie`, which does not arrive.
        """
        yield from self._misfits()
        if "Cookie" in before:
            return
        answer = self._client.get(self._mine, self._mark)
        if answer.status != 200:
            if not (answer.code == "token_expired" and "The clock" in before):
                yield self._rejected(answer)
            return
        self._seen["token"] = f"one of the secret here, {self._key}, is good"
        if "no-store" not in answer.get("Cache-Control"):
            yield Finding("Cache-Control", "loses no-store on the way.", _PASS)
        yield from self._changes_of_cookie(answer)
        yield from self._caches(answer)
        if "POST" not in before:
            answer = self._client.cancel({**self._mine, "Origin": self._client.origin})
            if answer.code != "job_not_found":
                yield self._rejected(answer)
            self._seen["origin"] = f"{self._client.origin} may cancel"
        yield from self._stream()
        if self._client.socket(self._mine).status == 101:
            self._seen["socket"] = "opens"
        else:
            self._seen["socket"] = (
                "does not open: WSGI servers have none, uvicorn needs websockets, and a proxy must "
                "pass on Upgrade and Connection"
            )

    def _misfits(self) -> Iterator[Finding]:
        """Yield why browsers would not keep or send the cookie there."""
        client, domain, path = (
            self._client,
            self._settings.cookie_domain,
            self._settings.cookie_path,
        )
        if self._writer.is_dropped(https=client.is_https):
            reason = "or what forces it makes the cookie Secure, which browsers drop by plain http."
            yield Finding("GAQ_COOKIE_SECURE", reason, "Use https.")
        if domain and not f".{client.hostname}".endswith(f".{domain}"):
            reason = f"is {domain}, but the site is {client.hostname}: browsers drop the cookie."
            yield Finding("GAQ_COOKIE_DOMAIN", reason, "Unset it.")
        if not client.path.startswith(f"{path.rstrip('/')}/"):
            reason = f"is {path}: browsers do not send the cookie to {client.path}."
            yield Finding("GAQ_COOKIE_PATH", reason, "Unset it.")

    def _cookie(self, user: str) -> dict[str, str]:
        """Return the cookie of a user in the second half of its life, which is renewed."""
        now, life = time.time(), self._settings.jwt_expiration_seconds
        then = now - life + min(_LIFE, life / 4)
        token = self._codec.issue(self._codec.user_channel(user), user, then, auth_time=now)
        return {"Cookie": f"{self._settings.cookie_name}={token.raw}"}

    def _rejected(self, answer: Answer) -> Finding:
        """Return why a good token does not lead to a good answer."""
        if answer.code == "token_signature":
            reason = f"here, {self._key}, is none of the deployment's."
            mend = "Compare with key= in its start-up line, or run this with its settings."
            return Finding("GAQ_JWT_SECRET", reason, mend)
        if answer.code == "cross_origin":
            said = shown(str(answer.problem.get("detail")).rstrip("."))
            reason = f"arrives changed: browsers are refused sockets, some also cancels: {said}."
            mend = "Let the proxy pass Host (nginx: proxy_set_header Host $http_host), or list "
            return Finding("Host", reason, f"{mend}{self._client.origin} in GAQ_ALLOWED_ORIGINS.")
        if answer.code == "store_unavailable":
            return Finding("GAQ_STORE_URL", "fails there.", "Run `gaq check` there.")
        came = f"{answer.status} {answer.code or 'that is not ours'}"
        return Finding("A good token", f"leads to {came}.", "Look into the log of the app.")

    def _changes_of_cookie(self, answer: Answer) -> Iterator[Finding]:
        """Yield what happened on its way to the cookie that renews another.

        Where the app knows its users by other means too, tokens alone renew none.
        """
        lines = self._lines(answer)
        self._seen["cookie"] = "arrives as it was set" if lines else "not seen: none was set"
        if not lines and "private" in answer.get("Cache-Control"):  # said with one
            yield Finding("Set-Cookie", "does not arrive.", "Let the proxy pass it on.")
        sent = _attributes(self._writer.write("", 1, https=self._client.is_https))
        for line in lines:
            came = _attributes(line)
            changes = [f"no {sent[key]}" for key in sorted(sent.keys() - came.keys())]
            changes += [came[key][:100] for key in sorted(came.keys() - sent.keys())]
            if self._subject(line) is None:
                changes.append("another value")
            mend = f"{_PASS} If it does, run this with the deployment's settings."
            if changes == ["no Secure"] and self._settings.cookie_secure is None:
                mend = "Let the proxy tell of https: X-Forwarded-Proto: https."
            if changes:
                yield Finding("Set-Cookie", f"arrives with {', '.join(changes)}.", mend)

    def _lines(self, answer: Answer) -> list[str]:
        """Return the `Set-Cookie` lines of our cookie."""
        name = self._settings.cookie_name
        lines = answer.headers.get_all("Set-Cookie", [])
        return [line for line in map(str, lines) if sets_cookie([line], name)]

    def _subject(self, line: str) -> str | None:
        """Return whose token a `Set-Cookie` line sets; None if it is none."""
        value = line.partition(";")[0].partition("=")[2].strip(' "')
        claims = self._codec.verify(value, time.time())
        return claims.subject if isinstance(claims, Claims) else None

    def _caches(self, first: Answer) -> Iterator[Finding]:
        """Yield whether a cache gives an answer again, to the same user or to others."""
        again = self._client.get(self._mine, self._mark)
        others = self._client.get(self._others, self._mark)
        nobodys = self._client.get({}, self._mark)
        mend = f"Keep it from {self._client.path}, or let it obey no-store."
        if nobodys.status == 200 or _ONE in map(self._subject, self._lines(others)):
            reason = "gives the answer to one user, and the cookie in it, to others."
            yield Finding("A cache", reason, mend)
        elif any(answer.is_cached for answer in (first, again, others, nobodys)):
            yield Finding("A cache", "keeps answers that say no-store.", mend)
        self._seen["caches"] = "none gives an answer twice"

    def _stream(self) -> Iterator[Finding]:
        """Yield what keeps an event stream from arriving part by part."""
        what = f"GET {self._client.origin}{self._client.path}stream"
        self._seen["stream"] = "begins at once: nothing holds it back"
        try:
            answer = self._client.stream(self._mine)
        except TimeoutError:
            reason = f"is held back: nothing of the event stream comes in {STREAM_TIMEOUT:.0f} s."
            yield Finding(what, reason, _AT_ONCE)
            return
        if answer.code == "job_not_found":
            self._seen["stream"] = "not seen: the deployment is older and has none"
        elif answer.code == "too_many_streams" and not self._settings.max_streams:
            self._seen["stream"] = "not seen: GAQ_MAX_STREAMS is 0"
        elif answer.code == "too_many_streams":
            reason = "is reached there: no more event streams can be opened."
            yield Finding("GAQ_MAX_STREAMS", reason, "Raise it, or run more processes.")
        elif answer.code:
            yield self._rejected(answer)
        elif fault := _fault_of_stream(answer):
            yield Finding(what, *fault)


def _fault_of_stream(answer: Answer) -> tuple[str, str] | None:
    """Return what is wrong with an answer that should be an event stream, and the mend."""
    if answer.status != 200:
        return f"answers {answer.status}, which is not ours.", "Let the proxy ask the app."
    if answer.headers.get_content_type() != "text/event-stream":
        return f"arrives with the Content-Type {shown(answer.get('Content-Type'))}.", _PASS
    if coding := answer.get("Content-Encoding"):
        return f"arrives compressed ({shown(coding)}), which can hold back its parts.", _PLAIN
    if answer.get("Content-Length"):
        return "arrives with a Content-Length: somebody waits for all of it first.", _AT_ONCE
    return None if answer.body == HELLO else ("arrives with another first part.", _PASS)


def _attributes(line: str) -> dict[str, str]:
    """Return the attributes of a `Set-Cookie` line by lower-case text; how long it lives apart."""
    parts = [re.sub("(?i)max-age=.*", "Max-Age", part.strip()) for part in line.split(";")[1:]]
    return {part.lower(): part for part in parts if not re.match("(?i)expires=|$", part)}
