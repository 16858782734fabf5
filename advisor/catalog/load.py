"""Reading rule files: every YAML file of the rule folders into checked tables.

Later folders win: an entry replaces the entry of the same id, an offer list replaces the offers of the same provider,
any other file replaces the file of the same relative path.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from advisor.catalog.names import NameClash, index_names
from advisor.catalog.roots import rule_files
from advisor.catalog.schema import find_duplicate_key, make_fault, validate_entry
from advisor.catalog.tables import TYPES, MisplacedDocument, TableEntry, is_table, read_entries
from advisor.errors import BadFile
from advisor.files import compose_yaml, construct_yaml, read_text
from advisor.near import near_matches


class RuleSet:
    """What the rule folders say together, as plain data that has been checked against the types."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, dict[str, Any]]] = {t: {} for t in TYPES if t != "cloud_offers"}
        self.offers: dict[str, list[dict[str, Any]]] = {}  # by provider
        self.documents: dict[str, Any] = {}
        self.names: dict[str, dict[str, str]] = {"models": {}, "engines": {}, "quantizations": {}}
        self.origin: dict[tuple[str, str], Path] = {}  # table and id -> file


def _stop(error: BadFile) -> NoReturn:
    raise error


def read_rules(
    roots: Sequence[Path],
    report: Callable[[BadFile], None] = _stop,
    read: Callable[[Path], Any] | None = None,
    below: RuleSet | None = None,
) -> RuleSet:
    """All rules of `roots`, over those of the folders `below` them, which are filled. What is wrong (file, line, place,
    near match) goes to `report`; by default the first fault is raised as BadFile. With another `report` the faulty
    entries are left out and reading goes on. `read` gives the plain data of a file (default: from the disk)."""
    rules = below or RuleSet()
    for root in roots:
        _read_root(root, rules, report, read or read_rule_document)
    return rules


def _read_root(root: Path, rules: RuleSet, report: Callable[[BadFile], None], read: Callable[[Path], Any]) -> None:
    mine: dict[tuple[str, str], Path] = {}
    offers: dict[str, list[dict[str, Any]]] = {}
    for file, _ in rule_files(root):
        path = root / file
        try:
            document = read(path)
        except BadFile as e:
            report(e)
            continue
        if not is_table(file):
            rules.documents[file] = document
            continue

        def misplaced(misplaced_document: MisplacedDocument, path: Path = path) -> None:
            near = (
                near_matches(str(misplaced_document.at[-1]), misplaced_document.known, n=1)
                if misplaced_document.known and misplaced_document.at
                else ()
            )
            report(make_fault(path, misplaced_document.at, misplaced_document.problem, near))

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
    own: dict[str, dict[str, Any]], table: str, mine: dict[tuple[str, str], Path], report: Callable[[BadFile], None]
) -> dict[str, str]:
    """Names of one folder's entries; the second of two entries that claim one name is left out of them."""
    own = dict(own)
    while True:
        try:
            return index_names(own, orgs=table == "models")
        except NameClash as e:
            report(BadFile(mine[(table, e.second)], f"the name {e.name!r} of {e.second} is also a name of {e.first}"))
            own.pop(e.second)


def _add(entry: TableEntry, path: Path, mine: dict[tuple[str, str], Path], rules: RuleSet) -> None:
    key = (entry.table, entry.id)
    if key in mine:
        raise make_fault(path, entry.at, f"{entry.id} stands in {mine[key].name} already")
    mine[key] = path
    table = rules.tables[entry.table]
    table.pop(entry.id, None)
    table[entry.id] = entry.data


def read_rule_document(path: Path) -> Any:
    """One YAML file as plain JSON-like data (dates become text). Raises BadFile, also for a key given twice."""
    root = compose_yaml(read_text(path), path)
    twice = find_duplicate_key(path, root)
    if twice is not None:
        raise twice
    return _plain(construct_yaml(root, path), path)


def _plain(value: Any, path: Path) -> Any:
    if isinstance(value, dict):
        return {_key(k, path): _plain(v, path) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v, path) for v in value]
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise BadFile(path, f"holds a value of a kind that rules do not use ({type(value).__name__})")


def _key(key: Any, path: Path) -> str:
    if isinstance(key, bool):  # `on:` and `no:` are words here
        raise BadFile(path, f"a key reads as {str(key).lower()}: quote it")
    return key if isinstance(key, str) else str(key)
