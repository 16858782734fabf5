"""vLLM: a KV pool of a share of each GPU."""

from __future__ import annotations

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment
from advisor.engines import answers, fitting, pool
from advisor.engines.base import Decided, flag

memory = pool.memory


def settings(d: Deployment, entry: Engine, q: Quantization) -> tuple[Decided, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    c = pool.constants(entry)
    r = pool.resolve(d, entry, c)
    out = [
        Decided(
            name="max-model-len",
            value=r.length,
            because="longest request, prompt and output together; the default is the whole trained context",
        ),
        Decided(name="max-num-seqs", value=pool.admitted(d, c), because="requests that run at once"),
        Decided(
            name="max-num-batched-tokens",
            value=r.batched_tokens if d.model.kind == "chat" else max(r.batched_tokens, r.length),
            because="tokens of one step; decides the working memory and differs between devices and versions",
        ),
        Decided(
            name="gpu-memory-utilization",
            value=r.fraction,
            because="share of the whole device; written out, since the default has changed between versions",
        ),
    ]
    if r.tp > 1 or fitting.several(d):
        out.append(Decided(name="tensor-parallel-size", value=r.tp, because=fitting.why_so_many(r.tp)))
    if r.pp > 1:
        out.append(Decided(name="pipeline-parallel-size", value=r.pp, because="stages of layers over groups of GPUs"))
    if r.dp > 1:
        out.append(Decided(name="data-parallel-size", value=r.dp, because="replicas, each with a cache of its own"))
    if flag(d.settings, "enable-expert-parallel"):
        out.append(Decided(name="enable-expert-parallel", value=True, because="as asked: whole experts on each GPU"))
    if r.eager:
        out.append(Decided(name="enforce-eager", value=True, because="as asked: no CUDA graphs"))
    if r.text_only:
        out.append(Decided(name="language-model-only", value=True, because="as asked: the vision tower is left out"))
    if r.kv_bytes < 2:
        out.append(Decided(name="kv-cache-dtype", value=r.kv_type, because="halves the KV cache"))
    if d.served_name:
        out.append(Decided(name="served-model-name", value=d.served_name, because="as asked"))
    ds = fitting.devices(d)
    caps = [float(x.compute_capability) for x in ds if x.compute_capability]
    if caps and min(caps) < 8.0:
        out.append(Decided(name="dtype", value="float16", because="no bfloat16 below compute capability 8.0"))
    out += answers.settings(d, entry, enable="enable-auto-tool-choice")
    return tuple(out)
