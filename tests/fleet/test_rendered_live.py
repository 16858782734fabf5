"""Files of plans as programs take them: Slurm queues the jobs and runs one, Ray reads its services."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import tiny_model
from programs import ELSEWHERE, program
from slurm_lab import SlurmLab

pytestmark = [pytest.mark.slow, pytest.mark.programs]
TOP = Path(__file__).resolve().parents[2]
SECONDS = 600


def plan_and_render(lab: SlurmLab, folder: Path) -> list[Path]:
    """Jobs of a plan for the cluster as it is given: three models, one of them a file for the node without cards."""
    model = tiny_model.write(folder / "tiny.gguf")
    load = {"rate": 2, "prompt_tokens": 1000, "output_tokens": 300, "ttft_s": 5, "tpot_s": 0.1}
    demand = [
        {"model": "Qwen/Qwen3-32B", **load},
        {"model": "llama3.1:8b", **load, "rate": 8},
        {"model": str(model), "name": "tiny", "users": 1, "context": 512, "engines": ["llama.cpp"]},
    ]
    (folder / "demand.yaml").write_text(json.dumps({"models": demand}))
    words = [sys.executable, "-m", "advisor", "fleet"]
    planned = lab.run(*words, "plan", "--slurm", "--models", str(folder / "demand.yaml"), "--json")
    (folder / "plan.json").write_text(planned)
    assert not json.loads(planned)["unserved"]
    lab.run(*words, "render", str(folder / "plan.json"), "--target", "slurm", "--output", str(folder / "jobs"))
    return sorted((folder / "jobs").iterdir())


def test_rendered_jobs_are_taken_and_one_is_served(lab: SlurmLab, tmp_path: Path) -> None:
    """Every job of a plan finds its place in the queue; the one for the processors answers a request."""
    real = program("llama-server")
    shim = lab.folder.parent / "bin" / "llama-server"
    shim.write_text(f'#!/bin/sh\nexec "{real}" "$@"\n')
    shim.chmod(0o755)
    jobs = plan_and_render(lab, tmp_path)
    assert len(jobs) >= 3
    lab.environment["API_KEY"] = "a-key"
    for job in jobs:
        done = subprocess.run([program("sbatch"), "--test-only", str(job)], env=lab.environment, cwd=tmp_path,
                              capture_output=True, text=True, check=False, timeout=SECONDS)  # fmt: skip
        assert done.returncode == 0, (job.read_text(), done.stderr)
        assert "to start at" in done.stderr, done.stderr
    (tiny,) = (j for j in jobs if "tiny" in j.name)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = tiny.read_text()
    assert "--port 8080" in text
    tiny.write_text(text.replace("--port 8080", f"--port {port}"))
    lab.run(program("sbatch"), f"--chdir={tmp_path}", str(tiny))
    try:
        assert "tokens" in json.dumps(ask_server(port, tmp_path))
    finally:
        lab.end_jobs()
        lab.wait_for("cpu01", "IDLE")


def ask_server(port: int, folder: Path) -> Any:
    """The answer to one request, when the server is ready; without the key it gives none."""
    body = json.dumps({"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 4}).encode()
    for key, status in (("a-key", 200), ("wrong", 401)):
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/chat/completions", body,
            {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
        )  # fmt: skip
        for _ in range(300):
            try:
                with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
                    assert status == 200
                    given = json.load(answer)
                    break
            except urllib.error.HTTPError as e:
                if e.code == status:
                    break
                if e.code != 503:  # 503: the model is still being loaded
                    raise
            except OSError:
                logs = "".join(p.read_text()[-2000:] for p in folder.glob("*.log"))
                if "Illegal instruction" in logs:
                    pytest.skip(f"{ELSEWHERE}this build of llama-server uses instructions that the processor lacks")
            time.sleep(1)
        else:
            raise AssertionError("".join(p.read_text()[-2000:] for p in folder.glob("*.log")))
    return given


READ_SERVE = """
import sys, yaml
from ray.serve.schema import ServeDeploySchema

for path in sys.argv[1:]:
    (body,) = (b for b in yaml.safe_load_all(open(path)) if b["kind"] == "RayService")
    read = ServeDeploySchema.model_validate(yaml.safe_load(body["spec"]["serveConfigV2"]))
    print(len(read.applications), read.applications[0].args["llm_configs"][0]["model_loading_config"]["model_id"])
"""


def test_rendered_ray_services_are_read_by_ray(ray_python: str, tmp_path: Path) -> None:
    load = {"prompt_tokens": 1000, "output_tokens": 300, "tpot_s": 0.1}
    names = ("Qwen/Qwen3-32B", "llama3.1:8b")
    node = {"name": "n", "count": 2, "hardware": "8x H100 80GB SXM, 1TB RAM, linux"}
    (tmp_path / "fleet.json").write_text(json.dumps({"nodes": [node]}))
    (tmp_path / "demand.json").write_text(json.dumps({"models": [{"model": n, "rate": 9, **load} for n in names]}))
    for words in (
        ("plan", "fleet.json", "--models", "demand.json", "--json"),
        ("render", "plan.json", "--target", "ray", "--output", "ray"),
    ):
        command = [sys.executable, "-m", "advisor", "fleet", *words]
        environment = {**os.environ, "PYTHONPATH": str(TOP)}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        if words[0] == "plan":
            (tmp_path / "plan.json").write_text(done.stdout)
    files = [str(f) for f in sorted((tmp_path / "ray").iterdir())]
    read = subprocess.run([ray_python, "-c", READ_SERVE, *files], capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stderr
    assert sorted(read.stdout.split("\n")[:-1]) == sorted(f"1 {n}" for n in names)
