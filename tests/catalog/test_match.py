"""Probed devices against the shipped catalogue: same ids, same names, nothing by resemblance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from advisor.catalog import catalog
from advisor.catalog.match import (
    find_accelerators,
    find_known_engines,
    join_catalogue,
    match_cpu,
    usable_capacity_bytes,
)
from advisor.catalog.types import Accelerator
from advisor.machines.types import Cpu, Device, HostMemory, Machine, Vendor
from advisor.units import GIB, MIB

RULES = Path(__file__).parents[2] / "rules"
ACCELERATORS = catalog([RULES]).accelerators()
CPUS = catalog([RULES]).cpu_platforms()


def match_device(probed: Device, accelerators: Mapping[str, Accelerator]) -> Accelerator | None:
    """The one entry that fits; None where none or several do."""
    found = find_accelerators(probed, accelerators)
    return found[0] if len(found) == 1 else None


def device(name: str = "?", vendor: Vendor = "nvidia", gib: float | None = None, **fields: object) -> Device:
    total = None if gib is None else int(gib * GIB)
    return msgspec.structs.replace(Device(index=0, name=name, vendor=vendor, total_bytes=total), **fields)


@pytest.mark.parametrize(
    ("name", "mib", "entry"),
    # NVML name and total as seen in public logs
    [
        ("Tesla T4", 15360, "t4"),
        ("NVIDIA L4", 23034, "l4"),
        ("NVIDIA L40S", 46068, "l40s"),
        ("NVIDIA A100-PCIE-40GB", 40960, "a100-40gb-pcie"),
        ("NVIDIA A100-SXM4-80GB", 81920, "a100-80gb-sxm"),
        ("NVIDIA A100 80GB PCIe", 81920, "a100-80gb-pcie"),
        ("NVIDIA H100 80GB HBM3", 81559, "h100-sxm"),
        ("NVIDIA H100 PCIe", 81559, "h100-pcie"),
        ("NVIDIA H100 NVL", 95830, "h100-nvl"),
        ("NVIDIA H200", 143771, "h200-sxm"),
        ("NVIDIA GH200 480GB", 97871, "gh200-96gb"),
        ("NVIDIA B200", 183359, "b200"),
        ("NVIDIA GB200", 189471, "gb200"),
        ("NVIDIA GeForce RTX 3080", 10240, "rtx-3080-10gb"),
        ("NVIDIA GeForce RTX 3080", 12288, "rtx-3080-12gb"),
        ("NVIDIA GeForce RTX 3060", 8192, "rtx-3060-8gb"),
        ("NVIDIA GeForce RTX 4060 Ti", 16380, "rtx-4060-ti-16gb"),
        ("NVIDIA GeForce RTX 4060 Ti", 8188, "rtx-4060-ti-8gb"),
        ("NVIDIA GeForce RTX 4090", 24564, "rtx-4090"),
        ("NVIDIA GeForce RTX 4090 D", 24564, "rtx-4090-d"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 16376, "rtx-4090-laptop"),
        ("NVIDIA RTX PRO 5000 72GB Blackwell", 73000, "rtx-pro-5000-72gb"),
        ("NVIDIA Thor", 62000, "jetson-thor-t4000"),
        ("NVIDIA Jetson AGX Orin Developer Kit", 62827, "jetson-agx-orin-64gb"),
        ("NVIDIA GeForce MX130", 2048, None),
        ("Quadro P3000", 6144, None),
    ],
)
def test_nvml_names(name: str, mib: int, entry: str | None) -> None:
    found = match_device(device(name, gib=mib / 1024), ACCELERATORS)
    assert (found.id if found else None) == entry


@pytest.mark.parametrize(
    ("pci_id", "vendor", "name", "gib", "entry"),
    # ids that several cards share
    [
        ("1002:744c", "amd", "AMD GPU [1002:744c]", 23.98, "rx-7900-xtx"),
        ("1002:744c", "amd", "AMD GPU [1002:744c]", 19.98, "rx-7900-xt"),
        ("1002:744c", "amd", "AMD GPU [1002:744c]", 15.98, "rx-7900-gre"),
        ("1002:7550", "amd", "AMD Radeon RX 9070 XT", 15.92, "rx-9070-xt"),
        ("1002:7550", "amd", "AMD Radeon RX 9070", 15.92, "rx-9070"),
        ("1002:7550", "amd", "AMD GPU [1002:7550]", 15.92, None),
        ("1002:1586", "amd", "AMD Radeon 8060S", 58.4, "ryzen-ai-max-395"),
        ("1002:1586", "amd", "AMD Radeon 8050S Graphics", 30.0, "ryzen-ai-max-390"),
        ("10de:25b6", "nvidia", "NVIDIA A16", 15.0, "a16"),
        ("10de:25b6", "nvidia", "NVIDIA A2", 15.0, "a2"),
        ("10de:2bb3", "nvidia", "NVIDIA RTX PRO 5000 Blackwell", 47.5, "rtx-pro-5000"),
        ("10de:2bb3", "nvidia", "nvidia device [10de:2bb3]", 71.0, "rtx-pro-5000-72gb"),
        ("10de:2e12", "nvidia", "Device [10de:2e12]", 121.7, "gb10-dgx-spark"),
        ("8086:e223", "intel", "Intel GPU [8086:e223]", 31.8, "arc-pro-b70"),
        ("10de:ffff", "nvidia", "nvidia device [10de:ffff]", None, None),
    ],
)
def test_shared_pci_ids(pci_id: str, vendor: Vendor, name: str, gib: float | None, entry: str | None) -> None:
    found = match_device(device(name, vendor, gib, pci_id=pci_id), ACCELERATORS)
    assert (found.id if found else None) == entry


def test_every_reported_name_leads_back_or_to_twins() -> None:
    for entry in ACCELERATORS.values():
        for name in entry.reported_names:
            size = entry.usable_bytes or int((entry.memory_bytes or 0) * 0.96)
            found = find_accelerators(device(name, gib=size / GIB), ACCELERATORS)
            assert entry in found or "super" in entry.id, (name, entry.id)
            assert len({a.memory_bytes for a in found}) == 1, (name, [a.id for a in found])


def test_vendors_are_never_mixed() -> None:
    assert match_device(device("Radeon RX 7900 XTX", "nvidia", 24), ACCELERATORS) is None


def test_subsystem_tells_cards_of_one_id_apart() -> None:
    def entry(name: str, *ids: str) -> Accelerator:
        return Accelerator(id=name, vendor="nvidia", name=name, pci_ids=ids, source="test", confidence="test")

    both = {"a": entry("a", "10de:1111"), "b": entry("b", "10de:1111:10de:227a")}
    known = device(pci_id="10de:1111", pci_subsystem="10de:227a")
    assert match_device(known, both) == both["b"]
    assert match_device(device(pci_id="10de:1111", pci_subsystem="1043:0001"), both) == both["a"]


def test_apple_tiers_need_the_core_count() -> None:
    for cores in (30, 40):
        found = match_device(device("Apple M3 Max", "apple", 48, gpu_cores=cores), ACCELERATORS)
        assert found is not None
        assert found.id == f"apple-m3-max-{cores}c"
    # 36 GiB for the GPU are those of 48 GB of RAM, which tell nothing of the 36 GB that the smaller chip comes with
    assert match_device(device("Apple M3 Max", "apple", 36), ACCELERATORS) is None
    plain = match_device(device("Apple M3", "apple", 16, gpu_cores=10), ACCELERATORS)
    assert plain is not None
    assert plain.id == "apple-m3"


def test_attach_fills_what_the_device_did_not_tell() -> None:
    card = device("nvidia device [10de:2204]", pci_id="10de:2204", driver_missing=True)
    machine = join_catalogue(
        Machine(devices=(card,), cpu=Cpu(model="AMD EPYC 9354 32-Core Processor")), ACCELERATORS, CPUS
    )
    (d,) = machine.devices
    assert (d.accelerator, d.name, d.compute_capability) == ("rtx-3090", "GeForce RTX 3090", "8.6")
    assert (d.total_bytes, d.total_basis) == (24576 * MIB, "catalogue")
    assert d.driver_missing
    assert machine.cpu.platform == "epyc-genoa"


def test_attach_keeps_what_the_driver_said() -> None:
    card = device("NVIDIA GeForce RTX 4090", gib=20.0, total_basis="reported", compute_capability="8.9")
    (d,) = join_catalogue(Machine(devices=(card,)), ACCELERATORS, CPUS).devices
    assert (d.total_bytes, d.total_basis) == (20 * GIB, "reported")


def test_attach_says_what_is_ambiguous_or_unknown() -> None:
    twins = device("AMD GPU [1002:7550]", "amd", 15.9, pci_id="1002:7550")
    stranger = device("NVIDIA Graphics Device", gib=94)
    machine = join_catalogue(Machine(devices=(twins, stranger)), ACCELERATORS, CPUS)
    assert [d.accelerator for d in machine.devices] == [None, None]
    assert any("RX 9070 XT" in n for n in machine.notes)
    assert any("not in the catalogue" in n for n in machine.notes)


def test_attach_does_not_invent_memory_for_shared_memory() -> None:
    igpu = device("Intel GPU", "intel", unified=True)
    arm = device("NVIDIA GB10", unified=True)
    machine = join_catalogue(Machine(devices=(igpu, arm), memory=HostMemory()), ACCELERATORS, CPUS)
    assert [d.total_bytes for d in machine.devices] == [None, None]


KEEPS_MORE = {"b300", "gb300"}  # than others with the same memory, and nobody says why
ECC_BY_DEFAULT = ("a10", "l4", "l40s", "t4")  # GDDR6 gives up a sixteenth for it


def test_assumed_share_is_near_every_known_driver_figure() -> None:
    """Each figure guessed without it: from another card with the same ECC, else from the nominal size alone."""
    known = [a for a in ACCELERATORS.values() if a.usable_bytes and a.memory_bytes and not a.unified]
    for entry in known:
        twin = next((x for x in ECC_BY_DEFAULT if x != entry.id), "") if entry.id in ECC_BY_DEFAULT else ""
        like = ACCELERATORS[twin] if twin else None
        share = (like.usable_bytes or 0) / (like.memory_bytes or 1) if like else None
        guess, basis = usable_capacity_bytes(msgspec.structs.replace(entry, usable_bytes=None, usable_share=share))
        assert basis == "assumed"
        if entry.id not in KEEPS_MORE:
            assert guess == pytest.approx(entry.usable_bytes, rel=0.02), entry.id


def test_share_of_a_twin() -> None:
    for card, gib in (("rtx-a6000", 47.98), ("a800-80gb", 80.0), ("rtx-pro-6000-ws", 95.6), ("a40", 44.98)):
        size, basis = usable_capacity_bytes(ACCELERATORS[card])
        assert (size or 0) / 2**30 == pytest.approx(gib, abs=0.03), card
        assert basis == "assumed"


@pytest.mark.parametrize(
    ("model", "platform"),
    [
        ("AMD EPYC 7763 64-Core Processor", "epyc-milan"),
        ("Intel(R) Xeon(R) Platinum 8592+", "xeon-emr"),
        ("Xeon Gold 6338", "xeon-icx"),
        ("Intel(R) Xeon(R) Processor", None),  # virtual machines hide the model
        ("AMD Ryzen 9 7950X 16-Core Processor", "desktop-am5-7000"),
        ("AMD Ryzen 9 7945HX with Radeon Graphics", None),
        ("Intel(R) Core(TM) i9-14900K", "desktop-lga1700-ddr5"),
        ("AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", "mobile-strix-halo"),
        ("Apple M4 Pro", "apple-m4-pro"),
        ("Apple M3 Max", None),
        (None, None),
    ],
)
def test_processors(model: str | None, platform: str | None) -> None:
    found = match_cpu(Cpu(model=model), CPUS)
    assert (found.id if found else None) == platform


def test_apple_processor_tiers_by_gpu_cores() -> None:
    found = match_cpu(Cpu(model="Apple M3 Max"), CPUS, gpu_cores=30)
    assert found is not None
    assert found.bandwidth_gbs_per_socket == 300


def test_llama_cpp_builds_come_from_the_catalogue() -> None:
    builds = find_known_engines(catalog([RULES]).engines()).builds
    assert builds["llama.cpp"]["b11434"] == "0.6.0-dev"
    assert "b1" not in builds["llama.cpp"]
