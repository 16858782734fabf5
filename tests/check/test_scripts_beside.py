"""Files that belong together: a script that a unit or a compose service starts, variables that a script reads in."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import knowledge, launches, rules_of

from advisor.checks.one_file import CheckOptions, FileResult, check_file, make_checker
from advisor.checks.rules.edits import apply_edits
from advisor.checks.rules.evaluate import Rulebook

SCRIPT = "#!/bin/bash\nexec vllm serve Qwen/Qwen3-8B --swap-space 4\n"
COMPOSE = """\
services:
  v:
    image: vllm/vllm-openai:v0.33.0
    entrypoint: [ENTRY]
    volumes: ["./scripts:/opt/scripts:ro"]
    gpus: all
"""


def look(path: Path) -> FileResult:
    options = CheckOptions(fit=False, named=frozenset([str(path)]))
    return check_file(str(path), make_checker(Rulebook(knowledge()), options))


@pytest.mark.parametrize("entry", ["/opt/scripts/start.sh", "bash, /opt/scripts/start.sh"])
def test_a_script_that_a_service_mounts_is_what_it_starts(tmp_path: Path, entry: str) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/start.sh").write_text(SCRIPT)
    path = tmp_path / "compose.yaml"
    path.write_text(COMPOSE.replace("ENTRY", entry))
    found = look(path)
    (deployment,) = found.verdicts
    assert deployment.model is not None
    removed = next(f for f in found.findings if f.rule == "swap-space-removed")
    assert removed.severity == "error"  # the image pins the version
    assert removed.line == 4  # where the service starts it
    text = path.read_text()
    assert apply_edits(text, [e for f in found.findings for e in f.edits]) == text, (
        "another file's words are not edited"
    )


def test_a_script_outside_of_the_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "start.sh").write_text(SCRIPT)
    (tmp_path / "in").mkdir()
    path = tmp_path / "in/compose.yaml"
    path.write_text(
        COMPOSE.replace("ENTRY", "/opt/scripts/start.sh").replace("./scripts:/opt/scripts", "..:/opt/scripts")
    )
    assert "swap-space-removed" not in rules_of(look(path))


def test_a_unit_starts_the_script_of_that_name_beside_it(tmp_path: Path) -> None:
    (tmp_path / "start.sh").write_text(SCRIPT)
    unit = tmp_path / "v.service"
    unit.write_text("[Service]\nExecStart=/opt/llm/start.sh\n")
    assert "swap-space-removed" in rules_of(look(unit))
    unit.write_text("[Service]\nExecStart=/opt/llm/other.sh\n")
    assert look(unit).verdicts == ()


def test_an_entry_script_hands_its_words_on(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/start.sh").write_text('#!/bin/sh\nset -e\nexec "$@"\n')
    path = tmp_path / "compose.yaml"
    words = COMPOSE.replace("ENTRY", "/opt/scripts/start.sh")
    path.write_text(words.replace("    gpus", "    command: [vllm, serve, Qwen/Qwen3-8B, --swap-space, '4']\n    gpus"))
    assert "swap-space-removed" in rules_of(look(path))


@pytest.mark.parametrize("line", ["source ./server.env", ". server.env", 'source "$(dirname "$0")/server.env"'])
def test_variables_that_a_script_reads_in_are_known(tmp_path: Path, line: str) -> None:
    (tmp_path / "server.env").write_text('MODEL="Qwen/Qwen3-8B"\nTP=3\nOPEN=$HOME/x\n')
    path = tmp_path / "run.sh"
    path.write_text(f"#!/bin/bash\n{line}\nvllm serve $MODEL --tensor-parallel-size $TP --download-dir $OPEN\n")
    (deployment,) = look(path).verdicts
    assert deployment.model == "Qwen/Qwen3-8B"
    assert deployment.engine == "vllm"


def test_a_unit_starts_a_script_of_its_repository(tmp_path: Path) -> None:
    """A unit below a repository names the script where it is installed; it lies in a folder above with the same end."""
    (tmp_path / ".git").mkdir()
    for folder in ("scripts", "deploy/systemd"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "scripts/serve.sh").write_text("#!/bin/bash\nexec vllm serve Qwen/Qwen3-8B\n")
    unit = "[Service]\nExecStart=/usr/bin/env bash /home/me/app/{}/serve.sh\n"
    at = tmp_path / "deploy/systemd"
    assert [x.argv for x in launches(unit.format("scripts"), str(at / "x.service"), at)] == [("Qwen/Qwen3-8B",)]
    assert launches(unit.format("other"), str(at / "x.service"), at) == []
