"""Facts made again from package registries and programs, with the difference: the one entry of `make facts`.

    python tests/facts/refresh.py [STEP...] [--folder FOLDER]      without a step: what there is

Every step changes rule files, or nothing; what it changed is shown as a difference at the end, and is not committed.
A step that only compares (flags) exits with 1 where the rules and the program differ.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).resolve().parents[2]
DATA = "tests/data"
OF_REGISTRIES = (
    "vllm",
    "sglang",
    "lmdeploy",
    "llama.cpp",
    "sglang-router",
    "mlx-vlm-server",
)  # the other router is read from its repository: make history
LLAMA = ("-m", "pytest", "-q", "-n0", "-m", "slow or not slow", "tests/check/test_flags_against_llama_server.py")


class Step(NamedTuple):
    """One way to refresh facts. `{folder}` is where downloads are kept."""

    what: str
    needs: str
    commands: tuple[tuple[str, ...], ...]
    writes: tuple[str, ...]


STEPS = {
    "versions": Step(
        "newest releases of the engines' packages", "pip's index",
        (("tests/facts/versions.py",),), ("rules/releases.yaml",),
    ),
    "flags": Step(
        "flag tables next to the engines' own parsers", "4 GB from pip's index",
        (("tests/e2e/engine_parsers.py", "{folder}", "vllm", "sglang"), ("tests/facts/flags.py", "{folder}"), LLAMA),
        (),
    ),
    "history": Step(
        "flags, values and registries of parsers of every release", "1 GB from pip's index and npm",
        (("tests/engines/history/write.py", "--folder", "{folder}/history", *OF_REGISTRIES),),
        ("rules/flag-history", "rules/routers"),
    ),
    "layouts": Step(
        "types of models that transformers brought, with their layers", "3 GB from pip's index",
        (("tests/facts/layouts.py", "--folder", "{folder}/referee", "--write"),),
        ("rules/hf-generated.yaml", "rules/models/generated.yaml"),
    ),
    "planner": Step(
        "what the engines' planners say of every model", "5 GB from pip's index, npm, gcc",
        (
            ("tests/planner/llama_catalogue.py", "{folder}/llama-planner", "--rows", f"{DATA}/llamacpp_catalogue.csv"),
            ("tests/planner/vllm_catalogue.py", "{folder}/vllm-planner", "--rows", f"{DATA}/vllm_catalogue.csv"),
            ("tests/planner/vllm_forward.py", "{folder}/vllm-planner", "--rows", f"{DATA}/vllm_forward.csv"),
        ),
        ("tests/data",),
    ),
    "abilities": Step(
        "abilities of models, fitted to published scores", "nothing but tests/data",
        (("-m", "tools.ability.calibrate", f"{DATA}/model_quality.csv", "rules/abilities.yaml", "--force"),),
        ("rules/abilities.yaml",),
    ),
    "speed": Step(
        "efficiencies of the speed model, fitted to published measurements", "nothing but tests/data",
        (("-m", "tools.speed.calibrate", f"{DATA}/speed_rows.csv", "rules/speed.yaml", "--force"),),
        ("rules/speed.yaml",),
    ),
}  # fmt: skip


def run(name: str, folder: Path) -> int:
    """The exit status of a step: the first of its commands that is not 0."""
    print(f"===== {name}: {STEPS[name].what}", flush=True)
    for words in STEPS[name].commands:
        filled = [w.replace("{folder}", str(folder)) for w in words]
        done = subprocess.run([sys.executable, *filled], cwd=TOP, check=False)
        if done.returncode:
            return done.returncode
    return 0


def show_difference(names: list[str]) -> None:
    """What the steps changed, as git sees it."""
    paths = [p for n in names for p in STEPS[n].writes]
    if not paths:
        return
    subprocess.run(["git", "add", "--intent-to-add", "--", *paths], cwd=TOP, check=False)
    changed = subprocess.run(
        ["git", "diff", "--stat", "--", *paths], cwd=TOP, capture_output=True, text=True, check=False
    )
    if not changed.stdout.strip():
        print(f"===== nothing changed ({datetime.date.today().isoformat()})")
        return
    print("===== the difference", flush=True)
    subprocess.run(["git", "--no-pager", "diff", "--unified=0", "--", *paths], cwd=TOP, check=False)
    print(changed.stdout)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="*", choices=[*STEPS, []])
    parser.add_argument("--folder", type=Path, default=TOP / ".engines")
    given = parser.parse_args(arguments)
    if not given.steps:
        for name, step in STEPS.items():
            print(f"{name:10} {step.what} (needs {step.needs})")
        return 0
    status = [run(name, given.folder.absolute()) for name in given.steps]
    show_difference(given.steps)
    return max(status)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
