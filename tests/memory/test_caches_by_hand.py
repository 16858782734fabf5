"""What layers keep between tokens, pages of pool engines, drafts and files of vendors: worked out by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from test_graph_sizes_by_hand import MIXER, model

from advisor.memory.ggml import CacheCells, count_cells, layer_bytes, padding_bytes, state_bytes
from advisor.memory.gguf_tensors import layer_order
from advisor.memory.layers import LayerCache, cache_layers
from advisor.memory.paged_cache import (
    CacheGroup,
    LayerSpec,
    PackedCacheType,
    PagedCache,
    StateBlocks,
    count_groups,
    make_layer_specs,
    plan_groups,
)
from advisor.models import types as t

INDEXER = t.Indexer(heads=4, dim=32, top_k=64)
CACHES: list[tuple[t.AttentionGroup, dict[str, Any]]] = [
    (MIXER, {"k": 128, "v": 128, "kv_heads": 2}),
    (t.Full(n=1, n_heads=4, n_kv_heads=2, head_dim=64, v_head_dim=48), {"k": 128, "v": 96, "kv_heads": 2}),
    (t.Full(n=1, n_heads=4, n_kv_heads=2, head_dim=64, kv_shared=True), {}),
    (t.Full(n=1, n_heads=4, n_kv_heads=2, head_dim=64, index_key_dim=16),
     {"k": 128, "v": 128, "kv_heads": 2, "index": 16}),
    (t.Sliding(n=1, n_heads=4, n_kv_heads=2, head_dim=64, window=8), {"k": 128, "v": 128, "kv_heads": 2, "window": 8}),
    (t.Chunked(n=1, n_heads=4, n_kv_heads=2, head_dim=64, window=8),
     {"k": 128, "v": 128, "kv_heads": 2, "window": 8, "chunked": True}),
    (t.Kda(n=1, n_heads=4, head_dim=16, conv_kernel=4), {"conv": 3 * 64 * 3, "state": 64 * 16, "mixer": "kda"}),
    (t.Lightning(n=1, n_heads=4, head_dim=16), {"state": 4 * 16 * 16, "mixer": "lightning"}),
    (t.ShortConv(n=1, conv_kernel=3), {"conv": 32 * 2, "mixer": "short_conv"}),
    (t.Mamba1(n=1, inner=64, state=16, dt_rank=4, conv_kernel=4),
     {"conv": 64 * 3, "state": 64 * 16, "mixer": "mamba1"}),
    (t.Mamba2(n=1, heads=4, head_dim=16, groups=2, state=8, conv_kernel=4),
     {"conv": (64 + 2 * 2 * 8) * 3, "state": 64 * 8, "mixer": "mamba2", "groups": 2, "group_conv": 2 * 8 * 3}),
    (t.GatedDeltaNet(n=1, k_heads=2, v_heads=4, k_dim=16, v_dim=8, conv_kernel=4),
     {"conv": (2 * 32 + 32) * 3, "state": 4 * 16 * 8, "mixer": "gated_delta_net"}),
]  # fmt: skip


@pytest.mark.parametrize(("mixer", "kept"), CACHES, ids=[type(m).__name__ for m, _ in CACHES])
def test_what_a_layer_keeps(mixer: t.AttentionGroup, kept: dict[str, Any]) -> None:
    (found,) = cache_layers(model(mixer))
    assert found == LayerCache(**kept)
    assert found.attends is bool(kept.get("k"))
    assert found.recurrent is bool(kept.get("conv") or kept.get("state"))
    if isinstance(mixer, t.Mamba2):
        both = t.Parallel(n=1, parts=(MIXER, mixer))
        (joined,) = cache_layers(model(both))
        assert joined == LayerCache(k=128, v=128, kv_heads=2, **kept)


def latent(**more: Any) -> t.Mla:
    given: dict[str, Any] = {
        "n": 1, "n_heads": 4, "q_lora_rank": 24, "kv_lora_rank": 48, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
        "v_head_dim": 12,
    }  # fmt: skip
    return t.Mla(**given | more)


def compressed(**more: Any) -> t.Compressed:
    given: dict[str, Any] = {
        "n": 1, "n_heads": 4, "n_kv_heads": 1, "head_dim": 64, "window": 8, "compress_ratio": 4, "qk_rope_head_dim": 8,
        "q_lora_rank": 24, "o_groups": 1, "o_lora_rank": 24,
    }  # fmt: skip
    return t.Compressed(**given | more)


def test_latent_rows_and_their_index() -> None:
    """48 + 8 elements for all heads; files of older converters keep every head: 4 x 24 and 4 x 12."""
    assert cache_layers(model(latent())) == (LayerCache(k=56, kv_heads=1, latent=True),)
    assert cache_layers(model(latent(absorbed=False))) == (LayerCache(k=96, v=48, kv_heads=4),)
    assert cache_layers(model(latent(indexer=INDEXER)))[0].index == 32
    shared = msgspec.structs.replace(INDEXER, shared=True)
    (found,) = cache_layers(model(latent(indexer=shared)))
    assert (found.index, found.index_of_another) == (0, 32)
    past = compressed(indexer=INDEXER)
    (found,) = cache_layers(model(past))
    row = LayerCache(k=64, kv_heads=1, latent=True, per_tokens=4, index=32)
    assert found == LayerCache(k=64, kv_heads=1, latent=True, window=8, extra=(row,))
    assert cache_layers(msgspec.structs.replace(model(), layout=None)) == ()


def test_orders_of_layers() -> None:
    groups = (t.Full(n=2, n_heads=1, n_kv_heads=1, head_dim=1), t.Full(n=1, n_heads=1, n_kv_heads=1, head_dim=1))
    assert layer_order(groups, (), 3) == [0, 0, 1]
    assert layer_order(groups, (), 2) == [0, 0]
    assert layer_order(groups, (), 5) == [0, 0, 1, 1, 1]
    assert layer_order(groups, (0, 1), 5) == [0, 1, 0, 1, 0]


# --- pages of pool engines


def cached(**more: Any) -> LayerCache:
    return LayerCache(**{"k": 128, "v": 128, "kv_heads": 2} | more)


def specs(*layers: LayerCache, tp: int = 1, element: float = 2.0, **more: Any) -> list[LayerSpec]:
    return make_layer_specs(layers, element, tp, 4.0, 2.0, **more)


def test_rows_of_a_rank() -> None:
    """Heads are divided by at most their number, latent rows not at all; an index has a byte an element and a 4-byte
    scale for each 128."""
    assert [s.row for s in specs(cached())] == [512]
    assert [s.row for s in specs(cached(), tp=2)] == [256]
    assert [s.row for s in specs(cached(), tp=8)] == [256]
    assert [s.row for s in specs(cached(), element=1.0)] == [256]
    assert [s.row for s in specs(LayerCache(k=56, kv_heads=1, latent=True), tp=8)] == [112]
    assert [s.row for s in specs(cached(index=128))] == [512 + 128 + 4]
    assert [s.row for s in specs(cached(index=129))] == [512 + 129 + 8]
    assert [s.row for s in specs(cached(per_tokens=4))] == [128]
    kinds = [specs(cached(**x))[0].kind for x in ({}, {"window": 8}, {"window": 8, "chunked": True})]
    assert kinds == ["full", "window", "chunk"]
    assert specs(cached(image_only=True)) == []
    both = specs(cached(conv=10, state=20))
    assert [(s.kind, s.state, s.row) for s in both] == [("state", 4 * 20 + 2 * 10, 0), ("full", 0, 512)]
    halves = specs(cached(conv=10, state=20), tp=2)
    assert halves[0].state == 50
    kept = StateBlocks(mixer="mamba2", blocks=2, state_bytes=2.0)
    assert specs(LayerCache(conv=10, state=20, mixer="mamba2"), states=(kept,))[0].state == 60
    assert specs(LayerCache(conv=10, state=20, mixer="kda"), states=(kept,))[0].state == 100
    # each of four ranks has a whole group of a Mamba-2 layer with two
    assert specs(LayerCache(conv=10, state=20, mixer="mamba2", groups=2, group_conv=6), tp=4)[0].state == round(
        (4 * 20 + 2 * (10 + 2 * 6)) / 4
    )
    assert [count_groups(2, n) for n in (1, 2, 3, 4)] == [2, 2, 3, 4]
    assert count_groups(8, 3) == 8


def test_packed_rows() -> None:
    """Keys of 64 elements at 8 bit and 4 bytes, values at 4 bit and 3: 68 + 35 = 103, an even 104, of each head."""
    packed = PackedCacheType(k_bits=8, v_bits=4, k_beside=4, v_beside=3)
    assert packed.slot(64, 64) == 104
    assert packed.slot(64, 62) == 102
    assert [s.row for s in specs(cached(), packed=packed)] == [208]
    assert [s.row for s in specs(cached(), packed=packed, tp=2)] == [104]
    assert [s.row for s in specs(LayerCache(k=56, kv_heads=1, latent=True), packed=packed)] == [112]
    ends = msgspec.structs.replace(packed, kept=1)
    assert [s.row for s in specs(*[cached()] * 4, packed=ends)] == [512, 208, 208, 512]
    assert [s.row for s in specs(*[cached()] * 2, packed=msgspec.structs.replace(packed, kept=9))] == [512, 512]
    mixed = specs(cached(), LayerCache(state=20), cached(), packed=ends)
    assert [(s.kind, s.row) for s in mixed] == [("full", 208), ("state", 0), ("full", 208)]


def full(row: int, n: int = 1, **more: Any) -> list[LayerSpec]:
    given: dict[str, Any] = {"kind": "full", "row": row} | more
    return [LayerSpec(**given) for _ in range(n)]


def test_groups_of_equal_pages() -> None:
    """All layers alike are one group; unlike ones are cut into groups as large as the smallest kind."""
    one = plan_groups(full(100, 4))
    assert one == PagedCache(groups=(CacheGroup(kind="full", layers=1, block=16, page=6400),), row=400, state_real=0)
    assert one.request(33, 8192) == (3 * 6400, 0)
    assert one.state_blocks(10**9) is None
    windows = full(100, 10, kind="window", window=64)
    mixed = plan_groups([*full(100, 2), *windows])
    assert [(g.kind, g.layers, g.block, g.page) for g in mixed.groups] == [("full", 2, 16, 1600)] + [
        ("window", 2, 16, 1600)
    ] * 5
    # 2 layers x 1,600 bytes: 1,000 tokens are 63 blocks; a window keeps 63 tokens and two batches of 100, and a block
    assert mixed.request(1000, 100) == (2 * 1600 * 63 + 5 * 2 * 1600 * (-(-(63 + 200) // 16) + 1), 0)
    assert mixed.request(32, 100) == (2 * 1600 * 2 + 5 * 2 * 1600 * 3, 0)
    chunks = plan_groups([*full(100, 1), *full(100, 1, kind="chunk", window=64)])
    assert chunks.request(1000, 100) == (1600 * 63 + 1600 * -(-264 // 16), 0)
    # 7 of one kind and 5 of another are cut into groups of 7; 8 and 5 into groups of 5
    near = plan_groups([*full(100, 7), *full(100, 5, kind="window", window=64)])
    assert [g.layers for g in near.groups] == [7, 7]
    far = plan_groups([*full(100, 8), *full(100, 5, kind="window", window=64)])
    assert [g.layers for g in far.groups] == [5, 5, 5]
    # a narrower row fills the same page with more tokens
    narrow = plan_groups([*full(100, 1), *full(50, 1, kind="window", window=64)])
    assert [(g.block, g.page) for g in narrow.groups] == [(16, 1600), (32, 1600)]


def test_pages_next_to_states() -> None:
    """Blocks are as long as the largest state needs: 5,000 bytes are 50 rows of 100, in steps of 16: 64 tokens."""
    states = [LayerSpec(kind="state", state=5000) for _ in range(3)]
    found = plan_groups([*full(100, 1), *states])
    assert [(g.kind, g.layers, g.block, g.page, g.held) for g in found.groups] == [
        ("full", 1, 64, 6400, 0), ("state", 1, 64, 6400, 3), ("state", 1, 64, 6400, 3), ("state", 1, 64, 6400, 3),
    ]  # fmt: skip
    assert (found.row, found.state_real) == (100, 15000)
    assert found.request(100, 10) == (2 * 6400, 3 * 3 * 6400)
    assert found.state_blocks(64000) == 10
    latent_ = plan_groups([*full(100, 1, latent=True), *states])
    assert latent_.groups[0].block == 128
    kept = StateBlocks(mixer="mamba2", blocks=2, alignment=24)
    aligned = plan_groups([*full(100, 1), LayerSpec(kind="state", state=5000, states=kept)])
    assert (aligned.groups[0].block, aligned.groups[1].held) == (96, 2)
    alone = plan_groups(states)
    assert alone.groups == (CacheGroup(kind="state", layers=3, block=1, page=5000, held=3),)
    assert plan_groups([]).groups == ()
    assert plan_groups([]).state_blocks(5) is None


# --- llama.cpp's cache


@pytest.mark.parametrize(
    ("asked", "cells"),
    [
        ((8192, 1, False, None, 512, False), (1, 8192, 8192)),
        ((8193, 1, False, None, 512, False), (1, 8448, 8448)),
        ((8192, 3, False, None, 512, False), (3, 2816, 2816)),
        ((8192, 3, True, None, 512, False), (1, 8192, 8192)),
        ((8192, 1, False, 1024, 512, False), (1, 8192, 1536)),
        ((8192, 1, False, 1025, 512, False), (1, 8192, 1792)),
        ((8192, 2, True, 1024, 512, False), (1, 8192, 2560)),
        ((8192, 2, False, 1024, 512, False), (2, 4096, 1536)),
        ((1024, 1, False, 1024, 512, False), (1, 1024, 1024)),
        ((8192, 1, False, 1024, 512, True), (1, 8192, 8192)),
    ],
)
def test_cells_of_the_cache(asked: tuple[Any, ...], cells: tuple[int, int, int]) -> None:
    found = count_cells(*asked)
    assert (found.streams, found.cells, found.window_cells) == cells
    assert found.tokens == cells[0] * cells[1]


def test_bytes_of_a_layers_cache() -> None:
    """16 bit: 2 bytes an element; 8 bit: 34 bytes for 32."""
    cells = CacheCells(streams=2, cells=100, window_cells=30)
    plain, window = cached(), cached(window=8)
    assert layer_bytes(plain, cells, ("F16", "Q8_0"), True) == 200 * (256 + 128 // 32 * 34)
    assert layer_bytes(window, cells, ("F16", "F16"), True) == 60 * 512
    assert layer_bytes(window, cells, ("F16", "F16"), False) == 200 * 512
    assert padding_bytes(plain, ("F16", "F16")) == 0
    # the last row is padded to 512 elements: 384 of them are 408 bytes, in steps of 128
    assert padding_bytes(plain, ("Q8_0", "F16")) == 512
    assert padding_bytes(cached(k=512, v=1024), ("Q8_0", "Q8_0")) == 0
    assert padding_bytes(cached(k=0), ("Q8_0", "F16")) == 0
    assert state_bytes(LayerCache(conv=10, state=20), 3) == 4 * 3 * 30
