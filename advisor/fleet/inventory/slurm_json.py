"""Slurm's JSON: `sinfo --json` (v0.0.38), `scontrol show nodes --json` and slurmrestd (data_parser), newer sinfo.

v0.0.38 writes plain numbers, a state and its flags; data_parser writes numbers as {set, infinite, number} and states
as a list; newer sinfo has one entry for equal nodes of a partition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from advisor.errors import BadFile
from advisor.fleet.inventory.cards import CardLookup
from advisor.fleet.inventory.foreign import (
    MAX_NAME,
    MAX_NODES,
    ForeignShape,
    as_words,
    decode_as,
    positive,
)
from advisor.fleet.inventory.slurm import SlurmNode, make_node, read_states
from advisor.fleet.types import Inventory


class _SlurmAnswer(ForeignShape, frozen=True, kw_only=True):
    nodes: list[dict[str, Any]] | None = None
    sinfo: list[dict[str, Any]] | None = None


def read_slurm_json(data: bytes, where: object, lookup: CardLookup) -> Inventory:
    """The nodes of the answer. Raises BadFile."""
    answer = decode_as(data, _SlurmAnswer, where)
    if answer.nodes is not None:
        seen = [_read_node(entry, where) for entry in answer.nodes]
    else:
        seen = _join_partitions(node for entry in answer.sinfo or () for node in _read_group(entry, where))
    if not seen:
        raise BadFile(where, "has no nodes: scontrol show node -o -d, or sinfo --json")
    if len(seen) > MAX_NODES:
        raise BadFile(where, f"has more than {MAX_NODES:,} nodes")
    names: set[str] = set()
    for node in seen:
        if node.name in names:
            raise BadFile(where, f"has node {node.name[:80]!r} twice")
        names.add(node.name)
    return Inventory(kind="slurm", nodes=tuple(make_node(node, lookup) for node in seen))


def _read_node(entry: dict[str, Any], where: object) -> SlurmNode:
    return SlurmNode(
        name=_name(entry.get("name") or entry.get("hostname"), where),
        states=_states(entry.get("state"), entry.get("state_flags")),
        reason=_text(entry.get("reason")),
        gres=_text(entry.get("gres")) or "",
        gres_used=_text(entry.get("gres_used")),
        tres_used=_text(entry.get("tres_used")),
        features=as_words(entry.get("active_features")) or as_words(entry.get("features")),
        partitions=as_words(entry.get("partitions")),
        cpus=positive(entry.get("cpus")),
        sockets=positive(entry.get("sockets")),
        cores=positive(entry.get("cores")),
        memory_mib=positive(entry.get("real_memory")),
        reserved_mib=positive(entry.get("specialized_memory")),
        arch=_text(entry.get("architecture")),
    )


def _read_group(entry: dict[str, Any], where: object) -> Iterator[SlurmNode]:
    """The nodes of one entry of newer sinfo. What is used is that of one node, so it counts where there is one."""
    names = [n for x in _part(entry, "nodes", list) or () for n in expand_names(str(x), where)]
    states = _states(_part(entry, "node", object, "state"), None)
    used = _text(_part(entry, "gres", object, "used"))
    idle = states == ("IDLE",)
    partition = _text(_part(entry, "partition", object, "name")) or _text(entry.get("partition"))
    for name in names:
        yield SlurmNode(
            name=_name(name, where),
            states=states,
            reason=_text(_part(entry, "reason", object, "description")) or _text(entry.get("reason")),
            gres=_text(_part(entry, "gres", object, "total")) or "",
            gres_used=used if len(names) == 1 or idle else None,
            features=as_words(_part(entry, "features", object, "active"))
            or as_words(_part(entry, "features", object, "total")),
            partitions=(partition,) if partition else (),
            cpus=_equal(entry, "cpus"),
            sockets=_equal(entry, "sockets"),
            cores=_equal(entry, "cores"),
            memory_mib=positive(_part(entry, "memory", object, "minimum")),
        )


def _join_partitions(nodes: Iterator[SlurmNode]) -> list[SlurmNode]:
    """Each node once, with all its partitions."""
    found: dict[str, SlurmNode] = {}
    for node in nodes:
        there = found.get(node.name)
        if there is None:
            found[node.name] = node
        else:
            found[node.name] = replace(there, partitions=tuple(dict.fromkeys((*there.partitions, *node.partitions))))
    return list(found.values())


def _part(entry: dict[str, Any], key: str, kind: type, inner: str | None = None) -> Any:
    """`entry[key][inner]` (by default `entry[key][key]`), where it is there and of this kind."""
    value = entry.get(key)
    value = value.get(inner or key) if isinstance(value, dict) else None
    return value if isinstance(value, kind) else None


def _equal(entry: dict[str, Any], key: str) -> int | None:
    """A number that is the same for all nodes of an entry."""
    low, high = (positive(_part(entry, key, object, k)) for k in ("minimum", "maximum"))
    return low if low == high else None


def _states(state: object, flags: object) -> tuple[str, ...]:
    words = [state] if isinstance(state, str) else state if isinstance(state, list) else []
    more = flags if isinstance(flags, list) else []
    return tuple(dict.fromkeys(s for w in (*words, *more) if isinstance(w, str) for s in read_states(w[:200])))


def _name(value: object, where: object) -> str:
    if not isinstance(value, str) or not value or len(value) > MAX_NAME:
        raise BadFile(where, "has a node without a name, or with one of more than 253 characters")
    return value


def _text(value: object) -> str | None:
    return value[:10_000] if isinstance(value, str) and value not in ("", "(null)", "N/A") else None


def expand_names(text: str, where: object) -> list[str]:
    """`gpu[01-03,7]` as names. Raises BadFile for what is no such list, or of too many."""
    m = re.fullmatch(r"([^\[\]]{0,200})\[([\d,-]{1,2000})\]([^\[\]]{0,50})", text)
    if m is None:
        return [text]
    out: list[str] = []
    for span in m[2].split(","):
        low, _, high = span.partition("-")
        if not low.isdigit() or not (high or low).isdigit() or not 0 <= int(high or low) - int(low) < MAX_NODES:
            raise BadFile(where, f"has a list of names that cannot be read: {text[:80]!r}")
        out += [f"{m[1]}{i:0{len(low)}d}{m[3]}" for i in range(int(low), int(high or low) + 1)]
        if len(out) > MAX_NODES:
            raise BadFile(where, f"has more than {MAX_NODES:,} nodes")
    return out
