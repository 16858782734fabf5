"""Fleets and demands that the tests of plans share."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.fleet.demand import read_demand
from advisor.fleet.inventory.pools import make_fleet
from advisor.fleet.inventory.source import read_inventory
from advisor.fleet.plan import FleetRequest, plan_fleet
from advisor.fleet.plan_types import FleetPlan
from advisor.session import Session

RULES = catalog([shipped_root()])
NODES = {
    "8x H100 80GB SXM, 2TB RAM, linux": (8, 20.0),
    "4x A100 SXM4 80GB, 1TB RAM, linux": (4, 5.2),
    "2x L40S, 512GB RAM, linux": (2, 1.7),
    "1x L4, 64GB RAM, linux": (1, 0.6),
    "8x MI300X, 2TB RAM, linux": (8, 16.0),
}
MODELS = ("llama3.1:8b", "Qwen/Qwen3-32B", "openai/gpt-oss-20b", "Qwen/Qwen3-8B", "google/gemma-3-27b-it")


def ask(folder: Path, nodes: list[dict[str, Any]], models: list[dict[str, Any]], **options: Any) -> FleetPlan:
    """The plan for nodes and models as they stand in the files."""
    fleet, demand = folder / "fleet.yaml", folder / "demand.yaml"
    fleet.write_text(json.dumps({"nodes": nodes}))
    demand.write_text(json.dumps({"models": models}))
    request = FleetRequest(make_fleet(read_inventory(str(fleet), RULES)), read_demand(demand, RULES), **options)
    return plan_fleet(request, Session(RULES))


def draw(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Three kinds of nodes, three models with targets."""
    rng = random.Random(seed)
    nodes = [
        {"name": f"pool-{k}", "count": rng.choice((1, 2, 4)), "hardware": words, "price_per_hour": NODES[words][1]}
        for k, words in enumerate(rng.sample(sorted(NODES), 3))
    ]
    models = [
        {
            "model": m, "rate": rng.choice((0.5, 1, 2, 6)), "prompt_tokens": rng.choice((300, 1000)),
            "output_tokens": rng.choice((100, 300)), "tpot_s": rng.choice((0.05, 0.1)), "ttft_s": 5,
        }
        for m in rng.sample(MODELS, 3)
    ]  # fmt: skip
    return nodes, models
