"""Models in the order of their ability for a use: all of the catalogue, or those that fit a machine."""

from __future__ import annotations

import msgspec

from advisor.ability.lookup import find_ability
from advisor.ability.losses import classify_licence
from advisor.advice.model_choice import choose_model, describe_option
from advisor.advice.recommend_request import RecommendRequest, load_main_guide
from advisor.advice.types import ModelOption
from advisor.catalog import Catalog
from advisor.deployment import Workload
from advisor.machines.types import Machine
from advisor.near import simplify_name
from advisor.record import Record

MOST = 25  # models that are sized and shown for a machine


class RankedModel(Record, frozen=True, kw_only=True):
    """A model and its ability for a use; how it would run, where a machine was named."""

    model: str
    ability: float
    spread: float
    boards: int
    independent: int
    thinks: bool
    params_total: int
    licence: str | None
    licence_class: str
    runs: ModelOption | None = None


def list_ranked_models(
    use: str, machine: Machine | None, rules: Catalog, match: str | None = None
) -> list[RankedModel]:
    """Models the ablest first; on a machine those that fit it, less what the format costs and the wait."""
    wanted = simplify_name(match) if match else ""
    if machine is None:
        rows = [_row(i, use, rules) for i in rules.model_ids() if wanted in simplify_name(i)]
        return sorted((r for r in rows if r is not None), key=lambda r: (-r.ability, r.model))
    request = RecommendRequest(machine, Workload(use_case=use))  # type: ignore[arg-type]  # one of the words of --use
    among = [i for i in rules.model_ids() if wanted in simplify_name(i)]
    found = choose_model(request, None, load_main_guide(rules), rules, among, MOST)
    sized = [*([found.chosen] if found.chosen else []), *found.others]
    out = []
    for one in sized[:MOST]:
        row = _row(one.model.id, use, rules)
        if row is not None:
            out.append(msgspec.structs.replace(row, runs=describe_option(one)))
    return out


def _row(name: str, use: str, rules: Catalog) -> RankedModel | None:
    model = rules.find_model(name)
    ability = find_ability(model, use, rules)
    if ability is None:
        return None
    return RankedModel(
        model=name,
        ability=round(ability.value, 2),
        spread=round(ability.spread, 2),
        boards=ability.boards,
        independent=ability.independent,
        thinks=ability.thinks,
        params_total=model.params_total,
        licence=model.license,
        licence_class=classify_licence(model.license, rules),
    )
