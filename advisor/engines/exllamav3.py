"""ExLlamaV3 with TabbyAPI: weights and a cache of so many tokens; memory from its constants in rules/engines."""

from __future__ import annotations

import msgspec

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, Setting
from advisor.engines import fitting, plain
from advisor.engines.base import DecidedSetting, get_setting, list_decided, own_defaults

memory = plain.memory
MODES: dict[str, Setting] = {"auto": "FP16", "fp16": "FP16", "f16": "FP16", "q8_0": "Q8", "q4_0": "Q4"}


class Exllamav3Defaults(msgspec.Struct, frozen=True):
    """What of the server's own defaults is written out."""

    chunk_size: int


def launch_settings(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """Keys of config.yml's `model`, decided, each with its reason."""
    kind = str(get_setting(deployment.settings, "cache_mode") or deployment.kv_cache_type.k)
    rows = (
        (True, "cache_mode", MODES.get(kind.lower(), kind.upper()),
         "element type of the cache; written out, since it decides the memory"),
        (True, "max_batch_size", deployment.sequences, "requests that run at once"),
        (True, "chunk_size", own_defaults(entry, Exllamav3Defaults).chunk_size,
         "prompt tokens of one step; decides the working memory"),
        (fitting.has_several_devices(deployment), "gpu_split_auto", True, "layers are dealt out over the cards"),
    )  # fmt: skip
    return (*plain.launch_settings(deployment, entry, quantization), *list_decided(rows))
