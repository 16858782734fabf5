"""Hardware strings as people write them, against the shipped catalogue."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog import catalog
from advisor.catalog.hardware_names import parse_hardware
from advisor.errors import AdvisorError, BadInput, UnknownName
from advisor.machines.types import Machine
from advisor.units import GIB

CATALOG = catalog([Path(__file__).parents[2] / "rules"])
ACCELERATORS = CATALOG.accelerators()
PIECES = (
    "2x",
    "RTX",
    "4090",
    ",",
    "+",
    "GB",
    "64",
    "RAM",
    "(",
    ")",
    "M3",
    "Max",
    "H100",
    "3g.40gb",
    "x",
    "nodes",
    "cpu",
)


def parse(text: str) -> Machine:
    return parse_hardware(text, CATALOG)


def ids(text: str) -> list[str | None]:
    return [d.accelerator for d in parse(text).devices]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RTX 4090", ["rtx-4090"]),
        ("rtx4090", ["rtx-4090"]),
        ("NVIDIA GeForce RTX 4090", ["rtx-4090"]),
        ("4090 RTX", ["rtx-4090"]),
        ("2x RTX 3090", ["rtx-3090"] * 2),
        ("2 x RTX 3090", ["rtx-3090"] * 2),
        ("RTX 3090 x2", ["rtx-3090"] * 2),
        ("8x H100 80GB SXM", ["h100-sxm"] * 8),
        ("8x SXM H100 80 GB", ["h100-sxm"] * 8),
        ("H100 PCIe", ["h100-pcie"]),
        ("H100 NVL", ["h100-nvl"]),
        ("2x A100 80 GB PCIe", ["a100-80gb-pcie"] * 2),
        ("A100 SXM4 40GB", ["a100-40gb-sxm"]),
        ("NVIDIA A100-SXM4-80GB", ["a100-80gb-sxm"]),
        ("RTX 4070 Ti SUPER", ["rtx-4070-ti-super"]),
        ("4070 super", ["rtx-4070-super"]),
        ("RTX 4070 Laptop", ["rtx-4070-laptop"]),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", ["rtx-4090-laptop"]),
        ("RTX 3080 12GB", ["rtx-3080-12gb"]),
        ("RTX 6000 Ada", ["rtx-6000-ada"]),
        ("RTX A6000", ["rtx-a6000"]),
        ("RTX PRO 6000 Max-Q", ["rtx-pro-6000-maxq"]),
        ("GB10 (DGX Spark)", ["gb10-dgx-spark"]),
        ("GH200 96GB HBM3 (480GB/120GB LPDDR)", ["gh200-96gb"]),
        ("7900 XTX", ["rx-7900-xtx"]),
        ("RX 7900XT", ["rx-7900-xt"]),
        ("Ryzen AI Max+ 395 (Radeon 8060S, Strix Halo)", ["ryzen-ai-max-395"]),
        ("Intel Arc B580", ["arc-b580"]),
        ("8x Gaudi 3 (HL-325L)", ["gaudi3"] * 8),
        ("8x TPU v5e", ["tpu-v5e"] * 8),
        ("RTX 4090 + 2x RTX 3090", ["rtx-4090", "rtx-3090", "rtx-3090"]),
        ("M3", ["apple-m3"]),
        ("M3 Max (30-core GPU) 64GB", ["apple-m3-max-30c"]),
        ("MacBook Pro M4 Pro 48GB", ["apple-m4-pro"]),
        ("cpu", []),
        ("no GPU, 16 cores", []),
        ("6x T4", ["t4"] * 6),
    ],
)
def test_names(text: str, expected: list[str]) -> None:
    assert ids(text) == expected


@pytest.mark.parametrize(
    ("text", "taken", "also"),
    [
        ("RTX 3060", "rtx-3060-12gb", "8GB"),
        ("RTX 3080", "rtx-3080-10gb", "12GB"),
        ("H100", "h100-sxm", "PCIe"),
        ("A100 40GB", "a100-40gb-sxm", "PCIe"),
        ("M3 Max 64GB", "apple-m3-max-40c", "30-core"),
        ("RTX PRO 6000", "rtx-pro-6000-ws", "Max-Q"),
    ],
)
def test_a_default_is_taken_and_said(text: str, taken: str, also: str) -> None:
    m = parse(text)
    assert [d.accelerator for d in m.devices] == [taken]
    assert any("taken as" in n and also in n for n in m.notes)


def test_an_exact_name_says_nothing() -> None:
    assert parse("8x H100 80GB SXM").notes == ()


@pytest.mark.parametrize("text", ["RTX 4095", "RTX 4090 Ti", "H100X", "GTX 480", "flux capacitor", "RTX 4090, RX 9999"])
def test_unknown_names_are_errors_not_neighbours(text: str) -> None:
    with pytest.raises(UnknownName) as e:
        parse(text)
    assert e.value.code == "unknown_accelerator"
    assert "\n" not in e.value.line()


def test_near_matches_are_offered() -> None:
    with pytest.raises(UnknownName) as e:
        parse("RTX 4095")
    assert "GeForce RTX 4090" in e.value.near


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("RX 7900", ["XTX", "GRE"]),
        ("RTX 6000", ["Quadro", "Ada"]),
        ("Orin", ["Nano", "AGX"]),
    ],
)
def test_ambiguous_names_list_the_choices(text: str, listed: list[str]) -> None:
    with pytest.raises(AdvisorError) as e:
        parse(text)
    assert e.value.code == "ambiguous_accelerator"
    assert all(word in e.value.message for word in listed)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no card"),
        (",,", "names no card"),
        ("linux", "names no card"),
        ("0x RTX 4090", "between 1 and"),
        ("5000x RTX 4090", "between 1 and"),
        ("RTX 4090, no GPU", "states that there is none"),
        ("RTX 4090, 64GB", "64GB RAM"),
        ("RTX 4090, 30GiB free", "more than"),
        ("RTX 4090, 0 nodes", "nodes"),
        ("RTX 4090, cpu limit 0", "cpu limit"),
        ("x" * 600, "characters"),
    ],
)
def test_impossible_strings(text: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        parse(text)


def test_everything_that_can_be_appended() -> None:
    m = parse(
        "2x RTX 4090, 128GB RAM, linux, driver 550.54, CUDA 12.4, NVLink, 20GiB free, memory limit 16GB, cpu limit 8, "
        "2 nodes, 16 cores, amx_int8, avx2, arm64, kubernetes, visible devices 0, Ryzen AI NPU, python 3.12, "
        "EPYC 9354, power limit 300W"
    )
    assert m.memory.total_bytes == 128 * GIB
    assert m.memory.limit_bytes == 16 * GIB
    assert m.memory.usable_bytes == 16 * GIB
    assert (m.os, m.arch, m.nodes, m.orchestrator, m.npu, m.python) == (
        "linux", "arm64", 2, "kubernetes", "Ryzen AI", "3.12",
    )  # fmt: skip
    assert m.drivers == {"nvidia": "550.54", "cuda": "12.4"}
    assert m.interconnect == "nvlink"
    assert [d.free_bytes for d in m.devices] == [20 * GIB] * 2
    assert [d.visible for d in m.devices] == [True, False]
    assert (m.cpu.model, m.cpu.physical_cores, m.cpu.usable_cores) == ("EPYC 9354", 16, 8.0)
    assert m.cpu.flags == ("amx_int8", "avx2")
    assert m.cpu.platform == "epyc-genoa"
    assert m.devices[0].power_limit_watts == 300
    assert (m.source, m.text is not None) == ("text", True)


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("RTX 4090, driver 550 (CUDA 12.4)", "drivers", {"nvidia": "550", "cuda": "12.4"}),
        ("8x MI300X, ROCm 7", "drivers", {"rocm": "7"}),
        ("RTX 4090, WSL2", "wsl", True),
        ("RTX 4090, WSL2", "os", "linux"),
        ("RTX 4090, 64GB RAM, linux (WSL2)", "wsl", True),
        ("RTX 4090, Windows 11 (WSL2)", "wsl", True),
        ("RTX 4090, windows 11", "os", "windows"),
        ("M3 Max 64GB, macOS 15", "os_version", "15"),
        ("M3 Max 64GB", "os", "macos"),
        ("M3 Max 64GB", "arch", "arm64"),
        ("GB10", "arch", "arm64"),
        ("8x H100 SXM5 80GB, nvlink+infiniband", "interconnect", "nvlink+infiniband"),
        ("8x H100 SXM5 80GB, infiniband", "interconnect", "nvlink+infiniband"),
        ("8x L40S, infiniband", "interconnect", "infiniband"),
        ("8x A100 SXM, PCIe", "interconnect", "pcie"),
        ("2x RTX 3090, PCIe", "interconnect", "pcie"),
        ("2x RTX 3090 (NVLink)", "interconnect", "nvlink"),
        ("2x RTX 3090", "interconnect", None),
        ("8x H100 SXM", "interconnect", "nvlink"),
        ("2 nodes, each 8x H100 80GB SXM", "nodes", 2),
        ("3 clusters, each 4 nodes of 8x H100 80GB SXM", "nodes", 12),
        ("iPhone, 8 GB RAM, A18", "os", "ios"),
        ("Android phone, 12 GB RAM", "os", "android"),
        ("Web browser with WebGPU, 16 GB RAM laptop", "os", "browser"),
        ("Raspberry Pi 5, 8 GB RAM", "arch", "arm64"),
        ("RTX 4090", "os", None),
        ("RTX 4090", "arch", None),
        ("RTX 4090, in a container", "container", "container"),
    ],
)
def test_facts(text: str, field: str, value: object) -> None:
    assert getattr(parse(text), field) == value


@pytest.mark.parametrize(
    ("text", "ram"),
    [
        ("RTX 4090", None),  # not given stays unknown
        ("RTX 4090, 64GB RAM", 64),
        ("RTX 4090, 64 GB RAM", 64),
        ("RTX 4090 64GB RAM", 64),
        ("RTX 4090 with 64GB RAM", 64),
        ("RTX 4090 + 64GB RAM", 64),
        ("RTX 4090, 96GB DDR5", 96),
        ("8x H100 80GB SXM, 2 TB RAM", 2048),
        ("Apple M3 Max, 64 GB", 64),
        ("1x M3 Max 64GB", 64),
        ("cpu, 32GB RAM", 32),
        ("Intel Core i9 Mac, 32 GB", 32),
        ("Ryzen AI Max+ 395, 128 GB unified", 128),
        ("EPYC 9354, container limited to 16 GB and 8 CPUs on a 256 GB host", 256),
        ("RTX 4090, 24GB", None),  # the card's own size
    ],
)
def test_host_memory(text: str, ram: int | None) -> None:
    assert parse(text).memory.total_bytes == (None if ram is None else ram * GIB)


@pytest.mark.parametrize(
    ("text", "total", "sold"),
    [
        ("GH200", None, (114, 480)),
        ("2x GH200 96GB", None, (228, 960)),
        ("NVIDIA GH200 480GB", 456, None),  # as the driver calls it
        ("2x GH200 120GB", 228, None),
        ("GH200 480GB, 200GB RAM", 200 * GIB / 1e9, None),
        ("H100 80GB SXM", None, None),
        ("GH200, H100 80GB SXM", None, None),
    ],
)
def test_memory_of_the_processor_of_a_superchip(text: str, total: float | None, sold: tuple[int, int] | None) -> None:
    m = parse(text).memory
    assert m.total_bytes == (None if total is None else int(total * 1e9))
    assert m.sold_bytes == (None if sold is None else (sold[0] * 10**9, sold[1] * 10**9))


@pytest.mark.parametrize(
    ("text", "gib", "basis"),
    [
        ("H100 80GB SXM", 81559 / 1024, "catalogue"),  # NVML total
        ("RTX A6000", 48 * 0.9995, "assumed"),
        ("M2 Max 32GB", 32 * 0.67, "assumed"),
        ("M3 Pro 35.9GB RAM", 35.9 * 0.67, "assumed"),  # on either side of where macOS gives more
        ("M3 Max 36GB", 27, "assumed"),
        ("M3 Max 64GB", 48, "assumed"),
        ("M3 Max 64GB, iogpu.wired_limit_mb=57344", 56, "reported"),
        ("M3 Max", None, None),
        ("Ryzen AI Max+ 395, 128 GB unified, VRAM carve-out 512 MiB, GTT 57.9 GiB", 58.4, "reported"),
        ("Ryzen AI Max+ 395", None, None),
        ("Radeon 780M, 32GB RAM", 32 * 0.45, "assumed"),
        ("GB10 DGX Spark 128 GB", 121.7, "catalogue"),
        ("RTX 4090, 24GiB free", 24, "catalogue"),
    ],
)
def test_device_memory(text: str, gib: float | None, basis: str | None) -> None:
    d = parse(text).devices[0]
    assert d.total_basis == basis
    if gib is None:
        assert d.total_bytes is None
    else:
        assert d.total_bytes is not None
        assert d.total_bytes / GIB == pytest.approx(gib, abs=0.05)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        # 96 of 128 GiB are what guides for owners on Linux set (kyuz0/amd-strix-halo-toolboxes)
        ("Ryzen AI Max+ 395, 128GB RAM, linux", 96, 96),
        # 57.9 GiB of GTT + 0.5 GiB carve-out is what stock settings gave on such a machine
        ("Ryzen AI Max+ 395, 128GB RAM, windows", 0.95 * 58.4, 58.4),
        ("Ryzen 7 8840U, 128GB RAM, linux", 0.95 * 58.4, 58.4),  # nobody is known to raise it there
    ],
)
def test_gpu_memory_of_an_apu_without_gtt(text: str, least: float, most: float) -> None:
    m = parse(text)
    (d,) = m.devices
    assert d.unified
    assert d.total_bytes is not None
    assert least <= d.total_bytes / GIB <= most
    assert any("GTT" in n for n in m.notes)
    assert any("ttm.pages_limit" in n for n in m.notes) == ("linux" in text)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("RTX 3090, NVML error LibRmVersionMismatch", "reboot"),
        ("RTX 4090 without driver", "driver missing"),
        ("RTX 4090, no driver", "driver missing"),
    ],
)
def test_a_driver_that_does_not_work(text: str, word: str) -> None:
    m = parse(text)
    assert m.devices[0].driver_missing
    assert m.usable_devices == ()
    assert any(word in n for n in m.notes)


@pytest.mark.parametrize(("value", "seen"), [("0", 1), ("0,2", 2), ("none", 0), ("-1", 0)])
def test_visible_devices(value: str, seen: int) -> None:
    assert len(parse(f"4x RTX 3090, visible devices {value}, 64GB RAM").usable_devices) == seen


@pytest.mark.parametrize("entry", sorted(ACCELERATORS))
def test_every_catalogue_name_means_its_entry(entry: str) -> None:
    assert ids(ACCELERATORS[entry].name) == [entry] * ACCELERATORS[entry].devices_per_card
    assert ids(entry) == [entry] * ACCELERATORS[entry].devices_per_card


@given(st.permutations(["1x RTX 3090", "64GB RAM", "linux", "driver 580", "16 cores", "NVLink"]))
def test_the_order_of_the_parts_does_not_matter(parts: list[str]) -> None:
    m = parse(", ".join(parts))
    want = parse("1x RTX 3090, 64GB RAM, linux, driver 580, 16 cores, NVLink")
    assert m.to_dict() | {"text": None} == want.to_dict() | {"text": None}


@pytest.mark.slow
@settings(max_examples=150)
@given(st.text(max_size=40) | st.lists(st.sampled_from(PIECES)).map(" ".join))
def test_any_text_is_a_machine_or_one_clear_error(text: str) -> None:
    try:
        m = parse(text)
    except AdvisorError as e:
        assert "\n" not in e.line()  # noqa: PT017
    else:
        assert m.source == "text"


def test_as_many_cards_and_characters_as_one_node_and_one_line_may_have() -> None:
    assert len(parse("1024x RTX 4090").devices) == 1024
    with pytest.raises(BadInput, match="1025 cards"):
        parse("1025x RTX 4090")
    text = "RTX 4090" + ", 64GB RAM" * 60
    assert len(parse(text[:498].rpartition(",")[0].ljust(500)).devices) == 1
    with pytest.raises(BadInput, match="501 characters"):
        parse("RTX 4090".ljust(501))


def test_a_size_next_to_a_card_is_the_cards_within_two_percent() -> None:
    assert parse("RTX 4090, 24GB").devices[0].accelerator == "rtx-4090"
    assert parse("RTX 4090, 23.6GB").devices[0].accelerator == "rtx-4090"
    with pytest.raises(BadInput, match="GB RAM"):
        parse("RTX 4090, 23.4GB")
