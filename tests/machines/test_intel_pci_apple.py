"""Intel, Apple and cards that nothing drives."""

from __future__ import annotations

from pathlib import Path

import pytest
from machine_recordings import load, readers, replay

from advisor.machines.apple import default_working_set
from advisor.machines.probe import probe_machine
from advisor.units import GIB, MIB


def test_intel(tmp_path: Path) -> None:
    m = replay("intel-mixed", tmp_path)
    by_bus = {d.pci_bus: d for d in m.devices}
    assert by_bus["0000:03:00.0"].total_bytes == 0x7F0000000
    assert by_bus["0000:29:00.0"].total_bytes == 137438953472
    assert by_bus["0000:2a:00.0"].total_bytes == 128 * GIB  # both tiles
    old = by_bus["0000:2b:00.0"]
    assert (old.total_bytes, old.unified, old.driver_missing) == (None, False, False)
    assert by_bus["0000:00:02.0"].unified
    assert all(d.free_bytes is None for d in m.devices)  # neither driver tells users
    gaudi = by_bus["0000:4d:00.0"]
    assert (gaudi.vendor, gaudi.driver_missing) == ("habana", False)
    assert set(m.drivers) == {"xe", "i915"}
    assert m.npu == "Intel"


def test_cards_without_a_driver(tmp_path: Path) -> None:
    m = replay("no-driver", tmp_path)
    assert [(d.pci_id, d.driver_missing) for d in m.devices] == [
        ("10de:2684", True),
        ("10de:1b38", True),
        ("1002:744c", True),
    ]  # the virtual display and the card's audio function are none
    assert "driver missing" in m.devices[0].notes[0]
    assert "nouveau" in m.devices[1].notes[0]
    assert "vfio-pci" in m.devices[2].notes[0]
    assert m.devices[0].pci_subsystem == "1043:889a"
    assert m.usable_devices == ()


def test_container_without_gpu_is_hidden_not_missing(tmp_path: Path) -> None:
    m = replay("container-without-gpu", tmp_path)
    (d,) = m.devices
    assert (d.driver_missing, d.visible) == (False, False)
    assert "container" in d.notes[0]


def test_apple_property_wins(tmp_path: Path) -> None:
    recording = load("apple-m3max") | {"metal": 51539607552}
    (d,) = probe_machine(tmp_path, {}, readers=readers(recording)).devices
    assert (d.total_bytes, d.total_basis) == (51539607552, "reported")


def test_apple_stock_fraction_is_an_assumption(tmp_path: Path) -> None:
    m = replay("apple-m3max", tmp_path)
    (d,) = m.devices
    assert (m.os, m.arch, d.name, d.gpu_cores, d.unified) == ("macos", "arm64", "Apple M3 Max", 40, True)
    assert (d.total_bytes, d.total_basis) == (48 * GIB, "assumed")
    assert m.cpu.flags == ("asimd", "asimddp", "i8mm", "bf16")
    assert (m.cpu.physical_cores, m.cpu.sockets) == (16, 1)


def test_apple_wired_limit(tmp_path: Path) -> None:
    recording = load("apple-m3max")
    key = "sysctl machdep.cpu.brand_string"
    recording["commands"][key] = recording["commands"][key].replace("wired_limit_mb: 0", "wired_limit_mb: 57344")
    (d,) = probe_machine(tmp_path, {}, readers=readers(recording)).devices
    assert (d.total_bytes, d.total_basis) == (57344 * MIB, "reported")


@pytest.mark.parametrize(
    "answer", [None, "not json", "[]", '{"SPDisplaysDataType": [3]}', '{"SPDisplaysDataType": null}']
)
def test_apple_without_a_core_count(tmp_path: Path, answer: str | None) -> None:
    recording = load("apple-m3max")
    recording["commands"]["system_profiler SPDisplaysDataType"] = answer
    (d,) = probe_machine(tmp_path, {}, readers=readers(recording)).devices
    assert d.gpu_cores is None


def test_intel_mac(tmp_path: Path) -> None:
    m = replay("apple-intel", tmp_path)
    assert m.devices == ()
    assert m.cpu.vendor == "GenuineIntel"
    assert m.cpu.flags == ("avx", "avx2", "fma", "f16c", "sse4_2")
    assert any("Intel Mac" in n for n in m.notes)


@pytest.mark.parametrize(
    ("ram_gib", "measured_gib"),
    # recommendedMaxWorkingSetSize as machines reported it: the stock fraction must not promise more than that
    [(16, 10.67), (16, 11.84), (24, 16.0), (24, 17.76), (32, 21.33), (128, 107.52)],
)
def test_stock_fraction_stays_below_what_was_measured(ram_gib: int, measured_gib: float) -> None:
    share = default_working_set(ram_gib * GIB) / GIB
    assert share <= measured_gib * 1.01
    assert share >= measured_gib * 0.88
