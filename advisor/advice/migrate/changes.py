"""`migrate`: what changes on the way from one engine to another: flags, defaults, formats, features, clients."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from advisor.advice.migrate.launch import Translation
from advisor.advice.migrate.translate import MigrationRequest, translate_launch
from advisor.advice.migrate.values import find_flag_owner, list_names
from advisor.advice.migrate_types import (
    FILE,
    Migration,
    MigrationsFile,
    SettingChange,
    SettingConcept,
)
from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.types import Engine
from advisor.decision.filters import FEATURE_WORDS
from advisor.errors import BadInput
from advisor.launch_values import LaunchValues
from advisor.session import Session


def migrate(
    source: str,
    target: str,
    session: Session,
    given: LaunchValues | None = None,
    request: MigrationRequest | None = None,
) -> Migration:
    """What changes from engine `source` to `target`; `given` is the launch that is to be migrated, `request` what the
    user says next to it.

    Raises UnknownName for an engine, BadInput where both are the same or the target is none to move to.
    """
    rules = session.rules
    entry, engine = rules.engine(source), rules.engine(target)
    file = decode_document(rules, FILE, MigrationsFile)
    if engine.id in file.not_targets:
        raise BadInput(_explain_refusal(target, engine, file, rules))
    if entry.id == engine.id:
        raise BadInput(f"{entry.name} to {engine.name} is no migration; name two engines")
    launch = given or LaunchValues(engine=entry.id)
    made = translate_launch(launch, entry, engine, file, session, request or MigrationRequest())
    stated = given is not None and bool(given.settings or given.model)
    settings = _settings(file, launch if stated else None, made, entry, engine, rules)
    known = {*file.kept_variables, *(n for c in file.concepts for n in list_names(c, entry, rules))}
    formats = [k for k, s in entry.formats.items() if s.support == "yes"]
    taken = {k for k, s in engine.formats.items() if s.support in ("yes", "partial")} | ({"any"} & set(engine.formats))
    archived = f"{engine.name} is archived: {engine.health.note or 'no further releases'}"
    return Migration(
        source=entry.id,
        target=engine.id,
        names=(entry.name, engine.name),
        settings=tuple(settings),
        unknown=tuple(sorted(n for n in launch.settings if n not in known)),
        says=tuple(_list_remarks(file, entry, engine)),
        formats_lost=tuple(f for f in formats if f not in taken and "any" not in taken),
        lost=tuple(_features(entry, engine)),
        gained=tuple(_features(engine, entry, gained=True)),
        warnings=(archived,) if engine.health.status == "archived" else (),
        sources=f"{file.source}; {file.as_of}",
        launch=made.launch if isinstance(made, Translation) else None,
        next=None if isinstance(made, Translation) else made,
    )


def _explain_refusal(said: str, engine: Engine, file: MigrationsFile, rules: Catalog) -> str:
    """Why an engine is none to move to, and which are."""
    served = next(c for c in file.concepts if c.takes == "length").names  # those whose settings can be written
    offered = [
        e.id
        for e in rules.engines().values()
        if e.default_for or (e.health.status == "active" and e.id in served and e.id not in file.not_targets)
    ]
    return (
        f"{said} is not something to migrate to: {engine.name} is {file.not_targets[engine.id]}. "
        f"Name an engine: {', '.join(offered)}"
    )


def _settings(
    file: MigrationsFile,
    launch: LaunchValues | None,
    made: Translation | str,
    entry: Engine,
    engine: Engine,
    rules: Catalog,
) -> list[SettingChange]:
    out = []
    written = made.written if isinstance(made, Translation) else {}
    notes: Mapping[str, str] = made.notes if isinstance(made, Translation) else {}
    for setting_concept in file.concepts:
        change = _setting(setting_concept, entry, engine)
        value = _find_value(setting_concept, launch, entry, rules)
        new = written.get(setting_concept.id)
        if change.before is None and change.after is None:
            continue
        if launch is not None and value is None and new is None and setting_concept.takes != "model":
            continue
        note = "; ".join(n for n in (notes.get(setting_concept.id), change.note) if n) or None
        out.append(replace(change, value=value, written=new, note=note))
    return out


def _find_value(
    setting_concept: SettingConcept, launch: LaunchValues | None, entry: Engine, rules: Catalog
) -> str | None:
    """What the launch sets a concept to, as it writes it; never a key."""
    if launch is None:
        return None
    if setting_concept.takes == "key":
        return "(set)" if launch.keyed else None
    own = {"model": launch.model, "address": launch.host, "port": None if launch.port is None else str(launch.port)}
    if setting_concept.takes in own:
        return own[setting_concept.takes]
    found = [launch.settings[n] for n in list_names(setting_concept, entry, rules) if n in launch.settings]
    return ", ".join(dict.fromkeys(found)) or None


def _find_own(by_engine: Mapping[str, str], entry: Engine) -> str | None:
    """What is stated of an engine, else of the one whose flags it takes."""
    return by_engine.get(entry.id) or by_engine.get(find_flag_owner(entry))


def _setting(setting_concept: SettingConcept, entry: Engine, engine: Engine) -> SettingChange:
    names, defaults, said = setting_concept.names, setting_concept.defaults, setting_concept.notes
    notes = [_find_own(said, engine), said.get(entry.id)]
    return SettingChange(
        id=setting_concept.id,
        label=setting_concept.label,
        before=_find_own(names, entry),
        after=_find_own(names, engine),
        default_before=_find_own(defaults, entry),
        default_after=_find_own(defaults, engine),
        note="; ".join(dict.fromkeys(n for n in notes if n)) or None,
    )


def _list_remarks(file: MigrationsFile, source: Engine, target: Engine) -> list[str]:
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
