"""Feed-forward layers as llama.cpp computes them: dense, or a router and the experts it chooses.

Source: build_ffn and build_moe_ffn of src/llama-graph.cpp, and the kernels that the CUDA backend fuses (graph_optimize
of ggml-cuda.cu), llama.cpp b11434.
"""

from __future__ import annotations

from advisor.memory.ggml_graph import Tensor, compute, view
from advisor.memory.ggml_step import (
    NONE_BORROWED,
    BorrowedWeights,
    Step,
    borrow,
    change,
    copy,
    multiply,
    read_shape,
)
from advisor.models import types as t

FUSED_ROUTERS = (288, 576)  # numbers of experts with a fused router, next to powers of two up to 512
FUSED_SUMS = range(2, 16)  # numbers of chosen experts whose weighted sum is one kernel


def feed_forward(step: Step, tensor: Tensor, group: t.FfnGroup) -> Tensor:
    """The feed-forward part of a layer."""
    if isinstance(group, t.Dense):
        return _dense(step, tensor, group.intermediate, group.act == "gated", group.bias, step.borrowed)
    assert isinstance(group, t.Moe)
    out = _experts(step, tensor, group)
    beside = group.shared_intermediate or group.parallel_dense
    if not beside:
        return out
    shared = _dense(step, tensor, beside, group.act == "gated", False, NONE_BORROWED)
    if group.shared_gate:
        shared = change(shared, change(multiply(tensor, 1)))
    return change(out, shared)


def _dense(step: Step, tensor: Tensor, width: int, gated: bool, bias: bool, borrowed: BorrowedWeights) -> Tensor:
    shape = (width, *read_shape(tensor)[1:])
    if gated and step.names.fused_gate_up:
        inner = compute(shape, multiply(tensor, 2 * width, borrowed.up))
    else:
        up = multiply(tensor, width, borrowed.up)
        up = change(up, *borrow(borrowed.up_bias)) if bias else up
        gate = multiply(tensor, width, borrowed.gate) if gated else None
        inner = change(up) if gate is None else compute(shape, gate, up)
    out = multiply(inner, step.hidden, borrowed.down)
    return change(out, *borrow(borrowed.down_bias)) if bias else out


def _route(step: Step, tensor: Tensor, group: t.Moe) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Numbers of the chosen experts, their weights, and what a fused kernel keeps until both are known."""
    traits, tokens = step.traits, read_shape(tensor)[1]
    count, chosen = group.router_width or group.n_experts, group.top_k
    kind = traits.router or ("sigmoid" if group.router_bias else "softmax")
    logits = multiply(tensor, count)
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
        tensor = multiply(tensor, group.latent)
    width = group.latent or step.hidden
    each = view(tensor, (width, 1, tokens))
    if step.traits.weights_first:
        each = change(compute((width, chosen, tokens), each), weights)
    if kept and step.shape.gpu:
        graph.expand(each)
        graph.keep(*kept)
    inner = (inner_width, chosen, tokens)
    borrowed, biased = step.borrowed, group.bias or step.names.biased_experts
    up = compute(inner, each, numbers, *borrow(borrowed.up))
    up = change(up, numbers, *borrow(borrowed.up_bias)) if biased else up
    if group.act == "gated":
        gate = compute(inner, each, numbers, *borrow(borrowed.gate))
        gate = change(gate, numbers, *borrow(borrowed.gate_bias)) if biased else gate
        up = compute(inner, gate, up)
    else:
        up = change(up)
    out = compute((width, chosen, tokens), up, numbers, *borrow(borrowed.down))
    out = change(out, numbers, *borrow(borrowed.down_bias)) if biased else out
    raw = out
    if not step.traits.weights_first:
        out = change(out, weights)
    summed = _sum_experts(step, raw, out, weights, chosen, tokens, width)
    return multiply(summed, step.hidden) if group.latent else summed


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
