"""The best plan of one engine for a model on a machine, or why there is none."""

from __future__ import annotations

import math
from functools import partial

import msgspec

from advisor import engines, formats
from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.decision.filters import judge_engine
from advisor.decision.types import Reason
from advisor.deployment import Deployment, MemoryEstimate, SpeedEstimate
from advisor.engines import held
from advisor.engines.flags import find_own_flag
from advisor.errors import BadInput
from advisor.estimation import estimate_memory
from advisor.planning import objective
from advisor.planning.candidates import (
    Attempt,
    Bounds,
    EngineTools,
    describe_failure,
    find_smallest,
    find_too_large,
    list_attempts,
    list_warnings,
    make_base,
)
from advisor.planning.engine_additions import find_engine_additions
from advisor.planning.format_candidates import find_usable_formats
from advisor.planning.holding import find_holding, waiting_seconds
from advisor.planning.layouts import copy_unit, list_card_sets, list_units, with_settings, with_visible_devices
from advisor.planning.objective import SizedUnit
from advisor.planning.offload import left_to_engine
from advisor.planning.search_request import SearchRequest
from advisor.planning.slots import on_all_layers, place_slots
from advisor.planning.types import Layout, Plan, Rejection, TriedFormat


def find_best_plan(entry: Engine, search: SearchRequest, rules: Catalog) -> Plan | Rejection:
    """The engine's best plan, or why there is none.

    Formats are tried in their order of preference, a smaller cache after all of them, host memory last. The first whose
    plan starts for sure, holds the users and is on time is taken; else the best of what starts; else what may start.
    """
    tools = _prepare(entry, search, rules)
    if isinstance(tools, Rejection):
        return tools
    verdict = judge_engine(
        entry, search.facts, None, search.model, search.workload, asked=search.asked, requires=search.requires
    )
    refused: list[Reason] = []
    usable = list(find_usable_formats(entry, search, rules, refused))
    attempts = list_attempts(tools, search, usable)
    tried: list[TriedFormat] = []
    found = _search(tools, search, attempts, tried)
    if found is not None:
        attempt, plan = found
        others = tuple(t for t in dict.fromkeys(tried) if t.quantization != plan.quantization.id)
        notes = list_warnings(attempt, [r.text for r in verdict.warnings])
        return plan._replace(notes=(*plan.notes, *notes), tried=others, added=tools.added.notes)
    if not tried and not refused:
        text = f"{entry.name}: nothing could be estimated"
        return Rejection((Reason(code="does_not_fit", rule=f"{entry.id}/memory", text=text),))
    texts = "; ".join(dict.fromkeys(t.text for t in tried if t.fits is False)) or None
    if texts:
        refused.append(Reason(code="does_not_fit", rule=f"{entry.id}/memory", text=texts, source="memory estimate"))
    return Rejection(tuple(dict.fromkeys(refused)))


def _prepare(entry: Engine, search: SearchRequest, rules: Catalog) -> EngineTools | Rejection:
    """What estimates of the engine need, or why it is not looked at."""
    forbidden = search.policy.forbidden(entry.id, search.facts)
    if forbidden is not None:
        return Rejection((forbidden,))
    verdict = judge_engine(
        entry, search.facts, None, search.model, search.workload, asked=search.asked, requires=search.requires
    )
    if verdict.reasons:
        return Rejection(verdict.reasons)
    foreign = _foreign_gguf(entry, search, rules)
    if foreign is not None:
        return Rejection((foreign,))
    if entry.kind == "client":
        return Rejection(())
    try:
        module, inner = engines.find_engine_module(entry.id, rules.engines())
        named = engines.settings_entry(entry.id, rules.engines())
    except BadInput as e:  # an overlay's engine without a module
        return Rejection((Reason(code="not_asked_for", rule=f"{entry.id}/module", text=e.message),))
    return EngineTools(entry, module, inner, named, find_engine_additions(entry, search, rules), rules)


def _foreign_gguf(entry: Engine, search: SearchRequest, rules: Catalog) -> Reason | None:
    """A GGUF checkpoint alone never selects an engine of another format: those load it by plugins, with limits."""
    if entry.id in search.asked or search.quantization is None or formats.is_shorthand(search.quantization, rules):
        return None
    if rules.quantization(search.quantization).family != "gguf" or formats.format_family(entry, rules) == "gguf":
        return None
    support = entry.formats.get("gguf")
    note = f": {support.note}" if support and support.note else ""
    text = f"{entry.name}: GGUF is not its own format{note}; named with --engine it is looked at"
    return Reason(code="format_not_loadable", rule=f"{entry.id}/formats.gguf", text=text)


def _search(
    tools: EngineTools, search: SearchRequest, attempts: list[Attempt], tried: list[TriedFormat]
) -> tuple[Attempt, Plan] | None:
    """The first attempt that answers the question, else the best of those that start, else one that may."""
    bounds, kept = Bounds(), list[tuple[Attempt, Plan]]()
    host = bool(tools.inner.memory.get("experts_on_host"))
    for offload in (False, True):
        probe = find_smallest(attempts, offload)
        for attempt in attempts:
            if attempt.offload is not offload:
                continue
            if attempt.narrow and any(p.starts for _, p in kept):
                break  # fewer than four bits only where nothing else starts
            quantization = attempt.chosen.quantization
            much = find_too_large(search, quantization, offload or host)
            if much is not None:
                tried.append(much)
                continue
            if tried and probe is not None:  # the first was refused: is there any use in going on?
                _probe(tools, search, probe, bounds, tried)
                probe = None
            if bounds.refuses(attempt):
                continue
            plan = _plan(tools, search, attempt, bounds, tried)
            if plan is None:
                continue
            if plan.starts and plan.holds_all and plan.on_time is not False:
                return attempt, plan
            kept.append((attempt, plan))
        if any(p.starts for _, p in kept):
            break
    return _best_kept(kept)


def _best_kept(kept: list[tuple[Attempt, Plan]]) -> tuple[Attempt, Plan] | None:
    """Of plans that miss something: those that hold everybody, near the shortest time between tokens; then those that
    hold most; then what may start."""
    sure = [x for x in kept if x[1].starts]
    if not sure:
        return kept[0] if kept else None
    holding = [x for x in sure if x[1].holds_all]
    if holding:
        times = [_between(p) for _, p in holding]
        least = objective.ALLOWED_BEHIND * min(times)
        return next(x for x, t in zip(holding, times, strict=True) if t <= least)
    most = max(_held(p) for _, p in sure)
    return next(x for x in sure if _held(x[1]) >= objective.ENOUGH_HELD * most)


def _between(plan: Plan) -> float:
    return plan.speed.tpot_s.value if plan.speed is not None and plan.speed.tpot_s is not None else 0.0


def _held(plan: Plan) -> int:
    return plan.holds.asked - plan.holds.waiting if plan.holds is not None else 0


def _probe(
    tools: EngineTools, search: SearchRequest, attempt: Attempt, bounds: Bounds, tried: list[TriedFormat]
) -> None:
    """Ask the smallest format on all cards: what it is short of, no wider one has."""
    base = make_base(tools, search, attempt, search.machine)
    if attempt.offload:
        return
    units = [u.deployment for u in list_units(base, tools.entry) if not u.last_resort]
    last = on_all_layers(units[-1], tools.named)
    estimate = ask(tools, attempt, last, [])
    if estimate is not None and estimate.fits is False and estimate.short:
        bounds.learn(attempt, last, estimate)
        _note(attempt, last, estimate, tried)


def ask(
    tools: EngineTools, attempt: Attempt, deployment: Deployment, tried: list[TriedFormat]
) -> MemoryEstimate | None:
    """The memory of a deployment; None, and noted in `tried`, where it allows no answer."""
    try:
        return estimate_memory(deployment, tools.module, tools.inner, attempt.chosen.quantization)
    except BadInput as e:
        tried.append(TriedFormat(quantization=attempt.chosen.quantization.id, fits=None, text=e.message))
        return None


def _note(attempt: Attempt, deployment: Deployment, estimate: MemoryEstimate, tried: list[TriedFormat]) -> None:
    quantization = attempt.chosen.quantization
    text = describe_failure(deployment, estimate, quantization)
    tried.append(TriedFormat(quantization=quantization.id, fits=False, text=text))


def _plan(
    tools: EngineTools, search: SearchRequest, attempt: Attempt, bounds: Bounds, tried: list[TriedFormat]
) -> Plan | None:
    """The best plan of an attempt over the sets of cards that the machine has; None where it does not start."""
    plans = []
    for machine in list_card_sets(search.machine):
        base = make_base(tools, search, attempt, machine)
        if find_own_flag(tools.entry, "tensor_parallel") and machine.usable_devices:
            plan = _arrange(base, tools, search, attempt, bounds, tried)
        else:
            plan = _place(base, tools, search, attempt, tried)
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


class _Rates:
    """Speeds of units for so many users, each asked once."""

    def __init__(self, tools: EngineTools, search: SearchRequest) -> None:
        self.tools, self.search = tools, search
        self.known: dict[tuple[int, int], SpeedEstimate | None] = {}

    def __call__(self, sized: SizedUnit, users: int) -> SpeedEstimate | None:
        key = id(sized), users
        if key not in self.known:
            deployment = sized.unit.deployment
            shared = held.keeps_prefixes(deployment, self.tools.inner)
            self.known[key] = objective.estimate_traffic_speed(
                deployment, sized.memory, self.search.traffic, users, shared, self.tools.rules
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
    unsure: tuple[Deployment, MemoryEstimate, Layout] | None = None
    failed: list[tuple[Deployment, MemoryEstimate]] = []
    at_once = find_own_flag(tools.entry, "sequences")
    if at_once:  # the most that one copy is asked for
        base = with_settings(base, {at_once: search.traffic.users})
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
        _note(attempt, *failed[-1], tried)
        if failed[-1][1].short and len(failed[-1][0].machine.usable_devices) == len(search.machine.usable_devices):  # type: ignore[union-attr]
            bounds.learn(attempt, *failed[-1])
    return None


def _count(deployment: Deployment, estimate: MemoryEstimate, tools: EngineTools, search: SearchRequest) -> int:
    """Requests of the traffic that a copy holds."""
    traffic = search.traffic
    if traffic.full_length:
        return held.count_held(deployment, estimate, tools.inner, estimate.context_length) or 0
    shared = traffic.shared_tokens if held.keeps_prefixes(deployment, tools.inner) else 0
    return held.count_held(deployment, estimate, tools.inner, traffic.typical_tokens, shared) or 0


def _finish(best: objective.Arrangement, tools: EngineTools, search: SearchRequest, attempt: Attempt) -> Plan:
    """The chosen arrangement as a plan, sized for the requests of full length that it holds."""
    users, unit = search.traffic.users, best.sized.unit
    deployment, layout, servers = copy_unit(unit, best.copies, tools.entry)
    each = -(-users // best.copies)
    at_once = find_own_flag(tools.entry, "sequences")
    if at_once:
        deployment = with_settings(deployment, {at_once: -(-each // layout.data) if layout.dp_attention else each})
    one = ask(tools, attempt, deployment, []) or best.sized.memory
    full = held.count_held(deployment, one, tools.inner, one.context_length) or 1
    wanted = users if servers == 1 else each
    made = msgspec.structs.replace(deployment, sequences=max(1, min(wanted, full)))
    estimate = ask(tools, attempt, made, []) or one
    made = with_visible_devices(made, search.machine)
    return _describe(made, estimate, layout, servers, best.speed, best.on_time, tools, search, attempt, best.copies)


def _describe(
    deployment: Deployment,
    estimate: MemoryEstimate,
    layout: Layout,
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
    if holds is not None and holds.waiting:
        seconds = objective.request_seconds(speed, search.traffic)
        holds = msgspec.structs.replace(holds, wait_s=waiting_seconds(holds, seconds))
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
    layout: Layout,
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
    base: Deployment, tools: EngineTools, search: SearchRequest, attempt: Attempt, tried: list[TriedFormat]
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
            _note(attempt, *placed.failed, tried)
        return None
    deployment, estimate = placed.sure or placed.unsure  # type: ignore[misc]
    layout = Layout(devices=tuple(d.index for d in machine.usable_devices))
    if placed.sure is None:
        return _unsure(deployment, estimate, layout, tools, search, attempt)
    deployment = with_visible_devices(deployment, search.machine)
    speed = _speed_of(deployment, estimate, tools=tools, search=search)
    on_time = objective.meets_targets(speed, targets)
    return _describe(deployment, estimate, layout, 1, speed, on_time, tools, search, attempt)


def _speed_of(
    deployment: Deployment, estimate: MemoryEstimate, *, tools: EngineTools, search: SearchRequest
) -> SpeedEstimate | None:
    shared = held.keeps_prefixes(deployment, tools.inner)
    return objective.estimate_traffic_speed(
        deployment, estimate, search.traffic, search.traffic.users, shared, tools.rules
    )


__all__ = ["find_best_plan"]
