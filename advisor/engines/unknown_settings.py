"""Settings that an engine does not have: a slip in a name changes nothing, and whoever made it wants to know."""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.engines.flag_tables import FlagTable, load_flag_table
from advisor.near import near_matches

SHOWN = 60  # characters of a name


def describe_unknown_settings(settings: Collection[str], entry: Engine, rules: Catalog) -> tuple[str, ...]:
    """A sentence for each setting that the engine has under no name in any version that is known; none where the
    engine's flags were not read."""
    table = load_flag_table(entry.id, rules) if settings else None
    if table is None:
        return ()
    known, out = _list_names(entry, table, rules), []
    for name in settings:
        plain = name.lstrip("-").replace("_", "-")
        if not table.flags and not name.isupper():
            continue  # its flags were not read, its variables may have been
        if plain in known or name in known or _is_negated(plain, known) or _is_variable(name, table):
            continue
        near = near_matches(name if name.isupper() else plain, sorted(known), 2)
        shown = name if len(name) <= SHOWN else name[: SHOWN - 3] + "..."
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        out.append(f"setting {shown}: {entry.name} has none of this name, so it changes nothing{meant}")
    return tuple(out)


def _list_names(entry: Engine, table: FlagTable, rules: Catalog) -> frozenset[str]:
    """Every name that a setting of this engine may have, without dashes before it."""
    names = {x.lstrip("-") for x in table.spellings()} | table.left() | set(table.settings) | set(table.variables)
    names |= set(table.modelfile_parameters)
    names |= (
        set(table.other_variables)
        | set(table.deprecated_parameters)
        | set(table.gone_before_reading)
        | table.left_variables()
    )
    names |= {f.e for f in table.flags.values() if f.e}
    for one in (entry, *(rules.engine(x) for x in entry.runs)):
        names |= set(one.memory_settings)
        for concept in msgspec.structs.asdict(one.concepts).values():
            names |= {*getattr(concept, "flags", ()), *getattr(concept, "environment", ())}
    return frozenset(n if n.isupper() else n.replace("_", "-") for n in names)


def _is_negated(name: str, known: frozenset[str]) -> bool:
    """Whether it is a switch in its other spelling: parsers make `--no-x` from `--x`."""
    for prefix, other in (("no-", ""), ("disable-", "enable-"), ("enable-", "disable-")):
        if name.startswith(prefix) and other + name.removeprefix(prefix) in known:
            return True
    return f"no-{name}" in known


def _is_variable(name: str, table: FlagTable) -> bool:
    """Whether it is an environment variable that something else may read: a plugin, a library, a driver."""
    if not name.isupper():
        return False
    if not table.variables or table.variable_prefix is None or not name.startswith(table.variable_prefix):
        return True
    return table.plugin_variables is not None and re.search(table.plugin_variables, name) is not None
