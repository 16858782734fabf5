"""Prompts of engines that compute what the caches need alone: layers without a cache of their own are left out."""

from __future__ import annotations

from math import prod

import pytest
from speed_asking import RULES, ask, made

from advisor.memory.gguf_tensors import list_tensors
from advisor.models.types import Model
from advisor.speed.work import attention_costs, count_prompt_layers, pair_products


def model_of(name: str) -> Model:
    return RULES.find_model(name)


def test_layers_that_read_the_cache_of_others_are_left_out() -> None:
    """Gemma 4 E2B: 35 layers, the last 20 keep no cache; each of these has a feed-forward part twice as wide."""
    model = model_of("google/gemma-4-E2B-it")
    found = count_prompt_layers(model)
    assert found is not None
    assert found.count == 15
    sizes = {i: sum(prod(x.ne) for x in list_tensors(model) if x.layer == i) for i in range(35)}
    assert sizes[20] > 1.5 * sizes[10]
    assert found.share == pytest.approx(sum(sizes[i] for i in range(15)) / sum(sizes.values()))
    assert 0.25 < found.share < 15 / 35
    # 12 sliding layers and 3 full ones remain; 8 heads of 256 (512 in full layers), keys and values
    assert sum(a.n for a in attention_costs(model, found.count)) == 15
    assert pair_products(model, 1, 100, first=15) == 100.5 * 8 * 2 * (12 * 256 + 3 * 512)


@pytest.mark.parametrize("name", ["meta-llama/Llama-3.1-8B-Instruct", "google/gemma-4-31B-it", "Qwen/Qwen3.5-9B"])
def test_other_models_need_every_layer(name: str) -> None:
    assert count_prompt_layers(model_of(name)) is None


def test_mlx_reads_such_prompts_faster_and_decodes_as_before() -> None:
    """Measured on an M3 Max (AlexHiesch/apple-silicon-llm-bench, 2026-04): 4,419 tokens a second of E2B's prompts.

    With all layers it would be 2.5 times as many products: llama.cpp computes them all.
    """
    prefill = {}
    for engine, quantization in (("mlx-lm", "MLX-4bit"), ("llama.cpp", "Q4_0")):
        deployment, memory = made(
            "google/gemma-4-E2B-it", quantization, "1x Apple M3 Max (40-core GPU)", engine, context=65536
        )
        found = ask(deployment, memory, concurrency=1, prompt=31834, output=1)
        assert found.prefill_tps is not None
        prefill[engine] = found.prefill_tps.value
    assert 0.7 < prefill["mlx-lm"] / 4419 < 1.5
    assert prefill["llama.cpp"] < 0.7 * prefill["mlx-lm"]


def test_latent_rows_of_prompts_are_unfolded() -> None:
    """DeepSeek V3: 61 layers, 128 heads; 192 + 128 products a pair unfolded, 2 x 512 + 64 as they are cached."""
    model = model_of("deepseek-ai/DeepSeek-V3")
    assert pair_products(model, 1, 1000, unfolded=True) == 1000.5 * 61 * 128 * (192 + 128)
    assert pair_products(model, 1, 1000) == 1000.5 * 61 * 128 * (2 * 512 + 64)
    # where an index picks the rows they stay latent
    sparse = model_of("deepseek-ai/DeepSeek-V3.2")
    assert pair_products(sparse, 1, 1000, unfolded=True) == pair_products(sparse, 1, 1000)
