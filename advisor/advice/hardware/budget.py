"""rules/budgets.yaml as a checked value."""

from __future__ import annotations

import msgspec

from advisor.advice.hardware_types import BudgetRules, BudgetTier, HostNeeds, Maturity, RunningCosts
from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.errors import BadInput
from advisor.meanings import AcceleratorId, Form, QuantizationName, UseCase

FILE = "budgets.yaml"
AXES = ("buy", "rent")


class CurrencyRates(msgspec.Struct, frozen=True, kw_only=True):
    """Units of a currency for one US dollar."""

    as_of: str
    source: str | None = None
    per_usd: dict[str, float]


class BudgetTierRow(BudgetTier, frozen=True, kw_only=True):
    """A tier as it stands in the file: its lower end is `from`."""

    from_: float | None = msgspec.field(default=None, name="from")


class TierRows(msgspec.Struct, frozen=True, kw_only=True):
    """The source's budget chart."""

    source: str
    rows: tuple[BudgetTierRow, ...]


class BudgetsFile(msgspec.Struct, frozen=True, kw_only=True):
    """rules/budgets.yaml. `formats`: lists for `buy`, `rent` and families, and the reasons `why_buy`, `why_rent`."""

    source: str | None = None
    as_of: str | None = None
    rates: CurrencyRates
    hours_per_month: float
    power: RunningCosts
    old_after_days: int
    counts: tuple[int, ...]
    slowest_share: float
    slowest_decode_tps: dict[UseCase, float]
    formats: dict[str, tuple[QuantizationName, ...] | str]
    hosts: dict[Form, HostNeeds]
    not_bought_single: tuple[Form, ...]
    not_offered: tuple[Form, ...]
    not_sold_here: tuple[AcceleratorId, ...]
    launched_from: str
    maturity: dict[str, Maturity]
    tiers: TierRows


def load_budget_rules(rules: Catalog) -> BudgetRules:
    """Currencies, costs, formats, hosts and tiers. Raises BadInput naming the field that an overlay spoiled."""
    file = decode_document(rules, FILE, BudgetsFile)
    lists = {k: v for k, v in file.formats.items() if isinstance(v, tuple)}
    reasons = {k: v for k, v in file.formats.items() if isinstance(v, str)}
    missing = [k for k in (*AXES, "why_buy", "why_rent") if k not in (reasons if k.startswith("why") else lists)]
    if missing:
        raise BadInput(f"rules/{FILE}: formats: {missing[0]} is missing")
    return BudgetRules(
        rates=file.rates.per_usd,
        rates_as_of=file.rates.as_of,
        hours_per_month=file.hours_per_month,
        power=file.power,
        old_after_days=file.old_after_days,
        counts=file.counts,
        slowest_share=file.slowest_share,
        slowest_decode_tps=file.slowest_decode_tps,
        formats={"buy": lists["buy"], "rent": lists["rent"]},
        format_reasons={"buy": reasons["why_buy"], "rent": reasons["why_rent"]},
        usual_formats={k: v for k, v in lists.items() if k not in AXES},
        hosts=file.hosts,
        not_bought_single=file.not_bought_single,
        not_offered=file.not_offered,
        not_sold_here=file.not_sold_here,
        launched_from=file.launched_from,
        maturity=file.maturity,
        tiers=tuple(
            BudgetTier(**{f: getattr(row, f) for f in BudgetTier.__struct_fields__}) for row in file.tiers.rows
        ),
        tiers_source=file.tiers.source,
    )
