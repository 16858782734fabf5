"""Requests of `advise estimate --jsonl` at random: all engines, good and faulty fields."""

from __future__ import annotations

import random
from typing import Any

from advisor.catalog import Catalog

HARDWARE = ("cpu, 64GB RAM", "M3 Max 64GB", "2x RTX 3090, 1x H100", "8x H100 80GB SXM, 2 nodes, nvlink+infiniband",
            "RTX 9999", "", "2x")  # fmt: skip
SETTINGS: tuple[dict[str, Any], ...] = (
    {"tensor-parallel-size": 2}, {"gpu-memory-utilization": 0.8}, {"ubatch-size": 512},
    {"ctx-size": 4096, "parallel": 2}, {"speculative-config": {"model": "llama3.2:1b"}}, {"max-model-len": "x"},
    {"a": None},
)  # fmt: skip
WORKLOADS: tuple[Any, ...] = (
    {"concurrency": 4}, {"prompt_tokens": 512, "output_tokens": 10}, {"depth_tokens": 1000}, {"concurrency": 0},
    {"users": 4}, 7,
)  # fmt: skip
FAULTS: tuple[dict[str, Any], ...] = (
    {"nonsense": 1}, {"quant": "q4", "engin": "vllm"}, {"model": 5}, {"settings": 1}, {"id": {"a": [1, None]}},
    {"id": 2**70}, {"sequences": 2**40}, {"kv_cache_type": {"q": "f16"}}, {"engine": "vlm"}, {"model": "llama3.1:9b"},
)  # fmt: skip


def requests(rules: Catalog, count: int, seed: int) -> list[dict[str, Any]]:
    """As many requests; about one in five has something wrong with it."""
    rng = random.Random(seed)
    models = [m.id for m in rules.model_index() if not m.stub]
    models = rng.sample(models, min(len(models), 10 + count // 5))  # the first request for a model is the slow one
    cards = [a.id for a in rules.accelerators().values()]
    formats = list(rules.quantizations())
    engines = [*rules.engines(), *["llama.cpp", "vllm", "sglang", "ollama"] * 8]
    optional = {
        "engine": lambda: rng.choice(engines),
        "quantization": lambda: rng.choice(formats),
        "context_length": lambda: rng.choice((4096, 8192, "32k", 131072, "x", 0)),
        "sequences": lambda: rng.choice((1, 2, 8, 64)),
        "kv_cache_type": lambda: rng.choice(("f16", "q8_0", "fp8", {"k": "q8_0", "v": "q4_0"})),
        "settings": lambda: rng.choice(SETTINGS),
        "workload": lambda: rng.choice(WORKLOADS),
        "engine_version": lambda: rng.choice(("0.9.0", "0.33.0", "b6000", "none")),
    }
    likely = {"engine": 0.8, "quantization": 0.3, "context_length": 0.6}
    out = []
    for i in range(count):
        card = f"{rng.choice((1, 1, 2, 4, 8))}x {rng.choice(cards)}, 128GB RAM"
        r = {"id": i, "model": rng.choice(models), "hardware": card if rng.random() < 0.9 else rng.choice(HARDWARE)}
        r |= {k: value() for k, value in optional.items() if rng.random() < likely.get(k, 0.2)}
        out.append(r | rng.choice(FAULTS) if rng.random() < 0.08 else r)
    return out
