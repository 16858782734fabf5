"""One pass over tokens on the devices of a deployment: what each rank reads, multiplies and sends.

Two kinds: a decode step (one new token of each running sequence) and a prefill pass (a chunk of prompt tokens). All
figures are of one rank, the busiest, unless said; a layer split or a pipeline adds its stages up, since a token goes
through one after the other.
"""

from __future__ import annotations

import math

import msgspec

from advisor.catalog import Catalog
from advisor.catalog.types import Accelerator, Engine, Quantization
from advisor.deployment import Deployment, MemoryEstimate
from advisor.engines import fitting
from advisor.machines.types import Device
from advisor.speed import work as cost
from advisor.speed.placing import Placed, placed
from advisor.speed.work import Work

GB = 1e9
TERA = 1e12
INTEGER = 7.0  # stands for 8-bit integers among the widths of `peak`


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What the requests look like. Tokens; `depth` are in the cache before the prompt."""

    concurrency: int = 1
    prompt: int = 512
    output: int = 128
    depth: int = 0


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
    replicas: float
    limited: bool  # the cache or the engine admits fewer than asked
    link: str  # between ranks: direct, pcie; alone for one


def touched(share: float, tokens: float) -> float:
    """Part of the routed experts that `tokens` tokens go through together, each through `share` of them."""
    return 1 - (1 - share) ** tokens if share < 1 else 1.0


def bandwidth(device: Device, rules: Catalog) -> float | None:
    """Memory bandwidth of a device, GB/s: read from it, or the catalogue's; a MIG slice has its share of the memory."""
    if device.bandwidth_gbs:
        return device.bandwidth_gbs
    entry = rules.accelerators().get(device.accelerator or "")
    if entry is None or entry.bandwidth_gbs is None:
        return None
    if device.mig_profile:
        if device.total_bytes is None or entry.memory_bytes is None:
            return None
        return entry.bandwidth_gbs * min(1.0, device.total_bytes / entry.memory_bytes)
    return entry.bandwidth_gbs / entry.devices_per_card


def peak(device: Device, rules: Catalog, bits: float) -> float | None:
    """Dense TFLOPS at the width a format multiplies in: 4, 8 or 16 bit, or the next wider one that the device has.

    8 bits means FP8 for servers; `INTEGER` the integer rate, which llama.cpp's kernels use.
    """
    entry = rules.accelerators().get(device.accelerator or "")
    if entry is None:
        return None
    known = entry.tflops
    sixteen = max(known.get("fp16", 0.0), known.get("bf16", 0.0), known.get("fp32", 0.0)) or _narrow(known)
    wide = [sixteen]
    if bits == INTEGER:
        # tensor cores: twice the rate of 16-bit products that are summed in 16 bit, on cards for players too
        integer = known.get("int8", 0.0)
        wide.append(integer if integer > sixteen else 2 * sixteen)
    elif bits <= 8 and "fp8" in known:
        wide.append(known["fp8"])
        if bits <= 4 and "fp4" in known:
            wide.append(known["fp4"])
    best = max(wide) / entry.devices_per_card
    if device.mig_profile and device.total_bytes and entry.memory_bytes:
        best *= min(1.0, device.total_bytes / entry.memory_bytes)
    return best or None


def _narrow(known: dict[str, float]) -> float:
    """16-bit rate of a device whose maker states the 4-bit one only: a quarter of it."""
    return known.get("fp8", 0.0) / 2 or known.get("fp4", 0.0) / 4


def link_gbs(device: Device, rules: Catalog, nvlink: bool | None) -> tuple[float, bool]:
    """GB/s one way between neighbouring ranks, and whether it is a direct link.

    `nvlink` None = as the catalogue has the card: server modules are linked, cards need a bridge that is rarely there.
    """
    entry = rules.accelerators().get(device.accelerator or "")
    direct = entry.nvlink_gbs if entry else None
    if direct and (nvlink or (nvlink is None and entry is not None and _module(entry))):
        return direct / 2, True
    generation = device.pcie_generation or _pcie(entry.pcie if entry else None)
    return PCIE_GBS.get(generation, 15.75) * (device.pcie_width or 16) / 16, False


PCIE_GBS = {1: 4.0, 2: 8.0, 3: 15.75, 4: 31.5, 5: 63.0, 6: 121.0}  # one way, 16 lanes


def _pcie(text: str | None) -> int:
    """Generation of `4.0 x16`; 3 where the catalogue is silent."""
    return int(text[0]) if text and text[0].isdigit() else 3


def _module(entry: Accelerator) -> bool:
    return "card" not in (entry.form or "")


def steps(
    d: Deployment, m: MemoryEstimate, entry: Engine, q: Quantization, rules: Catalog, load: Load
) -> tuple[Steps, Placed] | None:
    """The passes of a load, None where the layout, a bandwidth or a compute peak is not known."""
    w = cost.work(d, q)
    if w is None:
        return None
    p = placed(d, m, entry, w)
    if p is None:
        return None
    used = fitting.devices(d)[: p.devices] if fitting.devices(d) else ()
    rates = [(bandwidth(x, rules), peak(x, rules, p.compute_bits(q))) for x in used]
    if any(b is None or c is None for b, c in rates):
        return None
    known = [(b, c) for b, c in rates if b and c]
    s = _Speeds(d, p, known, rules)
    batch, limited = p.running(load)
    per = batch / p.replicas
    mean_depth = load.depth + load.prompt + load.output / 2
    chunk = float(min(load.prompt, p.chunk))
    chunks = load.prompt / chunk
    before = load.depth + (load.prompt - chunk) / 2
    return (
        Steps(
            decode=_pass(d, w, p, s, per, 1.0, mean_depth, decode=True),
            prefill=_pass(d, w, p, s, 1.0, chunk, before, decode=False),
            chunks=chunks,
            running=batch,
            batch=per,
            asked=float(load.concurrency),
            replicas=float(p.replicas),
            limited=limited,
            link=_link(p, s),
        ),
        p,
    )


class _Speeds:
    """Peak rates of the ranks: of a tensor split the slowest rank's, of stages their mean by what each holds."""

    def __init__(self, d: Deployment, p: Placed, rates: list[tuple[float, float]], rules: Catalog) -> None:
        if not rates:
            self.gbs = self.tflops = 0.0
        elif p.stages == 1:
            self.gbs = min(b for b, _ in rates)
            self.tflops = min(c for _, c in rates)
        else:
            shares = p.shares[: len(rates)]
            rates = rates if len(shares) == len(rates) else rates[:1]
            shares = shares if len(shares) == len(rates) else (1.0,)
            self.gbs = 1 / sum(x / b for x, (b, _) in zip(shares, rates, strict=True))
            self.tflops = 1 / sum(x / c for x, (_, c) in zip(shares, rates, strict=True))
        self.link, self.direct = PCIE_GBS[3], False
        devices = fitting.devices(d)
        if devices and max(p.tensor, p.expert_ranks) > 1:
            said = d.machine.interconnect if d.machine else None
            nvlink = None if said is None else "nvlink" in said or "xgmi" in said
            self.link, self.direct = link_gbs(devices[0], rules, nvlink)
        self.host = host_bandwidth(d, rules)


UNKNOWN_HOST_GBS = 40.0


def host_bandwidth(d: Deployment, rules: Catalog) -> float | None:
    """Bandwidth of the host's memory, GB/s over all sockets; None when the platform is not known."""
    if d.machine is None:
        return None
    entry = rules.cpu_platforms().get(d.machine.cpu.platform or "")
    if entry is None or entry.bandwidth_gbs_per_socket is None:
        return None
    return entry.bandwidth_gbs_per_socket * (d.machine.cpu.sockets or 1)


def _link(p: Placed, s: _Speeds) -> str:
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


def _pass(
    d: Deployment, w: Work, p: Placed, s: _Speeds, sequences: float, tokens: float, depth: float, decode: bool
) -> Pass:
    """A pass of `sequences` x `tokens` tokens of one replica; `depth` cached tokens before each."""
    share = w.active_share
    through = sequences * tokens
    expert_tokens = through * (p.replicas if p.experts_over_replicas else 1)
    picked = min(1.0, touched(share, expert_tokens) * _busiest(w, p, expert_tokens)) if w.experts else 0.0
    head = w.head_params * sequences  # a prompt needs its last token's only
    dense_products = through * w.dense_params + head
    expert_products = expert_tokens * share * w.expert_params
    on_device = 1.0 - p.host_dense
    experts_on_device = 1.0 - p.host_experts
    read_cache = sequences * cost.cache_bytes(d.model, depth + tokens / 2, p.key_bytes, p.value_bytes, p.tensor)
    state = sequences * cost.state_bytes(d.model) / p.tensor
    pairs = sequences * cost.pair_products(d.model, tokens, depth) / p.tensor
    dense_read = w.dense_bytes / p.tensor
    expert_read = w.expert_bytes * picked / p.expert_ranks
    host = dense_read * p.host_dense + expert_read * p.host_experts + (read_cache + state) * p.host_cache
    gbs, tflops = s.gbs or 1.0, s.tflops or 1.0
    on = 1.0 if s.gbs else 0.0
    exchanged, exchanges = _exchanges(w, p, through)
    return Pass(
        weights_s=on * dense_read * on_device / (GB * gbs),
        experts_s=on * expert_read * experts_on_device / (GB * gbs),
        cache_s=on * (read_cache + state) * (1 - p.host_cache) / (GB * gbs),
        host_s=host / (GB * (s.host or UNKNOWN_HOST_GBS)),
        products_s=on * 2 * (dense_products / p.tensor + expert_products / p.expert_ranks) / (TERA * tflops),
        attention_s=on * 2 * pairs / (TERA * tflops),
        link_s=exchanged / (GB * s.link),
        layers=float(w.layers) * on,
        moe_layers=float(w.moe_layers) * on,
        exchanges=exchanges,
    )
