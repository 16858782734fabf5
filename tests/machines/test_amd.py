"""AMD traps: APU memory, order of the runtime, marketing names, partitions, and an amdsmi that misbehaves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from machine_recordings import replay

from advisor.machines import amd
from advisor.units import GIB, MIB


def test_discrete_cards(tmp_path: Path) -> None:
    m = replay("amd-7900xtx", tmp_path)
    first, second = m.devices  # the KFD nodes of the CPU and of another vendor are no devices
    assert (first.pci_bus, first.gfx, first.uuid) == ("0000:03:00.0", "gfx1100", "GPU-1122334455667788")
    assert first.total_bytes == 25753026560  # VRAM only: GTT is host memory here
    assert first.free_bytes == 25753026560 - 500000000
    assert not first.unified
    assert (first.power_limit_watts, first.power_default_watts) == (291.0, 339.0)
    assert (first.pcie_generation, first.pcie_width) == (4, 16)
    assert second.total_bytes == 21458059264
    assert m.drivers == {"amdgpu": "6.12.12", "rocm": "7.2.0"}


def test_one_pci_id_two_cards_by_revision(tmp_path: Path) -> None:
    m = replay("amd-9070", tmp_path)
    assert [d.name for d in m.devices] == ["AMD Radeon RX 9070 XT", "AMD Radeon RX 9070"]
    assert m.devices[0].gfx == "gfx1201"  # from the IP discovery table
    assert m.devices[1].gfx is None
    assert any("kfd" in n for n in m.notes)


def test_strix_halo_counts_gtt(tmp_path: Path) -> None:
    m = replay("amd-strix-halo", tmp_path)
    (d,) = m.devices
    assert d.unified
    assert d.gfx == "gfx1151"
    assert d.total_bytes == 512 * MIB + 62200000000
    assert d.free_bytes == 412 * MIB + 60000000000
    assert d.name == "AMD Radeon 8060S"  # no table names it, the processor does
    assert m.npu == "Ryzen AI"
    assert any("ttm.pages_limit" in n for n in d.notes)


def test_dies_and_partitions(tmp_path: Path) -> None:
    m = replay("amd-mi250-mi300-cpx", tmp_path)
    assert [d.gfx for d in m.devices] == ["gfx90a", "gfx90a", "gfx942", "gfx942"]
    assert [d.total_bytes for d in m.devices[2:]] == [24 * GIB] * 2  # a partition, not the card's 192 GB
    assert [d.pci_bus for d in m.devices[:2]] == ["0000:29:00.0", "0000:2c:00.0"]
    assert any("partition" in n for n in m.notes)


@pytest.mark.parametrize(
    ("env", "seen"),
    [
        ({}, [True, True]),
        ({"ROCR_VISIBLE_DEVICES": "1"}, [False, True]),
        ({"HIP_VISIBLE_DEVICES": "0"}, [True, False]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, [False, True]),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, [True, False]),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, [False, True]),  # HIP counts what ROCR left
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}, [False, False]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-99aabb"}, [False, True]),
        ({"HIP_VISIBLE_DEVICES": ""}, [False, False]),
    ],
)
def test_visibility(tmp_path: Path, env: dict[str, str], seen: list[bool]) -> None:
    assert [d.visible for d in replay("amd-7900xtx", tmp_path, env).devices] == seen


def test_override_is_reported_beside_the_hardware(tmp_path: Path) -> None:
    d = replay("amd-7900xtx", tmp_path, {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}).devices[0]
    assert (d.gfx, d.gfx_override) == ("gfx1100", "gfx1030")
    assert replay("amd-7900xtx", tmp_path, {"HSA_OVERRIDE_GFX_VERSION": "rubbish"}).devices[0].gfx_override is None


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (110000, "gfx1100"),
        (90010, "gfx90a"),
        (90402, "gfx942"),
        (110501, "gfx1151"),
        (100300, "gfx1030"),
        (90006, "gfx906"),
    ],
)
def test_gfx_names(target: int, name: str) -> None:
    assert amd.gfx_name(target) == name


class Smi:
    """An amdsmi as it behaves with version skew: chatty, and able to raise anywhere."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails

    def _say(self, name: str) -> None:
        print("amdsmi says hello")
        if name == self.fails:
            raise KeyError(name)

    def amdsmi_init(self) -> None:
        self._say("init")

    def amdsmi_shut_down(self) -> None:
        self._say("shut_down")

    def amdsmi_get_processor_handles(self) -> list[int]:
        self._say("handles")
        return [3, 6]

    def amdsmi_get_gpu_asic_info(self, handle: int) -> dict[str, str]:
        self._say("asic")
        return {"market_name": "AMD Radeon RX 7900 XTX" if handle == 3 else "N/A"}

    def amdsmi_get_gpu_device_bdf(self, handle: int) -> str:
        return f"0000:0{handle}:00.0"


def test_amdsmi_adds_names_and_prints_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    m = replay("amd-7900xtx", tmp_path, amdsmi=Smi())
    assert [d.name for d in m.devices] == ["AMD Radeon RX 7900 XTX", "AMD GPU [1002:744c]"]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("fails", ["init", "handles", "asic", "shut_down"])
def test_amdsmi_may_fail_anywhere(tmp_path: Path, fails: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(replay("amd-7900xtx", tmp_path, amdsmi=Smi(fails)).devices) == 2
    assert capsys.readouterr().out == ""


def rocm(root: Path) -> None:
    """ROCm's management library, as far as the probe looks at it."""
    (root / "opt/rocm-7.2/lib").mkdir(parents=True)
    (root / "opt/rocm-7.2/lib/libamd_smi.so.26").write_text("")


@pytest.fixture
def bad_amdsmi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An amdsmi package that does on import what the real one does where its library is missing."""
    package = tmp_path / "site/amdsmi"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("print('Unable to load libamd_smi.so')\n{}['libamd_smi.so']\n")
    monkeypatch.delitem(sys.modules, "amdsmi", raising=False)
    monkeypatch.syspath_prepend(tmp_path / "site")


@pytest.mark.usefixtures("bad_amdsmi")
def test_amdsmi_that_does_not_load_is_quiet(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyError):
        import amdsmi  # noqa: F401
    capfd.readouterr()
    assert amd.load_amdsmi(tmp_path) is None
    rocm(tmp_path)
    assert amd.load_amdsmi(tmp_path) is None  # its import prints and raises KeyError
    assert capfd.readouterr().out == ""


def test_note_where_amdsmi_would_say_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where a card is without a name and ROCm is there: elsewhere amdsmi adds nothing."""
    hint = "pip install '/path/to/checkout[amd]'"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    bare = replay("amd-7900xtx", tmp_path / "a")
    assert "AMD GPU [1002:744c]" in [d.name for d in bare.devices]
    assert not [n for n in bare.notes if "amdsmi" in n]
    (tmp_path / "b").mkdir()
    rocm(tmp_path / "b")
    with_library = replay("amd-7900xtx", tmp_path / "b")
    assert [n for n in with_library.notes if hint in n]
    assert with_library.devices == bare.devices
    assert not [n for n in replay("amd-7900xtx", tmp_path / "b", amdsmi=Smi()).notes if hint in n]
    rocm(tmp_path / "c")
    named = replay("amd-strix-halo", tmp_path / "c")
    assert not any(d.name.startswith("AMD GPU [") for d in named.devices)
    assert not [n for n in named.notes if "amdsmi" in n]


@pytest.mark.usefixtures("bad_amdsmi")
def test_note_where_amdsmi_is_there_and_does_not_load(tmp_path: Path) -> None:
    rocm(tmp_path)
    notes = replay("amd-7900xtx", tmp_path).notes
    assert [n for n in notes if "amdsmi does not load" in n]
    assert not [n for n in notes if "pip install" in n]
