"""Bytes of one rank of a pool engine: weights, activation peak, what lies outside, and the plan of its KV cache."""

from __future__ import annotations

import msgspec

from advisor.catalog.types import Quantization
from advisor.deployment import Deployment
from advisor.engines.pool_constants import GIB, Constants
from advisor.engines.pool_settings import Resolved
from advisor.errors import BadInput
from advisor.memory import hf_weights, paged_cache
from advisor.memory.hf_weights import RankWeights
from advisor.memory.layers import cache_layers
from advisor.memory.memo import by_identity
from advisor.memory.paged_cache import PagedCache
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
    activation: tuple[int, int, int]
    overhead: tuple[int, int, int]


def sizes(d: Deployment, r: Resolved, c: Constants, q: Quantization) -> Sized:
    """Weights, activation peak and overhead of every rank.

    Source of the activation peak: `activation.source` of the engine's constants (widest MLP and the sampler's logits).
    """
    w = hf_weights.per_rank(d.model, q, r.tp, r.pp, r.ep, not r.text_only)
    lay = d.model.layout
    a = c.activation
    if lay is None:
        value = 0.03 * w.stages[0]  # assumed: no width is known
    else:
        value = (
            a.mlp * r.batched_tokens * widest_mlp(d.model) * 2 / r.tp + a.sampler_bytes * r.sequences * lay.vocab_size
        )
    outside = max((x for x in c.outside_gib if r.ranks >= x.from_ranks), key=lambda x: x.from_ranks)
    parts = [outside] if r.eager else [outside, c.graphs_gib]
    return Sized(
        weights=w,
        activation=(int(value * a.low), int(value), int(value * a.high)),
        overhead=(
            int(sum(p.low for p in parts) * GIB),
            int(sum(p.value for p in parts) * GIB),
            int(sum(p.high for p in parts) * GIB),
        ),
    )


def cache_plans(d: Deployment, r: Resolved, c: Constants) -> tuple[PagedCache, ...]:
    """KV cache of one rank of each pipeline stage. Raises BadInput for a model whose layers are not known."""
    if not cache_layers(d.model):
        raise BadInput(f"{d.model.id}: the layer layout is not in the catalogue, so its KV cache cannot be told")
    state = 4.0 if d.model.model_type in c.fp32_state_model_types else c.state_bytes
    return _plans(d.model, r.kv_bytes, r.tp, r.pp, state, c.planner, c.block)


@by_identity
def _plans(
    model: Model, element: float, tp: int, pp: int, state_bytes: float, planner: str, block: int
) -> tuple[PagedCache, ...]:
    layers = cache_layers(model)
    out = []
    for stage in range(pp):
        mine = [x for i, x in enumerate(layers) if pp == 1 or hf_weights.stage_of(i, len(layers), pp) == stage]
        specs = paged_cache.specs(mine, element, tp, state_bytes, 2.0)
        if planner == "plain":  # windowed layers keep everything
            specs = [msgspec.structs.replace(s, kind="full") if s.kind == "window" else s for s in specs]
        out.append(paged_cache.plan(specs, block))
    return tuple(out)
