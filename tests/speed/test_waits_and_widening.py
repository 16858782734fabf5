"""Replicas that wait for each other's prompts, and builds that widen the weights of a prompt: worked out by hand."""

from __future__ import annotations

import msgspec
import pytest
from test_passes_by_hand import WORK, passed, plan

from advisor.speed.steps import _count_delays


def test_replicas_that_wait_for_each_other() -> None:
    """Two replicas; one has a prompt in every fourth pass: seven of sixteen passes have one of either."""
    waits = plan(devices=2, replicas=2, replicas_wait=True)
    assert _count_delays(waits, 0.25) == pytest.approx((7 / 16) / (1 / 4))
    assert _count_delays(waits, 1.0) == _count_delays(waits, 3.0) == 1.0  # a prompt in each pass of all
    assert _count_delays(waits, 1e-6) == pytest.approx(2.0, rel=1e-5)
    assert _count_delays(plan(devices=2, replicas=2), 0.25) == 1.0


def test_an_old_build_writes_widened_weights_and_reads_them() -> None:
    """Quantised weights: 7e9 dense ones at 2 bytes to memory and back, in passes that matrix units multiply."""
    small = msgspec.structs.replace(WORK, dense_bytes=4.5e9)
    old = plan(integer=True, wide_products=True, vector_tokens=8)
    prompt = (1.0, 512.0, 0.0)
    assert passed(small, old, decode=False, tokens=prompt).widened_s == pytest.approx(2 * 2 * 7e9 / 1e12)
    assert passed(small, old).widened_s == 0.0  # four tokens are multiplied as they are
    assert passed(WORK, old, decode=False, tokens=prompt).widened_s == 0.0  # 16 bit already
    assert passed(small, plan(integer=True), decode=False, tokens=prompt).widened_s == 0.0
