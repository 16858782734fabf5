"""Inventories of clusters that are asked now: kubectl, scontrol, Ray."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

from msgspec.structs import replace

from advisor import __version__
from advisor.catalog import Catalog
from advisor.catalog.described_machine import load_words
from advisor.catalog.match import join_catalogue
from advisor.catalog.name_words import choose_accelerator, split_name
from advisor.decoding import Json
from advisor.distribution import DISTRIBUTION, install_command
from advisor.errors import AdvisorError, BadFile, BadInput
from advisor.fleet.inventory import kubernetes, ray, slurm
from advisor.fleet.inventory.cards import make_lookup
from advisor.fleet.inventory.foreign import MAX_INVENTORY
from advisor.fleet.inventory.kubernetes import NO_OPTIONS, NodeOptions, PodList
from advisor.fleet.inventory.labels import read_node_words
from advisor.fleet.inventory.parts import describe_hardware
from advisor.fleet.types import Inventory, Node, NodePart
from advisor.machines.snapshot import MAX_SNAPSHOT, load_snapshot
from advisor.machines.types import Device, HostMemory, Machine

RAY_SECONDS = 90.0
NODES = ("kubectl", "get", "nodes", "-o", "json", "--request-timeout=60s")
PODS = ("kubectl", "get", "pods", "--all-namespaces", "-o", "json", "--request-timeout=60s",
        "--field-selector=status.phase!=Succeeded,status.phase!=Failed")  # fmt: skip
SCONTROL = ("scontrol", "show", "node", "-o", "-d")
SECONDS = 120.0  # that a program has to answer
PROGRAM = ("advise", "probe", "--json")
AT_ONCE = 8
WAIT_S = 30  # for a place on the node
PROBE_MIB = 1024
ProbeAnswer = Machine | str  # what was found, or why nothing was
IMAGE = f"registry.example.com/{DISTRIBUTION}:{__version__}"


def ask_kubernetes(rules: Catalog, node_options: NodeOptions = NO_OPTIONS) -> Inventory:
    """The nodes that kubectl sees, with what pods have taken where they may be read. Raises BadInput, BadFile."""
    nodes = ask_program(NODES)
    try:
        pods: PodList | None = PodList(ask_program(PODS), "kubectl get pods")
        failed: tuple[str, ...] = ()
    except AdvisorError as e:  # who may see nodes need not see pods
        pods, failed = None, (f"pods could not be read: {e.line()}",)
    made = kubernetes.read_kubernetes(nodes, "kubectl get nodes", make_lookup(rules), pods, node_options)
    return replace(made, notes=(*made.notes, *failed))


def ask_slurm(rules: Catalog, probe: bool = False) -> Inventory:
    """The nodes that scontrol describes; with `probe`, what a job on each of them finds. Raises BadInput, BadFile."""
    made = slurm.read_scontrol(ask_program(SCONTROL), "scontrol show node", make_lookup(rules))
    return use_probes(made, probe_slurm(made.nodes), rules) if probe else made


def ask_ray(address: str, rules: Catalog, probe: bool = False) -> Inventory:
    """The nodes of a Ray cluster; with `probe`, what a task on each of them finds. Raises BadInput, BadFile."""
    words = [sys.executable, "-m", "advisor.fleet.inventory.ray_client", address, *(["--probe"] if probe else [])]
    try:
        data = ask_program(words, RAY_SECONDS * (3 if probe else 1), more={"RAY_DEDUP_LOGS": "0"})
    except BadInput as e:
        raise BadInput(f"Ray at {address[:80]}: {e.message.partition(' failed: ')[2] or e.message}") from None
    made = ray.read_ray(data, "ray.nodes()", make_lookup(rules))
    if not probe:
        return made
    found: dict[str, ProbeAnswer] = {k: _answer(v) for k, v in ray.read_probes(data, "ray.nodes()").items()}
    return use_probes(made, found, rules)


def _answer(answer: Json) -> ProbeAnswer:
    if isinstance(answer.get("machine"), str):
        return read_answer(answer["machine"].encode())
    return str(answer.get("error") or "no answer")[:300]


def ask_program(
    words: Sequence[str], seconds: float = SECONDS, limit: int = MAX_INVENTORY, more: Mapping[str, str] | None = None
) -> bytes:
    """What a program prints on standard output, at most `limit` bytes; `more`: variables in addition to ours.

    Raises BadInput where it is absent, fails (with the last line that it wrote about it), takes longer than `seconds`
    or prints more.
    """
    name = os.path.basename(words[0])  # noqa: PTH119 - a word of a command
    program = shutil.which(words[0])
    if program is None:
        raise BadInput(f"{name} is not on this machine; give its output as a file instead")
    shown = " ".join([name, *words[1:4]])
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(  # noqa: S603 - words of our own, no shell
                [program, *words[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **(more or {})},
            )
        except OSError as e:
            raise BadInput(f"{name} could not be started: {e.strerror or e}") from None
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.terminate()

        timer = threading.Timer(seconds, stop)
        last = threading.Timer(seconds + 10, process.kill)
        timer.start()
        last.start()
        try:
            assert process.stdout is not None
            with process.stdout:
                data = process.stdout.read(limit + 1)
            if len(data) > limit:
                process.kill()
            status = process.wait()
        finally:
            timer.cancel()
            last.cancel()
            if process.poll() is None:
                process.kill()
                process.wait()
        if late.is_set():
            raise BadInput(f"{shown} did not answer within {seconds:g} s")
        if len(data) > limit:
            raise BadInput(f"{shown} printed more than {limit // 2**20} MiB")
        if status != 0:
            errors.seek(0)
            raise BadInput(f"{shown} failed: {_last_line(errors.read(4000), status)}")
    return data


def _last_line(output: bytes, status: int) -> str:
    lines = [x.strip() for x in output.decode("utf-8", "replace").splitlines() if x.strip()]
    return lines[-1][:300] if lines else f"exit status {status}"


def probe_slurm(nodes: Sequence[Node]) -> dict[str, ProbeAnswer]:
    """A short job on each node that is not set aside; some at a time."""
    probed = [n for n in nodes if n.parts]
    with ThreadPoolExecutor(AT_ONCE) as workers:
        return dict(zip((n.name for n in probed), workers.map(_probe_by_srun, probed), strict=True))


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
    return replace(inventory, nodes=nodes)


def _use(node: Node, answer: ProbeAnswer, rules: Catalog, own_memory: bool) -> Node:
    """A node with its probe. `own_memory`: the probe saw the memory that others will have too (no job's limit)."""
    if isinstance(answer, str):
        return replace(node, notes=(*node.notes, f"could not be probed: {answer}"))
    machine = join_catalogue(answer, rules.accelerators(), rules.cpu_platforms())
    notes = [n for n in node.notes if "--probe" not in n]
    parts = tuple(_use_part(p, node, machine, rules, own_memory, notes) for p in node.parts)
    return replace(node, parts=parts, notes=tuple(dict.fromkeys(notes)))


def _use_part(
    part: NodePart, node: Node, machine: Machine, rules: Catalog, own_memory: bool, notes: list[str]
) -> NodePart:
    memory = replace(machine.memory, available_bytes=None) if own_memory else part.machine.memory
    made = replace(
        machine,
        source="snapshot",
        cpu=replace(machine.cpu, usable_cores=machine.cpu.usable_cores if own_memory else None),
        memory=memory if memory != HostMemory() else machine.memory,
        devices=part.machine.devices,
        interconnect=part.machine.interconnect if part.devices > 1 else None,
        orchestrator=part.machine.orchestrator or machine.orchestrator,
    )
    if part.devices:
        device = _find_device(part, node, machine, rules, notes)
        if device is not None:
            made = replace(made, devices=tuple(
                replace(device, index=d.index, visible=d.visible) for d in part.machine.devices
            ), interconnect=machine.interconnect or made.interconnect)  # fmt: skip
    made = replace(made, text=describe_hardware(made, rules))
    return replace(part, machine=made)


def _find_device(part: NodePart, node: Node, machine: Machine, rules: Catalog, notes: list[str]) -> Device | None:
    """The kind of device that was found for a part; None where none, or several that it may be, were."""
    seen: dict[tuple[object, ...], Device] = {}
    for device in machine.devices:
        if not device.driver_missing:
            plain = replace(device, uuid=None, pci_bus=None, free_bytes=None, processes=None, notes=())
            seen.setdefault((device.name, device.mig_profile, device.total_bytes and device.total_bytes >> 28), plain)
    stated = part.machine.devices[0]
    fitting = [d for d in seen.values() if _fits(d, stated, rules)]
    if len(fitting) == 1:
        return fitting[0]
    listed = ", ".join(d.name for d in list(seen.values())[:4])
    if len(seen) == 1 and len(node.parts) == 1:
        notes.append(f"stated to be {stated.name}; the probe found {listed}, which is believed")
        return next(iter(seen.values()))
    if not seen:
        notes.append("the probe saw no device: they are hidden from jobs that have none, or a driver is missing")
    else:
        notes.append(f"the probe found {listed}; which of them are {stated.name}, is not known")
    return None


def _fits(device: Device, stated: Device, rules: Catalog) -> bool:
    """Whether a device that was found can be what the scheduler calls it."""
    if stated.mig_profile is not None and stated.mig_profile != device.mig_profile:
        return False
    if stated.accelerator is not None:
        return device.accelerator == stated.accelerator
    entry = rules.accelerators().get(device.accelerator or "")
    if entry is None:
        return stated.name.lower() in device.name.lower()
    try:
        words = load_words(rules)
        asked = split_name(words, stated.name.replace("_", " ").replace("-", " "))
        return choose_accelerator(asked, {entry.id: entry}, words) is not None
    except AdvisorError:
        return False


def make_probe_jobs(inventory: Inventory, rules: Catalog) -> str:
    """The manifest for all nodes that are not set aside. Raises BadInput where there is none."""
    import yaml

    words, nodes = read_node_words(rules), [n for n in inventory.nodes if n.parts]
    if not nodes:
        raise BadInput("no node can be used, so there is nothing to probe")
    jobs = [_make_job(i, node, words.probe_job) for i, node in enumerate(nodes)]
    steps = words.probe_steps.replace("INSTALL", install_command())
    return f"{steps}---\n" + "---\n".join(yaml.safe_dump(job, sort_keys=False, width=120) for job in jobs)


def _make_job(i: int, node: Node, like: Json) -> Json:
    job, name = deepcopy(like), re.sub(r"[^a-z0-9-]+", "-", node.name.lower())[:40].strip("-") or "node"
    job["metadata"] |= {"name": f"{job['metadata']['name']}-{i}-{name}", "annotations": {"node": node.name}}
    pod, asked = (
        job["spec"]["template"]["spec"],
        {p.resource: p.devices for p in node.parts if p.devices and p.resource},
    )
    pod["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node.name]}]}
    ]}}}  # fmt: skip
    pod["tolerations"] = [{"key": k, "operator": "Exists"} for k in asked]
    pod["containers"][0]["image"] = IMAGE
    if asked:
        pod["containers"][0]["resources"] = {"limits": {k: str(v) for k, v in asked.items()}}
    return job
