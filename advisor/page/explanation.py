"""The page of `advise explain`."""

from __future__ import annotations

from advisor.page import parts
from advisor.page.blocks import (
    Bar,
    Bars,
    Cell,
    Code,
    Json,
    Page,
    Plot,
    Point,
    Table,
    find_best,
    make_items,
    make_section,
    read_figure,
    read_pointer,
)  # fmt: skip


def make_page(answer: Json) -> Page:
    """The page of an answer of the shape `explain`."""
    word, tone = parts.say_fit(answer.get("fits"))
    name = f"{answer['model']}, {answer['quantization']} on {answer['engine']}"
    verdict = f"{name}: {word}" if answer.get("machine") else name
    planned = answer.get("planned") or {}
    sections = (
        make_section("Memory by context length", _contexts(answer), _context_table(answer)),
        make_section("What it fits on", _fits_on(answer)),
        make_section("What would change it", _changes(answer)),
        make_section("Limits", _limits(answer)),
        make_section("Requests at once", _load_curve(answer), _load_table(answer)),
        make_section("Start it", Code(label="Command", text=planned.get("command") or "")),
        make_section("Warnings", make_items(answer.get("warnings"))),
    )
    return Page(
        title="Explanation", verdict=verdict, tone=tone if answer.get("machine") else "",
        sections=tuple(s for s in sections if s),
    )  # fmt: skip


def _contexts(answer: Json) -> Bars:
    """One bar a context: the first place that holds something."""
    bars: list[Bar] = []
    for i, estimate in enumerate(answer["estimates"]):
        made = parts.make_memory_bars(answer, f"/estimates/{i}").bars[:1]
        length = read_figure(answer, f"/estimates/{i}/context_length", "tokens").text
        label = f"{length}, {estimate['sequences']} at once"
        bars += [Bar(label=label, parts=b.parts, limit=b.limit, low=b.low, high=b.high)
                 for b in made]  # fmt: skip
    return Bars(caption="GiB on the first place, by tokens of one request", bars=tuple(bars))


def _context_table(answer: Json) -> Table:
    keys = (*parts.PARTS.values(), "total_bytes", "low_bytes", "high_bytes", "budget_bytes")
    rows: list[tuple[Cell, ...]] = []
    for i, estimate in enumerate(answer["estimates"]):
        for place in parts.list_places(answer, f"/estimates/{i}"):
            rows.append(
                (
                    read_figure(answer, f"/estimates/{i}/context_length", "tokens"),
                    str(read_pointer(answer, f"{place}/name")),
                    *(read_figure(answer, f"{place}/{k}", "gib") for k in keys),
                    parts.say_fit(estimate["fits"])[0],
                )
            )
    headers = ("context", "place", *parts.PARTS, "total", "at least", "at most", "there is", "fits")
    return Table(
        caption="Memory, GiB", headers=headers, rows=tuple(rows), numeric=(0, *range(2, len(headers) - 1))
    )  # fmt: skip


def _fits_on(answer: Json) -> Table:
    rows = tuple((str(c.get("hardware")), parts.say_fit(c.get("fits"))[0]) for c in answer.get("fits_on") or ())
    return Table(caption="Hardware", headers=("hardware", "fits"), rows=rows)


def _changes(answer: Json) -> Table:
    rows = tuple(
        (
            str(c.get("what")),
            read_figure(answer, f"/changes/{i}/total_bytes", "gib"),
            read_figure(answer, f"/changes/{i}/saves_bytes", "gib"),
        )
        for i, c in enumerate(answer.get("changes") or ())
    )
    return Table(caption="Changes, GiB", headers=("change", "total", "saves"), rows=rows, numeric=(1, 2))


def _limits(answer: Json) -> Table:
    rows = tuple(
        (str(k).replace("_", " "), read_figure(answer, f"/limits/{k}", "count") if isinstance(v, int) else str(v))
        for k, v in (answer.get("limits") or {}).items()
        if v is not None and not isinstance(v, (dict, list))
    )
    return Table(caption="The largest that fits", headers=("what", "limit"), rows=rows)


def _list_loads(answer: Json) -> list[int]:
    return [i for i, x in enumerate(answer.get("speed") or ()) if x.get("speed") and x["speed"].get("output_tps")]


def _load_curve(answer: Json) -> Plot:
    points = tuple(
        Point(
            label=f"{answer['speed'][i]['concurrency']} at once",
            x=read_figure(answer, f"/speed/{i}/speed/tpot_s/value", "seconds"),
            y=read_figure(answer, f"/speed/{i}/speed/output_tps/value", "rate"),
            y_low=read_figure(answer, f"/speed/{i}/speed/output_tps/low", "rate"),
            y_high=read_figure(answer, f"/speed/{i}/speed/output_tps/high", "rate"),
        )
        for i in _list_loads(answer)
    )
    return Plot(
        caption="Throughput against latency, with bounds", x_label="seconds for one more token of a request",
        y_label="tokens/s of all requests together", points=points, best=find_best(points),
    )  # fmt: skip


def _load_table(answer: Json) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            read_figure(answer, f"/speed/{i}/concurrency", "count"),
            *(read_figure(answer, f"/speed/{i}/speed/{k}/value", f) for k, (_, f) in parts.RATES.items()),
            parts.say_fit(answer["speed"][i].get("fits"))[0],
        )
        for i in _list_loads(answer)
    )
    headers = ("at once", *(what for what, _ in parts.RATES.values()), "fits")
    return Table(caption="Speed by requests at once", headers=headers, rows=rows, numeric=(0, 1, 2, 3, 4, 5))
