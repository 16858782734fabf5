"""llama.cpp's KV cache and recurrent state, to the byte.

Source: llama.cpp v0.5.0; 4,401 of 4,401 measured rows equal (llamacpp-memory.md section 3).
"""

from __future__ import annotations

from advisor.memory.ggml import BLOCKS, row_bytes
from advisor.memory.layers import LayerCache
from advisor.record import Record


def round_up(n: int, step: int) -> int:
    """`n` rounded up to a multiple of `step`."""
    return -(-n // step) * step


class CacheCells(Record, frozen=True, kw_only=True, cache_hash=True):
    """Size of the cache in cells (tokens): per stream for layers that grow, and for windowed ones."""

    streams: int
    cells: int
    window_cells: int

    @property
    def tokens(self) -> int:
        """Tokens that all streams together hold."""
        return self.streams * self.cells


def count_cells(n_ctx: int, slots: int, unified: bool, window: int | None, ubatch: int, swa_full: bool) -> CacheCells:
    """Cache cells for a total context of `n_ctx` tokens over `slots` sequences."""
    n_ctx = round_up(n_ctx, 256)
    streams = 1 if unified else slots
    per = n_ctx if unified else round_up(n_ctx // slots, 256)
    small = per
    if window and not swa_full:
        small = round_up(min(per, window * (slots if unified else 1) + ubatch), 256)
    return CacheCells(streams=streams, cells=per, window_cells=small)


def side_bytes(kind: str, width: int, n_cells: int, streams: int) -> int:
    """Bytes of the cells of the K or the V tensor of one layer; `width` elements per cell."""
    return row_bytes(kind, width) * n_cells * streams if width else 0


def layer_bytes(layer: LayerCache, cache_cells: CacheCells, kinds: tuple[str, str], windows: bool) -> int:
    """KV bytes of one layer. `windows` False: the engine ignores this architecture's sliding window."""
    n = cache_cells.window_cells if layer.window and windows else cache_cells.cells
    return side_bytes(kinds[0], layer.k, n, cache_cells.streams) + side_bytes(kinds[1], layer.v, n, cache_cells.streams)


def padding_bytes(layer: LayerCache, kinds: tuple[str, str]) -> int:
    """Bytes that a CUDA buffer adds behind the cells of one layer: the last row of a quantised tensor is padded to 512.

    llama.cpp's own figure of the cache is the cells'; its device buffer holds this as well.
    """
    return sum(
        round_up(row_bytes(kind, 512 - width % 512), 128)
        for kind, width in zip(kinds, (layer.k, layer.v), strict=True)
        if width and BLOCKS[kind][0] > 1 and width % 512
    )


def state_bytes(layer: LayerCache, slots: int) -> int:
    """Recurrent state of one layer: always F32, one per slot."""
    return 4 * slots * (layer.conv + layer.state)
