"""Which flags a version of an engine has, so that no template writes one it lacks."""

from __future__ import annotations

from advisor.engines.flag_tables import FlagTable, find_presence, load_flag_table
from advisor.engines.versions import version_key


def explain_missing_flag(known: FlagTable | None, flag: str, version: str | None) -> str | None:
    """Why this version of the engine has no such flag; None when it has it or nothing is known."""
    if known is None or not known.flags:
        return None
    v = version_key(version or known.version)
    name = flag.lstrip("-")
    presence = find_presence(known.history, name, version or known.version) if known.history is not None else None
    if presence is not None and presence.has is False:
        instead = known.instead.get(name, "remove")
        if presence.last is None:
            return f"{flag} came with {presence.following}"
        return f"{flag} is gone" + ("" if instead.startswith("remove") else f"; {instead} took its place")
    names = known.spellings()
    listed = flag in names or _positive(flag) in names
    if presence is None and not listed and v <= version_key(known.version):
        return f"{flag} is not a flag of {known.engine} {known.version}"
    return None


def _positive(flag: str) -> str:
    """`--no-x` -> `--x`: parsers make the first from the second."""
    return "--" + flag.removeprefix("--no-") if flag.startswith("--no-") else flag


__all__ = ["FlagTable", "explain_missing_flag", "load_flag_table"]
