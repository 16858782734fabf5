"""Draft models of speculative decoding: counted like the same model alone, under each engine's own settings."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.catalog import catalog
from advisor.estimation import RememberedNames
from advisor.memory import draft_bound
from advisor.memory.layers import cache_layers
from advisor.models.parameters import text_params
from advisor.request_lines import estimate_or_fault
from advisor.session import Session

DRAFT = "meta-llama/Llama-3.2-1B-Instruct"
BASE = {"model": "meta-llama/Llama-3.1-8B-Instruct", "hardware": "RTX 4090", "context_length": 8192}


def ask(**fields: Any) -> dict[str, Any]:
    import msgspec

    found = estimate_or_fault(msgspec.json.encode(fields), Session(catalog()), RememberedNames())
    out: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))
    assert "error" not in out, out
    return out


def part(a: dict[str, Any], *names: str) -> int:
    return sum(sum(d[n] for d in a["devices"]) for n in names)


@pytest.mark.parametrize("name", ["model-draft", "spec-draft-model", "md"])
def test_llama_cpp_loads_the_draft_as_a_second_model(name: str) -> None:
    base = {**BASE, "engine": "llama.cpp", "quantization": "Q4_K_M"}
    with_draft, without = ask(**base, settings={name: DRAFT}), ask(**base)
    alone = ask(**{**base, "model": DRAFT})
    for what in ("weights_bytes", "kv_cache_bytes", "compute_bytes"):
        assert part(with_draft, what) == part(without, what) + part(alone, what)
    host = part({"devices": [with_draft["host"]]}, "weights_bytes")
    assert host == sum(part({"devices": [x["host"]]}, "weights_bytes") for x in (without, alone))


def test_llama_cpp_draft_has_cache_types_and_layers_of_its_own() -> None:
    base = {**BASE, "engine": "llama.cpp", "quantization": "Q4_K_M"}
    plain = ask(**base, settings={"model-draft": DRAFT})
    narrow = ask(**base, settings={"model-draft": DRAFT, "cache-type-k-draft": "q8_0", "cache-type-v-draft": "q8_0"})
    saved = part(plain, "kv_cache_bytes") - part(narrow, "kv_cache_bytes")
    assert saved == 8192 * 16 * 2 * 8 * 64 * 2 * 15 // 32  # 16 layers, K and V, 8 heads of 64: f16 -> 8.5 bits
    host = ask(**base, settings={"model-draft": DRAFT, "n-gpu-layers-draft": 0})
    assert part(host, "weights_bytes") == part(ask(**base), "weights_bytes")


def test_vllm_draft_adds_its_weights_and_its_layers_to_every_rank() -> None:
    base = {**BASE, "hardware": "2x RTX 4090", "engine": "vllm", "quantization": "BF16"}
    tp = {"tensor-parallel-size": 2}
    config = {"model": DRAFT, "num_speculative_tokens": 5}
    with_draft = ask(**base, settings={**tp, "speculative-config": config})
    without = ask(**base, settings=tp)
    alone = ask(**{**base, "model": DRAFT}, settings=tp)
    for what in ("weights_bytes", "kv_cache_bytes"):
        assert part(with_draft, what) == part(without, what) + part(alone, what)
    assert with_draft["not_modelled"] == without["not_modelled"]
    assert with_draft["kv_cache"]["available_bytes"] < without["kv_cache"]["available_bytes"]


@pytest.mark.parametrize(
    ("engine", "settings"),
    [
        ("vllm", {"speculative-config": {"model": "org/draft-of-mine"}}),
        ("sglang", {"speculative-draft-model-path": "org/draft-of-mine"}),
        ("llama.cpp", {"model-draft": "org/draft-of-mine"}),
    ],
)
def test_a_draft_of_unknown_size_leaves_the_verdict_open(engine: str, settings: dict[str, Any]) -> None:
    a = ask(**BASE, engine=engine, settings=settings)
    assert a["fits"] is None
    assert any("draft" in n for n in a["not_modelled"])
    assert any("draft-of-mine" in w for w in a["warnings"])


def test_methods_without_weights_add_nothing() -> None:
    base = {**BASE, "engine": "vllm", "quantization": "BF16"}
    ngram = ask(**base, settings={"speculative-config": {"method": "ngram", "num_speculative_tokens": 3}})
    assert part(ngram, "weights_bytes") == part(ask(**base), "weights_bytes")
    assert ngram["fits"] is True


PUBLISHED = [  # (model, method, parameters of its published draft)
    ("Qwen/Qwen3.6-27B", "dflash", 1_728_000_000),  # 1.71 GiB at 8.50 bits (llama.cpp pull request 22105)
    ("moonshotai/Kimi-K3", "dspark", 2_249_289_601),  # RadixArk/Kimi-K3-DSpark (Luce-Org/lucebox pull request 573)
    ("google/gemma-4-31B-it", "eagle3", 2_200_000_000),  # NVIDIA-NeMo/Automodel pull request 3077
]


@pytest.mark.parametrize(("model", "method", "parameters"), PUBLISHED)
def test_no_published_draft_is_larger_than_its_bound(model: str, method: str, parameters: int) -> None:
    rules = catalog()
    how = draft_bound.find_method(method, "", rules)
    assert how is not None
    most = draft_bound.largest_draft_model(rules.find_model(model), how, rules)
    assert most is not None
    assert parameters < text_params(most) < 10 * parameters


def test_a_prediction_layer_with_experts_is_inside_its_bound() -> None:
    """DeepSeek-V3's own prediction layer, that SGLang runs as EAGLE or NEXTN: 14B parameters (its README)."""
    rules = catalog()
    how = draft_bound.find_method(None, "SGLang/DeepSeek-V3-NextN", rules)
    assert how is not None
    most = draft_bound.largest_draft_model(rules.find_model("deepseek-ai/DeepSeek-V3"), how, rules)
    assert most is not None
    assert 14e9 < text_params(most) < 17e9


def test_the_cache_of_a_draft_is_inside_its_bound() -> None:
    """Qwen3.6-27B-DFlash: 5 layers, 8 KV heads of 128 (metadata of its GGUF, spiritbuun/buun-llama-cpp issue 23)."""
    rules = catalog()
    how = draft_bound.find_method("draft-dflash", "", rules)
    assert how is not None
    most = draft_bound.largest_draft_model(rules.find_model("Qwen/Qwen3.6-27B"), how, rules)
    assert most is not None
    assert sum(x.k + x.v for x in cache_layers(most)) >= 5 * 2 * 8 * 128


@pytest.mark.parametrize(
    ("engine", "hardware", "settings"),
    [
        ("vllm", "H100 80GB SXM", {"speculative-config": {"method": "eagle3", "model": "org/mine"}}),
        ("vllm", "H100 80GB SXM", {"speculative-config": {"model": "org/EAGLE3-of-mine"}}),  # vLLM reads the name
        ("sglang", "H100 80GB SXM", {"speculative-algorithm": "EAGLE3", "speculative-draft-model-path": "org/mine"}),
        ("llama.cpp", "H100 80GB SXM", {"spec-type": "draft-eagle3", "model-draft": "org/mine"}),
    ],
)
def test_a_draft_of_a_known_method_has_bounds(engine: str, hardware: str, settings: dict[str, Any]) -> None:
    base = {**BASE, "hardware": hardware, "engine": engine}
    a, without = ask(**base, settings=settings), ask(**base)
    assert a["fits"] is without["fits"] is True
    for row, plain in zip(a["devices"], without["devices"], strict=True):
        assert row["low_bytes"] == plain["low_bytes"]
        assert row["high_bytes"] > plain["high_bytes"] + 2 * 128256 * 4096  # an output matrix of its own, 16 bit
    assert any("at most" in w for w in a["warnings"])


def test_what_may_not_fit_beside_a_large_draft_is_left_open_and_what_cannot_fit_is_refused() -> None:
    tight = {**BASE, "engine": "vllm", "quantization": "BF16", "context_length": 20000}
    eagle = {"speculative-config": {"method": "eagle3", "model": "org/mine"}}
    assert ask(**tight)["fits"] is True
    a = ask(**tight, settings=eagle)
    assert a["fits"] is None
    assert any("the draft model may be large" in w for w in a["warnings"])
    assert ask(**{**tight, "hardware": "RTX 4060 8GB"}, settings=eagle)["fits"] is False


def test_the_format_that_a_file_name_says_is_used() -> None:
    base = {**BASE, "engine": "llama.cpp", "quantization": "Q4_K_M"}
    wide = ask(**base, settings={"spec-type": "draft-dflash", "model-draft": "mine-dflash.gguf"})
    narrow = ask(**base, settings={"spec-type": "draft-dflash", "model-draft": "mine-dflash-Q4_K_M.gguf"})
    plain = part(ask(**base), "high_bytes")
    assert part(narrow, "high_bytes") - plain < 0.65 * (part(wide, "high_bytes") - plain)
