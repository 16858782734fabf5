"""Rates by requests at once: what must hold whatever the coefficients are."""

from __future__ import annotations

from itertools import pairwise

import pytest

import advisor
from advisor.deployment import Interval

CASES = [
    ("70B", "Q4_K_M", None, "2x RTX 3090, 64GB RAM", 8192),
    ("llama3.1:8b", None, "vllm", "1x H100 80GB SXM", 8192),
    ("qwen3:30b-a3b", "FP8", "vllm", "2x L40S", 4096),
    ("qwen3:8b", "Q4_K_M", None, "M3 Max 64GB", 4096),
]


@pytest.mark.parametrize(("model", "quant", "engine", "hardware", "context"), CASES)
def test_more_requests(model: str, quant: str | None, engine: str | None, hardware: str, context: int) -> None:
    x = advisor.explain(model, quant, machine=hardware, engine=engine, context=context, concurrency=3)
    counts = [p.concurrency for p in x.speed]
    assert counts == sorted(set(counts))
    assert 1 in counts
    assert 3 in counts or x.fits is False
    rates = [p.speed for p in x.speed if p.speed]
    assert len(rates) == len(counts)
    for a, b in pairwise(rates):
        assert a.decode_tps is not None
        assert b.decode_tps is not None
        assert b.decode_tps.value <= a.decode_tps.value * 1.001  # nobody is served faster in company
    for s in rates:
        for i in (s.decode_tps, s.ttft_s, s.tpot_s, s.output_tps):
            assert isinstance(i, Interval)
            assert 0 < i.low <= i.value <= i.high
    assert all(p.fits is not False for p in x.speed if p.concurrency != 3)


def test_without_a_machine_there_is_no_speed() -> None:
    assert advisor.explain("70B", "q4").speed == ()


def test_a_model_that_embeds_reads_at_any_load() -> None:
    points = advisor.explain("BAAI/bge-m3", machine="1x RTX 4090").speed
    assert points
    assert all(p.speed is not None and p.speed.prefill_tps and p.speed.output_tps is None for p in points)
