"""Which rule file holds which table, and the type of its entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from advisor.catalog.types import Accelerator, CloudOffer, CpuPlatform, Engine, Quantization
from advisor.models.types import Model
from advisor.record import Value

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
    data: dict[str, Any]
    file: str  # relative to its root
    at: tuple[str | int, ...]


class MisplacedDocument(Exception):
    """The document is not what a file of this name holds; `at` is where."""

    def __init__(self, problem: str, at: tuple[str | int, ...] = (), known: tuple[str, ...] = ()) -> None:
        super().__init__(problem)
        self.problem = problem
        self.at = at
        self.known = known


def is_table(file: str) -> bool:
    """Whether a rule file of this relative path holds typed entries (others are free documents)."""
    return file.startswith("engines/") or any(file.startswith(prefix) for prefix, _, _ in _LISTS)


def _stop(problem: MisplacedDocument) -> NoReturn:
    raise problem


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


def _id(row: dict[str, Any], at: tuple[str | int, ...], report: Callable[[MisplacedDocument], None]) -> str | None:
    value = row.get("id")
    if isinstance(value, str) and value:
        return value
    report(MisplacedDocument("an entry needs an `id`", at))
    return None
