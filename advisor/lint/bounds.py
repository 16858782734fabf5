"""Numbers that have an order: low, value and high; shares of a whole; versions from and to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import inspect

from advisor.engines.versions import version_key
from advisor.lint.faults import Fault
from advisor.lint.house import House, TypedPart
from advisor.lint.rule_types import At, strip_annotations

SHARES = ("share", "duty")  # a field with such a name, or ending in it, is a part of a whole
# pairs of versions: the first field is below the second
VERSIONS = (("at_least", "before"), ("last_seen", "first_absent"), ("first_absent", "back_in"))


def find_faults(house: House) -> Iterator[Fault]:
    """Bounds that are out of order."""
    for part, found in house.visits():
        for at, kind, value in found:
            if isinstance(kind, inspect.StructType):
                yield from _struct(part, (*part.at, *at), kind, value)


def _struct(part: TypedPart, at: At, kind: inspect.StructType, value: dict[str, Any]) -> Iterator[Fault]:
    steps = [(n, value[n]) for n in ("low", "value", "high") if isinstance(value.get(n), (int, float))]
    if len(steps) > 1 and [x for _, x in steps] != sorted(x for _, x in steps):
        said = ", ".join(f"{n} {x:g}" for n, x in steps)
        yield part.place.field("range", at, f"{said}: they must not fall")
    for first, second in VERSIONS:
        a, b = value.get(first), value.get(second)
        if (
            isinstance(a, str)
            and isinstance(b, str)
            and version_key(a)
            and version_key(b)
            and version_key(a) >= version_key(b)
        ):
            yield part.place.field("range", at, f"{first} {a} is not below {second} {b}")
    for field in kind.fields:
        found = value.get(field.encode_name)
        here = (*at, field.encode_name)
        if isinstance(found, (int, float)) and not isinstance(found, bool) and _is_share(field.encode_name):
            if not 0 <= found <= 1:
                yield part.place.field("unit", here, f"{found:g} is no share of a whole (0 to 1)")
        elif isinstance(found, list) and _is_range(field.type) and found != sorted(found):
            yield part.place.field("range", here, f"{found} is low, usual, high: they must not fall")


def _is_share(name: str) -> bool:
    return name in SHARES or name.endswith(tuple(f"_{s}" for s in SHARES))


def _is_range(kind: inspect.Type) -> bool:
    """Whether a field holds three numbers."""
    options = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return any(
        isinstance(t, inspect.TupleType)
        and len(t.item_types) == 3
        and all(isinstance(strip_annotations(x), inspect.FloatType) for x in t.item_types)
        for t in map(strip_annotations, options)
    )
