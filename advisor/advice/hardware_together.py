"""Several models that stay loaded on the same hardware: each with its own part of every device."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from advisor.advice.hardware_candidate import HardwareCandidate, HardwareRejection, HardwareSearch
from advisor.advice.hardware_types import Ask, Axis, BudgetRules, ResidentModel
from advisor.advice.price_list import DeviceOffer
from advisor.advice.workload import whole_context
from advisor.catalog import Catalog
from advisor.catalog.resolve import resolve_model
from advisor.errors import BadInput
from advisor.planning.resident import count_need, share_machine
from advisor.planning.workload_rules import load_workload_defaults


def place_together(
    searches: Sequence[HardwareSearch], offer: DeviceOffer, count: int, quantization: str, axis: Axis
) -> HardwareCandidate | HardwareRejection:
    """The first model in one format with the others next to it (`also`), each sized by what it needs alone."""
    first, others = searches[0], searches[1:]
    alone = [first.place(offer, count, quantization), *(_best(s, offer, count, axis) for s in others)]
    for search, found in zip(searches, alone, strict=True):
        if isinstance(found, HardwareRejection):
            return found if search is first else replace(found, text=f"{search.found.model.id}: {found.text}")
    fitting = [c for c in alone if isinstance(c, HardwareCandidate)]
    needs = [count_need(c.memory, s.traffic) for c, s in zip(fitting, searches, strict=True)]
    parts = share_machine(first.machine(offer, count), needs)
    placed = [
        s.place_on(offer, count, c.quantization.id, part, i)
        for i, (s, c, part) in enumerate(zip(searches, fitting, parts, strict=True))
    ]
    for search, result in zip(searches, placed, strict=True):
        if isinstance(result, HardwareRejection) or result.memory.fits is not True:
            beside = ", ".join(s.found.model.id for s in searches if s is not search)
            return HardwareRejection("does_not_fit", f"{search.found.model.id} finds no room next to {beside}")
    sure = [c for c in placed if isinstance(c, HardwareCandidate)]
    return replace(sure[0], also=tuple(sure[1:]))


def _best(search: HardwareSearch, offer: DeviceOffer, count: int, axis: Axis) -> HardwareCandidate | HardwareRejection:
    """Another model in the first of its formats that surely fits, else why the last does not."""
    entry = search.engine(offer, count)
    if isinstance(entry, HardwareRejection):
        return entry
    last: HardwareCandidate | HardwareRejection = HardwareRejection("does_not_fit", "no weight format of it is known")
    for name in search.formats(entry, axis):
        last = search.place(offer, count, name)
        if isinstance(last, HardwareCandidate) and last.memory.fits:
            return last
    return last


def search_other(name: str, request: Ask, rules: Catalog, budget_rules: BudgetRules) -> HardwareSearch:
    """The search of another model that stays loaded: its own formats, the first one's users and use."""
    found = resolve_model(name, rules)
    if found.model.layout is None:
        raise BadInput(f"{found.model.id}: its layers are not in the catalogue, so nothing can be sized")
    usual = min(load_workload_defaults(rules).context[request.workload.use_case], found.model.max_context or 2**31)
    context = whole_context(request.workload.context, found.model.max_context)
    asked = replace(request, model=name, others=(), quantization=None)
    return HardwareSearch(asked, found, context or usual, rules, budget_rules)


def place_models(
    search: HardwareSearch, offer: DeviceOffer, n: int, name: str, axis: Axis
) -> HardwareCandidate | HardwareRejection:
    """The model of the search in one format, with the others next to it where there are any."""
    if not search.others:
        return search.place(offer, n, name)
    return place_together((search, *search.others), offer, n, name, axis)


def describe_resident(candidate: HardwareCandidate) -> ResidentModel:
    """What the answer says of another model."""
    return ResidentModel(
        model=candidate.deployment.model.id,
        engine=candidate.engine.id,
        quantization=candidate.quantization.id,
        settings=candidate.deployment.settings,
        holds=candidate.plan.holds,
        speed=candidate.speed,
    )
