"""Weights of a safetensors checkpoint on the ranks of a tensor/pipeline-parallel engine.

The tensor list is the architecture's (advisor.memory.gguf_tensors; element counts equal the checkpoint's); this module
knows which tensors a quantization covers and which ones ranks share.
Source: vLLM 0.33.0's own model classes on the meta device (vllm_kv.csv).
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod

from msgspec.structs import replace

from advisor.catalog.types import Quantization
from advisor.memo import memoize_by_identity
from advisor.memory import gguf_tensors
from advisor.memory.gguf_tensors import GgufTensor, NoLayout
from advisor.models import types as t
from advisor.patterns import pattern_when_used
from advisor.record import Record, Value


class RankWeights(Record, frozen=True, kw_only=True, cache_hash=True):
    """Bytes of weights per pipeline rank (every tensor-parallel rank of a stage holds the same amount)."""

    stages: tuple[int, ...]
    experts: tuple[int, ...]  # the routed experts' part of `stages`
    outside: tuple[int, ...]  # the part outside the layers: embedding, output matrix
    modelled: bool  # True: sized from the parameter count, or the format's checkpoints differ in what they cover


class ExpertTiles(Record, frozen=True, kw_only=True):
    """Sides that routed experts' matrices are rounded up to once loaded, elements; of one format on some devices."""

    format: str
    vendor: str
    gfx: tuple[str, ...] = ()  # AMD cards on which it holds alone
    times: float = 1.0  # larger once loaded: experts that no kernel reads are unpacked
    from_capability: float = 0.0  # holds on cards of this compute capability and newer
    hidden: int = 1  # the hidden size
    intermediate: int = 1  # the experts' width on one rank
    source: str


LARGE_EXTRA = 10**7  # parameters
LOADED_SPREAD = 0.015  # of what a checkpoint was seen to load: ranks repeat tensors, publishers replace files; assumed
FP4_EXPERTS = 4.25  # MXFP4: 4 bits and one 8-bit scale for 32 elements
_REPLICATED = pattern_when_used(
    r"(_norm\.|attn_norm|ffn_norm|gate_inp|exp_probs_b|attn_q_a\.|attn_kv_a_mqa|attn_sinks)"
)
_KV = pattern_when_used(r"attn_[kv]\.(weight|bias)$")
_GROUPED = pattern_when_used(r"ssm_(in|conv1d)\.(weight|bias)$")  # Mamba-2: they hold the inputs that heads share
_NEVER = pattern_when_used(r"(_norm|conv|rope_freqs|ssm_a|ssm_d\b|ssm_dt\.bias|bias$|exp_probs_b|attn_sinks)")
_OUTER = pattern_when_used(r"(token_embd|^output|gate_inp)")


class _TensorKind(Record, frozen=True, kw_only=True):
    """What a tensor's name says of it."""

    never: bool  # stored in 16 bit whatever the format
    outer: bool  # embedding, output, router
    kv: bool
    replicated: bool


@lru_cache(maxsize=8192)  # the names of layers are those of every model
def _kind(name: str) -> _TensorKind:
    never, outer, kv, replicated = (p.search(name) is not None for p in (_NEVER, _OUTER, _KV, _REPLICATED))
    return _TensorKind(never=never, outer=outer, kv=kv, replicated=replicated)


def is_quantized(tensor: GgufTensor, quantization: Quantization) -> bool:
    """Whether the quantization stores this tensor in its own format (the rest stays at 16 bit).

    `covers`: linear = the layers' projections, matrices = also embedding, output and router, experts = routed experts.
    """
    kind = _kind(tensor.name)
    if len(tensor.ne) < 2 or kind.never:
        return False
    if quantization.covers == "experts":
        return tensor.expert
    return quantization.covers == "matrices" or not kind.outer


def as_stored(model: t.Model, quantization: Quantization) -> Quantization:
    """The format as the model's own checkpoint has it: what it covers, how many weights share a scale."""
    if quantization.id != t.native_format(model):
        return quantization
    if "(experts" in (model.native_quant or ""):
        quantization = replace(quantization, covers="experts")
    if model.scale_group is not None:
        bits = int(quantization.bits_nominal)
        beside = (
            128 * (quantization.bits_nominal - bits) or 16
        )  # bits next to each group; the formats have groups of 128
        quantization = replace(quantization, bits_nominal=bits + beside / model.scale_group)
    return quantization


@memoize_by_identity
def rank_weights(
    model: t.Model,
    quantization: Quantization,
    tp: int,
    pp: int = 1,
    ep: int = 1,
    vision: bool = True,
    partition: tuple[int, ...] = (),
) -> RankWeights:
    """Bytes per rank of `tp` x `pp` ranks; `partition`: layers of each stage, empty for the engines' equal shares.

    Routed experts are shared by `ep` ranks where these are more than `tp`; `vision` False leaves the tower out.
    """
    found = _define_weights(model, as_stored(model, quantization), tp, pp, ep, vision, partition)
    usual = size_range(model, quantization)[1]
    if found.modelled or usual == 1:
        return found
    stages, experts = (tuple(round(x * usual) for x in sizes) for sizes in (found.stages, found.experts))
    return replace(found, stages=stages, experts=experts, modelled=True)


def _define_weights(
    model: t.Model, quantization: Quantization, tp: int, pp: int, ep: int, vision: bool, partition: tuple[int, ...]
) -> RankWeights:
    """As the definition of the format has them."""
    try:
        # on one stage equal tensors of different layers lie together, unless layers are distinguished by name
        groups = _group_tensors(model, quantization, pp > 1 or quantization.id in model.kept_16bit)
    except NoLayout:
        return _spread_parameters(model, quantization, tp, pp, ep)
    lay = model.known_layout
    if any(isinstance(g, t.Compressed) for g in lay.attention):  # checkpoints and GGUF files split them in other ways
        return _spread_parameters(model, quantization, tp, pp, ep)
    heads, mamba2 = widest_kv_heads(model), find_mamba2(model)
    stages, experts, outside = [0.0] * pp, [0.0] * pp, [0.0] * pp
    for group in groups:
        routed = group.experts / max(tp, ep)
        size = routed + group.heads / min(tp, heads) + group.copied + group.divided / tp
        size += sum(x * _widen_groups(rows, mamba2, tp) / tp for rows, x in group.grouped)
        for stage in list_stages(group.layer, group.embeds, lay, pp, partition):
            stages[stage] += size
            experts[stage] += routed
            outside[stage] += size if group.layer is None else 0
    index_bits = 16 if quantization.covers == "experts" else quantization.bits_nominal
    stages = [x + _count_index(model) * index_bits / 8 / pp for x in stages]
    if vision and model.vision is not None:
        stages[0] += model.vision.params * 2 / tp
    for extra_weights in model.weights.extras:
        # a large extra is a matrix (per-layer embeddings); small ones are scales and biases
        wide = quantization.covers == "matrices" and extra_weights.params >= LARGE_EXTRA
        shared = tp if extra_weights.params >= LARGE_EXTRA and extra_weights.not_active else 1  # a table of rows
        bits = 16 if quantization.bits_nominal >= 16 else extra_weights.quantized_bits
        stages[0] += extra_weights.params * (quantization.bits_nominal if wide else bits) / 8 / shared
    return RankWeights(
        stages=tuple(map(round, stages)),
        experts=tuple(map(round, experts)),
        outside=tuple(map(round, outside)),
        modelled=False,
    )


class _SizedGroup(Value, frozen=True):
    """Bytes of the tensors of a layer, or of what lies outside the layers, by how ranks share them."""

    layer: int | None
    embeds: bool  # the token embedding
    experts: float
    heads: float  # keys and values: shared by KV heads
    copied: float  # on every rank
    divided: float
    grouped: tuple[tuple[int, float], ...]  # of Mamba-2 layers, whose ranks have whole groups: (rows, bytes)


@memoize_by_identity
def _group_tensors(model: t.Model, quantization: Quantization, by_layer: bool) -> tuple[_SizedGroup, ...]:
    """The tensors of each layer; not `by_layer`: of all layers together."""
    kept = re.compile(model.kept_16bit[quantization.id]) if quantization.id in model.kept_16bit else None
    mamba2 = find_mamba2(model) is not None
    sums: dict[tuple[int | None, bool], list[float]] = {}
    grouped: dict[tuple[int | None, bool], list[tuple[int, float]]] = {}
    tensors = (
        tuple((x, 1) for x in gguf_tensors.list_tensors(model)) if by_layer else gguf_tensors.count_equal_tensors(model)
    )
    for tensor, count in tensors:
        if tensor.mtp or tensor.name == "rope_freqs.weight":
            continue
        kind = _kind(tensor.name)
        plain = not is_quantized(tensor, quantization) or (kept is not None and kept.search(tensor.name) is not None)
        each = _plain_bytes(model, quantization) if plain else _bits(model, quantization, tensor.expert) / 8
        if tensor.name.endswith("ssm_a") and len(tensor.ne) > 1:
            each = 4.0  # the matrix A of Mamba, which is made in 32 bits (vLLM mamba_mixer.py, mamba_mixer2.py)
        layer = tensor.layer if by_layer or tensor.layer is None else 0
        size, key = prod(tensor.ne) * count * each, (layer, tensor.name == "token_embd.weight")
        if mamba2 and not (tensor.expert or kind.kv or kind.replicated) and _GROUPED.search(tensor.name):
            grouped.setdefault(key, []).append((tensor.ne[-1], size))
            sums.setdefault(key, [0.0] * 4)
            continue
        sums.setdefault(key, [0.0] * 4)[0 if tensor.expert else 1 if kind.kv else 2 if kind.replicated else 3] += size
    return tuple(
        _SizedGroup(layer, embeds, experts, heads, copied, divided, tuple(grouped.get((layer, embeds), ())))
        for (layer, embeds), (experts, heads, copied, divided) in sums.items()
    )


def size_range(model: t.Model, quantization: Quantization) -> tuple[float, float, float]:
    """How real checkpoints of this format compare with its definition: low, usual, high.

    Publishers leave more than the head at 16 bit in experts' routers, linear attention, state layers and what lies
    next to a tower; models without any of these are quantized throughout, and so is their own publisher's checkpoint.
    """
    lay, loaded = model.layout, find_loaded_bytes(model, quantization.id)
    if loaded is not None:
        usual = loaded / sum(_define_weights(model, as_stored(model, quantization), 1, 1, 1, True, ()).stages)
        return (1 - LOADED_SPREAD) * usual, usual, (1 + LOADED_SPREAD) * usual
    if quantization.size_range_plain is None or lay is None:
        return quantization.size_range
    plain = model.vision is None and all(isinstance(g, (t.Full, t.Sliding)) for g in lay.attention)
    plain = plain and all(isinstance(g, t.Dense) for g in lay.ffn)
    own = t.native_format(model) == quantization.id
    return quantization.size_range_plain if plain or own else quantization.size_range


def find_loaded_bytes(model: t.Model, format: str) -> int | None:
    """Bytes of the weights that the preferred copy in a format was seen to load, on all ranks together; None where no
    log of it is known."""
    named, copies = model.quantized_repos.get(format), [d for d in model.downloads if d.format == format]
    gib = next((d.loaded_gib for d in copies if named in (None, d.repository)), None)
    return None if gib is None else round(gib * 2**30)


def _bits(model: t.Model, quantization: Quantization, expert: bool) -> float:
    """Bits per covered weight. Some checkpoints keep routed experts narrower than the format they are named after."""
    if expert and model.has_fp4_experts and t.native_format(model) == quantization.id:
        return FP4_EXPERTS
    return quantization.bits_nominal


def count_tables(model: t.Model) -> int:
    """Bytes of the tables of which a token reads some rows, in the bits that checkpoints keep them in."""
    tables = (x for x in model.weights.extras if x.not_active and x.params >= LARGE_EXTRA)
    return round(sum(x.params * x.quantized_bits / 8 for x in tables))


def _plain_bytes(model: t.Model, quantization: Quantization) -> float:
    """Bytes per element of what a quantization leaves alone."""
    if quantization.family == "none":
        return quantization.bits_nominal / 8
    return 2.0


def list_stages(
    layer: int | None, embeds: bool, lay: t.Layout, pp: int, partition: tuple[int, ...] = ()
) -> tuple[int, ...]:
    """Pipeline stages that hold a tensor: layers are dealt out in order, the embedding first, the output last."""
    if layer is not None:
        return (stage_of(layer, lay.n_layers, pp, partition),)
    if embeds:
        return (0, pp - 1) if lay.tie_embeddings and pp > 1 else (0,)
    return (pp - 1,)


@lru_cache(2048)
def stage_of(layer: int, n_layers: int, pp: int, partition: tuple[int, ...] = ()) -> int:
    """Pipeline stage of a layer: as `partition` has them, else equal shares, whose remainder goes to the stages before
    the last (vLLM's partitioning)."""
    base, rest = divmod(n_layers, pp)
    sizes = list(partition) or [base] * pp
    for k in range(0 if partition else rest):
        sizes[max(0, pp - 2 - k)] += 1
    edge = 0
    for i, size in enumerate(sizes):
        edge += size
        if layer < edge:
            return i
    return pp - 1


def widest_kv_heads(model: t.Model) -> int:
    """KV heads of the widest attention layer; tensor parallelism shares K and V by at most so many ranks."""
    lay = model.known_layout
    heads = [p.n_kv_heads for p in lay.mixers if isinstance(p, (t.Encoder, t.Full, t.Sliding))]
    heads += [g.n_heads for g in lay.attention if isinstance(g, t.Kda)]  # their K and V are divided like Q
    return max(heads, default=1) or 1


def _count_index(model: t.Model) -> int:
    """Parameters of the sparse-attention indexes, of which every rank has all."""
    lay, total = model.known_layout, 0
    for mla in (g for g in lay.attention if isinstance(g, t.Mla)):
        if mla.indexer is not None and not mla.indexer.shared:
            query = (mla.q_lora_rank or lay.hidden_size) * mla.indexer.heads * mla.indexer.dim
            total += mla.n * (query + lay.hidden_size * (mla.indexer.dim + mla.indexer.heads))
    return total


def find_mamba2(model: t.Model) -> t.Mamba2 | None:
    """The model's Mamba-2 layer; None without one."""
    return next((p for p in (model.layout.mixers if model.layout else ()) if isinstance(p, t.Mamba2)), None)


def _widen_groups(rows: int, mamba2: t.Mamba2 | None, tp: int) -> float:
    """How many times larger a tensor of so many rows is because every rank has whole groups of a Mamba-2 layer."""
    if mamba2 is None:
        return 1.0
    from advisor.memory.paged_cache import count_groups

    more = count_groups(mamba2.groups, tp) - mamba2.groups
    return 1 + 2 * more * mamba2.state / rows


def _spread_parameters(model: t.Model, quantization: Quantization, tp: int, pp: int, ep: int) -> RankWeights:
    """Parameters x bytes, spread evenly: for layouts whose tensors are not known."""
    lay = model.layout
    routed = count_expert_params(model) if lay is not None else 0
    rest = model.params_total - routed
    whole = 0 if lay is None else lay.vocab_size * lay.hidden_size * (1 if lay.tie_embeddings else 2)
    if quantization.covers == "experts":
        whole = rest
    experts = routed * _bits(model, quantization, True) / 8 / (max(tp, ep) * pp)
    dense = ((rest - whole) * _bits(model, quantization, False) / 8 + whole * _plain_bytes(model, quantization)) / (
        tp * pp
    )
    outside = whole * _plain_bytes(model, quantization) / tp if quantization.covers != "experts" else 0
    return RankWeights(
        stages=(round(dense + experts),) * pp,
        experts=(round(experts),) * pp,
        outside=(round(outside),) * pp,
        modelled=True,
    )


def count_expert_params(model: t.Model) -> int:
    """Parameters of all routed experts, no more than the model has."""
    lay = model.known_layout
    routed = sum(
        g.n * g.n_experts * (3 if g.act == "gated" else 2) * (g.latent or lay.hidden_size) * g.moe_intermediate
        for g in lay.ffn
        if isinstance(g, t.Moe)
    )
    return min(routed, model.params_total)


def pick_tiles(rows: tuple[ExpertTiles, ...], format: str, vendor: str, capability: float | None) -> ExpertTiles | None:
    """The row that holds for a format on a device; None where loading adds nothing, or nothing is known."""
    mine = [x for x in rows if x.format == format and x.vendor == vendor]
    if capability is None:
        return mine[0] if len(mine) == 1 else None
    return max((x for x in mine if x.from_capability <= capability), key=lambda x: x.from_capability, default=None)


def expert_growth(model: t.Model, tiles: ExpertTiles, tp: int, ep: int) -> float:
    """How many times larger the routed experts are once they are padded and unpacked, on one of `tp` ranks.

    Experts that more than `tp` ranks share are kept whole. Source: vLLM 0.33.0,
    `mxfp4_round_up_hidden_size_and_intermediate_size`.
    """
    lay = model.known_layout
    groups = [g for g in lay.ffn if isinstance(g, t.Moe)]
    if not groups:
        return 1.0
    size = padded = 0.0
    for moe in groups:
        hidden, width = moe.latent or lay.hidden_size, moe.moe_intermediate / (1 if ep > tp else tp)
        size += moe.n * moe.n_experts * hidden * width
        padded += moe.n * moe.n_experts * _round_up(hidden, tiles.hidden) * _round_up(width, tiles.intermediate)
    return tiles.times * padded / size


def _round_up(n: float, step: int) -> int:
    return -int(-n // step) * step
