"""Defaults of fleet plans: rules/fleet.yaml."""

from __future__ import annotations

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document


class FleetRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file's content; the file says what each means."""

    source: str
    as_of: str
    users_asked_for: int
    most_variants: int
    most_nodes: int
    most_users: int
    gap: float
    large_gap: float
    large_from: int
    seconds: float
    percentile: float
    least_bits: float
    would_help: tuple[str, ...]
    prometheus: str

    def __post_init__(self) -> None:
        for name in ("users_asked_for", "most_variants", "most_nodes", "most_users"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` is a number of 1 or more")
        if not (0 <= self.gap < 1 and 0 <= self.large_gap < 1 and self.seconds > 0 and 0.5 <= self.percentile < 1):
            raise ValueError("`gap` is a share, `seconds` is above 0, `percentile` is from 0.5 to 1")


def load_fleet_rules(rules: Catalog) -> FleetRules:
    """The defaults from the rules. Raises BadInput when an overlay spoiled them."""
    return decode_document(rules, "fleet.yaml", FleetRules)
