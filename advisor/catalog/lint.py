"""Checks over the rules that types alone cannot make: references, sources, arithmetic, names, patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from advisor.catalog.load import Rules, read_rules
from advisor.catalog.tables import TYPES
from advisor.catalog.types import Accelerator, Engine, Quantization, Support
from advisor.errors import BadFile
from advisor.models.parameters import active_params, stored_params, text_params, vision_params
from advisor.models.types import Layout, Model
from advisor.near import near_matches, plain

GENERATIONS = frozenset(
    (
        *("pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell_dc", "blackwell_rtx"),
        *("amd_cdna1", "amd_cdna2", "amd_cdna3", "amd_cdna4"),
        *("amd_rdna1", "amd_rdna2", "amd_rdna3", "amd_rdna3_5", "amd_rdna4"),
        *("intel_gpu", "apple", "cpu"),
    )
)
_CONFIDENCE = ("2src", "1src", "doubtful")
_TOLERANCE = 0.01  # of the published parameter count


def lint(roots: Sequence[Path]) -> list[str]:
    """Everything that is wrong with the rules of these folders, one line each; empty when all is well."""
    found: list[str] = []
    rules = read_rules(roots, lambda e: found.append(e.line()))
    tables: dict[str, dict[str, Any]] = {
        table: {i: msgspec.convert(row, TYPES[table]) for i, row in rows.items()}
        for table, rows in rules.tables.items()
    }
    for table, rows in tables.items():
        for i, row in rows.items():
            found += (_line(rules, table, i, problem) for problem in _CHECKS[table](row, tables))
    accelerators = tables["accelerators"]
    found += (_line(rules, "accelerators", i, problem) for i, problem in _accelerator_names(accelerators))
    for provider, offers in rules.offers.items():
        for offer in offers:
            card = offer["accelerator"]
            if card is not None and card not in accelerators:
                found.append(f"cloud offers of {provider}: {_unknown('accelerator', card, accelerators)}")
    return found


def _line(rules: Rules, table: str, entry: str, problem: str) -> str:
    return BadFile(rules.origin.get((table, entry), "?"), f"{entry}: {problem}").line()


def _unknown(kind: str, name: str, known: Any) -> str:
    near = near_matches(name, known, n=2)
    return f"unknown {kind} {name!r}" + (f", near: {', '.join(near)}" if near else "")


def _model(m: Model, tables: dict[str, Any]) -> Iterator[str]:
    if not m.source:
        yield "names no source"
    if (m.layout is None) == (m.stub is None):
        yield "needs either `layout` or `stub`"
    if m.layout is None:
        return
    yield from _orders(m.layout)
    text, active, stored = text_params(m), active_params(m), stored_params(m)
    if m.params_text is not None and text != m.params_text:
        yield f"params_text is {m.params_text:,}, the dimensions give {text:,}"
    if m.params_active is not None and active != m.params_active:
        yield f"params_active is {m.params_active:,}, the dimensions give {active:,}"
    if m.verified and m.params_stored and abs(stored - m.params_stored) > _TOLERANCE * m.params_stored:
        yield f"params_stored is {m.params_stored:,}, the dimensions give {stored:,}: more than 1 % apart"
    rebuilt = vision_params(m.vision) if m.vision else None
    if m.vision and rebuilt not in (None, m.vision.params):
        yield f"vision.params is {m.vision.params:,}, the dimensions give {rebuilt:,}"


def _orders(layout: Layout) -> Iterator[str]:
    for name, groups, order in (
        ("attention", layout.attention, layout.attention_order),
        ("ffn", layout.ffn, layout.ffn_order),
    ):
        if not order:
            continue
        if len(order) > layout.n_layers or not all(0 <= i < len(groups) for i in order):
            yield f"{name}_order is longer than the layers or names a group that is not there"
            continue
        whole = [order[i % len(order)] for i in range(layout.n_layers)]
        counts = [whole.count(i) for i in range(len(groups))]
        wanted = [g.n for g in groups]
        if counts != wanted:
            yield f"{name}_order gives groups of {counts} layers, `n` says {wanted}"


def _accelerator(a: Accelerator, tables: dict[str, Any]) -> Iterator[str]:
    if not a.source:
        yield "names no source"
    if a.confidence not in _CONFIDENCE:
        yield f"confidence is {a.confidence!r}, not one of {', '.join(_CONFIDENCE)}"
    for pci in a.pci_ids:
        if not re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{4}", pci):
            yield f"{pci!r} is no PCI id (vendor:device in lower case, as 10de:2684)"
    if a.usable_bytes and a.memory_bytes and a.usable_bytes > a.memory_bytes:
        yield "usable_bytes is above memory_bytes"
    if a.usable_share is not None and not 0.5 <= a.usable_share <= 1:
        yield f"usable_share is {a.usable_share}, not a share of memory_bytes"
    pattern = _compiled(a.name_pattern)
    if isinstance(pattern, str):
        yield pattern
    elif pattern:
        for name in a.reported_names:
            if not pattern.search(name):
                yield f"name_pattern does not match its own reported name {name!r}"


def _accelerator_names(cards: dict[str, Accelerator]) -> Iterator[tuple[str, str]]:
    """Names that two entries claim, and patterns that take another entry's driver name."""
    claimed: dict[str, str] = {}
    for i, a in cards.items():
        for name in (i, a.name, *a.aliases, *a.default_of):
            other = claimed.setdefault(plain(name), i)
            if other != i:
                yield i, f"the name {name!r} is also a name of {other}"
    for i, a in cards.items():
        pattern = _compiled(a.name_pattern)
        if not isinstance(pattern, re.Pattern):
            continue
        for j, b in cards.items():
            for name in b.reported_names:
                if i == j or not pattern.search(name):
                    continue
                if name not in a.reported_names:
                    yield i, f"name_pattern takes {name!r}, a driver name of {j}"
                elif not a.unified and a.memory_bytes == b.memory_bytes:
                    yield (
                        i,
                        f"shares the driver name {name!r} with {j} and has the same memory: nothing tells them apart",
                    )


def _compiled(pattern: str | None) -> re.Pattern[str] | str | None:
    """The pattern, or what is wrong with it."""
    if pattern is None:
        return None
    try:
        return re.compile(pattern, re.IGNORECASE)
    except re.error as e:
        return f"pattern {pattern!r} is no regular expression: {e}"


def _cpu(c: Any, tables: dict[str, Any]) -> Iterator[str]:
    if not c.source:
        yield "names no source"
    pattern = _compiled(c.probe_pattern)
    if isinstance(pattern, str):
        yield pattern


def _quantization(q: Quantization, tables: dict[str, Any]) -> Iterator[str]:
    if not q.source:
        yield "names no source"
    if q.block_bytes is not None and abs(q.block_bytes * 8 / q.block_elements - q.bits_nominal) > 1e-9:
        yield f"{q.block_bytes} bytes for {q.block_elements} weights are not {q.bits_nominal} bits"
    keys = {key for e in tables["engines"].values() for key in e.quantization}
    if q.capability is not None and q.capability not in keys:
        yield _unknown("capability", q.capability, keys)


def _engine(e: Engine, tables: dict[str, Any]) -> Iterator[str]:
    for place, src in _facts(e):
        if not src:
            yield f"{place} names no source"
        for key in src:
            if key not in e.sources:
                yield f"{place}: {_unknown('source', key, e.sources)}"
    for other in e.runs:
        if other not in tables["engines"]:
            yield f"runs: {_unknown('engine', other, tables['engines'])}"
    seen: set[tuple[str, str]] = set()
    for row in e.quantization_on:
        if row.generation not in GENERATIONS:
            yield f"quantization_on: {_unknown('generation', row.generation, GENERATIONS)}"
        if (row.quantization, row.generation) in seen:
            yield f"quantization_on: {row.quantization} on {row.generation} stands twice"
        seen.add((row.quantization, row.generation))
    for image in e.images:
        if "{version}" in image.tag and e.version is None:
            yield f"images: {image.repository} pins a version and the entry has no `version`"


def _facts(e: Engine) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every fact of an engine with the source keys it names."""
    for table in ("os", "hardware", "formats", "quantization", "features", "floors"):
        for key, fact in getattr(e, table).items():
            yield f"{table}.{key}", fact.src
    single: tuple[tuple[str, Support | None], ...] = (
        ("python_required", e.python_required),
        ("kv_cache_quantization", e.kv_cache_quantization),
    )
    for key, fact in single:
        if fact is not None:
            yield key, fact.src
    if e.latest_seen is not None:
        yield "latest_seen", e.latest_seen.src
    for row in e.quantization_on:
        yield f"quantization_on {row.quantization} on {row.generation}", row.src
    for image in e.images:
        yield f"images {image.repository}", image.src
    for name in ("defaults", "memory", "versions"):
        yield from _sources_inside(getattr(e, name, {}), name)


def _sources_inside(value: Any, place: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(value, dict):
        if isinstance(value.get("src"), list):
            yield place, tuple(value["src"])
        for key, inner in value.items():
            yield from _sources_inside(inner, f"{place}.{key}")


_CHECKS: dict[str, Callable[[Any, dict[str, Any]], Iterator[str]]] = {
    "models": _model,
    "accelerators": _accelerator,
    "cpu_platforms": _cpu,
    "quantizations": _quantization,
    "engines": _engine,
}
