"""Rule folders layered over each other: every entry and document with its place, and a catalogue of what is sound."""

from __future__ import annotations

import datetime
import importlib
import importlib.util
from collections.abc import Container, Generator, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from msgspec.structs import replace

from advisor.catalog.compiled_rules import CompiledRules, encode_rules, load_compiled_rules, restore_rule_set
from advisor.catalog.flaws import At, Visit, find_flaws, list_visits
from advisor.catalog.load import TYPES, MisplacedDocument, RuleSet, TableEntry, read_entries, read_rules
from advisor.catalog.roots import shipped_root
from advisor.catalog.store import Catalog
from advisor.catalog.types import Accelerator, CloudOffer, Engine, Quantization
from advisor.decoding import Json, convert, decode_json
from advisor.engines import FAMILIES, find_own_module, module_name
from advisor.errors import BadFile
from advisor.lint.faults import Fault, nearest_names
from advisor.lint.kinds import FILES, find_kind
from advisor.lint.reading import CompletedEntry, EntryPlace, RuleFile, prune_flaws, read_folder, with_key
from advisor.models.types import Model
from advisor.record import Value
from advisor.yaml_places import value_at


class TableItem(Value, frozen=True):
    """An entry of a table that decodes, its place, and the plain data it was made of."""

    entry: Any
    place: EntryPlace
    data: Any


class RuleDocument(Value, frozen=True):
    """A file that is one document: its value without what is faulty in it, and the file."""

    value: Any
    file: RuleFile
    data: Any
    kind: Any

    @property
    def place(self) -> EntryPlace:
        """The whole file as a place; paths in it begin at its top."""
        return EntryPlace(self.file, (), data=self.data)


class TypedPart(Value, frozen=True):
    """A part of the rules with its type. Paths in `data` begin at `at` of the place."""

    place: EntryPlace
    at: At
    data: Any
    kind: Any
    entry: Any  # what it belongs to, decoded


def memory_type(engine: Engine) -> Any:
    """The type of an engine's `memory`: what `constants` of its module, or of the family it takes over, gives.

    None where no module reads the block.
    """
    module: Any = find_own_module(engine.id)
    family = str(getattr(module, "family", None) or engine.memory.get("family") or "")
    module = None if hasattr(module, "family") else module  # settings of its own alone
    if module is None and family in FAMILIES:
        module = importlib.import_module(f"advisor.engines.{module_name(family)}")
    if module is None:
        return None
    families = [
        v for v in vars(module).values() if isinstance(v, ModuleType) and v.__name__.startswith("advisor.engines.")
    ]
    readers = [getattr(m, "read_constants", None) for m in (module, *families)]
    kind = next((get_type_hints(r)["return"] for r in readers if r is not None), None)
    # where `constants` puts in more than the block says, its type derives from the block's
    return next((b for b in getattr(kind, "__mro__", ()) if b.__name__ == "MemoryBlock"), kind)


class House:
    """What the folders say together. Later folders win, as for every command."""

    def __init__(self, roots: Sequence[Path], today: datetime.date, asked: Container[Path] | None = None) -> None:
        self.roots = tuple(roots)
        self.today = today
        self.asked = asked  # files that are judged, resolved; None: all. The others are only what these refer to
        self.files: list[RuleFile] = []
        self.tables: dict[str, dict[str, TableItem]] = {t: {} for t in TYPES if t != "cloud_offers"}
        self.offers: list[TableItem] = []
        self.documents: dict[str, RuleDocument] = {}
        # the last of each name that has no fault: what others are compared with
        self.flawless: dict[str, RuleDocument] = {}
        self.ids: dict[str, set[str]] = {t: set() for t in TYPES}  # those of faulty entries too
        self.hidden = ""  # text of files that cannot be read: what it names may well be there
        self.twice: list[Fault] = []  # ids that one folder holds twice
        self.hopeless: set[tuple[str, str]] = set()  # entries (table, id) and files that do not decode
        self._sound: dict[Path, Any] = {}

    @property
    def engines(self) -> dict[str, Engine]:
        """Engines that decode, by id."""
        return {i: x.entry for i, x in self.tables["engines"].items()}

    @property
    def models(self) -> dict[str, Model]:
        """Models that decode, by id."""
        return {i: x.entry for i, x in self.tables["models"].items()}

    @property
    def accelerators(self) -> dict[str, Accelerator]:
        """Accelerators that decode, by id."""
        return {i: x.entry for i, x in self.tables["accelerators"].items()}

    @property
    def formats(self) -> dict[str, Quantization]:
        """Weight formats that decode, by id."""
        return {i: x.entry for i, x in self.tables["quantizations"].items()}

    @property
    def prices(self) -> list[CloudOffer]:
        """Rental offers that decode."""
        return [x.entry for x in self.offers]

    def is_asked(self, place: EntryPlace) -> bool:
        """Whether the file of an entry is one of those that are judged."""
        return self.asked is None or place.file.root / place.file.name in self.asked

    def items(self, table: str) -> Iterator[TableItem]:
        """The entries of a table that are judged."""
        return (item for item in self.tables[table].values() if self.is_asked(item.place))

    def under(self, folder: str) -> dict[str, RuleDocument]:
        """Documents of a folder, by path."""
        return {p: d for p, d in self.documents.items() if p.startswith(folder)}

    @cached_property
    def catalog(self) -> Catalog:
        """The catalogue of everything that decodes; the shipped rules stand in for what does not."""
        return catalogue(self.roots, self._sound, not self.hopeless)

    def unsure(self, engine: str) -> bool:
        """Whether nothing can stand in for an engine that does not decode."""
        return ("engines", engine) in self.hopeless and shipped_root() in self.roots[:1]

    @cached_property
    def visits(self) -> list[tuple[TypedPart, list[Visit]]]:
        """Every part of the rules that is judged, with its structs and meaningful texts."""
        return [(part, list_visits(part.data, part.kind)) for part in self.sound() if self.is_asked(part.place)]

    def sound(self) -> Iterator[TypedPart]:
        """Every part of the rules that has a type and keeps to it: entries, memory constants of engines, documents."""
        for table, items in self.tables.items():
            for item in items.values():
                yield TypedPart(item.place, (), item.data, TYPES[table], item.entry)
        for item in self.offers:
            yield TypedPart(item.place, (), item.data, CloudOffer, item.entry)
        for item, kind in self.memory_blocks():
            yield TypedPart(item.place, ("memory",), item.data["memory"], kind, item.entry)
        for document in self.documents.values():
            yield TypedPart(document.place, (), document.data, document.kind, document.value)

    def memory_blocks(self) -> Iterator[tuple[TableItem, Any]]:
        """Engines whose `memory` keeps to the type that their module reads it with, and that type."""
        for item in self.tables["engines"].values():
            kind = memory_type(item.entry) if item.entry.memory else None
            if kind is not None and prune_flaws(item.data["memory"], kind) is item.data["memory"]:
                yield item, kind

    def unknown(
        self, place: EntryPlace, at: At, what: str, name: str, known: Container[str] | None = None, table: str = ""
    ) -> Iterator[Fault]:
        """A fault where `name` is none of `known` (default: ids of `table`); a list or tuple of them is given."""
        have: Any = self.ids[table] if known is None else known
        if name not in have and not (name and name in self.hidden):
            there = f"; there are {', '.join(map(str, have))}" if isinstance(have, (list, tuple)) else ""
            yield place.field("unknown_name", at, f"unknown {what} {name!r}{there}", nearest_names(name, have))


def read_house(
    roots: Sequence[Path], today: datetime.date | None = None, asked: Container[Path] | None = None
) -> tuple[House, list[Fault]]:
    """The folders, lowest first, and what is wrong with their files, keys and values; with `asked` of these files."""
    house = House(roots, today or datetime.date.today(), asked)
    faults: list[Fault] = []
    for root in house.roots:
        mine: dict[tuple[str, str], EntryPlace] = {}
        offers: dict[str, list[TableItem]] = {}
        for file, wrong in read_folder(root, asked):
            faults += wrong
            house.files.append(file)
            kind = find_kind(file.name)
            if kind is None:
                problem = "no part of the program reads a file of this name"
                faults.append(file.fault("unknown_file", problem, near=nearest_names(file.name, FILES)))
            elif not file.readable:
                house.hidden += file.text
                house.hopeless.add(("files", file.name))
            elif kind.type is None:
                faults += _entries(file, house, mine, offers)
            else:
                faults += _document(file, kind.type, house)
        replaced = set(offers)
        house.offers = [x for x in house.offers if x.entry.provider not in replaced]
        house.offers += [x for rows in offers.values() for x in rows]
    return house, faults + house.twice


def _entries(
    file: RuleFile, house: House, mine: dict[tuple[str, str], EntryPlace], offers: dict[str, list[TableItem]]
) -> Iterator[Fault]:
    outline: list[Fault] = []

    def misplaced(wrong: MisplacedDocument) -> None:
        unknown = bool(wrong.known and wrong.at)
        hint = nearest_names(str(wrong.at[-1]), wrong.known) if unknown else ()
        outline.append(file.fault("unknown_key" if unknown else "wrong_value", wrong.problem, wrong.at, hint))

    sound: Json = {}
    for entry in read_entries(file.name, file.data, misplaced):
        whole = EntryPlace(file, entry.at, _label(entry))
        kind = TYPES[entry.table]
        found = find_flaws(entry.data, kind)
        yield from (whole.field(f.code, f.at, f.problem, f.near) for f in found if house.is_asked(whole))
        house.ids[entry.table].add(entry.id)
        first = mine.setdefault((entry.table, entry.id), whole) if entry.table != "cloud_offers" else whole
        if first is not whole:
            there = f"{first.file.shown}:{first.file.line(first.at)}"
            house.twice.append(whole.fault("duplicate_name", f"is already in {there}"))
            continue
        data = prune_flaws(entry.data, kind, found)
        if data is None:
            house.hopeless.add((entry.table, entry.id))
            continue
        if entry.table == "engines":
            data = yield from _check_memory(data, whole, house)
        item = TableItem(convert(data, kind), replace(whole, data=data), data)
        if entry.table == "cloud_offers":
            offers.setdefault(entry.id, []).append(item)
        else:
            house.tables[entry.table].pop(entry.id, None)
            house.tables[entry.table][entry.id] = item
        if isinstance(data, CompletedEntry) and data.is_guess:
            house.hopeless.add((entry.table, entry.id))
        if (entry.table, entry.id) not in house.hopeless:
            sound |= data if entry.table == "engines" else {entry.table: [*sound.get(entry.table, ()), data]}
    house._sound[file.root / file.name] = sound or None
    yield from outline


def _check_memory(data: Json, place: EntryPlace, house: House) -> Generator[Fault, None, Json]:
    """What is wrong with the `memory` of an engine; gives the entry without it. Where that leaves nothing, others stand
    in for the engine."""
    kind = memory_type(convert(data, Engine)) if data.get("memory") else None
    if kind is None:
        return data
    flaws = find_flaws(data["memory"], kind)
    yield from (place.field(f.code, ("memory", *f.at), f.problem, f.near) for f in flaws)
    left = prune_flaws(data["memory"], kind, flaws)
    if left is None:
        house.hopeless.add(("engines", data["id"]))
    return data if left is None else with_key(data, "memory", left)


def _label(entry: TableEntry) -> str:
    if entry.table == "cloud_offers":
        return f"{entry.id} {entry.data.get('name', '')}".strip()
    return entry.id


def _name_at(data: object, at: At) -> str:
    """The id of the innermost entry that a path leads through; nothing where none has one."""
    name = ""
    for i in range(1, len(at) + 1):
        entry = value_at(data, *at[:i])
        own = entry.get("id") if isinstance(entry, dict) else None
        name = own if isinstance(own, str) else name
    return name


def _document(file: RuleFile, kind: type, house: House) -> Iterator[Fault]:
    data = {} if file.data is None else file.data
    place = EntryPlace(file, ())  # faults of shape are reported from the file as it is
    flaws = find_flaws(data, kind)
    found = flaws if house.is_asked(place) else []
    yield from (replace(place, label=_name_at(data, f.at)).field(f.code, f.at, f.problem, f.near) for f in found)
    sound = prune_flaws(data, kind, flaws)
    if sound is None:
        house.hidden += file.text
        house.hopeless.add(("files", file.name))
        return
    if not found or file.name not in house.flawless:  # else that of a lower folder holds for others
        house._sound[file.root / file.name] = sound
    house.documents.pop(file.name, None)
    house.documents[file.name] = RuleDocument(convert(sound, kind), file, sound, kind)
    if not found:
        house.flawless[file.name] = house.documents[file.name]


def catalogue(roots: Sequence[Path], sound: Mapping[Path, Any], whole: bool) -> Catalog:
    """The catalogue of the files in `sound` (data without what is faulty). `whole`: nothing had to be left out."""

    def read(path: Path) -> Any:
        if path not in sound:
            raise BadFile(path, "is left out")
        return sound[path]

    stand_in = not whole and shipped_root() not in roots
    rules = read_rules(roots, lambda _: None, read, below=_load_shipped() if stand_in else None)
    return Catalog(decode_json(encode_rules(rules), CompiledRules), tuple(roots))


def _load_shipped() -> RuleSet:
    """The shipped rules; empty where they are broken themselves."""
    try:
        return restore_rule_set(load_compiled_rules((shipped_root(),)))
    except BadFile:
        return RuleSet()
