"""rules/workloads.yaml, guide-memory.yaml and ranking.yaml: what a workload means by default, when a plan is better."""

from typing import Annotated

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.meanings import QuantizationName, UseCase, within


class GuideMemory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """rules/guide-memory.yaml: what a guide knows of memory before anything is sized."""

    source: str
    as_of: str
    four_bit_bits: float  # of a weight, scales included
    weights_share_of_cards: float
    weights_share_of_host: float

    def __post_init__(self) -> None:
        for name in ("weights_share_of_cards", "weights_share_of_host"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"`{name}` is a share above 0, 1 at most")


def load_guide_memory(rules: Catalog) -> GuideMemory:
    """The shares from the rules. Raises BadInput when an overlay spoiled them."""
    return decode_document(rules, "guide-memory.yaml", GuideMemory)


class GgufOrder(msgspec.Struct, frozen=True):
    """GGUF formats: the first of `easy` that takes at most `easy_share` of the memory, else the first of `tight`."""

    easy: tuple[QuantizationName, ...]
    easy_share: float
    tight: tuple[QuantizationName, ...]


class TypicalTokens(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Mean tokens of a request. `depth`: those that the requests before it in a session left in the cache."""

    prompt: int
    output: int
    depth: int = 0


class WorkloadDefaults(msgspec.Struct, frozen=True):
    """The file's content."""

    source: str
    as_of: str
    context: dict[UseCase, Annotated[int, within(512, 10_000_000, "is not a context length in tokens")]]
    typical: dict[UseCase, TypicalTokens]
    p95_over_mean: float
    slowest_between_tokens_s: float
    slowest_between_tokens_on_cpu_s: float
    unhurried: tuple[UseCase, ...]
    unified_memory_share: float
    gguf: GgufOrder
    hf: list[QuantizationName]
    hf_further: list[QuantizationName]
    mlx: list[QuantizationName]
    exl3: list[QuantizationName]
    mlc: list[QuantizationName]
    openvino: list[QuantizationName]
    litert: list[QuantizationName]

    def __post_init__(self) -> None:
        lacking = {"chat", "embeddings", *self.context, *self.typical} - (self.context.keys() & self.typical.keys())
        if lacking:
            raise ValueError(f"`context` or `typical` lacks {', '.join(sorted(lacking))}")


def load_workload_defaults(rules: Catalog) -> WorkloadDefaults:
    """The defaults from the rules. Raises BadInput when an overlay spoiled them."""
    return decode_document(rules, "workloads.yaml", WorkloadDefaults)


class PlanRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Factors of the planner's comparisons; the file says what each means."""

    source: str
    same: float
    worth_waiting: float
    staged: float
    behind: float
    spare: float
    admitted: int
    drafted_users: int
    drafted_from: float
    drafted_by_recipe: float
    users_of_copy: int
    named: float

    def __post_init__(self) -> None:
        for name in ("same", "worth_waiting", "staged", "behind", "spare", "admitted", "drafted_from", "named"):
            if getattr(self, name) < 1:
                raise ValueError(f"`plans.{name}` is a factor of 1 or more")


class Ranking(msgspec.Struct, frozen=True):
    """rules/ranking.yaml."""

    as_of: str
    plans: PlanRules


def load_plan_rules(rules: Catalog) -> PlanRules:
    """The factors from the rules. Raises BadInput when an overlay spoiled them."""
    return decode_document(rules, "ranking.yaml", Ranking).plans
