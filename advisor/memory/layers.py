"""What each layer of a model keeps between tokens: cache rows that grow, windows that stop growing, fixed states.

Engine-neutral: widths are elements per token, states elements per sequence. Engines decide types, rounding, placement.
Source of the formulas: the table of cache kinds in docs/memory.md, each checked against the engines named there.
"""

from __future__ import annotations

from typing import Literal

from advisor.memo import memoize_by_identity
from advisor.memory.gguf_tensors import order_blocks
from advisor.models import types as t
from advisor.record import Record

StateKind = Literal["gated_delta_net", "mamba2", "mamba1", "kda", "lightning", "short_conv"]


class LayerCache(Record, frozen=True, kw_only=True):
    """Cache of one layer. `window` None = grows with every token. `latent` = one row shared by all heads (MLA)."""

    k: int = 0
    v: int = 0
    kv_heads: int = 0
    window: int | None = None
    latent: bool = False
    index: int = 0  # further elements per token for a sparse-attention index
    index_of_another: int = 0  # elements per token of an index that the layer takes over from another one
    per_tokens: int = 1  # one row per so many tokens (compressed past)
    conv: int = 0  # convolution state, elements per sequence
    state: int = 0  # recurrent state, elements per sequence
    mixer: StateKind | None = None  # whose state it is
    groups: int = 0  # of the convolution's inputs that heads share (Mamba-2); ranks hold whole ones
    group_conv: int = 0  # elements of the convolution state of each group
    chunked: bool = False  # the window is a chunk that begins at its multiples
    image_only: bool = False  # caches image tokens, not text
    extra: tuple[LayerCache, ...] = ()  # further caches of the same layer (compressed latents)

    @property
    def attends(self) -> bool:
        """Whether the layer keeps anything per token."""
        return bool(self.k or self.v or self.extra)

    @property
    def recurrent(self) -> bool:
        """Whether the layer keeps a state per sequence."""
        return bool(self.conv or self.state)


@memoize_by_identity
def cache_layers(model: t.Model) -> tuple[LayerCache, ...]:
    """One LayerCache per block of attention, in order (some models have two a layer); empty for an unknown layout."""
    lay = model.layout
    if lay is None:
        return ()
    made = [_cache(g, lay.hidden_size) for g in lay.attention]
    return tuple(made[k] for k in order_blocks(lay))


def _cache(group: t.AttentionGroup, d: int) -> LayerCache:
    if isinstance(group, (t.Full, t.Sliding, t.Chunked, t.Cross)):
        if group.kv_shared:
            return LayerCache()
        return LayerCache(
            k=group.n_kv_heads * group.head_dim,
            v=group.n_kv_heads * (group.v_head_dim or group.head_dim),
            kv_heads=group.n_kv_heads,
            window=group.window if isinstance(group, (t.Sliding, t.Chunked)) else None,
            chunked=isinstance(group, t.Chunked),
            index=group.index_key_dim or 0,
            image_only=isinstance(group, t.Cross),
        )
    if isinstance(group, t.Mla):
        own = group.indexer.dim if group.indexer and not group.indexer.shared else 0
        if not group.absorbed:
            keys = group.n_heads * (group.qk_nope_head_dim + group.qk_rope_head_dim)
            return LayerCache(k=keys, v=group.n_heads * group.v_head_dim, kv_heads=group.n_heads)
        taken = group.indexer.dim if group.indexer and group.indexer.shared else 0
        row = group.kv_lora_rank + group.qk_rope_head_dim
        return LayerCache(k=row, kv_heads=1, latent=True, index=own, index_of_another=taken)
    if isinstance(group, t.Compressed):
        past: tuple[LayerCache, ...] = ()
        if group.compress_ratio:
            own = group.indexer.dim if group.indexer and not group.indexer.shared else 0
            past = (LayerCache(k=group.head_dim, kv_heads=1, latent=True, per_tokens=group.compress_ratio, index=own),)
        return LayerCache(k=group.head_dim, kv_heads=1, latent=True, window=group.window, extra=past)
    if isinstance(group, t.Parallel):
        parts = [_cache(p, d) for p in group.parts]
        grow = next((p for p in parts if p.attends), LayerCache())
        return LayerCache(
            k=grow.k, v=grow.v, kv_heads=grow.kv_heads, window=grow.window,
            conv=sum(p.conv for p in parts), state=sum(p.state for p in parts),
            mixer=next((p.mixer for p in parts if p.mixer), None),
            groups=sum(p.groups for p in parts), group_conv=sum(p.group_conv for p in parts),
        )  # fmt: skip
    return _recurrent(group, d)


def _recurrent(group: t.AttentionGroup, d: int) -> LayerCache:
    if isinstance(group, t.GatedDeltaNet):
        key, val = group.k_heads * group.k_dim, group.v_heads * group.v_dim
        return LayerCache(
            conv=(2 * key + val) * (group.conv_kernel - 1) + (group.table.kept if group.table else 0),
            state=group.v_heads * group.k_dim * group.v_dim,
            mixer="gated_delta_net",
        )
    if isinstance(group, t.Mamba2):
        inner = group.heads * group.head_dim
        return LayerCache(
            conv=(inner + 2 * group.groups * group.state) * (group.conv_kernel - 1),
            state=inner * group.state,
            mixer="mamba2",
            groups=group.groups,
            group_conv=2 * group.state * (group.conv_kernel - 1),
        )
    if isinstance(group, t.Mamba1):
        return LayerCache(conv=group.inner * (group.conv_kernel - 1), state=group.inner * group.state, mixer="mamba1")
    if isinstance(group, t.Kda):
        width = group.n_heads * group.head_dim
        return LayerCache(conv=3 * width * (group.conv_kernel - 1), state=width * group.head_dim, mixer="kda")
    if isinstance(group, t.Lightning):
        return LayerCache(state=group.n_heads * group.head_dim * group.head_dim, mixer="lightning")
    if isinstance(group, t.ShortConv):
        return LayerCache(conv=d * (group.conv_kernel - 1), mixer="short_conv")
    return LayerCache()


def is_mla(model: t.Model) -> bool:
    """Whether the main cache is one latent row per token, which tensor parallelism does not divide."""
    return model.layout is not None and any(isinstance(g, t.Mla) for g in model.layout.attention)
