"""The ability of a model for a use, what formats cost of it, and what its licence allows."""

from __future__ import annotations

import datetime
import math
import re
from typing import Literal

from advisor.catalog import Catalog, ModelRow
from advisor.catalog.documents import decode_document
from advisor.meanings import ModelId, Pattern, QuantizationName, UseCase
from advisor.memo import memoize_by_identity
from advisor.models.types import Model
from advisor.record import Record, Value

FIRST_YEAR = 2023.0  # ages are counted from here
SPEAKS_FOR = dict.fromkeys(("rag", "translate", "extract", "summarise", "batch", "develop", "voice", "edge"), "chat")
PLAIN_USES = ("voice", "edge")  # an answer has to begin at once: no thinking


class Ability(Value, frozen=True):
    """How able a model is for a use, on the scale of its fit (one spread of a typical test is 1)."""

    value: float
    spread: float  # one standard deviation
    boards: int  # tests it rests on; 0: size and age, and tests for another use where there are any
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
    return _find_mode(rules, model.id)


@memoize_by_identity
def _find_mode(rules: Catalog, name: str) -> ThinkingMode:
    return next((mode for pattern, mode in _compile_modes(rules) if pattern.search(name)), "never")


@memoize_by_identity
def _compile_modes(rules: Catalog) -> list[tuple[re.Pattern[str], ThinkingMode]]:
    modes = decode_document(rules, "thinking.yaml", ThinkingFile).modes
    return [(re.compile(r.pattern, re.I), r.mode) for r in modes]


def thinking_tokens(use: str, rules: Catalog) -> int:
    """Output tokens of a typical answer with thinking."""
    tokens = decode_document(rules, "thinking.yaml", ThinkingFile).thinking_tokens
    return tokens.get(SPEAKS_FOR.get(use, use), tokens["chat"])


def find_rag_facts(model: Model, rules: Catalog) -> RagFacts | None:
    """What is known of the model for answers from documents; None where nothing is."""
    return decode_document(rules, "abilities.yaml", AbilitiesFile).rag.get(model.id)


ThinkingMode = Literal["always", "optional", "never"]


class Board(Record, frozen=True, kw_only=True):
    """What the name of a published test means."""

    pattern: Pattern
    use: UseCase
    family: str
    scale: Literal["percent", "elo"] = "percent"
    lower: bool = False


class BoardsFile(Record, frozen=True, kw_only=True):
    """rules/boards.yaml."""

    as_of: str
    source: str
    boards: tuple[Board, ...]


class ThinkingRule(Record, frozen=True, kw_only=True):
    """Whether models of a name think before they answer."""

    pattern: Pattern
    mode: ThinkingMode


class ThinkingFile(Record, frozen=True, kw_only=True):
    """rules/thinking.yaml."""

    as_of: str
    source: str
    thinking_tokens: dict[UseCase, int]
    modes: tuple[ThinkingRule, ...]


class AbilityPrior(Record, frozen=True, kw_only=True):
    """What size and age alone tell: intercept + log2_total x T + log2_active x A + year x years since 2023.

    T and A are the logarithms to base 2 of all and of the active parameters in billions.
    """

    intercept: float
    log2_total: float
    log2_active: float
    year: float
    spread: float  # of a model that nobody measured


class Agreement(Record, frozen=True, kw_only=True):
    """Share of pairs that a family of tests orders as it was predicted without it; 0.5 is chance."""

    pairs: int
    fit: float
    prior: float  # size and age
    size: float


class UseAbilities(Record, frozen=True, kw_only=True):
    """One use: the prior, what thinking adds, and how the fit was judged."""

    prior: AbilityPrior
    thinking: float  # added where a model thinks
    models: int
    runs: int
    agreement: Agreement


class RagFacts(Record, frozen=True, kw_only=True):
    """Two facts that do not predict each other, so no one number."""

    hallucination_percent: float | None = None  # summaries of a given document with something that is not in it
    effective_context: int | None = None  # longest length at which RULER's tasks still hold


# ability without thinking, its spread (one standard deviation), tests, independent ones among them
MeasuredAbility = tuple[float, float, int, int]


class AbilitiesFile(Record, frozen=True, kw_only=True):
    """rules/abilities.yaml."""

    as_of: str
    source: str
    command: str
    uses: dict[UseCase, UseAbilities]
    abilities: dict[ModelId, dict[UseCase, MeasuredAbility]]
    rag: dict[ModelId, RagFacts] = {}


LicenceClass = Literal["permissive", "conditions", "noncommercial", "unknown"]


class SizedLoss(Record, frozen=True, kw_only=True):
    """The loss of models of a size."""

    below: float | None = None  # billions of parameters; None: all larger ones
    percent: tuple[float, float]


class FormatLoss(Record, frozen=True, kw_only=True):
    """Formats that cost about the same."""

    names: tuple[QuantizationName, ...]
    loss: tuple[SizedLoss, ...]


class CacheLoss(Record, frozen=True, kw_only=True):
    """Cache types that cost about the same."""

    names: tuple[str, ...]
    percent: tuple[float, float]


class FormatLossFile(Record, frozen=True, kw_only=True):
    """rules/format-loss.yaml."""

    as_of: str
    source: str
    formats: tuple[FormatLoss, ...]
    caches: tuple[CacheLoss, ...]


class LicencesFile(Record, frozen=True, kw_only=True):
    """rules/licences.yaml."""

    source: str
    as_of: str
    permissive: tuple[str, ...]
    conditions: tuple[str, ...]
    noncommercial: tuple[str, ...]


def find_format_loss(format: str, model: Model, rules: Catalog) -> tuple[float, float] | None:
    """Least and most percent of a test's score that a format costs this model; (0, 0) for the format it was published
    in, None where nothing is known."""
    if (model.native_quant or "").lower().startswith(format.lower()) and model.native_quant:
        return (0.0, 0.0)
    file = decode_document(rules, "format-loss.yaml", FormatLossFile)
    name = format.removeprefix("UD-") if format.startswith("UD-I") else format
    for row in file.formats:
        if name in row.names:
            size = model.params_total / 1e9
            return next((x.percent for x in row.loss if x.below is None or size < x.below), None)
    return None


def find_cache_loss(kind: str, rules: Catalog) -> tuple[float, float] | None:
    """Least and most percent of a test's score that a cache type costs; None where nothing is known."""
    file = decode_document(rules, "format-loss.yaml", FormatLossFile)
    return next((row.percent for row in file.caches if kind in row.names), None)


def classify_licence(name: str | None, rules: Catalog) -> LicenceClass:
    """What a licence allows, by its name."""
    file = decode_document(rules, "licences.yaml", LicencesFile)
    low = (name or "").lower()
    if low in file.permissive:
        return "permissive"
    if low in file.conditions:
        return "conditions"
    return "noncommercial" if low in file.noncommercial else "unknown"
