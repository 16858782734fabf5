"""The question of `advise hardware` from its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from advisor.advice import money
from advisor.advice.hardware_types import Ask, Rules
from advisor.advice.price_list import catalogue_prices, read_prices
from advisor.advice.workload import pairs, tokens, workload
from advisor.catalog import Catalog
from advisor.errors import BadInput
from advisor.machines.types import Machine

_NOT_ASKED = {
    "use_case": "chat", "output_tokens": None, "lora": 0, "priority": None, "endpoint": None,
    "structured_output": False, "shared_prefix": False, "allow_cloud": False,
}  # fmt: skip


def asked(given: Mapping[str, Any], machine: Machine | None, rules: Catalog, budget: Rules) -> Ask:
    """The question that the options describe. Raises BadInput, BadFile, UnknownName."""
    rates = _rates(given["rates"], budget)
    more = dict(pairs(given["more"], "--workload"))
    engine = given["engine"] or more.pop("engine", None)
    hours = _number(more.pop("hours_per_month", None), "hours_per_month") or given["hours"] or budget.hours_per_month
    decode = _number(more.pop("min_decode_tps", None), "min_decode_tps") or given["decode"]
    if hours <= 0 or hours > 744:
        raise BadInput(f"--hours: {hours:g} is not a number of hours a month (up to 744)")
    if given["context"] is not None:
        more["context"] = str(tokens(given["context"], "--context"))
    load = workload(
        {**_NOT_ASKED, "concurrency": given["users"], "context": None, "more": [f"{k}={v}" for k, v in more.items()]}
    )
    once = money.parse(given["budget"], "--budget", rates) if given["budget"] else None
    rent = money.parse(given["rent"], "--rent", rates, "month") if given["rent"] else None
    if once is not None and once.per != "once":
        raise BadInput("--budget is spent once; a monthly amount is --rent")
    if rent is not None and rent.per != "month":
        raise BadInput("--rent is an amount per month; an amount spent once is --budget")
    currency = (given["currency"] or (once or rent or money.Money(amount=1, currency="EUR")).currency).upper()
    money.known(currency, rates, "--currency")
    own = msgspec.structs.replace(budget, rates=rates)
    prices = (
        read_prices(given["prices"], rules, budget.counts, rates, hours)
        if given["prices"]
        else catalogue_prices(rules, budget.counts, budget.launched_from, (*budget.not_offered, *budget.not_sold_here))
    )
    if given.get("online"):
        if prices.closed:
            raise BadInput("--online and --prices exclude each other: a price file is a closed list")
        from advisor.advice.live_prices import live, with_live

        prices = with_live(prices, live(rules))
    return Ask(
        model=given["model"],
        workload=load,
        prices=prices,
        quantization=given["quant"],
        engine=rules.engine(engine).id if engine else None,
        budget=_in(once, currency, own),
        rent=_in(rent, currency, own),
        currency=currency,
        hours=hours,
        min_decode_tps=decode,
        ttft_s=given["ttft"],
        tpot_s=given["tpot"],
        eur_per_kwh=given["electricity"],
        duty=given["duty"],
        api_price=given["api_price"],
        machine=machine,
        sort=given["sort"],
        rates=rates,
    )


def _in(m: money.Money | None, currency: str, budget: Rules) -> money.Money | None:
    if m is None:
        return None
    return money.Money(amount=money.convert(m.amount, m.currency, currency, budget.rates), currency=currency, per=m.per)


def _rates(texts: tuple[str, ...], budget: Rules) -> dict[str, float]:
    rates = dict(budget.rates)
    for key, value in pairs(texts, "--rate"):
        rate = _number(value, "--rate")
        if not rate or not 0 < rate < 1e6 or len(key) != 3 or not key.isalpha():
            raise BadInput(f"--rate {key}={value}: wants a currency and units for one US dollar, like EUR=0.86")
        rates[key.upper()] = rate
    return rates


def _number(text: str | None, name: str) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"{name}: {text[:40]!r} is not a number") from None
