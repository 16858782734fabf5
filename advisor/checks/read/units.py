"""systemd units: `ExecStart=` with what else the unit sets."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from advisor.checks.knowledge import is_told_by_variables
from advisor.checks.read import systemd as systemd_words
from advisor.checks.read.context import ReaderContext, make_finder, make_launches
from advisor.checks.read.launch import Launch, LaunchSetup
from advisor.checks.read.located_text import Text, lines_of, make_text
from advisor.checks.read.scripts_beside import make_script_reader

_UNIT_WORDS = frozenset(
    [
        "After",
        "Wants",
        "Restart",
        "RestartSec",
        "MemoryMax",
        "User",
        "Group",
        "SupplementaryGroups",
        "PrivateDevices",
        "ProtectHome",
        "ProtectSystem",
        "TimeoutStartSec",
        "DynamicUser",
    ]
)


def read_systemd(source: str, ctx: ReaderContext) -> list[Launch]:
    """The launch of a unit: ExecStart with Environment= and what else is set; drop-ins may have no ExecStart."""
    section = ""
    env: dict[str, Text] = {}
    unit: dict[str, str] = {}
    places: dict[str, int] = {}
    starts: list[Text] = []
    for n, line in _logical_lines(source, ctx.line):
        m = re.match(r"\s*\[([A-Za-z]+)\]\s*$", line)
        if m:
            section = m[1]
            continue
        key, eq, value = line.partition("=")
        key, value = key.strip(), value.strip()
        if not eq or key.startswith(("#", ";")):
            continue
        if key == "Environment" and section == "Service":
            for word in systemd_words.split_exec_words(value, n):
                k, has, v = word.partition("=")
                if has:
                    env[k] = make_text(v, n)
        elif key == "ExecStart" and section == "Service" and value:
            starts.append(make_text(value.lstrip("@-:+!"), n, line.index("=") + 2))
        elif key == "EnvironmentFile" and section == "Service" and value:
            places["envFrom"] = n
        elif key in _UNIT_WORDS:
            unit[key] = f"{unit[key]} {value}" if key in ("After", "Wants") and key in unit else value
            places[key] = n
    from advisor.checks.read.docker_run import parse_container_size

    limit = parse_container_size(unit.get("MemoryMax")) if unit.get("MemoryMax") else None
    setup = LaunchSetup(unit={"present": "yes", **unit}, places=places, memory_limit=limit, user=unit.get("User"))
    out: list[Launch] = []
    for start in starts:
        known = dict(env.items())
        words = systemd_words.split_exec_words(start, start.line, start.column, known)
        found = make_finder(ctx, make_script_reader(ctx)).command(words, env, start.line)
        out += make_launches(ctx, "systemd", found, None, setup)
    engine = _by_prefix(env, ctx)
    if not starts and engine is not None:
        out.append(
            Launch(
                file=ctx.file,
                line=min(v.line for v in env.values()),
                kind="systemd",
                engine=engine,
                env=env,
                setup=setup,
            )
        )
    return [msgspec.structs.replace(x, setup=setup) if not x.setup.container else x for x in out]


def _by_prefix(env: Mapping[str, Text], ctx: ReaderContext) -> str | None:
    """The engine, told by variables, that a drop-in file with nothing else sets up; by their prefix."""
    for engine, _ in ctx.know.env_files:
        table = ctx.know.flags(engine)
        prefix = table.table.variable_prefix if table is not None and is_told_by_variables(table) else None
        if prefix and any(k.startswith(prefix) for k in env):
            return engine
    return None


def _logical_lines(source: str, first: int) -> list[tuple[int, str]]:
    out: list[tuple[int, str]] = []
    pending, begin = "", first
    for n, line in enumerate(lines_of(source), first):
        if not pending:
            begin = n
        if line.rstrip().endswith("\\") and not line.lstrip().startswith(("#", ";")):
            pending += line.rstrip()[:-1] + " "
            continue
        out.append((begin, pending + line))
        pending = ""
    if pending:
        out.append((begin, pending))
    return out


__all__ = ["read_systemd"]
