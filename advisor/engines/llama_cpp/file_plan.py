"""What the tensors of one GGUF file take of each place under given settings: weights, caches, states, scratch.

Nothing here looks at a machine, so cards of every kind share the answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate

from msgspec.structs import replace

from advisor.deployment import Basis, PlaceBytes
from advisor.engines.llama_cpp.settings import ALL_LAYERS, LlamaSettings, MovedTensor, find_moved
from advisor.errors import BadInput
from advisor.memo import memoize_by_identity
from advisor.memory import ggml, gguf_weights
from advisor.memory.ggml import HOST, compute, find_stretches, layer_devices
from advisor.memory.ggml.graph import StepShape
from advisor.memory.ggml.layers import has_kernels
from advisor.memory.gguf_tensors import as_gguf
from advisor.memory.layers import LayerCache, cache_layers
from advisor.models.tensors import BLOCKS
from advisor.models.types import Encoder, Mamba1, Mamba2, Model, NoMixer
from advisor.record import Record, Value

KEPT = 4096  # plans remembered, some 2 KB each: a search looks at a few dozen, cards of every size at the same ones
# Tables of which rows are looked up: they stay in host memory
ROUNDED_ROWS = 0.03  # rows are rounded to whole tiles, and what is no matrix lies on one device; assumed
# widths of Mamba-2's state, of Mamba's, and multiples of its rows that CUDA has kernels for (ggml-cuda.cu, supports_op)
SCANNED, SCANNED_MAMBA, SCANNED_ROWS = (96, 128, 256), 16, 128
LOOKED_UP = ("token_embd.weight", "per_layer_token_embd.weight", "position_embd.weight", "token_types.weight")
FIRST_LAYER = (
    "token_embd_norm.weight", "token_embd_norm.bias", "per_layer_model_proj.weight", "per_layer_proj_norm.weight",
)  # fmt: skip


class FileQuestion(Value, frozen=True):
    """All that a plan depends on besides the model and its weights."""

    settings: LlamaSettings
    devices: int
    shares: tuple[float, ...]  # of the layers, device by device, where no setting says them
    cuda: bool  # buffers of the cache are padded
    all_logits: bool  # scratch holds the logits of every token of a batch
    only: int | None = None  # the one device of which scratch, which takes the time, is counted; HOST: none, None: all


class AllocationPlan(Record, frozen=True, kw_only=True):
    """Bytes per place; index -1 is host memory. What the model's own tensors take, or all that a launch loads."""

    weights: dict[int, int]
    cache: dict[int, int]
    state: dict[int, int]  # recurrent state, and what a CUDA buffer adds behind quantised cells
    compute: dict[int, int]
    where: tuple[int, ...]  # device of each layer, output last
    cells: ggml.CacheCells
    bytes_per_token: float  # of the layers that grow, all devices together
    attends: bool  # False: nothing is kept per token (encoders, pure state models)
    exact_weights: bool
    exact_cache: bool
    weights_spread: float
    compute_basis: Basis
    notes: tuple[str, ...]
    repacked: int = 0  # of the weights in host memory: rearranged, in memory that the file does not back
    repacked_more: int = 0  # what rearranging may add, where the processor's flags are not known
    encoder: dict[int, tuple[int, int, int]] = {}  # scratch of the image encoder: low, value, high

    def at(self, place: int) -> PlaceBytes:
        """What lies at one place."""
        return PlaceBytes(*(part.get(place, 0) for part in (self.weights, self.cache, self.state, self.compute)))


def plan_file(model: Model, weights: gguf_weights.GgufWeights, question: FileQuestion) -> AllocationPlan:
    """What a file of these tensors takes where. Raises BadInput for settings that cannot be."""
    settings, devices = question.settings, question.devices
    shares = settings.tensor_split[:devices] or question.shares
    layers = cache_layers(model)
    if not layers:
        raise BadInput(f"{model.id}: the layer layout is not in the catalogue, so memory cannot be determined")
    # an MTP block counts when layers are shared out
    n_file = max(gguf_weights.sum_running(weights).layers, len(layers))
    if devices and not any(shares):
        raise BadInput("setting tensor-split: the devices that are there get no share")
    where = layer_devices(n_file, ALL_LAYERS if settings.gpu_layers is None else settings.gpu_layers, shares)
    if any(x.place >= devices for x in settings.overrides):
        raise BadInput("setting override-tensor: it names a device that is not there")
    windows = uses_windows(model)
    rows = _rows(model)
    window = next((x.window for x in layers if x.window), None) if windows and rows.window else None
    cells = ggml.count_cells(
        settings.ctx_size, settings.slots, settings.unified, window, settings.ubatch, settings.swa_full
    )
    cache, state = _cache(model, where, cells, settings, question.cuda, windows)
    if settings.cache_on_host:
        cache, state = ({HOST: sum(x.values())} for x in (cache, state))
    basis: Basis = "modelled"
    compute: dict[int, int] = {}
    gives_logits = has_output_matrix(model)
    if question.only != HOST:
        compute, basis = plan_scratch(model, weights, where, cells, question)
        if question.all_logits and gives_logits:
            compute[where[-1]] = max(compute.get(where[-1], 0), count_logits(model, settings))
    notes = [weights.note] if weights.note else []
    if rows.indexed:
        notes.append("the sparse-attention index cache")
    if rows.other:
        notes.append("caches other than plain rows of this architecture")
    moved = _find_moved(model, weights, settings) if devices else ()
    placed = place_weights(weights, where, settings, bool(devices), gives_logits, moved)
    by_rows = settings.split != "layer" and devices > 1
    if by_rows:
        placed = _share_rows(placed, shares)
        cache = _share_rows(cache, shares) if settings.split == "tensor" else cache
    return AllocationPlan(
        weights=placed,
        cache=cache,
        state=state,
        compute=compute,
        where=where,
        cells=cells,
        bytes_per_token=float(_row(settings, *(rows.growing_unless_windowed if windows else rows.growing))),
        attends=rows.attends,
        exact_weights=weights.exact and not by_rows and (devices < 2 or not _has_full_rope_factors(model)),
        exact_cache=_is_compared(model) and not rows.indexed and not rows.other,
        weights_spread=max(weights.spread, ROUNDED_ROWS) if by_rows else weights.spread,
        compute_basis=basis,
        notes=tuple(notes),
    )


def _share_rows(bytes_of: dict[int, int], shares: Sequence[float]) -> dict[int, int]:
    """Bytes of all devices shared out by rows of each matrix; those in host memory stay."""
    there, total = sum(v for place, v in bytes_of.items() if place != HOST), sum(shares)
    split = {i: int(there * x / total) for i, x in enumerate(shares)}
    return split | ({HOST: bytes_of[HOST]} if HOST in bytes_of else {})


def _plan_mix(model: Model, mix: str, question: FileQuestion) -> AllocationPlan:
    return plan_file(as_gguf(model), gguf_weights.weights_from_model(model, mix), question)


# `plan_file` for the tensors that a mix makes of a catalogue model, remembered
plan_mix = memoize_by_identity(_plan_mix, KEPT)


def has_output_matrix(model: Model) -> bool:
    """Whether the engine loads a matrix that gives logits, its own or the token embedding again."""
    return model.gguf_architecture is None or model.gguf_architecture.head


def _has_full_rope_factors(model: Model) -> bool:
    """Whether rotary factors are those of layers without a window (Gemma 4): which card has them is not followed."""
    return model.gguf_architecture is not None and model.gguf_architecture.tensors.full_rope_factors


def _is_compared(model: Model) -> bool:
    """Whether caches and states of the architecture were compared with the engine's own plan."""
    architecture = model.gguf_architecture
    return architecture is not None and architecture.listed and architecture.compared


def keeps_cache(model: Model) -> bool:
    """Whether the engine keeps keys and values from step to step."""
    return model.gguf_architecture is None or model.gguf_architecture.keeps_cache


def count_logits(model: Model, settings: LlamaSettings) -> int:
    """Scratch of the logits, and their inputs, of every token of a batch; bytes."""
    return (
        4 * min(settings.ubatch, settings.ctx_size) * (model.known_layout.vocab_size + model.known_layout.hidden_size)
    )


class _CacheRows(Value, frozen=True):
    """What the plan asks of a model's caches, layer by layer; rows are (keys, values) in elements."""

    attends: bool
    window: bool
    indexed: bool
    other: bool  # caches that are no plain rows
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
        indexed=any(x.index and index_rows(model, x) is None for x in layers),
        other=any(x.extra or x.image_only for x in layers),
        growing=(sum(x.k for x in own), sum(x.v for x in own)),
        growing_unless_windowed=(sum(x.k for x in free), sum(x.v for x in free)),
    )


def _row(settings: LlamaSettings, k: int, v: int) -> float:
    """Bytes of so many elements of keys and of values."""
    ek, bk = BLOCKS[settings.cache_k.upper()]
    ev, bv = BLOCKS[settings.cache_v.upper()]
    return k * bk / ek + v * bv / ev


def _cache(
    model: Model,
    where: tuple[int, ...],
    cells: ggml.CacheCells,
    settings: LlamaSettings,
    cuda: bool,
    windows: bool,
) -> tuple[dict[int, int], dict[int, int]]:
    kinds = (settings.cache_k.upper(), settings.cache_v.upper())
    cache: dict[int, int] = defaultdict(int)
    state: dict[int, int] = defaultdict(int)
    places = find_stretches(where[: len(cache_layers(model))])
    widest, bare = _find_widest(model)
    for layer, before in _kinds(model):
        # V is stored transposed, with one width for all layers: those without attention among them, but for hybrids
        if not settings.flash and (layer.v or (bare and not layer.attends)):
            layer = replace(layer, v=widest)
        held, padding = _layer_bytes(layer, cells, kinds, cuda, windows) if layer.attends else (0, 0)
        index = index_rows(model, layer)
        indexed, behind = _layer_bytes(index, cells, kinds, cuda, False) if index is not None else (0, 0)
        kept = ggml.state_bytes(layer, settings.slots) if layer.recurrent else 0
        for place, begin, end in places:
            n = before[end] - before[begin]
            if n and layer.attends:
                cache[place] += n * (held + indexed)
                state[place] += n * (padding + behind) if place != HOST else 0
            if n and layer.recurrent:
                state[place] += n * kept
    return dict(cache), dict(state)


def index_rows(model: Model, layer: LayerCache) -> LayerCache | None:
    """What sparse attention keeps next to a layer's cache: keys of the index, and a head of values in some; None
    without, or where that is not known of the architecture. Worked out of the planner's bytes (v0.5.0)."""
    kind = model.gguf_architecture.index_cache if model.gguf_architecture is not None else None
    if not layer.index or kind is None:
        return None
    values = layer.v // max(1, layer.kv_heads) if kind == "keys and values" else 0
    return LayerCache(k=layer.index, v=values, kv_heads=1)


@memoize_by_identity
def _find_widest(model: Model) -> tuple[int, bool]:
    """Elements of the widest row of values, and whether layers have no mixer at all."""
    layers = cache_layers(model)
    bare = any(isinstance(x, NoMixer) for x in model.known_layout.attention) and not any(x.recurrent for x in layers)
    return max((x.v for x in layers), default=0), bare


@memoize_by_identity
def _kinds(model: Model) -> tuple[tuple[LayerCache, tuple[int, ...]], ...]:
    """Layers of one kind once, with how many of it there are before each layer, and in all."""
    layers = cache_layers(model)
    kinds = {id(x): x for x in layers}
    return tuple((x, tuple(accumulate((y is x for y in layers), initial=0))) for x in kinds.values())


def _layer_bytes(
    layer: LayerCache, cells: ggml.CacheCells, kinds: tuple[str, str], cuda: bool, windows: bool
) -> tuple[int, int]:
    """(cells, padding behind them) of one layer, bytes."""
    try:
        padding = ggml.padding_bytes(layer, kinds) if cuda else 0
        return ggml.layer_bytes(layer, cells, kinds, windows), padding
    except ValueError as e:
        raise BadInput(f"KV cache type {kinds[0].lower()}/{kinds[1].lower()}: {e}") from None


def uses_windows(model: Model) -> bool:
    """Whether the engine limits the cache of windowed layers: as its architecture says, else as the file does."""
    return model.gguf_architecture is not None and model.gguf_architecture.windows is not None


def plan_scratch(
    model: Model,
    weights: gguf_weights.GgufWeights,
    where: tuple[int, ...],
    cells: ggml.CacheCells,
    question: FileQuestion,
) -> tuple[dict[int, int], Basis]:
    """Bytes of scratch per place, and how sure they are. `where`: place of each layer, output last."""
    lay, settings = model.known_layout, question.settings
    on_host = not question.devices or all(p == HOST for p in where)
    step = min(settings.ctx_size, settings.ubatch)
    tokens = ggml.round_up(step, settings.slots)
    window_cells = cells.window_cells if _rows(model).window and uses_windows(model) else 0
    # random files differ there, by some KB or by a tensor
    unfollowed = window_cells and (
        not any(_rows(model).growing_unless_windowed)
        or (question.devices > 1 and tokens != step)
        or (settings.flash and "f32" in (settings.cache_k, settings.cache_v))  # cast in the graph
    )
    if question.devices > 1 and {settings.cache_k, settings.cache_v} != {"f16"} and not unfollowed:
        unfollowed = any(x.recurrent for x in cache_layers(model))
    if not keeps_cache(model) and uses_windows(model) and any(isinstance(p, Encoder) and p.window for p in lay.mixers):
        window_cells = 1  # a mask of its own, over the step alone
    shape = StepShape(
        tokens=tokens,
        sequences=settings.slots,
        outputs=min(tokens, settings.slots),
        cells=cells.cells,
        window_cells=window_cells,
        streams=cells.streams,
        flash=settings.flash,
        gpu=not on_host,
        key_type=settings.cache_k.upper() if keeps_cache(model) else "F16",
        value_type=settings.cache_v.upper() if keeps_cache(model) else "F16",
        cache_on_host=settings.cache_on_host,
    )
    logits = 4 * lay.vocab_size * settings.slots
    moved = () if on_host else _find_moved(model, weights, settings)
    kept = keeps_on_host(where[:-1], settings) or settings.cache_on_host or bool(settings.overrides)
    followed, single = has_kernels(model) and not moved, None
    # a batch follows another where all layers lie on devices
    whole = question.devices > 1 and settings.split == "layer" and not kept and HOST not in where
    if on_host or (question.devices == 1 and not kept and followed) or (whole and followed and question.only is None):
        single = compute.count_scratch(model, shape)
    architecture = model.gguf_architecture
    sure = single is not None and single.known and architecture is not None and architecture.listed
    sure = sure and architecture is not None and architecture.graph.whole and not unfollowed
    basis: Basis = "exact" if sure else "modelled"
    if single is not None and not whole:
        return {HOST: single.device + logits} if on_host else {0: single.device, HOST: single.host + logits}, basis
    places = tuple((x.tensor.name, x.place) for x in moved)
    placed = gguf_weights.place_layers(
        weights, where[: lay.n_layers] + where[-1:], settings.cpu_moe_layers or 0, places
    )
    copies = compute.COPIES if whole else 1
    out = compute.share_scratch(model, shape, placed, question.devices, copies, question.only)
    return {**out, HOST: out.get(HOST, 0) + logits}, basis


def _find_moved(model: Model, weights: gguf_weights.GgufWeights, settings: LlamaSettings) -> tuple[MovedTensor, ...]:
    """Tensors that lie elsewhere than their layer: as the settings say, and what no kernel of a GPU reads."""
    moved = find_moved(weights, settings.overrides) if settings.overrides else ()
    state = next((x.state for x in model.known_layout.mixers if isinstance(x, Mamba1 | Mamba2)), None)
    if state is None:
        return moved
    return moved + tuple(MovedTensor(tensor=x, place=HOST) for x in weights.weights if not _has_kernel(x, state))


def _has_kernel(tensor: gguf_weights.TensorWeight, state: int) -> bool:
    """Whether CUDA can scan, or convolve, with such a tensor; others do not ask (llama-model-loader.cpp)."""
    inner, rows = (*tensor.ne, 1)[:2]
    if tensor.name.endswith(".ssm_conv1d.weight"):
        return rows % SCANNED_ROWS == 0
    if not tensor.name.endswith(".ssm_a"):
        return True
    return state in SCANNED if inner == 1 else inner == SCANNED_MAMBA and rows % SCANNED_ROWS == 0


def place_weights(
    weights: gguf_weights.GgufWeights,
    where: tuple[int, ...],
    settings: LlamaSettings,
    any_device: bool,
    gives_logits: bool,
    moved: Sequence[MovedTensor] = (),
) -> dict[int, int]:
    """Bytes per place. `where`: place of each layer, output last; `gives_logits`: an output matrix is loaded."""
    out: dict[int, int] = defaultdict(int)
    output_at = where[-1]
    outside = gguf_weights.tensors_outside_layers(weights)
    normed = not gives_logits or any(t.name == "output_norm.weight" for t in outside)
    if all(
        t.name != "token_embd.weight" for t in outside
    ):  # the output matrix is loaded twice, both times at its place
        out[output_at] += sum(t.device_bytes for t in outside if t.name == "output.weight")
    for tensor in outside:
        if tensor.name in LOOKED_UP:
            out[HOST] += tensor.file_bytes
            if tensor.name == "token_embd.weight" and weights.tied and output_at != HOST and gives_logits:
                out[output_at] += tensor.device_bytes  # a second copy serves as output matrix
            continue
        for place in _find_places(tensor.name, where, normed):
            out[place] += tensor.file_bytes if place == HOST else tensor.device_bytes
    sums = gguf_weights.sum_running(weights)
    n = sums.layers
    staying = min(n, settings.cpu_moe_layers or 0)  # first layers, whose routed experts stay on the host
    for place, begin, end in find_stretches(where[:n]):
        whole = sums.file if place == HOST else sums.device
        out[place] += whole[end] - whole[begin]
        split = min(max(begin, staying), end)
        out[HOST] += sums.expert_file[split] - sums.expert_file[begin]
        experts = sums.expert_file if place == HOST else sums.expert_device
        out[place] += experts[end] - experts[split]
    for tensor, place in ((x.tensor, x.place) for x in moved):
        for old in _find_own_places(tensor, where, staying, normed):
            out[old] -= tensor.file_bytes if old == HOST else tensor.device_bytes
            out[place] += tensor.file_bytes if place == HOST else tensor.device_bytes
    return dict(out) if any_device else {HOST: out[HOST]}


def _find_own_places(
    tensor: gguf_weights.TensorWeight, where: Sequence[int], staying: int, normed: bool
) -> Iterable[int]:
    """Where a tensor lies that no override moves; nowhere, if it is not loaded."""
    if tensor.layer is None:
        return (HOST,) if tensor.name in LOOKED_UP else _find_places(tensor.name, where, normed)
    if tensor.mtp:
        return ()
    return (HOST if tensor.expert and tensor.layer < staying else where[tensor.layer],)


def _find_places(name: str, where: Sequence[int], normed: bool) -> Iterable[int]:
    """Where a tensor outside the layers lies; source: llama.cpp src/llama-arch.cpp, LLM_TENSOR_INFOS.

    `normed`: the norm of the embeddings is not the norm of the output under another name, as it is for LFM2.
    """
    if name == "rope_freqs.weight":
        return set(where[:-1])
    return (where[0] if normed and name in FIRST_LAYER else where[-1],)


def keeps_on_host(where: Sequence[int], settings: LlamaSettings) -> bool:
    """Whether a layer, or a part of one, lies in host memory."""
    kept = settings.cpu_moe_layers is not None or any(x.place == HOST for x in settings.overrides)
    return kept or HOST in where
