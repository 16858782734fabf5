"""Which arrangement of a model's copies answers the question best: targets first, then what was asked for.

The cards that are there are used: of the arrangements that hold the users and meet the limits, the one whose users have
their answers first. `--fewest` asks for the fewest cards instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.deployment import Deployment, Holds, Interval, MemoryEstimate, SpeedEstimate, Workload
from advisor.models.types import Model
from advisor.planning.layouts import Unit
from advisor.planning.rules import PlanRules, load_workload_defaults
from advisor.planning.targets import Targets, measure_distance, meets_targets
from advisor.planning.traffic import Traffic
from advisor.planning.utility import answer_seconds, count_thinking_tokens
from advisor.record import Value
from advisor.session import Session
from advisor.speed.estimator import estimate_speed
from advisor.speed.work import RequestLoad


class SizedUnit(Value, frozen=True):
    """A copy, its memory, and how many requests it holds."""

    unit: Unit
    memory: MemoryEstimate  # of one longest request
    held: int


class Goal(Value, frozen=True):
    """What is best of arrangements that hold the users in time."""

    tokens: int  # of an answer, thinking included
    output: bool = False  # most output of all, not the soonest answer of each
    fewest: bool = False  # cards


class Rates(Protocol):
    """Speeds of units, each asked once."""

    def __call__(self, sized: SizedUnit, users: int, long: bool = False) -> SpeedEstimate | None:
        """The speed of a unit for so many users."""


class Arrangement(Value, frozen=True):
    """Equal copies of a unit under the traffic."""

    sized: SizedUnit
    copies: int
    speed: SpeedEstimate | None  # of one copy
    holds_all: bool
    on_time: bool | None

    @property
    def cards(self) -> int:
        """Cards of all copies."""
        return self.copies * self.sized.unit.cards

    @property
    def rate(self) -> float:
        """Output tokens a second of all copies; 0 where it is not known."""
        return self.copies * output_rate(self.speed)


def make_load(traffic: Traffic, users: int, shared: bool, long: bool = False) -> RequestLoad:
    """The load of so many users of the traffic; `shared`: the engine keeps their common beginning; `long`: one request
    with a prompt of the 95th percentile among as many others as there are."""
    kept = min(traffic.shared_tokens, traffic.prompt.mean - 1) if shared else 0
    prompt = traffic.prompt.p95 if long else traffic.prompt.mean
    own, depth = max(1, prompt - kept), traffic.depth + kept
    return RequestLoad(
        concurrency=users, prompt=own, output=max(1, traffic.output.mean), depth=depth, use_case=traffic.use_case
    )


def request_seconds(speed: SpeedEstimate | None, traffic: Traffic, holds: Holds | None = None) -> Interval | None:
    """Seconds of a typical request, from asking to the last token; with `holds` from where it is taken."""
    if speed is None or speed.tpot_s is None or speed.ttft_s is None:
        return None
    first, between, n = speed.ttft_s, speed.tpot_s, max(0, traffic.output.mean - 1)
    if holds is not None and holds.waiting and speed.prefill_tps is not None:  # `ttft_s` has the wait in it
        own = traffic.prompt.mean / speed.prefill_tps.value
        first = Interval(value=own, low=own * first.low / first.value, high=own * first.high / first.value)
    return Interval(
        value=first.value + n * between.value, low=first.low + n * between.low, high=first.high + n * between.high
    )


def make_goal(workload: Workload, traffic: Traffic, model: Model, rules: Catalog) -> Goal:
    """The goal of a workload: soon answers, but where throughput is asked for or nobody waits."""
    unhurried = workload.use_case in load_workload_defaults(rules).unhurried
    output = workload.priority == "throughput" or (unhurried and workload.priority is None)
    thinking = count_thinking_tokens(model, traffic.use_case, rules)
    return Goal(traffic.output.mean + thinking, output, workload.fewest)


def choose_arrangement(
    sized: Sequence[SizedUnit],
    node_cards: int,
    nodes: int,
    traffic: Traffic,
    targets: Targets,
    goal: Goal,
    factors: PlanRules,
    rate: Rates,
    alike: int | None = None,
) -> Arrangement | None:
    """The best arrangement of equal copies on the cards of so many nodes; None where no unit holds anything.

    `alike`: cards of a node that are like its first, where not all are: copies are sized for those. `rate` tells the
    speed of a unit for so many users, with prompts of the 95th percentile where that is asked.
    """
    every: list[Arrangement] = []
    users = traffic.users
    for cards in range(1, node_cards * nodes + 1):
        here = []
        for s in sized:
            if cards % s.unit.cards or s.held < 1:
                continue
            copies = cards // s.unit.cards
            if copies > max(1, users // factors.users_of_copy):
                continue  # a copy for few, or nobody: those who come to it together find the others idle
            if copies > 1 and alike is not None and cards > alike * nodes:
                continue
            if cards > node_cards and s.unit.layout.nodes == 1 and (cards % node_cards or node_cards % s.unit.cards):
                continue  # copies over nodes fill each of them alike
            each = -(-users // copies)
            speed, late = rate(s, each), rate(s, each, True) if targets.about_long_prompts else None
            here.append(Arrangement(s, copies, speed, s.held >= each, meets_targets(speed, late, targets)))
        every += here
        if goal.fewest and any(a.holds_all and a.on_time is not False for a in here):
            every = here
            break
    if not every:
        return None
    good = [a for a in every if a.holds_all and a.on_time is not False]
    if good:
        return _take_if_faster(_best(good, goal, factors), every, traffic, factors)
    on_time = [a for a in every if a.on_time is not False]
    return _most_output(on_time, factors) if on_time else _nearest(every, targets, factors)


def _take_if_faster(
    best: Arrangement, here: Sequence[Arrangement], traffic: Traffic, factors: PlanRules
) -> Arrangement:
    """The arrangement that holds everybody, or one of the same cards that lets some wait and answers more in all.

    N users who ask again when they are answered take N / (answers a second) for one, waiting included (Little's law),
    so what answers more serves them sooner even if it holds fewer at once.
    """
    if traffic.full_length or traffic.users == 1:
        return best
    others = [a for a in here if a.on_time is not False and 2 * a.sized.held * a.copies >= traffic.users]
    most = _most_output(others, factors)
    return most if most.rate > factors.worth_waiting * best.rate else best


def _nearest(found: Sequence[Arrangement], targets: Targets, factors: PlanRules) -> Arrangement:
    """Where no arrangement meets the limits: the most output of those near the least distance from them."""
    known = [(distance, a) for a in found if (distance := measure_distance(a.speed, targets)) is not None]
    if not known:
        return min(found, key=lambda a: a.cards)
    limit = factors.behind * min(distance for distance, _ in known)
    return _most_output([a for distance, a in known if distance <= limit], factors)


def _best(good: Sequence[Arrangement], goal: Goal, factors: PlanRules) -> Arrangement:
    """The arrangement with the soonest answers, or the most output where nobody waits for them."""
    if goal.output:
        return _most_output(good, factors)
    timed = [(t, a) for a in good if (t := answer_seconds(a.speed, goal.tokens)) is not None]
    if not timed:
        return _most_output(good, factors)
    return _take_plainest(timed, factors)


def _most_output(found: Sequence[Arrangement], factors: PlanRules) -> Arrangement:
    return _take_plainest([(1 / a.rate if a.rate else math.inf, a) for a in found], factors)


def _take_plainest(timed: list[tuple[float, Arrangement]], factors: PlanRules) -> Arrangement:
    """The plainest of those with the least seconds. A server over several nodes depends on all of them and on their
    links, and the rate of stages presumes that none ever waits for another: both for clearly less only."""
    for number, factor in (("nodes", factors.worth_waiting), ("pipeline", factors.staged)):
        enough = factor * min(t for t, _ in timed)
        timed = [x for x in timed if x[0] <= enough and getattr(x[1].sized.unit.layout, number) == 1] or timed
    least = min(t for t, _ in timed)
    return min((a for t, a in timed if t <= factors.same * least), key=_plainness)


def output_rate(speed: SpeedEstimate | None) -> float:
    """Output tokens a second; 0 where it is not known."""
    return speed.output_tps.value if speed is not None and speed.output_tps is not None else 0.0


def rate_speed(speed: SpeedEstimate | None, traffic: Traffic, priority: str | None = None) -> float:
    """What more of is better: output tokens a second; of one user, and where latency matters, typical requests a
    second of one. 0 where it is not known."""
    if priority == "latency" or (traffic.users == 1 and priority != "throughput"):
        seconds = request_seconds(speed, traffic)
        return 1 / seconds.value if seconds is not None and seconds.value > 0 else 0.0
    return output_rate(speed)


def _plainness(arrangement: Arrangement) -> tuple[int, int, int, int]:
    """Fewer cards, then no experts on ranks of their own, few stages, few copies."""
    layout = arrangement.sized.unit.layout
    return (arrangement.cards, layout.expert, layout.pipeline, arrangement.copies)


def scale_speed(speed: SpeedEstimate | None, servers: int) -> SpeedEstimate | None:
    """The speed of so many equal servers together: the output of all, the times of one."""
    if speed is None or servers == 1 or speed.output_tps is None:
        return speed
    out = speed.output_tps
    whole = Interval(value=out.value * servers, low=out.low * servers, high=out.high * servers)
    return replace(speed, output_tps=whole)


def estimate_traffic_speed(
    deployment: Deployment,
    estimate: MemoryEstimate,
    traffic: Traffic,
    users: int,
    shared: bool,
    session: Session,
    long: bool = False,
) -> SpeedEstimate | None:
    """Speed of a deployment under the traffic of so many users; None where it cannot be modelled."""
    speed = estimate_speed(deployment, estimate, session, make_load(traffic, users, shared, long))
    times = () if speed is None else (speed.tpot_s, speed.ttft_s)
    return speed if all(x is None or math.isfinite(x.high) for x in times) else None
