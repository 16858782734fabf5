"""What an engine calls things, read from its own rules (`concepts` and `memory` in rules/engines/<engine>.yaml)."""

from __future__ import annotations

from typing import Literal

from advisor.catalog.launch_types import Concept
from advisor.catalog.types import Engine

ConceptName = Literal[
    "model", "model_repository", "model_file", "model_address", "served_name",
    "context_length", "total_context", "prompt_length", "sequences", "batched_tokens",
    "logical_batch", "tensor_parallel", "pipeline_parallel", "data_parallel", "data_parallel_attention", "stage_layers",
    "shared_cache", "device_shares", "prefix_caching", "no_prefix_caching",
    "expert_parallel", "expert_parallel_switch", "nodes", "memory_share", "kv_cache_type", "kv_cache_key_type",
    "kv_cache_value_type", "layers_on_device", "experts_on_device", "experts_on_host", "experts_on_host_layers",
    "tensor_places",
    "quantization", "dtype", "chunked_prefill", "eager", "cpu_offload", "speculative", "text_only", "remote_code",
    "lora", "lora_slots", "lora_rank", "address", "port", "api_key",
]  # fmt: skip


def find_concept(entry: Engine, name: ConceptName) -> Concept:
    """What the engine calls a concept; empty where it has none."""
    found: Concept = getattr(entry.concepts, name)
    return found


def find_own_flag(entry: Engine, name: ConceptName) -> str | None:
    """The engine's own long flag for a concept, without dashes; None where it has none."""
    flags = find_concept(entry, name).flags
    return flags[0] if flags else None


def takes_share_of_device(entry: Engine) -> bool:
    """Whether the engine's memory share is one of the whole device, not of what the weights leave."""
    return entry.memory.get("fraction_of") == "total"


def list_smaller_caches(entry: Engine) -> tuple[str, ...]:
    """KV cache types below 16 bits worth trying, the best first."""
    kinds = entry.memory.get("smaller_kv", ())
    return tuple(str(k) for k in kinds) if isinstance(kinds, (list, tuple)) else ()
