"""What a node of a pool costs an hour: as the inventory says, as a price file says, or as clouds ask for its cards."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.advice.hardware.budget import load_budget_rules
from advisor.advice.hardware.prices import catalogue_prices, convert_offer_price, read_prices
from advisor.catalog import Catalog
from advisor.fleet.types import Fleet, Pool
from advisor.record import Value


class NodePrices(Value, frozen=True):
    """By group of pools: the price of one node an hour; groups without one are not in it."""

    by_group: Mapping[str, float]
    currency: str | None
    notes: tuple[str, ...]


def find_node_prices(fleet: Fleet, path: str | None, rules: Catalog) -> NodePrices:
    """The price of a node of each group. A price of the inventory comes first. Raises what `read_prices` raises."""
    budget = load_budget_rules(rules)
    if path is not None:
        offers = read_prices(path, rules, budget.counts, budget.rates, budget.hours_per_month).prices
        said = f"prices of {path}"
    else:
        offers = tuple(o for o in catalogue_prices(rules, budget.counts, budget.launched_from, ()).prices)
        said = "prices of cards as clouds rent them (advise hardware)"
    own = any(p.price_per_hour is not None for p in fleet.pools)
    currency = fleet.currency or ("USD" if not own else None)
    hourly: dict[str, float] = {}
    for offer in offers:
        if offer.per_hour is None or offer.kind == "spot" or currency is None:
            continue
        amount = convert_offer_price(offer, offer.per_hour, currency, budget.rates)
        if amount is not None:
            hourly[offer.accelerator] = min(amount, hourly.get(offer.accelerator, amount))
    groups: dict[str, list[Pool]] = {}
    for pool in fleet.pools:
        groups.setdefault(pool.group, []).append(pool)
    found: dict[str, float] = {}
    lacking, used = [], False
    for group, pools in groups.items():
        if pools[0].price_per_hour is not None:
            found[group] = pools[0].price_per_hour
            continue
        amounts = [_price_devices(p, hourly) for p in pools]
        known = [a for a in amounts if a is not None]
        if known and len(known) == len(amounts) and sum(known) > 0:
            found[group], used = sum(known), True
        else:
            lacking.append(pools[0].id)
    notes = [f"{said}: {currency} a card and hour"] if used else []
    if lacking:
        shown = ", ".join(lacking[:4]) + (f" and {len(lacking) - 4} more" if len(lacking) > 4 else "")
        notes.append(f"no price is known of nodes of {shown}: a plan that uses them has no cost")
    if not found:
        notes.append("no prices: the plan uses the fewest devices")
    return NodePrices(found, currency, tuple(notes))


def _price_devices(pool: Pool, hourly: Mapping[str, float]) -> float | None:
    """What renting the devices of a node costs; None where that is not known."""
    first = next(iter(pool.machine.usable_devices), None)
    amount = hourly.get(first.accelerator or "") if first is not None and first.mig_profile is None else None
    return pool.devices * amount if amount is not None else None
