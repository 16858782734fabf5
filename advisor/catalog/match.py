"""Joins what a probe found with the catalogue: which Accelerator a Device is, which platform a processor is.

Order: PCI id (with subsystem), exact driver name, name pattern, gfx, GPU cores, nearest memory size, wording. Each step
only narrows what the steps before left; what stays ambiguous stays unknown and is stated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from advisor.catalog.types import Accelerator, CpuPlatform, Engine
from advisor.machines.installed_engines import KnownEngines
from advisor.machines.types import Cpu, Device, Machine
from advisor.units import GIB

USABLE_SHARE = 0.985  # of the nominal size where neither a driver's figure nor a twin's is known; seen: 0.982 to 1.000
MEMORY_TOLERANCE = 0.12  # a driver shows 0 to 7 percent less than nominal, an ECC card a little less again


def find_accelerators(device: Device, accelerators: Mapping[str, Accelerator]) -> list[Accelerator]:
    """All entries that fit the device equally well; one = known, none = not in the catalogue."""
    everything = [a for a in accelerators.values() if a.vendor == device.vendor]
    found = _filter_by_pci(device, everything)
    exact = _keep(found or everything, lambda a: device.name in a.reported_names)
    if found:
        found = exact or _keep(found, lambda a: fits_pattern(device.name, a)) or found
    else:
        found = exact or _keep(everything, lambda a: fits_pattern(device.name, a))
    if len(found) > 1 and device.gfx is not None:
        found = _keep(found, lambda a: a.gfx == device.gfx) or found
    if len(found) > 1 and device.gpu_cores is not None:
        found = _keep(found, lambda a: f"({device.gpu_cores}-core" in a.name) or found
    if len(found) > 1 and device.mig_profile is None and device.vendor != "apple":  # whose total is a share of the RAM
        found = _filter_by_memory(device, found)
    if len(found) > 1:
        found = _filter_by_words(device.name, found)
    return found


def join_catalogue(
    machine: Machine, accelerators: Mapping[str, Accelerator], cpu_platforms: Mapping[str, CpuPlatform]
) -> Machine:
    """The machine with every device joined to its entry and what the device did not tell filled in from it."""
    notes: list[str] = list(machine.notes)
    devices = tuple(_attached(d, machine, accelerators, notes) for d in machine.devices)
    cpu = machine.cpu
    if cpu.platform is None:
        cores = next((d.gpu_cores for d in devices if d.vendor == "apple"), None)
        platform = match_cpu(cpu, cpu_platforms, cores)
        cpu = msgspec.structs.replace(cpu, platform=platform.id if platform else None)
    return msgspec.structs.replace(machine, devices=devices, cpu=cpu, notes=tuple(dict.fromkeys(notes)))


MAKERS = {"GenuineIntel": "intel", "AuthenticAMD": "amd"}  # by what a processor says of itself


def match_cpu(cpu: Cpu, platforms: Mapping[str, CpuPlatform], gpu_cores: int | None = None) -> CpuPlatform | None:
    """The platform of a processor by its model name; None when the name does not tell (virtual machines hide it).

    `gpu_cores` distinguish Apple chips of one name.
    """
    if cpu.model is None:
        return None
    name = cpu.model[:200]
    # people leave out the marks that the operating system shows
    marked = re.sub(r"\bCore(?! ?\()", "Core(TM)", re.sub(r"\bXeon(?! ?\()", "Xeon(R)", name, flags=re.I), flags=re.I)
    maker = MAKERS.get(cpu.vendor or "")
    patterns = [(p, p.probe_pattern) for p in platforms.values() if p.probe_pattern and maker in (None, p.vendor)]
    found = [p for p, pattern in patterns if any(re.search(pattern, n, re.I) for n in (name, marked))]
    if len(found) > 1 and gpu_cores is not None:
        found = [p for p in found if f" {gpu_cores}-core" in p.platform] or found
    if not found:
        words = _words(name)
        found = [p for p in platforms.values() if any(_example(e, words) for e in (p.cpu_examples or "").split(","))]
    return found[0] if len(found) == 1 else None


def usable_capacity_bytes(entry: Accelerator) -> tuple[int | None, Literal["catalogue", "assumed"] | None]:
    """Bytes programs can use on one card: a driver's figure where known, else a share of the nominal size.

    The share is the entry's own, its twin's, or what most cards have.
    """
    if entry.usable_bytes is not None:
        return entry.usable_bytes, "catalogue"
    if entry.memory_bytes is not None:
        return int(entry.memory_bytes * (entry.usable_share or USABLE_SHARE)), "assumed"
    return None, None


def _attached(device: Device, machine: Machine, accelerators: Mapping[str, Accelerator], notes: list[str]) -> Device:
    if device.accelerator is not None:
        return device
    found = find_accelerators(device, accelerators)
    if len(found) != 1:
        note = f"{device.name}: not in the catalogue of accelerators"
        if found:
            note = f"{device.name}: may be {', '.join(a.name for a in found[:4])}; taken as none of them"
        notes.append(note)
        return msgspec.structs.replace(device, notes=(*device.notes, note))
    entry = found[0]
    total, basis = device.total_bytes, device.total_basis
    if total is None and not device.unified and not entry.unified and device.mig_profile is None:
        per_card, basis = usable_capacity_bytes(entry)
        total = per_card // entry.devices_per_card if per_card is not None else None
    elif total is None and entry.vendor == "apple" and machine.memory.total_bytes is not None:
        from advisor.machines.apple import default_working_set

        total, basis = default_working_set(machine.memory.total_bytes), "assumed"
    return msgspec.structs.replace(
        device,
        accelerator=entry.id,
        name=entry.name if re.search(r"\[\w{4}:\w{4}\]$", device.name) else device.name,
        total_bytes=total,
        total_basis=basis if total is not None else None,
        unified=device.unified or entry.unified,
        compute_capability=device.compute_capability or entry.compute_capability,
        gfx=device.gfx or entry.gfx,
    )


def _filter_by_pci(device: Device, entries: Sequence[Accelerator]) -> list[Accelerator]:
    """Entries with the device's PCI id; one written with its subsystem (`10de:2bb3:10de:227a`) wins where it fits."""
    if device.pci_id is None:
        return []
    full = f"{device.pci_id}:{device.pci_subsystem}"
    narrow = [a for a in entries if full in a.pci_ids]
    return narrow or [a for a in entries if device.pci_id in a.pci_ids]


def _keep(entries: Sequence[Accelerator], test: Callable[[Accelerator], bool]) -> list[Accelerator]:
    return [a for a in entries if test(a)]


def fits_pattern(name: str, entry: Accelerator) -> bool:
    """Whether an entry's pattern matches a driver's name."""
    return entry.name_pattern is not None and re.search(entry.name_pattern, name[:200], re.I) is not None


def _filter_by_words(name: str, entries: Sequence[Accelerator]) -> list[Accelerator]:
    """Entries that share most words with the driver's name and add fewest of their own (sizes do not count)."""
    words = _words(name)
    scores = {}
    for accelerator in entries:
        own = _words(accelerator.name)
        scores[accelerator.id] = (len(own & words), -len(own - words))
    best = max(scores.values())
    if best[0] == 0:
        return list(entries)
    return [a for a in entries if scores[a.id] == best]


def _words(name: str) -> set[str]:
    plain = re.sub(r"\(.*?\)|\b\d+(\.\d+)?\s?GB\b", " ", name, flags=re.I)
    return set(re.findall(r"[a-z0-9+]+", plain.lower()))


def _filter_by_memory(device: Device, entries: Sequence[Accelerator]) -> list[Accelerator]:
    """Entries nearest to the size the driver shows; all of them when the size tells nothing."""
    total = device.total_bytes
    if total is None:
        return list(entries)
    gaps = {a.id: _gap(total, a) for a in entries}
    known = [g for g in gaps.values() if g is not None]
    best = min(known, default=None)
    if best is None or best > MEMORY_TOLERANCE:
        return list(entries)
    near = [a for a in entries if gaps[a.id] is not None and abs((gaps[a.id] or 0.0) - best) < 0.01]
    return near or list(entries)


def _gap(total: int, entry: Accelerator) -> float | None:
    """Relative distance between a driver's total and an entry's size."""
    sizes = [s for s in (entry.usable_bytes, entry.memory_bytes) if s is not None]
    sizes += [int(gb * GIB) for gb in entry.memory_options_gb]
    return min((abs(total - s / entry.devices_per_card) / s * entry.devices_per_card for s in sizes), default=None)


def _example(example: str, words: set[str]) -> bool:
    """Whether a catalogue example (`8592+`, `Ryzen 9 7950X`) is named in full."""
    example_words = set(re.findall(r"[a-z0-9+]+", example.lower()))
    return bool(example_words) and any(re.search(r"\d{4}", w) for w in example_words) and example_words <= words


def find_known_engines(engines: Mapping[str, Engine]) -> KnownEngines:
    """What the probe looks for, from the `recognition` of every engine."""
    found = {e.id: e.recognition for e in engines.values()}
    return KnownEngines(
        programs={p: i for i, r in found.items() for p in r.installed_programs},
        packages=list_packages(engines),
        bindings=frozenset(p for r in found.values() for p, x in r.packages.items() if x.binding),
        version_programs={i: r.version_program for i, r in found.items() if r.version_program},
        builds={e.id: _versions_of_builds(e) for e in engines.values() if e.recognition.version_is_build},
    )


def list_packages(engines: Mapping[str, Engine]) -> dict[str, str]:
    """Python distribution (PEP 503 name) -> id of the engine that it brings."""
    return {p: e.id for e in engines.values() for p in e.recognition.packages}


def _versions_of_builds(entry: Engine) -> dict[str, str | None]:
    """Build -> version, of the builds that the entry names; None where it gives no version."""
    builds = entry.versions.get("builds")
    rows = builds.items() if isinstance(builds, Mapping) else ()
    versions = {str(b): x.get("version") for b, x in rows if isinstance(x, Mapping)}
    return {b: v if isinstance(v, str) else None for b, v in versions.items()}
