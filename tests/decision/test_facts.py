"""Facts computed from machines, models and workloads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog.types import Accelerator, Engine, Floor, Health
from advisor.decision.facts import compute_facts, cuda_version, main_devices
from advisor.decision.floors import amd_generation, intel_generation, nvidia_generation, vendor_of_generation
from advisor.decision.types import FIELDS, find_value_problem
from advisor.deployment import Workload
from advisor.errors import BadInput, UnknownName
from advisor.machines.types import Cpu, Device, HostMemory, Machine
from advisor.models.types import Dense, Full, Layout, Model, Moe

GIB = 2**30


def accelerator(name: str, vendor: str, **more: Any) -> Accelerator:
    return Accelerator(id=name, vendor=vendor, name=name, source="test", confidence="test", **more)


CATALOGUE = {
    a.id: a
    for a in (
        accelerator("rtx-4090", "nvidia", compute_capability="8.9", memory_bytes=24 * GIB),
        accelerator("rtx-3090", "nvidia", compute_capability="8.6", memory_bytes=24 * GIB),
        accelerator("rx-7900-xtx", "amd", gfx="gfx1100", memory_bytes=24 * GIB),
        accelerator("mi300x", "amd", gfx="gfx942", memory_bytes=192 * GIB),
        accelerator("igpu", "intel", kind="integrated", architecture="Xe-LPG"),
        accelerator("arc-b580", "intel", architecture="Xe2-HPG", memory_bytes=12 * GIB),
        accelerator("gaudi3", "intel", architecture="Gaudi 3", memory_bytes=128 * GIB),
        accelerator("m3-max", "apple", unified=True),
    )
}


def card(name: str, index: int = 0, **more: Any) -> Device:
    return Device(index=index, name=name, vendor=more.pop("vendor", CATALOGUE[name].vendor), accelerator=name, **more)


def on(*devices: Device, **more: Any) -> dict[str, Any]:
    return compute_facts(Machine(os="linux", devices=devices, **more), None, Workload(), CATALOGUE)


def test_one_nvidia_card() -> None:
    got = on(card("rtx-4090"), drivers={"nvidia": "550.54.14"}, arch="x86_64")
    assert got["gpu.vendor"] == "nvidia"
    assert got["gpu.compute_capability"] == 8.9
    assert got["gpu.generation"] == "ada"
    assert got["gpu.accelerator"] == "rtx-4090"
    assert got["gpu.mixed"] is False
    assert got["gpu.total_gib"] == 24
    assert got["driver.cuda"] == "12.0"
    assert got["driver.nvidia"] == "550.54.14"


def test_unlike_cards_count_by_the_weakest() -> None:
    got = on(card("rtx-4090"), card("rtx-3090", 1, total_bytes=20 * GIB))
    assert got["gpu.compute_capability"] == 8.6
    assert got["gpu.mixed"] is True
    assert got["gpu.accelerator"] is None
    assert got["gpu.generation"] == "mixed"
    assert got["gpu.total_gib"] == 44
    assert got["gpu.smallest_gib"] == 20


def test_an_unknown_capability_of_one_card_makes_the_lowest_unknown() -> None:
    got = on(card("rtx-4090"), Device(index=1, name="new card", vendor="nvidia"))
    assert got["gpu.compute_capability"] is None
    assert got["gpu.total_gib"] is None


def test_integrated_graphics_are_left_out_beside_a_card() -> None:
    devices = (card("igpu", unified=True), card("rtx-4090", 1))
    got = on(*devices)
    assert got["gpu.vendor"] == "nvidia"
    assert got["gpu.count"] == 1
    assert main_devices(Machine(devices=devices[:1]), CATALOGUE) == devices[:1], "alone they count"


def test_two_vendors_are_mixed_and_gaudi_is_no_intel_gpu() -> None:
    assert on(card("rtx-4090"), card("rx-7900-xtx", 1))["gpu.vendor"] == "mixed"
    assert on(card("gaudi3"))["gpu.vendor"] == "habana"
    assert on(card("gaudi3"))["gpu.generation"] == "gaudi"
    assert on(card("arc-b580"))["gpu.generation"] == "xe2"


def test_hidden_and_undriven_cards_do_not_count() -> None:
    got = on(card("rtx-4090", driver_missing=True), card("rtx-4090", 1, visible=False))
    assert got["gpu.vendor"] == "none"
    assert got["gpu.generation"] == "cpu"
    assert got["gpu.driver_missing"] is True


def test_the_overridden_gfx_is_what_the_runtime_believes() -> None:
    got = on(card("rx-7900-xtx", gfx="gfx1031", gfx_override="gfx1030"))
    assert got["gpu.gfx"] == "gfx1030"
    assert got["gpu.generation"] == "rdna2"


def test_rocm_lists_come_from_the_engines() -> None:
    engines = {
        "vllm": Engine(
            id="vllm",
            name="vLLM",
            kind="engine",
            health=Health(status="active"),
            floors={"default": Floor(amd_gfx=("gfx942", "gfx1100"))},
        ),
        "ollama": Engine(
            id="ollama",
            name="Ollama",
            kind="engine",
            health=Health(status="active"),
            floors={"rocm": Floor(amd_gfx=("gfx942",), amd_gfx_windows=("gfx1100",))},
        ),
    }

    def got(*devices: Device, os: Any = "linux") -> tuple[Any, Any]:
        found = compute_facts(Machine(os=os, devices=devices), None, Workload(), CATALOGUE, engines)
        return found["gpu.vllm_gfx"], found["gpu.ollama_gfx"]

    assert got(card("rx-7900-xtx")) == (True, False)
    assert got(card("rx-7900-xtx"), os="windows") == (None, True)
    assert got(card("rx-7900-xtx"), card("mi300x", 1)) == (True, False)
    assert got(Device(index=0, name="x", vendor="amd")) == (None, None)
    assert got(card("rtx-4090")) == (None, None)


def test_wsl_counts_as_linux() -> None:
    found = compute_facts(Machine(os="windows", wsl=True, os_version="11"), None, Workload(), {})
    assert found["os"] == "linux"
    assert found["os.version"] is None, "the version is that of Windows"


def test_cpu_flags_are_unknown_until_read_and_absent_on_arm() -> None:
    assert compute_facts(Machine(arch="x86_64"), None, Workload(), {})["cpu.amx"] is None
    flags = Cpu(flags=("avx2", "avx512f", "amx_int8"))
    got = compute_facts(Machine(arch="x86_64", cpu=flags), None, Workload(), {})
    assert (got["cpu.avx2"], got["cpu.avx512"], got["cpu.amx"]) == (True, True, True)
    assert compute_facts(Machine(arch="arm64"), None, Workload(), {})["cpu.avx512"] is False


@pytest.mark.parametrize(
    ("name", "kind"),
    [("Ryzen AI", "ryzen_ai"), ("AMD XDNA 2", "ryzen_ai"), ("Intel AI Boost", "intel"), ("Hexagon", "other")],
)
def test_npu(name: str, kind: str) -> None:
    assert compute_facts(Machine(npu=name), None, Workload(), {})["npu"] == kind


def test_memory_limit_of_a_container_counts() -> None:
    memory = HostMemory(total_bytes=64 * GIB, limit_bytes=16 * GIB)
    assert compute_facts(Machine(memory=memory), None, Workload(), {})["host.memory_gib"] == 16


def model(*ffn: Any, **more: Any) -> Model:
    attention = (Full(n=2, n_heads=4, n_kv_heads=4, head_dim=8),)
    layout = Layout(n_layers=2, hidden_size=32, vocab_size=64, tie_embeddings=True, attention=attention, ffn=ffn)
    return Model(id="m", family="m", params_total=10_000_000_000, layout=layout if ffn else None, **more)


def test_model_facts() -> None:
    dense = compute_facts(Machine(), model(Dense(n=2, intermediate=64), native_quant="MXFP4"), Workload(), {})
    assert dense["model.moe"] is False
    assert dense["model.native_quantization"] == "mxfp4"
    assert dense["model.params_b"] == 10
    moe = compute_facts(Machine(), model(Moe(n=2, n_experts=8, top_k=2, moe_intermediate=8)), Workload(), {})
    assert moe["model.moe"] is True
    assert compute_facts(Machine(), model(params_active=1_000_000_000), Workload(), {})["model.moe"] is True
    for active, sparse in ((8_999_999_999, True), (9_000_000_000, False)):  # a dense model reads nine tenths and more
        assert compute_facts(Machine(), model(params_active=active), Workload(), {})["model.moe"] is sparse
    assert compute_facts(Machine(), model(), Workload(), {})["model.moe"] is None
    assert compute_facts(Machine(), None, Workload(), {})["model.given"] is False


def test_workload_facts() -> None:
    workload = Workload(concurrency=7, endpoint="http://x/v1", extra={"distributed": "true", "migrate_from": "tgi"})
    got = compute_facts(Machine(os="android"), None, workload, {})
    assert got["workload.concurrency"] == 7
    assert got["workload.endpoint"] is True
    assert got["workload.distributed"] is True
    assert got["workload.migrate_from"] == "tgi"
    assert got["workload.form_factor"] == "phone"
    assert compute_facts(Machine(), None, Workload(), {})["workload.distributed"] is None
    assert compute_facts(Machine(os="linux"), None, Workload(), {})["workload.form_factor"] is None


def test_more_facts_win_and_are_checked() -> None:
    got = compute_facts(
        Machine(), None, Workload(), {}, **{"model.ram_enough": True, "workload.models": 2, "os": "ios"}
    )
    assert (got["model.ram_enough"], got["workload.models"], got["os"]) == (True, 2, "ios")
    with pytest.raises(UnknownName, match=r"unknown field 'model\.ram_enogh'"):
        compute_facts(Machine(), None, Workload(), {}, **{"model.ram_enogh": True})
    with pytest.raises(BadInput, match="true or false"):
        compute_facts(Machine(), None, Workload(), {}, **{"model.ram_enough": "yes"})


@pytest.mark.parametrize(
    ("drivers", "cuda"),
    [
        ({"cuda": "12.4", "nvidia": "580.1"}, "12.4"),
        ({"nvidia": "580.95"}, "13.0"),
        ({"nvidia": "579.99"}, "12.0"),
        ({"nvidia": "525"}, "12.0"),
        ({"nvidia": "470.1"}, "11.0"),
        ({"nvidia": "390"}, None),
        ({"nvidia": "odd"}, None),
        ({}, None),
    ],
)
def test_cuda_follows_from_the_driver(drivers: dict[str, str], cuda: str | None) -> None:
    assert cuda_version(drivers) == cuda


# NVIDIA's list of CUDA GPUs, the LLVM AMDGPU table, Intel's names
GENERATIONS = [
    *((nvidia_generation(c), g) for c, g in ((6.1, "pascal"), (7.0, "volta"), (7.5, "turing"), (8.0, "ampere"))),
    *((nvidia_generation(c), g) for c, g in ((8.7, "ampere"), (8.9, "ada"), (9.0, "hopper"), (10.3, "blackwell_dc"))),
    *((nvidia_generation(c), g) for c, g in ((12.0, "blackwell_rtx"), (12.1, "blackwell_rtx"), (3.5, None))),
    *((amd_generation(x), g) for x, g in (("gfx908", "cdna1"), ("gfx90a", "cdna2"), ("gfx942", "cdna3"))),
    *((amd_generation(x), g) for x, g in (("gfx950", "cdna4"), ("gfx906", "gcn"), ("gfx1030", "rdna2"))),
    *((amd_generation(x), g) for x, g in (("gfx1151", "rdna3_5"), ("gfx1201", "rdna4"), ("gfx9999", None))),
    *((intel_generation(x), g) for x, g in (("Xe2-HPG", "xe2"), ("Xe-HPG", "xe"), ("Generation 12.5", "xe_hpc"))),
]


@pytest.mark.parametrize(("got", "expected"), GENERATIONS)
def test_generations(got: str | None, expected: str | None) -> None:
    assert got == expected


def test_every_generation_of_an_accelerator_has_a_vendor() -> None:
    without = [g for g in FIELDS["gpu.generation"].values if vendor_of_generation(g) is None]
    assert without == ["cpu", "mixed"]


@given(
    st.builds(
        Machine,
        os_version=st.none() | st.text(max_size=5),
        python=st.none() | st.text(max_size=5),
        arch=st.none() | st.text(max_size=5),
        npu=st.none() | st.text(max_size=5),
        drivers=st.dictionaries(st.sampled_from(["nvidia", "cuda", "rocm"]), st.text(max_size=6)),
        devices=st.lists(
            st.builds(
                Device,
                index=st.integers(0, 3),
                name=st.text(max_size=4),
                vendor=st.sampled_from(["nvidia", "amd", "unknown"]),
                compute_capability=st.none() | st.text(max_size=4),
                gfx=st.none() | st.text(max_size=6),
                total_bytes=st.none() | st.integers(0, 2**40),
            ),
            max_size=3,
        ).map(tuple),
    )
)
def test_any_machine_gives_every_field_a_value_it_may_have(machine: Machine) -> None:
    got = compute_facts(machine, None, Workload(), {})
    assert set(got) == set(FIELDS)
    for name, value in got.items():
        assert value is None or find_value_problem(FIELDS[name], value) is None
