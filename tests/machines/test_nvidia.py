"""NVML traps, replayed through the real probe. Fakes raise the real binding's error classes."""

from __future__ import annotations

from pathlib import Path

import pynvml
import pytest
from machine_recordings import RecordedNvml, load, replay

from advisor.machines import nvidia
from advisor.units import GIB, MIB


def test_two_cards_with_all_fields(tmp_path: Path) -> None:
    m = replay("nvidia-rtx4090x2", tmp_path)
    first, second = m.devices
    assert (first.pci_id, first.pci_subsystem, first.pci_bus) == ("10de:2684", "1043:889a", "0000:01:00.0")
    assert first.total_bytes == 25757220864 - 456261632  # what the driver keeps for itself is no budget
    assert first.free_bytes == 25000000000
    assert first.compute_capability == "8.9"
    assert (first.power_limit_watts, first.power_default_watts) == (350.0, 450.0)
    assert first.bandwidth_gbs == pytest.approx(1008, rel=0.001)  # data sheet of the RTX 4090
    assert (first.processes, second.processes) == (1, 0)
    assert (first.pcie_generation, second.pcie_width) == (4, 8)
    assert m.drivers == {"nvidia": "580.95.05", "cuda": "13.0"}
    assert m.interconnect == "pcie"
    assert m.memory.total_bytes == 65734440 * 1024


def test_a_refused_field_costs_only_itself(tmp_path: Path) -> None:
    m = replay("nvidia-mute", tmp_path)
    assert [d.name for d in m.devices] == ["Tesla P40", "NVIDIA Graphics Device"]
    assert m.devices[0].total_bytes == 24152899584  # old drivers only have the first version of the call
    assert m.devices[0].compute_capability is None
    assert m.devices[0].power_limit_watts is None
    assert m.devices[1].pci_id == "10de:233f"
    assert m.drivers == {}
    assert any("device 1" in n for n in m.notes)


def test_gb10_takes_meminfo_not_nvml(tmp_path: Path) -> None:
    d = replay("nvidia-gb10", tmp_path).devices[0]
    assert d.unified
    assert d.total_bytes == 127600748 * 1024
    assert d.total_bytes / GIB == pytest.approx(121.7, abs=0.05)
    assert d.free_bytes == 118000000 * 1024  # MemAvailable: MemFree leaves out the page cache
    assert d.pci_bus == "000f:01:00.0"


def test_gb10_that_reports_wrong_numbers_is_still_unified(tmp_path: Path) -> None:
    recording = load("nvidia-gb10")["nvml"]
    wrong = {"total": 8 * GIB, "reserved": 0, "free": 8 * GIB, "used": 0}
    recording["devices"][0] |= {"memory_v2": wrong, "memory_v1": wrong}
    memory = replay("nvidia-gb10", tmp_path).memory
    found = nvidia.probe_nvidia(RecordedNvml(recording), tmp_path, memory)
    assert found.devices[0].total_bytes == memory.total_bytes


def test_unknown_integrated_chip_is_told_by_addressing_mode(tmp_path: Path) -> None:
    recording = load("nvidia-gb10")["nvml"]
    recording["devices"][0]["name"] = "NVIDIA N1X"
    memory = replay("nvidia-gb10", tmp_path).memory
    assert nvidia.probe_nvidia(RecordedNvml(recording), tmp_path, memory).devices[0].unified


def test_jetson_is_named_by_the_device_tree(tmp_path: Path) -> None:
    d = replay("nvidia-orin", tmp_path).devices[0]
    assert d.name == "NVIDIA Jetson AGX Orin Developer Kit"
    assert d.unified
    assert d.total_bytes == 64334660 * 1024


def test_grace_hopper_has_memory_of_its_own(tmp_path: Path) -> None:
    d = replay("nvidia-gh200", tmp_path).devices[0]
    assert not d.unified
    assert d.total_bytes is not None
    assert 94 * GIB < d.total_bytes < 96 * GIB  # not the 480 GB of its name


def test_what_the_driver_keeps_is_no_memory_of_a_card(tmp_path: Path) -> None:
    """An H100 as it was read; CUDA called the same bytes the card's memory."""
    d = replay("nvidia-h100-vm", tmp_path).devices[0]
    assert d.total_bytes == d.free_bytes == 85_017_493_504
    assert d.bandwidth_gbs == pytest.approx(3352, abs=1)
    assert (d.compute_capability, d.pcie_generation, d.processes, d.notes) == ("9.0", 5, 0, ())


def test_mig_in_a_container_is_asked_by_uuid(tmp_path: Path) -> None:
    m = replay("nvidia-mig-container", tmp_path)
    (d,) = m.devices
    assert d.mig_profile == "3g.40gb"
    assert d.total_bytes == 42412802048
    assert d.compute_capability == "9.0"
    assert m.container == "docker"
    assert m.usable_devices == (d,)


def test_mig_in_a_container_where_even_the_mode_is_refused(tmp_path: Path) -> None:
    recording = load("nvidia-mig-container")["nvml"]
    recording["devices"][0]["mig_mode"] = "!NO_PERMISSION"
    memory = replay("nvidia-mig-container", tmp_path).memory
    uuid = "MIG-5f3f9d3b-0000-5555-9999-000000000001"
    found = nvidia.probe_nvidia(RecordedNvml(recording), tmp_path, memory, (uuid,))
    assert [d.uuid for d in found.devices] == [uuid]


def test_mig_on_the_host_shows_slices_and_one_is_visible(tmp_path: Path) -> None:
    m = replay("nvidia-mig-host", tmp_path)
    assert [d.mig_profile for d in m.devices] == ["3g.40gb", "3g"]
    assert [d.total_bytes for d in m.devices] == [40192 * MIB] * 2
    assert [d.visible for d in m.devices] == [True, False]
    assert all(d.mig_enabled for d in m.devices)
    assert any("one slice" in n for n in m.notes)


def test_mig_slice_is_chosen_by_environment(tmp_path: Path) -> None:
    m = replay("nvidia-mig-host", tmp_path, {"CUDA_VISIBLE_DEVICES": "MIG-bbbb"})
    assert [d.visible for d in m.devices] == [False, True]


def test_nvlink(tmp_path: Path) -> None:
    m = replay("nvidia-nvlink", tmp_path)
    assert [d.nvlink_active for d in m.devices] == [12, 12]
    assert m.interconnect == "nvlink"


def test_wsl_and_vgpu(tmp_path: Path) -> None:
    m = replay("nvidia-wsl-vgpu", tmp_path)
    assert m.wsl is True
    (d,) = m.devices
    assert d.free_bytes is None  # NVML_VALUE_NOT_AVAILABLE is no number of bytes
    assert d.processes is None
    assert any("vGPU" in n for n in d.notes)


def test_library_mismatch_is_not_no_gpu(tmp_path: Path) -> None:
    m = replay("nvidia-mismatch", tmp_path)
    (d,) = m.devices
    assert d.pci_id == "10de:2204"
    assert d.driver_missing
    assert m.usable_devices == ()
    assert any("reboot" in n for n in d.notes)
    assert any("reboot" in n for n in m.notes)


def test_without_a_trace_of_nvidia_the_module_is_not_loaded(tmp_path: Path) -> None:
    assert nvidia.load_nvml(tmp_path, {}, "linux") is None
    assert nvidia.load_nvml(tmp_path, {}, "darwin") is None


@pytest.mark.parametrize(
    "trace", ["dev/nvidiactl", "proc/driver/nvidia/version", "usr/lib/wsl/lib/libnvidia-ml.so.1", "dev/nvhost-gpu"]
)
def test_any_trace_of_nvidia_loads_the_module(tmp_path: Path, trace: str) -> None:
    (tmp_path / trace).parent.mkdir(parents=True)
    (tmp_path / trace).write_text("no library")  # preloading a broken WSL library must not raise
    assert nvidia.load_nvml(tmp_path, {}, "linux") is pynvml


def test_library_on_the_search_path_counts(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("")
    assert nvidia.load_nvml(tmp_path / "root", {"LD_LIBRARY_PATH": f"/nowhere:{tmp_path}"}, "linux") is pynvml
