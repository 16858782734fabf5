"""Engine arguments as settings: the flag that each word means, its value, and what is wrong with how it is written."""

from __future__ import annotations

import math
import re
from itertools import takewhile

from msgspec.structs import replace

from advisor.catalog.launch_types import Concept
from advisor.checks.knowledge import FlagLookup, Knowledge, is_told_by_variables
from advisor.checks.read.launch import Launch
from advisor.checks.read.unknown_words import Guard, find_guard, is_only_guarded
from advisor.engines.flag_tables import FlagEntry
from advisor.engines.flags import ConceptName, find_concept
from advisor.record import Names, Value
from advisor.yaml_places import Text, TextList, Texts, TextTuple, place_like

_FLAG = re.compile(r"^--?[A-Za-z]")
_NUMBER = re.compile(r"^-?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
_SIZED = re.compile(r"^(\d+(?:\.\d+)?)([kKmMgG])?$")
LEAST_PREFIX = len("--tp")  # argparse takes every prefix that is unique; shorter ones are slips
NOTHING = Concept()
LENGTHS: tuple[ConceptName, ...] = ("context_length", "total_context")
RANKS: tuple[ConceptName, ...] = ("tensor_parallel", "pipeline_parallel", "data_parallel")


class LaunchArgument(Value, frozen=True):
    """One flag as it was given."""

    name: str  # canonical, without dashes; as written where the engine does not know it
    written: str  # the flag as written, without a value
    value: Text | None  # None for a flag without value
    place: Text  # the word, for its line and column
    known: bool = True
    off: bool = False
    abbreviated: bool = False
    misspelt: bool = False  # `_` for `-`, before a parser that compares names as they are written
    stray: Text | None = None  # a value given to a flag that takes none
    missing: bool = False  # a value is expected and none was given
    key: str | None = None  # `--speculative-config.method x`: the part after the dot
    extra: TextTuple = ()  # further values of a flag that takes many

    @property
    def bare(self) -> str:
        """The flag as written, as names are spelt in tables."""
        return self.written.lstrip("-").replace("_", "-")

    @property
    def guard(self) -> Guard | None:
        """The condition that it is given under, where the file does not decide it."""
        return find_guard(self.place)


class LaunchArguments(Value, frozen=True):
    """All arguments of a launch."""

    given: tuple[LaunchArgument, ...]
    positional: TextTuple
    open: Names  # what could hold further arguments that are not known

    def last(self, *names: str) -> LaunchArgument | None:
        """The flag as it counts: the last one given."""
        return next((a for a in reversed(self.given) if a.name in names and a.key is None), None)

    def value(self, *names: str) -> Text | None:
        """The value of a flag; None where it is absent or takes none."""
        argument = self.last(*names)
        return argument.value if argument else None

    def on(self, *names: str) -> bool:
        """Whether a flag is switched on."""
        argument = self.last(*names)
        return argument is not None and not argument.off


def read_arguments(launch: Launch, knowledge: Knowledge) -> LaunchArguments:
    """The arguments of a launch, in order. Variables that the engine reads as flags come first, flags win."""
    table = knowledge.flags(launch.engine)
    given: list[LaunchArgument] = []
    if table is not None:
        for name, value in launch.env.items():
            flag = table.by_variable.get(name)
            if flag is not None and flag.name != "api-key":
                stated = None if flag.off else value
                given.append(LaunchArgument(flag.name, name, stated, value, off=flag.off))
    if not is_told_by_variables(table):
        given += [_setting(name, value, table) for name, value in launch.settings.items()]
    argv = launch.argv
    if table is not None and table.table.splits_words and launch.program is None and launch.setup.container:
        argv = tuple(place_like(part, word) for word in argv for part in word.split())
    words, positional, unread = _words(argv, table)
    return LaunchArguments((*given, *words), tuple(positional), (*unread, *launch.unread))


def _setting(name: str, value: Text, table: FlagLookup | None) -> LaunchArgument:
    """A setting from a field of its own: true and false switch a flag."""
    found = _lookup(name if name.startswith("-") else f"--{name}", table)
    flag = found[0] if found else name.lstrip("-")
    entry = table.table.flags.get(flag) if table else None
    if entry is not None and entry.t == "flag":
        return LaunchArgument(flag, name, None, value, off=value.lower() in ("false", "no", "0"))
    known = found is not None or table is None or flag in table.table.settings
    return LaunchArgument(flag, name, value, value, known=known)


def _words(argv: Texts, table: FlagLookup | None) -> tuple[list[LaunchArgument], TextList, list[str]]:
    given: list[LaunchArgument] = []
    positional: TextList = []
    unread: list[str] = []
    i = 0
    while i < len(argv):
        word = argv[i]
        i += 1
        if word.unknown and not re.match(r"^--?[A-Za-z][\w.-]*(=|$)", word):
            bare = re.fullmatch(r"\$(\{[^}]*\}|\([^)]*\)|\w+|[@*])", word)  # it could be any number of words
            if bare:
                unread.append(word)
            if not bare or not (positional or given):
                positional.append(word)
            continue
        if word in ("--", "\\"):
            continue
        if _is_value(word):
            positional.append(word)
            continue
        written, eq, rest = word.partition("=")
        inline = place_like(rest, word) if eq else None
        found = _lookup(written, table)
        if found is None and table is not None and table.table.parser == "argparse" and written[:2] in table.spellings:
            written, inline = written[:2], place_like(word[2:], word)  # `-O3` is `-O 3`
            found = _lookup(written, table)
        if found is None:
            argument, i = _take_unknown(LaunchArgument(written.lstrip("-"), written, inline, word, False), argv, i)
        else:
            name, off, abbreviated, key = found
            entry = table.table.flags[name] if table else FlagEntry()
            misspelt = (
                "_" in written and table is not None and table.table.as_written and written not in table.spellings
            )
            argument = LaunchArgument(name, written, inline, word, True, off, abbreviated, misspelt, key=key)
            argument, i = _take_known(argument, entry, argv, i, table)
        given.append(argument)
    return given, positional, unread


def _is_flag(word: Text, table: FlagLookup | None) -> bool:
    """Whether a word behind a flag is the next flag. Parsers of whole words take any other word as its value."""
    if _is_value(word) or (word.unknown and not is_only_guarded(word)):
        return False
    return table is None or table.table.parser != "exact" or word.partition("=")[0] in table.spellings


def _take_known(
    argument: LaunchArgument, entry: FlagEntry, argv: Texts, i: int, table: FlagLookup | None
) -> tuple[LaunchArgument, int]:
    """The argument with the words from `i` on that belong to it, and where the next one begins."""
    value, following = argument.value, argv[i] if i < len(argv) else None
    if entry.t == "flag" and argument.key is None:
        if value is not None:
            off = argument.off or value.lower() in ("false", "0", "no")
            return replace(argument, stray=value, off=off, value=None), i
        if following is not None and following.lower() in ("true", "false"):
            return replace(argument, stray=following, off=argument.off or following.lower() == "false"), i + 1
        return argument, i
    if value is not None:
        return argument, i
    if following is None or _is_flag(following, table) or (entry.c and _FLAG.match(following)):
        return replace(argument, missing=table is not None and not entry.o), i
    extra = tuple(takewhile(_is_value, argv[i + 1 :])) if entry.n else ()
    return replace(argument, value=following, extra=extra), i + 1 + len(extra)


def _is_value(word: Text) -> bool:
    return not _FLAG.match(word) or _NUMBER.match(word) is not None


def _take_unknown(argument: LaunchArgument, argv: Texts, i: int) -> tuple[LaunchArgument, int]:
    """The same for a flag that the engine does not know."""
    if argument.value is None and i < len(argv) and not _FLAG.match(argv[i]):
        return replace(argument, value=argv[i]), i + 1
    return argument, i


def _lookup(written: str, table: FlagLookup | None) -> tuple[str, bool, bool, str | None] | None:
    """(name, switched off, abbreviated, dotted key) of a flag as written; None for one the engine does not know."""
    if table is None:
        return (written.lstrip("-"), False, False, None) if written.startswith("--") else None
    spellings = table.spellings
    for candidate in (written, written.replace("_", "-"), written.replace("-", "_").replace("__", "--", 1)):
        spelling = spellings.get(candidate)
        if spelling is not None:
            return spelling.name, spelling.off, False, None
    base, dot, key = written.partition(".")
    if not written.startswith("--"):  # vLLM: `-cc.key=value` is a short name of a JSON argument with a key of it
        spelling = spellings.get(base) if dot and key else None
        return (spelling.name, False, False, key) if spelling is not None else None
    if dot and (spelling := spellings.get(base.replace("_", "-"))) is not None:
        return spelling.name, False, False, key
    if table.table.parser == "argparse":
        plain = written.replace("_", "-")
        matching = {spellings[k].name for k in spellings if k.startswith(plain) and k.startswith("--")}
        if len(matching) == 1 and len(plain) >= LEAST_PREFIX:
            return matching.pop(), False, True, None
    return None


def parse_number(value: str | None) -> float | None:
    """A number as engines take it (`32k` = 32000, `32K` = 32768); None for anything else."""
    if value is None or len(value) > 40:
        return None
    m = _SIZED.match(value.strip())
    if m and m[2]:
        return float(m[1]) * {"k": 1e3, "K": 1024, "m": 1e6, "M": 1024**2, "g": 1e9, "G": 1024**3}[m[2]]
    n = float(value) if _NUMBER.match(value.strip()) else math.inf
    return n if math.isfinite(n) else None


def convert_argument(argument: LaunchArgument, entry: FlagEntry | None) -> str | int | float | bool | None:
    """The value an engine's module reads; None where it cannot be determined."""
    if argument.value is None:
        return not argument.off
    if argument.value.unknown:
        return None
    n = parse_number(argument.value)
    if n is not None and (entry is None or entry.t in ("int", "float", "str")):
        return int(n) if n == int(n) and abs(n) < 2**53 and "." not in argument.value else n
    return str(argument.value)


def find_launch_concept(engine: str, name: ConceptName, knowledge: Knowledge) -> Concept:
    """What the engine of a launch calls a concept; empty where it lacks it, or the engine is not in the catalogue."""
    entry = knowledge.rules.engines().get(engine)
    return find_concept(entry, name) if entry is not None else NOTHING


def list_concept_flags(engine: str, names: tuple[ConceptName, ...], knowledge: Knowledge) -> Names:
    """Every spelling of these concepts' flags, without dashes."""
    return tuple(f for n in names for f in find_launch_concept(engine, n, knowledge).flags)


def find_concept_value(
    arguments: LaunchArguments, engine: str, knowledge: Knowledge, *names: ConceptName
) -> Text | None:
    """The value that one of these concepts is given; None where none is, or it takes none."""
    return arguments.value(*list_concept_flags(engine, names, knowledge))


def is_length_given(arguments: LaunchArguments, engine: str, knowledge: Knowledge) -> bool:
    """Whether the longest request is set by hand, or may be in what cannot be read."""
    return bool(arguments.open) or arguments.last(*list_concept_flags(engine, LENGTHS, knowledge)) is not None


def count_ranks(arguments: LaunchArguments, engine: str, knowledge: Knowledge) -> int | None:
    """Devices the launch asks for (tensor x pipeline x data ranks); None where a size is not known."""
    within = arguments.last(*list_concept_flags(engine, ("data_parallel_attention",), knowledge))
    total = 1
    for name in RANKS:
        if name == "data_parallel" and within is not None and not within.off:
            continue  # replicas split the tensor-parallel ranks
        word = find_concept_value(arguments, engine, knowledge, name)
        if word is None:
            continue
        if word.unknown or not re.fullmatch(r"\d{1,5}", word):
            return None
        total *= max(1, int(word))
    return total
