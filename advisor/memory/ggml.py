"""GGML block types: bytes of rows and tensors, as ggml lays them out on disk and on a device.

Source: ggml's type table (llama.cpp v0.5.0), measured in llamacpp_memory.csv (232 of 232 files byte for byte).
"""

from __future__ import annotations

from math import prod

# type -> (elements per block, bytes per block)
BLOCKS: dict[str, tuple[int, int]] = {
    "F32": (1, 4), "F16": (1, 2), "BF16": (1, 2),
    "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34), "Q8_1": (32, 36),
    "IQ4_NL": (32, 18), "MXFP4": (32, 17), "NVFP4": (64, 36),
    "Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210), "Q8_K": (256, 292),
    "IQ1_S": (256, 50), "IQ1_M": (256, 56), "IQ2_XXS": (256, 66), "IQ2_XS": (256, 74), "IQ2_S": (256, 82),
    "IQ3_XXS": (256, 98), "IQ3_S": (256, 110), "IQ4_XS": (256, 136), "TQ1_0": (256, 54), "TQ2_0": (256, 66),
    "F64": (1, 8), "I8": (1, 1), "I16": (1, 2), "I32": (1, 4), "I64": (1, 8),
}  # fmt: skip


def row_bytes(kind: str, n: int) -> int:
    """Bytes of one row of `n` elements. Raises KeyError for an unknown type, ValueError for a row that is not whole blocks."""
    elements, size = BLOCKS[kind]
    if n % elements:
        raise ValueError(f"a row of {n} elements is not a multiple of {elements} ({kind})")
    return n // elements * size


def tensor_bytes(kind: str, ne: tuple[int, ...]) -> int:
    """Bytes of a tensor in a file; `ne` lists elements per dimension, the row first."""
    return row_bytes(kind, ne[0]) * prod(ne[1:])


def device_bytes(kind: str, ne: tuple[int, ...], pad_rows: bool = True) -> int:
    """Bytes of a tensor in a device buffer.

    CUDA pads the last row of a quantised tensor to a multiple of 512 elements, and every tensor starts on 128 bytes.
    Source: ggml-cuda buffer type, checked on every row of llamacpp_memory.csv.
    """
    n = tensor_bytes(kind, ne)
    if pad_rows and BLOCKS[kind][0] > 1 and ne[0] % 512:
        n += row_bytes(kind, 512 - ne[0] % 512)
    return -(-n // 128) * 128
