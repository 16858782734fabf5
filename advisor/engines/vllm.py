"""vLLM: a KV pool of a share of each GPU."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import additions, fitting, pool
from advisor.engines.base import DecidedSetting, get_flag

memory = pool.memory


def launch_settings(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    constants = pool.read_constants(entry)
    settings = pool.resolve_pool_settings(deployment, entry, constants)
    out = [
        DecidedSetting(
            "max-model-len",
            settings.length,
            "longest request, prompt and output together; the default is the whole trained context",
        ),
        DecidedSetting("max-num-seqs", pool.admitted_requests(deployment, constants), "requests that run at once"),
        DecidedSetting(
            "max-num-batched-tokens",
            settings.batched_tokens
            if deployment.model.kind == "chat"
            else max(settings.batched_tokens, settings.length),
            "tokens of one step; decides the working memory and differs between devices and versions",
        ),
        DecidedSetting(
            "gpu-memory-utilization",
            settings.fraction,
            "share of the whole device; written out, since the default has changed between versions",
        ),
    ]
    if settings.tp > 1 or fitting.has_several_devices(deployment):
        out.append(DecidedSetting("tensor-parallel-size", settings.tp, fitting.explain_ranks(settings.tp)))
    if settings.pp > 1:
        out.append(DecidedSetting("pipeline-parallel-size", settings.pp, "stages of layers over groups of GPUs"))
    if settings.dp > 1:
        out.append(DecidedSetting("data-parallel-size", settings.dp, "replicas, each with a cache of its own"))
    if get_flag(deployment.settings, "enable-expert-parallel"):
        out.append(DecidedSetting("enable-expert-parallel", True, "as asked: whole experts on each GPU"))
    if settings.eager:
        out.append(DecidedSetting("enforce-eager", True, "as asked: no CUDA graphs"))
    if settings.text_only:
        out.append(DecidedSetting("language-model-only", True, "as asked: the vision tower is left out"))
    if settings.kv_bytes < 2:
        out.append(DecidedSetting("kv-cache-dtype", settings.kv_type, "halves the KV cache"))
    if deployment.served_name:
        out.append(DecidedSetting("served-model-name", deployment.served_name, "as asked"))
    ds = fitting.used_devices(deployment)
    caps = [float(x.compute_capability) for x in ds if x.compute_capability]
    if caps and min(caps) < 8.0:
        out.append(DecidedSetting("dtype", "float16", "no bfloat16 below compute capability 8.0"))
    out += additions.parser_settings(deployment, entry, enable="enable-auto-tool-choice")
    return tuple(out)
