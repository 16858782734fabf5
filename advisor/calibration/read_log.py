"""An engine's start-up log as plain values: which engine, how it was started, and the memory it says it took.

What the lines of an engine look like stands in its entry (`startup_log`, advisor/catalog/launch_types.py).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

import msgspec

from advisor.catalog.launch_types import SETTING, SIZE, TEXTS, UNITS, StartupLogTable
from advisor.catalog.types import Engine
from advisor.errors import BadInput
from advisor.record import Record, Value
from advisor.units import GIB, MIB

MOST_BYTES = 64 * 2**20  # of a log; those of a start are far below
MOST_LINE = 65_536  # characters of a line that are looked at
MOST_FIGURE = 2**62
_SIZES = {"B": 1, "KIB": 2**10, "MIB": MIB, "GIB": GIB, "TIB": 2**40, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
MOST_CHARACTERS = 65_536
MOST_SETTINGS = 2_000
_KEY = re.compile(r"""\s*(?:'([A-Za-z_]\w*)'\s*:|"([A-Za-z_]\w*)"\s*:|([A-Za-z_]\w*)\s*=)\s*""")
_OPEN, _CLOSE = "([{<", ")]}>"


class LoggedPart(Record, frozen=True, kw_only=True):
    """What a log says of one part: bytes of each rank that tells it, or of one place; tokens where they are counted."""

    part: str
    place: str | None = None  # as the engine calls it; None = of each rank
    bytes: tuple[int, ...] = ()
    tokens: int | None = None


class StartupLog(Record, frozen=True, kw_only=True):
    """The last start in a log. None = it does not say."""

    engine: str
    version: str | None = None
    model: str | None = None  # as the engine was given it: a hub id, a path, a file
    title: str | None = None  # what the file calls its model
    format: str | None = None  # and its weight format
    devices: tuple[str, ...] = ()  # names of the accelerators
    settings: dict[str, str] = {}  # under the engine's long flags
    parts: tuple[LoggedPart, ...] = ()

    def find_part(self, name: str) -> LoggedPart | None:
        """What it says of a part of its ranks; None where it does not."""
        return next((p for p in self.parts if p.part == name and p.place is None), None)

    def on_host(self, host: str | None, part: LoggedPart) -> bool:
        """Whether a part's place is host memory, by the engine's pattern of such places."""
        return host is not None and part.place is not None and re.search(host, part.place) is not None


class _LinePatterns(Value, frozen=True):
    """The patterns of one engine, its own and those of the engine underneath, ready to use."""

    tell: re.Pattern[str]
    begin: re.Pattern[str] | None
    lines: tuple[re.Pattern[str], ...]
    anew: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]
    latest: frozenset[str]
    words: dict[str, str]
    version_prefix: str


def read_startup_log(text: str, engines: Mapping[str, Engine], engine: str | None = None) -> StartupLog:
    """The last start that `text` describes. `engine` insists on one. Raises BadInput where no engine's log is seen."""
    lines = [_COLOUR.sub("", x[:MOST_LINE]) for x in text.splitlines()]
    known = {e.id: e.startup_log for e in engines.values() if e.startup_log is not None}
    chosen = engine or _tell_engine(lines, known)
    if chosen is None:
        raise BadInput(f"no start-up log of {_listed(known)}: none of their lines is in it")
    if chosen not in known:
        raise BadInput(f"start-up logs of {chosen} are not read; those of {_listed(known)} are")
    return _Reader(chosen, _patterns(chosen, known)).read(lines)


def _listed(names: Mapping[str, object]) -> str:
    words = sorted(names)
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else "".join(words)


def _tell_engine(lines: list[str], known: Mapping[str, StartupLogTable]) -> str | None:
    """The engine whose own lines stand most often; one that has another underneath wins over that one."""
    seen = {k: sum(1 for x in lines if re.search(t.tell, x)) for k, t in known.items()}
    found = [k for k, n in seen.items() if n]
    above = [k for k in found if known[k].also is not None]
    return max(above or found, key=lambda k: seen[k], default=None)


def _patterns(engine: str, known: Mapping[str, StartupLogTable]) -> _LinePatterns:
    own = known[engine]
    tables = [own, *([known[own.also]] if own.also is not None and own.also in known else [])]
    return _LinePatterns(
        tell=re.compile(own.tell),
        begin=re.compile(own.begin) if own.begin else None,
        lines=tuple(re.compile(x) for t in tables for x in t.lines),
        anew=tuple((re.compile(x.match), x.parts) for t in tables for x in t.anew),
        latest=frozenset(p for t in tables for p in t.latest),
        version_prefix=own.version_prefix,
        words={k: v for t in tables for k, v in t.words.items()},
    )


class _Reader:
    """What was read so far."""

    def __init__(self, engine: str, patterns: _LinePatterns) -> None:
        self.engine = engine
        self.patterns = patterns
        self.forget()

    def forget(self) -> None:
        self.texts: dict[str, str] = {}
        self.devices: dict[int, dict[str, str]] = {}  # by pattern, then by number or line
        self.settings: dict[str, str] = {}
        self.figures: dict[tuple[str, str | None], dict[str, int]] = {}  # (part, place) -> rank or line -> bytes
        self.tokens: dict[str, int] = {}

    def read(self, lines: list[str]) -> StartupLog:
        for line in lines:
            if self.patterns.begin is not None and self.figures and self.patterns.begin.search(line):
                self.forget()
            for pattern, told_anew in self.patterns.anew:
                if pattern.search(line):
                    self.figures = {k: v for k, v in self.figures.items() if k[0] not in told_anew}
            for i, pattern in enumerate(self.patterns.lines):
                m = pattern.search(line)
                if m is not None:
                    found = {k: v for k, v in m.groupdict().items() if v is not None}
                    self._take(found, i, "rank" in pattern.groupindex)
        parts = [
            LoggedPart(part=p, place=place, bytes=tuple(v.values()), tokens=None if place else self.tokens.get(p))
            for (p, place), v in self.figures.items()
        ]
        alone = [p for p in self.tokens if (p, None) not in self.figures]
        return StartupLog(
            engine=self.engine,
            devices=tuple(next(iter(self.devices.values()), {}).values()),
            settings={k: self.patterns.words.get(v, v) for k, v in self.settings.items()},
            parts=(*parts, *(LoggedPart(part=p, tokens=self.tokens[p]) for p in alone)),
            version=self.patterns.version_prefix + self.texts["version"] if "version" in self.texts else None,
            **{k: v for k, v in self.texts.items() if k in ("model", "title", "format")},
        )

    def _take(self, found: dict[str, str], pattern: int, by_rank: bool) -> None:
        sums: dict[str, int] = {}
        for name, value in found.items():
            if name == "arguments":
                for key, setting in parse_python_arguments(value).items():
                    self.settings[key.replace("_", "-")] = setting
            elif name == "device":
                reported = self.devices.setdefault(pattern, {})
                reported[found.get("number", str(len(reported)))] = value.strip()[:200]
            elif name in TEXTS:
                self.texts.setdefault(name, value.strip()[:1000])
            elif name.startswith(SETTING):
                self.settings.setdefault(name.removeprefix(SETTING).replace("_", "-"), value[:1000])
            else:
                part, _, unit = name.removesuffix("_2").rpartition("_")
                n = _figure(value, unit)
                if n is not None and unit == "tokens":
                    self.tokens[part] = min(n, self.tokens.get(part, n))
                elif n is not None:
                    sums[part] = sums.get(part, 0) + n
        for part, n in sums.items():
            self._keep(part, n, found.get("place"), found.get("rank", "") if by_rank else None)

    def _keep(self, part: str, n: int, place: str | None, rank: str | None) -> None:
        held = self.figures.setdefault((part, place), {})
        key = str(len(held)) if place is None and rank is None else rank or ""
        held[key] = n if part in self.patterns.latest else held.get(key, 0) + n


def _figure(value: str, unit: str) -> int | None:
    """Bytes or tokens of a figure as it is written; None for what is none."""
    value = value.replace(",", "").strip()
    scale = float(UNITS.get(unit, 1))
    if unit == SIZE:
        m = re.fullmatch(r"([\d.]+)\s*([KMGT]?i?B)", value, re.I)
        if m is None:
            return None
        value, scale = m[1], _SIZES[m[2].upper()]
    try:
        n = float(value) * scale
    except ValueError:
        return None
    return int(n) if 0 <= n < MOST_FIGURE or (unit != "tokens" and -MOST_FIGURE < n < 0) else None


def parse_python_arguments(text: str) -> dict[str, str]:
    """Key -> value of a dict or call as Python shows it; nested values as JSON where they are plain, None left out.

    A value that the line's end cuts off is left out.
    """
    text = text[:MOST_CHARACTERS]
    start = next((i + 1 for i, c in enumerate(text) if c in "({"), None)
    out: dict[str, str] = {}
    i = start
    while i is not None and i < len(text) and len(out) < MOST_SETTINGS:
        m = _KEY.match(text, i)
        if m is None:
            break
        end = _value_end(text, m.end())
        if end is None:
            break
        value = _plain(text[m.end() : end].strip())
        if value is not None:
            out[m[1] or m[2] or m[3]] = value
        i = end + 1 if text[end] == "," else None
    return out


def _value_end(text: str, i: int) -> int | None:
    """Where the value that begins at `i` ends: at the comma or bracket behind it; None where the text ends first."""
    depth, quote = 0, ""
    while i < len(text):
        c = text[i]
        if quote:
            if c == "\\":
                i += 1
            elif c == quote:
                quote = ""
        elif c in "'\"":
            quote = c
        elif c in _OPEN:
            depth += 1
        elif c in _CLOSE:
            if depth == 0:
                return i
            depth -= 1
        elif c == "," and depth == 0:
            return i
        i += 1
    return None


def _plain(shown: str) -> str | None:
    """The value as a command line would have it; None for None and for what is no plain value."""
    if shown == "None":
        return None
    if shown in ("True", "False"):
        return shown.lower()
    if not shown.startswith(("'", '"', "{", "[")):
        return shown
    try:
        value = ast.literal_eval(shown)
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
