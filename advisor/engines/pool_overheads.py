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
from advisor.memo import memoize_by_identity
from advisor.memory.captured_graphs import size_graphs
from advisor.memory.rotary_tables import size_rotary_tables
from advisor.models.types import Model
from advisor.record import Value

LAYERS_ASSUMED = 40  # of a model whose layers are not known
Bounds = tuple[float, float, float]  # low, value, high
ByteBounds = tuple[int, int, int]


def size_overheads(
    deployment: Deployment, settings: PoolSettings, constants: PoolConstants
) -> tuple[ByteBounds, ByteBounds]:
    """Bytes of all parts of one rank: of the version, and with the bounds of all releases that may run.

    Source: the engine's constants, each with its own.
    """
    asked = get_integer(deployment.settings, "max-cudagraph-capture-size", least=0)
    devices = _describe_devices(fitting.used_devices(deployment))
    return _size(deployment.model, settings, constants, devices, asked)


@memoize_by_identity
def _size(
    model: Model, settings: PoolSettings, constants: PoolConstants, devices: _DeviceTraits, largest_capture: int | None
) -> tuple[ByteBounds, ByteBounds]:
    parts = _list_parts(model, settings, constants, devices, largest_capture)
    return _add([x[-1] for x in parts]), _add([join_bounds(x) for x in parts])


def _add(parts: Sequence[Bounds]) -> ByteBounds:
    low, value, high = (int(sum(x) * GIB) for x in zip(*parts, strict=True))
    return low, value, high


class _DeviceTraits(Value, frozen=True):
    """What of the devices the parts depend on; 0: no compute capability is known."""

    unified: bool
    least_capability: float
    first_capability: float


def _describe_devices(devices: Sequence[Device]) -> _DeviceTraits:
    known = [float(x.compute_capability) for x in devices if x.compute_capability]
    first = devices[0].compute_capability if devices else None
    return _DeviceTraits(any(x.unified for x in devices), min(known, default=0), float(first) if first else 0.0)


def _list_parts(
    model: Model, settings: PoolSettings, constants: PoolConstants, devices: _DeviceTraits, largest_capture: int | None
) -> tuple[tuple[Bounds, ...], ...]:
    """The parts in GiB: of each the bounds of every release that may run, those of the version last."""
    parts: list[tuple[Bounds, ...]] = [
        _list_rows(_list_kinds(constants, settings, devices)[0], settings),
        ((size_rotary_tables(model) / GIB,) * 3,),
    ]
    graphs = [x for x in constants.graphs_gib if settings.sequences >= x.from_sequences]
    if graphs and not settings.eager:
        most = max(x.from_sequences for x in graphs)
        parts.append(_list_rows([x for x in graphs if x.from_sequences == most], settings))
    if constants.captured_graphs and not settings.eager:
        parts.append(_captured(model, settings, constants, devices.first_capability, largest_capture))
    if constants.images_gib is not None and model.vision is not None and not settings.text_only:
        images = constants.images_gib
        parts.append(((images.low, images.value, images.high),))
    return tuple(parts)


def join_bounds(open_: Sequence[Bounds]) -> Bounds:
    """A part where any of several may hold: the value of the last, bounds of all."""
    return min(low for low, _, _ in open_), open_[-1][1], max(high for _, _, high in open_)


def _list_rows(rows: Sequence[RangeGib], settings: PoolSettings) -> tuple[Bounds, ...]:
    return tuple((x.low, x.value, x.high) for x in list_open(rows, settings.version, settings.oldest_version))


def list_overheads(constants: PoolConstants, settings: PoolSettings, devices: Sequence[Device]) -> tuple[RangeGib, ...]:
    """What lies outside the allocator: rows that hold for the release, the most specific first."""
    kinds = _list_kinds(constants, settings, _describe_devices(devices))
    return tuple(pick_version(rows, settings.version) for rows in kinds)


def _list_kinds(constants: PoolConstants, settings: PoolSettings, devices: _DeviceTraits) -> tuple[list[RangeGib], ...]:
    """Rows of all releases that hold for the deployment, the most specific first."""
    kinds: dict[tuple[bool, int, float], list[RangeGib]] = {}
    for row in constants.outside_gib:
        holds = row.unified <= devices.unified and devices.least_capability >= row.from_capability
        if holds and settings.tp >= row.from_ranks:
            kinds.setdefault((row.unified, row.from_ranks, row.from_capability), []).append(row)
    return tuple(kinds[k] for k in sorted(kinds, reverse=True))


def _captured(
    model: Model, settings: PoolSettings, constants: PoolConstants, capability: float, asked: int | None
) -> tuple[Bounds, ...]:
    """GiB of the captured graphs of a rank."""
    lay = model.layout
    layers = -(-(lay.n_layers if lay is not None else LAYERS_ASSUMED) // settings.pp)
    open_ = list_open(constants.captured_graphs, settings.version, settings.oldest_version)
    return tuple(size_graphs(graphs, layers, settings.sequences, capability, asked) for graphs in open_)
