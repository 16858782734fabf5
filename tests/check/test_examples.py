"""examples/: the table of its README is what `advise check` says of each file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from advisor.cli.main import root

FOLDER = Path(__file__).resolve().parents[2] / "examples"
ROWS = re.findall(r"(?m)^\| \[([\w.-]+)\]\(\1\) \| .+ \| (\d) \|(.*)\|$", (FOLDER / "README.md").read_text("utf-8"))


def test_every_file_is_in_the_table() -> None:
    assert {name for name, _, _ in ROWS} == {p.name for p in FOLDER.iterdir()} - {"README.md"}
    assert {status for _, status, _ in ROWS} == {"0", "1"}


@pytest.mark.parametrize(("name", "status", "findings"), ROWS)
def test_the_verdict_is_the_one_of_the_table(name: str, status: str, findings: str) -> None:
    done = CliRunner().invoke(root, ["check", "--no-config", "--json", str(FOLDER / name)], standalone_mode=False)
    body = json.loads(done.stdout)
    assert done.return_value == int(status)
    assert {f["rule"] for f in body["findings"]} == set(re.findall(r"`([\w-]+)`", findings))
    (deployment,) = body["deployments"]
    assert deployment["fits"] is (name not in ("too-long.sh", "gone-flag.sh"))
