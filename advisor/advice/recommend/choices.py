"""Up to three plans to choose from, the chosen one first: the ablest, a quick one of nearly its ability, a light."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from advisor.advice.models.choice import SizedModel
from advisor.advice.types import RankedDeployment
from advisor.deployment import MemoryEstimate
from advisor.planning.utility import UtilityRules

CLEARLY = 0.8  # of the time of an answer, or of the memory: what is worth another plan


def choose_models(
    chosen: RankedDeployment,
    sized: Sequence[SizedModel],
    weights: UtilityRules,
    rank: Callable[[SizedModel], RankedDeployment],
) -> tuple[RankedDeployment, ...]:
    """The choices among models, `sized`: those that were looked at, the chosen one first."""
    first = sized[0]
    able = max(sized, key=lambda x: _careful(x, weights))
    ablest = _careful(able, weights) - _careful(first, weights) <= weights.tie
    out = [chosen.with_fields(kind="ablest" if ablest else "quick")]
    if not ablest:
        out.append(rank(able).with_fields(kind="ablest"))
    near = [x for x in sized if _careful(x, weights) >= _careful(first, weights) - weights.near]
    quick = min(near, key=lambda x: x.option.answer_s or float("inf"))
    if ablest and (quick.option.answer_s or 0) < CLEARLY * (first.option.answer_s or 0):
        out.append(rank(quick).with_fields(kind="quick"))
    taken = {x.model for x in out}
    least = min(near, key=lambda x: sum_places(x.plan.memory))
    if least.model.id not in taken and sum_places(least.plan.memory) < CLEARLY * sum_places(first.plan.memory):
        out.append(rank(least).with_fields(kind="light"))
    return tuple(out)


def choose_plans(
    chosen: RankedDeployment, quick: RankedDeployment | None, light: RankedDeployment | None
) -> Iterator[RankedDeployment]:
    """The choices of one model: the chosen plan, the fastest, the one on the fewest cards."""
    for kind, plan in (("ablest", chosen), ("quick", quick), ("light", light)):
        if plan is not None:
            yield plan.with_fields(kind=kind)


def _careful(sized: SizedModel, weights: UtilityRules) -> float:
    return sized.option.ability - weights.caution * sized.option.spread


def sum_places(memory: MemoryEstimate) -> int:
    """Bytes of all devices and the host."""
    return sum(x.total_bytes or 0 for x in (*memory.devices, memory.host) if x is not None)
