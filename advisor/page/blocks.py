"""What a page is made of: plain blocks. Every number is a Figure, which names its place in the JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from advisor.deployment import SPEED_FIGURES, DeviceMemory, MemoryEstimate
from advisor.record import Record
from advisor.units import GIB, format_rate, format_tokens


class Figure(Record, frozen=True, kw_only=True):
    """One value of the answer. `pointer` is its place (RFC 6901), `value` as it stands there, `text` as it is shown."""

    pointer: str
    value: float | int | None
    text: str


Cell = str | Figure


class Paragraph(Record, frozen=True, kw_only=True):
    """A sentence."""

    text: str
    tone: str = ""  # good, bad, unsure, or nothing
    kind: str = "paragraph"


class Items(Record, frozen=True, kw_only=True):
    """A list of sentences."""

    items: tuple[str, ...]
    kind: str = "items"


class Table(Record, frozen=True, kw_only=True):
    """Rows under headers; `numeric` = columns that are aligned to the right."""

    caption: str
    headers: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numeric: tuple[int, ...] = ()
    kind: str = "table"


class Code(Record, frozen=True, kw_only=True):
    """A command or a file, with a button that copies it."""

    label: str
    text: str
    kind: str = "code"


class Bar(Record, frozen=True, kw_only=True):
    """One stacked bar: its parts, the limit they are held against, and the bounds of their sum."""

    label: str
    parts: tuple[tuple[str, Figure], ...]
    limit: Figure | None = None
    low: Figure | None = None
    high: Figure | None = None


class Bars(Record, frozen=True, kw_only=True):
    """Stacked bars on one scale."""

    caption: str
    bars: tuple[Bar, ...]
    kind: str = "bars"


class Point(Record, frozen=True, kw_only=True):
    """One mark of a plot, with the bounds of `y` and of `x` where they are known."""

    label: str
    x: Figure
    y: Figure
    y_low: Figure | None = None
    y_high: Figure | None = None
    chosen: bool = False


class Plot(Record, frozen=True, kw_only=True):
    """Marks in two dimensions. `best` = indices on the line of those that nothing beats in both, in order of `x`."""

    caption: str
    x_label: str
    y_label: str
    points: tuple[Point, ...]
    best: tuple[int, ...] = ()
    kind: str = "plot"


Block = Paragraph | Items | Table | Code | Bars | Plot


class Section(Record, frozen=True, kw_only=True):
    """Blocks under a heading; `folded` = closed until a reader opens it."""

    title: str
    blocks: tuple[Block, ...]
    folded: bool = False


class Page(Record, frozen=True, kw_only=True):
    """A page: the verdict first."""

    title: str
    verdict: str
    tone: str
    sections: tuple[Section, ...]


def read_pointer(answer: object, pointer: str) -> object:
    """The value at an RFC 6901 pointer in a record or its JSON; None where there is none."""
    value = answer
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, msgspec.Struct):
            value = getattr(value, name, None) if name in value.__struct_fields__ else None
        elif isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, Sequence) and not isinstance(value, str) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def format_value(value: float | int | None, form: str) -> str:
    """A number as it is shown: `gib`, `rate`, `seconds`, `tokens`, `share`, `count`, or a currency."""
    if value is None:
        return "unknown"
    if form == "gib":
        return f"{value / GIB:.2f}"
    if form == "rate":
        return format_rate(value)
    if form == "seconds":
        return f"{value:.3g} s" if value < 100 else f"{value / 60:.0f} min"
    if form == "tokens":
        return format_tokens(int(value))
    if form == "share":
        return f"{100 * value:.0f} %"
    if form == "count":
        return f"{value:,}"
    return f"{value:,.2f} {form}" if value < 100 else f"{value:,.0f} {form}"


def read_figure(answer: Record, pointer: str, form: str) -> Figure:
    """The number at a place of the answer."""
    value = read_pointer(answer, pointer)
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    return Figure(pointer=pointer, value=number, text=format_value(number, form))


# what a table shows of each item: a text (a field, or what makes it), or a number (its pointer below it, and its form)
Column = str | Callable[[Any], str | None] | tuple[str, str]


def make_table(
    answer: Record, caption: str, at: str, items: Sequence[object | None], columns: Mapping[str, Column]
) -> Table:
    """A row for each item of a list of the answer; None: it has none. `at`: the pointer of the list; columns by their
    headers."""

    def read_cell(i: int, item: object, column: Column) -> Cell:
        if isinstance(column, tuple):
            return read_figure(answer, f"{at}/{i}/{column[0]}", column[1])
        value = column(item) if callable(column) else getattr(item, column)
        return "" if value is None else str(value)

    return Table(
        caption=caption,
        headers=tuple(columns),
        rows=tuple(tuple(read_cell(i, x, c) for c in columns.values()) for i, x in enumerate(items) if x is not None),
        numeric=tuple(k for k, c in enumerate(columns.values()) if isinstance(c, tuple)),
    )


def find_best(points: Sequence[Point]) -> tuple[int, ...]:
    """Indices of the points that no other beats in both, less of x and more of y; in order of x."""
    known = [i for i, p in enumerate(points) if p.x.value is not None and p.y.value is not None]
    known.sort(key=lambda i: (points[i].x.value or 0, -(points[i].y.value or 0)))
    out: list[int] = []
    for i in known:
        if not out or (points[i].y.value or 0) > (points[out[-1]].y.value or 0):
            out.append(i)
    return tuple(out)


def make_section(title: str, *blocks: Block | None, folded: bool = False) -> Section | None:
    """A section of the blocks that hold something; None where none does."""
    kept = tuple(b for b in blocks if b is not None and not _is_empty(b))
    return Section(title=title, blocks=kept, folded=folded) if kept else None


def _is_empty(block: Block) -> bool:
    if isinstance(block, Paragraph | Code):
        return not block.text
    if isinstance(block, Items):
        return not block.items
    if isinstance(block, Table):
        return not block.rows
    return not (block.bars if isinstance(block, Bars) else block.points)


def make_items(texts: Iterable[str]) -> Items:
    """A list of sentences."""
    return Items(items=tuple(texts))


def make_page(title: str, verdict: str, tone: str, *sections: Section | None) -> Page:
    """A page of the sections that hold something."""
    return Page(title=title, verdict=verdict, tone=tone, sections=tuple(s for s in sections if s))


PARTS = {
    "weights": "weights_bytes",
    "KV cache": "kv_cache_bytes",
    "recurrent state": "recurrent_state_bytes",
    "compute": "compute_bytes",
    "other": "overhead_bytes",
}
SUMS = {"total": "total_bytes", "at least": "low_bytes", "at most": "high_bytes", "there is": "budget_bytes"}


def list_places(memory: MemoryEstimate, at: str) -> list[tuple[str, DeviceMemory]]:
    """Places that hold something, each with its pointer: devices, then host memory."""
    places = [(f"{at}/devices/{i}", d) for i, d in enumerate(memory.devices)]
    host = memory.host
    return [*places, *([(f"{at}/host", host)] if host and (not places or host.weights_bytes) else [])]


def make_memory_bars(answer: Record, memory: MemoryEstimate, at: str) -> Bars:
    """A stacked bar for each place against its budget. `at`: the pointer of the estimate."""
    bars = []
    for pointer, place in list_places(memory, at):
        parts = ((name, read_figure(answer, f"{pointer}/{key}", "gib")) for name, key in PARTS.items())
        bars.append(
            Bar(
                label=place.name,
                parts=tuple((n, f) for n, f in parts if f.value),
                limit=read_figure(answer, f"{pointer}/budget_bytes", "gib"),
                low=read_figure(answer, f"{pointer}/low_bytes", "gib"),
                high=read_figure(answer, f"{pointer}/high_bytes", "gib"),
            )
        )
    return Bars(caption="Memory, GiB", bars=tuple(bars))


def make_first_bar(answer: Record, memory: MemoryEstimate, at: str, before: str = "", label: str = "") -> list[Bar]:
    """The bar of the first place that holds something: `before` stands in front of its name, `label` in its place."""
    bars = make_memory_bars(answer, memory, at).bars[:1]
    return [replace(b, label=label or before + b.label) for b in bars]


def list_memory_rows(answer: Record, memory: MemoryEstimate, at: str) -> list[tuple[Cell, ...]]:
    """A row for each place: its name, each part, the sum with its bounds, what is there."""
    keys = (*PARTS.values(), *SUMS.values())
    return [
        (place.name, *(read_figure(answer, f"{pointer}/{k}", "gib") for k in keys))
        for pointer, place in list_places(memory, at)
    ]


def make_memory_table(rows: Iterable[tuple[Cell, ...]], *headers: str) -> Table:
    """A table of rows of places; `headers` are those in front of the parts."""
    every = (*headers, *PARTS, *SUMS)
    return Table(caption="Memory, GiB", headers=every, rows=tuple(rows), numeric=tuple(range(len(headers), len(every))))


def make_speed_table(answer: Record, at: str) -> Table:
    """Each rate with its bounds."""
    rows: list[tuple[Cell, ...]] = [
        (f.label, *(read_figure(answer, f"{at}/{f.field}/{k}", f.form) for k in ("low", "value", "high")))
        for f in SPEED_FIGURES
        if read_pointer(answer, f"{at}/{f.field}")
    ]
    headers = ("", "at least", "likely", "at most")
    return Table(caption="Speed", headers=headers, rows=tuple(rows), numeric=(1, 2, 3))


def make_rate_point(answer: Record, at: str, label: str, horizontal: Figure, chosen: bool = False) -> Point:
    """A mark at the rate of all requests together. `at`: the pointer of the rates."""
    value, low, high = (read_figure(answer, f"{at}/output_tps/{k}", "rate") for k in ("value", "low", "high"))
    return Point(label=label, x=horizontal, y=value, y_low=low, y_high=high, chosen=chosen)


def make_rate_plot(caption: str, x_label: str, points: Iterable[Point]) -> Plot:
    """Marks of the rate of all requests together, with the line of those that nothing beats."""
    marks = tuple(points)
    y_label = "tokens/s of all requests together"
    return Plot(caption=caption, x_label=x_label, y_label=y_label, points=marks, best=find_best(marks))


def say_fit(fits: bool | None) -> tuple[str, str]:
    """(word, tone) of a verdict."""
    return {True: ("yes", "good"), False: ("no", "bad"), None: ("cannot tell", "unsure")}[fits]
