"""Requests that arrive: what each of them waits, by simulating the engine's scheduler (planning/scheduler.py).

Gaps and lengths are quantiles that a seed in the code shuffles, the same for every question, so that equal questions
have equal answers and more machines are never worse.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

from msgspec.structs import replace

from advisor import engines
from advisor.deployment import (
    Arrivals,
    Deployment,
    Interval,
    MemoryEstimate,
    Occupancy,
    OpenInterval,
    Percentiles,
)
from advisor.engines import capacity
from advisor.errors import BadInput
from advisor.estimation import LoadSpec
from advisor.planning.prefixes import CachingServer
from advisor.planning.rules import load_workload_defaults
from advisor.planning.scheduler import Arrival, ClosedServer, Server, serve, simulate
from advisor.planning.traffic import P95_OF_NORMAL, TokenSpread, Traffic
from advisor.record import Value
from advisor.session import Session
from advisor.speed.efficiencies import ArrivalRules, OutsideSteps, load_engine_rules
from advisor.speed.step_table import StepTable, make_step_table

SEED = 20261127
REQUESTS = 1000  # that are simulated where they arrive at a rate
ROUNDS = 4  # of users who ask again, at least
BUSY_S = 5.0  # a busy moment, as in planning/trace.py
WIDEST = P95_OF_NORMAL**2 / 2  # logarithm of the largest 95th percentile over the mean that a log-normal spread has
SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


class Load(Value, frozen=True):
    """Requests at a rate (a second), in the mean; `burst`: the rate of a busy moment over it."""

    rate: float
    prompt: TokenSpread
    output: TokenSpread
    cached: int = 0  # tokens of each prompt that the cache has
    even: bool = False  # one after the other in equal gaps, not at random
    burst: float = 1.0
    longest: int = 10**9  # tokens of prompt and answer together


@lru_cache(maxsize=8)
def _shuffle(count: int, kind: int) -> tuple[float, ...]:
    """Shares in the middle of as many equal parts as there are requests, in an order of the seed's."""
    rng = random.Random(SEED + kind)  # noqa: S311  # the same for every question
    shares = [(i + 0.5) / count for i in range(count)]
    rng.shuffle(shares)
    return tuple(shares)


def draw_arrivals(load: Load, wider: float = 1.0, count: int = REQUESTS) -> list[Arrival]:
    """So many requests of a load, first to last; `wider` times the spread of their lengths around the mean."""
    spreads = ((load.prompt, 1), (load.output, 2))
    asked, answered = (_draw_lengths(x.mean, x.p95, wider, count, kind) for x, kind in spreads)
    at, out = 0.0, []
    for gap, prompt, output in zip(_draw_gaps(load, count), asked, answered, strict=True):
        at += gap
        output = max(1, min(output, load.longest - 1))
        prompt = max(1, min(prompt, load.longest - output))
        cached = min(load.cached, prompt - 1)
        out.append(Arrival(at, prompt - cached, output, cached))
    return out


def _draw_gaps(load: Load, count: int) -> Iterable[float]:
    """Seconds before each request. Where they come in bursts, half of them do so in moments of `BUSY_S`."""
    units = [1.0 if load.even else -math.log1p(-x) for x in _shuffle(count, 0)]
    scale = len(units) / sum(units) / load.rate
    quiet = 0.5 / (1 - 0.5 / load.burst) if load.burst > 1 else 1.0
    moment = max(1, round(BUSY_S * load.rate * load.burst))
    return (u * scale / (load.burst if i // moment % 2 else quiet) for i, u in enumerate(units))


@lru_cache(maxsize=64)
def _draw_lengths(mean: int, p95: int, wider: float, count: int, kind: int) -> tuple[int, ...]:
    """Log-normal lengths of this mean and 95th percentile, or one as near as such a spread comes."""
    ratio = 1 + wider * (max(p95, mean) / max(1, mean) - 1)
    sigma = P95_OF_NORMAL - math.sqrt(max(0.0, P95_OF_NORMAL**2 - 2 * min(WIDEST, math.log(ratio))))
    normal = NormalDist()
    drawn = [math.exp(sigma * normal.inv_cdf(x)) if sigma else 1.0 for x in _shuffle(count, kind)]
    scale = mean * len(drawn) / sum(drawn)
    return tuple(max(1, round(scale * x)) for x in drawn)


def estimate_arrivals(
    deployment: Deployment, memory: MemoryEstimate, load: LoadSpec, session: Session
) -> Arrivals | None:
    """What the requests of a workload that arrive wait; None where the steps of the deployment are not known. Raises
    BadInput for a workload that contradicts itself, and where a setting allows no answer."""
    _refuse(load)
    usual = load_workload_defaults(session.rules)
    known = load_engine_rules(session.rules).arrivals
    longest = memory.context_length
    if load.trace is not None:
        arrivals = [Arrival(at, min(p, max(1, longest - o)), o) for at, p, o in sorted(load.trace)]
        mean = sum(a.prompt + a.output for a in arrivals) // len(arrivals)
        table = make_step_table(deployment, memory, session, mean)
        return None if table is None else answer_trace([ServerGroup(table)], arrivals, known)[0]
    spreads, assumed = [], []
    for name in ("prompt", "output"):
        mean, p95 = getattr(load, f"{name}_tokens"), getattr(load, f"{name}_p95")
        assumed += [x for x, given in ((f"{name}_tokens", mean), (f"{name}_p95", p95)) if given is None]
        mean = mean or min(getattr(usual.typical["chat"], name), p95 or 10**9)
        spreads.append(TokenSpread(mean=mean, p95=p95 or math.ceil(usual.p95_over_mean * mean)))
    prompt, output = spreads
    cached = load.depth_tokens + load.cached_prompt_tokens
    prompt = TokenSpread(mean=prompt.mean + load.depth_tokens, p95=prompt.p95 + load.depth_tokens)
    table = make_step_table(deployment, memory, session, prompt.mean + output.mean)
    if table is None or load.rate is None:
        return None
    asked = Load(load.rate, prompt, output, cached, load.arrivals == "constant", load.burst, longest)
    return answer_load(table, asked, known, assumed)


def make_load(deployment: Deployment, traffic: Traffic, session: Session) -> Load:
    """The requests of a traffic as they come to a deployment; those of users have no rate."""
    entry = engines.find_running(deployment, session.rules)[1]
    kept = traffic.depth + (traffic.shared_tokens if capacity.keeps_prefixes(deployment, entry) else 0)
    prompt = TokenSpread(mean=traffic.depth + traffic.prompt.mean, p95=traffic.depth + traffic.prompt.p95)
    output = traffic.output if deployment.model.kind == "chat" else TokenSpread(mean=1, p95=1)
    return Load(traffic.rate or 0.0, prompt, output, kept, burst=traffic.burst, longest=traffic.context_length)


def _refuse(load: LoadSpec) -> None:
    """Raises BadInput for fields that exclude each other."""
    if (load.trace is None) != (load.arrivals != "trace"):
        raise BadInput("workload: `trace` and `arrivals: trace` belong together")
    if load.trace is not None and load.rate is not None:
        raise BadInput("workload: rate and trace exclude each other: a trace has its own rate")
    if load.trace is None and load.rate is None:
        raise BadInput(f"workload: `arrivals: {load.arrivals}` needs a rate, requests a second")
    if load.concurrency != 1:
        raise BadInput("workload: concurrency and requests that arrive exclude each other: how many run follows")
    for name in ("prompt", "output"):
        mean, p95 = getattr(load, f"{name}_tokens"), getattr(load, f"{name}_p95")
        if mean is not None and p95 is not None and p95 < mean:
            raise BadInput(f"workload: {name}_p95 {p95:,} is less than {name}_tokens {mean:,}, the mean")
    if load.prompt_tokens is not None and load.cached_prompt_tokens >= load.prompt_tokens:
        raise BadInput(f"workload: cached_prompt_tokens are at most prompt_tokens - 1, {load.prompt_tokens - 1:,}")


def answer_load(table: StepTable, load: Load, known: ArrivalRules, assumed: Sequence[str] = ()) -> Arrivals:
    """What requests at a rate wait. `assumed` names what nobody stated: the bounds have half and double the spread of
    lengths in them then."""
    most = _find_most_rate(table, load.prompt.mean - load.cached, load.cached, load.output.mean)
    spreads = (0.5, 1.0, 2.0) if assumed else (1.0, 1.0, 1.0)
    if load.rate >= most.value:
        return Arrivals(
            rate=load.rate, stable=False, utilisation=load.rate / most.value, most_rate=most, assumed=tuple(assumed),
            seed=SEED,
        )  # fmt: skip
    # each replica has its part of the requests: what a router that looks at them saves is not counted
    one, part = replace(table, replicas=1), replace(load, rate=load.rate / table.replicas)
    slower = zip(spreads, _around(table), strict=True)
    runs = [_run(draw_arrivals(part, w), one, x, known.warm_up) for w, x in slower]
    stable = True if load.rate < most.low else None
    return _answer(runs, load.rate, most, known.outside_steps, stable, tuple(assumed), table.replicas)


def answer_users(
    table: StepTable, load: Load, users: int, known: ArrivalRules, assumed: Sequence[str] = ()
) -> Arrivals:
    """What each waits of users who ask again as soon as they are answered. Neither the first of each is counted, since
    these come at once, nor the last."""
    each = -(-users // table.replicas)
    spreads = (0.5, 1.0, 2.0) if assumed else (1.0, 1.0, 1.0)
    one, count = replace(table, replicas=1), max(REQUESTS, ROUNDS * each)
    runs = []
    for spread, slower in zip(spreads, _around(table), strict=True):
        server = ClosedServer(one, slower, each, draw_arrivals(replace(load, rate=1.0), spread, count))
        server.advance(math.inf)
        served = sorted(r.arrival.at for r in server.done)
        runs.append(Run([server.steady], served[each], served[-each]))
    most = _find_most_rate(table, load.prompt.mean - load.cached, load.cached, load.output.mean)
    return _answer(runs, None, most, known.outside_steps, True, tuple(assumed), table.replicas)


class ServerGroup(Value, frozen=True):
    """Equal servers behind one router. `keeps`: they keep prompts that they have seen."""

    table: StepTable
    keeps: bool = False

    def make(self, slower: float = 1.0) -> list[Server]:
        """All of them, idle."""
        kind = CachingServer if self.keeps and self.table.limits.pool else Server
        return [kind(self.table, slower) for _ in range(self.table.replicas)]


def answer_trace(
    groups: Sequence[ServerGroup], arrivals: Sequence[Arrival], known: ArrivalRules
) -> tuple[Arrivals, Run]:
    """What the requests of a trace, in the order of their arrival, wait, and the simulation by likely steps."""
    runs = []
    for end in range(3):
        servers = [s for g in groups for s in g.make(_around(g.table)[end])]
        for server in servers:
            server.samples = [] if end == 1 else None
        serve(arrivals, servers)
        runs.append(Run(servers, 0.0))
    n = len(arrivals)
    prompt, output = (sum(getattr(a, x) for a in arrivals) / n for x in ("prompt", "output"))
    kept = sum(s.hit_tokens for s in runs[1].servers if isinstance(s, CachingServer)) / n
    each = [_find_most_rate(g.table, prompt - kept, kept, output) for g in groups]
    most = Interval(**{k: sum(getattr(x, k) for x in each) for k in Interval.__struct_fields__})
    seconds = arrivals[-1].at - arrivals[0].at
    rate = (n - 1) / seconds if seconds > 0 else None
    stable = None if rate is None or most.low <= rate < most.value else rate < most.low
    return _answer(runs, rate, most, known.outside_steps, stable, ()), runs[1]


def _around(table: StepTable) -> tuple[float, float, float]:
    return table.around[0], 1.0, table.around[1]


def _find_most_rate(table: StepTable, prompt: float, cached: float, output: float) -> Interval:
    most = table.find_most_rate(max(1.0, prompt), cached, max(1.0, output))
    return Interval(value=most, low=most / table.around[1], high=most / table.around[0])


TRIES = 4  # simulations of a search
FEW = 300  # requests of one
ALONE = 40  # and of the first, in which they come one by one


class ServedRate(Value, frozen=True):
    """The highest rate at which limits are kept, requests a second, and how many run at once for 99 of 100 seconds."""

    rate: float
    running: int


class MissedTimes(Value, frozen=True):
    """The times by figure of requests that come one by one, where these already miss a limit."""

    times: Mapping[str, float]


class KeptLimit(NamedTuple):
    """Seconds at most, and the share of the requests that keep it."""

    most: float
    share: float


def find_served_rate(
    table: StepTable, load: Load, limits: Mapping[str, KeptLimit], known: ArrivalRules, safe: bool,
    near: float | None = None,
) -> ServedRate | MissedTimes:  # fmt: skip
    """The highest rate at which limits (by name of a figure) are kept, by the longest steps that are likely where that
    is `safe`; `load.rate` is not looked at. All replicas alike. `near`: about where it is, by an earlier search."""
    one = replace(table, replicas=1)
    slower = table.around[1] if safe else 1.0
    overhead = known.outside_steps.high if safe else known.outside_steps.value
    top = limit_rate(one, load, known) / slower

    def run(rate: float, count: int = FEW) -> tuple[dict[str, float], Run]:
        found = _run(draw_arrivals(replace(load, rate=rate), count=count), one, slower, known.warm_up)
        return {k: found.find_time(k, x.share, overhead) for k, x in limits.items()}, found

    def keeps(times: Mapping[str, float]) -> bool:
        return all(times[k] <= limit.most for k, limit in limits.items())

    low, high = top / 256, top
    times, best = run(low, ALONE)
    if not keeps(times):
        return MissedTimes(times)
    tokens_apart = limits["tpot_s"].most / slower if "tpot_s" in limits else math.inf
    rate = min(top, near / table.replicas if near is not None else _find_steady_rate(one, load, tokens_apart, top))
    for _ in range(TRIES if near is None else TRIES // 2):
        times, found = run(rate)
        if keeps(times):
            low, best = rate, found
        else:
            high = rate
        if low >= 0.95 * high:
            break
        rate = min(top, 1.2 * low if low * 1.44 > high and high == top else math.sqrt(low * high))
    running = best.servers[0].running
    left, peak = 0.01 * sum(running.values()), 1
    for n in sorted(running, reverse=True):
        left -= running[n]
        if left < 0:
            peak = max(1, n)
            break
    return ServedRate(low * table.replicas, peak * table.replicas)


def limit_rate(table: StepTable, load: Load, known: ArrivalRules) -> float:
    """Requests a second beyond which no limit is kept, whatever it is."""
    most = table.find_most_rate(max(1.0, load.prompt.mean - load.cached), load.cached, load.output.mean)
    return known.most_full * most


def _find_steady_rate(table: StepTable, load: Load, between: float, top: float) -> float:
    """About the rate at which tokens are so far apart: as many run as the rate times the time of a request."""
    prompt, output = max(1.0, load.prompt.mean - load.cached), float(load.output.mean)
    low, high = 0.0, top
    for _ in range(12):
        rate = (low + high) / 2
        n = step = 0.0
        for _ in range(8):
            held = max(1.0, n) * (load.cached + prompt + output / 2)
            step = table.step(max(1.0, n), held, max(1.0, n) / output * prompt, load.cached + prompt / 2)
            n = min(rate * output * step, float(table.limits.running))
        low, high = (rate, high) if step <= between else (low, rate)
    return low or top / 16


class Run:
    """One simulation, and the times of the requests that count."""

    def __init__(self, servers: Sequence[Server], since: float, until: float = math.inf) -> None:
        self.servers = servers
        done = [r for s in servers for r in s.done if since <= r.arrival.at <= until]
        self.waits = [r.taken_at - r.arrival.at for r in done]
        self.firsts = sorted(r.first_at - r.arrival.at for r in done)
        self.whole = sorted(r.done_at - r.arrival.at for r in done)
        long = [r for r in done if r.arrival.output > 1]
        self.between = sorted((r.done_at - r.first_at) / (r.arrival.output - 1) for r in long)

    def find_time(self, figure: str, share: float, overhead: float) -> float:
        """A percentile of a figure of a workload's targets, with what lies outside of the steps."""
        times = {"ttft_s": self.firsts, "tpot_s": self.between, "e2e_s": self.whole}[figure]
        outside = 0.0 if figure == "tpot_s" else overhead
        return find_percentile(times, share) + outside if times else 0.0


def _run(arrivals: Sequence[Arrival], table: StepTable, slower: float, warm_up: float) -> Run:
    return Run(simulate(arrivals, table, slower), arrivals[int(warm_up * len(arrivals))].at)


def _answer(
    runs: Sequence[Run], rate: float | None, most: Interval, overhead: OutsideSteps, stable: bool | None,
    assumed: tuple[str, ...], alike: int = 1,
) -> Arrivals:  # fmt: skip
    fast, usual, slow = runs
    bounded = stable is not None or rate is None or rate < most.low

    def times(name: str, later: float, sooner: float, slower: float) -> Percentiles | None:
        """Bounds of the steps and of what lies outside of them, which have nothing to do with each other."""
        low, value, high = (_summarise(getattr(r, name)) for r in (fast, usual, slow))
        if not value:
            return None
        around = {
            k: OpenInterval(
                value=x + later,
                low=x + later - math.hypot(x - min(x, low[k]), sooner),
                high=x + later + math.hypot(max(x, high[k]) - x, slower) if bounded else None,
            )
            for k, x in value.items()
        }
        return Percentiles(**around)

    outside = overhead.value, overhead.value - overhead.low, overhead.high - overhead.value
    seconds = [s.now for s in usual.servers]
    return Arrivals(
        rate=rate,
        stable=stable,
        utilisation=None if rate is None else rate / most.value,
        prompt_share=sum(s.prompt_s for s in usual.servers) / max(1e-9, sum(seconds)),
        running=_occupancy([s.running for s in usual.servers] * alike, seconds),
        waiting=_occupancy([s.waiting for s in usual.servers] * alike, seconds),
        wait_s=sum(usual.waits) / max(1, len(usual.waits)),
        ttft_s=times("firsts", *outside),
        tpot_s=times("between", 0.0, 0.0, 0.0),
        e2e_s=times("whole", *outside),
        most_rate=most,
        assumed=assumed,
        seed=SEED,
    )


def _summarise(times: Sequence[float]) -> dict[str, float]:
    """Mean and percentiles of sorted times."""
    if not times:
        return {}
    return {"mean": sum(times) / len(times)} | {k: find_percentile(times, x) for k, x in SHARES.items()}


def find_percentile(times: Sequence[float], share: float) -> float:
    """The time that so large a share of sorted times is no longer than."""
    at = share * (len(times) - 1)
    low, high = times[int(at)], times[min(len(times) - 1, int(at) + 1)]
    return low + (at - int(at)) * (high - low)


def _occupancy(replicas: Sequence[Counter[int]], seconds: Sequence[float]) -> Occupancy:
    """How many there are in all replicas in the mean, and so many times as in one for 95 of 100 seconds."""
    whole = max(1e-9, *seconds)
    mean = sum(n * s for one in replicas for n, s in one.items()) / whole
    joint: Counter[int] = sum(replicas, Counter())
    left = 0.05 * whole * len(replicas)
    for n in sorted(joint, reverse=True):
        left -= joint[n]
        if left < 0:
            return Occupancy(mean=mean, p95=float(n * len(replicas)))
    return Occupancy(mean=mean, p95=0.0)
