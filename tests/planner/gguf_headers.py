"""Header-only GGUF files of catalogue models: true names, shapes, types and keys, and a hole instead of weights.

A file of 400 GB takes a few hundred kB of disk. llama.cpp's loader accepts the keys and checks every shape.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from advisor.memory.gguf_tensors import GgufTensor, as_gguf, layer_order, list_file_tensors
from advisor.models import types as t
from advisor.models.tensors import BLOCKS

sys.path.append(str(Path(__file__).resolve().parents[1] / "models"))
from gguf_files import add_value

Keys = dict[str, Any]
KEPT_F32 = ("_norm", "ffn_gate_inp", "ssm_conv1d", "shortconv.conv", "rope_")
ROPE_PARTS = {"qwen35": [11, 11, 10, 0], "qwen35moe": [11, 11, 10, 0]}
PER_LAYER_FFN = ("deci", "nemotron_h", "nemotron_h_moe", "gemma3n", "gemma4")
PER_LAYER_KV = ("granitehybrid", "jamba", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe", "kimi-linear")


def list_types(model: t.Model) -> dict[str, str]:
    """Type of each tensor in a 16-bit file."""
    return {x.name: "F32" if _stays(x) else "F16" for x in list_file_tensors(model)}


def _stays(tensor: GgufTensor) -> bool:
    return len(tensor.ne) < 2 or not tensor.name.endswith("weight") or any(x in tensor.name for x in KEPT_F32)


def write_header(path: Path, model: t.Model, types: Mapping[str, str], file_type: int = 1) -> None:
    """Write the file. `types`: GGML type of each tensor by name."""
    writer = gguf.GGUFWriter(str(path), str(model.gguf_name))
    for key, value in read_keys(model).items():
        add_value(writer, key, value)
    writer.add_uint32("general.file_type", file_type)
    writer.add_uint32("general.quantization_version", 2)
    writer.add_string("tokenizer.ggml.model", "none")
    size = 0
    for tensor in list_file_tensors(model):
        kind = types[tensor.name]
        block, width = BLOCKS[kind]
        n = prod(tensor.ne) // block * width
        shape = [*reversed(tensor.ne[1:]), tensor.ne[0] // block * width if block > 1 else tensor.ne[0]]
        raw = None if kind in ("F32", "F16") else gguf.GGMLQuantizationType[kind]
        dtype = {"F32": np.float32, "F16": np.float16}.get(kind, np.uint8)
        writer.add_tensor_info(tensor.name, shape, np.dtype(dtype), n, raw_dtype=raw)
        size += -(-n // 32) * 32
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    os.truncate(path, -(-path.stat().st_size // 32) * 32 + size)


def read_keys(model: t.Model) -> Keys:
    """Metadata of the file, as far as the engine's planner reads it."""
    model = as_gguf(model)
    lay, name = model.layout, str(model.gguf_name)
    assert lay is not None
    n = lay.n_layers
    mixers = [lay.attention[i] for i in layer_order(lay.attention, lay.attention_order, n)]
    ffns = [lay.ffn[i] for i in layer_order(lay.ffn, lay.ffn_order, n)]
    more = model.mtp.layers if model.mtp and any(x.mtp for x in list_file_tensors(model)) else 0
    keys: Keys = {
        "block_count": n + more, "context_length": model.max_context or 4096, "embedding_length": lay.hidden_size,
        "vocab_size": lay.vocab_size, "attention.layer_norm_rms_epsilon": 1e-6, "attention.layer_norm_epsilon": 1e-5,
        "rope.freq_base": 1e4, **_feed_forward(name, ffns, more), **_heads(name, mixers, more),
        **_windows(model, mixers), **_states(mixers), **_own(model, name, n),
    }  # fmt: skip
    if more:
        keys["nextn_predict_layers"] = more
    out = {f"{name}.{k}": v for k, v in keys.items()}
    if name in ("bert", "nomic-bert"):
        out["tokenizer.ggml.token_type_count"] = 2
    if name == "apertus":
        out |= {f"xielu.{x}": [0.5] * n for x in ("alpha_p", "alpha_n", "beta", "eps")}
    return out


def _one(values: Sequence[int], more: int) -> int | list[int]:
    """One number where all layers have it, else one a layer."""
    filled = [*values, *[values[-1]] * more]
    return filled[0] if len(set(filled)) == 1 else filled


def _feed_forward(name: str, ffns: Sequence[t.FfnGroup], more: int) -> Keys:
    dense = [x.intermediate if isinstance(x, t.Dense) else getattr(x, "parallel_dense", 0) for x in ffns]
    experts = [x for x in ffns if isinstance(x, t.Moe)]
    widths = [x.moe_intermediate if isinstance(x, t.Moe) else d for x, d in zip(ffns, dense, strict=True)]
    each = dense if name == "gemma4" else widths
    keys: Keys = {"feed_forward_length": _one(each, more) if name in PER_LAYER_FFN else max(dense) or max(widths)}
    if not experts:
        return keys
    moe, at = experts[0], [i for i, x in enumerate(ffns) if isinstance(x, t.Moe)]
    step = at[1] - at[0] if len(at) > 1 else 1
    return keys | {
        "expert_count": moe.n_experts, "expert_used_count": moe.top_k, "expert_shared_count": moe.n_shared,
        "expert_feed_forward_length": moe.moe_intermediate, "leading_dense_block_count": at[0],
        "expert_shared_feed_forward_length": moe.shared_intermediate, "expert_weights_scale": 1.0,
        "expert_weights_norm": True, "expert_group_count": 1, "expert_group_used_count": 1,
        "expert_gating_func": 2 if moe.router_bias else 1, "interleave_moe_layer_step": step,
        "moe_every_n_layers": step,
        **({"moe_latent_size": moe.latent} if moe.latent else {}),
    }  # fmt: skip


def _softmax(mixer: t.AttentionGroup) -> t.Softmax | None:
    parts = mixer.parts if isinstance(mixer, t.Parallel) else (mixer,)
    return next((p for p in parts if isinstance(p, t.Softmax)), None)


def _heads(name: str, mixers: Sequence[t.AttentionGroup], more: int) -> Keys:
    plain = [_softmax(x) for x in mixers]
    some, latent = next((x for x in plain if x), None), next((x for x in mixers if isinstance(x, t.Mla)), None)
    if some is None and latent is None:
        return {"attention.head_count": 0}
    queries = [getattr(s or m, "n_heads", 0) for s, m in zip(plain, mixers, strict=True)]
    shared = [s.n_kv_heads if s else int(isinstance(m, t.Mla)) for s, m in zip(plain, mixers, strict=True)]
    uneven = name == "deci" or all(queries)
    keys: Keys = {"attention.head_count": _one(queries, more) if uneven else max(queries)}
    keys["attention.head_count_kv"] = (
        _one(shared, more) if name in PER_LAYER_KV or all(shared) or uneven else max(shared)
    )
    if some is not None:
        wide = next((x for x in plain if x and not x.window), some)
        half = {"chatglm": 2, "glm4": 2, "glm4moe": 2, "qwen35": 4, "qwen35moe": 4, "qwen3next": 4}.get(name, 1)
        keys |= {"attention.key_length": wide.head_dim, "attention.value_length": wide.v_head_dim or wide.head_dim}
        keys["rope.dimension_count"] = wide.head_dim // half
        local = next((x for x in plain if x and x.window), None)
        if local is not None and local is not wide:
            keys |= {
                "attention.key_length_swa": local.head_dim, "rope.dimension_count_swa": local.head_dim,
                "attention.value_length_swa": local.v_head_dim or local.head_dim,
            }  # fmt: skip
    if latent is not None:
        width = latent.kv_lora_rank + latent.qk_rope_head_dim
        keys |= {
            "attention.kv_lora_rank": latent.kv_lora_rank, "attention.key_length": width,
            "attention.value_length": latent.kv_lora_rank, "rope.dimension_count": latent.qk_rope_head_dim,
            "attention.key_length_mla": latent.qk_nope_head_dim + latent.qk_rope_head_dim,
            "attention.value_length_mla": latent.v_head_dim,
            **({"attention.q_lora_rank": latent.q_lora_rank} if latent.q_lora_rank else {}),
        }  # fmt: skip
    return keys


def _windows(model: t.Model, mixers: Sequence[t.AttentionGroup]) -> Keys:
    plain = [_softmax(x) for x in mixers]
    window = next((x.window for x in plain if x and x.window), None)
    if window is None:
        return {}
    rule = model.gguf_architecture.windows if model.gguf_architecture else None
    stored = {"attention.sliding_window_pattern": [bool(x and x.window) for x in plain]}
    return {"attention.sliding_window": window, **(stored if rule is not None and rule.every is None else {})}


def _states(mixers: Sequence[t.AttentionGroup]) -> Keys:
    keys: Keys = {}
    for part in (p for m in mixers for p in (m.parts if isinstance(m, t.Parallel) else (m,))):
        if isinstance(part, t.Mamba2):
            keys |= _ssm(part.conv_kernel, part.heads * part.head_dim, part.state, part.heads, part.groups)
        elif isinstance(part, t.Mamba1):
            keys |= _ssm(part.conv_kernel, part.inner, part.state, part.dt_rank) | {"ssm.dt_b_c_rms": True}
        elif isinstance(part, t.GatedDeltaNet):
            keys |= _ssm(part.conv_kernel, part.v_heads * part.v_dim, part.k_dim, part.v_heads, part.k_heads)
        elif isinstance(part, t.Kda):
            keys |= {"ssm.conv_kernel": part.conv_kernel, "kda.head_dim": part.head_dim}
        elif isinstance(part, t.ShortConv):
            keys["shortconv.l_cache"] = part.conv_kernel
    at = [i for i, m in enumerate(mixers) if isinstance(m, t.Softmax)]
    if any(isinstance(m, t.GatedDeltaNet) for m in mixers) and len(at) > 1:
        keys["full_attention_interval"] = at[1] - at[0]
    return keys


def _ssm(kernel: int, inner: int, state: int, rank: int, groups: int | None = None) -> Keys:
    keys: Keys = {
        "ssm.conv_kernel": kernel,
        "ssm.inner_size": inner,
        "ssm.state_size": state,
        "ssm.time_step_rank": rank,
    }
    return keys if groups is None else {**keys, "ssm.group_count": groups}


def _own(model: t.Model, name: str, n: int) -> Keys:
    """Keys of single architectures."""
    lay, architecture = model.layout, model.gguf_architecture
    assert lay is not None
    keys: Keys = {}
    if name in ROPE_PARTS:
        keys["rope.dimension_sections"] = ROPE_PARTS[name]
    elif architecture is not None and architecture.graph.positions > 1:
        keys["rope.dimension_sections"] = [16, 24, 24, 0]
    if architecture is not None and architecture.graph.deepstack:
        keys["n_deepstack_layers"] = architecture.graph.deepstack
    if name == "gemma2":
        keys |= {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
    if name in ("command-r", "cohere2"):
        keys["logit_scale"] = 0.0625
    if name.startswith("granite"):
        keys |= {"logit_scale": 8.0, "embedding_scale": 12.0, "residual_scale": 0.22, "attention.scale": 0.0156}
    if name in ("gemma3n", "gemma4"):
        keys["embedding_length_per_layer_input"] = lay.per_layer.width if lay.per_layer else 0
    if name == "gemma3n" and lay.per_layer is not None:
        keys |= {
            "altup.num_inputs": lay.per_layer.streams,
            "altup.active_idx": 0,
            "activation_sparsity_scale": [0.0] * n,
        }
    if name == "gemma4":
        keys["attention.shared_kv_layers"] = sum(bool(x and x.kv_shared) for x in _every(lay))
    if architecture is not None and architecture.encoder:
        keys |= {"attention.causal": False, "pooling_type": 1}
    return keys


def _every(lay: t.Layout) -> Iterator[t.Softmax | None]:
    for i in layer_order(lay.attention, lay.attention_order, lay.n_layers):
        yield _softmax(lay.attention[i])
