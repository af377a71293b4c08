"""`gaq check`: read what the app would read, try its store, and tell what is wrong or will happen.

What is wrong between settings is decided in `core.conflicts`; here it is only told.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import replace

from gaq_middleware.cli import probe, store
from gaq_middleware.cli.findings import Finding, report
from gaq_middleware.cli.words import complain, duration
from gaq_middleware.core.cookies import CookieWriter
from gaq_middleware.core.errors import SettingsError
from gaq_middleware.core.settings import Settings
from gaq_middleware.core.store_urls import shown_store_url
from gaq_middleware.core.tokens import key_id
from gaq_middleware.engine import celery_canceller, has_several_workers
from gaq_middleware.log import NOTICES

_MODES = {
    "session": "the cookie comes on logins, and to users whom the app or its proxy names",
    "login": "the cookie comes on logins only",
    "anonymous": "the cookie comes on logins, to known users, and to visitors whom nobody knows",
    "off": "no cookie is set or deleted here",
}


def run(options: argparse.Namespace) -> int:
    """Look at the environment, or at a deployment; print findings, or what will happen."""
    if options.url is not None:
        return probe.run(options)
    if options.login_path or options.ca_file:
        return complain("--login-path and --ca-file are for --url.")
    try:
        settings = Settings.from_env()
    except SettingsError as error:
        return report([Finding.told(problem) for problem in error.problems], "", ())
    findings = [Finding.told(warning) for warning in settings.warnings]
    findings += [*_around(settings), *store.examine(settings)]
    return report(findings, "Nothing is wrong. This will happen:", list(_summary(settings)))


def _around(settings: Settings) -> Iterator[Finding]:
    """Yield what is wrong between the settings and the servers' own variables."""
    if settings.store_url == "memory://" and has_several_workers(os.environ):
        yield Finding.told(NOTICES["multiprocess"][1])
    if settings.celery_app:
        yield from _celery(settings.celery_app)
    named_by_header = settings.remote_user_header not in {"", "REMOTE_USER"}
    if named_by_header and os.environ.get("FORWARDED_ALLOW_IPS"):
        yield Finding(
            "FORWARDED_ALLOW_IPS",
            "makes uvicorn put the client's address in the place of the proxy's, and then the user "
            f"in {settings.remote_user_header} is not believed.",
            "Unset it, and run uvicorn with --no-proxy-headers.",
        )


def _celery(name: str) -> Iterator[Finding]:
    folder = os.getcwd()
    sys.path.insert(0, folder)  # as servers do
    try:
        celery_canceller(name)
    except SettingsError as error:
        mend = "Correct it, or run this in the folder that the server is started in."
        yield from (replace(Finding.told(problem), mend=mend) for problem in error.problems)
    finally:
        sys.path.remove(folder)


def _summary(s: Settings) -> Iterator[tuple[str, str]]:
    """Yield what will happen, as names and texts."""
    yield "mode", f"{s.issue}: {_MODES[s.issue]}"
    yield "cookie", _cookie(s)
    yield (
        "token",
        f"lives {duration(s.jwt_expiration_seconds)}, is renewed in its second half until "
        f"{duration(s.jwt_max_age_seconds)} after the login; {s.jwt_leeway_seconds} s of clock "
        f"skew are allowed; scripts send it in {s.token_header}",
    )
    yield "guarded", ", ".join(dict.fromkeys(filter(None, [*s.protected_paths, s.events_path])))
    yield "events", f"are served at {s.events_path}" if s.events_path else "are not served"
    yield "login", f"{_listed(s.login_paths)}; logout {_listed(s.logout_paths)}"
    yield "user", _user(s)
    yield "guests", _guests(s)
    yield "proxies", _proxies(s)
    if s.celery_app:
        yield "cancel", f"revokes tasks of {s.celery_app}"
    yield "origins", ", ".join(["the site's own", *s.allowed_origins])
    yield "store", _store(s)
    yield "key", f"{key_id(s.jwt_secret)}; {len(s.jwt_verify_secrets)} more verify"


def _listed(items: tuple[object, ...]) -> str:
    return ", ".join(map(str, items)) or "none"


def _cookie(settings: Settings) -> str:
    writer, life = CookieWriter(settings), settings.jwt_expiration_seconds
    line = writer.write("TOKEN", life, https=True)
    follows = line != writer.write("TOKEN", life, https=False)
    return f"{line}{' (Secure on https only)' if follows else ''}"


def _user(settings: Settings) -> str:
    sources = []
    if header := settings.remote_user_header:
        believed = "" if header == "REMOTE_USER" else ", believed from the proxies below"
        sources.append(f"named by {header}{believed}")
    if settings.session_format:
        sources.append(f"named by the {settings.session_format} session {settings.session_cookie}")
    return "; ".join([*sources, "named by login(), and by user_from if the app passes one"])


def _guests(settings: Settings) -> str:
    if settings.guest_secret is None:
        return "off"
    algorithm, audience = settings.guest_algorithm, settings.guest_audience
    return f"tokens in {settings.guest_header}, {algorithm}, audience {audience}"


def _proxies(settings: Settings) -> str:
    if not settings.trusted_proxies:
        return "none is believed"
    believed = f"{_listed(settings.trusted_proxies)} with {_listed(settings.trusted_headers)}"
    if settings.remote_user_header not in {"", "REMOTE_USER"}:
        believed += "; uvicorn must run with --no-proxy-headers"
    return believed


def _store(settings: Settings) -> str:
    url = shown_store_url(settings.store_url)
    if url == "memory://":
        return f"{url}, so run one process with threads"
    return f"{url} answers, takes writes and runs scripts"
