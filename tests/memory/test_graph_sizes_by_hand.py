"""Inputs, copies and kernels of a step's graph, by hand on small layers; shares of ranks and of files."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.errors import BadFile
from advisor.memory import hf_weights
from advisor.memory.checkpoint_weights import checkpoint_rank_weights, has_weights
from advisor.memory.ggml.compute import build_step
from advisor.memory.ggml.graph import (
    BORROWED,
    ON_DEVICE,
    HeadShape,
    PlacedLayer,
    Step,
    StepShape,
    Tensor,
    compute,
    count_peak,
    view,
)
from advisor.memory.ggml.layers import _find_side, _rotates, has_kernel
from advisor.memory.ggml.schedule import count_places
from advisor.memory.hf_weights import ExpertTiles, expert_growth, pick_tiles
from advisor.memory.working_memory import size_rotary_tables
from advisor.models import types as t
from advisor.models.types import GgufArchitecture, GraphTraits

RULES = catalog([shipped_root()])
LLAMA = RULES.find_model("llama3.1:8b")
MIXER = t.Full(n=1, n_heads=4, n_kv_heads=2, head_dim=64)
DENSE = t.Dense(n=1, intermediate=96, act="gated")


def model(mixer: t.AttentionGroup = MIXER, ffn: t.FfnGroup = DENSE, **more: Any) -> t.Model:
    """A model of one layer, 32 wide."""
    layout = t.Layout(n_layers=1, hidden_size=32, vocab_size=50, tie_embeddings=False, attention=(mixer,), ffn=(ffn,))
    found: t.Model = msgspec.structs.replace(LLAMA, **({"layout": layout} | more))
    return found


def shape(**more: Any) -> StepShape:
    given: dict[str, Any] = {
        "tokens": 8, "sequences": 2, "outputs": 2, "cells": 160, "window_cells": 96, "streams": 1, "flash": True,
    }  # fmt: skip
    return StepShape(**given | more)


def inputs(of: StepShape, what: t.Model | None = None) -> dict[str, int]:
    """Bytes of what is handed over, by name."""
    what = what or model()
    assert what.layout is not None
    layers = [(what.layout.attention[0], what.layout.ffn[0], ON_DEVICE)]
    handed = build_step(what, of, layers)[1]
    return {str(x.layout[0]) if isinstance(x.layout[0], str) else str(x.layout): x.size for x in handed}


def test_what_is_handed_over() -> None:
    """The embedded tokens in 32 bit; positions, rows of outputs; where keys and values go; a mask of 16 bit."""
    assert inputs(shape()) == {
        "(32, 8)": 4 * 32 * 8, "positions": 4 * 8, "key rows False": 8 * 8, "value rows False": 8 * 8,
        "mask False": 2 * 160 * 8, "output rows": 4 * 2,
    }  # fmt: skip
    # without flash attention values lie transposed: a place for each element of the widest row, and a mask of 32 bit
    plain = inputs(shape(flash=False))
    assert (plain["mask False"], plain["value rows False"]) == (4 * 160 * 8, 8 * 8 * 2 * 64)
    wide = model(t.Full(n=1, n_heads=4, n_kv_heads=2, head_dim=64, v_head_dim=48))
    assert inputs(shape(flash=False), wide)["value rows False"] == 8 * 8 * 2 * 48
    assert inputs(shape(cells=0))["mask False"] == 0
    window = model(t.Sliding(n=1, n_heads=4, n_kv_heads=2, head_dim=64, window=32))
    assert inputs(shape(), window)["mask True"] == 2 * 96 * 8
    assert "mask True" not in inputs(shape(window_cells=0), window)


def test_logits_are_of_the_outputs() -> None:
    tensors, _ = build_step(model(), shape(), [(MIXER, DENSE, ON_DEVICE)])
    assert tensors[-1].layout == (50, 2)
    assert tensors[-1].output
    encoder = GgufArchitecture(encoder=True)
    tensors, handed = build_step(model(gguf_architecture=encoder), shape(), [(MIXER, DENSE, ON_DEVICE)])
    assert tensors[-1].layout == (32, 2)
    # every token sees every other: a mask of all pairs
    assert {x.size for x in handed if x.layout == ("mask False",)} == {2 * 8 * 8}
    narrow = [x for x in tensors if x.layout[0] == "narrow"]
    assert [(x.size, x.layout) for x in narrow] == [(2 * 8 * 2 * 64, ("narrow", 64))] * 2
    _, handed = build_step(model(gguf_architecture=encoder), shape(flash=False), [(MIXER, DENSE, ON_DEVICE)])
    assert {x.size for x in handed if x.layout == ("mask False",)} == {4 * 8 * 8}


HOST = -1


def outside(tensors: list[Tensor]) -> list[int]:
    """Bytes of the weights and caches that operations read and that lie elsewhere."""
    return sorted(x.size for tensor in tensors for x in tensor.operands if x.layout in (BORROWED, ("kept",)))


def test_matrices_and_caches_that_are_fetched() -> None:
    """Three matrices, two biases, norms of 32 elements; keys and values of all cells: 2 bytes x 128 elements x 160."""
    names = {"ffn_gate": 1000, "ffn_up": 2000, "ffn_down": 3000, "ffn_up.bias": 10, "ffn_down.bias": 20}
    lent = PlacedLayer(place=HOST, lent=tuple(names.items()))
    biased = t.Dense(n=1, intermediate=96, act="gated", bias=True)

    def fetched(mixer: t.AttentionGroup, ffn: t.FfnGroup, layer: PlacedLayer, **more: Any) -> list[int]:
        step = shape(scheduled=True, **more)
        found = outside(build_step(model(mixer, ffn), step, [(mixer, ffn, layer)])[0])
        return [x for x in found if x != 4 * 32]

    cache = [2 * 128 * 160, 2 * 128 * 160]
    assert fetched(MIXER, biased, lent) == sorted([1000, 2000, 3000, 10, 20, *cache])
    assert fetched(MIXER, DENSE, PlacedLayer(place=HOST), streams=2) == [2 * x for x in cache]
    narrow = fetched(MIXER, DENSE, PlacedLayer(place=HOST), key_type="Q8_0", value_type="Q4_0")
    assert narrow == sorted([128 // 32 * 34 * 160, 128 // 32 * 18 * 160])
    assert fetched(MIXER, DENSE, PlacedLayer(), cache_on_host=True) == cache
    experts = t.Moe(n=1, n_experts=64, top_k=4, moe_intermediate=16, act="gated")
    assert fetched(MIXER, experts, PlacedLayer(lent=(("ffn_up_exps", 500),))) == [500, *cache]


def test_operations_go_where_their_weights_and_neighbours_are() -> None:
    """Two devices: what the first gives is copied to the second, with what the host hands over to both."""
    first, middle, last = (compute((1000,)) for _ in range(3))
    given = Tensor(512, ("given",))
    first.operands, middle.operands, last.operands = (given,), (first,), (middle, given)
    first.place, last.place, last.output = 0, 1, True
    found = count_places([first, middle, last], [given], 2, 1)
    assert middle.place == 0  # without weights: with what it follows
    assert found == {HOST: 512, 0: 512 + 2 * 4096, 1: 4096 + 512 + 4096}


def test_copies_of_batches_under_way_are_kept() -> None:
    first, last = compute((1000,)), compute((1000,))
    given = Tensor(512, ("given",))
    first.operands, last.operands = (given,), (first,)
    first.place, last.place, last.output = 0, 1, True
    assert count_places([first, last], [given], 2, 4) == {HOST: 4 * 512, 0: 4 * 512 + 4096, 1: 4 * 4096 + 4096}


def test_the_processor_computes_what_no_gpu_has_a_kernel_for() -> None:
    first, attended, last = (compute((1000,)) for _ in range(3))
    attended.operands, last.operands, attended.kernel = (first,), (attended,), False
    first.place, last.place, last.output = 0, 0, True
    count_places([first, attended, last], [], 1, 1)
    assert attended.place == HOST


@pytest.mark.parametrize(
    ("experts", "chosen", "kept"),
    [(64, 4, 2), (512, 4, 2), (1024, 4, 1), (96, 4, 1), (288, 4, 2), (576, 4, 2), (64, 1, 1), (64, 2, 2), (64, 15, 2),
     (64, 16, 1), (96, 16, 0)],
)  # fmt: skip
def test_kernels_that_hold_what_they_read(experts: int, chosen: int, kept: int) -> None:
    """Routers of powers of two up to 512, of 288 and 576; weighted sums of 2 to 15 experts."""
    moe = t.Moe(n=1, n_experts=experts, top_k=chosen, moe_intermediate=16, act="gated")
    tensors, _ = build_step(model(ffn=moe), shape(), [(MIXER, moe, ON_DEVICE)])
    assert sum(x.layout == ("keep",) for x in tensors) == kept
    processor, _ = build_step(model(ffn=moe), shape(gpu=False), [(MIXER, moe, ON_DEVICE)])
    assert not any(x.layout == ("keep",) for x in processor)


@pytest.mark.parametrize(
    ("width", "values", "queries", "keys", "found"),
    [(64, 64, 4, 2, True), (64, 128, 4, 2, False), (100, 100, 4, 2, False), (192, 128, 16, 2, True),
     (192, 128, 4, 2, False), (320, 256, 64, 2, True), (320, 256, 32, 2, False), (512, 512, 4, 2, True),
     (512, 512, 3, 2, False), (576, 512, 128, 1, True), (576, 512, 1, 1, False), (40, 40, 1, 1, True),
     (72, 72, 1, 1, True), (80, 80, 1, 1, True), (96, 96, 1, 1, True), (112, 112, 1, 1, True), (256, 256, 1, 1, True)],
)  # fmt: skip
def test_heads_that_cuda_has_a_kernel_for(width: int, values: int, queries: int, keys: int, found: bool) -> None:
    """fattn.cu: widths of its instances, and for the widest as many queries of a key as one block takes."""
    heads = HeadShape(queries=queries, keys=keys, key_width=width, value_width=values, window=False)
    assert has_kernel(heads) is found


def test_sides_of_rotation_matrices() -> None:
    assert [_find_side(x) for x in (64, 128, 192, 256, 320, 576, 80, 100)] == [64, 128, 64, 256, 64, 64, 0, 0]


def test_layers_that_rotate() -> None:
    def step(window_cells: int = 96, **traits: Any) -> Step:
        architecture = GgufArchitecture(graph=GraphTraits(**traits))
        return Step(model(gguf_architecture=architecture), shape(window_cells=window_cells))

    assert [_rotates(step(no_rope_every=4), False, i) for i in range(8)] == [True, True, True, False] * 2
    assert _rotates(step(), False, 3)
    assert _rotates(step(rope="windows"), True, 0)
    assert not _rotates(step(rope="windows"), False, 0)
    assert _rotates(step(0, rope="windows"), False, 0)
    assert not _rotates(step(rope="none"), True, 0)


def test_a_buffer_by_hand() -> None:
    """Blocks of 128: what is read no more is free for what comes, and an operation in place takes its operand's."""
    first = compute((32,))  # 128 bytes
    second = compute((64,), first)  # 256 more
    third = compute((64,), second, in_place=True)
    fourth = compute((32,), third)  # where the first lay
    fourth.output = True
    assert count_peak([first, second, third, fourth]) == 384
    apart = [compute((32,)), compute((33,))]
    assert count_peak(apart) == 128 + 256
    assert count_peak([compute((32,)), compute((33,))], 32) == 128 + 160
    whole = compute((64,))
    part = view(whole, (32,), "part")
    after = compute((32,), part)  # a view of it is read: both lie there
    assert count_peak([whole, part, after]) == 384
    assert count_peak([Tensor(100, ("a",)), Tensor(0, ("b",))]) == 128
    assert compute((8,), extra=5).size == 37


# --- ranks


@pytest.mark.parametrize(
    ("layers", "stages", "sizes"),
    [(8, 2, (4, 4)), (9, 2, (5, 4)), (10, 4, (2, 3, 3, 2)), (11, 4, (3, 3, 3, 2)), (5, 4, (1, 1, 2, 1)), (3, 1, (3,))],
)
def test_layers_of_pipeline_stages(layers: int, stages: int, sizes: tuple[int, ...]) -> None:
    """A remainder goes to the stages before the last, from its neighbour on."""
    found = [hf_weights.stage_of(i, layers, stages) for i in range(layers)]
    assert tuple(found.count(k) for k in range(stages)) == sizes
    assert found == sorted(found)


def test_weights_of_layouts_that_are_counted() -> None:
    """DeepSeek V4 Flash: experts over the ranks that share them, all else over tensor ranks and stages."""
    name = RULES.find_model("deepseek-ai/DeepSeek-V4-Flash")
    layout = name.layout
    assert layout is not None
    moe = [g for g in layout.ffn if isinstance(g, t.Moe)]
    routed = sum(g.n * g.n_experts * 3 * layout.hidden_size * g.moe_intermediate for g in moe)
    outside = 2 * layout.vocab_size * layout.hidden_size
    bf16 = RULES.quantization("BF16")
    found = hf_weights.rank_weights(name, bf16, 4, 2, 8)
    assert found.modelled
    assert found.experts == (round(2 * routed / 16),) * 2
    assert found.stages[0] == pytest.approx(2 * routed / 16 + 2 * (name.params_total - routed) / 8, rel=1e-9)
    assert found.outside == (round(2 * outside / 4),) * 2
    awq = RULES.quantization("AWQ")
    narrow = hf_weights.rank_weights(name, awq, 1)
    bits = awq.bits_nominal
    rest = name.params_total - routed - outside
    assert narrow.stages[0] == pytest.approx((routed + rest) * bits / 8 + 2 * outside, rel=1e-6)


def test_padding_of_experts() -> None:
    """Two ranks have 704 of 1,408 columns each, padded to 768; more ranks of experts keep them whole."""
    moe = t.Moe(n=1, n_experts=8, top_k=2, moe_intermediate=1408, act="gated")
    tiles = ExpertTiles(format="MXFP4", vendor="nvidia", hidden=64, intermediate=128, source="s")
    assert expert_growth(model(ffn=moe), tiles, 2, 1) == pytest.approx(64 / 32 * 768 / 704)
    assert expert_growth(model(ffn=moe), tiles, 2, 2) == pytest.approx(64 / 32 * 768 / 704)
    assert expert_growth(model(ffn=moe), tiles, 2, 4) == pytest.approx(64 / 32)
    assert expert_growth(model(ffn=moe), tiles, 1, 1) == pytest.approx(64 / 32)
    assert expert_growth(model(), tiles, 1, 1) == 1.0
    plain = ExpertTiles(format="MXFP4", vendor="nvidia", source="s")
    assert expert_growth(model(ffn=moe), plain, 2, 1) == 1.0
    newer = msgspec.structs.replace(tiles, from_capability=9.0)
    assert pick_tiles((tiles, newer), "MXFP4", "nvidia", 8.9) == tiles
    assert pick_tiles((tiles, newer), "MXFP4", "nvidia", 9.0) == newer
    assert pick_tiles((newer,), "MXFP4", "nvidia", 8.9) is None
    assert pick_tiles((tiles, newer), "MXFP4", "nvidia", None) is None
    assert pick_tiles((tiles,), "MXFP4", "nvidia", None) == tiles
    assert pick_tiles((tiles,), "FP8", "nvidia", 9.0) is pick_tiles((tiles,), "MXFP4", "amd", 9.0) is None


def test_rotary_tables() -> None:
    """Positions x width of a head x 2 bytes, one table for each width; positions grow with the scaling factor."""
    both = t.Parallel(n=1, parts=(MIXER, t.Sliding(n=1, n_heads=4, n_kv_heads=2, head_dim=96, window=8)))
    assert size_rotary_tables(model(max_context=1000, rope_factor=None)) == 1000 * 64 * 2
    assert size_rotary_tables(model(both, max_context=1000, rope_factor=8.0)) == 8000 * (64 + 96) * 2
    assert size_rotary_tables(model(max_context=None)) == 0
    assert size_rotary_tables(msgspec.structs.replace(LLAMA, layout=None)) == 0


def write_checkpoint(folder: Path, tensors: dict[str, tuple[str, list[int]]]) -> Path:
    """A folder with one safetensors file whose data are zeros."""
    folder.mkdir()
    header, at = {}, 0
    for name, (kind, sides) in tensors.items():
        size = {"F32": 4, "BF16": 2, "U8": 1}[kind]
        for side in sides:
            size *= side
        header[name] = {"dtype": kind, "shape": sides, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))
    return folder


TENSORS = {
    "model.embed_tokens.weight": ("BF16", [50, 32]),
    "lm_head.weight": ("BF16", [50, 32]),
    "model.norm.weight": ("BF16", [32]),
    "model.layers.0.self_attn.q_proj.weight": ("BF16", [256, 32]),
    "model.layers.0.self_attn.k_proj.weight": ("BF16", [128, 32]),
    "model.layers.0.input_layernorm.weight": ("F32", [32]),
    "model.layers.0.mlp.gate.weight": ("F32", [8, 32]),
    "model.layers.0.mlp.experts.0.up_proj.weight": ("U8", [96, 32]),
    "model.layers.0.mlp.up_proj.weight": ("F32", [96, 32]),
    "model.layers.0.mlp.up_proj.weight_scale": ("F32", [96, 8]),
    "model.layers.1.mlp.up_proj.weight": ("BF16", [96, 32]),
    "mtp.layers.0.proj.weight": ("BF16", [96, 32]),
}
TOWER = "model.visual.blocks.0.mlp.fc1.weight"


def test_files_of_a_checkpoint_are_shared_by_ranks(tmp_path: Path) -> None:
    """Four ranks, two heads of keys: those by two; norms and routers whole; 32-bit matrices are loaded as 16 bit, their
    scales as they are. A prediction block, and a layer beyond the model's, are not loaded."""
    folder = write_checkpoint(tmp_path / "a", TENSORS)
    found = checkpoint_rank_weights(model(), folder, 4)
    outside = 2 * 50 * 32 * 2 // 4 + 64
    layer = 256 * 32 * 2 // 4 + 128 * 32 * 2 // 2 + 32 * 4 + 8 * 32 * 2 + 96 * 32 * 2 // 4 + 96 * 8 * 4 // 4
    experts = 96 * 32 // 4
    assert (found.stages, found.experts, found.outside) == ((outside + layer + experts,), (experts,), (outside,))
    assert not found.modelled
    assert checkpoint_rank_weights(model(), folder, 4, 1, 8).experts == (96 * 32 // 8,)
    assert checkpoint_rank_weights(model(), folder, 4, 1, 2).experts == (96 * 32 // 4,)


def test_stages_and_towers_of_a_checkpoint(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "a", {**TENSORS, TOWER: ("BF16", [64, 16])})
    layout = model().layout
    assert layout is not None
    for tied in (False, True):
        two = msgspec.structs.replace(layout, n_layers=2, tie_embeddings=tied)
        found = checkpoint_rank_weights(model(layout=two), folder, 1, 2)
        table, norm, tower = 50 * 32 * 2, 64, 64 * 16 * 2
        # the embedding and the tower first, the output matrix last: a copy of the embedding where both are one
        assert found.outside == (table + tower, table + norm)
        assert found.stages[1] == table + norm + 96 * 32 * 2
        blind = checkpoint_rank_weights(model(layout=two), folder, 1, 2, 1, False)
        assert blind.outside == (table, table + norm)
    one = msgspec.structs.replace(layout, tie_embeddings=True)
    assert checkpoint_rank_weights(model(layout=one), folder, 1, 1, 1, False).outside == (table + norm,)


def test_folders_that_hold_no_checkpoint(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "a", {"x.weight": ("BF16", [4, 4])})
    with pytest.raises(BadFile, match="no tensors of layers"):
        checkpoint_rank_weights(model(), folder, 1)
    with pytest.raises(BadFile, match="not known"):
        checkpoint_rank_weights(msgspec.structs.replace(LLAMA, layout=None), folder, 1)
    assert has_weights(folder)
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    assert has_weights(folder)
    (folder / "other.safetensors").write_bytes(b"")
    assert not has_weights(folder)
    (folder / "model.safetensors.index.json").write_text("{}")
    assert has_weights(folder)
    assert not has_weights(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    assert not has_weights(tmp_path / "empty")
