"""The page of `advise hardware`: cost against speed, and every option."""

from __future__ import annotations

from typing import Any

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

AXES = {"buy": ("price", "price"), "rent": ("monthly_cost", "cost a month")}


def make_page(answer: Json) -> Page:
    """The page of an answer of the shape `hardware`."""
    options = answer["options"]
    named = {k: i for k, i in (answer.get("named") or {}).items() if i is not None}
    first = options[next(iter(named.values()), 0)] if options else None
    verdict = f"{first['hardware']} for {answer['model']}, {answer['users']} at once" if first else "Nothing fits."
    plots = [_plot(answer, axis) for axis in dict.fromkeys(str(o["axis"]) for o in options)]
    sections = (
        make_section("The named choices", _named(answer, named)),
        make_section("Cost against speed", *plots),
        make_section("All options", _options(answer)),
        make_section("What would fit", make_items(answer.get("beyond"))),
        make_section("Not offered", _refused(answer), folded=True),
        make_section("Notes", make_items(answer.get("notes"))),
    )
    return Page(
        title="Hardware", verdict=verdict, tone="good" if first else "bad", sections=tuple(s for s in sections if s)
    )  # fmt: skip


def _cost_key(axis: str, option: Json) -> str:
    key = AXES.get(axis, ("price", ""))[0]
    return (
        key
        if option.get(key) is not None
        else next((k for k in ("price", "monthly_cost", "hourly") if option.get(k)), key)
    )


def _plot(answer: Json, axis: str) -> Plot:
    points = tuple(
        Point(
            label=str(o["hardware"]),
            x=read_figure(answer, f"/options/{i}/{_cost_key(axis, o)}", answer["currency"]),
            y=read_figure(answer, f"/options/{i}/speed/output_tps/value", "rate"),
            y_low=read_figure(answer, f"/options/{i}/speed/output_tps/low", "rate"),
            y_high=read_figure(answer, f"/options/{i}/speed/output_tps/high", "rate"),
        )
        for i, o in enumerate(answer["options"])
        if str(o["axis"]) == axis and o.get("speed") and o["speed"].get("output_tps") and o.get(_cost_key(axis, o))
    )
    what = AXES.get(axis, ("", "cost"))[1]
    return Plot(
        caption=f"To {axis}: {what} against speed; the line joins what nothing beats in both",
        x_label=f"{what}, {answer['currency']}", y_label="tokens/s of all requests together",
        points=points, best=find_best(points),
    )  # fmt: skip


def _named(answer: Json, named: dict[str, int]) -> Table:
    rows = tuple((name.replace("_", " "), *_row(answer, i)) for name, i in named.items())
    return Table(caption="Named choices", headers=("choice", *HEADERS), rows=rows, numeric=(4, 5, 6))


HEADERS = ("hardware", "engine", "format", "price", "cost a month", "tokens/s", "fits")


def _row(answer: Json, i: int) -> tuple[Cell, ...]:
    option, at = answer["options"][i], f"/options/{i}"
    return (
        str(option["hardware"]),
        str(option["engine"]),
        str(option["quantization"]),
        read_figure(answer, f"{at}/price", answer["currency"]),
        read_figure(answer, f"{at}/monthly_cost", answer["currency"]),
        read_figure(answer, f"{at}/speed/output_tps/value", "rate"),
        parts.say_fit(option["fits"])[0],
    )


def _options(answer: Json) -> Table:
    rows = tuple((*_row(answer, i), "; ".join(o.get("why") or ())) for i, o in enumerate(answer["options"]))
    return Table(caption="Options", headers=(*HEADERS, "why"), rows=rows, numeric=(3, 4, 5))


def _refused(answer: Json) -> Table:
    rows = tuple(
        (str(r.get("hardware") or r.get("accelerator")), _text(r.get("text") or r.get("reason") or r.get("reasons")))
        for r in answer.get("rejected") or ()
    )
    return Table(caption="Hardware that is not offered", headers=("hardware", "reason"), rows=rows)


def _text(reason: Any) -> str:
    if isinstance(reason, list):
        return "; ".join(_text(r) for r in reason)
    return str(reason.get("text", reason)) if isinstance(reason, dict) else str(reason or "")
