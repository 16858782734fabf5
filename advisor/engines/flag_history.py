"""Which flags, values and variables each release of an engine has (rules/flag-history/<engine>.yaml)."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping

from advisor.engines.versions import version_key
from advisor.errors import BadInput
from advisor.meanings import EngineId, Version
from advisor.memo import MemoRecord, memoize_by_identity
from advisor.record import Record, Value

FOLDER = "flag-history/"
Spans = dict[str, tuple[str, ...]]  # `FIRST..LAST FIRST..` -> names; both ends are releases that were read


class ValueHistory(Record, frozen=True, kw_only=True):
    """The closed list of one flag."""

    read_since: Version  # the first release whose list was read
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


class Presence(Value, frozen=True):
    """Whether one release has a name, and the releases read that surround it. `has` is None where those disagree, or
    where the release is older than all that were read."""

    has: bool | None
    last: Version | None = None  # the newest release read, at or before this one, that has it
    following: Version | None = None  # the oldest release read after this one that has it


def find_presence(history: FlagHistory, name: str, version: str | None) -> Presence | None:
    """Whether a release has a flag (None: the newest that was read). None: no release was seen to lack it, or none to
    have it."""
    spans = _by_name(history, "flags").get(name)
    return None if spans is None else _presence(history, spans, version)


def find_variable(history: FlagHistory, name: str, version: str | None) -> Presence | None:
    """The same of an environment variable."""
    spans = _by_name(history, "variables").get(name)
    return None if spans is None else _presence(history, spans, version)


def find_value(history: FlagHistory, flag: str, value: str, version: str | None) -> Presence | None:
    """Whether a release's list for a flag holds a value. None where no list of the flag was read."""
    listed = history.values.get(flag)
    if listed is None:
        return None
    spans = _values(history, flag).get(value.upper() if listed.any_case else value)
    if spans is not None:
        return _presence(history, spans, version, listed.read_since)
    old = version is not None and release_key(version) < release_key(listed.read_since)
    return Presence(None if old else False)


def list_values(history: FlagHistory, flag: str, version: str | None) -> tuple[str, ...]:
    """The values that a release takes for a flag, or may take, sorted; empty where no list was read."""
    listed = history.values.get(flag)
    if listed is None:
        return ()
    values = _values(history, flag).items()
    return tuple(
        sorted(v for v, spans in values if _presence(history, spans, version, listed.read_since).has is not False)
    )


@memoize_by_identity
def list_left(history: FlagHistory) -> frozenset[str]:
    """Flags that some release had and the newest has not."""
    return frozenset(n for n, spans in _by_name(history, "flags").items() if not _presence(history, spans, None).has)


@memoize_by_identity
def list_left_variables(history: FlagHistory) -> frozenset[str]:
    """Environment variables that some release read and the newest does not."""
    names = _by_name(history, "variables").items()
    return frozenset(n for n, spans in names if not _presence(history, spans, None).has)


_ReleaseKey = tuple[tuple[int, ...], int]  # numbers, post release
_Pairs = tuple[tuple[str, str], ...]  # (first or nothing, last or nothing)


@memoize_by_identity
def _by_name(history: FlagHistory, part: str) -> Mapping[str, _Pairs]:
    return _spans_by_name(history.flags if part == "flags" else history.variables, history)


@memoize_by_identity
def _values(history: FlagHistory, flag: str) -> Mapping[str, _Pairs]:
    return _spans_by_name(history.values[flag].spans, history)


def _spans_by_name(spans: Spans, history: FlagHistory) -> Mapping[str, _Pairs]:
    """Raises BadInput for a span whose ends were not read."""
    out: dict[str, _Pairs] = {}
    for text, names in spans.items():
        if not is_span(text, history):
            raise BadInput(f"rules/{FOLDER}{history.engine}.yaml: {text!r} is no FIRST..LAST of releases in `read`")
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
