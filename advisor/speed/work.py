"""What a model's pass over tokens costs, before any hardware: bytes of weights, products, cache rows.

All ranks together; `steps` divides them. Weights that are only looked up (the input embedding) are not read by a pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod
from pathlib import Path

from advisor.catalog.types import Quantization
from advisor.deployment import Deployment
from advisor.memo import memoize_by_identity
from advisor.memory import gguf_tensors, gguf_weights, hf_weights
from advisor.memory.gguf_tensors import NoLayout, layer_order
from advisor.models import types as t
from advisor.record import Record

LOOKED_UP = ("token_embd.weight", "per_layer_token_embd.weight")


class ModelWork(Record, frozen=True, kw_only=True):
    """One model in one weight format. Params are multiplied-in elements; bytes are read once per pass."""

    dense_bytes: float  # all but routed experts, output matrix included
    expert_bytes: float  # all routed experts
    dense_params: float  # without the output matrix
    head_params: float
    expert_params: float  # all routed experts
    experts: int  # routed experts of a layer; 0 = dense model
    top_k: int
    layers: int
    moe_layers: int
    blocks: int  # mixers and feed-forward parts of all layers, and what else a layer launches
    other_mixers: int  # mixers that are recurrent or read latent rows: more launches than attention with heads
    hidden: int

    @property
    def weight_bits(self) -> float:
        """Bits a weight, mean over all."""
        params = self.dense_params + self.head_params + self.expert_params
        return 8 * (self.dense_bytes + self.expert_bytes) / params if params else 16.0

    @property
    def active_share(self) -> float:
        """Part of the routed experts that one token goes through."""
        return self.top_k / self.experts if self.experts else 0.0


def count_work(deployment: Deployment, quantization: Quantization) -> ModelWork | None:
    """Costs of the deployment's model in its format; None where the layout is a stub."""
    if deployment.model.layout is None:
        return None
    if deployment.model_path and Path(deployment.model_path).is_file():
        return _summed(deployment.model, gguf_weights.weights_from_file(Path(deployment.model_path)))
    return _of_model(deployment.model, quantization)


def _summed(model: t.Model, weights: gguf_weights.GgufWeights) -> ModelWork:
    """From a GGUF tensor table."""
    sizes = {x.name: x.file_bytes for x in weights.weights if not x.mtp}
    return _work(
        model, [(x, 1, sizes.get(x.name, 0)) for x in gguf_tensors.list_tensors(model) if not x.mtp], weights.tied
    )


@memoize_by_identity
def _of_model(model: t.Model, quantization: Quantization) -> ModelWork:
    lay = model.layout
    assert lay is not None
    try:
        if quantization.family == "gguf":
            return _summed(model, gguf_weights.weights_from_model(model, quantization.id))
        quantization = hf_weights.as_stored(model, quantization)
        kept = re.compile(model.kept_16bit[quantization.id]) if quantization.id in model.kept_16bit else None
        tensors = (
            [(x, 1) for x in gguf_tensors.list_tensors(model) if not x.mtp]
            if kept
            else gguf_tensors.count_equal_tensors(model)
        )
        sizes = [
            (
                x,
                n,
                n
                * prod(x.ne)
                * (quantization.bits_nominal if hf_weights.is_quantized(x, quantization) and not _in(kept, x) else 16)
                / 8,
            )
            for x, n in tensors
        ]
        return _work(model, sizes, lay.tie_embeddings)
    except (NoLayout, KeyError):
        return _from_count(model, quantization)


def _in(kept: re.Pattern[str] | None, tensor: gguf_tensors.GgufTensor) -> bool:
    return kept is not None and kept.search(tensor.name) is not None


def _work(model: t.Model, tensors: Iterable[tuple[gguf_tensors.GgufTensor, int, float]], tied: bool) -> ModelWork:
    """From tensors with how many there are of each and the bytes of all of them."""
    dense_bytes = expert_bytes = dense = head = experts = 0.0
    for tensor, count, size in tensors:
        n = prod(tensor.ne) * count
        if tensor.name in LOOKED_UP:
            if tensor.name == LOOKED_UP[0] and tied:
                dense_bytes += size
                head += n
        elif tensor.expert:
            expert_bytes += size
            experts += n
        else:
            dense_bytes += size
            if tensor.name == "output.weight":
                head += n
            elif len(tensor.ne) > 1:
                dense += n
    return _with_counts(model, dense_bytes, expert_bytes, dense, head, experts)


def _from_count(model: t.Model, quantization: Quantization) -> ModelWork:
    """Parameters x bits, for layouts whose tensors are not known."""
    lay = model.layout
    assert lay is not None
    routed = sum(
        g.n * g.n_experts * (3 if g.act == "gated" else 2) * (g.latent or lay.hidden_size) * g.moe_intermediate
        for g in lay.ffn
        if isinstance(g, t.Moe)
    )
    routed = min(routed, model.params_total)
    head = lay.vocab_size * lay.hidden_size
    dense = max(0, (model.params_text or model.params_total) - routed - head * (1 if lay.tie_embeddings else 2))
    wide = 16 if quantization.covers in ("linear", "experts") else quantization.bits_nominal
    body = 16 if quantization.covers == "experts" else quantization.bits_nominal
    return _with_counts(
        model,
        (dense * body + head * wide) / 8,
        routed * quantization.bits_nominal / 8,
        float(dense),
        float(head),
        float(routed),
    )


def _with_counts(
    model: t.Model, dense_bytes: float, expert_bytes: float, dense: float, head: float, experts: float
) -> ModelWork:
    lay = model.layout
    assert lay is not None
    moe = [g for g in lay.ffn if isinstance(g, t.Moe)]
    widest = max(moe, key=lambda g: g.n, default=None)
    kinds = layer_order(lay.ffn, lay.ffn_order, lay.n_layers)
    return ModelWork(
        dense_bytes=dense_bytes,
        expert_bytes=expert_bytes,
        dense_params=dense,
        head_params=head,
        expert_params=experts,
        experts=widest.n_experts if widest else 0,
        top_k=widest.top_k if widest else 0,
        layers=lay.n_layers,
        moe_layers=sum(isinstance(lay.ffn[k], t.Moe) for k in kinds),
        blocks=_count_blocks(lay),
        other_mixers=sum(_is_other(x) for x in _mixers(lay)),
        hidden=lay.hidden_size,
    )


def _mixers(lay: t.Layout) -> list[t.AttentionGroup]:
    """Every mixer of every layer; layers that have none are left out."""
    n = lay.n_layers if lay.attention_order else max(lay.n_layers, sum(g.n for g in lay.attention))
    groups = [lay.attention[k] for k in layer_order(lay.attention, lay.attention_order, n)]
    parts = [x for g in groups for x in (g.parts if isinstance(g, t.Parallel) else (g,))]
    return [x for x in parts if not isinstance(x, t.NoMixer)]


def _is_other(mixer: t.AttentionGroup) -> bool:
    return not isinstance(mixer, (t.Full, t.Sliding, t.Chunked, t.ShortConv))


def _count_blocks(lay: t.Layout) -> int:
    """Mixers, feed-forward parts, embeddings of layers, and two more for several streams (AltUp: predict, correct)."""
    forward = [lay.ffn[k] for k in layer_order(lay.ffn, lay.ffn_order, lay.n_layers)]
    more = lay.n_layers * (1 + 2 * (lay.per_layer.streams > 1)) if lay.per_layer else 0
    return len(_mixers(lay)) + sum(not isinstance(x, t.NoFfn) for x in forward) + more
