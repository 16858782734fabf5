"""From a request for hardware to the question that is worked on: prices read, names and amounts resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from msgspec.structs import replace

from advisor import money
from advisor.advice.effects import name_unused
from advisor.advice.hardware import prices as price_lists
from advisor.advice.hardware.budget import BudgetRules, load_budget_rules
from advisor.advice.hardware_types import Ask, HardwareAdvice
from advisor.advice.types import Advice
from advisor.advice.workload import SPELLINGS, build_workload
from advisor.catalog import Catalog
from advisor.errors import BadInput
from advisor.estimation import find_stated_machine
from advisor.machines.types import Machine
from advisor.questions import Asking, read_number
from advisor.questions.hardware import HardwareQuestion
from advisor.record import pick_fields
from advisor.session import Session

MOST_HOURS = 744  # of a month
AS_ASKED = (
    "quantization", "electricity_price", "duty", "sort", "api_price", "backend", "cards_only", "new_only", "ladder",
)  # fmt: skip


def answer_question(question: HardwareQuestion, session: Session, asking: Asking) -> HardwareAdvice:
    """What to buy or rent. Raises BadInput, BadFile, UnknownName."""
    from advisor.advice.hardware.options import find_hardware

    rules, machine = session.rules, find_stated_machine(question, session.rules, asking)
    asking = replace(asking, machine=machine)
    live = cache(price_lists.fetch_live_prices)  # asked once, however often the question is
    plans: dict[bytes, Advice] = {}

    def answer(asked: HardwareQuestion, on: Machine | None) -> HardwareAdvice:
        ask = resolve_question(asked, rules, replace(asking, machine=on), live)
        return find_hardware(ask, session, plans, asking.progress)

    return name_unused(question, answer(question, machine), asking, rules, answer)


def resolve_question(
    question: HardwareQuestion,
    rules: Catalog,
    asking: Asking,
    live: Callable[[Catalog], price_lists.LivePrices] = price_lists.fetch_live_prices,
) -> Ask:
    """The question with names and amounts resolved. Raises BadInput, BadFile, UnknownName."""
    names, budget_rules = asking.names, load_budget_rules(rules)
    model = question.model or next(iter(question.models), None)
    if question.model and question.models:
        raise BadInput(f"{names['model']} and {names['models']} exclude each other")
    if model is None and not (question.budget or question.rent or question.prices or question.ladder):
        raise BadInput(f"{names['model']} is missing: what should it run? Or {names['budget']}: what does that buy?")
    if question.ladder and question.rent:
        raise BadInput(f"{names['ladder']} is a row of amounts to spend once; {names['rent']} is one a month")
    question, more = _take_stated(question)
    rates = exchange_rates(question.exchange_rates, budget_rules, names["exchange_rates"])
    hours = hours_of_month(question.hours_per_month, budget_rules, names["hours_per_month"])
    budget, rent = (_read_amount(question, field, rates, names) for field in ("budget", "rent"))
    if budget is not None and budget.per != "once":
        raise BadInput(f"{names['budget']} is spent once; a monthly amount is {names['rent']}")
    if rent is not None and rent.per != "month":
        raise BadInput(f"{names['rent']} is an amount per month; an amount spent once is {names['budget']}")
    first = budget or rent
    currency = (question.currency or (first.currency if first else "EUR")).upper()
    money.check_currency(currency, rates, names["currency"], names["exchange_rates"])
    question = replace(question, full_length=question.full_length or question.context is not None)
    load = question if question.rate is not None else replace(question, concurrency=question.concurrency or 1)
    return Ask(
        model=model,
        others=question.models[1:],
        workload=build_workload(load, asking, question.trace, more),
        prices=_prices(question, rules, budget_rules, rates, hours, names, live),
        engine=rules.engine(question.engine).id if question.engine else None,
        budget=_in(budget, currency, rates),
        rent=_in(rent, currency, rates),
        currency=currency,
        hours=hours,
        machine=find_stated_machine(question, rules, asking),
        rates=rates,
        **pick_fields(question, *AS_ASKED),
    )


def _take_stated(question: HardwareQuestion) -> tuple[HardwareQuestion, dict[str, str]]:
    """(the question with those of its own fields that are given as fields of the workload, the workload's fields)."""
    more = dict(question.workload)
    engine = question.engine or more.pop("engine", None)
    hours, rate = (read_number(more.pop(n), n) if n in more else None for n in ("hours_per_month", "min_decode_tps"))
    if question.context is not None:  # the option wins here
        more = {k: v for k, v in more.items() if SPELLINGS.get(k, k) != "context"}
    return replace(
        question,
        engine=engine,
        hours_per_month=hours or question.hours_per_month,
        target_tps=rate or question.target_tps,
    ), more


def _read_amount(
    question: HardwareQuestion, field: str, rates: Mapping[str, float], names: Mapping[str, str]
) -> money.Money | None:
    """A budget or a rent, which may be given as text. Raises BadInput."""
    amount: str | money.Money | None = getattr(question, field)
    if not isinstance(amount, str):
        return amount
    per: money.Per = "month" if field == "rent" else "once"
    return money.parse_money(amount, names[field], rates, per, names["exchange_rates"])


def hours_of_month(asked: float | None, budget_rules: BudgetRules, name: str) -> float:
    """Hours a month that a rental runs: as asked, else as the rules have it. Raises BadInput."""
    hours = asked or budget_rules.hours_per_month
    if not 0 < hours <= MOST_HOURS:
        raise BadInput(f"{name}: {hours:g} is not a number of hours a month (up to {MOST_HOURS})")
    return hours


def exchange_rates(own: Mapping[str, float], budget_rules: BudgetRules, name: str) -> dict[str, float]:
    """Units of each currency for one US dollar: the rules' rates, and `own` before them. Raises BadInput."""
    rates = dict(budget_rules.rates.per_usd)
    for currency, rate in own.items():
        if not 0 < rate < 1e6 or len(currency) != 3 or not currency.isalpha():
            raise BadInput(f"{name} {currency}={rate:g}: wants a currency and units for one US dollar, like EUR=0.86")
        rates[currency.upper()] = rate
    return rates


def _prices(
    question: HardwareQuestion,
    rules: Catalog,
    budget_rules: BudgetRules,
    rates: Mapping[str, float],
    hours: float,
    names: Mapping[str, str],
    live: Callable[[Catalog], price_lists.LivePrices],
) -> price_lists.PriceList:
    if question.prices is not None:
        prices = price_lists.read_prices(question.prices, rules, budget_rules.counts, dict(rates), hours)
    else:
        closed_out = (*budget_rules.not_offered, *budget_rules.not_sold_here)
        prices = price_lists.catalogue_prices(rules, budget_rules, closed_out)
    if question.new_only:
        prices = replace(prices, prices=tuple(p for p in prices.prices if p.kind != "used"))
    if not question.online:
        return prices
    if prices.closed:
        raise BadInput(f"{names['online']} and {names['prices']} exclude each other: a price file is a closed list")
    return price_lists.replace_rentals(prices, live(rules))


def _in(amount: money.Money | None, currency: str, rates: Mapping[str, float]) -> money.Money | None:
    """The amount in another currency."""
    if amount is None:
        return None
    converted = money.convert_currency(amount.amount, amount.currency, currency, rates)
    return replace(amount, amount=converted, currency=currency)
