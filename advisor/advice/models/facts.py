"""What is known of a model apart from how it runs: ability for a use, what formats cost, licences; all models."""

from __future__ import annotations

from msgspec.structs import replace

from advisor.ability.lookup import (
    classify_licence,
    find_ability,
    find_format_loss,
    find_rag_facts,
    thinking_mode,
    thinking_tokens,
)
from advisor.advice.models.choice import choose_model, show_ability
from advisor.advice.recommend_request import RecommendRequest, load_main_guide
from advisor.advice.types import Licences, ModelOption, Quality
from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.deployment import SpeedEstimate, Workload
from advisor.machines.types import Machine
from advisor.models.types import Model
from advisor.near import simplify_name
from advisor.planning.utility import load_utility
from advisor.record import Record
from advisor.session import Session


def describe_quality(
    model: Model, format: str, use: str, speed: SpeedEstimate | None, rules: Catalog
) -> Quality | None:
    """How able the model is for the use; None where nothing is known of its kind."""
    ability = find_ability(model, use, rules) or find_ability(model, "chat", rules)
    if ability is None:
        return None
    rate = speed.decode_tps.value if speed is not None and speed.decode_tps is not None else None
    plain = load_utility(rules).answer_tokens[use]
    tokens = plain + (thinking_tokens(use, rules) if ability.thinks else 0)
    optional = ability.thinks and thinking_mode(model, rules) == "optional"
    rag = find_rag_facts(model, rules) if use == "rag" else None
    first = speed.ttft_s.value if speed is not None and speed.ttft_s else 0.0
    return Quality(
        use=use,
        **show_ability(ability),
        loss_percent=find_format_loss(format, model, rules),
        answer_s=round(first + tokens / rate, 1) if rate else None,
        plain_answer_s=round(first + plain / rate, 1) if rate and optional else None,
        hallucination_percent=rag.hallucination_percent if rag else None,
        effective_context=rag.effective_context if rag else None,
    )


def describe_licences(model: Model, entry: Engine, rules: Catalog) -> Licences:
    """Licences of the model and of the engine."""
    return Licences(
        model=model.license,
        model_class=classify_licence(model.license, rules),
        engine=entry.license,
        gated=model.gated,
    )


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
    use: str, machine: Machine | None, session: Session, match: str | None = None
) -> list[RankedModel]:
    """Models the ablest first; on a machine those that fit it, less what the format costs and the wait."""
    rules = session.rules
    pattern = simplify_name(match) if match else ""
    if machine is None:
        rows = [_row(i, use, rules) for i in rules.model_ids() if pattern in simplify_name(i)]
        return sorted((r for r in rows if r is not None), key=lambda r: (-r.ability, r.model))
    request = RecommendRequest(machine, Workload(use_case=use))  # type: ignore[arg-type]  # one of the words of --use
    among = [i for i in rules.model_ids() if pattern in simplify_name(i)]
    found = choose_model(request, None, load_main_guide(rules), session, among, MOST)
    sized = [*([found.chosen] if found.chosen else []), *found.others]
    out = []
    for one in sized[:MOST]:
        row = _row(one.model.id, use, rules)
        if row is not None:
            out.append(replace(row, runs=one.option))
    return out


def _row(name: str, use: str, rules: Catalog) -> RankedModel | None:
    model = rules.find_model(name)
    ability = find_ability(model, use, rules)
    if ability is None:
        return None
    return RankedModel(
        model=name,
        **show_ability(ability),
        params_total=model.params_total,
        licence=model.license,
        licence_class=classify_licence(model.license, rules),
    )
