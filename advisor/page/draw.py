"""Figures as plain values that a template writes as SVG: positions in percent, so that no text is scaled."""

from __future__ import annotations

import math
from itertools import pairwise

from advisor.decoding import Json
from advisor.page.blocks import Bars, Figure, Plot, Point

COLOURS = ("weights", "KV cache", "recurrent state", "compute", "other")  # each has a class of its own
TICKS = 4
LOG_FROM = 20.0  # largest over smallest value from which an axis is logarithmic


def draw_bars(bars: Bars) -> list[Json]:
    """Each bar: segments with their place and width, the limit, the whisker of its bounds; all in percent."""
    sums = [sum(f.value or 0 for _, f in b.parts) for b in bars.bars]
    ends = [x.value or 0 for b in bars.bars for x in (b.limit, b.high) if x is not None]
    top = max([*sums, *ends, 1.0]) * 1.02
    out = []
    for bar in bars.bars:
        start, segments = 0.0, []
        for name, figure in bar.parts:
            width = 100 * float(figure.value or 0) / top
            segments.append({"x": start, "width": width, "colour": COLOURS.index(name) if name in COLOURS else 4,
                             "name": name, "figure": figure})  # fmt: skip
            start += width
        out.append(
            {
                "label": bar.label, "segments": segments, "total": start, "limit": _share(bar.limit, top),
                "low": _share(bar.low, top), "high": _share(bar.high, top), "bar": bar,
            }
        )  # fmt: skip
    return out


def _share(figure: Figure | None, top: float) -> float | None:
    return None if figure is None or figure.value is None else 100 * float(figure.value) / top


class _Axis:
    """Values to percent of the space of a plot."""

    def __init__(self, values: list[float]) -> None:
        low, high = min(values), max(values)
        self.log = low > 0 and high / low >= LOG_FROM
        if not self.log:
            low = 0.0
        self.low, self.high = self._scaled(low), self._scaled(high)
        if self.high <= self.low:
            self.high = self.low + 1

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def place(self, value: float) -> float:
        """Percent from the start of the axis, within a margin of 4 %."""
        return 4 + 92 * (self._scaled(value) - self.low) / (self.high - self.low)

    def list_ticks(self) -> list[tuple[float, str]]:
        """(percent, text) of the marks: round values within the axis."""
        low, high = (10**self.low, 10**self.high) if self.log else (self.low, self.high)
        values = _list_round_logs(low, high) if self.log else _list_round_steps(low, high)
        return [(self.place(v), f"{v:,.10g}") for v in values]


def _list_round_logs(low: float, high: float) -> list[float]:
    """1, 2 and 5 of every decade, or 1 alone where that is enough."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5)):
        found = [s * 10.0**d for d in decades for s in steps if low * 0.999 <= s * 10.0**d <= high * 1.001]
        if len(found) >= TICKS:
            break
    return found


def _list_round_steps(low: float, high: float) -> list[float]:
    """Multiples of 1, 2, 2.5 or 5 times a power of ten: the finest that gives at most TICKS + 1 of them."""
    power = 10.0 ** math.floor(math.log10((high - low) / TICKS))
    step = next(s * power for s in (1, 2, 2.5, 5, 10, 20) if (high - low) / (s * power) <= TICKS + 0.001)
    return [i * step for i in range(math.ceil(low / step - 0.001), math.floor(high / step + 0.001) + 1)]


def draw_plot(plot: Plot) -> Json | None:
    """Marks, whiskers, the line of the best, and ticks; None where fewer than two points are known."""
    known = [(i, p) for i, p in enumerate(plot.points) if p.x.value is not None and p.y.value is not None]
    if len(known) < 2:
        return None
    horizontal = _Axis([float(p.x.value or 0) for _, p in known])
    vertical = _Axis([float(v) for _, p in known for v in _heights(p)])
    marks = []
    for number, (i, point) in enumerate(known, 1):
        low, high = point.y_low, point.y_high
        marks.append(
            {
                "number": number, "point": point, "index": i, "best": i in plot.best,
                "x": horizontal.place(float(point.x.value or 0)), "y": 100 - vertical.place(float(point.y.value or 0)),
                "low": 100 - vertical.place(float(low.value)) if low is not None and low.value is not None else None,
                "high": None if high is None or high.value is None else 100 - vertical.place(float(high.value)),
            }
        )  # fmt: skip
    at = {m["index"]: m for m in marks}
    line = [at[i] for i in plot.best if i in at]
    return {
        "marks": marks, "line": list(pairwise(line)), "x_ticks": horizontal.list_ticks(),
        "y_ticks": [(100 - y, text) for y, text in vertical.list_ticks()],
        "x_log": horizontal.log, "y_log": vertical.log,
    }  # fmt: skip


def _heights(point: Point) -> list[float]:
    return [float(f.value) for f in (point.y, point.y_low, point.y_high) if f is not None and f.value is not None]
