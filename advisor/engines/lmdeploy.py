"""LMDeploy: a KV pool; memory from its constants in rules/engines."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, Setting
from advisor.engines import pool
from advisor.engines.base import Decided

memory = pool.memory
FORMATS = {"AWQ": "awq", "GPTQ": "gptq", "FP8": "fp8", "MXFP4": "mxfp4"}
CACHE: dict[str, Setting] = {
    "int8": 8,
    "8": 8,
    "q8_0": 8,
    "int4": 4,
    "4": 4,
    "fp8": "fp8",
}  # accepted names -> `--quant-policy`


def settings(d: Deployment, entry: Engine, q: Quantization) -> tuple[Decided, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    out = pool.common_settings(d, entry)
    batch = pool.resolve(d, entry, pool.constants(entry)).batched_tokens
    out += (Decided(name="max-prefill-token-num", value=batch, because="prompt tokens of one step; working memory"),)
    kind = pool.resolve(d, entry, pool.constants(entry)).kv_type
    if q.id in FORMATS:
        out += (Decided(name="model-format", value=FORMATS[q.id], because="the checkpoint's weight format"),)
    if kind in CACHE:
        out += (Decided(name="quant-policy", value=CACHE[kind], because="smaller KV cache than 16 bit"),)
    return out
