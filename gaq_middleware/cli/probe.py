"""`gaq check --url`: look at a running deployment from outside, through all that is in front of it.

Here is what somebody without a token sees. Garbage in the place of a token tells what arrives: who
reads it says `token_malformed`. What somebody with a token sees is in `probe_user`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException
from itertools import chain

from gaq_middleware.cli.client import Answer, Client
from gaq_middleware.cli.findings import Finding, report
from gaq_middleware.cli.probe_user import UserProbe
from gaq_middleware.cli.tokens import read_settings
from gaq_middleware.cli.words import complain, duration, shown
from gaq_middleware.core.errors import MARKER_HEADER
from gaq_middleware.core.settings import Settings

_GARBAGE = "not-a-token"
_STRANGE = {
    200: (
        "without a token. Wrap the app from outside; compare GAQ_EVENTS_PATH, GAQ_PATH_ANCHORED, "
        "GAQ_OPEN_PATHS."
    ),
    401: (
        "but not ours. Keep the proxy from putting a page of its own in its place (nginx: "
        "proxy_intercept_errors off), or wrap the app from outside, before all else that refuses."
    ),
    404: (
        "so the path is not guarded. Wrap the app from outside; give the prefix of the app in "
        "--url; compare GAQ_EVENTS_PATH."
    ),
}
"""What to say of an answer that is not our 401."""


def run(options: argparse.Namespace) -> int:
    """Look at a deployment; print findings, or what was seen."""
    settings, has_secret = read_settings()
    guarded = [path for path in settings.protected_paths if "*" not in path]
    if settings.events_path:
        guarded.insert(0, f"{settings.events_path}/")
    if not guarded:
        return complain("No path can be asked: GAQ_EVENTS_PATH and GAQ_PROTECTED_PATHS name none.")
    try:
        client = Client(options.url, guarded[0], options.ca_file)
    except OSError as error:
        return complain(f"--ca-file cannot be used: {error.strerror or error}.")
    probe = Probe(client, settings, has_secret, seen={})
    findings = list(probe.look(options.login_path))
    return report(findings, f"Nothing is wrong at {client.url}. Seen from here:", probe.seen)


@dataclass(frozen=True, slots=True)
class Probe:
    """One look at a deployment.

    Attributes:
        client: Asks it.
        settings: Those of the deployment, as far as they are known here.
        has_secret: Whether the secret in the settings is the deployment's, not made up.
        seen: What was found good, as names and texts.
    """

    client: Client
    settings: Settings
    has_secret: bool
    seen: dict[str, str]

    def look(self, login_path: str | None) -> Iterator[Finding]:
        """Yield what is wrong."""
        try:
            answer = self.client.get({})
            stop = self._other_names(answer) if answer.code else self._not_ours(answer)
            if stop is not None:
                yield stop
                return
            found = list[str]()
            for finding in chain(self._refusal(answer), self._arrivals()):
                found.append(finding.subject)
                yield finding
            if self.has_secret and self.settings.events_path:
                yield from UserProbe(self.client, self.settings, self.seen).look(found)
            else:
                need = "GAQ_JWT_SECRET as the deployment has it, and GAQ_EVENTS_PATH"
                self.seen["not seen"] = f"cookie, caches and Host, which need {need}"
            if login_path:
                yield from self._login(login_path)
        except (OSError, HTTPException) as error:
            yield self.client.failure(error)

    def _not_ours(self, answer: Answer) -> Finding:
        """Return what is in the place of our 401."""
        client, status, place = self.client, answer.status, answer.get("Location")
        what = f"GET {client.origin}{client.path}"
        if not 300 <= status < 400:
            otherwise = "but not ours. Look into the logs of the proxy and of the app."
            text = _STRANGE.get(200 if status < 300 else status, otherwise)
            return Finding(what, f"answers {status}, {text}")
        if not client.is_https and place.startswith(f"https://{client.hostname}"):
            return Finding(what, "is sent on to https.", "Give the URL with https.")
        reason = f"is sent on with {status} to {shown(place)} in the place of our 401."
        mend = "Exempt the path from log-in redirects of the proxy, or wrap the app from outside."
        return Finding(what, reason, mend)

    def _other_names(self, answer: Answer) -> Finding | None:
        """Return in what the names there differ from those here, None if they do not."""
        names = re.search(r"the cookie (\S+) nor the header (\S+)\.", str(answer.problem))
        here = (self.settings.cookie_name, self.settings.token_header)
        if names is None or names.groups() == here:
            return None
        there = f"the deployment reads {shown(names[1])} and {shown(names[2])}"
        return Finding(
            "GAQ_COOKIE_NAME and GAQ_TOKEN_HEADER",
            f"are {' and '.join(here)} here, but {there}.",
            "Run this with the deployment's settings.",
        )

    def _refusal(self, answer: Answer) -> Iterator[Finding]:
        """Yield what is wrong with our 401 to a request without a token."""
        parts = {
            "the status": answer.status == 401,
            MARKER_HEADER: answer.get(MARKER_HEADER),
            "WWW-Authenticate": "AsyncToken" in answer.get("WWW-Authenticate"),
            "Cache-Control": "no-store" in answer.get("Cache-Control"),
            "the body": answer.problem,
        }
        changed = ", ".join(name for name, arrived in parts.items() if not arrived)
        if changed:
            mend = "Let the proxy pass it on as it is."
            yield Finding("Our 401", f"does not arrive as it left the app: {changed}.", mend)
        if answer.code != "token_missing":
            reason = f"to a request without a token says {shown(answer.code)}."
            yield Finding("Our 401", reason, "Find what adds a cookie or a header on the way.")
        allowed = self.settings.jwt_leeway_seconds + 2  # Date is in whole seconds, and travels
        if abs(answer.skew) > allowed and not answer.is_cached:
            way = "ahead of" if answer.skew > 0 else "behind"
            reason = f"there is {duration(abs(answer.skew))} {way} the one here."
            yield Finding("The clock", reason, "Set both by NTP.")
        self.seen["refusal"] = f"our 401, as it left the app; clocks within {allowed} s"

    def _arrivals(self) -> Iterator[Finding]:
        """Yield what does not reach the app, by its name."""
        s, get = self.settings, self.client.get
        answers = {
            "Cookie": (get({"Cookie": f"{s.cookie_name}={_GARBAGE}"}), "token_malformed"),
            s.token_header: (get({s.token_header: _GARBAGE}), "token_malformed"),
        }
        if s.guest_secret is not None:
            answers[s.guest_header] = (get({s.guest_header: _GARBAGE}), "guest_malformed")
        if s.events_path:
            answers["POST"] = (self.client.cancel({}), "token_missing")
        for name, (answer, code) in answers.items():
            came = answer.code or f"{answer.status}, which is not ours"
            if came != code:
                reason = f"does not reach the app: {code} was expected, {came} came."
                yield Finding(name, reason, f"Let the proxy pass {name} on to the app.")
        self.seen["arrives"] = ", ".join(answers)

    def _login(self, path: str) -> Iterator[Finding]:
        """Yield why a login there would bring no cookie. Whether one does needs a password."""
        answer, known = self.client.post(path), self.settings.login_paths
        if answer.code.startswith(("token_", "guest_")):
            reason = f"of the deployment lacks {path}, which is refused with {answer.code}."
            yield Finding("GAQ_LOGIN_PATHS", reason, "Add it.")
        elif answer.status in {404, 405}:
            reason = f"answers {answer.status} to a POST."
            yield Finding(f"{self.client.url}{path}", reason, "Correct --login-path.")
        elif self.has_secret and not {path, path.rstrip("/")} & set(known):
            yield Finding("GAQ_LOGIN_PATHS", f"here lacks {path}.", "Add it.")
        self.seen["login"] = f"a POST to {path} is not refused by us ({answer.status})"
