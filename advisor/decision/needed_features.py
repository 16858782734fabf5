"""Features that a workload cannot do without."""

from __future__ import annotations

from advisor.deployment import Workload
from advisor.models.types import Model


def list_needed_features(workload: Workload, model: Model | None = None) -> dict[str, None]:
    """Features that the workload cannot do without, in order."""
    wanted: dict[str, None] = {}
    if workload.structured_output:
        wanted["structured_output"] = None
    if workload.tool_calling:
        wanted["tool_calling"] = None
    if workload.vision:
        wanted["multimodal"] = None
    if workload.lora_adapters > 1:
        wanted["lora_multi"] = None
    if workload.api in ("openai", "anthropic"):
        wanted[f"{workload.api}_api"] = None
    if workload.use_case == "embeddings" or (model is not None and model.kind != "chat"):
        wanted["embeddings"] = None
    return wanted
