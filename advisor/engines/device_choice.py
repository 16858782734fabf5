"""Which of the devices that a server sees it takes, by its own settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from advisor.catalog.types import DeviceChoice, Engine
from advisor.deployment import Setting
from advisor.errors import BadInput
from advisor.machines.device_visibility import keep_devices
from advisor.machines.types import USUAL_BACKENDS, Device, Machine


def choose_devices(machine: Machine, settings: Mapping[str, Setting], entry: Engine) -> tuple[Machine, tuple[str, ...]]:
    """The machine with the devices that these settings leave, and what was left out or is not known: then the machine
    is as it was."""
    choice = entry.device_choice
    given = {k: str(v).strip() for k, v in settings.items() if choice is not None and k in choice.names}
    if choice is None or not given or not machine.usable_devices:
        return machine, ()
    mine = machine.usable_devices
    words = ", ".join(f"{k}={v}"[:60] for k, v in given.items())
    kept = _choose(mine, given, choice)
    if kept is None:
        return machine, (f"which of the {len(mine)} devices {words} means is not known: all count",)
    if len(kept) == len(mine):
        return machine, ()
    return keep_devices(machine, kept), (f"{words}: {len(kept)} of {len(mine)} devices are taken",)


def _choose(mine: Sequence[Device], given: Mapping[str, str], choice: DeviceChoice) -> list[Device] | None:
    """The devices that are taken; None where that is not known."""
    if any(given.get(name, "").lower() in values for name, values in choice.processor.items()):
        return []
    kept: list[Device] | None = list(mine)
    if choice.listed is not None and choice.listed in given:
        kept = _list_named(mine, given[choice.listed], choice)
    if kept is None or not any(given.get(name) in values for name, values in choice.single.items()):
        return kept
    index = given.get(choice.single_index or "", "0")
    if re.fullmatch(r"-\d{1,3}", index):
        return []
    return [kept[int(index)]] if re.fullmatch(r"\d{1,3}", index) and int(index) < len(kept) else None


def _list_named(mine: Sequence[Device], value: str, choice: DeviceChoice) -> list[Device] | None:
    """The devices of names like `CUDA0,CUDA2`; None for names that the machine has not."""
    found: list[Device] = []
    for name in value.split(","):
        m = re.fullmatch(r"([A-Za-z]+)(\d{1,3})", name.strip())
        vendor = choice.backends.get(m[1]) if m else None
        of = [d for d in mine if vendor in ("any", d.vendor)]
        if m is None or int(m[2]) >= len(of):
            return None
        found.append(of[int(m[2])])
    return [d for d in mine if d in found]


def read_backend(name: str, machine: Machine, entry: Engine) -> str:
    """The backend that was asked for, in lower case; `entry` is the engine that runs underneath.

    Raises BadInput for one that the engine has not for these devices.
    """
    vendors = {d.vendor for d in machine.usable_devices}
    named = entry.device_choice.backends if entry.device_choice else {}
    has = {n.lower() for n, v in named.items() if v == "any" or v in vendors}
    has = has or {USUAL_BACKENDS.get(v, v) for v in vendors}
    asked = name.strip().lower()
    if asked not in has:
        known = ", ".join(sorted(has)) or "none without an accelerator"
        raise BadInput(f"backend: {name[:40]!r} is none that {entry.name} has for these devices; it has {known}")
    return asked
