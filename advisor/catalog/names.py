"""Looking things up by the names people use. A near match is only ever suggested, never taken."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from advisor.catalog.types import Quantization
from advisor.errors import UnknownName
from advisor.near import near_matches, simplify_name


class NameClash(Exception):
    """Two entries claim one name."""

    def __init__(self, name: str, first: str, second: str) -> None:
        super().__init__(name)
        self.name = name
        self.first = first
        self.second = second


def index_names(rows: Mapping[str, Mapping[str, Any]], orgs: bool = False) -> dict[str, str]:
    """Plain spelling -> id, over ids and aliases; with `orgs` also the id without its `org/` where that is unique.

    Raises NameClash when two entries share an id or alias in any spelling.
    """
    index: dict[str, str] = {}
    for entry, row in rows.items():
        for name in (entry, *row.get("aliases", ())):
            other = index.setdefault(simplify_name(name), entry)
            if other != entry:
                raise NameClash(name, other, entry)
    if orgs:
        short: dict[str, list[str]] = {}
        for entry in rows:
            short.setdefault(simplify_name(entry.rpartition("/")[2]), []).append(entry)
        for name, ids in short.items():
            if len(ids) == 1:
                index.setdefault(name, ids[0])
    return index


def find_id(kind: str, name: str, index: Mapping[str, str], known: Iterable[str]) -> str:
    """The id that `name` means, whatever its case and punctuation. Raises UnknownName with near matches of `known`."""
    hit = index.get(simplify_name(name))
    if hit is not None:
        return hit
    raise UnknownName(kind, name, near_matches(name, known))


def find_quantization(name: str, index: Mapping[str, str], table: Mapping[str, Quantization]) -> Quantization:
    """A weight format by name; EXL3 takes any number of bits and `UD-` any GGUF type. Raises UnknownName."""
    hit = index.get(simplify_name(name))
    if hit is not None:
        return table[hit]
    m = re.fullmatch(r"(?i)exl3[-_ ]?(\d+(?:\.\d+)?)[-_ ]?bpw", name.strip())
    if m and 1 <= float(m[1]) <= 8:
        return msgspec.structs.replace(
            table[index["exl3"]], id=f"EXL3-{float(m[1])}bpw", aliases=(), bits_nominal=float(m[1])
        )
    m = re.fullmatch(r"(?i)ud[-_](.+)", name.strip())
    base = index.get(simplify_name(m[1])) if m else None
    if base is not None and table[base].family == "gguf":
        note = "dynamic mix: tensors differ from model to model; sized as the plain type"
        return msgspec.structs.replace(table[base], id=f"UD-{base}", aliases=(), notes=note)
    raise UnknownName("quantization", name, near_matches(name, table))
