"""The tensors of a GGUF file, from a model's architecture: names and shapes as llama.cpp's converter writes them.

Used when there is no file to read. A file's own tensor table always wins.
Source: llama.cpp v0.5.0 model loader (shapes it checks on load); counts checked against llamacpp_memory.csv.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from advisor.memo import KEPT_LARGE, memoize_by_identity
from advisor.models import types as t
from advisor.record import Record


class Tensor(Record, frozen=True, kw_only=True):
    """One tensor: GGUF name, elements per dimension (row first) and its layer (None outside the layers)."""

    name: str
    ne: tuple[int, ...]
    layer: int | None = None
    mtp: bool = False  # part of a multi-token-prediction block, which is not loaded by default

    @property
    def expert(self) -> bool:
        """Whether the tensor holds routed experts (what `--cpu-moe` keeps on the host)."""
        return "_exps." in self.name


class NoLayout(ValueError):
    """The architecture has parts whose GGUF tensors are not known."""


def order(groups: tuple[t.AttentionGroup, ...] | tuple[t.FfnGroup, ...], given: tuple[int, ...], n: int) -> list[int]:
    """Index of the group of every layer. Where no order is known, groups follow one another."""
    if given:
        return [given[i % len(given)] for i in range(n)]
    flat = [k for k, g in enumerate(groups) for _ in range(g.n)]
    return flat[:n] + [len(groups) - 1] * (n - len(flat))


def tensors(model: t.Model) -> tuple[Tensor, ...]:
    """All tensors of the text model's GGUF file. Raises NoLayout when a part of the architecture is not known."""
    return _remembered(model)


def counted(model: t.Model) -> tuple[tuple[Tensor, int], ...]:
    """The tensors without the prediction block; equal ones of several layers once, with their number."""
    return _counted(model)


def _count(model: t.Model) -> tuple[tuple[Tensor, int], ...]:
    first: dict[tuple[str, tuple[int, ...], bool, bool], Tensor] = {}
    numbers: dict[tuple[str, tuple[int, ...], bool, bool], int] = {}
    for x in tensors(model):
        if x.mtp:
            continue
        name = x.name if x.layer is None else x.name.split(".", 2)[2]
        key = (name, x.ne, x.expert, x.layer is None)
        first.setdefault(key, x)
        numbers[key] = numbers.get(key, 0) + 1
    return tuple((x, numbers[key]) for key, x in first.items())


def _all_tensors(model: t.Model) -> tuple[Tensor, ...]:
    model = as_gguf(model)
    lay = model.layout
    if lay is None:
        raise NoLayout(f"the layers of {model.id} are not known")
    if not lay.attention_order and sum(g.n for g in lay.attention) > lay.n_layers:
        raise NoLayout(f"the tensors of {model.id}, with more than one block of attention a layer, are not known")
    d, vocab = lay.hidden_size, lay.vocab_size
    out = [Tensor(name="token_embd.weight", ne=(d, vocab)), Tensor(name="output_norm.weight", ne=(d,))]
    if model.weights.norm_bias:
        out.append(Tensor(name="output_norm.bias", ne=(d,)))
    if not lay.tie_embeddings:
        out.append(Tensor(name="output.weight", ne=(d, vocab)))
    if model.weights.lm_head_bias:
        out.append(Tensor(name="output.bias", ne=(vocab,)))
    out += _rope_factors(model)
    mixers = order(lay.attention, lay.attention_order, lay.n_layers)
    ffns = order(lay.ffn, lay.ffn_order, lay.n_layers)
    kinds: dict[tuple[int, int], tuple[Shape, ...]] = {}
    for i in range(lay.n_layers):
        kind = (mixers[i], ffns[i])
        if kind not in kinds:
            kinds[kind] = tuple(_layer(model, lay.attention[kind[0]], lay.ffn[kind[1]]))
        out += [_in_layer(i, x) for x in kinds[kind]]
    out += _mtp(model, lay)
    return tuple(out)


_remembered = memoize_by_identity(_all_tensors, KEPT_LARGE)
_counted = memoize_by_identity(_count, KEPT_LARGE)


def as_gguf(model: t.Model) -> t.Model:
    """The model with the dims of its GGUF conversion, where these differ from the checkpoint's own."""
    return model if model.gguf is None or model.layout is None else _converted(model)


@memoize_by_identity
def _converted(model: t.Model) -> t.Model:
    g, lay = model.gguf, model.layout
    assert g is not None
    assert lay is not None
    groups = tuple(_gated(x, g.gated_norm) for x in lay.attention) if g.gated_norm is not None else lay.attention
    lay = msgspec.structs.replace(lay, vocab_size=g.vocab_size or lay.vocab_size, attention=groups)
    return msgspec.structs.replace(model, layout=lay)


def _gated(group: t.AttentionGroup, norm: bool) -> t.AttentionGroup:
    if isinstance(group, t.Mamba2):
        return msgspec.structs.replace(group, gated_norm=norm)
    if isinstance(group, t.Parallel):
        parts = tuple(
            msgspec.structs.replace(p, gated_norm=norm) if isinstance(p, t.Mamba2) else p for p in group.parts
        )
        return msgspec.structs.replace(group, parts=parts)
    return group


Shape = tuple[str, tuple[int, ...]]


def _in_layer(i: int, shape: Shape, mtp: bool = False) -> Tensor:
    return Tensor(name=f"blk.{i}.{shape[0]}", ne=shape[1], layer=i, mtp=mtp)


def _layer(model: t.Model, mixer: t.AttentionGroup, ffn: t.FfnGroup) -> Iterator[Shape]:
    lay = model.layout
    assert lay is not None
    d = lay.hidden_size
    yield from _mixer(model, mixer, d)
    yield from _ffn(model, ffn, d)
    yield from _norms(model, mixer, ffn, d)


def _norms(model: t.Model, mixer: t.AttentionGroup, ffn: t.FfnGroup, d: int) -> Iterator[Shape]:
    names = ["attn_norm", "ffn_norm"]
    if isinstance(ffn, t.NoFfn) or isinstance(mixer, t.NoMixer):
        names = ["attn_norm"]
    elif model.weights.norms_per_layer == 4:
        names += ["post_attention_norm", "post_ffw_norm"]
    elif model.weights.norms_per_layer == 1:
        names = ["attn_norm"]
    for n in names:
        yield f"{n}.weight", (d,)
        if model.weights.norm_bias:
            yield f"{n}.bias", (d,)


def _mixer(model: t.Model, g: t.AttentionGroup, d: int) -> Iterator[Shape]:
    if isinstance(g, (t.Full, t.Sliding, t.Chunked, t.Encoder)):
        yield from _softmax(model, g, d)
    elif isinstance(g, t.Mla):
        yield from _mla(g, d)
    elif isinstance(g, t.GatedDeltaNet):
        yield from _deltanet(model, g, d)
    elif isinstance(g, t.Mamba1):
        yield from _mamba1(g, d)
    elif isinstance(g, t.Mamba2):
        yield from _mamba2(g, d)
    elif isinstance(g, t.ShortConv):
        yield from (
            ("shortconv.in_proj.weight", (d, 3 * d)),
            ("shortconv.conv.weight", (g.conv_kernel, d)),
            ("shortconv.out_proj.weight", (d, d)),
        )
    elif isinstance(g, t.Parallel):
        for part in g.parts:
            yield from _mixer(model, part, d)
    elif isinstance(g, t.NoMixer):
        return
    else:
        raise NoLayout(f"the GGUF tensors of {type(g).__name__} attention ({model.id}) are not known")


def _softmax(model: t.Model, g: t.Full | t.Sliding | t.Chunked | t.Encoder, d: int) -> Iterator[Shape]:
    hd, vd = g.head_dim, g.v_head_dim or g.head_dim
    q, k, v = g.n_heads * hd, g.n_kv_heads * hd, g.n_kv_heads * vd
    width = 2 * q if g.gate == "elementwise" else q
    if model.model_type in FUSED_QKV:
        yield "attn_qkv.weight", (d, q + k + v)
        if g.qkv_bias:
            yield "attn_qkv.bias", (q + k + v,)
    else:
        yield "attn_q.weight", (d, width)
        if not g.kv_shared:
            yield "attn_k.weight", (d, k)
            if not g.k_eq_v:
                yield "attn_v.weight", (d, v)
        if g.qkv_bias:
            yield "attn_q.bias", (q,)
            if not g.kv_shared:
                yield "attn_k.bias", (k,)
                yield "attn_v.bias", (v,)
    yield "attn_output.weight", (g.n_heads * vd, d)
    if g.o_bias:
        yield "attn_output.bias", (d,)
    if g.gate == "headwise":
        yield "attn_gate.weight", (d, g.n_heads)
    widths = {"head": (hd, hd), "full": (q, k), "per_head": (g.n_heads * hd, g.n_kv_heads * hd)}
    if g.qk_norm:
        yield "attn_q_norm.weight", (widths[g.qk_norm][0],)
        if not g.kv_shared:
            yield "attn_k_norm.weight", (widths[g.qk_norm][1],)
    if g.sinks:
        yield "attn_sinks.weight", (g.n_heads,)


# HF classes whose projections the converter keeps in one tensor
FUSED_QKV = {"phi3", "phimoe_fused", "nomic_bert", "modernbert"}
FUSED_GATE_UP = {"phi3"}


def _mla(g: t.Mla, d: int) -> Iterator[Shape]:
    nope, rope, vd, r = g.qk_nope_head_dim, g.qk_rope_head_dim, g.v_head_dim, g.kv_lora_rank
    if g.q_lora_rank:
        yield "attn_q_a.weight", (d, g.q_lora_rank)
        yield "attn_q_a_norm.weight", (g.q_lora_rank,)
        yield "attn_q_b.weight", (g.q_lora_rank, g.n_heads * (nope + rope))
    else:
        yield "attn_q.weight", (d, g.n_heads * (nope + rope))
    yield "attn_kv_a_mqa.weight", (d, r + rope)
    yield "attn_kv_a_norm.weight", (r,)
    yield "attn_k_b.weight", (nope, r, g.n_heads)
    yield "attn_v_b.weight", (r, vd, g.n_heads)
    yield "attn_output.weight", (g.n_heads * vd, d)


def _deltanet(model: t.Model, g: t.GatedDeltaNet, d: int) -> Iterator[Shape]:
    key, val = g.k_heads * g.k_dim, g.v_heads * g.v_dim
    yield "attn_qkv.weight", (d, 2 * key + val)
    yield "attn_gate.weight", (d, val)
    if model.model_type == "qwen3_next":
        yield "ssm_ba.weight", (d, 2 * g.v_heads)
    else:
        yield "ssm_alpha.weight", (d, g.v_heads)
        yield "ssm_beta.weight", (d, g.v_heads)
    yield "ssm_conv1d.weight", (g.conv_kernel, 2 * key + val)
    yield "ssm_dt.bias", (g.v_heads,)
    yield "ssm_a", (g.v_heads,)
    yield "ssm_norm.weight", (g.v_dim,)
    yield "ssm_out.weight", (val, d)


def _mamba1(g: t.Mamba1, d: int) -> Iterator[Shape]:
    yield "ssm_in.weight", (d, 2 * g.inner)
    yield "ssm_conv1d.weight", (g.conv_kernel, g.inner)
    yield "ssm_conv1d.bias", (g.inner,)
    yield "ssm_x.weight", (g.inner, g.dt_rank + 2 * g.state)
    if g.bcdt_norm:
        yield "ssm_dt_norm.weight", (g.dt_rank,)
        yield "ssm_b_norm.weight", (g.state,)
        yield "ssm_c_norm.weight", (g.state,)
    yield "ssm_dt.weight", (g.dt_rank, g.inner)
    yield "ssm_dt.bias", (g.inner,)
    yield "ssm_a", (g.state, g.inner)
    yield "ssm_d", (g.inner,)
    yield "ssm_out.weight", (g.inner, d)


def _mamba2(g: t.Mamba2, d: int) -> Iterator[Shape]:
    inner = g.heads * g.head_dim
    conv = inner + 2 * g.groups * g.state
    yield "ssm_in.weight", (d, inner + conv + g.heads)
    yield "ssm_conv1d.weight", (g.conv_kernel, conv)
    if g.conv_bias:
        yield "ssm_conv1d.bias", (conv,)
    yield "ssm_dt.bias", (g.heads,)
    yield "ssm_a", (1, g.heads)
    yield "ssm_d", (1, g.heads)
    if g.gated_norm:
        yield "ssm_norm.weight", (inner // g.groups, g.groups)
    yield "ssm_out.weight", (inner, d)


def _ffn(model: t.Model, g: t.FfnGroup, d: int) -> Iterator[Shape]:
    if isinstance(g, t.Dense):
        yield from _dense(g.intermediate, d, g.act, g.bias)
    elif isinstance(g, t.Moe):
        yield from _moe(model, g, d)


def _dense(ff: int, d: int, act: str, bias: bool) -> Iterator[Shape]:
    if act == "gated":
        yield "ffn_gate.weight", (d, ff)
    yield "ffn_up.weight", (d, ff)
    yield "ffn_down.weight", (ff, d)
    if bias:
        yield "ffn_up.bias", (ff,)
        yield "ffn_down.bias", (d,)


def _moe(model: t.Model, g: t.Moe, d: int) -> Iterator[Shape]:
    e, ff, w = g.n_experts, g.moe_intermediate, g.latent or d
    yield "ffn_gate_inp.weight", (d, g.router_width or e)
    if g.router_bias:
        plain_bias = g.bias or model.model_type == "gpt_oss"
        yield ("ffn_gate_inp.bias" if plain_bias else "exp_probs_b.bias"), (g.router_width or e,)
    if g.act == "gated":
        yield "ffn_gate_exps.weight", (w, ff, e)
    yield "ffn_up_exps.weight", (w, ff, e)
    yield "ffn_down_exps.weight", (ff, w, e)
    if g.bias or model.model_type == "gpt_oss":
        yield "ffn_gate_exps.bias", (ff, e)
        yield "ffn_up_exps.bias", (ff, e)
        yield "ffn_down_exps.bias", (w, e)
    if g.latent:
        yield "ffn_latent_down.weight", (d, g.latent)
        yield "ffn_latent_up.weight", (g.latent, d)
    if g.shared_intermediate:
        if g.act == "gated":
            yield "ffn_gate_shexp.weight", (d, g.shared_intermediate)
        yield "ffn_up_shexp.weight", (d, g.shared_intermediate)
        yield "ffn_down_shexp.weight", (g.shared_intermediate, d)
        if g.shared_gate:
            yield "ffn_gate_inp_shexp.weight", (d,)
    if g.parallel_dense:
        yield from _dense(g.parallel_dense, d, "gated", False)


def _rope_factors(model: t.Model) -> Iterator[Tensor]:
    """Llama 3.1 and later keep their rotary scaling as one small tensor in the file."""
    lay = model.layout
    assert lay is not None
    first = lay.attention[0]
    if model.architecture == "LlamaForCausalLM" and model.family.startswith(("llama-3.1", "llama-3.2", "llama-3.3")):
        assert isinstance(first, t.Full)
        yield Tensor(name="rope_freqs.weight", ne=(first.head_dim // 2,))


def _mtp(model: t.Model, lay: t.Layout) -> Iterator[Tensor]:
    """The multi-token-prediction block that converters append; it stays on disk unless speculation loads it."""
    if model.mtp is None or not model.mtp.layers or model.model_type not in MTP_IN_FILE:
        return
    d = lay.hidden_size
    for k in range(model.mtp.layers):
        i = lay.n_layers + k
        for shape in _layer(model, lay.attention[-1], lay.ffn[-1]):
            yield _in_layer(i, shape, mtp=True)
        for name, ne in (
            ("nextn.eh_proj.weight", (2 * d, d)),
            ("nextn.embed_tokens.weight", (d, lay.vocab_size)),
            ("nextn.enorm.weight", (d,)),
            ("nextn.hnorm.weight", (d,)),
            ("nextn.shared_head_head.weight", (d, lay.vocab_size)),
            ("nextn.shared_head_norm.weight", (d,)),
        ):
            yield _in_layer(i, (name, ne), mtp=True)


MTP_IN_FILE = {"glm4_moe"}  # converters of the other families leave the block out
