"""What others wrote, read with bounds: JSON of known shapes in which other fields are passed over, and its numbers."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from advisor.decoding import convert
from advisor.errors import BadFile
from advisor.files import read_bytes

MAX_INVENTORY = 256 * 2**20  # 5,000 nodes of a cluster with all their labels, images and conditions are some 100 MB
MAX_NODES = 100_000
MAX_NAME = 253  # characters of a node's name, as DNS has it
STDIN = "-"

T = TypeVar("T")


class ForeignShape(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The base of shapes that other programs write: fields that are not named here are passed over."""


def read_source(source: str) -> bytes:
    """A file, or standard input for `-`, of at most MAX_INVENTORY bytes. Raises BadFile."""
    if source != STDIN:
        data = read_bytes(Path(source), MAX_INVENTORY)
    else:
        data = sys.stdin.buffer.read(MAX_INVENTORY + 1)
        if len(data) > MAX_INVENTORY:
            raise BadFile("standard input", f"is larger than {MAX_INVENTORY // 2**20} MiB, which no inventory needs")
    return data.removeprefix(b"\xef\xbb\xbf")


def as_shape(value: Any, shape: type[T], where: object) -> T:
    """Plain values, as YAML has them, as a value of a shape. Raises BadFile."""
    try:
        return convert(value, shape)
    except (msgspec.ValidationError, RecursionError) as e:
        raise BadFile(where, f"is not what it looks like: {e}") from None


def as_number(value: object) -> float | None:
    """A number that stands as such, as text, or as {set, infinite, number}; None for anything else or beyond 2**60."""
    if isinstance(value, dict):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    if isinstance(value, str) and len(value) <= 40:
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if math.isfinite(value) and abs(value) < 2**60 else None


def as_count(value: object) -> int | None:
    """A whole number from 0; None for anything else."""
    number = as_number(value)
    return int(number) if number is not None and number >= 0 and number == int(number) else None


def positive(value: object) -> int | None:
    """A whole number above 0; None for anything else: where a source writes 0, it does not know."""
    return as_count(value) or None


def as_words(value: object) -> tuple[str, ...]:
    """Texts of a list, or of a text with commas; nothing for anything else."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list):
        return ()
    return tuple(x.strip() for x in value if isinstance(x, str) and x.strip() and x.strip() != "(null)")


def check_names(names: Sequence[str], where: object) -> None:
    """Raises BadFile for more nodes than are read, and for a name that two nodes have."""
    if len(names) > MAX_NODES:
        raise BadFile(where, f"has more than {MAX_NODES:,} nodes")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise BadFile(where, f"has node {name[:80]!r} twice")
        seen.add(name)


_QUANTITY = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)([eE][+-]?\d{1,2})?([mkMGTPE]|[KMGTPE]i)?")
_SUFFIXES = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Ki": 2.0**10,
             "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60}  # fmt: skip


def parse_quantity(value: object) -> float | None:
    """A quantity of Kubernetes (`8`, `95920m`, `1056Gi`, `129e6`); None where it is none."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value) if abs(value) < 2**60 else None
    m = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    return float(m[1] + (m[2] or "")) * _SUFFIXES[m[3] or ""] if m else None
