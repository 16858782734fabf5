"""A Machine in a file: written by `probe --save`, read back identically by `--machine`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from advisor.decoding import convert
from advisor.errors import BadFile
from advisor.files import parse_json, read_bytes
from advisor.machines.types import Machine

SCHEMA = 1
MAX_SNAPSHOT = 4 * 2**20
MAX_DEVICES = 4096


def save_snapshot(machine: Machine, path: Path | str, force: bool = False) -> None:
    """Write the snapshot as JSON. Raises BadFile when the file exists (without `force`) or cannot be written."""
    target = Path(path)
    data = msgspec.json.format(msgspec.json.encode(machine), indent=2) + b"\n"
    try:
        with target.open("wb" if force else "xb") as f:
            f.write(data)
    except FileExistsError:
        raise BadFile(target, "already exists; --force overwrites it") from None
    except OSError as e:
        raise BadFile(target, f"cannot be written: {e.strerror or e}") from None


def load_snapshot(path: Path | str) -> Machine:
    """The Machine of a snapshot. Raises BadFile (absent, not JSON, no snapshot, another schema, out of bounds)."""
    data = parse_json(read_bytes(path, MAX_SNAPSHOT), path)
    if not isinstance(data, dict) or "schema" not in data:
        raise BadFile(path, "is not a machine snapshot (`advise probe --save FILE` writes one)")
    if data["schema"] != SCHEMA:
        raise BadFile(path, f"has snapshot schema {str(data['schema'])[:20]!r}; this program reads schema {SCHEMA}")
    try:
        machine = convert(data, Machine)
    except msgspec.ValidationError as e:
        raise BadFile(path, f"is not a machine snapshot: {e}") from None
    for problem in _problems(machine):
        raise BadFile(path, f"is not a machine snapshot: {problem}")
    return machine


def _problems(machine: Machine) -> Iterator[str]:
    """Values that no machine has, first one only is shown."""
    if len(machine.devices) > MAX_DEVICES:
        yield f"{len(machine.devices)} devices"
    if not 1 <= machine.nodes <= 100_000:
        yield f"{machine.nodes} nodes"
    amounts: list[tuple[str, float | None]] = [
        ("memory.total_bytes", machine.memory.total_bytes),
        ("memory.available_bytes", machine.memory.available_bytes),
        ("memory.limit_bytes", machine.memory.limit_bytes),
        ("cpu.usable_cores", machine.cpu.usable_cores),
    ]
    for i, device in enumerate(machine.devices):
        capability = device.compute_capability
        if capability is not None and not re.fullmatch(r"\d{1,2}\.\d{1,2}", capability):
            yield f"devices[{i}].compute_capability is {capability[:40]!r}, no number like 8.9"
        for field in ("total_bytes", "free_bytes", "bandwidth_gbs", "power_limit_watts", "power_default_watts"):
            amounts.append((f"devices[{i}].{field}", getattr(device, field)))
    for name, value in amounts:
        if value is not None and not 0 <= value < 2**60:
            yield f"{name} is {value}"
