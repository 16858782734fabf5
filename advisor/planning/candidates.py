"""What is tried on one engine: weight formats x cache types x cards x host memory, the best first, pruned by bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from advisor import formats
from advisor.catalog import Catalog
from advisor.catalog.types import Engine, Quantization
from advisor.decision.additions import Additions
from advisor.deployment import Deployment, KvType, MemoryEstimate
from advisor.engines import fitting
from advisor.engines.base import EngineModule
from advisor.engines.flags import find_own_flag, takes_share_of_device
from advisor.engines.llama_cpp_plan import count_file_bytes
from advisor.engines.npu import with_longest_prompt
from advisor.errors import BadInput
from advisor.estimation import with_draft
from advisor.machines.types import Machine
from advisor.planning.format_candidates import FOUR_BIT_QUALITY, list_cache_types, order_formats
from advisor.planning.layouts import with_settings
from advisor.planning.search_request import SearchRequest
from advisor.planning.types import TriedFormat
from advisor.planning.workload_rules import load_workload_defaults
from advisor.record import Value
from advisor.units import format_gib

LEAST_SHARE = 0.8  # of parameters x bits: no format of the catalogue stores less
FREE_SHARE = 0.97  # of what is free on a busy card: what a server may ask for without failing at start


class EngineTools(Value, frozen=True):
    """What estimates and settings of one engine need."""

    entry: Engine
    module: EngineModule
    inner: Engine  # the entry whose memory constants it reads
    named: Engine  # the entry whose names its settings have
    added: Additions
    rules: Catalog
    warnings: tuple[str, ...] = ()  # of the hard filters


class Attempt(Value, frozen=True):
    """A format with a cache type, on the cards alone or with host memory next to them."""

    chosen: formats.FormatChoice
    cache: str
    offload: bool
    narrow: bool  # below four bits


def list_attempts(tools: EngineTools, search: SearchRequest, usable: list[formats.FormatChoice]) -> list[Attempt]:
    """What is tried, the best first: cards alone before host memory, four bits and more before less."""
    gguf = formats.format_family(tools.entry, tools.rules) == "gguf"
    both = (False, True) if gguf and search.machine.usable_devices else (False,)
    order = list(order_formats(usable, list_cache_types(tools.inner, search)))
    return [
        Attempt(chosen, kv, offload, chosen.quantization.quality < FOUR_BIT_QUALITY)
        for offload in both
        for kv, chosen in order
        if search.limits is None
        or (chosen.quantization.bits_nominal <= search.limits.most_bits and kv == search.limits.cache)
    ]


def make_base(tools: EngineTools, search: SearchRequest, attempt: Attempt, machine: Machine) -> Deployment:
    """The deployment of an attempt for one request on a machine, before it is laid out over cards."""
    entry, added, context = tools.entry, tools.added, search.traffic.context_length
    base = Deployment(
        model=search.model,
        engine=entry.id,
        engine_version=(search.policy.version(entry.id, search.facts) or (None,))[0]
        or machine.installed_version(entry.id),
        quantization=attempt.chosen.quantization.id,
        machine=machine,
        context_length=context,
        kv_cache_type=KvType(k=attempt.cache, v=attempt.cache),
        model_path=search.path,
        settings=dict(added.settings),
        because=dict(added.because),
        port=(entry.port or 8000) + search.port_offset if search.port_offset else None,
    )
    settings = with_longest_prompt(base.settings, entry, context)
    if settings != base.settings:
        new = dict.fromkeys(settings.keys() - base.settings.keys(), "the longest prompt is fixed at start")
        base = msgspec.structs.replace(base, settings=settings, because={**base.because, **new})
    base = with_draft(base, entry, tools.rules)[0] if added.settings else base
    batch, step = find_own_flag(tools.named, "logical_batch"), find_own_flag(tools.named, "batched_tokens")
    if batch and step and search.model.kind != "chat":  # an input has to fit into one batch
        base = with_settings(base, {batch: context, step: context})
    share = _memory_share(entry, machine, tools.rules)
    flag = find_own_flag(entry, "memory_share")
    if share is None or flag is None:
        return base
    why = {**base.because, flag: "a part of what is free: the system, or others, use the same memory"}
    return with_settings(msgspec.structs.replace(base, because=why), {flag: share})


def _memory_share(entry: Engine, machine: Machine, rules: Catalog) -> float | None:
    """The share of each device to ask for: less than the engine's own where the system or others live there, too."""
    devices = machine.usable_devices
    if not takes_share_of_device(entry) or not devices:
        return None
    shares = [load_workload_defaults(rules).unified_memory_share] if any(d.unified for d in devices) else []
    for device in devices:
        if device.free_bytes is not None and device.total_bytes and device.free_bytes < 0.9 * device.total_bytes:
            shares.append(math.floor(100 * FREE_SHARE * device.free_bytes / device.total_bytes) / 100)
    return max(0.05, min(shares)) if shares else None


def find_too_large(
    tools: EngineTools, search: SearchRequest, quantization: Quantization, host: bool
) -> TriedFormat | None:
    """Formats whose weights alone, at the least, exceed all memory there is: no estimate is needed to refuse them."""
    sizes = [x.free_bytes if x.free_bytes is not None else x.total_bytes for x in search.machine.usable_devices]
    ram = search.machine.memory.usable_bytes
    if any(s is None for s in sizes) or search.path is not None or ((host or not sizes) and ram is None):
        return None
    room = sum(s for s in sizes if s is not None) * search.machine.nodes + ((ram or 0) if host or not sizes else 0)
    least = int(LEAST_SHARE * search.model.params_total * quantization.bits_nominal / 8)
    if formats.format_family(tools.entry, tools.rules) == "gguf" and least > LEAST_SHARE**2 * room:
        with suppress(BadInput):
            least = count_file_bytes(search.model, quantization.id, host or not sizes)
    if least <= room:
        return None
    text = f"{quantization.id} does not fit: {format_gib(least)} of weights at the least, {format_gib(room)} there"
    alone = least if not (host and sizes) else None  # what lies where is not known yet
    return TriedFormat(quantization=quantization.id, fits=False, text=text, needs_bytes=alone)


WIDER = 1.2  # bits over another format's: what is this much wider is larger, whatever each leaves at 16 bit
FAR = 1.15  # formats of one width differ by less, so where one is short by this much all of its width are


class Bounds:
    """What is known not to start: with host memory or without, formats of so many bits and more."""

    def __init__(self) -> None:
        self.floor = {False: math.inf, True: math.inf}

    def refuses(self, attempt: Attempt) -> bool:
        """Whether a narrower format with the smaller cache did not start."""
        return attempt.chosen.quantization.bits_nominal >= self.floor[attempt.offload]

    def learn(self, attempt: Attempt, deployment: Deployment, estimate: MemoryEstimate) -> None:
        """Remember that the format does not start on all cards: clearly wider ones do not either, nor, where it is far
        from it, those of its own width."""
        bits = attempt.chosen.quantization.bits_nominal
        floor = bits if is_far(deployment, estimate) else WIDER * bits
        self.floor[attempt.offload] = min(self.floor[attempt.offload], floor)


def is_far(deployment: Deployment, estimate: MemoryEstimate) -> bool:
    """Whether a place wants far more than it has; memory that devices and host share is one place."""
    places = [
        x
        for x in (*estimate.devices, estimate.host, fitting.merge_rows(deployment, estimate.devices, estimate.host))
        if x is not None
    ]
    return any(r.budget_bytes is not None and (r.low_bytes or 0) > FAR * r.budget_bytes for r in places)


def find_smallest(attempts: Sequence[Attempt], offload: bool) -> Attempt | None:
    """The attempt that takes the least memory; None where there is little to save by asking it first."""
    here = [a for a in attempts if a.offload is offload]
    if len(here) < 4:
        return None
    return min(here, key=lambda a: (a.chosen.quantization.bits_nominal, a.cache == "auto"))


def describe_failure(deployment: Deployment, estimate: MemoryEstimate, quantization: Quantization) -> str:
    """Why a deployment does not fit, in one line."""
    weights = sum(r.weights_bytes or 0 for r in estimate.devices) or (
        estimate.host.weights_bytes or 0 if estimate.host else 0
    )
    cards = f" on {len(estimate.devices)} cards" if len(estimate.devices) > 1 else ""
    cache = "" if deployment.kv_cache_type.k == "auto" else f" with {deployment.kv_cache_type.k} KV cache"
    what = (
        "; ".join(dict.fromkeys(estimate.short))
        or "; ".join(w for w in estimate.warnings if "divisible" in w or "needs" in w)
        or "not enough memory"
    )
    return (
        f"{quantization.id}{cards}{cache} does not fit: {format_gib(weights)} ({weights / 1e9:.1f} GB) of weights; "
        f"{what}"
    )


def list_warnings(attempt: Attempt, warnings: Sequence[str]) -> Iterator[str]:
    """Notes of a format, then those of the engine here."""
    if attempt.chosen.note:
        yield attempt.chosen.note
    yield from warnings
