"""What llama.cpp lays out in memory: blocks and rows of tensors, cells of caches, layers on devices.

Source: ggml's type table (llama.cpp v0.5.0), measured in llamacpp_memory.csv (232 of 232 files byte for byte).
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import groupby
from math import prod

from advisor.memory.layers import LayerCache
from advisor.models.tensors import BLOCKS, row_bytes
from advisor.record import Record


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
    return round_up(n, 128)


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


def layer_bytes(layer: LayerCache, cache_cells: CacheCells, kinds: tuple[str, str], windows: bool) -> int:
    """KV bytes of one layer. `windows` False: the engine ignores this architecture's sliding window."""
    n = cache_cells.window_cells if layer.window and windows else cache_cells.cells
    sides = zip(kinds, (layer.k, layer.v), strict=True)
    return sum(row_bytes(kind, width) * n * cache_cells.streams for kind, width in sides if width)


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


HOST = -1
KEPT = 1024  # placements remembered: a search asks for the same ones again and again


@lru_cache(KEPT)
def layer_devices(n_layer: int, gpu_layers: int, shares: tuple[float, ...]) -> tuple[int, ...]:
    """Device index of each layer and, last, of the output matrix (n_layer + 1 entries); HOST for host memory.

    `gpu_layers` counts from the end, the output matrix included (n_layer + 1 = everything). `shares` weigh the devices:
    `--tensor-split` or free memory.
    """
    n_devices = len(shares)
    units = n_layer + 1
    on_gpu = max(0, min(gpu_layers, units)) if n_devices else 0
    first = units - on_gpu
    total = float(sum(shares))
    if total <= 0 and on_gpu:
        raise ValueError("the devices' shares sum to nothing")
    bounds, run = [], 0.0
    for s in shares:
        run += s
        bounds.append(run / total if total else 0.0)
    out = [HOST] * first
    for i in range(first, units):
        out.append(min(bisect_right(bounds, (i - first) / on_gpu), n_devices - 1))
    return tuple(out)


@lru_cache(KEPT)
def find_stretches(where: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    """(place, first layer, layer behind the last) of layers that stand together."""
    out, begin = [], 0
    for place, group in groupby(where):
        end = begin + sum(1 for _ in group)
        out.append((place, begin, end))
        begin = end
    return tuple(out)
