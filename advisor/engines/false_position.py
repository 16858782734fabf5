"""How many steps fit, where each look at a number of steps is dear."""

from __future__ import annotations

from collections.abc import Callable

Over = Callable[[int], int]  # steps -> bytes above what is allowed
GUESSES = 4  # then the bounds alone say what is tried next


def find_most(over: Over, high: int, over_none: int, rough: Over | None = None, slack: int = 0) -> int:
    """The most steps, at most `high`, for which `over` is not positive.

    `over` grows with the steps; `over_none`: about what none takes, below 0; `rough`: what `over` is about, cheap:
    where it is above 0 by more than `slack`, so is `over`. The steps that it suggests are tried first; then those where
    a straight line between the bounds meets 0.
    """
    above = rough(high) if rough is not None else 0
    above = above if above > slack else over(high)
    if above <= 0:
        return high
    low, below = 0, min(over_none, -1)
    for _ in range(GUESSES if rough is not None else 0):
        if rough is None or high - low <= 1:
            break
        middle = _search(rough, low, below, high, above)
        if middle == low and rough(low + 1) > slack:
            return low
        middle = max(middle, low + 1)
        found = over(middle)
        if found > 0:
            high, above = middle, found
        else:
            low, below = middle, min(found, -1)
    return _search(over, low, below, high, above)


def _search(over: Over, low: int, below: int, high: int, above: int) -> int:
    """The most steps below `high` for which `over` is not positive; a bound that stays counts half, so both come
    nearer."""
    last = 0
    while high - low > 1:
        middle = low + (high - low) * -below // (above - below)
        middle = min(max(middle, low + 1), high - 1)
        found = over(middle)
        side = 1 if found > 0 else -1
        if side > 0:
            high, above, below = middle, found, below // 2 if last == side else below
        else:
            low, below, above = middle, min(found, -1), above // 2 if last == side else above
        above, last = max(above, 1), side
    return low


__all__ = ["find_most"]
