"""Weights of a GGUF deployment: every tensor with its type, from the file's own table or from the mix that
llama.cpp's quantizer makes of the architecture."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from advisor.files import Stamp, stamp_files
from advisor.memo import MemoRecord, memoize_by_identity
from advisor.memory.ggml import HOST, device_bytes, tensor_bytes
from advisor.memory.ggml.graph import PlacedLayer
from advisor.memory.gguf_tensors import GgufTensor, list_file_tensors
from advisor.models import types as t
from advisor.models.tensors import BLOCKS
from advisor.models.types import Model
from advisor.patterns import pattern_when_used
from advisor.record import Record, Value

# mix -> type of the bulk
BASE = {
    "F32": "F32", "F16": "F16", "BF16": "BF16", "Q8_0": "Q8_0", "Q6_K": "Q6_K",
    "Q5_K_M": "Q5_K", "Q5_K_S": "Q5_K", "Q5_0": "Q5_0", "Q5_1": "Q5_1",
    "Q4_K_M": "Q4_K", "Q4_K_S": "Q4_K", "Q4_0": "Q4_0", "Q4_1": "Q4_1", "IQ4_XS": "IQ4_XS", "IQ4_NL": "IQ4_NL",
    "Q3_K_L": "Q3_K", "Q3_K_M": "Q3_K", "Q3_K_S": "Q3_K", "Q2_K": "Q2_K", "Q2_K_S": "Q2_K",
    "IQ3_M": "IQ3_S", "IQ3_S": "IQ3_S", "IQ3_XS": "IQ3_S", "IQ3_XXS": "IQ3_XXS",
    "IQ2_M": "IQ2_S", "IQ2_S": "IQ2_XS", "IQ2_XS": "IQ2_XS", "IQ2_XXS": "IQ2_XXS", "IQ1_M": "IQ1_M", "IQ1_S": "IQ1_S",
    "TQ1_0": "TQ1_0", "TQ2_0": "TQ2_0", "MXFP4_MOE": "MXFP4",
}  # fmt: skip
# what a row that is not whole blocks of 256 falls back to
FALLBACK = {
    "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0", "Q2_K": "Q4_0", "Q3_K": "Q4_0", "TQ1_0": "Q4_0", "TQ2_0": "Q4_0",
    "IQ4_XS": "IQ4_NL", "IQ3_S": "IQ4_NL", "IQ3_XXS": "IQ4_NL", "IQ2_S": "IQ4_NL", "IQ2_XS": "IQ4_NL",
    "IQ2_XXS": "IQ4_NL", "IQ1_S": "IQ4_NL", "IQ1_M": "IQ4_NL",
}  # fmt: skip
# distributors' names: the mix with the embedding and the output matrix at Q8_0, as their model cards say. Newer files
# of the same names have further tensors wider (MiMo-V2.6-Distill-Qwen-9B Q6_K_L: 8.11 GB, 7.79 GB as Q6_K)
WIDE_ENDS = {"Q6_K_L": "Q6_K", "Q5_K_L": "Q5_K_M", "Q4_K_L": "Q4_K_M", "Q3_K_XL": "Q3_K_L", "Q2_K_L": "Q2_K"}
WIDE_ENDS_SPREAD = 0.04
NARROWED = {"IQ3_XS", "IQ3_XXS"}  # mixes that give some tensors fewer bits than the bulk
SMALL_IQ = {"IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ1_S", "IQ1_M"}
# small projections that no mix touches
_KEEP_16BIT = pattern_when_used(r"altup|laurel|per_layer_model_proj")
_KEEP_F32 = pattern_when_used(
    r"(_norm\.weight|ffn_gate_inp\.weight|ssm_conv1d(_[qkv])?\.weight|indexer\.proj\.weight|shortconv\.conv\.weight|\.bias|rope_freqs)"
)
PUBLISHED_SPREAD = 0.02  # publishers replace their files, and projectors are taken as 16 bit; assumed
# Vendors' dynamic mixes: the listed mix is the nearest published size (models.md: UD-Q4_K_XL 4.63 to 6.46 bits)
UD_SPREAD = 0.1
UD_BASE = {
    "UD-Q8_K_XL": "Q8_0", "UD-Q6_K_XL": "Q6_K", "UD-Q5_K_XL": "Q5_K_M", "UD-Q4_K_XL": "Q4_K_M", "UD-Q3_K_XL": "Q3_K_M",
    "UD-Q2_K_XL": "Q2_K", "UD-IQ4_XS": "IQ4_XS", "UD-IQ3_XXS": "IQ3_XXS", "UD-IQ3_S": "IQ3_S", "UD-IQ2_M": "IQ2_M",
    "UD-IQ2_XXS": "IQ2_XXS", "UD-IQ1_M": "IQ1_M", "UD-IQ1_S": "IQ1_S",
}  # fmt: skip


class TensorWeight(Record, frozen=True, kw_only=True):
    """One tensor with its sizes in bytes: in the file, and in a device buffer."""

    name: str
    kind: str  # GGML type
    ne: tuple[int, ...]  # elements per dimension, row first
    layer: int | None
    file_bytes: int
    device_bytes: int
    expert: bool
    mtp: bool


class GgufWeights(MemoRecord, frozen=True, kw_only=True):
    """All tensors of the model, and how sure their types are."""

    weights: tuple[TensorWeight, ...]
    exact: bool
    spread: float = 0.0  # how far the real file may be from these sizes, as a part of them
    note: str | None = None
    blocks: int = 0  # layers that the file's keys say, whether it holds them or not

    @property
    def file_bytes(self) -> int:
        """Bytes of all tensors in the file."""
        return sum(w.file_bytes for w in self.weights)

    @property
    def tied(self) -> bool:
        """Whether the output matrix is the token embedding."""
        return _tied(self)


@memoize_by_identity
def _tied(weights: GgufWeights) -> bool:
    return not any(x.name == "output.weight" for x in weights.weights)


class RunningTotals(Value, frozen=True):
    """Sums over the first 0, 1, 2, ... layers; bytes."""

    file: tuple[int, ...]
    device: tuple[int, ...]
    expert_file: tuple[int, ...]
    expert_device: tuple[int, ...]

    @property
    def layers(self) -> int:
        """How many there are."""
        return len(self.file) - 1


@memoize_by_identity
def sum_running(weights: GgufWeights) -> RunningTotals:
    """What the first layers hold together, routed experts apart: placement cuts the layers into few stretches.

    Next-token blocks, which are not loaded, count as empty layers.
    """
    n = max(weights.blocks, 1 + max((x.layer for x in weights.weights if x.layer is not None), default=-1))
    parts = [[0] * n for _ in range(4)]
    for tensor in weights.weights:
        if tensor.layer is not None and not tensor.mtp:
            k = 2 if tensor.expert else 0
            parts[k][tensor.layer] += tensor.file_bytes
            parts[k + 1][tensor.layer] += tensor.device_bytes
    return RunningTotals(*(tuple(accumulate(part, initial=0)) for part in parts))


@memoize_by_identity
def _list_parts(weights: GgufWeights) -> list[list[tuple[str, str, int, bool]]]:
    """Of each layer its tensors: (name, name without the layer, bytes on a device, routed experts)."""
    parts: list[list[tuple[str, str, int, bool]]] = [[] for _ in range(sum_running(weights).layers)]
    for x in weights.weights:
        if x.layer is not None and not x.mtp:
            parts[x.layer].append((x.name, x.name.split(".", 2)[2].removesuffix(".weight"), x.device_bytes, x.expert))
    return parts


@memoize_by_identity
def place_layers(
    weights: GgufWeights, where: tuple[int, ...], expert_layers: int, moved: tuple[tuple[str, int], ...] = ()
) -> tuple[PlacedLayer, ...]:
    """Where each layer lies, and the output, with the tensors that lie in host memory: those of layers that do, routed
    experts of the first `expert_layers`, and what is `moved` there by its name."""
    elsewhere, parts = dict(moved), _list_parts(weights)
    touched = {int(name.split(".", 2)[1]) for name in elsewhere if name.startswith("blk.")}
    placed = []
    for i, at in enumerate(where):
        lent, others = [], []
        if i < min(len(where) - 1, len(parts)) and (at == HOST or i < expert_layers or i in touched):
            for name, short, size, expert in parts[i]:
                place = elsewhere.get(name, HOST if expert and i < expert_layers else at)
                if place == HOST:
                    lent.append((short, size))
                elif place != at:
                    others.append((short, place))
        placed.append(PlacedLayer(place=at, lent=tuple(lent), moved=tuple(others)))
    return tuple(placed)


@memoize_by_identity
def tensors_outside_layers(weights: GgufWeights) -> tuple[TensorWeight, ...]:
    """The tensors that belong to no layer: embedding, output matrix, norms, rotary factors."""
    return tuple(x for x in weights.weights if x.layer is None)


def weights_from_file(path: Path) -> GgufWeights:
    """Weights as the file's tensor table lists them. Raises BadFile."""
    from advisor.models.gguf import part_paths

    return _from_file(path, tuple(stamp_files(p) for p in part_paths(path)))


@lru_cache(maxsize=64)
def _from_file(path: Path, seen: tuple[Stamp, ...]) -> GgufWeights:
    from advisor.models.gguf import read_gguf

    file = read_gguf(path)
    layers = [_layer(x.name) for x in file.tensors]
    # of an architecture without prediction blocks the engine loads every layer, whatever a key says
    predicting = {n for x, n in zip(file.tensors, layers, strict=True) if ".nextn." in x.name}
    weights = tuple(
        _weigh(GgufTensor(name=x.name, ne=x.shape, layer=n, mtp=n in predicting), x.type)
        for x, n in zip(file.tensors, layers, strict=True)
    )
    blocks = file.metadata.get(f"{file.metadata.get('general.architecture')}.block_count")
    return GgufWeights(weights=weights, exact=True, blocks=blocks if isinstance(blocks, int) else 0)


def _weigh(tensor: GgufTensor, kind: str) -> TensorWeight:
    return TensorWeight(
        name=tensor.name,
        kind=kind,
        ne=tensor.ne,
        layer=tensor.layer,
        file_bytes=tensor_bytes(kind, tensor.ne),
        device_bytes=device_bytes(kind, tensor.ne),
        expert=tensor.expert,
        mtp=tensor.mtp,
    )


def _layer(name: str) -> int | None:
    parts = name.split(".", 2)
    return int(parts[1]) if parts[0] == "blk" and len(parts) > 1 and parts[1].isdecimal() else None


@memoize_by_identity
def weights_from_model(model: Model, mix: str) -> GgufWeights:
    """Weights that llama-quantize would write for `mix`; of a vendor's mix scaled to a published file, where the size
    of one is known. Raises NoLayout, KeyError for a mix that is not known."""
    plain, stated = _plain_weights(model, mix), _published_bytes(model, mix)
    if plain.exact or stated is None:
        return plain
    growth = stated / plain.file_bytes
    note = f"{mix} is a vendor's own mix; sized by a published file of {stated / 2**30:.1f} GiB"
    weights = tuple(
        replace(w, file_bytes=round(w.file_bytes * growth), device_bytes=round(w.device_bytes * growth))
        for w in plain.weights
    )
    return GgufWeights(weights=weights, exact=False, spread=PUBLISHED_SPREAD, note=note)


def _plain_weights(model: Model, mix: str) -> GgufWeights:
    """Weights that llama-quantize would write for `mix`, of a vendor's mix for the plain one that is nearest."""
    known = UD_BASE.get(mix, mix.removeprefix("UD-"))
    weights = tuple(map(_weigh, list_file_tensors(model), choose_types(model, known)))
    if mix in WIDE_ENDS:
        note = f"{mix} is a distributor's name: {WIDE_ENDS[mix]} with embedding and output matrix at Q8_0"
        return GgufWeights(weights=weights, exact=False, spread=WIDE_ENDS_SPREAD, note=note)
    if not mix.startswith("UD-"):
        exact = not any(isinstance(g, t.Compressed) for g in model.known_layout.attention)  # no file of these was read
        return GgufWeights(weights=weights, exact=exact, spread=0 if exact else PUBLISHED_SPREAD)
    note = f"{mix} is a vendor's own mix; sized as {known}: give the file for exact bytes"
    return GgufWeights(weights=weights, exact=False, spread=UD_SPREAD, note=note)


def _published_bytes(model: Model, mix: str) -> float | None:
    """Bytes of a published file of this mix, without a projector, where a source states them."""
    size = model.published.get(f"gguf:{mix}")
    if size is None:
        return None
    whole = size.bytes or (size.gib * 2**30 if size.gib else size.gb * 1e9 if size.gb else None)
    if whole is None or (size.with_mmproj and model.vision is None):
        return None
    return whole - (2 * model.vision.params if size.with_mmproj and model.vision else 0)


_VALUE = pattern_when_used(r"attn_(v|qkv|kv_b)\.weight")


def more_bits(i: int, n: int) -> bool:
    """llama.cpp's pick of layers that deserve more bits: the first and last eighth and every third between."""
    return i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % 3 == 2


def choose_types(model: t.Model, mix: str) -> list[str]:
    """The GGML type of each of the model's tensors, in order, for a mix (`Q4_K_M`, ...). KeyError for an unknown mix.

    Raises NoLayout for a model whose tensors are not known.
    """
    all_tensors = list_file_tensors(model)
    inputs = _read_mix_inputs(model, WIDE_ENDS.get(mix, mix))
    typed = [
        (-1 if x.layer is None else x.layer, x.name, i)
        for i, x in enumerate(all_tensors)
        if len(x.ne) > 1 and _role(x.part or x.name) != "f32"
    ]
    out = ["F32"] * len(all_tensors)
    seen = {"value": 0, "down": 0}
    for _, _, i in sorted(typed):  # as they are written
        out[i] = _type(inputs, all_tensors[i], seen)
        if mix in WIDE_ENDS and _role(all_tensors[i].name) in ("output", "embedding", "per_layer"):
            out[i] = _whole_blocks("Q8_0", all_tensors[i].ne[0])
    return out


class _MixInputs(Value, frozen=True):
    """What the choice of types depends on."""

    mix: str
    base: str  # type of the bulk
    has_output: bool
    n_layer: int
    n_value: int
    stored_experts: str | None
    n_expert: int
    gqa: int
    is_70b: bool


def _read_mix_inputs(model: t.Model, mix: str) -> _MixInputs:
    lay, architecture, all_tensors = model.known_layout, model.gguf_architecture, list_file_tensors(model)
    gqa, sized = heads_per_kv_head(model), architecture.size_class if architecture is not None else None
    return _MixInputs(
        mix=mix,
        base=BASE[mix],
        has_output=any(x.name == "output.weight" for x in all_tensors),
        n_layer=1 + max((x.layer or 0) for x in all_tensors),
        n_value=sum(_role(x.part or x.name) == "value" for x in all_tensors),
        stored_experts=architecture.tensors.stored_experts if architecture is not None else None,
        n_expert=next((g.n_experts for g in lay.ffn if isinstance(g, t.Moe)), 1),
        gqa=gqa,
        # llama.cpp calls models of 80 layers of these architectures type "70B"; Llama 1's, without groups, "65B"
        is_70b=lay.n_layers == 80 and (sized == "70B" or (sized == "70B-grouped" and gqa > 1)),
    )


_Role = Literal[
    "f32", "output", "kept16", "per_layer", "embedding",
    "value", "key", "query", "down", "attention", "gate_up", "other",
]  # fmt: skip


@lru_cache(maxsize=4096)
def _role(name: str) -> _Role:
    """What the mixes go by of a tensor's name without its layer: `f32` stays F32 in every mix."""
    if not name.endswith(".weight") or _KEEP_F32.search(name):
        return "f32"
    whole: dict[str, _Role] = {
        "output.weight": "output", "token_embd.weight": "embedding", "per_layer_token_embd.weight": "per_layer",
    }  # fmt: skip
    if name in whole:
        return whole[name]
    if _KEEP_16BIT.search(name):
        return "kept16"
    if _VALUE.search(name):
        return "value"
    parts: tuple[tuple[str, _Role], ...] = (
        ("attn_k.weight", "key"), ("attn_q.weight", "query"), ("ffn_down", "down"),
        ("attn_output.weight", "attention"), ("ffn_gate", "gate_up"), ("ffn_up", "gate_up"),
    )  # fmt: skip
    return next((role for part, role in parts if part in name), "other")


def _rank(tensor: GgufTensor) -> int:
    return -1 if tensor.layer is None else tensor.layer


def heads_per_kv_head(model: t.Model) -> int:
    """Query heads per KV head as llama.cpp counts it (MLA models count as one KV head per query head)."""
    counted = (p for p in model.known_layout.mixers if isinstance(p, (t.Full, t.Sliding, t.Chunked, t.Encoder)))
    return next((p.n_heads // p.n_kv_heads for p in counted if p.n_kv_heads), 1)


def _type(inputs: _MixInputs, tensor: GgufTensor, seen: dict[str, int]) -> str:
    if inputs.base in ("F32", "F16", "BF16"):
        kept = inputs.stored_experts if tensor.expert and inputs.base != "F32" else None
        return kept or inputs.base
    return _whole_blocks(_wanted(inputs, tensor, seen), tensor.ne[0])


def _whole_blocks(kind: str, row: int) -> str:
    if row % BLOCKS[kind][0] == 0:
        return kind
    kind = FALLBACK.get(kind, "F16")
    return kind if row % BLOCKS[kind][0] == 0 else "F16"


def _wanted(inputs: _MixInputs, tensor: GgufTensor, seen: dict[str, int]) -> str:
    role, mix = _role(tensor.part or tensor.name), inputs.mix
    if role in ("output", "per_layer") or (role == "embedding" and not inputs.has_output):
        return _output(inputs, tensor)
    if role == "kept16":
        return "F16"
    if mix == "MXFP4_MOE":
        return "MXFP4" if len(tensor.ne) > 2 and tensor.ne[2] > 1 else "Q8_0"
    if role == "embedding":
        return _embedding(inputs)
    if mix in SMALL_IQ:
        return _small_iq(inputs, tensor.name, seen)
    if role == "value":
        i, seen["value"] = seen["value"], seen["value"] + 1
        return _value(inputs, i)
    if role == "key" and inputs.n_expert == 8:
        return "Q8_0"
    if role in ("key", "query"):
        return {"IQ3_XS": "IQ3_XXS", "IQ3_XXS": "IQ2_S"}.get(mix, inputs.base)
    if role == "down":
        i, seen["down"] = seen["down"], seen["down"] + 1
        return _down(inputs, _rank(tensor) if inputs.n_expert > 1 else i)
    if role == "attention":
        return _attention_output(inputs)
    if role == "gate_up" and mix == "IQ3_XS":
        return "IQ3_XXS" if inputs.n_layer // 8 <= _rank(tensor) < 7 * inputs.n_layer // 8 else inputs.base
    return inputs.base


def _output(inputs: _MixInputs, tensor: GgufTensor) -> str:
    if inputs.mix == "MXFP4_MOE" or tensor.ne[0] % BLOCKS[inputs.base][0]:
        return "Q8_0"
    if inputs.mix in SMALL_IQ or inputs.mix == "IQ3_XXS":
        return "Q5_K"
    return "Q8_0" if inputs.base == "Q8_0" else "Q6_K"


def _embedding(inputs: _MixInputs) -> str:
    if inputs.mix in ("IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ1_M"):
        return "Q2_K"
    if inputs.mix in ("IQ2_S", "IQ2_M", "IQ3_XXS"):
        return "IQ3_S"
    return "Q4_K" if inputs.mix in ("TQ1_0", "TQ2_0") else inputs.base


def _small_iq(inputs: _MixInputs, name: str, seen: dict[str, int]) -> str:
    larger = "IQ3_S" if inputs.mix in ("IQ2_S", "IQ2_M") else "Q2_K"
    if "attn_v.weight" in name:
        return "Q4_K" if inputs.gqa >= 4 or inputs.n_expert >= 4 else larger
    if inputs.n_expert == 8 and "attn_k.weight" in name:
        return "Q4_K"
    if "ffn_down" in name:
        i, seen["down"] = seen["down"], seen["down"] + 1
        return larger if i < inputs.n_layer // 8 else inputs.base
    if "attn_output.weight" in name:
        if inputs.n_expert == 8:
            return "Q5_K"
        return {"IQ1_S": "IQ2_XXS", "IQ1_M": "IQ2_XXS", "IQ2_S": "IQ3_S", "IQ2_M": "IQ3_S"}.get(inputs.mix, inputs.base)
    return inputs.base


def _value(inputs: _MixInputs, i: int) -> str:
    mix, kind = inputs.mix, inputs.base
    if mix == "Q2_K":
        kind = "Q4_K" if inputs.gqa >= 4 else "Q3_K"
    elif mix in ("Q2_K_S", "IQ3_XS", "IQ3_S", "IQ3_XXS") and inputs.gqa >= 4:
        kind = "Q4_K"
    elif mix == "IQ3_XXS":
        kind = "IQ3_S"
    elif mix == "IQ3_M":
        kind = "Q4_K"
    elif mix == "Q3_K_M":
        kind = "Q5_K" if i < 2 else "Q4_K"
    elif mix == "Q3_K_L" or (mix in ("IQ4_NL", "IQ4_XS") and inputs.gqa >= 4):
        kind = "Q5_K"
    elif mix in ("Q4_K_M", "Q5_K_M") and more_bits(i, inputs.n_value):
        kind = "Q6_K"
    elif mix == "Q4_K_S" and i < 4:
        kind = "Q5_K"
    if inputs.is_70b and kind in ("Q3_K", "Q4_K"):
        kind = "Q5_K"
    return "Q8_0" if inputs.n_expert == 8 else kind


def _down(inputs: _MixInputs, i: int) -> str:
    mix, n = inputs.mix, inputs.n_layer
    if mix == "Q2_K":
        return "Q3_K"
    if mix == "Q2_K_S":
        return "Q4_K" if i < n // 8 else inputs.base
    if mix == "IQ3_XXS":
        return "Q4_K" if i < n // 8 else "Q3_K"
    if mix == "Q3_K_M":
        return "Q5_K" if i < n // 16 else "Q4_K"
    if mix == "IQ3_M":
        return "Q4_K" if i < n // 8 or (inputs.n_expert == 8 and more_bits(i, n)) else inputs.base
    if mix == "Q3_K_L":
        return "Q5_K"
    if mix in ("Q4_K_M", "Q5_K_M"):
        return "Q6_K" if more_bits(i, n) else inputs.base
    if mix in ("Q4_K_S", "IQ4_NL", "IQ4_XS") and i < n // 8:
        return "Q5_K"
    return inputs.base


def _attention_output(inputs: _MixInputs) -> str:
    if inputs.n_expert == 8:
        q5 = ("Q2_K", "IQ3_XS", "IQ3_XXS", "Q3_K_S", "Q3_K_M", "IQ4_NL", "Q4_K_S", "Q4_K_M", "IQ3_S", "IQ3_M", "IQ4_XS")
        return "Q5_K" if inputs.mix in q5 else inputs.base
    return {"Q2_K": "Q3_K", "IQ3_XXS": "IQ3_S", "Q3_K_M": "Q4_K", "Q3_K_L": "Q5_K", "IQ3_M": "Q4_K"}.get(
        inputs.mix, inputs.base
    )
