"""Thresholds of advice, each from both sides: what is tight, what another plan costs more, what a plan gains."""

from __future__ import annotations

import pytest

from advisor.advice.recommend.alternatives import describe_room
from advisor.catalog import catalog
from advisor.deployment import DeviceMemory, KvCache, MemoryEstimate
from advisor.estimation import find_machine
from advisor.planning.utility import load_utility, measure_tightness
from advisor.units import GIB

RULES = catalog()


def make_estimate(*rows: tuple[int | None, int | None]) -> MemoryEstimate:
    """An estimate of devices with (total, budget) bytes."""
    devices = tuple(DeviceMemory(name="card", total_bytes=total, budget_bytes=budget) for total, budget in rows)
    return MemoryEstimate(
        fits=True, context_length=1, sequences=1, devices=devices, host=None, kv_cache=KvCache(), basis={}
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (((90, 100),), 0.0),  # the last tenth begins here
        (((91, 100),), 0.1),
        (((100, 100),), 1.0),
        (((101, 100),), 1.0),  # never more than all of it
        (((50, 100), (95, 100)), 0.5),  # the tightest card
        (((95, None),), 0.0),  # no budget is known
        ((), 0.0),
    ],
)
def test_only_the_last_tenth_of_a_budget_counts_as_tight(
    rows: tuple[tuple[int | None, int | None], ...], expected: float
) -> None:
    assert measure_tightness(make_estimate(*rows), load_utility(RULES)) == pytest.approx(expected)


def test_more_cards_are_named_where_these_are_too_few() -> None:
    machine = find_machine("2x RTX 4090, 64GB RAM", RULES)
    each = machine.usable_devices[0].total_bytes
    assert each is not None
    assert describe_room(2 * each, machine) == f"at least {-(-each // GIB)} GiB on each"
    assert (
        describe_room(2 * each + 1, machine) == f"3 such cards instead of 2, or at least {each // GIB + 1} GiB on each"
    )
    assert describe_room(None, machine) is None


def test_cards_of_two_kinds_have_no_larger_ones() -> None:
    assert describe_room(10**12, find_machine("RTX 4090 + RTX 3090, 64GB RAM", RULES)) is None
    assert describe_room(10 * GIB, find_machine("cpu, 8GB RAM", RULES)) == "at least 10 GiB of memory"
    assert describe_room(10 * GIB + 1, find_machine("cpu, 8GB RAM", RULES)) == "at least 11 GiB of memory"
