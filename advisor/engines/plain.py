"""Engines without a reserved pool: weights, a cache that grows with use, and some working memory.

Transformers, MLX, ExLlamaV3, MLC, LiteRT-LM, OpenVINO, KTransformers. Constants per engine: `memory:` in rules/engines;
bounds are wide, because little was measured.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, DeviceMemory, KvCache, MemoryEstimate
from advisor.engines import fitting
from advisor.engines.base import Decided, integer
from advisor.errors import BadInput
from advisor.memory import hf_weights
from advisor.memory.layers import cache_layers
from advisor.record import Record

USUAL_LENGTH = 4096  # tokens; these engines reserve nothing, so without a length there is none that they would take
HOST_MIB = (200, 800, 3000)  # the process in host memory: interpreter, runtime, files being read; assumed


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
    trained = d.model.max_context
    n = asked or d.context_length or min(USUAL_LENGTH, trained or USUAL_LENGTH)
    return n, bool(asked or d.context_length)


def memory(d: Deployment, entry: Engine, q: Quantization) -> MemoryEstimate:
    """Where every byte goes when `sequences` requests are at their full length.

    Layers are dealt out evenly over the devices. Raises BadInput where a setting or the layout allows no answer.
    """
    c = constants(entry)
    length, given = _length(d, c)
    sequences = (integer(d.settings, *c.sequences, least=1) if c.sequences else None) or d.sequences
    per_token, cache, state = _cache(d, entry, c, length)
    cache, state = cache * sequences, state * sequences
    w = hf_weights.per_rank(d.model, q, 1, 1)
    devices = fitting.devices(d)
    on_host = w.stages[0] if not devices else w.experts[0] if c.experts_on_host else 0
    on_devices = w.stages[0] - on_host
    worked_on = (on_devices if devices else w.stages[0]) + cache
    work = tuple(int(share * worked_on) for share in c.working_share)
    n = max(1, len(devices))
    rows = [
        _bounded(fitting.device_row(x, on_devices // n, cache // n, state // n, work[1] // n, c.overhead_mib), work, n)
        for x in devices
    ]
    if devices:
        host = fitting.host_row(d, on_host, 0, 0, 0, HOST_MIB)
    else:
        host = _bounded(fitting.host_row(d, on_host, cache, state, work[1], HOST_MIB), work, 1)
    verdict = fitting.verdict(rows, host, needs_host=not devices or on_host > 0, d=d)
    unsaid = () if given else (f"no context length given: sized for {length} tokens; the cache grows with use",)
    if not given:  # a request may as well be short: the low bound holds no cache
        rows = [_without_cache(x) for x in rows]
        host = _without_cache(host) if not devices else host
    return MemoryEstimate(
        fits=verdict.fits,
        devices=tuple(rows),
        host=host,
        kv_cache=KvCache(bytes_per_token=int(per_token) if per_token.is_integer() else per_token),
        context_length=length,
        sequences=sequences,
        basis={
            "weights": "modelled",
            "kv_cache": "modelled",
            "recurrent_state": "modelled",
            "compute": "assumed",
            "overhead": "assumed",
        },
        warnings=(*verdict.warnings, *unsaid),
        short=verdict.short,
    )


def _bounded(row: DeviceMemory, work: Sequence[int], n: int) -> DeviceMemory:
    """The row with the working memory's own bounds (low, value, high of all `n` devices), which are not symmetric."""
    low, value, high = work
    assert row.low_bytes is not None
    assert row.high_bytes is not None
    return msgspec.structs.replace(
        row, low_bytes=row.low_bytes - (value - low) // n, high_bytes=row.high_bytes + (high - value) // n
    )


def _without_cache(row: DeviceMemory) -> DeviceMemory:
    assert row.low_bytes is not None
    return msgspec.structs.replace(row, low_bytes=row.low_bytes - (row.kv_cache_bytes or 0))


def _cache(d: Deployment, entry: Engine, c: Constants, length: int) -> tuple[float, int, int]:
    """(bytes per further token, cache bytes, state bytes) of one request of `length` tokens."""
    if d.kv_cache_type.k != d.kv_cache_type.v:
        raise BadInput(f"{entry.name} has one KV cache type for keys and values, not two")
    kind = str(d.kv_cache_type.k).lower()
    if kind not in c.kv_bytes:
        raise BadInput(f"KV cache type {kind[:40]!r} is not one {entry.name} has.", sorted(c.kv_bytes))
    layers = cache_layers(d.model)
    if not layers:
        raise BadInput(f"{d.model.id}: the layer layout is not in the catalogue, so memory cannot be told")
    per_token = cache = state = 0.0
    for x in layers:
        for part in (x, *x.extra):
            if part.image_only:
                continue
            row = (part.k + part.v + part.index) * c.kv_bytes[kind] / part.per_tokens
            window = part.window if c.windows else None
            per_token += 0 if window else row
            cache += row * min(length, window or length)
        state += 4 * x.state + 2 * x.conv
    return per_token, int(cache), int(state)


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
