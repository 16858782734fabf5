"""MoE models larger than the cards: these are filled before experts lie in host memory."""

from __future__ import annotations

from itertools import product

import msgspec
import pytest

from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import RecommendRequest
from advisor.catalog import catalog
from advisor.deployment import Deployment, Workload
from advisor.estimation import estimate, find_machine
from advisor.planning.objective import estimate_traffic_speed
from advisor.planning.traffic import read_traffic
from advisor.session import Session

RULES = catalog()
MODELS = (
    "openai/gpt-oss-120b", "zai-org/GLM-4.5-Air", "Qwen/Qwen3-235B-A22B", "MiniMaxAI/MiniMax-M2.7",
    "Qwen/Qwen3.5-122B-A10B", "Qwen/Qwen3-Next-80B-A3B-Instruct",
)  # fmt: skip
CARDS = (
    "1x RTX 3060 12GB, 256GB RAM", "1x RTX 4090, 256GB RAM", "1x RTX 5090, 256GB RAM",
    "1x RTX 4090 + 1x RTX 3060 12GB, 256GB RAM", "2x RTX 4060 Ti 16GB, 256GB RAM", "1x RTX 4060 Ti 16GB, 256GB RAM",
)  # fmt: skip
CASES = list(product(MODELS, CARDS))
FULL = 0.85  # of a budget


def plan(model: str, hardware: str):
    quant = None if "gpt-oss" in model else "Q4_K_M"
    request = RecommendRequest(find_machine(hardware, RULES), Workload(), model, quant, engine="llama.cpp")
    return recommend(request, Session(RULES)).chosen


def left_to_fit(deployment: Deployment) -> Deployment:
    """The launch with the placement left to llama-server's `--fit`."""
    own = {"n-gpu-layers", "n-cpu-moe", "cpu-moe", "tensor-split", "override-tensor"}
    return msgspec.structs.replace(deployment, settings={k: v for k, v in deployment.settings.items() if k not in own})


@pytest.mark.parametrize(
    ("model", "hardware"), [pytest.param(*c, marks=pytest.mark.slow if i % 9 else ()) for i, c in enumerate(CASES)]
)
def test_cards_are_full_before_experts_lie_on_the_host(model: str, hardware: str) -> None:
    chosen = plan(model, hardware)
    assert chosen is not None
    assert chosen.deployment is not None
    assert chosen.memory is not None
    assert chosen.memory.host is not None
    assert (chosen.memory.host.weights_bytes or 0) > 10 * 2**30  # experts
    shares = [(r.total_bytes or 0) / (r.budget_bytes or 1) for r in chosen.memory.devices]
    assert min(shares) >= FULL, shares
    traffic = read_traffic(Workload(), chosen.deployment.model.max_context, RULES)
    other = left_to_fit(chosen.deployment)
    fit = estimate_traffic_speed(other, estimate(other, Session(RULES)), traffic, 1, False, Session(RULES))
    assert chosen.speed is not None
    assert chosen.speed.output_tps is not None
    assert fit is not None
    assert fit.output_tps is not None
    assert chosen.speed.output_tps.value >= fit.output_tps.value
