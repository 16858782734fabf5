"""Hard filters: with hand-made engines for each rule, and with the catalogue's own entries for known cases."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog.types import ContainerImage, Engine, Floor, Health, Quantization, QuantOnHardware, Source, Support
from advisor.decision.filters import judge_engine
from advisor.decision.floors import python_matches
from advisor.decision.nodes import REASON_CODES
from advisor.decision.types import FIELDS
from advisor.deployment import Workload
from advisor.models.types import Model

YES, NO = Support(support="yes", src=("docs",)), Support(support="no", src=("docs",))
PARTIAL, UNKNOWN = Support(support="partial", note="some of it"), Support(support="unknown")
DOCS = {"docs": Source(title="The documentation", version="1.2.0")}


def engine(**more: Any) -> Engine:
    values: dict[str, Any] = {
        "id": "e",
        "name": "Engine",
        "kind": "engine",
        "health": Health(status="active"),
        "os": {"linux": YES, "windows": NO, "macos": PARTIAL},
        "hardware": {"nvidia": YES, "amd": YES, "cpu": NO, "apple_metal": NO, "tpu": UNKNOWN},
        "formats": {"hf_safetensors": YES, "gguf": NO},
        "quantization": {"awq": YES, "nvfp4": PARTIAL, "gguf_kquants": NO},
        "features": {"structured_output": NO, "tool_calling": UNKNOWN, "embeddings": NO, "multi_node": NO},
        "sources": DOCS,
    }
    return Engine(**{**values, **more})


def quantization(name: str, capability: str, form: str = "hf_safetensors") -> Quantization:
    return Quantization(
        id=name, family="hf", format=form, bits_nominal=4, covers="all", capability=capability, quality=1, source="test"
    )


ADA = {"os": "linux", "gpu.vendor": "nvidia", "gpu.compute_capability": 8.9, "gpu.generation": "ada"}


def codes(it: Engine, known: dict[str, Any], **more: Any) -> list[str]:
    workload = more.pop("workload", Workload())
    return [
        r.code
        for r in judge_engine(
            it, known, more.pop("quantization", None), more.pop("model", None), workload, **more
        ).reasons
    ]


def test_nothing_speaks_against_a_supported_machine() -> None:
    assert codes(engine(), ADA) == []


def test_nothing_known_refuses_nothing() -> None:
    assert codes(engine(floors={"default": Floor(nvidia_compute_capability="9.0", cuda="13.0")}), {}) == []


def test_archived_is_refused_unless_it_was_asked_for() -> None:
    it = engine(health=Health(status="archived", note="since March"))
    assert codes(it, ADA) == ["archived"]
    asked = judge_engine(it, ADA, None, None, Workload(), asked=["e"])
    assert asked.reasons == ()
    assert [w.code for w in asked.warnings] == ["archived"]
    assert "since March" in asked.warnings[0].text


def test_operating_systems() -> None:
    assert codes(engine(), {**ADA, "os": "windows"}) == ["os_unsupported"]
    assert "WSL2" in judge_engine(engine(), {"os": "windows"}, None, None, Workload()).reasons[0].text
    assert codes(engine(), {"os": "macos"}) == [], "partial never refuses"
    assert codes(engine(), {"os": "ios"}) == ["os_unsupported"], "who supports phones says so"
    assert codes(engine(os={"web": YES}), {"os": "browser"}) == []
    assert codes(engine(os={"any": YES}), {"os": "ios"}) == []


def test_vendors_and_the_cpu() -> None:
    assert codes(engine(), {"os": "linux", "gpu.vendor": "apple"}) == ["vendor_not_supported"]
    assert codes(engine(), {"os": "linux", "gpu.vendor": "none"}) == ["needs_accelerator"]
    assert codes(engine(), {"os": "linux", "gpu.vendor": "google"}) == [], "unknown never refuses"
    assert codes(engine(), {"os": "linux", "gpu.vendor": "habana"}) == ["vendor_not_supported"], "named nowhere"
    text = judge_engine(engine(), {"gpu.vendor": "none"}, None, None, Workload()).reasons[0].text
    assert "NVIDIA GPUs, AMD GPUs" in text


def floors(**lanes: Floor) -> Engine:
    return engine(floors=lanes)


def test_the_capability_floor_names_both_values_and_its_source() -> None:
    it = floors(default=Floor(nvidia_compute_capability="7.5", src=("docs",)))
    (reason,) = judge_engine(it, {**ADA, "gpu.compute_capability": 6.1}, None, None, Workload()).reasons
    assert reason.code == "compute_capability_below_floor"
    assert reason.text == "compute capability 6.1 is below Engine's floor 7.5 (Engine 1.2.0)"
    assert reason.source == "The documentation, 1.2.0"
    assert reason.rule == "engines/e:floors.default.nvidia_compute_capability"
    assert codes(it, {**ADA, "gpu.compute_capability": 7.5}) == []
    assert codes(it, {**ADA, "gpu.compute_capability": 12.0}) == [], "12 is above 7.5"


def test_one_build_that_works_is_enough() -> None:
    it = floors(cuda12=Floor(nvidia_compute_capability="5.0"), cuda13=Floor(nvidia_compute_capability="7.5"))
    assert codes(it, {**ADA, "gpu.compute_capability": 6.1}) == []
    assert codes(it, {**ADA, "gpu.compute_capability": 3.5}) == ["compute_capability_below_floor"]
    warned = judge_engine(it, {**ADA, "gpu.compute_capability": 6.1}, None, None, Workload()).warnings
    assert any("cuda13 build" in w.text for w in warned)


def test_below_the_safe_capability_is_a_warning() -> None:
    it = floors(default=Floor(nvidia_compute_capability="7.5", nvidia_safe_compute_capability="8.0"))
    got = judge_engine(it, {**ADA, "gpu.compute_capability": 7.5}, None, None, Workload())
    assert got.reasons == ()
    assert [w.code for w in got.warnings] == ["below_safe_floor"]


@pytest.mark.parametrize(
    ("cuda", "driver", "expected"),
    [
        ("12.4", "550.54", ["cuda_runtime_too_old"]),
        ("13.0", "580.95", []),
        (None, None, []),
        ("13.0", "579.1", ["cuda_runtime_too_old"]),
    ],
)
def test_cuda_and_driver(cuda: str | None, driver: str | None, expected: list[str]) -> None:
    it = floors(default=Floor(cuda="13.0"), cuda13=Floor(driver="580"))
    known = {**ADA, "driver.cuda": cuda, "driver.nvidia": driver}
    assert sorted(set(codes(it, known))) == expected


def test_a_newer_minor_release_of_cuda_is_a_warning() -> None:
    got = judge_engine(floors(default=Floor(cuda="12.9")), {**ADA, "driver.cuda": "12.4"}, None, None, Workload())
    assert got.reasons == ()
    assert "minor version compatibility" in got.warnings[0].text


RADEON = {"os": "linux", "gpu.vendor": "amd", "gpu.gfx": "gfx1030"}


def test_gfx_lists() -> None:
    it = floors(default=Floor(amd_gfx=("gfx942", "gfx1100"), amd_gfx_windows=("gfx1030",)))
    assert codes(it, RADEON) == ["gfx_not_listed"]
    assert codes(it, {**RADEON, "gpu.gfx": "gfx1100"}) == []
    assert codes(it, {**RADEON, "gpu.gfx": "gfx1030,gfx1100"}) == ["gfx_not_listed"], "every card must be listed"
    assert codes(it, {**RADEON, "os": "windows"}) == ["os_unsupported"], "Windows has its own list"
    with_vulkan = engine(
        floors={"rocm": Floor(amd_gfx=("gfx942",))}, images=(ContainerImage(lane="vulkan", repository="r", tag="t"),)
    )
    got = judge_engine(with_vulkan, RADEON, None, None, Workload())
    assert got.reasons == ()
    assert "Vulkan" in got.warnings[0].text


def test_versions_of_the_system_architectures_and_generations() -> None:
    it = floors(
        default=Floor(os_version={"linux": "22.04"}, arch={"linux": ("arm64",)}, generations=("ampere", "hopper"))
    )
    got = codes(it, {**ADA, "os.version": "20.04", "arch": "x86_64"})
    assert got == ["os_unsupported", "vendor_not_supported", "vendor_not_supported"]
    fine = {**ADA, "os.version": "22.04.1", "arch": "arm64", "gpu.generation": "ampere"}
    assert codes(it, fine) == []
    assert codes(it, {**RADEON, "gpu.generation": "rdna2"}) == [], "a list of NVIDIA generations says nothing of AMD"


def test_another_python_is_a_warning() -> None:
    it = floors(default=Floor(python=">=3.11,<3.15"), rocm=Floor(python="==3.12.*"))
    assert [w.code for w in judge_engine(it, {**ADA, "python": "3.10.2"}, None, None, Workload()).warnings] == [
        "python_version"
    ]
    assert judge_engine(it, {**ADA, "python": "3.11"}, None, None, Workload()).warnings == ()
    got = judge_engine(it, {**RADEON, "python": "3.11"}, None, None, Workload())
    assert [w.code for w in got.warnings] == ["python_version"]


@pytest.mark.parametrize(
    ("specifier", "version", "expected"),
    [
        (">=3.11,<3.15", "3.14.9", True),
        (">=3.11,<3.15", "3.15.0", False),
        (">=3.11", "3.9", False),
        ("==3.12.*", "3.12.4", True),
        ("==3.12.*", "3.11.9", False),
        ("~=3.11", "3.11", None),
        (">=3.11", "newest", None),
    ],
)
def test_python_specifiers(specifier: str, version: str, expected: bool | None) -> None:
    assert python_matches(specifier, version) is expected


def test_formats() -> None:
    assert codes(engine(), ADA, workload=Workload(checkpoint_format="gguf")) == ["format_not_loadable"]
    assert codes(engine(), ADA, workload=Workload(checkpoint_format="mlx")) == [], "not in the entry: unknown"
    both = codes(engine(), ADA, quantization=quantization("Q4_K_M", "gguf_kquants", "gguf"))
    assert both == ["format_not_loadable", "quantization_not_supported"]


ROWS = (
    QuantOnHardware(quantization="awq", generation="ampere", level="weight_only"),
    QuantOnHardware(quantization="awq", generation="blackwell", level="no", note="empty row"),
    QuantOnHardware(quantization="nvfp4", generation="blackwell_dc", level="native"),
    QuantOnHardware(quantization="nvfp4", generation="hopper", level="weight_only"),
)


@pytest.mark.parametrize(
    ("name", "generation", "expected"),
    [
        ("awq", "ampere", []),
        ("awq", "blackwell_rtx", ["quantization_not_supported"]),  # the row of the family counts
        ("awq", "ada", []),  # supported in general, this generation not listed: a warning
        ("nvfp4", "blackwell_dc", []),
        ("nvfp4", "hopper", []),
        ("nvfp4", "ada", ["quantization_not_supported"]),  # partial, and the list says where
    ],
)
def test_quantization_on_a_generation(name: str, generation: str, expected: list[str]) -> None:
    it = engine(quantization_on=ROWS)
    known = {**ADA, "gpu.generation": generation}
    assert codes(it, known, quantization=quantization(name.upper(), name)) == expected
    warned = [w.code for w in judge_engine(it, known, quantization(name.upper(), name), None, Workload()).warnings]
    assert ("weight_only" in warned) is (name == "nvfp4" and generation == "hopper")


def test_features_that_the_workload_needs() -> None:
    assert codes(engine(), ADA, workload=Workload(structured_output=True)) == ["feature_missing"]
    assert codes(engine(), ADA, workload=Workload(tool_calling=True)) == [], "unknown never refuses"
    assert codes(engine(), ADA, workload=Workload(use_case="embeddings")) == ["feature_missing"]
    embedder = Model(id="m", family="m", kind="embedding", params_total=1)
    assert codes(engine(), ADA, model=embedder) == ["feature_missing"]
    assert codes(engine(), ADA, requires=["multi_node"]) == ["feature_missing"]
    assert codes(engine(), {**ADA, "model.only_transformers": True}) == ["feature_missing"]


def test_kinds_that_must_be_asked_for() -> None:
    cloud, remote = (
        engine(id="cloud-api", kind="client", remote="hosted"),
        engine(id="remote-openai", kind="client", remote="endpoint"),
    )
    windows = {"os": "windows", "gpu.vendor": "none"}
    assert codes(cloud, windows) == ["not_asked_for"]
    assert codes(cloud, windows, workload=Workload(cloud="allowed")) == []
    assert codes(cloud, windows, workload=Workload(cloud="forbidden")) == ["data_policy"]
    assert codes(cloud, windows, workload=Workload(cloud="forbidden"), asked=["cloud-api"]) == ["data_policy"]
    assert codes(remote, windows) == ["not_asked_for"]
    assert codes(remote, windows, workload=Workload(endpoint="http://x")) == []
    orchestrator = engine(kind="orchestrator")
    assert codes(orchestrator, ADA) == ["not_asked_for"]
    assert codes(orchestrator, {**ADA, "nodes": 2}) == []
    assert codes(orchestrator, ADA, asked=["e"]) == []
    assert codes(engine(kind="proxy"), ADA) == ["not_asked_for"]
    assert codes(engine(kind="proxy"), {**ADA, "workload.models": 2}) == []


SUPPORT = st.sampled_from(["partial", "unknown", "yes", "n/a"]).map(lambda s: Support(support=s))  # type: ignore[arg-type]  # sampled strings


@given(
    st.dictionaries(st.sampled_from(["linux", "windows", "macos"]), SUPPORT),
    st.dictionaries(st.sampled_from(["nvidia", "amd", "cpu", "apple_metal"]), SUPPORT),
    st.dictionaries(st.sampled_from(["gguf", "hf_safetensors"]), SUPPORT),
    st.sampled_from(["linux", "windows", "macos", None]),
    st.sampled_from(["nvidia", "amd", "none", "apple", "intel", None]),
)
def test_only_a_no_refuses(os: Any, hardware: Any, formats: Any, system: str | None, vendor: str | None) -> None:
    it = engine(os=os, hardware=hardware, formats=formats, features={}, quantization={})
    known = {**dict.fromkeys(FIELDS), "os": system, "gpu.vendor": vendor}
    workload = Workload(checkpoint_format="gguf", structured_output=True)
    assert judge_engine(it, known, None, None, workload).reasons == ()


# the catalogue's own entries: (facts, workload, engine, code or None, a word of the text)
LINUX = {"os": "linux", "arch": "x86_64", "nodes": 1}
P40 = {**LINUX, "gpu.vendor": "nvidia", "gpu.compute_capability": 6.1, "gpu.generation": "pascal"}
V100 = {**LINUX, "gpu.vendor": "nvidia", "gpu.compute_capability": 7.0, "gpu.generation": "volta"}
MI100 = {**LINUX, "gpu.vendor": "amd", "gpu.gfx": "gfx908", "gpu.generation": "cdna1"}
XTX = {**LINUX, "gpu.vendor": "amd", "gpu.gfx": "gfx1100", "gpu.generation": "rdna3"}
MAC = {"os": "macos", "arch": "arm64", "gpu.vendor": "apple", "gpu.generation": "apple"}
REAL: list[tuple[dict[str, Any], Workload, str, str | None, str]] = [
    (P40, Workload(), "vllm", "compute_capability_below_floor", "7.5"),
    (P40, Workload(), "sglang", "compute_capability_below_floor", "6.1"),
    (P40, Workload(), "llama.cpp", None, ""),
    (V100, Workload(), "vllm", "compute_capability_below_floor", "7.0"),
    (V100, Workload(), "lmdeploy", None, ""),
    (V100, Workload(checkpoint_format="gguf"), "lmdeploy", "format_not_loadable", "gguf"),
    ({**ADA, "driver.cuda": "12.4"}, Workload(), "sglang", "cuda_runtime_too_old", "CUDA 13"),
    ({**ADA, "driver.cuda": "12.4"}, Workload(), "vllm", None, ""),
    ({**ADA, "os": "windows"}, Workload(), "vllm", "os_unsupported", "WSL"),
    ({**ADA, "os": "windows"}, Workload(), "ollama", None, ""),
    (MI100, Workload(), "vllm", "gfx_not_listed", "gfx908"),
    (MI100, Workload(), "sglang", "gfx_not_listed", "gfx908"),
    (MI100, Workload(), "tensorrt-llm", "vendor_not_supported", "AMD"),
    (MI100, Workload(), "llama.cpp", None, ""),
    (XTX, Workload(), "vllm", None, ""),
    (XTX, Workload(), "sglang", "gfx_not_listed", "gfx1100"),
    ({**LINUX, "gpu.vendor": "habana"}, Workload(), "vllm", None, ""),
    ({**LINUX, "gpu.vendor": "habana"}, Workload(), "llama.cpp", "vendor_not_supported", "Gaudi"),
    ({**LINUX, "gpu.vendor": "google"}, Workload(), "ollama", "vendor_not_supported", "TPU"),
    (MAC, Workload(), "tensorrt-llm", "vendor_not_supported", "Apple"),
    (MAC, Workload(structured_output=True), "mlx-lm", "feature_missing", "structured"),
    (MAC, Workload(vision=True), "mlx-lm", "feature_missing", "vision"),
    (MAC, Workload(checkpoint_format="mlx"), "llama.cpp", "format_not_loadable", "mlx"),
    (MAC, Workload(), "vllm-metal", None, ""),
    (ADA, Workload(), "tgi", "archived", "archived"),
    (ADA, Workload(api="anthropic"), "max", "feature_missing", "Anthropic"),
    ({**ADA, "os": "ios"}, Workload(), "ollama", "os_unsupported", "ios"),
    ({**LINUX, "gpu.vendor": "none"}, Workload(), "vllm-metal", "needs_accelerator", "Apple"),
]


@pytest.mark.parametrize(("known", "workload", "name", "code", "word"), REAL)
def test_the_catalogue_refuses_what_it_must(
    known: dict[str, Any], workload: Workload, name: str, code: str | None, word: str
) -> None:
    from advisor.catalog import catalog

    reasons = judge_engine(catalog().engine(name), known, None, None, workload).reasons
    if code is None:
        assert reasons == ()
    else:
        assert code in [r.code for r in reasons]
        assert word in " ".join(r.text for r in reasons if r.code == code)


def test_every_code_of_the_catalogue_is_a_known_one() -> None:
    from advisor.catalog import catalog

    for it in catalog().engines().values():
        for known in (P40, MI100, MAC, {"os": "browser"}, {"os": "windows", "gpu.vendor": "none"}):
            assert {r.code for r in judge_engine(it, known, None, None, Workload(cloud="forbidden")).reasons} <= set(
                REASON_CODES
            )
