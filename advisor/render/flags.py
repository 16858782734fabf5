"""Which flags a version of an engine has (rules/flags/<engine>.yaml), so that no template writes one it lacks."""

from __future__ import annotations

from functools import lru_cache

from advisor.catalog import Catalog
from advisor.catalog.documents import typed
from advisor.engines.versions import key
from advisor.errors import UnknownName
from advisor.record import Record


class FlagTable(Record, frozen=True, kw_only=True):
    """Flags of one server program as its parser of `version` has them, and what changed before."""

    engine: str
    version: str = ""
    source: str = ""
    same_as: str | None = None  # the engine whose server it starts, and whose table is meant
    positional: tuple[str, ...] = ()
    flags: dict[str, tuple[str, ...]] = {}  # kind of value -> names; `switch` takes none
    choices: dict[str, tuple[str, ...]] = {}
    several: tuple[str, ...] = ()
    aliases: dict[str, tuple[str, ...]] = {}
    since: dict[str, tuple[str, ...]] = {}  # first version seen with them -> names
    gone: dict[str, dict[str, str]] = {}

    def names(self) -> dict[str, str]:
        """Every spelling -> its own name."""
        own = [n for kind in self.flags.values() for n in kind] + list(self.choices)
        return {n: n for n in own} | {a: n for n, others in self.aliases.items() for a in others}


@lru_cache(maxsize=32)
def table(engine_id: str, rules: Catalog) -> FlagTable | None:
    """The flags of an engine's server; None where they were not read."""
    try:
        found = typed(rules, f"flags/{engine_id}.yaml", FlagTable)
        return typed(rules, f"flags/{found.same_as}.yaml", FlagTable) if found.same_as else found
    except UnknownName:
        return None


def lacking(known: FlagTable | None, flag: str, version: str | None) -> str | None:
    """Why this version of the engine has no such flag; None when it has it or nothing is known."""
    if known is None:
        return None
    v = key(version or known.version)
    gone = known.gone.get(flag)
    if gone is not None and v:
        instead = f"; {gone['instead']} took its place" if "instead" in gone else ""
        if ("from" in gone and v >= key(gone["from"])) or ("after" in gone and v > key(gone["after"])):
            return f"{flag} is gone{instead}"
    first = next((s for s, names in known.since.items() if flag in names), None)
    if first is not None and v and v < key(first):
        return f"{flag} came with {first}"
    names = known.names()
    listed = flag in names or _positive(flag) in names
    if gone is None and not listed and v <= key(known.version):
        return f"{flag} is not a flag of {known.engine} {known.version}"
    return None


def _positive(flag: str) -> str:
    """`--no-x` -> `--x`: parsers make the first from the second."""
    return "--" + flag.removeprefix("--no-") if flag.startswith("--no-") else flag
