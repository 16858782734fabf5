"""Policy overlays (forbid, prefer, pin), and schemas of every kind of rule file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from commands import advise

import advisor
from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import RecommendRequest
from advisor.advice.types import Advice
from advisor.catalog import catalog
from advisor.catalog.load import read_rule_document
from advisor.catalog.roots import rule_files, shipped_root
from advisor.deployment import Workload
from advisor.session import Session
from tools.pages.rule_schemas import KINDS, make_rule_schemas

SCHEMAS = Path(advisor.__file__).parent / "schemas/rules"
pytestmark = pytest.mark.usefixtures("own_cache")


def overlay(folder: Path, text: str, name: str = "policy/house.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return folder


def advice(folder: Path, hardware: str = "RTX 4090, 64GB RAM, linux") -> Advice:
    rules = catalog([shipped_root(), folder])
    return recommend(
        RecommendRequest(advisor.machine(hardware), Workload(concurrency=8), "llama3.1:8b"), Session(rules)
    )


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


def test_a_rule_says_why() -> None:
    assert "LMDeploy" in advise("list", "rules", "--why", "advisor/engine/nvidia-volta").stdout


def find_rule_kind(file: str) -> str | None:
    """The kind of a rule file by its path relative to its folder; None for free documents."""
    if file.startswith("quantizations."):
        return "quantizations"
    folders = {"engines": "engine", "hardware": "hardware", "models": "models", "prices": "prices"}
    folders |= {"guides": "guide", "policy": "policy", "flags": "flags"}
    if file.startswith("checks/rules/"):
        return "checks"
    return folders.get(file.split("/")[0]) if "/" in file else None


def shipped_files() -> list[tuple[str, str]]:
    return [(n, k) for n, _ in rule_files(shipped_root()) if (k := find_rule_kind(n)) is not None]


@pytest.mark.parametrize(("name", "kind"), shipped_files())
def test_shipped_files_hold_to_the_schema_of_their_kind(name: str, kind: str) -> None:
    schema = json.loads((SCHEMAS / f"{kind}.json").read_text())
    document: Any = read_rule_document(shipped_root() / name)
    jsonschema.Draft202012Validator(schema).validate(document)


def test_schema_files_are_what_the_types_say() -> None:
    for name, text in make_rule_schemas().items():
        assert (SCHEMAS / name).read_text() == text, "make pages"
        jsonschema.Draft202012Validator.check_schema(json.loads(text))
    assert {p.stem for p in SCHEMAS.glob("*.json")} == set(KINDS)


def test_schemas_refuse_a_misspelt_field() -> None:
    schema = json.loads((SCHEMAS / "engine.json").read_text())
    entry = read_rule_document(shipped_root() / "engines/vllm.yaml")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate({**entry, "licence": "x"})
