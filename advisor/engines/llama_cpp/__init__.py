"""llama.cpp (llama-server): memory to the byte, and the settings of a launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import (
    OFFLOADED,
    Basis,
    Correction,
    Deployment,
    DeviceMemory,
    EngineVerification,
    KvCache,
    MemoryEstimate,
    PlaceBytes,
)
from advisor.engines import fitting
from advisor.engines.base import DecidedSetting
from advisor.engines.llama_cpp.file_plan import AllocationPlan, keeps_on_host
from advisor.engines.llama_cpp.fit import Placement, apply_fit, count_layers
from advisor.engines.llama_cpp.fit import count_layers_on_cards as count_layers_on_cards
from advisor.engines.llama_cpp.fit import fits_on_cards as fits_on_cards
from advisor.engines.llama_cpp.fit import place_whole_layers as place_whole_layers
from advisor.engines.llama_cpp.settings import (
    PAIRS,
    LlamaConstants,
    LlamaSettings,
    RangeMib,
    leaves_flash_open,
    read_fit_limits,
    write_overrides,
)
from advisor.engines.llama_cpp.settings import read_constants as read_constants
from advisor.engines.llama_cpp.settings import resolve_llama_settings as resolve_llama_settings
from advisor.machines.types import Device
from advisor.memory.ggml import HOST
from advisor.memory.layers import is_mla
from advisor.units import MIB

QUANTISED = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
ChoosePlacement = Callable[[Deployment, LlamaSettings, LlamaConstants], Placement]
PROMPT_CACHE = "prompt cache in host memory (up to --cache-ram)"
# settings that are carried over as they were given
_DEVICE_NAMES = {"nvidia": "CUDA", "amd": "ROCm", "apple": "Metal"}  # of the backend that is usual for them
CARRIED = {"embedding", "embeddings", "reranking", "pooling", "jinja", "alias"}
PER_STEP = "tokens of one step; decides the compute buffer, written out against a later default"
LARGER_STEP = "tokens of one step: each reads the experts in host memory once, so larger steps read prompts faster"


def memory(
    deployment: Deployment, entry: Engine, quantization: Quantization, place: ChoosePlacement = apply_fit
) -> MemoryEstimate:
    """Where every byte of this llama-server goes, and whether it fits. `place` completes settings that leave the
    placement open.

    Raises BadInput for a setting that cannot be, or a model whose tensors are not known.
    """
    constants = _launch_constants(deployment, entry)
    asked = resolve_llama_settings(deployment, constants.usual)
    placement = place(deployment, asked, constants)
    settings, plan = placement.settings, placement.plan
    devices = fitting.used_devices(deployment)
    rows = [_device_row(plan, i, x, constants, deployment.correction) for i, x in enumerate(devices)]
    host = _host_row(deployment, plan, constants.host_overhead_mib, settings.mapped)
    verdict = fitting.judge_fit(
        rows,
        host,
        needs_host=not devices or settings.cache_on_host or keeps_on_host(plan.where, settings),
        deployment=deployment,
    )
    basis: dict[str, Basis] = {
        "weights": "exact" if plan.exact_weights else "modelled",
        "kv_cache": "exact" if plan.exact_cache else "modelled",
        "recurrent_state": "exact" if plan.exact_cache else "modelled",
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
        warnings=(*refusals, *verdict.warnings, *_notes(deployment, asked, settings, plan)),
        short=verdict.short,
        calibration=deployment.correction.note if deployment.correction else None,
    )


def _launch_constants(deployment: Deployment, entry: Engine) -> LlamaConstants:
    """The engine's constants with the limits of `--fit` that the launch sets."""
    constants = read_constants(entry)
    usual = read_fit_limits(deployment.settings, constants.usual)
    return constants if usual is constants.usual else replace(constants, usual=usual)


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
    measured = constants.device_overhead_mib
    names = (f"{device.vendor} {device.compute_capability}", device.vendor, "other")
    overhead = next(measured[x] for x in names if x in measured)
    # the compute buffer moves by up to 12 % + 20 MiB between builds (llamacpp-memory facts, section 1)
    return fitting.device_row(
        device, _parts(plan, i, correction), _overhead_mib(plan, i, overhead, correction), _slack(plan, i, 0.12)
    )


def _parts(plan: AllocationPlan, place: int, correction: Correction | None) -> PlaceBytes:
    parts = plan.at(place)
    return replace(parts, weights=parts.weights + correction.weights_bytes) if correction else parts


def _overhead_mib(plan: AllocationPlan, place: int, usual: RangeMib, correction: Correction | None) -> fitting.Bounds:
    """(low, value, high) MiB of a place with the scratch of the image encoder, where it lies there."""
    more = correction.beside_bytes / MIB if correction else 0.0
    low, value, high = (x / MIB for x in plan.encoder.get(place, (0, 0, 0)))
    repacked = plan.repacked_more / MIB if place == HOST else 0.0
    return usual.low + more + low, usual.value + more + value, usual.high + more + repacked + high


def _slack(plan: AllocationPlan, place: int, compute: float) -> int:
    """Bytes by which scratch (its part `compute`) and weights of a mix that is only estimated may be off."""
    parts = plan.at(place)
    return int(compute * parts.compute + plan.weights_spread * parts.weights) + 16 * MIB


def _host_row(deployment: Deployment, plan: AllocationPlan, overhead: RangeMib, mapped: bool) -> DeviceMemory:
    alone = deployment.correction if not fitting.used_devices(deployment) else None
    parts = _parts(plan, HOST, alone)
    row = fitting.host_row(deployment, parts, _overhead_mib(plan, HOST, overhead, alone), _slack(plan, HOST, 0.15))
    return replace(row, mapped_bytes=parts.weights - plan.repacked) if mapped else row


def _kv_cache(plan: AllocationPlan, settings: LlamaSettings) -> KvCache:
    if not plan.attends:
        return KvCache(bytes_per_token=0, max_sequences=settings.slots)
    row = int(plan.bytes_per_token) if plan.bytes_per_token.is_integer() else plan.bytes_per_token
    return KvCache(bytes_per_token=row, tokens=plan.cells.tokens, max_sequences=settings.slots)


def _refusals(deployment: Deployment, settings: LlamaSettings) -> list[str]:
    """Why the engine would not start, one line each (llamacpp-memory facts, section 3)."""
    out = []
    pair = settings.cache_k, settings.cache_v
    if settings.cache_v in QUANTISED and not settings.flash:
        out.append(f"a {settings.cache_v} V cache needs flash attention: set flash-attn on")
    elif settings.cache_v in QUANTISED and pair not in PAIRS and leaves_flash_open(deployment):
        out.append(
            f"a {settings.cache_v} V cache needs flash attention, which `auto` switches off for "
            f"{settings.cache_k} keys: take one type for both, or set flash-attn on"
        )
    if settings.cache_k != settings.cache_v and is_mla(deployment.model):
        out.append(
            f"latent attention keeps one row for K and V: {settings.cache_k}/{settings.cache_v} must be one type"
        )
    return out


def _notes(deployment: Deployment, asked: LlamaSettings, settings: LlamaSettings, plan: AllocationPlan) -> list[str]:
    out = []
    if deployment.sequences > settings.slots:
        out.append(
            f"{deployment.sequences} requests are asked, the server has {settings.slots} slots: the rest waits in its "
            "queue"
        )
    if fitting.used_devices(deployment):
        out += _describe_placement(settings, len(plan.where), asked.gpu_layers is None)
    trained = deployment.model.max_context
    each = settings.ctx_size // settings.slots
    if trained and settings.context_was_given and each > trained and not settings.unified:
        out.append(f"{each} tokens are more than {deployment.model.id} was trained for ({trained}): quality falls")
    if settings.ctx_size < asked.ctx_size:
        out.append(
            f"no context length given: --fit shortens the trained {asked.ctx_size} tokens to {settings.ctx_size}"
        )
    elif not settings.context_was_given:
        out.append(f"no context length given: {settings.ctx_size} tokens, the model's trained context")
    return out


def _describe_placement(settings: LlamaSettings, layers: int, by_itself: bool) -> list[str]:
    """What the engine keeps off the cards, by itself or as asked."""
    if settings.gpu_layers is not None and settings.gpu_layers < layers:
        how = "fit on the card" if by_itself else "are asked for on the card"
        return [f"only {settings.gpu_layers} of {layers} layers {how}: {OFFLOADED} (partial offload), which is slow"]
    if by_itself and any(x.place == HOST for x in settings.overrides):
        return ["the experts do not all fit on the card: the engine keeps those of some layers in host memory"]
    return []


def launch_settings(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    constants = _launch_constants(deployment, entry)
    settings = resolve_llama_settings(deployment, constants.usual)
    fitted = apply_fit(deployment, settings, constants).settings
    layers = count_layers(deployment.model)
    return tuple(list_launch_settings(deployment, settings, fitted, constants, layers))


def verify_estimate(deployment: Deployment, entry: Engine, estimate: MemoryEstimate) -> EngineVerification:
    """Ask the engine about the deployment's file on this machine and compare. Raises BadInput, see `verify`."""
    from advisor.engines.llama_cpp import verify

    return verify.verify_estimate(deployment, entry, estimate)


def list_launch_settings(
    deployment: Deployment, settings: LlamaSettings, fitted: LlamaSettings, constants: LlamaConstants, layers: int
) -> Iterator[DecidedSetting]:
    """Every flag in the order of the command; `fitted`: the settings as `--fit` leaves them. The model has `layers`
    layers, the output counted as one."""
    yield from _lengths(deployment, settings, constants)
    if fitting.used_devices(deployment):
        yield from _places(deployment, settings, fitted, layers)
    else:
        yield from _threads(deployment)
    yield from _steps(deployment, settings, constants)
    if _shares_cache(deployment, settings):
        because = "slots share one cache: a long request may take what short ones leave"
        yield DecidedSetting("kv-unified", True, because)
    if settings.flash:
        yield DecidedSetting("flash-attn", "on", "less scratch memory, and quantised V needs it")
    if (settings.cache_k, settings.cache_v) != ("f16", "f16"):
        yield DecidedSetting("cache-type-k", settings.cache_k, "smaller KV cache than f16")
        yield DecidedSetting("cache-type-v", settings.cache_v, "smaller KV cache than f16")
    for name, value in deployment.settings.items():
        if name in CARRIED:
            yield DecidedSetting(name, value, "as asked")
    if deployment.served_name and "alias" not in deployment.settings:
        yield DecidedSetting("alias", deployment.served_name, "as asked")


def _shares_cache(deployment: Deployment, settings: LlamaSettings) -> bool:
    return settings.unified and "kv-unified" in deployment.settings


def _lengths(deployment: Deployment, settings: LlamaSettings, constants: LlamaConstants) -> Iterator[DecidedSetting]:
    per = settings.ctx_size // settings.slots
    if _shares_cache(deployment, settings):
        because = f"{settings.ctx_size} tokens that {settings.slots} slots share"
    elif settings.slots > 1:
        because = f"{settings.slots} x {per} tokens: llama-server's context is the total over its slots"
    else:
        because = "prompt and output of one request; the default is the model's whole trained context"
    yield DecidedSetting("ctx-size", settings.ctx_size, because)
    because = f"requests that run at once; the automatic value is {constants.usual.slots}"
    yield DecidedSetting("parallel", settings.slots, because)


def _places(
    deployment: Deployment, settings: LlamaSettings, fitted: LlamaSettings, layers: int
) -> Iterator[DecidedSetting]:
    if fitted.overrides and not settings.overrides:
        kept = sum(len(x.layers or ()) for x in fitted.overrides if x.place == HOST)
        because = f"the engine fills the GPUs by itself: experts of about {kept} layers stay in host memory"
        yield DecidedSetting("fit", "on", because)
        return
    settings = fitted
    on_host = settings.cpu_moe_layers is not None or any(x.place == HOST for x in settings.overrides)
    if settings.gpu_layers is None or settings.gpu_layers >= layers:
        because = "all layers, but for experts on the host" if on_host else "everything fits on the GPU"
        yield DecidedSetting("n-gpu-layers", "all", because)
    else:
        because = f"{settings.gpu_layers} of {layers} layers fit; the rest runs on the CPU"
        yield DecidedSetting("n-gpu-layers", settings.gpu_layers, because)
    if settings.cpu_moe_layers is not None:
        every = settings.cpu_moe_layers >= layers
        yield DecidedSetting(
            "cpu-moe" if every else "n-cpu-moe",
            True if every else settings.cpu_moe_layers,
            "routed experts of "
            + ("all layers" if every else "so many layers")
            + " stay in host memory, the rest fits on the GPU",
        )
    if settings.overrides:
        names = [f"{_DEVICE_NAMES.get(x.vendor, 'Vulkan')}{i}" for i, x in enumerate(fitting.used_devices(deployment))]
        value = str(deployment.settings.get("override-tensor") or write_overrides(settings.overrides, names))
        because = "matrices of experts that are kept in other memory, so that the GPUs are full"
        yield DecidedSetting("override-tensor", value, because)
    if settings.tensor_split:
        shares = deployment.settings.get("tensor-split") or ",".join(f"{x:g}" for x in settings.tensor_split)
        because = "layers of each GPU" + (
            ": those without experts are small, so that card takes more of them" if on_host else ""
        )
        yield DecidedSetting("tensor-split", str(shares), because)


def _threads(deployment: Deployment) -> Iterator[DecidedSetting]:
    cpu = deployment.machine.cpu if deployment.machine else None
    if cpu is not None and cpu.physical_cores:
        n = min(cpu.physical_cores, int(cpu.usable_cores or cpu.physical_cores) or 1)
        because = "physical cores usable here; SMT siblings do not help decoding"
        yield DecidedSetting("threads", n, because)


def _steps(deployment: Deployment, settings: LlamaSettings, constants: LlamaConstants) -> Iterator[DecidedSetting]:
    if deployment.model.kind != "chat":
        name = "embeddings" if deployment.model.kind == "embedding" else "reranking"
        yield DecidedSetting(name, True, "the server refuses such requests otherwise")
        because = "an input has to fit into one batch"
        yield DecidedSetting("batch-size", settings.batch, because)
        yield DecidedSetting("ubatch-size", settings.ubatch, because)
        return
    if settings.batch != constants.usual.batch_size:
        yield DecidedSetting("batch-size", settings.batch, "no smaller than a step")
    because = PER_STEP if settings.ubatch <= constants.usual.ubatch_size else LARGER_STEP
    yield DecidedSetting("ubatch-size", settings.ubatch, because)
