"""What the planner makes of an explained deployment that does not fit as it stands: layers in host memory, copies."""

from __future__ import annotations

from advisor.advice.recommend import recommend
from advisor.advice.recommend_request import RecommendRequest
from advisor.advice.types import RankedDeployment
from advisor.catalog import Catalog
from advisor.deployment import Workload
from advisor.errors import AdvisorError
from advisor.machines.types import Machine


def find_starting_plan(
    name: str, quantization: str, engine: str, length: int, users: int, machine: Machine, rules: Catalog
) -> RankedDeployment | None:
    """The plan of this engine in this format on the machine for a chat with requests of `length` tokens, where one is
    sure to start; None where none is, or the engine is not offered for it. `name`: the model as it was asked for."""
    work = Workload(use_case="chat", concurrency=users, context=length)
    try:
        advice = recommend(RecommendRequest(machine, work, name, quantization, engine, every_command=False), rules)
    except AdvisorError:
        return None
    chosen = advice.chosen
    return chosen if chosen is not None and chosen.memory is not None and chosen.starts else None
