"""What the flags of a launch mean: the concepts of its engine (`concepts` in rules/engines), asked of its arguments."""

from __future__ import annotations

import re

from advisor.catalog.launch_types import Concept
from advisor.checks.knowledge import Knowledge
from advisor.checks.read.located_text import Text
from advisor.checks.resolve.arguments import LaunchArgument, LaunchArguments
from advisor.engines.flags import ConceptName, find_concept

NOTHING = Concept()
# concepts that decide memory; an engine's further settings are its `memory_settings`
MEMORY_CONCEPTS: tuple[ConceptName, ...] = (
    "model_repository", "model_file", "context_length", "total_context", "sequences", "batched_tokens",
    "tensor_parallel", "pipeline_parallel", "data_parallel", "data_parallel_attention", "expert_parallel", "nodes",
    "memory_share", "kv_cache_type", "kv_cache_key_type", "kv_cache_value_type", "layers_on_device",
    "experts_on_device", "quantization", "dtype", "eager", "cpu_offload", "speculative", "text_only", "lora",
    "lora_slots",
    "lora_rank", "logical_batch", "experts_on_host", "experts_on_host_layers",
    "tensor_places",
)  # fmt: skip
LENGTHS: tuple[ConceptName, ...] = ("context_length", "total_context")
RANKS: tuple[ConceptName, ...] = ("tensor_parallel", "pipeline_parallel", "data_parallel")


def find_launch_concept(engine: str, name: ConceptName, knowledge: Knowledge) -> Concept:
    """What the engine of a launch calls a concept; empty where it lacks it, or the engine is not in the catalogue."""
    entry = knowledge.rules.engines().get(engine)
    return find_concept(entry, name) if entry is not None else NOTHING


def list_concept_flags(engine: str, names: tuple[ConceptName, ...], knowledge: Knowledge) -> tuple[str, ...]:
    """Every spelling of these concepts' flags, without dashes."""
    return tuple(f for n in names for f in find_launch_concept(engine, n, knowledge).flags)


def find_concept_argument(
    arguments: LaunchArguments, engine: str, knowledge: Knowledge, *names: ConceptName
) -> LaunchArgument | None:
    """The last argument that sets one of these concepts; None where none does."""
    flags = list_concept_flags(engine, names, knowledge)
    return arguments.last(*flags) if flags else None


def find_concept_value(
    arguments: LaunchArguments, engine: str, knowledge: Knowledge, *names: ConceptName
) -> Text | None:
    """The value that one of these concepts is given; None where none is, or it takes none."""
    found = find_concept_argument(arguments, engine, knowledge, *names)
    return found.value if found is not None else None


def is_length_given(arguments: LaunchArguments, engine: str, knowledge: Knowledge) -> bool:
    """Whether the longest request is set by hand, or may be in what cannot be read."""
    return bool(arguments.open) or find_concept_argument(arguments, engine, knowledge, *LENGTHS) is not None


def count_ranks(arguments: LaunchArguments, engine: str, knowledge: Knowledge) -> int | None:
    """Devices the launch asks for (tensor x pipeline x data ranks); None where a size is not known."""
    within = find_concept_argument(arguments, engine, knowledge, "data_parallel_attention")
    total = 1
    for name in RANKS:
        if name == "data_parallel" and within is not None and not within.off:
            continue  # replicas split the tensor-parallel ranks
        word = find_concept_value(arguments, engine, knowledge, name)
        if word is None:
            continue
        if word.unknown or not re.fullmatch(r"\d{1,5}", word):
            return None
        total *= max(1, int(word))
    return total
