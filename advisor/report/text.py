"""Small helpers for text output: wrapping, tables, colour only on a terminal."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from advisor.deployment import Interval
from advisor.patterns import pattern_when_used
from advisor.units import format_rate


@lru_cache(maxsize=1)
def text_width() -> int:
    """Columns to fill: the terminal's, at most 100, 80 where there is none."""
    try:
        columns = int(os.environ.get("COLUMNS", ""))
    except ValueError:
        columns = 0
    if columns <= 0:
        try:
            columns = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns
        except (OSError, ValueError):  # no terminal
            columns = 0
    return max(60, min(100, columns or 80))


STYLES = {"bold": "1", "green": "32", "red": "31", "yellow": "33", "dim": "2"}
PAINTED = pattern_when_used(rf"(\033\[(?:{'|'.join((*STYLES.values(), '0'))})m)")


def uses_colour() -> bool:
    """Whether stdout takes colour: a terminal, without NO_COLOR or TERM=dumb."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str) -> str:
    """Text in a style (bold, green, red, yellow, dim) on a terminal, else as it is."""
    return f"\033[{STYLES[style]}m{text}\033[0m" if uses_colour() else text


def make_shown(text: str) -> str:
    """The lines of an answer as they may be shown: names from files and servers are escaped, secrets are masked, and no
    line is a command to a runner; styles of `paint` stay on a terminal."""
    from advisor.safe_text import escape_commands, make_safe

    def shown(line: str) -> str:
        if not uses_colour():
            return make_safe(line)
        return "".join(x if i % 2 else make_safe(x) for i, x in enumerate(PAINTED.split(line)))

    return "\n".join(escape_commands(shown(line)) for line in text.split("\n"))


def wrap_text(text: str, indent: str = "", hanging: str | None = None) -> str:
    """Text as lines that fit, later lines indented by `hanging`."""
    return textwrap.fill(
        " ".join(text.split()),
        width=text_width(),
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def bullets(lines: Iterable[str]) -> list[str]:
    """Each text as a wrapped `- ` item."""
    return [wrap_text(x, "  - ", "    ") for x in lines]


def list_section(title: str, lines: Iterable[str]) -> list[str]:
    """The lines as items below a title, behind an empty line; nothing where there are none."""
    items = bullets(lines)
    return ["", f"{title}:", *items] if items else []


def align_table(rows: Sequence[Sequence[object]], headers: Sequence[str], align: str, indent: str = "  ") -> str:
    """Aligned columns; `align` has `l` or `r` per column. (tabulate does the long tables; its import costs 45 ms.)"""
    cells = [list(headers), *[["" if c is None else str(c) for c in r] for r in rows]]
    widths = [max(len(r[k]) for r in cells) for k in range(len(headers))]
    lines = []
    for r in cells:
        padded = [c.ljust(w) if a == "l" else c.rjust(w) for c, w, a in zip(r, widths, align, strict=True)]
        lines.append((indent + "  ".join(padded)).rstrip())
    return "\n".join(lines)


def fits_word(fits: bool | None) -> str:
    """`yes`, `no` or `cannot tell`, coloured."""
    if fits is None:
        return paint("cannot tell", "yellow")
    return paint("yes", "green") if fits else paint("no", "red")


def cut_text(text: str, width: int) -> str:
    """Text of at most so many characters, with an ellipsis where it was longer."""
    return text if len(text) <= width else text[: width - 1] + "…"


def format_bounds(
    interval: Interval | None, number: Callable[[float], str] = format_rate, missing: str = "-", between: str = "-"
) -> str:
    """`12 (10-15)`: the likely value and its bounds."""
    if interval is None:
        return missing
    low, value, high = map(number, (interval.low, interval.value, interval.high))
    return f"{value} ({low}{between}{high})"
