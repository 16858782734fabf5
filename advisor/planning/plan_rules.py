"""What makes one plan better than another: `plans` of rules/ranking.yaml."""

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document


class PlanRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Factors of the planner's comparisons; the file says what each means."""

    source: str
    same: float
    worth_waiting: float
    behind: float
    enough_held: float
    narrower: float
    spare: float
    admitted: int
    drafted_users: int
    named: float

    def __post_init__(self) -> None:
        for name in ("same", "worth_waiting", "behind", "spare", "admitted", "named"):
            if getattr(self, name) < 1:
                raise ValueError(f"`plans.{name}` is a factor of 1 or more")
        for name in ("enough_held", "narrower"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"`plans.{name}` is a share above 0, 1 at most")


class _PlansFile(msgspec.Struct, frozen=True):
    plans: PlanRules


def load_plan_rules(rules: Catalog) -> PlanRules:
    """The factors from the rules. Raises BadInput when an overlay spoiled them."""
    return decode_document(rules, "ranking.yaml", _PlansFile).plans
