"""The one entry point to all inventories: what a file is, is found out from what is in it."""

from __future__ import annotations

import ast
import csv
import re
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.catalog.match import join_catalogue
from advisor.decoding import Json
from advisor.errors import AdvisorError, BadFile, BadInput
from advisor.estimation import find_machine
from advisor.files import MAX_TEXT, decode_text, parse_json, parse_yaml
from advisor.fleet.inventory import kubernetes, ray, slurm
from advisor.fleet.inventory.cards import (
    CardKind,
    CardLookup,
    find_by_driver_name,
    find_by_words,
    find_machine_cards,
    make_lookup,
)
from advisor.fleet.inventory.foreign import (
    MAX_NAME,
    MAX_NODES,
    STDIN,
    as_count,
    as_shape,
    check_names,
    positive,
    read_source,
)
from advisor.fleet.inventory.kubernetes import NO_OPTIONS, NodeOptions, PodList
from advisor.fleet.inventory.labels import read_node_words
from advisor.fleet.inventory.parts import describe_hardware, make_part, split_machine
from advisor.fleet.inventory.pools import make_fleet
from advisor.fleet.types import Fleet, Inventory, Node, SourceKind
from advisor.machines.snapshot import load_snapshot
from advisor.machines.types import HostMemory, Machine
from advisor.near import simplify_name, unknown_options
from advisor.record import Record
from advisor.units import GIB

UNKNOWN_KIND = (
    "is not one of the inventories that can be read: kubectl get nodes -o json, scontrol show node -o -d, "
    "sinfo --json, json.dumps(ray.nodes()), a folder of snapshots (advise probe --save), or YAML: "
    "nodes: [{name, count, hardware}]; also kubectl describe nodes, a table of sinfo with GRES, slurm.conf, nomad node "
    "status, a CSV with gpus and gpu"
)
MOST_CARDS = 64  # of one node in a list
_NOMAD = re.compile(r"(?m)^(?=ID +=[^\n]*\nName +=)")  # the begin of a node of `nomad node status ID`
_VARIABLE = re.compile(r'(?m)^[ \t]*([a-z]\w*)[ \t]*=[ \t]*"?([\w.-]+)"?[ \t]*(?:[#/].*)?$')  # of Terraform
EXAMPLE = '{nodes: [{name: a, count: 2, hardware: "8x H100 80GB SXM, 2TB RAM", price_per_hour: 20}]}'


class FleetEntry(Record, frozen=True, kw_only=True):
    """Equal nodes, named NAME-1 to NAME-n."""

    name: Annotated[str, Meta(min_length=1, max_length=MAX_NAME - 7)]
    hardware: Annotated[str, Meta(min_length=1)]
    count: Annotated[int, Meta(ge=1, le=MAX_NODES)] | None = None
    price_per_hour: Annotated[float, Meta(ge=0, le=10**9)] | None = None  # of one node
    labels: dict[str, str] = {}


class FleetFile(Record, frozen=True, kw_only=True):
    """The whole file."""

    nodes: list[Json]
    currency: Annotated[str, Meta(min_length=1, max_length=8)] | None = None


def read_fleet(source: str, rules: Catalog, pods: str | None = None, options: NodeOptions = NO_OPTIONS) -> Fleet:
    """The pools of a file, of standard input (`-`) or of a folder of snapshots; `pods`: pods of a Kubernetes cluster.

    Raises BadFile, BadInput, and for hardware in words what these raise.
    """
    return make_fleet(read_inventory(source, rules, pods, options))


def read_inventory(
    source: str, rules: Catalog, pods: str | None = None, options: NodeOptions = NO_OPTIONS
) -> Inventory:
    """The nodes of a source. Raises as `read_fleet` does."""
    if source == STDIN == pods:
        raise BadInput("only one of the nodes and the pods can come from standard input")
    path = Path(source)
    if source != STDIN and path.is_dir():
        made = read_snapshots(path, rules)
    else:
        where = "standard input" if source == STDIN else path
        taken = PodList(read_source(pods), "standard input" if pods == STDIN else pods) if pods is not None else None
        made = parse_inventory(read_source(source), where, rules, taken, options)
    given = "--pods" if pods is not None else "--tolerate" if options.tolerate else None
    if given is not None and made.kind != "kubernetes":
        raise BadInput(f"{given} describes Kubernetes, and the source is of another kind ({made.kind})")
    return made


def parse_inventory(
    data: bytes, where: object, rules: Catalog, pods: PodList | None = None, options: NodeOptions = NO_OPTIONS
) -> Inventory:
    """The nodes that the content of a file describes. Raises as `read_fleet` does."""
    lookup = make_lookup(rules)
    begin = data[:4096].lstrip()
    if not begin:
        raise BadFile(where, "is empty")
    if begin.startswith(b"["):
        return ray.read_ray(_read_printed(data), where, lookup)
    if begin.startswith(b"{") and not re.match(rb"\{\s*\w+\s*:", begin):  # {nodes: [...]} is YAML's short form
        kind = _kind_of_object(data, where)
        if kind == "kubernetes":
            return kubernetes.read_kubernetes(data, where, lookup, pods, options)
        if kind == "slurm":
            return slurm.read_slurm_json(data, where, lookup)
        if kind == "snapshots":
            return _read_snapshot(where, rules)
        return read_own_file(parse_json(data, where, Json), where, rules)
    if re.search(rb"(?m)^NodeName=", data):
        return slurm.read_scontrol(data, where, lookup)
    return _read_yaml(data, where, rules, pods, options)


def _read_printed(data: bytes) -> bytes:
    """A list as `print(ray.nodes())` shows it, as JSON; JSON as it is."""
    if b"'" not in data or len(data) > MAX_TEXT:
        return data
    try:
        return msgspec.json.encode(ast.literal_eval(data.decode()))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return data


def _kind_of_object(data: bytes, where: object) -> SourceKind:
    """Which inventory a JSON object is. Raises BadFile where it is none."""
    head = parse_json(data, where, dict[str, msgspec.Raw])
    if "items" in head or bytes(head.get("kind", b"")) in (b'"Node"', b'"ResourceSlice"'):
        return "kubernetes"
    if "sinfo" in head or ("nodes" in head and ("meta" in head or "last_update" in head)):
        return "slurm"
    if "schema" in head and "devices" in head:
        return "snapshots"
    if "nodes" in head:
        return "slurm" if _looks_like_slurm(head["nodes"], where) else "file"
    raise BadFile(where, UNKNOWN_KIND)


def _looks_like_slurm(nodes: msgspec.Raw, where: object) -> bool:
    """Whether entries describe states and generic resources, which our own files know nothing of."""
    entries = parse_json(nodes, where, object)
    first = entries[0] if isinstance(entries, list) and entries else None
    return isinstance(first, dict) and "hardware" not in first and ("gres" in first or "state" in first)


def _read_snapshot(where: object, rules: Catalog) -> Inventory:
    """One node, which is called as its file is. Raises BadFile."""
    if not isinstance(where, Path):
        raise BadFile(
            where, "is a snapshot, whose file name is the name of the node: give the file, or a folder of them"
        )
    return Inventory(kind="snapshots", nodes=(make_snapshot_node(where.stem, load_snapshot(where), rules),))


def _read_yaml(data: bytes, where: object, rules: Catalog, pods: PodList | None, options: NodeOptions) -> Inventory:
    if len(data) > MAX_TEXT:
        raise BadFile(where, f"is larger than {MAX_TEXT // 2**20} MiB, which is too much for YAML: give JSON")
    text = decode_text(data, where)
    if slurm.is_table(text):
        return slurm.read_table(text, where, make_lookup(rules))
    if kubernetes.PRINTED.search(text):
        return kubernetes.read_printed(text, where, make_lookup(rules), pods, options)
    if _NOMAD.search(text):
        return _read_nomad(text, where, make_lookup(rules))
    if _find_columns(text.lstrip().partition("\n")[0], rules) is not None:
        return _read_csv(text, where, make_lookup(rules))
    variables = dict(_VARIABLE.findall(text))
    value = variables or _read_documents(text, where)
    declared = _list_variables(variables, where, rules) if variables else None
    if declared is None and isinstance(value, dict):
        declared = _list_declared(value, where, rules)
    if declared is not None:
        entries, note = declared
        return replace(read_own_file({"nodes": entries}, where, rules), notes=(note,))
    if isinstance(value, dict) and value.get("kind") in ("RayCluster", "RayService"):
        raise BadFile(where, "says what Ray starts, not which nodes there are: kubectl get nodes -o json")
    if not isinstance(value, dict) or not ({"nodes", "items", "kind"} & set(value)):
        raise BadFile(where, UNKNOWN_KIND)
    if "items" in value or value.get("kind") in ("Node", "ResourceSlice"):
        return kubernetes.read_kubernetes_values(value, where, make_lookup(rules), pods, options)
    return read_own_file(value, where, rules)


def _read_documents(text: str, where: object) -> Any:
    """The value of a YAML file; of several documents one list with what they list, or the NodePool among them. Raises
    BadFile."""
    parts = [p for p in re.split(r"(?m)^---[ \t]*(?:#.*)?$", text) if re.search(r"(?m)^\s*[^#\s]", p)]
    if len(parts) < 2:
        return parse_yaml(text, where)
    values = [v for p in parts[:MAX_NODES] if isinstance(v := parse_yaml(p, where), dict)]
    pool = next((v for v in values if v.get("kind") == "NodePool"), None)
    return pool or {"kind": "List", "items": [x for v in values for x in v.get("items", [v])]}


def _list_declared(value: dict[Any, Any], where: object, rules: Catalog) -> tuple[list[dict[str, Any]], str] | None:
    """Entries of our own form for what is to be there, and what was taken: a NodePool of CoreWeave, the file of
    `ray up`; None for anything else. Raises BadFile for a template of nodes."""
    try:
        if value.get("kind") == "NodePool" and "compute.coreweave.com" in str(value.get("apiVersion")):
            spec = value["spec"]
            taints = _name_taints(spec.get("nodeTaints"))
            entry = {"name": value["metadata"]["name"], "hardware": spec["instanceType"], "count": spec["targetNodes"]}
            limits = f"{spec.get('minNodes', '?')} to {spec.get('maxNodes', '?')}"
            note = f"targetNodes of a NodePool, which may have {limits}{taints}"
            return [entry | {"labels": spec.get("nodeLabels") or {}}], note
        if value.get("kind") == "NodePool" and "karpenter" in str(value.get("apiVersion")):
            ceiling = _find_ceiling(value, rules)
            if ceiling is not None:
                return ceiling
        if value.get("kind") in ("NodePool", "EC2NodeClass", "NodeClaim", "Provisioner"):
            raise BadFile(where, "says which nodes may be started, not which there are: kubectl get nodes -o json")
        head: str | None = "head"
        if "head_node" in value and "worker_nodes" in value:  # the form before available_node_types
            types = {"head": {"node_config": value["head_node"]},
                     "worker": {"min_workers": value.get("min_workers"), **value["worker_nodes"],
                                "node_config": value["worker_nodes"]}}  # fmt: skip
        elif "available_node_types" in value:
            types, head = value["available_node_types"], value.get("head_node_type", "ray.head.default")
        else:
            return None
        counts = {name: (t.get("min_workers") or 0) + (name == head) for name, t in types.items()}
        entries = [{"name": name, "hardware": _find_instance_type(t["node_config"]), "count": counts[name]}
                   for name, t in types.items() if counts[name]]  # fmt: skip
    except (KeyError, TypeError, AttributeError):
        raise BadFile(where, "does not say the machine types and the number of its nodes") from None
    return entries, "what `ray up` keeps running: the head and min_workers"


def _list_variables(said: dict[str, str], where: object, rules: Catalog) -> tuple[list[dict[str, Any]], str]:
    """As `_list_declared`, of Terraform's variables (tfvars): the one machine type with cards, and the least number of
    nodes that is asked for. Raises BadFile."""
    lookup = make_lookup(rules)
    machines = {value for value in said.values() if find_machine_cards(lookup, value) is not None}
    numbers = {k: n for k, v in said.items() if re.search(r"node|pool", k) and (n := as_count(v)) is not None}
    numbers = {k: n for k, n in numbers.items() if "gpu" in k} or numbers
    least = min((n for k, n in numbers.items() if not re.search("max|limit", k)), default=None)
    if len(machines) != 1 or least is None:
        raise BadFile(where, "does not say one machine type with cards and the number of its nodes")
    most = max(numbers.values())
    if not least:
        raise BadFile(
            where, f"starts 0 to {most} nodes {min(machines)}, not which there are: kubectl get nodes -o json"
        )
    spot = any("spot" in k and v == "true" for k, v in said.items())
    labels = {"kubernetes.azure.com/scalesetpriority": "spot"} if spot else {}
    entry = {"name": "gpu", "hardware": min(machines), "count": least, "labels": labels}
    return [entry], f"the nodes that Terraform's variables ask for; at most {most} are allowed"


def _find_ceiling(pool: dict[Any, Any], rules: Catalog) -> tuple[list[dict[str, Any]], str] | None:
    """The most nodes that a NodePool of Karpenter may start, where it limits their GPUs and allows one kind of node
    with GPUs: those machine types of a family that have as many as it says. None where more is open than that."""
    spec = pool["spec"]
    wanted = {r["key"].rpartition("/")[2]: r.get("values") or [] for r in spec["template"]["spec"]["requirements"]
              if r.get("operator") == "In"}  # fmt: skip
    limit = positive((spec.get("limits") or {}).get("nvidia.com/gpu"))
    families, numbers = wanted.get("instance-family", ()), wanted.get("instance-gpu-count", ())
    lookup, found = make_lookup(rules), dict[tuple[str, int], dict[str, int]]()
    for name in {m.names[0] for m in rules.named_machines().values()}:
        named = name in wanted.get("instance-type", ()) or name.partition(".")[0] in families
        cards = find_machine_cards(lookup, name) if named else None
        if cards is not None and (not numbers or str(cards[1]) in numbers):
            memory = find_machine(name, rules).memory.total_bytes or 0
            found.setdefault((cards[0].accelerator or "", cards[1]), {})[name] = memory
    listed = [simplify_name(str(name)) for name in wanted.get("instance-type", ())]
    if limit is None or len(found) != 1 or not set(listed) <= set(rules.named_machines()):
        return None
    (((_, number), machines),) = found.items()
    machine = min(machines, key=lambda name: machines[name])
    labels = {"karpenter.sh/nodepool": str(pool["metadata"]["name"])}
    entry = {"name": pool["metadata"]["name"], "hardware": machine, "count": limit // number, "labels": labels}
    kinds = ", ".join(map(str, wanted.get("capacity-type", ()))) or "any"
    return [entry], (
        f"the most that a NodePool of Karpenter may start (limit of {limit} GPUs; {kinds[:80]}), with the smallest "
        f"machine; none of it may be there{_name_taints(spec['template']['spec'].get('taints'))}"
    )


def _name_taints(taints: list[Json] | None) -> str:
    """The taints of a template of nodes as the end of a note."""
    named = ", ".join(f"{t['key']}={t.get('value', '')}:{t['effect']}" for t in taints or ())
    return f"; tainted: {named[:200]}" if named else ""


def _find_instance_type(config: dict[str, Any]) -> str:
    """The machine type of AWS, Google Cloud or Azure. Raises KeyError."""
    sizes = config.get("azure_arm_parameters") or {}
    return str(config.get("InstanceType") or config.get("machineType") or sizes["vmSize"]).rpartition("/")[2]


def _find_columns(header: str, rules: Catalog) -> dict[str, str] | None:
    """Ours -> the file's names of the columns of a CSV of nodes; None where it says neither cards nor how many."""
    names = {simplify_name(x): x for x in next(csv.reader([header[:10_000]]), ())}
    found = {
        ours: names[w]
        for ours, words in read_node_words(rules).csv_columns.items()
        for w in reversed(words)
        if w in names
    }
    return found if {"name", "gpus", "gpu"} <= set(found) else None


def _read_csv(text: str, where: object, lookup: CardLookup) -> Inventory:
    """Rows of equal nodes: name, how many, cards of each and which. Raises BadFile."""
    text = text.lstrip()
    columns = _find_columns(text.partition("\n")[0], lookup.rules) or {}
    nodes: list[Node] = []
    try:
        rows = list(csv.DictReader(text.splitlines()))
    except csv.Error as e:
        raise BadFile(where, f"is no CSV: {e}") from None
    for row in rows:
        said = {ours: (row.get(theirs) or "").strip() for ours, theirs in columns.items()}
        count, gpus, size = positive(said.get("count", "1")), as_count(said["gpus"] or "0"), positive(said.get("gb"))
        if not said["name"] or count is None or gpus is None or len(nodes) + count > MAX_NODES or gpus > MOST_CARDS:
            raise BadFile(where, f"has a row that cannot be read: {str(list(row.values()))[:100]}")
        gigabytes = positive(said.get("ram"))
        host = Machine(source="text", memory=HostMemory(total_bytes=gigabytes * GIB if gigabytes else None), os="linux")
        kind = _find_sized(lookup, said["gpu"], size) if gpus else None
        part = make_part(lookup, host, kind, gpus, gpus)
        names = [said["name"]] if count == 1 else [f"{said['name']}-{k}" for k in range(1, count + 1)]
        notes = kind.notes if kind is not None else ()
        nodes += [
            Node(name=name[:MAX_NAME], parts=(part,), labels={"pool": said["name"]}, notes=notes) for name in names
        ]
    check_names([n.name for n in nodes], where)
    return Inventory(kind="file", nodes=tuple(nodes), notes=("a list of nodes: whether each is up is not in it",))


def _read_nomad(text: str, where: object, lookup: CardLookup) -> Inventory:
    """Nodes as `nomad node status ID` prints them, with -verbose or -stats: groups of devices with healthy ones, or a
    line for each device with its memory. Raises BadFile."""
    nodes: list[Node] = []
    for block in _NOMAD.split(text)[1:]:
        fields = dict(re.findall(r"(?m)^([A-Z][\w ]*?) +=[ \t]*(.*)$", block))
        healthy = {m[1]: int(m[2]) for m in re.finditer(r"(?m)^\w+/gpu/(.+?) {2,}\d+ +(\d{1,4}) +\d+ *$", block)}
        used: dict[str, list[int]] = {}
        for m in re.finditer(r"(?m)^\w+/gpu/(.+?)\[[^\]\n]*\] +\d+ / (\d{1,7}) MiB", block):
            used.setdefault(m[1], []).append(int(m[2]))
        states = {k: fields.get(k, "") for k in ("Status", "Eligibility", "Drain")}
        memory = re.search(r"(?m)^\d+/\d+ MHz +[^/\n]*/(\d{1,6}(?:\.\d+)?) GiB", block)
        host = Machine(source="text", memory=HostMemory(total_bytes=int(float(memory[1]) * GIB) if memory else None))
        parts, notes = [], dict[str, None]()
        for name in dict.fromkeys((*healthy, *used)):
            sizes = used.get(name, [])
            number = min(n for n in (healthy.get(name), len(sizes) or None) if n is not None)
            kind = find_by_driver_name(lookup, name, "nvidia", min(sizes, default=None))
            notes |= dict.fromkeys(kind.notes)
            parts += [make_part(lookup, host, kind, number, None)] if 0 < number <= MOST_CARDS else []
        problem = None
        if list(states.values()) != ["ready", "eligible", "false"]:
            problem = ", ".join(f"{k}: {v[:60]}" for k, v in states.items())
        elif not parts and re.search(r"(?m)^[\w-]+/[\w-]+/", block):
            problem = "its devices cannot be read, or none is healthy"
        made = tuple(parts) or (make_part(lookup, host),)
        name = fields.get("Name", "")[:MAX_NAME]
        nodes.append(Node(name=name, parts=() if problem else made, reason=problem, notes=tuple(notes)))
    check_names([n.name for n in nodes], where)
    return Inventory(kind="file", nodes=tuple(nodes), notes=("which devices jobs of Nomad have is not read",))


def _find_sized(lookup: CardLookup, name: str, gigabytes: int | None) -> CardKind:
    """The card of a name with so much memory; of a name that says it alone, the card that has about as much."""
    kind = find_by_words(lookup, f"{name} {gigabytes}GB" if gigabytes else name)
    alone = find_by_words(lookup, name)
    near = alone.total_bytes is not None and abs(alone.total_bytes / GIB - (gigabytes or 0)) <= 0.05 * (gigabytes or 0)
    return alone if kind.accelerator is None and near else kind


def read_own_file(value: object, where: object, rules: Catalog) -> Inventory:
    """The nodes of the file's plain values. Raises BadFile, BadInput (unknown keys), and what hardware words do."""
    if not isinstance(value, dict):
        raise BadFile(where, f"is not a fleet: {EXAMPLE}")
    _refuse_unknown(value, FleetFile, str(where))
    body = as_shape(value, FleetFile, where)
    if not body.nodes:
        raise BadFile(where, f"has no nodes: {EXAMPLE}")
    nodes: list[Node] = []
    names: set[str] = set()
    machines: dict[str, Machine] = {}
    for i, raw in enumerate(body.nodes):
        place = f"{where}: nodes[{i}]"
        _refuse_unknown(raw, FleetEntry, place)
        entry = as_shape(raw, FleetEntry, place)
        machine, count = _read_hardware(entry, place, rules, machines)
        if len(nodes) + count > MAX_NODES:
            raise BadFile(where, f"has more than {MAX_NODES:,} nodes")
        if machine.devices and not machine.usable_devices:
            reason = "no usable device: " + "; ".join(machine.notes)[:200]
            node = Node(name="", reason=reason, labels=entry.labels)
        else:
            parts, price = split_machine(machine, rules, busy_known=False), entry.price_per_hour
            node = Node(name="", parts=parts, price_per_hour=price, labels=entry.labels, notes=machine.notes)
        for k in range(1, count + 1):
            name = f"{entry.name}-{k}"
            if name in names:
                raise BadFile(place, f"a node named {name[:80]!r} is there already")
            names.add(name)
            nodes.append(replace(node, name=name))
    return Inventory(kind="file", nodes=tuple(nodes), currency=body.currency)


def _read_hardware(entry: FleetEntry, place: str, rules: Catalog, machines: dict[str, Machine]) -> tuple[Machine, int]:
    """One node, and how many of it. Raises AdvisorError with the place."""
    try:
        machine = find_machine(entry.hardware, rules, machines)
    except AdvisorError as e:
        raise AdvisorError(e.code, f"{place}: {e.message}", e.near) from None
    if machine.nodes > 1:
        if entry.count not in (None, machine.nodes):
            raise BadInput(
                f"{place}: the hardware says {machine.nodes} nodes and count says {entry.count}: say the number once"
            )
        count, machine = machine.nodes, replace(machine, nodes=1)
        return replace(machine, text=describe_hardware(machine, rules)), count
    return machine, entry.count or 1


def _refuse_unknown(value: dict[Any, Any], shape: type[Record], place: str) -> None:
    known = tuple(shape.__struct_fields__)
    unknown = [str(k) for k in value if k not in known]
    if unknown:
        raise unknown_options(place, unknown, known)


def read_snapshots(folder: Path, rules: Catalog) -> Inventory:
    """The nodes of a folder, by name. A file that cannot be read sets its node aside. Raises BadFile."""
    try:
        files = sorted((p for p in folder.iterdir() if p.suffix == ".json" and p.is_file()), key=_natural_order)
    except OSError as e:
        raise BadFile(folder, f"cannot be read: {e.strerror or e}") from None
    if not files:
        raise BadFile(folder, "has no snapshot: advise probe --save NODE.json on each node")
    if len(files) > MAX_NODES:
        raise BadFile(folder, f"has more than {MAX_NODES:,} files")
    nodes = []
    for file in files:
        try:
            nodes.append(make_snapshot_node(file.stem, load_snapshot(file), rules))
        except BadFile as e:
            nodes.append(Node(name=file.stem, reason=e.problem[:300]))
    return Inventory(kind="snapshots", nodes=tuple(nodes))


def make_snapshot_node(name: str, machine: Machine, rules: Catalog) -> Node:
    """The node that a snapshot describes, joined to the catalogue of today."""
    machine = join_catalogue(machine, rules.accelerators(), rules.cpu_platforms())
    if machine.nodes > 1:
        return Node(name=name, reason=f"describes {machine.nodes} nodes; a snapshot is of one")
    if machine.devices and not machine.usable_devices:
        problems = "; ".join(dict.fromkeys(x for d in machine.devices for x in d.notes)) or "its driver is missing"
        return Node(name=name, reason=f"none of its {len(machine.devices)} devices can be used: {problems[:200]}")
    machine = replace(machine, text=describe_hardware(machine, rules))
    parts = split_machine(machine, rules, busy_known=True)
    usable = sum(p.devices for p in parts)
    notes = [f"{len(machine.devices)} devices, of which {usable} can be used"] if usable < len(machine.devices) else []
    for device in machine.usable_devices:
        notes.extend(device.notes)
    return Node(name=name, parts=parts, notes=tuple(dict.fromkeys(notes)))


def _natural_order(file: Path) -> list[tuple[int, str]]:
    """gpu2 before gpu10."""
    return [(int(x), "") if x.isdigit() else (-1, x) for x in re.split(r"(\d+)", file.stem)]
