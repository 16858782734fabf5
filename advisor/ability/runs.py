"""Published scores as runs: one test of one version by one kind of reporter, on a scale where differences add up."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from pathlib import Path

from advisor.ability.lookup import thinking_mode
from advisor.ability.types import Board, BoardsFile
from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.record import Value

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
