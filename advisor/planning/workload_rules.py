"""What a workload means where the user did not say, and the formats that are tried: rules/workloads.yaml."""

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.documents import decode_document
from advisor.meanings import QuantizationName, UseCase


class GgufOrder(msgspec.Struct, frozen=True):
    """GGUF formats: the first of `easy` that takes at most `easy_share` of the memory, else the first of `tight`."""

    easy: tuple[QuantizationName, ...]
    easy_share: float
    tight: tuple[QuantizationName, ...]


class TypicalTokens(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Mean tokens of a request."""

    prompt: int
    output: int


class WorkloadDefaults(msgspec.Struct, frozen=True):
    """The file's content."""

    source: str
    as_of: str
    context: dict[UseCase, int]
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
