"""Questions without a model, and the model of the catalogue that the product itself values the most.

Every model is sized for that, not only those that the choice looks at.
"""

from __future__ import annotations

from typing import NamedTuple

from advisor.ability.lookup import find_ability
from advisor.advice.models import choice
from advisor.advice.recommend_request import RecommendRequest, load_main_guide
from advisor.catalog import Catalog
from advisor.catalog.hardware_names import parse_hardware
from advisor.deployment import Workload
from advisor.planning.utility import add_up, value_ability
from advisor.session import Session

MACHINES = (
    "1x RTX 3060 12GB, 32GB RAM", "1x RTX 4090, 64GB RAM", "2x RTX 3090, 128GB RAM", "1x RTX 5090, 128GB RAM",
    "1x RTX PRO 6000 Blackwell, 256GB RAM", "1x L4, 64GB RAM", "1x H100 80GB SXM, 256GB RAM",
    "8x H100 80GB SXM, 2TB RAM", "1x MI300X, 256GB RAM", "M3 Max 64GB", "cpu, 16 cores, 32GB RAM", "M2 16GB",
)  # fmt: skip
USES = ("chat", "code", "agent")


class ChoiceGap(NamedTuple):
    """One question: what the model that was taken is worth, and the one that is worth the most."""

    machine: str
    use: str
    taken: str | None
    ability: float
    best: str
    best_ability: float

    @property
    def gap(self) -> float:
        """How much ability was given away."""
        return self.best_ability - self.ability


def judge(machine: str, use: str, rules: Catalog) -> ChoiceGap:
    """Choose as `recommend` does, then size every model of the catalogue that could be worth the most: by falling
    ability, which is what a model is worth at most, so that few are left after the first that fit."""
    request = RecommendRequest(parse_hardware(machine, rules), Workload(use_case=use))
    guide, choosing = load_main_guide(rules), choice.load_utility(rules)
    chosen = choice.choose_model(request, None, guide, Session(rules)).chosen
    best, most = "", float("-inf")
    known = [(m, find_ability(m, use, rules)) for m in map(rules.find_model, rules.model_ids()) if m.layout is not None]
    able = [(add_up(value_ability(x, choosing)), m, x) for m, x in known if x is not None]
    for at_most, model, ability in sorted(able, key=lambda x: -x[0]):
        if at_most <= most:
            break
        sized = choice._size_model(model, ability, request, None, guide, Session(rules), choosing)
        if sized is not None and not choice._is_slow(sized, request, choosing) and sized.worth > most:
            best, most = model.id, sized.worth
    taken = chosen.model.id if chosen else None
    return ChoiceGap(machine, use, taken, chosen.worth if chosen else -9.0, best, most)
