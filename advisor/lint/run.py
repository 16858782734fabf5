"""The whole lint: folders read once, every concern asked, all faults in one order."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from advisor.catalog.roots import rule_files
from advisor.lint import (
    bounds,
    check_rules,
    choices,
    concepts,
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
from advisor.lint.faults import Fault, in_order
from advisor.lint.house import House, read_house
from advisor.lint.reading import shown

CONCERNS: tuple[Callable[[House], Iterator[Fault]], ...] = (
    names.faults,
    references.faults,
    provenance.faults,
    bounds.faults,
    models.faults,
    hardware.faults,
    formats.faults,
    engines.faults,
    concepts.faults,
    estimates.faults,
    flags.faults,
    launches.faults,
    guides.faults,
    check_rules.faults,
    snippets.faults,
    money.faults,
    choices.faults,
    speed.faults,
    places.faults,
)


def lint(roots: Sequence[Path], today: datetime.date | None = None) -> tuple[Fault, ...]:
    """Everything that is wrong with these folders laid over each other, lowest first; empty when all is well.

    `today` is the day after which a date lies in the future (default: the system's).
    """
    house, faults = read_house([r.resolve() for r in roots], today)
    for concern in CONCERNS:
        faults += concern(house)
    for root in house.roots:
        if not rule_files(root):
            faults.append(Fault(file=shown(root), line=None, code="unreadable", message="holds no rule file (*.yaml)"))
    return in_order(faults)
