"""Whole machines by the names people know them by (rules/machines): servers, instance types, small computers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from advisor.decoding import convert
from advisor.errors import BadInput
from advisor.meanings import AcceleratorId, HardwareWords, SourceKey
from advisor.near import simplify_name
from advisor.record import Record


class NamedMachine(Record, frozen=True, kw_only=True):
    """One machine: what it holds, in the words of `--on`; or, for a line of products, the chips it is sold with."""

    names: tuple[str, ...]  # the first is the one shown
    hardware: HardwareWords | None = None  # `8x H100 80GB SXM, 2048GB RAM, 192 vCPUs`
    chips: tuple[AcceleratorId, ...] = ()  # the memory that is written tells which of them is meant
    memory_gb: dict[AcceleratorId, tuple[float, ...]] = {}  # sizes a chip has in this line, where fewer than elsewhere
    src: SourceKey
    notes: str | None = None


class MachinesFile(Record, frozen=True, kw_only=True):
    """One file of rules/machines."""

    as_of: str
    provider: str | None = None  # whose instance types these are; may stand before a name
    sources: dict[SourceKey, str]
    machines: tuple[NamedMachine, ...]


def index_machines(documents: Mapping[str, Any]) -> dict[str, NamedMachine]:
    """Machines by every simplified name, with and without the provider's. Raises BadInput for a file that is wrong."""
    index: dict[str, NamedMachine] = {}
    for path, document in documents.items():
        try:
            file = convert(document, MachinesFile)
        except msgspec.ValidationError as e:
            raise BadInput(f"rules/{path}: {e}") from None
        for machine in file.machines:
            for name in machine.names:
                index[simplify_name(name)] = machine
                if file.provider:
                    index[simplify_name(f"{file.provider} {name}")] = machine
    return index
