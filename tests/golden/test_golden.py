"""Questions that published sizing tools get wrong (T1-T10), and three about one machine (Q2-Q4), with known answers.

References: bytes per token from the architectures, pools from vLLM's logs, file sizes of published GGUFs.
"""

from __future__ import annotations

import json

import pytest
from asking import GIB, RULES, asked, deployed
from midway_speed import estimate_midway_speed

from advisor.catalog import catalog
from advisor.cli.main import run_command_line
from advisor.estimation import estimate
from advisor.models.hf_config import model_from_config
from advisor.session import Session

V19 = "0.19.0"


def test_t1_64_requests_of_8k_need_64_gib() -> None:
    m = asked("vllm", "llama3.1:8b", "1x H100 80GB SXM", quant="BF16", version=V19, context=8192, sequences=64)
    assert m.kv_cache.bytes_per_token == 2 * 32 * 8 * 128 * 2 == 131_072
    assert m.devices[0].kv_cache_bytes == 64 * GIB
    assert m.fits is False
    held = asked("vllm", "llama3.1:8b", "1x H100 80GB SXM", quant="BF16", version=V19, context=8192, sequences=54)
    assert held.fits is not False
    assert (held.kv_cache.max_sequences or 0) >= 54


def test_t2_latent_cache_is_that_of_one_gpu() -> None:
    m = asked("vllm", "deepseek-ai/DeepSeek-V3", "8x H200", quant="FP8", version=V19, context=8192,
              tensor_parallel_size=8)  # fmt: skip
    assert m.kv_cache.bytes_per_token == 61 * (512 + 64) * 2
    assert m.kv_cache.available_bytes is not None
    assert m.kv_cache.tokens == m.kv_cache.available_bytes // 70_272


def test_t3_four_kv_heads_on_eight_ranks() -> None:
    m = asked("vllm", "Qwen/Qwen3-235B-A22B", "8x H200", quant="FP8", context=8192, tensor_parallel_size=8)
    assert m.kv_cache.bytes_per_token == 2 * 94 * 1 * 128 * 2 == 48_128


def test_t4_fp8_weights_do_not_make_an_fp8_cache() -> None:
    plain = asked("vllm", "llama3.1:8b", "1x H100 80GB SXM", quant="FP8", context=8192)
    told = asked("vllm", "llama3.1:8b", "1x H100 80GB SXM", quant="FP8", context=8192, kv="fp8")
    assert plain.kv_cache.bytes_per_token == 131_072
    assert told.kv_cache.bytes_per_token == 65_536


def test_t5_head_dim_is_not_hidden_over_heads() -> None:
    """Qwen3-30B-A3B: hidden 2048, 32 heads, but heads are 128 wide."""
    m = asked("llama.cpp", "Qwen/Qwen3-30B-A3B", "RTX 4090, 64GB RAM", quant="Q4_K_M", context=32768)
    assert m.kv_cache.bytes_per_token == 2 * 48 * 4 * 128 * 2


@pytest.mark.parametrize("version", [None, V19])
@pytest.mark.parametrize(
    ("model", "quant", "low", "high"),
    [
        ("gpt-oss:120b", "MXFP4", 2.25, 4.5),
        ("Qwen/Qwen3.5-27B", "BF16", 4.0, 4.6),
        ("google/gemma-4-26B-A4B-it", "BF16", 1.25, 15.0),
    ],
)
def test_t6_newer_layouts_are_neither_nothing_nor_megabytes(
    model: str, quant: str, low: float, high: float, version: str | None
) -> None:
    """One request of 65,536 tokens: from windowed layers freed to every layer full."""
    m = asked("vllm", model, "2x H200", quant=quant, version=version, context=65536)
    held = (m.devices[0].kv_cache_bytes or 0) + (m.devices[0].recurrent_state_bytes or 0)
    assert low * GIB <= held <= high * GIB


def test_t6_nested_text_config() -> None:
    config = {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text", "hidden_size": 3840, "intermediate_size": 15360, "num_hidden_layers": 48,
            "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256, "sliding_window": 1024,
            "vocab_size": 262208, "max_position_embeddings": 131072, "sliding_window_pattern": 6,
        },
    }  # fmt: skip
    model = model_from_config(config, "x", catalog().config_classes)
    assert model.layout is not None
    kinds = {type(g).__name__: g.n for g in model.layout.attention}
    assert kinds == {"Sliding": 40, "Full": 8}


def test_t7_deepseek_v3_and_the_a100() -> None:
    for hardware, tp in (("8x A100 80GB SXM", 8), ("1x H100 80GB SXM", 1)):
        m = asked("vllm", "deepseek-ai/DeepSeek-V3", hardware, quant="FP8", context=4096, tensor_parallel_size=tp)
        assert m.fits is False


def test_t8_no_means_no(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 1, a reason a program can read, no launch command."""
    line = ["recommend", "--on", "8x A100 80GB SXM", "--model", "deepseek-ai/DeepSeek-V3", "--quant", "FP8", "--engine",
            "vllm", "--json"]  # fmt: skip
    assert run_command_line(line) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["chosen"] is None
    reasons = [r for x in said["rejected"] if x["engine"] == "vllm" for r in x["reasons"]]
    assert reasons
    assert all(r["code"] and r["text"] for r in reasons)


def test_t9_memory_is_what_the_driver_shows() -> None:
    """An H100 of "80 GB" has 79.19 GiB for vLLM, not 80, and not 74.5."""
    m = asked("vllm", "llama3.1:8b", "1x H100 80GB SXM", quant="BF16", version=V19, context=8192)
    assert m.devices[0].budget_bytes == pytest.approx(0.9 * 79.19 * GIB, rel=0.001)


def test_t10_a_batch_reads_the_weights_once() -> None:
    d = deployed("vllm", "llama3.1:8b", "1x H100 80GB SXM", quant="BF16", version=V19, context=2048, sequences=32)
    one, many = (estimate_midway_speed(d, estimate(d, Session(RULES)), Session(RULES), n) for n in (1, 32))
    assert one is not None
    assert many is not None
    assert one.decode_tps is not None
    assert many.decode_tps is not None
    assert 32 * many.decode_tps.value > 12 * one.decode_tps.value  # decode_tps is one request's rate


def test_q2_a_70b_in_4_bit_on_one_rtx_4090() -> None:
    """42.5 to 43.8 GiB at 8k on the card, file 42.5 GB; it does not fit, about 44 of 80 layers do."""
    whole = asked("llama.cpp", "llama3.3:70b", "RTX 4090, 64GB RAM", quant="Q4_K_M", context=8192, n_gpu_layers="all",
                  fit="off")  # fmt: skip
    assert whole.devices[0].total_bytes == pytest.approx(43.1 * GIB, rel=0.03)
    assert whole.fits is False
    part = asked("llama.cpp", "llama3.3:70b", "RTX 4090, 64GB RAM", quant="Q4_K_M", context=8192)
    on_card = next(int(w.split()[1]) for w in part.warnings if w.startswith("only "))
    assert on_card == pytest.approx(44, abs=4)


def test_q3_an_8b_in_16_bit_for_64_users() -> None:
    """About 55 requests of 8k; 79 GiB and more are needed for 64."""
    m = asked("vllm", "llama3.1:8b", "1x H100 80GB SXM", quant="BF16", version=V19, context=8192, sequences=64)
    assert m.fits is False
    assert m.kv_cache.max_sequences == pytest.approx(55, abs=2)
    assert (m.devices[0].total_bytes or 0) >= 79 * GIB


def test_q4_a_30b_of_experts_at_32k() -> None:
    """20.6 to 21.5 GiB: fits a card of 24 GB."""
    m = asked("llama.cpp", "Qwen/Qwen3-30B-A3B", "RTX 3090, 64GB RAM", quant="Q4_K_M", context=32768,
              n_gpu_layers="all", fit="off")  # fmt: skip
    assert 20.1 * GIB <= (m.devices[0].total_bytes or 0) <= 21.5 * GIB
    assert m.fits is True
