"""A node of Slurm, whichever way it was asked for: state, generic resources, and which of them jobs have taken."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from msgspec.structs import replace

from advisor.decoding import Json
from advisor.errors import BadFile
from advisor.files import decode_text, parse_json
from advisor.fleet.inventory.cards import CardKind, CardLookup, find_by_words, find_machine_cards
from advisor.fleet.inventory.foreign import MAX_NAME, MAX_NODES, ForeignShape, as_words, check_names, positive
from advisor.fleet.inventory.labels import read_node_words
from advisor.fleet.inventory.parts import make_part
from advisor.fleet.types import Inventory, Node, NodePart
from advisor.machines.device_visibility import MIG_NOTE
from advisor.machines.host import normalise_arch
from advisor.machines.types import Cpu, HostMemory, Machine
from advisor.record import Value
from advisor.units import MIB

MOST_DEVICES = 4096  # of one node
MAX_FEATURE = 80  # characters of one that may be a card's name
DETAIL_HINT = "jobs run on it, and which of its cards they have taken is not stated: `scontrol show node -o -d` says it"
MARKS = {"*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "%": "POWERING_DOWN", "!": "POWER_DOWN",
         "$": "MAINTENANCE", "@": "REBOOT_REQUESTED", "^": "REBOOT_ISSUED", "-": "PLANNED"}  # fmt: skip
LINKS = {"nvlink": "nvlink", "nvswitch": "nvlink", "infiniband": "infiniband", "ib": "infiniband", "roce": "roce"}
_ENTRY = re.compile(
    r"(?:gres[:/])?(?P<kind>[\w.-]+?)(?::(?P<type>\(null\)|[^:()=,]{1,120}))?[:=](?P<count>\d{1,6})(?P<kilo>[kK])?"
    r"(?P<rest>\(.*\))?"
)
MAX_RECORD = 100_000  # characters of one node
_NOT_REPORTED = ("", "(null)", "N/A", "n/a")
_START = re.compile(r"^NodeName=", re.M)
_CONFIGURES = re.compile(r"^(?:GresTypes|SlurmctldHost|ClusterName|SlurmdParameters|NodeName=\S+ .*\bName=gpu)\b", re.M)
_OF_GRES = re.compile(r"(?:^|\s)Name=\w+\b")
CONFIGURED = "slurm.conf says what there should be, not which nodes are up: scontrol show node -o -d"
_HEADER = re.compile(
    r"^ *(?=.*\b(?:PARTITION|NODELIST|HOSTNAMES|GRES)\b)[A-Z_]+(?:[ |]+[A-Z_]+(?:\([A-Z/]+\))?)+ *$", re.M
)
_SHORT = {"alloc": "allocated", "mix": "mixed", "comp": "completing"}
_ASKED_FOR = re.compile(r"^.*\bsinfo\b.*(?:--states?[= ]|-t ?)([a-z,]+)", re.M)
TABLE = "is a table of sinfo without the column GRES, which tells cards: scontrol show node -o -d, sinfo --json, or "
TABLE += 'sinfo -N -O "NodeList:50,StateLong,Gres:100,GresUsed:100,Memory"'
STATELESS = "the table has no states: it does not say which nodes are down"
_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z_]{1,30})=")
_REASON = re.compile(
    r"\sReason=(.*?)(?=\s+\[[^\[\]]{1,80}@\d{4}-[^\]]{1,40}\]|\s+(?:Comment|Extra|AdminComment)=|$)", re.S
)


class SlurmNode(Value, frozen=True):
    """What the three forms of Slurm's answer have in common. None = not reported."""

    name: str
    states: tuple[str, ...]
    reason: str | None = None
    gres: str = ""
    gres_used: str | None = None
    tres_used: str | None = None
    features: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    cpus: int | None = None
    sockets: int | None = None
    cores: int | None = None  # of a socket
    memory_mib: int | None = None
    reserved_mib: int | None = None  # of it, for the system
    arch: str | None = None


class Gres(Value, frozen=True):
    """`gpu:h100:8(IDX:0-7)`: so many of a type, and their places where they are given."""

    kind: str  # "gpu", "shard", "mps", "nic"
    type: str | None
    number: int
    places: tuple[int, ...] | None


class _SlurmAnswer(ForeignShape, frozen=True, kw_only=True):
    nodes: list[Json] | None = None
    sinfo: list[Json] | None = None


def read_states(text: str) -> tuple[str, ...]:
    """`IDLE*+DRAIN` as (IDLE, NOT_RESPONDING, DRAIN)."""
    out: list[str] = []
    for word in text.upper().split("+"):
        bare = word.rstrip("".join(MARKS))
        out += [bare, *(MARKS[c] for c in word[len(bare) :])]
    return tuple(w for w in out if w)


def split_gres(text: str | None) -> list[str]:
    """The entries of a list of generic resources; commas in brackets are part of one."""
    return [e.strip() for e in re.split(r",(?![^()]*\))", (text or "")[:10_000])]


def read_gres(text: str | None) -> Iterator[Gres]:
    """The entries of a list of generic resources; what is none is passed over."""
    for entry in split_gres(text):
        m = _ENTRY.fullmatch(entry)
        if m is None:
            continue
        count = int(m["count"]) * (1024 if m["kilo"] else 1)
        kind = None if m["type"] in ("(null)", "no_consume") else m["type"]
        yield Gres(m["kind"].lower(), kind, min(count, MOST_DEVICES + 1), _places(m["rest"] or ""))


def _places(rest: str) -> tuple[int, ...] | None:
    """Indices of `(IDX:0-3,5)`; None where there are none."""
    m = re.search(r"IDX:([\d,-]+)", rest)
    if m is None:
        return None
    out: list[int] = []
    for span in m[1].split(","):
        low, _, high = span.partition("-")
        if not low.isdigit() or not (high or low).isdigit() or int(high or low) >= MOST_DEVICES:
            return None
        out.extend(range(int(low), int(high or low) + 1))
    return tuple(out)


def make_node(seen: SlurmNode, lookup: CardLookup) -> Node:
    """The node as all sources describe nodes."""
    labels = {"partition": seen.partitions[0]} if seen.partitions else {}
    if len(seen.partitions) > 1:
        labels["partitions"] = ",".join(seen.partitions)[:500]
    words = read_node_words(lookup.rules)
    asleep = set(words.slurm_asleep).intersection(seen.states)
    boots = {"NOT_RESPONDING"} if "POWERING_UP" in asleep else set()
    wrong = [s for s in seen.states if s not in words.slurm_working and s not in asleep | boots]
    if wrong or not seen.states:
        reason = (seen.reason or "").strip()
        state = f"state {'+'.join(seen.states)[:120]}" if seen.states else "its state is not reported"
        return Node(name=seen.name, labels=labels, reason=f"{state}: {reason[:300]}" if reason else state)
    host = _make_host(seen)
    gpus = [g for g in read_gres(seen.gres) if g.kind == "gpu" and g.number]
    strange = [e for e in split_gres(seen.gres) if e.lower().startswith("gpu") and not _ENTRY.fullmatch(e)]
    if strange:
        return Node(name=seen.name, labels=labels, reason=f"its GPUs cannot be read: {strange[0][:120]}")
    if not gpus:
        return Node(name=seen.name, parts=(make_part(lookup, host),), labels=labels)
    if sum(g.number for g in gpus) > MOST_DEVICES:
        return Node(name=seen.name, labels=labels, reason=f"more than {MOST_DEVICES} GPUs, which no node has")
    notes: list[str] = ["asleep: Slurm starts it when a job asks for it"] if asleep else []
    if "PLANNED" in seen.states:
        notes.append("what is free of it is planned for a job that waits")
    machine = next((c for f in seen.features[:64] if (c := find_machine_cards(lookup, f)) is not None), None)
    total = sum(g.number for g in gpus)
    if machine is not None and total > machine[1]:
        reason = f"its machine type has {machine[1]}x {machine[0].name}, and gres counts {total}: shares of them"
        return Node(name=seen.name, labels=labels, reason=reason)
    parts = list(_make_parts(seen, gpus, host, lookup, notes))
    if any(p.devices_free is None for p in parts):
        notes.append(DETAIL_HINT)
    if any(g.kind in ("shard", "mps") and g.number for g in read_gres(seen.gres_used)):
        notes.append("jobs also use shares of its cards (shard or mps), which are not counted as taken")
    return Node(name=seen.name, parts=tuple(parts), labels=labels, notes=tuple(dict.fromkeys(notes)))


def _make_parts(
    seen: SlurmNode, gpus: Sequence[Gres], host: Machine, lookup: CardLookup, notes: list[str]
) -> Iterator[NodePart]:
    used = _used(seen, gpus)
    first = 0
    for gres in gpus:
        kind = _find_kind(gres.type, seen.features, lookup)
        notes.extend((*kind.notes, MIG_NOTE) if kind.mig else kind.notes)
        taken, places = used.get(gres.type, (None, None)) if used is not None else (None, None)
        free = None if taken is None else max(0, gres.number - taken)
        indices = None
        if places is not None and free and taken:
            left = tuple(i for i in range(gres.number) if first + i not in places)
            indices = left if len(left) == free else None
        if "ALLOCATED" in seen.states:  # no processor is left for another job
            free, indices = 0, None
        resource = f"gpu:{gres.type}" if gres.type else "gpu"
        yield make_part(lookup, host, kind, gres.number, free, indices, first, resource)
        first += gres.number


def _used(seen: SlurmNode, gpus: Sequence[Gres]) -> dict[str | None, tuple[int, tuple[int, ...] | None]] | None:
    """type -> (cards that jobs have, their places); None where it is not reported."""
    used = None
    if seen.gres_used is not None:
        used = [g for g in read_gres(seen.gres_used) if g.kind == "gpu"]
    elif "gres/gpu" in (seen.tres_used or ""):
        used = [g for g in read_gres(seen.tres_used) if g.kind == "gpu"]
        used = [g for g in used if g.type is not None] or used
    elif not {"MIXED", "ALLOCATED", "COMPLETING"} & set(seen.states):
        used = []
    if used is None:
        return None
    types = [g.type for g in gpus]
    if len(types) == 1:  # entries with and without the type mean the same cards
        places = tuple(p for g in used for p in g.places or ())
        return {types[0]: (sum(g.number for g in used), places or None)}
    if any(g.number and g.type not in types for g in used):
        return None
    out: dict[str | None, tuple[int, tuple[int, ...] | None]] = dict.fromkeys(types, (0, None))
    for g in used:
        out[g.type] = (out.get(g.type, (0, None))[0] + g.number, g.places)
    return out


def _find_kind(name: str | None, features: Sequence[str], lookup: CardLookup) -> CardKind:
    """The card of a GRES type; where the type leaves it open, a feature of the node that names one of these cards."""
    kind = find_by_words(lookup, name or "")
    if kind.total_bytes is not None:
        return kind
    hints = []
    for feature in features[:64]:
        size = re.fullmatch(r"(?:gpu_?mem|gpu|vram|gmem)?_?(\d{2,3})gb?", feature, re.I)
        words = f"{name} {size[1]}GB" if size and name else feature
        cards = find_machine_cards(lookup, feature)
        named = cards[0] if cards is not None else None
        hint = named or (find_by_words(lookup, words) if len(feature) <= MAX_FEATURE else kind)
        if (
            hint.accelerator is not None
            and hint.total_bytes is not None
            and (not name or hint.accelerator in kind.may_be)
        ):
            hints.append(hint)
    if len({(h.accelerator, h.mig) for h in hints}) != 1:
        return kind
    chosen = hints[0]
    note = f"{name or 'gpu'}: taken as {chosen.name}, by a feature of the node"
    return replace(chosen, notes=(note, *chosen.notes))


def _make_host(seen: SlurmNode) -> Machine:
    known = seen.memory_mib is not None and seen.memory_mib > 1  # 1 is what Slurm writes where nothing was configured
    total = seen.memory_mib * MIB if seen.memory_mib and known else None
    limit = (seen.memory_mib - seen.reserved_mib) * MIB if seen.memory_mib and known and seen.reserved_mib else None
    return Machine(
        source="text",
        cpu=Cpu(
            sockets=seen.sockets,
            physical_cores=seen.sockets * seen.cores if seen.sockets and seen.cores else None,
            logical_cores=seen.cpus,
        ),
        memory=HostMemory(total_bytes=total, limit_bytes=limit if limit is not None and limit > 0 else None),
        os="linux",
        arch=normalise_arch(seen.arch),
        interconnect="+".join(dict.fromkeys(LINKS[f.lower()] for f in seen.features if f.lower() in LINKS)) or None,
    )


def read_slurm_json(data: bytes, where: object, lookup: CardLookup) -> Inventory:
    """The nodes of the answer. Raises BadFile."""
    answer = parse_json(data, where, _SlurmAnswer)
    if answer.nodes is not None:
        seen = [_read_node(entry, where) for entry in answer.nodes]
    else:
        seen = _join_partitions(node for entry in answer.sinfo or () for node in _read_group(entry, where))
    if not seen:
        raise BadFile(where, "has no nodes: scontrol show node -o -d, or sinfo --json")
    return _make_inventory(seen, where, lookup)


def _make_inventory(seen: Sequence[SlurmNode], where: object, lookup: CardLookup) -> Inventory:
    check_names([node.name for node in seen], where)
    return Inventory(kind="slurm", nodes=tuple(make_node(node, lookup) for node in seen))


def _read_node(entry: Json, where: object) -> SlurmNode:
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


def _read_group(entry: Json, where: object) -> Iterator[SlurmNode]:
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
        there = found.get(node.name, node)
        found[node.name] = replace(there, partitions=tuple(dict.fromkeys((*there.partitions, *node.partitions))))
    return list(found.values())


def _part(entry: Json, key: str, kind: type, inner: str | None = None) -> Any:
    """`entry[key][inner]` (by default `entry[key][key]`), where it is there and of this kind."""
    value = entry.get(key)
    value = value.get(inner or key) if isinstance(value, dict) else None
    return value if isinstance(value, kind) else None


def _equal(entry: Json, key: str) -> int | None:
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
    return value[:10_000] if isinstance(value, str) and value not in _NOT_REPORTED else None


def expand_all(text: str, where: object) -> Iterator[str]:
    """`gpu[01-03],cpu7` as names. Raises BadFile."""
    for part in re.split(r",(?![^\[]*\])", text[:MAX_RECORD]):
        yield from expand_names(part, where)


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


def read_scontrol(data: bytes, where: object, lookup: CardLookup) -> Inventory:
    """The nodes of the text. Raises BadFile."""
    text = decode_text(data, where)
    if _CONFIGURES.search(text) is not None:
        return _read_configuration(text, where, lookup)
    records = islice(_records(text, where), MAX_NODES + 1)
    return _make_inventory([_read_record(record, where, lookup) for record in records], where, lookup)


def _read_configuration(text: str, where: object, lookup: CardLookup) -> Inventory:
    """The nodes of slurm.conf, with types of cards that lines of gres.conf name; a node's state is its own only where
    it is set."""
    listed = [x.partition("#")[0] for x in re.sub(r"\\\n", " ", text).splitlines()]
    types: dict[str, set[str]] = {}
    for fields in (_fields(x) for x in listed if _OF_GRES.search(x)):
        for name in expand_all(fields.get("NodeName", ""), where) if fields["Name"] == "gpu" else ():
            types.setdefault(name, set()).add(fields.get("Type", ""))
    lines = [x for x in listed if _START.match(x) and not _OF_GRES.search(x)]
    default = " ".join(x.partition(" ")[2] for x in lines if x.startswith("NodeName=DEFAULT"))
    seen = [_read_record(f"{x} {default}", where, lookup) for x in lines if "=DEFAULT" not in x.split()[0]]
    made: list[SlurmNode] = []
    for node, name in islice(((n, name) for n in seen for name in expand_all(n.name, where)), MAX_NODES + 1):
        kinds = types.get(name) or types.get("", set())
        kind = f"{min(kinds)}:" if len(kinds) == 1 and min(kinds) else ""
        gres = re.sub(r"^gpu:(?=\d+$)", f"gpu:{kind}", node.gres)
        states = ("IDLE",) if node.states in ((), ("UNKNOWN",)) else node.states
        made.append(replace(node, name=name, gres=gres, states=states))
    if not made:
        raise BadFile(where, "has no nodes: scontrol show node -o -d")
    return replace(_make_inventory(made, where, lookup), notes=(CONFIGURED,))


def is_table(text: str) -> bool:
    """Whether a text is what sinfo prints without --json."""
    return _HEADER.search(text) is not None


def read_table(text: str, where: object, lookup: CardLookup) -> Inventory:
    """The nodes of a table of sinfo with GRES, and STATE or the command that asked for states. Raises BadFile."""
    header = _HEADER.search(text)
    assert header is not None
    columns, asked = re.split(r"[ |]+", header[0].strip()), _ASKED_FOR.search(text[: header.start()])
    if "GRES" not in columns:
        raise BadFile(where, TABLE)
    rows: Counter[tuple[str, ...]] = Counter()
    for line in text[header.end() :].splitlines():
        cells = tuple(x for x in re.split(r"[ |]+", line.strip()) if x)
        if cells and len(cells) != len(columns):
            raise BadFile(where, f"has a row of {len(cells)} cells under {len(columns)} columns: {line.strip()[:80]!r}")
        rows[cells] += 1
    entries: list[Json] = [
        dict(zip(columns, cells, strict=True)) for cells in rows for _ in range(rows[cells]) if cells
    ]
    state = asked[1].split(",")[0] if asked is not None else "idle"
    made = _make_inventory(_join_partitions(_read_rows(entries, state, where, lookup)), where, lookup)
    return made if asked is not None or "STATE" in columns else replace(made, notes=(STATELESS,))


def _read_rows(entries: Sequence[Json], state: str, where: object, lookup: CardLookup) -> Iterator[SlurmNode]:
    """The nodes of the rows of a table. Without names, as many equal ones as the partition that has most of them."""
    unnamed: dict[tuple[tuple[str, str], ...], Counter[str]] = {}
    columns = read_node_words(lookup.rules).slurm_columns
    for row in entries:
        entry: Json = {ours: row[theirs] for theirs, ours in columns.items() if theirs in row}
        said = str(entry.get("state", state))
        bare = said.rstrip("".join(MARKS))
        entry["state"] = _SHORT.get(bare, bare) + said[len(bare) :]
        partition = str(entry.get("partitions", "")).rstrip("*")
        entry["partitions"] = partition
        if "name" in entry:
            for name in expand_all(str(entry["name"]), where):
                yield _read_node({**entry, "name": name}, where)
            continue
        alike = tuple(sorted((k, str(v)) for k, v in entry.items() if k != "partitions"))
        unnamed.setdefault(alike, Counter())[partition] += positive(row.get("NODES")) or 1
    for i, (alike, partitions) in enumerate(unnamed.items(), 1):
        partition, count = partitions.most_common(1)[0]
        entry = {**dict(alike), "partitions": partition}
        for k in range(1, min(count, MAX_NODES) + 1):
            yield _read_node({**entry, "name": f"{partition or 'node'}-{i}-{k}"}, where)


def _records(text: str, where: object) -> Iterator[str]:
    starts = [m.start() for m in _START.finditer(text)]
    if not starts:
        raise BadFile(where, "has no nodes: scontrol show node -o -d")
    for begin, end in zip(starts, [*starts[1:], len(text)], strict=True):
        if end - begin > MAX_RECORD:
            raise BadFile(where, "has a node of more than 100,000 characters")
        yield " ".join(text[begin:end].split("\n"))


def _read_record(record: str, where: object, lookup: CardLookup) -> SlurmNode:
    """One node. What a person wrote as the reason is no field, whatever stands in it."""
    reason = _REASON.search(record)
    fields = _fields(record[: reason.start()] if reason else record)
    keys = read_node_words(lookup.rules).slurm_record
    entry: Json = {ours: fields[theirs] for theirs, ours in keys.items() if theirs in fields}
    if "Gres" not in fields:  # what is tracked says it as well; its sum of all types is no type of its own
        tracked = [e for e in split_gres(fields.get("CfgTRES")) if e.startswith("gres/gpu")]
        entry["gres"] = ",".join([e for e in tracked if e.startswith("gres/gpu:")] or tracked)
    return replace(_read_node(entry, where), reason=reason[1].strip() if reason else None)


def _fields(record: str) -> dict[str, str]:
    """`Key=value` pairs, values with spaces in them; the first of a key counts."""
    found = list(_KEY.finditer(record))
    out: dict[str, str] = {}
    for i, m in enumerate(found):
        end = found[i + 1].start() if i + 1 < len(found) else len(record)
        out.setdefault(m[1], record[m.end() : end].strip())
    return out
