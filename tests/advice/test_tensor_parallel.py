"""Answers put no tensor-parallel size forward that the engine refuses, by a second derivation of what it asserts."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import engine_shapes  # what vLLM and SGLang assert, written down from their sources
import pytest

import advisor
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.engines.flags import find_own_flag
from advisor.errors import BadInput

ROWS = {row["id"]: row for row in engine_shapes.rows()}
CARDS = (
    "RTX 3090",
    "RTX 4090",
    "L40S",
    "A100 80GB SXM",
    "H100 80GB SXM",
    "B200",
    "MI300X",
    "RTX PRO 6000 Blackwell Server",
)
FORMATS = (None, None, None, "BF16", "FP8", "AWQ")
ENGINES = ("vllm", "sglang")


def asked(seed: int, n: int) -> Iterator[tuple[str, str, str | None, str | None, int]]:
    """(machine, model, format, engine, users), the odd counts of cards as often as the even ones."""
    draw = random.Random(seed)
    for _ in range(n):
        count = draw.randint(1, 8)
        machine = f"{count}x {draw.choice(CARDS)}, {draw.choice((64, 256, 1024))}GB RAM, linux"
        engine = draw.choice((None, *ENGINES))
        yield machine, draw.choice(list(ROWS)), draw.choice(FORMATS), engine, draw.choice((1, 8, 64, 256))


def refused(seed: int, n: int) -> tuple[list[str], int, int]:
    """Answers with a size that the engine refuses; how many were given, how many of them over several cards."""
    rules = catalog([shipped_root()])
    wrong, given, several = [], 0, 0
    for machine, model, quantization, engine, users in asked(seed, n):
        try:
            advice = advisor.recommend(
                advisor.machine(machine), model=model, quantization=quantization, engine=engine, concurrency=users
            )
        except BadInput:
            continue
        for plan in (advice.chosen, *advice.alternatives):
            if plan is None or plan.engine not in ENGINES:
                continue
            flag = find_own_flag(rules.engine(plan.engine), "tensor_parallel")
            size = int(plan.settings.get(flag or "", 1))
            given += 1
            several += size > 1
            if not engine_shapes.starts(ROWS[plan.model], size, plan.engine):
                wrong.append(f"{plan.engine} {plan.model} on {machine}: {size}")
    return wrong, given, several


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_refused_size_is_recommended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plans of other engines are not looked at, so none is made."""
    monkeypatch.setattr(
        "advisor.advice.recommend.engines.list_in_order", lambda listed, asked, rules: [*map(rules.engine, ENGINES)]
    )
    wrong, given, several = refused(seed=1, n=200)
    assert wrong == []
    assert given > 200
    assert several > 40


def test_hardware_buys_no_cards_that_would_stay_unused(tmp_path: Path) -> None:
    """One card is enough for phi-4, and two are the fewest that are sold."""
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"unit": "EUR once", "counts": [2, 4], "prices": {"a100-80gb-sxm": 9000}}))
    shopping = advisor.hardware(
        "microsoft/phi-4", users=8, budget="90000EUR", engine="vllm", quantization="BF16", fewest=True, prices=prices
    )
    assert [o.hardware for o in shopping.options] == ["2x A100 SXM4 80GB, linux"]
    assert [x.text for x in shopping.rejected] == ["1 of the 4 cards are enough, and 2 are offered"]


def test_explain_takes_the_largest_size_that_starts() -> None:
    told = advisor.explain("microsoft/phi-4", machine="4x RTX 4090, 64GB RAM, linux", engine="vllm")
    assert {len(e.devices) for e in told.estimates} == {2}


def test_estimate_says_why_a_size_is_refused() -> None:
    estimate = advisor.estimate(
        {"model": "microsoft/phi-4", "engine": "vllm", "hardware": "4x A100 80GB", "context_length": 8192,
         "settings": {"tensor-parallel-size": 4}}
    )  # fmt: skip
    assert estimate.fits is False
    assert "number of KV heads (10) must be divisible by tensor parallel size (4)" in estimate.warnings
