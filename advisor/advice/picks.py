"""A model for those who named none: the first of rules/picks.yaml that fits and is fast enough."""

from __future__ import annotations

import msgspec

from advisor.advice.candidates import Found, Refused, best
from advisor.advice.question import Question, judge_all, wanted
from advisor.catalog import Catalog
from advisor.catalog.resolve import Resolved
from advisor.catalog.types import Engine
from advisor.decision.types import Guide
from advisor.errors import BadInput
from advisor.machines.types import Machine
from advisor.models.types import Model
from advisor.speed.roofline import decode


class _Picks(msgspec.Struct, frozen=True):
    source: str
    as_of: str
    slowest_decode_tps: dict[str, float]
    most_active_params_on_cpu: int
    largest_share_of_host_memory: float
    picks: list[dict[str, list[str]]]


def pick(q: Question, asked: Engine | None, guide: Guide, rules: Catalog) -> tuple[Model | None, tuple[str, ...]]:
    """The first model of the rules' list that fits and decodes fast enough with the first engine of the guide."""
    p = msgspec.convert(rules.document("picks.yaml"), _Picks)
    use = q.workload.use_case
    names = next((x["models"] for x in p.picks if use in x["uses"]), [])
    slowest = p.slowest_decode_tps.get(use, 0)
    light = {r.id: r for r in rules.model_index()}
    room = _room(q.machine)
    backup: tuple[Model, str] | None = None
    for name in names:
        row = light.get(name)
        if row is None:
            raise BadInput(f"rules/picks.yaml: {name} is not in the catalogue")
        if room is not None and row.params_total * 0.5 > room:
            continue
        if not q.machine.usable_devices and (row.params_active or row.params_total) > p.most_active_params_on_cpu:
            continue
        model = rules.find_model(name)
        j = judge_all(q, model, guide, rules)
        w = wanted(q, Resolved(model), j, guide, rules, asked)
        for engine_id in (asked.id,) if asked else j.decision.engines:
            hit = best(rules.engine(engine_id), w, rules)
            if isinstance(hit, Refused) or (hit.memory.fits is None and room is not None) or _crowds(q.machine, hit, p):
                continue
            speed = decode(hit.deployment, hit.memory, rules, 1)
            why = f"no model given: {model.id}, the first of rules/picks.yaml ({p.as_of}) that fits for {use}"
            if speed is None or speed.decode_tps is None or speed.decode_tps.value >= slowest:
                return model, (why,)
            backup = (model, f"{why}; slower than one would like")
            break
    return (backup[0], (backup[1],)) if backup else (None, ())


def _crowds(machine: Machine, f: Found, p: _Picks) -> bool:
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
