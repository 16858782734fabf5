"""What a model can be at best on a machine, before it is sized: whether its weights find room, and how fast at most."""

from __future__ import annotations

from advisor.catalog import Catalog
from advisor.catalog.compiled_rules import ModelRow
from advisor.machines.types import Machine
from advisor.record import Value
from advisor.speed.rates import UNKNOWN_HOST_GBS, device_bandwidth, machine_host_bandwidth

LEAST_BYTES = 0.5  # of a parameter in the narrowest format that is recommended unasked
USABLE_HOST = 0.9  # of host memory, where experts and layers can lie
HOST_SHARE = 0.5  # of the weights on the host that a token reads at least: attention and shared parts are put on cards


def find_room(machine: Machine) -> int | None:
    """Bytes that a model could take at most: the devices' and the host's; None when not even the devices' are known."""
    cards = card_bytes(machine)
    ram = machine.memory.usable_bytes
    if not machine.usable_devices:
        return ram
    if cards is None:
        return None
    return cards + (0 if is_unified(machine) else int(USABLE_HOST * (ram or 0)))


def may_fit(row: ModelRow, room: int) -> bool:
    """Whether the narrowest weights find room at all."""
    return not row.stub and row.params_total * LEAST_BYTES <= room


class FastestReads(Value, frozen=True):
    """What a machine's memories read a second at most, bytes; None where one is not known."""

    host: float
    cards: float | None
    card_bytes: int | None
    unified: bool
    alone: bool  # no device: the processor does all


def bound_reads(machine: Machine, rules: Catalog) -> FastestReads:
    """The bounds of a machine."""
    rates = [device_bandwidth(d, rules) for d in machine.usable_devices]
    return FastestReads(
        host=(machine_host_bandwidth(machine, rules) or UNKNOWN_HOST_GBS) * 1e9,
        cards=None if any(r is None for r in rates) else sum(r for r in rates if r is not None) * 1e9,
        card_bytes=card_bytes(machine),
        unified=is_unified(machine),
        alone=not rates,
    )


def fastest_decode(row: ModelRow, reads: FastestReads) -> float | None:
    """Tokens a second of one sequence that no engine exceeds: active weights at the full bandwidth of all memory they
    lie in. None where a card's bandwidth is not known."""
    active = (row.params_active or row.params_total) * LEAST_BYTES
    if reads.alone:
        return reads.host / active
    if reads.card_bytes is None or reads.cards is None:
        return None
    inside = min(1.0, reads.card_bytes / (row.params_total * LEAST_BYTES))
    elsewhere = 0.0 if reads.unified else active * (1 - inside) * HOST_SHARE / reads.host
    return 1 / (active * inside / reads.cards + elsewhere)


def card_bytes(machine: Machine) -> int | None:
    """Memory of all devices; None where one is not known."""
    totals = [d.total_bytes for d in machine.usable_devices]
    return None if any(t is None for t in totals) else sum(t for t in totals if t is not None) * machine.nodes


def is_unified(machine: Machine) -> bool:
    """Whether the devices share the host's memory."""
    return any(d.unified for d in machine.usable_devices)
