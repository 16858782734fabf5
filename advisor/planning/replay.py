"""A plan under a trace of requests: what they wait over time, when they queue, what breaks first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from advisor.deployment import Arrivals
from advisor.errors import BadInput
from advisor.planning.arrivals import Run, ServerGroup, answer_trace, find_percentile
from advisor.planning.prefixes import CachingServer
from advisor.planning.scheduler import Arrival, serve
from advisor.planning.targets import Limit, TargetVerdict, judge_arrivals
from advisor.planning.trace import TraceRequest
from advisor.record import Record
from advisor.speed.efficiencies import ArrivalRules

MOST_REQUESTS = 20_000  # that are replayed
MOST_WINDOWS = 12
WINDOWS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21600, 43200, 86400, 604800)  # seconds
FACTORS = tuple(1.25**i for i in range(-6, 13))  # denser than the trace, that are tried


class ReplayWindow(Record, frozen=True, kw_only=True):
    """The requests that arrive in a part of the trace's time. Seconds."""

    start_s: float
    requests: int
    running: float  # in the mean
    waiting: int  # at most at once, of one server
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    e2e_p99_s: float | None


class ReplayedTrace(Record, frozen=True, kw_only=True):
    """What the requests of a trace wait."""

    requests: int
    left_out: int  # requests beyond the first so many that are replayed
    seconds: float
    arrivals: Arrivals
    waits_for: str | None  # places or cache, whichever is waited for longer; None: nobody waits for either
    waiting_share: float  # of the servers' time in which somebody waits
    restarted: int  # requests that gave their room in the cache up and began again
    kept_share: float | None  # of the prompts' tokens, that were kept of earlier ones; None where that is not known
    most_density: float | None  # times as dense a trace is served like this; None: not even the least that was tried
    breaks_first: str | None  # beyond that
    windows: tuple[ReplayWindow, ...]


def make_arrivals(requests: Sequence[TraceRequest], longest: int) -> list[Arrival]:
    """The requests of a trace in the order of their arrival, no longer than so many tokens. Raises BadInput for a trace
    without times or requests."""
    if not requests or any(r.at is None for r in requests):
        raise BadInput(
            "the trace has no times, so there is nothing to replay" if requests else "no request in the trace"
        )
    sessions: dict[str | None, int] = {}
    in_order = sorted(requests, key=lambda r: r.at or 0.0)[:MOST_REQUESTS]
    begin, out = in_order[0].at or 0.0, []
    for r in in_order:
        output = max(1, min(r.output, longest - 1))
        prompt = max(1, min(r.prompt, longest - output))
        blocks, size = r.name_blocks(sessions.setdefault(r.session, len(sessions)))
        out.append(Arrival((r.at or 0.0) - begin, prompt, output, blocks=blocks, block=size))
    return out


def replay(
    groups: Sequence[ServerGroup], requests: Sequence[TraceRequest], longest: int, limits: Mapping[str, Limit],
    known: ArrivalRules, safe: bool,
) -> tuple[ReplayedTrace, list[TargetVerdict]]:  # fmt: skip
    """What the requests of a trace wait at servers behind one router, and the verdicts on limits. Raises BadInput."""
    arrivals = make_arrivals(requests, longest)
    answer, run = answer_trace(groups, arrivals, known)
    verdicts = judge_arrivals(limits, answer, known.judged, safe)
    lacks: Counter[str] = sum((s.lacks for s in run.servers), Counter())
    caching = [s for s in run.servers if isinstance(s, CachingServer)]
    asked = sum(s.asked_tokens for s in caching)
    density, first = _find_density(groups, arrivals, limits, known)
    waited = sum(seconds for s in run.servers for n, seconds in s.waiting.items() if n)
    return ReplayedTrace(
        requests=len(arrivals),
        left_out=len(requests) - len(arrivals),
        seconds=arrivals[-1].at,
        arrivals=answer,
        waits_for=lacks.most_common(1)[0][0] if lacks else None,
        waiting_share=waited / max(1e-9, sum(s.now for s in run.servers)),
        restarted=sum(s.dropped for s in run.servers),
        kept_share=sum(s.hit_tokens for s in caching) / asked if asked else None,
        most_density=density,
        breaks_first=first,
        windows=tuple(_list_windows(run, arrivals[-1].at, known.outside_steps.value)),
    ), verdicts


def _find_density(
    groups: Sequence[ServerGroup], arrivals: Sequence[Arrival], limits: Mapping[str, Limit], known: ArrivalRules
) -> tuple[float | None, str | None]:
    """How much denser the trace may be with the limits kept, else with a backlog that goes away, and what breaks."""
    asked = {k: (x.most, float((x.percentile or known.judged)[1:]) / 100) for k, x in limits.items()}

    def find_fault(factor: float) -> str | None:
        servers = [s for g in groups for s in g.make()]
        serve([replace(a, at=a.at / factor) for a in arrivals], servers)
        run = Run(servers, 0.0)
        late = (k for k, (most, share) in asked.items() if run.find_time(k, share, known.outside_steps.value) > most)
        fault = next(late, None)
        if fault is None and not limits and _is_behind(run, arrivals[-1].at / factor):
            lacks: Counter[str] = sum((s.lacks for s in servers), Counter())
            return lacks.most_common(1)[0][0] if lacks else "steps"
        return fault

    low, high, fault = -1, len(FACTORS), None
    while high - low > 1:
        middle = (low + high) // 2
        found = find_fault(FACTORS[middle])
        low, high, fault = (middle, high, fault) if found is None else (low, middle, found)
    return (FACTORS[low] if low >= 0 else None), fault


def _is_behind(run: Run, last: float) -> bool:
    """Whether the last quarter of the requests waits for its first token twice as long as the first half does, beyond
    a tenth of the trace's time."""
    by_time = sorted((r for s in run.servers for r in s.done), key=lambda r: r.arrival.at)
    waits = [r.first_at - r.arrival.at for r in by_time]
    half, quarter = waits[: len(waits) // 2 or 1], waits[-(len(waits) // 4 or 1) :]
    mean, end = sum(half) / len(half), sum(quarter) / len(quarter)
    return end > 2 * mean and end > 0.1 * last


def _list_windows(run: Run, seconds: float, overhead: float) -> Iterable[ReplayWindow]:
    size = next((w for w in WINDOWS if seconds / w <= MOST_WINDOWS), WINDOWS[-1])
    served: dict[int, list[tuple[float, float]]] = {}
    for server in run.servers:
        for r in server.done:
            times = r.first_at - r.arrival.at + overhead, r.done_at - r.arrival.at + overhead
            served.setdefault(int(r.arrival.at // size), []).append(times)
    running, waiting = Counter[int](), Counter[int]()
    for server in run.servers:
        for end, took, many, queued in server.samples or ():
            place = int(end // size)
            running[place] += took * many  # type: ignore[assignment]  # seconds, not counts
            waiting[place] = max(waiting[place], queued)
    for place in range(int(seconds // size) + 1):
        here = served.get(place, [])
        first, whole = (sorted(x) for x in zip(*here, strict=True)) if here else ([], [])
        pick: Callable[[list[float], float], float | None] = lambda x, p: find_percentile(x, p) if x else None  # noqa: E731
        yield ReplayWindow(
            start_s=float(place * size),
            requests=len(here),
            running=running[place] / size,
            waiting=waiting[place],
            ttft_p50_s=pick(first, 0.5),
            ttft_p99_s=pick(first, 0.99),
            e2e_p99_s=pick(whole, 0.99),
        )
