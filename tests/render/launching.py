"""Deployments for rendering, and programs that only say how they were called."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.deployment import Deployment
from advisor.estimation import EstimateRequest, resolve_request
from advisor.render.files import LaunchFile, render_files
from advisor.session import Session

RULES = catalog([shipped_root()])
ENGINES = ("llama.cpp", "ollama", "vllm", "sglang")


def launch(engine: str, *, hardware: str = "RTX 4090", model: str = "llama3.1:8b", **more: Any) -> Deployment:
    """A deployment of 8k tokens; further fields replace those of the Deployment."""
    return msgspec.structs.replace(_plain(engine, hardware, model), **more)


@cache
def _plain(engine: str, hardware: str, model: str) -> Deployment:
    return resolve_request(EstimateRequest(model=model, engine=engine, hardware=hardware, context_length=8192), RULES)[
        0
    ]


def rendered(d: Deployment, target: str) -> LaunchFile:
    """The one file of a target."""
    (file,) = render_files(d, target, Session(RULES))
    return file


def calls(script: str, folder: Path, programs: tuple[str, ...]) -> list[list[str]]:
    """Run a script under sh with stand-ins for `programs`: the argument vectors they were called with, in order.

    What a stand-in was given on standard input is its last argument here, if it was not empty.
    """
    bin_folder, log = folder / "bin", folder / "calls"
    bin_folder.mkdir()
    log.mkdir()
    for program in programs:
        stand_in = bin_folder / program
        stand_in.write_text(
            "#!/bin/sh\n"
            f"n={log}/$(ls {log} | wc -l)\n"
            f"{{ printf '%s\\0' {program} \"$@\"; cat; }} > \"$n\"\n"
        )  # fmt: skip
        stand_in.chmod(0o755)
    file = folder / "script.sh"
    file.write_text(script, encoding="utf-8")
    environment = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    subprocess.run(["sh", "-n", str(file)], check=True, env=environment)
    done = subprocess.run(
        ["sh", str(file)],
        check=False,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    ordered = sorted(log.iterdir(), key=lambda x: int(x.name))
    vectors = [x.read_bytes().decode("utf-8").split("\0") for x in ordered]
    return [v[:-1] if v[-1] == "" else v for v in vectors]
