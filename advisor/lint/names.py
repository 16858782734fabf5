"""Names that two entries claim. In one folder that is a fault; an overlay may take a name over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from advisor.lint.faults import Fault
from advisor.lint.house import House, TableItem
from advisor.near import simplify_name


def find_faults(house: House) -> Iterator[Fault]:
    """Ids and aliases of models, engines, formats and accelerators that stand for two things."""
    for table in ("models", "engines", "quantizations"):
        for root in house.roots:
            mine = [x for x in house.tables[table].values() if x.place.file.root == root]
            yield from _clashes((x, (x.entry.id, *x.entry.aliases)) for x in mine)
    # hardware is asked for by any of its names, so an overlay's card must have names of its own
    cards = house.tables["accelerators"].values()
    yield from _clashes((x, (x.entry.id, x.entry.name, *x.entry.aliases, *x.entry.default_of)) for x in cards)
    yield from _driver_names(list(cards))


def _clashes(rows: Iterable[tuple[TableItem, Iterable[str]]]) -> Iterator[Fault]:
    first: dict[str, tuple[TableItem, str]] = {}
    for item, names in rows:
        for name in names:
            key = simplify_name(name)
            other, spelt = first.setdefault(key, (item, name))
            if other is item:
                continue
            owner, taker, said_as = other, item, name
            if _is_in_id(name, item) and not _is_in_id(name, other):
                owner, taker, said_as = item, other, spelt
                first[key] = item, name
            there = f"{owner.place.file.shown}:{owner.place.file.line(owner.place.at)}"
            said = f"the name {said_as!r} is also a name of {owner.entry.id} ({there})"
            yield taker.place.fault("duplicate_name", said, _where(taker, said_as))


def _is_in_id(name: str, item: TableItem) -> bool:
    """Whether an entry's own id says the name: then it is another that has taken it."""
    return simplify_name(name) in simplify_name(item.entry.id)


def _where(item: TableItem, name: str) -> tuple[str | int, ...]:
    for field in ("aliases", "default_of"):
        listed = getattr(item.entry, field, ())
        if name in listed:
            return (field, listed.index(name))
    return ("id",) if item.entry.id == name else ("name",)


def _driver_names(cards: list[TableItem]) -> Iterator[Fault]:
    """Entries with one driver name have to differ in memory, or in what only the system knows (modules)."""
    by_name: dict[str, list[TableItem]] = {}
    for item in cards:
        for name in item.entry.reported_names:
            by_name.setdefault(name, []).append(item)
    for name, same in by_name.items():
        for i, item in enumerate(same):
            a = item.entry
            twins = [x.entry.id for x in same[:i] if x.entry.memory_bytes == a.memory_bytes and not a.unified]
            if twins:
                said = f"shares the driver name {name!r} and the memory with {twins[0]}: nothing tells them apart"
                yield item.place.fault("probe", said, ("reported_names",))
