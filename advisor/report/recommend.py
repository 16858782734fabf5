"""`advise recommend` as text: an answer of at most 18 lines around the command; -v shows the whole of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from advisor.advice.types import Advice, RankedDeployment
from advisor.deployment import DeviceMemory, Interval, MemoryEstimate
from advisor.machines.types import Machine
from advisor.record import Value
from advisor.report.plan_text import (
    count_servers_of_node,
    describe_split,
    describe_targets,
    format_seconds,
    list_command_lines,
)
from advisor.report.recommend_details import describe_all, describe_licences, describe_no_fit, summarise_machine
from advisor.report.text import paint, wrap_text
from advisor.units import GIB, format_rate, format_tokens

MOST_LINES = 18  # around the command, empty lines included
LABEL = 9  # columns of a row's label
SHOWN = 3  # alternatives of each kind


class Row(Value, frozen=True):
    """One label and its clauses, the most important first: what does not fit into `most` lines is left out."""

    label: str
    clauses: tuple[str, ...]
    most: int = 2
    bold: bool = False  # the first clause


BEFORE_COMMAND = ("Machine", "Model", "Engine", "Install")
# rows lose lines in this order while the answer is too long; the first clause of a row always stays
YIELDS = ("Else", "Change", "Note", "Machine", "Install", "Speed", "Holds", "Model", "Engine")


def describe_advice(advice: Advice, verbose: bool = False) -> str:
    """The advice as text."""
    chosen = advice.chosen
    if verbose:
        return describe_all(advice)
    if chosen is None:
        return describe_no_fit(advice)
    rows = _list_rows(advice, chosen)
    before = [r for r in rows if r.label in BEFORE_COMMAND]
    after = [r for r in rows if r not in before]
    limits = _limit(rows, MOST_LINES - 3)  # two empty lines, and where the rest is
    out = [line for r in before for line in _show(r, limits[r.label])]
    if chosen.command:
        lines = list_command_lines(chosen.command, count_servers_of_node(chosen), verbose)
        out += ["", *(f"  {line}" for line in lines), ""]
    for other in chosen.also:
        out += [f"  Also: {other.engine_name} with {other.model}, {other.quantization}", ""]
        out += [*(f"  {line}" for line in (other.command or "").splitlines()), ""]
    out += [line for r in after for line in _show(r, limits[r.label])]
    out.append(paint("All reasons, settings, alternatives and refusals: -v. Files: advise render.", "dim"))
    return "\n".join(out)


def _limit(rows: Sequence[Row], most: int) -> dict[str, int]:
    """Lines that each row may take so that all together are at most `most`, where that is possible."""
    by_label = {r.label: r for r in rows}
    limits = {r.label: r.most for r in rows}
    shown = {r.label: len(_show(r, r.most)) for r in rows}
    for least in (2, 1):
        for label in YIELDS:
            while sum(shown.values()) > most and limits.get(label, 1) > least:
                limits[label] -= 1
                if shown[label] > limits[label]:
                    shown[label] = len(_show(by_label[label], limits[label]))
    return limits


def _show(row: Row, most: int) -> list[str]:
    """The lines of a row: clauses from the end are left out until the others fit into `most` lines."""
    clauses = [c for c in row.clauses if c]
    hanging = " " * LABEL
    while clauses:
        text = wrap_text("; ".join(clauses), row.label.ljust(LABEL), hanging)
        lines = text.split("\n")
        if len(lines) <= most or len(clauses) == 1:
            if row.bold:
                first = lines[0][LABEL:]
                bold = clauses[0] if first.startswith(clauses[0]) else first
                lines[0] = lines[0][:LABEL] + paint(bold, "bold") + first[len(bold) :]
            return lines
        clauses.pop()
    return []


def list_machine_parts(machine: Machine) -> list[str]:
    """What matters of a machine, the most important first: devices, memory, system, processor."""
    parts = summarise_machine(machine).removeprefix("Machine: ").split("; ")
    processors = [p for p in parts if machine.cpu.model and p.startswith(machine.cpu.model)]
    return [p for p in parts if p not in processors] + processors


def _list_rows(advice: Advice, chosen: RankedDeployment) -> list[Row]:
    """All rows of the answer in their order."""
    machine = Row("Machine", tuple(list_machine_parts(advice.machine)))
    if chosen.memory is None:
        return [machine, Row("Engine", (chosen.engine_name, *chosen.reasons, *chosen.notes), 4, bold=True)]
    own_download = chosen.command is not None and chosen.model is not None and chosen.model in chosen.command
    licence = describe_licences(chosen.licence, own_download) if chosen.licence else []
    version = f" {chosen.engine_version}" if chosen.engine_version else ""
    rows = [
        machine,
        Row("Model", (f"{chosen.model}, {chosen.quantization}", *_explain_model(advice, chosen, licence)), 3, True),
        Row("Engine", (f"{chosen.engine_name}{version}", *chosen.reasons), 3, True),
        Row("Install", _install(advice.machine, chosen)),
        Row("Test", (chosen.test or "",), 1),
        Row("Holds", (*_holds(chosen), *_split(chosen), _memory(chosen.memory), *_copies(chosen)), 3),
        Row("Speed", tuple(_speed(chosen)), 2),
        Row("Change", advice.growth, 3),
        Row("Else", tuple(_others(advice)), 3),
        Row("Note", tuple(_notes(advice, chosen)), 2),
    ]
    return [r for r in rows if any(r.clauses)]


def _explain_model(advice: Advice, chosen: RankedDeployment, licence: list[str]) -> list[str]:
    quality = chosen.quality
    taken = any(w.startswith("no model given") for w in advice.warnings)
    if quality is None:
        return ["the ablest that fits", *licence] if taken else licence
    ability = f"ability {quality.ability:+.1f} ± {quality.spread:.1f}"
    out = [f"the ablest for {quality.use} that fits ({ability})" if taken else f"{ability} for {quality.use}"]
    out += licence
    if quality.thinks and quality.answer_s:
        out.append(f"thinks first: about {format_seconds(quality.answer_s)} an answer")
    if quality.loss_percent and quality.loss_percent[1]:
        low, high = quality.loss_percent
        out.append(f"{chosen.quantization} costs {low:g} to {high:g} % of a score")
    return out


def _install(machine: Machine, chosen: RankedDeployment) -> tuple[str, ...]:
    found = next((e for e in machine.engines if e.engine == chosen.engine), None)
    if found is not None:
        return (f"it is installed{f' ({found.version})' if found.version else ''}",)
    if chosen.install is None:
        return (f"see rules/engines/{chosen.engine}.yaml: no single line installs it here",) if chosen.command else ()
    image = chosen.install.startswith("docker pull")
    if image and machine.docker is False:
        return (chosen.install, "no docker was found on the machine: install it first")
    return (chosen.install, *(("start it by `advise render --target docker`",) if image else ()))


def _memory(estimate: MemoryEstimate) -> str:
    """Each unlike place that holds something: what it needs of what is there, and the largest parts."""
    rows = list(estimate.devices)
    host = estimate.host
    if host is not None and (not rows or (host.weights_bytes or 0) > GIB):
        rows.append(host)
    counted: dict[DeviceMemory, int] = {}
    for row in rows:
        counted[row] = counted.get(row, 0) + 1
    return "; ".join(_place(row, n, len(counted) == 1) for row, n in list(counted.items())[:SHOWN])


def _place(row: DeviceMemory, count: int, alone: bool) -> str:
    def gib(amount: int | None) -> str:
        return "unknown" if amount is None else f"{amount / GIB:.1f}"

    name = f"{count}x {row.name}, each " if count > 1 else ("" if alone else f"{row.name} ")
    total = f"{name}{gib(row.total_bytes)} of {gib(row.budget_bytes)} GiB"
    kv = None if row.kv_cache_bytes is None else row.kv_cache_bytes + (row.recurrent_state_bytes or 0)
    rest = [x for x in (row.compute_bytes, row.overhead_bytes) if x is not None]
    parts = f"weights {gib(row.weights_bytes)}, KV cache {gib(kv)}, rest {gib(sum(rest)) if rest else 'unknown'}"
    return f"{total} ({parts})" if alone else total


def _holds(chosen: RankedDeployment) -> Iterable[str]:
    estimate, holds = chosen.memory, chosen.holds
    if estimate is None:
        return
    length = format_tokens(estimate.context_length)
    if holds is None:
        yield f"one request of {length} tokens"
    elif holds.typical == holds.full_length:
        yield f"{holds.full_length:,} request{'s' if holds.full_length != 1 else ''} of {length} tokens at once"
    else:
        yield f"{holds.typical:,} typical requests at once, {holds.full_length:,} of {length} tokens"
    if chosen.starts is not True:
        yield "does not start" if chosen.starts is False else "whether it starts cannot be determined"
    if holds is not None and holds.waiting:
        wait = f", about {format_seconds(holds.wait_s.value)} each" if holds.wait_s is not None else ""
        yield f"{holds.waiting:,} of {holds.asked:,} wait{wait}"


def _split(chosen: RankedDeployment) -> Iterable[str]:
    if chosen.plan.prefill is not None:
        yield describe_split(chosen)


def _copies(chosen: RankedDeployment) -> Iterable[str]:
    if chosen.copies > 1 and chosen.plan.prefill is None:
        own = "by the engine's own data parallel" if chosen.plan.servers == 1 else "behind a router"
        yield f"{chosen.copies} equal copies {own}"


def _speed(chosen: RankedDeployment) -> Iterable[str]:
    speed = chosen.speed
    each = speed.rate_of_each if speed is not None else None
    if speed is None or each is None:
        yield "not known"
        return
    many = chosen.holds is not None and chosen.holds.asked > 1
    basis = "calibrated here" if speed.calibration else "predicted, not measured"
    yield f"about {_interval(each)} tokens/s{' for each' if many else ''}, {basis}"
    if many and speed.output_tps:
        yield f"{_interval(speed.output_tps)} in all"
    if speed.ttft_s:
        yield f"first token after {format_rate(speed.ttft_s.value)} s"
    yield from describe_targets(chosen)


def _interval(interval: Interval) -> str:
    return f"{format_rate(interval.value)} ({format_rate(interval.low)} to {format_rate(interval.high)})"


def _others(advice: Advice) -> Iterable[str]:
    """Named plans, the first alternatives, the other models."""
    named = {i: name for name, i in advice.named.items() if i is not None}
    order = [*named, *(i for i in range(len(advice.alternatives)) if i not in named)]
    shown = [i for i in order if advice.alternatives[i].memory is not None]
    for i in shown[:SHOWN]:
        other = advice.alternatives[i]
        rate = other.speed.rate_of_each if other.speed else None  # as in `Speed`
        what = f"{other.engine_name.partition(' (')[0]} {other.quantization}"
        speed = f" ({format_rate(rate.value)} tokens/s)" if rate else ""
        yield f"{named[i]}: {what}{speed}" if i in named else f"{what}{speed}"
    if advice.models:
        yield "models: " + ", ".join(m.model.rpartition("/")[2] for m in advice.models[:SHOWN])


def _notes(advice: Advice, chosen: RankedDeployment) -> Iterable[str]:
    """Warnings that a reader needs now; formats that do not fit and remarks on the choice are in -v."""
    for warning in advice.warnings:
        if warning.startswith("no model given") or "does not fit" in warning or warning in chosen.notes:
            continue
        yield warning
