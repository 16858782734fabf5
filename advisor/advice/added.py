"""What the guide adds to one engine's launch for the workload."""

from __future__ import annotations

from advisor.advice.wanted import Wanted
from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.decision.additions import Additions, additions
from advisor.engines.answers import tool_parser
from advisor.engines.flag_tables import accepted


def added(entry: Engine, w: Wanted, rules: Catalog) -> Additions:
    """What the guide adds to this engine's launch, with the fields that depend on the engine filled in."""
    known = {**w.facts, "model.tool_parser": tool_parser(w.model, entry)}
    rank = w.facts.get("workload.lora_rank")
    if isinstance(rank, int):
        known["workload.lora_rank_step"] = _rank_step(entry, rank, rules)
    return additions(w.guide, known, entry.id)


def _rank_step(entry: Engine, rank: int, rules: Catalog) -> int | None:
    """The least rank that the engine takes and that holds the adapters; None where they are larger than all of them."""
    sizes = [int(x) for x in accepted(entry, "lora_rank", rules)]
    return min((x for x in sizes if x >= rank), default=None) if sizes else rank
