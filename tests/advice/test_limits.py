"""Limits that `explain` states hold, and one step beyond them is not sure to: asked through the batch entry point."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.advice.explain import explain
from advisor.advice.limits import DeploymentLimits, find_largest
from advisor.catalog import catalog
from advisor.catalog.hardware_names import parse_hardware
from advisor.catalog.roots import shipped_root
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.questions.recommend import ExplainQuestion
from advisor.session import Session

RULES = catalog([shipped_root()])


def found(model: str, engine: str, quant: str, hardware: str, context: int = 8192, n: int = 1) -> DeploymentLimits:
    q = ExplainQuestion(model=model, quantization=quant, engine=engine, context=context, concurrency=n)
    x = explain(q, parse_hardware(hardware, RULES), Session(RULES)).limits
    assert x is not None
    return x


def fits(**fields: Any) -> bool | None:
    return estimate(resolve_request(EstimateRequest(**fields), RULES)[0], Session(RULES)).fits


CASES = [
    ("llama3.1:8b", "llama.cpp", "Q4_K_M", "RTX 3060 12GB, 64GB RAM"),
    ("llama3.1:8b", "vllm", "BF16", "RTX 4090, 64GB RAM"),
    ("google/gemma-3-12b-it", "llama.cpp", "Q4_K_M", "RTX 4060 Ti 16GB, 64GB RAM"),
    ("Qwen/Qwen3-30B-A3B", "vllm", "FP8", "H100 80GB SXM, 200GB RAM"),
]


@pytest.mark.parametrize(("model", "engine", "quant", "hardware"), CASES)
def test_longest_context(model: str, engine: str, quant: str, hardware: str) -> None:
    n = found(model, engine, quant, hardware, n=2).largest_context
    assert n is not None
    placed = {"n-gpu-layers": "all"} if engine == "llama.cpp" else {}
    common = {"model": model, "engine": engine, "quantization": quant, "hardware": hardware, "sequences": 2,
              "settings": placed}  # fmt: skip
    assert fits(context_length=n, **common) is True
    trained = RULES.find_model(model).max_context
    assert n == trained or fits(context_length=n + 512, **common) is not True


@pytest.mark.parametrize(("model", "engine", "quant", "hardware"), CASES)
def test_most_sequences(model: str, engine: str, quant: str, hardware: str) -> None:
    n = found(model, engine, quant, hardware, 4096).most_sequences
    assert n is not None
    placed = {"n-gpu-layers": "all"} if engine == "llama.cpp" else {}
    common = {"model": model, "engine": engine, "quantization": quant, "hardware": hardware, "context_length": 4096,
              "settings": placed}  # fmt: skip
    assert fits(sequences=n, **common) is True
    assert fits(sequences=n + 1, **common) is not True


def test_widest_weights_and_cards() -> None:
    """A 27B on 24 GiB (25.8 GB): Q8_0 is 28.7 GB; Q6_K is 22.2 GB and leaves room for 8k tokens (about 1 GB)."""
    x = found("google/gemma-3-27b-it", "llama.cpp", "Q8_0", "RTX 3090, 64GB RAM")
    assert x.largest_quantization == "Q6_K"
    assert x.cards_needed == 2
    assert x.layers_on_cards is not None
    assert 30 <= x.layers_on_cards[0] < x.layers_on_cards[1] == 63


def test_a_smaller_cache_type_reaches_further() -> None:
    x = found("llama3.1:8b", "llama.cpp", "Q8_0", "RTX 3060 12GB, 64GB RAM")
    reach = {c.kv_cache_type: c.largest_context or 0 for c in x.by_cache}
    assert reach["auto"] < reach["q8_0"] < reach["q4_0"]


def test_nothing_fits_is_none() -> None:
    x = found("llama3.3:70b", "llama.cpp", "Q8_0", "RTX 3060 12GB, 64GB RAM")
    assert (x.largest_context, x.most_sequences) == (None, None)
    assert find_largest(lambda n: None, 10) is None
    assert find_largest(lambda n: n <= 7, 10) == 7
