"""What `recommend` is asked, and the guide's decision for it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from advisor.advice.defaults import orders
from advisor.advice.wanted import Wanted
from advisor.catalog import Catalog
from advisor.catalog.resolve import Resolved, file_format
from advisor.catalog.types import Engine
from advisor.decision.evaluate import evaluate
from advisor.decision.facts import Fact, facts
from advisor.decision.guides import load_guide
from advisor.decision.policy import policy
from advisor.decision.types import Decision, Guide
from advisor.deployment import Workload
from advisor.errors import BadInput
from advisor.machines.types import Machine, Os
from advisor.memo import memoize_by_identity
from advisor.models.types import Model

SHORTEST_CONTEXT = 2048


class Question(NamedTuple):
    """What `recommend` is asked."""

    machine: Machine
    workload: Workload
    model: str | None = None
    quantization: str | None = None
    engine: str | None = None
    models: int = 1
    others: tuple[str, ...] = ()  # models beside the one that is sized
    memory_share: float | None = None  # of a card, that resident models leave
    every_command: bool = True  # False: only the choice's, for answers that show no other


def with_os(machine: Machine, system: Os) -> Machine:
    """The machine with its operating system said. Raises BadInput where it is known to be another."""
    here = "windows" if machine.wsl and system == "windows" else machine.os
    if here not in (None, system):
        raise BadInput(f"--os {system} contradicts the machine, which is {machine.os}")
    return machine if machine.os else msgspec.structs.replace(machine, os=system)


class Judged(NamedTuple):
    decision: Decision
    facts: dict[str, Fact]


@memoize_by_identity
def main_guide(rules: Catalog) -> Guide:
    """The guide that decides. The shipped one is checked by the tests, one that an overlay may have changed here."""
    raw = rules.document("guides/advisor.yaml")
    return load_guide(raw, "guides/advisor.yaml", None, rules.engines(), check=len(rules.roots) > 1)


def judge_all(q: Question, model: Model | None, guide: Guide, rules: Catalog) -> Judged:
    """The guide's decision for a model on the machine, and the facts it saw."""
    more: dict[str, Fact] = {"workload.models": q.models, "workload.memory_share": q.memory_share}
    if model is not None:
        four_bit = model.params_total * 4.9 / 8
        totals = [d.total_bytes for d in q.machine.usable_devices]
        known = [t for t in totals if t is not None]
        room = sum(known) * q.machine.nodes
        if known and len(known) == len(totals):
            more["model.exceeds_vram_at_4bit"] = four_bit > 0.95 * room
        ram = q.machine.memory.usable_bytes
        if ram is not None and len(known) == len(totals):
            more["model.ram_enough"] = four_bit - room < 0.9 * ram
    seen = facts(q.machine, model, q.workload, rules.accelerators(), rules.engines(), **more)
    return Judged(evaluate(guide, seen), seen)


def wanted(q: Question, found: Resolved, j: Judged, guide: Guide, rules: Catalog, asked: Engine | None) -> Wanted:
    return Wanted(
        model=found.model,
        path=found.path,
        quantization=file_format(found, q.quantization, rules),
        contexts=contexts(q, found.model, rules),
        machine=q.machine,
        workload=q.workload,
        facts=j.facts,
        guide=guide,
        requires=j.decision.requires,
        asked=frozenset([asked.id] if asked else []),
        policy=policy(rules),
    )


def contexts(q: Question, model: Model, rules: Catalog) -> tuple[int, ...]:
    """What was asked; else the use's default and its halves down to 2048 tokens."""
    if q.workload.context:
        return (q.workload.context,)
    n = min(orders(rules).context[q.workload.use_case], model.max_context or 2**31)
    out = [n]
    while out[-1] // 2 >= SHORTEST_CONTEXT:
        out.append(out[-1] // 2)
    return tuple(out)
