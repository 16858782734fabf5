"""Which flags a version of an engine has, so that no template writes one it lacks."""

from __future__ import annotations

from advisor.engines.flag_tables import FlagTable, load_flag_table
from advisor.engines.versions import version_key


def explain_missing_flag(known: FlagTable | None, flag: str, version: str | None) -> str | None:
    """Why this version of the engine has no such flag; None when it has it or nothing is known."""
    if known is None or not known.flags:
        return None
    v = version_key(version or known.version)
    name = flag.lstrip("-")
    gone = known.gone.get(name)
    if gone is not None and gone.at(version or known.version):
        replaced = gone.instead and not gone.instead.startswith("remove")
        return f"{flag} is gone" + (f"; {gone.instead} took its place" if replaced else "")
    first = next((s for s, names in known.since.items() if name in names), None)
    if first is not None and v and v < version_key(first):
        return f"{flag} came with {first}"
    names = known.spellings()
    listed = flag in names or _positive(flag) in names
    if gone is None and not listed and v <= version_key(known.version):
        return f"{flag} is not a flag of {known.engine} {known.version}"
    return None


def _positive(flag: str) -> str:
    """`--no-x` -> `--x`: parsers make the first from the second."""
    return "--" + flag.removeprefix("--no-") if flag.startswith("--no-") else flag


__all__ = ["FlagTable", "explain_missing_flag", "load_flag_table"]
