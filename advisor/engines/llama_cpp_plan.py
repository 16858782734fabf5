"""What llama-server would allocate where: weights, KV cache, recurrent state, scratch; per device and on the host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from advisor.deployment import Basis, Deployment
from advisor.engines import drafts, fitting
from advisor.engines.llama_cpp_constants import LlamaConstants
from advisor.engines.llama_cpp_extras import list_extras
from advisor.engines.llama_cpp_scratch import plan_scratch, uses_windows
from advisor.engines.llama_cpp_settings import ALL_LAYERS, LlamaSettings, resolve_llama_settings
from advisor.engines.llama_cpp_weights import list_borrowed, place_weights
from advisor.engines.versions import is_before
from advisor.errors import BadInput
from advisor.memo import memoize_by_identity
from advisor.memory import ggml_cache, gguf_weights
from advisor.memory.ggml import BLOCKS
from advisor.memory.gguf_tensors import as_gguf
from advisor.memory.layers import LayerCache, cache_layers
from advisor.memory.placement import HOST, find_stretches, layer_devices
from advisor.memory.repacking import (
    RepackedBytes,
    choose_kernels,
    most_repacked,
    sum_repacked,
)
from advisor.models.types import Model, NoMixer
from advisor.record import Record


class AllocationPlan(Record, frozen=True, kw_only=True):
    """Bytes per place; index -1 is host memory."""

    weights: dict[int, int]
    repacked: int  # of the weights in host memory: rearranged, in memory that the file does not back
    repacked_more: int  # what rearranging may add, where the processor's flags are not known
    cache: dict[int, int]
    state: dict[int, int]  # recurrent state, and what a CUDA buffer adds behind quantised cells
    compute: dict[int, int]
    encoder: dict[int, tuple[int, int, int]]  # scratch of the image encoder: low, value, high
    where: tuple[int, ...]  # device of each layer, output last
    cells: ggml_cache.CacheCells
    bytes_per_token: float  # of the layers that grow, all devices together
    attends: bool  # False: nothing is kept per token (encoders, pure state models)
    exact_weights: bool
    weights_spread: float
    compute_basis: Basis
    notes: tuple[str, ...]


def plan_allocation(
    deployment: Deployment,
    settings: LlamaSettings,
    constants: LlamaConstants,
    only: int | None = None,
    scratch: Mapping[int, int] | None = None,
) -> AllocationPlan:
    """What the engine would allocate where. Raises BadInput for a model whose tensors are not known.

    Scratch is what takes the time: `only` leaves it out for all devices but one, `scratch` takes the bytes per place
    that a like plan has.
    """
    model = as_gguf(deployment.model)
    devices = fitting.used_devices(deployment)
    weights = read_file_weights(deployment)
    layers = cache_layers(model)
    if not layers:
        raise BadInput(f"{model.id}: the layer layout is not in the catalogue, so memory cannot be determined")
    by_layer = gguf_weights.sum_by_layer(weights)
    n_file = max(len(by_layer), len(layers))  # an MTP block counts as layers when sharing out
    shares = settings.tensor_split[: len(devices)] or _shares(deployment)
    if devices and not any(shares):
        raise BadInput("setting tensor-split: the devices that are there get no share")
    where = layer_devices(n_file, ALL_LAYERS if settings.gpu_layers is None else settings.gpu_layers, shares)
    if any(x.place >= len(devices) for x in settings.overrides):
        raise BadInput("setting override-tensor: it names a device that is not there")
    cuda = bool(devices) and devices[0].vendor in ("nvidia", "amd")
    windows = uses_windows(model)
    rows = _rows(model)
    window = next((x.window for x in layers if x.window), None) if windows and rows.window else None
    cells = ggml_cache.count_cells(
        settings.ctx_size, settings.slots, settings.unified, window, settings.ubatch, settings.swa_full
    )
    cache, state = _cache(model, where, cells, settings, cuda, windows)
    basis: Basis = "modelled"
    compute = dict(scratch or {})
    if scratch is None:
        borrowed = list_borrowed(weights, where, settings) if devices else ()
        compute, basis = plan_scratch(model, where, cells, settings, rows.window, len(devices), borrowed, only)
        if _reserves_all_logits(deployment, constants) and has_output_matrix(model):
            compute[where[-1]] = max(compute.get(where[-1], 0), count_logits(model, settings))
    per_token = _row(settings, *(rows.growing_unless_windowed if windows else rows.growing))
    notes = [weights.note] if weights.note else []
    placed = place_weights(weights, where, settings, bool(devices), has_output_matrix(model))
    repacked, more = _repacked(deployment, settings, constants, weights, has_output_matrix(model))
    if repacked is not None:
        placed[HOST] = repacked.mapped + repacked.repacked
    extras = list_extras(deployment, where, settings.flash, bool(devices))
    for at, size in extras.weights.items():
        placed[at] = placed.get(at, 0) + size
    notes += extras.notes
    if rows.indexed:
        notes.append("the sparse-attention index cache")
    if rows.other:
        notes.append("caches other than plain rows of this architecture")
    draft = drafts.make_draft_deployment(deployment, settings.ctx_size, settings.slots)
    if draft is not None:
        second = plan_allocation(draft, resolve_llama_settings(draft, constants.usual), constants)
        for mine, its in (
            (placed, second.weights),
            (cache, second.cache),
            (state, second.state),
            (compute, second.compute if scratch is None else {}),
        ):
            for place, size in its.items():
                mine[place] = mine.get(place, 0) + size
        per_token += second.bytes_per_token
        notes += [f"draft model: {n}" for n in second.notes]
    return AllocationPlan(
        weights=placed,
        repacked=0 if repacked is None else repacked.repacked,
        repacked_more=more,
        cache=cache,
        state=state,
        compute=compute,
        encoder=extras.scratch,
        where=where,
        cells=cells,
        bytes_per_token=float(per_token),
        attends=rows.attends,
        exact_weights=weights.exact,
        weights_spread=weights.spread,
        compute_basis=basis,
        notes=tuple(notes),
    )


def has_output_matrix(model: Model) -> bool:
    """Whether the engine loads a matrix that gives logits, its own or the token embedding again."""
    return model.gguf_architecture is None or model.gguf_architecture.keeps_cache


def count_logits(model: Model, settings: LlamaSettings) -> int:
    """Scratch of the logits, and their inputs, of every token of a batch; bytes."""
    assert model.layout is not None
    return 4 * min(settings.ubatch, settings.ctx_size) * (model.layout.vocab_size + model.layout.hidden_size)


def _reserves_all_logits(deployment: Deployment, constants: LlamaConstants) -> bool:
    changed, version = constants.whole_batch_logits, deployment.engine_version
    return changed is not None and version is not None and is_before(version, changed.before)


def _repacked(
    deployment: Deployment,
    settings: LlamaSettings,
    constants: LlamaConstants,
    weights: gguf_weights.GgufWeights,
    gives_logits: bool,
) -> tuple[RepackedBytes | None, int]:
    """(weights in host memory, where they are rearranged for the processor; what that may add where it is not known).

    Next to accelerators the engine keeps what stays in host memory as it is in the file.
    """
    if not settings.repack or fitting.used_devices(deployment):
        return None, 0
    cpu = deployment.machine.cpu if deployment.machine else None
    if cpu is None or cpu.flags is None:
        return None, most_repacked(weights, constants.repacking, gives_logits)
    kernels = choose_kernels(constants.repacking, cpu.flags)
    return sum_repacked(weights, kernels, gives_logits) if kernels else None, 0


class _CacheRows(NamedTuple):
    """What the plan asks of a model's caches, layer by layer; rows are (keys, values) in elements."""

    attends: bool
    window: bool
    indexed: bool
    other: bool  # caches that are no plain rows
    widest: int
    growing: tuple[int, int]
    growing_unless_windowed: tuple[int, int]


@memoize_by_identity
def _rows(model: Model) -> _CacheRows:
    layers = cache_layers(model)
    own = [x for x in layers if x.attends]
    free = [x for x in own if not x.window]
    return _CacheRows(
        attends=bool(own),
        window=any(x.window for x in layers),
        indexed=any(x.index for x in layers),
        other=any(x.extra or x.image_only for x in layers),
        widest=max((x.k + x.v for x in own), default=0),
        growing=(sum(x.k for x in own), sum(x.v for x in own)),
        growing_unless_windowed=(sum(x.k for x in free), sum(x.v for x in free)),
    )


def _row(settings: LlamaSettings, k: int, v: int) -> float:
    """Bytes of so many elements of keys and of values."""
    ek, bk = BLOCKS[settings.cache_k.upper()]
    ev, bv = BLOCKS[settings.cache_v.upper()]
    return k * bk / ek + v * bv / ev


def read_file_weights(deployment: Deployment) -> gguf_weights.GgufWeights:
    """The tensors of the deployment's file, or those its format makes. Raises BadInput."""
    if deployment.model_path and Path(deployment.model_path).is_file():
        return gguf_weights.weights_from_file(Path(deployment.model_path))
    try:
        return gguf_weights.weights_from_model(deployment.model, deployment.quantization)
    except gguf_weights.NoLayout as e:
        raise BadInput(str(e)) from None
    except KeyError:
        raise BadInput(f"{deployment.quantization!r} is not a GGUF format llama.cpp can load") from None


def count_file_bytes(model: Model, quantization: str, whole: bool) -> int:
    """Bytes of the weights of a model in a GGUF format; without those of tables that never lie on a device, where not
    `whole`. Raises BadInput where they are not known."""
    try:
        weights = gguf_weights.weights_from_model(model, quantization)
    except (gguf_weights.NoLayout, KeyError):
        raise BadInput(f"{model.id} in {quantization}: its tensors are not known") from None
    sums = gguf_weights.sum_running(weights)
    return weights.file_bytes if whole else sums.device[-1] + sums.expert_device[-1]


def _shares(deployment: Deployment) -> tuple[float, ...]:
    """llama.cpp shares layers out by free memory."""
    ds = fitting.used_devices(deployment)
    free = [x.free_bytes if x.free_bytes is not None else x.total_bytes for x in ds]
    return tuple(float(f) for f in free if f) if all(free) else (1.0,) * len(ds)


def _cache(
    model: Model,
    where: tuple[int, ...],
    cells: ggml_cache.CacheCells,
    settings: LlamaSettings,
    cuda: bool,
    windows: bool,
) -> tuple[dict[int, int], dict[int, int]]:
    kinds = (settings.cache_k.upper(), settings.cache_v.upper())
    cache: dict[int, int] = defaultdict(int)
    state: dict[int, int] = defaultdict(int)
    places = find_stretches(where[: len(cache_layers(model))])
    widest = max((x.v for x in cache_layers(model)), default=0)
    assert model.layout is not None
    bare = any(isinstance(x, NoMixer) for x in model.layout.attention)
    bare &= not any(x.recurrent for x in cache_layers(model))
    for layer, before in _kinds(model):
        # V is stored transposed, with one width for all layers: those without attention among them, but for hybrids
        if not settings.flash and (layer.v or (bare and not layer.attends)):
            layer = structs.replace(layer, v=widest)
        held, padding = _layer_bytes(layer, cells, kinds, cuda, windows) if layer.attends else (0, 0)
        kept = ggml_cache.state_bytes(layer, settings.slots) if layer.recurrent else 0
        for place, begin, end in places:
            n = before[end] - before[begin]
            if n and layer.attends:
                cache[place] += n * held
                state[place] += n * padding if place != HOST else 0
            if n and layer.recurrent:
                state[place] += n * kept
    return dict(cache), dict(state)


@memoize_by_identity
def _kinds(model: Model) -> tuple[tuple[LayerCache, tuple[int, ...]], ...]:
    """Layers of one kind once, with how many of it there are before each layer, and in all."""
    layers = cache_layers(model)
    kinds = {id(x): x for x in layers}
    return tuple((x, tuple(accumulate((y is x for y in layers), initial=0))) for x in kinds.values())


def _layer_bytes(
    layer: LayerCache, cells: ggml_cache.CacheCells, kinds: tuple[str, str], cuda: bool, windows: bool
) -> tuple[int, int]:
    """(cells, padding behind them) of one layer, bytes."""
    try:
        padding = ggml_cache.padding_bytes(layer, kinds) if cuda else 0
        return ggml_cache.layer_bytes(layer, cells, kinds, windows), padding
    except ValueError as e:
        raise BadInput(f"KV cache type {kinds[0].lower()}/{kinds[1].lower()}: {e}") from None
