"""Devices, and what engines ask about them: the answers that stand for drivers, in the names that engines use."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple


class _Mark:
    """A value that equals nothing else."""


UNKNOWN: Final = _Mark()
NOTHING: Final = _Mark()  # a block that ends without `return`; a question that is not about the device


class Capability(NamedTuple):
    """A compute capability; compared with pairs."""

    major: int = 0
    minor: int = 0


class Device(NamedTuple):
    """A card, or a processor: what engines ask about it. A capability of zero: it has none."""

    name: str
    platform: str  # cuda, rocm, xpu, cpu
    capability: Capability = Capability()

    @property
    def number(self) -> int | None:
        """Ten times the capability, as engines write it."""
        return self.capability.major * 10 + self.capability.minor if self.capability.major else None


def _amd(digits: str) -> Device:
    return Device(f"gfx{digits}", "rocm", Capability(int(digits[:-2]), int(digits[-2])))


def _nvidia(number: int) -> Device:
    return Device(f"sm{number}", "cuda", Capability(number // 10, number % 10))


DEVICES = (
    *map(_nvidia, (60, 61, 70, 75, 80, 86, 89, 90, 100, 103, 110, 120, 121)),
    *map(_amd, ("906", "90a", "942", "950", "1030", "1100", "1101", "1151", "1200", "1201")),
    Device("xpu", "xpu"),
    Device("cpu", "cpu"),
)
# what the maker's own image installs with the engine, for CUDA
INSTALLED = re.compile(r"has_(flashinfer\w*|nvidia_artifactory|deep_gemm|humming)|is_flashinfer_available")
Question = Callable[[Device, Any], Any]


def _family(*majors: int) -> Question:
    return lambda d, _: d.platform == "cuda" and d.capability.major in majors


def _pair(wanted: Any) -> Any:
    return divmod(wanted, 10) if isinstance(wanted, int) else wanted


# what functions of these names answer; the second value is their first argument
QUESTIONS: dict[str, Question] = {
    **dict.fromkeys(
        ("is_npu", "is_musa", "is_mps", "is_tpu", "is_out_of_tree", "is_rdna_aiter_enabled"), lambda d, _: False
    ),
    "is_cuda": lambda d, _: d.platform == "cuda",
    "is_rocm": lambda d, _: d.platform == "rocm",
    "is_hip": lambda d, _: d.platform == "rocm",
    "is_xpu": lambda d, _: d.platform == "xpu",
    "is_cpu": lambda d, _: d.platform == "cpu",
    "is_cuda_alike": lambda d, _: d.platform in ("cuda", "rocm"),
    "has_device_capability": lambda d, x: d.capability >= _pair(x),
    "is_device_capability": lambda d, x: d.capability == _pair(x),
    "is_device_capability_family": lambda d, x: d.capability.major == _pair(x)[0],
    "get_device_capability": lambda d, _: d.capability if d.capability.major else None,
    "_get_gcn_arch": lambda d, _: d.name if d.platform == "rocm" else "",
    "is_gfx95_supported": lambda d, _: d.name.startswith("gfx95"),
    "has_triton_kernels": lambda d, _: d.platform in ("cuda", "rocm"),
    "is_aiter_found": lambda d, _: d.platform == "rocm",
    "is_flash_attn_varlen_func_available": lambda d, _: d.platform in ("cuda", "xpu"),
    **dict.fromkeys(("is_sm90", "is_sm90_supported", "is_hopper_with_cuda_12_3"), _family(9)),
    **dict.fromkeys(("is_sm100", "is_sm100_supported"), _family(10)),
    **dict.fromkeys(("is_sm120", "is_sm120_supported"), _family(12)),
    **dict.fromkeys(("is_blackwell", "is_blackwell_supported"), _family(10, 12)),
}


def ask_device(name: str, args: Sequence[Any], device: Device) -> Any:
    """What a function that engines ask about the device answers; NOTHING for one that is none of these."""
    if INSTALLED.fullmatch(name):
        return device.platform == "cuda"
    return QUESTIONS[name](device, args[0] if args else UNKNOWN) if name in QUESTIONS else NOTHING
