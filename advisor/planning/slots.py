"""Engines that take memory for each request at start, or grow with them: how many are held at once on one server.

llama.cpp's slots are of full length each, or share one cache (`--kv-unified`), so that a few long requests or many
typical ones find room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from advisor.catalog.types import Engine
from advisor.deployment import SIXTEEN_BIT_CACHES, Deployment, MemoryEstimate, Setting, SpeedEstimate
from advisor.engines.flags import find_own_flag
from advisor.planning.layouts import list_host_placements, with_settings
from advisor.planning.objective import output_rate
from advisor.planning.traffic import Traffic
from advisor.planning.types import Ask
from advisor.record import Value

CELLS = 256  # tokens that llama.cpp's cache comes in
Sized = tuple[Deployment, MemoryEstimate]
Rate = Callable[[Deployment, MemoryEstimate], SpeedEstimate | None]


class PlacedSlots(Value, frozen=True):
    """The deployment with the most requests that fits for sure; one that may fit; one that does not."""

    sure: Sized | None
    unsure: Sized | None = None
    failed: Sized | None = None


def place_slots(base: Deployment, named: Engine, traffic: Traffic, offload: bool, ask: Ask, rate: Rate) -> PlacedSlots:
    """The server that holds the most of the asked requests, sharing one cache where they do not all fit whole."""
    if traffic.users == 1:
        return _place_fastest(base, named, traffic, offload, ask, rate)
    every = replace(base, sequences=traffic.users)
    if not offload:  # the usual case first
        whole = _place_fastest(every, named, traffic, offload, ask, rate)
        if whole.sure is not None:
            return whole
    first = _place_one(base, named, offload, ask)
    if first.sure is None:
        return first
    shared = _share_cache(base, named, traffic)
    # with experts on the host less cache leaves more room for them on the cards
    candidates = [*([shared] if shared is not None else []), *([every] if offload else []), *_list_fewer(base, traffic)]
    for deployment in candidates:
        if not _is_too_much(deployment, first.sure[1]):
            found = _place_fastest(deployment, named, traffic, offload, ask, rate)
            if found.sure is not None:
                return found
    return _place_fastest(base, named, traffic, offload, ask, rate)


def _place_one(base: Deployment, named: Engine, offload: bool, ask: Ask) -> PlacedSlots:
    """Whether one request is held at all: with host memory, with as little as possible on the cards."""
    made = on_all_layers(base, named)
    whole = find_own_flag(named, "experts_on_host")
    if offload:
        made = with_settings(made, {whole: True}) if whole and base.model.is_moe else base
    estimate = ask(made)
    return _sort_by_fit([] if estimate is None else [(made, estimate)], None)


def _is_too_much(candidates: Deployment, one: MemoryEstimate) -> bool:
    """Whether the cache of so many requests alone exceeds what one request leaves of all memory."""
    rows = [*one.devices, *([one.host] if one.host is not None else [])]
    budgets = [r.budget_bytes for r in rows if r.budget_bytes is not None]
    if len(budgets) < len(one.devices):
        return False
    held = sum(r.kv_cache_bytes or 0 for r in rows)
    return sum(r.weights_bytes or 0 for r in rows) + candidates.sequences * held > sum(budgets)


def on_all_layers(deployment: Deployment, named: Engine) -> Deployment:
    """The deployment with all layers on its devices, where the engine has a setting for it."""
    layers = find_own_flag(named, "layers_on_device")
    there = deployment.machine is not None and deployment.machine.usable_devices
    return with_settings(deployment, {layers: "all"}) if layers and there else deployment


def _share_cache(base: Deployment, named: Engine, traffic: Traffic) -> Deployment | None:
    """Slots for all users that share one cache; None where the engine has none, or whole slots take no more."""
    users, context = traffic.users, traffic.context_length
    shared, slots, total = (find_own_flag(named, k) for k in ("shared_cache", "sequences", "total_context"))
    if not (shared and slots and total) or traffic.full_length or base.model.kind != "chat":
        return None
    tokens = -(-max(context, traffic.safe_tokens(users)) // CELLS) * CELLS
    if tokens >= users * context:
        return None
    settings: dict[str, Setting] = {slots: users, total: tokens, shared: True}
    return replace(with_settings(base, settings), sequences=tokens // context)


def _list_fewer(base: Deployment, traffic: Traffic) -> Iterator[Deployment]:
    """Half as many whole slots as there are users, then half of these."""
    count = traffic.users // 2
    while count > 1:
        yield replace(base, sequences=count)
        count //= 2


def _place_fastest(
    deployment: Deployment, named: Engine, traffic: Traffic, offload: bool, ask: Ask, rate: Rate
) -> PlacedSlots:
    """The fastest placement that fits."""
    placed: Iterable[Deployment] = [on_all_layers(deployment, named)]
    if offload:
        placed = list_host_placements(deployment, named, ask, traffic.prompt.mean)
    found = _sort_by_fit([(d, e) for d in placed if (e := ask(d)) is not None], rate)
    split = None if offload or found.sure is None else _split_layers(found.sure[0], named)
    estimate = ask(split) if split is not None else None
    if split is None or estimate is None or not estimate.fits or found.sure is None or named.split_layers is None:
        return found
    now, then = output_rate(rate(*found.sure)), output_rate(rate(split, estimate))
    return PlacedSlots((split, estimate)) if then > named.split_layers.worth * now else found


def _split_layers(whole: Deployment, named: Engine) -> Deployment | None:
    """The deployment with each layer split over equal cards; None where the engine does not do it here."""
    known, machine = named.split_layers, whole.machine
    cards = machine.usable_devices if machine is not None else ()
    if known is None or len(cards) < 2 or len({(d.name, d.total_bytes) for d in cards}) > 1:
        return None
    runs = whole.backend in (None, "cuda") and cards[0].vendor in known.vendors
    if not runs or whole.kv_cache_type.k not in SIXTEEN_BIT_CACHES or whole.model.gguf_name not in known.architectures:
        return None
    why = "equal cards work on each layer together, which is faster for few requests; experimental in this engine"
    made = replace(whole, because={**whole.because, **dict.fromkeys(known.settings, why)})
    return with_settings(made, dict(known.settings))


def _sort_by_fit(found: list[Sized], rate: Rate | None) -> PlacedSlots:
    sure = [x for x in found if x[1].fits]
    if len(sure) > 1 and rate is not None:
        sure = [max(sure, key=lambda x: output_rate(rate(*x)))]
    unsure = next((x for x in found if x[1].fits is None), None)
    return PlacedSlots(next(iter(sure), None), unsure, found[-1] if found else None)
