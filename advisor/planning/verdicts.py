"""Whether a plan meets the targets that were named, which one binds, and the nearest changes that meet them.

Times of requests that arrive at a rate, and percentiles, come from a simulation of the scheduler; means of users at
once from the laws of closed loops, for prompts of the 95th percentile where the first or the last token is asked about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from advisor import engines
from advisor.deployment import Arrivals, Workload
from advisor.engines import capacity
from advisor.planning.arrivals import (
    SHARES,
    KeptLimit,
    Load,
    MissedTimes,
    answer_load,
    answer_users,
    find_served_rate,
    make_load,
)
from advisor.planning.objective import estimate_traffic_speed
from advisor.planning.targets import (
    TargetAnswer,
    TargetVerdict,
    answer_targets,
    find_named_limits,
    is_simulated,
    judge_arrivals,
    judge_speed,
)
from advisor.planning.traffic import Traffic
from advisor.planning.types import Plan
from advisor.record import Value
from advisor.session import Session
from advisor.speed.efficiencies import ArrivalRules, load_engine_rules
from advisor.speed.step_table import StepTable, make_step_table
from advisor.unknowns import all_hold

LENGTHS = ("prompt_tokens", "prompt_p95", "output_tokens", "output_p95")
MOST_SERVERS = 10_000  # that are named as a remedy
TRIES = 4  # numbers of servers that are simulated, from the one that a shorter simulation names

Verdicts = Sequence[TargetVerdict]


class JudgedPlan(Value, frozen=True):
    """What requests wait, where they are simulated, and the verdict on the targets, where there are any."""

    arrivals: Arrivals | None = None
    targets: TargetAnswer | None = None


class SimulatedPlan(Value, frozen=True):
    """A plan as its simulation reads it. `table` is of all its servers."""

    table: StepTable
    load: Load
    known: ArrivalRules
    users: int | None  # None: they arrive at the rate of the load
    assumed: tuple[str, ...]

    def answer(self) -> Arrivals:
        """What its requests wait."""
        if self.users is None:
            return answer_load(self.table, self.load, self.known, self.assumed)
        return answer_users(self.table, self.load, self.users, self.known, self.assumed)


def judge_plan(plan: Plan, traffic: Traffic, workload: Workload, session: Session, remedies: bool = True) -> JudgedPlan:
    """The verdict on a plan under its traffic, with `remedies` where it misses targets. Raises BadInput where a setting
    allows no answer."""
    simulated = is_simulated(workload)
    made = make_simulated_plan(plan, traffic, workload, session) if simulated and plan.prefill is None else None
    if made is not None:
        return _judge_simulated(made, workload, plan.servers, remedies)
    limits = find_named_limits(workload)
    if not limits:
        return JudgedPlan()
    if plan.prefill is not None or traffic.rate is not None:
        return JudgedPlan(None, answer_targets(workload, (), plan.on_time))
    judge = _judge_by_laws(plan, traffic, workload, session)
    verdicts = judge(traffic.users)
    met = None if simulated else plan.on_time
    answer = answer_targets(workload, verdicts if not simulated else (), met)
    if answer is None or answer.met is not False or not remedies:
        return JudgedPlan(None, answer)
    users = _find_most(lambda n: all_hold(v.met for v in judge(n)) is True, traffic.users)
    return JudgedPlan(None, replace(answer, nearest=_describe_users(users, traffic.users, plan.servers)))


def make_simulated_plan(plan: Plan, traffic: Traffic, workload: Workload, session: Session) -> SimulatedPlan | None:
    """What the simulation of a plan needs; None where its steps are not known."""
    table = make_step_table(plan.deployment, plan.memory, session, traffic.typical_tokens, traffic.use_case)
    if table is None:
        return None
    return SimulatedPlan(
        table=replace(table, replicas=table.replicas * plan.servers),
        load=make_load(plan.deployment, traffic, session),
        known=load_engine_rules(session.rules).arrivals,
        users=traffic.users if traffic.rate is None else None,
        assumed=tuple(n for n in LENGTHS if getattr(workload, n) is None),
    )


def _judge_simulated(made: SimulatedPlan, workload: Workload, servers: int, remedies: bool) -> JudgedPlan:
    arrivals = made.answer()
    limits, safe = find_named_limits(workload), workload.confidence == "safe"

    def judge(arrivals: Arrivals) -> Verdicts:
        return judge_arrivals(limits, arrivals, made.known.judged, safe)

    def meets(other: SimulatedPlan) -> bool:
        answer = other.answer()
        return answer.stable is not False and all_hold(v.met for v in judge(answer)) is True

    overloaded = arrivals.stable is False
    answer = answer_targets(workload, () if overloaded else judge(arrivals), None, overloaded)
    if answer is None or answer.met is not False or not remedies:
        return JudgedPlan(arrivals, answer)
    if made.users is not None:
        users = _find_most(lambda n: meets(replace(made, users=n)), made.users)
        return JudgedPlan(arrivals, replace(answer, nearest=_describe_users(users, made.users, servers)))
    kept = {k: KeptLimit(x.most, SHARES[x.percentile or made.known.judged]) for k, x in limits.items()}
    found = find_served_rate(made.table, made.load, kept, made.known, safe)
    if isinstance(found, MissedTimes):
        return JudgedPlan(arrivals, replace(answer, nearest=_describe_users(0, 1, servers)))
    each = made.table.replicas // servers
    least = max(servers + 1, math.ceil(made.load.rate / found.rate * servers))
    enough = next(
        (n for n in range(least, least + TRIES) if meets(replace(made, table=replace(made.table, replicas=n * each)))),
        None,
    )
    nearest = [f"about {found.rate:.3g} requests/s on {_count(servers)}"]
    if enough is not None and enough <= MOST_SERVERS:
        nearest.insert(0, f"{enough} servers like this instead of {servers}")
    return JudgedPlan(arrivals, replace(answer, nearest=tuple(nearest)))


def _judge_by_laws(plan: Plan, traffic: Traffic, workload: Workload, session: Session) -> Callable[[int], Verdicts]:
    """The verdicts for so many users at once."""
    entry = engines.find_running(plan.deployment, session.rules)[1]
    shared = capacity.keeps_prefixes(plan.deployment, entry)
    limits, safe = find_named_limits(workload), workload.confidence == "safe"

    def judge(users: int) -> Verdicts:
        each = -(-users // plan.servers)
        speed, long = (
            estimate_traffic_speed(plan.deployment, plan.memory, traffic, each, shared, session, x)
            for x in (False, True)
        )
        return judge_speed(limits, speed, long, traffic.output.mean, safe)

    return judge


def _find_most(meets: Callable[[int], bool], users: int) -> int:
    """The most users below so many with whom it holds; 0 where it does with nobody."""
    low, high = 0, users
    if users > 1 and not meets(1):
        return 0
    low = 1 if users > 1 else 0
    while high - low > max(1, low // 16):
        middle = (low + high) // 2
        low, high = (middle, high) if meets(middle) else (low, middle)
    return low


def _describe_users(most: int, users: int, servers: int) -> tuple[str, ...]:
    if not most:
        return ("faster cards, fewer bits or a smaller model, as one request alone misses it",)
    enough = math.ceil(users / (most / servers))
    return f"{most} users at once on {_count(servers)}", f"{enough} servers like this instead of {servers}"


def _count(servers: int) -> str:
    return "this server" if servers == 1 else f"these {servers} servers"
