"""What each engine's server takes: flags, their types, and in which versions (rules/flags/<engine>.yaml)."""

from collections.abc import Mapping

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.types import Engine
from advisor.engines.flag_history import FOLDER as HISTORY_FOLDER
from advisor.engines.flag_history import FlagHistory, list_left, list_left_variables
from advisor.engines.flags import ConceptName, find_concept, find_own_flag
from advisor.meanings import EngineId, FlagName, Pattern
from advisor.memo import MemoRecord, memoize_by_identity
from advisor.record import Record

FOLDER = "flags/"


class FlagEntry(Record, frozen=True, kw_only=True):
    """One flag."""

    t: str = "str"  # int, float, json, str, or flag: it takes no value
    a: tuple[str, ...] = ()  # other spellings
    c: tuple[str, ...] = ()  # choices
    v: tuple[str, ...] = ()  # values seen, where plugins may add more
    e: str | None = None  # environment variable
    n: bool = False  # many values
    o: bool = False  # the value is optional
    d: bool = False  # deprecated
    least: float | None = None  # smallest and largest number it takes
    most: float | None = None
    above: float | None = None  # numbers it does not reach
    below: float | None = None

    def range_wanted(self, n: float) -> str | None:
        """What a number has to be, where `n` is out of the range."""
        if self.least is not None and n < self.least:
            return f"of at least {self.least:g}"
        if self.above is not None and n <= self.above:
            return f"above {self.above:g}"
        if self.most is not None and n > self.most:
            return f"of at most {self.most:g}"
        return f"below {self.below:g}" if self.below is not None and n >= self.below else None


class FlagTable(MemoRecord, frozen=True, kw_only=True):
    """Flags of one server as its parser of `version` has them. Names without dashes."""

    engine: EngineId
    version: str = ""
    source: str = ""
    same_as: EngineId | None = None  # the engine whose server it starts, and whose table is meant
    unread: str | None = None  # why there is no table: nothing is known of what the server takes
    parser: str = "argparse"  # how it reads: argparse and clap take abbreviations, exact does not
    negated: bool = False  # every switch also has a spelling with `no-`, `enable-` one with `disable-`
    single_dash: bool = False  # long names may be written with one dash
    cuts_numbers: bool = False  # a whole number may be written with decimals
    port: int | None = None
    positional: tuple[str, ...] = ()
    files: tuple[FlagName, ...] = ()  # flags whose value, where it is a path, is a file that must be there
    flags: dict[str, FlagEntry] = {}
    history: FlagHistory | None = None  # what other releases have: put in from rules/flag-history, not written here
    instead: dict[str, str] = {}  # of a flag or variable that left: what took its place, or `remove` and why
    gone_before_reading: tuple[str, ...] = ()  # flags that left before the oldest release in its history
    engine_keys: tuple[str, ...] = ()  # fields of the engine's arguments that are no flags
    settings: tuple[str, ...] = ()  # no flags: keys of its file, of a request, or of another of its commands
    variables: tuple[str, ...] = ()  # environment variables that are read
    variable_prefix: str | None = None  # of the engine's own variables
    other_variables: tuple[str, ...] = ()  # with that prefix, of clients and platforms
    plugin_variables: Pattern | None = None  # pattern: with that prefix, read by plugins and hardware back ends
    quantization_methods: tuple[str, ...] = ()
    quantization_also: tuple[str, ...] = ()  # words that stand in no list, and that work
    quantization_removed_to_plugin: tuple[str, ...] = ()
    quantization_capability: dict[str, float] = {}  # method -> least compute capability
    bfloat16_only: tuple[str, ...] = ()
    modelfile_parameters: tuple[str, ...] = ()
    deprecated_parameters: tuple[str, ...] = ()
    modelfile_instructions: tuple[str, ...] = ()

    def left(self) -> frozenset[str]:
        """Flags that the newest release no longer has."""
        return list_left(self.history) if self.history is not None else frozenset()

    def left_variables(self) -> frozenset[str]:
        """Environment variables that the newest release no longer reads."""
        return list_left_variables(self.history) if self.history is not None else frozenset()

    def spellings(self) -> Mapping[str, str]:
        """Every spelling with its dashes -> name."""
        return _spellings(self)


@memoize_by_identity
def _spellings(table: FlagTable) -> Mapping[str, str]:
    return {f"--{n}": n for n in table.flags} | {a: n for n, f in table.flags.items() for a in f.a}


def list_accepted_values(entry: Engine, name: ConceptName, rules: Catalog) -> tuple[str, ...]:
    """The values an engine takes for a concept: those of its flags table, and those its entry adds; empty = any, or not
    known."""
    found = find_concept(entry, name)
    table = load_flag_table(entry.id, rules) if found.flags else None
    listed = table.flags.get(found.flags[0]) if table else None
    return (*((listed.c or listed.v) if listed else ()), *found.accepts)


def find_largest_value(entry: Engine, name: ConceptName, rules: Catalog) -> int | None:
    """The largest number that the flag of a concept takes; None where there is no flag, or no bound is known."""
    flag = find_own_flag(entry, name)
    table = load_flag_table(entry.id, rules) if flag is not None else None
    found = table.flags.get(flag) if table is not None and flag is not None else None
    return int(found.most) if found is not None and found.most is not None else None


def load_flag_table(engine_id: str, rules: Catalog) -> FlagTable | None:
    """What an engine's server takes; None where it was not read. Raises BadInput when an overlay spoiled it."""
    return _load(rules, engine_id)


@memoize_by_identity
def _load(rules: Catalog, engine_id: str) -> FlagTable | None:
    path = f"{FOLDER}{engine_id}.yaml"
    if not rules.has_document(path):
        return None
    found = decode_document(rules, path, FlagTable)
    if found.unread:
        return None
    if found.same_as:
        path = f"{FOLDER}{found.same_as}.yaml"
        found = decode_document(rules, path, FlagTable)
    history_path = HISTORY_FOLDER + path.removeprefix(FOLDER)
    history = decode_document(rules, history_path, FlagHistory) if rules.has_document(history_path) else None
    return add_history(found, history)


def add_history(table: FlagTable, history: FlagHistory | None) -> FlagTable:
    """A table with what other releases of its engine have."""
    return table if history is None else msgspec.structs.replace(table, history=history)
