"""rules/budgets.yaml as a checked value."""

from __future__ import annotations

from typing import Any

import msgspec

from advisor.advice.hardware_types import Host, Maturity, Rules, Running, Tier
from advisor.catalog import Catalog
from advisor.errors import BadInput

FILE = "budgets.yaml"


def budget_rules(rules: Catalog) -> Rules:
    """Currencies, costs, formats, hosts and tiers. Raises BadInput naming the field that an overlay spoiled."""
    raw: dict[str, Any] = dict(rules.document(FILE))
    try:
        formats = dict(raw["formats"])
        tiers = dict(raw["tiers"])
        return Rules(
            rates=msgspec.convert(raw["rates"]["per_usd"], dict[str, float]),
            rates_as_of=str(raw["rates"]["as_of"]),
            hours_per_month=float(raw["hours_per_month"]),
            power=msgspec.convert(raw["power"], Running),
            old_after_days=int(raw["old_after_days"]),
            counts=msgspec.convert(raw["counts"], tuple[int, ...]),
            slowest_share=float(raw["slowest_share"]),
            slowest_decode_tps=msgspec.convert(raw["slowest_decode_tps"], dict[str, float]),
            formats={"buy": tuple(formats["buy"]), "rent": tuple(formats["rent"])},
            format_reasons={"buy": formats["why_buy"], "rent": formats["why_rent"]},
            usual_formats={k: tuple(v) for k, v in formats.items() if isinstance(v, list) and k not in ("buy", "rent")},
            hosts=msgspec.convert(raw["hosts"], dict[str, Host]),
            not_bought_single=tuple(raw["not_bought_single"]),
            not_offered=tuple(raw["not_offered"]),
            not_sold_here=tuple(raw["not_sold_here"]),
            launched_from=str(raw["launched_from"]),
            maturity=msgspec.convert(raw["maturity"], dict[str, Maturity]),
            tiers=tuple(
                msgspec.convert({**{k: v for k, v in t.items() if k != "from"}, "from_": t.get("from")}, Tier)
                for t in tiers["rows"]
            ),
            tiers_source=str(tiers["source"]),
        )
    except (KeyError, TypeError, ValueError, msgspec.ValidationError) as e:
        raise BadInput(f"rules/{FILE}: {e}") from None
