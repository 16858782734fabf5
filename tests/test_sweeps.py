"""docs/sweeps.md: what it shows is printed, and its recipes answer what one process answers.

They are run as they stand, by the shell and by Python, with the variables that the scheduler sets; the one for Ray runs
under Ray in tests/e2e/test_beside_ray.py.
"""

from __future__ import annotations

import re
import runpy
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from programs import program
from recipes import PAGE, SHARDS, recipe, run_shell, write_sweep

SOME = (0, 7, SHARDS - 1)  # a process each: not all of them for every recipe


class Sweep(NamedTuple):
    """A folder with deployments.jsonl and what one process answers."""

    folder: Path
    whole: list[str]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[str]]:
    folder = tmp_path_factory.mktemp("whole")
    answers = write_sweep(folder)
    return (folder / "deployments.jsonl").read_bytes(), answers


@pytest.fixture
def sweep(whole: tuple[bytes, list[str]], tmp_path: Path) -> Sweep:
    (tmp_path / "deployments.jsonl").write_bytes(whole[0])
    return Sweep(tmp_path, whole[1])


def shard_of(sweep: Sweep, i: int) -> str:
    """The answers of a shard, by position."""
    return "".join(a for n, a in enumerate(sweep.whole) if n % SHARDS == i)


def answered(sweep: Sweep, i: int) -> str:
    return (sweep.folder / "answers" / f"{i}.jsonl").read_bytes().decode()


def job() -> Any:
    return yaml.safe_load(recipe("kubernetes"))


def container() -> Any:
    (one,) = job()["spec"]["template"]["spec"]["containers"]
    return one


def test_what_is_shown_is_printed(tmp_path: Path) -> None:
    ((name, content),) = re.findall(r"(?ms)^<!-- file (\S+) -->\n```json\n(.*?)^```$", PAGE)
    (tmp_path / name).write_text(content, encoding="utf-8")
    (block,) = re.findall(r"(?ms)^<!-- checked output -->\n```console\n(.*?)^```$", PAGE)
    parts = re.findall(r"(?m)^\$ (.*)\n((?:(?!\$ ).*\n)*)", block)
    assert len(parts) == 3
    for command, shown in parts:
        done = run_shell(command, tmp_path)
        assert done.stdout + done.stderr == shown


@pytest.mark.slow
def test_xargs_answers_all_and_the_join_is_the_whole(sweep: Sweep) -> None:
    done = run_shell(recipe("xargs"), sweep.folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert run_shell(recipe("join"), sweep.folder).returncode == 0
    assert (sweep.folder / "answers.jsonl").read_bytes().decode() == "".join(sweep.whole)
    assert sorted(p.name for p in (sweep.folder / "answers").iterdir()) == sorted(f"{i}.jsonl" for i in range(SHARDS))

    kept = sweep.folder / "answers/2.jsonl"
    before = kept.stat().st_mtime_ns
    (sweep.folder / "answers/5.jsonl").unlink()
    lacking = run_shell(recipe("join"), sweep.folder)
    assert lacking.returncode != 0
    assert "5.jsonl" in lacking.stderr
    assert run_shell(recipe("xargs"), sweep.folder).returncode == 0
    assert answered(sweep, 5) == shard_of(sweep, 5)
    assert kept.stat().st_mtime_ns == before


@pytest.mark.parametrize("variable", ["SLURM_ARRAY_TASK_ID", "SLURM_PROCID"])
def test_slurm_tasks_answer_their_shards(variable: str, sweep: Sweep) -> None:
    for i in SOME:
        also = {"SLURM_PROCID": "0"} if variable == "SLURM_ARRAY_TASK_ID" else {}  # a batch script has both
        done = run_shell(recipe("slurm"), sweep.folder, **{**also, variable: str(i)})
        assert (done.returncode, done.stderr) == (0, "")
        assert answered(sweep, i) == shard_of(sweep, i)


def test_slurm_starts_as_many_tasks_as_there_are_shards() -> None:
    text = recipe("slurm")
    assert text.startswith("#!/bin/bash\n#SBATCH ")
    assert re.findall(r"(?m)^#SBATCH --array=(\S+)$", text) == [f"0-{SHARDS - 1}"]
    assert re.findall(r'--shard "\$i/(\d+)"', text) == [str(SHARDS)]


def test_kubernetes_pods_answer_their_shards(sweep: Sweep) -> None:
    one = container()
    assert one["command"] == ["sh", "-euc"]
    (script,) = one["args"]
    assert "$(" not in script  # Kubernetes would take it for a variable of its own
    for i in SOME:
        told = {"JOB_COMPLETION_INDEX": str(i), "HOSTNAME": f"sweep-{i}-x7k2p"}
        done = run_shell(f"set -eu\n{script}", sweep.folder, **told)
        assert (done.returncode, done.stderr) == (0, "")
        assert answered(sweep, i) == shard_of(sweep, i)


@pytest.mark.filterwarnings("ignore")
def test_the_kubernetes_job_holds_by_the_published_schema() -> None:
    import kubernetes_validate

    document = job()
    kubernetes_validate.validate(document, "1.33", strict=True)
    spec = document["spec"]
    assert (spec["completionMode"], spec["completions"]) == ("Indexed", SHARDS)
    mounted = {m["name"] for m in container()["volumeMounts"]}
    assert mounted == {v["name"] for v in spec["template"]["spec"]["volumes"]}
    spec["completion"] = 1
    with pytest.raises(kubernetes_validate.utils.ValidationError):
        kubernetes_validate.validate(document, "1.33", strict=True)


def test_a_shard_that_fails_leaves_no_answers(tmp_path: Path) -> None:
    (script,) = container()["args"]
    failing = (
        (recipe("xargs"), {}),
        (recipe("slurm"), {"SLURM_ARRAY_TASK_ID": "3"}),
        (f"set -eu\n{script}", {"JOB_COMPLETION_INDEX": "3", "HOSTNAME": "sweep-3"}),
    )
    for text, told in failing:
        # no deployments.jsonl; the number of processes is not the point
        done = run_shell(text.replace("seq 0 15", "seq 0 1"), tmp_path, **told)
        assert done.returncode != 0
        assert "deployments.jsonl: cannot be read" in done.stderr
        assert not list(tmp_path.glob("answers/*.jsonl"))


def test_tasks_of_ray_answer_their_shards(sweep: Sweep, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The function that Ray is given, called without it."""
    program_file = tmp_path_factory.mktemp("ray") / "sweep.py"
    program_file.write_text(recipe("ray"), encoding="utf-8")
    names = runpy.run_path(str(program_file), run_name="sweep")
    assert names["SHARDS"] == SHARDS
    for i in SOME:
        assert names["answer"](str(sweep.folder), i) == i
        assert answered(sweep, i) == shard_of(sweep, i)


@pytest.mark.parametrize(("name", "shell"), [("join", "bash"), ("xargs", "sh"), ("slurm", "bash")])
def test_shellcheck_finds_nothing(name: str, shell: str, tmp_path: Path) -> None:
    file = tmp_path / "recipe"
    file.write_text(recipe(name), encoding="utf-8")
    # SC2016: the single quotes of `sh -c '... $1'` are meant
    words = [program("shellcheck"), "-s", shell, "-e", "SC2016", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout == ""
