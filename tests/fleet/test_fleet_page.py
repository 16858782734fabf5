"""docs/fleet.md: its files and commands, as a reader would run them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from advisor.cli.main import run_command_line

PAGE = (Path(__file__).parent.parent.parent / "docs" / "fleet.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fleet, demand = re.findall(r"(?ms)^```yaml\n(.*?)^```", PAGE)
    (tmp_path / "fleet.yaml").write_text(fleet)
    (tmp_path / "demand.yaml").write_text(demand)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.mark.slow
def test_shown_output_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"(?ms)^<!-- checked output -->\n```console\n\$ (advise .*?)\n(.*?)^```", PAGE)
    assert len(blocks) == 2
    for line, shown in blocks:
        assert run_command_line(shlex.split(line)[1:]) == 0
        printed = iter(capsys.readouterr().out.splitlines())
        for wanted in shown.splitlines():
            if wanted.strip() not in ("", "..."):
                assert wanted in printed, f"`{line}` does not print: {wanted}"


def test_commands_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first block of shell lines: from a plan to files."""
    (first, *_) = re.findall(r"(?ms)^```sh\n(.*?)^```", PAGE)
    for line in first.splitlines():
        if not line.startswith("advise "):  # kubectl: test_plans reads what it would apply
            continue
        command, _, target = line.partition(" > ")
        assert run_command_line(shlex.split(command)[1:]) == 0, line
        if target:
            (folder / target).write_text(capsys.readouterr().out)
    assert len(list((folder / "deploy").iterdir())) >= 3
