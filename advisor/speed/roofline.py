"""Decode rate from memory traffic: bytes one step reads over the bandwidth reached. No claim beyond its interval.

Efficiencies: rules/speed.yaml, with source and date. Prefill and queueing are not modelled here.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import typed
from advisor.deployment import Deployment, DeviceMemory, Interval, MemoryEstimate, SpeedEstimate
from advisor.engines.flags import own_flag
from advisor.machines.types import Device
from advisor.models.types import Model, Moe

GB = 10**9


class Bounds(msgspec.Struct, frozen=True):
    """A value with bounds."""

    low: float
    value: float
    high: float


class Shares(msgspec.Struct, frozen=True):
    """rules/speed.yaml."""

    source: str
    as_of: str
    decode_share: dict[str, Bounds]
    unknown_cpu_gbs: Bounds
    layer_us: Bounds
    all_reduce_us: Bounds


class _Place(NamedTuple):
    read: float  # bytes per decoded token
    gbs: Bounds  # bandwidth that is reached


def decode(d: Deployment, m: MemoryEstimate, rules: Catalog, concurrency: int = 1) -> SpeedEstimate | None:
    """Tokens a second of one sequence and of all `concurrency` together at the estimate's context, half filled.

    None where a bandwidth is not known. Layers on several devices run one after the other under a layer split; a
    tensor split reads its shares at the same time.
    """
    if d.model.kind != "chat":  # encoders do not decode
        return None
    shares = typed(rules, "speed.yaml", Shares)
    places = _places(d, m, rules, shares, concurrency)
    if not places:
        return None
    ranks = _tensor_ranks(d, rules)
    seconds = [
        (max if ranks > 1 else sum)([p.read / (GB * getattr(p.gbs, bound)) for p in places])
        + _floor(d, shares, ranks, floor)
        for bound, floor in (("high", "low"), ("value", "value"), ("low", "high"))
    ]
    if min(seconds) <= 0:
        return None
    rate = Interval(value=1 / seconds[1], low=1 / seconds[2], high=1 / seconds[0])
    return SpeedEstimate(
        decode_tps=rate,
        tpot_s=Interval(value=seconds[1], low=seconds[0], high=seconds[2]),
        output_tps=Interval(value=rate.value * concurrency, low=rate.low * concurrency, high=rate.high * concurrency),
        basis="modelled",
        notes=(f"from memory traffic; shares of bandwidth: {shares.source} ({shares.as_of})",),
    )


def _tensor_ranks(d: Deployment, rules: Catalog) -> int:
    """Tensor-parallel ranks; 1 for engines that put whole layers on each device."""
    flag = own_flag(rules.engine(d.engine), "tp")
    return int(d.settings.get(flag, 1)) if flag else 1


def _floor(d: Deployment, shares: Shares, ranks: int, bound: str) -> float:
    """Seconds of a step that no bandwidth saves: launches, and all-reduces between ranks."""
    layers = d.model.layout.n_layers if d.model.layout else 0
    each = getattr(shares.layer_us, bound) + (2 * getattr(shares.all_reduce_us, bound) if ranks > 1 else 0)
    return float(layers * each) / 1e6 if d.machine and d.machine.usable_devices else 0.0


def touched_share(model: Model, concurrency: int) -> float:
    """Share of the weights that one step over `concurrency` sequences reads.

    Of the routed experts, the expected part that at least one of the sequences picks: 1 - (1 - k/E)^n.
    """
    if not model.params_active or not model.params_total:
        return 1.0
    one = min(1.0, model.params_active / model.params_total)
    experts = [g for g in model.layout.ffn if isinstance(g, Moe)] if model.layout else []
    if not experts:
        return one
    k, e = experts[0].top_k, experts[0].n_experts
    picked = 1 - (1 - k / e) ** concurrency
    routed = (1 - one) / (1 - k / e) if k < e else 0.0  # all routed experts' share of the weights
    return min(1.0, 1 - routed + routed * picked)


def _runs_on_host(d: Deployment, host: DeviceMemory) -> bool:
    """Whether a step waits for host memory: layers or experts lie there. (Of the embedding: one row a token.)"""
    if not d.machine or not d.machine.usable_devices:
        return True
    moved = any(k in d.settings for k in ("cpu-moe", "n-cpu-moe", "cpu-offload-gb")) or d.engine == "ktransformers"
    return moved or bool(host.kv_cache_bytes or host.recurrent_state_bytes)


def _places(d: Deployment, m: MemoryEstimate, rules: Catalog, shares: Shares, concurrency: int) -> list[_Place] | None:
    devices = d.machine.usable_devices if d.machine else ()
    rows = (*m.devices, *((m.host,) if m.host else ()))
    if any(r.weights_bytes is None or r.kv_cache_bytes is None for r in rows):
        return None
    touched = touched_share(d.model, concurrency)
    out = []
    for row, device in zip(m.devices, devices, strict=False):
        gbs = bandwidth(device, rules)
        if gbs is None:
            return None
        out.append(_Place(_read(row, m, touched, concurrency), _reached(gbs, shares, device.vendor)))
    host = m.host
    if host is not None and _runs_on_host(d, host):
        gbs_host = host_bandwidth(d, rules)
        known = Bounds(gbs_host, gbs_host, gbs_host) if gbs_host else shares.unknown_cpu_gbs
        share = shares.decode_share["cpu"]
        reached = Bounds(known.low * share.low, known.value * share.value, known.high * share.high)
        out.append(_Place(_read(host, m, touched, concurrency), reached))
    return out


def _reached(gbs: float, shares: Shares, vendor: str) -> Bounds:
    s = shares.decode_share.get(vendor) or shares.decode_share["intel"]
    return Bounds(gbs * s.low, gbs * s.value, gbs * s.high)


def _read(row: DeviceMemory, m: MemoryEstimate, touched: float, concurrency: int) -> float:
    """Bytes one step reads at a place: weights that the batch touches, and the filled half of the cache."""
    cache = (row.kv_cache_bytes or 0) / max(1, m.sequences) * concurrency / 2 + (row.recurrent_state_bytes or 0)
    return (row.weights_bytes or 0) * touched + cache


def bandwidth(device: Device, rules: Catalog) -> float | None:
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
    return entry.bandwidth_gbs


def host_bandwidth(d: Deployment, rules: Catalog) -> float | None:
    """Bandwidth of the host's memory, GB/s over all sockets; None when the platform is not known."""
    if d.machine is None:
        return None
    entry = rules.cpu_platforms().get(d.machine.cpu.platform or "")
    if entry is None or entry.bandwidth_gbs_per_socket is None:
        return None
    return entry.bandwidth_gbs_per_socket * (d.machine.cpu.sockets or 1)
