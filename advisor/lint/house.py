"""Rule folders laid over each other: every entry and document with its place, and a catalogue of what is sound."""

from __future__ import annotations

import datetime
import importlib
import importlib.util
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, get_type_hints

import msgspec

from advisor.catalog.roots import shipped_root
from advisor.catalog.store import Catalog
from advisor.catalog.tables import TYPES, Entry, Misplaced, entries
from advisor.catalog.types import Accelerator, CloudOffer, CpuPlatform, Engine, Quantization
from advisor.engines import FAMILIES, module_name
from advisor.lint.catalogues import catalogue
from advisor.lint.faults import Fault, near
from advisor.lint.kinds import KINDS, Kind, kind_of
from advisor.lint.pruning import pruned
from advisor.lint.reading import Place, RuleFile, read_folder
from advisor.lint.shape import flaws
from advisor.lint.typed import At, Visit, visits
from advisor.models.types import Model


class Item(NamedTuple):
    """An entry of a table that decodes, its place, and the plain data it was made of."""

    entry: Any
    place: Place
    data: Any


class Document(NamedTuple):
    """A file that is one document: its value without what is faulty in it, and the file."""

    value: Any
    file: RuleFile
    data: Any
    kind: Any

    @property
    def place(self) -> Place:
        """The whole file as a place; paths in it begin at its top."""
        return Place(self.file, (), data=self.data)


class Sound(NamedTuple):
    """A part of the rules with its type. Paths in `data` begin at `at` of the place."""

    place: Place
    at: At
    data: Any
    kind: Any
    entry: Any  # what it belongs to, decoded


def memory_type(engine: Engine) -> Any:
    """The type of an engine's `memory`: what `constants` of its module, or of the family it takes over, gives.

    None where no module reads the block.
    """
    family = str(engine.memory.get("family") or "")
    own, shared = (f"advisor.engines.{n}" for n in (module_name(engine.id), module_name(family)))
    name = own if importlib.util.find_spec(own) is not None else shared if family in FAMILIES else None
    if name is None:
        return None
    module = importlib.import_module(name)
    families = [
        v for v in vars(module).values() if isinstance(v, ModuleType) and v.__name__.startswith("advisor.engines.")
    ]
    readers = [getattr(m, "constants", None) for m in (module, *families)]
    kind = next((get_type_hints(r)["return"] for r in readers if r is not None), None)
    # where `constants` puts in more than the block says, its type derives from the block's
    return next((b for b in getattr(kind, "__mro__", ()) if b.__name__ == "MemoryBlock"), kind)


class House:
    """What the folders say together. Later folders win, as for every command."""

    def __init__(self, roots: Sequence[Path], today: datetime.date) -> None:
        self.roots = tuple(roots)
        self.today = today
        self.files: list[RuleFile] = []
        self.tables: dict[str, dict[str, Item]] = {t: {} for t in TYPES if t != "cloud_offers"}
        self.offers: list[Item] = []
        self.documents: dict[str, Document] = {}
        self.flawless: dict[
            str, Document
        ] = {}  # the last of each name that has no fault: what others are compared with
        self.ids: dict[str, set[str]] = {t: set() for t in TYPES}  # those of faulty entries too
        self.hidden = ""  # text of files that cannot be read: what it names may well be there
        self.twice: list[Fault] = []  # ids that one folder holds twice
        self.hopeless: set[tuple[str, str]] = set()  # entries (table, id) and files that do not decode
        self._sound: dict[Path, Any] = {}
        self._catalog: Catalog | None = None
        self._visits: list[tuple[Sound, list[Visit]]] | None = None

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
    def processors(self) -> dict[str, CpuPlatform]:
        """Processor platforms that decode, by id."""
        return {i: x.entry for i, x in self.tables["cpu_platforms"].items()}

    @property
    def formats(self) -> dict[str, Quantization]:
        """Weight formats that decode, by id."""
        return {i: x.entry for i, x in self.tables["quantizations"].items()}

    @property
    def prices(self) -> list[CloudOffer]:
        """Rental offers that decode."""
        return [x.entry for x in self.offers]

    def under(self, folder: str) -> dict[str, Document]:
        """Documents of a folder, by path."""
        return {p: d for p, d in self.documents.items() if p.startswith(folder)}

    @property
    def catalog(self) -> Catalog:
        """The catalogue of everything that decodes; the shipped rules stand in for what does not."""
        if self._catalog is None:
            self._catalog = catalogue(self.roots, self._sound, not self.hopeless)
        return self._catalog

    def unsure(self, engine: str) -> bool:
        """Whether nothing can stand in for an engine that does not decode."""
        return ("engines", engine) in self.hopeless and shipped_root() in self.roots[:1]

    def visits(self) -> list[tuple[Sound, list[Visit]]]:
        """Every part of the rules with its structs and meaningful texts, found once."""
        if self._visits is None:
            self._visits = [(part, visits(part.data, part.kind)) for part in self.sound()]
        return self._visits

    def sound(self) -> Iterator[Sound]:
        """Every part of the rules that has a type and keeps to it: entries, memory constants of engines, documents."""
        for table, items in self.tables.items():
            for item in items.values():
                yield Sound(item.place, (), item.data, TYPES[table], item.entry)
        for item in self.offers:
            yield Sound(item.place, (), item.data, CloudOffer, item.entry)
        for item, kind in self.memory_blocks():
            yield Sound(item.place, ("memory",), item.data["memory"], kind, item.entry)
        for document in self.documents.values():
            yield Sound(document.place, (), document.data, document.kind, document.value)

    def memory_blocks(self) -> Iterator[tuple[Item, Any]]:
        """Engines whose `memory` keeps to the type that their module reads it with, and that type."""
        for item in self.tables["engines"].values():
            kind = memory_type(item.entry) if item.entry.memory else None
            if kind is not None and pruned(item.data["memory"], kind) is item.data["memory"]:
                yield item, kind

    def unknown(
        self, place: Place, at: At, what: str, name: str, known: Container[str] | None = None, table: str = ""
    ) -> Iterator[Fault]:
        """A fault where `name` is none of `known` (default: ids of `table`)."""
        have: Any = self.ids[table] if known is None else known
        if name not in have and not (name and name in self.hidden):
            yield place.field("unknown_name", at, f"unknown {what} {name!r}", near(name, have))

    def each_unknown(
        self,
        place: Place,
        at: At,
        what: str,
        names: Iterable[str],
        known: Container[str] | None = None,
        table: str = "",
    ) -> Iterator[Fault]:
        """`unknown` for every item of a list."""
        for i, name in enumerate(names):
            yield from self.unknown(place, (*at, i), what, name, known, table)


def read_house(roots: Sequence[Path], today: datetime.date | None = None) -> tuple[House, list[Fault]]:
    """The folders, lowest first, and what is wrong with their files, keys and values."""
    house = House(roots, today or datetime.date.today())
    faults: list[Fault] = []
    for root in house.roots:
        mine: dict[tuple[str, str], Place] = {}
        offers: dict[str, list[Item]] = {}
        for file, wrong in read_folder(root):
            faults += wrong
            house.files.append(file)
            kind = kind_of(file.name)
            if kind is None:
                faults.append(_unread(file))
            elif not file.readable:
                house.hidden += file.text
                house.hopeless.add(("files", file.name))
            elif kind.type is None:
                faults += _entries(file, house, mine, offers)
            else:
                faults += _document(file, kind, house)
        replaced = set(offers)
        house.offers = [x for x in house.offers if x.entry.provider not in replaced]
        house.offers += [x for rows in offers.values() for x in rows]
    return house, faults + house.twice


def _unread(file: RuleFile) -> Fault:
    known = [k.pattern for k in KINDS if not k.pattern.endswith(".yml")]
    said = "no part of the program reads a file of this name"
    return file.fault("unknown_file", said, near=near(file.name, known))


def _entries(
    file: RuleFile, house: House, mine: dict[tuple[str, str], Place], offers: dict[str, list[Item]]
) -> Iterator[Fault]:
    outline: list[Fault] = []

    def misplaced(e: Misplaced) -> None:
        unknown = bool(e.known and e.at)
        hint = near(str(e.at[-1]), e.known) if unknown else ()
        outline.append(file.fault("unknown_key" if unknown else "wrong_value", e.problem, e.at, hint))

    sound: dict[str, Any] = {}
    for entry in entries(file.name, file.data, misplaced):
        whole = Place(file, entry.at, _label(entry))
        kind = TYPES[entry.table]
        yield from (whole.field(f.code, f.at, f.problem, f.near) for f in flaws(entry.data, kind))
        house.ids[entry.table].add(entry.id)
        first = mine.setdefault((entry.table, entry.id), whole) if entry.table != "cloud_offers" else whole
        if first is not whole:
            there = f"{first.file.shown}:{first.file.line(first.at)}"
            house.twice.append(whole.fault("duplicate_name", f"stands already in {there}"))
            continue
        data = pruned(entry.data, kind)
        if data is None:
            house.hopeless.add((entry.table, entry.id))
            continue
        if entry.table == "engines":
            yield from _memory_flaws(data, whole)
            data = _with_sound_memory(data, house)
        item = Item(msgspec.convert(data, kind), whole._replace(data=data), data)
        if entry.table == "cloud_offers":
            offers.setdefault(entry.id, []).append(item)
        else:
            house.tables[entry.table].pop(entry.id, None)
            house.tables[entry.table][entry.id] = item
        if (entry.table, entry.id) not in house.hopeless:
            sound |= data if entry.table == "engines" else {entry.table: [*sound.get(entry.table, ()), data]}
    house._sound[file.root / file.name] = sound or None
    yield from outline


def _memory_flaws(data: dict[str, Any], place: Place) -> Iterator[Fault]:
    kind = memory_type(msgspec.convert(data, Engine)) if data.get("memory") else None
    for f in flaws(data["memory"], kind) if kind is not None else ():
        yield place.field(f.code, ("memory", *f.at), f.problem, f.near)


def _with_sound_memory(data: dict[str, Any], house: House) -> dict[str, Any]:
    """The entry without what is faulty in its `memory`; where that leaves nothing, others stand in for the engine."""
    kind = memory_type(msgspec.convert(data, Engine)) if data.get("memory") else None
    left = pruned(data["memory"], kind) if kind is not None else data.get("memory")
    if left is None and kind is not None:
        house.hopeless.add(("engines", data["id"]))
        return data
    return {**data, "memory": left} if kind is not None else data


def _label(entry: Entry) -> str:
    if entry.table == "cloud_offers":
        return f"{entry.id} {entry.data.get('name', '')}".strip()
    return entry.id


def _document(file: RuleFile, kind: Kind, house: House) -> Iterator[Fault]:
    assert kind.type is not None
    wanted = kind.type()
    data = {} if file.data is None else file.data
    place = Place(file, ())  # faults of shape are told by the file as it is
    found = flaws(data, wanted)
    yield from (place.field(f.code, f.at, f.problem, f.near) for f in found)
    sound = pruned(data, wanted)
    if sound is None:
        house.hidden += file.text
        house.hopeless.add(("files", file.name))
        return
    if not found or file.name not in house.flawless:  # else that of a lower folder holds for others
        house._sound[file.root / file.name] = sound
    house.documents.pop(file.name, None)
    house.documents[file.name] = Document(msgspec.convert(sound, wanted), file, sound, wanted)
    if not found:
        house.flawless[file.name] = house.documents[file.name]
