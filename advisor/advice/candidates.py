"""The best deployment of one engine here: weight formats, cards, cache types and offload are tried until one fits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from advisor import engines, formats
from advisor.advice import formats_tried
from advisor.advice.added import added as launch_additions
from advisor.advice.defaults import orders
from advisor.advice.types import Tried
from advisor.advice.variants import variants, with_settings
from advisor.advice.wanted import Wanted
from advisor.catalog import Catalog
from advisor.catalog.types import Engine, Quantization
from advisor.decision.additions import Additions
from advisor.decision.filters import judge
from advisor.decision.types import Reason
from advisor.deployment import Deployment, MemoryEstimate, Setting
from advisor.engines import fitting
from advisor.engines.base import EngineModule
from advisor.engines.flags import own_flag
from advisor.errors import BadInput
from advisor.units import gib


class Found(NamedTuple):
    """A deployment and its estimate. `offload` = part of it runs from host memory."""

    deployment: Deployment
    memory: MemoryEstimate
    quantization: Quantization
    offload: bool
    notes: tuple[str, ...]
    tried: tuple[Tried, ...]
    added: tuple[str, ...] = ()  # what the guide says of the settings it added


class Refused(NamedTuple):
    """Why an engine offers nothing here."""

    reasons: tuple[Reason, ...]


def best(entry: Engine, w: Wanted, rules: Catalog) -> Found | Refused:
    """The engine's best deployment, or why there is none.

    Order: the formats as preferred with a 16-bit cache, then a smaller cache, then host memory takes the rest.
    """
    forbidden = w.policy.forbidden(entry.id, w.facts)
    if forbidden is not None:
        return Refused((forbidden,))
    verdict = judge(entry, w.facts, None, w.model, w.workload, asked=w.asked, requires=w.requires)
    if verdict.reasons:
        return Refused(verdict.reasons)
    foreign = _foreign_gguf(entry, w, rules)
    if foreign is not None:
        return Refused((foreign,))
    if entry.kind == "client":
        return Refused(())
    tried: list[Tried] = []
    refused: list[Reason] = []
    unsure: Found | None = None
    usable = list(formats_tried.usable(entry, w, rules, refused))
    kin, share = formats.family(entry, rules), orders(rules).unified_memory_share
    added = launch_additions(entry, w, rules)
    try:
        _, inner = engines.find(entry.id, rules.engines())
        named = engines.settings_entry(entry.id, rules.engines())
    except BadInput as e:  # an overlay's engine without a module
        return Refused((Reason(code="not_asked_for", rule=f"{entry.id}/module", text=e.message),))
    for offload in (False, True) if kin == "gguf" and w.machine.usable_devices else (False,):
        order = list(formats_tried.in_order(usable, formats_tried.cache_types(inner, w)))
        hopeless: dict[tuple[str, str], list[Tried]] = {}
        dead: dict[Placement, Tried] = {}
        for step, context in enumerate(w.contexts):
            tried.clear()  # what counts is why a format was not taken at the length that was
            if step == 1:  # what does not fit at the shortest length fits at none: asked once
                hopeless = _hopeless(entry, w, order, named, offload, share, added, rules, dead)
            probe, floor = _smallest(order), math.inf
            for kv, chosen in order:
                much = _too_much(w, chosen.quantization, offload or bool(inner.memory.get("experts_on_host")))
                if much is not None:
                    tried.append(much)
                    continue
                if (kv, chosen.quantization.id) in hopeless:
                    tried += hopeless[kv, chosen.quantization.id]
                    continue
                if chosen.quantization.bits_nominal >= floor:
                    continue
                look = _Look(entry, chosen, offload, rules, tried, verdict.warnings, dead)
                if tried and probe is not None:  # the first was refused: is there any use in going on?
                    (small_kv, small), probe, failed = probe, None, list[Tried]()
                    few = list(variants(entry, w, small.quantization, small_kv, context, named, offload, share, added))
                    floor = _floor(few, small, look._replace(chosen=small, tried=failed))
                    if chosen.quantization.bits_nominal >= floor:
                        tried += failed
                        continue
                found = list(variants(entry, w, chosen.quantization, kv, context, named, offload, share, added))
                for hit in _hits(found, look, sure=unsure is not None):
                    hit = hit._replace(added=added.notes)
                    if hit.memory.fits:
                        return hit
                    unsure = unsure or hit
    fewer = _fewer_at_once(entry, w, usable, named, rules, verdict.warnings, added)
    if fewer is not None and unsure is None:
        return fewer._replace(
            added=added.notes, tried=tuple(dict.fromkeys(t for t in tried if t.quantization != fewer.quantization.id))
        )
    if unsure is not None:
        return unsure
    if not tried and not refused:
        return Refused(
            (Reason(code="does_not_fit", rule=f"{entry.id}/memory", text=f"{entry.name}: nothing could be estimated"),)
        )
    texts = "; ".join(dict.fromkeys(t.text for t in tried if t.fits is False)) or None
    if texts:
        refused.append(Reason(code="does_not_fit", rule=f"{entry.id}/memory", text=texts, source="memory estimate"))
    return Refused(tuple(dict.fromkeys(refused)))


LEAST_SHARE = 0.8  # of parameters x bits: no format of the catalogue stores less


def _too_much(w: Wanted, q: Quantization, host: bool) -> Tried | None:
    """Formats whose weights alone, at the least, exceed all memory there is: no estimate is needed to refuse them."""
    sizes = [x.free_bytes if x.free_bytes is not None else x.total_bytes for x in w.machine.usable_devices]
    ram = w.machine.memory.usable_bytes
    if any(s is None for s in sizes) or w.path is not None or ((host or not sizes) and ram is None):
        return None
    room = sum(s for s in sizes if s is not None) * w.machine.nodes + ((ram or 0) if host or not sizes else 0)
    least = int(LEAST_SHARE * w.model.params_total * q.bits_nominal / 8)
    if least <= room:
        return None
    text = f"{q.id} does not fit: {gib(least)} of weights at the least, {gib(room)} there"
    return Tried(quantization=q.id, fits=False, text=text)


def _hopeless(
    entry: Engine,
    w: Wanted,
    order: list[tuple[str, formats.Chosen]],
    named: Engine,
    offload: bool,
    share: float,
    added: Additions,
    rules: Catalog,
    dead: dict[Placement, Tried],
) -> dict[tuple[str, str], list[Tried]]:
    """Cache types and formats of which no variant fits at the shortest length, with why."""
    out = {}
    probe, floor, why = _smallest(order), math.inf, list[Tried]()
    if probe is not None:
        small_kv, small = probe
        few = list(variants(entry, w, small.quantization, small_kv, w.contexts[-1], named, offload, share, added))
        floor = _floor(few, small, _Look(entry, small, offload, rules, why, (), dead))
    for kv, chosen in order:
        if chosen.quantization.bits_nominal >= floor:
            out[kv, chosen.quantization.id] = why
            continue
        failed: list[Tried] = []
        found = list(variants(entry, w, chosen.quantization, kv, w.contexts[-1], named, offload, share, added))
        if next(_hits(found, _Look(entry, chosen, offload, rules, failed, (), dead)), None) is None:
            out[kv, chosen.quantization.id] = failed
    return out


def _foreign_gguf(entry: Engine, w: Wanted, rules: Catalog) -> Reason | None:
    """A GGUF checkpoint alone never selects an engine of another format: those load it by plugins, with limits."""
    if entry.id in w.asked or w.quantization is None or formats.is_shorthand(w.quantization, rules):
        return None
    if rules.quantization(w.quantization).family != "gguf" or formats.family(entry, rules) == "gguf":
        return None
    support = entry.formats.get("gguf")
    note = f": {support.note}" if support and support.note else ""
    text = f"{entry.name}: GGUF is not its own format{note}; named with --engine it is looked at"
    return Reason(code="format_not_loadable", rule=f"{entry.id}/formats.gguf", text=text)


ENOUGH_HELD = 0.75  # of the most requests that any format holds: below it the preferred format costs too much


def _fewer_at_once(
    entry: Engine,
    w: Wanted,
    usable: list[formats.Chosen],
    named: Engine,
    rules: Catalog,
    warnings: tuple[Reason, ...],
    added: Additions,
) -> Found | None:
    """Engines with a pool queue what does not fit: the deployment that holds the most requests at full length."""
    asked = w.workload.concurrency
    if own_flag(entry, "tensor_parallel") is None or asked < 2 or not w.machine.usable_devices:
        return None
    module, inner = engines.find(entry.id, rules.engines())
    share = orders(rules).unified_memory_share
    choices = [
        (chosen, list(variants(entry, w, chosen.quantization, kv, w.contexts[-1], named, False, share, added)))
        for kv in formats_tried.cache_types(inner, w)
        for chosen in usable
        if _too_much(w, chosen.quantization, False) is None
    ]
    most = {id(ds): _held(ds[-1], module, inner, chosen.quantization) for chosen, ds in choices if ds}
    enough = ENOUGH_HELD * max(most.values(), default=0)
    for chosen, ds in choices:  # in the order of preference; on all cards a format holds the most
        if not ds or most[id(ds)] < max(enough, 1):
            continue
        for d in ds:
            held = most[id(ds)] if d is ds[-1] else _held(d, module, inner, chosen.quantization)
            if held < max(enough, 1):
                continue
            placed = msgspec.structs.replace(d, sequences=min(asked, held))
            m = module.memory(placed, inner, chosen.quantization)
            at_once = own_flag(entry, "sequences")
            if at_once:  # the server still takes all of them; what does not fit waits
                placed = with_settings(placed, {at_once: asked})
            note = (
                f"{min(asked, held)} of {asked} requests of {m.context_length} tokens are held at once; "
                "the others wait, unless requests are shorter"
            )
            return Found(placed, m, chosen.quantization, False, (note, *(r.text for r in warnings)), ())
    return None


def _held(d: Deployment, module: EngineModule, inner: Engine, q: Quantization) -> int:
    """Requests of full length that the pool surely holds; 0 where even one does not fit."""
    try:
        m = module.memory(msgspec.structs.replace(d, sequences=1), inner, q)
    except BadInput:
        return 0
    first = m.devices[0] if m.devices else None
    need = (first.kv_cache_bytes or 0) + (first.recurrent_state_bytes or 0) if first else 0
    return (m.kv_cache.available_low_bytes or 0) // need if m.fits and need else 0


Placement = tuple[str, int | None, frozenset[tuple[str, Setting]], bool]


class _Look(NamedTuple):
    """What an estimate of one format on one engine needs. What does not fit is noted in `tried`; in `dead` where its
    weights alone are too much, since then no cache and no length helps."""

    entry: Engine
    chosen: formats.Chosen
    offload: bool
    rules: Catalog
    tried: list[Tried]
    warnings: tuple[Reason, ...]
    dead: dict[Placement, Tried]


def _hits(variants: Sequence[Deployment], look: _Look, sure: bool = False) -> Iterator[Found]:
    """Those of the variants that fit, or may, in their order; with `sure` those that may are not asked for.

    Where they are counts of cards, the most cards are asked first: what is short of memory there is on fewer, too, and
    what only may fit there is not sure to fit on fewer.
    """
    last: Found | None = None
    counts = len(variants) > 1 and all(d.device_count for d in variants)
    if counts:
        last, short, _ = _looked(variants[-1], look)
        if short or (sure and last is not None and not last.memory.fits):
            return
    for d in variants[:-1] if counts else variants:
        found = _looked(d, look).found
        if found is not None:
            yield found
    if last is not None:
        yield last


class _Looked(NamedTuple):
    """What an estimate came to: None when it does not fit; whether memory is what it is short of, and by far."""

    found: Found | None
    short: bool = False
    far: bool = False


def _looked(d: Deployment, look: _Look) -> _Looked:
    """One deployment estimated."""
    chosen, tried = look.chosen, look.tried
    place: Placement = (chosen.quantization.id, d.device_count, frozenset(d.settings.items()), look.offload)
    if place in look.dead:
        tried.append(look.dead[place])
        return _Looked(None, True)
    module, inner = engines.find(look.entry.id, look.rules.engines())
    try:
        m = module.memory(d, inner, chosen.quantization)
    except BadInput as e:
        tried.append(Tried(quantization=chosen.quantization.id, fits=None, text=e.message))
        return _Looked(None)
    if m.fits is False:
        failed = Tried(quantization=chosen.quantization.id, fits=False, text=_why(d, m, chosen.quantization))
        tried.append(failed)
        if _weights_alone(m):
            look.dead[place] = failed
        return _Looked(None, bool(m.short), bool(m.short) and _far(d, m))
    notes = [chosen.note] if chosen.note else []
    notes += [r.text for r in look.warnings]
    mine = tuple(t for t in dict.fromkeys(tried) if t.quantization != chosen.quantization.id)
    return _Looked(Found(d, m, chosen.quantization, look.offload or _on_host(m), tuple(notes), mine))


WIDER = 1.2  # bits over the smallest format's: what is this much wider is larger, whatever each leaves at 16 bit


def _floor(few: Sequence[Deployment], small: formats.Chosen, look: _Look) -> float:
    """Bits per weight from which on nothing fits, asked of the smallest format: none where it fits, all where it is far
    from it, else what is clearly wider."""
    seen = _looked(few[-1], look) if few else _Looked(None)
    return 0.0 if seen.far else WIDER * small.quantization.bits_nominal if seen.short else math.inf


def _smallest(order: Sequence[tuple[str, formats.Chosen]]) -> tuple[str, formats.Chosen] | None:
    """The cache type and format of the fewest bits; None where there is little to save by asking it first."""
    if len(order) < 4:
        return None
    return min(order, key=lambda x: (x[1].quantization.bits_nominal, x[0] == "auto"))


FAR = 1.15  # formats of one width differ by less, so where the smallest is short by this much all are


def _far(d: Deployment, m: MemoryEstimate) -> bool:
    """Whether a place wants far more than it has; memory that devices and host share is one place."""
    places = [x for x in (*m.devices, m.host, fitting.together(d, m.devices, m.host)) if x is not None]
    return any(r.budget_bytes is not None and (r.low_bytes or 0) > FAR * r.budget_bytes for r in places)


def _weights_alone(m: MemoryEstimate) -> bool:
    """Whether the weights of a place are more than it has."""
    places = [*m.devices, *((m.host,) if m.host else ())]
    rooms = [r.budget_bytes if r.budget_bytes is not None else r.capacity_bytes for r in places]
    return any(room is not None and (r.weights_bytes or 0) > room for r, room in zip(places, rooms, strict=True))


def _on_host(m: MemoryEstimate) -> bool:
    """Whether a good part of the weights runs from host memory beside devices."""
    host = (m.host.weights_bytes or 0) if m.host else 0
    return bool(m.devices) and host > 0.3 * (host + sum(r.weights_bytes or 0 for r in m.devices))


def _why(d: Deployment, m: MemoryEstimate, q: Quantization) -> str:
    weights = sum(r.weights_bytes or 0 for r in m.devices) or (m.host.weights_bytes or 0 if m.host else 0)
    cards = f" on {len(m.devices)} cards" if len(m.devices) > 1 else ""
    cache = "" if d.kv_cache_type.k == "auto" else f" with {d.kv_cache_type.k} KV cache"
    what = (
        "; ".join(m.short)
        or "; ".join(w for w in m.warnings if "divisible" in w or "needs" in w)
        or "not enough memory"
    )
    return f"{q.id}{cards}{cache} does not fit: {gib(weights)} ({weights / 1e9:.1f} GB) of weights; {what}"


__all__ = ["Found", "Refused", "best"]
