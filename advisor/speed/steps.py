"""One pass over tokens on the devices of a deployment: what each rank reads, multiplies and sends.

Two kinds: a decode step (one new token of each running sequence) and a prefill pass (a chunk of prompt tokens). All
figures are of one rank, the busiest, unless stated; a layer split or a pipeline adds its stages up, since a token goes
through one after the other.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, MemoryEstimate
from advisor.record import Value
from advisor.speed.parallel_plan import ParallelPlan, plan_ranks
from advisor.speed.rates import PeakRates, SlowerCase, compute_peak_rates
from advisor.speed.work import (
    ModelWork,
    RequestLoad,
    cache_bytes,
    count_prompt_layers,
    count_work,
    latent_bytes,
    pair_products,
    score_bytes,
    state_bytes,
)

GB = 1e9
TERA = 1e12
# Stages of llama.cpp overlap nearly all of a prompt's chunks while a stage has few layers (an 8B's on 4 cards), half of
# them at this many, next to none with twice as many (a 70B's on 2). Read off 2 to 6 cards, 512 to 8192 tokens
# (XiongjieDai/GPU-Benchmarks-on-LLM-Inference), not fitted
HALF_OVERLAPPED = 18.0
WIDENED_BYTES = 2.0  # of a weight at 16 bit
WIDEST_QUANTIZED = 12  # bits a weight in the mean: Q8_0 has 8.5, and what is wider is kept at 16
HostUse = Literal["none", "known", "assumed", "disk"]


class Pass(msgspec.Struct, kw_only=True):
    """Seconds that each resource would need at its peak rate, and counts of what costs time whatever the rate."""

    weights_s: float  # weights read, dense
    experts_s: float  # routed experts read
    cache_s: float
    latent_s: float  # latent rows (MLA), read once for all heads
    unpacked: float  # 1: matrix units multiply quantised weights, which are unpacked for them; else 0
    widened_s: float  # weights written at 16 bit and read again, before they are multiplied
    scores_s: float  # attention scores that go through memory, without flash attention
    scan_s: float  # recurrent states that the tokens of a prompt read and write one after the other
    host_s: float  # read in host memory
    products_s: float  # matrix products of dense layers and experts
    vector_s: float  # the same of so few tokens that no matrix units are used
    attention_s: float  # attention's own products
    link_s: float  # bytes between ranks over the link
    issued_s: float = 0.0  # until the host has issued all kernels, one by one: no pass is shorter
    layers: float  # layers a pass launches, two blocks each
    moe_layers: float
    other_mixers: float
    exchanges: float  # collective operations between ranks


LAYER_PARTS = tuple(name for name in Pass.__struct_fields__ if name != "unpacked")  # that grow with the layers


class RankWork(NamedTuple):
    """What ranks work on, how they share it, and their peaks."""

    work: ModelWork
    plan: ParallelPlan
    rates: PeakRates


class LoadPasses(msgspec.Struct, kw_only=True):
    """The passes that answer a load."""

    decode: Pass
    few: Pass  # a decode step of so few of the sequences that no matrix units are used; the same where all are so few
    prefill: Pass  # one chunk
    chunks: float  # passes of one prompt; where stages work on several at once, as many as take that time
    running: float  # sequences that decode at once, all replicas
    batch: float  # of one replica
    delaying: float  # others whose prompts delay a running request
    asked: float  # requests at once
    side_by_side: float  # stages that work at the same time on other requests
    joins: float  # 1: prompts share passes with decoding; 0: they have passes of their own
    limited: bool  # the cache or the engine admits fewer than asked
    link: str  # between ranks: direct or pcie (with whole experts on ranks, -experts); stages or alone without
    host: HostUse  # whether host memory is read, and with a bandwidth that is known
    products_unknown: bool  # a processor multiplies and its cores are not known: only its reading can be timed
    disk_unknown: bool = False  # a part is read from disk, and how fast is not known
    slower: tuple[SlowerCase, ...] = ()  # what is not known, at the ends of its usual range


class PassTokens(Value, frozen=True):
    """Of one pass: sequences, new tokens of each, and tokens in the cache before them."""

    sequences: float
    each: float
    depth: float


def touched_share(share: float, tokens: float) -> float:
    """Part of the routed experts that `tokens` tokens go through together, each through `share` of them.

    Experts are not equally popular: with exponentially distributed popularity 1 / (1 + n c) of them are left out by n
    tokens, where c is such that one token touches its share.
    """
    return 1 - 1 / (1 + tokens * share / (1 - share)) if share < 1 else 1.0


def describe_ranks(
    deployment: Deployment, estimate: MemoryEstimate, entry: Engine, quantization: Quantization, rules: Catalog
) -> RankWork | None:
    """What ranks do, how they share it, their peaks; None where the layout, a bandwidth or a peak is not known."""
    work = count_work(deployment, quantization)
    if work is None:
        return None
    plan = plan_ranks(deployment, estimate, entry, work, rules)
    rates = compute_peak_rates(deployment, plan, quantization, rules)
    return None if rates is None else RankWork(work, plan, rates)


def plan_passes(
    deployment: Deployment,
    estimate: MemoryEstimate,
    entry: Engine,
    quantization: Quantization,
    rules: Catalog,
    load: RequestLoad,
) -> tuple[LoadPasses, ParallelPlan] | None:
    """The passes of a load, None where the layout, a bandwidth or a compute peak is not known."""
    known = describe_ranks(deployment, estimate, entry, quantization, rules)
    if known is None:
        return None
    work, plan, rates = known
    batch, limited = plan.running(load)
    per = max(1.0, batch / plan.replicas)
    # stages of a server work on shares of the batch at the same time
    at_once = max(1.0, per / plan.stages) if plan.server else per
    mean_depth = load.depth + load.prompt + load.output / 2
    chunk = float(min(load.prompt, plan.chunk))
    before = load.depth + (load.prompt - chunk) / 2
    decode = plan_pass(deployment, work, plan, rates, PassTokens(at_once, 1.0, mean_depth), decode=True)
    few = decode
    if 0 < plan.vector_tokens < at_once:
        fewer = PassTokens(float(plan.vector_tokens), 1.0, mean_depth)
        few = plan_pass(deployment, work, plan, rates, fewer, decode=True)
    made = LoadPasses(
        decode=decode,
        few=few,
        prefill=plan_pass(deployment, work, plan, rates, PassTokens(1.0, chunk, before), decode=False),
        chunks=_count_chunks(load.prompt / chunk, plan, work.layers),
        running=batch,
        batch=per,
        delaying=(per - 1) * _count_delays(plan, per / load.output),
        asked=float(load.concurrency),
        side_by_side=float(plan.stages) if plan.server else 1.0,
        joins=1.0 if plan.joins else 0.0,
        limited=limited,
        link=make_link_name(plan, rates),
        slower=rates.slower,
        host=_host(plan, rates),
        disk_unknown=plan.from_disk > 0 and rates.disk_gbs is None,
        products_unknown=not rates.gbs and rates.host_tflops is None,
    )
    return made, plan


def plan_checks(deployment: Deployment, rank: RankWork, load: RequestLoad, drafted: int) -> list[Pass]:
    """The pass that checks `drafted` tokens of each running sequence; with matrix units, too, where kernels of few
    tokens are used: these are so where they are not slower."""
    work, plan, rates = rank
    per = max(1.0, plan.running(load)[0] / plan.replicas)
    depth = load.depth + load.prompt + load.output / 2
    tokens = PassTokens(max(1.0, per / plan.stages) if plan.server else per, drafted + 1.0, depth)
    plans = [plan, replace(plan, vector_tokens=0)] if tokens.sequences * tokens.each <= plan.vector_tokens else [plan]
    return [plan_pass(deployment, work, x, rates, tokens, decode=True) for x in plans]


def _count_chunks(chunks: float, plan: ParallelPlan, layers: int) -> float:
    """Passes of a prompt one after the other: a pipeline's stages work on chunks that follow one another."""
    if not plan.pipelined or chunks <= 1:
        return chunks
    overlapped = 1 / (1 + (layers / plan.stages / HALF_OVERLAPPED) ** 4)
    return chunks - overlapped * (chunks - 1) * (plan.stages - 1) / plan.stages


def _count_delays(plan: ParallelPlan, prompts: float) -> float:
    """Passes with prompts that a replica waits for, for each pass with prompts of its own.

    Replicas that wait for each other all take as long as one that works on a prompt; several that do so in the same
    pass delay the others once. `prompts`: that one replica brings to a pass.
    """
    if not plan.replicas_wait:
        return 1.0
    mine = min(1.0, prompts)
    return (1 - (1 - mine) ** plan.replicas) / mine


def _host(plan: ParallelPlan, rates: PeakRates) -> HostUse:
    if plan.from_disk:
        return "disk"
    if not (plan.host_dense or plan.host_experts or plan.host_cache):
        return "none"
    return "known" if rates.host_known else "assumed"


def make_link_name(plan: ParallelPlan, rates: PeakRates) -> str:
    """What joins the ranks, as factors of efficiencies are named."""
    if max(plan.tensor, plan.expert_ranks) == 1:
        return "alone" if plan.stages == 1 else "stages"
    return ("direct" if rates.direct else "pcie") + ("-experts" if plan.whole_experts else "")


def _busiest(work: ModelWork, plan: ParallelPlan, tokens: float) -> float:
    """What the busiest of the ranks that hold whole experts reads, against the mean (balls into bins)."""
    if not plan.whole_experts:
        return 1.0
    mean = tokens * work.top_k / plan.expert_ranks
    return 1 + math.sqrt(2 * math.log(plan.expert_ranks) / mean)


def _expert_rows(work: ModelWork, tile: int, tokens: float, picked: float) -> float:
    """Rows that the experts of a layer multiply: kernels round the tokens of each expert up to whole tiles."""
    rows = tokens * work.top_k
    most = min(float(tile), tokens)
    if most <= 1 or not picked:
        return rows
    touched = picked * work.experts
    return max(rows, touched * max(most, rows / touched + most / 2))


def _exchanges(work: ModelWork, plan: ParallelPlan, tokens: float) -> tuple[float, float]:
    """(bytes a rank sends in a pass of `tokens` tokens of its replica, collective operations).

    All-reduce after attention and after the feed-forward part, 16 bit; between replicas that share experts each token
    goes to the ranks of its experts (8 bit) and comes back (16 bit).
    """
    sent, count = 0.0, 0.0
    if plan.tensor > 1:
        parts = plan.parts * work.layers - (work.moe_layers if plan.experts_over_replicas else 0)
        sent += 2 * 2.0 * tokens * work.hidden * parts * (plan.tensor - 1) / plan.tensor
        count += parts
    if plan.experts_over_replicas and work.experts:
        ranks = plan.expert_ranks
        sent += (
            3.0 * tokens / plan.tensor * min(work.top_k, ranks) * work.hidden * work.moe_layers * (ranks - 1) / ranks
        )
        count += 2 * work.moe_layers
    return sent, float(count)


def plan_pass(
    deployment: Deployment, work: ModelWork, plan: ParallelPlan, rates: PeakRates, tokens: PassTokens, decode: bool
) -> Pass:
    """A pass of one replica. In decoding every new token needs the output matrix, a prompt its last one only."""
    through = tokens.sequences * tokens.each
    needed = count_prompt_layers(deployment.model) if plan.prompts_for_caches and not decode else None
    part, launched = (needed.share, needed.count / work.layers) if needed else (1.0, 1.0)
    expert_tokens = through * (plan.replicas if plan.experts_over_replicas else 1)
    picked = (
        min(1.0, touched_share(work.active_share, expert_tokens) * _busiest(work, plan, expert_tokens))
        if work.experts
        else 0.0
    )
    head = work.head_params * (through if decode else tokens.sequences)
    vector = through <= plan.vector_tokens
    rows = _expert_rows(work, 1 if vector else plan.expert_tile, expert_tokens, picked)
    products = 2 * (
        (through * part * work.dense_params + head) / plan.tensor
        + rows * part * work.expert_params / max(1, work.experts) / plan.expert_ranks
    )
    unfolded = plan.unfolds_latent and not decode
    pairs = pair_products(
        deployment.model, tokens.each, tokens.depth, unfolded=unfolded, first=needed.count if needed else None
    )
    ranks = plan.tensor if plan.splits_attention else 1
    attention = 2 * tokens.sequences * pairs / ranks
    read = tokens.depth + tokens.each / 2
    whole = cache_bytes(deployment.model, read, plan.key_bytes, plan.value_bytes, ranks)
    latent = latent_bytes(deployment.model, read, plan.key_bytes)
    cache = tokens.sequences * (whole - latent + state_bytes(deployment.model) / ranks)
    latent *= tokens.sequences
    scan = tokens.sequences * (tokens.each - 1) * state_bytes(deployment.model) / ranks
    dense = part * work.dense_bytes / plan.tensor
    experts = part * work.expert_bytes * picked / plan.expert_ranks
    sent, exchanges = _exchanges(work, plan, through)
    if not rates.direct:
        exchanges *= max(1, plan.tensor - 1)  # a ring's steps; direct links reach all ranks in one
    quantized = work.weight_bits < WIDEST_QUANTIZED
    widened = 0.0
    if plan.wide_products and quantized and not vector:
        widened = 2 * WIDENED_BYTES * part * (work.dense_params + work.expert_params * picked) / plan.tensor
    scores = 0.0
    if plan.scores_in_memory:
        scores = tokens.sequences * score_bytes(deployment.model, tokens.each, tokens.depth) / ranks
    on = 1.0 if rates.gbs else 0.0
    per_byte, per_product = on / (GB * (rates.gbs or 1)), on / (TERA * (rates.tflops or 1))
    per_pair = on / (TERA * (rates.attention_tflops or 1))
    host_read = dense * plan.host_dense + experts * plan.host_experts + (cache + latent) * plan.host_cache
    host_s = host_read / (GB * (rates.host_gbs if decode else rates.host_prompt_gbs))
    if plan.from_disk and rates.disk_gbs:
        host_s += (dense + experts) * plan.from_disk / (GB * rates.disk_gbs)
    if not on and rates.host_tflops:
        host_s += (products + attention) / (TERA * rates.host_tflops)
    return Pass(
        weights_s=dense * (1 - plan.host_dense) * per_byte,
        experts_s=experts * (1 - plan.host_experts) * per_byte,
        cache_s=cache * (1 - plan.host_cache) * per_byte,
        latent_s=latent * (1 - plan.host_cache) * per_byte,
        unpacked=1.0 if plan.integer and quantized and not vector else 0.0,
        widened_s=widened * per_byte,
        scores_s=scores * (1 - plan.host_cache) * per_byte,
        scan_s=scan * (1 - plan.host_cache) * per_byte,
        host_s=host_s,
        products_s=0.0 if vector else products * per_product,
        vector_s=products * per_product if vector else 0.0,
        attention_s=attention * per_pair,
        link_s=sent / (GB * rates.link_gbs) + exchanges * rates.wait_s,
        issued_s=decode
        * (plan.issue_dense * (work.blocks / 2 - work.moe_layers) + plan.issue_experts * work.moe_layers),
        layers=(work.blocks / 2 * launched + decode * plan.delta_layers * work.delta_mixers) * on,
        moe_layers=work.moe_layers * launched * on,
        other_mixers=work.other_mixers * launched * on,
        exchanges=exchanges,
    )
