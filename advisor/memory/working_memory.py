"""What a served model takes on a rank while it works: peak of a forward pass, captured graphs, rotary tables.

Source of the peak: vLLM 0.33.0's own model code run on the meta device under a tracker of storages, 299 runs over 51
classes (tests/data/vllm_forward.csv, tests/planner/vllm_forward.py): median difference 0.02 %, nine of ten within 13 %.
Widths are elements of 2 bytes for each token of the batch. Compiled code runs in pieces that end at attention; what a
piece was given stays until it ends.
"""

from __future__ import annotations

from msgspec.structs import astuple

from advisor.meanings import Version
from advisor.memo import memoize_by_identity
from advisor.memory.gguf_tensors import order_ffns, order_mixers
from advisor.models import types as t
from advisor.models.types import Model
from advisor.record import Record, Value

EARLIER = 65_536  # tokens of earlier context that latent attention widens at once, at most
INDEX_ROWS, INDEX_BYTES = 16, 132  # of the sparse index's workspace: rows, bytes a token of the longest context
WIDTH = 2  # bytes of an element
FINE, COARSE, TURN = 8, 16, 256


class MixerWidths(Value, frozen=True):
    """A layer's mixer: what it gives to the next piece, what the piece before it ends with, what it holds itself."""

    given: float = 0.0
    entry: float = 0.0
    inside: float = 0.0
    fixed: float = 0.0  # bytes, whatever the batch


@memoize_by_identity
def size_forward_peak(model: Model, tokens: int, tp: int, expert_tp: int) -> float:
    """Peak bytes of a batch of `tokens` on one of `tp` ranks; routed experts cut over `expert_tp`.

    The model's layers have to be known.
    """
    lay = model.known_layout
    hidden = lay.hidden_size
    mixers = [_mixer(lay.attention[k], model, tp) for k in order_mixers(lay)]
    parts = [lay.ffn[k] for k in order_ffns(lay)]
    experts = widest_experts(model, expert_tp)
    first = next((i for i, g in enumerate(parts) if isinstance(g, t.Moe)), len(parts))
    index = _index_bytes(model)
    stream = hidden * (lay.per_layer.streams if lay.per_layer else 1)
    more = lay.n_layers * lay.per_layer.width if lay.per_layer else 0
    best = 0.0
    for i, (mixer, part) in enumerate(zip(mixers, parts, strict=True)):
        follows = mixers[i + 1] if i + 1 < len(mixers) else MixerWidths()
        here, then = (experts if i >= first else 0.0), (experts if i + 1 > first else 0.0)
        carried = 2 * stream + mixer.given + more
        widths = [carried + _feed_forward(part, hidden, tp), carried + follows.entry]
        if tp > 1:  # the down projection and its reduced copy
            widths.append(carried + 2 * hidden)
        best = max(best, WIDTH * tokens * max(widths) + max(WIDTH * tokens * here, index))
        attending = WIDTH * tokens * (stream + more + follows.inside) + follows.fixed
        best = max(best, attending + max(WIDTH * tokens * then, index))
    return best


def widest_experts(model: Model, tp: int) -> float:
    """`expert_width` of the widest layer; 0 for a dense model."""
    lay = model.known_layout
    return max((expert_width(g, lay.hidden_size, tp) for g in lay.ffn if isinstance(g, t.Moe)), default=0.0)


def expert_width(moe: t.Moe, hidden: int, tp: int) -> float:
    """Elements a token that fused experts keep in the engine's workspace: two caches, each as wide as the wider of what
    it holds in turn (vLLM fused_moe: `workspace_shapes` of its Triton kernels)."""
    inner, outer = moe.moe_intermediate / tp, moe.latent or hidden
    wide = 2 * inner if moe.act == "gated" else inner
    return moe.top_k * (max(inner, outer) + max(wide, outer))


def _index_bytes(model: Model) -> float:
    """Workspace of the index of sparse attention; it shares its memory with the experts' one."""
    lay = model.known_layout
    sparse = any(isinstance(g, t.Mla) and g.indexer is not None for g in lay.attention)
    return float(INDEX_ROWS * INDEX_BYTES * (model.max_context or 0)) if sparse else 0.0


def _feed_forward(group: t.FfnGroup, hidden: int, tp: int) -> float:
    """What a feed-forward part adds at its fullest, its experts' workspace aside."""
    if isinstance(group, t.Dense):
        width = group.intermediate / tp
        return 3 * width if group.act == "gated" else width + hidden
    if not isinstance(group, t.Moe):
        return 0.0
    shared = hidden + (3 if group.act == "gated" else 1) * group.shared_intermediate / tp
    routed = 2.0 * hidden + (hidden if group.shared_intermediate else 0) + (hidden if group.parallel_dense else 0)
    if group.latent:
        routed += 2 * group.latent - hidden
    return max(routed, shared, 3 * group.parallel_dense / tp)


def _mixer(group: t.AttentionGroup, model: Model, tp: int) -> MixerWidths:
    if isinstance(group, (t.Full, t.Sliding, t.Chunked, t.Encoder, t.Cross)):
        return _attention(group, tp)
    if isinstance(group, t.Mla):
        return _latent(group, model, tp)
    if isinstance(group, t.Parallel):
        parts = [_mixer(p, model, tp) for p in group.parts]
        return MixerWidths(*(sum(x) for x in zip(*(astuple(p) for p in parts), strict=True)))
    return _recurrent(group, model, tp)


def _attention(group: t.Full | t.Sliding | t.Chunked | t.Encoder | t.Cross, tp: int) -> MixerWidths:
    """Queries, keys and values, rotated queries and keys, and the buffer that attention writes into."""
    queries, out = group.n_heads / tp * group.head_dim, group.n_heads / tp * (group.v_head_dim or group.head_dim)
    heads = max(1, group.n_kv_heads // tp)  # below one a rank they are repeated
    keys, values = heads * group.head_dim, heads * (group.v_head_dim or group.head_dim)
    gate = out if group.gate == "elementwise" else 0.0
    if group.kv_shared:
        return MixerWidths(out + gate, 2 * queries + out + gate)
    rotated = 0.0 if isinstance(group, t.Encoder) else queries + keys
    return MixerWidths(out + gate, queries + keys + values + gate + rotated + out)


def _latent(group: t.Mla, model: Model, tp: int) -> MixerWidths:
    """Latent attention: earlier context is widened to all heads of the rank, whatever the batch."""
    heads, wide = group.n_heads / tp, group.qk_nope_head_dim + group.qk_rope_head_dim
    queries, out, row = heads * wide, heads * group.v_head_dim, group.kv_lora_rank + group.qk_rope_head_dim
    if group.indexer is not None:  # queries in the latent width of every head
        return MixerWidths(out, 0.0, queries + heads * row + out)
    fixed = (
        WIDTH * min(8 * (model.max_context or EARLIER), EARLIER) * heads * (group.qk_nope_head_dim + group.v_head_dim)
    )
    if any(isinstance(g, t.Kda) for g in model.known_layout.attention):  # Kimi Linear does not profile it
        fixed = 0.0
    return MixerWidths(out, 2 * queries + out + (group.q_lora_rank or 0) + 2 * row, queries + 2 * row + out, fixed)


def _recurrent(group: t.AttentionGroup, model: Model, tp: int) -> MixerWidths:
    """Layers with a state: their wide input projection, and what it is split into."""
    hidden = model.known_layout.hidden_size
    if isinstance(group, t.GatedDeltaNet):
        keys, values = group.k_heads * group.k_dim / tp, group.v_heads * group.v_dim / tp
        return MixerWidths(2 * keys + 3 * values, 4 * keys + 4 * values)
    if isinstance(group, (t.Kda, t.Lightning)):
        width = group.n_heads * group.head_dim / tp
        return MixerWidths(2 * width, 5 * width)
    if isinstance(group, t.Mamba2):
        inner = group.heads * group.head_dim / tp
        projected = 2 * inner + 2 * group.groups * group.state / min(tp, group.groups) + group.heads / tp
        return MixerWidths(projected + inner, projected + inner)
    if isinstance(group, t.Mamba1):
        inner = group.inner / tp
        return MixerWidths(inner + hidden, hidden, 3 * inner + 2 * hidden)
    if isinstance(group, t.ShortConv):
        return MixerWidths(hidden, hidden, 2 * hidden + 3 * hidden / tp)
    return MixerWidths()


class ImageProfile(Record, frozen=True, kw_only=True):
    """What an engine sends through towers of some kinds when it starts: as many of the largest items as a step holds.

    peak = patches x 2 x (pixels + 4 x hidden size + mlp x intermediate / tp): an item's pixels, the row that goes
    through a layer, its copy before the layer, positions and norm, and what the feed-forward part holds.
    """

    kinds: tuple[str, ...]  # of towers
    tokens: int  # of the largest image
    patches: int  # of a token
    pixels: int  # elements of a patch
    mlp: float  # of the intermediate size, a patch
    pairs: int | None = None  # of frames of the largest video, each as large as an image, where the context holds them
    share: tuple[float, float, float]  # low, value, high of that peak, where start-up logs lie
    source: str


def size_image_profile(
    profile: ImageProfile, vision: t.Vision, tp: int, step: int, length: int, videos: bool
) -> tuple[float, float]:
    """Bytes of a rank: (the peak of the tower, what it gives out, which stays while the layers run).

    `step`: tokens of one, `length`: of the longest request. The tower's dimensions have to be known.
    """
    frames = min(profile.pairs, length // profile.tokens) if profile.pairs and videos else 1
    item = profile.tokens * max(1, frames)
    tokens = item * max(1, step // item)
    hidden, wide = vision.hidden or 0, vision.intermediate or 0
    row = profile.pixels + 4 * hidden + profile.mlp * wide / tp
    out = (vision.out or hidden) * (1 + (vision.deepstack or 0))
    return WIDTH * tokens * profile.patches * row, float(WIDTH * tokens * out)


class CapturedGraphs(Record, frozen=True, kw_only=True):
    """What captured graphs hold inside the budget: GiB of each layer and captured size, with bounds."""

    before: Version | None = None  # holds below this engine version
    low: float
    value: float
    high: float
    base_gib: float = 0.0  # whatever is captured
    largest: int = 512  # captured size, tokens
    largest_from_capability: dict[str, int] = {}  # compute capability from which another holds -> size
    source: str


def count_capture_sizes(largest: int) -> int:
    """Sizes that are captured up to `largest` tokens."""
    small = sum(1 for x in (1, 2, 4) if x <= largest)
    fine = len(range(FINE, min(largest + 1, TURN), FINE))
    return small + fine + len(range(TURN, largest + 1, COARSE))


def size_graphs(
    graphs: CapturedGraphs, layers: int, sequences: int, capability: float, largest: int | None
) -> tuple[float, float, float]:
    """(low, value, high) GiB of the graphs of a rank; `largest`: the size asked for, where one is."""
    usual = graphs.largest
    for since, size in graphs.largest_from_capability.items():
        if capability >= float(since):
            usual = size
    n = layers * count_capture_sizes(largest if largest is not None else min(2 * sequences, usual))
    if not n:
        return 0.0, 0.0, 0.0
    low, value, high = (graphs.base_gib + n * x for x in (graphs.low, graphs.value, graphs.high))
    return low, value, high


@memoize_by_identity
def size_rotary_tables(model: Model) -> int:
    """Bytes on each rank; 0 where the model's layers or its context are not known."""
    if model.layout is None or model.max_context is None:
        return 0
    widths: set[int] = set()
    for mixer in model.layout.mixers:
        if isinstance(mixer, t.Mla):
            widths.add(mixer.qk_rope_head_dim)
        elif isinstance(mixer, (t.Full, t.Sliding)):
            widths.add(mixer.head_dim)
    return int(model.max_context * (model.rope_factor or 1.0) * sum(widths) * WIDTH)
