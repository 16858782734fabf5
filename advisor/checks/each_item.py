"""One thing that a rule found, and helpers of those who find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from advisor.checks.findings import Edit
from advisor.checks.judge import Verdict
from advisor.checks.knowledge import Gone, Knowledge
from advisor.checks.located import Text
from advisor.engines.versions import key

if TYPE_CHECKING:
    from advisor.checks.facts import Facts


class Item(NamedTuple):
    """One thing that was found: what rules with `only` know it by, words for the message, its place."""

    key: str
    words: Mapping[str, str]
    place: tuple[int, int]
    edits: tuple[Edit, ...] = ()
    fix: str | None = None


Each = Callable[[Verdict, "Facts", Knowledge], Iterator[Item]]


def place_of(word: Text) -> tuple[int, int]:
    return word.line, word.column


def gone_now(g: Gone, version: str | None) -> bool:
    """Whether something that left is absent in a version (None = the newest). Between two looked-at versions: not sure,
    so no."""
    v = key(version or "")
    if not v:
        return g.back_in is None
    if g.back_in and v >= key(g.back_in):
        return False
    first = g.first_absent
    if first is not None:
        return v >= key(first)
    return g.last_seen is None or v > key(g.last_seen)


def nearly(a: str, b: str) -> bool:
    """Whether two names are one slip of the keyboard apart."""
    if abs(len(a) - len(b)) > 3:
        return False
    import difflib

    return difflib.SequenceMatcher(None, a, b).ratio() > 0.88
