"""Engines whose memory is that of their family (pool, plain), and whose settings of a launch are their own.

Each function gives what `launch_settings` of an engine module does (base.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, MemoryEstimate, Setting
from advisor.engines import fitting, plain
from advisor.engines.base import DecidedSetting, get_flag, get_integer, get_setting, list_decided, own_defaults
from advisor.record import Value
from advisor.units import GIB


class FamilyEngine(Value, frozen=True):
    """An engine whose memory is its family's, and whose settings are its own."""

    family: Literal["plain", "pool"]  # the module
    launch_settings: Callable[[Deployment, Engine, Quantization], tuple[DecidedSetting, ...]]

    def memory(self, deployment: Deployment, entry: Engine, quantization: Quantization) -> MemoryEstimate:
        """Where every byte goes."""
        module: Any = import_module(f"advisor.engines.{self.family}")
        found: MemoryEstimate = module.memory(deployment, entry, quantization)
        return found


KTRANSFORMERS_METHODS = {  # kt-kernel's names; it documents eight
    "FP8": "FP8",
    "BF16": "BF16",
    "MXFP4": "MXFP4",
    "INT8": "AMXINT8",
}
OPENVINO_TASKS = {"embedding": "embeddings", "reranker": "rerank"}
LMDEPLOY_FORMATS = {"AWQ": "awq", "GPTQ": "gptq", "FP8": "fp8", "MXFP4": "mxfp4"}
LMDEPLOY_CACHE: dict[str, Setting] = {  # accepted names -> `--quant-policy`
    "int8": 8,
    "8": 8,
    "q8_0": 8,
    "int4": 4,
    "4": 4,
    "fp8": "fp8",
}
EXLLAMAV3_MODES: dict[str, Setting] = {"auto": "FP16", "fp16": "FP16", "f16": "FP16", "q8_0": "Q8", "q4_0": "Q4"}


def _vllm(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    from advisor.engines import pool

    constants = pool.read_constants(entry)
    settings = pool.resolve_pool_settings(deployment, entry, constants)
    tokens = settings.batched_tokens
    if deployment.model.kind != "chat":
        tokens = max(tokens, settings.length)
    several = settings.tp > 1 or fitting.has_several_devices(deployment)
    capabilities = [float(x.compute_capability) for x in fitting.used_devices(deployment) if x.compute_capability]
    experts = bool(get_flag(deployment.settings, "enable-expert-parallel"))
    rows = (
        (True, "max-model-len", settings.length,
         "longest request, prompt and output together; the default is the whole trained context"),
        (True, "max-num-seqs", pool.admitted_requests(deployment, constants), "requests that run at once"),
        (True, "max-num-batched-tokens", tokens,
         "tokens of one step; decides the working memory and differs between devices and versions"),
        (True, "gpu-memory-utilization", settings.fraction,
         "share of the whole device; written out, since the default has changed between versions"),
        (several, "tensor-parallel-size", settings.tp, fitting.explain_ranks(settings.tp)),
        (settings.pp > 1, "pipeline-parallel-size", settings.pp, "stages of layers over groups of GPUs"),
        (settings.dp > 1, "data-parallel-size", settings.dp, "replicas, each with a cache of its own"),
        (experts, "enable-expert-parallel", True, "as asked: whole experts on each GPU"),
        (settings.eager, "enforce-eager", True, "as asked: no CUDA graphs"),
        (settings.text_only, "language-model-only", True, "as asked: the vision tower is left out"),
        (settings.kv_bytes < 2, "kv-cache-dtype", settings.kv_type, "halves the KV cache"),
        (bool(deployment.served_name), "served-model-name", deployment.served_name or "", "as asked"),
        (min(capabilities, default=8.0) < 8.0, "dtype", "float16", "no bfloat16 below compute capability 8.0"),
    )  # fmt: skip
    return tuple(list_decided(rows))


def _lmdeploy(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    from advisor.engines import pool

    settings = pool.resolve_pool_settings(deployment, entry, pool.read_constants(entry))
    weights, cache = LMDEPLOY_FORMATS.get(quantization.id, ""), LMDEPLOY_CACHE.get(settings.kv_type, "")
    rows = (
        (True, "max-prefill-token-num", settings.batched_tokens, "prompt tokens of one step; working memory"),
        (weights != "", "model-format", weights, "the checkpoint's weight format"),
        (cache != "", "quant-policy", cache, "smaller KV cache than 16 bit"),
    )
    return (*pool.launch_settings(deployment, entry, quantization), *list_decided(rows))


def _max(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """MAX names its devices, it does not count them."""
    from advisor.engines import pool

    return tuple(
        replace(x, value=f"gpu:{','.join(map(str, range(int(x.value))))}") if x.name == "devices" else x
        for x in pool.launch_settings(deployment, entry, quantization)
    )


def _ktransformers(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    cpu = deployment.machine.cpu if deployment.machine else None
    cores, sockets = (cpu.physical_cores or 0, cpu.sockets or 0) if cpu is not None else (0, 0)
    kept = get_integer(deployment.settings, "kt-num-gpu-experts", least=0)
    rows = (
        (True, "kt-method", KTRANSFORMERS_METHODS.get(quantization.id, "AMXINT4"),
         "format of the experts on the CPU; it must be the one they were converted to"),
        (cores > 0, "kt-cpuinfer", cores, "physical cores; SMT siblings do not help"),
        (sockets > 0, "kt-threadpool-count", sockets, "one pool of threads for each NUMA node"),
        (True, "kt-num-gpu-experts", kept or 0, "experts of each layer that stay on the GPU; 0 = none"),
    )  # fmt: skip
    return (*plain.launch_settings(deployment, entry, quantization), *list_decided(rows))


class Exllamav3Defaults(msgspec.Struct, frozen=True):
    """What of the server's own defaults is written out."""

    chunk_size: int


def _exllamav3(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """Keys of config.yml's `model`."""
    kind = str(get_setting(deployment.settings, "cache_mode") or deployment.kv_cache_type.k)
    rows = (
        (True, "cache_mode", EXLLAMAV3_MODES.get(kind.lower(), kind.upper()),
         "element type of the cache; written out, since it decides the memory"),
        (True, "max_batch_size", deployment.sequences, "requests that run at once"),
        (True, "chunk_size", own_defaults(entry, Exllamav3Defaults).chunk_size,
         "prompt tokens of one step; decides the working memory"),
        (fitting.has_several_devices(deployment), "gpu_split_auto", True, "layers are dealt out over the cards"),
    )  # fmt: skip
    return (*plain.launch_settings(deployment, entry, quantization), *list_decided(rows))


def _openvino(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    estimate = plain.memory(deployment, entry, quantization)
    places = estimate.devices or ((estimate.host,) if estimate.host else ())
    cache = math.ceil(sum(r.kv_cache_bytes or 0 for r in places) / GIB)
    target = deployment.settings.get("target_device") or ("GPU" if fitting.used_devices(deployment) else "CPU")
    chats = deployment.model.kind == "chat"
    rows = (
        (True, "task", OPENVINO_TASKS.get(deployment.model.kind, "text_generation"), "what the model is for"),
        (True, "target_device", str(target), "the device of the graph; the default is the CPU"),
        (chats, "max_num_seqs", deployment.sequences, "requests that run at once"),
        (chats, "cache_size", max(1, cache), "GB of the cache of all requests; the default grows without an end"),
    )
    return tuple(list_decided(rows))


def _mlc_llm(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """Length and requests at once live inside one flag, `--overrides`."""
    length = deployment.context_length or deployment.model.max_context
    parts = [f"max_num_sequence={deployment.sequences}", *([f"context_window_size={length}"] if length else [])]
    return (
        DecidedSetting("mode", "server", "the cache is sized by the overrides, not by a preset"),
        DecidedSetting("overrides", ";".join(parts), "requests at once; prompt and output of one"),
    )


def _vllm_mlx(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    several, name = deployment.sequences > 1, deployment.served_name or ""
    rows = (
        (True, "max-num-seqs", deployment.sequences, "requests that run at once"),
        (several, "continuous-batching", True, "off by default, and requests would queue"),
        (name != "", "served-model-name", name, "as asked"),
    )
    return tuple(list_decided(rows))


OWN_SETTINGS: Mapping[str, FamilyEngine] = {
    "vllm": FamilyEngine("pool", _vllm),
    "lmdeploy": FamilyEngine("pool", _lmdeploy),
    "max": FamilyEngine("pool", _max),
    "ktransformers": FamilyEngine("plain", _ktransformers),
    "exllamav3": FamilyEngine("plain", _exllamav3),
    "openvino-model-server": FamilyEngine("plain", _openvino),
    "mlc-llm": FamilyEngine("plain", _mlc_llm),
    "vllm-mlx": FamilyEngine("plain", _vllm_mlx),
    # `litert-lm serve` takes host and port only; length and backend belong to the model and the request
    "litert-lm": FamilyEngine("plain", lambda deployment, entry, quantization: ()),
}
