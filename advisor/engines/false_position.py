"""How many steps fit, where each look at a number of steps is dear."""

from __future__ import annotations

from collections.abc import Callable


def find_most(over: Callable[[int], int], high: int, over_none: int) -> int:
    """The most steps, at most `high`, for which `over` is not positive.

    `over`: bytes above what is allowed, growing with the steps; `over_none`: about what none takes, below 0. Where a
    straight line between the bounds meets 0 is tried next; a bound that stays counts half, so both come nearer.
    """
    above = over(high)
    if above <= 0:
        return high
    low, below, last = 0, min(over_none, -1), 0
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
