"""A model for those who named none: the first of rules/picks.yaml that fits and is fast enough."""

from __future__ import annotations

import msgspec

from advisor.advice.candidates import Found, Refused, best
from advisor.advice.formats_tried import FOUR_BIT_QUALITY
from advisor.advice.question import Question, judge_all, wanted
from advisor.catalog import Catalog
from advisor.catalog.documents import typed
from advisor.catalog.resolve import Resolved
from advisor.catalog.types import Engine
from advisor.decision.types import Guide
from advisor.errors import BadInput
from advisor.machines.types import Machine
from advisor.meanings import ModelId, UseCase
from advisor.models.types import Model
from advisor.render.reference import model_ref
from advisor.speed.roofline import decode


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


def pick(q: Question, asked: Engine | None, guide: Guide, rules: Catalog) -> tuple[Model | None, tuple[str, ...]]:
    """The first model of the rules' list that fits and decodes fast enough with the first engine of the guide."""
    p = typed(rules, "picks.yaml", PicksFile)
    use = q.workload.use_case
    names = next((x.models for x in p.picks if use in x.uses), ())
    slowest = p.slowest_decode_tps.get(use, 0) * (1 if q.machine.usable_devices else p.slowest_share_on_cpu)
    light = {r.id: r for r in rules.model_index()}
    room = _room(q.machine)
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
        if not q.machine.usable_devices and (row.params_active or row.params_total) > p.most_active_params_on_cpu:
            continue
        model = rules.find_model(name)
        j = judge_all(q, model, guide, rules)
        w = wanted(q, Resolved(model), j, guide, rules, asked)
        for engine_id in (asked.id,) if asked else j.decision.engines:
            hit = best(rules.engine(engine_id), w, rules)
            if isinstance(hit, Refused) or not hit.memory.fits or _crowds(q.machine, hit, p):
                continue
            if hit.quantization.quality < FOUR_BIT_QUALITY and q.quantization is None:
                continue  # a smaller model at four bits is the better answer
            if q.workload.concurrency > hit.deployment.sequences:
                continue
            why = f"no model given: {model.id}, the first of rules/picks.yaml ({p.as_of}) that fits for {use}"
            if model_ref(hit.deployment, rules).missing:
                unknown = unknown or (model, f"{why}; its download is not in the catalogue")
                break
            speed = decode(hit.deployment, hit.memory, rules, 1)
            if speed is None or speed.decode_tps is None or speed.decode_tps.value >= slowest:
                return model, (why,)
            backup = backup or (model, f"{why}; slower than one would like")
            break
    last = backup or unknown
    return (last[0], (last[1],)) if last else (None, ())


def _crowds(machine: Machine, f: Found, p: PicksFile) -> bool:
    """Whether the deployment would leave too little of a memory that other programs live in."""
    ram = machine.memory.usable_bytes
    if ram is None or any(not d.unified for d in machine.usable_devices):
        return False
    used = sum(r.total_bytes or 0 for r in (*f.memory.devices, *([f.memory.host] if f.memory.host else [])))
    return used > p.largest_share_of_host_memory * ram


def _room(machine: Machine) -> int | None:
    """Bytes that a model could take at most: the devices', else the host's; None when unknown."""
    totals = [d.total_bytes for d in machine.usable_devices]
    if totals:
        known = [t for t in totals if t is not None]
        return sum(known) if len(known) == len(totals) else None
    return machine.memory.usable_bytes
