"""`recommend` for several models that stay loaded on one machine: each with its own share, port and command."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from advisor.advice.recommend_request import RecommendRequest
from advisor.advice.types import Advice, RankedDeployment
from advisor.catalog import Catalog
from advisor.planning.resident import count_need, share_machine
from advisor.planning.traffic import read_traffic
from advisor.units import format_gib

Recommend = Callable[[RecommendRequest, Catalog], Advice]


def recommend_side_by_side(request: RecommendRequest, rules: Catalog, recommend: Recommend) -> Advice:
    """Advice whose choice is the first model and whose `also` are the others; no choice where one has no room."""
    names = [n for n in (request.model, *request.others) if n]
    alone = [_ask(request, name, rules, recommend) for name in names]
    for advice in alone:
        if advice.chosen is None or advice.chosen.memory is None or advice.chosen.deployment is None:
            return advice
    chosen = [a.chosen for a in alone if a.chosen is not None]
    machines = share_machine(request.machine, [_need(c, request, rules) for c in chosen])
    shared = [
        _ask(replace(request, machine=m, port_offset=i, whole=request.machine), name, rules, recommend)
        for i, (m, name) in enumerate(zip(machines, names, strict=True))
    ]
    for advice, name in zip(shared, names, strict=True):
        if advice.chosen is None:
            others = ", ".join(n for n in names if n != name)
            note = f"{name} finds no room next to {others}; alone it does"
            return replace(advice, warnings=(note, *advice.warnings))
    first = shared[0]
    assert first.chosen is not None
    also = tuple(a.chosen for a in shared[1:] if a.chosen is not None)
    taken = sum(_bytes(x) for x in also)
    note = (
        "the models stay loaded side by side: each has its own share of the card, and all shares together are less "
        f"than it; about {format_gib(taken, 1)} are the others'"
    )
    return replace(
        first,
        machine=request.machine,
        chosen=first.chosen.with_fields(also=also),
        warnings=(note, *first.warnings),
    )


def _ask(request: RecommendRequest, name: str, rules: Catalog, recommend: Recommend) -> Advice:
    return recommend(replace(request, model=name, others=(), quantization=request.quantization), rules)


def _need(ranked: RankedDeployment, request: RecommendRequest, rules: Catalog) -> int:
    assert ranked.memory is not None
    assert ranked.deployment is not None
    return count_need(ranked.memory, read_traffic(request.workload, ranked.deployment.model.max_context, rules))


def _bytes(ranked: RankedDeployment) -> int:
    rows = ranked.memory.devices if ranked.memory is not None else ()
    return sum(r.total_bytes or 0 for r in rows)
