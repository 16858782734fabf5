"""The computers that a question offers, the plan of each, and which of them nobody should buy for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import msgspec
from msgspec.structs import replace

from advisor.advice.hardware.budget import load_budget_rules
from advisor.advice.hardware.builds import Build, list_builds
from advisor.advice.hardware_types import Ask, Axis
from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import RecommendRequest
from advisor.advice.types import Advice, RankedDeployment
from advisor.advice.workload import whole_context
from advisor.catalog.described_machine import WHOLE_COMPUTERS
from advisor.catalog.resolve import ResolvedModel, resolve_or_size
from advisor.deployment import MemoryEstimate
from advisor.errors import BadInput
from advisor.estimation import find_machine
from advisor.models.types import native_format
from advisor.planning.traffic import Traffic, read_traffic
from advisor.planning.utility import load_utility
from advisor.record import Value
from advisor.session import Session
from advisor.units import GIB, format_gib

Progress = Callable[[str], None]


class HardwareRejection(Value, frozen=True):
    """Why a computer is not an option."""

    code: str
    text: str
    plan: RankedDeployment | None = None  # that runs all the same, for who finds nothing better


class Shop:
    """One question: what is offered, and the plan of each computer. `plans` are those that are worked out already."""

    def __init__(
        self, request: Ask, session: Session, plans: dict[bytes, Advice], progress: Progress | None = None
    ) -> None:
        rules, budget = session.rules, load_budget_rules(session.rules)
        if request.rates is not None:
            budget = replace(budget, rates=replace(budget.rates, per_usd=request.rates))
        if request.new_only:
            budget = replace(budget, hosts=tuple(h for h in budget.hosts if h.price.kind == "new"))
        self.request, self.session, self.budget, self.plans = request, session, budget, plans
        self.progress = progress
        self.found = [resolve_sized(name, session) for name in (request.model, *request.others) if name]
        longest = self.found[0].model.max_context if self.found else None
        self.work = replace(request.workload, context=whole_context(request.workload.context, longest))
        self.traffic: Traffic = read_traffic(self.work, longest, rules)

    def plan(self, hardware: str, quantization: str | None = None) -> Advice:
        """What `recommend` answers for a computer in words, remembered over all questions that share `plans`."""
        asked = replace(self.request, quantization=quantization) if quantization else self.request
        key = (hardware, asked.model, asked.others, asked.quantization, asked.engine, asked.backend, asked.workload)
        found = self.plans.get(msgspec.json.encode(key))
        if found is None:
            if self.progress is not None:
                self.progress(f"looking at {hardware}")
            workload = asked.workload
            if asked.others:
                workload = replace(workload, extra={**workload.extra, "swap": "resident"})
            found = recommend(
                RecommendRequest(
                    find_machine(hardware, self.session.rules), workload, asked.model, asked.quantization,
                    asked.engine, others=asked.others, every_model=False, from_disk=False, brief=True,
                    found=self.found[0] if self.found else None, backend=asked.backend,
                ),
                self.session,
            )  # fmt: skip
            self.plans[msgspec.json.encode(key)] = found
        return found

    @cached_property
    def here(self) -> Advice | None:
        """What `recommend` answers for the machine that is there."""
        asked = self.request
        if asked.machine is None:
            return None
        names = (asked.model, asked.quantization, asked.engine)
        request = RecommendRequest(asked.machine, asked.workload, *names, backend=asked.backend)
        return recommend(request, self.session)

    @property
    def has_room_on_hosts(self) -> bool:
        """Whether experts may lie in host memory: the model has any, and few enough ask for them."""
        few = self.request.workload.rate is None and self.traffic.users <= self.budget.users_of_host_memory
        return few and any(f.model.is_moe for f in self.found)

    def list_builds(self, axis: Axis) -> list[Build]:
        """What is offered on an axis; hosts with more memory, too, where a model has experts to lie there."""
        return list_builds(self.request, axis, self.budget, self.session.rules, self.has_room_on_hosts)

    def refuse_unproven(self, build: Build) -> HardwareRejection | None:
        """A card for which nobody should buy software that is not there yet, unless they ask for it."""
        known = self.budget.find_maturity(build.entry)
        asked = self.request.engine is not None or self.request.prices.closed
        if asked or (known.unasked if build.axis == "buy" else known.rented):
            return None
        return HardwareRejection("unproven", f"{known.words}; an engine named with --engine takes it into account")


def resolve_sized(name: str, session: Session) -> ResolvedModel:
    """A model by name. Raises BadInput for one whose layers are not known."""
    found = resolve_or_size(name, session.rules)
    if found.model.layout is None:
        raise BadInput(f"{found.model.id}: its layers are not in the catalogue, so nothing can be sized")
    return found


def choose_plan(shop: Shop, build: Build, narrow: bool = False) -> RankedDeployment | HardwareRejection:
    """The plan that `recommend` puts first there, or why nobody should buy the computer for it. `narrow`: weights of
    fewer bits than a buyer should settle for are looked at, too, where they lie on the devices alone."""
    refusal = _refuse_place(shop, build) or shop.refuse_unproven(build) or _refuse_small(shop, build, narrow)
    if refusal is not None:
        return refusal
    first = _judge_plan(shop, build, shop.plan(build.hardware))
    if not isinstance(first, HardwareRejection) or first.code != "too_narrow":
        return _refuse_part(shop, build, first) or first
    wider = _judge_plan(shop, build, shop.plan(build.hardware, shop.budget.usual_narrow))  # experts on the host, maybe
    return first if isinstance(wider, HardwareRejection) and wider.plan is None else wider


def _refuse_part(shop: Shop, build: Build, first: RankedDeployment | HardwareRejection) -> HardwareRejection | None:
    """A small card that would hold a part of a model only: nobody buys one for that."""
    bought, plan = build.entry.memory_bytes or 0, first.plan if isinstance(first, RankedDeployment) else None
    small = build.axis == "buy" and 0 < bought < shop.budget.least_part_gib * GIB and not shop.request.prices.closed
    if not small or plan is None or (len(plan.layout.devices) < 2 and not plan.offload):
        return None
    return HardwareRejection("too_small", f"a card of {format_gib(bought, 0)} would hold a part of it only")


def _judge_plan(shop: Shop, build: Build, advice: Advice) -> RankedDeployment | HardwareRejection:
    """The chosen plan, or why nobody should buy the computer for it."""
    chosen = advice.chosen
    if chosen is None or chosen.memory is None:
        named = [r for e in advice.rejected if e.engine == shop.request.engine for r in e.reasons]
        reason = next(iter(named or [r for e in advice.rejected for r in e.reasons]), None)
        if shop.request.others or reason is None:
            return HardwareRejection("does_not_fit", next(iter(advice.warnings), "nothing that is known runs there"))
        return HardwareRejection(reason.code, reason.text)
    free = shop.budget.host_free_gib
    return _refuse_memory(build, chosen, chosen.memory, free) or _refuse_service(shop, build, chosen) or chosen


def _refuse_place(shop: Shop, build: Build) -> HardwareRejection | None:
    """Cards that the computer that is there has no place for, or no power."""
    machine, rules, entry = shop.request.machine, shop.budget.place, build.entry
    place = machine.place if machine is not None else None
    if place is None or build.axis == "rent" or entry.form in WHOLE_COMPUTERS:
        return None
    taken = build.count - build.bought + len(build.beside)
    free = place.free_slots if place.slots is None else place.slots - taken
    why = None
    if place.slots == 0:
        why = "no card goes into a laptop"
    elif free is not None and build.bought > free:
        why = f"{build.bought} cards for {free} free place{'' if free == 1 else 's'}" if free else "no place for a card"
    elif place.no_lead and (entry.tdp_watts or math.inf) > rules.slot_watts:
        why = f"takes more than the {rules.slot_watts:g} W of a slot without a lead"
    elif place.low_profile and entry.id not in rules.low_profile:
        why = "not known as a low-profile card"
    elif place.passive and entry.form in rules.own_fan:
        why = "has a fan of its own, where the case moves the air"
    elif (share := find_power_share(shop, build)) is not None and share < rules.least_limit:
        why = f"{build.watts:g} W of cards at a supply of {place.psu_watts:g} W"
    return HardwareRejection("no_place", why) if why is not None else None


def find_power_share(shop: Shop, build: Build) -> float | None:
    """What the supply that is there leaves for the cards, over their limit; None where one of them is not known."""
    place = shop.request.machine.place if shop.request.machine is not None else None
    if place is None or place.psu_watts is None or not build.watts or build.axis == "rent":
        return None
    form = shop.budget.forms.get(build.entry.form or "")
    rest = min(form.psu_reserve_watts if form else math.inf, shop.budget.place.rest_share * place.psu_watts)
    return (place.psu_watts - rest) / build.watts


def _refuse_small(shop: Shop, build: Build, narrow: bool) -> HardwareRejection | None:
    """A computer whose memory is less than the weights alone. Layers of dense models in host memory are too slow for
    everybody, experts need not be."""
    request, rules = shop.request, shop.session.rules
    if not shop.found or not build.memory_bytes:
        return None
    found = shop.found[0]
    asked = request.quantization or found.quantization or native_format(found.model)
    known = rules.quantizations().get(asked or "")
    bits = shop.budget.least_bits if narrow else min(shop.budget.narrowest_bits.values())
    bits = min(known.bits_nominal if known else 16, bits)
    ram = build.ram_gb * GIB if build.host else (request.machine and request.machine.memory.total_bytes) or 0
    on_host = ram if shop.has_room_on_hosts and not narrow else 0
    least, room = found.model.params_total * bits / 8, build.memory_bytes + on_host
    if least <= room:
        return None
    return HardwareRejection(
        "does_not_fit", f"{format_gib(int(least))} of weights at {bits:g} bits, {format_gib(int(room))} there"
    )


def _refuse_memory(
    build: Build, chosen: RankedDeployment, memory: MemoryEstimate, free_gib: float
) -> HardwareRejection | None:
    """What the plan has no room for."""
    plan = chosen.plan
    if memory.fits is False or chosen.starts is False:
        why = next((w.text for w in chosen.why_not), "")
        needed, there = find_tightest_device(memory)
        room = f"needs {format_gib(needed)} of {format_gib(there)} on the tightest card" if needed and there else ""
        return HardwareRejection("does_not_fit", why or room or "it does not start")
    if plan.offload and plan.deployment.machine is not None and plan.deployment.machine.memory.total_bytes is None:
        host = (memory.host.weights_bytes or 0) if memory.host is not None else 0
        text = f"fits only with {format_gib(host, 0)} of weights in host memory, which no price is known of"
        return HardwareRejection("does_not_fit", text)
    held = (memory.host.weights_bytes or 0) if plan.offload and memory.host is not None else 0
    if build.host and held > (build.ram_gb - free_gib) * GIB:
        text = f"{format_gib(held, 0)} of weights in {build.ram_gb} GiB of host memory, {free_gib:g} of which stay free"
        return HardwareRejection("does_not_fit", text)
    return None


def _refuse_service(shop: Shop, build: Build, chosen: RankedDeployment) -> HardwareRejection | None:
    """What is too slow for the asked load, or narrower than a buyer should settle for."""
    request, weights, speed = shop.request, load_utility(shop.session.rules), chosen.speed
    memory = f"; its memory gives {build.entry.bandwidth_gbs:g} GB/s" if build.entry.bandwidth_gbs else ""
    if chosen.targets is not None and chosen.targets.met is False:
        late, arrivals = chosen.targets, chosen.arrivals
        if late.rate is not None and arrivals is not None:
            return HardwareRejection("too_slow", f"serves {arrivals.most_rate.value:.3g} of {late.rate:g} requests/s")
        return HardwareRejection(
            "too_slow", next((v.words for v in late.verdicts), "the named targets are not met") + memory
        )
    if speed is None:
        unknown = HardwareRejection("unproven", "how fast it is under this load is not known")
        return unknown if chosen.plan.deployment.model.kind == "chat" else None  # no speed of encoders is predicted
    least = weights.slowest_decode_tps.get(request.workload.use_case, 0.0)
    if chosen.plan.offload and least > 1:
        model = chosen.plan.deployment.model
        if not model.is_moe or shop.traffic.users > shop.budget.users_of_host_memory:
            what = "experts" if model.is_moe else "layers"
            return HardwareRejection("too_slow", f"a part of its {what} would run from host memory")
    prefill, longest = speed.prefill_tps, shop.budget.longest_prompt_s[request.workload.use_case]
    if request.workload.context and prefill is not None:  # of a host that is not known, its low end
        seconds = request.workload.context / (prefill.low if chosen.plan.offload else prefill.value)
        if seconds > longest:
            text = f"reads {request.workload.context:,} tokens in {seconds:.0f} s or more"
            bearable = shop.budget.bearable * seconds <= longest and _find_narrow(shop, chosen) is None
            return HardwareRejection("too_slow", text, chosen if bearable else None)
    holds = chosen.holds
    if holds is not None and holds.waiting:
        wait = holds.wait_s.value if holds.wait_s is not None else None
        few = holds.asked - holds.waiting < shop.budget.least_held * holds.asked
        if few or wait is None or wait > weights.patience_s[request.workload.use_case]:
            text = f"holds {holds.asked - holds.waiting} of {holds.asked} typical requests at once"
            return HardwareRejection(
                "does_not_fit", text + (f"; the others wait {wait:.0f} s" if wait is not None else "")
            )
    narrow = _find_narrow(shop, chosen)
    each = None
    if speed.tpot_s is not None:  # that one request alone is slower than predicted harms nobody else
        each = 1 / speed.tpot_s.value
        each = max(1 / speed.tpot_s.high, shop.budget.least_known * each) if shop.traffic.users > 1 else each
    if request.workload.target_tps is None and each is not None and each < least:
        text = f"{each:.1f} tokens/s for each, where {least:g} are the least for {request.workload.use_case}"
        bearable = narrow is None and each >= shop.budget.bearable * least
        return HardwareRejection("too_slow", text + memory, chosen if bearable else None)
    return HardwareRejection("too_narrow", narrow, chosen) if narrow is not None else None


def _find_narrow(shop: Shop, chosen: RankedDeployment) -> str | None:
    """What to say of weights that are narrower than a buyer should settle for, and than the published ones."""
    kind, published = chosen.plan.quantization, native_format(chosen.plan.deployment.model)
    bounds = shop.budget.narrowest_bits
    needed, there = find_tightest_device(chosen.memory) if chosen.memory is not None else (None, None)
    squeezed = bool(needed and there and needed > shop.budget.squeezed * there)
    least = bounds.get(kind.family, 0.0) if squeezed else min(bounds.values())
    known = shop.session.rules.quantizations().get(published or "")
    wide = kind.bits_nominal >= min(least, known.bits_nominal if known else 16)
    if shop.request.quantization is not None or (wide and not (squeezed and kind.id in shop.budget.makeshift)):
        return None
    return f"holds it in {kind.id} only: {kind.bits_nominal:g} bits a weight"


def find_tightest_device(estimate: MemoryEstimate) -> tuple[int | None, int | None]:
    """(needed, budget) bytes of the device with the least room; None where not known."""
    rows = [r for r in estimate.devices if r.total_bytes is not None and r.budget_bytes]
    if not rows:
        return None, None
    row = max(rows, key=lambda r: (r.total_bytes or 0) / (r.budget_bytes or 1))
    return row.total_bytes, row.budget_bytes
