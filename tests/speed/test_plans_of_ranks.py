"""What speed depends on, worked out by hand from settings, sizes of files and layers: both sides of bounds."""

from __future__ import annotations

import math
from typing import Any

import pytest
from speed_asking import RULES, made

from advisor.machines.types import Device
from advisor.speed.efficiencies import format_class, hardware_class
from advisor.speed.evidence import _distance, _solve
from advisor.speed.parallel_plan import ParallelPlan, plan_ranks
from advisor.speed.work import (
    RequestLoad,
    _count_blocks,
    _is_other,
    _mixers,
    attention_costs,
    cache_bytes,
    count_work,
    pair_products,
    score_bytes,
    state_bytes,
)


def plan(model: str, quant: str, hardware: str, engine: str = "llama.cpp", **more: Any) -> ParallelPlan:
    d, m = made(model, quant, hardware, engine, **more)
    work = count_work(d, RULES.quantization(d.quantization))
    assert work is not None
    return plan_ranks(d, m, RULES.engine(engine), work, RULES)


SERVERS: list[tuple[str, str, str, dict[str, Any], dict[str, Any]]] = [
    ("Qwen/Qwen3-8B", "BF16", "1x H100", {}, {"tensor": 1, "stages": 1, "replicas": 1, "devices": 1, "key_bytes": 2.0}),
    ("Qwen/Qwen3-8B", "BF16", "2x H100", {"tensor-parallel-size": 2}, {"tensor": 2, "devices": 2, "expert_ranks": 2}),
    ("Qwen/Qwen3-8B", "BF16", "2x H100", {"pipeline-parallel-size": 2}, {"stages": 2, "shares": (0.5, 0.5)}),
    ("Qwen/Qwen3-8B", "BF16", "2x H100", {"data-parallel-size": 2}, {"replicas": 2, "tensor": 1, "devices": 2}),
    ("Qwen/Qwen3-8B", "BF16", "1x H100", {"kv-cache-dtype": "fp8"}, {"key_bytes": 1.0, "value_bytes": 1.0}),
    ("Qwen/Qwen3-8B", "BF16", "1x H100", {"max-num-batched-tokens": 4096}, {"chunk": 4096}),
    ("Qwen/Qwen3-8B", "BF16", "1x H100", {"max-num-seqs": 7}, {"most_running": 7}),
    ("Qwen/Qwen3-8B", "BF16", "1x H100", {}, {"host_dense": 0.0, "host_experts": 0.0, "host_cache": 0.0}),
    ("Qwen/Qwen3-30B-A3B", "BF16", "2x H100", {"tensor-parallel-size": 2}, {"whole_experts": False}),
    ("Qwen/Qwen3-30B-A3B", "BF16", "2x H100", {"tensor-parallel-size": 2, "enable-expert-parallel": True},
     {"whole_experts": True, "expert_ranks": 2}),
    ("Qwen/Qwen3-30B-A3B", "BF16", "1x H100", {"enable-expert-parallel": True}, {"whole_experts": False}),
    ("Qwen/Qwen3-30B-A3B", "BF16", "2x H100", {"data-parallel-size": 2, "enable-expert-parallel": True},
     {"replicas": 2, "experts_over_replicas": True, "whole_experts": True}),
]  # fmt: skip


@pytest.mark.parametrize(("model", "quant", "hardware", "settings", "expected"), SERVERS)
def test_ranks_of_servers(
    model: str, quant: str, hardware: str, settings: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = plan(model, quant, hardware, "vllm", settings=settings)
    assert found.server
    assert {k: getattr(found, k) for k in expected} == expected


def test_a_part_of_a_servers_weights_on_the_host() -> None:
    """Of 15.26 GiB of weights 4 GiB (as 10^9 x 2^30 / 10^9 bytes) are moved out."""
    found = plan("Qwen/Qwen3-8B", "BF16", "1x RTX 4090, 64GB RAM", "vllm", settings={"cpu-offload-gb": 4})
    assert found.host_dense == pytest.approx(4 / 15.26, rel=0.03)
    assert found.host_experts == found.host_dense
    assert found.host_cache == 0.0
    alone = plan("Qwen/Qwen3-8B", "BF16", "cpu, 64GB RAM", "vllm")
    assert (alone.host_dense, alone.host_experts, alone.host_cache) == (1.0, 1.0, 1.0)


LLAMA: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("llama3.1:8b", "1x RTX 4090, 64GB RAM", {}, {"chunk": 512, "key_bytes": 2.0, "value_bytes": 2.0, "stages": 1}),
    ("llama3.1:8b", "1x RTX 4090, 64GB RAM", {"cache-type-k": "q8_0"}, {"key_bytes": 34 / 32, "value_bytes": 2.0}),
    ("llama3.1:8b", "1x RTX 4090, 64GB RAM", {"cache-type-v": "q4_0"}, {"key_bytes": 2.0, "value_bytes": 18 / 32}),
    ("llama3.1:8b", "1x RTX 4090, 64GB RAM", {"ubatch-size": 1024}, {"chunk": 1024}),
    ("llama3.1:8b", "1x RTX 4090, 64GB RAM", {"flash-attn": "off"}, {"scores_in_memory": True}),
    ("llama3.1:8b", "1x RTX 4090, 64GB RAM", {"flash-attn": "on"}, {"scores_in_memory": False}),
    ("llama3.1:8b", "1x RTX 4090, 64GB RAM", {}, {"pipelined": True, "integer": True, "server": False}),
    ("llama3.1:8b", "2x RTX 3090, 64GB RAM", {}, {"devices": 2, "stages": 2, "pipelined": True}),
    ("llama3.1:8b", "cpu, 64GB RAM", {}, {"host_dense": 1.0, "host_experts": 1.0, "host_cache": 1.0, "devices": 1}),
    ("llama3.1:8b", "1x RTX 4090, 64GB RAM", {"parallel": 4, "kv-unified": True, "ctx-size": 9216},
     {"most_running": 4, "pool_tokens": 9216}),
    ("llama3.1:8b", "1x RTX 4090, 64GB RAM", {"parallel": 4, "kv-unified": False},
     {"pool_tokens": None}),
]  # fmt: skip


@pytest.mark.parametrize(("model", "hardware", "settings", "expected"), LLAMA)
def test_places_of_llama_cpp(model: str, hardware: str, settings: dict[str, Any], expected: dict[str, Any]) -> None:
    found = plan(model, "Q4_K_M", hardware, settings=settings)
    assert {k: getattr(found, k) for k in expected} == expected


def test_shares_of_layers_and_of_the_host() -> None:
    two = plan("llama3.1:8b", "Q4_K_M", "2x RTX 3090, 64GB RAM")
    assert sum(two.shares) == pytest.approx(1.0)
    assert two.shares[0] == pytest.approx(0.5, abs=0.05)
    half = plan("llama3.1:8b", "Q4_K_M", "1x RTX 4090, 64GB RAM", settings={"n-gpu-layers": 16})
    # the output counts as a layer: 17 of 32 stay, of 4.92 GB less 0.295 that are looked up and 0.43 of the output
    assert half.host_dense == half.host_experts == pytest.approx(17 / 32 * 4.195 / 4.625, abs=0.01)
    assert half.host_cache == pytest.approx(17 / 32, abs=0.001)
    assert not half.pipelined
    experts = plan("Qwen/Qwen3-30B-A3B", "Q4_K_M", "1x RTX 4090, 64GB RAM", settings={"cpu-moe": True})
    assert experts.host_experts == pytest.approx(1.0, abs=0.01)
    assert (experts.host_dense, experts.host_cache) == (0.0, 0.0)
    some = plan("Qwen/Qwen3-30B-A3B", "Q4_K_M", "1x RTX 4090, 64GB RAM", settings={"n-cpu-moe": 24})
    assert some.host_experts == pytest.approx(0.5, abs=0.05)  # of 48 layers
    assert some.host_dense == 0.0


@pytest.mark.parametrize(
    ("given", "load", "running"),
    [
        ({"most_running": 4}, {"concurrency": 3}, (3.0, False)),
        ({"most_running": 4}, {"concurrency": 5}, (4.0, True)),
        ({"most_running": 4, "replicas": 2}, {"concurrency": 8}, (8.0, False)),
        # a request is held at its prompt and 0.6 of its output: 1,000 + 600
        ({"pool_tokens": 3200}, {"concurrency": 2, "prompt": 1000, "output": 1000}, (2.0, False)),
        ({"pool_tokens": 3199}, {"concurrency": 2, "prompt": 1000, "output": 1000}, (3199 / 1600, True)),
        ({"pool_tokens": 3200}, {"concurrency": 2, "prompt": 800, "output": 1000, "depth": 200}, (2.0, False)),
        ({"pool_tokens": 10}, {"concurrency": 2, "prompt": 1000, "output": 1000}, (1.0, True)),
        ({"pool_tokens": 10, "replicas": 2}, {"concurrency": 4, "prompt": 1000, "output": 1000}, (2.0, True)),
    ],
)
def test_requests_that_run_at_once(given: dict[str, Any], load: dict[str, int], running: tuple[float, bool]) -> None:
    most, limited = ParallelPlan(family="x", devices=1, **given).running(RequestLoad(**load))
    assert (pytest.approx(most), limited) == running


def test_widths_of_products() -> None:
    server, ggml = ParallelPlan(family="x", devices=1, server=True), ParallelPlan(family="x", devices=1, integer=True)
    for name, bits in (("BF16", 16.0), ("AWQ", 16.0), ("FP8", 8.0), ("NVFP4", 4.0), ("MXFP4", 4.0)):
        assert server.compute_bits(RULES.quantization(name)) == bits
    for name, bits in (("Q4_K_M", 7.0), ("Q8_0", 7.0), ("F16", 15.0), ("BF16", 15.0)):  # 16-bit weights by cuBLAS
        assert ggml.compute_bits(RULES.quantization(name)) == bits
    wide = ParallelPlan(family="x", devices=1, integer=True, wide_products=True)
    assert wide.compute_bits(RULES.quantization("Q4_K_M")) == 15.0
    assert ParallelPlan(family="x", devices=1).compute_bits(RULES.quantization("FP8")) == 16.0
    whole = ParallelPlan(family="x", devices=8, tensor=4, stages=2, replicas=1, whole_experts=True)
    assert whole.layout == "tp4-pp2-dp1-experts"


# --- classes of formats and cards


@pytest.mark.parametrize(
    ("quantization", "name"),
    [("BF16", "16-bit"), ("MXFP4", "mxfp4"), ("MXFP4_MOE", "mxfp4"), ("NVFP4", "nvfp4"), ("FP8", "fp8"),
     ("AWQ", "int4"), ("Q8_0", "q8_0"), ("UD-Q8_K_XL", "q8_0"), ("Q4_0", "q4_0"), ("Q5_1", "q4_0"),
     ("Q4_K_M", "k-quant"), ("Q6_K", "k-quant"),
     ("IQ4_XS", "i-quant"), ("Q2_K", "i-quant"), ("Q3_K_M", "i-quant")],
)  # fmt: skip
def test_classes_of_formats(quantization: str, name: str) -> None:
    assert format_class(RULES.quantization(quantization)) == name


def test_classes_of_cards() -> None:
    def card(**more: Any) -> Device:
        return Device(**({"name": "x", "vendor": "nvidia", "index": 0, "total_bytes": 1} | more))

    assert hardware_class(None, RULES) == "cpu"
    assert hardware_class(card(compute_capability="8.9"), RULES) == "sm89"
    assert hardware_class(card(compute_capability=None), RULES) == "nvidia"
    assert hardware_class(card(vendor="amd", gfx="gfx1100", compute_capability="8.9"), RULES) == "gfx1100"
    assert hardware_class(card(vendor="amd"), RULES) == "amd"
    d, _ = made("llama3.1:8b", "Q4_K_M", "M3 Max 64GB")
    assert d.machine is not None
    assert hardware_class(d.machine.devices[0], RULES) == "m3"
    assert hardware_class(card(vendor="apple"), RULES) == "apple"


# --- what a step reads


def model_of(name: str) -> Any:
    return RULES.find_model(name)


def test_cache_that_a_token_reads() -> None:
    """Llama 3.1 8B: 32 layers, 8 heads of 128 for keys and as many for values."""
    llama = model_of("llama3.1:8b")
    assert cache_bytes(llama, 1000, 2.0, 2.0) == 32 * 8 * 128 * (2 + 2) * 1000
    assert cache_bytes(llama, 1000, 1.0, 2.0) == 32 * 8 * 128 * (1 + 2) * 1000
    assert cache_bytes(llama, 1000, 2.0, 2.0, ranks=4) == 32 * 2 * 128 * 4 * 1000
    assert cache_bytes(llama, 1000, 2.0, 2.0, ranks=16) == 32 * 128 * 4 * 1000  # no head is split
    # DeepSeek V3: 61 layers, a row of 512 + 64 that is not divided
    deepseek = model_of("deepseek-ai/DeepSeek-V3")
    assert cache_bytes(deepseek, 1000, 2.0, 2.0, ranks=8) == 61 * 576 * 2 * 1000
    # Gemma 3 27B: 62 layers, each sixth looks back over everything, the others over 1,024 tokens
    gemma = model_of("google/gemma-3-27b-it")
    full = sum(a.n for a in attention_costs(gemma) if a.window is None)
    assert full == 10
    row = 16 * 128 * 4
    assert cache_bytes(gemma, 4096, 2.0, 2.0) == (10 * 4096 + 52 * 1024) * row
    assert cache_bytes(gemma, 1024, 2.0, 2.0) == 62 * 1024 * row


def test_products_and_scores_of_attention() -> None:
    """Llama 3.1 8B: 32 layers of 32 heads, 128 wide for keys and for values; half of the prompt is seen in the mean."""
    llama = model_of("llama3.1:8b")
    assert pair_products(llama, 100, 1000) == 32 * 32 * 256 * 1050 * 100
    assert pair_products(llama, 1, 0) == 32 * 32 * 256 * 0.5
    assert score_bytes(llama, 10, 90) == pytest.approx(score_bytes(llama, 10, 0) * 10)
    assert score_bytes(llama, 10, 0) / (32 * 32 * 10 * 10) == pytest.approx(score_bytes(llama, 1, 0) / (32 * 32))
    gemma = model_of("google/gemma-3-27b-it")
    near, far = pair_products(gemma, 1, 1000), pair_products(gemma, 1, 100_000)
    assert far < 100 * near / 5


def test_states_are_read_and_written_back() -> None:
    assert state_bytes(model_of("llama3.1:8b")) == 0.0
    mamba = next(m.id for m in RULES.model_index() if "mamba" in m.id.lower() and not m.stub)
    assert state_bytes(model_of(mamba)) > 0


def test_weights_that_a_pass_reads() -> None:
    """Llama 3.1 8B in BF16: 8.03e9 parameters less the embedding that is looked up, two bytes each."""
    d, _ = made("llama3.1:8b", "BF16", "H100", "vllm")
    work = count_work(d, RULES.quantization("BF16"))
    assert work is not None
    head = 128256 * 4096
    assert work.head_params == head
    assert work.dense_bytes == pytest.approx(2 * (8030261248 - head), rel=1e-6)
    assert work.dense_params == pytest.approx(8030261248 - 2 * head, rel=1e-4)
    assert (work.expert_bytes, work.experts, work.moe_layers, work.layers, work.hidden) == (0.0, 0, 0, 32, 4096)
    # tied: the embedding is read as the output matrix
    d, _ = made("Qwen/Qwen3-0.6B", "BF16", "H100", "vllm")
    tied = count_work(d, RULES.quantization("BF16"))
    assert tied is not None
    assert tied.head_params == 151936 * 1024
    assert tied.dense_bytes == pytest.approx(2 * 596_049_920, rel=1e-3)
    # Qwen3 30B A3B: 48 layers of 128 experts, 8 used, 3 x 2,048 x 768 each
    d, _ = made("Qwen/Qwen3-30B-A3B", "BF16", "2x H100", "vllm")
    moe = count_work(d, RULES.quantization("BF16"))
    assert moe is not None
    assert (moe.experts, moe.top_k, moe.moe_layers, moe.layers) == (128, 8, 48, 48)
    assert (moe.blocks, moe.other_mixers) == (96, 0)
    assert moe.expert_params == 48 * 128 * 3 * 2048 * 768
    assert moe.expert_bytes == 2 * moe.expert_params


@pytest.mark.parametrize(
    ("name", "blocks", "other"),
    [
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 52, 23),  # a layer is a mixer or a feed-forward part
        ("nvidia/Llama-3_3-Nemotron-Super-49B-v1_5", 49 + 80, 0),  # 31 of 80 layers have no attention
        ("tiiuae/Falcon-H1-7B-Instruct", 3 * 44, 44),  # attention beside a state in each
        ("google/gemma-3n-E4B-it", 5 * 35, 0),  # embeddings of layers, several streams
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", 2 * 27, 27),  # latent rows
        ("LiquidAI/LFM2-8B-A1B", 2 * 24, 0),  # short convolutions are no more than attention
    ],
)
def test_blocks_that_a_pass_launches(name: str, blocks: int, other: int) -> None:
    model = RULES.find_model(name)
    assert model.layout is not None
    assert (_count_blocks(model.layout), sum(_is_other(x) for x in _mixers(model.layout))) == (blocks, other)


# --- evidence


def test_equations_are_solved() -> None:
    matrix = [[4.0, 2.0, 0.6], [2.0, 5.0, 1.0], [0.6, 1.0, 3.0]]
    found = _solve(matrix, [1.0, 2.0, 3.0])
    for row, right in zip(matrix, (1.0, 2.0, 3.0), strict=True):
        assert sum(a * x for a, x in zip(row, found, strict=True)) == pytest.approx(right)


def test_loads_are_apart() -> None:
    one = RequestLoad(concurrency=1, prompt=64, output=0, depth=0)
    assert _distance(one, one) == 0.0
    assert _distance(one, RequestLoad(concurrency=4, prompt=64, output=0, depth=0)) == pytest.approx(math.log(4))
    assert _distance(one, RequestLoad(concurrency=1, prompt=192, output=0, depth=0)) == pytest.approx(0.5 * math.log(2))
    assert _distance(one, RequestLoad(concurrency=1, prompt=64, output=512, depth=0)) == pytest.approx(
        0.5 * math.log(2)
    )
    assert _distance(one, RequestLoad(concurrency=1, prompt=64, output=0, depth=256)) == pytest.approx(
        0.5 * math.log(2)
    )
