"""What `advise probe --json` says on the nodes themselves, in place of what the scheduler knows of their devices."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.match import join_catalogue
from advisor.catalog.name_words import choose_accelerator, split_name
from advisor.errors import AdvisorError, BadFile
from advisor.fleet.inventory.parts import describe_hardware
from advisor.fleet.inventory.programs import ask_program
from advisor.fleet.types import Inventory, Node, NodePart
from advisor.machines.snapshot import MAX_SNAPSHOT, load_snapshot
from advisor.machines.types import Device, HostMemory, Machine

PROGRAM = ("advise", "probe", "--json")
AT_ONCE = 8
WAIT_S = 30  # for a place on the node
PROBE_MIB = 1024
ProbeAnswer = Machine | str  # what was found, or why nothing was


def probe_slurm(nodes: Sequence[Node], rules: Catalog) -> dict[str, ProbeAnswer]:
    """A short job on each node that is not set aside; some at a time."""
    wanted = [n for n in nodes if n.parts]
    with ThreadPoolExecutor(AT_ONCE) as workers:
        return dict(zip((n.name for n in wanted), workers.map(_probe_by_srun, wanted), strict=True))


def srun_words(node: Node) -> list[str]:
    """The command: one task with little memory, and one device of each kind that is not known to be taken."""
    words = ["srun", f"--nodelist={node.name}", "--nodes=1", "--ntasks=1", f"--mem={PROBE_MIB}M", "--time=5",
             f"--immediate={WAIT_S}", "--job-name=advise-probe"]  # fmt: skip
    if node.labels.get("partition"):
        words.append(f"--partition={node.labels['partition']}")
    devices = [f"{p.resource}:1" for p in node.parts if p.devices and p.resource and p.devices_free != 0]
    if devices:
        words.append(f"--gres={','.join(devices)}")
    return [*words, *PROGRAM]


def _probe_by_srun(node: Node) -> ProbeAnswer:
    try:
        return read_answer(ask_program(srun_words(node), 2 * WAIT_S, MAX_SNAPSHOT))
    except AdvisorError as e:
        return e.line()


def read_answer(data: bytes) -> ProbeAnswer:
    """The machine that the output describes; what was written before it (by a prolog, a shell) is passed over."""
    begin = data.find(b"{")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "probe.json"
        file.write_bytes(data[max(0, begin) :])
        try:
            return load_snapshot(file)
        except BadFile as e:
            return f"its answer {e.problem}"[:300]


def use_probes(inventory: Inventory, found: Mapping[str, ProbeAnswer], rules: Catalog) -> Inventory:
    """The inventory with what was found on its nodes; where nothing was, the node says why."""
    nodes = tuple(
        _use(n, found[n.name], rules, inventory.kind == "ray") if n.name in found else n for n in inventory.nodes
    )
    return msgspec.structs.replace(inventory, nodes=nodes)


def _use(node: Node, answer: ProbeAnswer, rules: Catalog, own_memory: bool) -> Node:
    """A node with its probe. `own_memory`: the probe saw the memory that others will have too (no job's limit)."""
    if isinstance(answer, str):
        return msgspec.structs.replace(node, notes=(*node.notes, f"could not be probed: {answer}"))
    machine = join_catalogue(answer, rules.accelerators(), rules.cpu_platforms())
    notes = [n for n in node.notes if "--probe" not in n]
    parts = tuple(_use_part(p, node, machine, rules, own_memory, notes) for p in node.parts)
    return msgspec.structs.replace(node, parts=parts, notes=tuple(dict.fromkeys(notes)))


def _use_part(
    part: NodePart, node: Node, machine: Machine, rules: Catalog, own_memory: bool, notes: list[str]
) -> NodePart:
    memory = msgspec.structs.replace(machine.memory, available_bytes=None) if own_memory else part.machine.memory
    made = msgspec.structs.replace(
        machine,
        source="snapshot",
        cpu=msgspec.structs.replace(machine.cpu, usable_cores=machine.cpu.usable_cores if own_memory else None),
        memory=memory if memory != HostMemory() else machine.memory,
        devices=part.machine.devices,
        interconnect=part.machine.interconnect if part.devices > 1 else None,
        orchestrator=part.machine.orchestrator or machine.orchestrator,
    )
    if part.devices:
        device = _find_device(part, node, machine, rules, notes)
        if device is not None:
            made = msgspec.structs.replace(made, devices=tuple(
                msgspec.structs.replace(device, index=d.index, visible=d.visible) for d in part.machine.devices
            ), interconnect=machine.interconnect or made.interconnect)  # fmt: skip
    made = msgspec.structs.replace(made, text=describe_hardware(made, rules))
    return msgspec.structs.replace(part, machine=made)


def _find_device(part: NodePart, node: Node, machine: Machine, rules: Catalog, notes: list[str]) -> Device | None:
    """The kind of device that was found for a part; None where none, or several that it may be, were."""
    seen: dict[tuple[object, ...], Device] = {}
    for device in machine.devices:
        if not device.driver_missing:
            plain = msgspec.structs.replace(
                device, uuid=None, pci_bus=None, free_bytes=None, processes=None, notes=()
            )  # fmt: skip
            seen.setdefault((device.name, device.mig_profile, device.total_bytes and device.total_bytes >> 28), plain)
    said = part.machine.devices[0]
    fitting = [d for d in seen.values() if _fits(d, said, rules)]
    if len(fitting) == 1:
        return fitting[0]
    listed = ", ".join(d.name for d in list(seen.values())[:4])
    if len(seen) == 1 and len(node.parts) == 1:
        notes.append(f"stated to be {said.name}; the probe found {listed}, which is believed")
        return next(iter(seen.values()))
    if not seen:
        notes.append("the probe saw no device: they are hidden from jobs that have none, or a driver is missing")
    else:
        notes.append(f"the probe found {listed}; which of them are {said.name}, is not known")
    return None


def _fits(device: Device, said: Device, rules: Catalog) -> bool:
    """Whether a device that was found can be what the scheduler calls it."""
    if said.mig_profile is not None and said.mig_profile != device.mig_profile:
        return False
    if said.accelerator is not None:
        return device.accelerator == said.accelerator
    entry = rules.accelerators().get(device.accelerator or "")
    if entry is None:
        return said.name.lower() in device.name.lower()
    try:
        words = split_name(said.name.replace("_", " ").replace("-", " "))
        return choose_accelerator(words, {entry.id: entry}) is not None
    except AdvisorError:
        return False
