"""Where llama-server's weights lie: on which device, or in host memory; bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from advisor.engines.llama_cpp_overrides import find_moved
from advisor.engines.llama_cpp_settings import LlamaSettings
from advisor.memory import gguf_weights
from advisor.memory.ggml_compute import Borrowed
from advisor.memory.placement import HOST, find_stretches

# Tables of which rows are looked up: they stay in host memory
LOOKED_UP = ("token_embd.weight", "per_layer_token_embd.weight", "position_embd.weight", "token_types.weight")
FIRST_LAYER = (
    "token_embd_norm.weight",
    "token_embd_norm.bias",
    "per_layer_model_proj.weight",
    "per_layer_proj_norm.weight",
)


def place_weights(
    weights: gguf_weights.GgufWeights,
    where: tuple[int, ...],
    settings: LlamaSettings,
    any_device: bool,
    gives_logits: bool,
) -> dict[int, int]:
    """Bytes per place. `where`: place of each layer, output last; `gives_logits`: an output matrix is loaded."""
    out: dict[int, int] = defaultdict(int)
    output_at = where[-1]
    outside = gguf_weights.tensors_outside_layers(weights)
    normed = not gives_logits or any(t.name == "output_norm.weight" for t in outside)
    for tensor_weight in outside:
        if tensor_weight.name in LOOKED_UP:
            out[HOST] += tensor_weight.file_bytes
            if tensor_weight.name == "token_embd.weight" and weights.tied and output_at != HOST and gives_logits:
                out[output_at] += tensor_weight.device_bytes  # a second copy serves as output matrix
            continue
        for place in _find_places(tensor_weight.name, where, normed):
            out[place] += tensor_weight.file_bytes if place == HOST else tensor_weight.device_bytes
    sums, n = gguf_weights.sum_running(weights), len(gguf_weights.sum_by_layer(weights))
    staying = min(n, settings.cpu_moe_layers or 0)  # first layers, whose routed experts stay on the host
    for place, begin, end in find_stretches(where[:n]):
        whole = sums.file if place == HOST else sums.device
        out[place] += whole[end] - whole[begin]
        split = min(max(begin, staying), end)
        out[HOST] += sums.expert_file[split] - sums.expert_file[begin]
        experts = sums.expert_file if place == HOST else sums.expert_device
        out[place] += experts[end] - experts[split]
    for moved in find_moved(weights, settings.overrides) if settings.overrides else ():
        tensor, place = moved.tensor, moved.place
        for old in _find_own_places(tensor, where, staying, normed):
            out[old] -= tensor.file_bytes if old == HOST else tensor.device_bytes
            out[place] += tensor.file_bytes if place == HOST else tensor.device_bytes
    return dict(out) if any_device else {HOST: out[HOST]}


def _find_own_places(
    tensor: gguf_weights.TensorWeight, where: Sequence[int], staying: int, normed: bool
) -> Iterable[int]:
    """Where a tensor lies that no override moves; nowhere, if it is not loaded."""
    if tensor.layer is None:
        return (HOST,) if tensor.name in LOOKED_UP else _find_places(tensor.name, where, normed)
    if tensor.mtp:
        return ()
    return (HOST if tensor.expert and tensor.layer < staying else where[tensor.layer],)


def _find_places(name: str, where: Sequence[int], normed: bool) -> Iterable[int]:
    """Where a tensor outside the layers lies; source: llama.cpp src/llama-arch.cpp, LLM_TENSOR_INFOS.

    `normed`: the norm of the embeddings is not the norm of the output under another name, as it is for LFM2.
    """
    if name == "rope_freqs.weight":
        return set(where[:-1])
    return (where[0] if normed and name in FIRST_LAYER else where[-1],)


def list_borrowed(weights: gguf_weights.GgufWeights, where: Sequence[int], settings: LlamaSettings) -> Borrowed:
    """What a GPU borrows from host memory for long prompts, by layer."""
    if not keeps_on_host(where, settings):
        return ()
    n = len(gguf_weights.sum_by_layer(weights))
    there = min(n, where.count(HOST))  # the first layers: those on devices are counted from the end
    moved = find_moved(weights, settings.overrides) if settings.overrides else ()
    return gguf_weights.list_borrowed(
        weights,
        there,
        max(there, min(n, settings.cpu_moe_layers or 0)),
        frozenset(x.tensor.name for x in moved if x.place == HOST),
        frozenset(x.tensor.name for x in moved if x.place != HOST),
    )


def keeps_on_host(where: Sequence[int], settings: LlamaSettings) -> bool:
    """Whether a layer, or a part of one, lies in host memory."""
    kept = settings.cpu_moe_layers is not None or any(x.place == HOST for x in settings.overrides)
    return kept or HOST in where
