"""Prices and budgets: amounts in the unit of their field, offers of the card they name, costs that can be."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.advice.hardware.budget import AXES, BudgetRules
from advisor.lint.faults import Fault
from advisor.lint.house import House, RuleDocument, TableItem
from advisor.units import GIB

PER_HOUR = (0.01, 200.0)  # US dollars of one device
DEVICE = (20.0, 500_000.0)  # of one device, any of the currencies here
NAMED_TOLERANCE = 0.15  # live offers round sizes, and announce others than are sold (MI325X: 288 for 256)
WATTS = (0, 20_000)


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
    for item in house.tables["accelerators"].values():
        price = item.entry.price
        for field, amount in (("low", price.low), ("high", price.high)) if price else ():
            if amount is not None and not DEVICE[0] <= amount <= DEVICE[1]:
                yield item.place.field("unit", ("price", field), f"{amount:g} is not a price of one device")
        for currency, amount in item.entry.msrp.items():
            if not DEVICE[0] <= amount <= DEVICE[1]:
                yield item.place.field("unit", ("msrp", currency), f"{amount:g} is not a price of one device")
    if "budgets.yaml" in house.documents:
        yield from _budgets(house.documents["budgets.yaml"])
    if "live-prices.yaml" in house.documents:
        yield from _live(house, house.documents["live-prices.yaml"])


def _offer(house: House, item: TableItem) -> Iterator[Fault]:
    o = item.entry
    for field in ("usd_per_hour", "usd_per_hour_spot"):
        amount = getattr(o, field)
        if amount is not None and not PER_HOUR[0] <= amount <= PER_HOUR[1]:
            yield item.place.field("unit", (field,), f"{amount:g} US dollars an hour are not a price of one device")
    if o.usd_per_hour is not None and o.usd_per_hour_spot is not None and o.usd_per_hour_spot > o.usd_per_hour:
        yield item.place.field("range", ("usd_per_hour_spot",), f"{o.usd_per_hour_spot:g} is above the price on demand")
    if o.devices is not None and not 1 <= o.devices <= 1024:
        yield item.place.field("unit", ("devices",), f"{o.devices} is not a number of devices")
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
    lists = {k for k, v in b.formats.items() if isinstance(v, tuple)}
    for axis in AXES:
        if axis not in lists or not isinstance(b.formats.get(f"why_{axis}"), str):
            yield place.field("missing_key", ("formats",), f"`{axis}` (a list) and `why_{axis}` (text) are needed")
    for i, row in enumerate(b.tiers.rows):
        if row.up_to is not None and row.from_ is not None and row.from_ >= row.up_to:
            yield place.field("range", ("tiers", "rows", i), f"from {row.from_:g} is not below up_to {row.up_to:g}")
    if list(b.counts) != sorted(set(b.counts)) or any(n < 1 for n in b.counts):
        yield place.field("range", ("counts",), f"{list(b.counts)} do not rise from 1")
    if not 600 <= b.hours_per_month <= 744:
        yield place.field("unit", ("hours_per_month",), f"{b.hours_per_month:g} hours are not a month")
    if not 0.01 <= b.power.eur_per_kwh <= 3:
        yield place.field("unit", ("power", "eur_per_kwh"), f"{b.power.eur_per_kwh:g} EUR are not a price of a kWh")
    for field in ("idle_watts_per_card", "host_watts"):
        watts = getattr(b.power, field)
        if not WATTS[0] <= watts <= WATTS[1]:
            yield place.field("unit", ("power", field), f"{watts:g} watts cannot be")


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
