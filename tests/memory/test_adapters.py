"""LoRA slots and prediction blocks in addition to the model's own weights."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from asking import RULES, asked

from advisor.errors import BadInput
from advisor.memory import adapters

DATA = Path(__file__).resolve().parents[1] / "data"
L8 = "llama3.1:8b"
H100 = "1x H100 80GB SXM"


def test_an_adapter_over_all_linear_layers() -> None:
    """Rank 16 on Llama-3.1-8B: 41,943,040 trainable parameters, as fine-tuning tools print them."""
    assert adapters.lora_elements(RULES.find_model(L8), 16) == 41_943_040


def test_slots_are_those_of_vllms_own_layers() -> None:
    """Every element that vLLM allocates for one slot on one rank, to the last."""
    with (DATA / "lora_buffers.csv").open() as f:
        rows = list(csv.DictReader(x for x in f if not x.startswith("#")))
    assert len(rows) == 26
    for r in rows:
        tp, expert_parallel = int(r["tensor_parallel"]), r["expert_parallel"] == "yes"
        tensor_parallel = {"tensor_parallel_size": tp, "enable_expert_parallel": expert_parallel}
        where = {"quant": "BF16", "context": 4096, **tensor_parallel}
        card = f"{tp}x B300 SXM6, 2TB RAM"
        plain = asked("vllm", r["model"], card, **where)  # type: ignore[arg-type]
        lora = asked("vllm", r["model"], card, enable_lora=True, max_lora_rank=int(r["rank"]), **where)  # type: ignore[arg-type]
        more = (lora.devices[0].weights_bytes or 0) - (plain.devices[0].weights_bytes or 0)
        assert more == 2 * int(r["elements"]), r


def test_sglang_counts_linear_layers_of_the_rank_that_is_said() -> None:
    """Per layer of Llama-3.1-8B and unit of rank: A of qkv, o, gate_up, down and B of the same (lora/mem_pool.py)."""
    a, b = 3 * 4096 + 4096 + 2 * 4096 + 14336, (4096 + 2 * 1024) + 4096 + 2 * 14336 + 4096
    plain = asked("sglang", L8, H100, quant="BF16", context=8192)
    lora = asked("sglang", L8, H100, quant="BF16", context=8192, enable_lora=True, max_lora_rank=16)
    assert (lora.devices[0].weights_bytes or 0) - (plain.devices[0].weights_bytes or 0) == 8 * 16 * 32 * (a + b) * 2
    open_ = asked("sglang", L8, H100, quant="BF16", context=8192, lora_paths="a=/adapters/a")
    assert open_.devices[0].weights_bytes == plain.devices[0].weights_bytes
    assert "LoRA adapters, whose rank is not stated" in open_.not_modelled


def test_ranks_share_the_long_side() -> None:
    m = RULES.find_model(L8)
    whole, half = adapters.lora_elements(m, 16), adapters.lora_elements(m, 16, 2)
    assert whole / 2 < half < whole


def test_slots_are_weights_of_the_server() -> None:
    plain = asked("vllm", L8, H100, quant="BF16", context=8192)
    four = asked("vllm", L8, H100, quant="BF16", context=8192, enable_lora=True, max_loras=4, max_lora_rank=64)
    one = asked("vllm", L8, H100, quant="BF16", context=8192, enable_lora=True)

    def more(m: object) -> int:
        return (m.devices[0].weights_bytes or 0) - (plain.devices[0].weights_bytes or 0)  # type: ignore[attr-defined]

    slot = 41_943_040 + 2 * 16 * (128256 + 4096)  # embedding and output matrix have slots, too
    assert more(four) == 4 * 4 * slot * 2
    assert more(one) == slot * 2
    assert (four.kv_cache.available_bytes or 0) == (plain.kv_cache.available_bytes or 0) - more(four)


def test_a_prediction_block_weighs_and_caches() -> None:
    """GLM-4.5-Air keeps one block more: its weights, and one more layer of cache."""
    said = '{"method": "mtp", "num_speculative_tokens": 1}'
    plain = asked("vllm", "zai-org/GLM-4.5-Air", "4x H100 80GB SXM", quant="BF16", context=8192, tensor_parallel_size=4)
    with_it = asked("vllm", "zai-org/GLM-4.5-Air", "4x H100 80GB SXM", quant="BF16", context=8192,
                    tensor_parallel_size=4, speculative_config=said)  # fmt: skip
    m = RULES.find_model("zai-org/GLM-4.5-Air")
    assert m.mtp is not None
    assert m.mtp.per_layer is not None
    more = (with_it.devices[0].weights_bytes or 0) - (plain.devices[0].weights_bytes or 0)
    assert more == pytest.approx(m.mtp.per_layer * 2 / 4, rel=1e-6)
    layers = m.layout.n_layers if m.layout else 0
    assert (with_it.kv_cache.bytes_per_token or 0) / (plain.kv_cache.bytes_per_token or 1) == (layers + 1) / layers


def test_a_draft_model_is_said_not_to_be_counted() -> None:
    config = '{"model": "x", "method": "draft_model"}'
    m = asked("vllm", L8, H100, quant="BF16", context=8192, speculative_config=config)
    assert any("draft model" in x for x in m.not_modelled)
    with pytest.raises(BadInput, match="JSON object"):
        asked("vllm", L8, H100, quant="BF16", context=8192, speculative_config="mtp")
