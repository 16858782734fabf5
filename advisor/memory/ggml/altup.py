"""Gemma 3n's residuals side by side, which each layer predicts and corrects, as llama.cpp computes them.

Source: src/models/gemma3n.cpp of llama.cpp b11434, and the graph that v0.5.0 prints (GGML_SCHED_DEBUG).
"""

from __future__ import annotations

from collections.abc import Callable

from advisor.memory.ggml.graph import Step, Tensor, change, compute, copy, view
from advisor.models import types as t

Mix = Callable[[Tensor], Tensor]  # what attention makes of a normed stream


def stack(step: Step, tensor: Tensor, streams: int) -> Tensor:
    """The embedding, and what matrices make of it, as long as it is."""
    one, others = (step.hidden, step.tokens), (step.hidden, step.tokens, streams - 1)
    tensor = change(tensor)
    made = step.multiply(compute(others, tensor), step.hidden, "altup_proj")
    length = change(compute((1, step.tokens), compute(one, tensor)))
    return compute((*one, streams), tensor, _resize(made, length))


def unstack(step: Step, stacked: Tensor, streams: int) -> Tensor:
    """One residual of all: their mean, each as long as the first."""
    one, others = (step.hidden, step.tokens), (step.hidden, step.tokens, streams - 1)
    made = step.multiply(view(stacked, others, "slice"), step.hidden, "altup_unembd_proj")
    length = change(compute((1, step.tokens), compute(one, view(stacked, one, "slice"))))
    merged = _resize(made, length)
    total = compute(one, view(stacked, one, "slice"), view(merged, one, "slice"))
    for _ in range(streams - 2):
        total = change(total, view(merged, one, "slice"))
    return change(total)


def _resize(made: Tensor, length: Tensor) -> Tensor:
    shape = (made.layout[0], *made.layout[1:])
    scaled = compute(shape, made, length)  # type: ignore[arg-type]  # the layout is numbers
    own = compute((1, *shape[1:]), change(made))  # type: ignore[arg-type]
    return change(scaled, change(own))


def _route(step: Step, stream: Tensor, streams: int) -> Tensor:
    return change(step.multiply(change(step.normalize(stream)), streams, "altup_router"))


def add_altup_layer(step: Step, stacked: Tensor, ffn: t.Dense, each: Tensor, mix: Mix) -> Tensor:
    """A layer; `each`: all layers' rows of the second embedding."""
    table = step.layout.per_layer
    assert table is not None
    n, streams = step.tokens, table.streams
    one, whole = (step.hidden, n), (step.hidden, n, streams)
    turned = copy(view(stacked, (streams, step.hidden, n), "permuted"), (streams, step.hidden, n))
    chosen = step.multiply(_route(step, view(stacked, one, "slice"), streams), streams**2, "altup_predict_coef")
    made = compute((streams, step.hidden, n), turned, chosen)
    predicted = change(copy(view(made, whole, "permuted"), whole), stacked)
    active = view(predicted, one, "slice")
    normed = step.normalize(active)
    gated = change(step.normalize(mix(normed)), active)
    low = step.multiply(step.multiply(normed, table.laurel_rank, "laurel_l"), step.hidden, "laurel_r")
    both = change(change(gated, change(step.normalize(low), normed)))
    activated = change(step.normalize(_feed_sparsely(step, step.normalize(both), ffn)), both)
    difference = compute(whole, compute(one, activated, view(predicted, one, "slice")))
    weights = change(step.multiply(_route(step, activated, streams), streams, "altup_correct_coef"))
    corrected = change(change(difference, copy(weights, (streams, n))), predicted)
    first = compute(one, view(corrected, one, "slice"))
    gate = change(step.multiply(first, table.width, "inp_gate"))
    given = step.multiply(change(gate, view(each, (table.width, n), "slice")), step.hidden, "proj")
    others = (step.hidden, n, streams - 1)
    rest = compute(others, view(corrected, others, "slice"), step.normalize(given))
    return compute(whole, view(corrected, one, "slice"), rest)


def _feed_sparsely(step: Step, tensor: Tensor, ffn: t.Dense) -> Tensor:
    """The feed-forward part, whose gate keeps what stands out of its row."""
    shape = (ffn.intermediate, step.tokens)
    up = step.multiply(tensor, ffn.intermediate, "ffn_up")
    gate = step.multiply(tensor, ffn.intermediate, "ffn_gate")
    mean = compute((1, step.tokens), gate)
    spread = change(change(change(compute((1, step.tokens), change(compute(shape, gate, mean))))))
    kept = change(change(change(gate, change(mean, spread))))
    return step.multiply(change(up, kept), step.hidden, "ffn_down")
