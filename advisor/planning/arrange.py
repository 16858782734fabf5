"""One attempt on one engine as a plan: equal copies over cards, or one server that takes memory for each request."""

from __future__ import annotations

import math
from functools import partial

import msgspec

from advisor.deployment import Deployment, MemoryEstimate, SpeedEstimate
from advisor.engines import capacity
from advisor.engines.flags import find_own_flag
from advisor.errors import BadInput
from advisor.estimation import estimate_memory
from advisor.planning import objective
from advisor.planning.candidates import Attempt, Bounds, EngineTools, describe_failure, make_base
from advisor.planning.holding import find_holding
from advisor.planning.layouts import copy_unit, list_card_sets, list_units, with_settings, with_visible_devices
from advisor.planning.objective import SizedUnit
from advisor.planning.offload import left_to_engine
from advisor.planning.queueing import estimate_wait
from advisor.planning.search_request import SearchRequest
from advisor.planning.slots import place_slots
from advisor.planning.types import CardLayout, Plan, TriedFormat


def ask(
    tools: EngineTools, attempt: Attempt, deployment: Deployment, tried: list[TriedFormat]
) -> MemoryEstimate | None:
    """The memory of a deployment; None, and noted in `tried`, where it allows no answer."""
    try:
        return estimate_memory(deployment, tools.module, tools.inner, attempt.chosen.quantization)
    except BadInput as e:
        tried.append(TriedFormat(quantization=attempt.chosen.quantization.id, fits=None, text=e.message))
        return None


def note_failure(attempt: Attempt, deployment: Deployment, estimate: MemoryEstimate, tried: list[TriedFormat]) -> None:
    quantization = attempt.chosen.quantization
    text = describe_failure(deployment, estimate, quantization)
    tried.append(TriedFormat(quantization=quantization.id, fits=False, text=text))


def plan_attempt(
    tools: EngineTools, search: SearchRequest, attempt: Attempt, bounds: Bounds, tried: list[TriedFormat]
) -> Plan | None:
    """The best plan of an attempt over the sets of cards that the machine has; None where it does not start."""
    plans = []
    for machine in list_card_sets(search.machine):
        base = make_base(tools, search, attempt, machine)
        if find_own_flag(tools.entry, "tensor_parallel") and machine.usable_devices:
            plan = _arrange(base, tools, search, attempt, bounds, tried)
        else:
            plan = _place(base, tools, search, attempt, bounds, tried)
        if plan is not None:
            plans.append(plan)
    return max(plans, key=lambda p: _worth(p, search)) if len(plans) > 1 else next(iter(plans), None)


def _worth(plan: Plan, search: SearchRequest) -> tuple[bool, bool, bool, float, int]:
    """What is better of plans over unlike cards."""
    seconds = objective.request_seconds(plan.speed, search.traffic)
    rate = plan.speed.output_tps.value if plan.speed is not None and plan.speed.output_tps is not None else 0.0
    quick = 1 / seconds.value if search.traffic.users == 1 and seconds is not None else rate
    steps = round(math.log(quick, objective.CLEARLY)) if quick > 0 else -1000
    return plan.starts is True, plan.holds_all, plan.on_time is not False, steps, -len(plan.layout.devices)


MOST_ADMITTED = 4  # times the requests that a rate comes to at once


class _Rates:
    """Speeds of units for so many users, each asked once."""

    def __init__(self, tools: EngineTools, search: SearchRequest) -> None:
        self.tools, self.search = tools, search
        self.known: dict[tuple[int, int, bool], SpeedEstimate | None] = {}

    def __call__(self, sized: SizedUnit, users: int, long: bool = False) -> SpeedEstimate | None:
        key = id(sized), users, long
        if key not in self.known:
            deployment = sized.unit.deployment
            shared = capacity.keeps_prefixes(deployment, self.tools.inner)
            self.known[key] = objective.estimate_traffic_speed(
                deployment, sized.memory, self.search.traffic, users, shared, self.tools.rules, long
            )
        return self.known[key]


def _arrange(
    base: Deployment,
    tools: EngineTools,
    search: SearchRequest,
    attempt: Attempt,
    bounds: Bounds,
    tried: list[TriedFormat],
) -> Plan | None:
    """Equal copies of an engine that shares a model out over cards."""
    machine = base.machine
    assert machine is not None
    sized: list[SizedUnit] = []
    unsure: tuple[Deployment, MemoryEstimate, CardLayout] | None = None
    failed: list[tuple[Deployment, MemoryEstimate]] = []
    at_once = find_own_flag(tools.entry, "sequences")
    if at_once:  # the most that one copy is asked for
        more = MOST_ADMITTED if search.traffic.rate is not None else 1
        base = with_settings(base, {at_once: more * search.traffic.users})
    for unit in list_units(base, tools.entry):
        if unit.last_resort and sized:
            break
        estimate = ask(tools, attempt, unit.deployment, tried)
        if estimate is None:
            continue
        if estimate.fits:
            sized.append(SizedUnit(unit, estimate, _count(unit.deployment, estimate, tools, search)))
        elif estimate.fits is None:
            unsure = unsure or (unit.deployment, estimate, unit.layout)
        else:
            failed.append((unit.deployment, estimate))
    targets = objective.find_targets(search.workload, machine, tools.rules)
    rates = _Rates(tools, search)
    best = objective.choose_arrangement(
        sized, len(machine.usable_devices), machine.nodes, search.traffic, targets, search.workload.priority, rates
    )
    if best is not None:
        return _finish(best, tools, search, attempt)
    if unsure is not None:
        return _unsure(*unsure, tools, search, attempt)
    if failed:
        note_failure(attempt, *failed[-1], tried)
        if failed[-1][1].short and len(failed[-1][0].machine.usable_devices) == len(search.machine.usable_devices):  # type: ignore[union-attr]
            bounds.learn(attempt, *failed[-1])
    return None


def _count(deployment: Deployment, estimate: MemoryEstimate, tools: EngineTools, search: SearchRequest) -> int:
    """Requests of the traffic that a copy holds."""
    traffic = search.traffic
    request = capacity.RequestTokens(estimate.context_length)
    if not traffic.full_length:
        shared = traffic.shared_tokens if capacity.keeps_prefixes(deployment, tools.inner) else 0
        request = capacity.RequestTokens(traffic.typical_tokens, shared)
    return capacity.count_held(deployment, estimate, tools.inner, [request])[0] or 0


def _finish(best: objective.Arrangement, tools: EngineTools, search: SearchRequest, attempt: Attempt) -> Plan:
    """The chosen arrangement as a plan, sized for the requests of full length that it holds."""
    users, unit = search.traffic.users, best.sized.unit
    deployment, layout, servers = copy_unit(unit, best.copies, tools.entry)
    each = -(-users // best.copies)
    at_once = find_own_flag(tools.entry, "sequences")
    if at_once:
        admitted = -(-each // layout.data) if layout.dp_attention else each
        if search.traffic.rate is not None:  # a burst is better served slowly than kept waiting
            admitted = max(admitted, min(MOST_ADMITTED * admitted, best.sized.held))
        deployment = with_settings(deployment, {at_once: admitted})
    one = ask(tools, attempt, deployment, []) or best.sized.memory
    full = capacity.count_held(deployment, one, tools.inner, [capacity.RequestTokens(one.context_length)])[0] or 1
    wanted = users if servers == 1 else each
    made = msgspec.structs.replace(deployment, sequences=max(1, min(wanted, full)))
    estimate = ask(tools, attempt, made, []) or one
    made = with_visible_devices(made, search.machine)
    return _describe(made, estimate, layout, servers, best.speed, best.on_time, tools, search, attempt, best.copies)


def _describe(
    deployment: Deployment,
    estimate: MemoryEstimate,
    layout: CardLayout,
    servers: int,
    speed: SpeedEstimate | None,
    on_time: bool | None,
    tools: EngineTools,
    search: SearchRequest,
    attempt: Attempt,
    copies: int = 1,
) -> Plan:
    """A plan with what it holds and how fast it is as a whole."""
    holding = find_holding(deployment, estimate, search.traffic, tools.rules, servers)
    whole = objective.scale_speed(speed, copies)
    holds = holding.holds
    if holds is not None:
        served = objective.request_seconds(speed, search.traffic, holds)
        holds = msgspec.structs.replace(holds, wait_s=estimate_wait(holds, search.traffic, served))
    return Plan(
        deployment=deployment,
        memory=estimate,
        quantization=attempt.chosen.quantization,
        offload=attempt.offload or left_to_engine(estimate),
        notes=(),
        tried=(),
        layout=layout,
        servers=servers,
        starts=holding.starts,
        holds=holds,
        speed=whole,
        on_time=on_time,
    )


def _unsure(
    deployment: Deployment,
    estimate: MemoryEstimate,
    layout: CardLayout,
    tools: EngineTools,
    search: SearchRequest,
    attempt: Attempt,
) -> Plan:
    """A plan that may start."""
    speed = objective.estimate_traffic_speed(
        deployment, estimate, search.traffic, search.traffic.users, False, tools.rules
    )
    made = with_visible_devices(deployment, search.machine)
    return _describe(made, estimate, layout, 1, speed, None, tools, search, attempt)._replace(starts=None)


def _place(
    base: Deployment,
    tools: EngineTools,
    search: SearchRequest,
    attempt: Attempt,
    bounds: Bounds,
    tried: list[TriedFormat],
) -> Plan | None:
    """One server of an engine that takes memory for each request, on all its cards, with host memory or without."""
    machine = base.machine
    assert machine is not None
    asker = partial(ask, tools, attempt, tried=tried)
    targets = objective.find_targets(search.workload, machine, tools.rules)
    rates = partial(_speed_of, tools=tools, search=search)
    placed = place_slots(base, tools.named, search.traffic, attempt.offload, asker, rates)
    if placed.sure is None and placed.unsure is None:
        if placed.failed is not None and placed.failed[1].fits is False:
            note_failure(attempt, *placed.failed, tried)
            if placed.failed[1].short and len(machine.usable_devices) == len(search.machine.usable_devices):
                bounds.learn(attempt, *placed.failed)
        return None
    deployment, estimate = placed.sure or placed.unsure  # type: ignore[misc]
    layout = CardLayout(devices=tuple(d.index for d in machine.usable_devices))
    if placed.sure is None:
        return _unsure(deployment, estimate, layout, tools, search, attempt)
    deployment = with_visible_devices(deployment, search.machine)
    speed = _speed_of(deployment, estimate, tools=tools, search=search)
    late = _speed_of(deployment, estimate, tools=tools, search=search, long=True) if targets.ttft_s else None
    on_time = objective.meets_targets(speed, late, targets)
    return _describe(deployment, estimate, layout, 1, speed, on_time, tools, search, attempt)


def _speed_of(
    deployment: Deployment, estimate: MemoryEstimate, *, tools: EngineTools, search: SearchRequest, long: bool = False
) -> SpeedEstimate | None:
    shared = capacity.keeps_prefixes(deployment, tools.inner)
    return objective.estimate_traffic_speed(
        deployment, estimate, search.traffic, search.traffic.users, shared, tools.rules, long
    )
