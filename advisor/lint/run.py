"""The whole lint: folders read once, every concern asked, all faults in one order."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from advisor.catalog.roots import rule_files
from advisor.lint import (
    check_rules,
    choices,
    engines,
    flags,
    formats,
    hardware,
    launches,
    models,
    money,
    places,
    provenance,
    references,
    speed,
)
from advisor.lint.faults import Fault, one_line, order_faults
from advisor.lint.house import House, read_house
from advisor.lint.reading import shorten_path

CONCERNS: tuple[Callable[[House], Iterator[Fault]], ...] = (
    references.find_names_faults,
    references.find_references_faults,
    provenance.find_provenance_faults,
    provenance.find_bounds_faults,
    models.find_models_faults,
    hardware.find_hardware_faults,
    hardware.find_card_use_faults,
    formats.find_formats_faults,
    engines.find_engines_faults,
    places.find_completeness_faults,
    engines.find_concepts_faults,
    engines.find_estimates_faults,
    flags.find_flags_faults,
    launches.find_launches_faults,
    choices.find_guides_faults,
    check_rules.find_check_rules_faults,
    check_rules.find_snippets_faults,
    money.find_money_faults,
    choices.find_choices_faults,
    models.find_downloads_faults,
    speed.find_speed_faults,
    places.find_places_faults,
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
        name = concern.__name__.removeprefix("find_").removesuffix("_faults").replace("_", " ")
        said = one_line(f"the concern `{name}` could not be looked at to its end ({type(e).__name__}: {e})", 200)
        where = shorten_path(house.roots[-1])
        found.append(Fault(file=where, line=None, code="unchecked", message=f"{said}: mend the other faults first"))
    return found
