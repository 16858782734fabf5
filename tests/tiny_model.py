"""A complete llama model of a few hundred KB with random weights: real enough for a real llama-server.

Two layers, width 64, 262 tokens (256 byte symbols of GPT-2's alphabet, two merges, four control tokens). One channel of
the embedding is constant and the output rows of everything but printable ASCII point away from it, so generated text
is printable and never ends early.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

LAYERS, WIDTH, HEADS, KV_HEADS, FF, CONTEXT = 2, 64, 4, 2, 128, 4096


def byte_symbols() -> list[str]:
    """GPT-2's printable stand-in for each of the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    out, extra = {}, 0
    for b in range(256):
        if b in plain:
            out[b] = chr(b)
        else:
            out[b] = chr(256 + extra)
            extra += 1
    return [out[b] for b in range(256)]


def write(path: Path) -> Path:
    """Write the model; the same bytes every time."""
    rng = np.random.default_rng(0)
    symbols = byte_symbols()
    tokens = [*symbols, symbols[ord("t")] + symbols[ord("h")], symbols[ord("h")] + symbols[ord("e")]]
    tokens += ["<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>"]
    kinds = [gguf.TokenType.NORMAL] * 258 + [gguf.TokenType.CONTROL] * 4
    w = gguf.GGUFWriter(str(path), "llama")
    w.add_name("tiny")
    w.add_context_length(CONTEXT)
    w.add_embedding_length(WIDTH)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(FF)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV_HEADS)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(WIDTH // HEADS)
    w.add_vocab_size(len(tokens))
    w.add_file_type(gguf.LlamaFileType.ALL_F32)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types(kinds)
    w.add_token_merges([f"{symbols[ord('t')]} {symbols[ord('h')]}", f"{symbols[ord('h')]} {symbols[ord('e')]}"])
    w.add_bos_token_id(258)
    w.add_eos_token_id(259)
    w.add_eot_token_id(261)
    w.add_add_bos_token(False)
    w.add_chat_template(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "<|im_start|>assistant\n"
    )

    def tensor(name: str, *shape: int) -> None:
        w.add_tensor(name, (rng.standard_normal(shape) * 0.05).astype(np.float32))

    embedding = (rng.standard_normal((len(tokens), WIDTH)) * 0.05).astype(np.float32)
    embedding[:, 0] = 4.0
    output = (rng.standard_normal((len(tokens), WIDTH)) * 0.05).astype(np.float32)
    output[:, 0] = -8.0
    output[33:127, 0] = 0.0
    w.add_tensor("token_embd.weight", embedding)
    w.add_tensor("output.weight", output)
    w.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    kv = WIDTH // HEADS * KV_HEADS
    for i in range(LAYERS):
        w.add_tensor(f"blk.{i}.attn_norm.weight", np.ones(WIDTH, np.float32))
        w.add_tensor(f"blk.{i}.ffn_norm.weight", np.ones(WIDTH, np.float32))
        for name, rows, columns in (
            ("attn_q", WIDTH, WIDTH),
            ("attn_k", kv, WIDTH),
            ("attn_v", kv, WIDTH),
            ("attn_output", WIDTH, WIDTH),
            ("ffn_gate", FF, WIDTH),
            ("ffn_up", FF, WIDTH),
            ("ffn_down", WIDTH, FF),
        ):
            tensor(f"blk.{i}.{name}.weight", rows, columns)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path
