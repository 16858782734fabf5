"""Weights of a GGUF deployment: every tensor with its type, from the file's own table or from the architecture."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from advisor.files import Stamp, stamp_files
from advisor.memo import MemoRecord, memoize_by_identity
from advisor.memory import gguf_mix, gguf_tensors
from advisor.memory.ggml import both_sizes, device_bytes, tensor_bytes
from advisor.memory.ggml_step import BorrowedWeights
from advisor.memory.gguf_tensors import NoLayout
from advisor.models.types import Model
from advisor.patterns import pattern_when_used
from advisor.record import Record, Value


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

    @property
    def file_bytes(self) -> int:
        """Bytes of all tensors in the file."""
        return sum(w.file_bytes for w in self.weights)

    @property
    def tied(self) -> bool:
        """Whether the output matrix is the token embedding."""
        return _tied(self)


class LayerBytes(Record, frozen=True, kw_only=True):
    """Tensors of one layer as placement sees them: routed experts apart. Bytes in the file and on a device."""

    file: int = 0
    device: int = 0
    expert_file: int = 0
    expert_device: int = 0


@memoize_by_identity
def _tied(weights: GgufWeights) -> bool:
    return not any(x.name == "output.weight" for x in weights.weights)


@memoize_by_identity
def sum_by_layer(weights: GgufWeights) -> tuple[LayerBytes, ...]:
    """The loaded tensors of each layer, summed; next-token blocks count as empty layers."""
    n = 1 + max((x.layer for x in weights.weights if x.layer is not None), default=-1)
    sums = [[0] * 4 for _ in range(n)]
    for tensor_weight in weights.weights:
        if tensor_weight.layer is None or tensor_weight.mtp:
            continue
        into, k = sums[tensor_weight.layer], 2 if tensor_weight.expert else 0
        into[k] += tensor_weight.file_bytes
        into[k + 1] += tensor_weight.device_bytes
    return tuple(LayerBytes(file=a, device=b, expert_file=c, expert_device=d) for a, b, c, d in sums)


class RunningTotals(Value, frozen=True):
    """Sums over the first 0, 1, 2, ... layers; bytes."""

    file: tuple[int, ...]
    device: tuple[int, ...]
    expert_file: tuple[int, ...]
    expert_device: tuple[int, ...]


@memoize_by_identity
def sum_running(weights: GgufWeights) -> RunningTotals:
    """What the first layers hold together: placement cuts the layers into few stretches."""
    layers = sum_by_layer(weights)
    return RunningTotals(
        file=tuple(accumulate((x.file for x in layers), initial=0)),
        device=tuple(accumulate((x.device for x in layers), initial=0)),
        expert_file=tuple(accumulate((x.expert_file for x in layers), initial=0)),
        expert_device=tuple(accumulate((x.expert_device for x in layers), initial=0)),
    )


@memoize_by_identity
def list_borrowed(
    weights: GgufWeights,
    layers: int,
    expert_layers: int,
    there: frozenset[str] = frozenset(),
    elsewhere: frozenset[str] = frozenset(),
) -> tuple[BorrowedWeights, ...]:
    """Feed-forward matrices in host memory, by layer: those of the first `layers` layers, routed experts of the first
    `expert_layers`, and the tensors named in `there`; none of those named in `elsewhere`."""
    found = [BorrowedWeights(whole=i < layers) for i in range(len(sum_by_layer(weights)))]
    last = -1
    for x in _list_feed_forward(weights):
        usual = x.layer < (expert_layers if x.expert else layers)
        if x.name in there or (usual and x.name not in elsewhere):
            sizes: dict[str, Any] = {x.part: x.size}
            found[x.layer] = replace(found[x.layer], **sizes)
            last = max(last, x.layer)
    return tuple(found[: max(last + 1, layers, expert_layers)])


class _Matrix(Record, frozen=True, kw_only=True):
    layer: int
    expert: bool
    name: str
    part: str  # of BorrowedWeights
    size: int  # bytes on a device


@memoize_by_identity
def _list_feed_forward(weights: GgufWeights) -> tuple[_Matrix, ...]:
    """Feed-forward matrices of all layers; routed experts only, where a layer has them."""
    routed, out = {x.layer for x in weights.weights if x.expert}, []
    for x in weights.weights:
        m, layer = _FEED_FORWARD.fullmatch(x.name), x.layer
        if m is not None and layer is not None and not x.mtp and x.expert == (layer in routed):
            part = ("up" if m[1] == "gate_up" else m[1]) + ("_bias" if m[2] == "bias" else "")
            out.append(_Matrix(layer=layer, expert=x.expert, name=x.name, part=part, size=x.device_bytes))
    return tuple(out)


_FEED_FORWARD = pattern_when_used(r"blk\.\d+\.ffn_(gate|up|gate_up|down)(?:_exps)?\.(weight|bias)")


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
    nextn = file.metadata.get(f"{file.metadata.get('general.architecture')}.nextn_predict_layers") or 0
    layers = [_layer(x.name) for x in file.tensors]
    last = max((n for n in layers if n is not None), default=-1)
    first_mtp = last + 1 - int(nextn) if isinstance(nextn, int) else last + 1
    weights = tuple(
        TensorWeight(
            name=x.name,
            kind=x.type,
            ne=x.shape,
            layer=n,
            file_bytes=tensor_bytes(x.type, x.shape),
            device_bytes=device_bytes(x.type, x.shape),
            expert="_exps." in x.name,
            mtp=n is not None and n >= first_mtp,
        )
        for x, n in zip(file.tensors, layers, strict=True)
    )
    return GgufWeights(weights=weights, exact=True)


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
    return GgufWeights(
        weights=tuple(_grown(w, growth) for w in plain.weights), exact=False, spread=PUBLISHED_SPREAD, note=note
    )


def _plain_weights(model: Model, mix: str) -> GgufWeights:
    """Weights that llama-quantize would write for `mix`, of a vendor's mix for the plain one that is nearest."""
    known = UD_BASE.get(mix, mix.removeprefix("UD-"))
    all_tensors = gguf_tensors.list_file_tensors(model)
    kinds = gguf_mix.choose_types(model, known)
    each = [both_sizes(kind, x.ne) for x, kind in zip(all_tensors, kinds, strict=True)]
    weights = tuple(
        TensorWeight(
            name=x.name,
            kind=kind,
            ne=x.ne,
            layer=x.layer,
            file_bytes=sizes[0],
            device_bytes=sizes[1],
            expert=x.expert,
            mtp=x.mtp,
        )
        for x, kind, sizes in zip(all_tensors, kinds, each, strict=True)
    )
    if not mix.startswith("UD-"):
        return GgufWeights(weights=weights, exact=True)
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


def _grown(weight: TensorWeight, growth: float) -> TensorWeight:
    return replace(
        weight, file_bytes=round(weight.file_bytes * growth), device_bytes=round(weight.device_bytes * growth)
    )


PUBLISHED_SPREAD = 0.02  # publishers replace their files, and projectors are taken as 16 bit; assumed
# Vendors' dynamic mixes: the listed mix is the nearest published size (models.md: UD-Q4_K_XL 4.63 to 6.46 bits)
UD_SPREAD = 0.1
UD_BASE = {
    "UD-Q8_K_XL": "Q8_0", "UD-Q6_K_XL": "Q6_K", "UD-Q5_K_XL": "Q5_K_M", "UD-Q4_K_XL": "Q4_K_M", "UD-Q3_K_XL": "Q3_K_M",
    "UD-Q2_K_XL": "Q2_K", "UD-IQ4_XS": "IQ4_XS", "UD-IQ3_XXS": "IQ3_XXS", "UD-IQ3_S": "IQ3_S", "UD-IQ2_M": "IQ2_M",
    "UD-IQ2_XXS": "IQ2_XXS", "UD-IQ1_M": "IQ1_M", "UD-IQ1_S": "IQ1_S",
}  # fmt: skip

__all__ = [
    "GgufWeights",
    "NoLayout",
    "TensorWeight",
    "weights_from_file",
    "weights_from_model",
]
