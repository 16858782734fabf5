"""Inventories of all kinds, each with what is to be read from it (tests/data/fleet)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inventories import RECORDED, agree, cases, content, names_of, search, shown

from advisor.catalog import catalog
from advisor.catalog.hardware_names import parse_hardware
from advisor.errors import AdvisorError
from advisor.fleet.inventory.pools import make_fleet
from advisor.fleet.inventory.source import parse_inventory, read_fleet
from advisor.fleet.types import Fleet, Pool

KINDS = {"kubernetes": "kubernetes", "slurm": "slurm", "ray": "ray", "own": "file"}
CASES = [(kind, case) for kind in KINDS for case in cases(kind)]
GOOD = [(kind, case) for kind, case in CASES if "error" not in case]
named = pytest.mark.parametrize(("kind", "case"), GOOD, ids=[f"{k}: {c['name']}" for k, c in GOOD])


def read(kind: str, case: dict[str, Any]) -> Fleet:
    return make_fleet(parse_inventory(content(kind, case), "the case", catalog()))


def test_there_are_enough_of_them() -> None:
    assert len(CASES) + len(list(RECORDED.iterdir())) >= 80


@named
def test_pools_are_as_expected(kind: str, case: dict[str, Any]) -> None:
    fleet = read(kind, case)
    assert fleet.kind == KINDS[kind]
    expected = case.get("expect", [])
    seen = [shown(p) for p in fleet.pools]
    assert len(seen) == len(expected), seen
    for wanted, pool in zip(expected, fleet.pools, strict=True):
        assert agree(wanted, pool), (wanted, shown(pool))
    if "groups" in case:
        assert len({p.group for p in fleet.pools}) == case["groups"]
    if "names" in case:
        assert names_of(fleet) == case["names"]


@named
def test_reasons_and_notes_are_said(kind: str, case: dict[str, Any]) -> None:
    fleet = read(kind, case)
    aside = case.get("aside", [])
    assert [s.node for s in fleet.set_aside if not s.reason.strip()] == []
    assert len(fleet.set_aside) == len(aside)
    for pattern, one in zip(aside, fleet.set_aside, strict=True):
        assert search(pattern, [one.reason]), (pattern, one)
    said = [*fleet.notes, *(n for p in fleet.pools for n in p.notes)]
    for pattern in case.get("notes", []):
        assert search(pattern, said), (pattern, said)


@named
def test_hardware_in_words_reads_back(kind: str, case: dict[str, Any]) -> None:
    """What a pool calls its hardware is what `--on` takes, and means the same devices."""
    for pool in read(kind, case).pools:
        entry = next((d.accelerator for d in pool.machine.usable_devices), None)
        if pool.devices and (entry is None or _is_new_profile(pool)):
            continue  # no word is known for it
        machine = parse_hardware(pool.machine.text or "", catalog())
        assert [d.accelerator for d in machine.devices] == [entry] * pool.devices
        assert [d.mig_profile for d in machine.devices] == [d.mig_profile for d in pool.machine.devices]


def _is_new_profile(pool: Pool) -> bool:
    """Whether it is of slices that the catalogue does not know of this card."""
    device = pool.machine.usable_devices[0]
    profiles = catalog().accelerators()[device.accelerator or ""].mig_profiles
    return device.mig_profile is not None and device.mig_profile not in profiles


@pytest.mark.parametrize("case", [c for k, c in CASES if "error" in c], ids=lambda c: c["name"])
def test_what_is_wrong_is_one_clear_line(case: dict[str, Any]) -> None:
    with pytest.raises(AdvisorError) as e:
        parse_inventory(content("own", case), "fleet.yaml", catalog())
    line = e.value.line()
    assert search(case["error"], [line]), line
    assert "fleet.yaml" in line
    assert "\n" not in line


# file -> nodes, pools as (accelerator, devices, free), names set aside
EXPECTED: dict[str, tuple[int, list[tuple[str | None, int, int | None]], list[str]]] = {
    "k8s-nodes-constructed.json": (
        17,
        [("h100-sxm", 8, None), ("h100-sxm", 7, None), ("a100-80gb-sxm", 4, None), ("l40s", 2, None),
         ("a100-80gb-sxm", 16, None), ("mi300x", 8, None)],
        ["a100-drain", "t4-shared"],
    ),
    "slurm-22.05-scontrol-oneline.txt": (3, [(None, 8, None), ("l40s", 2, 2), ("rtx-a6000", 2, 2)], ["gpu02"]),
    "slurm-22.05-scontrol-oneline-mixed-drain.txt": (
        3, [(None, 8, None), ("l40s", 2, 2), ("rtx-a6000", 2, 2)], ["gpu02"]
    ),
    "slurm-22.05-sinfo.json": (3, [(None, 8, 8), ("a100-80gb-sxm", 4, 4), ("l40s", 2, 2), ("rtx-a6000", 2, 2)], []),
    "slurm-22.05-sinfo-mixed-drain.json": (3, [(None, 8, 4), ("l40s", 2, 2), ("rtx-a6000", 2, 2)], ["gpu02"]),
    "ray-2.60-nodes-2-fake-gpu.json": (2, [(None, 8, None), ("l40s", 2, None)], []),
    "ray-2.60-nodes-local.json": (1, [(None, 0, 0)], []),
    "slurm-22.05-detail-idle.txt": (
        4, [(None, 0, 0), (None, 8, 8), ("a100-80gb-sxm", 4, 4), ("l40s", 2, 2), ("rtx-a6000", 2, 2)], []
    ),
    "slurm-22.05-detail-jobs.txt": (
        4, [(None, 0, 0), (None, 8, 4), ("a100-80gb-sxm", 4, 0), ("l40s", 2, 2), ("rtx-a6000", 2, 1)], []
    ),
    "slurm-22.05-detail-jobs-lines.txt": (
        4, [(None, 0, 0), (None, 8, 4), ("a100-80gb-sxm", 4, 0), ("l40s", 2, 2), ("rtx-a6000", 2, 1)], []
    ),
    "slurm-22.05-sinfo-jobs.json": (
        4, [(None, 0, 0), (None, 8, 4), ("a100-80gb-sxm", 4, 0), ("l40s", 2, 2), ("rtx-a6000", 2, 1)], []
    ),
    "slurm-22.05-jobs.txt": (
        4, [(None, 0, 0), (None, 8, None), ("a100-80gb-sxm", 4, 0), ("l40s", 2, None), ("rtx-a6000", 2, None)], []
    ),
    "slurm-22.05-detail-states.txt": (4, [("a100-80gb-sxm", 4, 4)], ["cpu01", "gpu01", "gpu03"]),
    "slurm-22.05-sinfo-states.json": (4, [("a100-80gb-sxm", 4, 4)], ["cpu01", "gpu01", "gpu03"]),
}  # fmt: skip


def test_every_recording_is_expected() -> None:
    assert {p.name for p in RECORDED.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_recordings(name: str) -> None:
    count, pools, aside = EXPECTED[name]
    fleet = read_fleet(str(RECORDED / name), catalog())
    seen = [shown(p) for p in fleet.pools]
    assert [(s["accelerator"], s["devices"], s["free"]) for s in seen] == pools
    assert [s.node for s in fleet.set_aside] == aside
    assert len(names_of(fleet)) == count


def test_the_free_cards_of_a_second_kind_have_their_own_places() -> None:
    """One A6000 is taken on a node whose first two cards are L40S: Slurm calls it card 2 of the node."""
    fleet = read_fleet(str(RECORDED / "slurm-22.05-detail-jobs.txt"), catalog())
    pool = next(p for p in fleet.pools if p.resource == "gpu:rtx_a6000")
    assert pool.free_indices == (1,)
    assert [d.index for d in pool.machine.devices] == [2, 3]


def test_yaml_of_kubectl_is_read_as_its_json(tmp_path: Path) -> None:
    import json

    import yaml

    source = RECORDED / "k8s-nodes-constructed.json"
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump(json.loads(source.read_text())))
    assert read_fleet(str(tmp_path / "nodes.yaml"), catalog()) == read_fleet(str(source), catalog())
