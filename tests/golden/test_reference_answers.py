"""Server questions with answers built from published measurements of vLLM (logs and accuracy reports, 2025-2026).

The tolerances are those of the references, which come from other people's machines: pools within 1.5 GiB or 5 %.
"""

from __future__ import annotations

import pytest
from asking import GIB, asked

V19 = "0.19.0"


def test_s1_64_requests_of_8k_on_one_h100_do_not_fit() -> None:
    """Llama-3.1-8B bf16: 64.0 GiB of cache are needed; about 54 requests fit."""
    m = asked("vllm", "llama3.1:8b", "1x H100 80GB SXM", quant="BF16", version=V19, context=8192, sequences=64)
    assert m.devices[0].kv_cache_bytes == 64 * GIB
    assert m.fits is False
    assert m.kv_cache.max_sequences is not None
    assert 52 <= m.kv_cache.max_sequences <= 56
    assert m.kv_cache.available_bytes == pytest.approx(54.1 * GIB, rel=0.02)
    fewer = asked("vllm", "llama3.1:8b", "1x H100 80GB SXM", quant="BF16", version=V19, context=8192, sequences=45)
    assert fewer.fits is True


def test_s1_pool_measured_at_095() -> None:
    """58.11 GiB and 476,000 tokens were logged at a utilization of 0.95."""
    m = asked("vllm", "llama3.1:8b", "1x H100 80GB SXM", quant="BF16", version=V19, context=8192,
              gpu_memory_utilization=0.95)  # fmt: skip
    assert m.kv_cache.available_bytes == pytest.approx(58.11 * GIB, rel=0.02)
    assert m.kv_cache.tokens == pytest.approx(476_000, rel=0.02)


def test_s1_pool_measured_on_an_a100() -> None:
    """Llama-3-8B on A100 80 GB at 0.90: 55.11 GiB. Its batch defaults are the small ones, so activations are small."""
    m = asked("vllm", "llama3:8b", "1x A100 80GB SXM", quant="BF16", version="0.28.0", context=8192,
              gpu_memory_utilization=0.9)  # fmt: skip
    assert m.kv_cache.available_bytes == pytest.approx(55.11 * GIB, rel=0.02)


def test_s2_70b_fp8_on_two_h100() -> None:
    """33.88 GiB of weights a GPU measured; about 33.5 GiB of pool expected with v0.19."""
    m = asked("vllm", "llama3.3:70b", "2x H100 80GB SXM", quant="FP8", version=V19, context=8192, sequences=16,
              tensor_parallel_size=2)  # fmt: skip
    assert [d.weights_bytes for d in m.devices] == pytest.approx([33.88 * GIB] * 2, rel=0.005)
    assert m.kv_cache.bytes_per_token == 327_680 / 2
    assert m.kv_cache.available_bytes == pytest.approx(33.5 * GIB, rel=0.05)


def test_s3_kv_heads_are_replicated() -> None:
    """Qwen3-235B-A22B fp8, TP 8 on 8 H200: 4 KV heads, so 192,512 / 4 bytes a token on every GPU; about 256 x 8k.

    Experts stay whole: 192 columns a rank are no whole blocks of 128, which vLLM refuses (issue 25378).
    """
    m = asked("vllm", "Qwen/Qwen3-235B-A22B", "8x H200", quant="FP8", version=V19, context=8192, sequences=64,
              tensor_parallel_size=8, enable_expert_parallel=True)  # fmt: skip
    assert m.kv_cache.bytes_per_token == 48_128
    assert m.kv_cache.available_bytes == pytest.approx(94 * GIB, rel=0.03)
    assert m.kv_cache.max_sequences == pytest.approx(256, rel=0.05)
    assert m.fits is True


def test_s4_latent_rows_are_whole_on_every_rank() -> None:
    """DeepSeek-V3 fp8, TP 8 on 8 H200: 70,272 bytes a token on every GPU, pool about 42 GiB, about 80 x 8k."""
    m = asked("vllm", "deepseek-ai/DeepSeek-V3", "8x H200", quant="FP8", version=V19, context=8192, sequences=64,
              tensor_parallel_size=8)  # fmt: skip
    assert m.kv_cache.bytes_per_token == 61 * 576 * 2 == 70_272
    assert {d.kv_cache_bytes for d in m.devices} == {64 * 8192 * 70_272}
    assert m.devices[0].weights_bytes == pytest.approx(79.29 * GIB, rel=0.005)
    assert m.kv_cache.available_bytes == pytest.approx(42 * GIB, rel=0.04)
    assert m.kv_cache.max_sequences == pytest.approx(80, rel=0.1)


def test_s4_attention_data_parallelism_holds_more_and_weighs_more() -> None:
    """SGLang with attention data parallelism: each rank holds the cache of its own requests only. Of one share: by its
    own default the engine leaves 18 GiB more for graphs then (arg_groups/memory_hook.py)."""
    whole = asked("sglang", "deepseek-ai/DeepSeek-V3", "8x H200", quant="FP8", context=8192, tp_size=8,
                  mem_fraction_static=0.85)  # fmt: skip
    split = asked("sglang", "deepseek-ai/DeepSeek-V3", "8x H200", quant="FP8", context=8192, tp_size=8, dp_size=8,
                  enable_dp_attention=True, mem_fraction_static=0.85)  # fmt: skip
    assert len(whole.devices) == len(split.devices) == 8
    assert (split.devices[0].weights_bytes or 0) > 1.1 * (whole.devices[0].weights_bytes or 0)
    assert (split.kv_cache.tokens or 0) > 4 * (whole.kv_cache.tokens or 0)


def test_s5_an_8b_model_in_16_bit_on_a_24_gb_card() -> None:
    """4 x 8k fit; the full trained context does not, and the length that would is stated.

    The reference pool is about 4.1 GiB; vLLM logged 5.29 GiB for this model on another card of 24 GB (RTX A5000).
    """
    m = asked("vllm", "llama3.1:8b", "1x RTX 4090", quant="BF16", version=V19, context=8192, sequences=4)
    assert m.kv_cache.available_bytes == pytest.approx(4.8 * GIB, abs=0.8 * GIB)
    assert m.kv_cache.max_sequences in (4, 5)
    long = asked("vllm", "llama3.1:8b", "1x RTX 4090", quant="BF16", version=V19, context=131072)
    assert long.fits is False
    assert long.message
    assert "maximum model length" in long.message


def test_one_long_request_of_newer_layouts() -> None:
    """Cache of one request of 65,536 tokens: gpt-oss-120b 2.25 to 4.5 GiB, Qwen3.5-27B 4.0 GiB and some state."""
    oss = asked("vllm", "gpt-oss:120b", "1x H200", context=65536).devices[0]
    assert 2.25 * GIB <= (oss.kv_cache_bytes or 0) <= 4.5 * GIB
    qwen = asked("vllm", "Qwen/Qwen3.5-27B", "1x H200", quant="BF16", context=65536).devices[0]
    assert qwen.kv_cache_bytes == pytest.approx(4.0 * GIB, rel=0.02)
    assert 0.1 * GIB < (qwen.recurrent_state_bytes or 0) < 0.6 * GIB
