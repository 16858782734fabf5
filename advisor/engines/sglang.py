"""SGLang: a static share of each GPU holds weights and KV pool; its default follows from device and graph sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, MemoryEstimate
from advisor.engines import fitting, pool
from advisor.engines.base import TRUE, DecidedSetting, get_flag, get_integer, get_setting, list_decided, own_defaults
from advisor.engines.versions import pick_version
from advisor.meanings import Version
from advisor.memory.layers import is_mla
from advisor.models.types import Model
from advisor.record import Value
from advisor.units import GIB, MIB

POST_CAPTURE = "SGLANG_ENABLE_POST_CAPTURE_KV_SIZING"
NO_PREFILL_GRAPHS = ("disable-piecewise-cuda-graph", "disable-prefill-cuda-graph")


class ReserveByMemory(msgspec.Struct, frozen=True):
    """What is left of devices below so much memory; MiB."""

    base: float = 0.0
    per_rank: float = 0.0
    below_gib: float = math.inf
    shares: tuple[tuple[int, float], ...] = ()  # from so many ranks on: the share itself, the most ranks first


class ReservedMib(msgspec.Struct, frozen=True):
    """What the share of weights and KV pool leaves of a device by default, in releases below `before`; MiB."""

    source: str
    before: Version | None = None
    by_memory: tuple[ReserveByMemory, ...] = ()  # in place of the parts
    base: float = 0.0
    per_chunk_token: float = 0.0
    chunk_tokens_at_least: int = 0
    per_rank: float = 0.0
    per_graph_request: float = 0.0  # of the largest decode graph
    per_replica_request: float = 0.0  # the same with data-parallel attention, for each replica
    per_replica_request_above: tuple[int, float] = (0, 0.0)  # and for graphs of more requests than this
    attention_replicas: float = 0.0  # with data-parallel attention
    per_prefill_graph: float = 0.0
    latent_prefill_graphs: float = 0.0  # of models with latent attention, in their place
    at_least: float = 0.0
    at_least_above_gib: float = 0.0
    draft: float = 0.0  # of speculation
    own_draft: float = 0.0  # by a model of its own
    deepep: float = 0.0
    post_capture: float | None = None  # in place of base, chunk, graphs: the pool is sized after graphs are captured
    post_capture_tower: float = 0.0  # then: of a model with a tower, in place of its share


class TowerShare(msgspec.Struct, frozen=True):
    """What a vision tower does to the share."""

    share: float
    less: float
    least: float
    most: float
    layers: int
    width: int
    unnamed_layers: tuple[str, ...]
    width_of_text: tuple[str, ...]


class StaticShare(msgspec.Struct, frozen=True):
    """`defaults.mem_fraction_static`."""

    reserved_mib: tuple[ReservedMib, ...]
    prefill_graphs: tuple[tuple[int, int, int], ...]
    tower: TowerShare


class SglangDefaults(msgspec.Struct, frozen=True):
    """What of `defaults` in rules/engines/sglang.yaml decides memory use."""

    mem_fraction_static: StaticShare


class ShareQuestion(Value, frozen=True):
    """What SGLang's default of mem_fraction_static depends on."""

    total_bytes: int  # of the smallest device
    chunk: int  # tokens of a chunk of a prompt
    requests: int  # of the largest decode graph; 0: none is captured
    prefill_graphs: bool = True
    ranks: int = 1  # tensor times pipeline parallel
    replicas: int = 1  # of attention
    latent: bool = False
    speculates: str | None = None  # --speculative-algorithm
    deepep: bool = False
    tower: float | None = None  # what a vision tower leaves of the share; None: there is none
    post_capture: bool = False  # the pool is sized after graphs are captured


def static_fraction(asked: ShareQuestion, law: ReservedMib, graphs: Sequence[tuple[int, int, int]]) -> float:
    """SGLang's own default of mem_fraction_static.

    1 - reserved / memory, three digits, times the part that a vision tower leaves. Source: SGLang 0.5.23,
    arg_groups/memory_hook.py; server_args.py before.
    """
    gpu = asked.total_bytes / MIB
    if asked.post_capture and law.post_capture is not None and not asked.latent:
        beside = law.post_capture_tower if asked.tower is not None else 0.0
        return round(1 - (law.post_capture + law.per_rank * asked.ranks) / gpu, 3) - beside / gpu
    replicas = asked.replicas if asked.replicas > 1 else 0
    if law.by_memory:
        row = next(x for x in law.by_memory if gpu < 1024 * x.below_gib)
        if row.shares:
            return next(share for ranks, share in row.shares if asked.ranks >= ranks)
        reserved = row.base + row.per_rank * asked.ranks + (law.attention_replicas if replicas else 0)
    else:
        reserved = law.base + law.per_chunk_token * max(asked.chunk, law.chunk_tokens_at_least)
        reserved += law.per_rank * asked.ranks + law.per_graph_request * asked.requests
        many, more = law.per_replica_request_above
        reserved += asked.requests * replicas * (law.per_replica_request + (more if asked.requests > many else 0))
        if asked.prefill_graphs:
            sizes = sum(len(range(x, min(y, asked.chunk) + 1, step)) for x, y, step in graphs)
            reserved += law.latent_prefill_graphs if asked.latent else law.per_prefill_graph * sizes
        if gpu > 1024 * law.at_least_above_gib:
            reserved = max(reserved, law.at_least)
    if asked.speculates is not None and asked.speculates != "NGRAM":
        reserved += law.own_draft if asked.speculates == "STANDALONE" else law.draft
    reserved += law.deepep if asked.deepep and asked.requests else 0
    return round(1 - reserved / gpu, 3) * (1.0 if asked.tower is None else asked.tower)


def tower_factor(model: Model, tower: TowerShare) -> float | None:
    """What of the share a model's vision tower leaves; None without one (adjust_mem_fraction_for_vlm)."""
    vision = model.vision
    if vision is None:
        return None
    layers = vision.layers if vision.layers is not None and vision.kind not in tower.unnamed_layers else tower.layers
    width = model.known_layout.hidden_size if vision.kind in tower.width_of_text else vision.hidden or tower.width
    size = layers * width**2 / (tower.layers * tower.width**2)
    return tower.share * max(tower.least, min(tower.most, 1 - tower.less * (size - 1)))


def _fraction(deployment: Deployment, entry: Engine) -> float | None:
    totals = [x.total_bytes for x in fitting.used_devices(deployment) if x.total_bytes]
    if not totals:
        return None
    constants = pool.read_constants(entry)
    settings, given = pool.resolve_pool_settings(deployment, entry, constants), deployment.settings
    share = own_defaults(entry, SglangDefaults).mem_fraction_static
    tp = _tp_size(settings)
    tiers = (t for t in constants.tiers if min(totals) >= GIB * t.from_gib)
    tier = max(tiers, key=lambda t: t.from_gib)
    usual = (tier.sequences_tp4 if tp >= 4 else None) or tier.sequences
    running = get_integer(given, *entry.concepts.sequences.flags, least=1)
    requests = settings.switches.largest_capture or min(usual, running or usual)
    algorithm = get_setting(given, "speculative-algorithm")
    asked = ShareQuestion(
        total_bytes=min(totals),
        chunk=settings.batched_tokens,
        requests=0 if settings.eager or get_flag(given, "disable-decode-cuda-graph") else requests,
        prefill_graphs=not (settings.eager or any(get_flag(given, x) for x in NO_PREFILL_GRAPHS)),
        ranks=tp * settings.pp,
        replicas=settings.dp if get_flag(given, "enable-dp-attention") else 1,
        latent=is_mla(deployment.model),
        speculates=str(algorithm).upper() if algorithm is not None else None,
        deepep=get_setting(given, "moe-a2a-backend") == "deepep",
        tower=None if settings.text_only else tower_factor(deployment.model, share.tower),
        post_capture=str(get_setting(given, POST_CAPTURE) or deployment.environment.get(POST_CAPTURE)).lower() in TRUE,
    )
    return static_fraction(asked, pick_version(share.reserved_mib, settings.version), share.prefill_graphs)


def _tp_size(settings: pool.PoolSettings) -> int:
    """`--tp-size`: with attention data parallelism the replicas are part of it."""
    return max(settings.tp, settings.ep) if settings.dp > 1 else settings.tp


def memory(deployment: Deployment, entry: Engine, quantization: Quantization) -> MemoryEstimate:
    """Where every byte goes; the static share is SGLang's own default unless it is set."""
    return pool.memory(deployment, entry, quantization, _fraction(deployment, entry))


def launch_settings(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    settings = pool.resolve_pool_settings(deployment, entry, pool.read_constants(entry), _fraction(deployment, entry))
    ranks = _tp_size(settings)
    several = ranks > 1 or fitting.has_several_devices(deployment)
    attention = bool(get_flag(deployment.settings, "enable-dp-attention"))
    requests = pool.admitted_requests(deployment, pool.read_constants(entry))
    rows = (
        (True, "context-length", settings.length, "longest request, prompt and output together"),
        (True, "max-running-requests", requests, "requests that run at once"),
        (True, "chunked-prefill-size", settings.batched_tokens,
         "prompt tokens of one step; decides the working memory and differs between devices"),
        (True, "mem-fraction-static", settings.fraction,
         "weights and KV pool; the rest is left for activations and graphs, as SGLang's own rule does"),
        (several, "tp-size", ranks, fitting.explain_ranks(ranks)),
        (settings.dp > 1, "dp-size", settings.dp, "replicas, each with a cache of its own"),
        (attention, "enable-dp-attention", True, "as asked: replicas share the ranks"),
        (bool(deployment.served_name), "served-model-name", deployment.served_name or "", "as asked"),
        (settings.kv_bytes < 2, "kv-cache-dtype", settings.kv_type, "halves the KV cache"),
    )  # fmt: skip
    return tuple(list_decided(rows))
