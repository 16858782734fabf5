"""What layers keep between tokens, pages of pool engines, drafts and files of vendors: worked out by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from test_graph_sizes_by_hand import DENSE, MIXER, RULES, model

from advisor.memory.adapters import lora_elements, prediction_params
from advisor.memory.draft_bound import find_method, largest_draft_model
from advisor.memory.ggml_cache import CacheCells, count_cells, layer_bytes, padding_bytes, side_bytes, state_bytes
from advisor.memory.gguf_shapes import NoLayout
from advisor.memory.gguf_tensors import as_gguf, count_equal_tensors, layer_order, list_file_tensors, list_tensors
from advisor.memory.gguf_weights import GgufWeights, TensorWeight, list_borrowed, weights_from_model
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
from advisor.memory.repacking import RepackingKernel, choose_kernels, most_repacked, sum_repacked
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
    assert side_bytes("F16", 128, 100, 2) == 2 * 128 * 100 * 2
    assert side_bytes("F16", 0, 100, 2) == 0
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


# --- tensors and files


def test_models_whose_tensors_are_not_known() -> None:
    """Two blocks of attention a layer; layers that nobody has written down."""
    with pytest.raises(NoLayout, match="more than one block of attention a layer"):
        list_tensors(RULES.find_model("meituan-longcat/LongCat-Flash-Chat"))
    with pytest.raises(NoLayout, match=r"the layers of .* are not known"):
        list_tensors(msgspec.structs.replace(model(), layout=None))
    assert as_gguf(model()).layout == model().layout


def test_tensors_of_a_small_model() -> None:
    """By hand: 32 wide, 4 query heads of 64, 2 of keys, 96 in the feed-forward part, a vocabulary of 50."""
    plain = model(mtp=None, architecture="X", gguf_architecture=None, weights=t.Weights())
    found = {x.name: x.ne for x in list_tensors(plain)}
    assert found == {
        "token_embd.weight": (32, 50), "output_norm.weight": (32,), "output.weight": (32, 50),
        "blk.0.attn_norm.weight": (32,), "blk.0.attn_q.weight": (32, 256), "blk.0.attn_k.weight": (32, 128),
        "blk.0.attn_v.weight": (32, 128), "blk.0.attn_output.weight": (256, 32), "blk.0.ffn_norm.weight": (32,),
        "blk.0.ffn_gate.weight": (32, 96), "blk.0.ffn_up.weight": (32, 96), "blk.0.ffn_down.weight": (96, 32),
    }  # fmt: skip
    biased = msgspec.structs.replace(plain, weights=t.Weights(norm_bias=True, lm_head_bias=True))
    more = {x.name: x.ne for x in list_tensors(biased)}
    assert more["output_norm.bias"] == (32,)
    assert more["output.bias"] == (50,)
    layout = plain.layout
    assert layout is not None
    tied = msgspec.structs.replace(plain, layout=msgspec.structs.replace(layout, tie_embeddings=True))
    assert "output.weight" not in {x.name for x in list_tensors(tied)}
    twice = msgspec.structs.replace(plain, layout=msgspec.structs.replace(layout, n_layers=2))
    counts = {x.name: n for x, n in count_equal_tensors(twice)}
    assert counts["blk.0.attn_q.weight"] == 2
    assert counts["token_embd.weight"] == 1
    assert not any(n.startswith("blk.1") for n in counts)
    named = t.Weights(extras=(t.ExtraWeights(params=32 * 100, name="position_embd.weight"), t.ExtraWeights(params=5)))
    table = msgspec.structs.replace(plain, weights=named, max_context=60)
    assert {x.name: x.ne for x in list_file_tensors(table)}["position_embd.weight"] == (32, 60)
    assert len(list_file_tensors(table)) == len(found) + 1


def test_tensors_of_a_prediction_block() -> None:
    """GLM 4.5 Air: a layer behind its 46, and what joins it to the model: twice the width to once."""
    glm = RULES.find_model("zai-org/GLM-4.5-Air")
    block = [x for x in list_tensors(glm) if x.mtp]
    assert {x.layer for x in block} == {46}
    shapes = {x.name: x.ne for x in block}
    assert shapes["blk.46.nextn.eh_proj.weight"] == (2 * 4096, 4096)
    assert (
        shapes["blk.46.nextn.shared_head_head.weight"] == shapes["blk.46.nextn.embed_tokens.weight"] == (4096, 151552)
    )
    norms = {shapes[f"blk.46.nextn.{x}.weight"] for x in ("enorm", "hnorm", "shared_head_norm")}
    assert norms == {(4096,)}
    own = {x.name.removeprefix("blk.45."): x.ne for x in list_tensors(glm) if x.layer == 45}
    assert own == {x.name.removeprefix("blk.46."): x.ne for x in block if "nextn" not in x.name}
    for mtp in (None, t.Mtp(layers=0, per_layer=5), t.Mtp(layers=1, per_layer=None)):
        assert prediction_params(model(mtp=mtp)) is None
    assert prediction_params(model(mtp=t.Mtp(layers=2, per_layer=5))) == 10


def test_files_of_vendors() -> None:
    """A published size sets all tensors; else the mix is that of the nearest published one, and 10 % unsure."""
    plain = model(published={}, vision=None)
    nearest = weights_from_model(plain, "UD-Q4_K_XL")
    exact = weights_from_model(plain, "Q4_K_M")
    assert (nearest.file_bytes, nearest.exact, nearest.spread) == (exact.file_bytes, False, 0.1)
    assert (exact.exact, exact.spread, exact.note) == (True, 0.0, None)
    assert "sized as Q4_K_M" in (nearest.note or "")
    for size, whole in (
        ({"bytes": 10**7}, 10**7), ({"gib": 0.01}, 0.01 * 2**30), ({"gb": 0.01}, 10**7),
        ({"gb": 0.01, "with_mmproj": True}, None),
    ):  # fmt: skip
        published = {"gguf:UD-Q4_K_XL": t.PublishedSize(source="s", **size)}
        found = weights_from_model(msgspec.structs.replace(plain, published=published), "UD-Q4_K_XL")
        assert found.file_bytes == pytest.approx(exact.file_bytes if whole is None else whole, rel=1e-4)
        assert found.spread == (0.1 if whole is None else 0.02)


def test_matrices_on_the_host() -> None:
    """Layers whole, experts of some more, and single tensors, either way."""

    def weight(name: str, size: int, layer: int | None) -> TensorWeight:
        return TensorWeight(
            name=name,
            kind="F16",
            ne=(1, 1),
            layer=layer,
            file_bytes=size,
            device_bytes=size,
            expert="_exps" in name,
            mtp=False,
        )

    weights = GgufWeights(
        weights=(
            weight("token_embd.weight", 1, None), weight("blk.0.ffn_up.weight", 10, 0),
            weight("blk.0.ffn_down.weight", 20, 0), weight("blk.1.ffn_up_exps.weight", 30, 1),
            weight("blk.1.ffn_up.weight", 40, 1), weight("blk.1.attn_q.weight", 50, 1),
            weight("blk.2.ffn_gate_up_exps.weight", 60, 2), weight("blk.2.ffn_down_exps.bias", 7, 2),
        ),
        exact=True,
    )  # fmt: skip

    def lent(layers: int, experts: int, there: tuple[str, ...] = (), elsewhere: tuple[str, ...] = ()) -> list[Any]:
        found = list_borrowed(weights, layers, experts, frozenset(there), frozenset(elsewhere))
        return [(x.up, x.down, x.down_bias, x.whole) for x in found]

    assert lent(0, 0) == []
    assert lent(1, 0) == [(10, 20, 0, True)]
    assert lent(0, 2) == [(0, 0, 0, False), (30, 0, 0, False)]  # routed experts only, where a layer has them
    assert lent(0, 3)[2] == (60, 0, 7, False)
    assert lent(1, 2, elsewhere=("blk.0.ffn_up.weight",)) == [(0, 20, 0, True), (30, 0, 0, False)]
    assert lent(0, 0, there=("blk.0.ffn_down.weight",)) == [(0, 20, 0, False)]
    assert lent(2, 0)[1] == (0, 0, 0, True)


def test_weights_that_are_rearranged() -> None:
    """Matrices of a type that a kernel takes, whose rows are a multiple of its own: 18 bytes of a block become 20."""

    def kernel(buffer: str = "a", rows: int = 8, experts: bool = False, flags: tuple[str, ...] = ("avx2",)) -> Any:
        return RepackingKernel(
            buffer=buffer, flags=flags, types={"Q4_0": (18, 20)}, experts=experts, rows=rows, source="s"
        )

    def weight(name: str, ne: tuple[int, ...], kind: str = "Q4_0", mtp: bool = False) -> TensorWeight:
        return TensorWeight(
            name=name, kind=kind, ne=ne, layer=0, file_bytes=1800, device_bytes=1800, expert="_exps" in name, mtp=mtp
        )

    def sums(*rows: TensorWeight, **more: Any) -> tuple[int, int]:
        twin = [msgspec.structs.replace(x, layer=None) if x.name.startswith("token_embd") else x for x in rows]
        return sum_repacked(GgufWeights(weights=tuple(twin), exact=True), (kernel(**more),), True)

    out = weight("output.weight", (64, 9), "F16")
    assert sums(weight("blk.0.ffn_up.weight", (64, 16)), out) == (1800, 2000)
    assert sums(weight("blk.0.ffn_up.weight", (64, 17)), out) == (3600, 0)
    assert sums(weight("blk.0.ffn_up.weight", (64, 16), "F16"), out) == (3600, 0)
    assert sums(weight("blk.0.ssm_conv1d.weight", (64, 16)), out) == (3600, 0)
    assert sums(weight("blk.0.ffn_up.weight", (64, 16), mtp=True), out) == (1800, 0)
    assert sums(weight("blk.0.x.weight", (64,)), out) == (3600, 0)
    assert sums(weight("blk.0.ffn_up_exps.weight", (64, 16, 4)), out) == (3600, 0)
    assert sums(weight("blk.0.ffn_up_exps.weight", (64, 16, 4)), out, experts=True) == (1800, 2000)
    # an embedding that gives the logits, too, is looked up from the file and multiplied from a copy
    assert sums(weight("token_embd.weight", (64, 16))) == (1800, 2000)
    alone = GgufWeights(weights=(weight("token_embd.weight", (64, 16)),), exact=True)
    assert sum_repacked(alone, (kernel(),), False) == (1800, 0)
    both = GgufWeights(weights=(weight("blk.0.ffn_up.weight", (64, 16)), out), exact=True)
    assert most_repacked(both, [kernel(rows=32), kernel()], True) == 200
    assert most_repacked(both, [], True) == 0
    wide = kernel("b", flags=("avx2", "amx"))
    assert [k.buffer for k in choose_kernels([kernel(), wide], ("avx2", "fma"))] == ["a"]
    assert [k.buffer for k in choose_kernels([kernel(), wide], ("avx2", "amx"))] == ["a", "b"]
    assert choose_kernels([wide], None) == ()


# --- drafts and adapters


def test_methods_of_drafts() -> None:
    def name(method: str | None, draft: str) -> str | None:
        found = find_method(method, draft, RULES)
        return found.names[0] if found is not None else None

    assert name("EAGLE3", "x") == "eagle3"
    assert name(" draft-dflash ", "x") == "dflash"
    assert name("eagl", "x") is None
    assert name(None, "me/model-EAGLE3-head") == "eagle3"
    assert name(None, "me/model-eagle") == "eagle"
    assert name(None, "me/model") is None


def test_the_largest_draft_of_a_model() -> None:
    """EAGLE-3 for a model 256 wide with four heads of 64 and two for keys: heads of 128, two for the width; keys of 128
    elements twice, as wide as the queries; three states projected, and a feed-forward part four times the width."""
    layout = model().layout
    assert layout is not None
    wide = model(layout=msgspec.structs.replace(layout, hidden_size=256))
    method = find_method("eagle3", "", RULES)
    assert method is not None
    found = largest_draft_model(wide, method, RULES)
    assert found is not None
    assert found.layout is not None
    (mixer,), (ffn,) = found.layout.attention, found.layout.ffn
    assert isinstance(mixer, t.Full)
    assert (mixer.n, mixer.n_heads, mixer.n_kv_heads, mixer.head_dim, mixer.gate) == (1, 2, 2, 128, "elementwise")
    projected = 3 * 256**2 + (2 + 2 * 2) * 128 * 256
    assert sum(x.params for x in found.weights.extras) == projected
    assert isinstance(ffn, t.Dense)
    assert ffn.intermediate == 4 * 256 + -(-projected // (3 * 256))
    assert (found.layout.n_layers, found.layout.hidden_size, found.layout.tie_embeddings) == (1, 256, False)
    own = find_method("eagle", "", RULES)
    assert own is not None
    moe = t.Moe(n=1, n_experts=8, top_k=2, moe_intermediate=128, act="gated")
    mixture = model(layout=msgspec.structs.replace(layout, hidden_size=256, ffn=(DENSE, moe)))
    with_experts = largest_draft_model(mixture, own, RULES)
    assert with_experts is not None
    assert with_experts.layout is not None
    assert with_experts.layout.ffn == (moe,)
    for without in (model(t.ShortConv(n=1, conv_kernel=3)), msgspec.structs.replace(model(), layout=None)):
        assert largest_draft_model(without, method, RULES) is None
    assert largest_draft_model(model(compressed()), method, RULES) is None


def test_slots_of_adapters() -> None:
    """Of rank 2: A of each linear layer is as wide as what goes in, B as what comes out."""
    plain = model(architecture="X", gguf_architecture=None, weights=t.Weights())
    q, k, o, up, down = 32 + 256, 32 + 128, 256 + 32, 32 + 96, 96 + 32
    assert lora_elements(plain, 2) == 2 * (q + 2 * k + o + 2 * up + down)
    assert lora_elements(plain, 2, outside=True) == lora_elements(plain, 2) + 2 * 2 * (50 + 32)
    # two ranks: B of the columns, A of the rows are sliced
    half = (32 + 128) + 2 * (32 + 64) + (128 + 32) + 2 * (32 + 48) + (48 + 32)
    assert lora_elements(plain, 2, 2) == 2 * half
    four = (32 + 64) + 2 * (32 + 64) + (64 + 32) + 2 * (32 + 24) + (24 + 32)  # two heads of keys
    assert lora_elements(plain, 2, 4) == 2 * four
    moe = t.Moe(n=1, n_experts=8, top_k=2, moe_intermediate=16, act="gated")
    mixture = msgspec.structs.replace(model(ffn=moe), architecture="X", gguf_architecture=None, weights=t.Weights())
    attention = q + 2 * k + o
    assert lora_elements(mixture, 1) == attention
    router = 32 + 8
    assert lora_elements(mixture, 1, experts="split") == attention + router + 8 * 3 * (32 + 16)
    assert lora_elements(mixture, 1, experts="fused") == attention + router + 8 * (3 * (32 + 16) - 32)
    shared = lora_elements(mixture, 1, 1, 4, "split")
    assert shared == attention + router + 2 * 3 * (32 + 16)
