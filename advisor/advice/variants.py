"""The deployments of one format on an engine: how many cards, and what stays in host memory."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from advisor.advice.wanted import Wanted
from advisor.catalog.types import Engine, Quantization
from advisor.decision.additions import Additions
from advisor.deployment import Deployment, KvType, Setting
from advisor.engines.flags import own_flag, takes_share_of_device
from advisor.engines.parallel import allowed_sizes, launch_of


def variants(
    entry: Engine,
    w: Wanted,
    q: Quantization,
    kv: str,
    context: int,
    kin: str,
    offload: bool,
    unified_share: float,
    added: Additions,
) -> Iterator[Deployment]:
    """Deployments of one engine in one format: how many cards, and what stays in host memory."""
    base = Deployment(
        model=w.model,
        engine=entry.id,
        engine_version=(w.policy.version(entry.id, w.facts) or (None,))[0] or w.machine.installed_version(entry.id),
        quantization=q.id,
        machine=w.machine,
        context_length=context,
        sequences=w.workload.concurrency,
        kv_cache_type=KvType(k=kv, v=kv),
        model_path=w.path,
        settings=dict(added.settings),
        because=dict(added.because),
    )
    if kin == "gguf" and entry.id != "ollama" and w.model.kind != "chat":  # an input has to fit into one batch
        base = with_settings(base, {"batch-size": context, "ubatch-size": context})
    fraction, tp_flag, pp_flag = own_flag(entry, "fraction"), own_flag(entry, "tp"), own_flag(entry, "pp")
    if fraction and takes_share_of_device(entry) and any(x.unified for x in w.machine.usable_devices):
        base = with_settings(base, {fraction: unified_share})
    n = len(w.machine.usable_devices)
    if kin == "gguf" and entry.id != "ollama" and n:
        if not offload:
            yield with_settings(base, {"n-gpu-layers": "all"})
        elif w.model.is_moe:
            yield from _experts_on_host(base)
        else:
            yield base
    elif entry.id == "ollama":
        yield base if offload or not n else with_settings(base, {"num_gpu": "all"})
    elif tp_flag and n > 1:
        for tp in allowed_sizes(entry, w.model, n, launch_of(base, entry)):
            pp = w.machine.nodes if w.machine.nodes > 1 and tp == n else 1
            settings: dict[str, Setting] = {tp_flag: tp} if tp > 1 else {}
            if pp > 1 and pp_flag:
                settings[pp_flag] = pp
            yield msgspec.structs.replace(with_settings(base, settings), device_count=tp)
    else:
        yield base


def with_settings(d: Deployment, settings: dict[str, Setting]) -> Deployment:
    """The deployment with these settings over its own."""
    return msgspec.structs.replace(d, settings={**d.settings, **settings})


def _experts_on_host(d: Deployment) -> Iterator[Deployment]:
    """From few to all layers' experts in host memory: a handful of steps, the fewest that fit wins."""
    layers = d.model.layout.n_layers if d.model.layout else 0
    for share in (0.25, 0.5, 0.75):
        yield with_settings(d, {"n-gpu-layers": "all", "n-cpu-moe": max(1, round(layers * share))})
    yield with_settings(d, {"n-gpu-layers": "all", "cpu-moe": True})
    yield d
