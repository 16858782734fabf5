"""The layers of a step as llama.cpp computes them: attention, recurrent states, feed-forward parts.

Source: src/llama-graph.cpp, and the architectures in src/models/, llama.cpp b11434.
"""

from __future__ import annotations

from math import prod

from advisor.memory.ggml.graph import (
    F16,
    F32,
    I32,
    HeadShape,
    Step,
    Tensor,
    UnknownLayer,
    change,
    compute,
    copy,
    read_shape,
    view,
)
from advisor.models import types as t

# Widths of keys that the CUDA backend has a kernel for, with the values' where these are others (fattn.cu)
KERNELS = {40: 40, 64: 64, 72: 72, 80: 80, 96: 96, 112: 112, 128: 128, 192: 128, 256: 256, 320: 256, 512: 512, 576: 512}
SHARED_KERNELS = {192: 8, 320: 32, 512: 2, 576: 2}  # queries that must share a key there
ROTATION = 64  # side of the matrices that turn what goes into a quantised cache; keys' grow with the head
FUSED_ROUTERS = (288, 576)  # numbers of experts with a fused router, next to powers of two up to 512
FUSED_SUMS = range(2, 16)  # numbers of chosen experts whose weighted sum is one kernel


def shape_heads(group: t.Softmax, windows: bool) -> HeadShape:
    """Heads of a layer with keys and values."""
    return HeadShape(
        queries=group.n_heads,
        keys=group.n_kv_heads,
        key_width=group.head_dim,
        value_width=group.v_head_dim or group.head_dim,
        window=bool(group.window) and windows,
    )


def _rotates(step: Step, window: bool, layer: int) -> bool:
    """Whether a layer rotates queries and keys."""
    traits = step.traits
    if traits.no_rope_every:
        return (layer + 1) % traits.no_rope_every != 0
    return traits.rope == "all" or (traits.rope == "windows" and (window or not step.shape.window_cells))


def attend(step: Step, tensor: Tensor, group: t.Softmax, layer: int) -> Tensor:
    """An attention layer with keys and values, up to its output projection."""
    traits, n = step.traits, step.tokens
    heads = shape_heads(group, bool(step.shape.window_cells))
    query, key, value, gate = _project(step, tensor, group, heads)
    rotates = _rotates(step, heads.window, layer)
    query = _prepare(step, query, bool(group.qk_norm), rotates)
    if not rotates and traits.scaled_queries:
        query = change(query, step.get_input("query scale", F32 * n))
    if key is not None and value is not None:
        key = _prepare(step, key, bool(group.qk_norm), rotates)
        if traits.values_normed:
            value = step.normalize(value, weighted=False)
    if group.index is not None and step.traits.hyper_streams:
        from advisor.memory.ggml.hyper import store_index

        store_index(step, tensor, group.index)
    mixed = _score(step, query, key, value, heads, (tensor, group.index))
    if group.gate == "headwise":
        gate = change(step.multiply(tensor, heads.queries, "attn_gate"))
        shape = (heads.value_width, heads.queries, n)
        mixed = view(change(view(mixed, shape), view(gate, (1, heads.queries, n))), (prod(shape[:2]), n))
    elif group.gate == "elementwise":
        own = gate is None
        turned = step.multiply(tensor, heads.queries * heads.value_width, "attn_gate") if gate is None else gate
        mixed = change(mixed, change(turned if own else copy(turned, (heads.queries * heads.value_width, n))))
    out = step.multiply(mixed, step.hidden, "attn_output")
    return _add_bias(step, out, "attn_output") if group.o_bias else out


def _project(
    step: Step, tensor: Tensor, group: t.Softmax, heads: HeadShape
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Queries, keys, values (None where an earlier layer's cache is read), and a gate that comes with the queries."""
    n = step.tokens
    q, k = (heads.key_width, heads.queries, n), (heads.key_width, heads.keys, n)
    v = (heads.value_width, heads.keys, n)

    def project(width: int, name: str) -> Tensor:
        out = step.multiply(tensor, width, name)
        return _add_bias(step, out, name) if group.qkv_bias else out

    if step.names.fused_qkv:
        whole = project(prod(q[:2]) + prod(k[:2]) + prod(v[:2]), "attn_qkv")
        return view(whole, q, "query"), view(whole, k, "key"), view(whole, v, "value"), None
    doubled = group.gate == "elementwise" and not step.names.gate_matrix
    query = project(prod(q[:2]) * (2 if doubled else 1), "attn_q")
    gate = view(query, q, "gate") if doubled else None
    query = view(query, q, "query" if doubled else "")
    if group.kv_shared:
        return query, None, None, gate
    key = project(prod(k[:2]), "attn_k")
    value = key if group.k_eq_v else project(prod(v[:2]), "attn_v")
    return query, view(key, k), view(value, v), gate


def _prepare(step: Step, tensor: Tensor, normed: bool, rotates: bool) -> Tensor:
    """The norm of queries or keys, and their rotation, in the architecture's order."""
    if normed and not step.traits.norm_after_rope:
        tensor = step.normalize(tensor)
    if rotates:
        tensor = change(tensor, step.get_positions())
    return step.normalize(tensor) if normed and step.traits.norm_after_rope else tensor


def _turn(step: Step, tensor: Tensor, side: int, name: str) -> Tensor:
    """The product with a rotation matrix, which spreads outliers before a row is quantised."""
    matrix = step.get_input(name, F32 * side * side)
    shape = read_shape(tensor)
    flat = (side, prod(shape) // side)
    return view(compute(flat, matrix, view(tensor, flat)), shape)


def _score(
    step: Step,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    heads: HeadShape,
    indexed: tuple[Tensor, t.Indexer | None] | None = None,
) -> Tensor:
    """Keys and values go into the cache, queries meet it."""
    shape, graph, n = step.shape, step.graph, step.tokens
    key_side = _find_side(heads.key_width) if shape.quantized_k and not step.sees_all else 0
    value_side = ROTATION if shape.quantized_v and not step.sees_all and heads.value_width % ROTATION == 0 else 0
    if key_side:
        query = _turn(step, query, key_side, f"key rotation {heads.window}")
        key = None if key is None else _turn(step, key, key_side, f"key rotation {heads.window}")
    if value_side and value is not None:
        value = _turn(step, value, value_side, f"value rotation {heads.window}")
    graph.expand(query)
    if step.sees_all and key is not None and value is not None:
        return _see_all(step, query, key, value, heads)
    if key is not None and value is not None:
        for part in (key, value) if shape.window_cells else (value, key):  # build_attn with two caches, and with one
            graph.expand(part)
        graph.expand(step.store(view(key, (heads.key_width * heads.keys, n), "row"), step.get_key_rows(heads.window)))
        graph.expand(step.store(_lay_out_values(step, value, heads), step.get_value_rows(heads.window)))
    mask = step.get_mask(heads.window)
    index = indexed[1] if indexed is not None else None
    if indexed is not None and index is not None and step.traits.hyper_streams:
        from advisor.memory.ggml.hyper import select_cells

        mask = select_cells(step, indexed[0], index, mask)
    mixed = _mix(step, query, heads, mask, index is not None, key is None)
    if value_side:
        mixed = _turn(step, mixed, value_side, f"value rotation {heads.window}")
    return mixed


def _see_all(step: Step, query: Tensor, key: Tensor, value: Tensor, heads: HeadShape) -> Tensor:
    """Attention of an encoder: every token of the step sees every other, and nothing is kept."""
    graph, n = step.graph, step.tokens
    graph.expand(key)
    graph.expand(value)
    mask = step.get_input(f"mask {heads.window}", (F16 if step.shape.flash else F32) * n * n)
    asked = view(
        view(query, (heads.key_width, heads.queries, n, 1), "streams"), (heads.key_width, n, heads.queries), "permuted"
    )
    if step.shape.flash:
        narrow = [
            Tensor(F16 * n * heads.keys * width, ("narrow", width), (view(part, (width, n, heads.keys), "permuted"),))
            for part, width in ((key, heads.key_width), (value, heads.value_width))
        ]
        mixed = compute((heads.value_width, heads.queries, n), asked, *narrow, mask)
        mixed.kernel = not step.shape.gpu or has_kernel(heads)
        return graph.expand(view(mixed, (heads.value_width * heads.queries, n)))
    scores = compute((n, n, heads.queries), view(key, (heads.key_width, n, heads.keys), "permuted"), asked)
    weights = change(scores, mask)
    turned = copy(view(value, (n, heads.value_width, heads.keys), "transposed"), (n, heads.value_width, heads.keys))
    mixed = view(
        compute((heads.value_width, n, heads.queries), turned, weights), (heads.value_width, heads.queries, n), "p"
    )
    return graph.expand(copy(mixed, (heads.value_width * heads.queries, n)))


def has_kernel(heads: HeadShape) -> bool:
    """Whether the GPU computes the attention; without a kernel the processor does."""
    shared = heads.queries // max(1, heads.keys)
    return KERNELS.get(heads.key_width) == heads.value_width and shared % SHARED_KERNELS.get(heads.key_width, 1) == 0


def has_kernels(model: t.Model) -> bool:
    """Whether the GPU computes the attention of all layers; `--flash-attn auto` is off where it does not."""
    if model.layout is None:
        return True
    shapes = [shape_heads(x, False) for x in model.layout.mixers if isinstance(x, t.Softmax)]
    latent = [x for x in model.layout.mixers if isinstance(x, t.Mla)]
    return all(map(has_kernel, shapes + [shape_absorbed(x) if x.absorbed else shape_expanded(x) for x in latent]))


def _find_side(width: int) -> int:
    """Side of the matrix that turns queries and keys: the largest power of two that divides a head."""
    return width & -width if width % ROTATION == 0 else 0


def _lay_out_values(step: Step, value: Tensor, heads: HeadShape) -> Tensor:
    """Rows of values as the cache takes them: as they are, or padded to the widest layer's and transposed."""
    width, n = heads.value_width * heads.keys, step.tokens
    row = view(value, (width, n), "row")
    if step.shape.flash:
        return row
    if width < step.widest_values:
        row = compute((step.widest_values, n), row)
    return view(row, (1, n * step.widest_values))


def _mix(step: Step, query: Tensor, heads: HeadShape, mask: Tensor, blocks: bool, shared: bool) -> Tensor:
    """Values weighted by how well queries meet keys. `blocks`: an index chooses them; `shared`: of a layer before."""
    shape, n = step.shape, step.tokens
    cells = shape.window_cells if heads.window else shape.cells
    each = n // shape.streams
    asked = view(query, (heads.key_width, heads.queries, each, shape.streams), "streams")
    asked = view(asked, (heads.key_width, each, heads.queries, shape.streams), "permuted")
    if shape.flash:
        rows = F16 * cells * shape.streams * heads.keys
        kept = _read_narrow(step, "keys", heads.key_width * heads.keys, cells, shared)
        kept += _read_narrow(step, "values", heads.value_width * heads.keys, cells, shared)
        width = (heads.value_width, heads.queries, each, shape.streams)
        extra = rows * shape.count_expanded(heads.key_width, heads.value_width)
        if step.blocks and blocks:
            from advisor.memory.ggml.hyper import attend_blocks

            return step.graph.expand(attend_blocks(step, query, kept, heads, extra // shape.streams))
        mixed = _attend_fused(step, compute(width, asked, *kept), has_kernel(heads), mask)
        mixed.size += extra * mixed.kernel
        return step.graph.expand(view(mixed, (heads.value_width * heads.queries, n)))
    kept = step.read_cache("keys", heads.key_width * heads.keys, cells, shared)
    scores = compute((cells, each, heads.queries, shape.streams), asked, *kept)
    if step.traits.scores_capped:
        scores = change(change(change(scores)))
    scores = change(scores, mask)
    kept = step.read_cache("values", heads.value_width * heads.keys, cells, shared)
    mixed = compute((heads.value_width, each, heads.queries, shape.streams), *kept, scores)
    mixed = view(mixed, (heads.value_width, heads.queries, each, shape.streams), "permuted")
    return step.graph.expand(copy(mixed, (heads.value_width * heads.queries, n)))


def _read_narrow(step: Step, side: str, width: int, cells: int, shared: bool = False) -> tuple[Tensor, ...]:
    """A layer's keys or values as a kernel takes them; those in F32 the graph itself turns into F16."""
    kept = step.read_cache(side, width, cells, shared)
    kind = step.shape.value_type if side == "values" else step.shape.key_type
    return (Tensor(F16 * width * cells * step.shape.streams, ("cast",), kept),) if kind == "F32" else kept


def _attend_fused(step: Step, mixed: Tensor, kernel: bool, mask: Tensor) -> Tensor:
    """Attention in one operation; without a kernel the processor computes it, and hands the result back."""
    mixed.kernel = kernel or not step.shape.gpu
    if mixed.kernel or step.shape.scheduled:
        mixed.operands = (*mixed.operands, mask)
    return mixed


def attend_latent(step: Step, tensor: Tensor, group: t.Mla) -> Tensor:
    """Latent attention: keys and values absorbed into queries and output, one row for all heads."""
    if not group.absorbed:
        return _attend_expanded(step, tensor, group)
    shape, graph, n, heads = step.shape, step.graph, step.tokens, group.n_heads
    nope, rope, latent = group.qk_nope_head_dim, group.qk_rope_head_dim, group.kv_lora_rank
    short = step.normalize(step.multiply(tensor, group.q_lora_rank, "attn_q_a")) if group.q_lora_rank else tensor
    mask = step.get_mask(False)
    if group.indexer is not None and step.indexed:
        from advisor.memory.ggml.hyper import rank_cells

        mask = rank_cells(step, tensor, short, group.indexer)
    query = step.multiply(short, heads * (nope + rope), "attn_q_b" if group.q_lora_rank else "attn_q")
    query = view(query, (nope + rope, heads, n))
    row = step.multiply(tensor, latent + rope, "attn_kv_a_mqa")
    rotated = change(view(row, (rope, 1, n), "rope"), step.get_positions())
    row = step.normalize(view(row, (latent, n), "latent"))
    query_rotated = change(view(query, (rope, heads, n), "rope"), step.get_positions())
    absorbed = compute((latent, n, heads), view(query, (nope, n, heads), "nope"))
    step.weigh(absorbed, "attn_k_b", n)
    query = compute((latent + rope, heads, n), view(absorbed, (latent, heads, n), "permuted"), query_rotated)
    value = view(row, (latent, 1, n))
    key = compute((latent + rope, 1, n), value, rotated)
    for part in (query, value, key):
        graph.expand(part)
    graph.expand(step.store(view(key, (latent + rope, n), "row"), step.get_key_rows(False)))
    each = n // shape.streams
    asked = view(query, (latent + rope, heads, each, shape.streams), "streams")
    asked = view(asked, (latent + rope, each, heads, shape.streams), "permuted")
    if shape.flash:
        kept = _read_narrow(step, "keys", latent + rope, shape.cells)
        kept += _read_narrow(step, "latent", latent, shape.cells)
        mixed = compute((latent, heads, each, shape.streams), asked, *kept)
        mixed = _attend_fused(step, mixed, has_kernel(shape_absorbed(group)), mask)
        if mixed.kernel:  # values are a part of the keys
            mixed.size += F16 * shape.cells * shape.streams * shape.count_expanded(latent + rope, 0)
        mixed = compute((group.v_head_dim, each, heads, shape.streams), view(mixed, (latent, each, heads), "permuted"))
    else:
        kept = step.read_cache("keys", latent + rope, shape.cells)
        scores = change(compute((shape.cells, each, heads, shape.streams), asked, *kept), mask)
        # the latent rows themselves are the values, transposed for the product
        turned = Tensor(F16 * latent * shape.cells * shape.streams, ("values",))
        mixed = compute((latent, each, heads, shape.streams), turned, scores)
        mixed = compute((group.v_head_dim, each, heads, shape.streams), mixed)
    step.weigh(mixed, "attn_v_b", each)
    mixed = view(mixed, (group.v_head_dim, heads, each, shape.streams), "permuted")
    graph.expand(mixed := copy(mixed, (group.v_head_dim * heads, n)))
    if width := group.gate_width(step.hidden):
        mixed = change(mixed, change(step.multiply(tensor, width, "attn_gate")))
    return step.multiply(mixed, step.hidden, "attn_output")


def _attend_expanded(step: Step, tensor: Tensor, group: t.Mla) -> Tensor:
    """Latent attention of older files: keys and values of every head are made of the latent row, and cached."""
    n, heads = step.tokens, group.n_heads
    nope, rope, width = group.qk_nope_head_dim, group.qk_rope_head_dim, group.v_head_dim
    query = step.normalize(step.multiply(tensor, group.q_lora_rank, "attn_q_a")) if group.q_lora_rank else tensor
    query = step.multiply(query, heads * (nope + rope), "attn_q_b" if group.q_lora_rank else "attn_q")
    query = view(query, (nope + rope, heads, n))
    row = step.multiply(tensor, group.kv_lora_rank + rope, "attn_kv_a_mqa")
    rotated = change(view(row, (rope, 1, n), "rope"), step.get_positions())
    both = step.multiply(
        step.normalize(view(row, (group.kv_lora_rank, n), "latent")), heads * (nope + width), "attn_kv_b"
    )
    value = copy(view(both, (width, heads, n), "value"), (width, heads, n))
    query = change(query, step.get_positions())
    key = compute((nope + rope, heads, n), view(both, (nope, heads, n), "key"), compute((rope, heads, n), rotated))
    return step.multiply(_score(step, query, key, value, shape_expanded(group)), step.hidden, "attn_output")


def shape_expanded(group: t.Mla) -> HeadShape:
    """Heads of latent attention whose keys and values are cached for every head."""
    n, width = group.n_heads, group.qk_nope_head_dim + group.qk_rope_head_dim
    return HeadShape(queries=n, keys=n, key_width=width, value_width=group.v_head_dim, window=False)


def shape_absorbed(group: t.Mla) -> HeadShape:
    """Heads of latent attention that share one row."""
    width = group.kv_lora_rank + group.qk_rope_head_dim
    return HeadShape(queries=group.n_heads, keys=1, key_width=width, value_width=group.kv_lora_rank, window=False)


def feed_forward(step: Step, tensor: Tensor, group: t.FfnGroup) -> Tensor:
    """The feed-forward part of a layer."""
    if isinstance(group, t.Dense):
        return _dense(step, tensor, group.intermediate, group.act == "gated", group.bias)
    assert isinstance(group, t.Moe)
    out = _experts(step, tensor, group)
    width = group.shared_intermediate or group.parallel_dense
    if not width:
        return out
    shared = _dense(step, tensor, width, group.act == "gated", False, "" if group.parallel_dense == width else "_shexp")
    if group.shared_gate:
        shared = change(shared, change(step.multiply(tensor, 1, "ffn_gate_inp_shexp")))
    return change(out, shared)


def _dense(step: Step, tensor: Tensor, width: int, gated: bool, bias: bool, end: str = "") -> Tensor:
    shape = (width, *read_shape(tensor)[1:])
    if gated and step.names.fused_gate_up:
        inner = compute(shape, step.multiply(tensor, 2 * width, f"ffn_up{end}"))
    else:
        up = step.multiply(tensor, width, f"ffn_up{end}")
        up = _add_bias(step, up, "ffn_up") if bias else up
        gate = step.multiply(tensor, width, f"ffn_gate{end}") if gated else None
        inner = change(up) if gate is None else compute(shape, gate, up)
    out = step.multiply(inner, step.hidden, f"ffn_down{end}")
    return _add_bias(step, out, "ffn_down") if bias else out


def _add_bias(step: Step, tensor: Tensor, name: str) -> Tensor:
    shape = read_shape(tensor)
    return step.weigh(change(tensor), f"{name}.bias", prod(shape[1:]), F32 * shape[0])


def _route(step: Step, tensor: Tensor, group: t.Moe) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Numbers of the chosen experts, their weights, and what a fused kernel keeps until both are known."""
    traits, tokens = step.traits, read_shape(tensor)[1]
    count, chosen = group.router_width or group.n_experts, group.top_k
    kind = traits.router or ("sigmoid" if group.router_bias else "softmax")
    logits = step.multiply(tensor, count, "ffn_gate_inp")
    scores = logits if kind == "after" else change(logits)
    picked_by = change(scores) if group.router_bias else scores
    each = view(scores, (1, count, tokens))
    order = compute((count, tokens), picked_by)
    numbers = view(order, (chosen, tokens), "first")
    weights = compute((1, chosen, tokens), each, numbers)
    kept = [logits, scores, picked_by, each, order, numbers, weights]
    if kind == "after":
        weights = view(change(view(weights, (chosen, tokens))), (1, chosen, tokens))
    if traits.routes_normed and kind != "after":
        flat = view(weights, (chosen, tokens))
        total = compute((1, tokens), flat)
        bounded = change(total)
        normed = change(flat, bounded)
        weights = view(normed, (1, chosen, tokens))
        kept += [flat, total, bounded, normed, weights]
    if traits.routes_scaled:
        weights = change(weights)
    fused = kind != "after" and ((count & (count - 1) == 0 and count <= 512) or count in FUSED_ROUTERS)
    return numbers, weights, tuple(kept) if fused else ()


def _experts(step: Step, tensor: Tensor, group: t.Moe) -> Tensor:
    graph, tokens = step.graph, read_shape(tensor)[1]
    chosen, inner_width = group.top_k, group.moe_intermediate
    numbers, weights, kept = _route(step, tensor, group)
    graph.expand(weights)
    if group.latent:
        tensor = step.multiply(tensor, group.latent, "ffn_latent_down")
    width = group.latent or step.hidden
    each = view(tensor, (width, 1, tokens))
    if step.traits.weights_first:
        each = change(compute((width, chosen, tokens), each), weights)
    if kept and step.shape.gpu:
        graph.expand(each)
        graph.keep(*kept)
    inner = (inner_width, chosen, tokens)

    def project(shape: tuple[int, ...], of: Tensor, name: str) -> Tensor:
        out = step.weigh(compute(shape, of, numbers), name, tokens)
        if group.bias or step.names.biased_experts:
            out = step.weigh(change(out, numbers), f"{name}.bias", chosen * tokens)
        return out

    up = project(inner, each, "ffn_up_exps" if "ffn_gate_up_exps" not in step.lent else "ffn_gate_up_exps")
    if group.act == "gated":
        gate = project(inner, each, "ffn_gate_exps")
        up = compute(inner, gate, up)
    else:
        up = change(up)
    out = project((width, chosen, tokens), up, "ffn_down_exps")
    raw = out
    if not step.traits.weights_first:
        out = change(out, weights)
    summed = _sum_experts(step, raw, out, weights, chosen, tokens, width)
    return step.multiply(summed, step.hidden, "ffn_latent_up") if group.latent else summed


def _sum_experts(
    step: Step, raw: Tensor, weighted: Tensor, weights: Tensor, chosen: int, tokens: int, width: int
) -> Tensor:
    graph, shape = step.graph, (width, tokens)
    graph.expand(weighted)
    parts = [graph.expand(view(weighted, shape, f"expert {i}")) for i in range(chosen)]
    total = parts[0]
    for part in parts[1:]:
        total = graph.expand(compute(shape, total, part, in_place=True))
    if chosen == 1:
        return copy(total, shape)
    if raw is not weighted and chosen in FUSED_SUMS and step.shape.gpu:
        graph.keep(raw, weights)
    return total


def _read_state(step: Step, width: int) -> Tensor:
    """The states of the step's sequences, gathered from the cache."""
    n = step.shape.sequences
    step.graph.expand(step.store())  # the state of a new sequence is zero
    kept = step.read_kept(F32 * width * n)
    rows = compute((width, n), *kept, step.get_input("state rows", I32 * n))
    states = step.graph.expand(view(rows, (width, n), "own"))
    step.graph.expand(step.store(view(rows, (width, 0), "further")))
    return states


def _join(step: Step, state: Tensor, rows: Tensor, width: int, kernel: int) -> Tensor:
    """The step's rows behind those that the state of a convolution kept; the last of them are kept."""
    n, each = step.shape.sequences, step.tokens // step.shape.sequences
    joined = compute((kernel - 1 + each, width, n), view(state, (kernel - 1, width, n)), rows)
    step.graph.expand(step.store(view(joined, (kernel - 1, width, n), "last")))
    return joined


def _convolve(step: Step, state: Tensor, rows: Tensor, width: int, kernel: int, bias: bool) -> Tensor:
    """A short convolution over the step's rows and those that the state kept; its activation."""
    n, each = step.shape.sequences, step.tokens // step.shape.sequences
    out = compute((width, each, n), _join(step, state, rows, width, kernel))
    step.weigh(out, "ssm_conv1d", each * n, F32 * kernel * width)
    return change(_add_bias(step, out, "ssm_conv1d") if bias else out)


def mix_delta_net(step: Step, tensor: Tensor, group: t.GatedDeltaNet) -> Tensor:
    """Gated DeltaNet with its fused kernel, whose states are square."""
    if group.k_dim != group.v_dim:
        raise UnknownLayer
    step.graph.expand(tensor)
    n, each = step.shape.sequences, step.tokens // step.shape.sequences
    keys, values = group.k_heads * group.k_dim, group.v_heads * group.v_dim
    channels = 2 * keys + values
    mixed = view(step.multiply(tensor, channels, "attn_qkv"), (channels, each, n))
    gate_out = step.multiply(tensor, values, "attn_gate")
    beta = change(view(step.multiply(tensor, group.v_heads, "ssm_beta"), (1, group.v_heads, each, n)))
    alpha = view(step.multiply(tensor, group.v_heads, "ssm_alpha"), (group.v_heads, each, n))
    alpha = _add_bias(step, alpha, "ssm_dt")
    alpha = step.weigh(change(change(alpha)), "ssm_a", each * n, F32 * group.v_heads)
    decay = view(alpha, (1, group.v_heads, each, n))
    kept = _read_state(step, channels * (group.conv_kernel - 1))
    joined = _join(step, kept, view(mixed, (each, channels, n), "transposed"), channels, group.conv_kernel)
    state = view(_read_state(step, values * group.k_dim), (group.v_dim, group.v_dim, group.v_heads, n))
    convolved = compute((channels, each, n), joined)
    convolved = change(step.weigh(convolved, "ssm_conv1d", each * n, F32 * group.conv_kernel * channels))
    heads = (group.k_dim, group.k_heads, each, n)
    query, key = (change(compute(heads, view(convolved, heads, x))) for x in ("query", "key"))
    value = view(convolved, (group.v_dim, group.v_heads, each, n), "value")
    whole = values * step.tokens + values * group.k_dim * n
    result = compute((whole,), query, key, value, decay, beta, state)
    out = view(result, (group.v_dim, group.v_heads, each, n), "output")
    step.graph.expand(step.store(view(result, (values * group.k_dim, n), "state")))
    out = step.normalize(out)
    out = change(out, change(view(gate_out, (group.v_dim, group.v_heads, each, n))))
    out = step.multiply(view(out, (values, step.tokens)), step.hidden, "ssm_out")
    return view(out, (step.hidden, step.tokens))


def mix_mamba1(step: Step, tensor: Tensor, group: t.Mamba1) -> Tensor:
    """Mamba."""
    n, each = step.shape.sequences, step.tokens // step.shape.sequences
    inner = group.inner
    kept = _read_state(step, inner * (group.conv_kernel - 1))
    both = step.multiply(view(tensor, (step.hidden, each, n)), 2 * inner, "ssm_in")
    rows = view(both, (inner, each, n), "rows")
    mixed = _convolve(step, kept, view(rows, (each, inner, n), "transposed"), inner, group.conv_kernel, True)
    parts = step.multiply(mixed, group.dt_rank + 2 * group.state, "ssm_x")
    pieces = [
        compute(shape, view(parts, shape, name))
        for name, shape in (
            ("dt", (group.dt_rank, each, n)),
            ("b", (group.state, 1, each, n)),
            ("c", (group.state, 1, each, n)),
        )
    ]
    delta = _add_bias(step, step.multiply(change(pieces[0]), inner, "ssm_dt"), "ssm_dt")
    scanned = compute(
        (inner * step.tokens + inner * group.state * n,),
        view(mixed, (1, inner, each, n)), delta, change(pieces[1]), change(pieces[2]),
        step.get_input("state rows", I32 * n),
    )  # fmt: skip
    _scan(step, scanned, inner * group.state)
    out = view(scanned, (inner, each, n), "output")
    out = change(out, step.weigh(compute((inner, each, n), mixed), "ssm_d", each * n, F32 * inner))
    gate = copy(view(both, (inner, each, n), "gate"), (inner, each, n))
    out = compute((inner, each, n), gate, out)
    return view(step.multiply(out, step.hidden, "ssm_out"), (step.hidden, step.tokens))


def mix_mamba2(step: Step, tensor: Tensor, group: t.Mamba2) -> Tensor:
    """Mamba-2."""
    n, each = step.shape.sequences, step.tokens // step.shape.sequences
    inner = group.heads * group.head_dim
    channels = inner + 2 * group.groups * group.state
    kept = _read_state(step, channels * (group.conv_kernel - 1))
    width = inner + channels + group.heads
    whole = view(step.multiply(tensor, width, "ssm_in"), (width, each, n))
    heads = (group.head_dim, group.heads, each, n)
    rows = view(whole, (channels, each, n), "rows")
    mixed = _convolve(step, kept, view(rows, (each, channels, n), "transposed"), channels, group.conv_kernel, True)
    part = view(mixed, heads, "part")
    delta = change(copy(view(whole, (group.heads, each, n), "delta"), (group.heads, each, n)))
    scanned = compute(
        (inner * step.tokens + inner * group.state * n,),
        part, delta, view(mixed, (group.state, group.groups, each, n), "b"),
        view(mixed, (group.state, group.groups, each, n), "c"), step.get_input("state rows", I32 * n),
    )  # fmt: skip
    _scan(step, scanned, inner * group.state)
    by_head = step.weigh(compute(heads, part), "ssm_d", prod(heads[1:]), F32 * group.heads)
    out = change(view(scanned, heads, "output"), by_head)
    gate = copy(view(whole, heads, "gate"), heads)
    out = compute(heads, gate, out)
    if group.gated_norm:
        out = step.normalize(view(out, (inner // group.groups, group.groups, each, n)))
    return step.multiply(view(out, (inner, step.tokens)), step.hidden, "ssm_out")


def _scan(step: Step, scanned: Tensor, width: int) -> None:
    """The scan runs where the states lie, and puts the last ones back."""
    n = step.shape.sequences
    step.graph.expand(step.store())
    step.graph.expand(step.weigh(scanned, "ssm_a", 1, F32 * width))
    step.graph.expand(step.store(view(scanned, (width, n), "state")))


def mix_short_convolution(step: Step, tensor: Tensor, group: t.ShortConv) -> Tensor:
    """LFM2's gated short convolution."""
    n, each, d = step.shape.sequences, step.tokens // step.shape.sequences, step.hidden
    whole = step.multiply(view(tensor, (d, each, n)), 3 * d, "shortconv.in_proj")
    whole = view(whole, (each, 3 * d, n), "transposed")
    gated = change(view(whole, (each, d, n), "b"), view(whole, (each, d, n), "x"))
    kept = _read_state(step, d * (group.conv_kernel - 1))
    out = compute((d, each, n), _join(step, kept, gated, d, group.conv_kernel))
    out = change(compute((d, each, n), view(whole, (d, each, n), "c"), out))
    return view(step.multiply(out, d, "shortconv.out_proj"), (d, step.tokens))
