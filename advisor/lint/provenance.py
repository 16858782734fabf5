"""Where facts were read, and when: every source is named and can be found again, every date is one and not to come."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

from msgspec import inspect

from advisor.catalog.flaws import At, strip_annotations
from advisor.checks.rules.load import RuleEntry
from advisor.decoding import Json
from advisor.engines.versions import version_key
from advisor.lint.faults import Fault
from advisor.lint.house import House, TypedPart
from advisor.lint.reading import EntryPlace

DATES = ("date", "as_of", "launch_date", "release_date")
NO_DATE = "unknown"
_ENTRIES = (RuleEntry,)  # entries that stand in a document
WITHOUT_SOURCE = ("same_as", "unread")  # tables of flags that hold none of their own
OLDEST = 2006  # CUDA, the oldest thing here
_DATE = re.compile(r"^(\d{4})(?:-\d{4}|(?:-(\d{2}))?(?:-(\d{2}))?)(?![\d-])")  # or two years, `2025-2026`
_DAY = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
# a year, a version, an address, a commit, an issue, a section: something to find the place again by
_FOUND_AGAIN = re.compile(r"\d{4}|\d+\.\d|https?://|\b[0-9a-f]{7,40}\b|#\d|\b[vb]\d|\b\d{3,}\b", re.I)
SHARES = ("share", "duty")  # a field with such a name, or ending in it, is a part of a whole
# pairs of versions: the first field is below the second
VERSIONS = (("at_least", "before"), ("last_seen", "first_absent"), ("first_absent", "back_in"))


def find_provenance_faults(house: House) -> Iterator[Fault]:
    """Facts without a source, sources without version or date, dates that are none."""
    for part, found in house.visits:
        dated = part.place.file.data.get("as_of") if isinstance(part.place.file.data, dict) else None
        for at, kind, value in found:
            if isinstance(kind, inspect.StructType):
                yield from _struct(house, part, (*part.at, *at), kind, value, bool(dated))
    for file in house.files:
        if isinstance(file.data, dict) and "as_of" in file.data and file.name not in house.documents:
            yield from _date(house, EntryPlace(file, ()), ("as_of",), file.data["as_of"])


def _struct(
    house: House, part: TypedPart, at: At, kind: inspect.StructType, value: Json, dated: bool
) -> Iterator[Fault]:
    fields = {f.encode_name for f in kind.fields}
    own_date = any(_has_digit(value.get(d)) for d in DATES)
    if "source" in fields:
        yield from _source(house, part, at, kind, value, dated or own_date)
    if "src" in fields and not value.get("src"):
        yield part.place.field("source", at, "names no source: `src` lists keys of the file's `sources`")
    if {"title", "version", "date"} <= fields and not (dated or own_date or _has_digit(value.get("version"))):
        yield part.place.field("source", at, "has neither version nor date")
    for name in DATES:
        if name in fields and value.get(name) is not None:
            yield from _date(house, part.place, (*at, name), value[name])


def _source(
    house: House, part: TypedPart, at: At, kind: inspect.StructType, value: Json, dated: bool
) -> Iterator[Fault]:
    """An entry's or a document's own source says version or date; what stands inside it needs a source only."""
    stated = value.get("source")
    required = any(f.encode_name == "source" and f.required for f in kind.fields)
    whole = value is part.data and not any(value.get(x) for x in WITHOUT_SOURCE)
    if stated is None and not (required or whole):
        return  # a part of an entry may leave it out, where its type allows
    texts = [t for t in (stated if isinstance(stated, list) else [stated]) if isinstance(t, str) and t.strip()]
    own = value is part.data or kind.cls in _ENTRIES
    if not texts:
        yield part.place.field("source", at, "names no source: what was read, which version, when")
    elif own and not dated and not any(_FOUND_AGAIN.search(t) for t in texts):
        problem = f"{texts[0]!r} has neither version nor date (or give the file an `as_of`)"
        yield part.place.field("source", (*at, "source"), problem)
    for text in texts:
        for m in _DAY.finditer(text):
            yield from _day(house, part.place, (*at, "source"), text, *(int(x) for x in m.groups()))


def _has_digit(value: object) -> bool:
    return isinstance(value, str) and re.search(r"\d", value) is not None


def _date(house: House, place: EntryPlace, at: At, value: object) -> Iterator[Fault]:
    """A date is a day, a month or a year; words may stand behind it, as in `2026-09 (seen)`."""
    if not isinstance(value, str) or value == NO_DATE:
        return
    m = _DATE.match(value)
    if m is None:
        yield place.field("date", at, f"{value!r} is not a date (2026-11-21, 2026-11 or 2026)")
        return
    yield from _day(house, place, at, value, int(m[1]), int(m[2] or 1), int(m[3] or 1))
    for later in _DAY.finditer(value, m.end()):
        yield from _day(house, place, at, value, *(int(x) for x in later.groups()))


def _day(house: House, place: EntryPlace, at: At, text: str, year: int, month: int, day: int) -> Iterator[Fault]:
    try:
        when = datetime.date(year, month, day)
    except ValueError:
        yield place.field("date", at, f"{text!r}: there is no such day")
        return
    if when > house.today + datetime.timedelta(days=1):  # one day for clocks of another zone
        yield place.field("date", at, f"{text!r} lies in the future")
    elif year < OLDEST:
        yield place.field("date", at, f"{text!r} lies before all of this")


def find_bounds_faults(house: House) -> Iterator[Fault]:
    """Bounds that are out of order."""
    for part, found in house.visits:
        for at, kind, value in found:
            if isinstance(kind, inspect.StructType):
                yield from _numbers(part, (*part.at, *at), kind, value)


def _numbers(part: TypedPart, at: At, kind: inspect.StructType, value: Json) -> Iterator[Fault]:
    steps = [(n, value[n]) for n in ("low", "value", "high") if isinstance(value.get(n), (int, float))]
    if len(steps) > 1 and [x for _, x in steps] != sorted(x for _, x in steps):
        problem = ", ".join(f"{n} {x:g}" for n, x in steps)
        yield part.place.field("range", at, f"{problem}: they must not fall")
    for first, second in VERSIONS:
        a, b = value.get(first), value.get(second)
        if (
            isinstance(a, str)
            and isinstance(b, str)
            and version_key(a)
            and version_key(b)
            and version_key(a) >= version_key(b)
        ):
            yield part.place.field("range", at, f"{first} {a} is not below {second} {b}")
    for field in kind.fields:
        found = value.get(field.encode_name)
        here = (*at, field.encode_name)
        if isinstance(found, (int, float)) and not isinstance(found, bool) and _is_share(field.encode_name):
            if not 0 <= found <= 1:
                yield part.place.field("unit", here, f"{found:g} is not a share of a whole (0 to 1)")
        elif isinstance(found, list) and _is_range(field.type) and found != sorted(found):
            yield part.place.field("range", here, f"{found} is low, usual, high: they must not fall")


def _is_share(name: str) -> bool:
    return name in SHARES or name.endswith(tuple(f"_{s}" for s in SHARES))


def _is_range(kind: inspect.Type) -> bool:
    """Whether a field holds three numbers."""
    options = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return any(
        isinstance(t, inspect.TupleType)
        and len(t.item_types) == 3
        and all(isinstance(strip_annotations(x), inspect.FloatType) for x in t.item_types)
        for t in map(strip_annotations, options)
    )
