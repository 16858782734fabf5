"""The text of `advise replay`."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.deployment import Percentiles
from advisor.fleet.replay import Replay
from advisor.planning.replay import ReplayedTrace, ReplayWindow
from advisor.report.text import align_table, format_bounds
from advisor.units import format_rate, format_short_time

NAMES = {"ttft_s": "first token", "tpot_s": "between tokens", "e2e_s": "whole answer"}
LACKS = {
    "places": "no place is free for another request",
    "cache": "the KV cache is full",
    "steps": "steps take longer than requests arrive",
    **{k: f"the target on the {name}" for k, name in NAMES.items()},
}


def describe_replay(answer: Replay) -> str:
    """The verdict, the times, when requests queue, what breaks first, and the windows of time."""
    return "\n".join(_list_lines(answer)) + "\n"


def _list_lines(answer: Replay) -> Iterator[str]:
    found = answer.replayed
    arrivals = found.arrivals
    if arrivals.stable is False:
        most = format_bounds(arrivals.most_rate, between=" to ")
        yield f"Overloaded: {format_rate(arrivals.rate)} requests/s come, {most} are served: the queue grows"
    for verdict in answer.targets.verdicts if answer.targets is not None else ():
        yield verdict.words
    servers = ", ".join(f"{s.servers}x {s.model} {s.quantization} on {s.engine}" for s in answer.servers)
    yield f"{found.requests:,} requests in {format_short_time(found.seconds)} on {servers}"
    yield ""
    yield align_table(list(_list_times(found)), ("", "mean", "p50", "p90", "p95", "p99"), "lrrrrr")
    yield ""
    if arrivals.running is not None:
        run = f"{format_rate(arrivals.running.mean)} run at once (95 %: {format_rate(arrivals.running.p95)})"
        yield f"{run}; prompts take {100 * (arrivals.prompt_share or 0):.0f} % of the time"
    yield _describe_queue(found)
    if found.kept_share is not None:
        yield f"{100 * found.kept_share:.0f} % of the prompts' tokens are in the cache already"
    if found.most_density is None:
        yield f"breaks even at a quarter of these requests a second: {LACKS[found.breaks_first or 'steps']}"
    elif found.breaks_first is None:
        yield f"served up to {found.most_density:.3g} times as many requests a second, and perhaps more"
    else:
        yield f"served up to {found.most_density:.3g} times as many requests a second; then {LACKS[found.breaks_first]}"
    yield ""
    rows = [
        [f"{w.start_s:,.0f} s", w.requests, format_rate(w.running), w.waiting, *map(_show, _pick_times(w))]
        for w in found.windows
    ]
    heads = ("from", "requests", "running", "waiting", "first token p50", "p99", "whole answer p99")
    yield align_table(rows, heads, "rrrrrrr")
    for note in answer.notes:
        yield f"Note: {note}"


def _pick_times(window: ReplayWindow) -> tuple[float | None, ...]:
    return window.ttft_p50_s, window.ttft_p99_s, window.e2e_p99_s


def _show(seconds: float | None) -> str:
    return "" if seconds is None else format_short_time(seconds)


def _list_times(found: ReplayedTrace) -> Iterator[list[str]]:
    for figure, name in NAMES.items():
        times: Percentiles | None = getattr(found.arrivals, figure)
        if times is not None:
            yield [name, *(format_short_time(getattr(times, p).value) for p in Percentiles.__struct_fields__)]


def _describe_queue(found: ReplayedTrace) -> str:
    if found.waits_for is None:
        return "nobody waits to be taken"
    again = f"; {found.restarted:,} start again" if found.restarted else ""
    return f"requests wait {100 * found.waiting_share:.0f} % of the time: {LACKS[found.waits_for]}{again}"
