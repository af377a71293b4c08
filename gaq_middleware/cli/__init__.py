"""The command line `gaq`, the same as `python -m gaq_middleware`.

Here live the commands' names, helps and exit codes: 0 good, 1 a finding, 2 wrong usage or wrong
settings. What a command does lives in the module named after it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import gaq_middleware
from gaq_middleware.cli import check, demo, jobs, tokens
from gaq_middleware.cli.client import site_path, site_url
from gaq_middleware.core.errors import SettingsError

_EXIT_CODES = "Exit codes: 0 good, 1 a finding, 2 wrong usage or wrong settings"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        arguments: The words after `gaq`; those of the process if not given.

    Raises:
        SystemExit: The words are no command (code 2), or ask for help or the version (code 0).
    """
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gaq",
        description="Tools for gaq_middleware, which guards the async queries of web apps.",
        epilog=f"Settings are read from the environment (GAQ_...). {_EXIT_CODES}.",
    )
    parser.add_argument(
        "--version", action="version", version=f"gaq_middleware {gaq_middleware.__version__}"
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_check(commands)
    _add_tokens(commands)
    _add_reap(commands)
    _add_demo(commands)
    return parser


def _add_check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "check",
        help="find what is wrong with the settings, or with a deployment",
        description="Read the environment as the app would, try its store, and print what is "
        "wrong and how to mend it; if nothing is, what will happen. With --url, look at a running "
        "deployment from outside instead, through the proxies in front of it; more is seen with "
        "its settings in the environment.",
        epilog="Exit codes: 0 nothing is wrong, 1 something is, 2 wrong usage.",
    )
    command.add_argument(
        "--url", type=site_url, help="the deployment, with the prefix of the app if it has one"
    )
    command.add_argument(
        "--login-path",
        metavar="PATH",
        type=site_path,
        help="with --url: also send an empty POST to this path, which must not be refused",
    )
    command.add_argument(
        "--ca-file", metavar="FILE", help="with --url: trust this authority's certificate, too"
    )
    command.set_defaults(run=check.run)


def _add_tokens(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    secret = commands.add_parser(
        "secret",
        help="print a new secret",
        description="Print a new random secret, good for GAQ_JWT_SECRET, GAQ_CHANNEL_SECRET or "
        "GAQ_GUEST_SECRET. Take a new one for each; every process of the app needs the same.",
    )
    secret.set_defaults(run=tokens.secret)
    token = commands.add_parser(
        "token", help="issue or inspect a token", description="Issue a token, or inspect one."
    ).add_subparsers(metavar="COMMAND", required=True)
    issue = token.add_parser(
        "issue",
        help="print a token of a user",
        description="Print a token of a user, signed with GAQ_JWT_SECRET. Send it in the header "
        "X-Async-Token or as the cookie async-token (or as your settings name them).",
    )
    issue.add_argument("user", metavar="USER", help="the app's id of the user")
    issue.set_defaults(run=tokens.issue)
    inspect = token.add_parser(
        "inspect",
        help="show what a token says, and whether and why it is refused",
        description="Show what a token says, and whether it is valid now or which check refuses "
        "it. With GAQ_JWT_SECRET in the environment the signature is checked; guest tokens are "
        "checked with GAQ_GUEST_SECRET.",
        epilog="Exit codes: 0 valid, 1 refused, 2 cannot be checked: wrong usage or settings.",
    )
    inspect.add_argument(
        "token",
        metavar="TOKEN",
        help="the token; - reads it from standard input, where process lists do not show it",
    )
    inspect.set_defaults(run=tokens.inspect)


def _add_reap(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "reap",
        help="end the jobs that are past their deadline",
        description="End every job that gave no sign of life for GAQ_JOB_TTL_SECONDS, each with "
        "one `error` event, and print how many there were. Run it each minute (cron).",
        epilog="Exit codes: 0 done, 1 the store failed, 2 wrong usage or wrong settings.",
    )
    command.set_defaults(run=jobs.reap)


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "demo",
        help="run a small app to try everything in a browser",
        description="Run a small app, wrapped by the middleware, and print its address. It needs "
        "no settings: jobs live in memory and secrets are made for this run. Ctrl-C ends it.",
    )
    command.add_argument(
        "--wsgi", action="store_true", help="the same app as WSGI on waitress, not ASGI on uvicorn"
    )
    command.add_argument(
        "--store",
        metavar="URL",
        default="memory://",
        help="where jobs live, e.g. redis://localhost (default: in memory)",
    )
    command.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; whoever reaches it can log in (default %(default)s: this "
        "machine only)",
    )
    command.add_argument(
        "--port",
        type=demo.port,
        help=f"port to listen on; 0: any (default {demo.DEFAULT_PORT}, or the next that is free)",
    )
    command.set_defaults(run=demo.run)
