"""`advise rules lint`: lines, JSON and exit statuses. A small folder stands for the shipped rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import advise
from mini import CARDS, OFFER, mini, write

from advisor.catalog.roots import shipped_root
from advisor.cli.main import run_command_line

WRONG = {
    "prices/mine.yaml": OFFER.replace("card-a", "card-x"),
    "hardware/mine.yaml": "accelerators: [}",
    "policy/mine.yaml": "forbid:\n- {engine: ee, reason: not ours}\n",
    "prizes.yaml": "a: 1\n",
}


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small folder in the place of the shipped rules."""
    root = mini(tmp_path / "shipped")
    monkeypatch.setattr("advisor.catalog.roots.shipped_root", lambda: root.resolve())
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ADVISOR_RULES", raising=False)
    monkeypatch.chdir(tmp_path)
    return root


def test_no_faults(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["rules", "lint"]) == 0
    assert capsys.readouterr() == ("rules: no faults\n", "")
    assert run_command_line(["rules", "lint", "--quiet"]) == 0
    assert run_command_line(["rules", "lint", "--json"]) == 0
    assert capsys.readouterr() == ("[]\n", "")


def test_all_faults_together_one_line_each(shipped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "mine", WRONG)
    assert run_command_line(["rules", "lint", "mine"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "mine/hardware/mine.yaml:1: is not valid YAML: did not find expected node content",
        "mine/policy/mine.yaml:2: forbid[0].engine: unknown engine 'ee'. Did you mean: e?",
        "mine/prices/mine.yaml:3: p X 24GB: accelerator: unknown accelerator 'card-x'. Did you mean: card-c, card-b?",
        "mine/prizes.yaml:1: no part of the program reads a file of this name. "
        "Did you mean: prices/*.yaml, recipes/*.yaml?",
    ]
    assert err == "mine: 4 faults\n"


def test_json_is_a_list_of_faults(shipped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "mine", WRONG)
    assert run_command_line(["rules", "lint", "--json", "mine"]) == 1
    faults = json.loads(capsys.readouterr().out)
    assert [set(f) for f in faults] == [{"file", "line", "code", "message", "near"}] * 4
    assert [(f["file"], f["line"], f["code"]) for f in faults] == [
        ("mine/hardware/mine.yaml", 1, "unreadable"),
        ("mine/policy/mine.yaml", 2, "unknown_name"),
        ("mine/prices/mine.yaml", 3, "unknown_name"),
        ("mine/prizes.yaml", 1, "unknown_file"),
    ]
    assert "card-b" in faults[2]["near"]


def test_folders_are_laid_over_each_other_in_their_order(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "one", {"prices/mine.yaml": WRONG["prices/mine.yaml"].replace("provider: p", "provider: q")})
    write(tmp_path / "two", {"hardware/x.yaml": CARDS.replace("card-a", "card-x").replace("Card A", "Card X")
                             .replace("10de:0001", "10de:0009").split("- id: card-b")[0]})  # fmt: skip
    assert run_command_line(["rules", "lint", "one"]) == 1
    assert run_command_line(["rules", "lint", "one", "two"]) == 0
    assert capsys.readouterr().out.endswith("one, two: no faults\n")
    monkeypatch.setenv("ADVISOR_RULES", str(tmp_path / "one"))  # the rules in force
    assert run_command_line(["rules", "lint"]) == 1
    assert "one/prices/mine.yaml:3: " in capsys.readouterr().out


@pytest.mark.parametrize("words", [["nowhere"], ["--jsn"]])
def test_usage(shipped: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["rules", "lint", *words]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_the_shipped_rules_have_no_faults_and_an_overlay_its_own(tmp_path: Path) -> None:
    done = advise("rules", "lint")
    assert (done.returncode, done.stdout) == (0, "rules: no faults\n"), done.stdout
    wrong = {
        "flags/vllm.yaml": "engine: vllm\nflagz: {}\n",
        "policy/field.yaml": "prefer:\n- {engine: vllm, reason: x, if: {field: gpu.vendr, is: nvidia}}\n",
        "checks/rules/mine.yaml": "rules: 7\n",
        "hardware/mine.yaml": "accelerators:\n- {id: x, name: X, vender: nvidia}\n",
    }
    done = advise("rules", "lint", str(write(tmp_path, wrong)))
    lines = done.stdout.splitlines()
    assert done.returncode == 1
    assert all(line.startswith(f"{tmp_path.resolve()}/") for line in lines), lines
    assert {line.removeprefix(f"{tmp_path.resolve()}/").split(":")[0] for line in lines} == set(wrong)
    assert shipped_root().is_dir()
