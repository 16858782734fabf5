"""The whole lint: folders read once, every concern asked, all faults in one order."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from advisor.catalog.roots import rule_files
from advisor.lint import (
    bounds,
    card_use,
    check_rules,
    choices,
    completeness,
    concepts,
    downloads,
    engines,
    estimates,
    flags,
    formats,
    guides,
    hardware,
    launches,
    models,
    money,
    names,
    places,
    provenance,
    references,
    snippets,
    speed,
)
from advisor.lint.faults import Fault, one_line, order_faults
from advisor.lint.house import House, read_house
from advisor.lint.reading import shorten_path

CONCERNS: tuple[Callable[[House], Iterator[Fault]], ...] = (
    names.find_faults,
    references.find_faults,
    provenance.find_faults,
    bounds.find_faults,
    models.find_faults,
    hardware.find_faults,
    card_use.find_faults,
    formats.find_faults,
    engines.find_faults,
    completeness.find_faults,
    concepts.find_faults,
    estimates.find_faults,
    flags.find_faults,
    launches.find_faults,
    guides.find_faults,
    check_rules.find_faults,
    snippets.find_faults,
    money.find_faults,
    choices.find_faults,
    downloads.find_faults,
    speed.find_faults,
    places.find_faults,
)


def lint(roots: Sequence[Path], today: datetime.date | None = None) -> tuple[Fault, ...]:
    """Everything that is wrong with these folders layered over each other, lowest first; empty when all is well.

    `today` is the day after which a date lies in the future (default: the system's).
    """
    house, faults = read_house([r.resolve() for r in roots], today)
    for concern in CONCERNS:
        faults += _ask(concern, house)
    for root in house.roots:
        if not rule_files(root):
            faults.append(
                Fault(file=shorten_path(root), line=None, code="unreadable", message="holds no rule file (*.yaml)")
            )
    return order_faults(faults)


def _ask(concern: Callable[[House], Iterator[Fault]], house: House) -> list[Fault]:
    """What one concern finds. Where spoiled rules bring it down, that is one fault more and hides no other."""
    found: list[Fault] = []
    try:
        for fault in concern(house):
            found.append(fault)
    except Exception as e:
        name = concern.__module__.rpartition(".")[2].replace("_", " ")
        said = one_line(f"the concern `{name}` could not be looked at to its end ({type(e).__name__}: {e})", 200)
        where = shorten_path(house.roots[-1])
        found.append(Fault(file=where, line=None, code="unchecked", message=f"{said}: mend the other faults first"))
    return found
