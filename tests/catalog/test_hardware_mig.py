"""Slices of a card (MIG) as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.catalog import catalog
from advisor.catalog.described_machine import mig_bytes
from advisor.catalog.hardware_names import parse_hardware
from advisor.errors import AdvisorError
from advisor.machines.types import Machine
from advisor.units import MIB

CATALOG = catalog([Path(__file__).parents[2] / "rules"])
ACCELERATORS = CATALOG.accelerators()


def parse(text: str) -> Machine:
    return parse_hardware(text, CATALOG)


@pytest.mark.parametrize(
    ("text", "parent"), [("A100 3g.40gb", "80gb"), ("A100 1g.5gb", "40gb"), ("H100 80GB 3g.40gb", "")]
)
def test_mig(text: str, parent: str) -> None:
    m = parse(f"2x {text}")
    assert all(parent in str(d.accelerator) for d in m.devices)
    assert {d.mig_profile for d in m.devices} == {text.split()[-1]}
    assert len(m.usable_devices) == 1
    assert any("one slice" in n for n in m.notes)


def test_mig_of_words_in_another_order() -> None:
    assert parse("1x MIG 3g.40gb of H100 80GB").devices == parse("1x H100 80GB 3g.40gb").devices


def test_mig_that_the_card_cannot_do() -> None:
    for text in ("RTX 4090 3g.40gb", "A100 9g.90gb"):
        with pytest.raises(AdvisorError, match="no MIG"):
            parse(text)


@pytest.mark.parametrize(
    ("profile", "seen_mib"),
    # slice sizes nvidia-smi lists on A100 40GB and 80GB
    [("1g.5gb", 4864), ("1g.10gb", 9728), ("3g.40gb", 40192), ("7g.80gb", 80640)],
)
def test_mig_sizes_do_not_promise_more_than_the_driver_gives(profile: str, seen_mib: int) -> None:
    assert 0.92 * seen_mib * MIB < mig_bytes(profile) <= seen_mib * MIB
