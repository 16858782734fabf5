"""llama.cpp (llama-server): memory to the byte, and the settings of a launch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import cache

import msgspec

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Basis, Correction, Deployment, DeviceMemory, KvCache, MemoryEstimate
from advisor.engines import fitting
from advisor.engines.base import DecidedSetting
from advisor.engines.llama_cpp_constants import LlamaConstants, RangeMib, read_constants
from advisor.engines.llama_cpp_launch import list_launch_settings
from advisor.engines.llama_cpp_plan import AllocationPlan, plan_allocation, read_file_weights
from advisor.engines.llama_cpp_settings import ALL_LAYERS, LlamaSettings, resolve_llama_settings
from advisor.engines.llama_cpp_verify import verify_estimate
from advisor.machines.types import Device
from advisor.memory import gguf_weights
from advisor.memory.gguf_tensors import as_gguf
from advisor.memory.hf_weights import is_mla
from advisor.memory.layers import cache_layers
from advisor.memory.placement import HOST
from advisor.units import MIB

QUANTISED = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
PROMPT_CACHE = "prompt cache in host memory (up to --cache-ram)"


def memory(deployment: Deployment, entry: Engine, quantization: Quantization) -> MemoryEstimate:
    """Where every byte of this llama-server goes, and whether it fits.

    Raises BadInput for a setting that cannot be, or a model whose tensors are not known.
    """
    constants = read_constants(entry)
    settings = resolve_llama_settings(deployment, constants.usual)
    planned = _planned(deployment, settings, constants)
    chosen = choose_layers(deployment, settings, constants, planned)
    plan = planned(chosen)
    devices = fitting.used_devices(deployment)
    rows = [_device_row(plan, i, x, constants, deployment.correction) for i, x in enumerate(devices)]
    host = _host_row(deployment, plan, constants.host_overhead_mib, settings.mapped)
    verdict = fitting.judge_fit(
        rows,
        host,
        needs_host=not devices or HOST in plan.where or settings.cpu_moe_layers is not None,
        deployment=deployment,
    )
    basis: dict[str, Basis] = {
        "weights": "exact" if plan.exact_weights else "modelled",
        "kv_cache": "exact",
        "recurrent_state": "exact",
        "compute": plan.compute_basis,
        "overhead": "assumed",
    }
    refusals = _refusals(deployment, settings)
    length, sequences = _held(deployment, settings, plan)
    return MemoryEstimate(
        fits=False if refusals else verdict.fits,
        devices=tuple(rows),
        host=host,
        kv_cache=_kv_cache(plan, settings),
        context_length=length,
        sequences=sequences,
        basis=basis,
        not_modelled=(*plan.notes, PROMPT_CACHE),
        warnings=(*refusals, *verdict.warnings, *_notes(deployment, settings, plan, chosen)),
        short=verdict.short,
        calibration=deployment.correction.note if deployment.correction else None,
    )


def _held(deployment: Deployment, settings: LlamaSettings, plan: AllocationPlan) -> tuple[int, int]:
    """(tokens of a request, requests) that the verdict is about. Slots that share a cache hold fewer requests of full
    length than there are slots."""
    if not settings.unified:
        return plan.cells.cells, settings.slots
    asked = deployment.context_length
    if asked and settings.ctx_size >= asked * deployment.sequences and settings.slots >= deployment.sequences:
        return asked, deployment.sequences
    return settings.ctx_size // settings.slots, settings.slots


def _device_row(
    plan: AllocationPlan, i: int, device: Device, constants: LlamaConstants, correction: Correction | None
) -> DeviceMemory:
    overhead = constants.device_overhead_mib.get(device.vendor) or constants.device_overhead_mib["other"]
    # the compute buffer moves by up to 12 % + 20 MiB between builds (llamacpp-memory facts, section 1)
    more = correction.beside_bytes / MIB if correction else 0.0
    return fitting.device_row(
        device,
        fitting.bytes_at(plan.weights, i) + (correction.weights_bytes if correction else 0),
        fitting.bytes_at(plan.cache, i),
        fitting.bytes_at(plan.state, i),
        fitting.bytes_at(plan.compute, i),
        overhead_mib=(overhead.low + more, overhead.value + more, overhead.high + more),
        slack=_slack(plan, i, 0.12),
    )


def _slack(plan: AllocationPlan, place: int, compute: float) -> int:
    """Bytes by which scratch (its part `compute`) and weights of a mix that is only estimated may be off."""
    off = compute * fitting.bytes_at(plan.compute, place) + plan.weights_spread * fitting.bytes_at(plan.weights, place)
    return int(off) + 16 * MIB


def _host_row(deployment: Deployment, plan: AllocationPlan, overhead: RangeMib, mapped: bool) -> DeviceMemory:
    alone = deployment.correction if not fitting.used_devices(deployment) else None
    more = alone.beside_bytes / MIB if alone else 0.0
    weights = fitting.bytes_at(plan.weights, HOST) + (alone.weights_bytes if alone else 0)
    row = fitting.host_row(
        deployment,
        weights,
        fitting.bytes_at(plan.cache, HOST),
        fitting.bytes_at(plan.state, HOST),
        fitting.bytes_at(plan.compute, HOST),
        overhead_mib=(overhead.low + more, overhead.value + more, overhead.high + more + plan.repacked_more / MIB),
        slack=_slack(plan, HOST, 0.15),
    )
    return msgspec.structs.replace(row, mapped_bytes=weights - plan.repacked) if mapped else row


def _kv_cache(plan: AllocationPlan, settings: LlamaSettings) -> KvCache:
    if not plan.attends:
        return KvCache(bytes_per_token=0, max_sequences=settings.slots)
    row = int(plan.bytes_per_token) if plan.bytes_per_token.is_integer() else plan.bytes_per_token
    return KvCache(bytes_per_token=row, tokens=plan.cells.tokens, max_sequences=settings.slots)


def _refusals(deployment: Deployment, settings: LlamaSettings) -> list[str]:
    """Why the engine would not start, one line each (llamacpp-memory facts, section 3)."""
    out = []
    if settings.cache_v in QUANTISED and not settings.flash:
        out.append(f"a {settings.cache_v} V cache needs flash attention: set flash-attn on")
    if settings.cache_k != settings.cache_v and is_mla(deployment.model):
        out.append(
            f"latent attention keeps one row for K and V: {settings.cache_k}/{settings.cache_v} must be one type"
        )
    return out


def _notes(deployment: Deployment, settings: LlamaSettings, plan: AllocationPlan, chosen: int | None) -> list[str]:
    out = []
    if deployment.sequences > settings.slots:
        out.append(
            f"{deployment.sequences} requests are asked, the server has {settings.slots} slots: the rest waits in its "
            "queue"
        )
    if (
        chosen is not None
        and settings.gpu_layers is None
        and fitting.used_devices(deployment)
        and chosen < len(plan.where)
    ):
        out.append(
            f"only {chosen} of {len(plan.where)} layers fit on the card: "
            "the rest runs on the CPU (partial offload), which is slow"
        )
    trained = deployment.model.max_context
    if (
        trained
        and settings.context_was_given
        and settings.ctx_size // settings.slots > trained
        and not settings.unified
    ):
        out.append(
            f"{settings.ctx_size // settings.slots} tokens are more than {deployment.model.id} was trained for "
            f"({trained}): quality falls"
        )
    if not settings.context_was_given:
        out.append(f"no context length given: {settings.ctx_size} tokens, the model's trained context")
    return out


AllocationPlanner = Callable[[int | None], AllocationPlan]  # layers on the GPU -> where everything goes


def _planned(deployment: Deployment, settings: LlamaSettings, constants: LlamaConstants) -> AllocationPlanner:
    """Plans of one deployment, each made once."""
    return cache(lambda layers: plan_allocation(deployment, settings, constants, layers))


def choose_layers(
    deployment: Deployment, settings: LlamaSettings, constants: LlamaConstants, planned: AllocationPlanner | None = None
) -> int | None:
    """Layers on the GPU: those asked for, else as many as `--fit on` would reach; None when no GPU is there."""
    planned = planned or _planned(deployment, settings, constants)
    devices = fitting.used_devices(deployment)
    if not devices or settings.gpu_layers is not None:
        return settings.gpu_layers if devices else None
    if not settings.fit or any(fitting.budget_bytes(x) is None for x in devices):
        return ALL_LAYERS
    plan = planned(ALL_LAYERS)
    used = _used(deployment, plan, constants)
    if all(u <= room for u, room in used):
        return ALL_LAYERS
    total, unit = len(cache_layers(as_gguf(deployment.model))) + 1, len(devices)
    near = total - _too_many(deployment, sum(u - room for u, room in used), plan.cache)

    def fits(n: int) -> bool:
        return all(used <= room for used, room in _used(deployment, planned(n), constants))

    # layers are shared out, so as many more as there are devices make the fullest one fuller
    each = _most(lambda k: fits(k * unit), 0, -(-total // unit), near // unit)
    return _most(fits, each * unit, min(total, (each + 1) * unit), each * unit + 1 if unit > 1 else near)


def _most(fits: Callable[[int], bool], low: int, high: int, near: int) -> int:
    """The largest number that fits, from `low` (which does) to below `high` (which does not), sought near `near`."""
    step = 1
    while low < high - 1:
        near = min(max(near, low + 1), high - 1)
        if fits(near):
            low, near = near, near + step
        else:
            high, near = near, near - step
        step *= 2
        if step > high - low:
            near = (low + high) // 2
    return low


def count_layers_on_cards(deployment: Deployment, entry: Engine) -> tuple[int, int] | None:
    """(layers that fit on the cards, all of them, the output counted as one); None without a card."""
    free = {k: v for k, v in deployment.settings.items() if k not in ("n-gpu-layers", "fit")}
    placed = msgspec.structs.replace(deployment, settings=free)
    constants = read_constants(entry)
    n = choose_layers(placed, resolve_llama_settings(placed, constants.usual), constants)
    total = len(cache_layers(as_gguf(deployment.model))) + 1
    return None if n is None else (min(n, total), total)


def fits_on_cards(deployment: Deployment, settings: LlamaSettings, constants: LlamaConstants, layers: int) -> bool:
    """Whether that many layers leave so much of each device free, as `--fit` wants it (`--fit-target`)."""
    if any(fitting.budget_bytes(x) is None for x in fitting.used_devices(deployment)):
        return False
    return all(
        used <= room
        for used, room in _used(deployment, plan_allocation(deployment, settings, constants, layers), constants)
    )


def _too_many(deployment: Deployment, over: int, cache: Mapping[int, int]) -> int:
    """About how many layers, from the first on, hold `over` bytes: what the search begins with."""
    sums = gguf_weights.sum_running(read_file_weights(deployment))
    n = len(sums.device) - 1
    each = sum(cache.values()) / max(1, n)
    held = [a + b + i * each for i, (a, b) in enumerate(zip(sums.device, sums.expert_device, strict=True))]
    return bisect_left(held, over)


def _used(deployment: Deployment, plan: AllocationPlan, constants: LlamaConstants) -> list[tuple[int, int]]:
    """(bytes that a plan takes, bytes that `--fit` lets it take) of each device."""
    kept_free = constants.usual.fit_target_mib * MIB
    kinds = (plan.weights, plan.cache, plan.state, plan.compute)
    return [
        (sum(fitting.bytes_at(k, i) for k in kinds), (fitting.budget_bytes(x) or 0) - kept_free)
        for i, x in enumerate(fitting.used_devices(deployment))
    ]


def launch_settings(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    constants = read_constants(entry)
    settings = resolve_llama_settings(deployment, constants.usual)
    layers = len(cache_layers(as_gguf(deployment.model))) + 1
    on_cards = choose_layers(deployment, settings, constants) if fitting.used_devices(deployment) else None
    return tuple(list_launch_settings(deployment, settings, constants, on_cards, layers))


__all__ = [
    "ALL_LAYERS",
    "choose_layers",
    "count_layers_on_cards",
    "fits_on_cards",
    "launch_settings",
    "memory",
    "read_constants",
    "resolve_llama_settings",
    "verify_estimate",
]
