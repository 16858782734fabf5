"""OpenVINO Model Server: weights and a cache of all requests; memory from its constants in rules/engines."""

from __future__ import annotations

import math

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import fitting, plain
from advisor.engines.base import DecidedSetting, list_decided
from advisor.units import GIB

memory = plain.memory
TASKS = {"embedding": "embeddings", "reranker": "rerank"}


def launch_settings(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    estimate = plain.memory(deployment, entry, quantization)
    places = estimate.devices or ((estimate.host,) if estimate.host else ())
    cache = math.ceil(sum(r.kv_cache_bytes or 0 for r in places) / GIB)
    target = deployment.settings.get("target_device") or ("GPU" if fitting.used_devices(deployment) else "CPU")
    chats = deployment.model.kind == "chat"
    rows = (
        (True, "task", TASKS.get(deployment.model.kind, "text_generation"), "what the model is for"),
        (True, "target_device", str(target), "the device of the graph; the default is the CPU"),
        (chats, "max_num_seqs", deployment.sequences, "requests that run at once"),
        (chats, "cache_size", max(1, cache), "GB of the cache of all requests; the default grows without an end"),
    )
    return tuple(list_decided(rows))
