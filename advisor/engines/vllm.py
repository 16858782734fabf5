"""vLLM: a KV pool of a share of each GPU."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import additions, fitting, pool
from advisor.engines.base import DecidedSetting, get_flag, list_decided

memory = pool.memory


def launch_settings(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """The flags a launch should carry, decided, each with its reason."""
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
    return (*list_decided(rows), *additions.parser_settings(deployment, entry, enable="enable-auto-tool-choice"))
