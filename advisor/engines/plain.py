"""Engines without a reserved pool: weights, a cache that grows with use, and some working memory.

Transformers, MLX, ExLlamaV3, MLC, LiteRT-LM, OpenVINO, KTransformers. Constants per engine: `memory:` in rules/engines;
bounds are wide, because little was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from advisor.catalog.launch_types import Concept, Concepts
from advisor.catalog.types import Engine, Quantization
from advisor.decoding import convert
from advisor.deployment import Deployment, DeviceMemory, KvCache, MemoryEstimate, PlaceBytes
from advisor.engines import fitting
from advisor.engines.base import DecidedSetting, get_integer, get_setting
from advisor.errors import BadInput
from advisor.meanings import ONE_AT_LEAST, PUT_IN, FlagName
from advisor.memo import memoize_by_identity
from advisor.memory import hf_weights
from advisor.memory.layers import cache_layers
from advisor.models.types import Moe
from advisor.record import Record

USUAL_LENGTH = 4096  # tokens; these engines reserve nothing, so without a length there is none that they would take
HOST_MIB = (200, 800, 3000)  # the process in host memory: interpreter, runtime, files being read; assumed


class ReservedCache(Record, frozen=True, kw_only=True):
    """A cache of a fixed number of tokens that all requests share, taken at start."""

    setting: FlagName
    step: int  # tokens it comes in
    default: int  # tokens when nothing is set
    slots: FlagName  # requests that windows and states are kept for, all from the start
    usual_slots: int  # of models that have some
    beside_window: int  # tokens that are kept next to a window; both together in whole steps


class PlainConstants(Record, frozen=True, kw_only=True):
    """`memory:` of an engine without a share of the device for its cache."""

    family: Literal["plain"] = "plain"
    kv_bytes: Annotated[dict[str, float], ONE_AT_LEAST]  # accepted KV cache types -> bytes per element
    kv_bits: tuple[int, int] | None = None  # least and most bits, where the type is a number of them
    kv_scale_bits: float = 0.5  # next to each value that is stored in so many bits
    reserved: ReservedCache | None = None
    head_bits: int | None = None  # of the output matrix on the devices, with the token embedding in host memory
    tables_on_host: bool = False  # tables of which a token reads some rows stay in host memory
    experts_on_host: bool = False  # routed experts stay in host memory, but those of experts_on_device
    names: Annotated[Concepts, PUT_IN] = Concepts()  # the entry's own
    windows: bool = True  # whether windowed layers keep only their window
    working_share: tuple[float, float, float] = (0.02, 0.06, 0.2)  # of weights and cache
    overhead_mib: tuple[float, float, float] = (200, 600, 1500)
    source: str


@memoize_by_identity
def read_constants(entry: Engine) -> PlainConstants:
    """The engine's memory constants. Raises BadInput when there are none or an overlay spoiled them."""
    if not entry.memory:
        raise BadInput(f"{entry.name}: its memory behaviour is not in the rules, so memory cannot be determined")
    try:
        made = convert(entry.memory, PlainConstants)
    except msgspec.ValidationError as e:
        raise BadInput(f"rules/engines/{entry.id}.yaml, memory: {e}") from None
    return replace(made, names=entry.concepts)


def _count(deployment: Deployment, concept: Concept, least: int = 1) -> int | None:
    """The whole number that the settings give a concept; None where they do not, or the engine lacks it."""
    return get_integer(deployment.settings, *concept.flags, least=least) if concept.flags else None


def _length(deployment: Deployment, constants: PlainConstants) -> tuple[int, bool]:
    asked = _count(deployment, constants.names.context_length)
    trained = deployment.model.max_context
    n = asked or deployment.context_length or min(USUAL_LENGTH, trained or USUAL_LENGTH)
    return n, bool(asked or deployment.context_length)


def memory(deployment: Deployment, entry: Engine, quantization: Quantization) -> MemoryEstimate:
    """Where every byte goes when `sequences` requests are at their full length.

    Layers are dealt out evenly over the devices. Raises BadInput where a setting or the layout allows no answer.
    """
    constants = read_constants(entry)
    length, given = _length(deployment, constants)
    sequences = _count(deployment, constants.names.sequences) or deployment.sequences
    per_token, cache, state = count_request_bytes(deployment, entry, length)
    drafted, more = _count_draft(deployment, entry, length)
    cache, state = (cache + more) * sequences, state * sequences
    refused: tuple[str, ...] = ()
    if constants.reserved is not None:
        tokens = reserved_tokens(deployment, constants.reserved, length, sequences)
        slots = get_integer(deployment.settings, constants.reserved.slots, least=1) or constants.reserved.usual_slots
        cache = int(per_token * tokens) + slots * _count_rings(deployment, constants.reserved)
        state = state // sequences * slots
        if tokens < length:
            shortage = f"{constants.reserved.setting} of {tokens} tokens is less than one request of {length}"
            refused = (f"{shortage}: {entry.name} raises it or refuses to start",)
    weights = hf_weights.rank_weights(deployment.model, quantization, 1, 1)
    devices = fitting.used_devices(deployment)
    whole = weights.stages[0] + drafted
    on_host, embedding = 0 if devices else whole, 0
    if devices:
        embedding, head = _split_head(deployment, constants)
        whole += head
        tables = hf_weights.count_tables(deployment.model) if constants.tables_on_host else 0
        on_host = embedding + tables + _host_experts(deployment, constants, weights.experts[0])
    on_devices = whole - on_host
    worked_on = (on_devices if devices else whole) + cache
    work = tuple(int(share * worked_on) for share in constants.working_share)
    n = max(1, len(devices))
    each = PlaceBytes(on_devices // n, cache // n, state // n, work[1] // n)
    rows = [_bounded(fitting.device_row(x, each, constants.overhead_mib), work, n) for x in devices]
    if devices:
        host = fitting.host_row(deployment, PlaceBytes(on_host), HOST_MIB)
    else:
        host = _bounded(fitting.host_row(deployment, PlaceBytes(on_host, cache, state, work[1]), HOST_MIB), work, 1)
    verdict = fitting.judge_fit(rows, host, needs_host=not devices or on_host > embedding, deployment=deployment)
    grows = "" if constants.reserved else "; the cache grows with use"
    unsaid = () if given else (f"no context length given: sized for {length} tokens{grows}",)
    if not given and constants.reserved is None:  # a request may as well be short: the low bound holds no cache
        rows = [_drop_cache(x) for x in rows]
        host = _drop_cache(host) if not devices else host
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


def reserved_tokens(deployment: Deployment, cache: ReservedCache, length: int, sequences: int) -> int:
    """Tokens of the shared cache: as set, else what the asked requests need together, in whole steps."""
    asked = get_integer(deployment.settings, cache.setting, cache.setting.replace("_", "-"), least=1)
    tokens = asked if asked is not None else length * sequences if deployment.context_length else cache.default
    return -(-tokens // cache.step) * cache.step


def _count_rings(deployment: Deployment, cache: ReservedCache) -> int:
    """Bytes of the windowed layers of one request: 16 bits an element, whatever the cache's type."""
    rings = ((x.k + x.v, x.window) for x in cache_layers(deployment.model) if x.window)
    return sum(2 * row * -(-(window + cache.beside_window) // cache.step) * cache.step for row, window in rings)


def _split_head(deployment: Deployment, constants: PlainConstants) -> tuple[int, int]:
    """Bytes of (the token embedding in host memory, what the output matrix adds to 16-bit weights or takes off)."""
    lay = deployment.model.layout
    if constants.head_bits is None or lay is None:
        return 0, 0
    embedding = 2 * lay.vocab_size * lay.hidden_size
    return embedding, embedding * constants.head_bits // 16 - (0 if lay.tie_embeddings else embedding)


def _host_experts(deployment: Deployment, constants: PlainConstants, experts: int) -> int:
    """Bytes of routed experts in host memory: those of as many layers as a setting says, or all but those that one
    keeps on the device."""
    if not constants.experts_on_host:
        layers = _count(deployment, constants.names.experts_on_host_layers, least=0) or 0
        groups = deployment.model.known_layout.ffn if layers else ()
        routed = sum(g.n for g in groups if isinstance(g, Moe))
        return experts * min(layers, routed) // max(1, routed)
    kept = _count(deployment, constants.names.experts_on_device, least=0)
    lay = deployment.model.layout
    count = max((g.n_experts for g in lay.ffn if isinstance(g, Moe)), default=0) if lay else 0
    return experts if not kept or not count else experts * max(0, count - kept) // count


def _kv_bytes(deployment: Deployment, entry: Engine, constants: PlainConstants) -> tuple[float, float]:
    """Bytes a value of keys and of values. Raises BadInput for a type the engine does not have."""
    stated = get_setting(deployment.settings, *constants.names.kv_cache_type.flags)
    words = (
        str(stated).split(",")
        if stated is not None
        else [str(deployment.kv_cache_type.k), str(deployment.kv_cache_type.v)]
    )
    pair = (words * 2)[:2] if len(words) == 1 else words
    if len(pair) != 2:
        raise BadInput(
            f"setting {constants.names.kv_cache_type.flags[0]}: {str(stated)[:40]!r} is neither a type nor two numbers "
            "of bits"
        )
    out = []
    for word in (w.strip().lower() for w in pair):
        if word in constants.kv_bytes:
            out.append(constants.kv_bytes[word])
        elif (
            constants.kv_bits
            and word.isdecimal()
            and len(word) < 3
            and constants.kv_bits[0] <= int(word) <= constants.kv_bits[1]
        ):
            out.append((int(word) + constants.kv_scale_bits) / 8)
        else:
            raise BadInput(f"KV cache type {word[:40]!r} is not one {entry.name} has.", sorted(constants.kv_bytes))
    if not constants.kv_bits and out[0] != out[1]:
        raise BadInput(f"{entry.name} has one KV cache type for keys and values, not two")
    return out[0], out[1]


def _bounded(row: DeviceMemory, work: Sequence[int], n: int) -> DeviceMemory:
    """The row with the working memory's own bounds (low, value, high of all `n` devices), which are not symmetric."""
    low, value, high = work
    assert row.low_bytes is not None
    assert row.high_bytes is not None
    return replace(row, low_bytes=row.low_bytes - (value - low) // n, high_bytes=row.high_bytes + (high - value) // n)


def _drop_cache(row: DeviceMemory) -> DeviceMemory:
    assert row.low_bytes is not None
    return replace(row, low_bytes=row.low_bytes - (row.kv_cache_bytes or 0))


def _count_draft(deployment: Deployment, entry: Engine, length: int) -> tuple[int, int]:
    """(bytes of the draft model's weights, of its cache of one request)."""
    draft = deployment.draft
    if draft is None:
        return 0, 0
    alone = replace(deployment, model=draft.model, quantization=draft.quantization.id, draft=None)
    weights = hf_weights.rank_weights(draft.model, draft.quantization, 1, 1).stages[0]
    return weights, count_request_bytes(alone, entry, length)[1]


def count_request_bytes(deployment: Deployment, entry: Engine, length: int) -> tuple[float, int, int]:
    """(bytes per further token, cache bytes, state bytes) of one request of `length` tokens, all devices together."""
    constants = read_constants(entry)
    keys, values = _kv_bytes(deployment, entry, constants)
    layers = cache_layers(deployment.model)
    if not layers:
        raise BadInput(
            f"{deployment.model.id}: the layer layout is not in the catalogue, so memory cannot be determined"
        )
    per_token = cache = state = 0.0
    for layer in layers:
        for part in (layer, *layer.extra):
            if part.image_only:
                continue
            row = ((part.k + part.index) * keys + part.v * values) / part.per_tokens
            window = part.window if constants.windows else None
            per_token += 0 if window else row
            cache += row * min(length, window or length)
        state += 4 * layer.state + 2 * layer.conv
    return per_token, int(cache), int(state)


def launch_settings(deployment: Deployment, entry: Engine, quantization: Quantization) -> tuple[DecidedSetting, ...]:
    """The settings the engine has for length and requests at once; often none."""
    constants = read_constants(entry)
    length, _ = _length(deployment, constants)
    out = []
    if constants.names.context_length.flags:
        flag = constants.names.context_length.flags[0]
        out.append(DecidedSetting(flag, length, "longest request, prompt and output together"))
    if constants.reserved is not None:
        tokens = reserved_tokens(deployment, constants.reserved, length, deployment.sequences)
        out.append(DecidedSetting(constants.reserved.setting, tokens, "tokens of all requests, shared and reserved"))
    if constants.names.sequences.flags and deployment.sequences > 1:
        out.append(DecidedSetting(constants.names.sequences.flags[0], deployment.sequences, "requests held at once"))
    return tuple(out)
