"""Throughput against latency, and the largest concurrency, against asking every point."""

from __future__ import annotations

import msgspec
import pytest
from speed_asking import RULES, made

from advisor.deployment import Deployment, MemoryEstimate
from advisor.estimation import estimate
from advisor.session import Session
from advisor.speed.curve import compute_curve, compute_point, find_most_concurrent
from advisor.speed.work import RequestLoad

LOAD = RequestLoad(prompt=2000, output=300)


def memory(d: Deployment) -> MemoryEstimate:
    return estimate(d, Session(RULES))


def test_the_curve_rises_in_throughput_and_in_latency_and_ends_where_memory_does() -> None:
    d, _ = made("8B", "Q8_0", "RTX 4090", context=2400, settings={"n-gpu-layers": "all"})
    points = compute_curve(d, memory, Session(RULES), LOAD)
    assert points[-1].fits is False
    assert all(p.fits for p in points[:-1])
    rates = [p.speed.output_tps.value for p in points if p.speed and p.speed.output_tps]
    waits = [p.speed.tpot_s.value for p in points if p.speed and p.speed.tpot_s]
    assert rates == sorted(rates)
    assert waits == sorted(waits)


@pytest.mark.parametrize("sure", [False, True])
@pytest.mark.parametrize("targets", [{"tpot_s": 0.03}, {"ttft_s": 1.0}, {"ttft_s": 1.5, "tpot_s": 0.02}, {}])
def test_the_largest_concurrency_is_the_last_that_holds(targets: dict[str, float], sure: bool) -> None:
    d, _ = made("8B", "BF16", "H100 80GB SXM", "vllm", context=2400)
    found = find_most_concurrent(d, memory, Session(RULES), LOAD, **targets, sure=sure)
    assert found is not None

    def holds(n: int) -> bool:
        p = compute_point(d, memory, Session(RULES), LOAD, n)
        assert p.speed is not None
        within = [
            (x.high if sure else x.value) <= targets[name]
            for name in targets
            if (x := getattr(p.speed, name)) is not None
        ]
        return bool(p.fits) and not p.speed.limited and all(within)

    assert found > 0
    assert holds(found)
    assert not holds(found + 1)


def test_targets_that_nothing_reaches_and_facts_that_nobody_knows() -> None:
    d, _ = made("70B", "BF16", "4x H100 80GB SXM", "vllm", settings={"tensor-parallel-size": 4})
    assert find_most_concurrent(d, memory, Session(RULES), LOAD, tpot_s=0.0001) == 0
    assert d.machine is not None
    nameless = tuple(msgspec.structs.replace(x, accelerator=None) for x in d.machine.devices)
    unknown = msgspec.structs.replace(d, machine=msgspec.structs.replace(d.machine, devices=nameless))
    assert find_most_concurrent(unknown, memory, Session(RULES), LOAD) is None
