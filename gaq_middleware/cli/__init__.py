"""The command line `gaq`, the same as `python -m gaq_middleware`.

Here live the commands' names, options and exit codes: 0 good, 1 a finding, 2 wrong usage or wrong
settings. What a command does lives in the module named after it; its docstring is its help.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

import gaq_middleware
from gaq_middleware.cli import check, demo, jobs, tokens
from gaq_middleware.cli.client import site_path, site_url
from gaq_middleware.cli.words import complain
from gaq_middleware.core.errors import SettingsError

_AddParser = Callable[..., argparse.ArgumentParser]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        arguments: The words after `gaq`; those of the process if not given.

    Raises:
        SystemExit: The words are no command (code 2), or ask for help or the version (code 0).
    """
    code = 1
    try:
        try:
            options = _parser().parse_args(arguments)
            code = options.run(options)
        except SettingsError as error:
            code = complain(str(error))
        finally:
            print(end="", flush=True)
    except BrokenPipeError:  # whoever read it has left: Python's note on SIGPIPE
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gaq",
        description="Tools for gaq_middleware, which guards the async queries of web apps.",
        epilog="Settings are read from the environment (GAQ_...). Exit codes: 0 good, 1 a finding, "
        "2 wrong usage or wrong settings.",
    )
    version = f"gaq_middleware {gaq_middleware.__version__}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_check(commands.add_parser)
    token = commands.add_parser("token", help="Issue or inspect a token.")
    _add_tokens(token.add_subparsers(metavar="COMMAND", required=True).add_parser)
    _add(commands.add_parser, "secret", tokens.secret)
    _add(commands.add_parser, "reap", jobs.reap)
    _add_demo(commands.add_parser)
    return parser


def _add(
    add_parser: _AddParser, name: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """Add a command whose help is the docstring of what runs it."""
    text = run.__doc__ or ""
    command = add_parser(name, help=text.partition("\n")[0], description=text)
    command.set_defaults(run=run)
    return command


def _add_check(add_parser: _AddParser) -> None:
    add = _add(add_parser, "check", check.run).add_argument
    add("--url", type=site_url, help="the deployment, with the prefix of the app if it has one")
    login = "with --url: also send an empty POST to this path, which must not be refused"
    add("--login-path", metavar="PATH", type=site_path, help=login)
    add("--ca-file", metavar="FILE", help="with --url: trust this authority's certificate, too")


def _add_tokens(add_parser: _AddParser) -> None:
    issue = _add(add_parser, "issue", tokens.issue)
    issue.add_argument("user", metavar="USER", help="the app's id of the user")
    inspect = _add(add_parser, "inspect", tokens.inspect)
    where = "the token; - reads it from standard input, where process lists do not show it"
    inspect.add_argument("token", metavar="TOKEN", help=where)


def _add_demo(add_parser: _AddParser) -> None:
    add = _add(add_parser, "demo", demo.run).add_argument
    add("--wsgi", action="store_true", help="as WSGI on waitress, not ASGI on uvicorn")
    store = "where jobs live, e.g. redis://localhost (default: in memory)"
    add("--store", metavar="URL", default="memory://", help=store)
    host = "address to listen on; whoever reaches it can log in (default: this machine only)"
    add("--host", default="127.0.0.1", help=host)
    port = f"port to listen on; 0: any (default {demo.DEFAULT_PORT}, or the next that is free)"
    add("--port", type=demo.port, help=port)
