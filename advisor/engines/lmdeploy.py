"""LMDeploy: a KV pool; memory from its constants in rules/engines."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, Setting
from advisor.engines import pool
from advisor.engines.base import DecidedSetting, list_decided

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
    settings = pool.resolve_pool_settings(deployment, entry, pool.read_constants(entry))
    weights, cache = FORMATS.get(quantization.id, ""), CACHE.get(settings.kv_type, "")
    rows = (
        (True, "max-prefill-token-num", settings.batched_tokens, "prompt tokens of one step; working memory"),
        (weights != "", "model-format", weights, "the checkpoint's weight format"),
        (cache != "", "quant-policy", cache, "smaller KV cache than 16 bit"),
    )
    return (*pool.common_settings(deployment, entry), *list_decided(rows))
