"""Memory, speed and what is held of one deployment as the one answer that every entry point gives."""

from __future__ import annotations

from typing import Any

import msgspec

from advisor.catalog import Catalog
from advisor.deployment import Deployment, Estimate, MemoryEstimate
from advisor.errors import BadInput
from advisor.estimation import (
    EstimateRequest,
    LoadSpec,
    RememberedNames,
    estimate,
    estimate_load_speed,
    join_estimates,
    resolve_request,
)
from advisor.planning.holding import Holding, find_holding, make_traffic


def answer_deployment(deployment: Deployment, rules: Catalog) -> Estimate:
    """Memory and speed of a deployment whose names are resolved. Raises BadInput as `estimate` does."""
    return _answer(deployment, rules, None)


def answer_request(
    request: EstimateRequest,
    rules: Catalog,
    remembered: RememberedNames | None = None,
    request_id: object = None,
    strict: bool = False,
) -> Estimate:
    """Memory and speed of a deployment by names. Raises UnknownName, BadFile, BadInput; with `strict` BadInput for a
    setting that the engine does not have, which is a warning otherwise."""
    from advisor.engines.unknown_settings import describe_unknown_settings

    deployment, notes = resolve_request(request, rules, remembered)
    unknown = describe_unknown_settings(request.settings, rules.engine(deployment.engine), rules)
    if unknown and strict:
        raise BadInput("; ".join(unknown))
    if request.engine_version is None:  # the other commands mean the newest release, which they install or pull
        deployment = msgspec.structs.replace(deployment, any_release=True)
    return _answer(deployment, rules, request.workload, (*notes, *unknown), request_id)


def _answer(
    deployment: Deployment,
    rules: Catalog,
    load: LoadSpec | None,
    notes: tuple[str, ...] = (),
    request_id: object = None,
) -> Estimate:
    memory = estimate(deployment, rules)
    holding = hold_deployment(deployment, memory, rules, load)
    speed = estimate_load_speed(deployment, memory, rules, load)
    return join_estimates(memory, deployment, notes, request_id, speed, holding.starts, holding.holds)


def hold_deployment(
    deployment: Deployment, memory: MemoryEstimate, rules: Catalog, load: LoadSpec | None = None
) -> Holding:
    """What a deployment that was asked for by itself starts with and holds."""
    lengths = (load.prompt_tokens, load.output_tokens) if load is not None else (None, None)
    return find_holding(deployment, memory, make_traffic(deployment, memory, rules, *lengths), rules)


def estimate_as_json(
    memory: MemoryEstimate, deployment: Deployment, notes: tuple[str, ...], holding: Holding
) -> dict[str, Any]:
    """The public form of an estimate inside the JSON of other commands."""
    body = join_estimates(memory, deployment, notes, None, None, holding.starts, holding.holds).to_dict()
    body.pop("schema_version")  # the object that it is part of has one
    return body
