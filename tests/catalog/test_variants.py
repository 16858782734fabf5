"""Cards that the catalogue does not hold as they are written: dies with another amount of memory, chips by their cores.

Bandwidths are those that makers and owners state for boards that are not in the catalogue.
"""

from __future__ import annotations

import pytest

from advisor.catalog import catalog
from advisor.catalog.hardware_names import parse_hardware
from advisor.errors import AdvisorError, BadInput
from advisor.machines.types import Machine
from advisor.speed.rates import device_bandwidth, peak_tflops
from advisor.units import GIB

RULES = catalog()


def parse(text: str) -> Machine:
    return parse_hardware(text, RULES)


@pytest.mark.parametrize(
    ("text", "gib", "gbs"),
    [
        ("H20 141GB", 141, 4800),  # H20 with HBM3e, as NVIDIA's partners list it
        ("H20-3e", 141, 4800),
        ("H20-3e 141GB", 141, 4800),
        ("H100 96GB", 96, 4000),  # H100 in GH200, NVIDIA's data sheet
        ("A100 64GB", 64, 1640),  # Leonardo's custom A100, arXiv 2307.16885
        ("A800 40GB", 40, 1555),  # NVIDIA A800 40GB Active, data sheet
        ("RTX 3070 16GB", 16, 448),  # workshops' boards: chips of twice the capacity on the same bus
        ("RTX 5080 24GB", 24, 960),  # chips of 3 GB
    ],
)
def test_a_known_die_with_another_amount_of_memory(text: str, gib: float, gbs: float) -> None:
    machine = parse(f"3x {text}, 64GB RAM")
    assert len(machine.devices) == 3
    for device in machine.devices:
        assert 0.93 * gib * GIB <= (device.total_bytes or 0) <= gib * GIB
        assert device_bandwidth(device, RULES) == pytest.approx(gbs, rel=0.01)
    assert any("assumed" in note for note in machine.notes)


@pytest.mark.parametrize("text", ["RTX 4070 16GB", "RTX 4090 64GB", "RTX 3080 32GB", "H100 512GB", "L40S 128GB"])
def test_a_size_that_no_board_can_have_may_be_host_memory(text: str) -> None:
    with pytest.raises(AdvisorError, match="GB RAM` if host memory is meant"):
        parse(text)


def test_the_memory_of_all_cards_together() -> None:
    machine = parse("2x RTX 3090 48GB")
    assert [d.total_bytes for d in machine.devices] == [d.total_bytes for d in parse("2x RTX 3090").devices]
    assert any("together" in note for note in machine.notes)


def test_an_unknown_name_stays_unknown() -> None:
    with pytest.raises(AdvisorError, match="unknown accelerator"):
        parse("FROB 9000 48GB")


@pytest.mark.parametrize(
    ("text", "cores", "gbs"),
    [  # support.apple.com/117737 and 121554: memory and bandwidth by GPU cores
        ("M3 Max 36GB", 30, 300),
        ("M3 Max 96GB", 30, 300),
        ("M3 Max 48GB", 40, 400),
        ("MacBook Pro M3 Max 128GB", 40, 400),
        ("M3 Max 14-core CPU 30-core GPU 36GB", 30, 300),
        ("M3 Max 64GB, 30-core GPU", 30, 300),
        ("M4 Max 36GB", 32, 410),
        ("M4 Max 36GB, 32-core GPU", 32, 410),
        ("M4 Max 64GB, 16-core CPU, 40-core GPU", 40, 546),
        ("M2 Ultra 192GB, 60-core GPU", 60, 800),
        ("M1 Max 24-core GPU 64GB", 24, 400),
    ],
)
def test_a_chip_by_its_gpu_cores_and_its_memory(text: str, cores: int, gbs: float) -> None:
    machine = parse(text)
    (device,) = machine.devices
    assert device.gpu_cores == cores
    assert device_bandwidth(device, RULES) == gbs
    assert machine.cpu.physical_cores in (None, 14, 16)


def test_fewer_gpu_cores_multiply_less() -> None:
    (most,), (fewer,) = (parse(f"M2 Ultra 192GB, {n}-core GPU").devices for n in (76, 60))
    rates = [peak_tflops(d, RULES, 16) for d in (most, fewer)]
    assert rates[0] is not None
    assert rates[1] == pytest.approx(rates[0] * 60 / 76)


def test_gpu_cores_that_a_chip_is_not_sold_with() -> None:
    with pytest.raises(BadInput, match="24 or 32 GPU cores, 31"):
        parse("M1 Max 64GB, 31-core GPU")


def test_lanes_of_pcie_are_read() -> None:
    (device,) = parse("RTX 4090, PCIe 3.0 x8").devices
    assert (device.pcie_generation, device.pcie_width) == (3, 8)
