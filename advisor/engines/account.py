"""An account of the settings of a launch: which of them laws read, which matter and have no law, which change nothing.

What bears on start, memory and speed stands in the tables of flags (`effects` in rules/flags/<engine>.yaml) and, for
variables of the libraries beneath any engine, in rules/variables.yaml; tests/engines ties both to what the laws read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Literal

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.catalog.types import Engine
from advisor.deployment import SettingsAccount
from advisor.engines.additions import list_draft_settings
from advisor.engines.base import FALSE
from advisor.engines.flag_tables import FlagTable, SettingEffects, load_flag_table
from advisor.memo import memoize_by_identity
from advisor.record import Value

Bearing = Literal["memory", "start", "speed"]
VARIABLES = "variables.yaml"
# concepts that no estimate rests on
_BESIDE = (
    "model", "model_repository", "model_file", "model_address", "served_name", "prompt_length", "prefix_caching",
    "no_prefix_caching", "address", "port", "api_key", "nodes",
)  # fmt: skip
_OFF = {*FALSE, "none", "null", ""}


class _Names(Value, frozen=True):
    """What settings of one engine are called."""

    known: Mapping[str, str]  # every name, without dashes -> the one under which it is listed
    read: frozenset[str]  # by laws, or by what reads launches
    deciding: frozenset[str]  # of these: estimates rest on them
    idle: frozenset[str]  # in every spelling
    switches: frozenset[str]  # they take no value
    variables: frozenset[str]  # of the environment, but for those that stand for flags
    effects: tuple[SettingEffects, ...]  # its own, then those of the libraries beneath


def take_account(settings: Mapping[str, object], entry: Engine, rules: Catalog) -> SettingsAccount:
    """Each setting and variable in one place: read, named with what has no law, or without effect. Names that the
    engine does not have are left out, but for variables: those it does not read."""
    if not settings or load_flag_table(entry.id, rules) is None:
        return SettingsAccount()
    names = _names(rules, entry.id)
    out: dict[str, dict[str, None]] = {"raises": {}, "lowers": {}, "others": {}, "unused": {}}
    for written, value in settings.items():
        plain = written.lstrip("-")
        name = (
            names.known.get(plain) or names.known.get(plain.replace("_", "-")) or (plain if plain.isupper() else None)
        )
        others = () if name is None else _list_other_keys(value, names.effects[0].keys.get(name))
        if others:
            out["raises"][f"{written}: {', '.join(others)} of the model is replaced"] = None
        if name is None or name in names.read or any(name in x.elsewhere for x in names.effects):
            continue
        off, key = _is_off(value, plain, name), name
        if off and name in names.switches:
            off, key = False, f"no-{name}"  # which matters where it is on by default
        part, why = next((x for x in _find_effects(key, names.effects) if not off or x[0] == "others"), ("unused", ""))
        out[part][f"{written}: {why}" if why else str(written)] = None
    return SettingsAccount(**{k: tuple(v) for k, v in out.items()})


def _find_effects(name: str, effects: Iterable[SettingEffects]) -> Iterator[tuple[str, str]]:
    """(part of an account, reason) of what matters."""
    for listed in effects:
        others = {**listed.memory, **listed.start, **listed.speed}
        for part, reasons in (("raises", listed.raises), ("lowers", listed.lowers), ("others", others)):
            if name in reasons:
                yield part, reasons[name]


def _list_other_keys(value: object, known: tuple[str, ...] | None) -> tuple[str, ...]:
    """The keys of a JSON object that are not among the known; none of what is no such object."""
    if known is None:
        return ()
    try:
        body = msgspec.json.decode(value) if isinstance(value, str) else value
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ()
    return tuple(str(k)[:60] for k in body if k not in known) if isinstance(body, dict) else ()


def _is_off(value: object, plain: str, name: str) -> bool:
    """Whether a setting is switched off, by its value or by its spelling."""
    first = {plain.partition("-")[0], name.partition("-")[0]}
    negative = plain != name and (plain.startswith(("no-", "no_")) or first == {"enable", "disable"})
    return (str(value).strip().lower() in _OFF) is not negative


def find_bearing(name: str, entry: Engine, rules: Catalog) -> Bearing | None:
    """What a flag or variable bears on; None where it changes none of it."""
    names = _names(rules, entry.id)
    if name in names.deciding:
        return "memory"
    for listed in names.effects:
        if name in {**listed.raises, **listed.lowers, **listed.memory}:
            return "memory"
        if name in listed.start or name in listed.speed:
            return "start" if name in listed.start else "speed"
    return None


def list_effects(effects: SettingEffects) -> tuple[str, ...]:
    """Every name that is listed."""
    return (*effects.read, *effects.elsewhere, *list_unread(effects))


def list_unread(effects: SettingEffects) -> tuple[str, ...]:
    """The names that matter and that no law reads."""
    return (*effects.raises, *effects.lowers, *effects.memory, *effects.start, *effects.speed)


def list_deciding_settings(entry: Engine, rules: Catalog) -> frozenset[str]:
    """The settings of an engine that estimates rest on: those that its concepts and drafts name, and those of its
    table."""
    return _names(rules, entry.id).deciding


def list_known_variables(entry: Engine, rules: Catalog) -> frozenset[str]:
    """The environment variables that the engine, or a library beneath it, is known to read, but for those that stand
    for flags."""
    return _names(rules, entry.id).variables


def list_idle_settings(entry: Engine, rules: Catalog) -> frozenset[str]:
    """The settings that many models have no use for, in every spelling."""
    return _names(rules, entry.id).idle


def _list_named_by_memory(memory: Mapping[str, Any]) -> Iterator[str]:
    """The settings that an engine's memory constants name: what replaces its pool, allows lengths, names adapters."""
    for names in memory.get("switches", {}).values():
        yield from names
    yield from memory.get("lengths", {}).get("allowed_by", ())
    yield from memory.get("lora", {}).get("given", ())


@memoize_by_identity
def _names(rules: Catalog, engine_id: str) -> _Names:
    table = load_flag_table(engine_id, rules) or FlagTable(engine=engine_id)
    common, entry = decode_document(rules, VARIABLES, SettingEffects), rules.engine(engine_id)
    named: dict[str, tuple[str, ...]] = {}
    for one in (entry, *(rules.engine(x) for x in entry.runs)):  # a wrapper's settings may be those of what it runs
        for k, c in msgspec.structs.asdict(one.concepts).items():
            named[k] = (*named.get(k, ()), *getattr(c, "flags", ()), *getattr(c, "environment", ()))
    known = {n: n for n in (
        *table.settings, *table.variables, *table.modelfile_parameters, *table.modelfile_instructions, *table.left(),
        *table.left_variables(), *table.other_variables, *table.deprecated_parameters, *table.gone_before_reading,
        *chain(*named.values()), *list_effects(table.effects), *list_effects(common),
    )}  # fmt: skip
    for name, flag in table.flags.items():
        if flag.t == "flag" and table.negated:
            known |= {f"no-{name}": name, name.replace("enable-", "disable-", 1): name}
    known |= {spelling.lstrip("-"): name for spelling, name in table.spellings().items()}
    flags = {flag.e: name for name, flag in table.flags.items() if flag.e}
    deciding = (
        *chain(*(n for k, n in named.items() if k not in _BESIDE)),
        *list_draft_settings(entry),
        *_list_named_by_memory(entry.memory),
        *table.effects.read,
    )
    read = (*deciding, *chain(*named.values()), *table.positional)
    read += tuple(entry.device_choice.names) if entry.device_choice is not None else ()
    return _Names(
        known={**known, **flags},
        read=frozenset(n for x in read for n in (x, known.get(x, x))),
        deciding=frozenset(n for x in deciding for n in (x, known.get(x, x))),
        idle=frozenset(n for n, name in known.items() if name in table.effects.idle or n in table.effects.idle),
        switches=frozenset(name for name, flag in table.flags.items() if flag.t == "flag"),
        variables=frozenset(n for n in (*known, *read) if n.isupper() and n not in flags and n not in named["api_key"]),
        effects=(table.effects, common),
    )
