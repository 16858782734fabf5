"""Bytes of one rank of a pool engine: weights, activation peak, what lies outside, and the plan of its KV cache."""

from __future__ import annotations

from pathlib import Path

import msgspec

from advisor.catalog.types import Quantization
from advisor.deployment import Deployment
from advisor.engines import fitting
from advisor.engines.pool_constants import GIB, Activation, Constants
from advisor.engines.pool_settings import Resolved
from advisor.engines.versions import pick
from advisor.errors import BadInput
from advisor.memo import memoize_by_identity
from advisor.memory import adapters, checkpoint_weights, hf_weights, paged_cache
from advisor.memory.hf_weights import RankWeights
from advisor.memory.layers import LayerCache, cache_layers
from advisor.memory.paged_cache import PagedCache
from advisor.models.native import native_format
from advisor.models.types import Dense, Full, Mla, Model, Moe, Parallel, Sliding
from advisor.record import Record


def widest_mlp(model: Model) -> int:
    """Widest intermediate of one token's feed-forward pass: dense width, or active experts."""
    assert model.layout is not None
    best = 0
    for g in model.layout.ffn:
        if isinstance(g, Dense):
            best = max(best, g.intermediate)
        elif isinstance(g, Moe):
            best = max(best, g.top_k * g.moe_intermediate + g.shared_intermediate)
    return best


def _from_files(d: Deployment, q: Quantization) -> Path | None:
    """The checkpoint's folder, where it is on disk and holds the format that is asked."""
    if d.model_path is None or not Path(d.model_path).is_dir() or d.model.layout is None:
        return None
    stored = native_format(d.model)
    same = q.id == stored if stored else not d.model.native_quant and q.family == "none" and q.bits_nominal == 16
    return Path(d.model_path) if same and checkpoint_weights.has_weights(Path(d.model_path)) else None


def _weights(d: Deployment, r: Resolved, q: Quantization) -> RankWeights:
    """From the files where there are any, else from the architecture."""
    folder = _from_files(d, q)
    if folder is not None:
        return checkpoint_weights.per_rank(d.model, folder, r.tp, r.pp, r.ep, not r.text_only)
    return hf_weights.per_rank(d.model, q, r.tp, r.pp, r.ep, not r.text_only)


def _with_extras(d: Deployment, r: Resolved, c: Constants, q: Quantization, w: RankWeights) -> RankWeights:
    """With adapter slots (16 bit, shared over the stages by layers), the prediction block and a draft (last stage)."""
    stages = list(w.stages)
    if r.lora_slots and r.lora_rank is not None and c.lora is not None:
        kind = d.model.model_type
        experts: adapters.Experts = (
            "none" if not c.lora.experts else "fused" if kind in c.lora.fused_experts else "split"
        )
        ep = r.ep if r.lora_experts_whole else 1
        slot = adapters.lora_elements(d.model, r.lora_rank, r.tp, ep, experts, kind in c.lora.outside)
        each = slot * 2 * r.lora_slots
        stages = [x + each // r.pp for x in stages]
    block = adapters.prediction_params(d.model) if r.prediction else None
    if block is not None:
        # below 8 bits publishers leave the block at 16 (NVFP4 loads with and without it differ by 2 bytes a parameter)
        bits = 16 if q.bits_nominal < 8 else min(q.bits_nominal, 16)
        stages[-1] += int(block * bits / 8 / r.tp)
    if d.draft is not None:
        beside = hf_weights.per_rank(d.draft.model, d.draft.quantization, r.tp, 1, 1, False)
        stages[-1] += beside.stages[0]
    return w if stages == list(w.stages) else msgspec.structs.replace(w, stages=tuple(stages), modelled=True)


def widest_dense(model: Model) -> int:
    """Widest intermediate outside the routed experts: dense layers, shared experts."""
    assert model.layout is not None
    widths = [g.intermediate for g in model.layout.ffn if isinstance(g, Dense)]
    widths += [max(g.shared_intermediate, g.parallel_dense) for g in model.layout.ffn if isinstance(g, Moe)]
    return max(widths, default=0)


def heads(model: Model) -> int | None:
    """Query heads that tensor parallelism has to divide."""
    if model.layout is None:
        return model.stub.n_heads if model.stub else None
    counts = [
        p.n_heads
        for g in model.layout.attention
        for p in (g.parts if isinstance(g, Parallel) else (g,))
        if isinstance(p, (Full, Sliding, Mla))
    ]
    return min(counts, default=None)


class Sized(Record, frozen=True, kw_only=True):
    """Bytes of one rank before the cache; activation and overhead as (low, value, high)."""

    weights: RankWeights
    weights_range: tuple[float, float]  # how much smaller or larger a real checkpoint of this format may be
    activation: tuple[int, int, int]
    overhead: tuple[int, int, int]


def sizes(d: Deployment, r: Resolved, c: Constants, q: Quantization) -> Sized:
    """Weights, activation peak and overhead of every rank.

    Source of the activation peak: `activation.source` of the engine's constants.
    """
    w = _with_extras(d, r, c, q, _weights(d, r, q))
    a = pick(c.activation, r.version)
    value = activation(d.model, r, a) if d.model.layout is not None else 0.03 * w.stages[0]  # assumed: no width known
    unified = any(x.unified for x in fitting.devices(d))
    beside = [x for x in c.outside_gib if r.ranks >= x.from_ranks and (unified or not x.unified)]
    parts = [max(beside, key=lambda x: (x.unified, x.from_ranks))]
    graphs = [x for x in c.graphs_gib if r.sequences >= x.from_sequences]
    if graphs and not r.eager:
        most = max(x.from_sequences for x in graphs)
        parts.append(pick([x for x in graphs if x.from_sequences == most], r.version))
    if c.images_gib is not None and d.model.vision is not None and not r.text_only:
        parts.append(c.images_gib)
    low, usual, high = (1.0, 1.0, 1.0) if _from_files(d, q) else hf_weights.size_range(d.model, q)
    return Sized(
        weights=w,
        weights_range=(low / usual, high / usual),
        activation=(int(value * a.low), int(value), int(value * a.high)),
        overhead=(
            int(sum(p.low for p in parts) * GIB),
            int(sum(p.value for p in parts) * GIB),
            int(sum(p.high for p in parts) * GIB),
        ),
    )


def activation(model: Model, r: Resolved, a: Activation) -> float:
    """Bytes of the profiling run's peak on one rank (Activation says the formula)."""
    lay = model.layout
    assert lay is not None
    tokens, hidden = r.batched_tokens, lay.hidden_size
    sampler = a.sampler_bytes * r.sequences * lay.vocab_size + 2 * tokens * a.sampler_hidden * hidden
    workspace = 0.0
    if a.expert_workspace:
        routed = max((_routed(g, hidden, r.tp) for g in lay.ffn if isinstance(g, Moe)), default=0.0)
        workspace = 2 * tokens * routed
    width = widest_dense(model) if a.expert_workspace else widest_mlp(model)
    layer = 2 * tokens * (a.mlp * width / r.tp + a.hidden * hidden)
    return workspace + max(layer, sampler)


def _routed(g: Moe, hidden: int, tp: int) -> float:
    """Elements per token that fused expert kernels hold: gate and up (or the output, which reuses them), and down's
    input.

    Source: shape of the fused MoE kernel's intermediate caches; lands on the published peaks of MoE models.
    """
    return g.top_k * (max(2 * g.moe_intermediate / tp, g.latent or hidden) + g.moe_intermediate / tp)


def cache_plans(d: Deployment, r: Resolved, c: Constants) -> tuple[PagedCache, ...]:
    """KV cache of one rank of each pipeline stage. Raises BadInput for a model whose layers are not known."""
    if not cache_layers(d.model):
        raise BadInput(f"{d.model.id}: the layer layout is not in the catalogue, so its KV cache cannot be told")
    state = 4.0 if d.model.model_type in c.fp32_state_model_types else c.state_bytes
    extra = d.model.mtp.layers if r.prediction and d.model.mtp else 0
    return _plans(
        d.model,
        r.kv_bytes,
        r.kv_packed,
        r.tp,
        r.pp,
        state,
        c.planner,
        c.block,
        extra,
        cache_layers(d.draft.model) if d.draft else (),
    )


@memoize_by_identity
def _plans(
    model: Model,
    element: float,
    packed: paged_cache.Packed | None,
    tp: int,
    pp: int,
    state_bytes: float,
    planner: str,
    block: int,
    extra: int,
    draft: tuple[LayerCache, ...],
) -> tuple[PagedCache, ...]:
    layers = cache_layers(model)
    out = []
    for stage in range(pp):
        mine = [x for i, x in enumerate(layers) if pp == 1 or hf_weights.stage_of(i, len(layers), pp) == stage]
        if stage == pp - 1 and extra:  # a prediction block attends like the last growing layer
            mine += [x for x in layers if x.attends and x.window is None][-1:] * extra
        if stage == pp - 1:  # a draft's layers share the block tables of the last stage
            mine += draft
        specs = paged_cache.specs(mine, element, tp, state_bytes, 2.0, packed)
        if planner == "plain":  # windowed layers keep everything
            specs = [msgspec.structs.replace(s, kind="full") if s.kind == "window" else s for s in specs]
        out.append(paged_cache.plan(specs, block))
    return tuple(out)
