"""Values of one engine's settings as those of another, by what they mean (rules/migrations.yaml)."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.advice.migrate_types import MigrationsFile, SettingConcept
from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.deployment import Setting
from advisor.engines.base import FALSE, TRUE
from advisor.engines.flag_tables import FlagEntry, FlagTable, load_flag_table
from advisor.engines.flags import find_concept
from advisor.engines.versions import pick_version
from advisor.launch_values import LaunchValues
from advisor.record import Value


class TranslatedValues(Value, frozen=True):
    """What a launch sets, for another engine."""

    settings: dict[str, Setting]  # under the new engine's own names
    notes: dict[str, str]  # concept -> what became of its value, where it is not simply the same
    length: int | None = None  # tokens of one request
    requests: int | None = None
    ranks: int | None = None  # cards of one copy, as stated
    all_devices: bool = False  # it takes every card that it sees
    cache_type: str | None = None
    served_name: str | None = None
    least_length: int | None = None  # what the old engine takes unasked on the smallest device


class _Way(Value, frozen=True):
    """From which engine to which."""

    source: Engine
    target: Engine
    names: tuple[str, str]  # whose words are meant: wrappers have those of what they run
    table: FlagTable | None  # of the new engine
    notes: dict[str, str]  # concept -> what became of its value
    rules: Catalog


def find_flag_owner(entry: Engine) -> str:
    """The engine whose flags an entry takes: a wrapper those of what it runs."""
    return entry.runs[0] if entry.runs and entry.kind != "engine" else entry.id


def list_names(setting_concept: SettingConcept, entry: Engine, rules: Catalog) -> tuple[str, ...]:
    """Every name under which an engine may be given a concept."""
    ids = (entry.id, *entry.runs[:1])
    names = [n for i in ids for n in setting_concept.names.get(i, "").split(", ") if n and not n.startswith("(")]
    if setting_concept.concept is not None:
        for engine_id in ids:
            found = find_concept(rules.engines()[engine_id], setting_concept.concept)
            names += [*found.flags, *found.environment]
    if setting_concept.takes == "length":
        names += [n for i in ids for n in find_concept(rules.engines()[i], "total_context").flags]
    return tuple(dict.fromkeys(names))


def translate_values(
    launch: LaunchValues, source: Engine, target: Engine, file: MigrationsFile, rules: Catalog
) -> TranslatedValues:
    """The settings of a launch for another engine, and what is reported about them."""
    names = find_flag_owner(source), find_flag_owner(target)
    notes: dict[str, str] = {}
    way = _Way(source, target, names, load_flag_table(names[1], rules), notes, rules)
    settings: dict[str, Setting] = {}
    sizes: dict[str, int | None] = {}
    cache = served = None
    for concept in file.concepts:
        value = _find_stated(concept, launch, way)
        if value is None:
            continue
        if concept.takes in ("length", "requests", "ranks"):
            sizes[concept.takes] = _read_size(concept, value, way)
        elif concept.takes == "name":
            served = value.split()[0] if value.split() else None
        elif concept.takes == "type" and concept.concept == "kv_cache_type":
            cache = _translate_word(concept, value, way)
        elif concept.takes not in ("model", "address", "port", "key", "format"):
            for key, translated in _translate_flag(concept, value, way):
                settings[key] = translated
    length, first = sizes.get("length"), next(c for c in file.concepts if c.takes == "length")
    if length is not None and _is_total(launch, way):
        slots = sizes.get("requests") or source.default_slots or 1
        length = max(1, length // slots)
        notes[first.id] = f"{length:,} tokens of each of {slots} slots: there the value is the total"
    ranks = next(c for c in file.concepts if c.takes == "ranks")
    return TranslatedValues(
        settings=settings,
        notes=notes,
        length=length,
        requests=sizes.get("requests"),
        ranks=sizes.get("ranks"),
        all_devices=bool({source.id, way.names[0]} & set(ranks.all_devices)),
        cache_type=cache,
        served_name=served,
        least_length=first.least.get(source.id),
    )


def _find_stated(setting_concept: SettingConcept, launch: LaunchValues, way: _Way) -> str | None:
    """The value of a concept in the launch; None where it is left to the engine."""
    unset = () if setting_concept.concept is None else find_concept(way.source, setting_concept.concept).unset
    for name in list_names(setting_concept, way.source, way.rules):
        value = launch.settings.get(name)
        if value is not None and value not in unset:
            return value
    return None


def _read_size(setting_concept: SettingConcept, value: str, way: _Way) -> int | None:
    try:
        size = int(value)
    except ValueError:
        way.notes[setting_concept.id] = f"{value[:40]} is no whole number, so it is left to the engine"
        return None
    return size if size > 0 else None


def _is_total(launch: LaunchValues, way: _Way) -> bool:
    """Whether the length that was given is that of all slots together."""
    total = find_concept(way.source, "total_context").flags
    shared = find_concept(way.source, "shared_cache").flags
    return any(n in launch.settings for n in total) and not any(launch.settings.get(n) == "true" for n in shared)


def _translate_word(setting_concept: SettingConcept, value: str, way: _Way) -> str | None:
    """The new engine's word for a value of a closed list; None where it has none."""
    row = next((r for r in setting_concept.values if value.lower() in r.get(way.names[0], ())), None)
    words = row.get(way.names[1]) if row is not None else None
    if not words:
        way.notes[setting_concept.id] = f"{way.target.name} has nothing like {value[:40]}; it is left to the engine"
        return None
    return words[0]


def _translate_flag(setting_concept: SettingConcept, value: str, way: _Way) -> Iterator[tuple[str, Setting]]:
    """The settings of a concept that is written as a flag of its own; notes say why there is none."""
    after = [n for n in list_names(setting_concept, way.target, way.rules) if n and way.table is not None]
    found = next(((n, way.table.flags[n]) for n in after if way.table and n in way.table.flags), None)
    differs = setting_concept.only and not {way.names[0], way.names[1]} <= set(setting_concept.only)
    if setting_concept.takes == "hand" and (value.lower() in FALSE or value == "0"):
        return
    if found is None or differs or setting_concept.takes == "hand":
        why = f"{', '.join(after[:2])} {'means something else' if differs else 'has to be set by hand'}"
        why = why if after else f"{way.target.name} has no such setting"
        way.notes[setting_concept.id] = f"{value[:60]} is not translated: {why}"
        return
    flag, entry = found
    translated = _translate(setting_concept, value, entry, way)
    if translated is None:
        return
    if entry.c and str(translated) not in entry.c and not isinstance(translated, bool):
        way.notes[setting_concept.id] = f"{value[:60]} is no value of {flag}; it is left to the engine"
        return
    yield flag, translated


def _translate(setting_concept: SettingConcept, value: str, entry: FlagEntry, way: _Way) -> Setting | None:
    """A value under the new engine's flag; None, with a note, where there is none."""
    if setting_concept.takes == "type":
        return _translate_word(setting_concept, value, way)
    if setting_concept.takes == "share":
        return _share(setting_concept, value, way)
    if setting_concept.takes == "switch":
        return _switch(setting_concept, value, entry, way)
    if setting_concept.takes == "number":
        return _read_size(setting_concept, value, way)
    if value.startswith("-"):
        way.notes[setting_concept.id] = f"{value[:60]} looks like an option; it is left out"
        return None
    return value


def _switch(setting_concept: SettingConcept, value: str, entry: FlagEntry, way: _Way) -> bool | None:
    on = value.lower() in TRUE
    if not on and value.lower() not in FALSE:
        return None
    on ^= way.names[0] in setting_concept.inverted
    on ^= way.names[1] in setting_concept.inverted
    if not on and entry.t == "flag" and not (way.table is not None and way.table.negated):
        return None  # as it is without the flag
    return on


def _share(setting_concept: SettingConcept, value: str, way: _Way) -> float | None:
    """A share of the same thing, at most what the new engine takes by itself."""
    of = tuple(setting_concept.shares.get(n) for n in way.names)
    try:
        share = float(value)
    except ValueError:
        share = 0.0
    if None in of or of[0] != of[1] or not 0 < share <= 1:
        way.notes[setting_concept.id] = (
            f"{value[:20]} of {of[0] or 'what is not known'} there, a share of {of[1] or 'nothing'} here; "
            "it is left to the engine"
        )
        return None
    usual = find_concept(way.target, setting_concept.concept).default if setting_concept.concept else ()
    most = pick_version(usual, way.target.version).number if usual else None
    if most is not None and share > most:
        way.notes[setting_concept.id] = (
            f"{share:g} leaves nothing for the engine's own working memory; {most:g} is its own"
        )
        return None
    return share
