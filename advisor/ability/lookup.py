"""The ability of a model for a use: measured where it was, else what size and age tell."""

from __future__ import annotations

import datetime
import math
import re

from advisor.ability.types import AbilitiesFile, AbilityPrior, RagFacts, ThinkingFile, ThinkingMode
from advisor.catalog import Catalog, ModelRow
from advisor.catalog.documents import decode_document
from advisor.models.types import Model
from advisor.record import Value

FIRST_YEAR = 2023.0  # ages are counted from here
SPEAKS_FOR = {"rag": "chat", "batch": "chat", "develop": "chat", "voice": "chat", "edge": "chat"}
PLAIN_USES = ("voice", "edge")  # an answer has to begin at once: no thinking


class Ability(Value, frozen=True):
    """How able a model is for a use, on the scale of its fit (one spread of a typical test is 1)."""

    value: float
    spread: float  # one standard deviation
    boards: int  # tests it rests on; 0: size and age alone
    independent: int
    thinks: bool  # whether the value is that of thinking answers


def find_ability(model: Model | ModelRow, use: str, rules: Catalog, thinking: bool = True) -> Ability | None:
    """The model's ability for a use; None where nothing is known of its kind or use, or it always thinks and may not.

    Source: rules/abilities.yaml, written by `python -m tools.ability.calibrate`.
    """
    file = decode_document(rules, "abilities.yaml", AbilitiesFile)
    base = SPEAKS_FOR.get(use, use)
    fitted = file.uses.get(base)
    if fitted is None or (base == "embeddings") is not (model.kind == "embedding") or model.kind == "reranker":
        return None
    mode = thinking_mode(model, rules)
    may = thinking and use not in PLAIN_USES
    if mode == "always" and not may:
        return None
    thinks = may and mode in ("always", "optional")
    measured = file.abilities.get(model.id, {}).get(base)
    if measured is not None:
        value, spread, boards, independent = measured
    else:
        expected = predict_from_size(fitted.prior, model)
        if expected is None:
            return None
        value, spread, boards, independent = expected, fitted.prior.spread, 0, 0
    return Ability(value + (fitted.thinking if thinks else 0.0), spread, boards, independent, thinks)


def predict_from_size(prior: AbilityPrior, model: Model | ModelRow) -> float | None:
    """What size and age alone tell; None where the model's age is not known."""
    born = release_year(model.release_date)
    if born is None:
        return None
    total, active = size_terms(model)
    return prior.intercept + prior.log2_total * total + prior.log2_active * active + prior.year * (born - FIRST_YEAR)


def size_terms(model: Model | ModelRow) -> tuple[float, float]:
    """log2 of the total and of the active parameters, in billions."""
    return math.log2(model.params_total / 1e9), math.log2((model.params_active or model.params_total) / 1e9)


def release_year(date: str | None) -> float | None:
    """A date (`2025-04-27`, `2025-04`, `2025`) as a year with its part; None where there is none."""
    m = re.match(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?", date or "")
    if m is None:
        return None
    day = datetime.date(int(m[1]), int(m[2] or 7), int(m[3] or 1))
    return day.year + (day.timetuple().tm_yday - 1) / 365


def thinking_mode(model: Model | ModelRow, rules: Catalog) -> ThinkingMode:
    """Whether the model thinks before it answers."""
    file = decode_document(rules, "thinking.yaml", ThinkingFile)
    return next((r.mode for r in file.modes if re.search(r.pattern, model.id, re.I)), "never")


def thinking_tokens(use: str, rules: Catalog) -> int:
    """Output tokens of a typical answer with thinking."""
    tokens = decode_document(rules, "thinking.yaml", ThinkingFile).thinking_tokens
    return tokens.get(SPEAKS_FOR.get(use, use), tokens["chat"])


def find_rag_facts(model: Model, rules: Catalog) -> RagFacts | None:
    """What is known of the model for answers from documents; None where nothing is."""
    return decode_document(rules, "abilities.yaml", AbilitiesFile).rag.get(model.id)
