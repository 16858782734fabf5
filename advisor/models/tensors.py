"""One tensor of a weight file, as its header describes it."""

from __future__ import annotations

from math import prod

from advisor.record import Record


class TensorInfo(Record, frozen=True, kw_only=True):
    """Name, shape, element type and stored size. Nothing of the data is read.

    GGUF shapes are in GGML order (ne0, the contiguous width, first), safetensors shapes in row-major order.
    """

    name: str
    shape: tuple[int, ...]
    type: str  # Q4_K, BF16, F8_E4M3, ...
    bytes: int

    @property
    def elements(self) -> int:
        """Number of stored elements."""
        return prod(self.shape)
