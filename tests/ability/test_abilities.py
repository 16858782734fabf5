"""Abilities: the fit finds what made up scores hide, and the shipped rules are what the command writes."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
from reading import read_yaml

from advisor.ability.lookup import (
    classify_licence,
    find_ability,
    find_format_loss,
    find_rag_facts,
    thinking_mode,
)
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from tools.ability import calibrate
from tools.ability.fit import ELO_PER_LOGIT, Score, fit_use, make_scores, read_rows

CATALOG = catalog([shipped_root()])
DATA = Path(__file__).parents[1] / "data/model_quality.csv"


MadeUp = tuple[list[Score], dict[str, tuple[float, float, float]], dict[str, float]]


def made_up(seed: int, models: int = 30, runs: int = 12) -> MadeUp:
    """Scores of models whose ability is known: every run has an offset and a slope of its own, and sees a third."""
    rng = random.Random(seed)
    features = {f"m{i}": (rng.uniform(0, 8), rng.uniform(0, 5), rng.uniform(1, 3.9)) for i in range(models)}
    truth = {m: 0.3 * t + 1.2 * y + rng.gauss(0, 0.4) for m, (t, _, y) in features.items()}
    scores = []
    for r in range(runs):
        offset, slope = rng.uniform(-3, 3), rng.uniform(0.3, 1.5)
        for m in rng.sample(sorted(features), models // 3):
            value = offset + slope * (truth[m] + rng.gauss(0, 0.3))
            scores.append(Score(m, "chat", f"f{r}", f"r{r}", r % 2 == 0, False, value))
    return scores, features, truth


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_fit_orders_models_as_they_are(seed: int) -> None:
    scores, features, truth = made_up(seed)
    fit = fit_use(scores, features)
    pairs = [(a, b) for a in fit.abilities for b in fit.abilities if truth[a] > truth[b] + 0.3]
    right = sum(fit.abilities[a] > fit.abilities[b] for a, b in pairs)
    assert right / len(pairs) > 0.93
    judged = calibrate.judge_use(scores, features)
    assert judged.fit > judged.prior > judged.size > 0.5


def test_spreads_shrink_with_evidence() -> None:
    scores, features, _ = made_up(4)
    counts = {m: sum(s.model == m for s in scores) for m in features}
    fit = fit_use(scores, features)
    seldom = [fit.spreads[m] for m in fit.spreads if counts[m] <= 2]
    often = [fit.spreads[m] for m in fit.spreads if counts[m] >= 6]
    assert max(often) < min(seldom)


def test_elo_and_shares_are_on_one_scale() -> None:
    """A model that wins two of three games is ln 2 ahead, by Elo as by the logit of its share."""
    assert 173.7 * math.log(2) == pytest.approx(400 * math.log10(2), rel=1e-3)
    board, card = "independent leaderboard", "vendor card"
    elo_row = {"benchmark": "LMArena text Elo", "score": "1400", "setting": "", "reported_by": board}
    share_row = {"benchmark": "GPQA", "score": "66.666667", "setting": "non-thinking", "reported_by": card}
    rest = {"model_id": "Qwen/Qwen3-32B", "benchmark_version_or_date": "", "name_in_source": ""}
    rows = [{**rest, **row} for row in (elo_row, share_row)]
    elo, share = make_scores(rows, CATALOG)
    assert elo.value == pytest.approx(1400 / ELO_PER_LOGIT)
    assert share.value == pytest.approx(math.log(2), abs=1e-6)
    assert elo.independent
    assert not share.independent
    assert not share.thinking


def test_opinions_about_scores_are_no_scores() -> None:
    rows = [r for r in read_rows(DATA) if r["reported_by"].startswith("aggregator")]
    assert rows
    assert make_scores(rows, CATALOG) == []


@pytest.mark.slow
def test_rules_are_what_the_command_writes() -> None:
    body = calibrate.make_rules(read_rows(DATA), CATALOG)
    shipped = read_yaml((shipped_root() / "abilities.yaml").read_text(encoding="utf-8"))
    for use, figures in body["uses"].items():
        for name in ("models", "runs"):
            assert shipped["uses"][use][name] == figures[name], "python -m tools.ability.calibrate, see docs"
        assert shipped["uses"][use]["thinking"] == pytest.approx(figures["thinking"], abs=0.02)
    for model, uses in body["abilities"].items():
        for use, figures in uses.items():
            assert shipped["abilities"][model][use] == pytest.approx(figures, abs=0.02)


def test_left_out_tests_are_ordered_better_than_by_size_and_age() -> None:
    shipped = read_yaml((shipped_root() / "abilities.yaml").read_text(encoding="utf-8"))
    for use in ("chat", "code", "agent"):
        agreement = shipped["uses"][use]["agreement"]
        assert agreement["fit"] > agreement["prior"] > agreement["size"]
        assert agreement["pairs"] > 1000


def test_thinking_is_a_mode() -> None:
    def mode(name: str) -> str:
        return thinking_mode(CATALOG.find_model(name), CATALOG)

    assert mode("deepseek-ai/DeepSeek-R1") == mode("openai/gpt-oss-20b") == mode("Qwen/QwQ-32B") == "always"
    assert mode("Qwen/Qwen3-32B") == mode("zai-org/GLM-4.6") == "optional"
    assert mode("Qwen/Qwen3-30B-A3B-Instruct-2507") == mode("meta-llama/Llama-3.3-70B-Instruct") == "never"
    plain = find_ability(CATALOG.find_model("Qwen/Qwen3-32B"), "chat", CATALOG, thinking=False)
    thought = find_ability(CATALOG.find_model("Qwen/Qwen3-32B"), "chat", CATALOG)
    assert plain is not None
    assert thought is not None
    assert thought.value > plain.value
    assert thought.thinks
    assert not plain.thinks
    assert find_ability(CATALOG.find_model("deepseek-ai/DeepSeek-R1"), "voice", CATALOG) is None


def test_unmeasured_models_keep_size_and_age_with_a_wide_interval() -> None:
    seen = 0
    for name in CATALOG.model_ids():
        model = CATALOG.find_model(name)
        ability = find_ability(model, "chat", CATALOG)
        if ability is not None and ability.boards == 0:
            seen += 1
            assert ability.spread > 0.5
    assert seen > 50


def test_kinds_are_not_mixed() -> None:
    assert find_ability(CATALOG.find_model("BAAI/bge-m3"), "chat", CATALOG) is None
    assert find_ability(CATALOG.find_model("Qwen/Qwen3-8B"), "embeddings", CATALOG) is None
    assert find_ability(CATALOG.find_model("Qwen/Qwen3-Embedding-4B"), "embeddings", CATALOG) is not None


def test_rag_has_two_facts() -> None:
    facts = [find_rag_facts(CATALOG.find_model(n), CATALOG) for n in CATALOG.model_ids()]
    assert sum(f is not None and f.hallucination_percent is not None for f in facts) >= 30
    assert sum(f is not None and f.effective_context is not None for f in facts) >= 10


def test_losses_grow_as_formats_narrow_and_models_shrink() -> None:
    large, small = CATALOG.find_model("Qwen/Qwen2.5-72B-Instruct"), CATALOG.find_model("Qwen/Qwen2.5-0.5B-Instruct")

    def middle(format: str, model: object = large) -> float:
        loss = find_format_loss(format, model, CATALOG)  # type: ignore[arg-type]
        assert loss is not None
        assert 0 <= loss[0] <= loss[1]
        return sum(loss) / 2

    ladder = [middle(f) for f in ("BF16", "Q8_0", "Q5_K_M", "Q4_K_M", "Q4_0", "Q3_K_M", "Q3_K_S", "Q2_K", "IQ1_S")]
    assert ladder == sorted(ladder)
    for format in ("AWQ", "GPTQ", "Q4_K_M", "MLX-4bit"):
        assert middle(format, small) > middle(format)
    # readings: GPTQ-Int4 keeps 99.9 % at 72B, 95.8 at 7B, 93.0 at 1.5B, 86.3 at 0.5B
    for name, lost in (("72B", 0.1), ("7B", 4.2), ("1.5B", 7.0), ("0.5B", 13.7)):
        loss = find_format_loss("GPTQ", CATALOG.find_model(f"Qwen/Qwen2.5-{name}-Instruct"), CATALOG)
        assert loss is not None
        assert loss[0] <= lost <= loss[1]
    assert find_format_loss("MXFP4", CATALOG.find_model("openai/gpt-oss-120b"), CATALOG) == (0, 0)  # as it is published
    assert find_format_loss("4-bit", large, CATALOG) is None


def test_licences() -> None:
    assert classify_licence("Apache-2.0", CATALOG) == "permissive"
    assert classify_licence("gemma", CATALOG) == "conditions"
    assert classify_licence("cc-by-nc-4.0", CATALOG) == "noncommercial"
    assert classify_licence(None, CATALOG) == classify_licence("other", CATALOG) == "unknown"
