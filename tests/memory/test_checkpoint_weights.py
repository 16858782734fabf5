"""Weights from safetensors headers: real shapes, no data. Against vLLM's own loaded bytes and the architecture's."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.errors import BadFile
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.memory import checkpoint_weights, hf_weights
from advisor.session import Session

RULES = catalog([shipped_root()])
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
WIDTHS = {"BF16": 2, "F32": 4, "I32": 4, "F16": 2, "F8_E4M3": 1}


def write(path: Path, tensors: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    """A safetensors file whose data is a hole."""
    header, at = {}, 0
    for name, (kind, shape) in tensors.items():
        size = WIDTHS[kind]
        for n in shape:
            size *= n
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with path.open("wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)


def llama(kind: str = "BF16") -> dict[str, tuple[str, tuple[int, ...]]]:
    """Names and shapes of Llama-3.1-8B."""
    d, ff, kv, vocab = 4096, 14336, 1024, 128256
    out = {"model.embed_tokens.weight": (kind, (vocab, d)), "model.norm.weight": (kind, (d,))}
    for i in range(32):
        p = f"model.layers.{i}."
        out |= {
            f"{p}self_attn.q_proj.weight": (kind, (d, d)), f"{p}self_attn.k_proj.weight": (kind, (kv, d)),
            f"{p}self_attn.v_proj.weight": (kind, (kv, d)), f"{p}self_attn.o_proj.weight": (kind, (d, d)),
            f"{p}mlp.gate_proj.weight": (kind, (ff, d)), f"{p}mlp.up_proj.weight": (kind, (ff, d)),
            f"{p}mlp.down_proj.weight": (kind, (d, ff)), f"{p}input_layernorm.weight": (kind, (d,)),
            f"{p}post_attention_layernorm.weight": (kind, (d,)),
        }  # fmt: skip
    return out | {"lm_head.weight": (kind, (vocab, d))}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def first_rank(folder: Path, tp: int, pp: int = 1) -> list[int | None]:
    request = EstimateRequest(
        model=str(folder), engine="vllm", hardware=f"{tp * pp}x H100 80GB SXM", context_length=8192,
        settings={"tensor-parallel-size": tp, "pipeline-parallel-size": pp},
    )  # fmt: skip
    m = estimate(resolve_request(request, RULES)[0], Session(RULES))
    assert m.basis["weights"] == "exact"
    return [x.weights_bytes for x in m.devices]


def test_vllm_loads_these_bytes(folder: Path) -> None:
    """Llama-3.1-8B: 16,060,522,496 bytes by vLLM 0.33.0's own count."""
    write(folder / "model.safetensors", llama())
    assert first_rank(folder, 1) == [16_060_522_496]


@pytest.mark.parametrize(("tp", "pp"), [(2, 1), (8, 1), (16, 1), (1, 4), (2, 2)])
def test_ranks_as_from_the_architecture(folder: Path, tp: int, pp: int) -> None:
    write(folder / "model.safetensors", llama())
    model, q = RULES.find_model("llama3.1:8b"), RULES.quantization("BF16")
    ours = checkpoint_weights.checkpoint_rank_weights(model, folder, tp, pp)
    theirs = hf_weights.rank_weights(model, q, tp, pp)
    assert ours.stages == theirs.stages
    assert ours.outside == theirs.outside


def test_32_bit_files_are_loaded_as_16_bit(folder: Path) -> None:
    write(folder / "model.safetensors", llama("F32"))
    assert first_rank(folder, 1)[0] == pytest.approx(16_060_522_496, rel=0.001)  # norms may stay


def test_a_quantized_checkpoint_counts_what_it_stores(folder: Path) -> None:
    """FP8 with attention left at 16 bit, as some publishers do: no formula knows, the headers do."""
    tensors = {name: (("F8_E4M3" if ".mlp." in name else kind), shape) for name, (kind, shape) in llama().items()}
    write(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps({**CONFIG, "quantization_config": {"quant_method": "fp8"}}))
    assert first_rank(folder, 1) == [16_060_522_496 - 32 * 3 * 4096 * 14336]


def test_tied_copy_and_prediction_block_are_left_out(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({**CONFIG, "tie_word_embeddings": True}))
    extra = {"mtp.layers.0.mlp.up_proj.weight": ("BF16", (64, 64)), "model.layers.32.x.weight": ("BF16", (64, 64))}
    write(folder / "model.safetensors", llama() | extra)
    assert first_rank(folder, 1) == [16_060_522_496 - 2 * 128256 * 4096]


def test_strange_names_are_said(folder: Path) -> None:
    write(folder / "model.safetensors", {"a.weight": ("BF16", (8, 8))})
    with pytest.raises(BadFile, match="usual names"):
        first_rank(folder, 1)
