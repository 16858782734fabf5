"""Hyper-connections and sparse attention (Qwen 4's experimental architecture, MiniMax-M3) as llama.cpp computes them.

Source: the graph that v0.5.0 prints of src/models/qwen4exp.cpp (GGML_SCHED_DEBUG); compared with its planner.
"""

from __future__ import annotations

from math import prod

from advisor.memory.ggml.graph import F16, F32, I32, I64, HeadShape, Step, Tensor, change, compute, copy, view
from advisor.models.types import Indexer


def widen(step: Step, tensor: Tensor) -> Tensor:
    """The residual of all streams: copies of the embedding, and in it what the n-gram table gives."""
    wide = (step.hidden, step.traits.hyper_streams, step.tokens)
    return step.graph.expand(compute(wide, view(tensor, (step.hidden, 1, step.tokens))))


def mix_streams(step: Step, wide: Tensor, part: str, injects: bool = True) -> tuple[Tensor, Tensor | None]:
    """One stream out of all, and how the result is scattered to them again."""
    streams, n = step.traits.hyper_streams, wide.layout[-1]
    assert isinstance(n, int)
    flat = view(step.normalize(wide), (step.hidden * streams, n))
    low = change(change(step.multiply(flat, step.traits.hyper_rank, f"hc_{part}_down")))
    gate = step.multiply(low, step.hidden * streams, f"hc_{part}_up")
    mixed = compute((step.hidden, n), flat, gate)
    return mixed, step.multiply(flat, streams, f"hc_{part}_inject") if injects else None


def scatter(step: Step, wide: Tensor, tensor: Tensor, inject: Tensor) -> Tensor:
    """A part's result added to all streams."""
    return compute(tuple(wide.layout), tensor, wide, change(change(change(inject))))  # type: ignore[arg-type]  # numbers


def add_table(step: Step, wide: Tensor, kernel: int) -> Tensor:
    """Rows of a table of n-grams, gated by the residual and convolved with what the state keeps of earlier ones."""
    streams, n = step.traits.hyper_streams, step.tokens
    shape, each = (step.hidden, streams, n), n // step.shape.sequences
    row = step.get_input("n-grams", F32 * step.hidden * n, (step.hidden, n))
    value = compute(shape, view(step.multiply(row, step.hidden, "ple_value"), (step.hidden, 1, n)))
    key = step.normalize(view(step.multiply(row, step.hidden * streams, "ple_key"), shape))
    score = change(compute((1, streams, n), change(key, step.normalize(wide))))
    gated = compute(shape, value, change(compute((1, streams, n), score), compute((1, streams, n), score)))
    width = step.hidden * streams
    joined = compute((each + kernel - 1, width, step.shape.sequences), step.normalize(gated))
    step.graph.expand(step.store(view(joined, (kernel - 1, width, step.shape.sequences), "last")))
    total: Tensor | None = None
    for i in range(kernel):
        tap = change(copy(view(joined, (each, width, step.shape.sequences), f"tap {i}"), (each, width)))
        total = tap if total is None else change(total, tap)
    assert total is not None
    return change(wide, change(gated, view(copy(change(total), shape), shape)))


def attend_blocks(step: Step, query: Tensor, kept: tuple[Tensor, ...], heads: HeadShape, extra: int) -> Tensor:
    """Attention with a mask of chosen blocks for every key head, one cache after another (MiniMax-M3)."""
    shape, each = step.shape, step.tokens // step.shape.streams
    size, width = (shape.cells, each, heads.keys), heads.value_width * heads.queries
    joined: Tensor | None = None
    for i in range(shape.streams):
        spread = compute(size, step.get_input("cells of blocks", I32 * shape.cells * shape.streams))
        if i not in step.wide_masks:
            step.wide_masks[i] = compute(size[:2], view(step.get_mask(False), size[:2], f"stream {i}"))
        mask = Tensor(
            F16 * prod(size), ("narrow",), (change(copy(view(spread, size, "turned"), size), step.wide_masks[i]),)
        )
        asked = view(query, (heads.key_width, each, heads.queries), f"stream {i}")
        out = compute((heads.value_width, each, heads.queries), asked, *kept, mask, extra=extra)
        out = copy(view(out, (width, each), "permuted"), (width, each))
        joined = out if joined is None else compute((width, each * (i + 1)), joined, out)
    assert joined is not None
    return joined


def rank_cells(step: Step, tensor: Tensor, query: Tensor, index: Indexer) -> Tensor:
    """The mask with those cells open that one fused operation ranks highest (src/models/deepseek32.cpp)."""
    shape, n, cells = step.shape, step.tokens, step.shape.cells
    mask, taken = step.get_mask(False), min(index.top_k or cells, cells)
    if not index.shared:
        wide, turn = (index.dim, index.heads, n), step.get_input("index rotation", F32 * index.dim**2)
        asked = view(step.multiply(query, index.heads * index.dim, "indexer.attn_q_b"), wide)
        asked = compute(wide, turn, change(asked, step.get_positions()))
        key = change(step.normalize(step.multiply(tensor, index.dim, "indexer.attn_k")))
        key = compute((index.dim, n), turn, change(key, step.get_positions()))
        step.graph.expand(step.store(view(key, (index.dim, n), "row"), step.get_input("index rows", I64 * n)))
        weights = change(step.multiply(tensor, index.heads, "indexer.proj"))
        kept = step.read_kept(F16 * index.dim * cells * shape.streams)
        seen = step.get_input("mask of the index", F16 * cells * n)
        scores = compute((cells, n), asked, *kept, weights, seen)
        step.ranked = copy(compute((taken, n), scores), (taken, n))
    kind = F16 if shape.flash else F32
    closed = Tensor(kind * cells * n, ("closed",), (mask,))
    if step.blank is None:  # rows of zeros of all layers are there from the beginning
        step.blank = Tensor(F32 * taken * n * (1 if shape.scheduled else step.layout.n_layers), ("blank",))
    blank = compute((taken, n), step.blank)
    opened = Tensor(0, ("opened",), (blank, *((step.ranked,) if step.ranked else ()), closed), whole=closed)
    return Tensor(kind * cells * n, ("mask",), (opened, mask))


def store_index(step: Step, tensor: Tensor, index: Indexer) -> None:
    """The step's keys of the index go into their cache."""
    key = step.multiply(tensor, index.dim, "indexer.k_proj")
    step.graph.expand(step.store(view(key, (index.dim, step.tokens), "row"), step.get_key_rows(False)))


def select_cells(step: Step, tensor: Tensor, index: Indexer, mask: Tensor) -> Tensor:
    """The mask with those cells open that the index scores highest, pool by pool."""
    shape, n = step.shape, step.tokens
    cells, pool = shape.cells, index.key_pool or 1
    pools, taken = -(-cells // pool), min(index.top_k or cells, cells)
    blocked = compute((taken, n))
    kept = step.read_kept(F16 * index.dim * cells * shape.streams)
    pooled_rows = pools * shape.streams
    rows = compute((index.dim, pool, pooled_rows), *kept, step.get_input("pools", I32 * cells * shape.streams))
    pooled: Tensor | None = None
    for i in range(pool):
        one = copy(view(rows, (index.dim, pooled_rows), f"member {i}"), (index.dim, pooled_rows))
        pooled = one if pooled is None else change(pooled, one)
    assert pooled is not None
    pooled = change(step.normalize(change(pooled)), step.get_input("pool positions", I32 * 4 * pooled_rows))
    query = step.multiply(tensor, index.heads * index.dim, "indexer.q_proj")
    query = change(step.normalize(view(query, (index.dim, index.heads, n))), step.get_positions())
    scores = compute((pools, index.heads * n), pooled, view(query, (index.dim, index.heads * n)))
    scores = change(view(scores, (pools, index.heads, n)))
    total = copy(view(scores, (pools, n), "head 0"), (pools, n))
    for i in range(1, index.heads):
        total = change(total, view(scores, (pools, n), f"head {i}"))
    total = change(total, step.get_input("pool mask", F32 * pools * n))
    turned = copy(view(total, (n, pools), "permuted"), (n, pools))
    spread = compute((n, cells), turned, step.get_input("cells of pools", I32 * cells))
    spread = copy(view(spread, (cells, n), "permuted"), (cells, n))
    spread = change(spread, compute((cells, n), mask) if shape.flash else mask)
    best = copy(compute((taken, n), spread), (taken, n))
    kind = F16 if shape.flash else F32
    closed = Tensor(kind * cells * n, ("closed",), (mask,))
    opened = Tensor(0, ("opened",), (blocked, best, closed), whole=closed)
    return Tensor(kind * cells * n, ("mask",), (opened, mask))
