"""Weights that llama.cpp rearranges for a processor's own kernels: a second copy in memory of its own.

The file stays mapped; the rearranged matrices lie next to it, so that their pages of the file are read once and can be
taken back. Which types are rearranged follows from the instruction sets; `memory.repacking` of llama.cpp's entry has
them, in the order in which the engine tries them. Source: ggml/src/ggml-cpu (amx/amx.cpp, repack.cpp), and the planner
of llama.cpp v0.5.0 run with one processor variant at a time.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from advisor.memo import memoize_by_identity
from advisor.memory.gguf_weights import GgufWeights, TensorWeight, tensors_outside_layers
from advisor.patterns import pattern_when_used
from advisor.record import Record, Value


class RepackingKernel(Record, frozen=True, kw_only=True, eq=False):
    """A buffer of rearranged weights: for which types of which tensors, on processors with which flags."""

    buffer: str  # as the engine calls it
    flags: tuple[str, ...]  # of the processor, all of them
    types: Mapping[str, tuple[int, int]]  # GGML type -> bytes of a block in the file and rearranged
    experts: bool  # routed experts too
    rows: int  # number of rows is a multiple of it
    source: str


class RepackedBytes(Value, frozen=True):
    """Bytes of weights in host memory: read from the mapped file, and rearranged next to it."""

    mapped: int
    repacked: int


# tables of which rows are looked up, and what is read element by element
_PRODUCT = pattern_when_used(r"(?!.*(?:token_embd|position_embd|token_types|ssm_conv1d|shortconv\.conv)\.).*\.weight")
OUTPUT_TWIN = "token_embd.weight"  # serves as output matrix too, where there is none


def choose_kernels(kernels: Sequence[RepackingKernel], flags: Sequence[str] | None) -> tuple[RepackingKernel, ...]:
    """The kernels of a processor, in order; none where its flags are not known."""
    return tuple(k for k in kernels if flags is not None and set(k.flags) <= set(flags))


@lru_cache(maxsize=16384)
def _is_product(name: str) -> bool:
    return _PRODUCT.fullmatch(name) is not None


@memoize_by_identity
def sum_repacked(weights: GgufWeights, kernels: tuple[RepackingKernel, ...], gives_logits: bool) -> RepackedBytes:
    """All loaded weights in host memory, of a model that runs on the processor alone."""
    mapped = repacked = 0
    taken = {kind for kernel in kernels for kind in kernel.types}
    for tensor_weight in weights.weights:
        if tensor_weight.mtp:
            continue
        matrix = tensor_weight.kind in taken and len(tensor_weight.ne) > 1 and _is_product(tensor_weight.name)
        size = _repacked_bytes(tensor_weight, kernels) if matrix else None
        if size is None:
            mapped += tensor_weight.file_bytes
        else:
            repacked += size
    if weights.tied and gives_logits:
        for twin in tensors_outside_layers(weights):
            if twin.name == OUTPUT_TWIN:
                repacked += _repacked_bytes(twin, kernels) or 0
    return RepackedBytes(mapped, repacked)


def most_repacked(weights: GgufWeights, kernels: Sequence[RepackingKernel], gives_logits: bool) -> int:
    """The most that rearranging adds on any processor, bytes: for one whose flags are not known."""
    sums = (sum_repacked(weights, (k,), gives_logits) for k in kernels)
    return max((x.mapped + x.repacked - _loaded_bytes(weights) for x in sums), default=0)


@memoize_by_identity
def _loaded_bytes(weights: GgufWeights) -> int:
    return sum(x.file_bytes for x in weights.weights if not x.mtp)


def _repacked_bytes(tensor_weight: TensorWeight, kernels: tuple[RepackingKernel, ...]) -> int | None:
    """Bytes of a matrix as the first kernel that takes it rearranges it; None where none does."""
    ne = tensor_weight.ne
    if len(ne) < 2:
        return None
    for kernel in kernels:
        block = kernel.types.get(tensor_weight.kind)
        if block is None or ne[1] % kernel.rows or (len(ne) > 2) != (tensor_weight.expert and kernel.experts):
            continue
        return tensor_weight.file_bytes // block[0] * block[1]
    return None
