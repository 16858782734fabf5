"""Flags: every name that an engine's entry gives a setting is one its server takes; the tables of flags themselves."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.catalog.flaws import At
from advisor.engines.flag_tables import (
    FlagHistory,
    FlagTable,
    SettingEffects,
    add_history,
    is_span,
    list_spans,
    release_key,
)
from advisor.lint.faults import Fault, nearest_names
from advisor.lint.house import House, RuleDocument, TypedPart
from advisor.lint.reading import EntryPlace
from advisor.memo import memoize_by_identity

RESOURCES = "checks/resources.yaml"
TYPES = ("int", "float", "json", "str", "flag")
PARSERS = ("argparse", "clap", "click", "exact")
ABBREVIATING = ("argparse", "clap")


def find_flag_table(engine: str, house: House) -> FlagTable | None:
    """What the server of an engine takes; None where no table was made."""
    found = _in_force(f"flags/{engine}.yaml", house)
    if found is None:
        return None
    table: FlagTable = found.value
    if table.unread is not None:
        return None
    if table.same_as is None:
        return _joined(table, house)
    other = _in_force(f"flags/{table.same_as}.yaml", house)
    return None if other is None else _joined(other.value, house)


def _joined(table: FlagTable, house: House) -> FlagTable:
    history = _in_force(f"flag-history/{table.engine}.yaml", house)
    if history is None or not _is_sound(history.value):
        return table
    return add_history(table, history.value)


@memoize_by_identity
def _is_sound(history: FlagHistory) -> bool:
    return all(is_span(text, history) for _, spans in list_spans(history) for text in spans)


def _in_force(path: str, house: House) -> RuleDocument | None:
    """The table as it stands, or as it stood in a lower folder where the overlay's is faulty."""
    return house.flawless.get(path) or house.documents.get(path)


def list_setting_names(table: FlagTable) -> set[str]:
    """Every name a setting of this server may have: flags in all spellings, variables, what it had before."""
    out = {s.lstrip("-") for s in table.spellings()} | {f.e for f in table.flags.values() if f.e}
    out |= {*table.settings, *table.variables, *table.left(), *table.left_variables(), *table.positional}
    out |= {*table.gone_before_reading, *table.other_variables}
    return out | {*table.modelfile_parameters, *table.deprecated_parameters}


def is_known_setting(name: str, table: FlagTable, whole: bool = False) -> bool:
    """Whether a server takes a setting of this name. With argparse an unambiguous beginning does, unless `whole`."""
    plain = name.replace("_", "-")
    spellings = {n.replace("_", "-"): n for n in list_setting_names(table)}
    if plain in spellings:
        return True
    if whole or table.parser not in ABBREVIATING:
        return False
    return len({f for f in table.flags if f.replace("_", "-").startswith(plain)}) == 1


def flag_faults(house: House, part: TypedPart, at: At, name: str) -> Iterator[Fault]:
    """A fault where the engine that a part of the rules is about has no setting of this name."""
    engine = getattr(part.entry, "id", None)
    table = find_flag_table(engine, house) if isinstance(engine, str) else None
    if table is not None:
        other = "a key of a file: list it there under `settings`; a word without a flag, like the model: `positional`"
        yield from unknown_setting(part.place, at, name, table, hint=f" ({other})", file=str(engine))


def unknown_setting(
    place: EntryPlace, at: At, name: str, table: FlagTable, what: str = "flag", hint: str = "", file: str = "",
    whole: bool = False,
) -> Iterator[Fault]:  # fmt: skip
    """A fault where a server has no setting of this name; `file`: the engine whose file is named."""
    plain = name.lstrip("-")
    if not is_known_setting(plain, table, whole):
        problem = f"{name!r} is not a {what} in rules/flags/{file or table.engine}.yaml{hint}"
        yield place.field("unknown_name", at, problem, nearest_names(plain, list_setting_names(table)))


def find_flags_faults(house: House) -> Iterator[Fault]:
    """What is wrong with the tables of flags, and with what resources call flags."""
    if RESOURCES in house.documents:
        yield from _resources(house, house.documents[RESOURCES])
    for path, document in house.under("flag-history/").items():
        yield from _history(path, document, document.value)
    for path, document in house.under("flags/").items():
        table: FlagTable = document.value
        if table.engine != path.removeprefix("flags/").removesuffix(".yaml"):
            problem = f"the file of engine {table.engine!r} is flags/{table.engine}.yaml"
            yield document.place.field("wrong_value", ("engine",), problem)
        if table.unread is not None:
            if table.flags or table.same_as:
                yield document.place.field("contradiction", ("unread",), "the table is there, so it was read")
        elif table.same_as is not None:
            yield from _borrowed(house, document, table)
        else:
            yield from _table(document, _joined(table, house))


def _history(path: str, document: RuleDocument, history: FlagHistory) -> Iterator[Fault]:
    place = document.place
    if history.engine != path.removeprefix("flag-history/").removesuffix(".yaml"):
        problem = f"the file of engine {history.engine!r} is flag-history/{history.engine}.yaml"
        yield place.field("wrong_value", ("engine",), problem)
    if list(history.read) != sorted(history.read, key=release_key):
        yield place.field("wrong_value", ("read",), "releases stand from the oldest to the newest")
    for at, spans in list_spans(history):
        for text in spans:
            if not is_span(text, history):
                problem = f"{text!r} is not FIRST..LAST of releases in `read`"
                yield place.field("wrong_value", (*at, text), problem)
    for flag, listed in history.values.items():
        for end in ("read_since", "read_until"):
            if getattr(listed, end) not in (*history.read, None):
                problem = f"{getattr(listed, end)!r} is not one of the releases in `read`"
                yield place.field("unknown_name", ("values", flag, end), problem)


def _resources(house: House, document: RuleDocument) -> Iterator[Fault]:
    """What custom resources and charts call a flag is one of the engine that they start."""
    for name, resource in document.value.resources.items():
        table = find_flag_table(resource.engine, house)
        for key, flag in resource.flags.items() if table is not None else ():
            assert table is not None
            yield from unknown_setting(document.place, ("resources", name, "flags", key), flag, table)


def _borrowed(house: House, document: RuleDocument, table: FlagTable) -> Iterator[Fault]:
    other = house.documents.get(f"flags/{table.same_as}.yaml")
    if other is None:
        yield document.place.field("unknown_name", ("same_as",), f"there is no flags/{table.same_as}.yaml")
    elif other.value.same_as is not None:
        yield document.place.field("wrong_value", ("same_as",), f"{table.same_as} has no table of its own either")
    if table.flags:
        yield document.place.field("contradiction", ("flags",), "a table that is `same_as` another has no flags itself")


def _effects(document: RuleDocument, effects: SettingEffects, table: FlagTable) -> Iterator[Fault]:
    """Each setting that is there has one effect."""
    own = {*list_setting_names(table), *table.modelfile_instructions}
    known, seen = {n.replace("_", "-") for n in own}, set[str]()
    for part in ("read", "elsewhere", "raises", "lowers", "memory", "start", "speed"):
        for name in getattr(effects, part):
            plain = name.replace("_", "-")
            foreign = name.isupper() and not (table.variable_prefix and name.startswith(table.variable_prefix))
            if not foreign and plain not in known and plain.removeprefix("no-") not in known:
                problem = f"{name!r} is no setting of this server"
                yield document.place.field("unknown_name", ("effects", part, name), problem, nearest_names(name, own))
            if name in seen:
                yield document.place.field("duplicate_name", ("effects", part, name), f"{name} has an effect already")
            seen.add(name)
    if seen and not effects.source:
        yield document.place.field("source", ("effects",), "names no source")


def _table(document: RuleDocument, table: FlagTable) -> Iterator[Fault]:
    place = document.place
    yield from _effects(document, table.effects, table)
    for field in ("version", "source"):
        if not getattr(table, field):
            yield place.fault("missing_key", f"`{field}` is missing: which parser was read, and when")
    if table.parser not in PARSERS:
        yield place.field("wrong_value", ("parser",), f"{table.parser!r} is not one of {', '.join(PARSERS)}")
    owner: dict[str, str] = {}
    for name, flag in table.flags.items():
        if name.startswith("-"):
            yield place.field("wrong_value", ("flags", name), "a flag's name is written without dashes")
        if flag.t not in TYPES:
            problem = f"type {flag.t!r} is not one of {', '.join(TYPES)}"
            yield place.field("wrong_value", ("flags", name, "t"), problem, nearest_names(flag.t, TYPES))
        for i, alias in enumerate(flag.a):
            if not alias.startswith("-"):
                yield place.field(
                    "wrong_value", ("flags", name, "a", i), f"spelling {alias!r} is written with its dashes"
                )
        for spelling in (f"--{name}", *flag.a):
            first = owner.setdefault(spelling, name)
            if first != name and spelling.startswith("--"):  # TGI itself gives -p to two flags
                yield place.field("duplicate_name", ("flags", name), f"{spelling} is also a spelling of {first}")
        low, high = (
            flag.least if flag.least is not None else flag.above,
            flag.most if flag.most is not None else flag.below,
        )
        if low is not None and high is not None and low > high:
            yield place.field("range", ("flags", name), f"takes numbers from {low:g} to {high:g}, which are none")
    left = {*table.left(), *table.left_variables()} if table.history is not None else set()
    for name in table.instead if table.history is not None else ():
        if name not in left:
            problem = (
                f"{name!r} is nothing that left: rules/flag-history/{table.engine}.yaml has it to the end, or never"
            )
            yield place.field("unknown_name", ("instead", name), problem, nearest_names(name, left))
