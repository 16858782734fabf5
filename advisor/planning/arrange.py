"""The best plan of one attempt: equal copies over cards, or one server that takes memory for each request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from advisor.deployment import Deployment, MemoryEstimate, Setting, SpeedEstimate
from advisor.engines import capacity
from advisor.engines.flag_tables import find_largest_value
from advisor.engines.flags import find_own_flag
from advisor.machines.types import Machine
from advisor.planning import disaggregation, objective
from advisor.planning.candidates import (
    PlannedCopy,
    Trial,
    ask,
    count_held,
    estimate_rate,
    make_base,
    make_plan,
    make_unsure_plan,
    note_failure,
)
from advisor.planning.layouts import copy_unit, count_copy_nodes, list_card_sets, list_units, with_settings
from advisor.planning.objective import SizedUnit
from advisor.planning.rules import load_plan_rules
from advisor.planning.slots import place_slots
from advisor.planning.targets import Targets, find_targets, meets_targets
from advisor.planning.types import CardLayout, Plan
from advisor.record import Value
from advisor.speed.estimator import estimate_speed
from advisor.speed.rates import link_gbs
from advisor.speed.work import RequestLoad


def plan_attempt(trial: Trial) -> Plan | None:
    """The best plan of an attempt over the sets of cards that the machine has; None where it does not start."""
    plans = []
    for machine in list_card_sets(trial.search.machine):
        base = make_base(trial.tools, trial.search, trial.attempt, machine)
        several = find_own_flag(trial.tools.entry, "tensor_parallel") and machine.usable_devices
        plan = _arrange_copies(trial, base) if several else _place_over_nodes(trial, base)
        if plan is not None:
            plans.append(plan)
    return max(plans, key=partial(_worth, trial)) if len(plans) > 1 else next(iter(plans), None)


def _worth(trial: Trial, plan: Plan) -> tuple[bool, bool, bool, float, int]:
    """What is better of plans over unlike cards."""
    rate, same = objective.rate_speed(plan.speed, trial.search.traffic), load_plan_rules(trial.tools.session.rules).same
    steps = round(math.log(rate, same)) if rate > 0 else -1000
    return plan.starts is True, plan.holds_all, plan.on_time is not False, steps, -len(plan.layout.devices)


class SizedUnits(Value, frozen=True):
    """Ways to lay out one copy: those that start for sure; one that may; one that does not."""

    sure: list[SizedUnit]
    unsure: tuple[Deployment, MemoryEstimate, CardLayout] | None = None
    failed: tuple[Deployment, MemoryEstimate] | None = None


def size_units(trial: Trial, base: Deployment) -> SizedUnits:
    """Every way to lay one copy out over the cards of the machine, with its memory and the requests that it holds."""
    search, tools = trial.search, trial.tools
    at_once = find_own_flag(tools.entry, "sequences")
    if at_once:  # the most that one copy is asked for
        more = load_plan_rules(tools.session.rules).admitted if search.traffic.rate is not None else 1
        base = with_settings(base, {at_once: more * search.traffic.users})
    found = SizedUnits([])
    for unit in list_units(base, tools.entry):
        if unit.last_resort and found.sure:
            break
        memory = ask(trial, unit.deployment)
        if memory is None:
            continue
        if memory.fits:
            found.sure.append(SizedUnit(unit, memory, count_held(trial, unit.deployment, memory)))
        elif memory.fits is None:
            found = replace(found, unsure=found.unsure or (unit.deployment, memory, unit.layout))
        else:
            found = replace(found, failed=(unit.deployment, memory))
    return found


def _arrange_copies(trial: Trial, base: Deployment) -> Plan | None:
    """Equal copies of an engine that shares a model out over cards."""
    machine, search, tools = base.machine, trial.search, trial.tools
    assert machine is not None
    factors, found = load_plan_rules(tools.session.rules), size_units(trial, base)

    def rate(sized: SizedUnit, users: int, long: bool = False) -> SpeedEstimate | None:
        return estimate_rate(trial, sized.unit.deployment, sized.memory, users, long)

    targets = find_targets(search.workload, machine, tools.session.rules)
    cards, goal = (
        machine.usable_devices,
        objective.make_goal(search.workload, search.traffic, search.model, tools.session.rules),
    )
    alike = sum((d.name, d.total_bytes) == (cards[0].name, cards[0].total_bytes) for d in cards)
    best = objective.choose_arrangement(
        found.sure, len(cards), machine.nodes, search.traffic, targets, goal, factors, rate, alike
    )
    if best is None or best.on_time is False:
        split = _split_roles(trial, machine, found.sure, targets)
        if split is not None:
            return finish_split(trial, split)
    if best is not None:
        return finish_arrangement(trial, best)
    if found.unsure is not None:
        return make_unsure_plan(trial, *found.unsure)
    if found.failed is not None:
        note_failure(trial, *found.failed)
    return None


def _split_roles(
    trial: Trial, machine: Machine, sized: Sequence[SizedUnit], targets: Targets
) -> disaggregation.Split | None:
    """Servers for prompts and servers for answers that meet named targets, where the engine has them and one node."""
    cards = machine.usable_devices
    if not targets.named or trial.tools.entry.disaggregation is None or machine.nodes > 1 or len(cards) < 2:
        return None
    link = None if machine.interconnect is None else "nvlink" in machine.interconnect
    gbs = link_gbs(cards[0], trial.tools.session.rules, link)[0]

    def rate(unit: SizedUnit, load: RequestLoad) -> SpeedEstimate | None:
        return estimate_speed(unit.unit.deployment, unit.memory, trial.tools.session, load)

    same = load_plan_rules(trial.tools.session.rules).same
    return disaggregation.choose_split(sized, len(cards), trial.search.traffic, targets, gbs, same, rate)


def finish_split(trial: Trial, split: disaggregation.Split) -> Plan:
    """The chosen split as a plan. What it holds lies on the servers that write answers."""
    traffic, tools = trial.search.traffic, trial.tools
    machine = split.writer.unit.deployment.machine
    assert machine is not None
    each = -(-traffic.users // split.decode)
    at_once = find_own_flag(tools.entry, "sequences")
    most: dict[str, Setting] = {at_once: each} if at_once else {}
    reader, deployment = (with_settings(s.unit.deployment, most) for s in (split.reader, split.writer))
    one = ask(trial, deployment) or split.writer.memory
    full = capacity.count_held(deployment, one, tools.inner, [capacity.RequestTokens(one.context_length)])[0] or 1
    made = replace(deployment, sequences=max(1, min(each, full)))
    devices = tuple(d.index for d in machine.usable_devices[: split.cards])
    layout = replace(split.writer.unit.layout, devices=devices, prefill=split.prefill)
    copy = PlannedCopy(made, ask(trial, made) or one, layout, split.speed, split.on_time, split.decode)
    note = "prefill and decode on servers of their own: equal copies miss a target; no measurement is behind its times"
    return replace(make_plan(trial, copy), servers=split.prefill + split.decode, prefill=reader, notes=(note,))


def finish_arrangement(trial: Trial, best: objective.Arrangement) -> Plan:
    """The chosen arrangement as a plan, sized for the requests of full length that it holds."""
    traffic, tools, unit = trial.search.traffic, trial.tools, best.sized.unit
    most_admitted = load_plan_rules(tools.session.rules).admitted
    nodes = count_copy_nodes(unit, best.copies)
    deployment, layout, servers = copy_unit(unit, best.copies // nodes, tools.entry)
    if nodes > 1:
        layout, servers = replace(layout, nodes=nodes), nodes * servers
    each = -(-traffic.users // best.copies)
    at_once = find_own_flag(tools.entry, "sequences")
    if at_once:
        admitted = -(-each // layout.data) if layout.dp_attention else each
        if traffic.rate is not None:  # a burst is better served slowly than kept waiting
            admitted = max(admitted, min(most_admitted * admitted, best.sized.held))
        deployment = with_settings(deployment, {at_once: admitted})
    one = ask(trial, deployment) or best.sized.memory
    full = capacity.count_held(deployment, one, tools.inner, [capacity.RequestTokens(one.context_length)])[0] or 1
    each_server = -(-traffic.users // servers)
    made = replace(deployment, sequences=max(1, min(each_server, full)))
    memory = ask(trial, made) or one
    return make_plan(trial, PlannedCopy(made, memory, layout, best.speed, best.on_time, servers, best.copies))


def _place_over_nodes(trial: Trial, base: Deployment) -> Plan | None:
    """Servers of an engine that takes memory for each request: one on all cards of a node, and as many nodes as it
    takes to hold the users in time."""
    machine = base.machine
    assert machine is not None
    most = min(machine.nodes, trial.search.traffic.users)
    throughput = trial.search.workload.priority == "throughput"
    plan = None
    for nodes in range(most if throughput else 1, most + 1):
        found = place_on_nodes(trial, base, nodes)
        plan = found or plan
        if found is None or (found.starts and found.holds_all and found.on_time is not False):
            break
    return plan


def place_on_nodes(trial: Trial, base: Deployment, nodes: int) -> Plan | None:
    """A server on each of so many nodes, with host memory or without."""
    machine, search, tools = base.machine, trial.search, trial.tools
    assert machine is not None
    users = -(-search.traffic.users // nodes)
    most = find_largest_value(tools.named, "sequences", tools.session.rules)
    traffic = replace(search.traffic, users=users if most is None else min(users, most))
    rate = partial(estimate_rate, trial, users=users)
    placed = place_slots(base, tools.named, traffic, trial.attempt.offload, partial(ask, trial), rate)
    layout = CardLayout(devices=tuple(d.index for d in machine.usable_devices), nodes=nodes)
    if placed.sure is not None:
        deployment, memory = placed.sure
        targets = find_targets(search.workload, machine, tools.session.rules)
        speed = rate(deployment, memory)
        late = estimate_rate(trial, deployment, memory, users, True) if targets.about_long_prompts else None
        on_time = meets_targets(speed, late, targets)
        return make_plan(trial, PlannedCopy(deployment, memory, layout, speed, on_time, nodes, nodes))
    if placed.unsure is not None:
        return make_unsure_plan(trial, *placed.unsure, replace(layout, nodes=1))
    if placed.failed is not None and placed.failed[1].fits is False:
        note_failure(trial, *placed.failed)
    return None
