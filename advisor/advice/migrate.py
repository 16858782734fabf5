"""`migrate`: what changes on the way from one engine to another: flags, defaults, formats, features, clients."""

from __future__ import annotations

from typing import Any

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.types import Engine
from advisor.decision.filters import FEATURE_WORDS
from advisor.errors import BadInput
from advisor.meanings import EngineId
from advisor.record import Record

FILE = "migrations.yaml"
SAME = "same"


class _SettingConcept(msgspec.Struct, frozen=True):
    id: str
    label: str
    names: dict[EngineId, str]
    defaults: dict[EngineId, str] = {}
    notes: dict[EngineId, str] = {}


class _EnginePair(msgspec.Struct, frozen=True, rename={"source": "from", "target": "to"}):
    source: str
    target: str
    says: list[str]
    except_to: list[EngineId] = []


class MigrationsFile(msgspec.Struct, frozen=True):
    """rules/migrations.yaml."""

    source: str
    as_of: str
    concepts: list[_SettingConcept]
    pairs: list[_EnginePair]


class SettingChange(Record, frozen=True, kw_only=True):
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
    settings: tuple[SettingChange, ...]
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
    entry, engine = rules.engine(source), rules.engine(target)
    if entry.id == engine.id:
        raise BadInput(f"{entry.name} to {engine.name} is no migration; name two engines")
    file = decode_document(rules, FILE, MigrationsFile)
    used = set(given or {})
    settings = []
    for setting_concept in file.concepts:
        before, after = _name(setting_concept, entry, rules), _name(setting_concept, engine, rules)
        value = _value(before, given)
        used -= {n for n in (before or "").split(", ") if n}
        if (before is None and after is None) or (
            given is not None and value is None and setting_concept.id != "model"
        ):
            continue
        settings.append(_setting(setting_concept, entry, engine, before, after, value, rules))
    formats = [k for k, s in entry.formats.items() if s.support == "yes"]
    taken = {k for k, s in engine.formats.items() if s.support in ("yes", "partial")} | ({"any"} & set(engine.formats))
    warnings = (
        [f"{engine.name} is archived: {engine.health.note or 'no further releases'}"]
        if engine.health.status == "archived"
        else []
    )
    return Migration(
        source=entry.id,
        target=engine.id,
        names=(entry.name, engine.name),
        settings=tuple(settings),
        unknown=tuple(sorted(used)),
        says=tuple(_says(file, entry, engine)),
        formats_lost=tuple(f for f in formats if f not in taken and "any" not in taken),
        lost=tuple(_features(entry, engine)),
        gained=tuple(_features(engine, entry, gained=True)),
        warnings=tuple(warnings),
        sources=f"{file.source}; {file.as_of}",
    )


def _inner(entry: Engine, rules: Catalog) -> str:
    """The engine whose flags an entry takes: its own, else those of what it runs."""
    return entry.id if not entry.runs else entry.runs[0] if entry.kind != "engine" else entry.id


def _name(setting_concept: _SettingConcept, entry: Engine, rules: Catalog) -> str | None:
    return setting_concept.names.get(entry.id) or setting_concept.names.get(_inner(entry, rules))


def _value(name: str | None, given: dict[str, str] | None) -> str | None:
    if name is None or not given:
        return None
    found = [given[n] for n in name.split(", ") if n in given]
    return ", ".join(found) or None


def _setting(
    setting_concept: _SettingConcept,
    entry: Engine,
    engine: Engine,
    before: str | None,
    after: str | None,
    value: str | None,
    rules: Catalog,
) -> SettingChange:
    here, there = _inner(entry, rules), _inner(engine, rules)
    notes = [
        setting_concept.notes.get(engine.id) or setting_concept.notes.get(there),
        setting_concept.notes.get(entry.id) if entry.id != engine.id else None,
    ]
    return SettingChange(
        id=setting_concept.id,
        label=setting_concept.label,
        before=before,
        after=after,
        value=value,
        default_before=setting_concept.defaults.get(entry.id) or setting_concept.defaults.get(here),
        default_after=setting_concept.defaults.get(engine.id) or setting_concept.defaults.get(there),
        note="; ".join(dict.fromkeys(n for n in notes if n)) or None,
    )


def _says(file: MigrationsFile, source: Engine, target: Engine) -> list[str]:
    out: list[str] = []
    for engine_pair in file.pairs:
        if (
            engine_pair.source in (source.id, "any")
            and engine_pair.target in (target.id, "any")
            and target.id not in engine_pair.except_to
            and engine_pair.source != target.id
        ):
            out += engine_pair.says
    return list(dict.fromkeys(out))


def _features(entry: Engine, engine: Engine, gained: bool = False) -> list[str]:
    """Features that `entry` has and `engine` has not (or with limits), with the note that says why."""
    out = []
    for key, here in entry.features.items():
        there = engine.features.get(key)
        if here.support != "yes" or there is None or there.support not in ("no", "partial"):
            continue
        words = FEATURE_WORDS.get(key, key.replace("_", " "))
        note = (here.note if gained else there.note) or ""
        limits = "" if there.support == "no" or gained else " with limits"
        out.append(f"{words}{limits}{f': {note}' if note else ''}")
    return out
