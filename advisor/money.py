"""Amounts of money: `3000EUR`, `1500EUR/month`, and conversion by a dated rate."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from advisor.errors import BadInput
from advisor.near import near_matches
from advisor.record import Record

SIGNS = {"€": "EUR", "$": "USD", "£": "GBP", "EURO": "EUR", "EUROS": "EUR", "DOLLAR": "USD", "DOLLARS": "USD"}
_NAMES = r"[A-Za-z]{3}|[€$£]|euros?|dollars?"
_AMOUNT = re.compile(
    rf"(?P<before>{_NAMES})?\s*(?P<number>\d[\d.,_' ]*)(?P<kilo>k)?\s*(?P<after>{_NAMES})?"
    r"\s*(?:(?:/|\s*per\s+|\s*a\s+)\s*(?P<per>month|mo|m|hour|h|year|once)|(?P<monthly>monthly))?",
    re.I,
)
Per = Literal["once", "month", "hour"]


class Money(Record, frozen=True, kw_only=True):
    """An amount, once or per month."""

    amount: float
    currency: str
    per: Per = "once"


def parse_money(
    text: str, option: str, rates: Mapping[str, float], per: Per = "once", adds: str = "--exchange-rate"
) -> Money:
    """An amount of money. `per` is what is meant when the text does not say. Raises BadInput.

    `adds` is what the asker adds an exchange rate with, for messages.
    """
    m = _AMOUNT.fullmatch(text.strip())
    if not m:
        raise BadInput(f"{option}: {text[:40]!r} is not an amount of money like 3000EUR or 1500EUR/month")
    named = {SIGNS.get(c.upper(), c.upper()) for c in (m["before"], m["after"]) if c}
    if not named:
        bare = m["number"].strip() + (m["kilo"] or "")
        raise BadInput(f"{option}: say the currency: {bare}EUR, {bare}USD", (f"{bare}EUR", f"{bare}USD"))
    if len(named) > 1:
        raise BadInput(f"{option}: {text[:40]!r} names two currencies")
    currency = named.pop()
    check_currency(currency, rates, option, adds)
    value = parse_number(m["number"], bool(m["kilo"]))
    if value is None:
        raise BadInput(f"{option}: {text[:40]!r} is not an amount of money like 3000EUR or 1500EUR/month")
    amount = value * (1000 if m["kilo"] else 1)
    if not 0 < amount < 1e12:
        raise BadInput(f"{option}: {text[:40]!r} is not an amount above zero")
    period = "month" if m["monthly"] else (m["per"] or "").lower()
    if period == "year":
        amount, period = amount / 12, "month"
    words: dict[str, Per] = {"month": "month", "mo": "month", "m": "month", "hour": "hour", "h": "hour", "once": "once"}
    return Money(amount=amount, currency=currency, per=words.get(period, per))


def parse_number(text: str, thousands: bool = False) -> float | None:
    """A number as people write it: `3,000.50`, `3.000,50`, `3.000` is three thousand, `3.00` is three.

    A single mark before exactly three digits groups them, unless `thousands` follow (`3.125k`). None for anything else.
    """
    plain = re.sub(r"[_' ]", "", text.strip())
    marks = re.findall(r"[.,]", plain)
    if len(set(marks)) == 2:
        decimal = marks[-1]
        grouped, _, rest = plain.rpartition(decimal)
        other = "," if decimal == "." else "."
        if decimal in grouped or not re.fullmatch(rf"\d{{1,3}}(?:\{other}\d{{3}})+", grouped):
            return None
        return float(f"{re.sub(r'[.,]', '', grouped)}.{rest or 0}")
    if len(marks) > 1 or (marks and not thousands and re.fullmatch(r"\d{1,3}[.,]\d{3}", plain)):
        return float(re.sub(r"[.,]", "", plain)) if re.fullmatch(r"\d{1,3}(?:[.,]\d{3})+", plain) else None
    return float(plain.replace(",", ".")) if re.fullmatch(r"\d+(?:[.,]\d*)?", plain) else None


def check_currency(currency: str, rates: Mapping[str, float], where: str, adds: str = "--exchange-rate") -> str:
    """The currency. Raises BadInput for one without a rate; `adds` is what adds one."""
    if currency not in rates:
        there = f"{where}: no exchange rate for {currency!r}; there are {', '.join(rates)}"
        raise BadInput(f"{there}, and {adds} {currency[:3]}=… adds one.", near_matches(currency, rates))
    return currency


def convert_currency(amount: float, source: str, target: str, rates: Mapping[str, float]) -> float:
    """An amount in another currency; `rates` are units for one US dollar."""
    return amount if source == target else amount / rates[source] * rates[target]
