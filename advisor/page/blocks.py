"""What a page is made of: plain blocks. Every number is a Figure, which names its place in the JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisor.record import Record
from advisor.units import GIB, format_rate, format_tokens

Json = dict[str, Any]


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


def read_pointer(answer: Any, pointer: str) -> Any:
    """The value at an RFC 6901 pointer; None where there is none."""
    value = answer
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
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


def read_figure(answer: Json, pointer: str, form: str) -> Figure:
    """The number at a place of the answer."""
    value = read_pointer(answer, pointer)
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    return Figure(pointer=pointer, value=number, text=format_value(number, form))


def find_best(points: Sequence[Point], least_x: bool = True) -> tuple[int, ...]:
    """Indices of the points that no other beats in both: less (or more) of x, more of y; in order of x."""
    known = [i for i, p in enumerate(points) if p.x.value is not None and p.y.value is not None]
    sign = 1 if least_x else -1
    known.sort(key=lambda i: (sign * (points[i].x.value or 0), -(points[i].y.value or 0)))
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


def make_items(texts: Any) -> Items:
    """A list of whatever an answer has as texts or as objects with a text."""
    return Items(items=tuple(str(t.get("text", t)) if isinstance(t, dict) else str(t) for t in texts or ()))
