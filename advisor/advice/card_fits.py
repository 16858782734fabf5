"""What a deployment fits on: common cards, one, two, four and eight of each."""

from __future__ import annotations

import msgspec

from advisor import engines
from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.match import usable_capacity_bytes
from advisor.catalog.types import Accelerator, Engine, Quantization
from advisor.decoding import convert
from advisor.deployment import Deployment, MemoryEstimate
from advisor.errors import AdvisorError, BadInput
from advisor.estimation import estimate_memory
from advisor.machines.types import Device, Machine, Vendor
from advisor.meanings import AcceleratorId
from advisor.planning.layouts import spread_over_cards
from advisor.record import Record


class CardFit(Record, frozen=True, kw_only=True):
    """Whether the deployment fits on a number of one card. None = too close to call."""

    hardware: str
    memory_bytes: int
    fits: bool | None
    assumed: bool  # the usable memory is derived from the nominal size


class CardsFile(msgspec.Struct, frozen=True):
    """rules/cards.yaml."""

    source: str
    as_of: str
    counts: list[int]
    accelerators: list[AcceleratorId]


def estimate_at(
    deployment: Deployment, length: int, entry: Engine, quantization: Quantization, rules: Catalog
) -> MemoryEstimate:
    module, inner = engines.find_engine_module(entry.id, rules.engines())
    return estimate_memory(msgspec.structs.replace(deployment, context_length=length), module, inner, quantization)


def find_card_fits(
    deployment: Deployment, length: int, entry: Engine, quantization: Quantization, now: MemoryEstimate, rules: Catalog
) -> tuple[CardFit, ...]:
    """Common cards, one, two, four and eight of each: the smallest number that fits."""
    cards = decode_document(rules, "cards.yaml", CardsFile)
    weights = sum(r.weights_bytes or 0 for r in now.devices)
    out = []
    for name in cards.accelerators:
        card = rules.accelerators().get(name)
        if card is None:
            raise BadInput(f"rules/cards.yaml: {name} is not in the catalogue")
        size, basis = usable_capacity_bytes(card)
        if size is None:
            continue
        out.append(
            _smallest_number(
                deployment, length, entry, quantization, rules, card, size, basis == "assumed", cards.counts, weights
            )
        )
    return tuple(out)


def _smallest_number(
    deployment: Deployment,
    length: int,
    entry: Engine,
    quantization: Quantization,
    rules: Catalog,
    card: Accelerator,
    size: int,
    assumed: bool,
    counts: list[int],
    weights: int,
) -> CardFit:
    best: CardFit | None = None
    for n in counts:
        if n * size < weights:  # cannot hold even the weights
            best = CardFit(hardware=f"{n}x {card.name}", memory_bytes=n * size, fits=False, assumed=assumed)
            continue
        device = Device(
            index=0, name=card.name, vendor=_vendor(card), accelerator=card.id, total_bytes=size,
            compute_capability=card.compute_capability,
        )  # fmt: skip
        machine = Machine(source="text", devices=tuple(msgspec.structs.replace(device, index=i) for i in range(n)))
        placed = spread_over_cards(msgspec.structs.replace(deployment, machine=machine, settings={}), entry)
        try:
            fits = estimate_at(placed, length, entry, quantization, rules).fits
        except AdvisorError:
            fits = None
        found = CardFit(hardware=f"{n}x {card.name}", memory_bytes=n * size, fits=fits, assumed=assumed)
        if fits:
            return found
        if best is None or (fits is None and best.fits is False):
            best = found
    assert best is not None
    return best


def _vendor(card: Accelerator) -> Vendor:
    try:
        vendor: Vendor = convert(card.vendor, Vendor)
        return vendor
    except msgspec.ValidationError:
        return "unknown"
