"""Other plans next to the chosen one, by name: the fastest, the widest weights, the simplest to run; and near
misses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from advisor.advice.types import Advice, NearMiss, RankedDeployment
from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.decision.evaluate import evaluate_guide
from advisor.decision.types import Reason
from advisor.deployment import Workload
from advisor.engines.flags import find_concept
from advisor.machines.types import Machine
from advisor.planning.format_candidates import find_usable_formats, has_download
from advisor.planning.objective import output_rate
from advisor.planning.plan_rules import load_plan_rules
from advisor.planning.search import find_best_plan
from advisor.planning.search_request import FormatLimits, SearchRequest
from advisor.planning.types import Plan, Rejection
from advisor.units import GIB, format_gib, format_rate

SHOWN_MISSES = 3


def add_named_plans(
    advice: Advice,
    best: tuple[Engine, Plan] | None,
    search: SearchRequest,
    rules: Catalog,
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
    alternatives, named = list(advice.alternatives), dict[str, int]()
    for name, found in (
        ("fastest", find_fastest(entry, plan, search, rules)),
        ("widest", find_widest(entry, plan, search, rules)),
    ):
        if found is not None:
            made = replace(rank(entry, found[0]), gains=found[1])
            named[name] = len(alternatives)
            alternatives.append(made)
    simplest = find_simplest([advice.chosen, *advice.alternatives], search)
    if simplest is not None:
        named["simplest"] = simplest
        easy = alternatives[simplest]
        alternatives[simplest] = replace(easy, gains=("the simplest to install and run",))
    return replace(advice, alternatives=tuple(alternatives), named=named)


NamedPlan = tuple[Plan, tuple[str, ...]]  # with what it gains and loses


def find_fastest(entry: Engine, chosen: Plan, search: SearchRequest, rules: Catalog) -> NamedPlan | None:
    """The plan of the same engine that answers the most (one user: the soonest), where it is clearly faster."""
    if chosen.offload or search.workload.priority in ("throughput", "latency"):
        return None
    priority = "throughput" if search.traffic.users > 1 else "latency"
    limits = FormatLimits(chosen.quantization.bits_nominal, chosen.deployment.kv_cache_type.k)
    found = find_best_plan(entry, replace(_with_priority(search, priority), limits=limits), rules)
    if isinstance(found, Rejection) or not found.starts:
        return None
    now, then = _rate(chosen, search), _rate(found, search)
    if not now or then < load_plan_rules(rules).named * now:
        return None
    gains = [f"{format_rate(then)} tokens/s instead of {format_rate(now)}"]
    drafts = find_concept(entry, "speculative").flags
    if any(x in found.deployment.settings and x not in chosen.deployment.settings for x in drafts):
        gains.append("by speculative decoding")
    return found, (*gains, *_losses(chosen, found))


def find_widest(entry: Engine, chosen: Plan, search: SearchRequest, rules: Catalog) -> NamedPlan | None:
    """The plan of the same engine with the widest weights that start, where they are wider than the chosen ones."""
    if chosen.offload or search.quantization is not None:
        return None
    named = load_plan_rules(rules).named
    wider = [
        f.quantization
        for f in find_usable_formats(entry, search, rules, [])
        if f.quantization.bits_nominal > named * chosen.quantization.bits_nominal
        and has_download(entry, search, f.quantization)
    ]
    for quantization in sorted(wider, key=lambda q: -q.bits_nominal):
        found = find_best_plan(entry, replace(search, quantization=quantization.id), rules)
        if isinstance(found, Plan) and found.starts and not found.offload:
            gains = (f"{quantization.id} instead of {chosen.quantization.id}",)
            return found, (*gains, *_losses(chosen, found))
    return None


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
        room = describe_room(needs.get(engine), machine)
        other = "a shorter --context, fewer --users or a smaller model"
        yield NearMiss(what=engine, missing=text, would_fit_if=f"{room}; or {other}" if room else other)


def describe_room(needs: int | None, machine: Machine) -> str | None:
    """What would hold so many bytes: more such cards, or larger ones; None where that is not known."""
    cards = machine.usable_devices
    if needs is None:
        return None
    if not cards:
        return f"at least {-(-needs // GIB)} GiB of memory"
    rooms = [x.free_bytes if x.free_bytes is not None else x.total_bytes for x in cards]
    if any(r is None for r in rooms) or len({x.name for x in cards}) > 1:
        return None
    each = min(r for r in rooms if r is not None)
    wanted = -(-needs // each) if each else 0
    such = f"{wanted} such cards instead of {len(cards)}" if wanted > len(cards) else ""
    larger = f"at least {-(-needs // (GIB * len(cards)))} GiB on each"
    return f"{such}, or {larger}" if such else larger


def _with_priority(search: SearchRequest, priority: str) -> SearchRequest:
    workload: Workload = replace(search.workload, priority=priority)
    return replace(search, workload=workload)


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
