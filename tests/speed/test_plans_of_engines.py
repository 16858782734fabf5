"""How other engines share the work, and which figures of a plan their settings decide."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from speed_asking import RULES, made

from advisor.deployment import KvType
from advisor.speed.parallel_plan import ParallelPlan, plan_ranks
from advisor.speed.work import RequestLoad, count_work


def plan(model: str, quant: str | None, hardware: str, engine: str, **more: Any) -> ParallelPlan:
    version, kv = more.pop("version", None), more.pop("kv", None)
    d, m = made(model, quant, hardware, engine, **more)
    if version is not None:
        d = msgspec.structs.replace(d, engine_version=version)
    if kv is not None:
        d = msgspec.structs.replace(d, kv_cache_type=KvType(k=kv, v=kv))
    work = count_work(d, RULES.quantization(d.quantization))
    assert work is not None
    return plan_ranks(d, m, RULES.engine(engine), work, RULES)


PLAIN: list[tuple[str, str | None, str, str, dict[str, Any]]] = [
    # MLC splits every layer; the others deal layers out
    ("8B", None, "2x RTX 4090", "mlc-llm",
     {"family": "mlc", "devices": 2, "tensor": 2, "stages": 1, "expert_ranks": 2, "shares": (0.5, 0.5)}),
    ("8B", None, "RTX 4090", "mlc-llm", {"tensor": 1, "stages": 1, "expert_ranks": 1, "shares": (1.0,)}),
    ("8B", None, "2x RTX 4090", "exllamav3",
     {"family": "exl", "devices": 2, "tensor": 1, "stages": 2, "expert_ranks": 1, "shares": (0.5, 0.5)}),
    ("8B", "BF16", "2x RTX 4090", "transformers", {"family": "eager", "stages": 2, "chunk": 512}),
    ("8B", None, "M3 Max 64GB", "mlx-lm",
     {"family": "mlx", "devices": 1, "stages": 1, "host_dense": 0.0, "host_experts": 0.0, "host_cache": 0.0}),
    # a family of its own where the rules name none, and all on the host without a card
    ("8B", None, "cpu, 64GB RAM", "openvino-model-server",
     {"family": "openvino-model-server", "devices": 1, "host_dense": 1.0, "host_experts": 1.0, "host_cache": 1.0}),
]  # fmt: skip


@pytest.mark.parametrize(("model", "quant", "hardware", "engine", "expected"), PLAIN)
def test_engines_without_a_pool(
    model: str, quant: str | None, hardware: str, engine: str, expected: dict[str, Any]
) -> None:
    found = plan(model, quant, hardware, engine)
    assert {k: getattr(found, k) for k in expected} == expected
    assert not found.server
    assert not found.integer


@pytest.mark.parametrize(
    ("kv", "size"), [("auto", 2.0), ("f16", 2.0), ("bf16", 2.0), ("fp16", 2.0), ("float16", 2.0), ("bfloat16", 2.0),
                     ("fp8", 1.0), ("other", 2.0)]
)  # fmt: skip
def test_cache_types_of_engines_without_a_pool(kv: str, size: float) -> None:
    found = plan("8B", None, "M3 Max 64GB", "mlx-lm", kv=kv)
    assert (found.key_bytes, found.value_bytes) == (size, size)


def test_every_rank_attends_for_its_own_requests() -> None:
    """TensorRT-LLM: ranks are replicas of attention. A latent row lies on one of them only, so the caches add up."""
    apart, split = {"tp_size": 8, "enable_attention_dp": True}, {"tp_size": 8}
    name, cards = "deepseek-ai/DeepSeek-R1", "8x H200 SXM 141GB"
    own, shared = (plan(name, "FP8", cards, "tensorrt-llm", settings=x) for x in (apart, split))
    assert (own.tensor, own.replicas, own.expert_ranks, own.experts_over_replicas) == (1, 8, 8, True)
    assert (shared.tensor, shared.replicas, shared.expert_ranks, shared.experts_over_replicas) == (8, 1, 8, False)
    assert own.pool_tokens is not None
    assert shared.pool_tokens is not None
    assert own.pool_tokens == pytest.approx(8 * shared.pool_tokens, rel=0.2)
    dense = plan(
        "Qwen/Qwen3-8B", "BF16", "2x H100", "tensorrt-llm", settings={"tp_size": 2, "enable_attention_dp": True}
    )
    heads = plan("Qwen/Qwen3-8B", "BF16", "2x H100", "tensorrt-llm", settings={"tp_size": 2})
    assert (dense.tensor, dense.replicas) == (1, 2)
    assert dense.pool_tokens == heads.pool_tokens  # heads were divided anyway
    both = {"tp-size": 8, "dp-size": 8, "enable-dp-attention": True}
    sglang = plan(name, "FP8", cards, "sglang", settings=both)
    assert (sglang.tensor, sglang.replicas, sglang.expert_ranks, sglang.experts_over_replicas) == (1, 8, 8, True)


def test_requests_that_an_engine_admits() -> None:
    """SGLang admits 2,048 requests where nothing is set; a setting is taken as it is."""
    assert plan("8B", "BF16", "H100", "sglang").most_running == 2048
    assert plan("8B", "BF16", "H100", "sglang", settings={"max-running-requests": 5}).most_running == 5
    assert plan("8B", "BF16", "H100", "sglang", settings={"max-running-requests": 3000}).most_running == 3000
    assert plan("8B", "BF16", "H100", "llama.cpp", sequences=3).most_running == 3


def test_a_pass_takes_at_least_sixteen_tokens() -> None:
    def chunk(tokens: int) -> int:
        found = plan("8B", "BF16", "H100", "vllm", context=64,
                     settings={"max-num-batched-tokens": tokens, "max-num-seqs": 1})  # fmt: skip
        return found.chunk

    assert (chunk(8192), chunk(64)) == (8192, 64)
    assert plan("8B", "Q4_K_M", "RTX 4090", "llama.cpp", settings={"ubatch-size": 1}).chunk == 1


def test_the_cache_of_a_checkpoint_that_asks_for_eight_bits() -> None:
    """NVIDIA's NVFP4 checkpoints have an 8-bit cache, and vLLM does as they say unless a type is set."""
    named = [m.id for m in RULES.model_index() if not m.stub]
    found: dict[str, str] = {}
    for name in named:
        model = RULES.find_model(name)
        other = model.quantized_repos.get("NVFP4", "")
        if model.layout is not None and model.kind == "chat" and model.params_total < 4e10:
            kind = "own" if (model.native_quant or "").upper().startswith("NVFP4") else other.split("/")[0]
            found.setdefault(kind, name)
    cards = "1x B200 SXM"
    assert plan(found["nvidia"], "NVFP4", cards, "vllm").key_bytes == 1.0
    assert plan(found["nvidia"], "NVFP4", cards, "vllm", settings={"kv-cache-dtype": "bfloat16"}).key_bytes == 2.0
    assert plan(found["nvidia"], "BF16", cards, "vllm").key_bytes == 2.0
    for kind in set(found) - {"nvidia", "", "own"}:
        assert plan(found[kind], "NVFP4", cards, "vllm").key_bytes == 2.0, found[kind]
    if "" in found:  # nothing is known of a checkpoint: NVIDIA's is the usual one
        assert plan(found[""], "NVFP4", cards, "vllm").key_bytes == 1.0


def test_old_builds_widen_products_on_cards_of_nvidia() -> None:
    for version, card, wide in (
        ("b3139", "RTX 4090", True), ("b3140", "RTX 4090", False), ("b3139", "RX 7900 XTX", False),
        ("b3139", "cpu, 64GB RAM", False), ("b4000", "RTX 4090", False),
    ):  # fmt: skip
        assert plan("8B", "Q4_K_M", card, "llama.cpp", version=version).wide_products is wide, (version, card)


@pytest.mark.parametrize(("version", "joins"), [("0.7.3", False), ("0.8.0", True), (None, True)])
def test_prompts_join_passes_from_the_v1_engine_on(version: str | None, joins: bool) -> None:
    assert plan("8B", "BF16", "H100", "vllm", version=version).joins is joins
    assert not plan("8B", "BF16", "H100", "sglang").joins
    assert plan("8B", "BF16", "H100", "sglang", settings={"enable-mixed-chunk": True}).joins
    assert not plan("8B", "Q4_K_M", "RTX 4090", "llama.cpp").joins


def test_tokens_without_matrix_units() -> None:
    """ggml's kernels for up to eight columns; servers use matrix units always."""
    assert plan("8B", "Q4_K_M", "RTX 4090", "llama.cpp").vector_tokens == 8
    assert plan("8B", "BF16", "H100", "vllm").vector_tokens == 0


def test_a_server_that_starts_holds_one_request() -> None:
    """gpt-oss-120b on one H100: nothing is left for the cache in the middle of the bounds. The rates are of one
    request of the context length, not of as many as are asked."""
    asked = {"model": "openai/gpt-oss-120b", "quantization": "MXFP4", "hardware": "1x H100 80GB SXM", "engine": "vllm"}
    found = plan(*asked.values(), settings={"max-model-len": 32768})
    tight = plan(*asked.values(), settings={"max-model-len": 32768, "gpu-memory-utilization": 0.7})
    for x in (found, tight):
        assert x.pool_tokens
        assert x.running(RequestLoad(concurrency=500, prompt=8000, output=1000))[0] < 50
    assert tight.pool_tokens == 32768


def test_families_by_what_an_engine_reserves() -> None:
    assert plan("8B", "BF16", "H100", "vllm").family == "server"
    assert plan("8B", "Q4_K_M", "RTX 4090", "llama.cpp").family == "ggml"


@pytest.mark.parametrize(
    ("settings", "whole"),
    [({"enable-expert-parallel": True}, True), ({"enable-expert-parallel": False}, False), ({}, False)],
)
def test_whole_experts_of_vllm(settings: dict[str, Any], whole: bool) -> None:
    found = plan("Qwen/Qwen3-30B-A3B", "BF16", "2x H100", "vllm", settings={"tensor-parallel-size": 2, **settings})
    assert found.whole_experts is whole


def test_whole_experts_of_sglang() -> None:
    for size, whole in ((2, True), (1, False)):
        settings = {"tp-size": 2, "ep-size": size}
        assert plan("Qwen/Qwen3-30B-A3B", "BF16", "2x H100", "sglang", settings=settings).whole_experts is whole
    assert not plan("Qwen/Qwen3-30B-A3B", "BF16", "H100", "sglang", settings={"ep-size": 1}).whole_experts
