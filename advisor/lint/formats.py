"""Weight formats: bits follow from the block layout; lists and short names keep to one family, from wide to narrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from advisor.catalog.flaws import At
from advisor.catalog.types import Quantization
from advisor.errors import UnknownName
from advisor.lint.faults import Fault
from advisor.lint.house import House, RuleDocument, TableItem
from advisor.models.tensors import BLOCKS

PLAIN = "none"  # the family of 16- and 32-bit weights, which every checkpoint format carries
SIZE_RANGE = (0.5, 2.5)  # of a real checkpoint over its definition
BORROWED = {"openvino": "hf", "litert": "hf"}  # families that name their widths by formats of another


def find_formats_faults(house: House) -> Iterator[Fault]:
    """Formats whose figures do not follow, and lists of formats that mix families."""
    for item in house.tables["quantizations"].values():
        yield from _format(item)
    shorthands, workloads = house.documents.get("shorthands.yaml"), house.documents.get("workloads.yaml")
    if shorthands is not None:
        for family, ladder in shorthands.value.ladders.items():
            yield from _family(house, shorthands, ("ladders", family), ladder, family)
            yield from _falling(house, shorthands, ("ladders", family), ladder)
        for name, by_family in shorthands.value.names.items():
            for family, meant in by_family.items():
                yield from _family(house, shorthands, ("names", name), (meant,), family, (family,))
    if workloads is not None:
        for family in ("hf", "mlx", "exl3", "mlc", "openvino", "litert"):
            yield from _family(house, workloads, (family,), getattr(workloads.value, family), family)
        for part in ("easy", "tight"):
            yield from _family(house, workloads, ("gguf", part), getattr(workloads.value.gguf, part), "gguf")


def _format(item: TableItem) -> Iterator[Fault]:
    known: Quantization = item.entry
    if known.block_bytes is not None:
        derived = known.block_bytes * 8 / known.block_elements
        if abs(derived - known.bits_nominal) > 1e-9:
            problem = (
                f"is {known.bits_nominal:g}, {known.block_bytes} bytes for "
                f"{known.block_elements} weights are {derived:g} bits"
            )
            yield item.place.field("total", ("bits_nominal",), problem)
    if known.base is not None:
        yield from item.place.unknown(("base",), "GGML type", known.base, BLOCKS)
    block = BLOCKS.get(known.base or "")
    if block and known.block_bytes is not None and block != (known.block_elements, known.block_bytes):
        elements, size = block
        problem = (
            f"a block of {known.base} is {size} bytes for {elements} weights, not "
            f"{known.block_bytes} for {known.block_elements}"
        )
        yield item.place.field("total", ("block_bytes",), problem)
    for field in ("size_range", "size_range_plain"):
        value = getattr(known, field)
        if value is not None and not all(SIZE_RANGE[0] <= x <= SIZE_RANGE[1] for x in value):
            yield item.place.field("unit", (field,), f"{list(value)} are factors of a size, about 1")


def _family(
    house: House, document: RuleDocument, at: At, listed: Sequence[str], family: str, below: At | None = None
) -> Iterator[Fault]:
    """Formats of a list are of its family, or plain 16-bit ones."""
    allowed = {family, BORROWED.get(family, family), PLAIN} | ({"hf"} if family == PLAIN else set())
    for i, name in enumerate(listed):
        known = _known(house, name)
        if known is not None and known.family not in allowed:
            where = (*at, *(below if below is not None else (i,)))
            yield document.place.field("wrong_value", where, f"{name} is of the family {known.family}, not {family}")


def _falling(house: House, document: RuleDocument, at: At, ladder: Sequence[str]) -> Iterator[Fault]:
    found = [(n, quantization.bits_nominal) for n in ladder if (quantization := _known(house, n)) is not None]
    for (first, wide), (second, narrow) in pairwise(found):
        if narrow > wide:
            problem = f"{second} ({narrow:g} bits) comes after {first} ({wide:g}): from wide to narrow"
            yield document.place.field("range", (*at, ladder.index(second)), problem)


def _known(house: House, name: str) -> Quantization | None:
    try:
        return house.catalog.quantization(name)
    except UnknownName:
        return None  # reported for the name itself
