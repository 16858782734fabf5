"""The setting of Mélange (Griggs et al., arXiv 2404.14527): one model, four kinds of cards, three mixes of requests.

It profiles every card; ours are estimates alone. Published savings against a single kind of card, at 120 ms between
tokens and 1 to 32 requests a second: up to 77 % with short requests, 51 % mixed, 33 % with long ones. The plots compare
with all four cards for short requests, and with A100 and H100 for the others, which the small cards do not serve.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fleets import ask

CARDS = {  # with the price per hour in the paper's setting
    "H100": ("1x H100 80GB SXM, 200GB RAM, linux", 7.516),
    "A100": ("1x A100 SXM4 80GB, 200GB RAM, linux", 3.67),
    "A10G": ("1x A10G, 64GB RAM, linux", 1.01),
    "L4": ("1x L4, 64GB RAM, linux", 0.70),
}
MIXES = {  # lengths like those of Chatbot Arena, of PubMed, and of four to one of both; (requests, single cards)
    "short": ({"prompt_tokens": 120, "prompt_p95": 400, "output_tokens": 200, "output_p95": 500}, tuple(CARDS)),
    "mixed": ({"prompt_tokens": 700, "prompt_p95": 3200, "output_tokens": 205, "output_p95": 500}, ("H100", "A100")),
    "long": ({"prompt_tokens": 3000, "prompt_p95": 3600, "output_tokens": 220, "output_p95": 350}, ("H100", "A100")),
}
RATES = (1, 2, 4, 8, 16, 32)


def find_cost(cards: tuple[str, ...], mix: dict[str, Any], rate: int, folder: Path) -> float | None:
    nodes = [{"name": c.lower(), "count": 200, "hardware": CARDS[c][0], "price_per_hour": CARDS[c][1]} for c in cards]
    model = {"model": "meta-llama/Llama-2-7b-chat-hf", "context": 4096, "engines": ["vllm"], "quantizations": ["fp16"]}
    demand = {**model, **mix, "rate": rate, "tpot_s": 0.12, "variants": len(CARDS)}
    return ask(folder, nodes, [demand], advice=False).cost_per_hour.likely


@pytest.mark.slow
def test_savings_have_the_published_order(tmp_path: Path) -> None:
    saved = {}
    for name, (mix, singles) in MIXES.items():
        saved[name] = 0.0
        for rate in RATES:
            best = find_cost(tuple(CARDS), mix, rate, tmp_path)
            assert best is not None
            for card in singles:
                alone = find_cost((card,), mix, rate, tmp_path)
                assert alone is not None
                assert best <= alone * 1.001, "a mix never costs more than one kind of card"
                saved[name] = max(saved[name], 1 - best / alone)
    assert saved["short"] > saved["mixed"] > saved["long"] > 0.2, saved
