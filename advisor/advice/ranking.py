"""The order of what passed the filters: a few named criteria, points from rules/ranking.yaml, shown with the answer."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.types import Engine
from advisor.decision.filters import hardware_support
from advisor.deployment import MemoryEstimate
from advisor.planning.plan_rules import PlanRules

FULL = 0.9  # of a budget: what is used above it counts as tight


class RankingPoints(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Points of each criterion; the sum orders, least first."""

    asked: float
    policy: float
    unsure: float
    held_back: float
    offload: float
    queues: float
    late: float
    unlisted: float
    place: float
    no_download: float
    tight: float
    limited_hardware: float
    missing_feature: float


class Ranking(msgspec.Struct, frozen=True):
    """rules/ranking.yaml."""

    source: str
    as_of: str
    points: RankingPoints
    tie: float
    plans: PlanRules


def load_ranking(rules: Catalog) -> Ranking:
    """The points from the rules. Raises BadInput when an overlay spoiled them."""
    return decode_document(rules, "ranking.yaml", Ranking)


def score_deployment(
    entry: Engine,
    memory: MemoryEstimate,
    listed: list[str],
    facts: Mapping[str, Any],
    wanted: Collection[str],
    ranking: Ranking,
    *,
    asked: bool,
    liked: bool,
    held: bool,
    offload: bool,
    queues: bool = False,
    late: bool = False,
    no_download: bool = False,
) -> dict[str, float]:
    """Points of one deployment by criterion; criteria that do not apply are left out. The sum orders, least first."""
    ranking_points = ranking.points
    support = hardware_support(entry, str(facts.get("gpu.vendor")))
    missing = sum(entry.features.get(f) is None or entry.features[f].support != "yes" for f in wanted)
    all_points = {
        "asked": ranking_points.asked * asked,
        "policy": ranking_points.policy * liked,
        "unsure": ranking_points.unsure * (memory.fits is not True),
        "held_back": ranking_points.held_back * held,
        "offload": ranking_points.offload * offload,
        "queues": ranking_points.queues * queues,
        "late": ranking_points.late * late,
        "unlisted": ranking_points.unlisted * (entry.id not in listed),
        "place": ranking_points.place * (listed.index(entry.id) if entry.id in listed else 0),
        "no_download": ranking_points.no_download * no_download,
        "tight": round(ranking_points.tight * _tightness(memory), 4),
        "limited_hardware": ranking_points.limited_hardware * (support is None or support.support != "yes"),
        "missing_feature": round(ranking_points.missing_feature * missing, 4),
    }
    return {k: v for k, v in all_points.items() if v}


def _tightness(estimate: MemoryEstimate) -> float:
    """How much of the last tenth of the tightest budget is used, 0 to 1; 0 where no budget is known."""
    shares = [r.total_bytes / r.budget_bytes for r in estimate.devices if r.total_bytes and r.budget_bytes]
    return 0.0 if not shares else min(1.0, max(0.0, (max(shares) - FULL) / (1 - FULL)))
