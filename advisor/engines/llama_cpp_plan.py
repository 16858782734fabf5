"""What llama-server would allocate where: weights, KV cache, recurrent state, scratch; per device and on the host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import msgspec

from advisor.catalog.types import Engine
from advisor.deployment import Basis, Deployment
from advisor.engines import drafts, fitting
from advisor.engines.base import flag, get, own_defaults
from advisor.engines.llama_cpp_settings import ALL_LAYERS, Resolved, Usual, resolve
from advisor.errors import BadInput
from advisor.meanings import ModelId, ModelType
from advisor.memo import memoize_by_identity
from advisor.memory import ggml_cache, ggml_compute, gguf_weights
from advisor.memory.ggml import BLOCKS
from advisor.memory.ggml_compute import NoFlash
from advisor.memory.gguf_tensors import as_gguf
from advisor.memory.layers import LayerCache, cache_layers
from advisor.memory.placement import HOST, layer_devices, stretches
from advisor.models.types import Mla, Model
from advisor.record import Record


class Range(Record, frozen=True, kw_only=True):
    """A constant with its bounds, MiB."""

    low: float
    value: float
    high: float
    source: str


class MemoryBlock(Record, frozen=True, kw_only=True):
    """`memory:` of rules/engines/llama.cpp.yaml."""

    compute_width: dict[ModelId, int]  # model id -> measured width
    compute_width_source: str
    compute_width_no_flash: dict[str, NoFlash]
    window_model_types: tuple[ModelType, ...]  # architectures whose sliding window the engine uses
    device_overhead_mib: dict[str, Range]  # per backend: context, kernels, pool
    host_overhead_mib: Range
    smaller_kv: tuple[str, ...] = ()  # read by flags.smaller_caches
    source: str


class Constants(MemoryBlock, frozen=True, kw_only=True):
    """What the memory of llama.cpp follows from: the block, and the engine's own defaults."""

    usual: Usual


@memoize_by_identity
def constants(entry: Engine) -> Constants:
    """The engine's memory constants from the rules. Raises BadInput when an overlay spoiled them."""
    try:
        return msgspec.convert({**entry.memory, "usual": msgspec.to_builtins(own_defaults(entry, Usual))}, Constants)
    except msgspec.ValidationError as e:
        raise BadInput(f"rules/engines/{entry.id}.yaml, memory: {e}") from None


# Part of the largest borrowed tensor (or layer of the cache) that comes on top of the scratch: 0.5 to 1.2 on 22
# measured rows with layers or experts in host memory (llama.cpp v0.5.0)
BORROWED = 0.9


class Plan(Record, frozen=True, kw_only=True):
    """Bytes per place; index -1 is host memory."""

    weights: dict[int, int]
    cache: dict[int, int]
    state: dict[int, int]  # recurrent state, and what a CUDA buffer adds behind quantised cells
    compute: dict[int, int]
    where: tuple[int, ...]  # device of each layer, output last
    cells: ggml_cache.Cells
    bytes_per_token: float  # of the layers that grow, all devices together
    attends: bool  # False: nothing is kept per token (encoders, pure state models)
    exact_weights: bool
    weights_spread: float
    compute_basis: Basis
    notes: tuple[str, ...]


def plan(d: Deployment, r: Resolved, c: Constants, gpu_layers: int | None = None) -> Plan:
    """What the engine would allocate where. Raises BadInput for a model whose tensors are not known."""
    model = as_gguf(d.model)
    devices = fitting.devices(d)
    weights = file_weights(d)
    layers = cache_layers(model)
    if not layers:
        raise BadInput(f"{model.id}: the layer layout is not in the catalogue, so memory cannot be told")
    by_layer = gguf_weights.by_layer(weights)
    n_file = max(len(by_layer), len(layers))  # an MTP block counts as layers when sharing out
    shares = r.tensor_split[: len(devices)] or _shares(d)
    if devices and not any(shares):
        raise BadInput("setting tensor-split: the devices that are there get no share")
    asked = gpu_layers if gpu_layers is not None else r.gpu_layers
    where = layer_devices(n_file, ALL_LAYERS if asked is None else asked, shares)
    cuda = bool(devices) and devices[0].vendor in ("nvidia", "amd")
    windows = model.model_type in c.window_model_types
    rows = _rows(model)
    window = next((x.window for x in layers if x.window), None) if windows and rows.window else None
    cells = ggml_cache.cells(r.ctx_size, r.slots, r.unified, window, r.ubatch, r.swa_full)
    cache, state = _cache(model, where, cells, r, cuda, windows)
    borrowed = _borrowed(weights, layers, where, cells, r) if devices else 0
    compute, basis = _compute(model, where, cells, r, c, windows, len(devices), borrowed)
    per_token = _row(r, *(rows.growing_unless_windowed if windows else rows.growing))
    notes = [weights.note] if weights.note else []
    placed = _place_weights(weights, where, r, bool(devices))
    projector = projector_bytes(d)
    if projector:
        at = 0 if devices and not flag(d.settings, "no-mmproj-offload") else HOST
        placed[at] = placed.get(at, 0) + projector
        notes.append("scratch of the image encoder")
    elif projector is None or d.model.vision is not None:
        notes.append("image projector (mmproj)")
    if rows.indexed:
        notes.append("the sparse-attention index cache")
    if rows.other:
        notes.append("caches other than plain rows of this architecture")
    draft = drafts.beside(d, r.ctx_size, r.slots)
    if draft is not None:
        second = plan(draft, resolve(draft, c.usual), c)
        for mine, its in (
            (placed, second.weights),
            (cache, second.cache),
            (state, second.state),
            (compute, second.compute),
        ):
            for place, size in its.items():
                mine[place] = mine.get(place, 0) + size
        per_token += second.bytes_per_token
        notes += [f"draft model: {n}" for n in second.notes]
    return Plan(
        weights=placed,
        cache=cache,
        state=state,
        compute=compute,
        where=where,
        cells=cells,
        bytes_per_token=float(per_token),
        attends=rows.attends,
        exact_weights=weights.exact,
        weights_spread=weights.spread,
        compute_basis=basis,
        notes=tuple(notes),
    )


class _Rows(NamedTuple):
    """What the plan asks of a model's caches, layer by layer; rows are (keys, values) in elements."""

    attends: bool
    window: bool
    indexed: bool
    other: bool  # caches that are no plain rows
    widest: int
    growing: tuple[int, int]
    growing_unless_windowed: tuple[int, int]


@memoize_by_identity
def _rows(model: Model) -> _Rows:
    layers = cache_layers(model)
    own = [x for x in layers if x.attends]
    free = [x for x in own if not x.window]
    return _Rows(
        attends=bool(own),
        window=any(x.window for x in layers),
        indexed=any(x.index for x in layers),
        other=any(x.extra or x.image_only for x in layers),
        widest=max((x.k + x.v for x in own), default=0),
        growing=(sum(x.k for x in own), sum(x.v for x in own)),
        growing_unless_windowed=(sum(x.k for x in free), sum(x.v for x in free)),
    )


def _row(r: Resolved, k: int, v: int) -> float:
    """Bytes of so many elements of keys and of values."""
    ek, bk = BLOCKS[r.cache_k.upper()]
    ev, bv = BLOCKS[r.cache_v.upper()]
    return k * bk / ek + v * bv / ev


def file_weights(d: Deployment) -> gguf_weights.GgufWeights:
    """The tensors of the deployment's file, or those its format makes. Raises BadInput."""
    if d.model_path and Path(d.model_path).is_file():
        return gguf_weights.from_file(Path(d.model_path))
    try:
        return gguf_weights.from_model(d.model, d.quantization)
    except gguf_weights.NoLayout as e:
        raise BadInput(str(e)) from None
    except KeyError:
        raise BadInput(f"{d.quantization!r} is not a GGUF format llama.cpp can load") from None


def projector_bytes(d: Deployment) -> int | None:
    """Bytes of the projector that `--mmproj` loads: the file's, else 16 bit a parameter; 0 without, None unknown."""
    path = get(d.settings, "mmproj", "mm")
    if path is None:
        return 0
    if Path(str(path)).is_file():
        return sum(x.file_bytes for x in gguf_weights.from_file(Path(str(path))).weights)
    return None if d.model.vision is None else 2 * d.model.vision.params


def _shares(d: Deployment) -> tuple[float, ...]:
    """llama.cpp shares layers out by free memory."""
    ds = fitting.devices(d)
    free = [x.free_bytes if x.free_bytes is not None else x.total_bytes for x in ds]
    return tuple(float(f) for f in free if f) if all(free) else (1.0,) * len(ds)


def _place_weights(
    w: gguf_weights.GgufWeights, where: tuple[int, ...], r: Resolved, any_device: bool
) -> dict[int, int]:
    out: dict[int, int] = defaultdict(int)
    output_at = where[-1]
    for x in gguf_weights.outside_layers(w):
        if x.name in ("token_embd.weight", "per_layer_token_embd.weight"):
            out[HOST] += x.file_bytes
            if x.name == "token_embd.weight" and w.tied and output_at != HOST:
                out[output_at] += x.device_bytes  # a second copy serves as output matrix
            continue
        for place in set(where[:-1]) if x.name == "rope_freqs.weight" else (output_at,):
            out[place] += x.file_bytes if place == HOST else x.device_bytes
    sums, n = gguf_weights.running(w), len(gguf_weights.by_layer(w))
    staying = min(n, r.cpu_moe_layers or 0)  # first layers, whose routed experts stay on the host
    for place, begin, end in stretches(where[:n]):
        whole = sums.file if place == HOST else sums.device
        out[place] += whole[end] - whole[begin]
        split = min(max(begin, staying), end)
        out[HOST] += sums.expert_file[split] - sums.expert_file[begin]
        experts = sums.expert_file if place == HOST else sums.expert_device
        out[place] += experts[end] - experts[split]
    return dict(out) if any_device else {HOST: out[HOST]}


def _borrowed(
    w: gguf_weights.GgufWeights,
    layers: Sequence[LayerCache],
    where: Sequence[int],
    cells: ggml_cache.Cells,
    r: Resolved,
) -> int:
    """Bytes of the largest thing in host memory that the GPU borrows for long prompts: a tensor, or a layer's cache."""
    if HOST not in where and r.cpu_moe_layers is None:
        return 0
    most, n = gguf_weights.running(w), len(gguf_weights.by_layer(w))
    there = min(n, where.count(HOST))  # the first layers: those on devices are counted from the end
    staying = max(there, min(n, r.cpu_moe_layers or 0))
    rows = {(x.k, x.v) for x in layers[: where.count(HOST)] if x.attends}
    widest = max((_row(r, k, v) for k, v in rows), default=0)
    return max(most.largest[there], most.largest_expert[staying], int(widest * cells.tokens))


def _cache(
    model: Model,
    where: tuple[int, ...],
    cells: ggml_cache.Cells,
    r: Resolved,
    cuda: bool,
    windows: bool,
) -> tuple[dict[int, int], dict[int, int]]:
    kinds = (r.cache_k.upper(), r.cache_v.upper())
    cache: dict[int, int] = defaultdict(int)
    state: dict[int, int] = defaultdict(int)
    places = stretches(where[: len(cache_layers(model))])
    for x, before in _kinds(model):
        held, padding = _layer_bytes(x, cells, kinds, cuda, windows) if x.attends else (0, 0)
        kept = ggml_cache.state_bytes(x, r.slots) if x.recurrent else 0
        for place, begin, end in places:
            n = before[end] - before[begin]
            if n and x.attends:
                cache[place] += n * held
                state[place] += n * padding if place != HOST else 0
            if n and x.recurrent:
                state[place] += n * kept
    return dict(cache), dict(state)


@memoize_by_identity
def _kinds(model: Model) -> tuple[tuple[LayerCache, tuple[int, ...]], ...]:
    """Layers of one kind once, with how many of it there are before each layer, and in all."""
    layers = cache_layers(model)
    kinds = {id(x): x for x in layers}
    return tuple((x, tuple(accumulate((y is x for y in layers), initial=0))) for x in kinds.values())


def _layer_bytes(
    x: LayerCache, cells: ggml_cache.Cells, kinds: tuple[str, str], cuda: bool, windows: bool
) -> tuple[int, int]:
    """(cells, padding behind them) of one layer, bytes."""
    try:
        padding = ggml_cache.padding_bytes(x, kinds) if cuda else 0
        return ggml_cache.layer_bytes(x, cells, kinds, windows), padding
    except ValueError as e:
        raise BadInput(f"KV cache type {kinds[0].lower()}/{kinds[1].lower()}: {e}") from None


def _compute(
    model: Model,
    where: Sequence[int],
    cells: ggml_cache.Cells,
    r: Resolved,
    c: Constants,
    windows: bool,
    n_devices: int,
    borrowed: int,
) -> tuple[dict[int, int], Basis]:
    lay = model.layout
    assert lay is not None
    heads, query = ggml_compute.query_width(model)
    seen = _rows(model)
    has_window = windows and seen.window
    w = ggml_compute.width(model, c.compute_width, has_window)
    kv_row = seen.widest
    n = ggml_compute.no_flash(model, c.compute_width_no_flash, has_window, kv_row)
    graph = ggml_compute.Graph(
        ubatch=r.ubatch,
        cells=cells.cells,
        window_cells=cells.window_cells if has_window else 0,
        streams=cells.streams,
        flash=r.flash,
        quantized_cache=BLOCKS[r.cache_k.upper()][0] > 1 or BLOCKS[r.cache_v.upper()][0] > 1,
        quantised_k=BLOCKS[r.cache_k.upper()][0] > 1,
        n_heads=heads,
        latent=max((g.kv_lora_rank for g in lay.attention if isinstance(g, Mla)), default=0),
        query=query,
        kv_row=kv_row,
        hidden=lay.hidden_size,
        attends=seen.attends,
    )
    single = ggml_compute.device_compute(w, n, graph)
    if not n_devices or all(p == HOST for p in where):
        return {HOST: single}, "modelled"
    out = dict(enumerate(ggml_compute.split_compute(single, graph, n_devices)))
    out[0] += int(BORROWED * borrowed)
    out[HOST] = ggml_compute.host_compute(graph, lay.vocab_size, r.slots)
    whole = n_devices == 1 and HOST not in where[:-1] and r.cpu_moe_layers is None
    return out, (w.basis if r.flash else n.basis) if whole else "modelled"
