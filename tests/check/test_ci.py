"""The pre-commit hooks, the action and the examples, as far as they run here."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pre_commit import clientlib
from programs import program

import advisor
from advisor.checks.run import BACKUPS, FILES

TOP = Path(__file__).resolve().parents[2]
EXAMPLES = TOP / "docs" / "examples" / "ci"
ADVISE = Path(sys.executable).parent / "advise"


@pytest.mark.parametrize("name", ["compose.yaml", "deployment.yaml"])
def test_examples_fit_and_are_clean(name: str) -> None:
    report = advisor.check(EXAMPLES / name)
    assert [d.fits for d in report.deployments] == [True]
    assert [f.rule for f in report.findings] == []


def test_hooks() -> None:
    hooks = yaml.safe_load((TOP / ".pre-commit-hooks.yaml").read_text())
    assert {h["id"] for h in hooks} == {"advise-check", "advise-check-fit"}
    for h in hooks:
        assert h["language"] == "python"
        done = subprocess.run(
            [str(ADVISE), *shlex.split(h["entry"])[1:], str(EXAMPLES / "compose.yaml")],
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0
        pattern = re.compile(h["files"])
        for wanted in ("compose.yaml", "k8s/pod.yml", "a.service", "deploy/Dockerfile", "x.Modelfile", "run.sh"):
            assert pattern.search(wanted), wanted
        for other in ("main.py", "README.md", "a.yaml.txt"):
            assert not pattern.search(other), other
        assert f"(?i){BACKUPS.pattern}" == h["exclude"]
        for left in ("compose.yaml.bak", "Dockerfile~", "compose.yml.orig"):
            assert re.search(h["exclude"], left), left
        assert f"(?i)({FILES.pattern})" == h["files"], "the hooks ask for other files than a folder is searched for"


def test_hooks_manifest_is_valid_for_pre_commit() -> None:
    clientlib.load_manifest(str(TOP / ".pre-commit-hooks.yaml"))


@pytest.mark.parametrize(
    ("source", "on", "status"),
    [
        ("vllm serve Qwen/Qwen3-4B --max-model-len 4096\n", "1x RTX 4090", 0),
        ("vllm serve Qwen/Qwen3-4B --swap-space 4\n# advise: version=0.33.0\n", "1x RTX 4090", 1),
        ("vllm serve Qwen/Qwen3-4B\n", "", 0),
        ("vllm serve $MODEL\n", "", 2),
    ],
)
def test_action_runs_its_script(source: str, on: str, status: int, tmp_path: Path) -> None:
    """The script of action.yml with the environment that GitHub gives it."""
    action = yaml.safe_load((TOP / "action.yml").read_text())
    step = next(s for s in action["runs"]["steps"] if s.get("id") == "check")
    (tmp_path / "serve it.sh").write_text(source)
    (tmp_path / "serve.sh").write_text(source)
    inputs = {k: v.get("default", "") for k, v in action["inputs"].items()} | {"paths": "serve.sh", "on": on}
    env = {k: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: inputs[m[1]], v) for k, v in step["env"].items()}
    summary, output = tmp_path / "summary.md", tmp_path / "output"
    done = subprocess.run(
        [program("bash"), "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=tmp_path,
        env={
            **os.environ,
            **env,
            "PATH": f"{ADVISE.parent}:{os.environ['PATH']}",
            "GITHUB_STEP_SUMMARY": str(summary),
            "GITHUB_OUTPUT": str(output),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert output.read_text() == f"status={status}\n"
    assert "## advise check" in summary.read_text()
    assert json.loads((tmp_path / "advise.sarif").read_text())["version"] == "2.1.0"
    if status == 1:
        assert "::error file=serve.sh,line=1," in done.stdout


def test_gitlab_example_calls_what_is_there() -> None:
    body = yaml.safe_load((EXAMPLES / ".gitlab-ci.yml").read_text())
    line = next(x for x in body["advise"]["script"] if x.startswith("advise "))
    assert shlex.split(line)[:2] == ["advise", "check"]
    assert body["advise"]["artifacts"]["reports"]["codequality"] in line
