"""From a request for hardware to the question that is worked on: prices read, names and amounts resolved."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from advisor.advice.hardware import money
from advisor.advice.hardware.budget import load_budget_rules
from advisor.advice.hardware.prices import PriceList, catalogue_prices, read_prices
from advisor.advice.hardware_types import Ask, BudgetRules, HardwareRequest
from advisor.catalog import Catalog
from advisor.errors import BadInput

MOST_HOURS = 744  # of a month


def ask(request: HardwareRequest, rules: Catalog, called: Mapping[str, str] | None = None) -> Ask:
    """The question of a request. `called`: what the asker calls fields of the request, for messages.

    Raises BadInput, BadFile, UnknownName.
    """
    names = {f: f for f in HardwareRequest.__struct_fields__} | dict(called or {})
    _check_numbers(request, names)
    budget_rules = load_budget_rules(rules)
    rates = exchange_rates(request.exchange_rates, budget_rules, names["exchange_rates"])
    hours = hours_of_month(request.hours_per_month, budget_rules, names["hours_per_month"])
    if request.budget is not None and request.budget.per != "once":
        raise BadInput(f"{names['budget']} is spent once; a monthly amount is {names['rent']}")
    if request.rent is not None and request.rent.per != "month":
        raise BadInput(f"{names['rent']} is an amount per month; an amount spent once is {names['budget']}")
    first = request.budget or request.rent
    currency = (request.currency or (first.currency if first else "EUR")).upper()
    money.check_currency(currency, rates, names["currency"], names["exchange_rates"])
    return Ask(
        model=request.model,
        others=request.others,
        workload=request.workload,
        prices=_prices(request, rules, budget_rules, rates, hours, names),
        quantization=request.quantization,
        engine=rules.engine(request.engine).id if request.engine else None,
        budget=_in(request.budget, currency, rates),
        rent=_in(request.rent, currency, rates),
        currency=currency,
        hours=hours,
        min_decode_tps=request.min_decode_tps,
        ttft_s=request.ttft_s,
        tpot_s=request.tpot_s,
        eur_per_kwh=request.eur_per_kwh,
        duty=request.duty,
        api_price=request.api_price,
        machine=request.machine,
        sort=request.sort,
        rates=rates,
    )


ABOVE_ZERO = ("min_decode_tps", "ttft_s", "tpot_s", "api_price")


def _check_numbers(request: HardwareRequest, names: Mapping[str, str]) -> None:
    """Raises BadInput for a number that no target, price or share can be."""
    for field in ABOVE_ZERO:
        value = getattr(request, field)
        if value is not None and not 0 < value < math.inf:
            raise BadInput(f"{names[field]}: {value:g} is not a number above 0")
    for field, most in (("eur_per_kwh", math.inf), ("duty", 1.0)):
        value = getattr(request, field)
        if value is not None and not (0 <= value <= most and value < math.inf):
            raise BadInput(f"{names[field]}: {value:g} is not a number from 0" + (" to 1" if most == 1 else " on"))


def hours_of_month(asked: float | None, budget_rules: BudgetRules, name: str = "hours_per_month") -> float:
    """Hours a month that a rental runs: as asked, else as the rules have it. Raises BadInput."""
    hours = asked or budget_rules.hours_per_month
    if not 0 < hours <= MOST_HOURS:
        raise BadInput(f"{name}: {hours:g} is not a number of hours a month (up to {MOST_HOURS})")
    return hours


def exchange_rates(
    own: Mapping[str, float], budget_rules: BudgetRules, name: str = "exchange_rates"
) -> dict[str, float]:
    """Units of each currency for one US dollar: the rules' rates, and `own` before them. Raises BadInput."""
    rates = dict(budget_rules.rates)
    for currency, rate in own.items():
        if not 0 < rate < 1e6 or len(currency) != 3 or not currency.isalpha():
            raise BadInput(f"{name} {currency}={rate:g}: wants a currency and units for one US dollar, like EUR=0.86")
        rates[currency.upper()] = rate
    return rates


def _prices(
    request: HardwareRequest,
    rules: Catalog,
    budget_rules: BudgetRules,
    rates: Mapping[str, float],
    hours: float,
    names: Mapping[str, str],
) -> PriceList:
    if request.prices is not None:
        prices = read_prices(request.prices, rules, budget_rules.counts, dict(rates), hours)
    else:
        closed_out = (*budget_rules.not_offered, *budget_rules.not_sold_here)
        prices = catalogue_prices(rules, budget_rules.counts, budget_rules.launched_from, closed_out)
    if not request.online:
        return prices
    if prices.closed:
        raise BadInput(f"{names['online']} and {names['prices']} exclude each other: a price file is a closed list")
    from advisor.advice.hardware.prices import fetch_live_prices, replace_rentals

    return replace_rentals(prices, fetch_live_prices(rules))


def _in(amount: money.Money | None, currency: str, rates: Mapping[str, float]) -> money.Money | None:
    """The amount in another currency."""
    if amount is None:
        return None
    converted = money.convert_currency(amount.amount, amount.currency, currency, rates)
    return msgspec.structs.replace(amount, amount=converted, currency=currency)
