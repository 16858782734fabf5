"""systemd units, Dockerfiles, shell scripts with their batch directives (Slurm)."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from advisor.checks.knowledge import is_told_by_variables
from advisor.checks.read import accelerators, shell
from advisor.checks.read import systemd as systemd_words
from advisor.checks.read.context import ReaderContext, make_finder, make_launches, read_nested
from advisor.checks.read.envfile import read_variables
from advisor.checks.read.launch import PULL, Launch, LaunchSetup
from advisor.checks.read.located_text import Text, lines_of, make_text
from advisor.checks.read.scripts_beside import make_script_reader, read_sourced_variables

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


def _pulls_without_server(line: str, ctx: ReaderContext) -> str | None:
    """The engine whose model a RUN line pulls without starting its server."""
    for name, program in ctx.know.programs.items():
        asks, starts = program.how.clients, [w for w in program.how.after if w not in program.how.clients]
        if "pull" in asks and re.search(rf"\b{name}\s+pull\b", line):
            return None if any(re.search(rf"\b{name}\s+{w}\b", line) for w in starts[:1]) else program.engine
    return None


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


def read_dockerfile(source: str, ctx: ReaderContext) -> list[Launch]:
    """The launch of the last stage: ENTRYPOINT and CMD, with ENV and the base image."""
    env: dict[str, Text] = {}
    args: dict[str, str] = dict(ctx.variables)
    image: Text | None = None
    entry: list[Text] | None = None
    command: list[Text] = []
    stages: dict[str, Text] = {}
    places: dict[str, int] = {}
    fd = make_finder(ctx)
    pulled: str | None = None
    for n, line in _docker_lines(source, ctx.line):
        m = re.match(r"\s*([A-Za-z]+)\s+(.*)$", line, re.S)
        if not m or line.lstrip().startswith("#"):
            continue
        word, rest = m[1].upper(), m[2].strip()
        if word == "ARG":
            k, eq, v = rest.partition("=")
            if eq and k not in args:
                args[k] = v.strip("\"'")
        elif word == "FROM":
            parts = [p for p in rest.split() if not p.startswith("--")]
            from advisor.checks.read.context import expand_variables

            base = expand_variables(make_text(parts[0], n, 6), args) if parts else make_text("", n)
            image = stages.get(base.lower(), base)
            if len(parts) > 2 and parts[1].upper() == "AS":
                stages[parts[2].lower()] = image
            entry, command = None, []
            places["image"] = n
        elif word == "ENV":
            for text in shell.split_words("x " + rest, n, known=args)[1:]:
                k, eq, v = text.partition("=")
                if eq:
                    env[k] = make_text(v, n)
            pair = re.match(r"([A-Za-z_]\w*)\s+([^=].*)$", rest)
            if pair and "=" not in pair[1]:
                env[pair[1]] = make_text(pair[2].strip("\"'"), n)
        elif word == "RUN":
            fd._note_pins(shell.split_words(rest.replace("&&", " "), n)[:500])
            engine = _pulls_without_server(rest, ctx)
            if engine is not None:
                places[PULL], pulled = n, engine
        elif word in ("ENTRYPOINT", "CMD"):
            words = _exec_form(rest, n)
            if word == "ENTRYPOINT":
                entry = words or None
                command = []
            else:
                command = words
        elif word == "USER":
            places["user"] = n
    setup = LaunchSetup(container=True, image=image, gpu_granted=None, places=places)
    found = fd.container(image, entry, command, env, setup)
    if not found and pulled is not None:
        return [Launch(file=ctx.file, line=places[PULL], kind="dockerfile", engine=pulled, env=env, setup=setup)]
    entry_known = (
        image is not None
        and (known_image := ctx.know.image(str(image).partition("@")[0].rpartition(":")[0] or str(image))) is not None
        and known_image.entry != "shell"
    )
    if not entry and not command and not entry_known:
        return []
    return make_launches(ctx, "dockerfile", found, None)


def _exec_form(rest: str, n: int) -> list[Text]:
    import json

    if rest.startswith("["):
        try:
            words = json.loads(rest)
        except (ValueError, RecursionError):
            words = None
        if isinstance(words, list):
            return [make_text(str(w), n) for w in words if isinstance(w, str)]
    return [make_text("sh", n), make_text("-c", n), make_text(rest, n)]


def _docker_lines(source: str, first: int) -> list[tuple[int, str]]:
    out: list[tuple[int, str]] = []
    pending, begin = "", first
    for n, line in enumerate(lines_of(source), first):
        if pending and line.lstrip().startswith("#"):
            continue
        if not pending:
            begin = n
        if line.rstrip().endswith("\\"):
            pending += line.rstrip()[:-1] + "\n"
            continue
        out.append((begin, pending + line))
        pending = ""
    if pending:
        out.append((begin, pending))
    return out


def read_script(source: str, ctx: ReaderContext) -> list[Launch]:
    """The launches of a shell script; `#SBATCH` says what it runs on. Manifests in heredocs are read as such."""
    if not ctx.variables and not ctx.know.may_start_engine(source):
        return []
    setup = _slurm(source, ctx)
    out = make_launches(
        ctx,
        "slurm" if setup else "shell",
        make_finder(ctx).script(source, ctx.line, {**read_sourced_variables(source, ctx), **ctx.variables}),
        None,
        setup,
    )
    for shell_command in shell.split_commands(source, ctx.line):
        if shell_command.heredoc is not None and re.search(
            r"^(apiVersion|services|FROM|\[Service\]|\[Unit\]|models)\b", shell_command.heredoc, re.M
        ):
            out += read_nested(ctx, shell_command.heredoc)
    return out


def _slurm(source: str, ctx: ReaderContext) -> LaunchSetup | None:
    rows = re.findall(r"^#SBATCH\s+(.*)$", source[:20_000], re.M)
    if not rows:
        return None
    words = " ".join(rows)
    nodes = re.search(r"(?:--nodes[= ]|-N ?)(\d{1,5})", words)
    gres = re.search(r"(?:--gres[= ]gpu|--gpus-per-node[= ]|--gpus[= ]|-G ?)(?::?([A-Za-z][\w-]*))?:?(\d{1,4})?", words)
    name = accelerators.find_accelerator_words(gres[1], ctx.know) if gres and gres[1] else None
    return LaunchSetup(
        hardware=name,
        hardware_source="#SBATCH" if name else None,
        gpu_count=int(gres[2]) if gres and gres[2] else None,
        gpu_granted=True if gres else None,
        nodes=int(nodes[1]) if nodes else None,
    )


__all__ = ["read_dockerfile", "read_script", "read_systemd", "read_variables"]
