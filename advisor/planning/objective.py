"""Which arrangement of a model's copies answers the question best: targets first, then what was asked for.

With no target named: the fewest cards that hold the users with at most a tenth of a second between tokens, and of these
the arrangement with the most output tokens a second. One user: the lowest time of a typical request.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Protocol

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.deployment import Deployment, Holds, Interval, MemoryEstimate, SpeedEstimate, Workload
from advisor.machines.types import Machine
from advisor.planning.layouts import Unit
from advisor.planning.rules import PlanRules, load_workload_defaults
from advisor.planning.traffic import Traffic, find_longest_gap
from advisor.record import Record, Value
from advisor.session import Session
from advisor.speed.estimator import estimate_speed
from advisor.speed.work import RequestLoad
from advisor.unknowns import all_hold


class Target(Value, frozen=True):
    """Something that users may ask of a plan: at most so much of one figure of its speed."""

    figure: str  # of SpeedEstimate; what TargetAnswer calls it
    find: Callable[[Workload], float | None]  # the limit that a workload names
    describe: Callable[[float], str]  # the limit in words
    long_prompts: bool = False  # it holds for prompts of the 95th percentile, not for those of the mean
    missed: str | None = None  # what a figure of `value` misses of `most`, for hardware that is refused
    includes_wait: bool = False  # for others, so that it says nothing of which plan is the faster one


TARGETS = (
    Target(
        "ttft_s",
        attrgetter("ttft_s"),
        "first token within {:g} s".format,
        long_prompts=True,
        missed="first token after {value:.1f} s where {most:g} s are required",
        includes_wait=True,
    ),
    Target("tpot_s", find_longest_gap, lambda most: f"{1 / most:.3g} tokens/s a request"),
)


class TargetAnswer(Record, frozen=True, kw_only=True):
    """The targets that were named, and whether the plan is predicted to meet them; None = it cannot be determined."""

    ttft_s: float | None
    tpot_s: float | None
    met: bool | None
    confidence: str


class Targets(Value, frozen=True):
    """Limits of a speed, by the names of its figures. What is not among them is not asked."""

    most: Mapping[str, float]
    safe: bool = False  # by the bounds of the estimate, not by its value
    named: bool = False  # by the user

    @property
    def about_long_prompts(self) -> bool:
        """Whether one of them needs the speed of prompts of the 95th percentile."""
        return any(t.long_prompts and t.figure in self.most for t in TARGETS)


class SizedUnit(Value, frozen=True):
    """A copy, its memory, and how many requests it holds."""

    unit: Unit
    memory: MemoryEstimate  # of one longest request
    held: int


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


def find_targets(workload: Workload, machine: Machine, rules: Catalog) -> Targets:
    """The targets of a workload: those that were named, else the use's own limit between tokens."""
    safe, named = workload.confidence == "safe", _find_named_limits(workload)
    if named:
        return Targets(named, safe, True)
    defaults = load_workload_defaults(rules)
    if workload.use_case in defaults.unhurried:
        return Targets({}, safe)
    on_cards = bool(machine.usable_devices)
    between = defaults.slowest_between_tokens_s if on_cards else defaults.slowest_between_tokens_on_cpu_s
    return Targets({"tpot_s": between}, safe)


def _find_named_limits(workload: Workload) -> dict[str, float]:
    found = ((t.figure, t.find(workload)) for t in TARGETS)
    return {figure: most for figure, most in found if most is not None}


def answer_targets(workload: Workload, met: bool | None) -> TargetAnswer | None:
    """The targets that were named, with the verdict on them; None where none was named."""
    named = {t.figure: t.find(workload) for t in TARGETS}
    if not any(most is not None for most in named.values()):
        return None
    return TargetAnswer(**named, met=met, confidence=workload.confidence)


def meets_targets(speed: SpeedEstimate | None, long: SpeedEstimate | None, targets: Targets) -> bool | None:
    """Whether the figures are within the targets; None where they are not known. `long`: the speed with prompts of the
    95th percentile, whose first token the target is about."""
    return all_hold(
        meets_target(t, long if t.long_prompts else speed, targets) for t in TARGETS if t.figure in targets.most
    )


def meets_target(target: Target, speed: SpeedEstimate | None, targets: Targets) -> bool | None:
    """Whether the figure of one of the targets is within its limit; None where it is not known."""
    interval = getattr(speed, target.figure) if speed is not None else None
    return is_within(interval, targets.most[target.figure], targets.safe)


def measure_distance(speed: SpeedEstimate | None, targets: Targets) -> float | None:
    """What orders plans that all miss a target: the largest ratio of a figure to its limit; where no target is asked of
    the plan's own speed, seconds between tokens. None where nothing of it is known."""
    limits = {t.figure: targets.most[t.figure] for t in TARGETS if not t.includes_wait and t.figure in targets.most}
    found = ((getattr(speed, figure, None), most) for figure, most in (limits or {"tpot_s": 1.0}).items())
    return max((interval.value / most for interval, most in found if interval is not None), default=None)


def is_within(time: Interval | None, most: float, safe: bool) -> bool | None:
    """Whether a time is within a target, by the slow end of its interval where that is asked; None where unknown."""
    return None if time is None else (time.high if safe else time.value) <= most


def make_load(traffic: Traffic, users: int, shared: bool, long: bool = False) -> RequestLoad:
    """The load of so many users of the traffic; `shared`: the engine keeps their common beginning; `long`: one request
    with a prompt of the 95th percentile among as many others as there are."""
    kept = min(traffic.shared_tokens, traffic.prompt.mean - 1) if shared else 0
    prompt = traffic.prompt.p95 if long else traffic.prompt.mean
    return RequestLoad(concurrency=users, prompt=max(1, prompt - kept), output=max(1, traffic.output.mean), depth=kept)


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


def choose_arrangement(
    sized: Sequence[SizedUnit],
    node_cards: int,
    nodes: int,
    traffic: Traffic,
    targets: Targets,
    priority: str | None,
    factors: PlanRules,
    rate: Rates,
) -> Arrangement | None:
    """The best arrangement of equal copies on the cards of so many nodes; None where no unit holds anything.

    `rate` tells the speed of a unit for so many users, with prompts of the 95th percentile where that is asked.
    """
    found: dict[int, list[Arrangement]] = {}
    users = traffic.users
    for cards in range(1, node_cards * nodes + 1):
        here = []
        for s in sized:
            if cards % s.unit.cards or s.held < 1:
                continue
            copies = cards // s.unit.cards
            if copies > users:
                continue  # a copy for nobody
            if cards > node_cards and s.unit.layout.nodes == 1 and (cards % node_cards or node_cards % s.unit.cards):
                continue  # copies over nodes fill each of them alike
            each = -(-users // copies)
            speed, late = rate(s, each), rate(s, each, True) if targets.about_long_prompts else None
            here.append(Arrangement(s, copies, speed, s.held >= each, meets_targets(speed, late, targets)))
        if here:
            found[cards] = here
        good = [a for a in here if a.holds_all and a.on_time is not False]
        if good and priority not in ("throughput", "latency"):
            return _take_if_faster(_best(good, traffic, priority, factors), here, traffic, factors)
    every = [a for here in found.values() for a in here]
    if not every:
        return None
    good = [a for a in every if a.holds_all and a.on_time is not False]
    if good:
        if priority == "throughput":
            good = [a for a in good if a.cards == max(x.cards for x in good)]
        return _best(good, traffic, priority, factors)
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


def _best(good: Sequence[Arrangement], traffic: Traffic, priority: str | None, factors: PlanRules) -> Arrangement:
    if priority == "latency" or (traffic.users == 1 and priority != "throughput"):
        timed = [(t.value, a) for a in good if (t := request_seconds(a.speed, traffic)) is not None]
        if timed:
            least = min(t for t, _ in timed)
            return min((a for t, a in timed if t <= factors.same * least), key=_plainness)
    return _most_output(good, factors)


def _most_output(found: Sequence[Arrangement], factors: PlanRules) -> Arrangement:
    best = max(a.rate for a in found)
    # a server over several nodes depends on all of them and on what joins them: for clearly more only
    on_one_node = [a for a in found if a.sized.unit.layout.nodes == 1 and a.rate * factors.worth_waiting >= best]
    if on_one_node:
        found, best = on_one_node, max(a.rate for a in on_one_node)
    return min((a for a in found if a.rate * factors.same >= best), key=_plainness)


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
    return None if speed is None or not all(_finite(x) for x in (speed.tpot_s, speed.ttft_s)) else speed


def _finite(interval: Interval | None) -> bool:
    return interval is None or math.isfinite(interval.high)
