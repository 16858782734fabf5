"""The best deployment of one engine here: weight formats, cards, cache types and offload are tried until one fits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from advisor import engines, formats
from advisor.advice import format_candidates
from advisor.advice.defaults import load_workload_defaults
from advisor.advice.engine_additions import find_engine_additions as launch_additions
from advisor.advice.search_request import SearchRequest
from advisor.advice.types import TriedFormat
from advisor.advice.variants import list_variants, with_settings
from advisor.catalog import Catalog
from advisor.catalog.types import Engine, Quantization
from advisor.decision.additions import Additions
from advisor.decision.filters import judge_engine
from advisor.decision.types import Reason
from advisor.deployment import Deployment, MemoryEstimate, Setting
from advisor.engines import fitting
from advisor.engines.base import EngineModule
from advisor.engines.flags import find_own_flag
from advisor.errors import BadInput
from advisor.estimation import estimate_memory
from advisor.units import format_gib


class Candidate(NamedTuple):
    """A deployment and its estimate. `offload` = part of it runs from host memory."""

    deployment: Deployment
    memory: MemoryEstimate
    quantization: Quantization
    offload: bool
    notes: tuple[str, ...]
    tried: tuple[TriedFormat, ...]
    added: tuple[str, ...] = ()  # what the guide says of the settings it added


class Rejection(NamedTuple):
    """Why an engine offers nothing here."""

    reasons: tuple[Reason, ...]


def find_best_candidate(entry: Engine, search: SearchRequest, rules: Catalog) -> Candidate | Rejection:
    """The engine's best deployment, or why there is none.

    Order: the formats as preferred with a 16-bit cache, then a smaller cache, then host memory takes the rest.
    """
    forbidden = search.policy.forbidden(entry.id, search.facts)
    if forbidden is not None:
        return Rejection((forbidden,))
    verdict = judge_engine(
        entry, search.facts, None, search.model, search.workload, asked=search.asked, requires=search.requires
    )
    if verdict.reasons:
        return Rejection(verdict.reasons)
    foreign = _foreign_gguf(entry, search, rules)
    if foreign is not None:
        return Rejection((foreign,))
    if entry.kind == "client":
        return Rejection(())
    tried: list[TriedFormat] = []
    refused: list[Reason] = []
    unsure: Candidate | None = None
    usable = list(format_candidates.find_usable_formats(entry, search, rules, refused))
    kin, share = formats.format_family(entry, rules), load_workload_defaults(rules).unified_memory_share
    added = launch_additions(entry, search, rules)
    try:
        _, inner = engines.find_engine_module(entry.id, rules.engines())
        named = engines.settings_entry(entry.id, rules.engines())
    except BadInput as e:  # an overlay's engine without a module
        return Rejection((Reason(code="not_asked_for", rule=f"{entry.id}/module", text=e.message),))
    for offload in (False, True) if kin == "gguf" and search.machine.usable_devices else (False,):
        order = list(format_candidates.order_formats(usable, format_candidates.list_cache_types(inner, search)))
        hopeless: dict[tuple[str, str], list[TriedFormat]] = {}
        dead: dict[Placement, TriedFormat] = {}
        for step, context in enumerate(search.contexts):
            tried.clear()  # what counts is why a format was not taken at the length that was
            if step == 1:  # what does not fit at the shortest length fits at none: asked once
                hopeless = _hopeless(entry, search, order, named, offload, share, added, rules, dead)
            probe, floor = _smallest(order), math.inf
            for kv, chosen in order:
                much = _too_much(search, chosen.quantization, offload or bool(inner.memory.get("experts_on_host")))
                if much is not None:
                    tried.append(much)
                    continue
                if (kv, chosen.quantization.id) in hopeless:
                    tried += hopeless[kv, chosen.quantization.id]
                    continue
                if chosen.quantization.bits_nominal >= floor:
                    continue
                attempt = _FormatAttempt(entry, chosen, offload, rules, tried, verdict.warnings, dead)
                if tried and probe is not None:  # the first was refused: is there any use in going on?
                    (small_kv, small), probe, failed = probe, None, list[TriedFormat]()
                    few = list(
                        list_variants(
                            entry, search, small.quantization, small_kv, context, named, offload, share, added
                        )
                    )
                    floor = _floor(few, small, attempt._replace(chosen=small, tried=failed))
                    if chosen.quantization.bits_nominal >= floor:
                        tried += failed
                        continue
                found = list(
                    list_variants(entry, search, chosen.quantization, kv, context, named, offload, share, added)
                )
                for candidate in _hits(found, attempt, sure=unsure is not None):
                    candidate = candidate._replace(added=added.notes)
                    if candidate.memory.fits:
                        return candidate
                    unsure = unsure or candidate
    fewer = _fewer_at_once(entry, search, usable, named, rules, verdict.warnings, added)
    if fewer is not None and unsure is None:
        return fewer._replace(
            added=added.notes, tried=tuple(dict.fromkeys(t for t in tried if t.quantization != fewer.quantization.id))
        )
    if unsure is not None:
        return unsure
    if not tried and not refused:
        return Rejection(
            (Reason(code="does_not_fit", rule=f"{entry.id}/memory", text=f"{entry.name}: nothing could be estimated"),)
        )
    texts = "; ".join(dict.fromkeys(t.text for t in tried if t.fits is False)) or None
    if texts:
        refused.append(Reason(code="does_not_fit", rule=f"{entry.id}/memory", text=texts, source="memory estimate"))
    return Rejection(tuple(dict.fromkeys(refused)))


LEAST_SHARE = 0.8  # of parameters x bits: no format of the catalogue stores less


def _too_much(search: SearchRequest, quantization: Quantization, host: bool) -> TriedFormat | None:
    """Formats whose weights alone, at the least, exceed all memory there is: no estimate is needed to refuse them."""
    sizes = [x.free_bytes if x.free_bytes is not None else x.total_bytes for x in search.machine.usable_devices]
    ram = search.machine.memory.usable_bytes
    if any(s is None for s in sizes) or search.path is not None or ((host or not sizes) and ram is None):
        return None
    room = sum(s for s in sizes if s is not None) * search.machine.nodes + ((ram or 0) if host or not sizes else 0)
    least = int(LEAST_SHARE * search.model.params_total * quantization.bits_nominal / 8)
    if least <= room:
        return None
    text = f"{quantization.id} does not fit: {format_gib(least)} of weights at the least, {format_gib(room)} there"
    return TriedFormat(quantization=quantization.id, fits=False, text=text)


def _hopeless(
    entry: Engine,
    search: SearchRequest,
    order: list[tuple[str, formats.FormatChoice]],
    named: Engine,
    offload: bool,
    share: float,
    added: Additions,
    rules: Catalog,
    dead: dict[Placement, TriedFormat],
) -> dict[tuple[str, str], list[TriedFormat]]:
    """Cache types and formats of which no variant fits at the shortest length, with why."""
    out = {}
    probe, floor, why = _smallest(order), math.inf, list[TriedFormat]()
    if probe is not None:
        small_kv, small = probe
        few = list(
            list_variants(
                entry, search, small.quantization, small_kv, search.contexts[-1], named, offload, share, added
            )
        )
        floor = _floor(few, small, _FormatAttempt(entry, small, offload, rules, why, (), dead))
    for kv, chosen in order:
        if chosen.quantization.bits_nominal >= floor:
            out[kv, chosen.quantization.id] = why
            continue
        failed: list[TriedFormat] = []
        found = list(
            list_variants(entry, search, chosen.quantization, kv, search.contexts[-1], named, offload, share, added)
        )
        if next(_hits(found, _FormatAttempt(entry, chosen, offload, rules, failed, (), dead)), None) is None:
            out[kv, chosen.quantization.id] = failed
    return out


def _foreign_gguf(entry: Engine, search: SearchRequest, rules: Catalog) -> Reason | None:
    """A GGUF checkpoint alone never selects an engine of another format: those load it by plugins, with limits."""
    if entry.id in search.asked or search.quantization is None or formats.is_shorthand(search.quantization, rules):
        return None
    if rules.quantization(search.quantization).family != "gguf" or formats.format_family(entry, rules) == "gguf":
        return None
    support = entry.formats.get("gguf")
    note = f": {support.note}" if support and support.note else ""
    text = f"{entry.name}: GGUF is not its own format{note}; named with --engine it is looked at"
    return Reason(code="format_not_loadable", rule=f"{entry.id}/formats.gguf", text=text)


ENOUGH_HELD = 0.75  # of the most requests that any format holds: below it the preferred format costs too much


def _fewer_at_once(
    entry: Engine,
    search: SearchRequest,
    usable: list[formats.FormatChoice],
    named: Engine,
    rules: Catalog,
    warnings: tuple[Reason, ...],
    added: Additions,
) -> Candidate | None:
    """Engines with a pool queue what does not fit: the deployment that holds the most requests at full length."""
    asked = search.workload.concurrency
    if find_own_flag(entry, "tensor_parallel") is None or asked < 2 or not search.machine.usable_devices:
        return None
    module, inner = engines.find_engine_module(entry.id, rules.engines())
    share = load_workload_defaults(rules).unified_memory_share
    choices = [
        (
            chosen,
            list(
                list_variants(entry, search, chosen.quantization, kv, search.contexts[-1], named, False, share, added)
            ),
        )
        for kv in format_candidates.list_cache_types(inner, search)
        for chosen in usable
        if _too_much(search, chosen.quantization, False) is None
    ]
    most = {id(ds): _held(ds[-1], module, inner, chosen.quantization) for chosen, ds in choices if ds}
    enough = ENOUGH_HELD * max(most.values(), default=0)
    for chosen, ds in choices:  # in the order of preference; on all cards a format holds the most
        if not ds or most[id(ds)] < max(enough, 1):
            continue
        for deployment in ds:
            held = most[id(ds)] if deployment is ds[-1] else _held(deployment, module, inner, chosen.quantization)
            if held < max(enough, 1):
                continue
            placed = msgspec.structs.replace(deployment, sequences=min(asked, held))
            estimate = estimate_memory(placed, module, inner, chosen.quantization)
            at_once = find_own_flag(entry, "sequences")
            if at_once:  # the server still takes all of them; what does not fit waits
                placed = with_settings(placed, {at_once: asked})
            note = (
                f"{min(asked, held)} of {asked} requests of {estimate.context_length} tokens are held at once; "
                "the others wait, unless requests are shorter"
            )
            return Candidate(placed, estimate, chosen.quantization, False, (note, *(r.text for r in warnings)), ())
    return None


def _held(deployment: Deployment, module: EngineModule, inner: Engine, quantization: Quantization) -> int:
    """Requests of full length that the pool surely holds; 0 where even one does not fit."""
    try:
        estimate = estimate_memory(msgspec.structs.replace(deployment, sequences=1), module, inner, quantization)
    except BadInput:
        return 0
    first = estimate.devices[0] if estimate.devices else None
    need = (first.kv_cache_bytes or 0) + (first.recurrent_state_bytes or 0) if first else 0
    return (estimate.kv_cache.available_low_bytes or 0) // need if estimate.fits and need else 0


Placement = tuple[str, int | None, frozenset[tuple[str, Setting]], bool]


class _FormatAttempt(NamedTuple):
    """What an estimate of one format on one engine needs. What does not fit is noted in `tried`; in `dead` where its
    weights alone are too much, since then no cache and no length helps."""

    entry: Engine
    chosen: formats.FormatChoice
    offload: bool
    rules: Catalog
    tried: list[TriedFormat]
    warnings: tuple[Reason, ...]
    dead: dict[Placement, TriedFormat]


def _hits(variants: Sequence[Deployment], attempt: _FormatAttempt, sure: bool = False) -> Iterator[Candidate]:
    """Those of the variants that fit, or may, in their order; with `sure` those that may are not asked for.

    Where they are counts of cards, the most cards are asked first: what is short of memory there is on fewer, too, and
    what only may fit there is not sure to fit on fewer.
    """
    last: Candidate | None = None
    counts = len(variants) > 1 and all(d.device_count for d in variants)
    if counts:
        last, short, _ = _looked(variants[-1], attempt)
        if short or (sure and last is not None and not last.memory.fits):
            return
    for deployment in variants[:-1] if counts else variants:
        candidate = _looked(deployment, attempt).found
        if candidate is not None:
            yield candidate
    if last is not None:
        yield last


class _AttemptOutcome(NamedTuple):
    """What an estimate came to: None when it does not fit; whether memory is what it is short of, and by far."""

    found: Candidate | None
    short: bool = False
    far: bool = False


def _looked(deployment: Deployment, attempt: _FormatAttempt) -> _AttemptOutcome:
    """One deployment estimated."""
    chosen, tried = attempt.chosen, attempt.tried
    place: Placement = (
        chosen.quantization.id,
        deployment.device_count,
        frozenset(deployment.settings.items()),
        attempt.offload,
    )
    if place in attempt.dead:
        tried.append(attempt.dead[place])
        return _AttemptOutcome(None, True)
    module, inner = engines.find_engine_module(attempt.entry.id, attempt.rules.engines())
    try:
        estimate = estimate_memory(deployment, module, inner, chosen.quantization)
    except BadInput as e:
        tried.append(TriedFormat(quantization=chosen.quantization.id, fits=None, text=e.message))
        return _AttemptOutcome(None)
    if estimate.fits is False:
        failed = TriedFormat(
            quantization=chosen.quantization.id, fits=False, text=_why(deployment, estimate, chosen.quantization)
        )
        tried.append(failed)
        if _weights_alone(estimate):
            attempt.dead[place] = failed
        return _AttemptOutcome(None, bool(estimate.short), bool(estimate.short) and _far(deployment, estimate))
    notes = [chosen.note] if chosen.note else []
    notes += [r.text for r in attempt.warnings]
    mine = tuple(t for t in dict.fromkeys(tried) if t.quantization != chosen.quantization.id)
    return _AttemptOutcome(
        Candidate(deployment, estimate, chosen.quantization, attempt.offload or _on_host(estimate), tuple(notes), mine)
    )


WIDER = 1.2  # bits over the smallest format's: what is this much wider is larger, whatever each leaves at 16 bit


def _floor(few: Sequence[Deployment], small: formats.FormatChoice, attempt: _FormatAttempt) -> float:
    """Bits per weight from which on nothing fits, asked of the smallest format: none where it fits, all where it is far
    from it, else what is clearly wider."""
    seen = _looked(few[-1], attempt) if few else _AttemptOutcome(None)
    return 0.0 if seen.far else WIDER * small.quantization.bits_nominal if seen.short else math.inf


def _smallest(order: Sequence[tuple[str, formats.FormatChoice]]) -> tuple[str, formats.FormatChoice] | None:
    """The cache type and format of the fewest bits; None where there is little to save by asking it first."""
    if len(order) < 4:
        return None
    return min(order, key=lambda x: (x[1].quantization.bits_nominal, x[0] == "auto"))


FAR = 1.15  # formats of one width differ by less, so where the smallest is short by this much all are


def _far(deployment: Deployment, estimate: MemoryEstimate) -> bool:
    """Whether a place wants far more than it has; memory that devices and host share is one place."""
    places = [
        x
        for x in (*estimate.devices, estimate.host, fitting.merge_rows(deployment, estimate.devices, estimate.host))
        if x is not None
    ]
    return any(r.budget_bytes is not None and (r.low_bytes or 0) > FAR * r.budget_bytes for r in places)


def _weights_alone(estimate: MemoryEstimate) -> bool:
    """Whether the weights of a place are more than it has."""
    places = [*estimate.devices, *((estimate.host,) if estimate.host else ())]
    rooms = [r.budget_bytes if r.budget_bytes is not None else r.capacity_bytes for r in places]
    return any(room is not None and (r.weights_bytes or 0) > room for r, room in zip(places, rooms, strict=True))


def _on_host(estimate: MemoryEstimate) -> bool:
    """Whether a good part of the weights runs from host memory beside devices."""
    host = (estimate.host.weights_bytes or 0) if estimate.host else 0
    return bool(estimate.devices) and host > 0.3 * (host + sum(r.weights_bytes or 0 for r in estimate.devices))


def _why(deployment: Deployment, estimate: MemoryEstimate, quantization: Quantization) -> str:
    weights = sum(r.weights_bytes or 0 for r in estimate.devices) or (
        estimate.host.weights_bytes or 0 if estimate.host else 0
    )
    cards = f" on {len(estimate.devices)} cards" if len(estimate.devices) > 1 else ""
    cache = "" if deployment.kv_cache_type.k == "auto" else f" with {deployment.kv_cache_type.k} KV cache"
    what = (
        "; ".join(estimate.short)
        or "; ".join(w for w in estimate.warnings if "divisible" in w or "needs" in w)
        or "not enough memory"
    )
    return (
        f"{quantization.id}{cards}{cache} does not fit: {format_gib(weights)} ({weights / 1e9:.1f} GB) of weights; "
        f"{what}"
    )


__all__ = ["Candidate", "Rejection", "find_best_candidate"]
