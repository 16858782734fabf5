"""What running bought hardware costs a month, and after how many hours of rent it has paid."""

from __future__ import annotations

from advisor.advice.hardware_candidate import WHOLE_COMPUTERS, HardwareSearch
from advisor.advice.price_list import DeviceOffer, convert_offer_price
from advisor.catalog.types import Accelerator


def find_power_cost(search: HardwareSearch, entry: Accelerator, n: int) -> float | None:
    """Electricity a month of a bought machine, in the asked currency; None where the board power is not known."""
    request, running_costs = search.request, search.budget.power
    if entry.tdp_watts is None:
        return None
    duty = running_costs.duty if request.duty is None else request.duty
    whole = entry.form in WHOLE_COMPUTERS
    load = entry.tdp_watts * n * running_costs.load_share
    idle = 0.15 * entry.tdp_watts if whole else running_costs.idle_watts_per_card * n
    host = 0.0 if whole else running_costs.host_watts
    kwh = (duty * load + (1 - duty) * idle + host) / 1000 * search.budget.hours_per_month
    cost = kwh * (running_costs.eur_per_kwh if request.eur_per_kwh is None else request.eur_per_kwh)
    rates = search.budget.rates
    return cost if request.currency == "EUR" else cost / rates["EUR"] * rates[request.currency]


def find_break_even(
    search: HardwareSearch, offer: DeviceOffer, price: float | None, n: int
) -> tuple[float | None, str | None]:
    """Hours of renting the same (or the same kind of) card that cost as much as buying it."""
    if price is None:
        return None, None
    table = search.rules.accelerators()
    own = table[offer.accelerator]
    rents = [r for r in search.request.prices.prices if r.per_hour is not None and r.kind != "spot"]
    same = [r for r in rents if r.accelerator == offer.accelerator]
    near = same or [r for r in rents if _alike(table[r.accelerator], own)]
    if not near:
        return None, None
    best = min(
        near, key=lambda r: convert_offer_price(r, r.per_hour, search.request.currency, search.budget.rates) or 0.0
    )
    hourly = convert_offer_price(best, best.per_hour, search.request.currency, search.budget.rates) or 0.0
    where = f" ({best.provider}, {best.date})" if best.provider else f" ({best.date})"
    return round(
        price / (hourly * n), 1
    ), f"{table[best.accelerator].name} at {hourly:.2f} {search.request.currency}/h{where}"


def _alike(one: Accelerator, other: Accelerator) -> bool:
    """The same chip in another form: architecture, memory and (within a fifth) bandwidth."""
    if (one.vendor, one.architecture, one.memory_bytes) != (
        other.vendor,
        other.architecture,
        other.memory_bytes,
    ) or not one.memory_bytes:
        return False
    if not one.bandwidth_gbs or not other.bandwidth_gbs:
        return False
    return abs(one.bandwidth_gbs - other.bandwidth_gbs) <= 0.2 * max(one.bandwidth_gbs, other.bandwidth_gbs)
