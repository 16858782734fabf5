"""Every command line of the documents is run as it stands, next to the files that it names, and answers."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import commands
import pytest
from engine_lines import write_log
from sample_results import AIPERF, METRICS, RATES

from tools.accuracy.rows import read_rows

TOP = Path(__file__).resolve().parent.parent
PAGES = [
    *sorted((TOP / "docs").glob("*.md")),
    TOP / "CONTRIBUTING.md",
    TOP / "examples/README.md",
]
TGI = "ghcr.io/huggingface/text-generation-inference:3.3.4"
OTHER_ENGINE = f"services: {{t: {{image: '{TGI}', gpus: all, command: [--model-id, Qwen/Qwen3-8B]}}}}\n"
FLEETS = TOP / "tests/data/fleet/recorded"
COMMAND = re.compile(r"^(?:\$ )?(?:(?P<producer>[^|]+?) \| )?(?:\.venv/bin/)?(?P<command>advise [a-z].*)$")

# commands that a test of their own runs, or that no test can: how they begin -> where, or why
ELSEWHERE = {
    "advise serve": "tests/web",
    "advise site": "tests/web/test_site.py",
    "advise bench http": "tests/e2e/test_bench_server.py",
    "advise bench --export": "needs runs that were kept: tests/bench/test_evidence.py",
    "advise estimate --quiet --jsonl": "lines of scripts: tests/test_sweeps.py",
    "advise explain --online": "needs the hub: tests/models",
    "advise fleet show --slurm": "tests/fleet/test_inventory_live.py",
    "advise check deploy": "after the files are written: tests/test_commands_of_docs.py",
    "advise estimate --jsonl deployments.jsonl --shard": "tests/test_sweeps.py",
}


class Line(NamedTuple):
    """A command line of a page. `producer`: what its standard input comes from."""

    page: str
    producer: str | None
    command: str

    def __str__(self) -> str:
        return f"{self.page}: {self.command}"


def list_lines() -> list[Line]:
    """Command lines in fenced blocks of a shell, and in indented ones."""
    found = []
    for page in PAGES:
        text = re.sub(r"\\\n\s*", "", page.read_text(encoding="utf-8"))
        fenced = re.findall(r"(?ms)^```(?:sh|console)\n(.*?)^```", text)
        indented = re.sub(r"(?ms)^```.*?^```", "", text)
        lines = [x for block in fenced for x in block.splitlines()] + re.findall(r"(?m)^ {4}(\S.*)$", indented)
        for line in lines:
            if match := COMMAND.match(re.split(r"\s+# ", line)[0].strip()):
                found.append(Line(page.name, match["producer"], match["command"].strip()))
    return list(dict.fromkeys(found))


LINES = list_lines()
HERE = [line for line in LINES if not line.command.startswith(tuple(ELSEWHERE))]


def read_block(page: str, language: str, number: int = 0) -> str:
    """The text of a fenced block of a page."""
    text = (TOP / "docs" / page).read_text(encoding="utf-8")
    return str(re.findall(rf"(?ms)^```{language}\n(.*?)^```", text)[number])


def test_lines_are_found_and_none_is_left_out_for_nothing() -> None:
    assert len(LINES) >= 40
    for start in ELSEWHERE:
        assert any(line.command.startswith(start) for line in LINES), f"{start}: no page has it"
    for where in ELSEWHERE.values():
        assert (TOP / where.rpartition(": ")[2]).exists(), where


def write_kubernetes_nodes(folder: Path) -> None:
    """A recorded node list, and a list of pods that is empty."""
    shutil.copy(FLEETS / "k8s-nodes-constructed.json", folder / "nodes.json")
    (folder / "pods.json").write_text('{"apiVersion": "v1", "kind": "List", "items": []}')


@pytest.fixture(scope="module")
def reader_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that command lines of the pages name."""
    folder = tmp_path_factory.mktemp("reader")
    examples = TOP / "docs/examples/ci"
    shutil.copy(examples / "compose.yaml", folder)
    (folder / "deploy").mkdir()
    shutil.copy(examples / "deployment.yaml", folder / "deploy")
    for name in ("examples", "rules", "templates"):
        (folder / name).symlink_to(TOP / name)
    for name, number in (("fleet.yaml", 0), ("demand.yaml", 1)):
        (folder / name).write_text(read_block("fleet.md", "yaml", number))
    shutil.copy(folder / "fleet.yaml", folder / "nodes.yaml")
    write_kubernetes_nodes(folder)
    (folder / "plan.json").write_text(
        commands.advise("fleet", "plan", "fleet.yaml", "--models", "demand.yaml", "--json", folder=folder).stdout
    )
    text = (TOP / "docs/rules.md").read_text(encoding="utf-8")
    for path, content in re.findall(r"(?ms)^`(my-rules/[\w/.]+)`[.:].*?\n\n```yaml\n(.*?)^```", text):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(content, encoding="utf-8")
    (folder / "serve.sh").write_text("vllm serve Qwen/Qwen3-8B --max-model-len 8192\n")
    (folder / "profile_export_aiperf.json").write_text(json.dumps(AIPERF))
    return folder


def write_start_log() -> str:
    """The start-up log of a vLLM of the measured rows."""
    return write_log(next(r for r in read_rows(TOP / "tests/data/startup_logs.csv") if r["engine"] == "vllm"))


# what comes through a pipe -> its text
PRODUCERS: dict[str, Callable[[], str]] = {
    "helm template chart": lambda: (TOP / "docs/examples/ci/deployment.yaml").read_text(),
    "scontrol show node -o -d": lambda: (FLEETS / "slurm-22.05-detail-jobs-lines.txt").read_text(),
    "docker logs my-vllm 2>&1": write_start_log,
    "llama-bench -m model.gguf -o json": lambda: json.dumps(RATES),
    "curl -s localhost:8000/metrics": lambda: METRICS,
}


def _list_cases() -> list[Any]:
    """The first line of each command; the others, `rules lint`, which reads every file, and `hardware` are slow."""
    seen: Counter[str] = Counter()
    out = []
    for line in HERE:
        command = line.command.split()[1]
        seen[command] += 1
        slow = "rules lint" in line.command or command == "hardware" or seen[command] > 1
        out.append(pytest.param(line, marks=[pytest.mark.slow] if slow else [], id=str(line)))
    return out


@pytest.mark.parametrize("line", _list_cases())
def test_a_command_answers(line: Line, reader_files: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    shutil.copytree(reader_files, here, symlinks=True)
    command, _, into = line.command.partition(" > ")
    for name in re.findall(r"--(?:output|html|save) (\S+)|> (\S+)", line.command):
        shutil.rmtree(here / (name[0] or name[1]), ignore_errors=True)
    if line.page == "migrating.md":
        (here / "compose.yaml").write_text(OTHER_ENGINE)
    if line.producer == "docker logs my-vllm 2>&1":  # on a machine with cards nothing need be named
        command += " --on 'RTX 4090'"
    stdin = PRODUCERS[line.producer]() if line.producer else ""
    env = {"ADVISOR_DATA_DIR": str(tmp_path / "kept"), "HOME": str(tmp_path), "COLUMNS": "80"}
    done = commands.advise(*shlex.split(command)[1:], folder=here, stdin=stdin, env=env)
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout.strip() or "wrote" in done.stderr
    assert into or "--json" not in command or json.loads(done.stdout)


def test_every_pipe_is_known() -> None:
    assert {line.producer for line in HERE if line.producer} == set(PRODUCERS)


# console blocks are checked by the test that has their files: page -> test
CHECKED = {
    "README.md": "test_docs.py",
    "fleet.md": "fleet/test_fleet_page.py",
    "sweeps.md": "test_sweeps.py",
    "rules.md": "test_commands_of_docs.py",
    "tutorial.md": "test_commands_of_docs.py",
}


def test_every_shown_output_is_checked() -> None:
    for page in [*PAGES, TOP / "README.md"]:
        text = page.read_text(encoding="utf-8")
        shown = len(re.findall(r"(?m)^```console$", text))
        assert shown == len(re.findall(r"(?m)^<!-- checked output -->\n```console$", text)), page.name
        code = len(re.findall(r"(?m)^```python$", text))
        assert code == len(re.findall(r"(?m)^<!-- (?:checked python|recipe \w+) -->\n```python$", text)), page.name
        if shown:
            assert "checked output" in (TOP / "tests" / CHECKED[page.name]).read_text(encoding="utf-8")


@pytest.mark.slow
def test_faults_of_rules_are_as_shown(reader_files: Path, tmp_path: Path) -> None:
    """docs/rules.md, "Faults": each of four mistakes in the rules of the page."""
    shutil.copytree(reader_files / "my-rules", tmp_path / "my-rules")
    mistakes = (
        ("hardware/mine.yaml", "memory_bytes: 51539607552", "memory_bytes: 48000000000"),
        ("models/mine.yaml", "params_total: 8030261248", "params_total: 8993892597"),
        ("policy/house.yaml", "engine: ollama", "engine: olama"),
    )
    for name, right, wrong in mistakes:
        file = tmp_path / "my-rules" / name
        text = file.read_text()
        assert right in text
        file.write_text(text.replace(right, wrong))
    (tmp_path / "my-rules/prizes.yaml").write_text("a: 1\n")
    text = (TOP / "docs/rules.md").read_text(encoding="utf-8")
    ((line, shown),) = re.findall(r"(?ms)^<!-- checked output -->\n```console\n\$ (advise .*?)\n(.*?)^```", text)
    done = commands.advise(*shlex.split(line)[1:], folder=tmp_path)
    assert (done.stdout + done.stderr).splitlines() == shown.splitlines()


@pytest.mark.parametrize("page", ["check.md"])
def test_python_of_a_page_runs(page: str, reader_files: Path) -> None:
    (code,) = re.findall(
        r"(?ms)^<!-- checked python -->\n```python\n(.*?)^```", (TOP / "docs" / page).read_text(encoding="utf-8")
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=reader_files, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_tutorial_word_by_word(tmp_path: Path) -> None:
    """docs/tutorial.md: its commands in their order, in one folder; what it shows is printed."""
    text = (TOP / "docs/tutorial.md").read_text(encoding="utf-8")
    statuses = []
    for block in re.findall(r"(?ms)^```(?:sh|console)\n(.*?)^```", text):
        line, _, shown = block.removeprefix("$ ").partition("\n")
        if line.startswith("sed "):
            subprocess.run(["bash", "-c", line], cwd=tmp_path, check=True)
        if not line.startswith("advise "):
            continue
        env = {"HOME": str(tmp_path), "COLUMNS": "80", "ADVISOR_DATA_DIR": str(tmp_path / "kept")}
        done = commands.advise(*shlex.split(line)[1:], folder=tmp_path, env=env)
        statuses.append(done.returncode)
        printed = iter(done.stdout.splitlines())
        for wanted in shown.splitlines():
            if wanted.strip() not in ("", "..."):
                assert wanted in printed, f"`{line}` does not print: {wanted}"
    assert statuses == [0, 0, 0, 0, 0, 1]
