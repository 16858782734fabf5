"""Three-valued logic and sums where None is unknown: it never counts as false, nor as zero."""

from __future__ import annotations

from collections.abc import Iterable


def all_hold(answers: Iterable[bool | None]) -> bool | None:
    """False where one answer is false, else unknown where one is; true of no answers."""
    unknown = False
    for answer in answers:
        if answer is False:
            return False
        unknown = unknown or answer is None
    return None if unknown else True


def any_holds(answers: Iterable[bool | None]) -> bool | None:
    """True where one answer is true, else unknown where one is; false of no answers."""
    unknown = False
    for answer in answers:
        if answer is True:
            return True
        unknown = unknown or answer is None
    return None if unknown else False


def agree(answers: Iterable[bool | None]) -> bool | None:
    """The one answer that all give; None where they differ."""
    found = set(answers)
    return found.pop() if len(found) == 1 else None


def sum_known(values: Iterable[int | None]) -> int | None:
    """The sum; None where one of the values is not known."""
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total
