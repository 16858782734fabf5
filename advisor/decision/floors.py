"""Hard floors of an engine (compute capability, gfx list, CUDA, driver, system) against the facts of a machine.

A floor entry named `default` binds every build of the engine; of the others (builds for CUDA 12, CUDA 13, ROCm)
one that can be met is enough.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from advisor.catalog.types import Engine, Floor
from advisor.decision.types import FactValues, parse_version
from advisor.record import Value


class FloorFinding(Value, frozen=True):
    """A floor that is missed (`hard`) or that deserves a warning."""

    hard: bool
    code: str
    variant: str
    field: str
    text: str
    src: tuple[str, ...]


def floor_findings(engine: Engine, facts: FactValues) -> Iterator[FloorFinding]:
    """Every floor of the engine that this machine misses, and warnings about builds that it cannot use."""
    yield from _system(engine, facts)
    vendor = facts.get("gpu.vendor")
    if vendor == "nvidia":
        yield from _capability(engine, facts)
        yield from _cuda(engine, facts)
    elif vendor == "amd":
        yield from _gfx(engine, facts)
    if isinstance(vendor, str):
        yield from _generation(engine, facts, vendor)
    yield from _python(engine, facts, vendor)


def is_below(have: str, floor: str) -> bool | None:
    """Whether one version is below another; None when either cannot be read."""
    try:
        return parse_version(have) < parse_version(floor)
    except ValueError:
        return None


def _judge(
    engine: Engine,
    stated_by: Callable[[Floor], object],
    missed: Callable[[Floor], bool | None],
    finding: Callable[[bool, str, Floor], FloorFinding],
) -> Iterator[FloorFinding]:
    """Hard when `default` is missed or every other variant is; a warning for each one missed while another holds."""
    stated = [variant for variant, floor in engine.floors.items() if stated_by(floor)]
    always, choice = [x for x in stated if x == "default"], [x for x in stated if x != "default"]
    for variant in always:
        if missed(engine.floors[variant]):
            yield finding(True, variant, engine.floors[variant])
            return
    failed = [variant for variant in choice if missed(engine.floors[variant])]
    all_failed = bool(choice) and len(failed) == len(choice) and not always
    for variant in failed[:1] if all_failed else failed:
        yield finding(all_failed, variant, engine.floors[variant])


def _capability(engine: Engine, facts: FactValues) -> Iterator[FloorFinding]:
    have = facts.get("gpu.compute_capability")
    if not isinstance(have, (int, float)):
        return

    def finding(hard: bool, variant: str, floor: Floor) -> FloorFinding:
        build = "" if variant == "default" else f" for a {variant} build"
        text = f"compute capability {have:.1f} is below {engine.name}'s floor {floor.nvidia_compute_capability}{build}"
        if not hard:
            least = floor.nvidia_compute_capability
            text = f"the {variant} build of {engine.name} starts at compute capability {least}"
            text += f", this card has {have:.1f}; take another build"
        code = "compute_capability_below_floor"
        return FloorFinding(hard, code, variant, "nvidia_compute_capability", text, floor.src)

    yield from _judge(
        engine,
        lambda f: f.nvidia_compute_capability,
        lambda f: have < float(f.nvidia_compute_capability or 0),
        finding,
    )
    for variant, floor in engine.floors.items():
        safe = floor.nvidia_safe_compute_capability
        low = floor.nvidia_compute_capability
        if safe and have < float(safe) and not (low and have < float(low)):
            text = f"compute capability {have:.1f} is below {safe}, from which {engine.name} is safe"
            text += f" ({floor.note})" if floor.note else ""
            yield FloorFinding(False, "below_safe_floor", variant, "nvidia_safe_compute_capability", text, floor.src)


def _cuda(engine: Engine, facts: FactValues) -> Iterator[FloorFinding]:
    cuda, driver = facts.get("driver.cuda"), facts.get("driver.nvidia")
    if isinstance(cuda, str):

        def finding(hard: bool, variant: str, floor: Floor) -> FloorFinding:
            major = str(floor.cuda).split(".")[0]
            text = f"{engine.name} needs a driver for CUDA {major} (CUDA {floor.cuda}), this one supports CUDA {cuda}"
            text += f"; {floor.note}" if floor.note else ""
            return FloorFinding(hard, "cuda_runtime_too_old", variant, "cuda", text, floor.src)

        # Within one CUDA major release a driver runs newer minor releases too (NVIDIA, minor version compatibility).
        yield from _judge(engine, lambda f: f.cuda, lambda f: _major(cuda) < _major(f.cuda or "0"), finding)
        for variant, floor in engine.floors.items():
            if floor.cuda and _major(cuda) == _major(floor.cuda) and is_below(cuda, floor.cuda):
                text = f"{engine.name} is built for CUDA {floor.cuda}, the driver supports {cuda}: it relies on "
                text += "minor version compatibility; a newer driver is safer"
                yield FloorFinding(False, "cuda_runtime_too_old", variant, "cuda", text, floor.src)
    if isinstance(driver, str):

        def driver_finding(hard: bool, variant: str, floor: Floor) -> FloorFinding:
            text = f"NVIDIA driver {driver} is older than {floor.driver}, which {engine.name} needs"
            return FloorFinding(hard, "cuda_runtime_too_old", variant, "driver", text, floor.src)

        yield from _judge(engine, lambda f: f.driver, lambda f: is_below(driver, f.driver or "0"), driver_finding)


def _major(version: str) -> int:
    m = re.match(r"\d+", version)
    return int(m[0]) if m else 0


def _gfx(engine: Engine, facts: FactValues) -> Iterator[FloorFinding]:
    have = facts.get("gpu.gfx")
    if not isinstance(have, str):
        return
    windows = facts.get("os") == "windows"
    field = "amd_gfx_windows" if windows else "amd_gfx"
    has_vulkan = any(i.lane == "vulkan" for i in engine.images) or "vulkan" in engine.floors

    def missed(floor: Floor) -> bool:
        listed = getattr(floor, field)
        return any(g not in listed for g in have.split(","))

    def finding(hard: bool, variant: str, floor: Floor) -> FloorFinding:
        listed = ", ".join(getattr(floor, field))
        text = f"{have} is not on {engine.name}'s ROCm list ({listed})"
        if has_vulkan:
            text += "; it runs by Vulkan instead"
        return FloorFinding(hard and not has_vulkan, "gfx_not_listed", variant, field, text, floor.src)

    yield from _judge(engine, lambda f: getattr(f, field), missed, finding)


def _generation(engine: Engine, facts: FactValues, vendor: str) -> Iterator[FloorFinding]:
    have = facts.get("gpu.generation")
    if not isinstance(have, str) or have == "mixed":
        return
    for variant, floor in engine.floors.items():
        mine = [g for g in floor.generations if vendor_of_generation(g) == vendor]
        if mine and have not in mine:
            text = (
                f"{engine.name} documents {vendor} generations {', '.join(mine)} only, this is {have} (not documented)"
            )
            text += f"; {floor.note}" if floor.note else ""
            yield FloorFinding(True, "vendor_not_supported", variant, "generations", text, floor.src)


def _system(engine: Engine, facts: FactValues) -> Iterator[FloorFinding]:
    system, version, arch = facts.get("os"), facts.get("os.version"), facts.get("arch")
    for variant, floor in engine.floors.items():
        oldest = floor.os_version.get(str(system))
        if oldest and isinstance(version, str) and is_below(version, oldest):
            text = f"{engine.name} needs {system} {oldest} or later, this is {version}"
            yield FloorFinding(True, "os_unsupported", variant, "os_version", text, floor.src)
        built = floor.arch.get(str(system), ())
        if built and isinstance(arch, str) and arch not in built:
            what = "Apple silicon (arm64)" if system == "macos" and built == ("arm64",) else ", ".join(built)
            text = f"{engine.name} on {system} runs on {what} only, this is {arch}"
            yield FloorFinding(True, "vendor_not_supported", variant, "arch", text, floor.src)


_VARIANTS_OF = {"amd": ("rocm",), "intel": ("xpu", "intel"), "nvidia": ("cuda", "cuda12", "cuda13")}


def _python(engine: Engine, facts: FactValues, vendor: object) -> Iterator[FloorFinding]:
    have = facts.get("python")
    if not isinstance(have, str):
        return
    for variant in ("default", *_VARIANTS_OF.get(str(vendor), ())):
        floor = engine.floors.get(variant)
        if floor and floor.python and python_matches(floor.python, have) is False:
            build = "" if variant == "default" else f" (its {variant} build)"
            text = f"{engine.name}{build} is for Python {floor.python}, this is {have}"
            text += f"; {floor.note}" if floor.note else ""
            yield FloorFinding(False, "python_version", variant, "python", text, floor.src)


def python_matches(specifier: str, version: str) -> bool | None:
    """Whether a Python version meets a specifier of the kinds `>=3.11,<3.15` and `==3.12.*`; None if it is unclear."""
    try:
        have = parse_version(version)
        for part in specifier.split(","):
            m = re.fullmatch(r"\s*(>=|<=|==|!=|<|>)\s*(\d+(?:\.\d+)*)(\.\*)?\s*", part)
            if not m:
                return None
            op, want = m[1], tuple(int(p) for p in m[2].split("."))
            near = have[: len(want)] if m[3] or op in ("==", "!=") else have
            met = {
                ">=": have >= want,
                "<=": have <= want,
                "==": near == want,
                "!=": near != want,
                "<": have < want,
                ">": have > want,
            }[op]
            if not met:
                return False
    except ValueError:
        return None
    return True


_NVIDIA_GENERATIONS = (
    (12.0, "blackwell_rtx"),
    (10.0, "blackwell_dc"),  # 11.0 (Jetson Thor) shares its tensor cores
    (9.0, "hopper"),
    (8.9, "ada"),
    (8.0, "ampere"),
    (7.5, "turing"),
    (7.0, "volta"),
    (6.0, "pascal"),
    (5.0, "maxwell"),
)


def nvidia_generation(capability: float | None) -> str | None:
    """Generation of a compute capability (NVIDIA's list of CUDA GPUs); None when unknown."""
    return next((name for floor, name in _NVIDIA_GENERATIONS if capability is not None and capability >= floor), None)


_AMD_GENERATIONS = (
    ("gfx908", "cdna1"),
    ("gfx90a", "cdna2"),
    ("gfx94", "cdna3"),
    ("gfx950", "cdna4"),
    ("gfx90", "gcn"),
    ("gfx80", "gcn"),
    ("gfx101", "rdna1"),
    ("gfx103", "rdna2"),
    ("gfx110", "rdna3"),
    ("gfx115", "rdna3_5"),
    ("gfx120", "rdna4"),
    ("gfx125", "cdna5"),
)


def amd_generation(gfx: str | None) -> str | None:
    """Generation of a gfx name (LLVM AMDGPU processor table); None when unknown."""
    return next((name for start, name in _AMD_GENERATIONS if gfx and gfx.startswith(start)), None)


def intel_generation(architecture: str | None) -> str | None:
    """Generation of an Intel architecture as the accelerator catalogue names it; None when unknown."""
    if not architecture:
        return None
    low = architecture.lower()
    if low.startswith(("xe2", "xe3")):
        return "xe2"
    if low.startswith(("xe-hpc", "generation 12.5")):
        return "xe_hpc"
    return "xe" if low.startswith("xe") else None


def listed_names(vendor: str | None, generation: str | None) -> tuple[str, ...]:
    """The names under which a `quantization_on` entry may mean this generation, narrow ones first."""
    if generation is None:
        return ()
    names = [generation]
    if generation.startswith("blackwell"):
        names.append("blackwell")
    if generation.startswith("cdna"):
        names += [f"amd_{generation}", "amd_cdna", "cdna"]
        if generation in ("cdna3", "cdna4"):
            names += ["amd_cdna3_plus", "amd_cdna3_4"]
    if generation.startswith("rdna"):
        names += [f"amd_{generation}", "amd_rdna", "rdna"]
    if generation.startswith("xe"):
        names += [f"intel_{generation}", "intel_gpu"]
    if generation == "cpu":
        names += ["x86_cpu"]
    if vendor in ("amd", "nvidia", "intel"):
        names.append(vendor)
    return tuple(names)


def vendor_of_generation(generation: str) -> str | None:
    """The vendor whose accelerators a generation is of."""
    if generation.startswith(("cdna", "rdna", "gcn")):
        return "amd"
    if generation in ("xe", "xe2", "xe_hpc"):
        return "intel"
    nvidia = ("maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell_dc", "blackwell_rtx")
    if generation in nvidia:
        return "nvidia"
    return {"apple": "apple", "gaudi": "habana", "tpu": "google", "neuron": "aws"}.get(generation)
