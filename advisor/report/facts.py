"""`advise facts` as text."""

from __future__ import annotations

from advisor.freshness import FactAges, FamilyAge
from advisor.report.text import align_table, bullets, paint


def describe_ages(ages: FactAges) -> str:
    """A table of families, what each rests on, and engines with a newer release."""
    out = [paint(f"Facts on {ages.day}", "bold")]
    if not ages.families:
        return "\n".join([*out, "  none is older than its shelf life"])
    ordered = sorted(ages.families, key=lambda f: -(f.age_days or 0) / f.shelf_days)
    rows = [
        [f.label, str(f.facts), f.as_of or "unknown", _days(f.age_days), _days(f.shelf_days), _state(f)]
        for f in ordered
    ]
    out += ["", align_table(rows, ("", "facts", "of", "age", "shelf life", ""), "lrlrrl")]
    out += ["", "From, and how refreshed:"]
    out += bullets([f"{f.label}: {f.source}; {f.refresh}" for f in ordered])
    if ages.behind:
        out += ["", "Newer releases than the facts are of:"]
        out += bullets([f"{b.engine}: facts of {b.facts_of}, {b.package} {b.newest} ({b.seen})" for b in ages.behind])
    return "\n".join(out)


def _days(n: int | None) -> str:
    return "?" if n is None else f"{n} d"


def _state(family: FamilyAge) -> str:
    return {True: "old", False: "", None: "no date"}[family.stale]
