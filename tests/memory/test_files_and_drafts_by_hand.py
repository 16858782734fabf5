"""Tensors of files, files of vendors, drafts and adapters: worked out by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from test_caches_by_hand import compressed
from test_graph_sizes_by_hand import DENSE, RULES, model

from advisor.memory.adapters import lora_elements, prediction_params
from advisor.memory.draft_bound import find_method, largest_draft_model
from advisor.memory.gguf_tensors import NoLayout, as_gguf, count_equal_tensors, list_file_tensors, list_tensors
from advisor.memory.gguf_weights import GgufWeights, TensorWeight, place_layers, weights_from_model
from advisor.memory.repacking import RepackingKernel, choose_kernels, most_repacked, sum_repacked
from advisor.models import types as t

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

    def lent(layers: int, experts: int, **moved: int) -> list[Any]:
        where = tuple(-1 if i < layers else 0 for i in range(4))
        names = tuple((name.replace("__", "."), place) for name, place in moved.items())
        return [(x.place, dict(x.lent)) for x in place_layers(weights, where, experts, names)]

    none: dict[str, int] = {}
    whole = {"ffn_up": 10, "ffn_down": 20}
    assert lent(0, 0) == [(0, none)] * 4
    assert lent(1, 0)[:2] == [(-1, whole), (0, none)]
    assert lent(0, 2)[1] == (0, {"ffn_up_exps": 30})
    assert lent(0, 3)[2] == (0, {"ffn_gate_up_exps": 60, "ffn_down_exps.bias": 7})
    assert lent(1, 0, blk__0__ffn_up__weight=0)[0] == (-1, {"ffn_down": 20})
    assert lent(0, 0, blk__0__ffn_down__weight=-1)[0] == (0, {"ffn_down": 20})
    assert lent(2, 0)[1] == (-1, {"ffn_up_exps": 30, "ffn_up": 40, "attn_q": 50})


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
        found = sum_repacked(GgufWeights(weights=tuple(twin), exact=True), (kernel(**more),), True)
        return found.mapped, found.repacked

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
    assert sum_repacked(alone, (kernel(),), False).repacked == 0
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
    elements, as the model's own; three states projected, and a feed-forward part four times the width."""
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
    assert (mixer.n, mixer.n_heads, mixer.n_kv_heads, mixer.head_dim, mixer.gate) == (1, 2, 1, 128, "elementwise")
    projected = 3 * 256**2 + (2 + 1 + 1) * 128 * 256
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
