"""What earlier versions wrote is still read, and says the same (docs/compatibility.md). Files are only added."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import commands
import jsonschema
import msgspec
import pytest

import advisor
from tools.pages.schemas import SHAPES, make_schema

FOLDER = Path(__file__).parent / "data" / "compatibility"
ANSWERS = sorted((FOLDER / "answers").glob("*.json"))
PLAN = FOLDER / "answers" / "fleet-plan.json"
ASKED = (str(FOLDER / "nodes.yaml"), "--models", str(FOLDER / "demand.yaml"))


def find_lost(before: Any, after: Any, at: str = "") -> list[str]:
    """Places whose value is gone or another one; what was added is no loss."""
    if isinstance(before, dict) and isinstance(after, dict):
        lost = [f"{at}/{k}" for k in before if k not in after]
        return lost + [x for k in before if k in after for x in find_lost(before[k], after[k], f"{at}/{k}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [x for i, (a, b) in enumerate(zip(before, after, strict=True)) for x in find_lost(a, b, f"{at}/{i}")]
    return [] if before == after else [at]


@pytest.mark.parametrize("path", ANSWERS, ids=lambda p: p.stem)
def test_an_answer_is_read_without_loss(path: Path) -> None:
    recorded = json.loads(path.read_text())
    read = msgspec.json.decode(path.read_bytes(), type=SHAPES[path.stem])
    assert find_lost(recorded, read.to_dict()) == []


def list_faults(errors: Iterable[jsonschema.ValidationError]) -> list[str]:
    """All faults but fields that lack; of alternatives those of the nearest."""
    out: list[str] = []
    for error in errors:
        if error.validator == "anyOf":
            branches: dict[Any, list[jsonschema.ValidationError]] = {}
            for inner in error.context:
                branches.setdefault(inner.schema_path[0], []).append(inner)
            out += min((list_faults(b) for b in branches.values()), key=len)
        elif error.validator != "required":
            out.append(error.message)
    return out


@pytest.mark.parametrize("path", ANSWERS, ids=lambda p: p.stem)
def test_an_answer_fits_its_schema(path: Path) -> None:
    """Fields that were added since may lack, and nothing else."""
    checker = jsonschema.Draft202012Validator(make_schema(path.stem))
    recorded = json.loads(path.read_text())
    assert list_faults(checker.iter_errors(recorded)) == []
    complete = msgspec.json.decode(path.read_bytes(), type=SHAPES[path.stem]).to_dict()
    assert [e.message for e in checker.iter_errors(complete)] == []


def test_a_loss_would_be_noticed() -> None:
    recorded = json.loads((FOLDER / "answers" / "recommend.json").read_text())
    assert find_lost(recorded, {k: v for k, v in recorded.items() if k != "growth"}) == ["/growth"]
    assert find_lost(recorded, recorded | {"chosen": recorded["chosen"] | {"copies": 7}}) == ["/chosen/copies"]


def test_a_snapshot_is_a_machine() -> None:
    done = commands.advise("explain", "--model", "8B", "--machine", str(FOLDER / "kept" / "machine.json"), "--json")
    assert done.returncode == 0, done.stderr
    machine = json.loads(done.stdout)["machine"]
    recorded = json.loads((FOLDER / "kept" / "machine.json").read_text())
    assert [d["name"] for d in machine["devices"]] == [d["name"] for d in recorded["devices"]]
    assert find_lost(recorded["memory"], machine["memory"]) == []


def test_calibrations_are_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from advisor.history import load_measurements, load_residuals

    shutil.copytree(FOLDER / "kept", tmp_path / "data")
    monkeypatch.setenv("ADVISOR_DATA_DIR", str(tmp_path / "data"))
    recorded = json.loads((FOLDER / "kept" / "memory-calibration.json").read_text())["residuals"][0]
    (residual,) = load_residuals()
    assert residual.beside_bytes == recorded["beside_bytes"]
    assert residual.weights_bytes == recorded["weights_bytes"]
    (measured,) = load_measurements()
    assert (measured.kind, measured.measured, measured.ratio) == ("decode", 61.5, 1.05)
    shutil.copy(FOLDER / "kept" / "runs-of-schema-1.json", tmp_path / "data" / "calibration.json")
    assert {(m.kind, m.ratio) for m in load_measurements()} == {("decode", 1.04), ("prefill", 0.9)}


def test_a_kept_plan_goes_on() -> None:
    done = commands.advise("fleet", "plan", *ASKED, "--keep", str(PLAN), "--json", "-q")
    assert done.returncode == 0, done.stderr
    plan, recorded = json.loads(done.stdout), json.loads(PLAN.read_text())
    assert plan["changes"] == {"kept": len(recorded["replicas"]), "started": 0, "stopped": []}


def test_a_kept_plan_is_rendered(tmp_path: Path) -> None:
    done = commands.advise("fleet", "render", str(PLAN), "--target", "kubernetes", "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir())


def test_a_baseline_leaves_out_what_it_holds(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "serve.sh", tmp_path / "serve.sh")
    words = ("check", "serve.sh", "--on", "RTX 4090", "--json")
    found, left = (
        json.loads(commands.advise(*words, *more, folder=tmp_path).stdout)["findings"]
        for more in ((), ("--baseline", str(FOLDER / "kept" / "baseline.json")))
    )
    recorded = json.loads((FOLDER / "kept" / "baseline.json").read_text())["findings"]
    assert {f["rule"] for f in found} >= {f["rule"] for f in recorded}
    assert not {f["rule"] for f in left} & {f["rule"] for f in recorded}


def test_a_lock_pins_a_model(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "kept" / "advise.lock", tmp_path / "advise.lock")
    (tmp_path / "s.sh").write_text("vllm serve --max-model-len 8192 --model our-org/mine\n")
    done = commands.advise("check", "s.sh", "--on", "RTX 4090, 64GB RAM", folder=tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_an_overlay_of_rules_has_no_fault() -> None:
    assert commands.advise("rules", "lint", str(FOLDER / "rules")).returncode == 0


def test_an_overlay_of_rules_is_in_force(tmp_path: Path) -> None:
    rules = str(FOLDER / "rules")
    words = ("explain", "--rules", rules, "--model", "assistant", "--on", "LabCard", "--json")
    explained = json.loads(commands.advise(*words).stdout)
    assert explained["model"] == "our-org/assistant-8b"
    assert explained["machine"]["devices"][0]["accelerator"] == "lab-card"
    words = ("recommend", "--model", "8B", "--rules", rules, "--on", "RTX 4090", "--json")
    advice = json.loads(commands.advise(*words).stdout)
    assert {r["engine"]: r["reasons"][0]["text"] for r in advice["rejected"]}["ollama"].startswith("no daemon")
    shutil.copy(FOLDER / "serve.sh", tmp_path / "serve.sh")
    checked = commands.advise("check", "serve.sh", "--rules", rules, "--on", "RTX 4090", "--json", folder=tmp_path)
    assert "our-length" in {f["rule"] for f in json.loads(checked.stdout)["findings"]}


def test_attributes_of_the_library_that_documents_name() -> None:
    machine = advisor.machine("2x RTX 4090, 128GB RAM, linux")
    advice = advisor.recommend(machine, model="70B", concurrency=2)
    assert advice.chosen is not None
    assert advice.chosen.deployment is not None
    assert advice.chosen.deployment.model.id == advice.chosen.model
    estimate = advisor.estimate(advice.chosen.deployment)
    assert estimate.devices[0].total_bytes == estimate.to_dict()["devices"][0]["total_bytes"]
