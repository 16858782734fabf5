"""`advise hardware` with requests a second: the same verdict as `recommend` has on each machine."""

from __future__ import annotations

import json
from pathlib import Path

import advisor

LOAD = {"prompt_tokens": 500, "output_tokens": 200, "ttft_s": "0.5@p99", "rate": 2.0}
PLAN = {"quantization": "BF16", "engine": "vllm"}


def test_offers_meet_the_targets_and_refusals_miss_them(tmp_path: Path) -> None:
    prices = tmp_path / "prices.json"
    cards = {"a100-80gb-sxm": 9000, "l4": 2000}
    prices.write_text(json.dumps({"unit": "EUR once", "counts": [1], "prices": cards}))
    found = advisor.hardware("llama3.1:8b", prices=prices, **LOAD, **PLAN)
    assert found.load == "2 requests/s"
    met = {o.accelerator: o.targets.met for o in found.options if o.targets is not None and o.arrivals is not None}
    assert len(met) == len(found.options) >= 1
    for name, hardware in (("a100-80gb-sxm", "1x A100 SXM4 80GB"), ("l4", "1x L4")):
        chosen = advisor.recommend(hardware, model="llama3.1:8b", **LOAD, **PLAN).chosen
        assert chosen is not None
        assert chosen.targets is not None
        assert met.get(name, False) is chosen.targets.met
