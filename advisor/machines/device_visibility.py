"""Which devices a new process would see: CUDA_, HIP_, ROCR_, NVIDIA_VISIBLE_DEVICES, ZE_AFFINITY_MASK,
ONEAPI_DEVICE_SELECTOR.

The management libraries (NVML, sysfs) ignore these variables, so the probe applies them. Nothing here reads anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from advisor.machines.types import Device, Machine

NO_NVIDIA = ("void", "none")  # NVIDIA_VISIBLE_DEVICES of the container runtime
# variables that show a process only some devices, by the vendor of these
VISIBLE = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "HIP_VISIBLE_DEVICES", "intel": "ZE_AFFINITY_MASK"}
NOTHING_VISIBLE = ("", "-1", "nodevfiles", *NO_NVIDIA)  # values that are meant to hide everything
# an ONEAPI_DEVICE_SELECTOR of one term by number (intel/llvm, sycl/doc/EnvironmentVariables.md)
_ONE_TERM = r"(?:level_zero|opencl|\*):(\d+(?:,\d+)*)"
MIG_NOTE = "MIG: a process sees one slice only, so a model must fit one slice"


def apply_visibility(devices: Sequence[Device], env: Mapping[str, str]) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    """`devices` with `visible` set by the environment, and notes on what was hidden and why."""
    out = list(devices)
    notes: list[str] = []
    vendors = {d.vendor for d in out}
    if "nvidia" in vendors:
        if env.get("NVIDIA_VISIBLE_DEVICES") in NO_NVIDIA:
            _hide(out, "nvidia", set(), notes, f"NVIDIA_VISIBLE_DEVICES={env['NVIDIA_VISIBLE_DEVICES']}")
        _mask(out, "nvidia", env, "CUDA_VISIBLE_DEVICES", notes)
        _cuda_order(out, env, notes)
        _keep_one_slice(out, env, notes)
    if "amd" in vendors:
        _mask(out, "amd", env, "ROCR_VISIBLE_DEVICES", notes)
        # HIP takes CUDA_VISIBLE_DEVICES when HIP_VISIBLE_DEVICES is unset
        second = "HIP_VISIBLE_DEVICES"
        if second not in env and "nvidia" not in vendors:
            second = "CUDA_VISIBLE_DEVICES"
        _mask(out, "amd", env, second, notes)
    if "intel" in vendors:
        _mask(out, "intel", env, "ZE_AFFINITY_MASK", notes)
        selector = re.fullmatch(_ONE_TERM, env.get("ONEAPI_DEVICE_SELECTOR", "").strip())
        if selector is not None:
            _mask(out, "intel", {"ONEAPI_DEVICE_SELECTOR": selector[1]}, "ONEAPI_DEVICE_SELECTOR", notes)
    return tuple(out), tuple(notes)


def keep_devices(machine: Machine, kept: Sequence[Device]) -> Machine:
    """The machine as a process sees it that is given only these devices of it."""
    chosen = {id(d) for d in kept}
    devices = (d if id(d) in chosen else msgspec.structs.replace(d, visible=False) for d in machine.devices)
    return msgspec.structs.replace(machine, devices=tuple(devices))


def names_unknown_devices(value: str, devices: Sequence[Device]) -> bool:
    """Whether what a visible-devices value hides is not known: it names an id, and that of some device is not known,
    it begins with what none of these has, or counts farther than these."""
    if re.fullmatch(r"(level_zero|opencl|\*):(gpu|\*)", value.strip()):
        return False
    selector = re.fullmatch(_ONE_TERM, value.strip())
    items = [item.strip() for item in (selector[1] if selector else value).split(",")]
    by_id = any(_position(x, devices) is None and x.startswith(("GPU-", "MIG-")) for x in items)
    if by_id and any(d.uuid is None for d in devices):
        return True
    if any(x.isdecimal() and _position(x, devices) is None for x in items):
        return True
    return _position(items[0], devices) is None and items[0].lower() not in NOTHING_VISIBLE


def list_mig_uuids(env: Mapping[str, str]) -> tuple[str, ...]:
    """MIG device names in the environment, which a container may only query by that name."""
    found: dict[str, None] = {}
    for variable in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        for item in env.get(variable, "").split(","):
            if item.strip().startswith("MIG-"):
                found[item.strip()] = None
    return tuple(found)[:64]


def find_visible_positions(value: str, devices: Sequence[Device]) -> list[int]:
    """Positions in `devices` that a visible-devices value names, as the CUDA runtime reads it.

    Indices or unique UUID prefixes, comma-separated; empty = none; the first unusable entry (-1, unknown, ambiguous)
    hides itself and all after it; an entry named twice hides everything.
    """
    picked: list[int] = []
    for item in value.split(","):
        position = _position(item.strip(), devices)
        if position is None:
            break
        if position in picked:
            return []
        picked.append(position)
    return picked


def _position(item: str, devices: Sequence[Device]) -> int | None:
    if item.isdecimal() and len(item) < 6:
        return int(item) if int(item) < len(devices) else None
    head = item.split(".")[0]  # ZE_AFFINITY_MASK names tiles as 0.1
    if head.isdecimal() and head != item and len(head) < 6:
        return int(head) if int(head) < len(devices) else None
    if len(item) < 5 or not item.startswith(("GPU-", "MIG-")):
        return None
    named = [i for i, d in enumerate(devices) if d.uuid is not None and d.uuid.lower().startswith(item.lower())]
    return named[0] if len(named) == 1 else None


def _mask(out: list[Device], vendor: str, env: Mapping[str, str], variable: str, notes: list[str]) -> None:
    """Apply one variable to the devices of one vendor that are still visible."""
    if variable not in env:
        return
    value = env[variable]
    mine = [i for i, d in enumerate(out) if d.vendor == vendor and d.visible and not d.driver_missing]
    picked = {mine[p] for p in find_visible_positions(value, [out[i] for i in mine])}
    shown = value if len(value) <= 60 else value[:57] + "..."
    _hide(out, vendor, picked, notes, f"{variable}={shown!r}")


def _hide(out: list[Device], vendor: str, keep: set[int], notes: list[str], why: str) -> None:
    gone = [i for i, d in enumerate(out) if d.vendor == vendor and d.visible and i not in keep]
    for i in gone:
        out[i] = msgspec.structs.replace(out[i], visible=False)
    if gone:
        notes.append(f"{why} hides {len(gone)} of {sum(d.vendor == vendor for d in out)} {vendor} devices")


def _cuda_order(out: Sequence[Device], env: Mapping[str, str], notes: list[str]) -> None:
    """CUDA numbers unlike cards by speed, NVML by bus: an index may mean another card than it seems."""
    value = env.get("CUDA_VISIBLE_DEVICES", "")
    cards = {d.name for d in out if d.vendor == "nvidia" and d.mig_profile is None}
    by_index = any(item.strip().isdecimal() for item in value.split(","))
    if by_index and len(cards) > 1 and env.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        notes.append("CUDA_VISIBLE_DEVICES counts unlike cards by speed: set CUDA_DEVICE_ORDER=PCI_BUS_ID or use UUIDs")


def _keep_one_slice(out: list[Device], env: Mapping[str, str], notes: list[str]) -> None:
    """CUDA gives a process one MIG device: the first that is named, else the first there is."""
    slices = [i for i, d in enumerate(out) if d.mig_profile is not None and d.visible and d.vendor == "nvidia"]
    if not slices:
        return
    notes.append(MIG_NOTE)
    named = find_visible_positions(env.get("CUDA_VISIBLE_DEVICES", ""), [out[i] for i in slices])
    keep = slices[named[0]] if named else slices[0]
    for i in slices:
        if i != keep:
            out[i] = msgspec.structs.replace(out[i], visible=False)
