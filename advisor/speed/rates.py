"""Peak rates of a deployment's hardware: memory bandwidth, compute, links between ranks, host memory.

From the device where a probe read them, else from the catalogue of accelerators and processor platforms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.types import Quantization
from advisor.deployment import Deployment
from advisor.engines import fitting
from advisor.machines.types import Device, Machine
from advisor.record import Record, Value
from advisor.speed.parallel_plan import BFLOAT, INTEGER, SUMMED_AT_16, VECTOR, ParallelPlan


class HostMemoryRate(Record, frozen=True, kw_only=True):
    """GB/s of host memory: slowest, usual, fastest."""

    gbs: tuple[float, float, float]
    ram_gb: float | None = None  # up to so many of it; None: more


class HostMemoryRates(Record, frozen=True, kw_only=True):
    """Host memory by how much there is, rows in rising order; `unstated`: where that is not known."""

    by_ram: tuple[HostMemoryRate, ...]
    unstated: tuple[float, float, float]
    source: str
    placed_by_socket: tuple[str, ...]  # engines that reach the memory of more sockets than one


class HostBound(Record, frozen=True, kw_only=True):
    """Error bound, a factor, by where a pass reads its weights from, but for the devices."""

    none: float
    known: float
    assumed: float
    disk: float
    source: str


class CoreRate(Record, frozen=True, kw_only=True):
    """TFLOPS of a core, and how many times as many with a flag of the processor."""

    tflops: float
    wider: dict[str, float]
    source: str


class NetworkRates(Record, frozen=True, kw_only=True):
    """GB/s one way between machines; seconds of an exchange besides, with RDMA (from so many GB/s) and without."""

    rates: dict[str, float]
    other: float
    rdma_from: float
    rdma_wait: float
    wait: float
    source: str


class PowerToClock(Record, frozen=True, kw_only=True):
    """Clock under a power limit: (limit / usual limit) ** exponent."""

    exponent: float
    source: str


class MachineRules(Record, frozen=True, kw_only=True):
    """rules/speed-machines.yaml."""

    source: str
    as_of: str
    host_memory: HostMemoryRates
    host_bound: HostBound
    core: CoreRate
    network_gbs: NetworkRates
    power_to_clock: PowerToClock


def load_machine_rules(rules: Catalog) -> MachineRules:
    """The document. Raises BadInput when an overlay spoiled it."""
    return decode_document(rules, "speed-machines.yaml", MachineRules)


class SlowerCase(Value, frozen=True):
    """Seconds of some parts of a pass where a fact is another than is taken: times as many."""

    parts: tuple[str, ...]  # fields of Pass
    decode: float
    prompt: float


class PeakRates(Record, frozen=True, kw_only=True):
    """Peak rates of one rank; 0 = no device. Of a tensor split the slowest rank's, of stages their mean by share."""

    gbs: float
    tflops: float  # of matrix products
    attention_tflops: float
    link_gbs: float
    direct: bool  # ranks are joined by NVLink or its like
    wait_s: float = 0.0  # of an exchange between machines, besides what it sends
    host_gbs: float  # what host memory is read with in decoding
    host_known: bool
    slower: tuple[SlowerCase, ...] = ()  # what is not known, at the ends of its usual range
    host_prompt_gbs: float  # what a prompt's pass gets weights of host memory with
    host_tflops: float | None  # None = the processor is not known
    disk_gbs: float | None = None  # None = not stated


def compute_peak_rates(
    deployment: Deployment, plan: ParallelPlan, quantization: Quantization, rules: Catalog
) -> PeakRates | None:
    """Peak rates of the deployment's ranks; None where a device's bandwidth or compute peak is not known."""
    devices = fitting.used_devices(deployment)
    gbs = tflops = attention = 0.0
    if devices:
        known = []
        for device in devices[: plan.devices]:
            b, widths = device_bandwidth(device, rules), (plan.compute_bits(quantization), plan.attention_bits)
            c, a = (peak_tflops(device, rules, bits) for bits in widths)
            if b is None or c is None or a is None:
                return None
            clock = clock_share(device, rules) if plan.stages == 1 else 1.0  # stages take turns, and rest in between
            known.append((b * (clock if plan.devices == 1 else 1.0), c * clock, a * clock))
        gbs, tflops, attention = _share_of_ranks(known, plan)
    link, direct, wait = _link(deployment, plan, rules)
    host = machine_host_bandwidth(deployment.machine, rules) if deployment.machine is not None else None
    pcie = link_gbs(devices[0], rules, False)[0] if devices and not devices[0].unified else None
    if host and deployment.machine and deployment.engine not in load_machine_rules(rules).host_memory.placed_by_socket:
        host /= deployment.machine.cpu.sockets or 1
    slowest, host_gbs, fastest = (host,) * 3 if host else expect_host_bandwidth(deployment.machine, rules)
    prompt_gbs = [min(x, pcie or x) for x in (slowest, host_gbs, fastest)]
    slower = [
        SlowerCase(("host_s",), host_gbs / x, prompt_gbs[1] / y)
        for x, y in ((slowest, prompt_gbs[0]), (fastest, prompt_gbs[2]))
        if x != host_gbs
    ]
    return PeakRates(
        gbs=gbs,
        tflops=tflops,
        attention_tflops=attention,
        link_gbs=link,
        direct=direct,
        wait_s=wait,
        host_gbs=host_gbs,
        host_known=host is not None,
        slower=(*slower, *_open_cases(devices, plan, link, direct or wait > 0, rules)),
        host_prompt_gbs=prompt_gbs[1],
        host_tflops=host_tflops(deployment, rules),
        disk_gbs=deployment.machine.disk_gbs if deployment.machine is not None else None,
    )


def _share_of_ranks(known: Sequence[tuple[float, ...]], plan: ParallelPlan) -> tuple[float, ...]:
    columns = list(zip(*known, strict=True))
    if plan.stages == 1 or len(plan.shares) != len(known):
        return tuple(min(c) for c in columns)
    return tuple(1 / sum(x / r for x, r in zip(plan.shares, c, strict=True)) for c in columns)


def _link(deployment: Deployment, plan: ParallelPlan, rules: Catalog) -> tuple[float, bool, float]:
    """(GB/s between ranks, whether they are linked directly, seconds that an exchange waits for a network)."""
    devices, machine = fitting.used_devices(deployment), deployment.machine
    ranks = max(plan.tensor, plan.expert_ranks)
    if not devices or ranks == 1:
        return PCIE_GBS[3], False, 0.0
    interconnect = machine.interconnect if machine else None
    if machine and machine.nodes > 1 and ranks > len(machine.usable_devices):
        words, known = (interconnect or "").split("+"), load_machine_rules(rules).network_gbs
        entry = rules.accelerators().get(devices[0].accelerator or "")
        built_in = entry.network_gbs if entry is not None else None
        named = next((known.rates[w] for w in words if w in known.rates), built_in or known.other)
        gbs = machine.network_gbs or named
        return gbs, False, known.rdma_wait if gbs >= known.rdma_from else known.wait
    nvlink = None if interconnect is None else "nvlink" in interconnect or "xgmi" in interconnect
    link, direct = link_gbs(devices[0], rules, nvlink)
    # all ranks share the way through the host
    return (link, True, 0.0) if direct else (link * 2 / max(2, plan.tensor), False, 0.0)


def clock_share(device: Device, rules: Catalog) -> float:
    """Part of its usual clock that a device keeps under its power limit, where the limit is what it draws."""
    entry = rules.accelerators().get(device.accelerator or "")
    usual = device.power_default_watts or (entry.tdp_watts if entry else None)
    if not device.power_limit_watts or not usual:
        return 1.0
    return float(min(1.0, device.power_limit_watts / usual) ** load_machine_rules(rules).power_to_clock.exponent)


def device_bandwidth(device: Device, rules: Catalog) -> float | None:
    """Memory bandwidth of a device, GB/s: read from it, or the catalogue's; a MIG slice has its share of the memory."""
    if device.bandwidth_gbs:
        return device.bandwidth_gbs
    entry = rules.accelerators().get(device.accelerator or "")
    if entry is None or entry.bandwidth_gbs is None:
        return None
    if device.mig_profile:
        if device.total_bytes is None or entry.memory_bytes is None:
            return None
        return entry.bandwidth_gbs * min(1.0, device.total_bytes / entry.memory_bytes)
    return entry.bandwidth_gbs / entry.devices_per_card


def peak_tflops(device: Device, rules: Catalog, bits: float) -> float | None:
    """Dense TFLOPS at the width a format multiplies in: 4, 8 or 16 bit; 16 where the device has no units for it.

    Where there are no units of 4 bits, kernels widen such weights to 16, not to 8 (Marlin, Triton's). 8 bits means FP8
    for servers; `INTEGER` the integer rate, which llama.cpp's kernels use.
    """
    entry = rules.accelerators().get(device.accelerator or "")
    if entry is None:
        return None
    known = entry.tflops
    vector = known.get("fp32", 0.0)
    sixteen = max(known.get("fp16", 0.0), known.get("bf16", 0.0), vector) or _narrow(known)
    wide = [sixteen]
    if bits == VECTOR:
        wide = [vector or sixteen]
    elif bits == BFLOAT:
        wide = [known.get("bf16", 0.0) or sixteen]
    elif bits in (INTEGER, SUMMED_AT_16):
        # tensor cores: twice the rate of 16-bit products that are summed in 16 bit, on cards for players too
        integer = known.get("int8", 0.0)
        wide = [(integer if integer > sixteen else 2 * sixteen) / (1 if bits == INTEGER else 2)]
    elif bits <= 4:
        wide.append(known.get("fp4", 0.0))
    elif bits <= 8:
        wide.append(known.get("fp8", 0.0))
    best = max(wide) / entry.devices_per_card
    if device.gpu_cores and entry.gpu_cores:
        best *= min(1.0, device.gpu_cores / max(entry.gpu_cores))
    if device.mig_profile and device.total_bytes and entry.memory_bytes:
        best *= min(1.0, device.total_bytes / entry.memory_bytes)
    return best or None


def halves_sums(device: Device, rules: Catalog) -> bool:
    """Whether products that are summed at 32 bit run at half of the rate of the matrix units: cards for players. Other
    limits of a kernel weigh less there."""
    entry = rules.accelerators().get(device.accelerator or "")
    return entry is not None and entry.tflops.get("int8", 0.0) > 3 * entry.tflops.get("fp16", math.inf)


def _narrow(known: dict[str, float]) -> float:
    """16-bit rate of a device whose maker states the 4-bit one only: a quarter of it."""
    return known.get("fp8", 0.0) / 2 or known.get("fp4", 0.0) / 4


def link_gbs(device: Device, rules: Catalog, nvlink: bool | None) -> tuple[float, bool]:
    """GB/s one way between neighbouring ranks, and whether it is a direct link.

    `nvlink` None = as the catalogue has the card: server modules are linked, cards need a bridge that is rarely there.
    """
    entry = rules.accelerators().get(device.accelerator or "")
    direct = entry.nvlink_gbs if entry else None
    if direct and (nvlink or (nvlink is None and entry is not None and "card" not in (entry.form or ""))):
        return direct / 2, True
    text = ((entry.pcie if entry else None) or "")[:1]  # `4.0 x16`; 3 where the catalogue is silent
    generation = device.pcie_generation or (int(text) if text.isdigit() else 3)
    return PCIE_GBS.get(generation, 15.75) * (device.pcie_width or 16) / 16, False


PCIE_GBS = {1: 4.0, 2: 8.0, 3: 15.75, 4: 31.5, 5: 63.0, 6: 121.0}  # one way, 16 lanes


def expect_host_bandwidth(machine: Machine | None, rules: Catalog) -> tuple[float, float, float]:
    """GB/s that the memory of an unnamed host has at least, usually and at most, by how much of it there is."""
    total, known = machine.memory.total_bytes if machine else None, load_machine_rules(rules).host_memory
    if not total:
        return known.unstated
    return next(row.gbs for row in known.by_ram if row.ram_gb is None or total <= 1.1e9 * row.ram_gb)


SLOW_LINK_GBS = PCIE_GBS[3] / 2  # 3.0 x8, usual where a board splits its lanes


def _open_cases(
    devices: tuple[Device, ...], plan: ParallelPlan, link: float, direct: bool, rules: Catalog
) -> Iterator[SlowerCase]:
    """Facts of the devices that are not stated and usually vary: GPU cores of a chip, lanes between cards."""
    if not devices:
        return
    entry = rules.accelerators().get(devices[0].accelerator or "")
    if entry and entry.gpu_cores and devices[0].gpu_cores is None and len(entry.gpu_cores) > 1:
        fewer = max(entry.gpu_cores) / min(entry.gpu_cores)
        yield SlowerCase(("products_s", "vector_s", "attention_s"), fewer, fewer)
    if plan.tensor > 1 and not direct and devices[0].pcie_generation is None:
        slower = max(1.0, link / (SLOW_LINK_GBS * 2 / plan.tensor))
        yield SlowerCase(("link_s",), slower, slower)


def machine_host_bandwidth(machine: Machine, rules: Catalog) -> float | None:
    """Bandwidth of a machine's host memory, GB/s over all sockets; None when the platform is not known.

    Where the machine says how fast its memory is: channels x transfers x 8 bytes, with the platform's channels (else 2)
    where it does not say how many there are, and never more than the platform has.
    """
    entry = rules.cpu_platforms().get(machine.cpu.platform or "")
    memory, sockets = machine.memory, machine.cpu.sockets or 1
    if memory.transfers_mts:
        most = entry.channels_per_socket * sockets if entry and entry.channels_per_socket else None
        channels = min(memory.channels or most or 2, most or memory.channels or 2)
        return channels * memory.transfers_mts * 8 / 1000
    if entry is None or entry.bandwidth_gbs_per_socket is None:
        return None
    return entry.bandwidth_gbs_per_socket * sockets


def host_tflops(deployment: Deployment, rules: Catalog) -> float | None:
    """Peak of the processor's cores, TFLOPS; None when their number is not known."""
    cpu = deployment.machine.cpu if deployment.machine else None
    cores = (cpu.usable_cores or cpu.physical_cores) if cpu else None
    if cpu is None or not cores:
        return None
    core = load_machine_rules(rules).core
    return cores * core.tflops * next((f for flag, f in core.wider.items() if flag in (cpu.flags or ())), 1.0)
