"""`advise explain` as text."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.advice.explain import CardFit, Explanation
from advisor.advice.limits import MOST_SEQUENCES, DeploymentLimits
from advisor.advice.types import RankedDeployment
from advisor.deployment import (
    SPEED_FIGURES,
    DeviceMemory,
    EngineVerification,
    MemoryEstimate,
    SpeedEstimate,
    SpeedFigure,
)
from advisor.report.plan_text import describe_holding, show_command
from advisor.report.recommend import count_places, describe_memory, sum_cache
from advisor.report.text import align_table, bullets, fits_word, format_bounds, list_section, paint, wrap_text
from advisor.units import GIB, MIB, format_bytes, format_gib, format_rate, format_tokens


def describe_explanation(explanation: Explanation, verbose: bool = False) -> str:
    """The explanation, in under a screen unless `verbose`."""
    deployment = explanation.deployment
    estimate = explanation.judged
    unit = _unit(explanation)
    out = [
        paint(f"{deployment.model.id}, {explanation.quantization} on {explanation.explained.engine_name}", "bold"),
        wrap_text(_size(explanation), "  "),
    ]
    out += ["", _contexts(explanation, verbose, unit), ""]
    if len(explanation.estimates) > 2 and estimate.kv_cache.bytes_per_token != 0:  # encoders do not grow
        out += [_chart(explanation), ""]
    out.append(wrap_text(f"KV cache: {_kv(estimate)}. {_name(unit)} per place; basis: {_basis(estimate)}.", "  "))
    if estimate.calibration:
        out.append(wrap_text(estimate.calibration[0].upper() + estimate.calibration[1:] + ".", "  "))
    if explanation.machine is not None:
        out += [
            "",
            f"Fits at {format_tokens(estimate.context_length)} x {estimate.sequences}: {fits_word(explanation.fits)}",
        ]
        out += bullets(estimate.short)
        out += bullets(_holding(explanation))
        if estimate.message:
            out.append(wrap_text(f"{explanation.explained.engine_name} would say: {estimate.message}", "  "))
        if explanation.limits is not None:
            out += ["", "What fits here:", *_limits(explanation.limits, estimate)]
        if explanation.planned is not None:
            out += ["", *_planned(explanation.planned, verbose)]
        if explanation.speed:
            out += ["", *_speed(explanation, format_tokens(estimate.context_length))]
    else:
        out += ["", f"Fits on (at {format_tokens(estimate.context_length)} tokens, {estimate.sequences} at once):"]
        out += _cards(explanation.fits_on)
    if explanation.verified is not None:
        out += ["", *_verified(explanation.verified, unit)]
    if explanation.changes:
        out += ["", "What would change it:"]
        rows = [[c.what, _short(c.total_bytes, unit), _saves(c.saves_bytes, unit)] for c in explanation.changes]
        out.append(align_table(rows, ("", f"total {_name(unit)}", "saves"), "lrr"))
    left_out = (f"not counted: {n}" for n in estimate.not_modelled) if verbose else ()
    out += list_section("Notes", (*explanation.warnings, *left_out))
    return "\n".join(out)


def _planned(ranked: RankedDeployment, verbose: bool) -> list[str]:
    """What starts instead, as the planner lays it out."""
    out = ["What starts here, as the planner lays it out:"]
    out += bullets(describe_holding(ranked))
    out += show_command(ranked, verbose)
    return [*out, describe_memory(ranked.memory)] if ranked.memory is not None else out


def _holding(explanation: Explanation) -> list[str]:
    """What it starts with and holds, where that is another answer than whether all full-length requests fit."""
    starts, holds = explanation.judged.starts, explanation.judged.holds
    if explanation.fits or starts is None or holds is None:
        return []
    held = f"holds {holds.typical:,} typical requests at once, {holds.full_length:,} of full length"
    return [f"it starts with one request of this length: {fits_word(starts)}; {held}"]


def _size(explanation: Explanation) -> str:
    model = explanation.deployment.model
    parts = [f"{_count(model.params_total)} parameters"]
    if model.is_moe and model.params_active:
        parts.append(f"{_count(model.params_active)} active")
    if explanation.file_bytes:
        n = explanation.file_bytes
        parts.append(f"file {n / 1e9:.1f} GB ({format_gib(n, 1)})" if n >= GIB else f"file {format_bytes(n)}")
    if explanation.bits_per_weight:
        parts.append(f"{explanation.bits_per_weight:.2f} bits per weight")
    if model.max_context:
        parts.append(f"trained for {format_tokens(model.max_context)}")
    return ", ".join(parts)


def _count(n: int) -> str:
    return f"{n / 1e9:.2f}B" if n >= 1e9 else f"{n / 1e6:.1f}M"


def _contexts(explanation: Explanation, verbose: bool, unit: int) -> str:
    """One line per length and place; equal devices are counted, not repeated."""
    rows = []
    for estimate in explanation.estimates:
        length = format_tokens(estimate.context_length)
        for row, n in count_places(estimate, -1 if verbose else 0.3 * GIB).items():
            name = f"{n}x {row.name}" if n > 1 else row.name
            state = "*" if (row.recurrent_state_bytes or 0) >= MIB else ""
            rows.append([
                length, name[:24], _short(row.weights_bytes, unit), _short(sum_cache(row), unit) + state,
                _short(row.compute_bytes, unit), _short(row.overhead_bytes, unit), _short(row.total_bytes, unit),
                _band(row, unit),
            ])  # fmt: skip
            length = ""
    heads = ("context", "place", "weights", "KV", "compute", "other", "total", "range")
    made = align_table(rows, heads, "rlrrrrrr")
    if any("*" in r[3] for r in rows):
        made += "\n  * with the recurrent state of every sequence"
    return made


CHART = 48  # columns of the widest bar
TABLE_WIDTH = 80


def _chart(explanation: Explanation) -> str:
    """Memory of all places by context length: weights, cache and state, the rest; `|` where the budget ends."""
    sums = []
    for estimate in explanation.estimates:
        rows = estimate.devices or ((estimate.host,) if estimate.host else ())
        weights = sum(r.weights_bytes or 0 for r in rows)
        cache = sum((r.kv_cache_bytes or 0) + (r.recurrent_state_bytes or 0) for r in rows)
        sums.append((estimate.context_length, weights, cache, sum(r.total_bytes or 0 for r in rows) - weights - cache))
    budgets = [r.budget_bytes for r in explanation.estimates[0].devices]
    room = sum(b for b in budgets if b) if explanation.machine is not None and budgets and all(budgets) else None
    scale = max([sum(s[1:]) for s in sums] + ([room] if room else [])) / CHART or 1
    lines = []
    for length, *parts in sums:
        bar = "".join(mark * round(n / scale) for mark, n in zip("#=.", parts, strict=True))
        if room is not None:
            end = min(CHART, round(room / scale))
            bar = f"{bar:{end}}"
            bar = bar[:end] + "|" + bar[end:]
        lines.append(f"  {format_tokens(length):>7}  {bar.rstrip()}")
    legend = "# weights  = KV cache and state  . the rest" + ("  | budget" if room is not None else "")
    return "\n".join([*lines, f"           {legend}"])


def _speed(explanation: Explanation, length: str) -> list[str]:
    """Rates by requests at once, each with its bounds as far as a line has space for them."""
    shown = [f for f in SPEED_FIGURES if f.column]
    points = [(p, p.speed) for p in explanation.speed if p.speed is not None]
    table = ""
    for bounded in range(len(shown), -1, -1):
        rows = [
            [
                f"{point.concurrency}{'*' if speed.limited else ''}",
                *(_describe_figure(speed, f, k < bounded) for k, f in enumerate(shown)),
                fits_word(point.fits),
            ]
            for point, speed in points
        ]
        table = align_table(rows, ("at once", *(f.column or "" for f in shown), "fits"), "r" * (len(shown) + 1) + "l")
        if max(map(len, table.splitlines())) <= TABLE_WIDTH:
            break
    basis = explanation.speed[0].speed.basis if explanation.speed[0].speed else "modelled"
    out = [f"Speed ({basis}; half of {length} prompt, half output):", table]
    calibration = next((speed.calibration for _, speed in points if speed.calibration), None)
    if calibration:
        out.append(wrap_text(calibration, "  "))
    if any(speed.limited for _, speed in points):
        out.append("  * not all at once: the cache or the engine lets the rest wait")
    return out


def _describe_figure(speed: SpeedEstimate, figure: SpeedFigure, bounded: bool) -> str:
    """A figure, with its bounds where there is space for them; of the time between tokens its inverse."""
    interval = speed.rate_of_each if figure.field == "tpot_s" else getattr(speed, figure.field)
    form = _digits if figure.form == "seconds" and figure.field != "tpot_s" else format_rate
    if interval is not None and not bounded:
        return form(interval.value)
    return format_bounds(interval, form, "?")


def _digits(x: float) -> str:
    return f"{x:.0f}" if x >= 20 else f"{x:.1f}" if x >= 1 else f"{x:.2f}"


def _verified(engine_verification: EngineVerification, unit: int) -> list[str]:
    """The engine's figures compared with ours."""
    rows = [
        [p.place, p.part, _short(p.ours_bytes, unit), _short(p.engine_bytes, unit), "yes" if p.agrees else "NO"]
        for p in engine_verification.parts
    ]
    head = "The engine's own plan agrees:" if engine_verification.agrees else "The engine's own plan differs:"
    return [head, align_table(rows, ("place", "part", "ours", "engine", "agrees"), "llrrl")]


def _limits(limits: DeploymentLimits, estimate: MemoryEstimate) -> list[str]:
    """The limits of the machine, a line each."""

    def shown(n: int | None) -> str:
        return "none" if n is None else f"{n:,}"

    or_more = " or more" if limits.most_sequences == MOST_SEQUENCES else ""
    kinds = [c for c in limits.by_cache if c.kv_cache_type != "auto" and c.largest_context]
    if limits.largest_context is None and not kinds:
        none = "not even the shortest fits" if estimate.fits is False else "none is sure to fit"
        out = [f"longest context: {none}"]
    else:
        out = [f"longest context for {estimate.sequences} at once: {shown(limits.largest_context)} tokens"]
        out[0] += "".join(f"; {c.kv_cache_type} cache {shown(c.largest_context)}" for c in kinds)
        out.append(
            f"most requests of {format_tokens(estimate.context_length)} at once: "
            f"{shown(limits.most_sequences)}{or_more}"
        )
    inside, layers = limits.layers_on_cards or (0, 0)
    if inside < layers:
        out.append(f"layers that fit: {inside} of {layers}; the rest would run on the CPU")
    if limits.largest_quantization:
        out.append(f"widest weights, by memory alone: {limits.largest_quantization}")
    if limits.cards_needed != len(estimate.devices) and estimate.devices:
        out.append(f"cards needed: {limits.cards_needed or 'not even 16 of these are enough'}")
    return [wrap_text(line, "  ", "    ") for line in out]


def _unit(explanation: Explanation) -> int:
    """GiB, or MiB for models that GiB would show as 0.0x."""
    places = [r for e in explanation.estimates for r in (*e.devices, *((e.host,) if e.host else ()))]
    largest = max((r.weights_bytes or 0 for r in places), default=0)
    return GIB if largest >= GIB / 2 else MIB


def _name(unit: int) -> str:
    return "GiB" if unit == GIB else "MiB"


def _band(row: DeviceMemory, unit: int) -> str:
    if row.low_bytes is None or row.high_bytes is None:
        return "unknown"
    return f"{row.low_bytes / unit:.1f}-{row.high_bytes / unit:.1f}"


def _short(n: int | None, unit: int) -> str:
    return "unknown" if n is None else f"{n / unit:.2f}"


def _saves(n: int | None, unit: int) -> str:
    return "" if n is None else f"{n / unit:+.2f}"


def _kv(estimate: MemoryEstimate) -> str:
    per = estimate.kv_cache.bytes_per_token
    growth = "does not grow" if per == 0 else "unknown growth"
    if per:
        growth = f"{per / 1024:.1f} KiB per further token"
    if estimate.kv_cache.available_bytes is not None:
        growth += f"; pool {format_gib(estimate.kv_cache.available_bytes)} per device"
        if estimate.kv_cache.max_sequences is not None:
            growth += f", {estimate.kv_cache.max_sequences} such requests at once"
    return growth


def _basis(estimate: MemoryEstimate) -> str:
    by: dict[str, list[str]] = {}
    for part, basis in estimate.basis.items():
        by.setdefault(basis, []).append({"kv_cache": "KV", "recurrent_state": "state"}.get(part, part))
    return "; ".join(f"{', '.join(parts)} {basis}" for basis, parts in by.items())


def _cards(fits: Sequence[CardFit]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for card_fit in fits:
        key = "yes" if card_fit.fits else "too close to call" if card_fit.fits is None else "no"
        count, _, name = card_fit.hardware.partition("x ")
        groups.setdefault(f"{key}:{count}" if card_fit.fits else key, []).append(name)
    out = []
    for key in sorted((k for k in groups if k.startswith("yes")), key=lambda k: int(k.split(":")[1])):
        out.append(wrap_text(", ".join(groups[key]), f"  {key.split(':')[1]}x ", "     "))
    for key in ("too close to call", "no"):
        if key in groups:
            label = key if key != "no" else "not even on 8"
            out.append(wrap_text(", ".join(groups[key]), f"  {label}: ", "     "))
    return out
