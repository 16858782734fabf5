"""The recipes of docs/sweeps.md, and a sweep for them to answer."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path

from commands import advise
from programs import program
from random_requests import requests

from advisor.catalog import catalog

PAGE = (Path(__file__).resolve().parents[1] / "docs/sweeps.md").read_text(encoding="utf-8")
SHARDS = 16  # of every recipe


def recipe(name: str) -> str:
    """The one block that is marked as this recipe."""
    (text,) = re.findall(rf"(?ms)^<!-- recipe {name} -->\n```\w+\n(.*?)^```$", PAGE)
    return text


def run_shell(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A script in a folder, by bash, with the `advise` of this environment and only these variables of a scheduler."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "JOB_COMPLETION"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return subprocess.run(
        [program("bash"), "-c", script],
        cwd=folder,
        env={**kept, "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def write_sweep(folder: Path) -> list[str]:
    """deployments.jsonl with blank and faulty lines, no whole number of rounds, and what one process answers."""
    lines = [json.dumps(r) for r in requests(catalog(), 2 * SHARDS + 5, seed=7)]
    lines[3:3] = ["", " \t", "{broken"]
    lines[20:20] = ["\r", '{"model": 5}']
    text = "\n".join([*lines, "", ""])
    (folder / "deployments.jsonl").write_text(text, encoding="utf-8", newline="")
    answered = advise("estimate", "--jsonl", str(folder / "deployments.jsonl"))
    assert answered.returncode == 0, answered.stderr
    return answered.stdout.splitlines(keepends=True)


def merge(shards: Mapping[int, list[str]]) -> list[str]:
    """One of each shard in turn."""
    turns = zip_longest(*(shards[i] for i in sorted(shards)))
    return [line for turn in turns for line in turn if line is not None]
