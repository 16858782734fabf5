"""The lower bound of memory is never below what is known to be there: cause L of the lessons on unseen families."""

from __future__ import annotations

import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.session import Session

RULES = catalog([shipped_root()])
UNIFIED = ("GB10 (DGX Spark)", "Jetson AGX Thor 128GB", "Ryzen AI Max+ 395, 128GB RAM", "M4 Max 128GB")
ENGINES = ("vllm", "sglang", "llama.cpp", "mlx-lm", "ollama")


@pytest.mark.parametrize("hardware", UNIFIED)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("model", ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B", "openai/gpt-oss-120b"])
def test_low_holds_exact_weights_and_cache(engine: str, hardware: str, model: str) -> None:
    found = estimate(
        resolve_request(EstimateRequest(model=model, engine=engine, hardware=hardware), RULES)[0], Session(RULES)
    )
    for row in found.devices:
        sizes = {
            "weights": row.weights_bytes, "kv_cache": row.kv_cache_bytes, "recurrent_state": row.recurrent_state_bytes
        }  # fmt: skip
        known = sum(size or 0 for part, size in sizes.items() if found.basis.get(part) == "exact")
        assert row.low_bytes is None or row.low_bytes >= known
