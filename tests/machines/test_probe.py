"""The assembled probe: robust against broken sources, frugal on machines without a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_recordings import FIXTURES, load, readers, replay, write_tree
from msgspec.structs import replace
from programs import ELSEWHERE

from advisor.machines.probe import probe_machine, recorded_readers
from advisor.machines.types import Machine

FILES = sorted({f for p in FIXTURES.glob("*.yaml") for f in load(p.stem).get("files", {})})


class Broken:
    """An NVML whose every function fails in a way nobody planned for."""

    def __getattr__(self, name: str) -> Any:
        def fail(*arguments: object) -> object:
            raise OSError("broken")

        return fail


def test_an_empty_tree_is_a_machine_without_answers(tmp_path: Path) -> None:
    m = probe_machine(tmp_path)
    assert m.devices == ()
    assert m.memory.total_bytes is None
    assert m.cpu.model is None
    assert m.cpu.usable_cores is None
    assert m.engines == ()


def test_broken_nvml_is_a_note(tmp_path: Path) -> None:
    recording = load("amd-7900xtx")
    write_tree(tmp_path, recording["files"])
    m = probe_machine(tmp_path, {}, readers=replace(readers(recording), nvml=Broken()))
    assert len(m.devices) == 2
    assert any("NVML" in n for n in m.notes)


def test_a_broken_source_does_not_hide_the_others(tmp_path: Path) -> None:
    recording = load("amd-strix-halo")
    write_tree(tmp_path, recording["files"])

    def metal() -> int | None:
        raise RuntimeError("boom")

    def run(argv: object) -> str | None:
        raise RuntimeError("boom")

    both = replace(recorded_readers("darwin", "arm64"), run=run, metal=metal)
    m = probe_machine(tmp_path, {}, readers=both)
    assert m.os == "macos"
    assert sum("boom" in n for n in m.notes) >= 2


@settings(max_examples=40)
@given(
    content=st.dictionaries(
        st.sampled_from(FILES), st.binary(max_size=40) | st.sampled_from([b"0x10de", b"-1", b"max"])
    )
)
def test_rubbish_in_system_files_never_raises(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, bytes]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    for path, data in content.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    m = probe_machine(root)
    assert isinstance(m, Machine)
    assert not any("could not be read" in n for n in m.notes)
    json.dumps(m.to_dict())


def test_indices_are_unique_across_vendors(tmp_path: Path) -> None:
    recording = load("nvidia-rtx4090x2")
    write_tree(tmp_path, recording["files"] | load("intel-mixed")["files"] | load("no-driver")["files"])
    m = probe_machine(tmp_path, {}, readers=readers(recording))
    assert [d.index for d in m.devices] == list(range(len(m.devices)))
    assert [d.pci_bus for d in m.devices].count("0000:01:00.0") == 1  # NVML's card is not listed again from the bus


def test_unknown_stays_unknown_in_json(tmp_path: Path) -> None:
    d = replay("nvidia-mute", tmp_path).to_dict()["devices"][0]
    assert d["compute_capability"] is None
    assert d["power_limit_watts"] is None


@pytest.mark.skipif(
    sys.platform != "linux" or Path("/dev/nvidiactl").exists(),
    reason=f"{ELSEWHERE}Linux without NVIDIA's driver is expected",
)
def test_without_a_gpu_nothing_heavy_is_loaded() -> None:
    code = (
        "import sys, json, msgspec; before = set(sys.modules);"  # on Python 3.10 msgspec itself brings subprocess
        "from advisor.machines.probe import probe_machine; from pathlib import Path; probe_machine(Path('/'), {});"
        "heavy = {'pynvml', 'psutil', 'yaml', 'cpuinfo', 'amdsmi', 'subprocess'};"
        "print(json.dumps(sorted(heavy & (set(sys.modules) - before))))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(out.stdout) == []  # and nothing else on standard output
