"""The tensors of a GGUF file, from a model's architecture: names and shapes as llama.cpp's converter writes them.

Used when there is no file to read. A file's own tensor table always wins.
Source: llama.cpp v0.5.0 model loader (shapes it checks on load); counts checked against llamacpp_memory.csv.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from msgspec.structs import replace

from advisor.errors import BadInput
from advisor.memo import KEPT_LARGE, memoize_by_identity
from advisor.models import types as t
from advisor.models.types import TensorTraits
from advisor.patterns import pattern_when_used
from advisor.record import Record

# LLM_FFN_EXPS_REGEX in llama.cpp common/common.h
_ROUTED = pattern_when_used(r"\.ffn_(up|down|gate|gate_up)_(ch|)exps")
Shape = tuple[str, tuple[int, ...]]  # name without the layer, elements per dimension (row first)


class NoLayout(BadInput):
    """The architecture has parts whose tensors are not known."""


class GgufTensor(Record, frozen=True, kw_only=True):
    """One tensor: GGUF name, elements per dimension (row first) and its layer (None outside the layers)."""

    name: str
    ne: tuple[int, ...]
    layer: int | None = None
    part: str = ""  # the name without its layer; empty: outside the layers
    mtp: bool = False  # part of a multi-token-prediction block, which is not loaded by default

    @property
    def expert(self) -> bool:
        """Whether the tensor holds routed experts (what `--cpu-moe` keeps on the host)."""
        return _is_routed(self.name)


@lru_cache(maxsize=16384)
def _is_routed(name: str) -> bool:
    return _ROUTED.search(name) is not None


def layer_order(
    groups: tuple[t.AttentionGroup, ...] | tuple[t.FfnGroup, ...], given: tuple[int, ...], n: int
) -> list[int]:
    """Index of the group of every layer. Where no order is known, groups follow one another."""
    if given:
        return [given[i % len(given)] for i in range(n)]
    flat = [k for k, g in enumerate(groups) for _ in range(g.n)]
    return flat[:n] + [len(groups) - 1] * (n - len(flat))


def order_mixers(lay: t.Layout) -> list[int]:
    """Index of every layer's token mixer."""
    return layer_order(lay.attention, lay.attention_order, lay.n_layers)


def order_ffns(lay: t.Layout) -> list[int]:
    """Index of every layer's feed-forward part."""
    return layer_order(lay.ffn, lay.ffn_order, lay.n_layers)


def order_blocks(lay: t.Layout) -> list[int]:
    """Index of the token mixer of every block of attention; some models have two blocks a layer."""
    n = lay.n_layers if lay.attention_order else max(lay.n_layers, sum(g.n for g in lay.attention))
    return layer_order(lay.attention, lay.attention_order, n)


def _count_equal_tensors(model: t.Model) -> tuple[tuple[GgufTensor, int], ...]:
    """The tensors without the prediction block; equal ones of several layers once, with their number."""
    first: dict[tuple[str, tuple[int, ...], bool, bool], GgufTensor] = {}
    numbers: dict[tuple[str, tuple[int, ...], bool, bool], int] = {}
    for tensor in list_tensors(model):
        if tensor.mtp:
            continue
        name = tensor.part or tensor.name
        key = (name, tensor.ne, tensor.expert, tensor.layer is None)
        first.setdefault(key, tensor)
        numbers[key] = numbers.get(key, 0) + 1
    return tuple((x, numbers[key]) for key, x in first.items())


def _list_tensors(model: t.Model) -> tuple[GgufTensor, ...]:
    """All tensors of the text model's GGUF file. Raises NoLayout when a part of the architecture is not known."""
    model = as_gguf(model)
    lay = model.layout
    if lay is None:
        raise NoLayout(f"the layers of {model.id} are not known")
    if not lay.attention_order and sum(g.n for g in lay.attention) > lay.n_layers:
        raise NoLayout(f"the tensors of {model.id}, with more than one block of attention a layer, are not known")
    d, vocab = lay.hidden_size, lay.vocab_size
    traits = read_tensor_traits(model)
    out = [GgufTensor(name="token_embd.weight", ne=(d, vocab))]
    for norm in (traits.final_norm, traits.embedding_norm):
        if norm:
            out.append(GgufTensor(name=f"{norm}.weight", ne=(d,)))
            if model.weights.norm_bias:
                out.append(GgufTensor(name=f"{norm}.bias", ne=(d,)))
    if not lay.tie_embeddings:
        out.append(GgufTensor(name="output.weight", ne=(d, vocab)))
    if model.weights.lm_head_bias:
        out.append(GgufTensor(name="output.bias", ne=(vocab,)))
    out += _rope_factors(model)
    kinds: dict[tuple[int, int], tuple[Shape, ...]] = {}
    for i, kind in enumerate(zip(order_mixers(lay), order_ffns(lay), strict=True)):
        if kind not in kinds:
            kinds[kind] = tuple(layer_shapes(model, lay.attention[kind[0]], lay.ffn[kind[1]]))
        out += [_make_layer_tensor(i, x) for x in kinds[kind]]
    out += _mtp(model, lay)
    return tuple(out)


list_tensors = memoize_by_identity(_list_tensors, KEPT_LARGE)
count_equal_tensors = memoize_by_identity(_count_equal_tensors, KEPT_LARGE)


def as_gguf(model: t.Model) -> t.Model:
    """The model with the dims of its GGUF conversion, where these differ from the checkpoint's own."""
    return model if model.gguf is None or model.layout is None else _converted(model)


@memoize_by_identity
def _converted(model: t.Model) -> t.Model:
    gguf_detail, lay = model.gguf, model.known_layout
    assert gguf_detail is not None
    groups = (
        tuple(_gated(x, gguf_detail.gated_norm) for x in lay.attention)
        if gguf_detail.gated_norm is not None
        else lay.attention
    )
    lay = replace(lay, vocab_size=gguf_detail.vocab_size or lay.vocab_size, attention=groups)
    return replace(model, layout=lay)


def _gated(group: t.AttentionGroup, norm: bool) -> t.AttentionGroup:
    if isinstance(group, t.Mamba2):
        return replace(group, gated_norm=norm)
    if isinstance(group, t.Parallel):
        parts = tuple(replace(p, gated_norm=norm) if isinstance(p, t.Mamba2) else p for p in group.parts)
        return replace(group, parts=parts)
    return group


def _make_layer_tensor(i: int, shape: Shape, mtp: bool = False) -> GgufTensor:
    return GgufTensor(name=f"blk.{i}.{shape[0]}", ne=shape[1], layer=i, part=shape[0], mtp=mtp)


def _rope_factors(model: t.Model) -> Iterator[GgufTensor]:
    """Llama 3.1 and later keep their rotary scaling as one small tensor in the file."""
    lay = model.known_layout
    first = lay.attention[0]
    if model.architecture == "LlamaForCausalLM" and model.family.startswith(("llama-3.1", "llama-3.2", "llama-3.3")):
        assert isinstance(first, t.Full)
        yield GgufTensor(name="rope_freqs.weight", ne=(first.head_dim // 2,))
    elif read_tensor_traits(model).full_rope_factors:
        full = next((x for x in lay.attention if isinstance(x, t.Full)), None)
        if full is not None:
            yield GgufTensor(name="rope_freqs.weight", ne=(full.head_dim // 2,))


def _mtp(model: t.Model, lay: t.Layout) -> Iterator[GgufTensor]:
    """The multi-token-prediction block that converters append; it stays on disk unless speculation loads it."""
    if model.mtp is None or not model.mtp.layers or not read_tensor_traits(model).prediction:
        return
    d = lay.hidden_size
    for k in range(model.mtp.layers):
        i = lay.n_layers + k
        for shape in layer_shapes(model, lay.attention[-1], lay.ffn[-1]):
            yield _make_layer_tensor(i, shape, mtp=True)
        for name, ne in (
            ("nextn.eh_proj.weight", (2 * d, d)),
            ("nextn.embed_tokens.weight", (d, lay.vocab_size)),
            ("nextn.enorm.weight", (d,)),
            ("nextn.hnorm.weight", (d,)),
            ("nextn.shared_head_head.weight", (d, lay.vocab_size)),
            ("nextn.shared_head_norm.weight", (d,)),
        ):
            yield _make_layer_tensor(i, (name, ne), mtp=True)


def _list_file_tensors(model: t.Model) -> tuple[GgufTensor, ...]:
    """All tensors of the model's GGUF file: those of `list_tensors`, and embeddings that only some layers read."""
    return (*list_tensors(model), *_named(model), *_per_layer(as_gguf(model)))


list_file_tensors = memoize_by_identity(_list_file_tensors, KEPT_LARGE)


def _named(model: t.Model) -> Iterator[GgufTensor]:
    """Further tables with a row for each position or kind of token; the file has no more positions than are trained."""
    hidden = model.layout.hidden_size if model.layout is not None else 1
    for table in model.weights.extras:
        if table.name is not None:
            rows = table.params // hidden
            yield GgufTensor(name=table.name, ne=(hidden, min(rows, model.max_context or rows)))


def _per_layer(model: t.Model) -> Iterator[GgufTensor]:
    """Embeddings per layer with what brings them into the layers (Gemma 3n and 4); AltUp's and Laurel's matrices."""
    lay = model.layout
    if lay is None or lay.per_layer is None:
        return
    table, d, n = lay.per_layer, lay.hidden_size, lay.n_layers
    yield GgufTensor(name="per_layer_token_embd.weight", ne=(table.width * n, table.rows))
    yield GgufTensor(name="per_layer_model_proj.weight", ne=(d, table.width * n))
    yield GgufTensor(name="per_layer_proj_norm.weight", ne=(table.width,))
    each: list[Shape] = [
        ("inp_gate.weight", (d, table.width)),
        ("proj.weight", (table.width, d)),
        ("post_norm.weight", (d,)),
    ]
    if table.streams > 1:
        more = table.streams - 1
        yield GgufTensor(name="altup_proj.weight", ne=(d, d, more))
        yield GgufTensor(name="altup_unembd_proj.weight", ne=(d, d, more))
        each += [
            ("altup_correct_coef.weight", (table.streams, table.streams)),
            ("altup_correct_scale.weight", (d,)),
            ("altup_predict_coef.weight", (table.streams, table.streams**2)),
            ("altup_router.weight", (d, table.streams)),
            ("altup_router_norm.weight", (d,)),
        ]
    if table.laurel_rank:
        rank = table.laurel_rank
        each += [("laurel_l.weight", (d, rank)), ("laurel_r.weight", (rank, d)), ("laurel_post_norm.weight", (d,))]
    for i in range(n):
        yield from (_make_layer_tensor(i, shape) for shape in each)


def layer_shapes(model: t.Model, mixer: t.AttentionGroup, ffn: t.FfnGroup) -> Iterator[Shape]:
    """The tensors of one layer. Raises NoLayout when a part of it is not known."""
    lay = model.known_layout
    d = lay.hidden_size
    yield from _mixer(model, mixer, d)
    yield from _ffn(model, ffn, d)
    yield from _norms(model, mixer, ffn, d)


def read_tensor_traits(model: t.Model) -> TensorTraits:
    """How the tensors of the model's GGUF file are called; an architecture that is not known is taken as most are."""
    architecture = model.gguf_architecture
    if architecture is not None:
        return architecture.tensors
    if model.weights.norms_per_layer == 4:
        return TensorTraits(mixer_norms=("attn_norm", "post_attention_norm"), ffn_norms=("ffn_norm", "post_ffw_norm"))
    return TensorTraits(ffn_norms=() if model.weights.norms_per_layer == 1 else ("ffn_norm",))


def _norms(model: t.Model, mixer: t.AttentionGroup, ffn: t.FfnGroup, hidden: int) -> Iterator[Shape]:
    traits = read_tensor_traits(model)
    names: list[str] = []
    if traits.one_norm:
        names = ["attn_norm"]
    else:
        names += [] if isinstance(mixer, t.NoMixer) else traits.mixer_norms
        names += [] if isinstance(ffn, t.NoFfn) else traits.ffn_norms
    for n in names:
        yield (n if n in traits.bare_norms else f"{n}.weight"), (hidden,)
        if model.weights.norm_bias:
            yield f"{n}.bias", (hidden,)


def _mixer(model: t.Model, group: t.AttentionGroup, hidden: int) -> Iterator[Shape]:
    if isinstance(group, (t.Full, t.Sliding, t.Chunked, t.Encoder)):
        yield from _softmax(model, group, hidden)
    elif isinstance(group, t.Mla):
        yield from _mla(group, hidden)
    elif isinstance(group, t.Compressed):
        yield from _compressed(group, hidden)
    elif isinstance(group, t.GatedDeltaNet):
        yield from _deltanet(model, group, hidden)
    elif isinstance(group, t.Kda):
        yield from _kda(group, hidden)
    elif isinstance(group, t.Mamba1):
        yield from _mamba1(group, hidden)
    elif isinstance(group, t.Mamba2):
        yield from _mamba2(group, hidden)
    elif isinstance(group, t.ShortConv):
        yield from (
            ("shortconv.in_proj.weight", (hidden, 3 * hidden)),
            ("shortconv.conv.weight", (group.conv_kernel, hidden)),
            ("shortconv.out_proj.weight", (hidden, hidden)),
        )
    elif isinstance(group, t.Parallel):
        for part in group.parts:
            yield from _mixer(model, part, hidden)
    elif isinstance(group, t.NoMixer):
        return
    else:
        raise NoLayout(f"the GGUF tensors of {type(group).__name__} attention ({model.id}) are not known")


def _compressed(group: t.Compressed, hidden: int) -> Iterator[Shape]:
    """Source: llama.cpp src/models/deepseek4.cpp, load_arch_tensors."""
    width, head, rank = group.n_heads * group.head_dim, group.head_dim, group.o_groups * group.o_lora_rank
    yield "attn_sinks.weight", (group.n_heads,)
    yield "attn_q_a.weight", (hidden, group.q_lora_rank)
    yield "attn_q_a_norm.weight", (group.q_lora_rank,)
    yield "attn_q_b.weight", (group.q_lora_rank, width)
    yield "attn_kv.weight", (hidden, head)
    yield "attn_kv_a_norm.weight", (head,)
    yield "attn_output_a.weight", (width // group.o_groups, rank)
    yield "attn_output_b.weight", (rank, hidden)
    if group.compress_ratio:
        yield from _compressor("attn_compressor", hidden, head, group.compress_ratio, group.indexer is not None)
    if group.indexer is not None:
        index = group.indexer
        yield "indexer.proj.weight", (hidden, index.heads)
        yield "indexer.attn_q_b.weight", (group.q_lora_rank, index.heads * index.dim)
        yield from _compressor("indexer_compressor", hidden, index.dim, group.compress_ratio, True)


def _compressor(name: str, hidden: int, width: int, ratio: int, twice: bool) -> Iterator[Shape]:
    """What makes one row of `ratio` tokens; next to an index it overlaps its neighbour (`twice`)."""
    wide = 2 * width if twice else width
    yield f"{name}_kv.weight", (hidden, wide)
    yield f"{name}_gate.weight", (hidden, wide)
    yield f"{name}_ape.weight", (wide, ratio)
    yield f"{name}_norm.weight", (width,)


def _softmax(model: t.Model, full: t.Full | t.Sliding | t.Chunked | t.Encoder, hidden: int) -> Iterator[Shape]:
    hd, vd = full.head_dim, full.v_head_dim or full.head_dim
    q, k, v = full.n_heads * hd, full.n_kv_heads * hd, full.n_kv_heads * vd
    traits = read_tensor_traits(model)
    width = 2 * q if full.gate == "elementwise" and not traits.gate_matrix else q
    if traits.fused_qkv:
        yield "attn_qkv.weight", (hidden, q + k + v)
        if full.qkv_bias:
            yield "attn_qkv.bias", (q + k + v,)
    else:
        yield "attn_q.weight", (hidden, width)
        if not full.kv_shared or traits.shared_keeps_matrices:
            yield "attn_k.weight", (hidden, k)
            if not full.k_eq_v:
                yield "attn_v.weight", (hidden, v)
        if full.qkv_bias:
            yield "attn_q.bias", (q,)
            if not full.kv_shared:
                yield "attn_k.bias", (k,)
                yield "attn_v.bias", (v,)
    yield "attn_output.weight", (full.n_heads * vd, hidden)
    if full.o_bias:
        yield "attn_output.bias", (hidden,)
    if full.gate == "headwise":
        yield "attn_gate.weight", (hidden, full.n_heads)
    elif full.gate == "elementwise" and traits.gate_matrix:
        yield "attn_gate.weight", (hidden, full.n_heads * vd)
    widths = {"head": (hd, hd), "full": (q, k), "per_head": (full.n_heads * hd, full.n_kv_heads * hd)}
    if full.qk_norm:
        yield "attn_q_norm.weight", (widths[full.qk_norm][0],)
        if not full.kv_shared or traits.shared_keeps_matrices:
            yield "attn_k_norm.weight", (widths[full.qk_norm][1],)
    if full.sinks:
        yield "attn_sinks.weight", (full.n_heads,)


def _mla(mla: t.Mla, hidden: int) -> Iterator[Shape]:
    nope, rope, vd, r = mla.qk_nope_head_dim, mla.qk_rope_head_dim, mla.v_head_dim, mla.kv_lora_rank
    if mla.q_lora_rank:
        yield "attn_q_a.weight", (hidden, mla.q_lora_rank)
        yield "attn_q_a_norm.weight", (mla.q_lora_rank,)
        yield "attn_q_b.weight", (mla.q_lora_rank, mla.n_heads * (nope + rope))
    else:
        yield "attn_q.weight", (hidden, mla.n_heads * (nope + rope))
    yield "attn_kv_a_mqa.weight", (hidden, r + rope)
    yield "attn_kv_a_norm.weight", (r,)
    if mla.absorbed:
        yield "attn_k_b.weight", (nope, r, mla.n_heads)
        yield "attn_v_b.weight", (r, vd, mla.n_heads)
    else:
        yield "attn_kv_b.weight", (r, mla.n_heads * (nope + vd))
    if mla.gate_width(hidden):
        yield "attn_gate.weight", (hidden, mla.gate_width(hidden))
    yield "attn_output.weight", (mla.n_heads * vd, hidden)


def _deltanet(model: t.Model, net: t.GatedDeltaNet, hidden: int) -> Iterator[Shape]:
    key, val = net.k_heads * net.k_dim, net.v_heads * net.v_dim
    yield "attn_qkv.weight", (hidden, 2 * key + val)
    yield "attn_gate.weight", (hidden, val)
    if read_tensor_traits(model).joined_decay:
        yield "ssm_ba.weight", (hidden, 2 * net.v_heads)
    else:
        yield "ssm_alpha.weight", (hidden, net.v_heads)
        yield "ssm_beta.weight", (hidden, net.v_heads)
    yield "ssm_conv1d.weight", (net.conv_kernel, 2 * key + val)
    yield "ssm_dt.bias", (net.v_heads,)
    yield "ssm_a", (net.v_heads,)
    yield "ssm_norm.weight", (net.v_dim,)
    yield "ssm_out.weight", (val, hidden)


def _kda(kda: t.Kda, hidden: int) -> Iterator[Shape]:
    width, dim = kda.n_heads * kda.head_dim, kda.head_dim
    for side in "qkv":
        yield f"attn_{side}.weight", (hidden, width)
        yield f"ssm_conv1d_{side}.weight", (kda.conv_kernel, 1, width)
    if kda.extra:  # a decay gate of full rank (Ling 3)
        yield "ssm_f_a.weight", (hidden, width)
    else:
        yield "ssm_f_a.weight", (hidden, dim)
        yield "ssm_f_b.weight", (dim, width)
    yield "ssm_beta.weight", (hidden, kda.n_heads)
    yield "ssm_a", (1, kda.n_heads)
    yield "ssm_dt.bias", (width,)
    if kda.full_rank_gate:
        yield "ssm_g_a.weight", (hidden, width)
    else:
        yield "ssm_g_a.weight", (hidden, dim)
        yield "ssm_g_b.weight", (dim, width)
    yield "ssm_norm.weight", (dim,)
    yield "attn_output.weight", (width, hidden)


def _mamba1(mamba1: t.Mamba1, hidden: int) -> Iterator[Shape]:
    yield "ssm_in.weight", (hidden, 2 * mamba1.inner)
    yield "ssm_conv1d.weight", (mamba1.conv_kernel, mamba1.inner)
    yield "ssm_conv1d.bias", (mamba1.inner,)
    yield "ssm_x.weight", (mamba1.inner, mamba1.dt_rank + 2 * mamba1.state)
    if mamba1.bcdt_norm:
        yield "ssm_dt_norm.weight", (mamba1.dt_rank,)
        yield "ssm_b_norm.weight", (mamba1.state,)
        yield "ssm_c_norm.weight", (mamba1.state,)
    yield "ssm_dt.weight", (mamba1.dt_rank, mamba1.inner)
    yield "ssm_dt.bias", (mamba1.inner,)
    yield "ssm_a", (mamba1.state, mamba1.inner)
    yield "ssm_d", (mamba1.inner,)
    yield "ssm_out.weight", (mamba1.inner, hidden)


def _mamba2(mamba2: t.Mamba2, hidden: int) -> Iterator[Shape]:
    inner = mamba2.heads * mamba2.head_dim
    conv = inner + 2 * mamba2.groups * mamba2.state
    yield "ssm_in.weight", (hidden, inner + conv + mamba2.heads)
    yield "ssm_conv1d.weight", (mamba2.conv_kernel, conv)
    if mamba2.conv_bias:
        yield "ssm_conv1d.bias", (conv,)
    yield "ssm_dt.bias", (mamba2.heads,)
    yield "ssm_a", (1, mamba2.heads)
    yield "ssm_d", (1, mamba2.heads)
    if mamba2.gated_norm:
        yield "ssm_norm.weight", (inner // mamba2.groups, mamba2.groups)
    yield "ssm_out.weight", (inner, hidden)


def _ffn(model: t.Model, group: t.FfnGroup, hidden: int) -> Iterator[Shape]:
    traits = read_tensor_traits(model)
    if isinstance(group, t.Dense):
        yield from _dense(group.intermediate, hidden, group.act, group.bias, traits.fused_gate_up)
    elif isinstance(group, t.Moe):
        yield from _moe(group, hidden, traits)
    if traits.layer_scale:
        yield "layer_output_scale.weight", (1,)


def _dense(ff: int, hidden: int, act: str, bias: bool, fused: bool) -> Iterator[Shape]:
    if act == "gated" and not fused:
        yield "ffn_gate.weight", (hidden, ff)
    yield "ffn_up.weight", (hidden, 2 * ff if act == "gated" and fused else ff)
    yield "ffn_down.weight", (ff, hidden)
    if bias:
        yield "ffn_up.bias", (ff,)
        yield "ffn_down.bias", (hidden,)


def _moe(moe: t.Moe, hidden: int, traits: TensorTraits) -> Iterator[Shape]:
    e, ff, w = moe.n_experts, moe.moe_intermediate, moe.latent or hidden
    yield "ffn_gate_inp.weight", (hidden, moe.router_width or e)
    if moe.router_bias:
        yield ("ffn_gate_inp.bias" if traits.biased_router else "exp_probs_b.bias"), (moe.router_width or e,)
    if moe.act == "gated":
        yield "ffn_gate_exps.weight", (w, ff, e)
    yield "ffn_up_exps.weight", (w, ff, e)
    yield "ffn_down_exps.weight", (ff, w, e)
    if moe.bias or traits.biased_experts:
        yield "ffn_gate_exps.bias", (ff, e)
        yield "ffn_up_exps.bias", (ff, e)
        yield "ffn_down_exps.bias", (w, e)
    if moe.latent:
        yield "ffn_latent_down.weight", (hidden, moe.latent)
        yield "ffn_latent_up.weight", (moe.latent, hidden)
    if moe.shared_intermediate:
        if moe.act == "gated":
            yield "ffn_gate_shexp.weight", (hidden, moe.shared_intermediate)
        yield "ffn_up_shexp.weight", (hidden, moe.shared_intermediate)
        yield "ffn_down_shexp.weight", (moe.shared_intermediate, hidden)
        if moe.shared_gate:
            yield "ffn_gate_inp_shexp.weight", (hidden,)
    if traits.experts_beside_dense:
        yield "ffn_gate_inp.scale", (hidden,)
        yield from ((f"{name}.weight", (hidden,)) for name in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"))
    if moe.parallel_dense:
        yield from _dense(moe.parallel_dense, hidden, "gated", False, traits.fused_gate_up)
