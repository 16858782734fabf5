"""How far a prediction may be off, from the errors on rows that the calibration had not seen."""

from __future__ import annotations

from advisor.speed.efficiencies import Keys, Rules


def bound(table: Rules, kind: str, k: Keys) -> float:
    """The factor around a value of this kind: of the narrowest class that the rules have errors for."""
    known = table.spread.get(kind, {})
    for name in (f"{k.family}/{k.hardware}", f"{k.family}/{k.vendor}", k.family):
        if name in known:
            return known[name].bound
    return max(known["all"].bound, 2.0) if "all" in known else 3.0
