"""Capacities are found out for what may be chosen alone, and the plans are those of all capacities."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fleets import RULES, draw

from advisor.fleet.candidates import CONFIDENCES
from advisor.fleet.demand import read_demand
from advisor.fleet.inventory.pools import make_fleet
from advisor.fleet.inventory.source import parse_inventory
from advisor.fleet.offers import PoolOffers, collect_offers, find_models, find_node_prices
from advisor.fleet.surviving import solve_demands
from advisor.fleet.types import Fleet
from advisor.session import Session


def collect(seed: int, folder: Path) -> tuple[Fleet, PoolOffers]:
    nodes, models = (x[:2] for x in draw(seed))
    (folder / "d.json").write_text(json.dumps({"models": models}))
    fleet = make_fleet(parse_inventory(json.dumps({"nodes": nodes, "currency": "EUR"}).encode(), "x", RULES))
    demands = find_models(read_demand(folder / "d.json", RULES), RULES)
    return fleet, collect_offers(fleet, demands, Session(RULES))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 5, 9))])
def test_plans_are_those_of_all_capacities(seed: int, tmp_path: Path) -> None:
    fleet, open_ones = collect(seed, tmp_path)
    _, known = collect(seed, tmp_path)
    bounds = {}
    for place, offer in known.offers.items():
        for candidate in list(offer.candidates):
            settled = offer.settle(candidate)
            bounds[place, candidate.kind] = [candidate.amount(c) >= settled.amount(c) for c in CONFIDENCES]
    assert all(ok for both in bounds.values() for ok in both), "what is open is an upper bound"
    prices = find_node_prices(fleet, None, RULES)
    for confidence in CONFIDENCES:
        cost = [solve_demands(o, prices, confidence, RULES)[1] for o in (open_ones, known)]
        assert cost[0].served == cost[1].served
        assert cost[0].cost == pytest.approx(cost[1].cost, rel=0.003)
    left = [c for o in open_ones.offers.values() for c in o.candidates if c.pending]
    assert left, "not everything was looked for"
