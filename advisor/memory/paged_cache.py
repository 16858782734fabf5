"""vLLM's KV cache planner: which layers form a group, how large a block is, what one request takes.

Source: vLLM 0.33.0's planner run on meta devices (vllm_kv.csv, every row equal); formulas in docs/memory.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import Literal

from advisor.meanings import Version
from advisor.memory.layers import LayerCache, StateKind
from advisor.record import Record

BLOCK = 16
STATE_BLOCKS = 3  # blocks a running sequence holds per group of state layers, where the rules say nothing of the kind
LATENT_ALIGNMENT = 128  # tokens of a block next to states, with latent attention (vLLM _align_hybrid_block_size)


class CacheLayout(Record, frozen=True, kw_only=True):
    """How releases lay the cache out where layers are unlike. The values that stand here are those of vLLM 0.33.0."""

    before: Version | None = None  # holds below this engine version
    whole_windows: bool = False  # windowed layers keep every token
    padded_below: float = 1.5  # layers of the commonest kind per layer of the rarest, from which groups are cut
    batches: int = 2  # in flight at once, whose tokens a window keeps too
    state_blocks: int | None = None  # that a running sequence holds per group of states; None: by the kind of layer
    # what a log calls the size: tokens of whole requests, or blocks by groups, whatever a window leaves of them
    logs: Literal["requests", "blocks"] | None = None  # None: not known
    # a block of aligned states has to lie in one step where prefixes are cached: if that is asked for, or unasked
    block_in_step: Literal["asked", "usual"] | None = None
    source: str = ""


class StateBlocks(Record, frozen=True, kw_only=True):
    """How states of one kind of layer are kept, prefix caching on: blocks a running sequence holds per group of such
    layers, and tokens that the attention blocks next to them must be a multiple of."""

    mixer: StateKind
    blocks: int
    alignment: int = 1
    state_bytes: float | None = None  # per element of the state; None: as the model's other states


class LayerSpec(Record, frozen=True, kw_only=True):
    """Cache of one layer on one rank. `row` is bytes per token, `state` bytes per sequence, `window` tokens."""

    kind: str
    row: int = 0
    window: int = 0
    state: int = 0
    states: StateBlocks | None = None
    latent: bool = False


class CacheGroup(Record, frozen=True, kw_only=True):
    """Layers that share block tables: `layers` slots (padding included), blocks of `block` tokens and `page` bytes."""

    kind: str
    layers: int
    block: int
    page: int
    window: int = 0
    held: int = 0  # blocks of state that a running sequence holds


class PagedCache(Record, frozen=True, kw_only=True):
    """The plan for one rank. `row` is the growing bytes per token over all full-attention layers."""

    groups: tuple[CacheGroup, ...]
    row: int
    state_real: int  # recurrent bytes per sequence before padding
    batches: int = 2  # in flight at once

    def count_logged_tokens(self, available: int, tokens: int, batched_tokens: int, logs: str | None) -> int | None:
        """What the engine's log calls the size of a pool of `available` bytes, for requests of at most `tokens`.

        Source: _report_kv_cache_config of vllm/v1/core/kv_cache_utils.py, before and from 0.20.1 on.
        """
        page = max((g.layers * g.page for g in self.groups), default=0)
        if not page:
            return None
        if logs == "blocks":
            return available // page // len(self.groups) * min(g.block for g in self.groups)
        each = sum(self.request(tokens, batched_tokens)) / page
        return int(available // page / each * tokens) if each else None

    def state_blocks(self, available: int) -> int | None:
        """Blocks of recurrent state that `available` bytes hold: each sequence needs one. None without state."""
        pages = [g.layers * g.page for g in self.groups]
        if not any(g.kind == "state" for g in self.groups) or not pages or not max(pages):
            return None
        return available // max(pages)

    def request(self, tokens: int, batched_tokens: int) -> tuple[int, int]:
        """(attention bytes, state bytes) that one request of `tokens` reserves at admission."""
        attention = state = 0
        for group in self.groups:
            if group.kind == "state":
                state += group.held * group.layers * group.page
            else:
                attention += _blocks(group, tokens, self.batches * batched_tokens) * group.layers * group.page
        return attention, state


def _blocks(group: CacheGroup, tokens: int, in_flight: int) -> int:
    # a window keeps the tokens of the batches that are in flight, too
    if group.kind == "window":
        return -(-min(group.window - 1 + in_flight, tokens) // group.block) + 1
    if group.kind == "chunk":
        return -(-min(group.window + in_flight, tokens) // group.block)
    return -(-tokens // group.block)


class PackedCacheType(Record, frozen=True, kw_only=True):
    """A cache type whose vectors are packed: bits of an element, and bytes next to each vector of a head."""

    k_bits: int
    v_bits: int
    k_beside: int
    v_beside: int
    kept: int = 0  # layers at each end that stay 16-bit, in models whose layers all attend

    def slot(self, k: int, v: int) -> int:
        """Bytes of one head's key and value of `k` and `v` elements, an even number."""
        size = -(-k * self.k_bits // 8) + self.k_beside + -(-v * self.v_bits // 8) + self.v_beside
        return size + size % 2


def make_layer_specs(
    layers: Sequence[LayerCache],
    element: float,
    tp: int,
    state_bytes: float,
    conv_bytes: float,
    packed: PackedCacheType | None = None,
    states: Sequence[StateBlocks] = (),
) -> list[LayerSpec]:
    """Per-rank specs of all layers. KV heads divide by at most their number; latent rows do not divide at all.

    `states`: how states of each kind of layer are kept; kinds that are not named hold STATE_BLOCKS.
    """
    kept = 0 if packed is None or any(x.recurrent for x in layers) else min(packed.kept, len(layers) // 2)
    element = element if packed is None else 2.0  # of what is not packed
    out = []
    for i, layer in enumerate(layers):
        plain = i < kept or i >= len(layers) - kept or layer.latent or bool(layer.extra) or not layer.kv_heads
        packs = None if plain else packed
        for part in (layer, *layer.extra):
            if part.recurrent:
                held = next((x for x in states if x.mixer == part.mixer), None)
                each = state_bytes if held is None or held.state_bytes is None else held.state_bytes
                wider = (count_groups(part.groups, tp) - part.groups) * part.group_conv
                size = (part.state * each + (part.conv + wider) * conv_bytes) / tp
                out.append(LayerSpec(kind="state", state=round(size), states=held))
            if (part.k or part.v) and not part.image_only:
                kind = "full" if part.window is None else "chunk" if part.chunked else "window"
                row = _plain_row(part, element, tp) if packs is None else _packed_row(part, packs, tp)
                out.append(LayerSpec(kind=kind, row=row, window=part.window or 0, latent=part.latent))
    return out


def _plain_row(layer: LayerCache, element: float, tp: int) -> int:
    """Bytes of a token's row on one rank."""
    share = 1 if layer.latent else min(tp, layer.kv_heads or 1)
    return round(((layer.k + layer.v) * element / share + _index_row(layer.index)) / layer.per_tokens)


def _packed_row(layer: LayerCache, packed: PackedCacheType, tp: int) -> int:
    slot = packed.slot(layer.k // layer.kv_heads, layer.v // layer.kv_heads)
    return slot * -(-layer.kv_heads // min(tp, layer.kv_heads))


def _index_row(elements: int) -> int:
    """Bytes of a token in the cache of a sparse-attention index: 8-bit keys, a 4-byte scale for each 128 of them."""
    return elements + 4 * -(-elements // 128)


def count_groups(groups: int, tp: int) -> int:
    """Groups of a Mamba-2 layer over `tp` ranks: each rank has whole ones (vLLM `extra_groups_for_head_shards`)."""
    return groups if groups % tp == 0 else max(groups, tp)


def plan_apart(specs: Sequence[LayerSpec], block: int, held: int) -> PagedCache:
    """Rows of all layers in blocks of tokens, and their states in places of their own, `held` of them a request."""
    row, state = sum(s.row for s in specs), sum(s.state for s in specs)
    groups = [CacheGroup(kind="full", layers=1, block=block, page=block * row)] if row else []
    groups += [CacheGroup(kind="state", layers=1, block=block, page=state, held=held)] if state else []
    return PagedCache(groups=tuple(groups), row=row, state_real=state)


CURRENT = CacheLayout()


def plan_groups(all_specs: list[LayerSpec], block: int = BLOCK, layout: CacheLayout = CURRENT) -> PagedCache:
    """Groups of equal pages. Layers of one kind only form one group; unlike kinds are cut into groups of equal size."""
    attention = [s for s in all_specs if s.kind != "state"]
    states = [s for s in all_specs if s.kind == "state"]
    row = sum(s.row for s in attention if s.kind == "full")
    real = sum(s.state for s in states)
    if not attention:
        page = max((s.state for s in states), default=0)
        held = _count_held(states, layout)
        groups = (CacheGroup(kind="state", layers=len(states), block=1, page=page, held=held),) if states else ()
        return PagedCache(groups=groups, row=0, state_real=real)
    if not states and all(s.kind == "full" for s in attention):
        page = block * row
        return PagedCache(groups=(CacheGroup(kind="full", layers=1, block=block, page=page),), row=row, state_real=0)
    unlike = tuple(_unlike(attention, states, block, layout))
    return PagedCache(groups=unlike, row=row, state_real=real, batches=layout.batches)


def _count_held(states: list[LayerSpec], layout: CacheLayout) -> int:
    """Blocks that a running sequence holds per group of states."""
    held = max((s.states.blocks if s.states else STATE_BLOCKS for s in states), default=0)
    return held if layout.state_blocks is None else min(held, layout.state_blocks)


def _unlike(attention: list[LayerSpec], states: list[LayerSpec], block: int, layout: CacheLayout) -> list[CacheGroup]:
    widest = max(s.row for s in attention)
    if states:
        need = max(s.state for s in states)
        if any(s.latent for s in attention):
            block = max(block, LATENT_ALIGNMENT)
        exports = layout.state_blocks is None  # of checkpoints inside a prefill, which states are aligned for
        step = lcm(block, *(s.states.alignment for s in states if s.states and exports))
        block = _up(-(-need // widest), step)
    page = block * widest
    kinds: dict[tuple[str, int, int], int] = {}
    for layer_spec in attention:
        # a narrower row fills the same page with more tokens
        key = (layer_spec.kind, layer_spec.window, block * widest // layer_spec.row)
        kinds[key] = kinds.get(key, 0) + 1
    counts = list(kinds.values()) + ([len(states)] if states else [])
    size = min(counts)
    if max(counts) < size * layout.padded_below:
        size = max(counts)
    groups = [
        CacheGroup(kind=kind, layers=size, block=tokens, page=page, window=window)
        for (kind, window, tokens), n in kinds.items()
        for _ in range(-(-n // size))
    ]
    held = _count_held(states, layout)
    groups += [
        CacheGroup(kind="state", layers=size, block=block, page=page, held=held) for _ in range(-(-len(states) // size))
    ]
    return groups


def _up(n: int, step: int) -> int:
    return -(-n // step) * step
