"""The deployments of one format on an engine: how many cards, and what stays in host memory."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from advisor.advice.search_request import SearchRequest
from advisor.catalog.types import Engine, Quantization
from advisor.decision.additions import Additions
from advisor.deployment import Deployment, KvType, Setting
from advisor.engines.flags import find_own_flag, takes_share_of_device
from advisor.engines.parallel import allowed_sizes, make_parallel_launch


def list_variants(
    entry: Engine,
    search: SearchRequest,
    quantization: Quantization,
    kv: str,
    context: int,
    named: Engine,
    offload: bool,
    unified_share: float,
    added: Additions,
) -> Iterator[Deployment]:
    """Deployments of one engine in one format: how many cards, and what stays in host memory.

    `named` is the entry whose names the settings have (engines.settings_entry).
    """
    base = Deployment(
        model=search.model,
        engine=entry.id,
        engine_version=(search.policy.version(entry.id, search.facts) or (None,))[0]
        or search.machine.installed_version(entry.id),
        quantization=quantization.id,
        machine=search.machine,
        context_length=context,
        sequences=search.workload.concurrency,
        kv_cache_type=KvType(k=kv, v=kv),
        model_path=search.path,
        settings=dict(added.settings),
        because=dict(added.because),
    )
    batch, step = find_own_flag(named, "logical_batch"), find_own_flag(named, "batched_tokens")
    if batch and step and search.model.kind != "chat":  # an input has to fit into one batch
        base = with_settings(base, {batch: context, step: context})
    layers = find_own_flag(named, "layers_on_device")
    fraction, tp_flag, pp_flag = (
        find_own_flag(entry, "memory_share"),
        find_own_flag(entry, "tensor_parallel"),
        find_own_flag(entry, "pipeline_parallel"),
    )
    if fraction and takes_share_of_device(entry) and any(x.unified for x in search.machine.usable_devices):
        base = with_settings(base, {fraction: unified_share})
    n = len(search.machine.usable_devices)
    if layers and n:
        if not offload:
            yield with_settings(base, {layers: "all"})
        else:
            yield from _experts_on_host(base, named, layers)
    elif tp_flag and n > 1:
        for tp in allowed_sizes(entry, search.model, n, make_parallel_launch(base, entry)):
            pp = search.machine.nodes if search.machine.nodes > 1 and tp == n else 1
            settings: dict[str, Setting] = {tp_flag: tp} if tp > 1 else {}
            if pp > 1 and pp_flag:
                settings[pp_flag] = pp
            yield msgspec.structs.replace(with_settings(base, settings), device_count=tp)
    else:
        yield base


def with_settings(deployment: Deployment, settings: dict[str, Setting]) -> Deployment:
    """The deployment with these settings over its own."""
    return msgspec.structs.replace(deployment, settings={**deployment.settings, **settings})


def _experts_on_host(deployment: Deployment, named: Engine, layers: str) -> Iterator[Deployment]:
    """From few to all layers' experts in host memory: a handful of steps, the fewest that fit wins.

    The last leaves it to the engine; it is the only one where there are no experts, or no setting for them.
    """
    count = deployment.model.layout.n_layers if deployment.model.layout else 0
    some, whole = find_own_flag(named, "experts_on_host_layers"), find_own_flag(named, "experts_on_host")
    if deployment.model.is_moe and some and whole:
        for share in (0.25, 0.5, 0.75):
            yield with_settings(deployment, {layers: "all", some: max(1, round(count * share))})
        yield with_settings(deployment, {layers: "all", whole: True})
    yield deployment
