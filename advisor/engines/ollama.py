"""Ollama: llama-server underneath, with context and slot defaults of its own (`defaults` in its entry of the rules)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, KvType, MemoryEstimate, Setting
from advisor.engines import fitting, llama_cpp
from advisor.engines.base import DecidedSetting, get_flag, get_integer, get_setting, list_decided, own_defaults
from advisor.engines.llama_cpp.plan import read_file_weights
from advisor.engines.versions import is_before
from advisor.errors import BadInput
from advisor.machines.types import Device
from advisor.meanings import Version
from advisor.models.types import Model, Softmax
from advisor.record import Value
from advisor.units import GIB, MIB


class ContextTier(msgspec.Struct, frozen=True):
    """The context that is taken from so much memory of all devices on."""

    total_vram_gib_at_least: float
    num_ctx: int


class EngineBeneath(msgspec.Struct, frozen=True):
    """The llama.cpp of Ollama's releases below `before`."""

    before: Version
    version: Version
    source: str


class BatchTier(msgspec.Struct, frozen=True):
    """A batch for contexts above so many tokens, and what it needs to be free."""

    above: int
    batch: int
    headroom: float  # share of the free memory that file and cache may take
    surcharge_mib: int


class PlainBatch(msgspec.Struct, frozen=True):
    """The batch on small CUDA cards without flash attention."""

    above: int
    card_gib_at_most: float
    batch: int


class BatchRule(msgspec.Struct, frozen=True):
    """How releases from `since` on choose the batch that no setting names."""

    since: Version
    usual: int
    by_context: tuple[BatchTier, ...]  # the largest first
    most: float  # share of the free memory for file, cache and surcharge
    without_flash: PlainBatch
    source: str


class OllamaDefaults(msgspec.Struct, frozen=True):
    """What of the engine's own defaults decides memory use."""

    context_by_total_vram: tuple[ContextTier, ...]
    batches: BatchRule
    beneath: tuple[EngineBeneath, ...] = ()


def default_context(total_bytes: int, tiers: tuple[ContextTier, ...]) -> int:
    """Context Ollama takes when none is set, by the machine's total VRAM."""
    there = [t for t in tiers if total_bytes >= t.total_vram_gib_at_least * GIB]
    return max(there, key=lambda t: t.total_vram_gib_at_least).num_ctx


def choose_batch(context: int, predicted: int, free: int, flash: bool, cards: Sequence[Device], rule: BatchRule) -> int:
    """The batch that is taken when none is set. `context`: tokens of all slots; `predicted`: bytes of the file and of a
    plain cache; `free`: bytes free on the cards, 0 where that is not known.

    Source: ollama server/sched.go, automaticGenerationBatch.
    """
    if not flash and any(x.vendor == "nvidia" for x in cards):
        plain = rule.without_flash
        sizes = [fitting.budget_bytes(x) for x in cards if x.vendor == "nvidia"]
        small = any(size is not None and size <= plain.card_gib_at_most * GIB for size in sizes)
        return plain.batch if small and context > plain.above else rule.usual
    most = rule.most * free
    for tier in rule.by_context:
        fits = predicted <= min(most, tier.headroom * free) and tier.surcharge_mib * MIB <= most - predicted
        if context > tier.above and (fits or not (predicted and free)):
            return tier.batch
    return rule.usual


def predict_load(model: Model, file_bytes: int, context: int) -> int:
    """What Ollama takes a model for: its file and a 16-bit cache of all layers, bytes (PredictServerVRAM)."""
    lay = model.layout
    mixers = [g for g in lay.mixers if isinstance(g, Softmax)] if lay is not None else []
    if lay is None or not mixers:
        return file_bytes
    heads = max(g.n_heads for g in mixers)
    plain = all(isinstance(g, Softmax) for g in lay.mixers)
    kv_heads = min(getattr(g, "n_kv_heads", 1) for g in mixers) if plain else 1
    return file_bytes + 4 * lay.n_layers * max(kv_heads, 1) * (lay.hidden_size // heads) * context


def bind(own: Engine) -> OllamaModule:
    """This module's functions with Ollama's own names and defaults; the memory constants are those of llama.cpp."""
    return OllamaModule(own)


class OllamaModule(Value, frozen=True):
    """The functions of an engine module, for one entry of the rules."""

    own: Engine

    def memory(self, deployment: Deployment, entry: Engine, quantization: Quantization) -> MemoryEstimate:
        """Same bytes as the llama-server that Ollama starts. `entry` is llama.cpp's (`runs` in the rules)."""
        inner, asked = _as_llama_server(deployment, self.own)
        spread = bool(get_flag(_list_settings(deployment), "OLLAMA_SCHED_SPREAD"))
        inner = _with_batch(_on_one_card(inner, entry, spread), deployment, self.own)
        estimate = llama_cpp.memory(inner, entry, quantization, llama_cpp.place_whole_layers)
        if not asked:
            note = f"no context length given: {estimate.context_length} tokens, Ollama's default for this much VRAM"
            estimate = replace(estimate, warnings=(*estimate.warnings, note))
        return estimate

    def launch_settings(
        self, deployment: Deployment, entry: Engine, quantization: Quantization
    ) -> tuple[DecidedSetting, ...]:
        """Environment variables of the Ollama server, decided, each with its reason."""
        inner, _ = _as_llama_server(deployment, self.own)
        ctx, slots = int(inner.settings["ctx-size"]), int(inner.settings["parallel"])
        kv = inner.kv_cache_type.k
        small = kv not in ("auto", "f16")
        rows = (
            (True, "OLLAMA_CONTEXT_LENGTH", ctx // slots, "tokens of one request; the default depends on the VRAM"),
            (True, "OLLAMA_NUM_PARALLEL", slots,
             f"requests at once; the default is {self.own.default_slots}, others queue, and memory grows with it"),
            (small, "OLLAMA_FLASH_ATTENTION", 1, "a quantised cache needs it"),
            (small, "OLLAMA_KV_CACHE_TYPE", kv, "smaller KV cache than f16"),
        )  # fmt: skip
        return tuple(replace(x, environment=True) for x in list_decided(rows))


def _as_llama_server(deployment: Deployment, own: Engine) -> tuple[Deployment, bool]:
    """The llama-server that Ollama would start, and whether the context was asked for."""
    s = _list_settings(deployment)
    length, sequences, layers_on_device = (
        own.concepts.context_length,
        own.concepts.sequences,
        own.concepts.layers_on_device,
    )
    asked = get_integer(s, *length.flags, *length.environment, least=1) or deployment.context_length
    vram = sum(x.total_bytes or 0 for x in fitting.used_devices(deployment))
    usual = default_context(vram, own_defaults(own, OllamaDefaults).context_by_total_vram)
    context = asked or min(usual, deployment.model.max_context or 2**31)
    slots = get_integer(s, *sequences.environment, *sequences.flags, least=1) or deployment.sequences
    if deployment.kv_cache_type.k != deployment.kv_cache_type.v:
        raise BadInput(
            f"KV cache type {deployment.kv_cache_type.k}/{deployment.kv_cache_type.v}: Ollama has one type for keys "
            "and values"
        )
    kinds = own.concepts.kv_cache_type
    kv = str(get_setting(s, *kinds.environment) or deployment.kv_cache_type.k).lower()
    if kv not in (*kinds.accepts, "auto"):
        raise BadInput(f"KV cache type {kv!r} is not one Ollama has.", kinds.accepts)
    fa = get_flag(s, "OLLAMA_FLASH_ATTENTION")
    made: dict[str, Setting] = {
        "ctx-size": context * slots,
        "parallel": slots,
        "flash-attn": "off" if fa is False else "on",
    }
    layers = get_setting(s, *layers_on_device.flags)
    if layers is not None and str(layers) not in layers_on_device.unset:  # as many as fit
        made["n-gpu-layers"] = layers
    batch = get_integer(s, "num_batch", least=1)
    if batch is not None:  # llm/llama_server.go: both sizes of a step
        made |= {"batch-size": batch, "ubatch-size": batch}
    if get_flag(s, "use_mmap") is False:
        made["no-mmap"] = True
    return replace(
        _with_reserve(deployment, get_integer(s, "OLLAMA_GPU_OVERHEAD", least=0, most=None) or 0),
        settings=made,
        kv_cache_type=KvType(k=kv, v=kv),
        context_length=None,
        engine_version=_version_beneath(deployment, own),
    ), bool(asked)


def _with_batch(inner: Deployment, deployment: Deployment, own: Engine) -> Deployment:
    """The llama-server with the batch that Ollama chooses for it on these cards, where none is set."""
    rule = own_defaults(own, OllamaDefaults).batches
    older = deployment.engine_version is not None and is_before(deployment.engine_version, rule.since)
    if "ubatch-size" in inner.settings or inner.model.kind != "chat":
        return inner
    cards = fitting.used_devices(inner)
    batch = rule.usual
    if cards and not older:
        context = int(inner.settings["ctx-size"])
        predicted = predict_load(inner.model, read_file_weights(inner).file_bytes, context)
        free = sum(fitting.budget_bytes(x) or 0 for x in cards)
        batch = choose_batch(context, predicted, free, inner.settings["flash-attn"] != "off", cards, rule)
    return replace(inner, settings={**inner.settings, "batch-size": batch, "ubatch-size": batch})


def _list_settings(deployment: Deployment) -> dict[str, Setting]:
    """Variables and parameters, which win."""
    return {**deployment.environment, **deployment.settings} if deployment.environment else deployment.settings


def _with_reserve(deployment: Deployment, reserve: int) -> Deployment:
    """The deployment on devices of which so many bytes stay free for others (`OLLAMA_GPU_OVERHEAD`)."""
    machine = deployment.machine
    if not reserve or machine is None:
        return deployment
    left = tuple(
        x if (free := fitting.budget_bytes(x)) is None else replace(x, free_bytes=max(0, free - reserve))
        for x in machine.devices
    )
    return replace(deployment, machine=replace(machine, devices=left))


def _version_beneath(deployment: Deployment, own: Engine) -> str | None:
    """The version of the llama.cpp beneath, where it is known to differ from the current one."""
    version = deployment.engine_version
    rows = own_defaults(own, OllamaDefaults).beneath
    return next((x.version for x in rows if version is not None and is_before(version, x.before)), None)


def _on_one_card(inner: Deployment, entry: Engine, spread: bool) -> Deployment:
    """The deployment on the single card with most free memory that holds all of it, if one does.

    Ollama spreads a model over cards only where no single one holds it, unless OLLAMA_SCHED_SPREAD is set.
    """
    cards = fitting.used_devices(inner)
    if len(cards) < 2 or spread or inner.machine is None or "n-gpu-layers" in inner.settings:
        return inner
    constants = llama_cpp.read_constants(entry)
    settings = llama_cpp.resolve_llama_settings(inner, constants.usual)
    card = max(cards, key=lambda x: fitting.budget_bytes(x) or 0)
    machine = replace(inner.machine, devices=(card,))
    alone = replace(inner, machine=machine, device_count=None)
    return alone if llama_cpp.fits_on_cards(alone, settings, constants) else inner
