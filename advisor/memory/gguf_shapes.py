"""Names and shapes of the tensors of one layer of a GGUF file, as llama.cpp's converter writes them.

Source: llama.cpp v0.5.0 model loader (shapes it checks on load); counts checked against llamacpp_memory.csv.
"""

from __future__ import annotations

from collections.abc import Iterator

from advisor.models import types as t

Shape = tuple[str, tuple[int, ...]]  # name without the layer, elements per dimension (row first)

# HF classes whose projections the converter keeps in one tensor
FUSED_QKV = {"phi3", "phimoe_fused", "nomic_bert", "modernbert"}
FUSED_GATE_UP = {"phi3"}


class NoLayout(ValueError):
    """The architecture has parts whose GGUF tensors are not known."""


def layer_shapes(model: t.Model, mixer: t.AttentionGroup, ffn: t.FfnGroup) -> Iterator[Shape]:
    """The tensors of one layer. Raises NoLayout when a part of it is not known."""
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
