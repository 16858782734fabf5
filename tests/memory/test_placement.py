"""Every layer lies in exactly one place, in order, and shares are respected."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.memory.ggml import HOST, layer_devices

SHARES = st.lists(st.floats(0, 1e12, allow_nan=False), min_size=1, max_size=9).filter(lambda s: sum(s) > 0)


@given(st.integers(1, 200), st.integers(0, 300), SHARES)
def test_each_layer_and_the_output_have_one_place(n: int, on_gpu: int, shares: list[float]) -> None:
    where = layer_devices(n, on_gpu, tuple(shares))
    assert len(where) == n + 1
    assert all(HOST <= w < len(shares) for w in where)
    assert sum(w == HOST for w in where) == max(0, n + 1 - on_gpu)
    # the host's layers come first, then devices in their own order
    assert all(a <= b for a, b in pairwise(where))


@given(st.integers(1, 100), st.integers(1, 8))
def test_equal_devices_get_equal_numbers_of_layers(n: int, devices: int) -> None:
    where = layer_devices(n, 10**6, (1.0,) * devices)
    counts = [where.count(i) for i in range(devices)]
    assert max(counts) - min(counts) <= 1


def test_measured_split() -> None:
    """32 layers and the output on two equal GPUs: 17 and 15 layers, as llama.cpp v0.5.0 shares them out."""
    where = layer_devices(32, 10**6, (1.0, 1.0))
    assert where[:-1].count(0) == 17
    assert where[:-1].count(1) == 15
    assert where[-1] == 1


def test_no_device_means_host() -> None:
    assert layer_devices(3, 99, ()) == (HOST,) * 4


def test_shares_that_sum_to_nothing() -> None:
    with pytest.raises(ValueError, match="shares"):
        layer_devices(3, 4, (0.0, 0.0))
