"""The machine that a launch sees: the whole one, less what its container, its environment and its own settings hide.

Memory, speed and rules are asked about this machine. What is not known hides nothing, and is named.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from advisor.checks.knowledge import Knowledge
from advisor.checks.read.launch import Launch, LaunchSetup
from advisor.checks.read.recognise import is_for_processors, parse_image
from advisor.checks.read.unknown_words import find_placeholders, say_what_is_open
from advisor.checks.resolve.arguments import LaunchArguments
from advisor.deployment import Setting
from advisor.engines.device_choice import choose_devices
from advisor.machines.device_visibility import (
    apply_visibility,
    find_visible_positions,
    keep_devices,
    names_unknown_devices,
)
from advisor.machines.types import Device, Machine, Vendor
from advisor.record import Names, Value
from advisor.yaml_places import Text, make_text

RUNTIME_VARIABLE = "NVIDIA_VISIBLE_DEVICES"  # which container runtimes read, and nothing else
MASKS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
         "ONEAPI_DEVICE_SELECTOR")  # fmt: skip
RESOURCES: dict[str, Vendor] = {
    "nvidia.com/gpu": "nvidia", "amd.com/gpu": "amd", "gpu.intel.com": "intel", "intel.com/gpu": "intel",
}  # fmt: skip


class SeenMachine(Value, frozen=True):
    """A machine as a launch sees it, what hides devices of it or is not known to, and whether its devices are known by
    their places in the whole machine."""

    machine: Machine
    notes: Names = ()
    sure: bool = True


def find_seen_machine(
    launch: Launch, arguments: LaunchArguments, whole: Machine, knowledge: Knowledge, *, counted: bool
) -> SeenMachine:
    """The machine as the launch sees it.

    counted: the machine was made of the devices that the file hands over, so these are not taken out of it again.
    """
    given = SeenMachine(whole, sure=False) if counted else _hand_over(launch, whole, knowledge)
    masked = _apply_masks(launch, given.machine)
    chosen = _apply_settings(launch, arguments, masked.machine, knowledge)
    parts = (given, masked, chosen)
    return SeenMachine(chosen.machine, tuple(n for p in parts for n in p.notes), all(p.sure for p in parts))


def _hand_over(launch: Launch, whole: Machine, knowledge: Knowledge) -> SeenMachine:
    """The machine with the devices that a container, pod or job is given."""
    setup, mine = launch.setup, whole.usable_devices
    image = parse_image(setup.image, knowledge) if setup.image else None
    if image is not None and is_for_processors(image) and mine:
        return SeenMachine(keep_devices(whole, ()), (f"the image {setup.image} supports processors only",))
    variable = launch.env.get(RUNTIME_VARIABLE)
    notes: Names = ()
    if variable is not None and variable != "all":
        if setup.container and not (setup.gpu_all or setup.gpu_ids or setup.gpu_count is not None):
            return _name_out(whole, [d for d in mine if d.vendor == "nvidia"], variable, f"{RUNTIME_VARIABLE}=")
        by = "devices are handed over by other means" if setup.container else "only container runtimes read it"
        notes = (f"{RUNTIME_VARIABLE} has no effect here: {by}",)
    if setup.gpu_ids:
        return _name_out(whole, mine, make_text(",".join(setup.gpu_ids)), "", notes)
    kept = _count_out(setup, mine, whole)
    if kept is None:
        return SeenMachine(whole, notes, setup.gpu_all or not setup.container)
    if len(kept) == len(mine):
        return SeenMachine(whole, notes)
    return SeenMachine(keep_devices(whole, kept), (*notes, f"the launch is given {len(kept)} of {len(mine)} devices"))


def _name_out(whole: Machine, mine: Sequence[Device], value: Text, before: str, notes: Names = ()) -> SeenMachine:
    """The machine with the devices that a container runtime is given by number or id."""
    shown = f"{before}{value[:60]}"
    if value.unknown or find_placeholders(value) or names_unknown_devices(value, mine):
        return SeenMachine(
            whole, (*notes, f"which devices of this machine {shown} means is not known: all count"), False
        )
    kept = [mine[i] for i in find_visible_positions(value, mine)]
    if len(kept) == len(mine):
        return SeenMachine(whole, notes)
    told = f"{shown}: the launch is given {len(kept)} of {len(mine)} devices"
    return SeenMachine(keep_devices(whole, kept), (*notes, told))


def _count_out(setup: LaunchSetup, mine: Sequence[Device], whole: Machine) -> Sequence[Device] | None:
    """The devices that a count hands over: the first ones, as Docker does (moby, daemon/nvidia_linux.go). None where
    which ones is not known: unlike devices in a cluster, parts of devices, several nodes."""
    count, resource = setup.gpu_count, setup.gpu_resource
    several = (setup.nodes or 1) > 1 and whole.nodes == 1
    if not count or several or "ray" in setup.places or setup.gpu_fraction:
        return None
    vendor = find_resource_vendor(resource)
    if resource is not None and vendor is None:
        return None
    fitting = [d for d in mine if vendor in (None, d.vendor)]
    if len(fitting) < count:
        return mine
    unlike = len({(d.name, d.total_bytes) for d in fitting}) > 1
    return None if unlike and (setup.cluster or not setup.container) else fitting[:count]


def find_resource_vendor(resource: str | None) -> Vendor | None:
    """Whose whole devices a resource of Kubernetes counts; None for parts of them, and for others."""
    if resource is None or resource.endswith(("shared", "_tiles")):
        return None
    return next((v for k, v in RESOURCES.items() if resource.startswith(k)), None)


def _apply_masks(launch: Launch, machine: Machine) -> SeenMachine:
    """The machine with the devices that variables of the process leave."""
    masks: dict[str, str] = {}
    notes: list[str] = []
    for name in MASKS:
        word = launch.env.get(name)
        if word is None:
            continue
        if word.unknown:
            notes.append(f"{name} is {word[:60]}, and {say_what_is_open(word)}: no device counts as hidden by it")
        elif names_unknown_devices(word, machine.usable_devices):
            notes.append(f"which devices of this machine {name}={word[:60]} means is not known: all count")
        else:
            masks[name] = str(word)
    devices, hidden = apply_visibility(machine.devices, masks) if masks else (machine.devices, ())
    seen = replace(machine, devices=devices) if hidden else machine
    return SeenMachine(seen, (*notes, *hidden), not notes)


def _apply_settings(launch: Launch, arguments: LaunchArguments, machine: Machine, knowledge: Knowledge) -> SeenMachine:
    """The machine with the devices that the server's own settings leave."""
    entry = knowledge.rules.engines().get(launch.engine)
    if entry is None or entry.device_choice is None:
        return SeenMachine(machine)
    given: dict[str, Setting] = {}
    for name in sorted(entry.device_choice.names):
        argument = arguments.last(name)
        word = argument.value if argument is not None else launch.env.get(name)
        if word is None:
            continue
        if word.unknown or (argument is not None and argument.guard is not None):
            open_ = f"{name} is {word[:60]}, and {say_what_is_open(word)}: all devices count"
            return SeenMachine(machine, (open_,), False)
        given[name] = str(word)
    seen, notes = choose_devices(machine, given, entry)
    return SeenMachine(seen, notes, seen is not machine or not notes)
