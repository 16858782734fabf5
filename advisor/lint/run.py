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
from advisor.lint.faults import Fault, order_faults
from advisor.lint.house import House, read_house
from advisor.lint.reading import shorten_path

CONCERNS: tuple[Callable[[House], Iterator[Fault]], ...] = (
    names.find_faults,
    references.find_faults,
    provenance.find_faults,
    bounds.find_faults,
    models.find_faults,
    hardware.find_faults,
    formats.find_faults,
    engines.find_faults,
    concepts.find_faults,
    estimates.find_faults,
    flags.find_faults,
    launches.find_faults,
    guides.find_faults,
    check_rules.find_faults,
    snippets.find_faults,
    money.find_faults,
    choices.find_faults,
    speed.find_faults,
    places.find_faults,
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
            faults.append(
                Fault(file=shorten_path(root), line=None, code="unreadable", message="holds no rule file (*.yaml)")
            )
    return order_faults(faults)
