"""The pages of `advise check`, `compare` and `bench`."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.advice.compare import ComparisonAnswer, ComparisonCell, EngineSpeeds
from advisor.bench.run import BenchResult
from advisor.checks.findings import ORDER, CheckedDeployment, FileProblem, Finding
from advisor.checks.report.answer import CheckAnswer
from advisor.deployment import SPEED_FIGURES, DeploymentEstimate, Interval
from advisor.page.blocks import (
    Bar,
    Bars,
    Cell,
    Column,
    Page,
    Paragraph,
    Table,
    list_memory_rows,
    make_first_bar,
    make_items,
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


def make_check(answer: CheckAnswer) -> Page:
    """The page of `advise check`: verdicts, findings with their fixes, memory of each deployment."""
    counts = answer.summary
    verdicts = [d.fits for d in answer.deployments]
    if counts.errors or False in verdicts:
        verdict, tone = say_fit(False)
    else:
        verdict, tone = say_fit(None if None in verdicts or answer.problems else True)
    unread, listed = "Files that could not be read", sorted(answer.findings, key=lambda f: ORDER[f.severity])
    found = f"{counts.errors} errors, {counts.warnings} warnings, {counts.infos} infos"
    columns: dict[str, Column] = {
        "where": _place,
        "engine": lambda d: f"{d.engine} {d.engine_version}" if d.engine_version else d.engine,
        "model": lambda d: d.model or "unknown",
        "format": lambda d: d.quantization or "unknown",
        "hardware": lambda d: d.hardware or "unknown",
        "fits": lambda d: say_fit(d.fits)[0],
        "why": lambda d: "; ".join(d.why),
    }
    rows: list[tuple[Cell, ...]] = []
    for deployment, memory, at in _list_estimates(answer):
        rows += [(_place(deployment), *row) for row in list_memory_rows(answer, memory, at)]
    return make_page(
        "Check", f"Do these deployments start and fit? {verdict} ({found})", tone,
        make_section("Findings", make_table(answer, "Findings", "", listed, _FINDING)),
        make_section(unread, make_table(answer, unread, "/problems", answer.problems, _PLACE)),
        make_section("Deployments", make_table(answer, "Deployments", "/deployments", answer.deployments, columns)),
        make_section("Memory", _memory(answer), make_memory_table(rows, "where", "place")),
        make_section(
            "Suppressed", make_table(answer, "Suppressed findings", "", answer.suppressed, _SUPPRESSED), folded=True
        ),
    )  # fmt: skip


def _place(entry: Finding | FileProblem | CheckedDeployment) -> str:
    file = entry.source if isinstance(entry, CheckedDeployment) else entry.file
    return f"{file}:{entry.line}" if entry.line else file


_PLACE: dict[str, Column] = {"where": _place, "what": "message"}
_FINDING: dict[str, Column] = {"severity": "severity", "rule": "rule", **_PLACE, "fix": "fix"}
_SUPPRESSED: dict[str, Column] = {"rule": "rule", "where": _place, "reason": lambda _: ""}


def _list_estimates(answer: CheckAnswer) -> Iterator[tuple[CheckedDeployment, DeploymentEstimate, str]]:
    """Deployments whose memory is known, with it and its pointer."""
    for i, deployment in enumerate(answer.deployments):
        if deployment.memory is not None:
            yield deployment, deployment.memory, f"/deployments/{i}/memory"


def _memory(answer: CheckAnswer) -> Bars:
    bars: list[Bar] = []
    for deployment, memory, at in _list_estimates(answer):
        bars += make_first_bar(answer, memory, at, f"{_place(deployment)}: ")
    return Bars(caption="GiB on the first place of each deployment", bars=tuple(bars))


def make_comparison(answer: ComparisonAnswer) -> Page:
    """The page of `advise compare`: a line a property, a column an engine."""
    rows = tuple((line.label, *map(_cell, line.cells), line.verdict or "") for line in answer.lines)
    refused = tuple((name, "; ".join(why)) for name, why in answer.refused.items())
    table = Table(caption=f"As of {answer.as_of}", headers=("", *answer.names, "verdict"), rows=rows)
    on = f" on {answer.hardware}" if answer.hardware else ""
    return make_page(
        "Comparison", f"{', '.join(answer.names)}{on}", "",
        make_section("Side by side", table),
        make_section("Refused on this hardware", Table(caption="Refused", headers=("engine", "why"), rows=refused)),
    )  # fmt: skip


def _cell(cell: ComparisonCell) -> str:
    return f"{cell.value} ({cell.note})" if cell.note else cell.value


def make_engine_speeds(answer: EngineSpeeds) -> Page:
    """The page of `advise compare --speed`."""
    points = (
        make_rate_point(
            answer, f"/engines/{i}", f"{e.engine} {e.quantization or ''}".strip(),
            read_figure(answer, f"/engines/{i}/ttft_s/value", "seconds"),
        )
        for i, e in enumerate(answer.engines)
        if e.ttft_s and e.output_tps
    )  # fmt: skip
    columns: dict[str, Column] = {"engine": "engine", "format": lambda e: e.quantization or ""}
    for figure in (f for f in SPEED_FIGURES if f.compared):
        for word, bound in (("low", "low"), ("likely", "value"), ("high", "high")):
            columns[f"{figure.compared} {word}"] = (f"{figure.field}/{bound}", figure.form)
    columns |= {"fits": lambda e: say_fit(e.fits)[0], "why": lambda e: e.why or ""}
    faster = [f"{f.faster} is faster than {f.slower} ({f.quantity})" for f in answer.faster]
    plot = make_rate_plot("Throughput against latency, with bounds", "seconds to the first token", points)
    return make_page(
        "Comparison of speed", f"{answer.model} on {answer.hardware}, {answer.concurrency} at once", "",
        make_section("What can be ranked", make_items(faster or ["nothing: the bounds overlap"])),
        make_section("Speed", plot, make_table(answer, "Speed", "/engines", answer.engines, columns)),
    )  # fmt: skip


def make_measurement(answer: BenchResult) -> Page:
    """The page of `advise bench`: measured speed compared with the prediction."""
    measured = [k for k in answer.measured.__struct_fields__ if _is_number(getattr(answer.measured, k))]
    rows = tuple((k.replace("_", " "), read_figure(answer, f"/measured/{k}", "rate")) for k in measured)
    keys = answer.compared[0].__struct_fields__ if answer.compared else ()
    compared_rows = tuple(
        tuple(
            read_figure(answer, f"/compared/{i}/{k}", "rate") if _is_number(getattr(c, k)) else _describe(getattr(c, k))
            for k in keys
        )
        for i, c in enumerate(answer.compared)
    )
    name = " ".join(x for x in (answer.model, answer.quantization) if x)
    headers = tuple(k.replace("_", " ") for k in keys)
    return make_page(
        "Measurement", f"{name} on {answer.engine or 'an engine that does not say'}", "",
        make_section("Measured", Table(caption="Measured", headers=("quantity", "value"), rows=rows, numeric=(1,))),
        make_section("Predicted", make_speed_table(answer, "/predicted"), Paragraph(text=answer.unpredicted or "")),
        make_section("Compared", Table(caption="Before and after", headers=headers, rows=compared_rows)),
        make_section("Kept", Paragraph(text=answer.kept or answer.unkept or "")),
    )  # fmt: skip


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _describe(value: object) -> str:
    """A value that is no number; of an interval its likely value and its bounds."""
    return f"{value.value:.4g} ({value.low:.4g} to {value.high:.4g})" if isinstance(value, Interval) else str(value)
