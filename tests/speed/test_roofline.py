"""Decode rates against published measurements and a second derivation."""

from __future__ import annotations

import math
import random

import msgspec
import pytest
from midway_speed import estimate_midway_speed

from advisor.catalog import catalog
from advisor.deployment import Deployment
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.models.types import Moe
from advisor.session import Session
from advisor.speed.steps import touched_share

RULES = catalog()


def rate(
    model: str, quant: str, hardware: str, context: int = 1024, concurrency: int = 1, version: str | None = None,
    **settings: object,
):  # fmt: skip
    r = EstimateRequest(
        model=model, quantization=quant, hardware=hardware, context_length=context, sequences=concurrency,
        engine_version=version, settings={"n-gpu-layers": "all"} | settings,
    )  # fmt: skip
    d, _ = resolve_request(r, RULES)
    return estimate_midway_speed(d, estimate(d, Session(RULES)), Session(RULES), concurrency)


# XiongjieDai, GPU benchmarks on LLM inference (llama.cpp, 2024-05): text generation of 1024 tokens, one stream
PUBLISHED = (
    ("Q4_K_M", "RTX 4090", 127.7),
    ("F16", "RTX 4090", 54.3),
    ("Q4_K_M", "RTX 3090", 111.7),
    ("Q4_K_M", "A100 PCIe 80GB", 138.3),
    ("F16", "A100 PCIe 80GB", 54.6),
)


def test_published_rates_lie_within_the_interval() -> None:
    """Four of five: the bounds are those of nine rows in ten."""
    inside = 0
    for quant, hardware, published in PUBLISHED:
        s = rate("meta-llama/Meta-Llama-3-8B-Instruct", quant, hardware, version="b2833")
        assert s is not None
        assert s.decode_tps is not None
        assert 1 / 1.3 < s.decode_tps.value / published < 1.3
        inside += s.decode_tps.low <= published <= s.decode_tps.high
    assert inside >= 4


def test_no_rate_is_above_what_bandwidth_allows() -> None:
    """One token reads every active weight once: bandwidth over bytes is a wall."""
    for quant, bytes_per_param in (("F16", 2.0), ("Q8_0", 1.0625), ("Q4_K_M", 0.5)):
        s = rate("8B", quant, "RTX 4090")
        assert s is not None
        assert s.decode_tps is not None
        assert s.decode_tps.high < 1008e9 / (7.5e9 * bytes_per_param)


def test_rates_fall_with_context_and_bounds_are_ordered() -> None:
    short, long = rate("8B", "Q4_K_M", "RTX 4090", 1024), rate("8B", "Q4_K_M", "RTX 4090", 65536)
    assert short is not None and long is not None  # noqa: PT018
    assert short.decode_tps is not None and long.decode_tps is not None  # noqa: PT018
    assert long.decode_tps.value < short.decode_tps.value
    for s in (short, long):
        for i in (s.decode_tps, s.tpot_s, s.output_tps):
            assert i is not None
            assert 0 < i.low <= i.value <= i.high


def test_experts_touched_by_a_batch() -> None:
    """The closed form against experts drawn by exponentially distributed popularity."""
    model = RULES.find_model("Qwen/Qwen3-30B-A3B")
    assert model.layout is not None
    moe = next(g for g in model.layout.ffn if isinstance(g, Moe))
    share = moe.top_k / moe.n_experts
    generator = random.Random(0)
    assert touched_share(share, 1) == pytest.approx(share)
    for n in (2, 8, 64):
        popularity = [generator.expovariate((1 - share) / share) for _ in range(50_000)]  # mean: one token's share
        missed = sum(math.exp(-n * x) for x in popularity) / len(popularity)
        assert touched_share(share, n) == pytest.approx(1 - missed, rel=0.02)
        uniform = 1 - (1 - share) ** n  # every expert as popular as the others: no fewer
        assert share < touched_share(share, n) < uniform
    assert touched_share(share, 10_000) == pytest.approx(1.0, abs=0.01)
    assert touched_share(1.0, 3) == 1.0


def test_a_slice_has_a_slice_of_the_bandwidth() -> None:
    whole, part = rate("8B", "F16", "A100 80GB SXM"), rate("8B", "F16", "1x A100 3g.40gb")
    assert whole is not None and part is not None  # noqa: PT018
    assert whole.decode_tps is not None and part.decode_tps is not None  # noqa: PT018
    assert part.decode_tps.high < 0.8 * whole.decode_tps.high


def test_unknown_is_none() -> None:
    d, _ = resolve_request(
        EstimateRequest(model="8B", quantization="Q4_K_M", hardware="RTX 4090", context_length=1024), RULES
    )
    assert d.machine is not None
    nameless = [msgspec.structs.replace(x, accelerator=None) for x in d.machine.devices]
    unknown: Deployment = msgspec.structs.replace(
        d, machine=msgspec.structs.replace(d.machine, devices=tuple(nameless))
    )
    assert estimate_midway_speed(unknown, estimate(unknown, Session(RULES)), Session(RULES)) is None
