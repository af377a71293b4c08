"""`gaq secret`, `gaq token issue` and `gaq token inspect`. No secret that is in use is printed."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time

from gaq_middleware.cli.reasons import Judge, Token
from gaq_middleware.cli.words import complain, moment, shown, tell
from gaq_middleware.core.settings import Settings
from gaq_middleware.testing import issue_token

_TIMES = {
    "exp": ("expired", "expires"),
    "nbf": ("valid since", "valid"),
    "iat": ("issued", "issued"),
    "auth_time": ("logged in", "logged in"),
}
_MAX_ROWS = 40
_MAX_INPUT = 1_000_000


def secret(_: argparse.Namespace) -> int:
    """Print a new secret.

    It is random, and good for GAQ_JWT_SECRET, GAQ_CHANNEL_SECRET or GAQ_GUEST_SECRET. Take a new
    one for each; every process of the app needs the same.
    """
    print(secrets.token_urlsafe(48))
    return 0


def issue(options: argparse.Namespace) -> int:
    """Print a token of a user.

    It is signed with GAQ_JWT_SECRET. Send it in the header X-Async-Token or as the cookie
    async-token (or as your settings name them).
    """
    try:
        print(issue_token(Settings.from_env(), options.user))
    except ValueError as error:
        return complain(str(error))
    return 0


def inspect(options: argparse.Namespace) -> int:
    """Show what a token says, and whether and why it is refused.

    Its signature is checked with GAQ_JWT_SECRET, that of a guest token with GAQ_GUEST_SECRET.
    Exit codes: 0 valid, 1 refused, 2 cannot be checked: wrong usage or settings.
    """
    raw = options.token
    if raw == "-":
        raw = sys.stdin.buffer.read(_MAX_INPUT).decode(errors="replace")
    token, now = Token(raw.strip()), time.time()
    if not token.raw:
        return complain("No token was given.")
    settings, is_checkable = read_settings(guests=token.is_guest)
    judge = Judge(token, settings, now)
    _print_facts(token, now, judge if is_checkable else None)
    refusal = judge.refusal(any_signature=not is_checkable)
    if refusal is not None:
        _print_verdict(f"REFUSED: {refusal.code}", *judge.explain(refusal))
        return 1
    if is_checkable:
        _print_verdict("VALID", judge.praise())
        return 0
    unset = f"{judge.variable} is not set here, so the signature cannot be checked."
    _print_verdict("NOT CHECKED", f"{unset} Nothing else is wrong. Set it as on the server.")
    return 2


def read_settings(*, guests: bool = False) -> tuple[Settings, bool]:
    """Return the settings, and whether they have the secret that checks such a token.

    A secret that is not set is made up, so that all but the signature can still be judged.
    """
    environ = dict(os.environ)
    needed = ("GAQ_JWT_SECRET", "GAQ_GUEST_SECRET") if guests else ("GAQ_JWT_SECRET",)
    unset = [name for name in needed if not {name, f"{name}_FILE"} & environ.keys()]
    environ.update({name: secrets.token_urlsafe(48) for name in unset})
    if "GAQ_GUEST_SECRET" in unset:
        environ.setdefault("GAQ_GUEST_AUDIENCE", "*")
    return Settings.from_env(environ), needed[-1] not in unset


def _print_facts(token: Token, now: float, judge: Judge | None) -> None:
    print(f"This {'guest token' if token.is_guest else 'token'} says of itself:")
    rows = [*token.header.items(), *token.claims.items()]
    for name, value in rows[:_MAX_ROWS]:
        words = f"  ({moment(value, now, *_TIMES[name])})" if name in _TIMES else ""
        if name == "kid" and judge is not None:
            words = f"  ({judge.key_words(value)})"
        print(f"  {shown(name, 40)[1:-1]:<10}  {shown(value)}{words}")
    if not rows:
        print("  nothing that can be read")


def _print_verdict(verdict: str, *texts: str) -> None:
    print(f"\n{verdict}")
    for text in texts:
        tell("  ", text)
