"""Shell scripts, with the directives of Slurm's batch scripts: what they run on, and the tasks of a job array."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from advisor.checks.read import accelerators
from advisor.checks.read.context import (
    ReaderContext,
    find_root,
    make_finder,
    make_launch,
    make_launches,
    note_unread,
    read_inside,
    read_nested,
)
from advisor.checks.read.launch import Env, Launches, LaunchSetup, Mount, find_holding_mount
from advisor.checks.read.recognise import REQUIREMENTS
from advisor.checks.read.shell.commands import ShellCommand, split_commands
from advisor.errors import Unread
from advisor.yaml_places import lines_of, make_text

MOST_TASKS = 32  # of a job array that are read
MOST_NAMED = 5  # variables of a makefile that name one another in turn
TASK = "SLURM_ARRAY_TASK_ID"
_MAKE_VARIABLE = re.compile(  # NAME ?= value, define NAME ... endef
    r"^(?:export[ \t]+)?([\w.-]+)[ \t]*[?:+!]{0,3}=[ \t]*((?:[^\n]*\\\n){0,200}[^\n]*)$"
    r"|^define[ \t]+([\w.-]+)[ \t=]*\n((?:[^\n]*\n){0,200}?)endef\b",
    re.M,
)
_MAKE_REFERENCE = re.compile(r"(?<!\$)\$[({]([\w.-]+)[)}]")
_ARRAY = re.compile(r"^#SBATCH\s+(?:.*\s)?(?:--array[= ]|-a ?)([\d,:%-]+)", re.M)
_MANIFEST = re.compile(r"^(apiVersion|services|FROM|\[Service\]|\[Unit\]|models?)\b", re.M)
# `source FILE`, `. FILE`, and FILE in a variable, without what comes before the folder of the script itself
_BESIDE = r"""["']?(?:(?:\$\([^)]*\)|\$\{?\w+\}?)/|\./)?([\w./-]+)["']?"""
_READ_IN = re.compile(rf"""^[ \t]*(?:source|\.)[ \t]+(?:{_BESIDE}|["']?\$\{{?(\w+)\}}?["']?[ \t]*$)""", re.M)
_FILE_IN = re.compile(rf"^[ \t]*(\w+)={_BESIDE}[ \t]*$", re.M)
WRITTEN = re.compile(  # cat > FILE <<EOF, cat <<EOF > FILE, tee FILE <<EOF; COPY <<EOF FILE
    r"""^[^\n#]*?(?:(?:>|\btee)\s*(?P<before>[^\s<>|]+)\s*)?<<-?\s*(?P<q>["']?)(?P<end>\w+)(?P=q)[ \t]*"""
    r"""(?:(?:>\s*)?(?P<after>[^\s<>|]+))?[^\n]*\n(?P<text>.*?)\n\s*(?P=end)[ \t]*$""",
    re.M | re.S,
)
_LINE = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s?(.*?)\s*$")


def read_script(source: str, ctx: ReaderContext) -> Launches:
    """The launches of a shell script; `#SBATCH` says what it runs on. Manifests in heredocs are read as such."""
    if not ctx.variables and not ctx.know.may_start_engine(source):
        return []
    setup = _slurm(source, ctx)
    known = {**read_sourced_variables(source, ctx), **ctx.variables}
    kind = "slurm" if setup else "shell"
    tasks = list_array_tasks(source) if setup and TASK in source and TASK not in known else ()
    if len(tasks) > MOST_TASKS:
        note_unread(ctx, f"the first {MOST_TASKS} tasks of its job array are read", ctx.line)
        tasks = tasks[:MOST_TASKS]
    out: Launches = []
    required = read_inside(ctx.folder, REQUIREMENTS) or ""
    for task in tasks or (None,):
        given = known if task is None else {**known, TASK: str(task)}
        finder = make_finder(ctx)
        finder.require(required)
        found = finder.script(source, ctx.line, given, sure=not ctx.depth or source.startswith("#!"))
        if task is not None:
            found = [replace(x, env={k: v for k, v in x.env.items() if k != TASK}) for x in found]
            found = [x for x in found if (x.engine, x.argv, x.env) not in [(y.engine, y.argv, y.env) for y in out]]
        out += make_launches(ctx, kind, found, None, setup)
    if tasks and len(out) > 1:
        out = [replace(x, resource=f"{x.resource or x.engine}/{i}") for i, x in enumerate(out)]
    for step in _list_steps(source, ctx):
        if step.heredoc is not None and _MANIFEST.search(step.heredoc):
            out += read_nested(ctx, step.heredoc)
    return out


def _list_steps(source: str, ctx: ReaderContext) -> Sequence[ShellCommand]:
    """The commands of a script; those before the place where reading ends, which its finder has noted."""
    try:
        return split_commands(source, ctx.line)
    except Unread as e:
        return e.found


def join_lines(source: str, first: int, between: str, comments: str) -> list[tuple[int, str]]:
    """(line, text) of lines that a backslash continues, joined by `between`. Lines that begin with one of `comments`
    continue nothing; where lines stay apart, as in Dockerfiles, they are left out of what is continued instead."""
    out: list[tuple[int, str]] = []
    pending, begin = "", first
    for n, line in enumerate(lines_of(source), first):
        comment = line.lstrip().startswith(tuple(comments))
        if pending and comment and between == "\n":
            continue
        begin = begin if pending else n
        if line.rstrip().endswith("\\") and not comment:
            pending += line.rstrip()[:-1] + between
            continue
        out.append((begin, pending + line))
        pending = ""
    return [*out, (begin, pending)] if pending else out


def list_array_tasks(source: str) -> tuple[int, ...]:
    """The first tasks of a Slurm job array (`--array=0-7`, `1,3,5`, `0-30:2%4`), one more than are read; empty where
    there is none."""
    m = _ARRAY.search(source)
    out: dict[int, None] = {}
    for part in m[1].partition("%")[0].split(",") if m else ():
        span = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6})(?::(\d{1,6}))?)?", part)
        if span:
            first, last, step = int(span[1]), int(span[2] or span[1]), max(1, int(span[3] or 1))
            out |= dict.fromkeys(range(first, min(last, first + step * MOST_TASKS) + 1, step))
    return tuple(out)[: MOST_TASKS + 1]


def _slurm(source: str, ctx: ReaderContext) -> LaunchSetup | None:
    rows = re.findall(r"^#SBATCH\s+(.*)$", source, re.M)
    if not rows:
        return None
    words = " ".join(rows)
    nodes = re.search(r"(?:--nodes[= ]|-N ?)(\d{1,5})", words)
    gres = re.search(r"(?:--gres[= ]gpu|--gpus-per-node[= ]|--gpus[= ]|-G ?)(?::?([A-Za-z][\w-]*))?:?(\d{1,4})?", words)
    name = accelerators.find_accelerator_words(ctx.know, gres[1]) if gres and gres[1] else None
    return LaunchSetup(
        **accelerators.name_hardware(name, "#SBATCH"),
        gpu_count=int(gres[2]) if gres and gres[2] else None,
        gpu_granted=True if gres else None,
        nodes=int(nodes[1]) if nodes else None,
    )


def read_makefile(source: str, ctx: ReaderContext) -> Launches:
    """The launches of a makefile's recipes, with the values that it gives its variables once."""
    found = [(m[1] or m[3], m[2] or m[4] or "") for m in _MAKE_VARIABLE.finditer(source)]
    given = {name: re.sub(r"\\\n\s*|\s#[^\n]*", " ", value).strip() for name, value in found}
    times = Counter(name for name, _ in found)
    values = {k: v for k, v in given.items() if times[k] == 1 and "\n" not in v}
    rows, goes_on = [], False
    for row in lines_of(source):
        recipe = row if goes_on else re.sub(r"^\t\s*[@+-]*", "", row) if row.startswith("\t") else ""
        goes_on = recipe.endswith("\\")
        rows.append(recipe)
    text = "\n".join(rows)
    for _ in range(MOST_NAMED):
        text = _MAKE_REFERENCE.sub(lambda m: values.get(m[1], f"${{{m[1]}}}"), text)
        if len(text) > 10 * len(source):
            raise Unread("the variables of the makefile are too long", ctx.line)
    return read_script(text.replace("$$", "$"), ctx)


def make_script_reader(ctx: ReaderContext, mounts: Sequence[Mount] | None = None) -> Callable[[str], str | None]:
    """What a script holds, by the path that a command names; None for what does not lie next to the file.

    In a container (`mounts`) it is the file that is mounted there; elsewhere the file of that name next to this one, or
    the one in a folder above this one whose path ends like that.
    """

    def read(path: str) -> str | None:
        name = path.rpartition("/")[2] if mounts is None else find_mounted_file(path, mounts)
        text = read_inside(ctx.folder, name)
        end = "/".join(path.split("/")[-2:]) if mounts is None and path.startswith("/") else ""
        for above in ("..", "../..", "../../..") if end else ():
            text = text or read_inside(ctx.folder, f"{above}/{end}", find_root(ctx))
        if text is None or not (text.startswith("#!") or name.endswith(".sh")):
            return None
        given = read_sourced_variables(text, ctx).items()  # its own lines are counted nowhere
        return "".join(f"{k}={shlex.quote(v)}\n" for k, v in given) + text

    return read


def find_mounted_file(path: str, mounts: Sequence[Mount]) -> str:
    mount = find_holding_mount(mounts, path)
    if mount is None or mount.source is None or mount.kind != "bind":
        return ""
    return mount.source.rstrip("/") + path[len(mount.target.rstrip("/")) :]


def read_sourced_variables(script: str, ctx: ReaderContext) -> Env:
    """The variables of the files next to a script that it reads in (`source ./server.env`), the last one winning."""
    out: Env = {}
    named = dict(_FILE_IN.findall(script))
    for name in [named.get(v, f) for f, v in _READ_IN.findall(script)[:20]]:
        found = read_variables(read_inside(ctx.folder, name) or "")
        out |= {k: v for k, v in found.items() if "$" not in v and "`" not in v}
    return out


def read_variables(source: str, first: int = 1) -> Env:
    """The variables of an env file."""
    out: Env = {}
    for n, line in enumerate(lines_of(source), first):
        m = _LINE.match(line)
        if m is None or line.lstrip().startswith("#"):
            continue
        value = m[2]
        if len(value) > 1 and value[0] in "'\"" and value[-1] == value[0]:
            value = value[1:-1]
        else:
            value = re.sub(r"\s#.*$", "", value).strip()
        out[m[1]] = make_text(value, n, m.start(2) + 1)
    return out


def read(source: str, ctx: ReaderContext) -> Launches:
    """The server that an env file sets up, if one reads it."""
    env = read_variables(source, ctx.line)
    for engine, kind in ctx.know.env_files:
        mine = [v for k, v in env.items() if k in kind.names or (kind.pattern and re.match(kind.pattern, k))]
        if mine:
            return [make_launch(ctx, None, mine[0], engine, "env", env=env)]
    return []
