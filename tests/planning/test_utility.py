"""The utility against pairs of plans of which operators take one, and how much hangs on each weight."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_search_by_hand import RULES, asked

from advisor.ability.lookup import find_ability
from advisor.planning.search import find_best_plan
from advisor.planning.types import Plan
from advisor.planning.utility import cost_wait, load_utility, value_ability, value_plan
from advisor.session import Session

PAIRS = yaml.safe_load((Path(__file__).parents[1] / "data" / "plan_pairs.yaml").read_text())["pairs"]
WEIGHTS = load_utility(RULES)
TERMS = ("ability", "caution", "format", "third_party", "wait", "unsure", "tight")


@cache
def value(hardware: str, use: str, users: int, model: str, engine: str, quantization: str) -> dict[str, float]:
    request = asked(model, hardware, quantization=quantization, use_case=use, concurrency=users)
    found = find_best_plan(RULES.engine(engine), request, Session(RULES))
    assert isinstance(found, Plan), found
    assert found.starts
    ability = find_ability(request.model, use, RULES)
    assert ability is not None
    floor = {"floor": -100.0 * (found.on_time is False)}  # of tokens a second for each user
    return {**value_ability(ability, WEIGHTS), **value_plan(found, request, RULES), **floor}


TIE = {False: 0.001, True: WEIGHTS.same}  # whether both are of one engine


def gap(pair: dict[str, Any], term: str = "", factor: float = 1.0) -> float:
    """What the taken plan is worth more, with one term counted so many times."""
    both = [value(pair["hardware"], pair["use"], pair["users"], *pair[k]) for k in ("take", "over")]
    take, over = (sum(v * (factor if k == term else 1) for k, v in terms.items()) for terms in both)
    return take - over


@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: f"{p['hardware'][:20]}-{p['take'][0].split('/')[-1]}")
def test_operators_and_the_utility_take_the_same_plan(pair: dict[str, Any]) -> None:
    """A thousandth of a spread between models is a tie; of formats of one engine what the choice calls the same, of
    which it takes the quicker."""
    assert gap(pair) > -TIE[pair["take"][1] == pair["over"][1]], pair["source"]


@pytest.mark.parametrize("term", TERMS)
def test_no_weight_has_to_be_exact(term: str) -> None:
    """A quarter more or less of one term turns at most two of the pairs."""
    turned = [p for factor in (0.8, 1.25) for p in PAIRS if gap(p, term, factor) <= -TIE[False]]
    assert len(turned) <= 2, [(p["hardware"], p["take"]) for p in turned]


def test_a_wait_costs_more_beyond_patience() -> None:
    patience = WEIGHTS.patience_s["chat"]
    soon, twice = (cost_wait(s, "chat", WEIGHTS) for s in (patience / 2, patience))
    assert twice - soon == pytest.approx(WEIGHTS.ability_per_doubling)
    late = cost_wait(2 * patience, "chat", WEIGHTS) - twice
    assert late == pytest.approx(WEIGHTS.ability_per_doubling + WEIGHTS.ability_per_late_doubling)
    assert cost_wait(WEIGHTS.instant_s / 4, "chat", WEIGHTS) == 0
