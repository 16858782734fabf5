"""docs/reference/memory-constants.md: what the `memory` block of an engine may hold, from the types that read it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import inspect as types

from advisor.engines.plain import PlainConstants
from advisor.engines.pool.settings import PoolConstants
from tools.pages.interfaces import list_class_sources
from tools.pages.markdown import make_markdown_table

PUT_IN = "put in"
FAMILY = "family"  # which the types have a default for: of an engine with a module of its own it need not be stated
HEADERS = ("key", "must be there", "unit", "meaning", "what to write")
BOUNDS = ("low", "value", "high")
UNITS = {
    "gib": "GiB", "mib": "MiB", "share": "share of a whole", "bytes": "bytes", "bits": "bits", "tokens": "tokens",
    "sequences": "requests", "ranks": "ranks", "block": "tokens", "low": "factor", "high": "factor",
    "mlp": "2-byte elements", "hidden": "2-byte elements",
}  # fmt: skip
# key -> what to write where nothing was measured, or how to measure it
HOW = {
    "family": "`pool` where it takes a share of each device when it starts; `plain` where its cache grows with use",
    "source": "what was read or measured, which version, when; or which engine's numbers are taken over",
    "fraction_of": "`total` unless its documentation says that the share is of what the weights leave",
    "wants_budget_free": "leave out, unless it refuses to start next to another program",
    "experts_over_dp": "leave out",
    "kv_bytes": "`{auto: 2}`, and a row for each further type that its flag takes",
    "packed_kv": "leave out: wants the engine's source",
    "tiers": "one row with `from_gib: 0`",
    "tiers[].from_gib": "0",
    "tiers[].batched_tokens": "the default of its own parser or log at start",
    "tiers[].sequences": "the default of its own parser or log at start",
    "activation": "one row without `before`",
    "activation[].mlp": "3 (gate, up and their product)",
    "activation[].hidden": "4; measured: peak of the profiling run over tokens of one step, two sizes of model",
    "activation[].sampler_bytes": "14 (logits in 4 bytes, their copy and sorted indices)",
    "activation[].low": "0.5 where nothing was measured",
    "activation[].high": "2 where nothing was measured",
    "graphs_gib": "`[]` where it captures no graphs; else the log at start, or low 0, value 0.3, high 1",
    "outside_gib": "what the device holds beyond the budget, by nvidia-smi; else low 0.1, value 0.4, high 1",
    "outside_gib[].from_ranks": "leave out in one row at least",
    "in_use_from": "leave out where constants hold for one release only",
    "reported_failures": "leave out; else what was seen to fail, with its source",
    "planner": "`plain`; `groups` only where the cache is planned as vLLM plans it",
    "block": "leave out (16), unless its documentation says",
    "state_bytes": "leave out (2)",
    "kv_bits": "`[2, 8]` where the type is a number of bits",
    "reserved": "only where a cache of so many tokens is taken when it starts",
    "working_share": "leave out where nothing was measured; measured: peak beyond weights and cache over both",
    "overhead_mib": "leave out where nothing was measured; measured: the device with a model of no size",
    "windows": "`false` where windowed layers keep the whole length",
}


def make_constants_page() -> str:
    """One table a family: every key, its meaning, unit, default, and what to write or measure."""
    out = [
        "# Constants of memory\n",
        "`memory` of `rules/engines/<id>.yaml`. `family: pool` is for servers that take a share of each device when "
        "they start, `family: plain` for those that grow with use; neither wants any Python. What stands under "
        "`what to write` is wide enough to be safe: say in `source` that it is assumed. `advise rules lint` names "
        "every key that is missing.\n",
    ]
    for title, kind in (("family: pool", PoolConstants), ("family: plain", PlainConstants)):
        rows = list(_rows(kind, "", ()))
        out += [
            f"## {title}\n",
            make_markdown_table(("key", "must be there", "unit", "meaning", "what to write"), rows),
        ]
    return "\n".join(out)


def _rows(kind: type, above: str, outer: tuple[type, ...]) -> Iterator[tuple[str, str, str, str, str]]:
    said = _comments(kind)
    info = types.type_info(kind)
    assert isinstance(info, types.StructType)
    for field in info.fields:
        if isinstance(field.type, types.Metadata) and (field.type.extra or {}).get("is") == PUT_IN:
            continue
        key = above + field.encode_name
        inner, many = _struct_of(field.type)
        must = "yes" if field.required or key == FAMILY else f"no: {_default(field)}"
        plain = key.rpartition(".")[2].removesuffix("[]")
        how = HOW.get(key) or (HOW.get(plain, "") if above and plain in ("source",) else "")
        unit = "GiB" if "_gib" in above and plain in BOUNDS else _unit(plain)
        yield f"`{key}`", must, unit, said.get(field.name) or _first_line(inner), how
        if inner is not None and inner not in outer:
            yield from _rows(inner, f"{key}{'[]' if many else ''}.", (*outer, kind))


def _struct_of(t: Any) -> tuple[type | None, bool]:
    """The struct inside a type, and whether a list or mapping of them is meant."""
    if isinstance(t, types.Metadata):
        return _struct_of(t.type)
    if isinstance(t, types.StructType):
        return t.cls, False
    if isinstance(t, types.UnionType):
        return next((found for x in t.types if (found := _struct_of(x))[0] is not None), (None, False))
    inner = getattr(t, "item_type", None) or getattr(t, "value_type", None)
    return (_struct_of(inner)[0], True) if inner is not None else (None, False)


def _default(field: types.Field) -> str:
    value = field.default
    if not isinstance(value, (bool, int, float, str, tuple)) or value == ():
        return "none"
    return "`" + (str(value).lower() if isinstance(value, bool) else str(value)) + "`"


def _unit(name: str) -> str:
    return next((unit for end, unit in UNITS.items() if name == end or name.endswith(f"_{end}")), "")


def _first_line(kind: type | None) -> str:
    return (kind.__doc__ or "").strip().split("\n")[0] if kind is not None else ""


def _comments(kind: type) -> dict[str, str]:
    """What the source says behind each field of a class, and of those it derives from."""
    out: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("advisor."):
            found = re.findall(r"(?m)^    (\w+): [^#\n]*# (.+)$", list_class_sources(base.__module__)[base.__name__])
            out |= dict(found)
    return out
