"""llama.cpp (llama-server): memory to the byte, and the settings of a launch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import cache

import msgspec

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Basis, Deployment, DeviceMemory, KvCache, MemoryEstimate
from advisor.engines import fitting
from advisor.engines.base import Decided
from advisor.engines.llama_cpp_plan import Constants, Plan, Range, constants, file_weights, plan
from advisor.engines.llama_cpp_settings import ALL_LAYERS, Resolved, resolve
from advisor.engines.llama_cpp_verify import verify
from advisor.machines.types import Device
from advisor.memory import gguf_weights
from advisor.memory.gguf_tensors import as_gguf
from advisor.memory.hf_weights import is_mla
from advisor.memory.layers import cache_layers
from advisor.memory.placement import HOST
from advisor.units import MIB

QUANTISED = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
PROMPT_CACHE = "prompt cache in host memory (up to --cache-ram)"


def memory(d: Deployment, entry: Engine, q: Quantization) -> MemoryEstimate:
    """Where every byte of this llama-server goes, and whether it fits.

    Raises BadInput for a setting that cannot be, or a model whose tensors are not known.
    """
    c = constants(entry)
    r = resolve(d, c.usual)
    planned = _planned(d, r, c)
    chosen = choose_layers(d, r, c, planned)
    p = planned(chosen)
    devices = fitting.devices(d)
    rows = [_device_row(p, i, x, c) for i, x in enumerate(devices)]
    host = _host_row(d, p, c.host_overhead_mib)
    verdict = fitting.verdict(
        rows, host, needs_host=not devices or HOST in p.where or r.cpu_moe_layers is not None, d=d
    )
    basis: dict[str, Basis] = {
        "weights": "exact" if p.exact_weights else "modelled",
        "kv_cache": "exact",
        "recurrent_state": "exact",
        "compute": p.compute_basis,
        "overhead": "assumed",
    }
    refusals = _refusals(d, r)
    return MemoryEstimate(
        fits=False if refusals else verdict.fits,
        devices=tuple(rows),
        host=host,
        kv_cache=_kv_cache(p, r),
        context_length=p.cells.cells if not r.unified else r.ctx_size // r.slots,
        sequences=r.slots,
        basis=basis,
        not_modelled=(*p.notes, PROMPT_CACHE),
        warnings=(*refusals, *verdict.warnings, *_notes(d, r, p, chosen)),
        short=verdict.short,
    )


def _device_row(p: Plan, i: int, x: Device, c: Constants) -> DeviceMemory:
    o = c.device_overhead_mib.get(x.vendor) or c.device_overhead_mib["other"]
    # the compute buffer moves by up to 12 % + 20 MiB between builds (llamacpp-memory facts, section 1)
    return fitting.device_row(
        x,
        fitting.part(p.weights, i),
        fitting.part(p.cache, i),
        fitting.part(p.state, i),
        fitting.part(p.compute, i),
        overhead_mib=(o.low, o.value, o.high),
        slack=_slack(p, i, 0.12),
    )


def _slack(p: Plan, place: int, compute: float) -> int:
    """Bytes by which scratch (its part `compute`) and weights of a mix that is only estimated may be off."""
    off = compute * fitting.part(p.compute, place) + p.weights_spread * fitting.part(p.weights, place)
    return int(off) + 16 * MIB


def _host_row(d: Deployment, p: Plan, o: Range) -> DeviceMemory:
    return fitting.host_row(
        d,
        fitting.part(p.weights, HOST),
        fitting.part(p.cache, HOST),
        fitting.part(p.state, HOST),
        fitting.part(p.compute, HOST),
        overhead_mib=(o.low, o.value, o.high),
        slack=_slack(p, HOST, 0.15),
    )


def _kv_cache(p: Plan, r: Resolved) -> KvCache:
    if not p.attends:
        return KvCache(bytes_per_token=0, max_sequences=r.slots)
    row = int(p.bytes_per_token) if p.bytes_per_token.is_integer() else p.bytes_per_token
    return KvCache(bytes_per_token=row, tokens=p.cells.tokens, max_sequences=r.slots)


def _refusals(d: Deployment, r: Resolved) -> list[str]:
    """Why the engine would not start, one line each (llamacpp-memory facts, section 3)."""
    out = []
    if r.cache_v in QUANTISED and not r.flash:
        out.append(f"a {r.cache_v} V cache needs flash attention: set flash-attn on")
    if r.cache_k != r.cache_v and is_mla(d.model):
        out.append(f"latent attention keeps one row for K and V: {r.cache_k}/{r.cache_v} must be one type")
    return out


def _notes(d: Deployment, r: Resolved, p: Plan, chosen: int | None) -> list[str]:
    out = []
    if d.sequences > r.slots:
        out.append(f"{d.sequences} requests are asked, the server has {r.slots} slots: the rest waits in its queue")
    if chosen is not None and r.gpu_layers is None and fitting.devices(d) and chosen < len(p.where):
        out.append(
            f"only {chosen} of {len(p.where)} layers fit on the card: "
            "the rest runs on the CPU (partial offload), which is slow"
        )
    trained = d.model.max_context
    if trained and r.context_was_given and r.ctx_size // r.slots > trained and not r.unified:
        out.append(
            f"{r.ctx_size // r.slots} tokens are more than {d.model.id} was trained for ({trained}): quality falls"
        )
    if not r.context_was_given:
        out.append(f"no context length given: {r.ctx_size} tokens, the model's trained context")
    return out


Planned = Callable[[int | None], Plan]  # layers on the GPU -> where everything goes


def _planned(d: Deployment, r: Resolved, c: Constants) -> Planned:
    """Plans of one deployment, each made once."""
    return cache(lambda layers: plan(d, r, c, layers))


def choose_layers(d: Deployment, r: Resolved, c: Constants, planned: Planned | None = None) -> int | None:
    """Layers on the GPU: those asked for, else as many as `--fit on` would reach; None when no GPU is there."""
    planned = planned or _planned(d, r, c)
    devices = fitting.devices(d)
    if not devices or r.gpu_layers is not None:
        return r.gpu_layers if devices else None
    if not r.fit or any(fitting.budget(x) is None for x in devices):
        return ALL_LAYERS
    p = planned(ALL_LAYERS)
    used = _used(d, p, c)
    if all(u <= room for u, room in used):
        return ALL_LAYERS
    total, unit = len(cache_layers(as_gguf(d.model))) + 1, len(devices)
    near = total - _too_many(d, sum(u - room for u, room in used), p.cache)

    def fits(n: int) -> bool:
        return all(used <= room for used, room in _used(d, planned(n), c))

    # layers are shared out, so as many more as there are devices make the fullest one fuller
    each = _most(lambda k: fits(k * unit), 0, -(-total // unit), near // unit)
    return _most(fits, each * unit, min(total, (each + 1) * unit), each * unit + 1 if unit > 1 else near)


def _most(fits: Callable[[int], bool], low: int, high: int, near: int) -> int:
    """The largest number that fits, from `low` (which does) to below `high` (which does not), sought near `near`."""
    step = 1
    while low < high - 1:
        near = min(max(near, low + 1), high - 1)
        if fits(near):
            low, near = near, near + step
        else:
            high, near = near, near - step
        step *= 2
        if step > high - low:
            near = (low + high) // 2
    return low


def layers_on_cards(d: Deployment, entry: Engine) -> tuple[int, int] | None:
    """(layers that fit on the cards, all of them, the output counted as one); None without a card."""
    free = {k: v for k, v in d.settings.items() if k not in ("n-gpu-layers", "fit")}
    placed = msgspec.structs.replace(d, settings=free)
    c = constants(entry)
    n = choose_layers(placed, resolve(placed, c.usual), c)
    total = len(cache_layers(as_gguf(d.model))) + 1
    return None if n is None else (min(n, total), total)


def fits_on_cards(d: Deployment, r: Resolved, c: Constants, layers: int) -> bool:
    """Whether that many layers leave so much of each device free, as `--fit` wants it (`--fit-target`)."""
    if any(fitting.budget(x) is None for x in fitting.devices(d)):
        return False
    return all(used <= room for used, room in _used(d, plan(d, r, c, layers), c))


def _too_many(d: Deployment, over: int, cache: Mapping[int, int]) -> int:
    """About how many layers, from the first on, hold `over` bytes: what the search begins with."""
    sums = gguf_weights.running(file_weights(d))
    n = len(sums.device) - 1
    each = sum(cache.values()) / max(1, n)
    held = [a + b + i * each for i, (a, b) in enumerate(zip(sums.device, sums.expert_device, strict=True))]
    return bisect_left(held, over)


def _used(d: Deployment, p: Plan, c: Constants) -> list[tuple[int, int]]:
    """(bytes that a plan takes, bytes that `--fit` lets it take) of each device."""
    kept_free = c.usual.fit_target_mib * MIB
    kinds = (p.weights, p.cache, p.state, p.compute)
    return [
        (sum(fitting.part(k, i) for k in kinds), (fitting.budget(x) or 0) - kept_free)
        for i, x in enumerate(fitting.devices(d))
    ]


def settings(d: Deployment, entry: Engine, q: Quantization) -> tuple[Decided, ...]:
    """The flags a launch should carry, decided, each with its reason."""
    c = constants(entry)
    r = resolve(d, c.usual)
    per = r.ctx_size // r.slots
    out = [
        Decided(
            name="ctx-size",
            value=r.ctx_size,
            because=f"{r.slots} x {per} tokens: llama-server's context is the total over its slots"
            if r.slots > 1
            else "prompt and output of one request; the default is the model's whole trained context",
        ),
        Decided(
            name="parallel", value=r.slots, because=f"requests held at once; the automatic value is {c.usual.slots}"
        ),
    ]
    if fitting.devices(d):
        n = choose_layers(d, r, c)
        total = len(cache_layers(as_gguf(d.model))) + 1
        if n is None or n >= total:
            out.append(Decided(name="n-gpu-layers", value="all", because="everything fits on the GPU"))
        else:
            out.append(
                Decided(name="n-gpu-layers", value=n, because=f"{n} of {total} layers fit; the rest runs on the CPU")
            )
        if r.cpu_moe_layers is not None:
            all_experts = r.cpu_moe_layers >= total
            out.append(
                Decided(
                    name="cpu-moe" if all_experts else "n-cpu-moe",
                    value=True if all_experts else r.cpu_moe_layers,
                    because="routed experts stay in host memory, the rest fits on the GPU",
                )
            )
    else:
        cpu = d.machine.cpu if d.machine else None
        if cpu is not None and cpu.physical_cores:
            n = min(cpu.physical_cores, int(cpu.usable_cores or cpu.physical_cores) or 1)
            out.append(
                Decided(
                    name="threads", value=n, because="physical cores usable here; SMT siblings do not help decoding"
                )
            )
    if d.model.kind != "chat":
        name = "embeddings" if d.model.kind == "embedding" else "reranking"
        out.append(Decided(name=name, value=True, because="the server refuses such requests otherwise"))
        because = "an input has to fit into one batch"
        out += [Decided(name="batch-size", value=r.batch, because=because)]
        out += [Decided(name="ubatch-size", value=r.ubatch, because=because)]
    else:
        because = "tokens of one step; decides the compute buffer, written out against a later default"
        out.append(Decided(name="ubatch-size", value=r.ubatch, because=because))
    if r.flash:
        out.append(Decided(name="flash-attn", value="on", because="less scratch memory, and quantised V needs it"))
    if (r.cache_k, r.cache_v) != ("f16", "f16"):
        out.append(Decided(name="cache-type-k", value=r.cache_k, because="smaller KV cache than f16"))
        out.append(Decided(name="cache-type-v", value=r.cache_v, because="smaller KV cache than f16"))
    carried = {"embedding", "embeddings", "reranking", "pooling", "jinja", "alias"}
    out += [Decided(name=k, value=v, because="as asked") for k, v in d.settings.items() if k in carried]
    if d.served_name and "alias" not in d.settings:
        out.append(Decided(name="alias", value=d.served_name, because="as asked"))
    return tuple(out)


__all__ = [
    "ALL_LAYERS",
    "choose_layers",
    "constants",
    "fits_on_cards",
    "layers_on_cards",
    "memory",
    "resolve",
    "settings",
    "verify",
]
