"""A Model from a GGUF file: shapes from the tensor table, windows and counts from the metadata.

Which layers are windowed is fixed in llama.cpp per architecture (rules/gguf.yaml), unless the file says it itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import structs

from advisor.errors import AdvisorError, BadFile
from advisor.models import types as t
from advisor.models.gguf import GgufFile
from advisor.models.gguf_layers import Block, GgufMetadata, read_feed_forward, read_mixer
from advisor.models.layers import as_kind, group_layers
from advisor.models.tensors import FILE_TYPES, TensorInfo

MAX_LAYERS = 4096
POOLING_RANK = 4
ROUTERS: dict[int, Literal["softmax", "sigmoid", "after"]] = {1: "softmax", 2: "sigmoid", 3: "after"}
_NOT_WEIGHTS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
AFTER_ATTENTION = ("post_attention_norm.weight", "attn_output_norm.weight", "attn_post_norm.weight")
AFTER_FFN = ("post_ffw_norm.weight", "layer_output_norm.weight", "ffn_post_norm.weight")


def model_from_gguf(file: GgufFile, path: Path | str | None, architectures: t.GgufArchitectures) -> t.Model:
    """The Model that a GGUF file holds. `path` names it (None: the file that was read).

    `params_total` counts the tensor table without rope factors and the MTP block. Raises BadFile (not a language model,
    or keys and tensors are missing or disagree) and AdvisorError `unknown_architecture`.
    """
    from advisor.models.parameters import active_params, text_params

    name = str(path or file.parts[0])
    arch = _architecture(file, name)
    metadata = GgufMetadata(file, arch)
    blocks = _blocks(metadata, file)
    hidden = metadata.need("embedding_length")
    n = len(blocks)
    architecture = architectures.architectures.get(arch)
    notes = [] if architecture else [f"architecture {arch[:60]!r} is not known; read by its tensors"]
    attention = _windows(metadata, [read_mixer(metadata, b, i) for i, b in enumerate(blocks)], architecture, notes)
    ffn: list[t.FfnGroup] = [read_feed_forward(metadata, b, hidden) for b in blocks]
    if all(isinstance(m, t.NoMixer) for m in attention):
        raise AdvisorError("unknown_architecture", f"{name}: no layer of architecture {arch[:60]!r} can be read")
    if (metadata.maybe("num_loops") or 1) > 1:  # each round has caches of its own
        raise AdvisorError("unknown_architecture", f"{name}: layers that run several times (`num_loops`) are not known")
    attention_groups, attention_order = group_layers(attention)
    ffn_groups, ffn_order = group_layers(ffn)
    names = {t.name: t for t in file.tensors}
    layout = t.Layout(
        n_layers=n,
        hidden_size=hidden,
        vocab_size=_vocabulary(metadata, file),
        tie_embeddings="output.weight" not in names,
        attention=attention_groups,
        ffn=ffn_groups,
        attention_order=attention_order,
        ffn_order=ffn_order,
        per_layer=_per_layer(metadata, names),
    )
    mtp = _mtp(file, n)
    total = sum(t.elements for t in file.tensors if t.name not in _NOT_WEIGHTS and _block_number(t.name) < n)
    if file.truncated:
        notes.append(f"the file is incomplete: {file.bytes_missing} bytes are missing")
    quant = gguf_quantization(file)
    model = t.Model(
        id=name,
        family=_text(file, "general.basename") or arch,
        kind=_kind(metadata, attention, architecture),
        architecture=arch,
        model_type=arch,
        params_total=total,
        params_text=total,
        params_stored=sum(t.elements for t in file.tensors),
        max_context=metadata.maybe("context_length", most=2**40),
        dtype="float16",
        native_quant=quant,
        layout=layout,
        mtp=mtp,
        weights=_weights(blocks, hidden),
        license=_text(file, "general.license"),
        published={f"gguf:{quant}": t.PublishedSize(source=name, bytes=file.file_bytes, file=Path(file.parts[0]).name)},
        verified=architecture is not None,
        gguf_name=arch,
        gguf_architecture=read_architecture(metadata, blocks, architecture),
        notes="; ".join(notes) or None,
        source=(f"GGUF header of {name}",),
    )
    rest = total - text_params(model)
    if rest:  # tensors that the groups do not describe (per-layer embeddings, scales, position tables, ...)
        table = names.get("per_layer_token_embd.weight")
        extras = [t.ExtraWeights(params=table.elements, what="per-layer embeddings", not_active=True)] if table else []
        rest -= table.elements if table else 0
        extras += [t.ExtraWeights(params=rest, what="further tensors")] if rest else []
        model = msgspec.structs.replace(model, weights=msgspec.structs.replace(model.weights, extras=tuple(extras)))
    return msgspec.structs.replace(model, params_active=active_params(model))


def gguf_quantization(file: GgufFile) -> str:
    """Name of the quantization: `general.file_type` where it is there and known, else the type most bytes are in."""
    number = file.metadata.get("general.file_type")
    if isinstance(number, int) and number in FILE_TYPES:
        return FILE_TYPES[number]
    by_type: dict[str, int] = {}
    for tensor in file.tensors:
        by_type[tensor.type] = by_type.get(tensor.type, 0) + tensor.bytes
    return max(by_type, key=lambda k: by_type[k], default="F16")


def _text(file: GgufFile, key: str) -> str | None:
    value = file.metadata.get(key)
    return value if isinstance(value, str) else None


def _architecture(file: GgufFile, name: str) -> str:
    arch = _text(file, "general.architecture")
    if not arch:
        raise BadFile(name, "`general.architecture` is missing")
    if len(arch) > 64:
        raise BadFile(name, f"`general.architecture` is {len(arch)} characters long, which no architecture name is")
    if not arch.isprintable():
        raise BadFile(name, f"`general.architecture` is {arch!r}, which no architecture name is")
    kind = _text(file, "general.type") or "model"
    if kind != "model" or arch == "clip":
        what = "vision projector" if arch == "clip" or kind == "mmproj" else repr(kind[:40])
        raise BadFile(name, f"is a {what}, not a language model; give the file of the model itself")
    if not file.tensors:
        raise BadFile(name, "has no tensors (a vocabulary-only file)")
    return arch


def _block_number(name: str) -> int:
    """Layer of a tensor; -1 for those outside the layers."""
    parts = name.split(".", 2)
    return int(parts[1]) if parts[0] == "blk" and len(parts) == 3 and parts[1].isdecimal() and len(parts[1]) < 6 else -1


def _blocks(metadata: GgufMetadata, file: GgufFile) -> list[Block]:
    """Tensor shapes of every layer; trailing MTP blocks are left out."""
    n = metadata.need("block_count", most=MAX_LAYERS)
    blocks: list[dict[str, tuple[int, ...]]] = [{} for _ in range(n)]
    for tensor in file.tensors:
        i = _block_number(tensor.name)
        if i >= n:
            raise BadFile(
                metadata.path,
                f"tensor {tensor.name[:80]!r} is beyond the {n} layers of `{metadata.arch}.block_count`",
            )
        if i >= 0:
            blocks[i][tensor.name.split(".", 2)[2]] = tensor.shape
    predicted = metadata.maybe("nextn_predict_layers") or 0  # llama.cpp loads a file without them as well
    while blocks and (any(name.startswith("nextn.") for name in blocks[-1]) or (predicted > 0 and not blocks[-1])):
        blocks.pop()
        predicted -= 1
    empty = [i for i, b in enumerate(blocks) if not b]
    if empty or not blocks:
        raise BadFile(
            metadata.path,
            f"layer {empty[0] if empty else 0} has no tensors" + (" (a part is missing?)" if empty else ""),
        )
    return list(blocks)


def _mtp(file: GgufFile, n: int) -> t.Mtp | None:
    extra = [t for t in file.tensors if _block_number(t.name) >= n]
    layers = len({_block_number(t.name) for t in extra})
    return t.Mtp(layers=layers, per_layer=sum(t.elements for t in extra) // layers) if layers else None


def _vocabulary(metadata: GgufMetadata, file: GgufFile) -> int:
    for tensor in file.tensors:
        if tensor.name == "token_embd.weight" and len(tensor.shape) == 2:
            return tensor.shape[1]
    size = metadata.maybe("vocab_size") or file.lengths.get("tokenizer.ggml.tokens")
    if not size:
        raise BadFile(metadata.path, "has neither a `token_embd.weight` tensor nor a token list")
    return size


def _per_layer(metadata: GgufMetadata, names: Mapping[str, TensorInfo]) -> t.PerLayerEmbedding | None:
    """The second token embedding, and what comes with it."""
    table, width = names.get("per_layer_token_embd.weight"), metadata.maybe("embedding_length_per_layer_input")
    if table is None or not width or len(table.shape) < 2:
        return None
    laurel = names.get("blk.0.laurel_l.weight")
    return t.PerLayerEmbedding(
        width=width,
        rows=table.shape[1],
        streams=metadata.maybe("altup.num_inputs") or 1,
        laurel_rank=laurel.shape[1] if laurel is not None and len(laurel.shape) > 1 else 0,
    )


def _windowed_layers(metadata: GgufMetadata, rule: t.WindowRule | None, n: int) -> list[bool]:
    """Which layers have a window, as llama.cpp takes it: the file's own pattern, else the architecture's."""
    stored = metadata.file.metadata.get(f"{metadata.arch}.attention.sliding_window_pattern")
    if isinstance(stored, tuple) and len(stored) >= n:
        return [bool(x) for x in stored[:n]]
    period = stored if isinstance(stored, int) and stored > 0 else rule.every if rule is not None else None
    if not period:
        return [period == 0] * n
    first = rule is not None and rule.first
    return [bool(i % period) if first else i % period < period - 1 for i in range(n)]


def _window_size(metadata: GgufMetadata, rule: t.WindowRule | None) -> int | None:
    """Tokens that windowed layers look back; None where none does."""
    given = metadata.maybe("attention.sliding_window")
    if rule is None:  # an architecture that is not known: the file says all there is
        return given
    if (rule.needs_size and not given) or rule.layers not in (None, metadata.maybe("block_count")):
        return None
    return None if given == 0 else rule.fixed_size or given or rule.size


def _windows(
    metadata: GgufMetadata, mixers: list[t.AttentionGroup], architecture: t.GgufArchitecture | None, notes: list[str]
) -> list[t.AttentionGroup]:
    """Windows, bidirectional attention and shared caches on top of the shapes."""
    n = len(mixers)
    rule = architecture.windows if architecture is not None else None
    used = rule is not None or architecture is None
    window = _window_size(metadata, rule) if used else None
    windowed = _windowed_layers(metadata, rule, n) if window else [False] * n
    ignored = metadata.maybe("attention.sliding_window")
    if ignored and not used:
        notes.append(f"the sliding window of {ignored} tokens is not used by llama.cpp for {metadata.arch}")
    causal = metadata.file.metadata.get(f"{metadata.arch}.attention.causal")
    encoder = causal is False if architecture is None else not architecture.keeps_cache
    shared = metadata.maybe("attention.shared_kv_layers")
    if shared is None and architecture is not None and architecture.own_caches is not None:
        shared = max(0, n - architecture.own_caches)
    out: list[t.AttentionGroup] = []
    for i, full in enumerate(mixers):
        if isinstance(full, t.Full):
            if shared and i >= n - shared:
                full = msgspec.structs.replace(full, kv_shared=True)
            if windowed[i] or encoder:
                chunked = rule is not None and rule.kind == "chunked"
                kind = t.Encoder if encoder else t.Chunked if chunked else t.Sliding
                full = as_kind(full, kind, window if windowed[i] else None)
        out.append(full)
    return out


def _kind(
    metadata: GgufMetadata, attention: list[t.AttentionGroup], architecture: t.GgufArchitecture | None
) -> t.ModelKind:
    pooling = metadata.maybe("pooling_type")
    if pooling == POOLING_RANK:
        return "reranker"
    return (
        "embedding"
        if pooling
        or (all(isinstance(m, t.Encoder) for m in attention) and (architecture is None or architecture.encoder))
        else "chat"
    )


def _weights(blocks: list[Block], hidden: int) -> t.Weights:
    """Norms of the first layer; what differs elsewhere ends up in the extras."""
    first = blocks[0]
    norms = [
        name
        for name, shape in first.items()
        if name.endswith("norm.weight") and shape == (hidden,) and not name.startswith(("attn_q_", "attn_k_", "ssm_"))
    ]
    return t.Weights(
        norms_per_layer=len(norms), norm_bias="attn_norm.bias" in first or "attn_output_norm.bias" in first
    )


def read_architecture(
    metadata: GgufMetadata, blocks: Sequence[Block], known: t.GgufArchitecture | None
) -> t.GgufArchitecture:
    """The architecture with the traits that the file's own tensors show."""
    attending = next((b for b in blocks if "attn_output.weight" in b), blocks[0])
    dense = next((b for b in blocks if "ffn_down.weight" in b), blocks[0])
    base = known or t.GgufArchitecture()
    positions = any(x.name == "position_embd.weight" for x in metadata.file.tensors)
    tensors = structs.replace(
        base.tensors,
        fused_qkv="attn_qkv.weight" in attending,
        fused_gate_up=_is_joined(dense) if "ffn_down.weight" in dense else base.tensors.fused_gate_up,
        gate_matrix="attn_gate.weight" in attending and "ssm_conv1d.weight" not in attending,
        experts_beside_dense="pre_ffw_norm_2.weight" in attending,
    )
    if known is not None:
        graph = _read_shape(metadata, attending, _read_router(metadata, base.graph))
        deep = metadata.maybe("n_deepstack_layers") or 0 if base.graph.deepstack else 0
        graph = structs.replace(graph, deepstack=deep, looks_up_positions=positions)
        return structs.replace(base, tensors=tensors, graph=graph)
    graph, names = _read_graph(metadata, attending, blocks, positions), _read_norms(tensors, attending)
    return structs.replace(base, listed=False, windows=t.WindowRule(stored=True), tensors=names, graph=graph)


def _read_router(metadata: GgufMetadata, graph: t.GraphTraits) -> t.GraphTraits:
    """How experts are weighted, of an architecture that reads it from keys."""
    read = {n: metadata.file.metadata.get(f"{metadata.arch}.expert_{n}") for n in ("weights_norm", "weights_scale")}
    if "norm" in graph.routes_by_file:
        graph = structs.replace(graph, routes_normed=bool(read["weights_norm"]))
    if "scale" in graph.routes_by_file:
        graph = structs.replace(graph, routes_scaled=read["weights_scale"] not in (None, 0, 1))
    if "gate" in graph.routes_by_file and metadata.maybe("expert_gating_func"):
        gate = ROUTERS.get(metadata.maybe("expert_gating_func") or 0)
        graph = structs.replace(graph, router=gate)
    return graph


def _read_shape(metadata: GgufMetadata, block: Block, graph: t.GraphTraits) -> t.GraphTraits:
    """What else of the graph keys and tensors say."""
    keys, arch = metadata.file.metadata, metadata.arch
    if graph.parallel_by_file and keys.get(f"{arch}.use_parallel_residual"):
        graph = structs.replace(graph, block="parallel")
    if graph.block == "parallel":
        graph = structs.replace(graph, second_norm=_has(block, ("ffn_norm.weight", "attn_norm_2.weight")))
    if graph.hyper_streams:
        graph = structs.replace(
            graph,
            hyper_streams=metadata.need("hyper_connection.count"),
            hyper_rank=metadata.need("hyper_connection.low_rank"),
        )
    if keys.get(f"{arch}.embedding_scale"):
        graph = structs.replace(graph, embedding_scaled=True)
    sections = keys.get(f"{arch}.rope.dimension_sections")
    if graph.positions_by_file and isinstance(sections, tuple) and len(sections) > 1 and all(sections[:2]):
        graph = structs.replace(graph, positions=4)
    return graph


def _is_joined(block: Block) -> bool:
    """Whether gate and up are one matrix."""
    return block.get("ffn_up.weight", (0, 0))[-1] == 2 * block["ffn_down.weight"][0]


def _has(block: Mapping[str, object], names: Sequence[str]) -> bool:
    return any(n in block for n in names)


def _read_graph(metadata: GgufMetadata, block: Block, blocks: Sequence[Block], positions: bool) -> t.GraphTraits:
    before, second = "attn_norm.weight" in block, "ffn_norm.weight" in block
    after = _has(block, AFTER_ATTENTION)
    mean = f"{metadata.arch}.attention.layer_norm_epsilon" in metadata.file.metadata
    capped = f"{metadata.arch}.attn_logit_softcapping" in metadata.file.metadata
    graph = t.GraphTraits(layer_norm=mean, scores_capped=capped, looks_up_positions=positions)
    if not before:
        return structs.replace(graph, block="post" if after else "pre")
    if after and second:
        return structs.replace(graph, block="sandwich")
    feeds = any("ffn_down.weight" in b or "ffn_down_exps.weight" in b for b in blocks)
    return structs.replace(graph, block="parallel") if not second and not after and feeds else graph


def _read_norms(tensors: t.TensorTraits, block: Block) -> t.TensorTraits:
    """Names of the norms around both parts of a layer."""
    names = [n.removesuffix(".weight") for n in block if n.endswith("norm.weight")]
    of_mixer = tuple(n for n in names if n == "attn_norm" or f"{n}.weight" in AFTER_ATTENTION)
    of_ffn = tuple(n for n in names if n == "ffn_norm" or f"{n}.weight" in AFTER_FFN)
    return structs.replace(tensors, mixer_norms=of_mixer, ffn_norms=of_ffn)
