"""Shell scripts, with the directives of Slurm's batch scripts: what they run on, and the tasks of a job array."""

from __future__ import annotations

import re

from msgspec.structs import replace

from advisor.checks.read import accelerators, shell
from advisor.checks.read.context import ReaderContext, make_finder, make_launches, read_nested
from advisor.checks.read.launch import Launch, LaunchSetup
from advisor.checks.read.scripts_beside import read_sourced_variables

MOST_TASKS = 32  # of a job array that are read
TASK = "SLURM_ARRAY_TASK_ID"
_ARRAY = re.compile(r"^#SBATCH\s+(?:.*\s)?(?:--array[= ]|-a ?)([\d,:%-]+)", re.M)
_MANIFEST = re.compile(r"^(apiVersion|services|FROM|\[Service\]|\[Unit\]|models)\b", re.M)


def read_script(source: str, ctx: ReaderContext) -> list[Launch]:
    """The launches of a shell script; `#SBATCH` says what it runs on. Manifests in heredocs are read as such."""
    if not ctx.variables and not ctx.know.may_start_engine(source):
        return []
    setup = _slurm(source, ctx)
    known = {**read_sourced_variables(source, ctx), **ctx.variables}
    kind = "slurm" if setup else "shell"
    tasks = list_array_tasks(source) if setup and TASK in source and TASK not in known else ()
    out: list[Launch] = []
    if tasks:
        for task in tasks:
            found = make_finder(ctx).script(source, ctx.line, {**known, TASK: str(task)})
            found = [replace(x, env={k: v for k, v in x.env.items() if k != TASK}) for x in found]
            for launch in make_launches(ctx, kind, found, None, setup):
                if not any(x.engine == launch.engine and x.argv == launch.argv and x.env == launch.env for x in out):
                    out.append(launch)
        if len(out) > 1:
            out = [replace(x, resource=f"{x.resource or x.engine}/{i}") for i, x in enumerate(out)]
    else:
        out = make_launches(ctx, kind, make_finder(ctx).script(source, ctx.line, known), None, setup)
    for shell_command in shell.split_commands(source, ctx.line):
        if shell_command.heredoc is not None and _MANIFEST.search(shell_command.heredoc):
            out += read_nested(ctx, shell_command.heredoc)
    return out


def list_array_tasks(source: str) -> tuple[int, ...]:
    """The first tasks of a Slurm job array (`--array=0-7`, `1,3,5`, `0-30:2%4`); empty where there is none."""
    m = _ARRAY.search(source[:20_000])
    out: dict[int, None] = {}
    for part in m[1].partition("%")[0].split(",") if m else ():
        span = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6})(?::(\d{1,6}))?)?", part)
        if span:
            first, last, step = int(span[1]), int(span[2] or span[1]), max(1, int(span[3] or 1))
            out |= dict.fromkeys(range(first, min(last, first + step * MOST_TASKS) + 1, step))
    return tuple(out)[:MOST_TASKS]


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


__all__ = ["list_array_tasks", "read_script"]
