"""Snapshots come back identical; anything else is one clear line."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_recordings import FIXTURES, replay

from advisor.errors import BadFile
from advisor.machines import snapshot
from advisor.machines.types import Cpu, Device, HostMemory, Machine

SIZES = st.none() | st.integers(0, 2**50)
DEVICES = st.builds(
    Device,
    index=st.integers(0, 9),
    name=st.text(max_size=30),
    vendor=st.sampled_from(["nvidia", "amd", "apple"]),
    total_bytes=SIZES,
    free_bytes=SIZES,
    bandwidth_gbs=st.none() | st.floats(0, 1e5),
    visible=st.booleans(),
    notes=st.lists(st.text(max_size=20), max_size=2).map(tuple),
)
MACHINES = st.builds(
    Machine,
    devices=st.lists(DEVICES, max_size=4).map(tuple),
    memory=st.builds(HostMemory, total_bytes=SIZES, limit_bytes=SIZES),
    cpu=st.builds(Cpu, model=st.none() | st.text(max_size=30), flags=st.none() | st.just(("avx2", "fma"))),
    drivers=st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3),
    nodes=st.integers(1, 64),
)


@pytest.mark.parametrize("name", sorted(p.stem for p in FIXTURES.glob("*.yaml")))
def test_recordings_round_trip(tmp_path: Path, name: str) -> None:
    machine = replay(name, tmp_path / "root")
    snapshot.save_snapshot(machine, tmp_path / "snap.json")
    assert snapshot.load_snapshot(tmp_path / "snap.json") == machine


@settings(max_examples=60)
@given(machine=MACHINES)
def test_any_machine_round_trips(tmp_path: Path, machine: Machine) -> None:
    snapshot.save_snapshot(machine, tmp_path / "snap.json", force=True)
    assert snapshot.load_snapshot(tmp_path / "snap.json") == machine


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "snap.json"
    path.write_text("mine")
    with pytest.raises(BadFile, match="exists"):
        snapshot.save_snapshot(Machine(), path)
    assert path.read_text() == "mine"
    snapshot.save_snapshot(Machine(), path, force=True)
    assert snapshot.load_snapshot(path) == Machine()


def test_it_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="cannot be written"):
        snapshot.save_snapshot(Machine(), tmp_path / "no" / "folder.json")


@pytest.mark.parametrize(
    "content",
    ["", "null", "[]", "{}", "not json", '{"schema": 2}', '{"schema": 1, "devices": 3}', '{"schema": 1, "nodes": 0}',
     '{"schema": 1, "surprise": 1}', '{"schema": 1, "memory": {"total_bytes": -5}}', "[" * 5000, "\ufeff\x00",
     '{"schema": 1, "devices": [{"index": 0, "name": "x", "vendor": "nvidia", "free_bytes": 1180591620717411303424}]}'],
)  # fmt: skip
def test_garbage_is_one_line(tmp_path: Path, content: str) -> None:
    path = tmp_path / "snap.json"
    path.write_text(content)
    with pytest.raises(BadFile) as e:
        snapshot.load_snapshot(path)
    assert "\n" not in e.value.line()
    assert str(path) in e.value.line()


@settings(max_examples=80)
@given(data=st.binary(max_size=200))
def test_bytes_never_crash(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "snap.json"
    path.write_bytes(data)
    with pytest.raises(BadFile):
        snapshot.load_snapshot(path)


@settings(max_examples=80)
@given(data=st.data())
def test_a_damaged_snapshot_is_refused_or_is_a_machine(tmp_path: Path, data: st.DataObject) -> None:
    whole = json.dumps(Machine(devices=(Device(index=0, name="x", vendor="amd", total_bytes=5),)).to_dict())
    at = data.draw(st.integers(0, len(whole) - 1))
    path = tmp_path / "snap.json"
    path.write_text(whole[:at] + data.draw(st.characters(max_codepoint=127)) + whole[at + 1 :])
    with contextlib.suppress(BadFile):  # anything else is a crash
        assert isinstance(snapshot.load_snapshot(path), Machine)


@pytest.mark.parametrize("said", ["full_attention", "8.", "", "8.9.1", "nan"])
def test_a_compute_capability_is_a_number(tmp_path: Path, said: str) -> None:
    """Found by tests/fuzz: estimates took it for one and ended with a traceback."""
    path = tmp_path / "m.json"
    good = Machine(devices=(Device(index=0, name="x", vendor="nvidia", compute_capability="8.9"),))
    snapshot.save_snapshot(good, path)
    assert snapshot.load_snapshot(path) == good
    data = json.loads(path.read_text())
    data["devices"][0]["compute_capability"] = said
    path.write_text(json.dumps(data))
    with pytest.raises(BadFile, match="compute_capability"):
        snapshot.load_snapshot(path)
