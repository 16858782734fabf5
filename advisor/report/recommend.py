"""`advise recommend` as text: an answer of at most 18 lines around the command; with -v the whole of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from advisor.advice.types import Advice, Licences, ModelOption, Quality, RankedDeployment, RejectedEngine
from advisor.deployment import DeviceMemory, MemoryEstimate
from advisor.engines.additions import DISK
from advisor.machines.types import Machine
from advisor.record import Value
from advisor.report.plan_text import (
    describe_arrivals,
    describe_holding,
    describe_split,
    describe_targets,
    format_seconds,
    list_phrases,
    show_command,
)
from advisor.report.text import align_table, bullets, format_bounds, list_section, paint, wrap_text
from advisor.units import GIB, format_gib, format_rate, format_tokens

MOST_LINES = 18  # around the command, empty lines included
LABEL = 9  # columns of a row's label
SHOWN = 3  # alternatives of each kind


class Row(Value, frozen=True):
    """One label and its clauses, the most important first: what does not fit into `most` lines is left out."""

    label: str
    clauses: tuple[str, ...]
    most: int = 2
    bold: bool = False  # the first clause


BEFORE_COMMAND = ("Missed", "Machine", "Model", "Engine", "Install", "Needs")
# rows lose lines in this order while the answer is too long; the first clause of a row stays, but for those of DROPPED,
# which go before the first token of a plan or its rate in all does
DROPPED = ("Faster", "Change")
YIELDS = (
    "Faster",
    "Else",
    "Change",
    "Load",
    "Note",
    "Choice",
    "Machine",
    "Install",
    "Speed",
    "Holds",
    "Model",
    "Engine",
)


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
    out += show_command(chosen, verbose)
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
    plain, later = YIELDS[: YIELDS.index("Machine")], YIELDS[: YIELDS.index("Speed")]
    for least, labels in ((2, later), (1, plain), (0, DROPPED), (2, YIELDS), (1, YIELDS)):
        for label in labels:
            while sum(shown.values()) > most and limits.get(label, 0) > least:
                limits[label] -= 1
                if shown[label] > limits[label]:
                    shown[label] = len(_show(by_label[label], limits[label]))
    return limits


def _show(row: Row, most: int) -> list[str]:
    """The lines of a row: clauses from the end are left out until the others fit into `most` lines."""
    clauses = [c for c in row.clauses if c] if most else []
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
        Row("Missed", tuple(_missed(advice, chosen)), 3, bold=True),
        machine,
        Row("Model", (f"{chosen.model}, {chosen.quantization}", *_explain_model(advice, chosen, licence)), 3, True),
        Row("Engine", (f"{chosen.engine_name}{version}", *chosen.reasons), 3, True),
        Row("Install", _install(advice.machine, chosen)),
        Row("Needs", chosen.conditions, 3),
        Row("Test", (chosen.test or "",), 1),
        Row("Holds", (*_holds(chosen), *_split(chosen), _memory(chosen.memory), *_copies(chosen)), 3),
        Row("Speed", tuple(_speed(chosen)), 4 if chosen.targets else 2),  # a verdict that was asked for is not cut off
        Row("Load", tuple(describe_arrivals(chosen.arrivals)) if chosen.arrivals is not None else (), 3),
        Row("Faster", advice.speculation.clauses if advice.speculation else (), 2),
        Row("Change", advice.growth, 3),
        Row("Choice", tuple(_choices(advice)), 3),
        Row("Else", tuple(_others(advice)), 3),
        Row("Note", tuple(_notes(advice, chosen)), 2),
    ]
    return [r for r in rows if any(r.clauses)]


def _missed(advice: Advice, chosen: RankedDeployment) -> Iterable[str]:
    """What the plan falls short of: memory, named targets, or what is usable."""
    if chosen.memory is not None and chosen.memory.fits is False:
        yield "it does not fit into memory: a part is read from disk all the time"
    if chosen.targets is not None and chosen.targets.met is False:
        yield from describe_targets(chosen)
    elif chosen.plan.on_time is False and chosen.speed is not None and chosen.speed.rate_of_each is not None:
        rate = format_rate(chosen.speed.rate_of_each.value)
        yield f"slow: about {rate} tokens/s for each; fewer users, a smaller model or another machine would be faster"


def _explain_model(advice: Advice, chosen: RankedDeployment, licence: list[str]) -> list[str]:
    quality = chosen.quality
    taken = any(w.startswith("no model given") for w in advice.warnings)
    if quality is None:
        return ["worth the most here", *licence] if taken else licence
    ability = f"ability {quality.ability:+.1f} ± {quality.spread:.1f}"
    out = [f"worth the most for {quality.use} here ({ability})" if taken else f"{ability} for {quality.use}"]
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
    if not chosen.install.startswith("docker pull") or "docker run" in (chosen.command or ""):
        return (chosen.install,)
    if machine.docker is False:
        return (chosen.install, "no docker was found on the machine: install it first")
    return (chosen.install, "start it by `advise render --target docker`")


def count_places(estimate: MemoryEstimate, least: float = GIB) -> Counter[DeviceMemory]:
    """Unlike places that hold something, and how many there are of each; host memory next to devices where more than
    so many bytes of weights lie there."""
    host = estimate.host
    shown = host is not None and (not estimate.devices or (host.weights_bytes or 0) > least)
    disk = (estimate.disk,) if estimate.disk is not None else ()
    return Counter((*estimate.devices, *((host,) if host is not None and shown else ()), *disk))


def sum_cache(row: DeviceMemory) -> int | None:
    """Bytes of the KV cache and of recurrent states."""
    return None if row.kv_cache_bytes is None else row.kv_cache_bytes + (row.recurrent_state_bytes or 0)


def _memory(estimate: MemoryEstimate) -> str:
    """Each unlike place that holds something: what it needs of what is there, and the largest parts."""
    counted = count_places(estimate)
    return "; ".join(_place(row, n, len(counted) == 1) for row, n in list(counted.items())[:SHOWN])


def _place(row: DeviceMemory, count: int, alone: bool) -> str:
    def gib(amount: int | None) -> str:
        return "unknown" if amount is None else f"{amount / GIB:.1f}"

    name = f"{count}x {row.name}, each " if count > 1 else ("" if alone else f"{row.name} ")
    room = "" if row.name == DISK else f" of {gib(row.budget_bytes)}"
    total = f"{name}{gib(row.total_bytes)}{room} GiB"
    rest = [x for x in (row.compute_bytes, row.overhead_bytes) if x is not None]
    more = gib(sum(rest)) if rest else "unknown"
    parts = f"weights {gib(row.weights_bytes)}, KV cache {gib(sum_cache(row))}, rest {more}"
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
        yield from (x.text for x in chosen.why_not)
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
    basis = "calibrated here" if speed is not None and speed.calibration else "predicted"
    if speed is None or each is None:
        reads = speed.prefill_tps if speed is not None else None
        yield f"reads about {format_bounds(reads, between=' to ')} tokens/s, {basis}" if reads else "not known"
        return
    many = chosen.holds is not None and chosen.holds.asked > 1
    yield f"about {format_bounds(each, between=' to ')} tokens/s{' for each' if many else ''}, {basis}"
    if chosen.targets is None or chosen.targets.met is not False:
        yield from describe_targets(chosen)
    if many and speed.output_tps:
        yield f"{format_bounds(speed.output_tps, between=' to ')} in all"
    yield from list_phrases(speed)


def _choices(advice: Advice) -> Iterable[str]:
    """The other plans to choose from."""
    for other in advice.choices[1:]:
        model = "" if advice.chosen and other.model == advice.chosen.model else f"{other.model} "
        rate = other.speed.rate_of_each if other.speed else None
        speed = f"{format_rate(rate.value)} tokens/s" if rate else ""
        cards = f"{len(other.layout.devices)} cards" if other.layout and len(other.layout.devices) > 1 else ""
        what = ", ".join(x for x in (speed, cards) if x)
        yield f"{other.kind}: {model}{other.engine_name.partition(' (')[0]} {other.quantization} ({what})"


def _others(advice: Advice) -> Iterable[str]:
    """Named plans, the first alternatives, the other models."""
    named = {i: name for name, i in advice.named.items() if i is not None}
    order = [*named, *(i for i in range(len(advice.alternatives)) if i not in named)]
    offered = [(x.engine, x.model, x.settings) for x in advice.choices]  # in the row before
    alike = [(x.engine, x.model, x.settings) in offered for x in advice.alternatives]
    shown = [i for i in order if advice.alternatives[i].memory is not None and not alike[i]]
    for i in shown[:SHOWN]:
        other = advice.alternatives[i]
        rate = other.speed.rate_of_each if other.speed else None  # as in `Speed`
        what = f"{other.engine_name.partition(' (')[0]} {other.quantization}"
        how = next((f" {g}" for g in other.gains if g.startswith("by ")), "")
        speed = f" ({format_rate(rate.value)} tokens/s{how})" if rate else ""
        yield f"{named[i]}: {what}{speed}" if i in named else f"{what}{speed}"
    if advice.models:
        yield "models: " + ", ".join(m.model.rpartition("/")[2] for m in advice.models[:SHOWN])


def _notes(advice: Advice, chosen: RankedDeployment) -> Iterable[str]:
    """Warnings that a reader needs now; formats that do not fit and remarks on the choice are in -v."""
    for warning in advice.warnings:
        if warning.startswith("no model given") or "does not fit" in warning or warning in chosen.notes:
            continue
        yield warning


def describe_all(advice: Advice) -> str:
    """The whole advice: the choice, other models, alternatives, refusals, notes, growth, order, trace."""
    out = [wrap_text(summarise_machine(advice.machine)), ""]
    out += _no_fit(advice) if advice.chosen is None else _chosen(advice.chosen)
    if advice.models:
        title = f"No model was named; the one that is worth the most is taken. Others ({advice.workload.use_case}):"
        out += ["", title, _model_table(advice.models)]
    if advice.alternatives:
        out += ["", "Alternatives:", _alternatives(advice.alternatives), *_named(advice)]
    for other in advice.choices[1:]:
        title = f"{str(other.kind).capitalize()}: {other.engine_name} with {other.model}, {other.quantization}"
        out += ["", f"{title}{'; ' if other.gains else ''}{'; '.join(other.gains)}", *show_command(other, True)[1:-1]]
    if advice.overlay:
        out.append(wrap_text(f"With it: {', '.join(advice.overlay)}", "  ", "    "))
    refusals = (f"{r.engine}: " + "; ".join(x.text for x in r.reasons) for r in advice.rejected)
    out += list_section("Not these", refusals)
    out += list_section("Notes", advice.warnings)
    out += list_section("Faster", ["; ".join(advice.speculation.clauses)] if advice.speculation else [])
    out += list_section("As it grows", advice.growth)
    ranked = [x for x in (advice.chosen, *advice.alternatives) if x is not None and x.memory is not None]
    if ranked:
        out += ["", "Worth (in units of ability, most first; rules/choosing.yaml):"]
        out += [wrap_text(f"{x.engine}: {_worth(x)}", "  ", "      ") for x in ranked if x.utility]
    return "\n".join([*out, "", "Trace:", *_trace(advice)])


def describe_no_fit(advice: Advice) -> str:
    """The short answer where nothing fits: what would change that, and what refuses each engine."""
    out = [wrap_text(summarise_machine(advice.machine)), "", *_no_fit(advice)]
    if advice.rejected:
        out += ["", "Not these:", *_rejected_by_reason(advice.rejected)]
    notes = (w for w in advice.warnings if not ("does not fit" in w or w.startswith("no model given")))
    out += list_section("Notes", notes)
    return "\n".join([*out, "", paint("All reasons and the trace: -v.", "dim")])


def _worth(ranked: RankedDeployment) -> str:
    parts = " ".join(f"{k} {v:+.2f}" for k, v in ranked.utility.items())
    return f"{sum(ranked.utility.values()):+.2f}" + (f" = {parts}" if parts else "")


def summarise_machine(machine: Machine) -> str:
    """One line that says what machine this is about."""
    devices: dict[str, int] = {}
    for device in machine.usable_devices:
        size = f" ({format_gib(device.total_bytes, 1)})" if device.total_bytes else ""
        devices[device.name + size] = devices.get(device.name + size, 0) + 1
    parts = [f"{n}x {name}" for name, n in devices.items()] or ["no usable GPU"]
    if machine.nodes > 1:
        parts[-1] += f", {machine.nodes} nodes"
    if machine.cpu.model or machine.cpu.physical_cores:
        cores = f" ({machine.cpu.physical_cores} cores)" if machine.cpu.physical_cores else ""
        parts.append(f"{machine.cpu.model or 'CPU'}{cores}")
    ram, sold = machine.memory.usable_bytes, machine.memory.sold_bytes
    if ram is None and sold is not None:
        parts.append(f"{sold[0] / GIB:.0f} to {format_gib(sold[1], 0)} RAM")  # as it is sold
    else:
        parts.append(f"{format_gib(ram, 1)} RAM" if ram is not None else "RAM unknown")
    if machine.os:
        parts.append(machine.os + (" (WSL)" if machine.wsl else ""))
    return "Machine: " + "; ".join(parts)


def _chosen(ranked: RankedDeployment) -> list[str]:
    if ranked.memory is None:
        out = [paint(ranked.engine_name, "bold"), *bullets((*ranked.reasons, *ranked.notes))]
        return [*out, "", f"  {ranked.command}"] if ranked.command else out
    version = f" {ranked.engine_version}" if ranked.engine_version else ""
    out = [paint(f"{ranked.engine_name}{version} with {ranked.model}, {ranked.quantization}", "bold")]
    out += bullets(ranked.reasons)
    if ranked.quality is not None:
        out += bullets([describe_quality(ranked.quality, ranked.quantization)])
    if ranked.licence is not None:
        own = ranked.command is not None and ranked.model is not None and ranked.model in ranked.command
        out += bullets(describe_licences(ranked.licence, own))
    estimate = ranked.memory
    out += bullets(describe_holding(ranked))
    if ranked.command:
        out += show_command(ranked, verbose=True)
    else:
        missing = f"no command template for {ranked.engine_name} yet; settings: {ranked.settings}"
        out += ["", wrap_text(missing, "  "), ""]
    for other in ranked.also:
        out += [f"  With it: {other.engine_name} with {other.model}, {other.quantization}", ""]
        out += [*(f"  {line}" for line in (other.command or "").splitlines()), ""]
    if ranked.install:
        out.append(f"  Install: {ranked.install}")
    if ranked.test:
        out.append(f"  Test: {ranked.test}")
    out += ["", describe_memory(estimate, verbose=True), "", "Settings:"]
    out += [
        wrap_text(f"{k} = {v}: {ranked.launch.because.get(k, '')}", "  ", "      ") for k, v in ranked.settings.items()
    ]
    return [*out, *bullets([*ranked.notes, *(ranked.speed.notes if ranked.speed is not None else ())])]


def describe_quality(quality: Quality, quantization: str | None) -> str:
    """One line on how able the model is, what the format costs, how long an answer takes."""
    rests = (
        f"{quality.independent} independent of {quality.boards} tests" if quality.boards else "by size and age alone"
    )
    out = [f"ability for {quality.use} {quality.ability:+.1f} ± {quality.spread:.1f} ({rests})"]
    if quality.loss_percent and quality.loss_percent[1]:
        low, high = quality.loss_percent
        out.append(f"{quantization} costs {low:g} to {high:g} % of a score")
    if quality.thinks and quality.answer_s:
        plain = f", {format_seconds(quality.plain_answer_s)} with thinking off" if quality.plain_answer_s else ""
        out.append(f"it thinks first: a typical answer takes about {format_seconds(quality.answer_s)}{plain}")
    if quality.hallucination_percent is not None:
        out.append(f"{quality.hallucination_percent:g} % of summaries hold something that is not in the document")
    if quality.effective_context is not None:
        out.append(f"holds long texts up to {format_tokens(quality.effective_context)}")
    return "; ".join(out)


def describe_licences(licences: Licences, own_download: bool) -> list[str]:
    """What an operator has to know of the licences; nothing where all are permissive and nothing is gated.

    `own_download`: the model's own repository is downloaded, not somebody's copy, so that its gate has to be passed.
    """
    said = {
        "conditions": f"licence {licences.model}: commercial use with conditions",
        "noncommercial": f"licence {licences.model}: no commercial use",
        "unknown": f"licence {licences.model or 'not known'}: read it before commercial use",
    }.get(licences.model_class)
    out = [said] if said else []
    if licences.gated and own_download:
        out.append("gated: accept its terms on the hub before the download")
    if licences.engine and re.search(r"AGPL|proprietary", licences.engine, re.I):
        out.append(f"the engine: {licences.engine}")
    return ["; ".join(out)] if out else []


def _model_table(options: Sequence[ModelOption]) -> str:
    rows = [
        [x.model.rpartition("/")[2][:32], x.quantization[:10], f"{x.ability:+.1f} ± {x.spread:.1f}", x.boards,
         format_rate(x.decode_tps), (x.licence or "unknown")[:12]]
        for x in options
    ]  # fmt: skip
    return align_table(rows, ("model", "format", "ability", "tests", "tokens/s", "licence"), "lllrrl")


def describe_memory(estimate: MemoryEstimate, verbose: bool = False) -> str:
    """A table of the places that hold something; host memory next to devices where a part of the model lies there."""

    def f(n: int | None) -> str:
        return "unknown" if n is None else f"{n / GIB:.2f}"

    body: list[list[str]] = []
    for row, n in count_places(estimate, -1 if verbose else GIB).items():
        name = f"{n}x {row.name}" if n > 1 else row.name
        parts = (row.weights_bytes, sum_cache(row), row.compute_bytes, row.overhead_bytes, row.total_bytes)
        body.append([name[:26], *map(f, parts), f(row.budget_bytes)])
    return align_table(body, ("GiB on", "weights", "KV", "compute", "other", "total", "of"), "lrrrrrr")


def _alternatives(xs: Sequence[RankedDeployment]) -> str:
    xs = [x for x in xs if x.utility or x.memory is None]  # the named ones have lines of their own
    rows = []
    for ranked in xs:
        if ranked.memory is None:
            rows.append([ranked.engine_name[:28], "", "", "", "runs elsewhere"])
            continue
        place = ranked.memory.devices or ((ranked.memory.host,) if ranked.memory.host else ())
        totals = [r.total_bytes for r in place]
        total = None if any(t is None for t in totals) else sum(t for t in totals if t is not None)
        rate = ranked.speed.rate_of_each if ranked.speed else None
        fits = {True: "yes", False: "no", None: "cannot tell"}[ranked.memory.fits]
        rows.append(
            [
                ranked.engine_name[:28] if not ranked.gains else f"{ranked.engine_name[:17]} (simplest)",
                ranked.quantization or "",
                "unknown" if total is None else f"{total / GIB:.1f}",
                "unknown" if rate is None else format_rate(rate.value),
                fits,
            ]
        )
    return align_table(rows, ("engine", "format", "GiB", "tokens/s", "fits"), "llrrl")


NAMES = {"fastest": "Fastest", "widest": "Widest weights"}


def _named(advice: Advice) -> list[str]:
    """The named plans, a line each: what they gain and lose."""
    out = []
    for name, i in advice.named.items():
        if i is None or name == "simplest":
            continue  # the simplest stands in the table
        x = advice.alternatives[i]
        out.append(f"{NAMES[name]}: {x.engine_name} with {x.quantization}: {', '.join(x.gains)}")
    return [wrap_text(line, "  ", "    ") for line in out]


def _rejected_by_reason(xs: Sequence[RejectedEngine]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for x in xs:
        groups.setdefault(x.reasons[0].code if x.reasons else "unknown", []).append(x.engine)
    out = []
    if len(groups) > 1:
        groups.pop("not_asked_for", None)  # nobody asked
    for code, names in groups.items():
        out.append(wrap_text(f"{', '.join(names)}", f"  {CODES.get(code, code)}: ", "    "))
    return out


# reason codes in words
CODES = {
    "archived": "archived",
    "os_unsupported": "not on this operating system",
    "compute_capability_below_floor": "card too old",
    "gfx_not_listed": "card not on the engine's list",
    "vendor_not_supported": "not on this hardware",
    "cuda_runtime_too_old": "driver too old",
    "format_not_loadable": "cannot load this format",
    "quantization_not_supported": "format not on this hardware",
    "feature_missing": "lacks a feature you asked for",
    "needs_accelerator": "needs a GPU",
    "does_not_fit": "does not fit",
    "concurrency": "not for this many requests at once",
    "not_for_production": "not meant for production",
    "not_asked_for": "only when asked for",
    "data_policy": "data would leave the machine",
}


def _no_fit(advice: Advice) -> list[str]:
    out = [paint("Nothing fits.", "bold")]
    if advice.remedies:
        out += ["What would change that:", *bullets(advice.remedies)]
    return out


def _trace(advice: Advice) -> list[str]:
    out = []
    for trace_step in advice.trace:
        mark = {True: "yes", False: "no", None: "unknown"}[trace_step.held]
        seen = ", ".join(f"{c.field}={c.seen}" for c in trace_step.conditions)
        out.append(wrap_text(f"{mark:8}{trace_step.rule}" + (f"  [{seen}]" if seen else ""), "  ", "          "))
        if trace_step.held and trace_step.because:
            source = f" ({', '.join(trace_step.source)})" if trace_step.source else ""
            out.append(wrap_text(f"{trace_step.because}{source}", "          "))
    return out
