"""The pages of `advise compare` and of `advise compare --speed`."""

from __future__ import annotations

from advisor.page import parts
from advisor.page.blocks import (
    Cell,
    Json,
    Page,
    Plot,
    Point,
    Table,
    find_best,
    make_items,
    make_section,
    read_figure,
)  # fmt: skip


def make_page(answer: Json) -> Page:
    """The page of an answer of the shape `compare`: a line a property, a column an engine."""
    rows = tuple(
        (str(line["label"]), *(_cell(c) for c in line["cells"]), str(line.get("verdict") or ""))
        for line in answer["lines"]
    )
    refused = tuple((name, "; ".join(why)) for name, why in (answer.get("refused") or {}).items())
    caption = f"As of {answer['as_of']}"
    sections = (
        make_section("Side by side", Table(caption=caption, headers=("", *answer["names"], "verdict"), rows=rows)),
        make_section("Refused on this hardware", Table(caption="Refused", headers=("engine", "why"), rows=refused)),
    )  # fmt: skip
    on = f" on {answer['hardware']}" if answer.get("hardware") else ""
    return Page(
        title="Comparison",
        verdict=f"{', '.join(answer['names'])}{on}",
        tone="",
        sections=tuple(s for s in sections if s),
    )


def _cell(cell: Json) -> str:
    value = "unknown" if cell.get("value") is None else str(cell["value"])
    return f"{value} ({cell['note']})" if cell.get("note") else value


def make_speed_page(answer: Json) -> Page:
    """The page of an answer of the shape `compare_speed`."""
    listed = list(enumerate(answer["engines"]))
    points = tuple(
        Point(
            label=f"{e['engine']} {e.get('quantization') or ''}".strip(),
            x=read_figure(answer, f"/engines/{i}/ttft_s/value", "seconds"),
            y=read_figure(answer, f"/engines/{i}/output_tps/value", "rate"),
            y_low=read_figure(answer, f"/engines/{i}/output_tps/low", "rate"),
            y_high=read_figure(answer, f"/engines/{i}/output_tps/high", "rate"),
        )
        for i, e in listed
        if e.get("ttft_s") and e.get("output_tps")
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            str(e["engine"]),
            str(e.get("quantization") or ""),
            *(read_figure(answer, f"/engines/{i}/{key}/{k}", form)
              for key, form in (("decode_tps", "rate"), ("output_tps", "rate"), ("ttft_s", "seconds"))
              for k in ("low", "value", "high")),
            parts.say_fit(e.get("fits"))[0],
            str(e.get("why") or ""),
        )
        for i, e in listed
    )  # fmt: skip
    rates = [f"{what} {k}" for what in ("tokens/s", "in all", "first token") for k in ("low", "likely", "high")]
    headers = ("engine", "format", *rates, "fits", "why")
    faster = [f"{f['faster']} is faster than {f['slower']} ({f['quantity']})" for f in answer["faster"]]
    plot = Plot(
        caption="Throughput against latency, with bounds", x_label="seconds to the first token",
        y_label="tokens/s of all requests together", points=points, best=find_best(points),
    )  # fmt: skip
    sections = (
        make_section("What can be ranked", make_items(faster or ["nothing: the bounds overlap"])),
        make_section("Speed", plot, Table(caption="Speed", headers=headers, rows=rows, numeric=tuple(range(2, 11)))),
    )  # fmt: skip
    verdict = f"{answer['model']} on {answer['hardware']}, {answer['concurrency']} at once"
    return Page(title="Comparison of speed", verdict=verdict, tone="", sections=tuple(s for s in sections if s))
