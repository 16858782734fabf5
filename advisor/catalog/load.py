"""Reading rule files: every YAML file of the rule folders into checked tables, and what is wrong with one.

Later folders win: an entry replaces the entry of the same id, an offer list replaces the offers of the same provider,
any other file replaces the file of the same relative path. A fault names file, line, place and near matches.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from advisor.catalog.flaws import At, find_flaws
from advisor.catalog.roots import rule_files
from advisor.catalog.types import Accelerator, CloudOffer, CpuPlatform, Engine, Quantization
from advisor.decoding import convert
from advisor.errors import BadFile
from advisor.files import MAX_NODES, compose_yaml, construct_yaml, read_text
from advisor.models.types import Model
from advisor.near import near_matches, simplify_name
from advisor.record import Value
from advisor.yaml_places import line_at, locate_node

TYPES: dict[str, type] = {
    "accelerators": Accelerator,
    "cpu_platforms": CpuPlatform,
    "cloud_offers": CloudOffer,
    "engines": Engine,
    "quantizations": Quantization,
    "models": Model,
}
AS_OF = "as_of"  # heading of a file of entries: the day it was compiled, for sources that name no day themselves
# relative path starts with -> lists it may hold, and a heading key that its entries inherit
_LISTS: tuple[tuple[str, tuple[str, ...], str | None], ...] = (
    ("hardware/", ("accelerators", "cpu_platforms"), "vendor"),
    ("prices/", ("cloud_offers",), None),
    ("quantizations.", ("quantizations",), None),
    ("models/", ("models",), "family"),
)


class TableEntry(Value, frozen=True):
    """One entry of a table as it stands in a file: `at` is its path inside the document."""

    table: str
    id: str
    data: dict[str, object]
    file: str  # relative to its root
    at: At


class MisplacedDocument(Exception):
    """The document is not what a file of this name holds; `at` is where."""

    def __init__(self, problem: str, at: At = (), known: tuple[str, ...] = ()) -> None:
        super().__init__(problem)
        self.problem = problem
        self.at = at
        self.known = known


class RuleSet:
    """What the rule folders say together, as plain data that has been checked against the types."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, dict[str, object]]] = {t: {} for t in TYPES if t != "cloud_offers"}
        self.offers: dict[str, list[dict[str, object]]] = {}  # by provider
        self.documents: dict[str, object] = {}
        self.names: dict[str, dict[str, str]] = {"models": {}, "engines": {}, "quantizations": {}}
        self.origin: dict[tuple[str, str], Path] = {}  # table and id -> file


def _stop(error: Exception) -> NoReturn:
    raise error


def read_rules(
    roots: Sequence[Path],
    report: Callable[[BadFile], None] = _stop,
    read: Callable[[Path], object] | None = None,
    below: RuleSet | None = None,
) -> RuleSet:
    """All rules of `roots`, over those of the folders `below` them, which are filled. What is wrong (file, line, place,
    near match) goes to `report`; by default the first fault is raised as BadFile. With another `report` the faulty
    entries are left out and reading goes on. `read` gives the plain data of a file (default: from the disk)."""
    rules = below or RuleSet()
    for root in roots:
        _read_root(root, rules, report, read or read_rule_document)
    return rules


def _read_root(root: Path, rules: RuleSet, report: Callable[[BadFile], None], read: Callable[[Path], object]) -> None:
    mine: dict[tuple[str, str], Path] = {}
    offers: dict[str, list[dict[str, object]]] = {}
    for file, _ in rule_files(root):
        path = root / file
        try:
            document = read(path)
        except BadFile as e:
            report(e)
            continue
        if not file.startswith(("engines/", *(prefix for prefix, _, _ in _LISTS))):  # a free document
            rules.documents[file] = document
            continue

        def misplaced(fault: MisplacedDocument, path: Path = path) -> None:
            near = near_matches(str(fault.at[-1]), fault.known, n=1) if fault.known and fault.at else ()
            report(make_fault(path, fault.at, fault.problem, near))

        for entry in read_entries(file, document, misplaced):
            try:
                validate_entry(entry.data, TYPES[entry.table], path, entry.at)
                if entry.table == "cloud_offers":
                    offers.setdefault(entry.id, []).append(entry.data)
                else:
                    _add(entry, path, mine, rules)
            except BadFile as e:
                report(e)
    rules.offers.update(offers)
    for table, index in rules.names.items():
        own = {i: rules.tables[table][i] for t, i in mine if t == table}
        index.update(_index(own, table, mine, report))
    rules.origin.update(mine)


def _index(
    own: Mapping[str, Mapping[str, Any]],
    table: str,
    mine: dict[tuple[str, str], Path],
    report: Callable[[BadFile], None],
) -> dict[str, str]:
    """Plain spelling -> id, over ids and aliases of one folder's entries; of models also the id without its `org/`
    where that is unique. The second of two entries that claim one name is left out."""
    index: dict[str, str] = {}
    short: dict[str, list[str]] = {}
    for entry, row in own.items():
        names = (entry, *row.get("aliases", ()))
        taken = next((name for name in names if simplify_name(name) in index), None)
        if taken is not None:
            first = index[simplify_name(taken)]
            report(BadFile(mine[(table, entry)], f"the name {taken!r} of {entry} is also a name of {first}"))
            continue
        index |= dict.fromkeys(map(simplify_name, names), entry)
        short.setdefault(simplify_name(entry.rpartition("/")[2]), []).append(entry)
    for name, ids in short.items() if table == "models" else ():
        if len(ids) == 1:
            index.setdefault(name, ids[0])
    return index


def _add(entry: TableEntry, path: Path, mine: dict[tuple[str, str], Path], rules: RuleSet) -> None:
    key = (entry.table, entry.id)
    if key in mine:
        raise make_fault(path, entry.at, f"{entry.id} is already defined in {mine[key].name}")
    mine[key] = path
    table = rules.tables[entry.table]
    table.pop(entry.id, None)
    table[entry.id] = entry.data


def read_rule_document(path: Path) -> object:
    """One YAML file as plain JSON-like data (dates become text). Raises BadFile, also for a key given twice."""
    root = compose_yaml(read_text(path), path)
    twice = find_duplicate_key(path, root)
    if twice is not None:
        raise twice

    def stop(problem: str, at: At) -> NoReturn:
        raise BadFile(path, problem)

    return make_plain(construct_yaml(root, path), stop)


def make_plain(value: object, report: Callable[[str, At], None], at: At = ()) -> Any:
    """The value as JSON has it (dates become text). What rules do not use goes to `report` and is left out."""
    if isinstance(value, dict):
        out = {}
        for key, inner in value.items():
            if isinstance(key, bool):  # `on:` and `no:` are words here
                report(f"a key reads as {str(key).lower()}: quote it", (*at, "on" if key else "off"))
                continue
            word = key if isinstance(key, str) else str(key)
            out[word] = make_plain(inner, report, (*at, word))
        return out
    if isinstance(value, list):
        return [make_plain(inner, report, (*at, i)) for i, inner in enumerate(value)]
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    report(f"{format_place(at)}: a value of a kind that rules do not use ({type(value).__name__})", at)
    return None


def validate_entry(data: object, kind: type, path: Path, at: At) -> None:
    """Raise BadFile with the line when `data`, found at `at` in the file, is no valid `kind`."""
    try:
        convert(data, kind)
    except msgspec.ValidationError:
        flaw = find_flaws(data, kind)[0]
        name = str(data.get("id") or data.get("name") or "") if isinstance(data, dict) and at else ""
        raise make_fault(path, at + flaw.at, flaw.problem, flaw.near[:1], name) from None


def make_fault(path: Path, at: At, problem: str, near: Iterable[str] = (), name: str = "") -> BadFile:
    """A BadFile for the value at `at`: line in the file, place in the document, the entry's name, problem, near
    matches."""
    place = format_place(at) + (f" ({name})" if name else "")
    error = BadFile(path, (f"{place}: " if place else "") + problem, find_line(path, at))
    error.near = tuple(near)
    return error


def format_place(at: At) -> str:
    """A place in a document as people write it: models[3].layout.attention[0]."""
    text = ""
    for part in at:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text


def find_line(path: Path, at: At) -> int | None:
    """The line of the value at `at`, or of the nearest thing around it; None when the file cannot be read."""
    try:
        return line_at(locate_node(compose_yaml(read_text(path), path), path, MAX_NODES), at)
    except BadFile:
        return None


def find_duplicate_key(path: Path, root: Any) -> BadFile | None:
    """The first key that one mapping of a node tree (`files.compose_yaml`) holds twice: YAML keeps the last without a
    word."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node is None or not isinstance(node.value, list):
            continue
        seen: set[str] = set()
        for child in node.value:
            if not isinstance(child, tuple):
                stack.append(child)
                continue
            key = str(child[0].value)
            if key in seen:
                return BadFile(path, f"`{key}` appears twice in one mapping", child[0].start_mark.line + 1)
            seen.add(key)
            stack.append(child[1])
    return None


def read_entries(
    file: str, document: object, report: Callable[[MisplacedDocument], None] = _stop
) -> Iterator[TableEntry]:
    """The entries of one table file. What is wrong with its outline goes to `report` (by default it is raised)."""
    if document is None:
        return
    if not isinstance(document, dict):
        report(MisplacedDocument("holds no mapping at the top"))
        return
    if file.startswith("engines/"):
        name = _id(document, (), report)
        if name is not None:
            yield TableEntry("engines", name, document, file, ())
        return
    lists, heading = next((names, head) for prefix, names, head in _LISTS if file.startswith(prefix))
    allowed = (*lists, *((heading,) if heading else ()), AS_OF)
    for key in document:
        if key not in allowed:
            report(MisplacedDocument(f"`{key}` is not a key of this file", (key,), allowed))
    inherited = {heading: document[heading]} if heading and heading in document else {}
    for table in lists:
        rows = document.get(table, [])
        if not isinstance(rows, list):
            report(MisplacedDocument(f"`{table}` must be a list", (table,)))
            continue
        for i, row in enumerate(rows):
            if not isinstance(row, dict):
                report(MisplacedDocument("an entry must be a mapping", (table, i)))
                continue
            data = row if table == "cpu_platforms" else {**inherited, **row}
            name = str(row.get("provider")) if table == "cloud_offers" else _id(row, (table, i), report)
            if name is not None:
                yield TableEntry(table, name, data, file, (table, i))


def _id(row: dict[str, object], at: At, report: Callable[[MisplacedDocument], None]) -> str | None:
    value = row.get("id")
    if isinstance(value, str) and value:
        return value
    report(MisplacedDocument("an entry needs an `id`", at))
    return None
