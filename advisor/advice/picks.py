"""A model for those who named none: the first of rules/picks.yaml that fits and is fast enough."""

from __future__ import annotations

import msgspec

from advisor.advice.candidates import Candidate, Rejection, find_best_candidate
from advisor.advice.format_candidates import FOUR_BIT_QUALITY
from advisor.advice.recommend_request import RecommendRequest, ask_guide, build_search_request
from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.resolve import ResolvedModel
from advisor.catalog.types import Engine
from advisor.decision.types import Guide
from advisor.errors import BadInput
from advisor.machines.types import Machine
from advisor.meanings import ModelId, UseCase
from advisor.models.types import Model
from advisor.render.reference import make_model_reference
from advisor.speed.roofline import estimate_midway_speed


class Pick(msgspec.Struct, frozen=True):
    """Models for some uses, the preferred first."""

    uses: tuple[UseCase, ...]
    models: tuple[ModelId, ...]


class PicksFile(msgspec.Struct, frozen=True):
    """rules/picks.yaml."""

    source: str
    as_of: str
    slowest_decode_tps: dict[UseCase, float]
    slowest_share_on_cpu: float
    most_active_params_on_cpu: int
    largest_share_of_host_memory: float
    picks: tuple[Pick, ...]


def pick_model(
    request: RecommendRequest, asked: Engine | None, guide: Guide, rules: Catalog
) -> tuple[Model | None, tuple[str, ...]]:
    """The first model of the rules' list that fits and decodes fast enough with the first engine of the guide."""
    picks_file = decode_document(rules, "picks.yaml", PicksFile)
    use = request.workload.use_case
    names = next((x.models for x in picks_file.picks if use in x.uses), ())
    slowest = picks_file.slowest_decode_tps.get(use, 0) * (
        1 if request.machine.usable_devices else picks_file.slowest_share_on_cpu
    )
    light = {r.id: r for r in rules.model_index()}
    room = _room(request.machine)
    if room is None:
        raise BadInput(
            "the memory of this machine is not known, so no model can be picked: "
            "add it (`, 32GB RAM`) or name one with --model"
        )
    backup: tuple[Model, str] | None = None  # fits, but slow
    unknown: tuple[Model, str] | None = None  # fits, but nothing is known to download
    for name in names:
        row = light.get(name)
        if row is None:
            raise BadInput(f"rules/picks.yaml: {name} is not in the catalogue")
        if row.params_total * 0.5 > room:
            continue
        if (
            not request.machine.usable_devices
            and (row.params_active or row.params_total) > picks_file.most_active_params_on_cpu
        ):
            continue
        model = rules.find_model(name)
        guide_result = ask_guide(request, model, guide, rules)
        search = build_search_request(request, ResolvedModel(model), guide_result, guide, rules, asked)
        for engine_id in (asked.id,) if asked else guide_result.decision.engines:
            candidate = find_best_candidate(rules.engine(engine_id), search, rules)
            if (
                isinstance(candidate, Rejection)
                or not candidate.memory.fits
                or _crowds(request.machine, candidate, picks_file)
            ):
                continue
            if candidate.quantization.quality < FOUR_BIT_QUALITY and request.quantization is None:
                continue  # a smaller model at four bits is the better answer
            if request.workload.concurrency > candidate.deployment.sequences:
                continue
            why = f"no model given: {model.id}, the first of rules/picks.yaml ({picks_file.as_of}) that fits for {use}"
            if make_model_reference(candidate.deployment, rules).missing:
                unknown = unknown or (model, f"{why}; its download is not in the catalogue")
                break
            speed = estimate_midway_speed(candidate.deployment, candidate.memory, rules, 1)
            if speed is None or speed.decode_tps is None or speed.decode_tps.value >= slowest:
                return model, (why,)
            backup = backup or (model, f"{why}; slower than one would like")
            break
    last = backup or unknown
    return (last[0], (last[1],)) if last else (None, ())


def _crowds(machine: Machine, candidate: Candidate, picks_file: PicksFile) -> bool:
    """Whether the deployment would leave too little of a memory that other programs live in."""
    ram = machine.memory.usable_bytes
    if ram is None or any(not d.unified for d in machine.usable_devices):
        return False
    used = sum(
        r.total_bytes or 0
        for r in (*candidate.memory.devices, *([candidate.memory.host] if candidate.memory.host else []))
    )
    return used > picks_file.largest_share_of_host_memory * ram


def _room(machine: Machine) -> int | None:
    """Bytes that a model could take at most: the devices', else the host's; None when unknown."""
    totals = [d.total_bytes for d in machine.usable_devices]
    if totals:
        known = [t for t in totals if t is not None]
        return sum(known) if len(known) == len(totals) else None
    return machine.memory.usable_bytes
