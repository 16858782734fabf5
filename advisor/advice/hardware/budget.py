"""rules/budgets.yaml."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.errors import BadInput
from advisor.meanings import AcceleratorId, Currency, Form, QuantizationName, UseCase, within
from advisor.record import Record

FILE = "budgets.yaml"
AXES = ("buy", "rent")


class BudgetTier(Record, frozen=True, kw_only=True):
    """One row of the source's budget chart, with our verdict."""

    id: str
    title: str
    claim: str
    axis: Literal["once", "per_month"]
    currency: Currency
    author: str
    verdict: str
    corrected: str
    because: str
    accelerators: tuple[AcceleratorId, ...]
    up_to: float | None = None
    from_: float | None = msgspec.field(default=None, name="from")


class HostNeeds(Record, frozen=True, kw_only=True):
    """What a form of card needs around it."""

    most: int  # devices in one machine
    psu_reserve_watts: float
    words: str


class Maturity(Record, frozen=True, kw_only=True):
    """How far software is on a vendor's hardware: 1 = first."""

    rank: int
    words: str


class RunningCosts(Record, frozen=True, kw_only=True):
    """What running a bought machine costs; all can be overridden."""

    eur_per_kwh: Annotated[float, within(0.01, 3, "EUR are not a price of a kWh")]
    duty: float
    load_share: float
    idle_watts_per_card: Annotated[float, within(0, 20_000, "watts cannot be")]
    host_watts: Annotated[float, within(0, 20_000, "watts cannot be")]
    source: str


class CurrencyRates(msgspec.Struct, frozen=True, kw_only=True):
    """Units of a currency for one US dollar."""

    as_of: str
    source: str | None = None
    per_usd: dict[str, float]


class TierRows(msgspec.Struct, frozen=True, kw_only=True):
    """The source's budget chart."""

    source: str
    rows: tuple[BudgetTier, ...]


class BudgetRules(msgspec.Struct, frozen=True, kw_only=True):
    """rules/budgets.yaml. `formats`: lists for `buy`, `rent` and families, and the reasons `why_buy`, `why_rent`."""

    source: str | None = None
    as_of: str | None = None
    rates: CurrencyRates
    hours_per_month: Annotated[float, within(600, 744, "hours are not a month")]
    power: RunningCosts
    old_after_days: int
    counts: tuple[int, ...]
    slowest_share: float
    slowest_decode_tps: dict[UseCase, float]  # where no rate is asked for: below it nobody is helped
    formats: dict[str, tuple[QuantizationName, ...] | str]
    hosts: dict[Form, HostNeeds]
    not_bought_single: tuple[Form, ...]
    not_offered: tuple[Form, ...]
    not_sold_here: tuple[AcceleratorId, ...]
    launched_from: str
    maturity: dict[str, Maturity]
    tiers: TierRows

    def list_formats(self, of: str) -> tuple[str, ...]:
        """The formats of an axis or of a family; none where it has no list of its own."""
        found = self.formats.get(of, ())
        return () if isinstance(found, str) else found


def load_budget_rules(rules: Catalog) -> BudgetRules:
    """Currencies, costs, formats, hosts and tiers. Raises BadInput naming the field that an overlay spoiled."""
    file = decode_document(rules, FILE, BudgetRules)
    kinds: dict[str, type] = {**dict.fromkeys(AXES, tuple), "why_buy": str, "why_rent": str}
    missing = next((k for k, kind in kinds.items() if not isinstance(file.formats.get(k), kind)), None)
    if missing is not None:
        raise BadInput(f"rules/{FILE}: formats: {missing} is missing")
    return file
