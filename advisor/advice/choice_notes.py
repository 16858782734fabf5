"""What is reported about the engines that are offered: ties, what the user has to bring or do, copies that lie here."""

from __future__ import annotations

import msgspec

from advisor.advice.recommend_request import RecommendRequest
from advisor.advice.stored_models import describe_copy, find_stored_models
from advisor.advice.types import RankedDeployment
from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.machines.types import Machine
from advisor.models.types import Model
from advisor.planning.types import Plan
from advisor.render.reference import make_model_reference


def brings_something(entry: Engine, plan: Plan, rules: Catalog) -> bool:
    """Whether the user has to bring something: a checkpoint that no download is known of, or files of a conversion."""
    needs = entry.start is not None and bool(entry.start.needs)
    return needs or make_model_reference(plan.deployment, rules).missing is not None


def find_ties(offered: list[RankedDeployment], within: float) -> list[str]:
    """Engines whose points are the chosen one's: the order between them says nothing."""
    first = offered[0]
    total = sum(first.points.values())
    equal = [x.engine_name for x in offered[1:] if x.points and abs(sum(x.points.values()) - total) < within]
    return [f"a tie: {first.engine_name} and {', '.join(equal)} have equal points"] if equal else []


def list_undone(request: RecommendRequest, chosen: RankedDeployment | None, asked: Engine | None) -> list[str]:
    """What was asked and is not in the command yet, or should not be asked any more."""
    out = []
    if asked is not None and asked.health.status == "archived":
        out.append(f"{asked.name} is archived: {asked.health.note or 'no further releases'}")
    nodes = chosen.layout.nodes if chosen is not None and chosen.layout is not None else 1
    if request.machine.nodes > 1 and chosen is not None and chosen.memory is not None:
        if nodes > 1 and chosen.command is not None and "node-rank" not in chosen.command:
            out.append(f"{nodes} nodes: the command is that of one; addresses and ranks have to be added on each")
        elif nodes < request.machine.nodes:
            out.append(f"one of the {request.machine.nodes} nodes is used: the others can run copies behind a router")
    return out


def name_stored_copy(offered: list[RankedDeployment], model: Model, machine: Machine, rules: Catalog) -> list[str]:
    """Name the copy of the first offer that lies on this machine, in the offer and as a note; [] where none does."""
    if not offered or not offered[0].quantization:
        return []
    copy = find_stored_models(machine, rules).find(model.id, offered[0].quantization)
    if copy is None:
        return []
    offered[0] = msgspec.structs.replace(offered[0], stored=copy)
    return [describe_copy(copy)]
