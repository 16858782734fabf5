"""GGUF files for tests: real headers and tensor tables written by the `gguf` package, data sections left as holes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gguf

Tensors = list[tuple[str, tuple[int, ...]]]


def add_value(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    """Add metadata of whatever type the value has."""
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def write(
    path: Path,
    arch: str,
    keys: dict[str, Any],
    tensors: Tensors,
    type_of: Any = lambda name, shape: "F32",
    vocabulary: int = 0,
    data: bool = True,
) -> Path:
    """Write a file. Shapes are ne0 first. Keys starting with a dot belong to the architecture."""
    writer = gguf.GGUFWriter(None, arch)
    for key, value in keys.items():
        name = f"{arch}{key}" if key.startswith(".") else key
        add_value(writer, name, value)
    if vocabulary:
        writer.add_token_list([f"token{i:06d}" for i in range(vocabulary)])
        writer.add_token_scores([0.5] * vocabulary)
        writer.add_token_merges([f"a{i} b{i}" for i in range(vocabulary)])
    end = 0
    for name, shape in tensors:
        kind = gguf.GGMLQuantizationType[type_of(name, shape)]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        count = 1
        for n in shape:
            count *= n
        nbytes = count // elements * size
        rows = tuple(reversed(shape))
        if elements > 1:  # the writer wants the byte shape of quantized tensors
            rows = (*rows[:-1], rows[-1] // elements * size)
        import numpy as np

        writer.add_tensor_info(name, rows, np.dtype("uint8" if elements > 1 else "float32"), nbytes, raw_dtype=kind)
        end = -(-end // 32) * 32 + nbytes
    writer.open_output_file(path)
    writer.write_header_to_file(path)
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    if data:
        start = -(-path.stat().st_size // 32) * 32
        os.truncate(path, start + end)
    return path


def ends(d: int, vocabulary: int, tied: bool = False) -> Tensors:
    """Embedding, final norm and, if not tied, output matrix."""
    out: Tensors = [("token_embd.weight", (d, vocabulary)), ("output_norm.weight", (d,))]
    return out if tied else [*out, ("output.weight", (d, vocabulary))]


def attention(
    i: int, d: int, heads: int, kv: int, hd: int, norms: bool = False, biases: tuple[str, ...] = ()
) -> Tensors:
    """Separate q, k, v and output maps of layer `i`, with its input norm."""
    b = f"blk.{i}."
    out: Tensors = [
        (b + "attn_norm.weight", (d,)),
        (b + "attn_q.weight", (d, heads * hd)),
        (b + "attn_k.weight", (d, kv * hd)),
        (b + "attn_v.weight", (d, kv * hd)),
        (b + "attn_output.weight", (heads * hd, d)),
    ]
    if norms:
        out += [(b + "attn_q_norm.weight", (hd,)), (b + "attn_k_norm.weight", (hd,))]
    widths = {"q": heads * hd, "k": kv * hd, "v": kv * hd, "output": d}
    return out + [(f"{b}attn_{name}.bias", (widths[name],)) for name in biases]


def mlp(i: int, d: int, ff: int, gated: bool = True) -> Tensors:
    """Dense feed-forward part of layer `i` with its norm."""
    b = f"blk.{i}."
    gate: Tensors = [(b + "ffn_gate.weight", (d, ff))] if gated else []
    return [(b + "ffn_norm.weight", (d,)), *gate, (b + "ffn_up.weight", (d, ff)), (b + "ffn_down.weight", (ff, d))]


def experts(i: int, d: int, ff: int, n: int, shared: int = 0, bias: bool = False) -> Tensors:
    """Routed experts of layer `i` with router and norm."""
    b = f"blk.{i}."
    out: Tensors = [
        (b + "ffn_norm.weight", (d,)),
        (b + "ffn_gate_inp.weight", (d, n)),
        (b + "ffn_gate_exps.weight", (d, ff, n)),
        (b + "ffn_up_exps.weight", (d, ff, n)),
        (b + "ffn_down_exps.weight", (ff, d, n)),
    ]
    if shared:
        out += [
            (b + "ffn_gate_shexp.weight", (d, shared)),
            (b + "ffn_up_shexp.weight", (d, shared)),
            (b + "ffn_down_shexp.weight", (shared, d)),
        ]
    return [*out, (b + "exp_probs_b.bias", (n,))] if bias else out


def base(n: int, d: int, heads: Any, kv: Any, context: int = 32768, **more: Any) -> dict[str, Any]:
    """The keys that every transformer has."""
    keys = {
        ".block_count": n,
        ".embedding_length": d,
        ".context_length": context,
        ".attention.head_count": heads,
        ".attention.head_count_kv": kv,
    }
    return {**keys, **{"." + k.replace("__", "."): v for k, v in more.items()}}


def tiny(path: Path, **more: Any) -> Path:
    """A small complete llama file (2 layers, width 64), data included as zeros."""
    d, tensors = 64, ends(64, 96, tied=True)
    for i in range(2):
        tensors += attention(i, d, 4, 2, 16) + mlp(i, d, 128)
    return write(path, "llama", base(2, d, 4, 2), tensors, vocabulary=96, **more)
