"""What a new engine needs in other places, each named: launch, template, guide, module, flags, recognition.

A folder that brings its own targets.yaml is held to be whole; engines of an overlay without one need nothing more.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

from advisor.catalog.types import Engine
from advisor.engines import module_name
from advisor.lint.faults import Fault
from advisor.lint.house import House, TableItem
from advisor.lint.launches import FILE as TARGETS
from advisor.lint.reading import EntryPlace

GUIDE = "guides/advisor.yaml"
COMMAND = "command"
CLIENT, ENGINE, ARCHIVED = "client", "engine", "archived"


def find_faults(house: House) -> Iterator[Fault]:
    """Places that do not know of an engine."""
    targets, guide = house.documents.get(TARGETS), house.documents.get(GUIDE)
    whole = {d.file.root for d in (targets, guide) if d is not None}
    named = _named_in_guide(guide.data) if guide is not None else set()
    for item in house.tables["engines"].values():
        if item.place.file.root not in whole:
            continue
        entry: Engine = item.entry
        if targets is not None:
            yield from _launch(entry, item.place)
        if entry.only_asked_for is not None and entry.id in named:
            said = f"a leaf of rules/{GUIDE} recommends it"
            yield item.place.field("contradiction", ("only_asked_for",), said)
        if guide is not None and _wants_leaf(entry) and entry.id not in named:
            said = (
                f"no leaf of rules/{GUIDE} names it, so it is only taken when it is asked for; "
                "where that is meant: only_asked_for: WHY in the entry"
            )
            yield item.place.fault("missing_place", said, ("id",))
        yield from _memory(item)
        yield from _flags(house, item)


def _wants_leaf(entry: Engine) -> bool:
    """Whether advice is to recommend it by itself."""
    return entry.kind == ENGINE and entry.health.status != ARCHIVED and entry.only_asked_for is None


def _launch(entry: Engine, place: EntryPlace) -> Iterator[Fault]:
    if entry.start is None and entry.kind != CLIENT:
        yield place.fault("missing_place", "does not say under `start` how it is started", ("id",))
    if COMMAND not in (*entry.targets, *entry.no_target):
        said = f"says of its launch files neither in `targets` nor in `no_target` whether it has {COMMAND}"
        yield place.fault("missing_place", said, ("id",))


def _memory(item: TableItem) -> Iterator[Fault]:
    entry: Engine = item.entry
    if entry.kind == CLIENT or entry.runs or entry.memory:
        return
    module = f"advisor/engines/{module_name(entry.id)}.py"
    there = importlib.util.find_spec(f"advisor.engines.{module_name(entry.id)}") is not None
    also = "" if there else f"; {module} only where its arithmetic is its own"
    said = (
        "what it takes is not told: it needs constants in `memory` (`family: pool` reserves a share of each device, "
        f"`family: plain` grows with use: no Python is needed{also}), or `runs` with the engine inside"
    )
    yield item.place.fault("missing_place", said, ("id",))


def _flags(house: House, item: TableItem) -> Iterator[Fault]:
    entry: Engine = item.entry
    if entry.kind != ENGINE:
        return
    table = house.documents.get(f"flags/{entry.id}.yaml")
    if table is None:
        if f"engine: {entry.id}\n" not in house.hidden:
            said = (
                f"rules/flags/{entry.id}.yaml is missing: what its server takes (or `unread:` with the reason why not)"
            )
            yield item.place.fault("missing_place", said, ("id",))
    elif not (table.value.same_as or table.value.unread or _recognised(entry)):
        said = "`recognition` names no program, module or image of it, so `advise check` does not see it"
        yield item.place.fault("missing_place", said, ("id",))


def _recognised(entry: Engine) -> bool:
    return bool(entry.recognition.programs or entry.recognition.modules or entry.recognition.images)


def _named_in_guide(raw: Any) -> set[str]:
    """Engines that any leaf recommends."""
    if isinstance(raw, list):
        return {x for inner in raw for x in _named_in_guide(inner)}
    if not isinstance(raw, dict):
        return set()
    out: set[str] = set()
    for word, value in raw.items():
        if word in ("then", "later", "overlay"):
            out |= {value} if isinstance(value, str) else set(value) if isinstance(value, list) else set()
        else:
            out |= _named_in_guide(value)
    return out
