"""What each layer of a model keeps between tokens: cache rows that grow, windows that stop growing, fixed states.

Engine-neutral: widths are elements per token, states elements per sequence. Engines decide types, rounding, placement.
Source of the formulas: the table of cache kinds in docs/memory.md, each checked against the engines named there.
"""

from __future__ import annotations

from advisor.memo import memoize_by_identity
from advisor.memory.gguf_tensors import order
from advisor.models import types as t
from advisor.record import Record


class LayerCache(Record, frozen=True, kw_only=True):
    """Cache of one layer. `window` None = grows with every token. `latent` = one row shared by all heads (MLA)."""

    k: int = 0
    v: int = 0
    kv_heads: int = 0
    window: int | None = None
    latent: bool = False
    index: int = 0  # further elements per token for a sparse-attention index
    per_tokens: int = 1  # one row per so many tokens (compressed past)
    conv: int = 0  # convolution state, elements per sequence
    state: int = 0  # recurrent state, elements per sequence
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
    n = lay.n_layers if lay.attention_order else max(lay.n_layers, sum(g.n for g in lay.attention))
    kinds = order(lay.attention, lay.attention_order, n)
    made = [_cache(g, lay.hidden_size) for g in lay.attention]
    return tuple(made[k] for k in kinds)


def _cache(g: t.AttentionGroup, d: int) -> LayerCache:
    if isinstance(g, (t.Full, t.Sliding, t.Chunked, t.Cross)):
        if g.kv_shared:
            return LayerCache()
        return LayerCache(
            k=g.n_kv_heads * g.head_dim,
            v=g.n_kv_heads * (g.v_head_dim or g.head_dim),
            kv_heads=g.n_kv_heads,
            window=g.window if isinstance(g, (t.Sliding, t.Chunked)) else None,
            index=g.index_key_dim or 0,
            image_only=isinstance(g, t.Cross),
        )
    if isinstance(g, t.Mla):
        own = g.indexer.dim if g.indexer and not g.indexer.shared else 0
        return LayerCache(k=g.kv_lora_rank + g.qk_rope_head_dim, kv_heads=1, latent=True, index=own)
    if isinstance(g, t.Compressed):
        past: tuple[LayerCache, ...] = ()
        if g.compress_ratio:
            own = g.indexer.dim if g.indexer and not g.indexer.shared else 0
            past = (LayerCache(k=g.head_dim, kv_heads=1, latent=True, per_tokens=g.compress_ratio, index=own),)
        return LayerCache(k=g.head_dim, kv_heads=1, latent=True, window=g.window, extra=past)
    if isinstance(g, t.Parallel):
        parts = [_cache(p, d) for p in g.parts]
        grow = next((p for p in parts if p.attends), LayerCache())
        return LayerCache(
            k=grow.k, v=grow.v, kv_heads=grow.kv_heads, window=grow.window,
            conv=sum(p.conv for p in parts), state=sum(p.state for p in parts),
        )  # fmt: skip
    return _recurrent(g, d)


def _recurrent(g: t.AttentionGroup, d: int) -> LayerCache:
    if isinstance(g, t.GatedDeltaNet):
        key, val = g.k_heads * g.k_dim, g.v_heads * g.v_dim
        return LayerCache(conv=(2 * key + val) * (g.conv_kernel - 1), state=g.v_heads * g.k_dim * g.v_dim)
    if isinstance(g, t.Mamba2):
        inner = g.heads * g.head_dim
        return LayerCache(conv=(inner + 2 * g.groups * g.state) * (g.conv_kernel - 1), state=inner * g.state)
    if isinstance(g, t.Mamba1):
        return LayerCache(conv=g.inner * (g.conv_kernel - 1), state=g.inner * g.state)
    if isinstance(g, t.Kda):
        width = g.n_heads * g.head_dim
        return LayerCache(conv=3 * width * (g.conv_kernel - 1), state=width * g.head_dim)
    if isinstance(g, t.Lightning):
        return LayerCache(state=g.n_heads * g.head_dim * g.head_dim)
    if isinstance(g, t.ShortConv):
        return LayerCache(conv=d * (g.conv_kernel - 1))
    return LayerCache()
