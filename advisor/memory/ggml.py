"""GGML block types: bytes of rows and tensors, as ggml lays them out on disk and on a device.

Source: ggml's type table (llama.cpp v0.5.0), measured in llamacpp_memory.csv (232 of 232 files byte for byte).
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from advisor.models.ggml_types import BLOCKS, row_bytes


@lru_cache(maxsize=8192)
def tensor_bytes(kind: str, ne: tuple[int, ...]) -> int:
    """Bytes of a tensor in a file; `ne` lists elements per dimension, the row first."""
    return row_bytes(kind, ne[0]) * prod(ne[1:])


@lru_cache(maxsize=8192)
def device_bytes(kind: str, ne: tuple[int, ...], pad_rows: bool = True) -> int:
    """Bytes of a tensor in a device buffer.

    CUDA pads the last row of a quantised tensor to a multiple of 512 elements, and every tensor starts on 128 bytes.
    Source: ggml-cuda buffer type, checked on every row of llamacpp_memory.csv.
    """
    n = tensor_bytes(kind, ne)
    if pad_rows and BLOCKS[kind][0] > 1 and ne[0] % 512:
        n += row_bytes(kind, 512 - ne[0] % 512)
    return -(-n // 128) * 128


@lru_cache(maxsize=8192)
def both_sizes(kind: str, ne: tuple[int, ...]) -> tuple[int, int]:
    """Bytes of a tensor in a file, and in a device buffer."""
    return tensor_bytes(kind, ne), device_bytes(kind, ne)


__all__ = ["BLOCKS", "both_sizes", "device_bytes", "row_bytes", "tensor_bytes"]
