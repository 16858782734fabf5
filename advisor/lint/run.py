"""The whole lint: folders read once, every concern asked, all faults in one order."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from advisor.catalog.roots import rule_files
from advisor.errors import BadInput
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
    templates,
)
from advisor.lint.faults import Fault, one_line, order_faults
from advisor.lint.house import House, read_house
from advisor.lint.kinds import find_kind
from advisor.lint.reading import shorten_path
from advisor.render.environment import template_roots

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
    templates.find_templates_faults,
    choices.find_guides_faults,
    check_rules.find_check_rules_faults,
    check_rules.find_snippets_faults,
    money.find_money_faults,
    choices.find_choices_faults,
    models.find_downloads_faults,
    speed.find_speed_faults,
    places.find_places_faults,
)


def lint(
    roots: Sequence[Path], today: datetime.date | None = None, asked: Collection[Path] | None = None
) -> tuple[Fault, ...]:
    """Everything that is wrong with these folders layered over each other, lowest first; empty when all is well.

    `today` is the day after which a date lies in the future (default: the system's). With `asked`, only what is wrong
    with these files, which takes a fraction of the time: what a change of them breaks in others is not looked for.
    """
    files = None if asked is None else {path.resolve() for path in asked}
    house, faults = read_house([r.resolve() for r in roots], today, files)
    for concern in CONCERNS:
        faults += _ask(concern, house)
    if files is not None:
        shown = {shorten_path(path) for path in files}
        return order_faults(f for f in faults if f.file in shown or f.code == "unchecked")
    for root in house.roots:
        if not rule_files(root):
            faults.append(
                Fault(file=shorten_path(root), line=None, code="unreadable", message="holds no rule file (*.yaml)")
            )
    return order_faults(faults)


def find_root(file: Path, known: Sequence[Path]) -> Path:
    """The folder of rules that a file belongs to: one of the known ones, or the nearest above it in which the program
    reads a file of its place. Templates belong to none of their own. Raises BadInput where there is none."""
    path = file.resolve()
    for root in known:
        if path.is_relative_to(root.resolve()):
            return root
    if path.suffix == ".j2" and any(path.is_relative_to(root.resolve()) for root in template_roots()):
        return known[0]
    for folder in path.parents:
        if find_kind(path.relative_to(folder).as_posix()) is not None:
            return folder
    raise BadInput(f"{file}: no part of the program reads a file of this name: `advise rules schema` has the kinds")


def _ask(concern: Callable[[House], Iterator[Fault]], house: House) -> list[Fault]:
    """What one concern finds. Where spoiled rules bring it down, that is one fault more and hides no other."""
    found: list[Fault] = []
    try:
        for fault in concern(house):
            found.append(fault)
    except Exception as e:
        name = concern.__name__.removeprefix("find_").removesuffix("_faults").replace("_", " ")
        problem = one_line(f"the concern `{name}` could not be looked at to its end ({type(e).__name__}: {e})", 200)
        where = shorten_path(house.roots[-1])
        found.append(Fault(file=where, line=None, code="unchecked", message=f"{problem}: mend the other faults first"))
    return found
