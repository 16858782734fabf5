"""Generated clusters: every node is accounted for, and no node gets a card that it was not given."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inventories import make_node, names_of

from advisor.catalog import catalog
from advisor.fleet.inventory import cards
from advisor.fleet.inventory.pools import make_fleet
from advisor.fleet.inventory.source import parse_inventory
from advisor.fleet.types import Fleet

# label -> MiB as its driver says, id in the catalogue; None where the catalogue must not know it
PRODUCTS: dict[str, tuple[int, str | None]] = {
    "NVIDIA-H100-80GB-HBM3": (81559, "h100-sxm"),
    "NVIDIA-H100-NVL": (95830, "h100-nvl"),
    "NVIDIA-H100-PCIe": (81559, "h100-pcie"),
    "NVIDIA-H200": (143771, "h200-sxm"),
    "NVIDIA-B200": (183359, "b200"),
    "NVIDIA-A100-SXM4-80GB": (81920, "a100-80gb-sxm"),
    "NVIDIA-A100-SXM4-40GB": (40960, "a100-40gb-sxm"),
    "NVIDIA-A100-80GB-PCIe": (81920, "a100-80gb-pcie"),
    "NVIDIA-A100-PCIE-40GB": (40960, "a100-40gb-pcie"),
    "NVIDIA-L40S": (46068, "l40s"),
    "NVIDIA-L40": (46068, "l40"),
    "NVIDIA-L4": (23034, "l4"),
    "NVIDIA-A10": (23028, "a10"),
    "NVIDIA-A10G": (23028, "a10g"),
    "Tesla-T4": (15360, "t4"),
    "Tesla-V100-SXM2-32GB": (32768, "v100-32gb"),
    "Tesla-V100-SXM2-16GB": (16384, "v100-16gb"),
    "NVIDIA-GeForce-RTX-3090": (24576, "rtx-3090"),
    "NVIDIA-GeForce-RTX-4090": (24564, "rtx-4090"),
    "NVIDIA-RTX-A6000": (49140, "rtx-a6000"),
    "NVIDIA-RTX-6000-Ada-Generation": (49140, "rtx-6000-ada"),
    "NVIDIA-GH200-480GB": (97871, "gh200-96gb"),
    "NVIDIA-A100X": (81920, None),
    "NVIDIA-A100-SXM-64GB": (65536, None),
    "NVIDIA-L40G": (24576, None),
    "NVIDIA-H20-3e": (143771, None),
    "GRID-A100-20C": (20480, None),
    "NVIDIA-Graphics-Device": (49140, None),
}
KINDS = sorted(PRODUCTS)


@st.composite
def gpu_nodes(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Nodes with one product each, of which some are cordoned, shared, or lack a card."""
    nodes = []
    for i in range(draw(st.integers(1, 12))):
        product = draw(st.sampled_from(KINDS))
        count = draw(st.sampled_from([1, 2, 4, 8]))
        lost = draw(st.sampled_from([0, 0, 0, 1, count]))
        labels = {
            "nvidia.com/gpu.product": product,
            "nvidia.com/gpu.memory": str(PRODUCTS[product][0]),
            "nvidia.com/gpu.count": str(count),
            "nvidia.com/gpu.replicas": draw(st.sampled_from(["1", "1", "1", "3"])),
        }
        said: dict[str, Any] = {"name": f"n{i}", "labels": labels, "resources": {"nvidia.com/gpu": str(count)}}
        said["allocatable"] = {
            "nvidia.com/gpu": str(count - lost),
            "memory": f"{1056000000 - draw(st.integers(0, 999))}Ki",
        }
        said["spec"] = {"unschedulable": draw(st.sampled_from([False, False, True]))}
        nodes.append(said)
    return nodes


def read(nodes: list[dict[str, Any]]) -> Fleet:
    body = {"kind": "List", "items": [make_node(i, n) for i, n in enumerate(nodes)]}
    return make_fleet(parse_inventory(json.dumps(body).encode(), "the nodes", catalog()))


@given(gpu_nodes())
def test_every_node_is_accounted_for_and_has_its_own_card(nodes: list[dict[str, Any]]) -> None:
    fleet = read(nodes)
    assert sorted(names_of(fleet)) == sorted(n["name"] for n in nodes)
    by_name = {n["name"]: n for n in nodes}
    for pool in fleet.pools:
        for name in pool.node_names:
            labels = by_name[name]["labels"]
            product = labels["nvidia.com/gpu.product"]
            mib, accelerator = PRODUCTS[product]
            assert {d.accelerator for d in pool.machine.devices} == {accelerator}
            assert {d.total_bytes for d in pool.machine.devices} == {mib * 2**20}
            assert pool.devices == int(by_name[name]["allocatable"]["nvidia.com/gpu"]) > 0
            assert labels["nvidia.com/gpu.replicas"] == "1"
            assert not by_name[name]["spec"]["unschedulable"]
    for one in fleet.set_aside:
        said = by_name[one.node]
        assert (
            said["spec"]["unschedulable"]
            or said["labels"]["nvidia.com/gpu.replicas"] != "1"
            or said["allocatable"]["nvidia.com/gpu"] == "0"
        )


@given(gpu_nodes(), st.randoms())
def test_the_order_of_nodes_changes_no_pool(nodes: list[dict[str, Any]], random: Any) -> None:
    other = list(nodes)
    random.shuffle(other)

    def told(fleet: Fleet) -> set[tuple[frozenset[str], int, str | None]]:
        return {(frozenset(p.node_names), p.devices, p.machine.text) for p in fleet.pools}

    assert told(read(nodes)) == told(read(other))


@given(gpu_nodes())
def test_ids_are_unique_and_say_the_card(nodes: list[dict[str, Any]]) -> None:
    fleet = read(nodes)
    ids = [p.id for p in fleet.pools]
    assert len(set(ids)) == len(ids)
    assert ids == [p.id for p in read(nodes).pools]
    for pool in fleet.pools:
        entry = pool.machine.devices[0].accelerator
        assert entry is None or pool.id.startswith(f"{entry}-{pool.devices}x")


WORDS = ["h100", "a100", "v100", "l40s", "rtx_a6000", "2080ti", "3090", "t4", "mi250x", "gh200", "tesla", "gpu", "xyz"]
# what a word may mean: the card must be one of these where one is named; None: no card may be named
MEANS = {
    "h100": set(), "a100": set(), "v100": set(), "gh200": set(), "tesla": set(), "gpu": set(), "xyz": set(),
    "l40s": {"l40s"}, "rtx_a6000": {"rtx-a6000"}, "2080ti": {"rtx-2080-ti"}, "3090": {"rtx-3090"}, "t4": {"t4"},
    "mi250x": {"mi250x"},
}  # fmt: skip


@st.composite
def slurm_nodes(draw: st.DrawFn) -> list[tuple[str, list[tuple[str, int, int]], str]]:
    """name, (type, number, taken) of each kind, state."""
    out = []
    for i in range(draw(st.integers(1, 10))):
        types = draw(st.lists(st.sampled_from(WORDS), unique=True, max_size=3))
        gres = [(t, n := draw(st.integers(1, 8)), draw(st.integers(0, n))) for t in types]
        out.append((f"n{i}", gres, draw(st.sampled_from(["IDLE", "MIXED", "IDLE+DRAIN", "DOWN*"]))))
    return out


@given(slurm_nodes())
def test_every_gpu_of_slurm_is_counted_once(nodes: list[tuple[str, list[tuple[str, int, int]], str]]) -> None:
    lines = []
    for name, gres, state in nodes:
        there = ",".join(f"gpu:{t}:{n}" for t, n, _ in gres) or "(null)"
        used = ",".join(f"gpu:{t}:{u}(IDX:N/A)" for t, _, u in gres) or "gpu:0"
        lines.append(f"NodeName={name} CPUTot=8 RealMemory=64000 Gres={there} GresUsed={used} State={state}")
    fleet = make_fleet(parse_inventory("\n".join(lines).encode(), "the text", catalog()))
    assert sorted(names_of(fleet)) == sorted(n for n, _, _ in nodes)
    seen = {(n, p.resource): p for p in fleet.pools for n in p.node_names}
    for name, gres, state in nodes:
        if state not in ("IDLE", "MIXED"):
            assert name in {s.node for s in fleet.set_aside}
            continue
        for word, number, taken in gres:
            pool = seen.pop((name, f"gpu:{word}"))
            assert (pool.devices, pool.devices_free) == (number, number - taken)
            named = {d.accelerator for d in pool.machine.devices}
            assert named == (MEANS[word] or {None})
        if not gres:
            assert seen.pop((name, None)).devices == 0
    assert not seen


def test_each_distinct_name_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 nodes of 28 products ask the catalogue 28 times: that bounds the work for any number of nodes."""
    asked: list[str] = []
    real = cards._find_by_driver_name

    def counted(lookup: Any, name: str, *rest: Any) -> Any:
        asked.append(name)
        return real(lookup, name, *rest)

    monkeypatch.setattr(cards, "_find_by_driver_name", counted)
    nodes = []
    for i in range(2000):
        product = KINDS[i % len(KINDS)]
        labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": str(PRODUCTS[product][0])}
        nodes.append({"name": f"n{i}", "labels": labels, "resources": {"nvidia.com/gpu": "8"}})
    fleet = read(nodes)
    assert len(asked) == len(KINDS)
    assert len(fleet.pools) == len(KINDS)
