"""What must hold whatever the efficiencies are: directions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from speed_asking import ask, made, with_device

CASES = {
    "llama.cpp": made("8B", "Q4_K_M", "RTX 4090", settings={"n-gpu-layers": "all"}),
    "llama.cpp, experts": made("qwen3-30b-a3b", "Q4_K_M", "RX 7900 XTX", settings={"n-gpu-layers": "all"}),
    "mlx": made("8B", None, "M3 Max 64GB", "mlx-lm"),
    "vllm": made("8B", "BF16", "H100 80GB SXM", "vllm"),
    "vllm, experts over 4": made(
        "gpt-oss-120b", "MXFP4", "4x H100 80GB SXM", "vllm", settings={"tensor-parallel-size": 4}
    ),
    "vllm, PCIe": made("70B", "AWQ", "2x RTX 3090", "vllm", settings={"tensor-parallel-size": 2}),
    "sglang, replicas": made(
        "deepseek-ai/DeepSeek-R1", "FP8", "8x H200 SXM 141GB", "sglang",
        settings={"tp-size": 8, "dp-size": 8, "enable-dp-attention": True},
    ),
    "processor": made("8B", "Q4_K_M", "cpu, 64GB RAM, 16 cores"),
}  # fmt: skip
ALMOST = 1 + 1e-9


@pytest.mark.parametrize("name", CASES)
@given(a=st.integers(50, 8000), b=st.integers(50, 8000))
@settings(max_examples=15)
def test_more_bandwidth_is_never_slower(name: str, a: int, b: int) -> None:
    d, m = CASES[name]
    slow, fast = (ask(with_device(d, bandwidth_gbs=float(x)), m, concurrency=4) for x in sorted((a, b)))
    for rate in ("decode_tps", "output_tps"):
        assert getattr(slow, rate).value <= getattr(fast, rate).value * ALMOST
    assert fast.tpot_s is not None
    assert slow.tpot_s is not None
    assert fast.tpot_s.value <= slow.tpot_s.value * ALMOST


@pytest.mark.parametrize("name", CASES)
@given(a=st.integers(0, 200_000), b=st.integers(0, 200_000))
@settings(max_examples=15)
def test_longer_depth_is_never_faster(name: str, a: int, b: int) -> None:
    d, m = CASES[name]
    short, long = (ask(d, m, depth=x) for x in sorted((a, b)))
    for rate in ("decode_tps", "output_tps", "prefill_tps"):
        assert getattr(long, rate).value <= getattr(short, rate).value * ALMOST
    assert short.ttft_s is not None
    assert long.ttft_s is not None
    assert short.ttft_s.value <= long.ttft_s.value * ALMOST


@pytest.mark.parametrize("name", CASES)
@given(a=st.integers(1, 2000), b=st.integers(1, 2000), prompt=st.integers(1, 4000), output=st.integers(1, 4000))
@settings(max_examples=25)
def test_more_requests_never_lower_the_total_and_never_speed_up_one(
    name: str, a: int, b: int, prompt: int, output: int
) -> None:
    d, m = CASES[name]
    few, many = (ask(d, m, concurrency=x, prompt=prompt, output=output) for x in sorted((a, b)))
    assert few.output_tps is not None
    assert many.output_tps is not None
    assert few.output_tps.value <= many.output_tps.value * 1.01
    assert few.decode_tps is not None
    assert many.decode_tps is not None
    assert many.decode_tps.value <= few.decode_tps.value * ALMOST
    assert few.ttft_s is not None
    assert many.ttft_s is not None
    assert few.ttft_s.value <= many.ttft_s.value * 1.0001  # replicas: a prompt of one token gains 5 in a million


@pytest.mark.parametrize("name", CASES)
def test_bounds_are_ordered_and_finite(name: str) -> None:
    d, m = CASES[name]
    for n in (1, 16, 512):
        s = ask(d, m, concurrency=n)
        for x in (s.decode_tps, s.prefill_tps, s.ttft_s, s.tpot_s, s.output_tps):
            assert x is not None
            assert 0 < x.low < x.value < x.high < 1e12


def test_wider_weights_decode_slower() -> None:
    rates = [ask(*made("8B", q, "RTX 4090")).decode_tps for q in ("Q4_K_M", "Q8_0", "F16")]
    values = [r.value for r in rates if r]
    assert values == sorted(values, reverse=True)


def test_a_layer_split_decodes_like_one_device_a_tensor_split_faster() -> None:
    one = ask(*made("8B", "F16", "A40", settings={"n-gpu-layers": "all"})).decode_tps
    four = ask(*made("8B", "F16", "4x A40", settings={"n-gpu-layers": "all"})).decode_tps
    assert one is not None
    assert four is not None
    assert four.value == pytest.approx(one.value, rel=0.1)
    split = [
        ask(*made("8B", "BF16", f"{n}x A100 80GB SXM", "vllm", settings={"tensor-parallel-size": n})).decode_tps
        for n in (1, 2, 4)
    ]
    values = [x.value for x in split if x]
    assert values == sorted(values)
    assert values[2] < 4 * values[0]


def test_experts_in_host_memory_are_slower_than_on_the_card_and_bounds_are_wide() -> None:
    on = ask(*made("qwen3-30b-a3b", "Q4_K_M", "RTX 3090, 64GB RAM", settings={"n-gpu-layers": "all"}))
    off = ask(*made("qwen3-30b-a3b", "Q4_K_M", "RTX 3090, 64GB RAM", settings={"n-gpu-layers": "all", "cpu-moe": True}))
    assert on.decode_tps is not None
    assert off.decode_tps is not None
    assert off.decode_tps.value < 0.5 * on.decode_tps.value
    assert off.decode_tps.high / off.decode_tps.low > on.decode_tps.high / on.decode_tps.low
    assert any("not known" in n for n in off.notes)


def test_a_full_cache_makes_requests_wait() -> None:
    d, m = made("8B", "BF16", "RTX 4090", "vllm")
    few, many = (ask(d, m, concurrency=n, prompt=6000, output=500) for n in (1, 500))
    assert not few.limited
    assert many.limited
    assert few.ttft_s is not None
    assert many.ttft_s is not None
    assert many.ttft_s.value > 20 * few.ttft_s.value
    tokens = m.kv_cache.tokens
    assert tokens is not None
    said = next(n for n in many.notes if "wait" in n)
    assert int(said.split()[0]) == pytest.approx(tokens / (6000 + 0.6 * 500), abs=1)
