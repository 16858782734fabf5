"""The tables that checks ask: how launches are recognised (rules/checks), and the engines' flags (rules/flags)."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import typed
from advisor.engines.flag_tables import FlagTable, flag_table
from advisor.memo import memoize_by_identity
from advisor.record import Record


class ProgramEntry(Record, frozen=True, kw_only=True):
    """A program or module that starts an engine."""

    engine: str
    after: tuple[str, ...] = ()  # words that must follow
    build: bool = False  # builds something and serves nothing


class ImageEntry(Record, frozen=True, kw_only=True):
    """A container image of an engine; `entry` says what it does with its arguments."""

    match: str
    engine: str
    entry: str
    tag: str | None = None  # "version" = the tag is the engine's version


class ServerFacts(Record, frozen=True, kw_only=True):
    """What a server does without being told."""

    port: int
    host: str
    image_port: int | None = None
    image_host: str | None = None
    health: tuple[str, ...] = ()
    cache: tuple[str, ...] = ()


class Recognition(msgspec.Struct, frozen=True):
    """rules/checks/recognition.yaml."""

    programs: dict[str, ProgramEntry]
    modules: dict[str, ProgramEntry]
    images: tuple[ImageEntry, ...]
    wrappers: dict[str, tuple[str, ...]]
    others: tuple[str, ...]
    variables: dict[str, str]
    model_variables: tuple[str, ...]
    quantization_values: dict[str, str]
    servers: dict[str, ServerFacts]
    source: str


class Chart(msgspec.Struct, frozen=True):
    """What one chart sets by itself."""

    source: str
    keys: dict[str, str]  # variable -> where a values file sets it
    variables: dict[str, str]
    values: dict[str, str]


class Charts(msgspec.Struct, frozen=True):
    """rules/checks/charts.yaml."""

    charts: dict[str, Chart]


class Spelling(NamedTuple):
    """A flag as it may be written: its canonical name, and whether this spelling switches it off."""

    name: str
    off: bool


class FlagLookup(NamedTuple):
    """The flags of one engine, ready to look up. Keys are spellings with their dashes."""

    table: FlagTable
    spellings: dict[str, Spelling]
    by_variable: dict[str, str]


class Knowledge:
    """All of it, decoded when asked for. What judging derives from it hangs on it (advisor/memo.py)."""

    def __init__(self, rules: Catalog) -> None:
        self.rules = rules
        self.recognition = typed(rules, "checks/recognition.yaml", Recognition)
        self.charts = typed(rules, "checks/charts.yaml", Charts).charts
        self._images = [(re.compile(i.match), i) for i in self.recognition.images]

    def image(self, name: str) -> ImageEntry | None:
        """The engine's image that `name` (without tag) is; None for any other."""
        found = next((entry for pattern, entry in self._images if pattern.search(name)), None)
        return None if found is None or found.entry == "none" else found

    @memoize_by_identity
    def flags(self, engine: str) -> FlagLookup | None:
        """The flags of an engine; None where no table exists."""
        table = flag_table(engine, self.rules)
        return _lookup(table) if table is not None and table.engine == engine else None


def _lookup(flags: FlagTable) -> FlagLookup:
    spellings: dict[str, Spelling] = {}
    variables: dict[str, str] = {}
    for name, f in flags.flags.items():
        spellings[f"--{name}"] = Spelling(name, False)
        negative = [a for a in f.a if f.t == "flag" and _negates(a, name)]
        for a in f.a:
            spellings[a] = Spelling(name, a in negative)
        if f.t == "flag" and flags.engine == "vllm":
            spellings.setdefault(f"--no-{name}", Spelling(name, True))
            if name.startswith("enable-"):
                spellings.setdefault(f"--disable-{name[7:]}", Spelling(name, True))
        if f.e:
            variables[f.e] = name
    return FlagLookup(flags, spellings, variables)


def _negates(alias: str, name: str) -> bool:
    bare = alias.lstrip("-")
    return bare.startswith(("no-", "no_")) or (bare.startswith("disable-") and name.startswith("enable-"))
