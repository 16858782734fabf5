"""The ways to run a replica of a model on a pool: engine, weight format, devices, and what each serves in time.

Engines come in the order of the guide, formats and layouts from the planner. What a pool offers depends on that pool
and the demand alone, so more pools never take a way away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import NormalDist
from typing import Literal

from msgspec.structs import replace

from advisor.advice.recommend.engines import list_in_order
from advisor.advice.recommend_request import (
    GuideResult,
    RecommendRequest,
    ask_guide,
    build_search_request,
    load_main_guide,
    settle_model,
)
from advisor.catalog import Catalog
from advisor.catalog.resolve import ResolvedModel
from advisor.catalog.types import Engine
from advisor.decision.filters import hardware_support
from advisor.deployment import Deployment, MemoryEstimate, SpeedEstimate
from advisor.engines.flags import find_own_flag
from advisor.fleet.demand import FleetRules, ModelDemand, load_fleet_rules
from advisor.formats import native_format
from advisor.machines.types import Machine
from advisor.planning.arrange import finish_arrangement, place_on_nodes, size_units
from advisor.planning.arrivals import SHARES, KeptLimit, Load, MissedTimes, find_served_rate, limit_rate, make_load
from advisor.planning.candidates import (
    Attempt,
    Bounds,
    EngineTools,
    Trial,
    estimate_rate,
    find_too_large,
    list_attempts,
    make_base,
    note_failure,
)
from advisor.planning.format_candidates import find_usable_formats, has_download
from advisor.planning.objective import Arrangement, SizedUnit
from advisor.planning.search import prepare_engine
from advisor.planning.targets import TARGETS, Targets, find_targets, meets_target
from advisor.planning.traffic import P95_OF_NORMAL, TokenSpread, Traffic
from advisor.planning.types import Plan, SearchRequest, TriedFormat
from advisor.record import Value
from advisor.session import Session
from advisor.speed.efficiencies import ArrivalRules, load_engine_rules
from advisor.speed.step_table import StepTable, make_step_table

PARTS = (0.5, 0.25, 0.125)  # of a card that replicas share
STEPS = (64, 256)  # users that a launch is sized for at first, and where it turns out to hold them all
Confidence = Literal["likely", "safe"]
CONFIDENCES: tuple[Confidence, Confidence] = ("likely", "safe")
SpeedOf = Callable[[int, bool], SpeedEstimate | None]  # (users, with prompts of the percentile) -> speed of one replica


class LaunchParts(Value, frozen=True):
    """What the launch of a candidate is made of."""

    trial: Trial
    sized: SizedUnit | None  # None: a whole-node server, whose plan is `plan`
    plan: Plan | None = None


LADDER = -1  # a step of a ladder that ends where one is no better than the one before


class Alternative(Value, frozen=True):
    """A launch whose highest rate was not looked for yet: no more than `bound` requests a second."""

    made: LaunchParts | None  # None: another process found it
    table: StepTable
    load: Load
    targets: Targets
    share: float
    known: ArrivalRules
    bound: float
    after: int  # users at once of those before it, from which on it is looked at; LADDER
    part: float = 1.0  # of a card, which takes its turn with others


class ReplicaCandidate(Value, frozen=True):
    """One way to run a replica. `serves`: what it does so at each confidence at which it keeps the targets; while
    launches are `pending`, no more than that."""

    engine: str
    quantization: str
    bits: float
    devices: int  # of one node
    nodes: int
    serves: Mapping[Confidence, Capacity]
    made: LaunchParts | None  # None: another process found it
    pending: tuple[Alternative, ...] = ()
    part: float = 1.0  # of its one device that it has to itself

    @property
    def kind(self) -> tuple[str, str, int, int, float]:
        """What distinguishes it from the others of an offer."""
        return self.engine, self.quantization, self.devices, self.nodes, self.part

    def amount(self, confidence: Confidence) -> float:
        """What it serves at a confidence; 0 where it does not keep the targets."""
        return self.serves[confidence].amount if confidence in self.serves else 0.0


class Refusal(Value, frozen=True):
    """Why a pool offers nothing for a model."""

    code: str  # does_not_fit, too_slow, engine, unknown
    text: str
    needs_bytes: int | None = None
    times: MissedTimes | None = None


class Offer(Value, frozen=True):
    """What one pool has for one model; `settle` replaces candidates in it."""

    candidates: list[ReplicaCandidate]
    refusal: Refusal | None = None
    short: bool = False  # the cards of a node do not hold the model for the engine that comes first

    def settle(self, candidate: ReplicaCandidate) -> ReplicaCandidate:
        """The candidate with what it serves, which is found out when it is first asked for."""
        if not candidate.pending:
            return candidate
        place = next(k for k, c in enumerate(self.candidates) if c.kind == candidate.kind)
        if self.candidates[place].pending:
            self.candidates[place] = settle(self.candidates[place])
        return self.candidates[place]


class Capacity(Value, frozen=True):
    """What a replica serves. `users` at once in a busy moment; `amount` in the unit of the demand."""

    users: int
    amount: float


UNKNOWN = MissedTimes({})  # times that are not known


def list_candidates(
    demand: ModelDemand, found: ResolvedModel, machine: Machine, node_count: int, session: Session
) -> Offer:
    """The ways to run a replica on nodes like `machine`, of which there are so many. Raises BadInput for a demand that
    contradicts the model."""
    defaults = load_fleet_rules(session.rules)
    on_one = _list_on(demand, found, replace(machine, nodes=1), session, defaults)
    if demand.share_card and machine.usable_devices and not machine.usable_devices[0].mig_profile:
        parts = [_list_on(demand, found, _take_part(machine, part), session, defaults, part) for part in PARTS]
        on_one.candidates.extend(c for offer in parts for c in offer.candidates)
    if on_one.candidates or not on_one.short or not machine.usable_devices:
        return on_one
    for nodes in range(2, min(node_count, defaults.most_nodes) + 1):
        over = _list_on(demand, found, replace(machine, nodes=nodes), session, defaults)
        if over.candidates or (over.refusal is not None and over.refusal.code in ("too_slow", "unknown")):
            return over  # it fits on so many
    return on_one


def _take_part(machine: Machine, part: float) -> Machine:
    """The machine with a part of the memory of its first device, as if others had the rest and the other devices."""
    first = machine.usable_devices[0]
    devices = tuple(
        replace(d, free_bytes=int(part * (d.total_bytes or 0))) if d is first else replace(d, visible=False)
        for d in machine.devices
    )
    return replace(machine, nodes=1, devices=devices)


def _list_on(
    demand: ModelDemand, found: ResolvedModel, machine: Machine, session: Session, defaults: FleetRules,
    part: float = 1.0,
) -> Offer:  # fmt: skip
    """The ways of the first engine that has any."""
    rules = session.rules
    guide = load_main_guide(rules)
    many = replace(demand.workload, rate=None, concurrency=defaults.users_asked_for)
    request = settle_model(RecommendRequest(machine, many, demand.model), found)
    guide_result = ask_guide(request, found.model, guide, rules)
    refusals: list[Refusal] = []
    for entry in _list_engines(demand, guide_result, rules):
        asked = entry if entry.id in demand.engines else None
        search = build_search_request(request, found, guide_result, guide, rules, asked)
        traffic = replace(search.traffic, rate=demand.workload.rate, burst=demand.workload.burst)
        if traffic.rate is None:
            traffic = with_percentile(traffic, demand.percentile)
        work = replace(search.workload, rate=demand.workload.rate)
        search = replace(search, traffic=traffic, workload=work)
        offer = _list_for_engine(entry, search, demand, session, defaults, part)
        formats = {c.quantization for c in offer.candidates}
        if asked is None and formats and not any(has_download(entry, search, rules.quantization(q)) for q in formats):
            refusals.append(Refusal("engine", f"no {', '.join(sorted(formats))} of it is known for {entry.name}"))
        elif offer.candidates:
            return offer
        elif offer.refusal is not None:
            refusals.append(offer.refusal)
    short = next((r.code for r in refusals if r.code != "engine"), None) == "does_not_fit"
    refusals.sort(key=lambda r: (r.code != "too_slow", r.code == "engine"))  # else that of the guide's first
    none = Refusal("engine", "no engine of those allowed serves this here")
    return Offer([], refusals[0] if refusals else none, short)


def _list_engines(demand: ModelDemand, guide_result: GuideResult, rules: Catalog) -> list[Engine]:
    """Servers that may be used, the guide's first."""
    listed = list(guide_result.decision.engines)
    out = []
    for entry in list_in_order(listed, None, rules):
        if demand.engines and entry.id not in demand.engines:
            continue
        if entry.kind != "engine" and entry.id not in (*listed, *demand.engines):
            continue
        support = hardware_support(entry, str(guide_result.facts.get("gpu.vendor")))
        own = entry.id in listed or entry.id in demand.engines
        if own or (support is not None and support.support == "yes"):
            out.append(entry)
    return out


def _list_for_engine(
    entry: Engine, search: SearchRequest, demand: ModelDemand, session: Session, defaults: FleetRules, part: float
) -> Offer:
    tools = prepare_engine(entry, search, session)
    if not isinstance(tools, EngineTools):
        text = next((r.text for r in tools.reasons), f"{entry.name} serves nothing here")
        return Offer([], Refusal("engine", text))
    asked = replace(search, quantization=None)
    usable = list(find_usable_formats(entry, asked, session.rules, []))
    if demand.quantizations:
        usable = []
        for name in demand.quantizations:
            usable += find_usable_formats(entry, replace(search, quantization=name), session.rules, [])
    attempts = [a for a in list_attempts(tools, search, usable) if not a.offload]
    if not attempts:
        return Offer([], Refusal("engine", f"{entry.name} has no format of those allowed for {search.model.id}"))
    tried: list[TriedFormat] = []
    late: list[MissedTimes] = []
    for tier in _list_tiers(attempts, tools, search, bool(demand.quantizations), defaults):
        found: dict[tuple[int, int, str], ReplicaCandidate] = {}
        for attempt in tier:
            trial = Trial(tools, search, attempt, Bounds(), tried)
            for candidate in _list_for_attempt(trial, defaults, late, demand.percentile, part):
                key = candidate.devices, candidate.nodes, candidate.quantization
                found[key] = _join(found.get(key), candidate)
        if found:
            return Offer(list(found.values()))
    known = [m for m in late if m != UNKNOWN]
    if late and not known:
        return Offer([], Refusal("unknown", f"how fast {entry.name} runs {search.model.id} here is not known"))
    if known:
        text = f"{entry.name} is too slow here"
        nearest = min(known, key=lambda m: [m.times.get(k, 0.0) for k in ("tpot_s", "ttft_s", "e2e_s")])
        return Offer([], Refusal("too_slow", text, times=nearest))
    least = min((t.needs_bytes for t in tried if t.fits is False and t.needs_bytes), default=None)
    reason = next((t.text for t in reversed(tried)), None)
    code = "does_not_fit" if any(t.fits is False for t in tried) or not tried else "unknown"
    return Offer([], Refusal(code, reason or f"{entry.name} serves nothing here", least))


def _worth(candidate: ReplicaCandidate) -> tuple[float, float]:
    """What is better of two layouts of as many devices."""
    return candidate.amount("likely"), candidate.amount("safe")


def _join(one: ReplicaCandidate | None, other: ReplicaCandidate) -> ReplicaCandidate:
    """The better of two layouts of as many devices; where that is not known yet, both."""
    if one is None:
        return other
    if one.pending and other.pending:
        serves = max(one, other, key=_worth).serves
        return replace(one, serves=serves, pending=(*one.pending, *other.pending))
    return max(settle(one), settle(other), key=_worth)


def settle(candidate: ReplicaCandidate) -> ReplicaCandidate:
    """The best of the pending launches, by simulation; without anything that it serves where none keeps the targets."""
    best, users, better = None, 0, True
    for other in candidate.pending:
        if other.after == LADDER and not better:
            break
        if users < other.after or (best is not None and other.bound <= best.amount("likely")):
            continue
        serves = _simulate(other, [])
        made = replace(candidate, serves=serves, made=other.made, pending=())
        users = max(users, *(c.users for c in serves.values()), 0)
        better = best is None or _worth(made) > _worth(best)
        best = made if better or best is None else best
    if best is None:
        return replace(candidate, serves={}, pending=()) if candidate.pending else candidate
    return best


def _simulate(launch: Alternative, late: list[MissedTimes]) -> dict[Confidence, Capacity]:
    """What a launch serves at each confidence, by simulation."""
    serves: dict[Confidence, Capacity] = {}
    for confidence in CONFIDENCES:
        likely = serves["likely"].amount / launch.part if "likely" in serves else None
        targets = replace(launch.targets, safe=confidence == "safe")
        found = _find_capacity_at_rate(launch.table, launch.load, launch.known, targets, launch.share, likely)
        if isinstance(found, Capacity):
            serves[confidence] = replace(found, amount=launch.part * found.amount)
        elif confidence == "likely":
            late.append(found)
    return serves


def _is_surely_in_time(launch: Alternative) -> bool:
    """Whether one request alone keeps the targets by far, so that no simulation is needed to say that some do."""
    table, load, most = launch.table, launch.load, launch.targets.most
    between = table.decode(1.0, load.prompt.p95 + load.output.p95)
    steps = -(-load.prompt.p95 // max(1, table.limits.chunk))
    reading = load.prompt.p95 * (max(table.read) + max(table.read_rest))
    first = launch.known.outside_steps.value + reading + steps * between
    times = {"ttft_s": first, "tpot_s": between, "e2e_s": first + load.output.p95 * between}
    return all(times[k] <= launch.known.surely * limit for k, limit in most.items())


def _list_tiers(
    attempts: Sequence[Attempt], tools: EngineTools, search: SearchRequest, named: bool, defaults: FleetRules
) -> list[list[Attempt]]:
    """Formats that are as good as each other: those of eight bits and more, and the one that the model is published
    in; then four bits; each with the engine's own cache type first. Fewer than four bits only where they are named.
    """
    known = [a for a in attempts if has_download(tools.entry, search, a.chosen.quantization)] or list(attempts)
    own, tiers = native_format(search.model), dict[tuple[bool, bool], list[Attempt]]()
    for attempt in known:
        if attempt.narrow and not named:
            continue
        weights = attempt.chosen.quantization
        wide = named or weights.id == own or weights.bits_nominal >= defaults.least_bits
        key = (not wide, attempt.cache != "auto")
        tiers.setdefault(key, []).append(attempt)
    return [tiers[k] for k in sorted(tiers)]


def _list_for_attempt(
    trial: Trial, defaults: FleetRules, late: list[MissedTimes], share: float, part: float
) -> list[ReplicaCandidate]:
    """What one format offers: for each number of devices the layout that serves the most."""
    tools, search = trial.tools, trial.search
    much = find_too_large(tools, search, trial.attempt.chosen.quantization, False)
    if much is not None:
        trial.tried.append(much)
        return []
    machine = search.machine
    base = make_base(tools, search, trial.attempt, machine)
    if not (find_own_flag(tools.entry, "tensor_parallel") and machine.usable_devices):
        return _list_whole_nodes(trial, defaults, late, share) if part == 1 else []
    best: dict[tuple[int, int], ReplicaCandidate] = {}
    admitted, after = 1 if search.traffic.rate is None else 2, 0  # times the users: of a rate, more than come at once
    for users in STEPS:
        sized_for = _with_users(trial, users)
        units = size_units(sized_for, base)
        if units.failed is not None and not units.sure:
            note_failure(trial, *units.failed)
        full = False
        for sized in units.sure:
            nodes = sized.unit.layout.nodes
            if machine.nodes > 1 and nodes != machine.nodes:
                continue  # fits on fewer, which was looked at
            parts, memory = LaunchParts(sized_for, sized), (sized.unit.deployment, sized.memory)
            key = sized.unit.cards // nodes, nodes
            least = best[key].amount("likely") if key in best and not best[key].pending else 0.0
            candidate = _make_candidate(parts, *key, memory, sized.held, late, share, least, after, part)
            if candidate is None:
                continue
            best[key] = _join(best.get(key), candidate)
            reached = sized.held if candidate.pending else max(c.users for c in candidate.serves.values())
            full |= reached >= admitted * users
        if not full:
            break
        after = admitted * users
    return list(best.values())


def _with_users(trial: Trial, users: int) -> Trial:
    search = trial.search
    traffic = replace(search.traffic, users=users)
    return replace(trial, search=replace(search, traffic=traffic))


def _make_candidate(
    made: LaunchParts, devices: int, nodes: int, on: tuple[Deployment, MemoryEstimate], held: int,
    late: list[MissedTimes], share: float, least: float = 0.0, after: int = 0, part: float = 1.0,
) -> ReplicaCandidate | None:  # fmt: skip
    """A replica of a deployment and its memory that holds `held` requests; None where it serves nobody in time, or at
    any rate no more than `least`. How much it serves of a rate is left open where that is surely something.

    With a `part` of a card others have their turns, too, so everything takes 1 / part as long: it keeps limits
    that the whole card keeps `part` times as long ones, at `part` of its rate."""
    search, tools, rules = made.trial.search, made.trial.tools, made.trial.tools.session.rules
    targets, weights = find_targets(search.workload, search.machine, rules), made.trial.attempt.chosen.quantization
    targets = replace(targets, most={k: part * limit for k, limit in targets.most.items()})
    whole = ReplicaCandidate(tools.entry.id, weights.id, weights.bits_nominal, devices, nodes, {}, made, part=part)
    if search.traffic.rate is None:
        rate = partial(estimate_rate, made.trial, *on)
        serves = _list_kept(rate, held, targets, late)
        return replace(whole, serves=serves) if serves else None
    table, known = _make_table(made.trial, *on, held), load_engine_rules(rules).arrivals
    if table is None:
        late.append(UNKNOWN)
        return None
    # a fleet is planned for the rate of a busy moment
    load = replace(make_load(on[0], search.traffic, tools.session), burst=1.0)
    bound = part * limit_rate(table, load, known)
    if bound <= least:
        return None
    launch = Alternative(made, table, load, targets, share, known, bound, after, part)
    if bound > 0 and _is_surely_in_time(launch):
        most = {"likely": Capacity(0, bound), "safe": Capacity(0, bound / table.around[1])}
        return replace(whole, serves=most, made=None, pending=(launch,))
    serves = _simulate(launch, late)
    return replace(whole, serves=serves) if serves else None


def _list_kept(rate: SpeedOf, held: int, targets: Targets, late: list[MissedTimes]) -> dict[Confidence, Capacity]:
    """The users that a replica serves at once, at each confidence."""
    serves: dict[Confidence, Capacity] = {}
    for confidence in CONFIDENCES:
        found = find_capacity(rate, held, replace(targets, safe=confidence == "safe"))
        if isinstance(found, Capacity):
            serves[confidence] = found
        elif confidence == "likely":
            late.append(found or UNKNOWN)
    return serves


def _make_table(trial: Trial, deployment: Deployment, memory: MemoryEstimate, held: int) -> StepTable | None:
    """The steps of a replica that holds so many requests; None where they are not known, and where it holds none."""
    traffic = trial.search.traffic
    session = trial.tools.session
    made = make_step_table(deployment, memory, session, traffic.typical_tokens, traffic.use_case) if held > 0 else None
    if made is None:
        return None
    return replace(made, limits=replace(made.limits, running=min(made.limits.running, -(-held // made.replicas))))


def _find_capacity_at_rate(
    table: StepTable, load: Load, known: ArrivalRules, targets: Targets, share: float, likely: float | None
) -> Capacity | MissedTimes:
    """The highest rate at which `share` of the requests keep the targets, by simulation. `likely`: that by likely
    steps."""
    near = likely / table.around[1] if targets.safe and likely else None
    limits = {
        k: KeptLimit(most, SHARES[targets.percentiles[k]] if k in targets.percentiles else share)
        for k, most in targets.most.items()
    }
    found = find_served_rate(table, load, limits, known, targets.safe, near)
    if isinstance(found, MissedTimes):
        return found
    return Capacity(found.running, found.rate)


def _list_whole_nodes(
    trial: Trial, defaults: FleetRules, late: list[MissedTimes], share: float
) -> list[ReplicaCandidate]:
    """An engine that takes memory for each request: a server on the whole node, for as many users as it serves."""
    if trial.search.machine.nodes > 1:
        return []
    best: ReplicaCandidate | None = None
    users = 1
    while users <= defaults.most_users:
        asked = _with_users(trial, users)
        base = make_base(asked.tools, asked.search, asked.attempt, asked.search.machine)
        plan = place_on_nodes(asked, base, 1)
        if plan is None or not plan.starts or plan.memory.fits is not True or not plan.holds_all:
            break
        devices, parts = max(1, len(asked.search.machine.usable_devices)), LaunchParts(asked, None, plan)
        made = _make_candidate(parts, devices, 1, (plan.deployment, plan.memory), users, late, share, after=LADDER)
        if made is None or (best is not None and _worth(made) <= _worth(best)):
            break
        best = _join(best, made) if made.pending else made
        users *= 2
    return [best] if best is not None else []


def make_replica_plan(made: LaunchParts, users: int, load: float) -> Plan:
    """The deployment of a candidate, sized for so many requests at once, with the load that it takes of the demand."""
    if made.sized is None:
        assert made.plan is not None
        return _without_endless_wait(made.plan)
    trial = _with_users(made.trial, max(1, users))
    if trial.search.traffic.rate is not None:
        traffic = replace(trial.search.traffic, rate=load, burst=1.0)
        trial = replace(trial, search=replace(trial.search, traffic=traffic))
    sized = made.sized
    speed = estimate_rate(trial, sized.unit.deployment, sized.memory, max(1, users))
    return _without_endless_wait(finish_arrangement(trial, Arrangement(sized, 1, speed, True, True)))


def _without_endless_wait(plan: Plan) -> Plan:
    """A wait whose upper bound has no end is not known."""
    if plan.holds is None or plan.holds.wait_s is None or plan.holds.wait_s.high is not None:
        return plan
    return replace(plan, holds=replace(plan.holds, wait_s=None))


def with_percentile(traffic: Traffic, percentile: float) -> Traffic:
    """The traffic with prompts of this percentile where the planner takes those of the 95th."""
    factor = NormalDist().inv_cdf(percentile) / P95_OF_NORMAL
    if abs(factor - 1) < 1e-3:
        return traffic
    spread = max(0.0, factor) * (traffic.prompt.p95 - traffic.prompt.mean)
    longest = min(traffic.context_length - traffic.output.mean, math.ceil(traffic.prompt.mean + spread))
    prompt = TokenSpread(mean=traffic.prompt.mean, p95=max(traffic.prompt.mean, longest))
    return replace(traffic, prompt=prompt)


def find_capacity(speed_of: SpeedOf, held: int, targets: Targets) -> Capacity | MissedTimes | None:
    """The most users that a replica serves at once which holds `held` requests; None where its speed is not known."""

    def on_time(users: int) -> bool:
        asked = (t for t in reversed(TARGETS) if t.figure in targets.most)
        return all(meets_target(t, speed_of(users, t.long_prompts), targets) is True for t in asked)

    first = speed_of(1, False)
    if first is None or first.output_tps is None:  # what nobody waits for is served where it is held
        return Capacity(held, float(held)) if not targets.most and held > 0 else None
    if held < 1 or not on_time(1):
        long = speed_of(1, True) if targets.about_long_prompts else None
        asked = (t for t in TARGETS if t.figure in targets.most)
        times = {t.figure: t.find_time(long if t.long_prompts else first, targets.output) for t in asked}
        return MissedTimes({k: t.high if targets.safe else t.value for k, t in times.items() if t is not None})
    users = _find_largest(on_time, held)
    return Capacity(users, float(users))


def _find_largest(holds: Callable[[int], bool], most: int) -> int:
    """The largest number up to `most` for which it holds, where it holds for 1 and stops holding once."""
    if holds(most):
        return most
    low, high = 1, most
    while high - low > max(1, low // 32):
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
