"""`migrate`: what changes on the way from one engine to another: flags, defaults, formats, features, clients."""

from __future__ import annotations

from typing import Any

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import typed
from advisor.catalog.types import Engine
from advisor.decision.filters import FEATURE_WORDS
from advisor.errors import BadInput
from advisor.meanings import EngineId
from advisor.record import Record

FILE = "migrations.yaml"
SAME = "same"


class _Concept(msgspec.Struct, frozen=True):
    id: str
    label: str
    names: dict[EngineId, str]
    defaults: dict[EngineId, str] = {}
    notes: dict[EngineId, str] = {}


class _Pair(msgspec.Struct, frozen=True, rename={"source": "from", "target": "to"}):
    source: str
    target: str
    says: list[str]
    except_to: list[EngineId] = []


class MigrationsFile(msgspec.Struct, frozen=True):
    """rules/migrations.yaml."""

    source: str
    as_of: str
    concepts: list[_Concept]
    pairs: list[_Pair]


class Setting(Record, frozen=True, kw_only=True):
    """One thing that is set: its name here and there, what each does unasked, what to mind."""

    id: str
    label: str
    before: str | None  # None = the engine has no such setting
    after: str | None
    value: str | None = None  # as the launch that is migrated sets it
    default_before: str | None = None
    default_after: str | None = None
    note: str | None = None


class Migration(Record, frozen=True, kw_only=True):
    """What changes between two engines."""

    source: str
    target: str
    names: tuple[str, str]
    settings: tuple[Setting, ...]
    unknown: tuple[str, ...]  # settings of the launch that nothing here translates
    says: tuple[str, ...]  # files, clients, operation
    formats_lost: tuple[str, ...]
    lost: tuple[str, ...]  # features that the target lacks or has with limits
    gained: tuple[str, ...]
    warnings: tuple[str, ...]
    sources: str

    def to_dict(self) -> dict[str, Any]:
        """The public JSON of `advise migrate` (advisor/schemas/migrate.json)."""
        d: dict[str, Any] = msgspec.to_builtins(self)
        return d


def migrate(source: str, target: str, rules: Catalog, given: dict[str, str] | None = None) -> Migration:
    """What changes from engine `source` to `target`; `given` are the settings of a launch, by the source's names.

    Raises UnknownName for an engine, BadInput where both are the same.
    """
    a, b = rules.engine(source), rules.engine(target)
    if a.id == b.id:
        raise BadInput(f"{a.name} to {b.name} is no migration; name two engines")
    file = typed(rules, FILE, MigrationsFile)
    used = set(given or {})
    settings = []
    for c in file.concepts:
        before, after = _name(c, a, rules), _name(c, b, rules)
        value = _value(before, given)
        used -= {n for n in (before or "").split(", ") if n}
        if (before is None and after is None) or (given is not None and value is None and c.id != "model"):
            continue
        settings.append(_setting(c, a, b, before, after, value, rules))
    formats = [k for k, s in a.formats.items() if s.support == "yes"]
    taken = {k for k, s in b.formats.items() if s.support in ("yes", "partial")} | ({"any"} & set(b.formats))
    warnings = (
        [f"{b.name} is archived: {b.health.note or 'no further releases'}"] if b.health.status == "archived" else []
    )
    return Migration(
        source=a.id,
        target=b.id,
        names=(a.name, b.name),
        settings=tuple(settings),
        unknown=tuple(sorted(used)),
        says=tuple(_says(file, a, b)),
        formats_lost=tuple(f for f in formats if f not in taken and "any" not in taken),
        lost=tuple(_features(a, b)),
        gained=tuple(_features(b, a, gained=True)),
        warnings=tuple(warnings),
        sources=f"{file.source}; {file.as_of}",
    )


def _inner(e: Engine, rules: Catalog) -> str:
    """The engine whose flags an entry takes: its own, else those of what it runs."""
    return e.id if not e.runs else e.runs[0] if e.kind != "engine" else e.id


def _name(c: _Concept, e: Engine, rules: Catalog) -> str | None:
    return c.names.get(e.id) or c.names.get(_inner(e, rules))


def _value(name: str | None, given: dict[str, str] | None) -> str | None:
    if name is None or not given:
        return None
    found = [given[n] for n in name.split(", ") if n in given]
    return ", ".join(found) or None


def _setting(
    c: _Concept, a: Engine, b: Engine, before: str | None, after: str | None, value: str | None, rules: Catalog
) -> Setting:
    here, there = _inner(a, rules), _inner(b, rules)
    notes = [c.notes.get(b.id) or c.notes.get(there), c.notes.get(a.id) if a.id != b.id else None]
    return Setting(
        id=c.id,
        label=c.label,
        before=before,
        after=after,
        value=value,
        default_before=c.defaults.get(a.id) or c.defaults.get(here),
        default_after=c.defaults.get(b.id) or c.defaults.get(there),
        note="; ".join(dict.fromkeys(n for n in notes if n)) or None,
    )


def _says(file: MigrationsFile, a: Engine, b: Engine) -> list[str]:
    out: list[str] = []
    for p in file.pairs:
        if p.source in (a.id, "any") and p.target in (b.id, "any") and b.id not in p.except_to and p.source != b.id:
            out += p.says
    return list(dict.fromkeys(out))


def _features(a: Engine, b: Engine, gained: bool = False) -> list[str]:
    """Features that `a` has and `b` has not (or with limits), with the note that says why."""
    out = []
    for key, here in a.features.items():
        there = b.features.get(key)
        if here.support != "yes" or there is None or there.support not in ("no", "partial"):
            continue
        words = FEATURE_WORDS.get(key, key.replace("_", " "))
        note = (here.note if gained else there.note) or ""
        limits = "" if there.support == "no" or gained else " with limits"
        out.append(f"{words}{limits}{f': {note}' if note else ''}")
    return out
