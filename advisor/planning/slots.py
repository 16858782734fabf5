"""Engines that take memory for each request at start, or grow with them: how many are held at once on one server.

llama.cpp's slots are of full length each, or share one cache (`--kv-unified`), so that a few long requests or many
typical ones find room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from advisor.catalog.types import Engine
from advisor.deployment import Deployment, MemoryEstimate, Setting, SpeedEstimate
from advisor.engines.flags import find_own_flag
from advisor.planning.layouts import with_settings
from advisor.planning.offload import list_host_placements
from advisor.planning.traffic import Traffic
from advisor.planning.types import Ask

CELLS = 256  # tokens that llama.cpp's cache comes in
Sized = tuple[Deployment, MemoryEstimate]
Rate = Callable[[Deployment, MemoryEstimate], SpeedEstimate | None]


class PlacedSlots(NamedTuple):
    """The deployment with the most requests that fits for sure; one that may fit; one that does not."""

    sure: Sized | None
    unsure: Sized | None = None
    failed: Sized | None = None


def place_slots(base: Deployment, named: Engine, traffic: Traffic, offload: bool, ask: Ask, rate: Rate) -> PlacedSlots:
    """The server that holds the most of the asked requests, sharing one cache where they do not all fit whole."""
    first = _fitting(base, named, offload, ask, rate)
    if first.sure is None or traffic.users == 1:
        return first
    for wanted in _list_slots(base, named, traffic):
        found = _fitting(wanted, named, offload, ask, rate)
        if found.sure is not None:
            return found
    return first


def on_all_layers(deployment: Deployment, named: Engine) -> Deployment:
    """The deployment with all layers on its devices, where the engine has a setting for it."""
    layers = find_own_flag(named, "layers_on_device")
    there = deployment.machine is not None and deployment.machine.usable_devices
    return with_settings(deployment, {layers: "all"}) if layers and there else deployment


def _list_slots(base: Deployment, named: Engine, traffic: Traffic) -> Iterator[Deployment]:
    """As many whole slots as there are users, then slots that share one cache, then fewer."""
    users, context = traffic.users, traffic.context_length
    yield msgspec.structs.replace(base, sequences=users)
    shared, slots, total = (find_own_flag(named, k) for k in ("shared_cache", "sequences", "total_context"))
    if shared and slots and total and not traffic.full_length and base.model.kind == "chat":
        tokens = -(-max(context, traffic.safe_tokens(users)) // CELLS) * CELLS
        if tokens < users * context:
            settings: dict[str, Setting] = {slots: users, total: tokens, shared: True}
            yield msgspec.structs.replace(with_settings(base, settings), sequences=tokens // context)
    count = users // 2
    while count > 1:
        yield msgspec.structs.replace(base, sequences=count)
        count //= 2


def _fitting(deployment: Deployment, named: Engine, offload: bool, ask: Ask, rate: Rate) -> PlacedSlots:
    """The fastest placement that fits."""
    if not offload:
        made = on_all_layers(deployment, named)
        return _judged([(made, e)] if (e := ask(made)) is not None else [], rate)
    placed = ((d, e) for d in list_host_placements(deployment, named, ask) if (e := ask(d)) is not None)
    return _judged(list(placed), rate)


def _judged(found: list[Sized], rate: Rate) -> PlacedSlots:
    sure = [x for x in found if x[1].fits]
    if len(sure) > 1:
        sure = [max(sure, key=lambda x: _output(rate(*x)))]
    unsure = next((x for x in found if x[1].fits is None), None)
    return PlacedSlots(next(iter(sure), None), unsure, found[-1] if found else None)


def _output(speed: SpeedEstimate | None) -> float:
    return speed.output_tps.value if speed is not None and speed.output_tps is not None else 0.0
