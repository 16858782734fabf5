"""Prices and budgets: amounts in the unit of their field, offers of the card they name, costs that can be."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.advice.hardware.budget import BudgetRules
from advisor.lint.faults import Fault
from advisor.lint.house import House, RuleDocument, TableItem
from advisor.units import GIB

NAMED_TOLERANCE = 0.15  # live offers round sizes, and announce others than are sold (MI325X: 288 for 256)


def find_money_faults(house: House) -> Iterator[Fault]:
    """Amounts that cannot be, and offers of another card than their name says."""
    seen: dict[tuple[object, ...], TableItem] = {}
    for item in house.offers:
        yield from _offer(house, item)
        o = item.entry
        same = (o.provider, o.name, o.devices, o.region, o.tier, o.date)
        first = seen.setdefault(same, item)
        if first is not item:
            there = f"{first.place.file.shown}:{first.place.file.line(first.place.at)}"
            yield item.place.fault("duplicate_name", f"the same offer is in {there}")
    if "budgets.yaml" in house.documents:
        yield from _budgets(house.documents["budgets.yaml"])
    if "live-prices.yaml" in house.documents:
        yield from _live(house, house.documents["live-prices.yaml"])


def _offer(house: House, item: TableItem) -> Iterator[Fault]:
    o = item.entry
    if o.usd_per_hour is not None and o.usd_per_hour_spot is not None and o.usd_per_hour_spot > o.usd_per_hour:
        yield item.place.field("range", ("usd_per_hour_spot",), f"{o.usd_per_hour_spot:g} is above the price on demand")
    card = house.accelerators.get(o.accelerator or "")
    size = re.search(r"(\d+)\s?GB\b", o.name)
    whole = card.memory_bytes if card is not None and (card.memory_bytes or 1) % GIB == 0 else None
    if card is not None and size and whole and int(size[1]) * GIB != whole:
        problem = f"{o.accelerator} has {whole / GIB:g} GB, the offer's name says {size[1]}"
        yield item.place.field("contradiction", ("accelerator",), problem)


def _budgets(document: RuleDocument) -> Iterator[Fault]:
    place, b = document.place, document.value
    assert isinstance(b, BudgetRules)
    for currency, rate in b.rates.per_usd.items():
        if rate <= 0 or (currency == "USD" and rate != 1):
            problem = f"{rate:g} is not a number of {currency} for one US dollar"
            yield place.field("unit", ("rates", "per_usd", currency), problem)
    for i, host in enumerate(b.hosts):
        if host.price.high is not None and host.price.high < host.price.low:
            yield place.field("range", ("hosts", i, "price"), f"{host.price.high:g} is below {host.price.low:g}")
        if missing := [f for f in host.forms if f not in b.forms]:
            yield place.field("unknown_name", ("hosts", i, "forms"), f"{', '.join(missing)}: not among `forms`")
    for i, row in enumerate(b.tiers.rows):
        if row.up_to is not None and row.from_ is not None and row.from_ >= row.up_to:
            yield place.field("range", ("tiers", "rows", i), f"from {row.from_:g} is not below up_to {row.up_to:g}")
    if list(b.counts) != sorted(set(b.counts)) or any(n < 1 for n in b.counts):
        yield place.field("range", ("counts",), f"{list(b.counts)} do not rise from 1")


def _live(house: House, document: RuleDocument) -> Iterator[Fault]:
    """What live offers call a card ends with its memory in GB."""
    for name, accelerator in document.value.names.items():
        card = house.accelerators.get(accelerator)
        size = re.search(r" (\d+(?:\.\d+)?)$", name)
        if size is None:
            problem = f"{name!r} does not end with the memory in GB"
            yield document.place.field("wrong_value", ("names", name), problem)
        elif card is not None and card.memory_bytes:
            off = abs(float(size[1]) * GIB / card.memory_bytes - 1)
            if off > NAMED_TOLERANCE:
                problem = f"{accelerator} has {card.memory_bytes / GIB:g} GB, the name says {size[1]}"
                yield document.place.field("contradiction", ("names", name), problem)
