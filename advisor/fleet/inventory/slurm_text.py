"""`scontrol show node`, one line a node (-o) or many, with (-d) or without what jobs have taken."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.errors import BadFile
from advisor.files import decode_text
from advisor.fleet.inventory.cards import CardLookup
from advisor.fleet.inventory.foreign import MAX_NAME, MAX_NODES, as_words, positive
from advisor.fleet.inventory.slurm import SlurmNode, make_node, read_states
from advisor.fleet.types import Inventory

MAX_RECORD = 100_000  # characters of one node
_START = re.compile(r"^NodeName=", re.M)
_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z_]{1,30})=")
_REASON = re.compile(
    r"\sReason=(.*?)(?=\s+\[[^\[\]]{1,80}@\d{4}-[^\]]{1,40}\]|\s+(?:Comment|Extra|AdminComment)=|$)", re.S
)


def read_scontrol(data: bytes, where: object, lookup: CardLookup) -> Inventory:
    """The nodes of the text. Raises BadFile."""
    text = decode_text(data, where)
    nodes = []
    names: set[str] = set()
    for record in _records(text, where):
        seen = _read_record(record, where)
        if seen.name in names:
            raise BadFile(where, f"has node {seen.name[:80]!r} twice")
        names.add(seen.name)
        nodes.append(make_node(seen, lookup))
        if len(nodes) > MAX_NODES:
            raise BadFile(where, f"has more than {MAX_NODES:,} nodes")
    return Inventory(kind="slurm", nodes=tuple(nodes))


def _records(text: str, where: object) -> Iterator[str]:
    starts = [m.start() for m in _START.finditer(text)]
    if not starts:
        raise BadFile(where, "has no nodes: scontrol show node -o -d")
    for begin, end in zip(starts, [*starts[1:], len(text)], strict=True):
        if end - begin > MAX_RECORD:
            raise BadFile(where, "has a node of more than 100,000 characters")
        yield " ".join(text[begin:end].split("\n"))


def _read_record(record: str, where: object) -> SlurmNode:
    """One node. What a person wrote as the reason is no field, whatever stands in it."""
    said = _REASON.search(record)
    fields = _fields(record[: said.start()] if said else record)
    name = fields.get("NodeName", "")
    if not name or len(name) > MAX_NAME:
        raise BadFile(where, "has a node without a name, or with one of more than 253 characters")
    return SlurmNode(
        name=name,
        states=read_states(fields.get("State", "")),
        reason=said[1].strip() if said else None,
        gres=_told(fields.get("Gres")) or "",
        gres_used=_told(fields.get("GresUsed")),
        tres_used=_told(fields.get("AllocTRES")),
        features=as_words(fields.get("ActiveFeatures")) or as_words(fields.get("AvailableFeatures")),
        partitions=as_words(fields.get("Partitions")),
        cpus=positive(fields.get("CPUTot")),
        sockets=positive(fields.get("Sockets")),
        cores=positive(fields.get("CoresPerSocket")),
        memory_mib=positive(fields.get("RealMemory")),
        reserved_mib=positive(fields.get("MemSpecLimit")),
        arch=_told(fields.get("Arch")),
    )


def _fields(record: str) -> dict[str, str]:
    """`Key=value` pairs, values with spaces in them; the first of a key counts."""
    found = list(_KEY.finditer(record))
    out: dict[str, str] = {}
    for i, m in enumerate(found):
        end = found[i + 1].start() if i + 1 < len(found) else len(record)
        out.setdefault(m[1], record[m.end() : end].strip())
    return out


def _told(value: str | None) -> str | None:
    return None if value is None or value in ("", "(null)", "N/A", "n/a") else value
