"""What each engine's server, and each router before it, takes: flags, their types, and in which releases.

rules/flags/<engine>.yaml has the flags of one version, rules/flag-history what other releases have, rules/routers the
programs that stand before servers and hand requests on. Settings that none of these know are described.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

import msgspec
from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.launch_types import EngineProgram, ImagePattern
from advisor.catalog.types import Engine
from advisor.engines.flags import ConceptName, find_concept, find_own_flag
from advisor.engines.versions import version_key
from advisor.errors import BadInput
from advisor.meanings import EngineId, FlagName, Pattern, QuantizationName, Version
from advisor.memo import MemoRecord, memoize_by_identity
from advisor.near import near_matches
from advisor.record import Record, Value

FOLDER = "flags/"
HISTORY_FOLDER = "flag-history/"
ROUTER_FOLDER = "routers/"
SHOWN = 60  # characters of a name
Spans = dict[str, tuple[str, ...]]  # `FIRST..LAST FIRST..` -> names; both ends are releases that were read
_ReleaseKey = tuple[tuple[int, ...], int]  # numbers, post release
_Pairs = tuple[tuple[str, str], ...]  # (first or nothing, last or nothing)


class ValueHistory(Record, frozen=True, kw_only=True):
    """The closed list of one flag."""

    read_since: Version  # the first release whose list was read
    read_until: Version | None = None  # the last one whose list was closed; None: the newest
    any_case: bool = False  # written in capitals here, in any case on the command line
    spans: Spans


class FlagHistory(MemoRecord, frozen=True, kw_only=True):
    """Names by the releases that have them. Flags and variables that every release read has are not listed."""

    engine: EngineId
    source: str = ""
    as_of: str | None = None
    read: tuple[Version, ...] = ()  # the releases that were read, oldest first
    flags: Spans = {}
    variables: Spans = {}
    values: dict[str, ValueHistory] = {}  # flag, or `flag.key` of a flag that takes JSON
    deprecated: Spans = {}  # flags by the releases that take them and say that they will go
    defaults: dict[str, dict[str, str]] = {}  # flag whose default moved -> spans -> default; `none` is nothing


class Presence(Value, frozen=True):
    """Whether one release has a name, and the releases read that surround it. `has` is None where those disagree, or
    where the release is older than all that were read."""

    has: bool | None
    last: Version | None = None  # the newest release read, at or before this one, that has it
    following: Version | None = None  # the oldest release read after this one that has it


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


class SettingEffects(Record, frozen=True, kw_only=True):
    """The flags and variables of a server that bear on what starts, on memory or on speed, besides those that its
    concepts name. All others have no effect on these. Where a reason stands, no law of `advisor/engines` reads it."""

    read: tuple[FlagName, ...] = ()  # a law reads them
    idle: tuple[FlagName, ...] = ()  # a law reads them, and many models and layouts have no use for them
    keys: dict[FlagName, tuple[str, ...]] = {}  # JSON -> its keys that laws read, or that change nothing
    raises: dict[FlagName, str] = {}  # it may take more memory, or leave a smaller pool, than is counted -> how
    lowers: dict[FlagName, str] = {}  # it may need less of the devices than is counted -> how
    memory: dict[FlagName, str] = {}  # it moves memory that does not decide -> what
    start: dict[FlagName, str] = {}  # whether it starts depends on it -> on what
    speed: dict[FlagName, str] = {}  # -> what of it
    elsewhere: tuple[FlagName, ...] = ()  # what reads the launch uses them: which devices it sees, what it loads
    source: str = ""


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
    as_written: bool = False  # `_` in a name is not taken for `-`
    splits_words: bool = False  # the entry point of its image hands its words on unquoted, so spaces end them
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
    negative_variables: tuple[str, str] | None = None  # what of a variable becomes what, to switch off
    other_variables: tuple[str, ...] = ()  # with that prefix, of clients and platforms
    plugin_variables: Pattern | None = None  # pattern: with that prefix, read by plugins and hardware back ends
    quantization_methods: tuple[str, ...] = ()
    quantization_overridden: tuple[QuantizationName, ...] = ()  # of copies that name their method, whatever is asked
    quantization_also: tuple[str, ...] = ()  # words that stand in no list, and that work
    quantization_removed_to_plugin: tuple[str, ...] = ()
    quantization_capability: dict[str, float] = {}  # method -> least compute capability
    bfloat16_only: tuple[str, ...] = ()
    modelfile_parameters: tuple[str, ...] = ()
    deprecated_parameters: tuple[str, ...] = ()
    modelfile_instructions: tuple[str, ...] = ()
    effects: SettingEffects = SettingEffects()

    def left(self) -> frozenset[str]:
        """Flags that the newest release no longer has."""
        return _list_left(self.history, "flags") if self.history is not None else frozenset()

    def left_variables(self) -> frozenset[str]:
        """Environment variables that the newest release no longer reads."""
        return _list_left(self.history, "variables") if self.history is not None else frozenset()

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
        path, own = f"{FOLDER}{found.same_as}.yaml", found.effects
        found = decode_document(rules, path, FlagTable)
        found = replace(found, effects=own) if own.source else found
    history_path = HISTORY_FOLDER + path.removeprefix(FOLDER)
    history = decode_document(rules, history_path, FlagHistory) if rules.has_document(history_path) else None
    return add_history(found, history)


def add_history(table: FlagTable, history: FlagHistory | None) -> FlagTable:
    """A table with what other releases of its engine have."""
    return table if history is None else replace(table, history=history)


def find_presence(
    history: FlagHistory, name: str, version: str | None, part: Literal["flags", "variables"] = "flags"
) -> Presence | None:
    """Whether a release has a flag, or an environment variable (None: the newest that was read). None: no release was
    seen to lack it, or none to have it."""
    spans = _index_spans(history, part).get(name)
    return None if spans is None else _presence(history, spans, version)


def find_value(history: FlagHistory, flag: str, value: str, version: str | None) -> Presence | None:
    """Whether a release's list for a flag holds a value. None where no list of the flag was read."""
    listed = _find_list(history, flag, version)
    if listed is None:
        return None
    spans = _values(history, flag).get(value.upper() if listed.any_case else value)
    if spans is not None:
        return _presence(history, spans, version, listed.read_since)
    old = version is not None and release_key(version) < release_key(listed.read_since)
    return Presence(None if old else False)


def list_values(history: FlagHistory, flag: str, version: str | None) -> tuple[str, ...]:
    """The values that a release takes for a flag, or may take, sorted; empty where no list was read."""
    listed = _find_list(history, flag, version)
    if listed is None:
        return ()
    values = _values(history, flag).items()
    return tuple(
        sorted(v for v, spans in values if _presence(history, spans, version, listed.read_since).has is not False)
    )


def _find_list(history: FlagHistory, flag: str, version: str | None) -> ValueHistory | None:
    """The list of a flag, unless the release takes anything by then."""
    listed = history.values.get(flag)
    last = listed.read_until if listed is not None else None
    ended = last is not None and (version is None or release_key(version) > release_key(last))
    return None if ended else listed


def find_default(history: FlagHistory, flag: str, version: str) -> str | None:
    """The default of a flag in a release, where defaults of that flag differ; None where it is not known."""
    values = _index_defaults(history).get(flag, {})
    return next((v for v, spans in values.items() if _presence(history, spans, version).has), None)


def is_deprecated(history: FlagHistory, flag: str, version: str) -> bool:
    """Whether a release takes a flag and says that it will go."""
    spans = _index_spans(history, "deprecated").get(flag)
    return spans is not None and _presence(history, spans, version).has is True


@memoize_by_identity
def _list_left(history: FlagHistory, part: str) -> frozenset[str]:
    names = _index_spans(history, part).items()
    return frozenset(n for n, spans in names if not _presence(history, spans, None).has)


@memoize_by_identity
def _index_spans(history: FlagHistory, part: str) -> Mapping[str, _Pairs]:
    return _spans_by_name(getattr(history, part), history)


@memoize_by_identity
def _index_defaults(history: FlagHistory) -> Mapping[str, Mapping[str, _Pairs]]:
    return {
        flag: {value: _spans_by_name({text: (flag,)}, history)[flag] for text, value in spans.items()}
        for flag, spans in history.defaults.items()
    }


@memoize_by_identity
def _values(history: FlagHistory, flag: str) -> Mapping[str, _Pairs]:
    return _spans_by_name(history.values[flag].spans, history)


def _spans_by_name(spans: Spans, history: FlagHistory) -> Mapping[str, _Pairs]:
    """Raises BadInput for a span whose ends were not read."""
    out: dict[str, _Pairs] = {}
    for text, names in spans.items():
        if not is_span(text, history):
            raise BadInput(
                f"rules/{HISTORY_FOLDER}{history.engine}.yaml: {text!r} is not FIRST..LAST of releases in `read`"
            )
        pairs = tuple((first, last) for first, _, last in (span.partition("..") for span in text.split()))
        out |= dict.fromkeys(names, pairs)
    return out


def is_span(text: str, history: FlagHistory) -> bool:
    """Whether a text is `FIRST..LAST`, or several of them, of releases that were read."""
    ends = [span.split("..") for span in text.split()]
    return bool(ends) and all(len(pair) == 2 and all(not end or end in history.read for end in pair) for pair in ends)


def list_spans(history: FlagHistory) -> Iterator[tuple[tuple[str, ...], Spans]]:
    """Every table of spans, and its place in the file."""
    yield ("flags",), history.flags
    yield ("variables",), history.variables
    yield ("deprecated",), history.deprecated
    for flag, values in history.defaults.items():
        yield ("defaults", flag), dict.fromkeys(values, (flag,))
    for flag, listed in history.values.items():
        yield ("values", flag, "spans"), listed.spans


@memoize_by_identity
def _keys(history: FlagHistory) -> tuple[_ReleaseKey, ...]:
    return tuple(release_key(v) for v in history.read)


def _presence(history: FlagHistory, spans: _Pairs, version: str | None, since: str | None = None) -> Presence:
    """`since`: the first release that the list was read of."""
    start = history.read.index(since) if since in history.read else 0
    read, keys = history.read[start:], _keys(history)[start:]
    having = [False] * len(read)
    for first, last in spans:
        low = read.index(first) if first in read else 0
        high = read.index(last) if last else len(read) - 1
        having[low : high + 1] = [True] * (high + 1 - low)
    mine = release_key(version) if version is not None and version_key(version) else keys[-1]
    before, after = bisect_right(keys, mine) - 1, bisect_left(keys, mine)
    last_with = next((read[i] for i in range(before, -1, -1) if having[i]), None)
    following = next((read[i] for i in range(before + 1, len(read)) if having[i]), None)
    if before < 0:
        return Presence(None, last_with, following)
    has = having[before] if after >= len(read) or having[before] == having[after] else None
    return Presence(has, last_with, following)


def release_key(version: str) -> _ReleaseKey:
    """Releases in order; `0.5.4.post3` comes after `0.5.4`."""
    post = re.search(r"\.?post(\d+)", version)
    return version_key(version), int(post[1]) if post else 0


class Router(MemoRecord, frozen=True, kw_only=True):
    """One router, or another server whose flags alone are known. `flags`, `read`, `spans` and `values` are written by
    `make history`."""

    id: str
    name: str
    programs: dict[str, EngineProgram] = {}
    modules: dict[str, EngineProgram] = {}
    images: tuple[ImagePattern, ...] = ()
    words: tuple[str, ...] = ()  # without one of which, in any case, no file starts it
    packages: tuple[str, ...] = ()  # distributions by PEP 503 name, whose pins state its release
    parser: str = "argparse"
    source: str
    as_of: str
    version: Version  # whose flags stand here
    flags: dict[FlagName, FlagEntry]
    read: tuple[Version, ...]  # releases, oldest first
    spans: Spans = {}  # flags by the releases that have them, as in rules/flag-history
    values: dict[FlagName, ValueHistory] = {}


def load_routers(rules: Catalog) -> dict[str, Router]:
    """All routers by id. Raises BadInput where a file is not one."""
    routers = [decode_document(rules, path, Router) for path in sorted(rules.documents(ROUTER_FOLDER))]
    return {r.id: r for r in routers}


@memoize_by_identity
def make_flag_table(router: Router) -> FlagTable:
    """What a router takes, in the terms in which engines' flags are known."""
    return FlagTable(
        engine=router.id,
        version=router.version,
        source=router.source,
        parser=router.parser,
        flags=router.flags,
        history=FlagHistory(engine=router.id, read=router.read, flags=router.spans, values=router.values),
    )


def describe_unknown_settings(settings: Collection[str], entry: Engine, rules: Catalog) -> tuple[str, ...]:
    """A sentence for each setting that the engine has under no name in any version that is known; none where the
    engine's flags were not read."""
    table = load_flag_table(entry.id, rules) if settings else None
    if table is None:
        return ()
    known, out = _list_names(entry, table, rules), []
    for name in settings:
        plain = name.lstrip("-").replace("_", "-")
        if not table.flags and not name.isupper():
            continue  # its flags were not read, its variables may have been
        if plain in known or name in known or _is_negated(plain, known) or _is_variable(name, table):
            continue
        near = near_matches(name if name.isupper() else plain, sorted(known), 2)
        shown = name if len(name) <= SHOWN else name[: SHOWN - 3] + "..."
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        out.append(f"setting {shown}: {entry.name} has none of this name, so it changes nothing{meant}")
    return tuple(out)


def _list_names(entry: Engine, table: FlagTable, rules: Catalog) -> frozenset[str]:
    """Every name that a setting of this engine may have, without dashes before it."""
    names = {x.lstrip("-") for x in table.spellings()} | {f.e for f in table.flags.values() if f.e}
    names |= {
        *table.left(), *table.settings, *table.variables, *table.modelfile_parameters, *table.other_variables,
        *table.deprecated_parameters, *table.gone_before_reading, *table.left_variables(),
    }  # fmt: skip
    for one in (entry, *(rules.engine(x) for x in entry.runs)):
        for concept in msgspec.structs.asdict(one.concepts).values():
            names |= {*getattr(concept, "flags", ()), *getattr(concept, "environment", ())}
    return frozenset(n if n.isupper() else n.replace("_", "-") for n in names)


def _is_negated(name: str, known: frozenset[str]) -> bool:
    """Whether it is a switch in its other spelling: parsers make `--no-x` from `--x`."""
    for prefix, other in (("no-", ""), ("disable-", "enable-"), ("enable-", "disable-")):
        if name.startswith(prefix) and other + name.removeprefix(prefix) in known:
            return True
    return f"no-{name}" in known


def _is_variable(name: str, table: FlagTable) -> bool:
    """Whether it is an environment variable that something else may read: a plugin, a library, a driver."""
    if not name.isupper():
        return False
    if not table.variables or table.variable_prefix is None or not name.startswith(table.variable_prefix):
        return True
    return table.plugin_variables is not None and re.search(table.plugin_variables, name) is not None
