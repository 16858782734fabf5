"""A plan as text: what it starts with, how many requests it holds, how fast it is, its commands."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.advice.types import RankedDeployment
from advisor.deployment import SPEED_FIGURES, Arrivals, SpeedEstimate
from advisor.patterns import pattern_when_used
from advisor.planning.targets import MET
from advisor.report.text import fits_word, format_bounds
from advisor.units import format_rate, format_short_time, format_tokens


def format_seconds(seconds: float) -> str:
    """`40 s`, `3 min`."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def show_command(ranked: RankedDeployment, verbose: bool) -> list[str]:
    """The command, indented, between empty lines; nothing where there is none."""
    if not ranked.command:
        return []
    lines = list_command_lines(ranked.command, count_servers_of_node(ranked), verbose)
    return ["", *(f"  {line}" for line in lines), ""]


def list_command_lines(command: str, servers: int, verbose: bool) -> list[str]:
    """The lines of a command; of equal servers the first, unless all are asked for. Variables before a program have a
    line of their own where it would be long."""
    lines = [part for line in command.splitlines() for part in _break_behind_variables(line)]
    if servers < 2 or verbose:
        return lines
    first = next((i for i, line in enumerate(lines) if line.endswith(" &")), len(lines) - 1)
    return [
        *lines[: first + 1],
        f"# and {servers - 1} more on other cards and ports (-v), behind a router (advise render)",
    ]


_VARIABLES = pattern_when_used(r"((?:[A-Z][A-Z0-9_]*=[^\s'\"]* )+)(.*)")
WIDE = 78  # columns, next to an indentation of two


def _break_behind_variables(line: str) -> list[str]:
    found = _VARIABLES.fullmatch(line) if len(line) > WIDE else None
    return [line] if found is None else [f"{found[1]}\\", f"  {found[2]}"]


def count_servers_of_node(ranked: RankedDeployment) -> int:
    """Equal servers that one node runs."""
    nodes = ranked.layout.nodes if ranked.layout else 1
    servers = ranked.launch.plan.servers if ranked.launch.plan is not None else 1
    return max(1, servers // nodes)


def describe_holding(ranked: RankedDeployment) -> Iterator[str]:
    """What it starts with, how many requests it holds, how fast it is, whether targets are met: a sentence each."""
    estimate, holds = ranked.memory, ranked.holds
    if estimate is None:
        return
    starts = f"starts with {format_tokens(estimate.context_length)} tokens a request: {fits_word(ranked.starts)}"
    if holds is None:
        yield starts
    elif holds.asked == holds.typical == 1:
        speed = _speed(ranked)
        yield f"{starts}; {speed}" if speed else starts
    else:
        full = f"{holds.full_length:,} of full length"
        typical = f"holds {holds.typical:,} typical requests at once ({full})"
        yield (
            f"{starts}; {typical}"
            if holds.typical != holds.full_length
            else f"{starts}; holds {holds.full_length:,} at once"
        )
        if holds.waiting:
            wait = f", about {format_seconds(holds.wait_s.value)} each" if holds.wait_s is not None else ""
            yield f"of {holds.asked:,} at once {holds.waiting:,} wait{wait}"
    if ranked.plan.prefill is not None:
        yield describe_split(ranked)
    elif ranked.copies > 1:
        alone = ranked.plan.servers == 1
        own = "by the engine's own data parallel" if alone else "behind a router (LiteLLM, nginx, ...)"
        nodes = ranked.layout.nodes if ranked.layout and not alone else 1
        cards = len(ranked.layout.devices) * nodes // ranked.copies if ranked.layout else 1
        where = f"each on {cards} card{'s' if cards > 1 else ''}" if cards else "one on each node"
        over = f", over {nodes} nodes" if nodes > 1 and cards else ""
        yield f"{ranked.copies} equal copies {own}, {where}{over}"
    speed = _speed(ranked)
    if speed and (holds is None or not holds.asked == holds.typical == 1):
        yield speed
    if ranked.arrivals is not None:
        yield ", ".join(describe_arrivals(ranked.arrivals)) or "more requests than are served"
    yield from describe_targets(ranked)


def describe_split(ranked: RankedDeployment) -> str:
    """How many servers read prompts and how many write answers."""
    reading = ranked.layout.prefill if ranked.layout is not None else 0
    writing = ranked.plan.servers - reading
    read = "1 server reads prompts" if reading == 1 else f"{reading} servers read prompts"
    return f"{read}, {writing} write{'s' if writing == 1 else ''} answers, behind a router of their own"


def describe_targets(ranked: RankedDeployment) -> Iterator[str]:
    """Whether the targets that were named are met, the binding one first; nothing where none was named."""
    targets = ranked.targets
    if targets is None:
        return
    if targets.rate is not None and ranked.arrivals is not None:
        most = format_bounds(ranked.arrivals.most_rate, between=" to ")
        yield f"overloaded: {targets.rate:g} requests/s are asked for, {most} are served; the queue grows without end"
    words = [v.words for v in targets.verdicts]
    if not words and targets.rate is None:
        words = [f"targets {MET[targets.met]}"]
    yield from words[:1]
    if targets.nearest:
        yield f"nearest that meets it: {' or '.join(targets.nearest)}"
    yield from words[1:]
    if targets.confidence == "safe":
        yield "judged by the slow end of the bounds"


def describe_arrivals(arrivals: Arrivals) -> Iterator[str]:
    """What requests that arrive wait, and how many run."""
    if arrivals.running is None or arrivals.ttft_s is None or arrivals.e2e_s is None:
        return
    run = f"{arrivals.running.mean:.0f} run at once (95 %: {arrivals.running.p95:.0f})"
    yield f"{arrivals.rate:g} requests/s: {run}" if arrivals.rate is not None else run
    first = arrivals.ttft_s
    yield f"first token p50 {format_short_time(first.p50.value)}, p99 {format_short_time(first.p99.value)}"
    yield f"whole answer p95 {format_short_time(arrivals.e2e_s.p95.value)}"
    yield f"at most {format_bounds(arrivals.most_rate, between=' to ')} requests/s"
    if arrivals.assumed:
        yield f"assumed: {', '.join(arrivals.assumed)}"


def list_phrases(speed: SpeedEstimate) -> list[str]:
    """Figures that follow the rates in a sentence, as far as they are known."""
    found = ((f.phrase, getattr(speed, f.field)) for f in SPEED_FIGURES if f.phrase)
    out = [phrase.format(format_rate(interval.value)) for phrase, interval in found if interval]
    if out and speed.prompt_tokens:
        new, cached = speed.prompt_tokens, speed.cached_tokens
        out[-1] += f" for {new:,} new tokens of {cached + new:,}" if cached else f" for a prompt of {new:,} tokens"
    return out


def _speed(ranked: RankedDeployment) -> str:
    speed, holds = ranked.speed, ranked.holds
    between = speed.rate_of_each if speed is not None else None
    if speed is None or between is None:
        return ""
    many = holds is not None and holds.asked > 1
    each = " for each" if many else ""
    out = [f"about {format_bounds(between)} tokens/s{each}"]
    if many and speed.output_tps:
        out.append(f"{format_bounds(speed.output_tps)} in all")
    out += list_phrases(speed)
    return f"{', '.join(out)} ({speed.calibration or 'modelled from memory traffic'})"
