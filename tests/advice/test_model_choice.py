"""Which model, when none was named: near the one that is worth the most, with what was asked of it."""

from __future__ import annotations

import json
import statistics

import pytest
from choice_cases import MACHINES, USES, judge
from click.testing import CliRunner

from advisor.ability.lookup import find_ability
from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import ChoiceLimits, RecommendRequest
from advisor.catalog import catalog
from advisor.catalog.hardware_names import parse_hardware
from advisor.catalog.roots import shipped_root
from advisor.cli.main import root
from advisor.deployment import Workload
from advisor.session import Session

CATALOG = catalog([shipped_root()])


def ask(hardware: str, use: str = "chat", model: str | None = None, **limits: object) -> RecommendRequest:
    machine, workload = parse_hardware(hardware, CATALOG), Workload(use_case=use)  # type: ignore[arg-type]
    return RecommendRequest(machine, workload, model, choice=ChoiceLimits(**limits))  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_choice_is_near_the_best_that_fits() -> None:
    """Every model of the catalogue sized, on a third of the machines."""
    gaps = sorted(judge(machine, use, CATALOG).gap for machine in MACHINES[::3] for use in USES)
    assert statistics.median(gaps) <= 0.3
    assert gaps[int(0.9 * len(gaps))] <= 0.8


def test_the_uses_context_is_kept() -> None:
    chosen = recommend(ask("1x RTX 3060 12GB, 32GB RAM", "code"), Session(CATALOG)).chosen
    assert chosen is not None
    assert chosen.memory is not None
    assert chosen.memory.context_length >= 32768


def test_why_and_what_else_is_said() -> None:
    advice = recommend(ask("RTX 4090, 64GB RAM"), Session(CATALOG))
    assert any("is worth the most for chat" in w for w in advice.warnings)
    assert advice.chosen is not None
    assert advice.chosen.quality is not None
    assert advice.chosen.licence is not None
    ids = [m.model for m in advice.models]
    assert len(ids) >= 3
    assert advice.chosen.model not in ids
    body = json.loads(json.dumps(advice.to_dict()))
    assert body["chosen"]["quality"]["boards"] >= body["chosen"]["quality"]["independent"]
    assert body["models"][0]["loss_percent"][0] <= body["models"][0]["loss_percent"][1]


@pytest.mark.parametrize("hardware", ["RTX 4090, 64GB RAM", "1x RTX 3060 12GB, 32GB RAM", "M2 16GB"])
def test_limits_of_the_choice(hardware: str) -> None:
    permissive = recommend(ask(hardware, licence="permissive"), Session(CATALOG)).chosen
    assert permissive is not None
    assert permissive.licence is not None
    assert permissive.licence.model_class == "permissive"
    plain = recommend(ask(hardware, thinking=False), Session(CATALOG)).chosen
    assert plain is not None
    model = CATALOG.find_model(plain.model or "")
    assert find_ability(model, "chat", CATALOG, thinking=False) is not None
    assert recommend(ask(hardware, min_ability=50.0), Session(CATALOG)).chosen is None


def test_a_family_is_chosen_within() -> None:
    advice = recommend(ask("RTX 4090, 64GB RAM", model="gemma3"), Session(CATALOG))
    assert advice.chosen is not None
    assert (advice.chosen.model or "").startswith("google/gemma-3-")
    assert any("gemma3 is a family" in w for w in advice.warnings)
    assert all(m.model.startswith("google/gemma-3-") for m in advice.models)


def test_voice_never_thinks() -> None:
    chosen = recommend(ask("RTX 4090, 64GB RAM", "voice"), Session(CATALOG)).chosen
    assert chosen is not None
    assert chosen.quality is not None
    assert not chosen.quality.thinks


def test_models_are_listed_by_ability() -> None:
    result = CliRunner().invoke(root, ["list", "models", "--use", "code", "--on", "RTX 4090, 64GB RAM", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert len(rows) >= 8
    assert all(r["runs"]["decode_tps"] >= 8 for r in rows)
    everything = json.loads(CliRunner().invoke(root, ["list", "models", "--use", "code", "--json"]).stdout)
    values = [r["ability"] for r in everything]
    assert values == sorted(values, reverse=True)
    text = CliRunner().invoke(root, ["list", "models", "--use", "chat", "--on", "RTX 4090, 64GB RAM"]).output
    assert max(map(len, text.splitlines())) <= 80
    assert CliRunner().invoke(root, ["list", "engines", "--use", "chat"]).exit_code == 2
