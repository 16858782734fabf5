"""What the flags of a launch mean: the concepts of its engine (`concepts` in rules/engines), asked of its arguments."""

from __future__ import annotations

import re

from advisor.catalog.launch_types import Concept
from advisor.checks.knowledge import Knowledge
from advisor.checks.located import Text
from advisor.checks.settings import Argument, Arguments
from advisor.engines.flags import ConceptName, concept

NOTHING = Concept()
# concepts that decide memory; an engine's further settings are its `memory_settings`
MEMORY_CONCEPTS: tuple[ConceptName, ...] = (
    "model_repository", "model_file", "context_length", "total_context", "sequences", "batched_tokens",
    "tensor_parallel", "pipeline_parallel", "data_parallel", "data_parallel_attention", "expert_parallel", "nodes",
    "memory_share", "kv_cache_type", "kv_cache_key_type", "kv_cache_value_type", "layers_on_device",
    "experts_on_device", "quantization", "dtype", "eager", "cpu_offload", "speculative", "text_only", "lora",
    "lora_slots",
    "lora_rank", "logical_batch", "experts_on_host", "experts_on_host_layers",
)  # fmt: skip
LENGTHS: tuple[ConceptName, ...] = ("context_length", "total_context")
RANKS: tuple[ConceptName, ...] = ("tensor_parallel", "pipeline_parallel", "data_parallel")


def concept_of(engine: str, name: ConceptName, know: Knowledge) -> Concept:
    """What the engine of a launch calls a concept; empty where it lacks it, or the engine is not in the catalogue."""
    entry = know.rules.engines().get(engine)
    return concept(entry, name) if entry is not None else NOTHING


def flags_of(engine: str, names: tuple[ConceptName, ...], know: Knowledge) -> tuple[str, ...]:
    """Every spelling of these concepts' flags, without dashes."""
    return tuple(f for n in names for f in concept_of(engine, n, know).flags)


def given(a: Arguments, engine: str, know: Knowledge, *names: ConceptName) -> Argument | None:
    """The last argument that sets one of these concepts; None where none does."""
    flags = flags_of(engine, names, know)
    return a.last(*flags) if flags else None


def value_of(a: Arguments, engine: str, know: Knowledge, *names: ConceptName) -> Text | None:
    """The value that one of these concepts is given; None where none is, or it takes none."""
    found = given(a, engine, know, *names)
    return found.value if found is not None else None


def length_given(a: Arguments, engine: str, know: Knowledge) -> bool:
    """Whether the longest request is set by hand, or may be in what cannot be read."""
    return bool(a.open) or given(a, engine, know, *LENGTHS) is not None


def ranks(a: Arguments, engine: str, know: Knowledge) -> int | None:
    """Devices the launch asks for (tensor x pipeline x data ranks); None where a size is not known."""
    within = given(a, engine, know, "data_parallel_attention")
    total = 1
    for name in RANKS:
        if name == "data_parallel" and within is not None and not within.off:
            continue  # replicas split the tensor-parallel ranks
        v = value_of(a, engine, know, name)
        if v is None:
            continue
        if v.unknown or not re.fullmatch(r"\d{1,5}", v):
            return None
        total *= max(1, int(v))
    return total
