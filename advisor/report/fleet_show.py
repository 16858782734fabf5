"""`advise fleet show` as text: pools, what was set aside and why, notes."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.fleet.types import Fleet, Pool, SetAside
from advisor.report.text import align_table, bullets, paint, text_width, wrap_text
from advisor.units import GIB

DIFFERENCES_SHOWN = 20  # lines on labels
NAMES_SHOWN = 3  # of the nodes that were set aside for one reason
WORDS = {
    "kubernetes": "Kubernetes",
    "slurm": "Slurm",
    "ray": "Ray",
    "file": "a file of nodes",
    "snapshots": "snapshots",
}


def describe_fleet(fleet: Fleet) -> str:
    """The pools as a table, the nodes that no plan uses with their reasons, and notes."""
    out = [paint(_headline(fleet), "bold"), ""]
    if fleet.pools:
        out.append(_table(fleet))
        out += _pool_notes(fleet.pools)
    else:
        out.append("  No node can be used.")
    if fleet.set_aside:
        out += ["", f"Set aside ({len(fleet.set_aside)}):", *bullets(_reasons(fleet.set_aside))]
    if fleet.notes:
        out += ["", "Notes:", *bullets(fleet.notes)]
    return "\n".join(out)


def _headline(fleet: Fleet) -> str:
    used = {name for p in fleet.pools for name in p.node_names}
    devices = sum(p.devices * len(p.node_names) for p in fleet.pools)
    return (
        f"{_count(len(used), 'node')} with {_count(devices, 'device')} in {_count(len(fleet.pools), 'pool')}, from "
        f"{WORDS[fleet.kind]}"
    )


def _table(fleet: Fleet) -> str:
    priced = any(p.price_per_hour is not None for p in fleet.pools)
    headers = ["pool", "nodes", "devices", "free", "memory", "RAM", *(["an hour"] if priced else [])]
    rows = [
        [
            p.id,
            len(p.node_names),
            p.devices or "-",
            "-" if not p.devices else "?" if p.devices_free is None else p.devices_free,
            _memory(p),
            _gib(p.machine.memory.usable_bytes),
            *(["?" if p.price_per_hour is None else f"{p.price_per_hour:g}"] if priced else []),
        ]
        for p in fleet.pools
    ]
    widest = text_width() - 2 - sum(_width(rows, headers, k) + 2 for k in range(1, len(headers)))
    for row in rows:
        row[0] = _cut(str(row[0]), max(16, widest))
    table = align_table(rows, headers, "l" + "r" * (len(headers) - 1))
    price = f" Prices are in {fleet.currency} for a whole node." if priced and fleet.currency else ""
    said = "Devices, free ones and memory are those of one node; memory is GiB of one device, RAM GiB of the node."
    return f"{table}\n\n{wrap_text(said + price, '  ')}"


def _width(rows: Sequence[Sequence[object]], headers: Sequence[str], k: int) -> int:
    return max(len(str(r[k])) for r in [headers, *rows])


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _memory(pool: Pool) -> str:
    first = next(iter(pool.machine.usable_devices), None)
    if first is None:
        return "-"
    return _gib(first.total_bytes) if first.total_bytes is not None else "probe"


def _gib(n: int | None) -> str:
    return "?" if n is None else f"{n / GIB:.0f}"


def _pool_notes(pools: Sequence[Pool]) -> list[str]:
    """What is odd about pools, each note once, with the pools that it is about."""
    about: dict[str, list[str]] = {}
    for pool in pools:
        for note in pool.notes:
            about.setdefault(note, []).append(pool.id)
    lines = [f"{_some(ids)}: {note}" for note, ids in about.items()] + _differences(pools)
    return ["", "About pools:", *bullets(lines)] if lines else []


def _differences(pools: Sequence[Pool]) -> list[str]:
    """The labels by which pools of the same hardware differ."""
    alike: dict[tuple[object, ...], list[Pool]] = {}
    for pool in pools:
        alike.setdefault((pool.machine.text, pool.devices_free), []).append(pool)
    lines = []
    for same in alike.values():
        shared = set.intersection(*(set(p.labels.items()) for p in same))
        for pool in same:
            own = ", ".join(f"{k}={v}" for k, v in pool.labels.items() if (k, v) not in shared)
            if own and len(same) > 1:
                lines.append(f"{pool.id}: {_cut(own, 120)}")
    return lines if len(lines) <= DIFFERENCES_SHOWN else [*lines[:DIFFERENCES_SHOWN], "... (more with --json)"]


def _reasons(set_aside: Sequence[SetAside]) -> list[str]:
    """Each reason once, with the nodes that it is about."""
    nodes: dict[str, list[str]] = {}
    for one in set_aside:
        nodes.setdefault(one.reason, []).append(one.node)
    return [f"{_some(names)}: {reason}" for reason, names in nodes.items()]


def _some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(_cut(n, 60) for n in names[:NAMES_SHOWN])
    more = len(names) - NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _count(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"
