"""Types of rules/boards.yaml, rules/thinking.yaml and rules/abilities.yaml."""

from typing import Literal

from advisor.meanings import ModelId, Pattern, UseCase
from advisor.record import Record

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
