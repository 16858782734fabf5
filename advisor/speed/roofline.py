"""Decode rate from memory traffic: bytes one step reads over the bandwidth reached. No claim beyond its interval.

Efficiencies: rules/speed.yaml, with source and date. Prefill and queueing are not modelled here.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from advisor.catalog import Catalog
from advisor.deployment import Deployment, DeviceMemory, Interval, MemoryEstimate, SpeedEstimate
from advisor.machines.types import Device
from advisor.models.types import Model

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


class _Place(NamedTuple):
    read: float  # bytes per decoded token
    gbs: Bounds  # bandwidth that is reached


def decode(d: Deployment, m: MemoryEstimate, rules: Catalog, concurrency: int = 1) -> SpeedEstimate | None:
    """Tokens a second of one sequence and of all `concurrency` together at the estimate's context, half filled.

    None where a bandwidth is not known. Layers on several devices run one after the other under a layer split; a
    tensor split reads its shares at the same time.
    """
    shares = msgspec.convert(rules.document("speed.yaml"), Shares)
    active = active_share(d.model)
    places = _places(d, m, rules, shares, active, concurrency)
    if not places:
        return None
    parallel = d.engine not in LAYER_SPLIT and len(m.devices) > 1
    seconds = [
        (max if parallel else sum)([p.read / (GB * getattr(p.gbs, bound)) for p in places])
        for bound in ("high", "value", "low")
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


# engines that put whole layers on each device
LAYER_SPLIT = {
    "llama.cpp",
    "ollama",
    "llama-swap",
    "ramalama",
    "lm-studio",
    "lemonade",
    "docker-model-runner",
    "transformers",
}


def active_share(model: Model) -> float:
    """Share of the weights that one decoded token reads: 1 for dense models."""
    if not model.params_active or not model.params_total:
        return 1.0
    return min(1.0, model.params_active / model.params_total)


def _places(
    d: Deployment, m: MemoryEstimate, rules: Catalog, shares: Shares, active: float, concurrency: int
) -> list[_Place] | None:
    devices = d.machine.usable_devices if d.machine else ()
    out = []
    for row, device in zip(m.devices, devices, strict=False):
        gbs = bandwidth(device, rules)
        if gbs is None:
            return None
        out.append(_Place(_read(row, m, d.model, active, concurrency), _reached(gbs, shares, device.vendor)))
    host = m.host
    if host is not None and (
        not devices or (host.weights_bytes or 0) > 0.05 * sum(r.weights_bytes or 0 for r in m.devices)
    ):
        gbs_host = host_bandwidth(d, rules)
        known = Bounds(gbs_host, gbs_host, gbs_host) if gbs_host else shares.unknown_cpu_gbs
        share = shares.decode_share["cpu"]
        reached = Bounds(known.low * share.low, known.value * share.value, known.high * share.high)
        out.append(_Place(_read(host, m, d.model, active, concurrency), reached))
    return out


def _reached(gbs: float, shares: Shares, vendor: str) -> Bounds:
    s = shares.decode_share.get(vendor) or shares.decode_share["intel"]
    return Bounds(gbs * s.low, gbs * s.value, gbs * s.high)


def _read(row: DeviceMemory, m: MemoryEstimate, model: Model, active: float, concurrency: int) -> float:
    """Bytes one step reads at a place: weights that are active for the batch, and the filled half of the cache."""
    touched = min(1.0, active * concurrency) if model.is_moe else active
    cache = (row.kv_cache_bytes or 0) / max(1, m.sequences) * concurrency / 2 + (row.recurrent_state_bytes or 0)
    return (row.weights_bytes or 0) * touched + cache


def bandwidth(device: Device, rules: Catalog) -> float | None:
    """Memory bandwidth of a device, GB/s: read from it, or the catalogue's."""
    if device.bandwidth_gbs:
        return device.bandwidth_gbs
    entry = rules.accelerators().get(device.accelerator or "")
    return entry.bandwidth_gbs if entry else None


def host_bandwidth(d: Deployment, rules: Catalog) -> float | None:
    """Bandwidth of the host's memory, GB/s over all sockets; None when the platform is not known."""
    if d.machine is None:
        return None
    entry = rules.cpu_platforms().get(d.machine.cpu.platform or "")
    if entry is None or entry.bandwidth_gbs_per_socket is None:
        return None
    return entry.bandwidth_gbs_per_socket * (d.machine.cpu.sockets or 1)
