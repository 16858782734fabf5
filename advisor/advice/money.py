"""Amounts of money: `3000EUR`, `1500EUR/month`, and conversion by a dated rate."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from advisor.errors import BadInput
from advisor.near import near_matches
from advisor.record import Record

SIGNS = {"€": "EUR", "$": "USD", "£": "GBP"}
_AMOUNT = re.compile(
    r"(?P<sign>[€$£])?\s*(?P<number>\d[\d,_ ]*(?:\.\d+)?)\s*(?P<kilo>k)?\s*(?P<currency>[A-Za-z]{3}|[€$£])?"
    r"\s*(?:(?:/|\s+per\s+|\s+a\s+)\s*(?P<per>month|mo|m|hour|h|year|once))?",
    re.I,
)
Per = Literal["once", "month", "hour"]


class Money(Record, frozen=True, kw_only=True):
    """An amount, once or per month."""

    amount: float
    currency: str
    per: Per = "once"


def parse_money(text: str, option: str, rates: Mapping[str, float], per: Per = "once", adds: str = "--rate") -> Money:
    """An amount of money. `per` is what is meant when the text does not say. Raises BadInput.

    `adds` is what the asker adds an exchange rate with, for messages.
    """
    m = _AMOUNT.fullmatch(text.strip())
    if not m:
        raise BadInput(f"{option}: {text[:40]!r} is not an amount of money like 3000EUR or 1500EUR/month")
    currency = (m["currency"] or m["sign"] or "").upper()
    currency = SIGNS.get(currency, currency)
    if not currency:
        raise BadInput(f"{option}: say the currency: {m['number'].strip()}EUR, {m['number'].strip()}USD")
    check_currency(currency, rates, option, adds)
    amount = float(re.sub(r"[,_ ]", "", m["number"])) * (1000 if m["kilo"] else 1)
    if not 0 < amount < 1e12:
        raise BadInput(f"{option}: {text[:40]!r} is not an amount above zero")
    said = (m["per"] or "").lower()
    if said == "year":
        amount, said = amount / 12, "month"
    words: dict[str, Per] = {"month": "month", "mo": "month", "m": "month", "hour": "hour", "h": "hour", "once": "once"}
    return Money(amount=amount, currency=currency, per=words.get(said, per))


def check_currency(currency: str, rates: Mapping[str, float], where: str, adds: str = "--rate") -> str:
    """The currency. Raises BadInput for one without a rate; `adds` is what adds one."""
    if currency not in rates:
        there = f"{where}: no exchange rate for {currency!r}; there are {', '.join(rates)}"
        raise BadInput(f"{there}, and {adds} {currency[:3]}=… adds one.", near_matches(currency, rates))
    return currency


def convert_currency(amount: float, source: str, target: str, rates: Mapping[str, float]) -> float:
    """An amount in another currency; `rates` are units for one US dollar."""
    return amount if source == target else amount / rates[source] * rates[target]
