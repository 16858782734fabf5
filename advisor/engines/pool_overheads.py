"""What a rank of a pool engine holds next to weights and cache: context, libraries, graphs, tables, image profiling."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.deployment import Deployment
from advisor.engines import fitting
from advisor.engines.base import get_integer
from advisor.engines.pool_constants import GIB, PoolConstants, RangeGib
from advisor.engines.pool_settings import PoolSettings
from advisor.engines.versions import list_open, pick_version
from advisor.machines.types import Device
from advisor.memory.captured_graphs import size_graphs
from advisor.memory.rotary_tables import size_rotary_tables

LAYERS_ASSUMED = 40  # of a model whose layers are not known
Bounds = tuple[float, float, float]  # low, value, high


def list_parts(deployment: Deployment, settings: PoolSettings, constants: PoolConstants) -> list[Sequence[Bounds]]:
    """The parts of one rank in GiB: of each the bounds of every release that may run, those of the version last.

    Source: the engine's constants, each with its own.
    """
    outside = _list_kinds(constants, settings, fitting.used_devices(deployment))[0]
    parts: list[Sequence[Bounds]] = [
        _list_rows(outside, settings),
        [(size_rotary_tables(deployment.model) / GIB,) * 3],
    ]
    graphs = [x for x in constants.graphs_gib if settings.sequences >= x.from_sequences]
    if graphs and not settings.eager:
        most = max(x.from_sequences for x in graphs)
        parts.append(_list_rows([x for x in graphs if x.from_sequences == most], settings))
    if constants.captured_graphs and not settings.eager:
        parts.append(_captured(deployment, settings, constants))
    if constants.images_gib is not None and deployment.model.vision is not None and not settings.text_only:
        images = constants.images_gib
        parts.append([(images.low, images.value, images.high)])
    return parts


def join_bounds(open_: Sequence[Bounds]) -> Bounds:
    """A part where any of several may hold: the value of the last, bounds of all."""
    return min(low for low, _, _ in open_), open_[-1][1], max(high for _, _, high in open_)


def _list_rows(rows: Sequence[RangeGib], settings: PoolSettings) -> list[Bounds]:
    return [(x.low, x.value, x.high) for x in list_open(rows, settings.version, settings.oldest_version)]


def list_overheads(constants: PoolConstants, settings: PoolSettings, devices: Sequence[Device]) -> tuple[RangeGib, ...]:
    """What lies outside the allocator: rows that hold for the release, the most specific first."""
    return tuple(pick_version(rows, settings.version) for rows in _list_kinds(constants, settings, devices))


def _list_kinds(
    constants: PoolConstants, settings: PoolSettings, devices: Sequence[Device]
) -> tuple[list[RangeGib], ...]:
    """Rows of all releases that hold for the deployment, the most specific first."""
    unified = any(x.unified for x in devices)
    known = [float(x.compute_capability) for x in devices if x.compute_capability]
    kinds: dict[tuple[bool, int, float], list[RangeGib]] = {}
    for row in constants.outside_gib:
        if row.unified <= unified and settings.tp >= row.from_ranks and min(known, default=0) >= row.from_capability:
            kinds.setdefault((row.unified, row.from_ranks, row.from_capability), []).append(row)
    return tuple(kinds[k] for k in sorted(kinds, reverse=True))


def _captured(deployment: Deployment, settings: PoolSettings, constants: PoolConstants) -> list[Bounds]:
    """GiB of the captured graphs of a rank."""
    lay = deployment.model.layout
    first = next(iter(fitting.used_devices(deployment)), None)
    capability = float(first.compute_capability) if first and first.compute_capability else 0.0
    asked = get_integer(deployment.settings, "max-cudagraph-capture-size", least=0)
    layers = -(-(lay.n_layers if lay is not None else LAYERS_ASSUMED) // settings.pp)
    open_ = list_open(constants.captured_graphs, settings.version, settings.oldest_version)
    return [size_graphs(graphs, layers, settings.sequences, capability, asked) for graphs in open_]
