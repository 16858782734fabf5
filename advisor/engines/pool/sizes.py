"""Bytes of one rank of a pool engine: weights, activation peak, what lies outside, and the plan of its KV cache."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from advisor.catalog.types import Quantization
from advisor.deployment import Correction, Deployment
from advisor.engines import fitting
from advisor.engines.base import get_flag, get_number
from advisor.engines.pool.settings import GIB, ActivationPeak, PoolConstants, PoolSettings, RangeGib, WindowPool
from advisor.engines.versions import is_before, list_open, pick_version
from advisor.errors import BadInput
from advisor.machines.types import Device
from advisor.memo import memoize_by_identity
from advisor.memory import adapters, hf_weights, paged_cache
from advisor.memory.hf_weights import RankWeights, expert_growth, pick_tiles
from advisor.memory.layers import LayerCache, cache_layers
from advisor.memory.paged_cache import CacheLayout, PagedCache, StateBlocks
from advisor.memory.working_memory import (
    ImageProfile,
    size_forward_peak,
    size_graphs,
    size_image_profile,
    size_rotary_tables,
    widest_experts,
)
from advisor.models.types import Dense, Full, Mla, Model, Moe, Sliding, native_format
from advisor.record import Record, Value
from advisor.units import MIB

TOWER_BESIDE = 0.15 * GIB
LEFT_OPEN = GIB // 4  # how far a start may be from another of the same model on the same machine
Bounds = tuple[float, float, float]  # low, value, high
ByteBounds = tuple[int, int, int]


class RankBytes(Record, frozen=True, kw_only=True):
    """Bytes of one rank before the cache; activation and overhead as (low, value, high)."""

    weights: RankWeights
    weights_range: tuple[float, float]  # how much smaller or larger a real checkpoint of this format may be
    activation: tuple[int, int, int]
    overhead: tuple[int, int, int]
    independent: bool = True  # the parts' errors are: not those of several releases


class _DeviceTraits(Value, frozen=True):
    """What of the devices the parts depend on; 0: no compute capability is known."""

    unified: bool
    least_capability: float
    first_capability: float
    least_bytes: int  # 0: not known


def size_ranks(
    deployment: Deployment, settings: PoolSettings, constants: PoolConstants, quantization: Quantization
) -> tuple[RankBytes, RankBytes]:
    """Weights, activation peak and overhead of every rank: with the bounds of the version, and with those of all
    releases that may run.

    Source of the activation peak: `activation.source` of the engine's constants.
    """
    weights = _weights(deployment, settings, constants, quantization)
    weights = _with_extras(deployment, settings, constants, quantization, weights)
    activation = _bound_activations(deployment.model, settings, constants, quantization.id)
    profile = find_image_profile(deployment.model, settings, constants)
    if profile is not None:
        activation = tuple(_with_images(x, deployment.model, settings, constants, profile) for x in activation)
    devices = _describe_devices(fitting.used_devices(deployment))
    overhead, open_overhead = _size_overheads(deployment.model, settings, constants, devices)
    read = _from_files(deployment, quantization)
    low, usual, high = (1.0, 1.0, 1.0) if read else hf_weights.size_range(deployment.model, quantization)
    made = RankBytes(
        weights=weights,
        weights_range=(low / usual, high / usual),
        activation=_whole(activation[-1]),
        overhead=overhead,
    )
    if deployment.correction is not None:
        made = correct_sizes(made, deployment.correction)
    if settings.oldest_version is None or deployment.correction is not None:
        return made, made
    joined = _whole(join_bounds(activation))
    return made, replace(made, activation=joined, overhead=open_overhead, independent=False)


def widest_mlp(model: Model) -> int:
    """Widest intermediate of one token's feed-forward pass: dense width, or active experts."""
    groups = model.known_layout.ffn
    widths = [g.intermediate for g in groups if isinstance(g, Dense)]
    widths += [g.top_k * g.moe_intermediate + g.shared_intermediate for g in groups if isinstance(g, Moe)]
    return max(widths, default=0)


def _from_files(deployment: Deployment, quantization: Quantization) -> Path | None:
    """The checkpoint's folder, where it is on disk and holds the format that is asked."""
    if deployment.model_path is None or not Path(deployment.model_path).is_dir() or deployment.model.layout is None:
        return None
    from advisor.memory.checkpoint_weights import has_weights

    stored = native_format(deployment.model)
    plain = not deployment.model.native_quant and quantization.family == "none" and quantization.bits_nominal == 16
    same = quantization.id == stored if stored else plain
    return Path(deployment.model_path) if same and has_weights(Path(deployment.model_path)) else None


def _weights(
    deployment: Deployment, settings: PoolSettings, constants: PoolConstants, quantization: Quantization
) -> RankWeights:
    """As they lie on the devices: experts in whole tiles, where the kernels of a format want them so."""
    stored = _stored_weights(deployment, settings, quantization)
    stored = _with_head(deployment.model, settings.tp, constants, stored)
    first = next(iter(fitting.used_devices(deployment)), None)
    if first is None or not any(stored.experts):
        return stored
    capability = float(first.compute_capability) if first.compute_capability else None
    here = tuple(x for x in constants.expert_tiles if not x.gfx or first.gfx in x.gfx)
    tiles = pick_tiles(here, quantization.id, first.vendor, capability)
    if tiles is None:
        return stored
    growth = expert_growth(deployment.model, tiles, settings.tp, settings.ep)
    experts = tuple(round(x * growth) for x in stored.experts)
    stages = tuple(a - b + c for a, b, c in zip(stored.stages, stored.experts, experts, strict=True))
    return replace(stored, stages=stages, experts=experts)


def _with_head(model: Model, tp: int, constants: PoolConstants, stored: RankWeights) -> RankWeights:
    """With the 16-bit output matrix that a class makes next to the embedding although the checkpoint ties both, or
    without the one that it does not make."""
    lay = model.layout
    pattern = None if lay is None else constants.own_head if lay.tie_embeddings else constants.no_head
    if pattern is None or lay is None or not re.search(pattern, model.architecture or ""):
        return stored
    head = 2 * lay.vocab_size * lay.hidden_size // tp * (1 if lay.tie_embeddings else -1)
    stages, outside = ((*x[:-1], x[-1] + head) for x in (stored.stages, stored.outside))
    return replace(stored, stages=stages, outside=outside)


def _stored_weights(deployment: Deployment, settings: PoolSettings, quantization: Quantization) -> RankWeights:
    """From the files where there are any, else from the architecture."""
    folder = _from_files(deployment, quantization)
    if folder is not None:
        from advisor.memory.checkpoint_weights import checkpoint_rank_weights

        return checkpoint_rank_weights(
            deployment.model, folder, settings.tp, settings.pp, settings.ep, not settings.text_only, settings.partition
        )
    found = hf_weights.rank_weights(
        deployment.model,
        quantization,
        settings.tp,
        settings.pp,
        settings.ep,
        not settings.text_only,
        settings.partition,
    )
    if not settings.fp32 or quantization.family != "none":
        return found
    sizes = {f: tuple(2 * x for x in getattr(found, f)) for f in ("stages", "outside", "experts")}
    return replace(found, **sizes)


def _with_extras(
    deployment: Deployment,
    settings: PoolSettings,
    constants: PoolConstants,
    quantization: Quantization,
    weights: RankWeights,
) -> RankWeights:
    """With adapter slots (16 bit, shared over the stages by layers), the prediction block and a draft (last stage)."""
    stages = list(weights.stages)
    if settings.lora_slots and settings.lora_rank is not None and constants.lora is not None:
        kind = deployment.model.model_type
        experts: adapters.Experts = (
            "none" if not constants.lora.experts else "fused" if kind in constants.lora.fused_experts else "split"
        )
        ep = settings.ep if settings.experts_whole else 1
        slot = adapters.lora_elements(
            deployment.model, settings.lora_rank, settings.tp, ep, experts, kind in constants.lora.outside
        )
        each = slot * 2 * settings.lora_slots
        stages = [x + each // settings.pp for x in stages]
    block = adapters.prediction_params(deployment.model) if settings.prediction else None
    if block is not None:
        # below 8 bits publishers leave the block at 16 (NVFP4 loads with and without it differ by 2 bytes a parameter)
        bits = 16 if quantization.bits_nominal < 8 else min(quantization.bits_nominal, 16)
        stages[-1] += int(block * bits / 8 / settings.tp)
    if deployment.draft is not None:
        draft = hf_weights.rank_weights(deployment.draft.model, deployment.draft.quantization, settings.tp, 1, 1, False)
        stages[-1] += draft.stages[0]
    return weights if stages == list(weights.stages) else replace(weights, stages=tuple(stages), modelled=True)


def widest_dense(model: Model) -> int:
    """Widest intermediate outside the routed experts: dense layers, shared experts."""
    widths = [g.intermediate for g in model.known_layout.ffn if isinstance(g, Dense)]
    widths += [max(g.shared_intermediate, g.parallel_dense) for g in model.known_layout.ffn if isinstance(g, Moe)]
    return max(widths, default=0)


def _whole(bounds: Sequence[float]) -> ByteBounds:
    low, value, high = map(int, bounds)
    return low, value, high


@memoize_by_identity
def _bound_activations(
    model: Model, settings: PoolSettings, constants: PoolConstants, format: str
) -> tuple[Bounds, ...]:
    """Of each release that may run, that of the version last."""
    peaks = list_open(constants.activation, peak_version(model, settings, constants), settings.oldest_version)
    return tuple(_bound_activation(model, settings, peak, format) for peak in peaks)


def peak_version(model: Model, settings: PoolSettings, constants: PoolConstants) -> str | None:
    """The release whose peaks hold: an earlier one, where the model still runs on its runner."""
    rule, version = constants.first_runner, settings.version
    between = rule is not None and version is not None and not is_before(version, rule.since)
    if rule is None or not between or not is_before(version or "", rule.before) or not _keeps_runner(model):
        return version
    return rule.peaks_of


def _keeps_runner(model: Model) -> bool:
    return model.is_moe or any(x.recurrent for x in cache_layers(model))


def find_image_profile(model: Model, settings: PoolSettings, constants: PoolConstants) -> ImageProfile | None:
    """What of images is profiled, where the model has a tower of known dimensions and takes them."""
    vision = model.vision
    if vision is None or not vision.hidden or not vision.intermediate or settings.text_only:
        return None
    found = next((x for x in constants.image_profiles if vision.kind in x.kinds), None)
    return found if settings.switches.images else None


def _with_images(
    bounds: Bounds, model: Model, settings: PoolSettings, constants: PoolConstants, profile: ImageProfile
) -> Bounds:
    """The activation peak with the tower's: it runs before the layers, which run next to what it gives out."""
    assert model.vision is not None
    tower, out = size_image_profile(
        profile, model.vision, settings.tp, settings.batched_tokens, settings.length, settings.switches.videos
    )
    # the buffer that embeddings are merged in, and what else such models keep (three start-up logs of Gemma 3)
    out += 2 * settings.batched_tokens * model.known_layout.hidden_size + TOWER_BESIDE
    low, value, high = (max(x + out, tower * share) for x, share in zip(bounds, profile.share, strict=True))
    rule, version = constants.first_runner, settings.version
    if rule is None or version is None or _keeps_runner(model) or is_before(version, rule.since):
        return low, value, high
    return (bounds[0], bounds[1], high) if is_before(version, rule.blind_before) else (low, value, high)


def _bound_activation(model: Model, settings: PoolSettings, peak: ActivationPeak, format: str) -> Bounds:
    """Bytes of the peak."""
    if not peak.by_shapes or format in peak.not_by_shapes:
        value = activation_bytes(model, settings, peak, format)
        return value * peak.low, value, value * peak.high
    forward, sampler = size_peaks_by_shapes(model, settings, peak)
    low, high = peak.forward_range
    return max(low * forward, peak.low * sampler), max(forward, sampler), max(high * forward, peak.high * sampler)


def correct_sizes(sizes: RankBytes, correction: Correction) -> RankBytes:
    """Sizes with what was logged on the machine: values move, and so do bounds.

    For the model that was logged, bounds are no wider than starts of one launch differ.
    """
    if not correction.same_model:
        low, value, high = (x + correction.beside_bytes for x in sizes.overhead)
        return replace(sizes, overhead=(low, value, high))
    stages = tuple(x + correction.weights_bytes for x in sizes.weights.stages)
    value = sizes.overhead[1] + correction.beside_bytes
    return RankBytes(
        weights=replace(sizes.weights, stages=stages),
        weights_range=(1.0, 1.0),
        activation=(sizes.activation[1],) * 3,
        overhead=(value - LEFT_OPEN, value, value + LEFT_OPEN),
    )


def activation_bytes(model: Model, settings: PoolSettings, peak: ActivationPeak, format: str | None = None) -> float:
    """Bytes of the profiling run's peak on one rank (ActivationPeak says the formula); `format`: of the weights."""
    lay = model.known_layout
    tokens, hidden = settings.batched_tokens, lay.hidden_size
    sampler = _sampler_bytes(model, settings, peak)
    if peak.by_shapes and format not in peak.not_by_shapes:
        return max(size_peaks_by_shapes(model, settings, peak))
    workspace = 0.0
    if peak.expert_workspace:
        routed = max((_routed(g, hidden, settings.tp) for g in lay.ffn if isinstance(g, Moe)), default=0.0)
        workspace = 2 * tokens * routed
    width = widest_dense(model) if peak.expert_workspace else widest_mlp(model)
    layer = 2 * tokens * (peak.mlp * width / settings.tp + peak.hidden * hidden)
    return max(workspace + layer, sampler) if peak.workspace_freed else workspace + max(layer, sampler)


def _sampler_bytes(model: Model, settings: PoolSettings, peak: ActivationPeak) -> float:
    lay = model.known_layout
    rows = settings.sequences if model.kind == "chat" else 0  # encoders and embedding models sample nothing
    return (
        peak.sampler_bytes * rows * lay.vocab_size + 2 * settings.batched_tokens * peak.sampler_hidden * lay.hidden_size
    )


def size_peaks_by_shapes(model: Model, settings: PoolSettings, peak: ActivationPeak) -> tuple[float, float]:
    """Bytes of (the forward pass, the sampler next to the experts' workspace) on one rank."""
    lay = model.known_layout
    tokens = settings.batched_tokens
    cut = 1 if settings.experts_whole else settings.tp
    forward = size_forward_peak(model, tokens, settings.tp, cut) + 2 * tokens * lay.hidden_size + peak.beside_mib * MIB
    return forward, _sampler_bytes(model, settings, peak) + 2 * tokens * widest_experts(model, cut)


def _routed(moe: Moe, hidden: int, tp: int) -> float:
    """Elements per token that fused expert kernels hold: gate and up (or the output, which reuses them), and down's
    input.

    Source: shape of the fused MoE kernel's intermediate caches; lands on the published peaks of MoE models.
    """
    return moe.top_k * (max(2 * moe.moe_intermediate / tp, moe.latent or hidden) + moe.moe_intermediate / tp)


def plan_caches(deployment: Deployment, settings: PoolSettings, constants: PoolConstants) -> tuple[PagedCache, ...]:
    """KV cache of one rank of each pipeline stage. Raises BadInput for a model whose layers are not known."""
    if not cache_layers(deployment.model):
        raise BadInput(
            f"{deployment.model.id}: the layer layout is not in the catalogue, so its KV cache cannot be determined"
        )
    state = 4.0 if deployment.model.model_type in constants.fp32_state_model_types else constants.state_bytes
    if settings.states is not None and settings.states.state_bytes is not None:
        state = settings.states.state_bytes
    extra = deployment.model.mtp.layers if settings.prediction and deployment.model.mtp else 0
    return _plans(
        deployment.model,
        settings.kv_bytes,
        settings.kv_packed,
        settings.tp,
        settings.pp,
        settings.partition,
        state,
        "plain" if settings.switches.full_windows or settings.layout.whole_windows else constants.planner,
        _pick_block(deployment, settings, constants),
        _find_window_share(deployment, constants.window_pool),
        constants.states,
        extra,
        cache_layers(deployment.draft.model) if deployment.draft else (),
        settings.switches.no_latent or deployment.model.model_type in constants.unfolds_latent,
        None if constants.planner == "groups" else int(settings.states is None),
        settings.layout,
    )


def _find_window_share(deployment: Deployment, pool: WindowPool | None) -> float:
    """Tokens that windowed layers keep for each one of the other layers; 1 where they keep all of them. Raises BadInput
    for a share that is none."""
    settings, name = deployment.settings, deployment.model.architecture
    if pool is None or get_flag(settings, pool.unless) or not re.search(pool.architectures, name or ""):
        return 1.0
    asked = get_number(settings, pool.setting)
    if asked is not None and not 0 < asked <= 1:
        raise BadInput(f"setting {pool.setting}: {asked:g} is no share above 0 and at most 1")
    return pool.share if asked is None else asked


def _pick_block(deployment: Deployment, settings: PoolSettings, constants: PoolConstants) -> int:
    """Tokens of a block: the engine's, or what its kernel for wide heads wants on this card."""
    wide = constants.wide_heads
    first = next(iter(fitting.used_devices(deployment)), None)
    if wide is None or first is None or settings.kv_type not in wide.kv_cache_types:
        return constants.block
    heads = {g.head_dim for g in deployment.model.known_layout.attention if isinstance(g, (Full, Sliding))}
    generation = (first.compute_capability or "").split(".")[0]
    return wide.block if wide.head_dim in heads and generation == str(wide.generation) else constants.block


def unfold_latent(model: Model) -> Model:
    """The model with keys of every head cached in place of latent rows, and values that are padded to their width."""
    groups = list(model.known_layout.attention)
    for i, g in enumerate(groups):
        if isinstance(g, Mla) and not g.indexer:
            groups[i] = replace(g, absorbed=False, v_head_dim=g.qk_nope_head_dim + g.qk_rope_head_dim)
    return replace(model, layout=replace(model.known_layout, attention=tuple(groups)))


@memoize_by_identity
def _plans(
    model: Model,
    element: float,
    packed: paged_cache.PackedCacheType | None,
    tp: int,
    pp: int,
    partition: tuple[int, ...],
    state_bytes: float,
    planner: str,
    block: int,
    window_share: float,
    states: tuple[StateBlocks, ...],
    extra: int,
    draft: tuple[LayerCache, ...],
    no_latent: bool,
    held: int | None,  # slots of states that a request takes, where they lie apart
    layout: CacheLayout,
) -> tuple[PagedCache, ...]:
    layers = cache_layers(unfold_latent(model) if no_latent else model)
    out = []
    for stage in range(pp):
        mine = [
            x for i, x in enumerate(layers) if pp == 1 or hf_weights.stage_of(i, len(layers), pp, partition) == stage
        ]
        if stage == pp - 1 and extra:  # a prediction block attends like the last growing layer
            mine += [x for x in layers if x.attends and x.window is None][-1:] * extra
        if stage == pp - 1:  # a draft's layers share the block tables of the last stage
            mine += draft
        if planner == "groups":  # every layer keeps an index, its own or another's
            mine = [replace(x, index=x.index or x.index_of_another) for x in mine]
        specs = paged_cache.make_layer_specs(mine, element, tp, state_bytes, 2.0, packed, states)
        if planner == "plain":  # windowed layers keep everything, or their share of it where others keep all
            share = window_share if any(s.kind == "full" for s in specs) else 1.0
            specs = [
                replace(s, kind="full", row=round(share * s.row)) if s.kind in ("window", "chunk") else s for s in specs
            ]
        apart = None if held is None else paged_cache.plan_apart(specs, block, held)
        out.append(apart or paged_cache.plan_groups(specs, block, layout))
    return tuple(out)


@memoize_by_identity
def _size_overheads(
    model: Model, settings: PoolSettings, constants: PoolConstants, devices: _DeviceTraits
) -> tuple[ByteBounds, ByteBounds]:
    """Bytes of all parts of one rank: of the version, and with the bounds of all releases that may run.

    Source: the engine's constants, each with its own.
    """
    parts = _list_parts(model, settings, constants, devices)
    known, open_ = add_bounds([x[-1] for x in parts]), add_bounds([join_bounds(x) for x in parts], False)
    return _whole([x * GIB for x in known]), _whole([x * GIB for x in open_])


def add_bounds(parts: Sequence[Bounds], independent: bool = True) -> Bounds:
    """The sum of parts. Where the errors of the parts know nothing of one another, those of the sum are the root of
    their squares; those of one release against another go together.

    Source: propagation of errors; published logs lie inside in 90 of 100 cases, and in 93 with plain sums.
    """
    value = sum(v for _, v, _ in parts)
    low, high = ([abs(p[k] - p[1]) for p in parts] for k in (0, 2))
    return (value - math.hypot(*low), value, value + math.hypot(*high)) if independent else (
        value - sum(low), value, value + sum(high)
    )  # fmt: skip


def _describe_devices(devices: Sequence[Device]) -> _DeviceTraits:
    known = [float(x.compute_capability) for x in devices if x.compute_capability]
    first = devices[0].compute_capability if devices else None
    least = min((x.total_bytes or 0 for x in devices), default=0)
    return _DeviceTraits(any(x.unified for x in devices), min(known, default=0), float(first) if first else 0.0, least)


def _list_parts(
    model: Model, settings: PoolSettings, constants: PoolConstants, devices: _DeviceTraits
) -> tuple[tuple[Bounds, ...], ...]:
    """The parts in GiB: of each the bounds of every release that may run, those of the version last."""
    parts: list[tuple[Bounds, ...]] = [
        _list_rows(_list_kinds(constants, settings, devices)[0], settings),
        ((size_rotary_tables(model) / GIB,) * 3,),
    ]
    graphs = [x for x in constants.graphs_gib if settings.sequences >= x.from_sequences]
    captures = not settings.eager and settings.switches.graphs_counted
    if graphs and captures:
        most = max(x.from_sequences for x in graphs)
        parts.append(_list_rows([x for x in graphs if x.from_sequences == most], settings))
    if constants.captured_graphs and captures:
        layers = max(settings.partition, default=-(-model.known_layout.n_layers // settings.pp))
        open_ = list_open(constants.captured_graphs, settings.version, settings.oldest_version)
        capability, largest = devices.first_capability, settings.switches.largest_capture
        parts.append(tuple(size_graphs(x, layers, settings.sequences, capability, largest) for x in open_))
    mixers = {x.mixer for x in cache_layers(model)} if settings.together == 1 else set()
    for row in constants.mixers_gib:
        on_card = row.from_capability <= devices.first_capability < row.below_capability
        if row.mixer in mixers and on_card and devices.least_bytes >= row.from_gib * GIB:
            parts.append(((row.low, row.value, row.high),))
    images, takes_images = constants.images_gib, not settings.text_only and settings.switches.images
    known = find_image_profile(model, settings, constants)
    if images is not None and known is None and model.vision is not None and takes_images:
        parts.append(((images.low, images.value, images.high),))
    return tuple(parts)


def join_bounds(open_: Sequence[Bounds]) -> Bounds:
    """A part where any of several may hold: the value of the last, bounds of all."""
    return min(low for low, _, _ in open_), open_[-1][1], max(high for _, _, high in open_)


def _list_rows(rows: Sequence[RangeGib], settings: PoolSettings) -> tuple[Bounds, ...]:
    return tuple((x.low, x.value, x.high) for x in list_open(rows, settings.version, settings.oldest_version))


def list_overheads(constants: PoolConstants, settings: PoolSettings, devices: Sequence[Device]) -> tuple[RangeGib, ...]:
    """What lies outside the allocator: rows that hold for the release, the most specific first."""
    kinds = _list_kinds(constants, settings, _describe_devices(devices))
    return tuple(pick_version(rows, settings.version) for rows in kinds)


def _list_kinds(constants: PoolConstants, settings: PoolSettings, devices: _DeviceTraits) -> tuple[list[RangeGib], ...]:
    """Rows of all releases that hold for the deployment, the most specific first."""
    kinds: dict[tuple[bool, int, float], list[RangeGib]] = {}
    for row in constants.outside_gib:
        holds = row.unified <= devices.unified and devices.least_capability >= row.from_capability
        if holds and settings.together >= row.from_ranks:
            kinds.setdefault((row.unified, row.from_ranks, row.from_capability), []).append(row)
    return tuple(kinds[k] for k in sorted(kinds, reverse=True))
