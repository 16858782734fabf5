"""What engines call their settings, and how they are recognised: one meaning a name, defaults that agree."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

from advisor.catalog.launch_types import Concept, Concepts
from advisor.catalog.types import Engine
from advisor.lint.faults import Fault, nearest_names
from advisor.lint.flags import find_flag_table, list_setting_names
from advisor.lint.house import House, TableItem
from advisor.lint.rule_types import At

# names by which engines are recognised: each leads to one engine
CLAIMS = ("programs", "modules", "packages", "installed_programs", "image_words")
SHARES = ("memory_share",)  # concepts whose number is a part of a whole
PORTS = range(1, 65536)
MISSPELT = 0.85  # likeness from which a value is taken for another


def find_faults(house: House) -> Iterator[Fault]:
    """Concepts and marks of recognition that contradict each other."""
    for item in house.tables["engines"].values():
        for name in Concepts.__struct_fields__:
            concept: Concept = getattr(item.entry.concepts, name)
            yield from _concept(house, item, name, concept)
        yield from _server(item)
    yield from _claimed(house)


def _concept(house: House, item: TableItem, name: str, concept: Concept) -> Iterator[Fault]:
    engine: Engine = item.entry
    at: At = ("concepts", name)
    table = find_flag_table(engine.id, house)
    for i, variable in enumerate(concept.environment):
        if table is not None and table.variables and variable not in list_setting_names(table):
            said = f"{variable!r} is no variable in rules/flags/{table.engine}.yaml"
            yield item.place.field(
                "unknown_name", (*at, "environment", i), said, nearest_names(variable, list_setting_names(table))
            )
    if concept.default and sum(d.before is None for d in concept.default) != 1:
        said = "one default, and only one, must be without `before`: it holds for the newest version"
        yield item.place.field("range", (*at, "default"), said)
    for i, versioned_number in enumerate(concept.default):
        if name in SHARES and not 0 < versioned_number.number <= 1:
            yield item.place.field(
                "unit", (*at, "default", i), f"{versioned_number.number:g} is no share of a whole (0 to 1)"
            )
    for flag in concept.flags:
        said_elsewhere = engine.defaults.get(flag.replace("-", "_"))
        newest = next((d.number for d in concept.default if d.before is None), None)
        if isinstance(said_elsewhere, (int, float)) and newest is not None and said_elsewhere != newest:
            said = f"the default is {newest:g} here and {said_elsewhere:g} in `defaults`"
            yield item.place.field("contradiction", (*at, "default"), said)
    if table is not None and concept.flags and concept.flags[0] in table.flags:
        entry = table.flags[concept.flags[0]]
        choices = (*entry.c, *entry.v)
        for i, word in enumerate(concept.accepts):  # older versions may have taken more: only slips can be found
            alike = [x for x in choices if x != word and SequenceMatcher(None, x, word).ratio() >= MISSPELT]
            if word not in choices and alike:
                said = f"--{concept.flags[0]} does not take {word!r}"
                yield item.place.field("unknown_name", (*at, "accepts", i), said, alike[:2])


def _server(item: TableItem) -> Iterator[Fault]:
    server = item.entry.recognition.server
    for field in ("port", "image_port") if server is not None else ():
        port = getattr(server, field)
        if port is not None and port not in PORTS:
            yield item.place.field("unit", ("recognition", "server", field), f"{port} is no port")
    for i, path in enumerate(server.health if server is not None else ()):
        if not path.startswith("/"):
            yield item.place.field("wrong_value", ("recognition", "server", "health", i), f"{path!r} is no path")
    recognised = item.entry.recognition
    said = any(getattr(recognised, c) for c in (*CLAIMS, "images")) or server is not None
    if said and not recognised.source:
        yield item.place.field("source", ("recognition",), "names no source")


def _claimed(house: House) -> Iterator[Fault]:
    """Programs, modules and packages that two engines call theirs."""
    for claim in CLAIMS:
        first: dict[str, TableItem] = {}
        for item in house.tables["engines"].values():
            for i, name in enumerate(getattr(item.entry.recognition, claim)):
                other = first.setdefault(name, item)
                if other is not item:
                    listed = isinstance(getattr(item.entry.recognition, claim), tuple)
                    at: At = ("recognition", claim, i if listed else name)
                    said = f"{name!r} is also of {other.entry.id} ({other.place.file.shown})"
                    yield item.place.field("duplicate_name", at, said)
