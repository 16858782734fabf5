"""Scratch of llama-server: what the compute graph takes on each device and in host memory."""

from __future__ import annotations

from advisor.deployment import Basis
from advisor.engines.llama_cpp_settings import LlamaSettings
from advisor.engines.llama_cpp_weights import keeps_on_host
from advisor.memory import ggml_cache, ggml_compute
from advisor.memory.ggml_step import StepShape
from advisor.memory.placement import HOST, find_stretches
from advisor.models.types import Model


def uses_windows(model: Model) -> bool:
    """Whether the engine limits the cache of windowed layers: as its architecture says, else as the file does."""
    return model.gguf_architecture is not None and model.gguf_architecture.windows is not None


def plan_scratch(
    model: Model,
    where: tuple[int, ...],
    cells: ggml_cache.CacheCells,
    settings: LlamaSettings,
    windowed: bool,
    n_devices: int,
    borrowed: ggml_compute.Borrowed,
    only: int | None = None,
) -> tuple[dict[int, int], Basis]:
    """Bytes of scratch per place, and how sure they are.

    `where`: place of each layer, output last. `windowed`: some layers look back a limited number of tokens. `borrowed`:
    matrices in host memory that a GPU borrows for long prompts, by layer. `only`: the one device that is looked at.
    """
    lay = model.layout
    assert lay is not None
    on_host = not n_devices or all(p == HOST for p in where)
    tokens = ggml_cache.round_up(min(settings.ctx_size, settings.ubatch), settings.slots)
    shape = StepShape(
        tokens=tokens,
        sequences=settings.slots,
        outputs=min(tokens, settings.slots),
        cells=cells.cells,
        window_cells=cells.window_cells if windowed and uses_windows(model) else 0,
        streams=cells.streams,
        flash=settings.flash,
        gpu=not on_host,
        key_type=settings.cache_k.upper(),
        value_type=settings.cache_v.upper(),
    )
    single = ggml_compute.count_scratch(model, shape)
    architecture = model.gguf_architecture
    followed = single.known and architecture is not None and architecture.listed and architecture.graph.whole
    basis: Basis = "exact" if followed else "modelled"
    logits = 4 * lay.vocab_size * settings.slots
    if on_host:
        return {HOST: single.device + logits}, basis
    out = _split(model, shape, where, settings, n_devices, borrowed, only)
    out[HOST] = single.host + logits
    whole = n_devices == 1 and not keeps_on_host(where[:-1], settings)
    return out, basis if whole else "modelled"


def _split(
    model: Model,
    shape: StepShape,
    where: tuple[int, ...],
    settings: LlamaSettings,
    n_devices: int,
    borrowed: ggml_compute.Borrowed,
    only: int | None,
) -> dict[int, int]:
    """Bytes of each device."""
    assert model.layout is not None
    layers = model.layout.n_layers
    if n_devices == 1:
        return {0: ggml_compute.count_scratch(model, shape, borrowed=borrowed).device}
    own = {place: (begin, end) for place, begin, end in find_stretches(where[:-1]) if place != HOST}
    if not keeps_on_host(where[:-1], settings) and not settings.overrides and len(own) == n_devices:
        asked = range(n_devices) if only is None else (only,)
        sizes = ggml_compute.split_scratch(model, shape, [own[i] for i in asked])
        return dict(zip(asked, sizes, strict=True))
    # one batch at a time, and what lies in host memory is borrowed by the first device
    out = {}
    for device in range(n_devices) if only is None else (only,):
        begin, end = own.get(device, (layers, layers))
        if device == 0:
            here = ggml_compute.count_scratch(model, shape, 0, max(1, end if 0 in own else 0), borrowed).device
            out[device] = max(here, ggml_compute.count_borrowed(model, shape, borrowed[end:]))
        else:
            out[device] = ggml_compute.count_scratch(model, shape, min(begin, layers - 1), end).device
    return out
