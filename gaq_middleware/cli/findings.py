"""Findings: what is wrong, why, and what mends it; how they are told, and the exit code."""

from __future__ import annotations

import textwrap
from collections.abc import Collection
from dataclasses import dataclass

_WIDTH = 88


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        subject: The variable, header or address that it is about.
        reason: What is wrong with it: a sentence that begins with the subject.
        mend: What to do; empty where the reason says it.
    """

    subject: str
    reason: str
    mend: str = ""

    @classmethod
    def told(cls, text: str) -> Finding:
        """Return the finding that a text of the settings tells; its first word is the variable."""
        subject, _, reason = text.partition(" ")
        return cls(subject, reason)

    def __str__(self) -> str:
        return " ".join(filter(None, (self.subject, self.reason, self.mend)))


def report(findings: Collection[Finding], good: str, rows: Collection[tuple[str, str]]) -> int:
    """Print findings and return 1; if there are none, print what is good and return 0."""
    if not findings:
        print(good)
        for name, text in rows:
            _print_item(f"  {name:<9} ", text)
        return 0
    print("1 finding:" if len(findings) == 1 else f"{len(findings)} findings:")
    for finding in findings:
        print()
        _print_item("- ", str(finding))
    return 1


def _print_item(lead: str, text: str) -> None:
    """Print a text with hanging indent, in plain ASCII; words stay whole, to be copied."""
    plain = text.encode("ascii", "backslashreplace").decode()
    print(
        textwrap.fill(
            plain,
            _WIDTH,
            initial_indent=lead,
            subsequent_indent=" " * len(lead),
            break_long_words=False,
            break_on_hyphens=False,
        )
    )
