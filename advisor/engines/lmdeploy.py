"""LMDeploy: a KV pool; memory from its constants in rules/engines."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, Setting
from advisor.engines import pool
from advisor.engines.base import DecidedSetting

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


def launch_settings(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    out = pool.common_settings(deployment, entry)
    batch = pool.resolve_pool_settings(deployment, entry, pool.read_constants(entry)).batched_tokens
    out += (DecidedSetting("max-prefill-token-num", batch, "prompt tokens of one step; working memory"),)
    kind = pool.resolve_pool_settings(deployment, entry, pool.read_constants(entry)).kv_type
    if quantization.id in FORMATS:
        out += (DecidedSetting("model-format", FORMATS[quantization.id], "the checkpoint's weight format"),)
    if kind in CACHE:
        out += (DecidedSetting("quant-policy", CACHE[kind], "smaller KV cache than 16 bit"),)
    return out
