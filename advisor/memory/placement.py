"""Where llama.cpp puts each layer: on which device, or in host memory.

Source: llama.cpp v0.5.0 model loader; checked per device on measured rows with several GPUs and partial offload.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

HOST = -1
KEPT = 1024  # placements remembered: a search asks for the same ones again and again


def layer_devices(n_layer: int, gpu_layers: int, shares: Sequence[float]) -> tuple[int, ...]:
    """Device index of each layer and, last, of the output matrix (n_layer + 1 entries); HOST for host memory.

    `gpu_layers` counts from the end, the output matrix included (n_layer + 1 = everything). `shares` weigh the devices:
    `--tensor-split` or free memory.
    """
    return _layer_devices(n_layer, gpu_layers, tuple(shares))


@lru_cache(KEPT)
def _layer_devices(n_layer: int, gpu_layers: int, shares: tuple[float, ...]) -> tuple[int, ...]:
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
