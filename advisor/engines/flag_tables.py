"""What each engine's server takes: flags, their types, and in which versions (rules/flags/<engine>.yaml)."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.types import Engine
from advisor.engines.flags import ConceptName, find_concept
from advisor.engines.versions import version_key
from advisor.meanings import EngineId, FlagName, Pattern, Version
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


class FlagRemoval(Record, frozen=True, kw_only=True):
    """What left: there up to `last_seen`, not from `first_absent` on, maybe back later. Both are versions looked at."""

    last_seen: Version | None = None
    first_absent: Version | None = None
    back_in: Version | None = None
    instead: str | None = None

    def at(self, version: str | None) -> bool:
        """Whether this version lacks it (None = the newest). Between two looked-at versions: not sure, so no."""
        v = version_key(version or "")
        if not v:
            return self.back_in is None
        if self.back_in and v >= version_key(self.back_in):
            return False
        if self.first_absent is not None:
            return v >= version_key(self.first_absent)
        return self.last_seen is None or v > version_key(self.last_seen)


class FlagTable(MemoRecord, frozen=True, kw_only=True):
    """Flags of one server as its parser of `version` has them, and what changed before. Names without dashes."""

    engine: EngineId
    version: str = ""
    source: str = ""
    same_as: EngineId | None = None  # the engine whose server it starts, and whose table is meant
    unread: str | None = None  # why there is no table: nothing is known of what the server takes
    parser: str = "argparse"  # how it reads: argparse and clap take abbreviations, exact does not
    negated: bool = False  # every switch also has a spelling with `no-`, `enable-` one with `disable-`
    single_dash: bool = False  # long names may be written with one dash
    cuts_numbers: bool = False  # a whole number may be written with decimals
    oldest_read: Version | None = None  # the oldest version whose flags were read
    port: int | None = None
    positional: tuple[str, ...] = ()
    files: tuple[FlagName, ...] = ()  # flags whose value, where it is a path, is a file that must be there
    flags: dict[str, FlagEntry] = {}
    since: dict[Version, tuple[str, ...]] = {}  # first version seen with them -> names
    gone: dict[str, FlagRemoval] = {}
    gone_variables: dict[str, FlagRemoval] = {}
    gone_before_reading: tuple[str, ...] = ()  # flags that left before the oldest version that was read
    gone_before: Version | None = None  # the version from which on they are surely gone
    settings: tuple[str, ...] = ()  # no flags: keys of its file, of a request, or of another of its commands
    variables: tuple[str, ...] = ()  # environment variables that are read
    variable_prefix: str | None = None  # of the engine's own variables
    other_variables: tuple[str, ...] = ()  # with that prefix, of clients and platforms
    plugin_variables: Pattern | None = None  # pattern: with that prefix, read by plugins and hardware back ends
    quantization_methods: tuple[str, ...] = ()
    quantization_methods_since: Version | None = None  # first version that this list is known to hold for
    quantization_removed_to_plugin: tuple[str, ...] = ()
    quantization_capability: dict[str, float] = {}  # method -> least compute capability
    bfloat16_only: tuple[str, ...] = ()
    modelfile_parameters: tuple[str, ...] = ()
    deprecated_parameters: tuple[str, ...] = ()
    modelfile_instructions: tuple[str, ...] = ()

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


def load_flag_table(engine_id: str, rules: Catalog) -> FlagTable | None:
    """What an engine's server takes; None where it was not read. Raises BadInput when an overlay spoiled it."""
    path = f"{FOLDER}{engine_id}.yaml"
    if not rules.has_document(path):
        return None
    found = decode_document(rules, path, FlagTable)
    if found.unread:
        return None
    return decode_document(rules, f"{FOLDER}{found.same_as}.yaml", FlagTable) if found.same_as else found
