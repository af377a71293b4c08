"""Findings: what is wrong, why, and what mends it; how they are told, and the exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gaq_middleware.cli.words import tell


class Finding(NamedTuple):
    """One thing that is wrong: its variable, header or address; a sentence of it; the mend.

    The mend is empty where the sentence, which begins with the subject, has it already.
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


def report(findings: Sequence[Finding], good: str, rows: Mapping[str, str]) -> int:
    """Print findings and return 1; if there are none, print what is good and return 0."""
    if not findings:
        print(good)
        for name, text in rows.items():
            tell(f"  {name:<9} ", text)
        return 0
    print("1 finding:" if len(findings) == 1 else f"{len(findings)} findings:")
    for finding in findings:
        print()
        tell("- ", str(finding))
    return 1
