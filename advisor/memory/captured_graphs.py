"""CUDA graphs that a pool engine captures at start: how many, and what they hold.

Source of the sizes: vLLM 0.33.0, config/vllm.py, _set_cudagraph_sizes: 1, 2, 4, then steps of 8 below 256, of 16 from
there on, up to twice the running requests and at most what the platform takes.
"""

from __future__ import annotations

from advisor.meanings import Version
from advisor.record import Record

FINE, COARSE, TURN = 8, 16, 256


class CapturedGraphs(Record, frozen=True, kw_only=True):
    """What captured graphs hold inside the budget: GiB of each layer and captured size, with bounds."""

    before: Version | None = None  # holds below this engine version
    low: float
    value: float
    high: float
    base_gib: float = 0.0  # whatever is captured
    largest: int = 512  # captured size, tokens
    largest_from_capability: dict[str, int] = {}  # compute capability from which another holds -> size
    source: str


def count_capture_sizes(largest: int) -> int:
    """Sizes that are captured up to `largest` tokens."""
    small = sum(1 for x in (1, 2, 4) if x <= largest)
    fine = len(range(FINE, min(largest + 1, TURN), FINE))
    return small + fine + len(range(TURN, largest + 1, COARSE))


def size_graphs(
    graphs: CapturedGraphs, layers: int, sequences: int, capability: float, largest: int | None
) -> tuple[float, float, float]:
    """(low, value, high) GiB of the graphs of a rank; `largest`: the size asked for, where one is."""
    usual = graphs.largest
    for since, size in graphs.largest_from_capability.items():
        if capability >= float(since):
            usual = size
    n = layers * count_capture_sizes(largest if largest is not None else min(2 * sequences, usual))
    if not n:
        return 0.0, 0.0, 0.0
    low, value, high = (graphs.base_gib + n * x for x in (graphs.low, graphs.value, graphs.high))
    return low, value, high
