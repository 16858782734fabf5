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
            name="max-model-len",
            value=settings.length,
            because="longest request, prompt and output together; the default is the whole trained context",
        ),
        DecidedSetting(
            name="max-num-seqs",
            value=pool.admitted_requests(deployment, constants),
            because="requests that run at once",
        ),
        DecidedSetting(
            name="max-num-batched-tokens",
            value=settings.batched_tokens
            if deployment.model.kind == "chat"
            else max(settings.batched_tokens, settings.length),
            because="tokens of one step; decides the working memory and differs between devices and versions",
        ),
        DecidedSetting(
            name="gpu-memory-utilization",
            value=settings.fraction,
            because="share of the whole device; written out, since the default has changed between versions",
        ),
    ]
    if settings.tp > 1 or fitting.has_several_devices(deployment):
        out.append(
            DecidedSetting(name="tensor-parallel-size", value=settings.tp, because=fitting.explain_ranks(settings.tp))
        )
    if settings.pp > 1:
        out.append(
            DecidedSetting(
                name="pipeline-parallel-size", value=settings.pp, because="stages of layers over groups of GPUs"
            )
        )
    if settings.dp > 1:
        out.append(
            DecidedSetting(
                name="data-parallel-size", value=settings.dp, because="replicas, each with a cache of its own"
            )
        )
    if get_flag(deployment.settings, "enable-expert-parallel"):
        out.append(
            DecidedSetting(name="enable-expert-parallel", value=True, because="as asked: whole experts on each GPU")
        )
    if settings.eager:
        out.append(DecidedSetting(name="enforce-eager", value=True, because="as asked: no CUDA graphs"))
    if settings.text_only:
        out.append(
            DecidedSetting(name="language-model-only", value=True, because="as asked: the vision tower is left out")
        )
    if settings.kv_bytes < 2:
        out.append(DecidedSetting(name="kv-cache-dtype", value=settings.kv_type, because="halves the KV cache"))
    if deployment.served_name:
        out.append(DecidedSetting(name="served-model-name", value=deployment.served_name, because="as asked"))
    ds = fitting.used_devices(deployment)
    caps = [float(x.compute_capability) for x in ds if x.compute_capability]
    if caps and min(caps) < 8.0:
        out.append(DecidedSetting(name="dtype", value="float16", because="no bfloat16 below compute capability 8.0"))
    out += additions.parser_settings(deployment, entry, enable="enable-auto-tool-choice")
    return tuple(out)
