"""How far a prediction may be off, from the errors on rows that the calibration had not seen."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.memo import memoize_by_identity
from advisor.record import Value
from advisor.speed.efficiencies import EfficiencyKeys, HeldOutSpread, SpeedRules

WIDER = 1.5  # for hardware of a vendor, or an engine family, that no row is of: the bounds of its parent, times this
NO_ROWS = 3.0


class ErrorBound(Value, frozen=True):
    """The factor around a value, and which rows it rests on."""

    factor: float
    text: str


@memoize_by_identity
def find_error_bound(table: SpeedRules, keys: EfficiencyKeys, *kinds: str) -> ErrorBound:
    """The factor around a value, from rows of the first of these kinds that the narrowest known class has.

    Kinds are near to each other (a prefill rate and a time to first token): rows of the same hardware and engines of a
    neighbouring kind say more than rows of other hardware. They say where it is worse than its family, not that it is
    better: their bound is at least that of the family's rows of that kind.
    """
    return find_bound_in(table.spread, keys, *kinds)


def find_bound_in(spread: Mapping[str, Mapping[str, HeldOutSpread]], keys: EfficiencyKeys, *kinds: str) -> ErrorBound:
    """The same for errors by kind of row and class."""
    names = (f"{keys.family}/{keys.hardware}", f"{keys.family}/{keys.vendor}", keys.family, "all")
    for i, name in enumerate(names):
        for kind in kinds:
            found = spread.get(kind, {}).get(name)
            if found is not None:
                whose = "other hardware and engines" if name == "all" else name
                least = spread[kind].get(keys.family, found) if kind != kinds[0] else found
                return ErrorBound(
                    max(found.bound, least.bound) * WIDER ** max(0, i - 1), f"{kind}: {found.rows} rows of {whose}"
                )
    return ErrorBound(NO_ROWS, f"{kinds[0]}: no rows")
