"""Layers that keep a state instead of a cache, as llama.cpp computes them.

Source: src/models/delta-net-base.cpp, mamba-base.cpp and lfm2.cpp, llama.cpp b11434.
"""

from __future__ import annotations

from advisor.memory.ggml_graph import Tensor, compute, store, view
from advisor.memory.ggml_step import I32, Step, change, copy, multiply
from advisor.models import types as t


def _read_state(step: Step, width: int) -> Tensor:
    """The states of the step's sequences, gathered from the cache."""
    n = step.shape.sequences
    rows = compute((width, n), step.get_input("state rows", I32 * n))
    states = step.graph.expand(view(rows, (width, n), "own"))
    step.graph.expand(store(view(rows, (width, 0), "further")))
    return states


def _convolve(step: Step, state: Tensor, rows: Tensor, width: int, kernel: int, bias: bool) -> Tensor:
    """A short convolution over the step's rows and those that the state kept; its activation."""
    n, each = step.shape.sequences, step.tokens // step.shape.sequences
    joined = compute((kernel - 1 + each, width, n), view(state, (kernel - 1, width, n)), rows)
    step.graph.expand(store(view(joined, (kernel - 1, width, n), "last")))
    out = compute((width, each, n), joined)
    return change(change(out) if bias else out)


def mix_delta_net(step: Step, tensor: Tensor, group: t.GatedDeltaNet) -> Tensor:
    """Gated DeltaNet with its fused kernel."""
    n, each = step.shape.sequences, step.tokens // step.shape.sequences
    keys, values = group.k_heads * group.k_dim, group.v_heads * group.v_dim
    channels = 2 * keys + values
    mixed = view(multiply(tensor, channels), (channels, each, n))
    gate_out = multiply(tensor, values)
    beta = change(view(multiply(tensor, group.v_heads), (1, group.v_heads, each, n)))
    alpha = change(change(change(view(multiply(tensor, group.v_heads), (group.v_heads, each, n)))))
    decay = view(alpha, (1, group.v_heads, each, n))
    kept = _read_state(step, channels * (group.conv_kernel - 1))
    joined = compute(
        (group.conv_kernel - 1 + each, channels, n),
        view(kept, (group.conv_kernel - 1, channels, n)),
        view(mixed, (each, channels, n), "transposed"),
    )
    step.graph.expand(store(view(joined, (group.conv_kernel - 1, channels, n), "last")))
    state = view(_read_state(step, values * group.k_dim), (group.v_dim, group.v_dim, group.v_heads, n))
    convolved = change(compute((channels, each, n), joined))
    query, key = (
        change(
            compute((group.k_dim, group.k_heads, each, n), view(convolved, (group.k_dim, group.k_heads, each, n), x))
        )
        for x in ("query", "key")
    )
    value = view(convolved, (group.v_dim, group.v_heads, each, n), "value")
    whole = values * step.tokens + values * group.k_dim * n
    result = compute((whole,), query, key, value, decay, beta, state)
    out = view(result, (group.v_dim, group.v_heads, each, n), "output")
    step.graph.expand(store(view(result, (values * group.k_dim, n), "state")))
    out = step.normalize(out)
    out = change(out, change(view(gate_out, (group.v_dim, group.v_heads, each, n))))
    return view(multiply(view(out, (values, step.tokens)), step.hidden), (step.hidden, step.tokens))


def mix_mamba1(step: Step, tensor: Tensor, group: t.Mamba1) -> Tensor:
    """Mamba."""
    n, each = step.shape.sequences, step.tokens // step.shape.sequences
    inner = group.inner
    kept = _read_state(step, inner * (group.conv_kernel - 1))
    both = multiply(view(tensor, (step.hidden, each, n)), 2 * inner)
    rows = view(both, (inner, each, n), "rows")
    mixed = _convolve(step, kept, view(rows, (each, inner, n), "transposed"), inner, group.conv_kernel, True)
    parts = multiply(mixed, group.dt_rank + 2 * group.state)
    pieces = [
        compute(shape, view(parts, shape, name))
        for name, shape in (
            ("dt", (group.dt_rank, each, n)),
            ("b", (group.state, 1, each, n)),
            ("c", (group.state, 1, each, n)),
        )
    ]
    delta = change(multiply(change(pieces[0]), inner))
    scanned = compute(
        (inner * step.tokens + inner * group.state * n,),
        view(mixed, (1, inner, each, n)), delta, change(pieces[1]), change(pieces[2]),
        step.get_input("state rows", I32 * n),
    )  # fmt: skip
    _scan(step, scanned, inner * group.state)
    out = view(scanned, (inner, each, n), "output")
    out = change(out, compute((inner, each, n), mixed))
    gate = copy(view(both, (inner, each, n), "gate"), (inner, each, n))
    out = compute((inner, each, n), gate, out)
    return view(multiply(out, step.hidden), (step.hidden, step.tokens))


def mix_mamba2(step: Step, tensor: Tensor, group: t.Mamba2) -> Tensor:
    """Mamba-2."""
    n, each = step.shape.sequences, step.tokens // step.shape.sequences
    inner = group.heads * group.head_dim
    channels = inner + 2 * group.groups * group.state
    kept = _read_state(step, channels * (group.conv_kernel - 1))
    whole = view(multiply(tensor, inner + channels + group.heads), (inner + channels + group.heads, each, n))
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
    out = change(view(scanned, heads, "output"), compute(heads, part))
    gate = copy(view(whole, heads, "gate"), heads)
    out = compute(heads, gate, out)
    if group.gated_norm:
        out = step.normalize(view(out, (inner // group.groups, group.groups, each, n)))
    return multiply(view(out, (inner, step.tokens)), step.hidden)


def _scan(step: Step, scanned: Tensor, width: int) -> None:
    """The scan runs where the states lie, and puts the last ones back."""
    n = step.shape.sequences
    step.graph.expand(scanned)
    step.graph.expand(store(view(scanned, (width, n), "state")))


def mix_short_convolution(step: Step, tensor: Tensor, group: t.ShortConv) -> Tensor:
    """LFM2's gated short convolution."""
    n, each, d = step.shape.sequences, step.tokens // step.shape.sequences, step.hidden
    whole = multiply(view(tensor, (d, each, n)), 3 * d)
    whole = view(whole, (each, 3 * d, n), "transposed")
    gated = change(view(whole, (each, d, n), "b"), view(whole, (each, d, n), "x"))
    kept = _read_state(step, d * (group.conv_kernel - 1))
    joined = compute((group.conv_kernel - 1 + each, d, n), view(kept, (group.conv_kernel - 1, d, n)), gated)
    step.graph.expand(store(view(joined, (group.conv_kernel - 1, d, n), "last")))
    out = compute((d, each, n), joined)
    out = change(compute((d, each, n), view(whole, (d, each, n), "c"), out))
    return view(multiply(out, d), (d, step.tokens))
