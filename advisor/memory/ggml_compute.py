"""llama.cpp's compute buffer: scratch of the largest graph, planned before any request.

Source: llamacpp-memory facts, section 4 (measured on llama.cpp v0.5.0, CUDA). Exact for dense models with separate gate
and up projections; `graph_width` of others comes from `rules/engines/llama.cpp.yaml` (measured) or a MoE formula
(modelled).
"""

from __future__ import annotations

from collections.abc import Mapping

from advisor.deployment import Basis
from advisor.memory.gguf_shapes import FUSED_GATE_UP, FUSED_QKV
from advisor.models import types as t
from advisor.record import Record

MIB = 2**20


class GraphWidth(Record, frozen=True, kw_only=True):
    """Live F32 elements per token at the graph's peak, and whether that is exact for the architecture."""

    elements: int
    basis: Basis


def query_width(model: t.Model) -> tuple[int, int]:
    """(query heads, query elements per token) of the widest attention layer."""
    best = (0, 0)
    assert model.layout is not None
    for full in model.layout.attention:
        for p in full.parts if isinstance(full, t.Parallel) else (full,):
            if isinstance(p, (t.Full, t.Sliding, t.Chunked, t.Encoder)):
                best = max(best, (p.n_heads, p.n_heads * p.head_dim), key=lambda x: x[1])
            elif isinstance(p, t.Mla):
                best = max(best, (p.n_heads, p.n_heads * (p.kv_lora_rank + p.qk_rope_head_dim)), key=lambda x: x[1])
    return best


def graph_width(model: t.Model, measured: dict[str, int], windows: bool) -> GraphWidth:
    """The factor C of `compute = 4 * ubatch * C + mask`."""
    if model.id in measured:
        return GraphWidth(elements=measured[model.id], basis="measured")
    lay = model.layout
    assert lay is not None
    d = lay.hidden_size
    extra = 9 if windows else 5
    _, q = query_width(model)
    dense = [g.intermediate for g in lay.ffn if isinstance(g, t.Dense)]
    moe = [g for g in lay.ffn if isinstance(g, t.Moe)]
    simple = all(isinstance(g, (t.Full, t.Sliding)) for g in lay.attention)
    if dense and not moe:
        if model.model_type in FUSED_GATE_UP or model.model_type in FUSED_QKV:
            return GraphWidth(elements=3 * max(dense) + 2 * d, basis="modelled")
        return GraphWidth(elements=3 * max(dense) + 2 * d + q + extra, basis="exact" if simple else "modelled")
    if moe:
        m = max(moe, key=lambda g: g.top_k * g.moe_intermediate)
        routed = 2 * m.top_k * (d + m.moe_intermediate) + 2 * d + q
        return GraphWidth(elements=max(routed, 3 * max(dense, default=0) + 2 * d + q), basis="modelled")
    # no feed-forward part: the mixer's own expansion dominates
    inner = max((g.inner for g in lay.attention if isinstance(g, t.Mamba1)), default=2 * d)
    return GraphWidth(elements=6 * inner + 2 * d, basis="modelled")


class NoFlashWidth(Record, frozen=True, kw_only=True):
    """Live F32 elements per token without flash attention: beside the scores of one attention layer, and elsewhere."""

    attention: int
    quantised: int  # `attention` with a quantised K cache
    elsewhere: int = 0  # peak of the feed-forward part; 0 = attention is always larger
    quantised_bytes: int = 64 * 1024  # constant on top with a quantised K cache
    basis: Basis = "measured"


def no_flash_width(model: t.Model, measured: Mapping[str, NoFlashWidth], windows: bool, kv_row: int) -> NoFlashWidth:
    """Widths without flash attention. The formula is exact for dense models with separate q, k, v, gate and up."""
    if model.id in measured:
        return measured[model.id]
    lay = model.layout
    assert lay is not None
    d = lay.hidden_size
    _, q = query_width(model)
    ff = max((g.intermediate for g in lay.ffn if isinstance(g, t.Dense)), default=0)
    fused = model.model_type in FUSED_QKV
    extra = q + 5 if windows else 3
    attention = 2 * d + kv_row + (0 if fused else 2 * q + extra)
    plain = not fused and not any(isinstance(g, t.Moe) for g in lay.ffn)
    return NoFlashWidth(
        attention=attention,
        quantised=attention if fused else attention - q,
        elsewhere=3 * ff + 2 * d + kv_row + extra,
        quantised_bytes=(512 if windows else 64) * 1024,
        basis="exact" if plain and all(isinstance(g, (t.Full, t.Sliding)) for g in lay.attention) else "modelled",
    )


class GraphShape(Record, frozen=True, kw_only=True):
    """What the compute buffer depends on, besides the model."""

    ubatch: int
    cells: int  # per stream
    window_cells: int  # 0 without windowed layers
    streams: int
    flash: bool
    quantized_cache: bool
    quantised_k: bool
    n_heads: int
    latent: int  # width of the latent part of an MLA row; 0 without MLA
    query: int  # query elements per token
    kv_row: int  # K and V elements per token of the widest layer
    hidden: int
    attends: bool  # False: no attention layer at all, hence no mask


def mask_bytes(graph: GraphShape) -> int:
    """The attention mask: F16 with flash attention, F32 without."""
    return (2 if graph.flash else 4) * graph.ubatch * (graph.cells + graph.window_cells) if graph.attends else 0


def device_compute(width: GraphWidth, no_flash: NoFlashWidth, graph: GraphShape) -> int:
    """Bytes of scratch on a single GPU."""
    mask = mask_bytes(graph)
    if graph.attends and not graph.flash:
        return mask + _scores(no_flash, graph)
    size = 4 * graph.ubatch * width.elements + mask
    if graph.quantized_cache and graph.attends:
        # K and V of one layer are expanded to F16 for the kernel
        grown = (
            4 * graph.ubatch * (2 * graph.hidden + 2 * graph.query + 45)
            + mask
            + 2 * graph.cells * graph.streams * graph.kv_row
        )
        size = max(size + 80 * 1024, grown)
    return size


def _scores(no_flash: NoFlashWidth, graph: GraphShape) -> int:
    """Peak without flash attention: all scores of one layer at once, unless the feed-forward part is larger."""
    beside = no_flash.quantised if graph.quantised_k else no_flash.attention
    size = 4 * graph.ubatch * max(beside + graph.cells * graph.n_heads, no_flash.elsewhere)
    turned = 2 * graph.latent * graph.cells * graph.streams  # MLA's V is a transposed copy of the latent rows
    if turned > 4 * graph.ubatch * graph.n_heads * graph.latent:  # smaller copies reuse freed space
        size += turned
    return size + (no_flash.quantised_bytes if graph.quantised_k else 0)


def split_compute(single: int, graph: GraphShape, devices: int) -> list[int]:
    """Bytes per device under a layer split: pipeline copies of the inputs come on top."""
    if devices == 1:
        return [single]
    h = 4 * graph.ubatch * graph.hidden
    first = single + 3 * mask_bytes(graph) + 4 * h
    return [first] + [first + 4 * h] * (devices - 1)


def host_compute(graph: GraphShape, vocab: int, slots: int) -> int:
    """Scratch and logits in host memory beside GPUs."""
    return 8 * graph.ubatch * graph.hidden + mask_bytes(graph) + 4 * vocab * slots
