"""One pass over tokens on the devices of a deployment: what each rank reads, multiplies and sends.

Two kinds: a decode step (one new token of each running sequence) and a prefill pass (a chunk of prompt tokens). All
figures are of one rank, the busiest, unless said; a layer split or a pipeline adds its stages up, since a token goes
through one after the other.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, MemoryEstimate
from advisor.speed import work as cost
from advisor.speed.load import Load
from advisor.speed.placing import Placed, placed
from advisor.speed.rates import Rates, rates
from advisor.speed.work import Work

GB = 1e9
TERA = 1e12
HostUse = Literal["none", "known", "assumed"]


class Pass(msgspec.Struct, kw_only=True):
    """Seconds that each resource would need at its peak rate, and counts of what costs time whatever the rate."""

    weights_s: float  # weights read, dense
    experts_s: float  # routed experts read
    cache_s: float
    host_s: float  # read in host memory
    products_s: float  # matrix products of dense layers and experts
    attention_s: float  # attention's own products
    link_s: float  # bytes between ranks over the link
    layers: float  # layers a pass launches
    moe_layers: float
    exchanges: float  # collective operations between ranks


class Steps(msgspec.Struct, kw_only=True):
    """The passes that answer a load."""

    decode: Pass
    prefill: Pass  # one chunk
    chunks: float  # passes of one prompt
    running: float  # sequences that decode at once, all replicas
    batch: float  # of one replica
    asked: float  # requests at once
    side_by_side: float  # stages that work at the same time on other requests
    joins: float  # 1: prompts share passes with decoding; 0: they have passes of their own
    limited: bool  # the cache or the engine admits fewer than asked
    link: str  # between ranks: direct or pcie (with whole experts on ranks, -experts); stages or alone without
    host: HostUse  # whether host memory is read, and with a bandwidth that is known
    products_unknown: bool  # a processor multiplies and its cores are not known: only its reading can be timed


class Tokens(NamedTuple):
    """Of one pass: sequences, new tokens of each, and tokens in the cache before them."""

    sequences: float
    each: float
    depth: float


def touched(share: float, tokens: float) -> float:
    """Part of the routed experts that `tokens` tokens go through together, each through `share` of them."""
    return 1 - (1 - share) ** tokens if share < 1 else 1.0


def steps(
    d: Deployment, m: MemoryEstimate, entry: Engine, q: Quantization, rules: Catalog, load: Load
) -> tuple[Steps, Placed] | None:
    """The passes of a load, None where the layout, a bandwidth or a compute peak is not known."""
    w = cost.work(d, q)
    if w is None:
        return None
    p = placed(d, m, entry, w, rules)
    s = rates(d, p, q, rules)
    if s is None:
        return None
    batch, limited = p.running(load)
    per = batch / p.replicas
    # stages of a server work on shares of the batch at the same time
    at_once = max(1.0, per / p.stages) if p.server else per
    mean_depth = load.depth + load.prompt + load.output / 2
    chunk = float(min(load.prompt, p.chunk))
    before = load.depth + (load.prompt - chunk) / 2
    many = Tokens(at_once, 1.0, mean_depth)
    made = Steps(
        decode=one_pass(d, w, p, s, many, decode=True),
        prefill=one_pass(d, w, p, s, Tokens(1.0, chunk, before), decode=False),
        chunks=load.prompt / chunk,
        running=batch,
        batch=per,
        asked=float(load.concurrency),
        side_by_side=float(p.stages) if p.server else 1.0,
        joins=1.0 if p.server else 0.0,
        limited=limited,
        link=_link(p, s),
        host=_host(p, s),
        products_unknown=not s.gbs and s.host_tflops is None,
    )
    return made, p


def checking(
    d: Deployment, m: MemoryEstimate, entry: Engine, q: Quantization, rules: Catalog, load: Load, drafted: int
) -> Pass | None:
    """The pass that checks `drafted` tokens of each running sequence; None as for `steps`."""
    w = cost.work(d, q)
    if w is None:
        return None
    p = placed(d, m, entry, w, rules)
    s = rates(d, p, q, rules)
    if s is None:
        return None
    per = max(1.0, p.running(load)[0] / p.replicas)
    depth = load.depth + load.prompt + load.output / 2
    return one_pass(d, w, p, s, Tokens(per, drafted + 1.0, depth), decode=True)


def _host(p: Placed, s: Rates) -> HostUse:
    if not (p.host_dense or p.host_experts or p.host_cache):
        return "none"
    return "known" if s.host_known else "assumed"


def _link(p: Placed, s: Rates) -> str:
    if max(p.tensor, p.expert_ranks) == 1:
        return "alone" if p.stages == 1 else "stages"
    return ("direct" if s.direct else "pcie") + ("-experts" if p.whole_experts else "")


def _busiest(w: Work, p: Placed, tokens: float) -> float:
    """What the busiest of the ranks that hold whole experts reads, against the mean (balls into bins)."""
    if not p.whole_experts:
        return 1.0
    mean = tokens * w.top_k / p.expert_ranks
    return 1 + math.sqrt(2 * math.log(p.expert_ranks) / mean)


def _exchanges(w: Work, p: Placed, tokens: float) -> tuple[float, float]:
    """(bytes a rank sends in a pass of `tokens` tokens of its replica, collective operations).

    All-reduce after attention and after the feed-forward part, 16 bit; between replicas that share experts each token
    goes to the ranks of its experts (8 bit) and comes back (16 bit).
    """
    sent, count = 0.0, 0.0
    if p.tensor > 1:
        parts = 2 * w.layers - (w.moe_layers if p.experts_over_replicas else 0)
        sent += 2 * 2.0 * tokens * w.hidden * parts * (p.tensor - 1) / p.tensor
        count += parts
    if p.experts_over_replicas and w.experts:
        ranks = p.expert_ranks
        sent += 3.0 * tokens / p.tensor * min(w.top_k, ranks) * w.hidden * w.moe_layers * (ranks - 1) / ranks
        count += 2 * w.moe_layers
    return sent, float(count)


def one_pass(d: Deployment, w: Work, p: Placed, s: Rates, n: Tokens, decode: bool) -> Pass:
    """A pass of one replica. In decoding every new token needs the output matrix, a prompt its last one only."""
    through = n.sequences * n.each
    expert_tokens = through * (p.replicas if p.experts_over_replicas else 1)
    picked = min(1.0, touched(w.active_share, expert_tokens) * _busiest(w, p, expert_tokens)) if w.experts else 0.0
    head = w.head_params * (through if decode else n.sequences)
    products = 2 * (
        (through * w.dense_params + head) / p.tensor + expert_tokens * w.active_share * w.expert_params / p.expert_ranks
    )
    attention = 2 * n.sequences * cost.pair_products(d.model, n.each, n.depth) / p.tensor
    rows = cost.cache_bytes(d.model, n.depth + n.each / 2, p.key_bytes, p.value_bytes, p.tensor)
    cache = n.sequences * (rows + cost.state_bytes(d.model) / p.tensor)
    dense = w.dense_bytes / p.tensor
    experts = w.expert_bytes * picked / p.expert_ranks
    sent, exchanges = _exchanges(w, p, through)
    if not s.direct:
        exchanges *= max(1, p.tensor - 1)  # a ring's steps; direct links reach all ranks in one
    on = 1.0 if s.gbs else 0.0
    per_byte, per_product = on / (GB * (s.gbs or 1)), on / (TERA * (s.tflops or 1))
    host_read = dense * p.host_dense + experts * p.host_experts + cache * p.host_cache
    host_s = host_read / (GB * (s.host_gbs if decode else s.host_prompt_gbs))
    if not on and s.host_tflops:
        host_s += (products + attention) / (TERA * s.host_tflops)
    return Pass(
        weights_s=dense * (1 - p.host_dense) * per_byte,
        experts_s=experts * (1 - p.host_experts) * per_byte,
        cache_s=cache * (1 - p.host_cache) * per_byte,
        host_s=host_s,
        products_s=products * per_product,
        attention_s=attention * per_product,
        link_s=sent / (GB * s.link_gbs),
        layers=w.layers * on,
        moe_layers=w.moe_layers * on,
        exchanges=exchanges,
    )
