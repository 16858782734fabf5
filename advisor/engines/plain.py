"""Engines without a reserved pool: weights, a cache that grows with use, and some working memory.

Transformers, MLX, ExLlamaV3, MLC, LiteRT-LM, OpenVINO, KTransformers. Constants per engine: `memory:` in rules/engines; bounds are
wide, because little was measured.
"""

from __future__ import annotations

import msgspec

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, KvCache, MemoryEstimate
from advisor.engines import fitting
from advisor.engines.base import Decided, integer
from advisor.errors import BadInput
from advisor.memory import hf_weights
from advisor.memory.layers import cache_layers
from advisor.record import Record


class Constants(Record, frozen=True, kw_only=True):
    """`memory:` of an engine without a pool."""

    kv_bytes: dict[str, float]
    length: tuple[str, ...] = ()
    sequences: tuple[str, ...] = ()
    experts_on_host: bool = False
    windows: bool = True  # whether windowed layers keep only their window
    working_share: tuple[float, float, float] = (0.02, 0.06, 0.2)  # of weights and cache
    overhead_mib: tuple[float, float, float] = (200, 600, 1500)
    source: str


def constants(entry: Engine) -> Constants:
    """The engine's memory constants. Raises BadInput when there are none or an overlay spoiled them."""
    if not entry.memory:
        raise BadInput(f"{entry.name}: its memory behaviour is not in the rules, so memory cannot be told")
    try:
        return msgspec.convert(entry.memory, Constants)
    except msgspec.ValidationError as e:
        raise BadInput(f"rules/engines/{entry.id}.yaml, memory: {e}") from None


def _length(d: Deployment, c: Constants) -> tuple[int, bool]:
    asked = integer(d.settings, *c.length, least=1) if c.length else None
    n = asked or d.context_length or d.model.max_context
    if not n:
        raise BadInput(f"context length: give --context, the trained context of {d.model.id} is not known")
    return n, bool(asked or d.context_length)


def memory(d: Deployment, entry: Engine, q: Quantization) -> MemoryEstimate:
    """Where every byte goes when `sequences` requests are at their full length."""
    c = constants(entry)
    length, given = _length(d, c)
    sequences = (integer(d.settings, *c.sequences, least=1) if c.sequences else None) or d.sequences
    kind = str(d.kv_cache_type.k).lower()
    if kind not in c.kv_bytes:
        raise BadInput(f"KV cache type {kind!r} is not one {entry.name} has.", sorted(c.kv_bytes))
    layers = cache_layers(d.model)
    if not layers:
        raise BadInput(f"{d.model.id}: the layer layout is not in the catalogue, so memory cannot be told")
    devices = fitting.devices(d)
    n = max(1, len(devices))
    w = hf_weights.per_rank(d.model, q, 1, 1)
    total, experts = w.stages[0], w.experts[0] if c.experts_on_host else 0
    per_token = kv = state = 0.0
    for x in layers:
        for part in (x, *x.extra):
            row = (part.k + part.v + part.index) * c.kv_bytes[kind] / part.per_tokens
            windowed = c.windows and part.window is not None
            per_token += 0 if windowed else row
            kv += row * (min(length, part.window or length) if windowed else length)
        state += 4 * x.state + 2 * x.conv
    kv, state = kv * sequences, state * sequences
    work = tuple(s * (total - experts + kv) for s in c.working_share)
    value = int(work[1] / n)
    slack = int((work[2] - work[1]) / n)
    rows = [
        fitting.device_row(
            x, (total - experts) // n, int(kv / n), int(state / n), value, overhead_mib=c.overhead_mib, slack=min(slack, value) if value else 0
        )
        for x in devices
    ]  # fmt: skip
    on_host = experts if devices else total
    host = fitting.host_row(
        d, on_host, 0 if devices else int(kv), 0 if devices else int(state), 0 if devices else value,
        overhead_mib=(200, 800, 3000), slack=0 if devices else slack,
    )  # fmt: skip
    verdict = fitting.verdict(rows, host, needs_host=not devices or bool(experts))
    return MemoryEstimate(
        fits=verdict.fits,
        devices=tuple(rows),
        host=host,
        kv_cache=KvCache(bytes_per_token=int(per_token) if per_token == int(per_token) else per_token),
        context_length=length,
        sequences=sequences,
        basis={
            "weights": "modelled", "kv_cache": "modelled", "recurrent_state": "modelled", "compute": "assumed", "overhead": "assumed",
        },
        warnings=(*verdict.warnings, *(() if given else (f"no context length given: {length} tokens, the model's trained context",))),
        short=verdict.short,
    )  # fmt: skip


def settings(d: Deployment, entry: Engine, q: Quantization) -> tuple[Decided, ...]:
    """The settings the engine has for length and requests at once; often none."""
    c = constants(entry)
    length, _ = _length(d, c)
    out = []
    if c.length:
        out.append(Decided(name=c.length[0], value=length, because="longest request, prompt and output together"))
    if c.sequences and d.sequences > 1:
        out.append(Decided(name=c.sequences[0], value=d.sequences, because="requests held at once"))
    return tuple(out)



