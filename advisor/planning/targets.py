"""What users may ask of the speed of a plan: limits of its figures, and whether they are met."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter

from advisor.catalog import Catalog
from advisor.deployment import Arrivals, Interval, OpenInterval, SpeedEstimate, Workload
from advisor.machines.types import Machine
from advisor.planning.rules import load_workload_defaults
from advisor.planning.traffic import find_longest_gap
from advisor.record import Record, Value
from advisor.unknowns import all_hold


class Target(Value, frozen=True):
    """Something that users may ask of a plan: at most so much of one figure of its speed."""

    figure: str  # of SpeedEstimate; what TargetAnswer calls it
    find: Callable[[Workload], float | None]  # the limit that a workload names
    describe: Callable[[float], str]  # the limit in words
    show: Callable[[float], str]  # a figure
    long_prompts: bool = False  # it holds for prompts of the 95th percentile, not for those of the mean
    missed: str | None = None  # what a figure of `value` misses of `most`, for hardware that is refused
    includes_wait: bool = False  # for others, so that it says nothing of which plan is the faster one


TARGETS = (
    Target(
        "ttft_s",
        attrgetter("ttft_s"),
        "first token within {:g} s".format,
        "{:.2g} s".format,
        long_prompts=True,
        missed="first token after {value:.1f} s where {most:g} s are required",
        includes_wait=True,
    ),
    Target(
        "tpot_s",
        find_longest_gap,
        lambda most: f"{1 / most:.3g} tokens/s a request",
        lambda gap: f"{1 / gap:.3g} tokens/s",
    ),
)


class TargetAnswer(Record, frozen=True, kw_only=True):
    """The targets that were named, and whether the plan is predicted to meet them; None = it cannot be determined."""

    ttft_s: float | None
    tpot_s: float | None
    met: bool | None
    confidence: str
    rate: float | None = None  # requests a second that are asked for, where they are more than are served


JUDGED = "p90"


class Targets(Value, frozen=True):
    """Limits of a speed, by the names of its figures. What is not among them is not asked."""

    most: Mapping[str, float]
    safe: bool = False  # by the bounds of the estimate, not by its value
    named: bool = False  # by the user

    @property
    def about_long_prompts(self) -> bool:
        """Whether one of them needs the speed of prompts of the 95th percentile."""
        return any(t.long_prompts and t.figure in self.most for t in TARGETS)


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


def answer_targets(workload: Workload, met: bool | None, arrivals: Arrivals | None = None) -> TargetAnswer | None:
    """The targets that were named, with the verdict on them: that of `arrivals` where requests arrive, else `met`. None
    where none was named, and what arrives is served."""
    named = {t.figure: t.find(workload) for t in TARGETS}
    overloaded = arrivals is not None and arrivals.stable is False
    if not overloaded and not any(most is not None for most in named.values()):
        return None
    if arrivals is not None and not overloaded:
        met = all_hold(
            is_within(getattr(getattr(arrivals, k), JUDGED, None), most, workload.confidence == "safe")
            for k, most in named.items()
            if most is not None
        )
    rate = arrivals.rate if arrivals is not None and overloaded else None
    return TargetAnswer(**named, met=False if overloaded else met, confidence=workload.confidence, rate=rate)


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


def is_within(time: Interval | OpenInterval | None, most: float, safe: bool) -> bool | None:
    """Whether a time is within a target, by the slow end of its interval where that is asked; None where unknown."""
    if time is None:
        return None
    latest = time.high if safe else time.value
    return latest is not None and latest <= most
