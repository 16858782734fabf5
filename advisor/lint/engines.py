"""Engines: what an entry says of itself, its memory constants, and its names for parsers and cache types."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

from advisor.catalog.types import Engine, Floor
from advisor.decision.types import SYSTEMS
from advisor.engines import module_name
from advisor.engines.versions import version_key
from advisor.lint.faults import Fault, nearest_names
from advisor.lint.flags import find_flag_table
from advisor.lint.house import House, TableItem, memory_type
from advisor.lint.reading import EntryPlace
from advisor.lint.rule_types import At
from advisor.lint.shape import find_flaws

TABLES = ("os", "hardware", "formats", "quantization", "features", "floors")
MISSPELT = 0.8  # likeness from which a key that one engine alone has is taken for another's
KV_BYTES = (0.1, 8.0)  # of one value in a cache


def find_faults(house: House) -> Iterator[Fault]:
    """What is wrong with engines' entries."""
    used = {t: Counter(k for e in house.engines.values() for k in getattr(e, t)) for t in TABLES}
    for item in house.tables["engines"].values():
        yield from _entry(house, item)
        yield from _keys(item, used)
        yield from _floors(item)
        yield from _lists(item)
        yield from _parsers(house, item)
        yield from _memory(item)


def _entry(house: House, item: TableItem) -> Iterator[Fault]:
    entry: Engine = item.entry
    if not entry.sources:
        yield item.place.fault("source", "has no `sources`")
    for name in ("defaults", "memory", "versions"):
        yield from _keys_inside(entry, item.place, getattr(entry, name), (name,))
    newest = entry.latest_seen.version if entry.latest_seen else ""
    if entry.version and re.fullmatch(r"v?\d+(\.\d+)+\S*", newest) and version_key(entry.version) > version_key(newest):
        said = f"{entry.version} is newer than latest_seen.version {newest}"
        yield item.place.field("contradiction", ("version",), said)
    if entry.port is not None and not 0 < entry.port < 65536:
        yield item.place.field("unit", ("port",), f"{entry.port} is no port")
    if entry.health_path is not None and not entry.health_path.startswith("/"):
        yield item.place.field("wrong_value", ("health_path",), f"{entry.health_path!r} does not begin with /")
    if _runs_itself(entry.id, house):
        yield item.place.field("contradiction", ("runs",), "runs itself in the end")


def _runs_itself(engine: str, house: House) -> bool:
    known, reached, stack = house.engines, set[str](), [engine]
    while stack:
        entry = known.get(stack.pop())
        for inner in entry.runs if entry else ():
            if inner == engine:
                return True
            if inner not in reached:
                reached.add(inner)
                stack.append(inner)
    return False


def _keys_inside(entry: Engine, place: EntryPlace, value: Any, at: At) -> Iterator[Fault]:
    """Source keys in blocks of free form."""
    if not isinstance(value, dict):
        return
    cited = value.get("src")
    for i, name in enumerate(cited if isinstance(cited, list) else ()):
        if name not in entry.sources:
            yield place.field(
                "unknown_name", (*at, "src", i), f"unknown source {name!r}", nearest_names(str(name), entry.sources)
            )
    for name, inner in value.items():
        yield from _keys_inside(entry, place, inner, (*at, name))


def _keys(item: TableItem, used: dict[str, Counter[str]]) -> Iterator[Fault]:
    """A key that no other engine has, and that nearly is one which others have."""
    for table in TABLES:
        for name in getattr(item.entry, table):
            if used[table][name] > 1 or name in SYSTEMS:
                continue
            others = [k for k, n in used[table].items() if n > 1]
            alike = [k for k in others if SequenceMatcher(None, k, name).ratio() >= MISSPELT]
            if alike:
                said = f"no other engine has a key {name!r}"
                yield item.place.field("unknown_key", (table, name), said, alike[:2])


def _floors(item: TableItem) -> Iterator[Fault]:
    for lane, floor in item.entry.floors.items():
        yield from _floor(floor, ("floors", lane), item.place)


def _floor(floor: Floor, at: At, place: EntryPlace) -> Iterator[Fault]:
    for field in ("nvidia_compute_capability", "nvidia_safe_compute_capability"):
        value = getattr(floor, field)
        if value is not None and not re.fullmatch(r"\d+\.\d", value):
            yield place.field("wrong_value", (*at, field), f"{value!r} is no compute capability (as '8.9')")
    for field in ("cuda", "driver"):
        value = getattr(floor, field)
        if value is not None and not version_key(value):
            yield place.field("version", (*at, field), f"{value!r} is no version")
    for field in ("amd_gfx", "amd_gfx_windows"):
        for i, gfx in enumerate(getattr(floor, field)):
            if not re.fullmatch(r"gfx[0-9a-f]{3,4}", gfx):
                yield place.field("wrong_value", (*at, field, i), f"{gfx!r} is no gfx name (as gfx1100)")
    if floor.python is not None and not re.fullmatch(r"((^|,)\s*(>=|<=|==|<|>|!=)\s*\d+(\.[\d*]+)*\s*)+", floor.python):
        yield place.field("version", (*at, "python"), f"{floor.python!r} is no version specifier (as '>=3.11,<3.15')")
    for field in ("os_version", "arch"):
        for system in getattr(floor, field):
            if system not in SYSTEMS:
                said = f"unknown operating system {system!r}"
                yield place.field("unknown_name", (*at, field, system), said, nearest_names(system, SYSTEMS))


def _lists(item: TableItem) -> Iterator[Fault]:
    entry: Engine = item.entry
    seen: set[tuple[str, str]] = set()
    for i, row in enumerate(entry.quantization_on):
        if (row.quantization, row.generation) in seen:
            said = f"{row.quantization} on {row.generation} stands twice"
            yield item.place.field("duplicate_name", ("quantization_on", i), said)
        seen.add((row.quantization, row.generation))
    for i, image in enumerate(entry.images):
        if "{version}" in image.tag and entry.version is None:
            said = f"{image.repository} pins a version and the entry has no `version`"
            yield item.place.field("missing_key", ("images", i), said)
        if not re.fullmatch(r"[a-z0-9][\w.-]*(:\d+)?(/[\w.-]+)*", image.repository):
            said = f"{image.repository!r} is no image repository"
            yield item.place.field("wrong_value", ("images", i, "repository"), said)


def _parsers(house: House, item: TableItem) -> Iterator[Fault]:
    """Parsers of answers: names that the engine's flag takes, patterns that some model matches."""
    table = find_flag_table(item.entry.id, house)
    for i, p in enumerate(item.entry.parsers):
        for flag, field in (("tool-call-parser", "tool_calls"), ("reasoning-parser", "reasoning")):
            said, entry = getattr(p, field), table.flags.get(flag) if table else None
            choices = (*entry.c, *entry.v) if entry else ()
            if said and choices and said not in choices:
                problem = f"--{flag} has no {said!r}"
                yield item.place.field("unknown_name", ("parsers", i, field), problem, nearest_names(said, choices))
        try:
            matched = any(re.search(p.models, m) for m in house.ids["models"])
        except re.error:
            continue  # reported for the pattern itself
        if not matched and not house.hidden:
            said = f"{p.models!r} matches no model of the catalogue"
            yield item.place.field("unknown_name", ("parsers", i, "models"), said)


def _memory(item: TableItem) -> Iterator[Fault]:
    entry: Engine = item.entry
    if not entry.memory:
        return
    kind = memory_type(entry)
    if kind is None:
        runs = f"{entry.id} runs {entry.runs[0]}, whose constants count" if entry.runs else ""
        said = (
            f"nothing reads `memory`: {runs or 'it says no `family` (pool or plain: no Python is needed)'}, and there "
            f"is no advisor/engines/{module_name(entry.id)}.py"
        )
        yield item.place.fault("missing_place", said, ("memory",))
        return
    if not find_flaws(item.data["memory"], kind):
        yield from _constants(item)


def _constants(item: TableItem) -> Iterator[Fault]:
    """What the types of the constants cannot say."""
    memory: dict[str, Any] = item.data["memory"]
    sizes = memory.get("kv_bytes", {})
    for name, size in sizes.items():
        if not KV_BYTES[0] <= size <= KV_BYTES[1]:
            yield item.place.field("unit", ("memory", "kv_bytes", name), f"{size:g} bytes are no size of one value")
    for i, name in enumerate(memory.get("smaller_kv", ())):
        if sizes and name not in sizes:
            at: At = ("memory", "smaller_kv", i)
            yield item.place.field("unknown_name", at, f"unknown cache type {name!r}", nearest_names(name, sizes))
    for name in memory.get("packed_kv", {}):
        if name not in sizes:
            said = f"unknown cache type {name!r}"
            yield item.place.field("unknown_name", ("memory", "packed_kv", name), said, nearest_names(name, sizes))
    tiers = memory.get("tiers")
    if tiers and not any("before" not in r and not r.get("accelerators") for r in tiers):
        said = "one row must hold for any card and the newest version: without `before` and `accelerators`"
        yield item.place.field("range", ("memory", "tiers"), said)
    beside = memory.get("outside_gib")
    if beside and not any(r.get("from_ranks", 1) <= 1 and not r.get("unified") for r in beside):
        said = "one row must hold for one rank on a card of its own: without `from_ranks` and `unified`"
        yield item.place.field("range", ("memory", "outside_gib"), said)
    for field in ("fraction", "activation"):
        rows = memory.get(field)
        if rows and sum("before" not in r for r in rows) != 1:
            said = "one row, and only one, must be without `before`: it holds for the newest version"
            yield item.place.field("range", ("memory", field), said)
