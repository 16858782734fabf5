"""What users may ask of the speed of a plan: limits of its figures, and whether they are met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from advisor.catalog import Catalog
from advisor.deployment import Arrivals, Interval, OpenInterval, SpeedEstimate, Workload
from advisor.machines.types import Machine
from advisor.planning.rules import load_workload_defaults
from advisor.planning.traffic import split_limit
from advisor.record import Record, Value
from advisor.units import format_short_time
from advisor.unknowns import all_hold


class Target(Value, frozen=True):
    """Something that users may ask of a plan: at most so many seconds of one figure."""

    figure: str  # of a workload, of Arrivals and of TargetAnswer
    name: str  # in messages
    long_prompts: bool = False  # it holds for prompts of the 95th percentile, not for those of the mean
    includes_wait: bool = False  # for others, so that it says nothing of which plan is the faster one

    def find_time(self, speed: SpeedEstimate | None, output: int) -> Interval | None:
        """The figure of a speed, for answers of so many tokens."""
        if speed is None or self.figure != "e2e_s":
            return getattr(speed, self.figure, None)
        first, between, n = speed.ttft_s, speed.tpot_s, max(0, output - 1)
        if first is None or between is None:
            return None
        ends = ((getattr(first, e) + n * getattr(between, e)) for e in Interval.__struct_fields__)
        return Interval(**dict(zip(Interval.__struct_fields__, ends, strict=True)))


TARGETS = (
    Target(
        "ttft_s",
        "first token",
        long_prompts=True,
        includes_wait=True,
    ),
    Target("tpot_s", "between tokens"),
    Target(
        "e2e_s",
        "whole answer",
        long_prompts=True,
        includes_wait=True,
    ),
)


class Limit(NamedTuple):
    """Seconds at most, and of how many requests: p50 to p99; None where none was stated."""

    most: float
    percentile: str | None = None


class TargetVerdict(Record, frozen=True, kw_only=True):
    """One target, and what is predicted of it. Seconds."""

    figure: str
    name: str
    percentile: str | None  # None: of the mean, for prompts of the 95th percentile
    most: float
    predicted: OpenInterval | None
    met: bool | None

    @property
    def words(self) -> str:
        """The figure, what was asked, and whether it is met."""
        time, percentile = self.predicted, f" {self.percentile}" if self.percentile else ""
        value = "not known" if time is None else format_short_time(time.value)
        if time is not None and time.high is not None:
            value += f" ({format_short_time(time.low)} to {format_short_time(time.high)})"
        return f"{self.name}{percentile} {value}, asked {format_short_time(self.most)}: {MET[self.met]}"


MET = {True: "met", False: "not met", None: "cannot tell"}


class TargetAnswer(Record, frozen=True, kw_only=True):
    """The targets that were named, and whether the plan is predicted to meet them; None = it cannot be determined."""

    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float | None = None
    met: bool | None
    confidence: str
    rate: float | None = None  # requests a second that are asked for, where they are more than are served
    verdicts: tuple[TargetVerdict, ...] = ()  # the binding one first
    nearest: tuple[str, ...] = ()  # where they are not met: the smallest changes that meet them


class Targets(Value, frozen=True):
    """Limits of a speed, by the names of its figures. What is not among them is not asked."""

    most: Mapping[str, float]
    safe: bool = False  # by the bounds of the estimate, not by its value
    named: bool = False  # by the user
    percentiles: Mapping[str, str] = {}  # of those that name one
    output: int = 0  # tokens of a typical answer

    @property
    def about_long_prompts(self) -> bool:
        """Whether one of them needs the speed of prompts of the 95th percentile."""
        return any(t.long_prompts and t.figure in self.most for t in TARGETS)


def find_targets(workload: Workload, machine: Machine, rules: Catalog) -> Targets:
    """The targets of a workload: those that were named, else the use's own limit between tokens."""
    safe, named = workload.confidence == "safe", find_named_limits(workload)
    defaults = load_workload_defaults(rules)
    if named:
        percentiles = {k: x.percentile for k, x in named.items() if x.percentile is not None}
        output = workload.output_tokens or defaults.typical[workload.use_case].output if "e2e_s" in named else 0
        return Targets({k: x.most for k, x in named.items()}, safe, True, percentiles, output)
    if workload.use_case in defaults.unhurried:
        return Targets({}, safe)
    on_cards = bool(machine.usable_devices)
    between = defaults.slowest_between_tokens_s if on_cards else defaults.slowest_between_tokens_on_cpu_s
    return Targets({"tpot_s": between}, safe)


def find_named_limits(workload: Workload) -> dict[str, Limit]:
    """The limits that a workload names, by figure; between tokens the stricter of a time and a rate."""
    stated = {t.figure: getattr(workload, t.figure) for t in TARGETS}
    found = {figure: Limit(*split_limit(limit)) for figure, limit in stated.items() if limit is not None}
    if workload.target_tps is not None and not ("tpot_s" in found and found["tpot_s"].most <= 1 / workload.target_tps):
        found["tpot_s"] = Limit(1 / workload.target_tps)
    return found


def is_simulated(workload: Workload) -> bool:
    """Whether the targets are of percentiles, which only a simulation of the requests tells."""
    limits = find_named_limits(workload)
    return workload.rate is not None or "e2e_s" in limits or any(x.percentile for x in limits.values())


def judge_arrivals(limits: Mapping[str, Limit], arrivals: Arrivals, usual: str, safe: bool) -> list[TargetVerdict]:
    """The verdicts on limits under requests that were simulated, `usual` being the percentile of what names none."""
    found = []
    for target in TARGETS:
        if target.figure not in limits:
            continue
        most, percentile = limits[target.figure].most, limits[target.figure].percentile or usual
        time = getattr(getattr(arrivals, target.figure), percentile, None)
        found.append(_judge(target, percentile, most, time, safe))
    return found


def judge_speed(
    limits: Mapping[str, Limit], speed: SpeedEstimate | None, long: SpeedEstimate | None, output: int, safe: bool
) -> list[TargetVerdict]:
    """The verdicts on limits by the mean times of users at once; `long`: with prompts of the 95th percentile."""
    found = []
    for target in TARGETS:
        if target.figure in limits:
            time = target.find_time(long if target.long_prompts else speed, output)
            found.append(_judge(target, None, limits[target.figure].most, time, safe))
    return found


def _judge(
    target: Target, percentile: str | None, most: float, time: Interval | OpenInterval | None, safe: bool
) -> TargetVerdict:
    if isinstance(time, Interval):
        time = OpenInterval(value=time.value, low=time.low, high=time.high)
    met = is_within(time, most, safe)
    return TargetVerdict(
        figure=target.figure, name=target.name, percentile=percentile, most=most, predicted=time, met=met
    )


def answer_targets(
    workload: Workload, verdicts: Sequence[TargetVerdict], met: bool | None, overloaded: bool = False
) -> TargetAnswer | None:
    """The targets that were named, with the verdicts on them, or only whether all are `met` where there are none of
    these. None where no target was named, and what arrives is served."""
    limits = find_named_limits(workload)
    if not overloaded and not limits:
        return None
    if verdicts and not overloaded:
        met = all_hold(v.met for v in verdicts)
    first, between, whole = (limits[t.figure].most if t.figure in limits else None for t in TARGETS)
    return TargetAnswer(
        ttft_s=first,
        tpot_s=between,
        e2e_s=whole,
        met=False if overloaded else met,
        confidence=workload.confidence,
        rate=workload.rate if overloaded else None,
        verdicts=tuple(sorted(verdicts, key=lambda v: -v.predicted.value / v.most if v.predicted else 0.0)),
    )


def meets_targets(speed: SpeedEstimate | None, long: SpeedEstimate | None, targets: Targets) -> bool | None:
    """Whether the figures are within the targets; None where they are not known. `long`: the speed with prompts of the
    95th percentile, whose first token the target is about."""
    return all_hold(
        meets_target(t, long if t.long_prompts else speed, targets) for t in TARGETS if t.figure in targets.most
    )


def meets_target(target: Target, speed: SpeedEstimate | None, targets: Targets) -> bool | None:
    """Whether the figure of one of the targets is within its limit; None where it is not known."""
    return is_within(target.find_time(speed, targets.output), targets.most[target.figure], targets.safe)


def measure_distance(speed: SpeedEstimate | None, targets: Targets) -> float | None:
    """What orders plans that all miss a target: the largest ratio of a figure to its limit; where no target is asked of
    the plan's own speed, seconds between tokens. None where nothing of it is known."""
    limits = {t.figure: targets.most[t.figure] for t in TARGETS if not t.includes_wait and t.figure in targets.most}
    found = ((getattr(speed, figure, None), most) for figure, most in (limits or {"tpot_s": 1.0}).items())
    return max((interval.value / most for interval, most in found if interval is not None), default=None)


def is_within(time: Interval | OpenInterval | None, most: float, safe: bool) -> bool | None:
    """Whether a time is within a target, by the slow end of its interval where that is asked; None where unknown."""
    if time is None:
        return None
    latest = time.high if safe else time.value
    return latest is not None and latest <= most
