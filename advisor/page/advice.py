"""The pages of `advise recommend`, `explain` and `hardware`."""

from __future__ import annotations

from advisor.advice.explain import CardFit, Explanation, LoadPoint
from advisor.advice.hardware_types import Axis, HardwareAdvice, HardwareOption
from advisor.advice.types import Advice, RankedDeployment
from advisor.deployment import SPEED_FIGURES
from advisor.page.blocks import (
    PARTS,
    SUMS,
    Bars,
    Cell,
    Code,
    Column,
    Page,
    Paragraph,
    Plot,
    Table,
    list_memory_rows,
    make_first_bar,
    make_items,
    make_memory_bars,
    make_memory_table,
    make_page,
    make_rate_plot,
    make_rate_point,
    make_section,
    make_speed_table,
    make_table,
    read_figure,
    say_fit,
)
from advisor.report.plan_text import describe_targets

AGAINST_LATENCY = "Throughput against latency, with bounds"
NEAR_MISSES: dict[str, Column] = {"what": "what", "is short of": "missing", "fits with": "would_fit_if"}
CHANGES: dict[str, Column] = {"change": "what", "total": ("total_bytes", "gib"), "saves": ("saves_bytes", "gib")}
HELD: dict[str, Column] = {"tokens of one request": ("context_length", "tokens"), "requests": ("held", "count")}
MODELS: dict[str, Column] = {
    "model": "model",
    "format": "quantization",
    "ability": lambda m: f"{m.ability:+.1f} ± {m.spread:.1f}",
    "tokens/s": ("decode_tps", "rate"),
    "licence": lambda m: m.licence or "unknown",
}
RULES: dict[str, Column] = {"rule": "rule", "because": "because", "source": lambda step: "; ".join(step.source)}
SETTINGS: dict[str, Column] = {"setting": lambda x: x[0], "value": lambda x: x[1]}


def _say_fits(entry: CardFit | LoadPoint | HardwareOption) -> str:
    return say_fit(entry.fits)[0]


def make_recommendation(advice: Advice) -> Page:
    """The page of `advise recommend`."""
    chosen = advice.chosen
    if chosen is None:
        return make_page(
            "Recommendation", "Nothing fits.", "bad",
            make_section("What would change that", make_items(advice.remedies)),
            make_section("Why not", _refusals(advice)),
            make_section("Warnings", make_items(advice.warnings)),
        )  # fmt: skip
    engine = f"{chosen.engine} {chosen.engine_version}" if chosen.engine_version else chosen.engine
    verdict = f"{engine} with {chosen.model}" if chosen.model else engine
    verdict += f", {chosen.quantization}" if chosen.quantization else ""
    memory, at = chosen.memory, "/chosen/memory"
    held, ladder = "/chosen/holds", chosen.holds.ladder if chosen.holds else ()
    named = [(advice.alternatives[i], name) for name, i in advice.named.items() if i is not None]
    columns: dict[str, Column] = {
        "plan": _label,
        "tokens/s": ("speed/decode_tps/value", "rate"),
        "GiB on the first device": ("memory/devices/0/total_bytes", "gib"),
        "fits": lambda x: say_fit(x.memory.fits)[0] if x.memory else "runs elsewhere",
        "gains": lambda x: "; ".join([*(name for entry, name in named if entry is x), *x.gains]),
        "why": lambda x: next(iter(x.reasons), ""),
    }
    return make_page(
        "Recommendation", verdict, say_fit(memory.fits)[1] if memory else "good",
        make_section(
            "Start it",
            Code(label="Install", text=chosen.install or ""),
            Code(label="Command", text=chosen.command or ""),
            Code(label="Test", text=chosen.test or ""),
        ),
        make_section("Why", make_items(chosen.reasons), make_items(advice.because), _quality(chosen)),
        make_section(
            "Memory",
            make_memory_bars(advice, memory, at) if memory else None,
            make_memory_table(list_memory_rows(advice, memory, at), "place") if memory else None,
        ),
        make_section("What it holds", make_table(advice, "Requests held at once", f"{held}/ladder", ladder, HELD)),
        make_section(
            "Speed",
            make_items(describe_targets(chosen)),
            make_speed_table(advice, "/chosen/speed"),
            _compare_speed(advice, chosen),
        ),
        make_section("Alternatives", make_table(advice, "Alternatives", "/alternatives", advice.alternatives, columns)),
        make_section("Other models", make_table(advice, "Other models that fit", "/models", advice.models, MODELS)),
        make_section("As it grows", make_items(advice.growth)),
        make_section("Warnings", make_items(advice.warnings)),
        make_section(
            "Near misses", make_table(advice, "What nearly fits", "/near_misses", advice.near_misses, NEAR_MISSES)
        ),
        make_section("Why not the others", _refusals(advice), folded=True),
        make_section(
            "Settings",
            make_table(advice, "Settings", "", [*chosen.settings.items()], SETTINGS),
            make_items(chosen.notes),
        ),
        make_section(
            "Rules and sources",
            make_table(advice, "Rules that held", "/trace", [x for x in advice.trace if x.held], RULES),
            folded=True,
        ),
    )  # fmt: skip


def _quality(chosen: RankedDeployment) -> Paragraph | None:
    quality = chosen.quality
    if not quality:
        return None
    return Paragraph(
        text=f"Ability for {quality.use}: {quality.ability:+.1f} ± {quality.spread:.1f}, "
        f"from {quality.boards} tests, {quality.independent} of them independent."
    )


def _label(entry: RankedDeployment) -> str:
    return f"{entry.engine} {entry.quantization}" if entry.quantization else entry.engine


def _compare_speed(advice: Advice, chosen: RankedDeployment) -> Plot:
    """One request's speed against all requests' together, for the choice and the alternatives."""
    listed = [("/chosen", chosen), *((f"/alternatives/{i}", x) for i, x in enumerate(advice.alternatives))]
    points = (
        make_rate_point(
            advice, f"{at}/speed", _label(entry), read_figure(advice, f"{at}/speed/ttft_s/value", "seconds"),
            at == "/chosen",
        )
        for at, entry in listed
        if entry.speed and entry.speed.ttft_s and entry.speed.output_tps
    )  # fmt: skip
    return make_rate_plot(AGAINST_LATENCY, "seconds to the first token", points)


def _refusals(advice: Advice) -> Table:
    """Engines that are not offered, each reason with its source."""
    rows = tuple((r.engine, reason.text, reason.source or "") for r in advice.rejected for reason in r.reasons)
    return Table(caption="Engines that are not offered", headers=("engine", "reason", "source"), rows=rows)


def make_explanation(explanation: Explanation) -> Page:
    """The page of `advise explain`."""
    word, tone = say_fit(explanation.fits)
    name = f"{explanation.model}, {explanation.quantization} on {explanation.engine}"
    here = explanation.machine is not None
    command = explanation.planned.command if explanation.planned else None
    limits = explanation.limits
    known = [(k, getattr(limits, k)) for k in limits.__struct_fields__] if limits else []
    rows = tuple(
        (k.replace("_", " "), read_figure(explanation, f"/limits/{k}", "count") if isinstance(v, int) else str(v))
        for k, v in known
        if isinstance(v, (int, str))
    )
    return make_page(
        "Explanation", f"{name}: {word}" if here else name, tone if here else "",
        make_section("Memory by context length", _contexts(explanation), _context_table(explanation)),
        make_section("What it fits on", make_table(
        explanation, "Hardware", "/fits_on", explanation.fits_on, {"hardware": "hardware", "fits": _say_fits}
    )),
        make_section(
            "What would change it", make_table(explanation, "Changes, GiB", "/changes", explanation.changes, CHANGES)
        ),
        make_section("Limits", Table(caption="The largest that fits", headers=("what", "limit"), rows=rows)),
        make_section(
            "Requests at once",
            _load_curve(explanation),
            make_table(explanation, "Speed by requests at once", "/speed", _list_loads(explanation), LOADS),
        ),
        make_section("Start it", Code(label="Command", text=command or "")),
        make_section("Warnings", make_items(explanation.warnings)),
    )  # fmt: skip


def _contexts(explanation: Explanation) -> Bars:
    """One bar a context: the first place that holds something."""
    bars = []
    for i, estimate in enumerate(explanation.estimates):
        length = read_figure(explanation, f"/estimates/{i}/context_length", "tokens").text
        label = f"{length}, {estimate.sequences} at once"
        bars += make_first_bar(explanation, estimate, f"/estimates/{i}", label=label)
    return Bars(caption="GiB on the first place, by tokens of one request", bars=tuple(bars))


def _context_table(explanation: Explanation) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for i, estimate in enumerate(explanation.estimates):
        length = read_figure(explanation, f"/estimates/{i}/context_length", "tokens")
        fits = say_fit(estimate.fits)[0]
        rows += [(length, *row, fits) for row in list_memory_rows(explanation, estimate, f"/estimates/{i}")]
    headers = ("context", "place", *PARTS, *SUMS, "fits")
    return Table(caption="Memory, GiB", headers=headers, rows=tuple(rows), numeric=(0, *range(2, len(headers) - 1)))


def _list_loads(explanation: Explanation) -> list[LoadPoint | None]:
    """Loads whose rates are known, each at its place."""
    return [x if x.speed and x.speed.output_tps else None for x in explanation.speed]


def _load_curve(explanation: Explanation) -> Plot:
    points = (
        make_rate_point(
            explanation, f"/speed/{i}/speed", f"{load.concurrency} at once",
            read_figure(explanation, f"/speed/{i}/speed/tpot_s/value", "seconds"),
        )
        for i, load in enumerate(_list_loads(explanation)) if load is not None
    )  # fmt: skip
    return make_rate_plot(AGAINST_LATENCY, "seconds for one more token of a request", points)


NOT_OFFERED: dict[str, Column] = {"hardware": lambda r: r.hardware or r.accelerator, "reason": "text"}
LOADS: dict[str, Column] = {
    "at once": ("concurrency", "count"),
    **{f.label: (f"speed/{f.field}/value", f.form) for f in SPEED_FIGURES},
    "fits": _say_fits,
}
COSTS: dict[Axis, tuple[str, str]] = {"buy": ("price", "price"), "rent": ("monthly_cost", "cost a month")}


def make_hardware(advice: HardwareAdvice) -> Page:
    """The page of `advise hardware`: cost against speed, and every option."""
    options = advice.options
    named = {k: i for k, i in advice.named.items() if i is not None}
    first = options[next(iter(named.values()), 0)] if options else None
    verdict = f"{first.hardware} for {first.model}, {advice.load}" if first else "Nothing fits."
    return make_page(
        "Hardware", verdict, "good" if first else "bad",
        make_section("The named choices", _named_options(advice, named)),
        make_section("Cost against speed", *(_costs(advice, a) for a in dict.fromkeys(o.axis for o in options))),
        make_section("All options", _options(advice)),
        make_section("What would fit", make_items(advice.beyond)),
        make_section(
            "Not offered",
            make_table(advice, "Hardware that is not offered", "/rejected", advice.rejected, NOT_OFFERED),
            folded=True,
        ),
        make_section("Notes", make_items(advice.notes)),
    )  # fmt: skip


def _find_cost(axis: Axis, option: HardwareOption) -> tuple[str, float | None]:
    """The field that holds what an option costs, and the amount."""
    amounts = {"price": option.price, "monthly_cost": option.monthly_cost, "hourly": option.hourly}
    own = COSTS[axis][0]
    name = own if amounts[own] is not None else next((k for k, amount in amounts.items() if amount), own)
    return name, amounts[name]


def _costs(advice: HardwareAdvice, axis: Axis) -> Plot:
    points = (
        make_rate_point(
            advice, f"/options/{i}/speed", o.hardware,
            read_figure(advice, f"/options/{i}/{_find_cost(axis, o)[0]}", advice.currency),
        )
        for i, o in enumerate(advice.options)
        if o.axis == axis and o.speed and o.speed.output_tps and _find_cost(axis, o)[1]
    )  # fmt: skip
    what = COSTS[axis][1]
    caption = f"To {axis}: {what} against speed; the line joins what nothing beats in both"
    return make_rate_plot(caption, f"{what}, {advice.currency}", points)


def _named_options(advice: HardwareAdvice, named: dict[str, int]) -> Table:
    every = _options(advice)
    rows = tuple((name, *every.rows[i][:-1]) for name, i in named.items())
    numeric = tuple(k + 1 for k in every.numeric)
    return Table(caption="Named choices", headers=("choice", *every.headers[:-1]), rows=rows, numeric=numeric)


def _options(advice: HardwareAdvice) -> Table:
    columns: dict[str, Column] = {
        "hardware": "hardware",
        "model": "model",
        "engine": "engine",
        "format": "quantization",
        "price": ("price", advice.currency),
        "cost a month": ("monthly_cost", advice.currency),
        "tokens/s": ("speed/output_tps/value", "rate"),
        **{f.label: (f"speed/{f.field}/value", f.form) for f in SPEED_FIGURES if f.phrase},
        "fits": _say_fits,
        "why": lambda o: "; ".join(o.why),
    }
    return make_table(advice, "Options", "/options", advice.options, columns)
