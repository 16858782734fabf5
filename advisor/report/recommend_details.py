"""`advise recommend -v`: the whole answer as text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from advisor.advice.types import Advice, Licences, ModelOption, Quality, RankedDeployment, RejectedEngine
from advisor.deployment import DeviceMemory, MemoryEstimate
from advisor.machines.types import Machine
from advisor.report.plan_text import count_servers_of_node, describe_holding, format_seconds, list_command_lines
from advisor.report.text import align_table, bullets, paint, wrap_text
from advisor.units import GIB, format_gib, format_rate, format_tokens


def describe_all(advice: Advice) -> str:
    """The whole advice: the choice, other models, alternatives, refusals, notes, growth, order, trace."""
    out = [wrap_text(summarise_machine(advice.machine)), ""]
    out += _no_fit(advice) if advice.chosen is None else _chosen(advice.chosen)
    if advice.models:
        title = f"No model was named; the ablest that fits is taken. Others ({advice.workload.use_case}):"
        out += ["", title, _models(advice.models)]
    if advice.alternatives:
        out += ["", "Alternatives:", _alternatives(advice.alternatives), *_named(advice)]
    if advice.overlay:
        out.append(wrap_text(f"With it: {', '.join(advice.overlay)}", "  ", "    "))
    if advice.rejected:
        out += ["", "Not these:"]
        out += bullets(f"{r.engine}: " + "; ".join(x.text for x in r.reasons) for r in advice.rejected)
    if advice.warnings:
        out += ["", "Notes:", *bullets(advice.warnings)]
    if advice.growth:
        out += ["", "As it grows:", *bullets(advice.growth)]
    ranked = [x for x in (advice.chosen, *advice.alternatives) if x is not None and x.memory is not None]
    if ranked:
        out += ["", "Order (points, least first; rules/ranking.yaml):"]
        out += [wrap_text(f"{x.engine}: {_points(x)}", "  ", "      ") for x in ranked]
    return "\n".join([*out, "", "Trace:", *_trace(advice)])


def describe_no_fit(advice: Advice) -> str:
    """The short answer where nothing fits: what would change that, and what refuses each engine."""
    out = [wrap_text(summarise_machine(advice.machine)), "", *_no_fit(advice)]
    if advice.rejected:
        out += ["", "Not these:", *_rejected_by_reason(advice.rejected)]
    notes = [w for w in advice.warnings if not ("does not fit" in w or w.startswith("no model given"))]
    if notes:
        out += ["", "Notes:", *bullets(notes)]
    return "\n".join([*out, "", paint("All reasons and the trace: -v.", "dim")])


def _points(ranked: RankedDeployment) -> str:
    parts = " + ".join(f"{k} {v:g}" for k, v in ranked.points.items())
    return f"{sum(ranked.points.values()):g}" + (f" = {parts}" if parts else "")


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
        parts.append(f"{format_gib(sold[0], 0)} to {format_gib(sold[1], 0)} RAM, as it is sold")
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
    out += [wrap_text(f"- {line}", "  ", "    ") for line in describe_holding(ranked)]
    if ranked.command:
        lines = list_command_lines(ranked.command, count_servers_of_node(ranked), verbose=True)
        out += ["", *(f"  {line}" for line in lines), ""]
    else:
        out += [
            "",
            wrap_text(f"no command template for {ranked.engine_name} yet; settings: {ranked.settings}", "  "),
            "",
        ]
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
    return [*out, *bullets(ranked.notes)]


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


def _models(options: Sequence[ModelOption]) -> str:
    rows = [
        [
            x.model.rpartition("/")[2][:32],
            x.quantization[:10],
            f"{x.ability:+.1f} ± {x.spread:.1f}",
            str(x.boards),
            format_rate(x.decode_tps),
            (x.licence or "unknown")[:12],
        ]
        for x in options
    ]
    return align_table(rows, ("model", "format", "ability", "tests", "tokens/s", "licence"), "lllrrl")


def describe_memory(estimate: MemoryEstimate, verbose: bool = False) -> str:
    """A table of the places that hold something; host memory next to devices where a part of the model lies there."""
    rows, host = list(estimate.devices), estimate.host
    if host is not None and (not rows or verbose or (host.weights_bytes or 0) > GIB):
        rows.append(host)

    def f(n: int | None) -> str:
        return "unknown" if n is None else f"{n / GIB:.2f}"

    body: list[list[str]] = []
    seen: dict[DeviceMemory, int] = {}
    for row in rows:
        seen[row] = seen.get(row, 0) + 1
    for row, n in seen.items():
        kv = None if row.kv_cache_bytes is None else row.kv_cache_bytes + (row.recurrent_state_bytes or 0)
        name = f"{n}x {row.name}" if n > 1 else row.name
        body.append(
            [
                name[:26],
                f(row.weights_bytes),
                f(kv),
                f(row.compute_bytes),
                f(row.overhead_bytes),
                f(row.total_bytes),
                f(row.budget_bytes),
            ]
        )
    return align_table(body, ("GiB on", "weights", "KV", "compute", "other", "total", "of"), "lrrrrrr")


def _alternatives(xs: Sequence[RankedDeployment]) -> str:
    xs = [x for x in xs if x.points or x.memory is None]  # the named ones have lines of their own
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
    for rejected_engine in xs:
        groups.setdefault(rejected_engine.reasons[0].code if rejected_engine.reasons else "unknown", []).append(
            rejected_engine.engine
        )
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
