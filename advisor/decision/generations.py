"""Architecture generations of accelerators, and the names under which engine entries may list them."""

from __future__ import annotations


def nvidia_generation(capability: float | None) -> str | None:
    """Generation of a compute capability (NVIDIA's list of CUDA GPUs); None when unknown."""
    if capability is None:
        return None
    for floor, name in (
        (12.0, "blackwell_rtx"),
        (10.0, "blackwell_dc"),  # 11.0 (Jetson Thor) shares its tensor cores
        (9.0, "hopper"),
        (8.9, "ada"),
        (8.0, "ampere"),
        (7.5, "turing"),
        (7.0, "volta"),
        (6.0, "pascal"),
        (5.0, "maxwell"),
    ):
        if capability >= floor:
            return name
    return None


def amd_generation(gfx: str | None) -> str | None:
    """Generation of a gfx name (LLVM AMDGPU processor table); None when unknown."""
    if not gfx:
        return None
    for start, name in (
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
    ):
        if gfx.startswith(start):
            return name
    return None


def intel_generation(architecture: str | None) -> str | None:
    """Generation of an Intel architecture as the accelerator catalogue names it; None when unknown."""
    if not architecture:
        return None
    low = architecture.lower()
    if low.startswith("xe2"):
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
