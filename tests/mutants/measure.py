"""The mutation score: which small faults in the code the tests notice. A developers' tool (`make mutants`), not a test.

python tests/mutants/measure.py [PLACES [SEED [PACKAGE ...]]]: chooses as many places in the code of each package at
random, makes one mutation at each by an operator of cosmic-ray, and runs the tests of the package, then those that ask
it through commands. Prints what survived, and a line of JSON for each package and for all.

Left out are mutations that change no behaviour by construction: of annotations, which are never evaluated, of
decorators that only remember answers, and of `break` where the loop could only go on to find nothing.
"""

from __future__ import annotations

import ast
import json
import os
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

TOP = Path(__file__).resolve().parents[2]
ASKED_THROUGH = (
    "tests/advice",
    "tests/report",
    "tests/test_estimation.py",
    "tests/test_batch.py",
    "tests/test_estimate_doors.py",
)
# package -> tests that are about it, then tests that ask it through commands
TESTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "advisor/memory": (("tests/memory", "tests/engines", "tests/golden"), ASKED_THROUGH),
    "advisor/planning": (("tests/planning",), (*ASKED_THROUGH, "tests/fleet", "tests/golden")),
    "advisor/checks/facts": (("tests/check",), ("tests/test_commands_of_docs.py", "tests/render")),
    "advisor/speed": (("tests/speed", "tests/bench"), (*ASKED_THROUGH, "tests/calibration", "tests/planning")),
}
LEFT_OUT = ("core/RemoveDecorator", "core/Variable", "core/ReplaceBreakWithContinue")
WORKERS = os.cpu_count() or 2
LIMIT_S = 900  # of one run of tests: a mutant that does not end is noticed


class Mutation(NamedTuple):
    """One change: the file, the operator, which of its places in the file, and the line."""

    package: str
    file: str
    operator: str
    occurrence: int
    line: int


def list_places(package: str) -> dict[tuple[str, int, int], list[Mutation]]:
    """(file, line, column) -> the mutations that can be made there."""
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.plugins import get_operator, operator_names

    found: dict[tuple[str, int, int], list[Mutation]] = {}
    for path in sorted((TOP / package).rglob("*.py")):
        file = path.relative_to(TOP).as_posix()
        annotated, tree = list_annotated(path), get_ast_from_path(path)
        for name in operator_names():
            operator = get_operator(name)
            if name.startswith(LEFT_OUT) or operator.arguments():
                continue
            made = operator()
            spots = (start for node in ast_nodes(tree) for start, _ in made.mutation_positions(node))
            for occurrence, (line, column) in enumerate(spots):
                if not any(a <= (line, column) < b for a, b in annotated):
                    found.setdefault((file, line, column), []).append(Mutation(package, file, name, occurrence, line))
    return found


def list_annotated(path: Path) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where annotations begin and end: they are text that nobody evaluates."""
    out = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(part, ast.expr):
                out.append(((part.lineno, part.col_offset), (part.end_lineno or 0, part.end_col_offset or 0)))
    return out


def choose(package: str, count: int, seed: int) -> list[Mutation]:
    """So many mutations at places drawn at random, one at each place."""
    rng = random.Random(f"{seed} {package}")
    places = list_places(package)
    return [rng.choice(places[p]) for p in rng.sample(sorted(places), min(count, len(places)))]


def copy_checkout(folder: Path) -> None:
    """The files of the checkout, as git lists them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=TOP,
        capture_output=True,
        check=True,
    ).stdout
    subprocess.run(["tar", "-c", "--null", "-T", "-", "-f", str(folder / "all.tar")], cwd=TOP, input=listed, check=True)
    subprocess.run(["tar", "-xf", "all.tar"], cwd=folder, check=True)
    (folder / "all.tar").unlink()


def is_noticed(mutation: Mutation, folder: Path) -> bool:
    """Whether a test fails on the mutated copy."""
    from cosmic_ray.mutating import use_mutation
    from cosmic_ray.plugins import get_operator

    file = folder / mutation.file
    with use_mutation(file, get_operator(mutation.operator)(), mutation.occurrence) as (_, mutated):
        assert mutated is not None, mutation
        forget_compiled(file)
        noticed = any(run_tests(tests, folder) for tests in TESTS[mutation.package])
    forget_compiled(file)
    return noticed


def forget_compiled(file: Path) -> None:
    """A compiled module is taken for current by size and second, which a mutation may leave as they are."""
    for old in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        old.unlink()


def run_tests(tests: tuple[str, ...], folder: Path) -> bool:
    """Whether one of these tests fails."""
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    try:
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return True
    if done.returncode not in (0, 1, 2):  # 2: a module cannot be imported any more
        sys.stderr.write(done.stdout.decode()[-2000:])
    return done.returncode != 0


def measure(mutations: list[Mutation]) -> list[bool]:
    """Whether each is noticed; a copy of the checkout for each worker."""
    folders: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="mutants-") as base:
        for i in range(WORKERS):
            folder = Path(base, str(i))
            folder.mkdir()
            copy_checkout(folder)
            folders.put(folder)

        def judge(mutation: Mutation) -> bool:
            folder = folders.get()
            try:
                noticed = is_noticed(mutation, folder)
            finally:
                folders.put(folder)
            if not noticed:
                print("survived", *mutation[1:], flush=True)
            return noticed

        with ThreadPoolExecutor(WORKERS) as pool:
            return list(pool.map(judge, mutations))


def sum_up(name: str, noticed: list[bool]) -> dict[str, Any]:
    """One line of the result."""
    return {
        "package": name,
        "mutants": len(noticed),
        "noticed": sum(noticed),
        "score": round(sum(noticed) / len(noticed), 3),
    }


if __name__ == "__main__":
    given = [*sys.argv[1:3], *("25", "1")[len(sys.argv[1:3]) :]]
    packages = sys.argv[3:] or list(TESTS)
    chosen = [m for package in packages for m in choose(package, int(given[0]), int(given[1]))]
    judged = measure(chosen)
    for package in packages:
        print(json.dumps(sum_up(package, [n for m, n in zip(chosen, judged, strict=True) if m.package == package])))
    print(json.dumps(sum_up("all", judged)))
