"""Plans next to the chosen one: up to three to choose from, by name, near misses; and what a growing load needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec.structs import replace

from advisor import estimation
from advisor.advice.limits import find_largest
from advisor.advice.models.choice import SizedModel
from advisor.advice.types import Advice, NearMiss, RankedDeployment, SpeculationOffer
from advisor.catalog import Catalog
from advisor.catalog.types import Engine, Quantization
from advisor.decision.evaluate import evaluate_guide, list_thresholds
from advisor.decision.types import Decision, FactValues, Guide, Reason
from advisor.deployment import Deployment, MemoryEstimate, Workload
from advisor.engines.additions import limit_requests
from advisor.errors import AdvisorError
from advisor.machines.types import Machine
from advisor.planning.candidates import find_engine_additions
from advisor.planning.format_candidates import FOUR_BIT_QUALITY, find_usable_formats, has_download
from advisor.planning.layouts import with_settings
from advisor.planning.objective import estimate_traffic_speed, output_rate
from advisor.planning.rules import load_plan_rules
from advisor.planning.search import ask_for_speculation, find_best_plan
from advisor.planning.slots import on_all_layers
from advisor.planning.types import Plan, Rejection, SearchRequest
from advisor.planning.utility import UtilityRules, add_up, cost_format, load_utility
from advisor.session import Session
from advisor.units import GIB, format_gib, format_rate, format_tokens

SHOWN_MISSES = 3


def add_named_plans(
    advice: Advice,
    best: tuple[Engine, Plan] | None,
    search: SearchRequest,
    session: Session,
    rank: Callable[[Engine, Plan], RankedDeployment],
    needs: Mapping[str, int],
) -> Advice:
    """The advice with its named plans among the alternatives, and its near misses. `best`: the chosen plan; `needs`:
    bytes that a refused engine wants at the least."""
    refused = {r.engine: r.reasons for r in advice.rejected}
    misses = tuple(list_near_misses(advice.chosen, refused, needs, search.machine))
    advice = replace(advice, near_misses=misses)
    if best is None or advice.chosen is None or advice.chosen.deployment is None:
        return advice
    entry, plan = best
    alternatives, named, kinds = list(advice.alternatives), dict(advice.named), dict[str, RankedDeployment]()
    for name, found in (
        ("fastest", find_fastest(entry, plan, search, session)),
        ("widest", find_widest(entry, plan, search, session)),
        ("fewest", find_fewest(entry, plan, search, session)),
    ):
        if found is None:
            continue
        made = kinds[name] = rank(entry, found[0]).with_fields(gains=tuple(found[1]))
        if name in named:
            named[name] = len(alternatives)
            alternatives.append(made)
    simplest = find_simplest([advice.chosen, *advice.alternatives], search)
    if simplest is not None:
        named["simplest"] = simplest
        easy = alternatives[simplest]
        alternatives[simplest] = easy.with_fields(gains=("the simplest to install and run",))
    offer = offer_speculation(entry, plan, search, session)
    choices = tuple(choose_plans(advice.chosen, kinds.get("fastest"), kinds.get("fewest")))
    return replace(advice, alternatives=tuple(alternatives), named=named, choices=choices, speculation=offer)


def offer_speculation(entry: Engine, plan: Plan, search: SearchRequest, session: Session) -> SpeculationOffer | None:
    """What speculative decoding would bring the plan; None where it has it, it pays only by luck, or has no room."""
    asked, deployment = ask_for_speculation(entry, search, session.rules), plan.deployment
    if asked is None or plan.offload or plan.speed is None or plan.speed.gain is not None or not plan.starts:
        return None
    added = find_engine_additions(entry, asked, session.rules).settings
    more = {k: v for k, v in added.items() if k not in deployment.settings}
    drafted, _ = estimation.with_draft(with_settings(deployment, more), entry, session.rules)
    try:
        memory = estimation.estimate(drafted, session)
    except AdvisorError:
        return None
    users = -(-search.traffic.users // max(1, plan.copies))
    speed = estimate_traffic_speed(drafted, memory, search.traffic, users, False, session)
    if not more or not memory.fits or speed is None or speed.gain is None or speed.gain.low <= 1:
        return None
    grown = sum_places(memory) - sum_places(plan.memory)
    return SpeculationOffer(settings=more, gain=speed.gain, more_bytes=max(0, grown))


NamedPlan = tuple[Plan, tuple[str, ...]]  # with what it gains and loses


def find_fastest(entry: Engine, chosen: Plan, search: SearchRequest, session: Session) -> NamedPlan | None:
    """The plan of the same engine that answers the most (one user: the soonest), with the narrowest format of four bits
    and more that costs little more than the chosen one, else with that; where it is clearly faster."""
    if chosen.offload or search.workload.priority in ("throughput", "latency"):
        return None
    work: Workload = replace(search.workload, priority="throughput" if search.traffic.users > 1 else "latency")
    asked = replace(search, workload=work, cache=chosen.deployment.kv_cache_type.k)
    for quantization in (*_list_narrowest(entry, chosen, search, session.rules), chosen.quantization):
        found = find_best_plan(entry, replace(asked, quantization=quantization.id), session)
        if isinstance(found, Plan) and found.starts and (named := _name_faster(chosen, found, search, session.rules)):
            return named
    return None


def _list_narrowest(entry: Engine, chosen: Plan, search: SearchRequest, rules: Catalog) -> list[Quantization]:
    """The narrowest format of four bits and more with a download that costs little more than the chosen; or none."""

    def cost(quantization: Quantization) -> float:
        return add_up(cost_format(quantization, entry.id, search, rules))

    least = cost(chosen.quantization) - load_utility(rules).near
    usable = [f.quantization for f in find_usable_formats(entry, search, rules, [])] if not search.quantization else []
    fits = [q for q in usable if q.quality >= FOUR_BIT_QUALITY and has_download(entry, search, q) and cost(q) >= least]
    narrower = [q for q in fits if q.bits_nominal < chosen.quantization.bits_nominal]
    return sorted(narrower, key=lambda q: q.bits_nominal)[:1]


def _name_faster(chosen: Plan, found: Plan, search: SearchRequest, rules: Catalog) -> NamedPlan | None:
    """The plan that was found with what it gains and loses; None where it is not clearly faster."""
    now, then = _rate(chosen, search), _rate(found, search)
    if not now or then < load_plan_rules(rules).named * now:
        return None
    gains = [f"{format_rate(then)} tokens/s instead of {format_rate(now)}"]
    if found.speed and found.speed.gain and not (chosen.speed and chosen.speed.gain):
        if found.quantization == chosen.quantization and found.layout == chosen.layout:
            return None  # the same plan: what speculation is sure to bring stands in a row of its own
        gains.append("by speculative decoding")
    return found, (*gains, *_losses(chosen, found))


def find_widest(entry: Engine, chosen: Plan, search: SearchRequest, session: Session) -> NamedPlan | None:
    """The plan of the same engine with the widest weights that start, where they are wider than the chosen ones."""
    if chosen.offload or search.quantization is not None:
        return None
    named = load_plan_rules(session.rules).named
    wider = [
        f.quantization
        for f in find_usable_formats(entry, search, session.rules, [])
        if f.quantization.bits_nominal > named * chosen.quantization.bits_nominal
        and has_download(entry, search, f.quantization)
    ]
    for quantization in sorted(wider, key=lambda q: -q.bits_nominal):
        found = find_best_plan(entry, replace(search, quantization=quantization.id), session)
        if isinstance(found, Plan) and found.starts and not found.offload:
            gains = (f"{quantization.id} instead of {chosen.quantization.id}",)
            return found, (*gains, *_losses(chosen, found))
    return None


def find_fewest(entry: Engine, chosen: Plan, search: SearchRequest, session: Session) -> NamedPlan | None:
    """The plan of the same engine on the fewest cards that hold the users in time, where these are fewer."""
    now = len(chosen.layout.devices) * chosen.layout.nodes
    if now < 2 or chosen.offload or search.workload.fewest:
        return None
    asked = replace(search, quantization=chosen.quantization.id, workload=replace(search.workload, fewest=True))
    found = find_best_plan(entry, asked, session)
    if isinstance(found, Rejection) or not found.starts or len(found.layout.devices) * found.layout.nodes >= now:
        return None
    cards = len(found.layout.devices) * found.layout.nodes
    return found, (f"needs only {cards} of {now} cards (--fewest)",)


def find_simplest(offered: Sequence[RankedDeployment], search: SearchRequest) -> int | None:
    """Index among the alternatives of what the guide recommends where ease matters most."""
    if search.workload.priority == "ease":
        return None
    easy = evaluate_guide(search.guide, {**search.facts, "workload.priority": "ease"}).engines
    names = [x.engine for x in offered]
    for engine in easy:
        if engine in names:
            return names.index(engine) - 1 if names.index(engine) else None
    return None


def list_near_misses(
    chosen: RankedDeployment | None,
    rejected: dict[str, tuple[Reason, ...]],
    needs: Mapping[str, int],
    machine: Machine,
) -> Iterator[NearMiss]:
    """What does not fit by a little, and what would hold it: wider formats of the chosen engine, else the engines that
    find no room. `needs`: bytes that an engine wants at the least."""
    if chosen is not None:
        larger = [t for t in chosen.tried if t.larger]
        for tried in larger[-SHOWN_MISSES:]:
            what, _, missing = tried.text.partition(" does not fit: ")
            holds = describe_room(tried.needs_bytes, machine) or "more or larger cards"
            yield NearMiss(what=f"{what} on {chosen.engine_name}", missing=missing, would_fit_if=holds)
        return
    tight = [(e, r) for e, reasons in rejected.items() for r in reasons if r.code == "does_not_fit"]
    tight.sort(key=lambda x: needs.get(x[0], sys.maxsize))
    for engine, reason in tight[:SHOWN_MISSES]:
        text = reason.text.rpartition("; ")[2] if reason.text.count("; ") else reason.text
        enough = describe_room(needs.get(engine), machine)
        other = "a shorter --context, fewer --users or a smaller model"
        yield NearMiss(what=engine, missing=text, would_fit_if=f"{enough}; or {other}" if enough else other)


def describe_room(needs: int | None, machine: Machine) -> str | None:
    """What would hold so many bytes: more such cards, or larger ones; None where that is not known."""
    cards = machine.usable_devices
    if needs is None:
        return None
    if not cards:
        return f"at least {-(-needs // GIB)} GiB of memory"
    sizes = [x.free_bytes if x.free_bytes is not None else x.total_bytes for x in cards]
    if any(r is None for r in sizes) or len({x.name for x in cards}) > 1:
        return None
    each = min(r for r in sizes if r is not None)
    count = -(-needs // each) if each else 0
    such = f"{count} such cards instead of {len(cards)}" if count > len(cards) else ""
    larger = f"at least {-(-needs // (GIB * len(cards)))} GiB on each"
    return f"{such}, or {larger}" if such else larger


def _rate(plan: Plan, search: SearchRequest) -> float:
    """Output tokens a second; of one user while they come."""
    if search.traffic.users == 1 and plan.speed is not None and plan.speed.tpot_s is not None:
        return 1 / plan.speed.tpot_s.value
    return output_rate(plan.speed)


def _losses(chosen: Plan, other: Plan) -> Iterator[str]:
    """What the other plan costs more."""
    now, then = len(chosen.layout.devices), len(other.layout.devices)
    if now != then:
        yield f"{then} card{'s' if then != 1 else ''} instead of {now}"
    if other.quantization.id != chosen.quantization.id:
        yield f"{other.quantization.id} weights"
    mine, its = (sum(r.total_bytes or 0 for r in p.memory.devices) for p in (chosen, other))
    if mine and its > 1.2 * mine:
        yield f"{format_gib(its, 0)} in all instead of {format_gib(mine, 0)}"
    if other.holds is not None and other.holds.waiting:
        yield f"{other.holds.waiting} of {other.holds.asked} wait"


MOST_USERS, CONTEXT_STEP = 1024, 1024  # how far users are followed; tokens that context is followed in
ROUNDS = 4  # of looking for a limit where two answers point to
_STEPS = (2, 4, 5, 8, 16, 32, 64, 128, 256)  # users at which the guide is asked again


def describe_growth(
    deployment: Deployment, facts: FactValues, guide: Guide, decision: Decision, session: Session, cards: int | None
) -> tuple[str, ...]:
    """Users, context and model size at which the deployment ends, and what follows it: a sentence each. `cards`: those
    of all copies.

    Limits are asked of the estimator (it surely fits at the limit, and is not sure one step beyond); the next engine is
    the guide's answer for more users.
    """
    copies = max(1, (cards or 0) // (deployment.device_count or 1))
    length = deployment.context_length or 4096
    trained = deployment.model.max_context or 64 * length
    held = on_all_layers(deployment, session.rules.engines()[deployment.engine])
    now = estimation.estimate(held, session)
    on_devices = sum(r.weights_bytes or 0 for r in now.devices)
    offloaded = now.host is not None and (now.host.weights_bytes or 0) > OFFLOADED * on_devices
    movable = held is not deployment  # by the engine itself
    cache_flags = session.rules.engines()[deployment.engine].concepts.kv_cache_type.flags
    wide_cache = deployment.kv_cache_type.k == "auto" and deployment.settings.keys().isdisjoint(cache_flags)
    if now.devices and (offloaded or (movable and now.fits is not True)):  # more would only move layers to the host
        return _engine_steps(deployment, facts, guide, decision, None)
    users = _limit(lambda n: _estimate_changed(held, session, sequences=n), now, deployment.sequences, MOST_USERS)
    most = limit_requests(deployment, session.rules.engines()[deployment.engine])
    if most is not None:
        users = min(most, users or most)
    steps = _limit(
        lambda k: _estimate_changed(held, session, context_length=CONTEXT_STEP * k),
        now if length % CONTEXT_STEP == 0 else None,
        max(1, length // CONTEXT_STEP),
        max(1, trained // CONTEXT_STEP),
    )
    context = None if steps is None else max(CONTEXT_STEP * steps, length)
    out = list(_engine_steps(deployment, facts, guide, decision, users))
    if users is not None and users < MOST_USERS:
        many = f"{users * copies} request{'' if users * copies == 1 else 's'} of {format_tokens(length)} tokens"
        out.append(f"beyond {many} at once: {_more_users(deployment, cards, wide_cache)}")
    longest, then = deployment.model.max_context, "a model trained for more"
    if context is not None and context < (longest or 2**31):
        longest = context
        then = "8-bit KV cache, another card" if wide_cache else "another card"
    if longest:
        requests = f"{deployment.sequences * copies} requests" if deployment.sequences * copies > 1 else "one request"
        out.append(f"beyond {format_tokens(longest)} tokens in {requests}: {then}")
    largest = _largest_model(deployment, now)
    if largest:
        size = f"{largest / 1e9:.0f}B parameters in {deployment.quantization}"
        out.append(f"beyond about {size}: more or larger cards, or a narrower weight format")
    return tuple(out)


OFFLOADED = 0.1  # of the weights on the cards: so much in host memory is offload, and no table that is looked up


def _engine_steps(
    deployment: Deployment, facts: FactValues, guide: Guide, decision: Decision, users: int | None
) -> tuple[str, ...]:
    """From how many users on the guide takes another engine, where that is before memory ends."""
    engine_at, following = _next_engine(deployment, facts, guide, decision)
    if engine_at is None or (users is not None and engine_at > users):
        return ()
    return (f"from {engine_at} users at once the guide recommends {following}",)


def _estimate_changed(deployment: Deployment, session: Session, **change: int) -> MemoryEstimate | None:
    try:
        return estimation.estimate(replace(deployment, **change), session)
    except AdvisorError:
        return None


def _limit(
    ask: Callable[[int], MemoryEstimate | None], now: MemoryEstimate | None, here: int, at_most: int
) -> int | None:
    """The largest number that surely fits. Memory grows about evenly, so two answers tell where to look."""
    known: dict[int, MemoryEstimate | None] = {} if now is None else {here: now}

    def at(n: int) -> MemoryEstimate | None:
        if n not in known:
            known[n] = ask(n)
        return known[n]

    def fits(n: int) -> bool:
        estimate = at(n)
        return estimate is not None and estimate.fits is True

    last, near = here, min(2 * here, at_most)
    for _ in range(ROUNDS):
        meeting = _where_full((last, at(last)), (near, at(near)))
        if meeting is None:
            break
        last, near = near, max(1, min(meeting, at_most))
        if near in known:
            break
    return find_largest(fits, at_most, near)


def _where_full(lower: tuple[int, MemoryEstimate | None], upper: tuple[int, MemoryEstimate | None]) -> int | None:
    """Where the first place that fills is full, on straight lines through two answers; None where none fills."""
    found = []
    for x, y in zip(_list_headroom(lower[1]), _list_headroom(upper[1]), strict=False):
        if x is not None and y is not None and (x - y) * (upper[0] - lower[0]) > 0:
            found.append(lower[0] + x * (upper[0] - lower[0]) // (x - y))
    return min(found, default=None)


def _list_headroom(estimate: MemoryEstimate | None) -> tuple[int | None, ...]:
    """Bytes that each place surely has left; negative where it may be short, None where that is not known."""
    rows = () if estimate is None else (*estimate.devices, *(() if estimate.host is None else (estimate.host,)))
    return tuple(
        None if r.budget_bytes is None or r.high_bytes is None else r.budget_bytes - r.high_bytes for r in rows
    )


def _next_engine(
    deployment: Deployment, facts: FactValues, guide: Guide, decision: Decision
) -> tuple[int | None, str | None]:
    """(users, the engines then) where the guide, which now names this engine first or second, no longer does."""

    def recommended(decision: Decision) -> bool:
        return deployment.engine in decision.engines[:2] and deployment.engine not in decision.held_back

    if not recommended(decision):
        return None, None
    now = int(facts.get("workload.concurrency") or 1)
    turns = list_thresholds(guide, "workload.concurrency")
    for before, n in pairwise((now, *(s for s in _STEPS if s > now))):
        if not any(before <= t <= n for t in turns):
            continue  # no condition tells them apart
        there = evaluate_guide(guide, {**facts, "workload.concurrency": n})
        if there.engines and not recommended(there):
            others = [e for e in there.engines if e not in there.held_back][:2]
            return n, " or ".join(others) or f"another engine than {deployment.engine}"
    return None, None


def _more_users(deployment: Deployment, cards: int | None, wide_cache: bool) -> str:
    """What holds more requests than these cards do."""
    there = len(deployment.machine.usable_devices) if deployment.machine is not None else 0
    if there > (cards or deployment.device_count or there):
        return "the unused cards (data or tensor parallel)"
    if wide_cache:
        return "8-bit KV cache, second machine"
    return "a second machine behind a router"


def _largest_model(deployment: Deployment, estimate: MemoryEstimate) -> int | None:
    """Parameters of the largest model of this kind that its cards would hold in this format: scaled weights."""
    shares = [
        1 + (r.budget_bytes - r.high_bytes) / r.weights_bytes
        for r in estimate.devices
        if r.budget_bytes and r.high_bytes and r.weights_bytes
    ]
    if not shares or len(shares) != len(estimate.devices):
        return None
    share = min(shares)
    return int(deployment.model.params_total * share) if share > 0 else None


def choose_models(
    chosen: RankedDeployment,
    sized: Sequence[SizedModel],
    weights: UtilityRules,
    rank: Callable[[SizedModel], RankedDeployment],
) -> tuple[RankedDeployment, ...]:
    """The choices among models, `sized`: those that were looked at, the chosen one first."""
    first = sized[0]
    able = max(sized, key=lambda x: _careful(x, weights))
    ablest = _careful(able, weights) - _careful(first, weights) <= weights.tie
    out = [chosen.with_fields(kind="ablest" if ablest else "quick")]
    if not ablest:
        out.append(rank(able).with_fields(kind="ablest"))
    near = [x for x in sized if _careful(x, weights) >= _careful(first, weights) - weights.near]
    quick = min(near, key=lambda x: x.option.answer_s or float("inf"))
    if ablest and (quick.option.answer_s or 0) < weights.clearly * (first.option.answer_s or 0):
        out.append(rank(quick).with_fields(kind="quick"))
    taken = {x.model for x in out}
    least = min(near, key=lambda x: sum_places(x.plan.memory))
    if least.model.id not in taken and sum_places(least.plan.memory) < weights.clearly * sum_places(first.plan.memory):
        out.append(rank(least).with_fields(kind="light"))
    return tuple(out)


def choose_plans(
    chosen: RankedDeployment, quick: RankedDeployment | None, light: RankedDeployment | None
) -> Iterator[RankedDeployment]:
    """The choices of one model: the chosen plan, the fastest, the one on the fewest cards."""
    for kind, plan in (("ablest", chosen), ("quick", quick), ("light", light)):
        if plan is not None:
            yield plan.with_fields(kind=kind)


def _careful(sized: SizedModel, weights: UtilityRules) -> float:
    return sized.option.ability - weights.caution * sized.option.spread


def sum_places(memory: MemoryEstimate) -> int:
    """Bytes of all devices and the host."""
    return sum(x.total_bytes or 0 for x in (*memory.devices, memory.host) if x is not None)
