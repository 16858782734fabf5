"""The parts of one layer of a GGUF file, from its tensor shapes; metadata fills in what shapes cannot say.

Tensor names and shapes as llama.cpp writes them (PyPI `gguf` 0.19.0 lists the names). Shapes are ne0 first, so a map
a -> b has the shape (a, b).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Literal

from advisor.errors import BadFile
from advisor.models import types as t
from advisor.models.gguf import GgufFile

Block = Mapping[str, tuple[int, ...]]  # tensor name inside the block -> shape


class GgufMetadata:
    """Metadata of one architecture with typed access; a missing or ill-typed key is a BadFile that names it."""

    def __init__(self, file: GgufFile, arch: str) -> None:
        self.file, self.arch, self.path = file, arch, file.parts[0]

    def maybe(self, name: str, layer: int | None = None, most: int = 2**31) -> int | None:
        """A whole number `<arch>.<name>`; a per-layer array gives the entry of `layer`."""
        key = f"{self.arch}.{name}"
        value = self.file.metadata.get(key)
        if isinstance(value, tuple):
            if layer is None or layer >= len(value):
                raise BadFile(
                    self.path, f"`{key}` has {len(value)} entries where one number (or one per layer) is expected"
                )
            value = value[layer]
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise BadFile(self.path, f"`{key}` must be a whole number up to {most}, is {str(value)[:40]!r}")
        return value

    def need(self, name: str, layer: int | None = None, most: int = 2**31) -> int:
        """As `maybe`, at least 1."""
        value = self.maybe(name, layer, most)
        if not value:
            raise BadFile(
                self.path, f"`{self.arch}.{name}` is missing" if value is None else f"`{self.arch}.{name}` is 0"
            )
        return value

    def shape(self, block: Block, name: str, dims: int) -> tuple[int, ...]:
        """The shape of a tensor that must be there with at least `dims` dimensions (trailing ones may be left out)."""
        shape = block.get(name)
        if shape is None:
            raise BadFile(self.path, f"a layer has no tensor {name!r} although its other tensors call for it")
        return shape + (1,) * (dims - len(shape))

    def divide(self, total: int, parts: int, what: str) -> int:
        """An exact division of dims."""
        if parts <= 0 or total <= 0 or total % parts:
            raise BadFile(self.path, f"{what}: {total} is not a multiple of {parts}")
        return total // parts


def read_mixer(metadata: GgufMetadata, block: Block, layer: int) -> t.AttentionGroup:
    """The token mixer of a layer, windows not considered."""
    if "shortconv.conv.weight" in block:
        return t.ShortConv(n=1, conv_kernel=metadata.shape(block, "shortconv.conv.weight", 2)[0])
    if "ssm_conv1d_q.weight" in block:
        head_dim = metadata.need("kda.head_dim")
        width = metadata.shape(block, "attn_output.weight", 2)[0]
        kernel = metadata.shape(block, "ssm_conv1d_q.weight", 2)[0]
        return t.Kda(n=1, n_heads=metadata.divide(width, head_dim, "KDA width"), head_dim=head_dim, conv_kernel=kernel)
    if "ssm_conv1d.weight" in block:
        recurrent = _recurrent(metadata, block)
        if "attn_q.weight" in block and isinstance(recurrent, t.Mamba2):
            return t.Parallel(n=1, parts=(_softmax(metadata, block, layer), recurrent))
        return recurrent
    if "attn_kv_a_mqa.weight" in block:
        return _mla(metadata, block, layer)
    if "attn_norm_2.weight" in block and metadata.arch == "minimax-01":
        heads = metadata.need("attention.head_count", layer)
        width = metadata.shape(block, "attn_output.weight", 2)[0]
        return t.Lightning(n=1, n_heads=heads, head_dim=metadata.divide(width, heads, "lightning attention width"))
    if "attn_q.weight" in block or "attn_qkv.weight" in block:
        return _softmax(metadata, block, layer)
    return t.NoMixer(n=1)


def _recurrent(metadata: GgufMetadata, block: Block) -> t.GatedDeltaNet | t.Mamba1 | t.Mamba2:
    kernel, channels = metadata.shape(block, "ssm_conv1d.weight", 2)[:2]
    inner = metadata.shape(block, "ssm_out.weight", 2)[0]
    state = metadata.need("ssm.state_size")
    if any(name in block for name in ("ssm_ba.weight", "ssm_beta.weight", "ssm_alpha.weight")):
        v_heads = metadata.need("ssm.time_step_rank")
        v_dim = metadata.divide(inner, v_heads, "linear attention width")
        k_heads = metadata.divide(
            metadata.divide(channels - inner, 2, "convolution width"), state, "linear attention key width"
        )
        return t.GatedDeltaNet(
            n=1, k_heads=k_heads, v_heads=v_heads, k_dim=state, v_dim=v_dim, conv_kernel=kernel,
            table=_table(metadata, block),
        )  # fmt: skip
    if "ssm_x.weight" in block:
        return t.Mamba1(
            n=1,
            inner=inner,
            state=state,
            dt_rank=metadata.shape(block, "ssm_x.weight", 2)[1] - 2 * state,
            conv_kernel=kernel,
            bcdt_norm="ssm_dt_norm.weight" in block,
        )
    heads = prod(metadata.shape(block, "ssm_dt.bias", 1))
    return t.Mamba2(
        n=1,
        heads=heads,
        head_dim=metadata.divide(inner, heads, "Mamba-2 width"),
        state=state,
        groups=metadata.divide(channels - inner, 2 * state, "Mamba-2 convolution width"),
        conv_kernel=kernel,
        conv_bias="ssm_conv1d.bias" in block,
        gated_norm="ssm_norm.weight" in block,
    )


def _table(metadata: GgufMetadata, block: Block) -> t.NgramTable | None:
    if "ple_conv1d.weight" not in block:
        return None
    kernel, width = metadata.shape(block, "ple_conv1d.weight", 2)[:2]
    return t.NgramTable(kernel=kernel, kept=(kernel - 1) * metadata.need("ple.ngram_size") * width)


def _index(metadata: GgufMetadata, block: Block, layer: int) -> t.Indexer | None:
    if "indexer.k_proj.weight" not in block:
        return None
    return t.Indexer(
        heads=metadata.need("attention.indexer.head_count"),
        dim=metadata.need("attention.indexer.key_length"),
        top_k=metadata.maybe("attention.indexer.top_k"),
        key_pool=metadata.maybe("attention.compress_ratios", layer),
    )


def _mla(metadata: GgufMetadata, block: Block, layer: int) -> t.Mla:
    heads = metadata.need("attention.head_count", layer)
    latent = metadata.need("attention.kv_lora_rank")
    rope = metadata.shape(block, "attn_kv_a_mqa.weight", 2)[1] - latent
    q = "attn_q_b.weight" if "attn_q_b.weight" in block else "attn_q.weight"
    q_in, q_out = metadata.shape(block, q, 2)[:2]
    nope = metadata.divide(q_out, heads, "query width") - rope
    if rope < 0 or nope < 0:
        raise BadFile(
            metadata.path,
            f"layer {layer}: latent attention widths do not agree with `{metadata.arch}.attention.kv_lora_rank`",
        )
    index = metadata.maybe("attention.indexer.head_count")
    return t.Mla(
        n=1,
        n_heads=heads,
        kv_lora_rank=latent,
        qk_nope_head_dim=nope,
        qk_rope_head_dim=rope,
        v_head_dim=metadata.divide(metadata.shape(block, "attn_output.weight", 2)[0], heads, "output width"),
        q_lora_rank=q_in if q == "attn_q_b.weight" else None,
        absorbed=bool(metadata.maybe("attention.key_length_mla") and metadata.maybe("attention.value_length_mla")),
        indexer=t.Indexer(
            heads=index,
            dim=metadata.need("attention.indexer.key_length"),
            top_k=metadata.maybe("attention.indexer.top_k"),
            shared="indexer.proj.weight" not in block,
        )
        if index
        else None,
        extra=prod(block.get("attn_gate.weight", (0,))),
    )


def _softmax(metadata: GgufMetadata, block: Block, layer: int) -> t.Full:
    heads = metadata.need("attention.head_count", layer)
    kv = metadata.maybe("attention.head_count_kv", layer) or heads
    v_dim = metadata.divide(metadata.shape(block, "attn_output.weight", 2)[0], heads, "attention output width")
    gate: Literal["elementwise", "headwise"] | None = None
    kind: Literal["head", "full", "per_head"] | None = None
    shared = k_eq_v = False
    if "attn_qkv.weight" in block:
        fused = metadata.shape(block, "attn_qkv.weight", 2)[1]
        stated = metadata.maybe("attention.key_length", layer)  # some store a key and a value for every query
        k_dim = stated or metadata.divide(fused - kv * v_dim, heads + kv, "fused query, key and value width")
    else:
        q_width = metadata.shape(block, "attn_q.weight", 2)[1]
        if "attn_k.weight" in block:
            k_dim = metadata.divide(metadata.shape(block, "attn_k.weight", 2)[1], kv, "key width")
            k_eq_v = "attn_v.weight" not in block
        else:
            shared, k_dim = True, metadata.divide(q_width, heads, "query width")
        if q_width == 2 * heads * k_dim:
            gate = "elementwise"
        elif q_width != heads * k_dim:
            raise BadFile(metadata.path, f"layer {layer}: query width {q_width} is not {heads} heads of {k_dim}")
    if "attn_gate.weight" in block:
        gate = "headwise" if metadata.shape(block, "attn_gate.weight", 2)[1] == heads else "elementwise"
    norm = block.get("attn_q_norm.weight")
    if norm is not None:
        kind = "head" if norm == (k_dim,) else "full" if len(norm) == 1 else "per_head"
    return t.Full(
        n=1,
        n_heads=heads,
        n_kv_heads=kv,
        head_dim=k_dim,
        v_head_dim=None if v_dim == k_dim else v_dim,
        qkv_bias=any(f"{name}.bias" in block for name in ("attn_q", "attn_qkv")),
        o_bias="attn_output.bias" in block,
        qk_norm=kind,
        gate=gate,
        kv_shared=shared,
        k_eq_v=k_eq_v,
        sinks="attn_sinks.weight" in block or "attn_sinks" in block,
        index_key_dim=metadata.maybe("attention.indexer.key_length") if "indexer.k_proj.weight" in block else None,
        index=_index(metadata, block, layer),
    )


def read_feed_forward(metadata: GgufMetadata, block: Block, hidden: int) -> t.FfnGroup:
    """The feed-forward part of a layer."""
    experts = block.get("ffn_down_exps.weight")
    if experts is not None:
        return _experts(metadata, block, hidden, (*experts, 1, 1)[:3])
    if "ffn_down.0.weight" in block:
        raise BadFile(
            metadata.path, "stores every expert as its own tensor, an early format that llama.cpp no longer reads"
        )
    if "ffn_down.weight" not in block:
        return t.NoFfn(n=1)
    width = metadata.shape(block, "ffn_down.weight", 2)[0]
    fused = block.get("ffn_up.weight", (0, 0))[-1] == 2 * width
    gated = "ffn_gate.weight" in block or fused
    bias = "ffn_up.bias" in block or "ffn_down.bias" in block
    return t.Dense(n=1, intermediate=width, act="gated" if gated else "plain", bias=bias)


def _experts(metadata: GgufMetadata, block: Block, hidden: int, down: tuple[int, ...]) -> t.Moe:
    width, out, count = down
    shared = block.get("ffn_down_shexp.weight", (0,))[0]
    biases = sum(prod(s) for name, s in block.items() if name.endswith("_exps.bias"))
    scales = sum(prod(s) for name, s in block.items() if name in {"ffn_gate_inp.scale", "ffn_down_exps.scale"})
    return t.Moe(
        n=1,
        n_experts=count,
        top_k=min(metadata.need("expert_used_count"), count),
        moe_intermediate=width,
        n_shared=(metadata.maybe("expert_shared_count") or 1) if shared else 0,
        shared_intermediate=shared,
        shared_gate="ffn_gate_inp_shexp.weight" in block,
        parallel_dense=block.get("ffn_down.weight", (0,))[0],
        latent=out if out != hidden else None,
        router_bias=any(name in block for name in ("exp_probs_b.bias", "exp_probs_b", "ffn_gate_inp.bias")),
        act="gated" if "ffn_gate_exps.weight" in block or "ffn_gate_up_exps.weight" in block else "plain",
        extra=biases + scales,
    )
