"""`recommend` for several models that stay loaded on one machine: each with its own share, port and command."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from advisor.advice.recommend_request import RecommendRequest
from advisor.advice.types import Advice
from advisor.catalog.resolve import ResolvedModel
from advisor.planning.resident import count_need, share_machine
from advisor.planning.traffic import read_traffic
from advisor.session import Session
from advisor.units import format_gib

Recommend = Callable[[RecommendRequest, Session], Advice]


def recommend_side_by_side(
    request: RecommendRequest, found: Sequence[ResolvedModel | None], session: Session, recommend: Recommend
) -> Advice:
    """Advice whose choice is the first model and whose `also` are the others; no choice where one has no room.

    `found`: the models in their order; None for the name of a family.
    """
    names = [n for n in (request.model, *request.others) if n]
    asked = [replace(request, model=n, found=f, others=(), from_disk=False) for n, f in zip(names, found, strict=True)]
    alone = [recommend(x, session) for x in asked]
    needs = []
    for advice in alone:
        chosen = advice.chosen
        if chosen is None or chosen.memory is None or chosen.deployment is None:
            return advice
        traffic = read_traffic(request.workload, chosen.deployment.model.max_context, session.rules)
        needs.append(count_need(chosen.memory, traffic))
    machines = share_machine(request.machine, needs)
    shared = [
        recommend(replace(x, machine=m, port_offset=i, whole=request.machine), session)
        for i, (m, x) in enumerate(zip(machines, asked, strict=True))
    ]
    for advice, name in zip(shared, names, strict=True):
        if advice.chosen is None:
            others = ", ".join(n for n in names if n != name)
            note = f"{name} finds no room next to {others}; alone it does"
            return replace(advice, warnings=(note, *advice.warnings))
    first = shared[0]
    assert first.chosen is not None
    also = tuple(a.chosen for a in shared[1:] if a.chosen is not None)
    taken = sum(r.total_bytes or 0 for x in also if x.memory is not None for r in x.memory.devices)
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
