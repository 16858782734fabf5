"""Policy overlays (forbid, prefer, pin), what `advise rules lint` finds, schemas of every kind of rule file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

import advisor
from advisor.advice.recommend import Question, recommend
from advisor.advice.types import Advice
from advisor.catalog import catalog
from advisor.catalog.load import read_document
from advisor.catalog.roots import rule_files, shipped_root
from advisor.cli.main import root, run
from advisor.decision.lint import overlay_faults
from advisor.deployment import Workload
from advisor.report.rule_schemas import KINDS, kind_of, texts

SCHEMAS = Path(advisor.__file__).parent / "schemas/rules"


def overlay(folder: Path, text: str, name: str = "policy/house.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return folder


def advice(folder: Path, hardware: str = "RTX 4090, 64GB RAM, linux") -> Advice:
    rules = catalog([shipped_root(), folder])
    return recommend(Question(advisor.machine(hardware), Workload(concurrency=8), "llama3.1:8b"), rules)


def test_forbidden_engines_are_refused_with_the_reason(tmp_path: Path) -> None:
    a = advice(overlay(tmp_path, "forbid:\n- {engine: vllm, reason: our licence review is open}\n"))
    assert a.chosen is not None
    assert a.chosen.engine != "vllm"
    refused = {r.engine: r.reasons[0] for r in a.rejected}
    assert (refused["vllm"].code, refused["vllm"].text) == ("data_policy", "our licence review is open")


def test_preference_and_pin_with_a_condition(tmp_path: Path) -> None:
    text = """
prefer:
- {engine: sglang, reason: our team runs it, if: {field: gpu.vendor, is: nvidia}}
pin:
- {engine: sglang, version: 0.5.21, reason: the version that passed our tests}
"""
    a = advice(overlay(tmp_path, text))
    assert a.chosen is not None
    assert (a.chosen.engine, a.chosen.engine_version) == ("sglang", "0.5.21")
    assert any("our team runs it" in n for n in a.chosen.notes)
    elsewhere = advice(tmp_path, "M3 Max 64GB")
    assert elsewhere.chosen is not None
    assert elsewhere.chosen.engine != "sglang"


def test_a_preference_never_beats_what_does_not_run(tmp_path: Path) -> None:
    a = advice(overlay(tmp_path, "prefer:\n- {engine: mlx-lm, reason: we like it}\n"))
    assert a.chosen is not None
    assert a.chosen.engine == "vllm"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("forbid:\n- {engine: vlmm, reason: x}\n", "vllm"),
        ("forbid:\n- {engine: vllm}\n", "reason"),
        ("forbid:\n- {engine: vllm, reason: x, version: 1.0.0}\n", "only a pin"),
        ("pin:\n- {engine: vllm, reason: x}\n", "names a version"),
        ("forbidden:\n- {engine: vllm, reason: x}\n", "forbidden"),
        ("prefer:\n- {engine: vllm, reason: x, if: {field: gpu.vendr, is: nvidia}}\n", "gpu.vendor"),
        ("forbid:\n- {engine: vllm, reason: x}\nprefer:\n- {engine: vllm, reason: y}\n", "never counts"),
        ("forbid:\n- {engine: vllm, reason: x}\n- {engine: vllm, reason: y}\n", "twice"),
    ],
)
def test_lint_names_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    faults = overlay_faults(shipped_root(), overlay(tmp_path, text))
    assert len(faults) == 1
    assert said in faults[0]


def test_lint_of_tables_guides_and_folders(tmp_path: Path) -> None:
    assert overlay_faults(shipped_root(), tmp_path) == [f"{tmp_path}: holds no rule file (*.yaml)"]
    overlay(tmp_path, "accelerators:\n- {id: x, name: X, vender: nvidia}\n", "hardware/mine.yaml")
    assert any("vendor" in f for f in overlay_faults(shipped_root(), tmp_path))
    (tmp_path / "hardware/mine.yaml").unlink()
    overlay(tmp_path, "x: 1\n", "cards/mine.yaml")
    assert "no rules are read from a folder 'cards'" in overlay_faults(shipped_root(), tmp_path)[0]


def test_the_command(tmp_path: Path) -> None:
    good = overlay(tmp_path / "good", "forbid:\n- {engine: ollama, reason: not ours}\n")
    bad = overlay(tmp_path / "bad", "forbid:\n- {engine: olama, reason: not ours}\n")
    for folder, code in ((good, 0), (bad, 1)):
        done = CliRunner().invoke(root, ["rules", "lint", str(folder)], standalone_mode=False)
        assert done.return_value == code, done.output
    done = CliRunner().invoke(root, ["list", "rules", "--why", "advisor/engine/nvidia-volta"], standalone_mode=False)
    assert "LMDeploy" in done.output


def shipped_files() -> list[tuple[str, str]]:
    return [(n, k) for n, _ in rule_files(shipped_root()) if (k := kind_of(n)) is not None]


@pytest.mark.parametrize(("name", "kind"), shipped_files())
def test_shipped_files_hold_to_the_schema_of_their_kind(name: str, kind: str) -> None:
    schema = json.loads((SCHEMAS / f"{kind}.json").read_text())
    document: Any = read_document(shipped_root() / name)
    jsonschema.Draft202012Validator(schema).validate(document)


def test_schema_files_are_what_the_types_say() -> None:
    for name, text in texts().items():
        assert (SCHEMAS / name).read_text() == text, "python -m advisor.report.rule_schemas advisor/schemas/rules"
        jsonschema.Draft202012Validator.check_schema(json.loads(text))
    assert {p.stem for p in SCHEMAS.glob("*.json")} == set(KINDS)


def test_schemas_refuse_a_misspelt_field() -> None:
    schema = json.loads((SCHEMAS / "engine.json").read_text())
    entry = read_document(shipped_root() / "engines/vllm.yaml")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate({**entry, "licence": "x"})


def test_folders_of_an_overlay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file, text in (("flags/vllm.yaml", "engine: vllm\nflagz: {}\n"), ("other/x.yaml", "a: 1\n")):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_text(text)
    assert run(["rules", "lint", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "unknown field `flagz`" in said
    assert "no rules are read from a folder 'other'" in said


def test_rules_of_the_check_in_an_overlay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "checks/rules").mkdir(parents=True)
    (tmp_path / "checks/rules/mine.yaml").write_text("rules: 7\n")
    assert run(["rules", "lint", str(tmp_path)]) == 1
    assert "Expected `array`, got `int`" in capsys.readouterr().out
