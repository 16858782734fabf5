"""What the guide adds to one engine's launch for the workload."""

from __future__ import annotations

from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.decision.additions import Additions, find_additions
from advisor.engines.answer_parsers import find_tool_parser
from advisor.engines.flag_tables import list_accepted_values
from advisor.engines.npu import find_npu_build
from advisor.planning.search_request import SearchRequest
from advisor.planning.small_drafts import find_small_draft


def find_engine_additions(entry: Engine, search: SearchRequest, rules: Catalog) -> Additions:
    """What the guide adds to this engine's launch, with the fields that depend on the engine filled in."""
    known = {**search.facts, "model.tool_parser": find_tool_parser(search.model, entry)}
    if search.facts.get("workload.accelerator") == "npu":
        build = find_npu_build(search.model, entry, search.facts.get("npu"))
        known |= {"model.npu_build": build.name, "model.npu_gb": f"{build.gb:g}"} if build is not None else {}
    if search.facts.get("workload.speculative"):
        draft = find_small_draft(search.model, entry, rules)
        known |= {"model.draft": draft.model, "model.draft_gguf": draft.gguf} if draft is not None else {}
    rank = search.facts.get("workload.lora_rank")
    if isinstance(rank, int):
        known["workload.lora_rank_step"] = _rank_step(entry, rank, rules)
    return find_additions(search.guide, known, entry.id)


def _rank_step(entry: Engine, rank: int, rules: Catalog) -> int | None:
    """The least rank that the engine takes and that holds the adapters; None where they are larger than all of them."""
    sizes = [int(x) for x in list_accepted_values(entry, "lora_rank", rules)]
    return min((x for x in sizes if x >= rank), default=None) if sizes else rank
