"""Answers that run elsewhere: an endpoint that is there already, a hosted API."""

from __future__ import annotations

import shlex

import msgspec

from advisor.advice.recommend_request import GuideResult, RecommendRequest
from advisor.advice.types import Advice, RankedDeployment
from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.decision.filters import judge_engine
from advisor.models.types import Model


def list_clients(
    request: RecommendRequest, guide_result: GuideResult, asked: Engine | None, rules: Catalog, model: Model | None
) -> list[RankedDeployment]:
    """Answers that run elsewhere: an endpoint that is there already, a hosted API."""
    out = []
    for name in (asked.id,) if asked else guide_result.decision.engines:
        entry = rules.engine(name)
        if (
            entry.kind != "client"
            or judge_engine(
                entry, guide_result.facts, None, model, request.workload, asked=[name] if asked else ()
            ).reasons
        ):
            continue
        endpoint = request.workload.endpoint
        said = "runs elsewhere: nothing on this machine is sized for it, and prompts leave the machine"
        made = _describe_client(entry, request.model, describe_leaf(guide_result), said)
        if endpoint:
            made = msgspec.structs.replace(
                made,
                settings={"base-url": endpoint},
                because={"base-url": "as given"},
                command=f"curl -fsS {shlex.quote(endpoint.rstrip('/') + '/models')}",
            )
        out.append(made)
    return out


def _describe_client(entry: Engine, model: str | None, reasons: tuple[str, ...], note: str) -> RankedDeployment:
    """An answer that runs elsewhere: nothing of it is sized or started here."""
    return RankedDeployment(
        engine=entry.id,
        engine_name=entry.name,
        engine_version=None,
        model=model,
        quantization=None,
        settings={},
        because={},
        command=None,
        memory=None,
        speed=None,
        reasons=reasons,
        notes=(note,),
        deployment=None,
    )


def list_hosted(
    request: RecommendRequest, guide_result: GuideResult, rules: Catalog, model: Model
) -> list[RankedDeployment]:
    """Hosted APIs, where they are allowed and nothing runs here."""
    if request.workload.cloud not in ("allowed", "preferred"):
        return []
    reasons = (f"{model.id} does not fit on this machine, and a hosted API is allowed",)
    note = "runs elsewhere: prompts leave the machine, and every token is paid for"
    return [
        _describe_client(entry, model.id, reasons, note)
        for entry in rules.engines().values()
        if entry.kind == "client"
        and entry.remote == "hosted"
        and not judge_engine(entry, guide_result.facts, None, model, request.workload).reasons
    ]


def describe_leaf(guide_result: GuideResult) -> tuple[str, ...]:
    """Why the guide's leaf was taken."""
    said = next(
        (
            t.because
            for t in reversed(guide_result.decision.trace)
            if t.held and t.because and t.rule in guide_result.decision.rules
        ),
        None,
    )
    return (said,) if said else ()


def advise_elsewhere(request: RecommendRequest, guide_result: GuideResult, remote: list[RankedDeployment]) -> Advice:
    """Advice whose first answer runs elsewhere."""
    return Advice(
        machine=request.machine,
        workload=request.workload,
        chosen=remote[0],
        alternatives=tuple(remote[1:]),
        rejected=(),
        trace=guide_result.decision.trace,
        because=tuple(t.because for t in guide_result.decision.trace if t.held and t.because),
        warnings=(*request.machine.notes, *remote[0].notes),
    )
