"""How a GGUF file's own tensors say its layers are put together.

What the file holds wins over what rules/gguf.yaml says of its architecture. One that is not there is read by its
tensors alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from advisor.models.gguf_architecture import GgufArchitecture, GraphTraits, TensorTraits, WindowRule
from advisor.models.gguf_layers import Block, GgufMetadata

AFTER_ATTENTION = ("post_attention_norm.weight", "attn_output_norm.weight", "attn_post_norm.weight")
AFTER_FFN = ("post_ffw_norm.weight", "layer_output_norm.weight", "ffn_post_norm.weight")


def read_architecture(
    metadata: GgufMetadata, blocks: Sequence[Block], known: GgufArchitecture | None
) -> GgufArchitecture:
    """The architecture with the traits that the file's own tensors show."""
    attending = next((b for b in blocks if "attn_output.weight" in b), blocks[0])
    dense = next((b for b in blocks if "ffn_down.weight" in b), blocks[0])
    base = known or GgufArchitecture()
    tensors = structs.replace(
        base.tensors,
        fused_qkv="attn_qkv.weight" in attending,
        fused_gate_up=_is_joined(dense) if "ffn_down.weight" in dense else base.tensors.fused_gate_up,
        gate_matrix="attn_gate.weight" in attending and "ssm_conv1d.weight" not in attending,
        experts_beside_dense="pre_ffw_norm_2.weight" in attending,
    )
    if known is not None:
        return structs.replace(base, tensors=tensors)
    graph, names = _read_graph(metadata, attending, blocks), _read_norms(tensors, attending)
    return structs.replace(base, listed=False, windows=WindowRule(stored=True), tensors=names, graph=graph)


def _is_joined(block: Block) -> bool:
    """Whether gate and up are one matrix."""
    return block.get("ffn_up.weight", (0, 0))[-1] == 2 * block["ffn_down.weight"][0]


def _has(block: Mapping[str, object], names: Sequence[str]) -> bool:
    return any(n in block for n in names)


def _read_graph(metadata: GgufMetadata, block: Block, blocks: Sequence[Block]) -> GraphTraits:
    before, second = "attn_norm.weight" in block, "ffn_norm.weight" in block
    after = _has(block, AFTER_ATTENTION)
    mean = f"{metadata.arch}.attention.layer_norm_epsilon" in metadata.file.metadata
    capped = f"{metadata.arch}.attn_logit_softcapping" in metadata.file.metadata
    graph = GraphTraits(layer_norm=mean, scores_capped=capped)
    if metadata.file.metadata.get(f"{metadata.arch}.use_parallel_residual") is True:
        return structs.replace(graph, block="parallel")
    if not before:
        return structs.replace(graph, block="post" if after else "pre")
    if after and second:
        return structs.replace(graph, block="sandwich")
    feeds = any("ffn_down.weight" in b or "ffn_down_exps.weight" in b for b in blocks)
    return structs.replace(graph, block="parallel") if not second and not after and feeds else graph


def _read_norms(tensors: TensorTraits, block: Block) -> TensorTraits:
    """Names of the norms around both parts of a layer."""
    names = [n.removesuffix(".weight") for n in block if n.endswith("norm.weight")]
    of_mixer = tuple(n for n in names if n == "attn_norm" or f"{n}.weight" in AFTER_ATTENTION)
    of_ffn = tuple(n for n in names if n == "ffn_norm" or f"{n}.weight" in AFTER_FFN)
    return structs.replace(tensors, mixer_norms=of_mixer, ffn_norms=of_ffn)
