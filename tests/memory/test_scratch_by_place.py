"""Scratch place by place against one graph of all layers, and how much work a mixed grid is."""

from __future__ import annotations

import json
import random

import pytest
from effort import calls
from msgspec.structs import replace

from advisor.batch import answer_lines
from advisor.catalog import catalog
from advisor.memory.ggml import HOST
from advisor.memory.ggml.compute import build_step, choose_layers, share_scratch
from advisor.memory.ggml.graph import StepShape
from advisor.memory.ggml.layers import has_kernels
from advisor.memory.ggml.schedule import count_places
from advisor.memory.gguf_tensors import as_gguf
from advisor.memory.gguf_weights import place_layers, weights_from_model
from advisor.models.types import Model

RULES = catalog()
MODELS = (
    "Qwen/Qwen3-8B", "openai/gpt-oss-20b", "google/gemma-3-27b-it", "Qwen/Qwen3.5-35B-A3B", "deepseek-ai/DeepSeek-V3",
    "meta-llama/Llama-3.1-70B-Instruct", "ai21labs/AI21-Jamba2-Mini", "LiquidAI/LFM2-24B-A2B",
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1", "google/gemma-4-E4B-it",
)  # fmt: skip


def draw_places(rng: random.Random, layers: int, devices: int) -> tuple[int, ...]:
    """Runs of layers on the host, then on each device; the output lies with the last."""
    ends = sorted(rng.randint(0, layers) for _ in range(devices))
    return (*(next((d for d in range(devices) if i < ends[d]), devices) - 1 for i in range(layers)), devices - 1)


def lay_all_out(model: Model, shape: StepShape, placed: tuple, devices: int, copies: int) -> dict[int, int]:
    """One graph over all devices, with every kind of layer that is looked at."""
    crosses = model.known_layout.per_layer is not None or not has_kernels(model) or any(x.lent for x in placed)
    kinds = choose_layers(model, placed, all_of_them=copies > 1 and crosses)
    layers = [(model.known_layout.attention[i], model.known_layout.ffn[j], at) for i, j, at in kinds]
    tensors, inputs = build_step(model, replace(shape, scheduled=True), layers, placed[-1])
    return count_places(tensors, inputs, devices, copies)


@pytest.mark.parametrize("name", MODELS)
def test_each_place_takes_what_it_takes_of_the_whole_graph(name: str) -> None:
    rng, model = random.Random(name), as_gguf(RULES.find_model(name))
    weights, layers = weights_from_model(model, "Q4_K_M"), model.known_layout.n_layers
    for _ in range(6):
        devices, tokens = rng.choice((2, 3, 5, 8)), rng.choice((16, 512))
        shape = StepShape(
            tokens=tokens, sequences=1, outputs=1, cells=rng.choice((4096, 32768)), window_cells=0, streams=1,
            flash=rng.random() < 0.7,
        )  # fmt: skip
        where = draw_places(rng, layers, devices)
        experts = rng.choice((0, 0, layers // 3, layers)) if model.is_moe else 0
        placed = place_layers(weights, where, experts)
        copies = 4 if HOST not in where and not experts else 1
        found = share_scratch(model, shape, placed, devices, copies)
        assert found == lay_all_out(model, shape, placed, devices, copies), where
        for place in (0, devices - 1):
            assert share_scratch(model, shape, placed, devices, copies, place)[place] == found[place]


def make_mixed_grid(count: int) -> list[bytes]:
    """Models, cards, numbers of cards, lengths and formats at random, a model's together."""
    rng = random.Random(11)
    models = [m.id for m in RULES.model_index() if not m.stub]
    cards = [a.id for a in RULES.accelerators().values()]
    asked = sorted(
        (rng.choice(models), f"{rng.choice((1, 2, 4, 8))}x {rng.choice(cards)}", rng.choice((4096, 65536)),
         rng.choice((1, 8, 32)), rng.choice((("llama.cpp", "Q4_K_M"), ("llama.cpp", "Q8_0"), ("vllm", "FP8"))))
        for _ in range(count)
    )  # fmt: skip
    return [
        json.dumps(
            {"model": m, "hardware": h, "context_length": c, "sequences": s, "engine": e, "quantization": q}
        ).encode()
        for m, h, c, s, (e, q) in asked
    ]


@pytest.mark.slow
def test_a_mixed_grid_does_not_grow_in_work() -> None:
    """Calls of functions a line, where models and shapes hardly repeat: 54,000 when this was written, 103,000 before
    scratch was counted place by place and on demand."""
    lines = make_mixed_grid(60)
    list(answer_lines(lines[:10]))  # tables are read once
    assert calls(lambda: list(answer_lines(lines))) < 62_000 * len(lines)
