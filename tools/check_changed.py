"""What has to be run for what changed, and running it.

    python -m tools.check_changed [PATH]... [--slow] [--dry-run]
    make check                          # what git says has changed, or else the last commit
    make check CHANGED="rules/models/qwen3.yaml advisor/memory"

Linters come first, then `advise rules lint` of the changed files, the generated pages, and the tests that `ROWS` names.
It stops at the first command that fails, and ends with its status. `--slow` adds the slow tests.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).resolve().parent.parent
PYTHON = sys.executable


class Row(NamedTuple):
    """What to run when something below `changed` changed: `tests` are files and folders of tests/, `marks` markers."""

    changed: tuple[str, ...]
    tests: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()  # with --slow
    pages: bool = False  # generated pages are written again


# fmt: off
ROWS = (
    Row(("rules/models", "rules/downloads", "rules/hardware", "rules/prices", "rules/quantizations.yaml"),
        ("catalog", "memory", "golden", "advice")),
    Row(("rules/engines", "rules/flags", "rules/flag-history", "rules/routers", "rules/starts",
         "rules/targets.yaml", "templates"),
        ("render", "engines", "e2e", "advice", "decision"), slow=("render", "e2e")),
    Row(("rules/guides", "rules/policy", "advisor/decision"), ("decision", "advice", "golden")),
    Row(("advisor/planning", "rules/workloads.yaml", "rules/ranking.yaml"),
        ("planning", "advice", "render"), slow=("planning",)),
    Row(("advisor/advice",), ("advice", "golden")),
    Row(("advisor/running.py", "advisor/bench"), ("running", "bench", "e2e/test_run.py")),
    Row(("rules/checks", "advisor/checks", "examples"), ("check", "fuzz"), ("documents",), ("fuzz",)),
    Row(("rules/abilities.yaml", "rules/boards.yaml", "rules/thinking.yaml", "advisor/ability", "tools/ability"),
        ("ability", "advice")),
    Row(("rules/speed.yaml", "rules/speed-engines.yaml", "rules/speed-machines.yaml", "advisor/speed", "tools/speed",
         "tools/accuracy", "tests/data"), ("speed",), ("measured",), ("speed",)),
    Row(("advisor/calibration", "advisor/residuals.py"), ("calibration",)),
    Row(("advisor/memory", "advisor/engines"), ("memory", "engines", "golden"), ("measured",)),
    Row(("advisor/models", "advisor/files.py"), ("models", "fuzz"), slow=("models", "fuzz")),
    Row(("advisor/lint", "advisor/meanings.py"), ("lint", "decision"), ("rules",)),
    Row(("advisor/machines",), ("machines", "catalog")),
    Row(("advisor/catalog", "hatch_build.py"), ("catalog", "test_packaging.py"), slow=("test_packaging.py",)),
    Row(("advisor/plugins.py",), ("plugins",)),
    Row(("advisor/render",), ("render", "e2e"), ("programs",), ("render", "e2e")),
    Row(("advisor/cli", "advisor/library.py", "advisor/report"),
        ("cli", "report", "test_library.py"), ("documents",), pages=True),
    Row(("advisor/page", "templates/page"), ("page",), slow=("page",)),
    Row(("advisor/batch.py", "advisor/request_lines.py", "advisor/estimation.py"),
        ("test_batch.py", "test_sweeps.py", "test_estimate_doors.py", "test_estimation.py")),
    Row(("advisor/fleet", "rules/fleet.yaml"), ("fleet",), slow=("fleet",)),
    Row(("rules/freshness.yaml", "rules/releases.yaml", "advisor/freshness.py", "tests/facts"),
        ("facts",), slow=("facts",)),
    Row(("advisor/questions", "advisor/operations.py", "advisor/agents"), ("questions", "agents", "web")),
    Row(("advisor/web", "templates/web"), ("web",), slow=("web",)),
    Row(("rules", "templates"), marks=("rules", "documents"), pages=True),
    Row(("README.md", "CONTRIBUTING.md", "docs"), marks=("documents",)),
    Row(("tools/pages",), marks=("documents",), pages=True),
    Row(("advisor", "tools", "tests", ".ci", ".github", "pyproject.toml", "Makefile", "action.yml"), marks=("house",)),
)
# fmt: on


def list_changed() -> list[str]:
    """Files that differ from the last commit; where there are none, those of the last commit."""

    def ask(*words: str) -> list[str]:
        done = subprocess.run(["git", *words], cwd=TOP, capture_output=True, text=True, check=True)  # noqa: S603, S607
        return [name for name in done.stdout.split("\0") if name]

    now = [*ask("diff", "--name-only", "-z", "HEAD"), *ask("ls-files", "-z", "--others", "--exclude-standard")]
    return now or ask("diff", "--name-only", "-z", "HEAD~1", "HEAD")


def is_below(path: str, place: str) -> bool:
    """Whether a path is a place, lies below it, or is a folder above it."""
    parts, other = Path(path).parts, Path(place).parts
    shorter = min(len(parts), len(other))
    return parts[:shorter] == other[:shorter]


def choose_commands(changed: Sequence[str], slow: bool = False) -> list[list[str]]:
    """What to run for these paths (relative to the checkout), in order, each as the words of a command."""
    rows = [row for row in ROWS if any(is_below(path, place) for path in changed for place in row.changed)]
    pytest = [PYTHON, "-m", "pytest"]
    code = [path for path in changed if path.endswith(".py") and (TOP / path).exists()]
    ruled = [p for p in changed if p.startswith(("rules/", "templates/")) and p.endswith((".yaml", ".j2"))]
    out = []
    if code:
        ruff = [PYTHON, "-m", "ruff"]
        out += [[*ruff, "check", *code], [*ruff, "format", "--check", *code]]
    if any(is_below(path, room) for path in code for room in ("advisor", "tools")):
        out += [[PYTHON, "-m", "mypy"], [str(Path(PYTHON).with_name("lint-imports"))]]
    if ruled:
        there = [path for path in ruled if (TOP / path).exists()]
        whole = len(there) < len(ruled) or len(there) > 5  # what is gone is missing elsewhere
        out.append([PYTHON, "-m", "advisor", "rules", "lint", *([] if whole else there)])
    if any(row.pages for row in rows):
        out.append([PYTHON, "-m", "tools.pages"])
    own = [path for path in code if Path(path).name.startswith("test_")]
    tests = dict.fromkeys([*own, *(f"tests/{name}" for row in rows for name in row.tests)])
    if tests:
        out.append([*pytest, *tests])
    marks = dict.fromkeys(mark for row in rows for mark in row.marks)
    if marks:
        out.append([*pytest, "-m", f"({' or '.join(marks)}) and not slow"])
    many = dict.fromkeys(f"tests/{name}" for row in rows for name in row.slow)
    if many and slow:
        out.append([*pytest, "-m", "slow", *many])
    return out


def run_commands(commands: Sequence[Sequence[str]], run: Callable[[Sequence[str]], int]) -> int:
    """The status of the first command that fails; 0 where none does. Each is shown before it runs."""
    for words in commands:
        sys.stdout.write(f"$ {shlex.join(words).replace(PYTHON, 'python')}\n")
        sys.stdout.flush()
        status = run(words)
        if status:
            return status
    return 0


def main(arguments: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tools.check_changed", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("paths", nargs="*", help="what changed, from the top of the checkout (default: as git says)")
    parser.add_argument("--slow", action="store_true", help="the slow tests, too")
    parser.add_argument("--dry-run", action="store_true", help="show the commands only")
    options = parser.parse_args(arguments)
    commands = choose_commands(options.paths or list_changed(), options.slow)
    if options.dry_run:
        return run_commands(commands, lambda words: 0)
    return run_commands(commands, lambda words: subprocess.run(words, cwd=TOP, check=False).returncode)  # noqa: S603


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
