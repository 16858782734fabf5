"""Weights of a checkpoint on disk on the ranks of a tensor/pipeline-parallel engine: from its safetensors headers.

What the files store is what is loaded: no guess which tensors a quantization left alone. The sharding rules are those
of hf_weights, by the names that Hugging Face checkpoints use.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from advisor.errors import BadFile
from advisor.files import Stamp, stamp_files
from advisor.memo import memoize_by_identity
from advisor.memory.hf_weights import RankWeights, list_stages, widest_kv_heads
from advisor.models.hf_config import in_tower
from advisor.models.safetensors import INDEX_NAME, read_safetensors
from advisor.models.tensors import TensorInfo
from advisor.models.types import Model
from advisor.patterns import pattern_when_used

_LAYER = pattern_when_used(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
_EXPERT = pattern_when_used(r"\.experts\.")
_KV = pattern_when_used(r"\.(k_proj|v_proj)\.")
_REPLICATED = pattern_when_used(
    r"(norm|\.gate\.weight$|\.gate\.e_score|router|q_a_proj|kv_a_proj|k_scale|v_scale|sinks|shared_expert_gate)"
)
_EMBEDDING = pattern_when_used(r"(embed_tokens|wte|word_embeddings|tok_embeddings)\.")
_HEAD = pattern_when_used(r"(^|\.)lm_head\.")
_MTP = pattern_when_used(r"(^|\.)mtp\.")
_SCALE = pattern_when_used(r"(scale|zero|_scales|bias)")


def has_weights(directory: Path) -> bool:
    """Whether a model folder holds safetensors files that belong together."""
    if (directory / INDEX_NAME).is_file() or (directory / "model.safetensors").is_file():
        return True
    try:
        return sum(p.name.endswith(".safetensors") for p in directory.iterdir()) == 1
    except OSError:
        return False


def read_tensors(directory: Path) -> tuple[TensorInfo, ...]:
    """Tensors of the folder. Raises BadFile."""
    return _tensors(directory, stamp_files(directory))


@lru_cache(maxsize=16)
def _tensors(directory: Path, seen: Stamp) -> tuple[TensorInfo, ...]:
    return read_safetensors(directory)


@memoize_by_identity
def checkpoint_rank_weights(
    model: Model,
    directory: Path,
    tp: int,
    pp: int = 1,
    ep: int = 1,
    vision: bool = True,
    partition: tuple[int, ...] = (),
) -> RankWeights:
    """Bytes per rank of `tp` x `pp` ranks. Raises BadFile, also for a folder whose layers are not the model's.

    Prediction blocks are left out, as engines load them only for speculation; a stored copy of a tied output matrix
    is left out, as engines reuse the embedding.
    """
    lay = model.layout
    if lay is None:
        raise BadFile(directory, "has an architecture whose layers are not known")
    heads, n = widest_kv_heads(model), lay.n_layers
    stages, experts, outside = [0.0] * pp, [0.0] * pp, [0.0] * pp
    seen = False
    for tensor_info in read_tensors(directory):
        found = _LAYER.search(tensor_info.name)
        tower = in_tower(tensor_info.name)
        layer = int(found[1]) if found and not tower else None
        if _MTP.search(tensor_info.name) or (layer is not None and layer >= n) or (tower and not vision):
            continue
        if lay.tie_embeddings and _HEAD.search(tensor_info.name):
            continue
        size = float(_loaded(tensor_info))
        expert = bool(_EXPERT.search(tensor_info.name))
        if expert:
            size /= max(tp, ep)
        elif _KV.search(tensor_info.name) and not tower:
            size /= min(tp, heads)
        elif not _REPLICATED.search(tensor_info.name):
            size /= tp
        seen = seen or layer is not None
        embeds = _EMBEDDING.search(tensor_info.name) is not None
        for stage in (0,) if tower and not embeds else list_stages(layer, embeds, lay, pp, partition):
            stages[stage] += size
            experts[stage] += size if expert else 0
            outside[stage] += size if layer is None else 0
    if not seen:
        raise BadFile(directory, "holds no tensors of layers under the usual names")
    return RankWeights(
        stages=tuple(map(round, stages)), experts=tuple(map(round, experts)), outside=tuple(map(round, outside)),
        modelled=False,
    )  # fmt: skip


def _loaded(tensor_info: TensorInfo) -> int:
    """Bytes once loaded: 32-bit weights become 16 bit, scales stay as they are."""
    return (
        tensor_info.bytes // 2
        if tensor_info.type == "F32" and len(tensor_info.shape) > 1 and not _SCALE.search(tensor_info.name)
        else tensor_info.bytes
    )
