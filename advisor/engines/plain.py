"""Engines without a reserved pool: weights, a cache that grows with use, and some working memory.

Transformers, MLX, ExLlamaV3, MLC, LiteRT-LM, OpenVINO, KTransformers. Constants per engine: `memory:` in rules/engines;
bounds are wide, because little was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from advisor.catalog.launch_types import Concept, Concepts
from advisor.catalog.types import Engine, Quantization
from advisor.deployment import Deployment, DeviceMemory, KvCache, MemoryEstimate
from advisor.engines import fitting
from advisor.engines.base import Decided, get, integer
from advisor.errors import BadInput
from advisor.meanings import PUT_IN, FlagName
from advisor.memo import memoize_by_identity
from advisor.memory import hf_weights
from advisor.memory.layers import cache_layers
from advisor.models.types import Moe
from advisor.record import Record

USUAL_LENGTH = 4096  # tokens; these engines reserve nothing, so without a length there is none that they would take
HOST_MIB = (200, 800, 3000)  # the process in host memory: interpreter, runtime, files being read; assumed


class Reserved(Record, frozen=True, kw_only=True):
    """A cache of a fixed number of tokens that all requests share, taken at start."""

    setting: FlagName
    step: int  # tokens it comes in
    default: int  # tokens when nothing is said


class Constants(Record, frozen=True, kw_only=True):
    """`memory:` of an engine without a share of the device for its cache."""

    family: Literal["plain"] = "plain"
    kv_bytes: dict[str, float]
    kv_bits: tuple[int, int] | None = None
    kv_scale_bits: float = 0.5  # beside each value that is stored in so many bits
    reserved: Reserved | None = None
    experts_on_host: bool = False
    names: Annotated[Concepts, PUT_IN] = Concepts()  # the entry's own
    windows: bool = True  # whether windowed layers keep only their window
    working_share: tuple[float, float, float] = (0.02, 0.06, 0.2)  # of weights and cache
    overhead_mib: tuple[float, float, float] = (200, 600, 1500)
    source: str


@memoize_by_identity
def constants(entry: Engine) -> Constants:
    """The engine's memory constants. Raises BadInput when there are none or an overlay spoiled them."""
    if not entry.memory:
        raise BadInput(f"{entry.name}: its memory behaviour is not in the rules, so memory cannot be told")
    try:
        made = msgspec.convert(entry.memory, Constants)
    except msgspec.ValidationError as e:
        raise BadInput(f"rules/engines/{entry.id}.yaml, memory: {e}") from None
    return msgspec.structs.replace(made, names=entry.concepts)


def _count(d: Deployment, concept: Concept, least: int = 1) -> int | None:
    """The whole number that the settings give a concept; None where they do not, or the engine lacks it."""
    return integer(d.settings, *concept.flags, least=least) if concept.flags else None


def _length(d: Deployment, c: Constants) -> tuple[int, bool]:
    asked = _count(d, c.names.context_length)
    trained = d.model.max_context
    n = asked or d.context_length or min(USUAL_LENGTH, trained or USUAL_LENGTH)
    return n, bool(asked or d.context_length)


def memory(d: Deployment, entry: Engine, q: Quantization) -> MemoryEstimate:
    """Where every byte goes when `sequences` requests are at their full length.

    Layers are dealt out evenly over the devices. Raises BadInput where a setting or the layout allows no answer.
    """
    c = constants(entry)
    length, given = _length(d, c)
    sequences = _count(d, c.names.sequences) or d.sequences
    per_token, cache, state = _cache(d, entry, c, length)
    cache, state = cache * sequences, state * sequences
    refused: tuple[str, ...] = ()
    if c.reserved is not None:
        tokens = reserved_tokens(d, c.reserved, length, sequences)
        cache = int(per_token * tokens)
        if tokens < length:
            said = f"{c.reserved.setting} of {tokens} tokens is less than one request of {length}"
            refused = (f"{said}: {entry.name} raises it or refuses to start",)
    w = hf_weights.per_rank(d.model, q, 1, 1)
    devices = fitting.devices(d)
    on_host = w.stages[0] if not devices else _host_experts(d, c, w.experts[0]) if c.experts_on_host else 0
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
    grows = "" if c.reserved else "; the cache grows with use"
    unsaid = () if given else (f"no context length given: sized for {length} tokens{grows}",)
    if not given and c.reserved is None:  # a request may as well be short: the low bound holds no cache
        rows = [_without_cache(x) for x in rows]
        host = _without_cache(host) if not devices else host
    return MemoryEstimate(
        fits=None if refused and verdict.fits else verdict.fits,
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
        warnings=(*refused, *verdict.warnings, *unsaid),
        short=verdict.short,
    )


def reserved_tokens(d: Deployment, x: Reserved, length: int, sequences: int) -> int:
    """Tokens of the shared cache: as set, else what the asked requests need together, in whole steps."""
    asked = integer(d.settings, x.setting, least=1)
    wanted = asked if asked is not None else length * sequences if d.context_length else x.default
    return -(-wanted // x.step) * x.step


def _host_experts(d: Deployment, c: Constants, experts: int) -> int:
    """Bytes of routed experts in host memory: all but those that a setting keeps on the device."""
    kept = _count(d, c.names.experts_on_device, least=0)
    lay = d.model.layout
    count = max((g.n_experts for g in lay.ffn if isinstance(g, Moe)), default=0) if lay else 0
    return experts if not kept or not count else experts * max(0, count - kept) // count


def _kv_bytes(d: Deployment, entry: Engine, c: Constants) -> tuple[float, float]:
    """Bytes a value of keys and of values. Raises BadInput for a type the engine does not have."""
    said = get(d.settings, *c.names.kv_cache_type.flags)
    words = str(said).split(",") if said is not None else [str(d.kv_cache_type.k), str(d.kv_cache_type.v)]
    pair = (words * 2)[:2] if len(words) == 1 else words
    if len(pair) != 2:
        raise BadInput(
            f"setting {c.names.kv_cache_type.flags[0]}: {str(said)[:40]!r} is neither a type nor two numbers of bits"
        )
    out = []
    for word in (w.strip().lower() for w in pair):
        if word in c.kv_bytes:
            out.append(c.kv_bytes[word])
        elif c.kv_bits and word.isdecimal() and len(word) < 3 and c.kv_bits[0] <= int(word) <= c.kv_bits[1]:
            out.append((int(word) + c.kv_scale_bits) / 8)
        else:
            raise BadInput(f"KV cache type {word[:40]!r} is not one {entry.name} has.", sorted(c.kv_bytes))
    if not c.kv_bits and out[0] != out[1]:
        raise BadInput(f"{entry.name} has one KV cache type for keys and values, not two")
    return out[0], out[1]


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
    keys, values = _kv_bytes(d, entry, c)
    layers = cache_layers(d.model)
    if not layers:
        raise BadInput(f"{d.model.id}: the layer layout is not in the catalogue, so memory cannot be told")
    per_token = cache = state = 0.0
    for x in layers:
        for part in (x, *x.extra):
            if part.image_only:
                continue
            row = ((part.k + part.index) * keys + part.v * values) / part.per_tokens
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
    if c.names.context_length.flags:
        flag = c.names.context_length.flags[0]
        out.append(Decided(name=flag, value=length, because="longest request, prompt and output together"))
    if c.reserved is not None:
        tokens = reserved_tokens(d, c.reserved, length, d.sequences)
        out.append(
            Decided(name=c.reserved.setting, value=tokens, because="tokens of all requests, shared and reserved")
        )
    if c.names.sequences.flags and d.sequences > 1:
        out.append(Decided(name=c.names.sequences.flags[0], value=d.sequences, because="requests held at once"))
    return tuple(out)
