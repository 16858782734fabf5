"""How old the facts are: families of rule files with a date, a shelf life and the way they are refreshed.

The day is the caller's (`Session.today`), so that an answer can be repeated. Nothing here
changes a verdict; an old fact is only named.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.engines.versions import version_key
from advisor.meanings import EngineId
from advisor.patterns import pattern_when_used
from advisor.record import Answer, Record
from advisor.session import parse_day

FILE = "freshness.yaml"
RELEASES = "releases.yaml"
_DAY = pattern_when_used(r"(?<!\d)(\d{4}-\d{2}-\d{2})(?!\d)")
DatedAnswer = Literal["recommend", "hardware"]


class FactFamily(Record, frozen=True, kw_only=True):
    """Facts that are read, dated and refreshed together."""

    id: str
    label: str
    files: tuple[str, ...]  # patterns below the rules folder
    table: Literal["engines", "accelerators", "models", "cloud_offers", "quantizations"] | None = None
    as_of: str | None = None  # where the files themselves have no date
    shelf_days: int
    source: str
    refresh: str  # the command, or what a person does
    by: Literal["registry", "program", "measurement", "reading"]
    answers: tuple[DatedAnswer, ...] = ()  # answers that rest on it and say when it is old


class FreshnessFile(Record, frozen=True, kw_only=True):
    """rules/freshness.yaml."""

    source: str
    families: tuple[FactFamily, ...]
    carried: tuple[str, ...] = ()  # what `advise facts --export` takes of the shipped files


class PackageRelease(Record, frozen=True, kw_only=True):
    """The newest release of an engine's package."""

    package: str
    version: str


class ReleasesFile(Record, frozen=True, kw_only=True):
    """rules/releases.yaml."""

    source: str
    as_of: str
    releases: dict[EngineId, PackageRelease]


class FamilyAge(Record, frozen=True, kw_only=True):
    """One family on a day. None = no date is known."""

    id: str
    label: str
    facts: int
    as_of: str | None
    age_days: int | None
    shelf_days: int
    stale: bool | None
    source: str
    refresh: str
    by: str
    files: tuple[str, ...]
    oldest: str | None = None  # the file, or the row, of the oldest day, and that day


class EngineBehind(Record, frozen=True, kw_only=True):
    """An engine of which a newer release was seen than the one that its facts are of."""

    engine: str
    package: str
    facts_of: str
    newest: str
    seen: str


class FactAges(Answer, frozen=True, kw_only=True):
    """What `advise facts` answers."""

    day: str
    families: tuple[FamilyAge, ...]
    behind: tuple[EngineBehind, ...]


def tell_ages(rules: Catalog, day: datetime.date) -> FactAges:
    """The age of every family on a day, and engines of which a newer release is known."""
    families = decode_document(rules, FILE, FreshnessFile).families
    documents = rules.documents()
    return FactAges(
        day=day.isoformat(),
        families=tuple(_age(f, _count(f, documents, rules), rules, day) for f in families),
        behind=_list_behind(rules),
    )


def find_carried(rules: Catalog) -> tuple[str, ...]:
    """Patterns of the shipped files that `advise facts --export` takes."""
    return decode_document(rules, FILE, FreshnessFile).carried


def find_newest_day(rules: Catalog) -> str:
    """The newest day that any rule file names as its own."""
    return max((d for p in rules.document_paths() if (d := _day(rules, p)) is not None), default="")


def find_stale_note(answer: DatedAnswer, rules: Catalog, day: datetime.date) -> str | None:
    """One line that names the facts behind an answer that are older than their shelf life; None where none is."""
    if not rules.has_document(FILE):  # rules of your own alone
        return None
    families = decode_document(rules, FILE, FreshnessFile).families
    old = [a for f in families if answer in f.answers and (a := _age(f, 0, rules, day)).stale]
    if not old:
        return None
    named = ", ".join(f"{a.label} ({a.as_of})" for a in old)
    return f"older than their shelf life: {named}; `advise facts` lists all"


def _age(family: FactFamily, facts: int, rules: Catalog, day: datetime.date) -> FamilyAge:
    oldest_day, row = min(_date_rows(family, rules), default=(None, None))
    oldest = family.as_of or oldest_day
    age = None if oldest is None else (day - parse_day(oldest, f"rules/{FILE}, {family.id}")).days
    return FamilyAge(
        id=family.id,
        label=family.label,
        facts=facts,
        as_of=oldest,
        age_days=age,
        shelf_days=family.shelf_days,
        stale=None if age is None else age > family.shelf_days,
        source=family.source,
        refresh=family.refresh,
        by=family.by,
        files=family.files,
        oldest=f"{row} ({oldest_day})" if row else None,
    )


def _date_rows(family: FactFamily, rules: Catalog) -> Iterator[tuple[str, str]]:
    """(day, name) of each file of a family that has one; where entries name days of their own, of each entry."""
    if family.table == "accelerators":
        named = ((max(_DAY.findall(a.source), default=""), i) for i, a in rules.accelerators().items())
        yield from (x for x in named if x[0])
    if family.table == "cloud_offers":
        yield from ((o.date, f"{o.provider} {o.name}") for o in rules.cloud_offers())
    for path in rules.document_paths():
        if _holds(family, path) and (day := _day(rules, path)) is not None:
            yield day, path


class _Dated(msgspec.Struct, frozen=True):
    """What of a rule file tells its day; all else is passed over."""

    as_of: str = ""
    source: str | list[str] | dict[str, str] = ""


def _holds(family: FactFamily, path: str) -> bool:
    return any(fnmatchcase(path, x) for x in family.files)


def _day(rules: Catalog, path: str) -> str | None:
    """The day a file was last gone through: its `as_of`, else the newest day that its source names."""
    dated = rules.read_document(path, _Dated)
    return max(_DAY.findall(dated.as_of or str(dated.source)), default=None)


def _count(family: FactFamily, documents: Mapping[str, object], rules: Catalog) -> int:
    if family.table:
        return len(getattr(rules, _TABLES[family.table])())
    return sum(_count_entries(d) for p, d in documents.items() if _holds(family, p))


_TABLES = {
    "engines": "engines",
    "accelerators": "accelerators",
    "models": "model_ids",
    "cloud_offers": "cloud_offers",
    "quantizations": "quantizations",
}


def _count_entries(document: object) -> int:
    """How many facts a file holds: the entries of its largest table."""
    parts = document.values() if isinstance(document, dict) else ()
    return max((len(x) for x in parts if isinstance(x, (list, dict))), default=1)


def _list_behind(rules: Catalog) -> tuple[EngineBehind, ...]:
    if not rules.has_document(RELEASES):
        return ()
    file, out = decode_document(rules, RELEASES, ReleasesFile), []
    for engine_id, release in file.releases.items():
        entry = rules.engines().get(engine_id)
        if entry is None or not entry.version:
            continue
        mine, newest = version_key(entry.version), version_key(release.version)
        if mine and newest and mine < newest:
            out.append(
                EngineBehind(
                    engine=engine_id,
                    package=release.package,
                    facts_of=entry.version,
                    newest=release.version,
                    seen=file.as_of,
                )
            )
    return tuple(out)
