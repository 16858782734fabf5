"""How far a prediction may be off, from the errors on rows that the calibration had not seen."""

from __future__ import annotations

from typing import NamedTuple

from advisor.speed.efficiencies import Keys, Rules

WIDER = 1.5  # for hardware of a vendor, or an engine family, that no row is of: the bounds of its parent, times this


class Bound(NamedTuple):
    """The factor around a value, and which rows it rests on."""

    factor: float
    text: str


def bound(table: Rules, kind: str, k: Keys) -> Bound:
    """The factor around a value of this kind: of the narrowest class that the rules have errors for."""
    known = table.spread.get(kind, {})
    names = (f"{k.family}/{k.hardware}", f"{k.family}/{k.vendor}", k.family, "all")
    for i, name in enumerate(names):
        found = known.get(name)
        if found is not None:
            wider = WIDER ** max(0, i - 1)
            whose = "other hardware and engines" if name == "all" else name
            return Bound(found.bound * wider, f"{kind}: {found.rows} rows of {whose}")
    return Bound(3.0, f"{kind}: no rows")
