"""OpenVINO Model Server: weights and a cache of all requests; memory from its constants in rules/engines."""

from __future__ import annotations

import math

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import fitting, plain
from advisor.engines.base import Decided

memory = plain.memory
GIB = 2**30
TASKS = {"embedding": "embeddings", "reranker": "rerank"}


def settings(d: Deployment, entry: Engine, q: Quantization) -> tuple[Decided, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    m = plain.memory(d, entry, q)
    rows = m.devices or ((m.host,) if m.host else ())
    cache = math.ceil(sum(r.kv_cache_bytes or 0 for r in rows) / GIB)
    out = [
        Decided(name="task", value=TASKS.get(d.model.kind, "text_generation"), because="what the model is for"),
        Decided(
            name="target_device",
            value="GPU" if fitting.devices(d) else "CPU",
            because="the device of the graph; the default is the CPU",
        ),
    ]
    if d.model.kind == "chat":
        out += [
            Decided(name="max_num_seqs", value=d.sequences, because="requests that run at once"),
            Decided(
                name="cache_size",
                value=max(1, cache),
                because="GB of the cache of all requests; the default grows without an end",
            ),
        ]
    return tuple(out)
