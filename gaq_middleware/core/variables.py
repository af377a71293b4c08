"""How a row of the table of settings is read out of the environment, or out of a secret's file."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gaq_middleware.core import kinds

PREFIX = "GAQ_"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table."""

    name: str
    kind: kinds.Kind
    default: str | None
    text: str
    required: bool

    @property
    def variable(self) -> str:
        """The environment variable."""
        return PREFIX + self.name.upper()

    @property
    def is_secret(self) -> bool:
        """Whether the value must never be shown, and may come from `<variable>_FILE`."""
        return self.kind in kinds.FIRM_SECRETS


def read(row: Row, environ: Mapping[str, str]) -> Any:
    """Return the value of a row.

    Raises:
        ValueError: It is missing or wrong; the text names the variable and the mend.
    """
    text = _text(row, environ)
    if text is None and row.required:
        raise ValueError(
            f"{row.variable} is not set. It must be {row.kind.words}: "
            f"`gaq secret` prints a good one; every process of the app needs the same."
        )
    text = row.default if text is None else text
    if text is None:
        return None
    if text == "" and row.kind.when_empty is not None:
        return row.kind.when_empty
    try:
        if text == "":
            raise ValueError("it is set but empty; unset it or give it a value")
        return row.kind.parse(text)
    except ValueError as why:
        shown = "" if row.kind in kinds.HIDDEN else f" (got {ascii(text)[:80]})"
        raise ValueError(f"{row.variable} must be {row.kind.words}: {why}{shown}.") from None


def _text(row: Row, environ: Mapping[str, str]) -> str | None:
    text, file = environ.get(row.variable), f"{row.variable}_FILE"
    if not row.is_secret or file not in environ:
        return text
    if text is not None:
        raise ValueError(f"{row.variable} and {file} are both set; keep one of them.")
    try:
        with open(environ[file], encoding="utf-8", errors="surrogateescape", newline="") as stream:
            return re.sub(r"\r?\n\Z", "", stream.read(65_536), count=1)
    except OSError as error:
        raise ValueError(
            f"{file} must name a readable file with the secret: {error.strerror}."
        ) from None


def unknown(rows: Iterable[Row], environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a text for each variable that looks like one of ours and is none."""
    rows = list(rows)
    known = {row.variable for row in rows}
    known |= {f"{row.variable}_FILE" for row in rows if row.is_secret}
    for name in sorted(set(environ) - known):
        if name.startswith(PREFIX):
            rest = [variable.removeprefix(PREFIX) for variable in known]
            (near,) = difflib.get_close_matches(name.removeprefix(PREFIX), rest, n=1, cutoff=0.0)
            yield (
                f"{ascii(name)[1:-1]} is not a setting and is ignored; did you mean {PREFIX}{near}?"
            )
