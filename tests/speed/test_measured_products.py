"""Laws of a pass against products that were timed on a card (tests/data/h100_products.csv)."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path
from statistics import mean

import pytest
from speed_asking import RULES

from advisor.speed.efficiencies import EfficiencyKeys, find_efficiencies, load_speed_rules
from advisor.speed.laws import overlap_seconds

FILE = Path(__file__).parent.parent / "data" / "h100_products.csv"
PRODUCTS = {"8b": 218_103_808, "32b": 487_587_840}  # of each token and layer
PEAK = {"bf16": 989.4e12, "fp8": 1978.9e12}  # operations a second, dense


def _read() -> dict[tuple[str, str], dict[int, float]]:
    """Shapes and type -> tokens -> seconds of one layer."""
    out: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    with FILE.open(encoding="utf-8", newline="") as f:
        for row in csv.DictReader(line for line in f if not line.startswith("#")):
            out[row["shapes"], row["type"]][int(row["tokens"])] = float(row["seconds"]) / int(row["layers"])
    return out


@pytest.mark.parametrize(("shapes", "kind"), [("8b", "bf16"), ("8b", "fp8"), ("32b", "bf16"), ("32b", "fp8")])
def test_reading_and_multiplying_overlap_as_measured(shapes: str, kind: str) -> None:
    """Between few tokens, which are read, and many, which are multiplied, nothing is fitted but the power."""
    seconds = _read()[shapes, kind]
    read, most = min(seconds.values()), max(seconds)
    off = [overlap_seconds(read, n * seconds[most] / most) / s - 1 for n, s in seconds.items()]
    assert abs(mean(off)) < 0.03
    assert max(map(abs, off)) < 0.15


def test_prompts_in_a_server_take_no_less_than_their_products() -> None:
    """A prompt has more to do than its products, so it reaches a smaller share of the peak than these alone."""
    for kind, name in (("bf16", "16-bit"), ("fp8", "fp8")):
        seconds = _read()["8b", kind]
        reached = 2 * PRODUCTS["8b"] * 8192 / seconds[8192] / PEAK[kind]
        assert 0.6 < reached < 0.8
        keys = EfficiencyKeys("server", "vllm", "", "nvidia", "sm90", name, "alone")
        assert find_efficiencies(load_speed_rules(RULES), keys).prefill.products < reached
