"""Bytes and products against the catalogue's published counts and the memory estimate."""

from __future__ import annotations

import pytest
from speed_asking import RULES, made

from advisor.speed.steps import plan_passes
from advisor.speed.work import RequestLoad, attention_costs, cache_bytes, count_work, pair_products

# params a token goes through, as the makers publish them (model cards), and whether they count the input embedding,
# which is looked up and not read
PUBLISHED_ACTIVE = [
    ("meta-llama/Llama-3.1-8B-Instruct", 8.03e9, True),
    ("Qwen/Qwen3-30B-A3B", 3.3e9, True),
    ("Qwen/Qwen3-235B-A22B", 22e9, True),
    ("openai/gpt-oss-120b", 5.13e9, False),
    ("openai/gpt-oss-20b", 3.61e9, False),
    ("mistralai/Mixtral-8x7B-Instruct-v0.1", 12.9e9, True),
    ("deepseek-ai/DeepSeek-R1", 37e9, True),
]


@pytest.mark.parametrize(("name", "published", "with_embedding"), PUBLISHED_ACTIVE)
def test_active_parameters_are_the_published_ones(name: str, published: float, with_embedding: bool) -> None:
    model = RULES.find_model(name)
    d, _ = made(name, "BF16", "8x B200 SXM", "vllm", settings={"tensor-parallel-size": 8})
    w = count_work(d, RULES.quantization("BF16"))
    assert w is not None
    assert model.layout is not None
    active = w.dense_params + w.head_params + w.active_share * w.expert_params
    apart = with_embedding and not model.layout.tie_embeddings
    looked_up = model.layout.vocab_size * model.layout.hidden_size if apart else 0
    assert active + looked_up == pytest.approx(published, rel=0.05)


@pytest.mark.parametrize(
    "name", ["8B", "qwen3-30b-a3b", "deepseek-ai/DeepSeek-R1", "openai/gpt-oss-20b", "Qwen/Qwen3.5-27B"]
)
def test_cache_rows_are_those_of_the_memory_estimate(name: str) -> None:
    """Growth per token beyond every window, by two ways."""
    d, m = made(name, "FP8", "8x B200 SXM", "vllm", settings={"tensor-parallel-size": 1})
    grown = cache_bytes(d.model, 120_001, 2, 2, 1) - cache_bytes(d.model, 120_000, 2, 2, 1)
    assert grown == pytest.approx(m.kv_cache.bytes_per_token, rel=1e-6)


def test_attention_products_grow_with_the_square_of_the_prompt() -> None:
    """Llama 3.1 8B by hand: 32 layers x 32 heads x (128 + 128) products for each of n^2 / 2 pairs."""
    model = RULES.find_model("meta-llama/Llama-3.1-8B-Instruct")
    assert pair_products(model, 8192, 0) == pytest.approx(32 * 32 * 256 * 8192**2 / 2)
    assert pair_products(model, 1, 8192) == pytest.approx(32 * 32 * 256 * 8192.5)


def test_windows_stop_growing() -> None:
    model = RULES.find_model("google/gemma-3-27b-it")
    groups = attention_costs(model)
    assert {g.window is None for g in groups} == {True, False}
    short, long = (cache_bytes(model, n, 2, 2, 1) for n in (1024, 65_536))
    assert long < 64 * short / 3  # five of six layers look back 1024 tokens


def test_gguf_weights_read_are_the_file_without_the_looked_up_embedding() -> None:
    """Meta-Llama-3-8B-Instruct Q4_K_M: 4.92 GB on the hub, of which the embedding (Q4_K) is 0.295."""
    d, _ = made("meta-llama/Meta-Llama-3-8B-Instruct", "Q4_K_M", "RTX 4090")
    w = count_work(d, RULES.quantization("Q4_K_M"))
    assert w is not None
    assert w.dense_bytes == pytest.approx(4.92e9 - 128256 * 4096 * 144 / 256, rel=0.01)


def test_ranks_share_the_reading_and_replicas_the_requests() -> None:
    name, load = "openai/gpt-oss-120b", RequestLoad(concurrency=8)
    single = {"tensor-parallel-size": 1}
    passes = {}
    for label, hardware, settings in (
        ("one", "1x B200 SXM", single),
        ("tensor", "4x B200 SXM", {"tensor-parallel-size": 4}),
        ("replicas", "4x B200 SXM", {"tensor-parallel-size": 1, "data-parallel-size": 4}),
    ):
        d, m = made(name, "MXFP4", hardware, "vllm", settings=settings)
        found = plan_passes(d, m, RULES.engine("vllm"), RULES.quantization("MXFP4"), RULES, load)
        assert found is not None
        passes[label] = found[0]
    one, tensor, replicas = (passes[x] for x in ("one", "tensor", "replicas"))
    assert tensor.decode.weights_s == pytest.approx(one.decode.weights_s / 4)
    assert tensor.decode.exchanges > 0
    assert one.decode.exchanges == 0
    assert replicas.batch == 2
    assert replicas.decode.weights_s == pytest.approx(one.decode.weights_s)  # attention is on every replica
    assert replicas.decode.experts_s < one.decode.experts_s  # experts are shared by all
    # of two requests one delays the other; so do nearly all those of the other replicas, whose prompts are rare
    assert one.delaying == tensor.delaying == 7
    assert replicas.delaying == pytest.approx(1 * 4, rel=0.03)


def test_a_published_file_that_fits_is_all_read_on_its_card() -> None:
    """A vendor's file of another size than the plain mix, all on the card: memory and speed count the same bytes."""
    name = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
    d, m = made(name, "UD-Q4_K_XL", "1x RTX 5090", settings={"n-gpu-layers": "all"})
    stated = RULES.find_model(name).published["gguf:UD-Q4_K_XL"].gb
    w = count_work(d, RULES.quantization("UD-Q4_K_XL"))
    assert w is not None
    assert stated is not None
    looked_up = 131072 * 2688 * 4.5 / 8  # the input embedding, which is in the file and not read
    assert w.dense_bytes + w.expert_bytes + looked_up == pytest.approx(stated * 1e9, rel=0.02)
    passes = plan_passes(
        d, m, RULES.engine("llama.cpp"), RULES.quantization("UD-Q4_K_XL"), RULES, RequestLoad(prompt=512, output=128)
    )
    assert passes is not None
    assert passes[0].host == "none"
