"""`gaq check`: read what the app would read, try its store, and tell what is wrong or will happen.

What is wrong between settings is decided in `core.conflicts`; here it is only told.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator

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
    """Find what is wrong with the settings, or with a deployment.

    Read the environment as the app would, try its store, and print what is wrong and how to mend
    it; if nothing is, what will happen. With --url, look at a running deployment from outside
    instead, through the proxies in front of it; more is seen with its settings in the environment.
    Exit codes: 0 nothing is wrong, 1 something is, 2 wrong usage.
    """
    if options.url is not None:
        return probe.run(options)
    if options.login_path or options.ca_file:
        return complain("--login-path and --ca-file are for --url.")
    try:
        settings = Settings.from_env()
    except SettingsError as error:
        return report([Finding.told(problem) for problem in error.problems], "", {})
    findings = [Finding.told(warning) for warning in settings.warnings]
    findings += [*_around(settings), *store.examine(settings)]
    return report(findings, "Nothing is wrong. This will happen:", _summary(settings))


def _around(settings: Settings) -> Iterator[Finding]:
    """Yield what is wrong between the settings and the servers' own variables."""
    if settings.store_url == "memory://" and has_several_workers(os.environ):
        yield Finding.told(NOTICES["multiprocess"][1])
    if settings.celery_app:
        yield from _celery(settings.celery_app)
    if _is_named_by_header(settings) and os.environ.get("FORWARDED_ALLOW_IPS"):
        yield Finding.told(
            "FORWARDED_ALLOW_IPS makes uvicorn hide the proxy's address, and then the user in "
            f"{settings.remote_user_header} is not believed. Unset it, and run uvicorn with "
            "--no-proxy-headers."
        )


def _is_named_by_header(settings: Settings) -> bool:
    return settings.remote_user_header not in {"", "REMOTE_USER"}


def _celery(name: str) -> Iterator[Finding]:
    folder = os.getcwd()
    sys.path.insert(0, folder)  # as servers do
    try:
        celery_canceller(name)
    except SettingsError as error:
        mend = "Correct it, or run this in the folder that the server is started in."
        yield from (Finding.told(f"{problem} {mend}") for problem in error.problems)
    finally:
        sys.path.remove(folder)


def _summary(s: Settings) -> dict[str, str]:
    """Return what will happen, as names and texts."""
    use = "answers, takes writes and runs scripts"
    if s.store_url == "memory://":
        use = "needs one process with threads"
    return {
        "mode": f"{s.issue}: {_MODES[s.issue]}",
        "cookie": _cookie(s),
        "token": (
            f"lives {duration(s.jwt_expiration_seconds)}, is renewed in its second half until "
            f"{duration(s.jwt_max_age_seconds)} after the login; {s.jwt_leeway_seconds} s of clock "
            f"skew are allowed; scripts send it in {s.token_header}"
        ),
        "guarded": ", ".join(dict.fromkeys(filter(None, [*s.protected_paths, s.events_path]))),
        "events": f"are served at {s.events_path}" if s.events_path else "are not served",
        "login": f"{_listed(s.login_paths)}; logout {_listed(s.logout_paths)}",
        "user": _user(s),
        "guests": (
            f"tokens in {s.guest_header}, {s.guest_algorithm}, audience {s.guest_audience}"
            if s.guest_secret
            else "off"
        ),
        "proxies": _proxies(s),
        "cancel": f"revokes tasks of {s.celery_app}"
        if s.celery_app
        else "calls a canceller, if any",
        "origins": ", ".join(["the site's own", *s.allowed_origins]),
        "store": f"{shown_store_url(s.store_url)} {use}",
        "key": f"{key_id(s.jwt_secret)}; {len(s.jwt_verify_secrets)} more verify",
    }


def _listed(items: tuple[object, ...]) -> str:
    return ", ".join(map(str, items)) or "none"


def _cookie(settings: Settings) -> str:
    writer, life = CookieWriter(settings), settings.jwt_expiration_seconds
    line = writer.write("TOKEN", life, https=True)
    follows = line != writer.write("TOKEN", life, https=False)
    return f"{line}{' (Secure on https only)' if follows else ''}"


def _user(settings: Settings) -> str:
    session = f"the {settings.session_format} session {settings.session_cookie}"
    sources = [
        settings.remote_user_header,
        session if settings.session_format else "",
        "login(), and by user_from if the app passes one",
    ]
    return "; ".join(f"named by {source}" for source in sources if source)


def _proxies(settings: Settings) -> str:
    if not settings.trusted_proxies:
        return "none is believed"
    note = "; uvicorn must run with --no-proxy-headers" if _is_named_by_header(settings) else ""
    return f"{_listed(settings.trusted_proxies)} with {_listed(settings.trusted_headers)}{note}"
