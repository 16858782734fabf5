"""systemd units: `ExecStart=` with what else the unit sets, and Podman's containers as units (quadlets)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from advisor.checks.knowledge import is_told_by_variables
from advisor.checks.read.context import ReaderContext, make_finder, make_launch, make_launches
from advisor.checks.read.docker_run import parse_container_size
from advisor.checks.read.launch import Launches, LaunchSetup
from advisor.checks.read.scripts import join_lines, make_script_reader
from advisor.checks.read.unknown_words import end_of_template
from advisor.errors import Unread
from advisor.yaml_places import Text, TextList, line_of, make_text

_UNIT_WORDS = frozenset((
    "After", "Wants", "Restart", "RestartSec", "MemoryMax", "User", "Group", "SupplementaryGroups", "PrivateDevices",
    "ProtectHome", "ProtectSystem", "TimeoutStartSec", "DynamicUser",
))  # fmt: skip
# key of a quadlet's [Container] -> the option of `podman run` that it stands for (podman-systemd.unit(5))
_QUADLET = {
    "AddDevice": "--device", "ContainerName": "--name", "Entrypoint": "--entrypoint", "Environment": "-e",
    "Network": "--network", "PodmanArgs": "", "PublishPort": "-p", "ShmSize": "--shm-size", "User": "--user",
    "Volume": "-v",
}  # fmt: skip
MAX_WORDS = 20_000
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}
_BYTES = re.compile(r"x[0-9a-fA-F]{2}(?:\\x[0-9a-fA-F]{2})*")
_CODE = re.compile(r"u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|(\$))")


def read_systemd(source: str, ctx: ReaderContext) -> Launches:
    """The launch of a unit: ExecStart with Environment= and what else is set; drop-ins may have no ExecStart."""
    env: dict[str, Text] = {}
    unit: dict[str, str] = {}
    places: dict[str, int] = {}
    starts: TextList = []
    for section, key, value in _list_settings(source, ctx.line):
        n = value.line
        if key == "Environment" and section == "Service":
            pairs = (w.partition("=") for w in split_exec_words(value, n))
            env |= {k: make_text(v, n) for k, has, v in pairs if has}
        elif key == "ExecStart" and section == "Service" and value:
            starts.append(make_text(value.lstrip("@-:+!"), n, value.column))
        elif key == "EnvironmentFile" and section == "Service" and value:
            places["envFrom"] = n
        elif key in _UNIT_WORDS:
            unit[key] = f"{unit[key]} {value}" if key in ("After", "Wants") and key in unit else str(value)
            places[key] = n
    limit = parse_container_size(unit.get("MemoryMax"))
    setup = LaunchSetup(unit={"present": "yes", **unit}, places=places, memory_limit=limit)
    out: Launches = []
    for start in starts:
        words = split_exec_words(start, start.line, start.column, env)
        found = make_finder(ctx, make_script_reader(ctx)).command(words, env, start.line)
        out += make_launches(ctx, "systemd", found, None, setup)
    out += _read_quadlet(source, ctx)
    engine = _by_prefix(env, ctx)
    if not starts and engine is not None:
        out.append(make_launch(ctx, None, min(env.values(), key=line_of), engine, "systemd", env=env, setup=setup))
    return [replace(x, setup=setup) if not x.setup.container else x for x in out]


def _list_settings(source: str, first: int) -> Iterator[tuple[str, str, Text]]:
    """(section, key, value) of all lines of a unit."""
    section = ""
    for n, line in join_lines(source, first, " ", "#;"):
        m = re.match(r"\s*\[([A-Za-z]+)\]\s*$", line)
        key, eq, value = line.partition("=")
        if m:
            section = m[1]
        elif eq and not key.lstrip().startswith(("#", ";")):
            yield section, key.strip(), make_text(value.strip(), n, len(key) + 2)


def _read_quadlet(source: str, ctx: ReaderContext) -> Launches:
    """The launch of a unit's [Container], as Podman runs it."""
    options: TextList = []
    container: dict[str, TextList] = {}
    for section, key, value in _list_settings(source, ctx.line):
        if key in ("Image", "Exec") and section == "Container":
            container[key] = split_exec_words(value, value.line, value.column, {})
        elif key in _QUADLET and section == "Container":
            for word in split_exec_words(value, value.line):
                options += [make_text(x, value.line) for x in (_QUADLET[key],) if x] + [word]
    if not container.get("Image"):
        return []
    run = [make_text(w) for w in ("podman", "run")] + options + container["Image"] + container.get("Exec", [])
    return make_launches(ctx, "systemd", make_finder(ctx).command(run, {}, container["Image"][0].line), None)


def _by_prefix(env: Mapping[str, Text], ctx: ReaderContext) -> str | None:
    """The engine, told by variables, that a drop-in file with nothing else sets up; by their prefix."""
    for engine, _ in ctx.know.env_files:
        table = ctx.know.flags(engine)
        prefix = table.table.variable_prefix if table is not None and is_told_by_variables(table) else None
        if prefix and any(k.startswith(prefix) for k in env):
            return engine
    return None


def split_exec_words(source: str, line: int = 1, column: int = 0, known: Mapping[str, str] | None = None) -> TextList:
    """Words of an `ExecStart=`. `known` None: no variables are expanded (`Environment=`). `%%` is a percent sign; other
    specifiers stay as they are written."""
    out: TextList = []
    for w in (w.replace("%%", "%") for w in _split(source, line)):
        alone = re.fullmatch(r"\$([A-Za-z_]\w*)", w)
        if known is None:
            out.append(make_text(w, line, column))
        elif alone and alone[1] in known:  # `$X` as a word is split at its blanks, `${X}` is not
            out += [make_text(x, line, column) for x in known[alone[1]].split()]
        elif alone:
            out.append(make_text("${" + alone[1] + "}", line, column, (alone[1],)))
        else:
            missing = tuple(m[1] for m in _VARIABLE.finditer(w) if m[1] and m[1] not in known)
            made = _VARIABLE.sub(lambda m: "$" if m[2] else known.get(m[1], "${" + m[1] + "}"), w)
            out.append(make_text(made, line, column, tuple(dict.fromkeys(missing))))
    return out


def _split(source: str, line: int) -> list[str]:
    """The words without their quotes and escapes."""
    out: list[str] = []
    now: list[str] = []
    inside, begun, i = "", False, 0
    while i < len(source):
        if len(out) >= MAX_WORDS:
            raise Unread(f"a command has more than {MAX_WORDS:,} words", line)
        c = source[i]
        end = end_of_template(source, i) if c in "{$" else None
        if end is not None:  # blanks inside belong to it
            now.append(source[i:end])
            i, begun = end, True
            continue
        i += 1
        if c == "\\" and i < len(source):
            made, used = _escaped(source, i)
            now.append(made)
            i += used
            begun = True
        elif inside and c == inside:
            inside = ""
        elif inside:
            now.append(c)
        elif c in "\"'":
            inside, begun = c, True
        elif c in " \t\r\n":
            if begun:
                out.append("".join(now))
            now, begun = [], False
        else:
            now.append(c)
            begun = True
    if begun:
        out.append("".join(now))
    return out


def _escaped(source: str, i: int) -> tuple[str, int]:
    """What an escape stands for and how long it is, `i` behind its backslash. Bytes of `\\xNN` are read as UTF-8."""
    m = _BYTES.match(source, i)
    if m:
        return bytes.fromhex(m[0].replace("\\", "").replace("x", "")).decode("utf-8", "replace"), len(m[0])
    m = _CODE.match(source, i)
    if m:
        code = int(m[3], 8) if m[3] else int(m[1] or m[2], 16)
        return (chr(code) if 0 < code < 0x110000 else ""), len(m[0])
    return _ESCAPES.get(source[i], source[i]), 1
