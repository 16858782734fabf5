"""rules/budgets.yaml."""

from __future__ import annotations

import msgspec

from advisor.advice.hardware_types import BudgetTier, HostNeeds, Maturity, RunningCosts
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


class TierRows(msgspec.Struct, frozen=True, kw_only=True):
    """The source's budget chart."""

    source: str
    rows: tuple[BudgetTier, ...]


class BudgetRules(msgspec.Struct, frozen=True, kw_only=True):
    """rules/budgets.yaml. `formats`: lists for `buy`, `rent` and families, and the reasons `why_buy`, `why_rent`."""

    source: str | None = None
    as_of: str | None = None
    rates: CurrencyRates
    hours_per_month: float
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
