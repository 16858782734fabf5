"""Draft models of speculative decoding: counted like the same model alone, under each engine's own settings."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.catalog import catalog
from advisor.estimation import answer_line

DRAFT = "meta-llama/Llama-3.2-1B-Instruct"
BASE = {"model": "meta-llama/Llama-3.1-8B-Instruct", "hardware": "RTX 4090", "context_length": 8192}


def ask(**fields: Any) -> dict[str, Any]:
    import msgspec

    out = answer_line(msgspec.json.encode(fields), catalog(), {})
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
        ("vllm", {"speculative-config": {"model": "org/EAGLE3-of-mine"}}),
        ("sglang", {"speculative-draft-model-path": "org/EAGLE3-of-mine"}),
        ("llama.cpp", {"model-draft": "org/EAGLE3-of-mine"}),
    ],
)
def test_a_draft_of_unknown_size_leaves_the_verdict_open(engine: str, settings: dict[str, Any]) -> None:
    a = ask(**BASE, engine=engine, settings=settings)
    assert a["fits"] is None
    assert any("draft" in n for n in a["not_modelled"])
    assert any("EAGLE3-of-mine" in w for w in a["warnings"])


def test_methods_without_weights_add_nothing() -> None:
    base = {**BASE, "engine": "vllm", "quantization": "BF16"}
    ngram = ask(**base, settings={"speculative-config": {"method": "ngram", "num_speculative_tokens": 3}})
    assert part(ngram, "weights_bytes") == part(ask(**base), "weights_bytes")
    assert ngram["fits"] is True
