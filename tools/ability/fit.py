"""Fit abilities to runs: each run orders its models with noise, on a scale of its own.

    value(model, run) = offset(run) + slope(run) x (ability(model) + thinking) + noise
    ability(model)    = prior(log2 total, log2 active, age) + own part

Slopes are the ratio of spreads (of the run's values and of the abilities of its models), so a narrow run of alike
models does not look like a wide one. Offsets, prior, thinking and own parts are one least squares problem; own parts
are drawn to 0 by `OWN`. An independent run counts `(VENDOR / INDEPENDENT) squared` times a vendor's. Needs numpy (the
test extra); the lookup does not.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.ability.lookup import Board, BoardsFile, thinking_mode
from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.record import Value

OWN = 0.45  # spread of a model's own part about size and age
INDEPENDENT, VENDOR = 0.35, 0.60  # noise of one score, in spreads of a typical run
WIDTHS = (3.0, 0.5, 0.5, 1.0)  # of the prior's intercept and slopes: nearly free
THINKING_PRIOR, THINKING_WIDTH = 0.3, 0.3
SMALLEST_RUN = 3  # models
ROUNDS = 12
WIDER = 1.3  # spreads are widened by this: tests of one harness share more than the fit knows

Features = tuple[float, float, float]  # log2 total, log2 active (billions), years


class FittedUse(Value, frozen=True):
    """The fit of one use: abilities and spreads by model, the prior's coefficients, what thinking adds."""

    abilities: dict[str, float]
    spreads: dict[str, float]
    prior: tuple[float, float, float, float]
    thinking: float
    runs: int


def fit_use(scores: Sequence[Score], features: Mapping[str, Features]) -> FittedUse:
    """Abilities of one use. Models without features, and runs of fewer than three models, are left out."""
    import numpy as np

    known = [s for s in scores if s.model in features]
    per_run: dict[str, list[Score]] = {}
    for score in known:
        per_run.setdefault(score.run, []).append(score)
    per_run = {r: found for r, found in per_run.items() if len({s.model for s in found}) >= SMALLEST_RUN}
    models = sorted({s.model for found in per_run.values() for s in found})
    index = {m: i for i, m in enumerate(models)}
    ability = np.array([0.2 * features[m][0] + 1.1 * features[m][2] for m in models])
    thinking = THINKING_PRIOR
    prior = np.zeros(4)
    spread = np.full(len(models), OWN)
    for _ in range(ROUNDS):
        ability = _normalise(ability, per_run, index)
        prior, thinking, ability, spread = _solve(per_run, index, models, features, ability, thinking)
    return FittedUse(
        {m: float(ability[i]) for m, i in index.items()},
        {m: float(spread[i]) * WIDER for m, i in index.items()},
        (float(prior[0]), float(prior[1]), float(prior[2]), float(prior[3])),
        float(thinking),
        len(per_run),
    )


def _normalise(ability: Any, per_run: Mapping[str, list[Score]], index: Mapping[str, int]) -> Any:
    """Abilities on the scale where the models of a typical run have a spread of 1."""
    import numpy as np

    spreads = [np.std([ability[index[s.model]] for s in found]) for found in per_run.values()]
    typical = float(np.mean([s for s in spreads if s > 0])) if spreads else 1.0
    return (ability - ability.mean()) / (typical or 1.0)


def _solve(
    per_run: Mapping[str, list[Score]],
    index: Mapping[str, int],
    models: Sequence[str],
    features: Mapping[str, Features],
    ability: Any,
    thinking: float,
) -> tuple[Any, float, Any, Any]:
    """One round: runs put on the scale of the abilities, then everything by least squares."""
    import numpy as np

    m, r = len(models), len(per_run)
    columns = 4 + 1 + m + r  # prior, thinking, own parts, offsets of runs
    rows: list[Any] = []
    right: list[float] = []

    def add(row: Any, value: float, noise: float) -> None:
        rows.append(row / noise)
        right.append(value / noise)

    x = np.array([(1.0, *features[name]) for name in models])
    for k, found in enumerate(per_run.values()):
        mine = np.array([ability[index[s.model]] + thinking * s.thinking for s in found])
        values = np.array([s.value for s in found])
        slope = max(float(values.std()), 0.02) / max(float(mine.std()), 0.15)
        scaled = (values - values.mean()) / slope + mine.mean()
        for score, value in zip(found, scaled, strict=True):
            row = np.zeros(columns)
            i = index[score.model]
            row[:4] = x[i]
            row[4] = float(score.thinking)
            row[5 + i] = 1.0
            row[5 + m + k] = 1.0
            add(row, float(value), INDEPENDENT if score.independent else VENDOR)
    for j, width in enumerate(WIDTHS):
        row = np.zeros(columns)
        row[j] = 1.0
        add(row, 0.0, width)
    row = np.zeros(columns)
    row[4] = 1.0
    add(row, THINKING_PRIOR, THINKING_WIDTH)
    for i in range(m):
        row = np.zeros(columns)
        row[5 + i] = 1.0
        add(row, 0.0, OWN)
    for k in range(r):
        row = np.zeros(columns)
        row[5 + m + k] = 1.0
        add(row, 0.0, 1.0)
    a, b = np.array(rows), np.array(right)
    normal = a.T @ a
    solution = np.linalg.solve(normal, a.T @ b)
    covariance = np.linalg.inv(normal)
    fitted = x @ solution[:4] + solution[5 : 5 + m]
    spread = []
    for i in range(m):
        row = np.zeros(columns)
        row[:4] = x[i] - x.mean(axis=0)  # differences between models: what all share does not matter
        row[5 + i] = 1.0
        spread.append(math.sqrt(float(row @ covariance @ row)))
    return solution[:4], float(solution[4]), fitted, np.array(spread)


ELO_PER_LOGIT = 173.7  # 400 / ln 10
LEAST, MOST = 0.005, 0.995  # shares that a logit is taken of


class Score(Value, frozen=True):
    """One published number. `value` is on the logit scale, higher is better."""

    model: str
    use: str
    family: str
    run: str
    independent: bool
    thinking: bool
    value: float


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a file of published scores."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def make_scores(rows: Sequence[dict[str, str]], rules: Catalog) -> list[Score]:
    """Scores that a board of the rules speaks for; of several of one model in one run and mode the best.

    Aggregators' scores are opinions about the other rows and are left out.
    """
    boards = decode_document(rules, "boards.yaml", BoardsFile).boards
    best: dict[tuple[str, str, bool], Score] = {}
    for row in rows:
        if row["reported_by"].startswith("aggregator"):
            continue
        board = next((b for b in boards if re.fullmatch(b.pattern, row["benchmark"].strip(), re.I)), None)
        value = _logit(row["score"], board) if board else None
        if board is None or value is None:
            continue
        independent = row["reported_by"].startswith("independent")
        kind = "independent" if independent else "vendor"
        run = f"{row['benchmark'].strip().lower()} | {row['benchmark_version_or_date']} | {kind}"
        mode = _thinks(row, rules)
        score = Score(row["model_id"], board.use, board.family, run, independent, mode, value)
        key = (score.run, score.model, score.thinking)
        if key not in best or best[key].value < score.value:
            best[key] = score
    return list(best.values())


def _logit(text: str, board: Board) -> float | None:
    try:
        score = float(text)
    except ValueError:
        return None
    if board.scale == "elo":
        return score / ELO_PER_LOGIT
    if not 0 <= score <= 100:
        return None
    share = min(MOST, max(LEAST, (100 - score if board.lower else score) / 100))
    return math.log(share / (1 - share))


def _thinks(row: dict[str, str], rules: Catalog) -> bool:
    """Whether the score is one of thinking answers: as stated; else as the model does unless it is set otherwise."""
    said = f"{row['setting']} {row['name_in_source']}".lower()
    if re.search(r"non-?thinking|no[- ]thinking|thinking off|without thinking", said):
        return False
    if re.search(r"thinking|reason(?:ing|er)|effort", said):
        return True
    return thinking_mode(rules.find_model(row["model_id"]), rules) != "never"
