"""One thing that a rule found, and helpers of those who find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from advisor.checks.findings import FileEdit
from advisor.checks.knowledge import Knowledge
from advisor.checks.read.located_text import Text
from advisor.checks.resolve.judge import CheckedLaunch
from advisor.record import Value

if TYPE_CHECKING:
    from advisor.checks.facts.launch_facts import LaunchFacts


class RuleMatch(Value, frozen=True):
    """One thing that was found: what rules with `only` know it by, words for the message, its place."""

    key: str
    words: Mapping[str, str]
    place: tuple[int, int]
    edits: tuple[FileEdit, ...] = ()
    fix: str | None = None


MatchFinder = Callable[[CheckedLaunch, "LaunchFacts", Knowledge], Iterator[RuleMatch]]


def find_place(word: Text) -> tuple[int, int]:
    return word.line, word.column


def is_near(a: str, b: str) -> bool:
    """Whether two names are one slip of the keyboard apart."""
    if abs(len(a) - len(b)) > 3:
        return False
    import difflib

    return difflib.SequenceMatcher(None, a, b).ratio() > 0.88
