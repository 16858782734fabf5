"""Snapshots as a fleet, and probes in place of what a scheduler knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from inventories import RECORDED, names_of

from advisor.catalog import catalog
from advisor.errors import BadInput
from advisor.fleet.inventory.live import ProbeAnswer, ask_program, read_answer, srun_words, use_probes
from advisor.fleet.inventory.pools import make_fleet
from advisor.fleet.inventory.source import parse_inventory, read_fleet, read_inventory
from advisor.fleet.types import Inventory, describe_pool
from advisor.machines.snapshot import save_snapshot
from advisor.machines.types import Cpu, Device, HostMemory, Machine

MIB = 2**20


def gpu(index: int, name: str, mib: int, **more: Any) -> Device:
    """A card as NVML describes it."""
    said = {"vendor": "nvidia", "total_bytes": mib * MIB, "total_basis": "reported", "uuid": f"GPU-{index}", **more}
    return Device(index=index, name=name, **said)


def machine(*devices: Device, **more: Any) -> Machine:
    memory = HostMemory(total_bytes=1081000 * MIB, available_bytes=5 * MIB, limit_bytes=1024 * MIB)
    return Machine(os="linux", arch="x86_64", cpu=Cpu(usable_cores=1.0), memory=memory, devices=devices, **more)


def h100(count: int, mib: int = 95830, **more: Any) -> tuple[Device, ...]:
    return tuple(gpu(i, "NVIDIA H100 NVL", mib, **more) for i in range(count))


def test_a_folder_of_snapshots_is_a_fleet(tmp_path: Path) -> None:
    for k in (1, 2, 10):
        save_snapshot(machine(*h100(8, 95830 + k, processes=0)), tmp_path / f"n{k}.json")
    save_snapshot(
        machine(*h100(3, processes=0), *(gpu(3, "NVIDIA H100 NVL", 95830, processes=2),)), tmp_path / "busy.json"
    )
    save_snapshot(machine(*h100(2)), tmp_path / "silent.json")
    save_snapshot(machine(*h100(2, driver_missing=True)), tmp_path / "undriven.json")
    save_snapshot(machine(), tmp_path / "cpu.json")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "notes.txt").write_text("no snapshot")
    fleet = read_fleet(str(tmp_path), catalog())
    seen = {p.node_names: (p.devices, p.devices_free, p.free_indices) for p in fleet.pools}
    assert seen == {
        ("busy",): (4, 3, (0, 1, 2)),
        ("cpu",): (0, 0, None),
        ("n1", "n2", "n10"): (8, 8, None),
        ("silent",): (2, None, None),
    }
    assert {s.node for s in fleet.set_aside} == {"broken", "undriven"}
    assert len(names_of(fleet)) == 8
    pool = next(p for p in fleet.pools if p.devices == 8)
    assert pool.machine.devices[0].accelerator == "h100-nvl"
    assert pool.machine.devices[0].total_bytes == (95830 + 1) * MIB  # the least of the three


def test_one_snapshot_is_a_fleet_of_one(tmp_path: Path) -> None:
    save_snapshot(machine(*h100(2, processes=0)), tmp_path / "mine.json")
    assert read_fleet(str(tmp_path / "mine.json"), catalog()).pools[0].node_names == ("mine",)


def test_slices_of_a_probed_card_are_counted_though_a_process_sees_one(tmp_path: Path) -> None:
    slices = [
        gpu(i, "NVIDIA A100-SXM4-40GB", 19968, mig_profile="3g.20gb", mig_enabled=True, visible=i == 0, processes=0)
        for i in range(4)
    ]
    save_snapshot(machine(*slices), tmp_path / "mig.json")
    (pool,) = read_fleet(str(tmp_path), catalog()).pools
    assert (pool.devices, pool.devices_free) == (4, 4)
    assert len(pool.machine.usable_devices) == 1


def slurm() -> Inventory:
    return read_inventory(str(RECORDED / "slurm-22.05-detail-jobs.txt"), catalog())


def probed(**found: ProbeAnswer) -> Inventory:
    return use_probes(slurm(), found, catalog())


def test_a_probe_decides_what_the_scheduler_leaves_open() -> None:
    before = next(p for p in make_fleet(slurm()).pools if p.node_names == ("gpu01",))
    assert describe_pool(before).needs_probe
    inventory = probed(gpu01=machine(gpu(0, "NVIDIA H100 NVL", 95830)))  # a job with one card sees one card
    pool = next(p for p in make_fleet(inventory).pools if p.node_names == ("gpu01",))
    assert not describe_pool(pool).needs_probe
    assert {d.accelerator for d in pool.machine.devices} == {"h100-nvl"}
    assert {d.total_bytes for d in pool.machine.devices} == {95830 * MIB}
    assert (pool.devices, pool.devices_free, pool.free_indices) == (8, 4, (4, 5, 6, 7))
    assert not any("--probe" in n for n in pool.notes)


def test_the_limits_of_the_probing_job_are_not_those_of_the_node() -> None:
    inventory = probed(gpu01=machine(gpu(0, "NVIDIA H100 NVL", 95830)))
    part = next(n for n in inventory.nodes if n.name == "gpu01").parts[0]
    assert part.machine.memory.usable_bytes == 1031000 * MIB
    assert part.machine.cpu.usable_cores is None


def test_kinds_of_one_node_are_told_apart_by_their_names() -> None:
    seen = machine(gpu(0, "NVIDIA L40S", 46068), gpu(1, "NVIDIA RTX A6000", 49140))
    node = next(n for n in probed(gpu03=seen).nodes if n.name == "gpu03")
    assert [[d.accelerator for d in p.machine.devices] for p in node.parts] == [["l40s"] * 2, ["rtx-a6000"] * 2]
    assert [p.machine.devices[0].total_bytes for p in node.parts] == [46068 * MIB, 49140 * MIB]
    assert [d.index for d in node.parts[1].machine.devices] == [2, 3]


def test_the_driver_is_believed_against_the_scheduler() -> None:
    node = next(n for n in probed(gpu02=machine(gpu(0, "NVIDIA L4", 23034))).nodes if n.name == "gpu02")
    assert {d.accelerator for d in node.parts[0].machine.devices} == {"l4"}
    assert any("the probe found" in n for n in node.notes)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("srun failed: Unable to allocate resources", "could not be probed: srun failed"),
        (machine(), "saw no device"),
        (machine(*h100(2, driver_missing=True)), "saw no device"),
        (machine(gpu(0, "NVIDIA L4", 23034), gpu(1, "Tesla T4", 15360)), "which of them"),
    ],
)
def test_a_probe_that_tells_nothing_leaves_what_was_known(answer: ProbeAnswer, said: str) -> None:
    node = next(n for n in probed(gpu01=answer).nodes if n.name == "gpu01")
    before = next(n for n in slurm().nodes if n.name == "gpu01")
    assert any(said in n for n in node.notes), node.notes
    assert [d.total_bytes for d in node.parts[0].machine.devices] == [None] * 8
    assert node.parts[0].devices_free == before.parts[0].devices_free


def test_the_job_that_probes_asks_for_a_free_card_of_each_kind() -> None:
    nodes = {n.name: n for n in slurm().nodes}
    words = srun_words(nodes["gpu03"])
    assert "--gres=gpu:l40s:1,gpu:rtx_a6000:1" in words
    assert "--nodelist=gpu03" in words
    assert any(w.startswith("--mem=") for w in words)  # without it, srun waits for a whole node
    assert any(w.startswith("--immediate=") for w in words)
    assert words[-3:] == ["advise", "probe", "--json"]
    assert not any(w.startswith("--gres") for w in srun_words(nodes["gpu02"]))  # all are taken
    assert "--partition=cpu" in srun_words(nodes["cpu01"])


def test_answers_with_noise_before_them_and_answers_that_are_none() -> None:
    good = json.dumps(machine(*h100(1)).to_dict()).encode()
    found = read_answer(b"prolog: loading modules\n" + good)
    assert isinstance(found, Machine)
    assert found.devices[0].name == "NVIDIA H100 NVL"
    for bad in (b"", b"advise: command not found", b'{"schema": 9, "devices": []}', b"{" * 1000):
        assert isinstance(read_answer(bad), str)


def test_probes_of_ray_replace_what_ray_says(tmp_path: Path) -> None:
    nodes = [{"NodeID": "a", "Alive": True, "NodeName": "n1",
              "Resources": {"GPU": 8.0, "accelerator_type:H100": 1.0, "memory": 2.0**40}}]  # fmt: skip
    inventory = parse_inventory(json.dumps(nodes).encode(), "ray", catalog())
    whole = msgspec.structs.replace(machine(*h100(8)), memory=HostMemory(total_bytes=2**41))
    (node,) = use_probes(inventory, {"n1": whole}, catalog()).nodes
    assert node.parts[0].machine.memory.usable_bytes == 2**41
    assert {d.accelerator for d in node.parts[0].machine.devices} == {"h100-nvl"}


def test_programs_are_bounded_in_time_and_output() -> None:
    import sys

    assert ask_program([sys.executable, "-c", "print('x')"]) == b"x\n"
    with pytest.raises(BadInput, match="did not answer within"):
        ask_program([sys.executable, "-c", "import time; time.sleep(600)"], seconds=0.5)
    with pytest.raises(BadInput, match="printed more"):
        ask_program([sys.executable, "-c", "print('x' * 10_000_000)"], limit=2**20)
    with pytest.raises(BadInput, match="failed: last words"):
        ask_program([sys.executable, "-c", "import sys; sys.exit('first\\nlast words')"])
    with pytest.raises(BadInput, match="not on this machine"):
        ask_program(["no-such-program-at-all"])
