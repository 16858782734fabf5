"""One candidate of `advise hardware`: the deployment on so many cards, alone or next to other models, and why not."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from advisor import estimation, formats
from advisor.advice.hardware.budget import BudgetRules
from advisor.advice.hardware.prices import DeviceOffer
from advisor.advice.hardware_types import Ask, Axis, ResidentModel
from advisor.advice.recommend_request import load_main_guide
from advisor.advice.workload import whole_context
from advisor.catalog.resolve import ResolvedModel, resolve_model
from advisor.catalog.types import Accelerator, Engine, Quantization
from advisor.decision.evaluate import evaluate_guide
from advisor.decision.facts import compute_facts
from advisor.decision.filters import judge_engine
from advisor.decision.starts import judge_start_on
from advisor.decision.types import FactValue
from advisor.deployment import Deployment, MemoryEstimate, SpeedEstimate
from advisor.errors import BadInput
from advisor.machines.types import Machine
from advisor.models.types import native_format
from advisor.planning.resident import count_need, share_machine
from advisor.planning.search import find_best_plan
from advisor.planning.targets import find_named_limits, is_simulated
from advisor.planning.traffic import read_traffic
from advisor.planning.types import Plan, Rejection, SearchRequest
from advisor.planning.verdicts import JudgedPlan, judge_plan
from advisor.record import Value, pick_fields
from advisor.session import Session
from advisor.units import format_gib


class HardwareCandidate(Value, frozen=True):
    """The deployment on this hardware."""

    deployment: Deployment
    memory: MemoryEstimate
    speed: SpeedEstimate | None
    quantization: Quantization
    engine: Engine
    why: tuple[str, ...]
    plan: Plan
    judged: JudgedPlan = JudgedPlan()
    also: tuple[HardwareCandidate, ...] = ()  # of the other models that stay loaded next to it


class HardwareRejection(Value, frozen=True):
    """Why this hardware is not it."""

    code: str
    text: str


class HardwareSearch:
    """What is worked out once for a question: the guide, the machines of cards, the engine of a kind of machine."""

    def __init__(self, request: Ask, found: ResolvedModel, session: Session, budget_rules: BudgetRules) -> None:
        rules, longest = session.rules, found.model.max_context
        self.request, self.found, self.session, self.budget = request, found, session, budget_rules
        self.guide = load_main_guide(rules)
        self.work = replace(request.workload, context=whole_context(request.workload.context, longest))
        self.traffic = read_traffic(self.work, longest, rules)
        self.context = self.traffic.context_length
        self.others: tuple[HardwareSearch, ...] = ()  # of the models that stay loaded next to it
        self.engine_asked = rules.engine(request.engine) if request.engine else None
        self._machines: dict[tuple[str, int, float | None], Machine] = {}
        self._facts: dict[tuple[str, int, float | None], dict[str, FactValue]] = {}
        self._engines: dict[tuple[str, int], Engine | HardwareRejection] = {}
        self._placed: dict[tuple[str, int, float | None, str], HardwareCandidate | HardwareRejection] = {}

    def machine(self, offer: DeviceOffer, count: int) -> Machine:
        """So many of the priced device. Raises BadInput for memory that no such device has."""
        key = (offer.accelerator, count, offer.memory_gb)
        if key not in self._machines:
            size = f" {offer.memory_gb:g}GB" if offer.memory_gb else ""
            self._machines[key] = estimation.find_machine(
                f"{count}x {offer.accelerator}{size}, linux"
                if not offer.accelerator.startswith("apple")
                else f"{offer.accelerator}{size}",
                self.session.rules,
            )
        return self._machines[key]

    def engine(self, offer: DeviceOffer, count: int) -> Engine | HardwareRejection:
        """The engine asked for, or the first that the guide recommends and nothing forbids."""
        key = (offer.accelerator, count)
        if key not in self._engines:
            self._engines[key] = self._engine(offer, count)
        return self._engines[key]

    def _engine(self, offer: DeviceOffer, count: int) -> Engine | HardwareRejection:
        seen = self.facts(offer, count)
        names = (self.engine_asked.id,) if self.engine_asked else evaluate_guide(self.guide, seen).engines
        first: HardwareRejection | None = None
        for name in names:
            entry = self.session.rules.engine(name)
            if entry.kind != "engine" and self.engine_asked is None:
                continue
            verdict = judge_engine(
                entry, seen, None, self.found.model, self.request.workload, asked=[name] if self.engine_asked else ()
            )
            if not verdict.reasons:
                return entry
            first = first or HardwareRejection(verdict.reasons[0].code, verdict.reasons[0].text)
        return first or HardwareRejection("vendor_not_supported", "no engine is recommended for it")

    def facts(self, offer: DeviceOffer, count: int) -> dict[str, FactValue]:
        """What the guide sees of these cards."""
        key = (offer.accelerator, count, offer.memory_gb)
        if key not in self._facts:
            self._facts[key] = compute_facts(
                self.machine(offer, count),
                self.found.model,
                self.request.workload,
                self.session.rules.accelerators(),
                self.session.rules.engines(),
            )
        return self._facts[key]

    def formats(self, entry: Engine, axis: Axis) -> tuple[str, ...]:
        """Formats to try on an engine, in order: what was asked, what was published, else those of the axis."""
        model = self.found.model
        asked = self.request.quantization
        if asked is not None or self.found.quantization is not None:
            try:
                return (
                    formats.choose_format(
                        asked or self.found.quantization, entry, model, self.session.rules
                    ).quantization.id,
                )
            except BadInput:  # not of this engine; a name that nobody knows is the asker's fault
                return ()
        family = formats.format_family(entry, self.session.rules)
        if family == "gguf":
            native = formats.choose_format(None, entry, model, self.session.rules).quantization.id
            return (native,) if native == "MXFP4_MOE" else self.budget.list_formats("gguf") or (native,)
        own = self.budget.list_formats(family)
        if own:
            return own
        native_hf = native_format(model) if family == "hf" else None
        return (native_hf,) if native_hf else self.budget.list_formats(axis)

    def place(self, offer: DeviceOffer, count: int, quantization: str) -> HardwareCandidate | HardwareRejection:
        """The deployment in one format, remembered: prices do not change it."""
        key = (offer.accelerator, count, offer.memory_gb, quantization)
        if key not in self._placed:
            self._placed[key] = self.place_on(offer, count, quantization, self.machine(offer, count))
        return self._placed[key]

    def place_on(
        self, offer: DeviceOffer, count: int, quantization: str, machine: Machine, port_offset: int = 0
    ) -> HardwareCandidate | HardwareRejection:
        """The deployment in one format on these devices, or on a part of them."""
        entry = self.engine(offer, count)
        if isinstance(entry, HardwareRejection):
            return entry
        weight_format = self.session.rules.quantization(quantization)
        own_choice = self.request.quantization is None and native_format(self.found.model) != weight_format.id
        verdict = judge_engine(
            entry,
            self.facts(offer, count),
            weight_format,
            self.found.model,
            self.request.workload,
            asked=[entry.id] if self.engine_asked else (),
            start=judge_start_on(entry, self.facts(offer, count), weight_format, self.found.model, self.session.rules),
        )
        if verdict.reasons:
            return HardwareRejection(verdict.reasons[0].code, verdict.reasons[0].text)
        weight_only = next((w for w in verdict.warnings if w.code == "weight_only"), None)
        if weight_only is not None and own_choice:
            return HardwareRejection("no_native_format", weight_only.text)
        search = replace(
            self._search(offer, count, weight_format.id),
            machine=machine,
            port_offset=port_offset,
            whole=self.machine(offer, count),
        )
        plan = find_best_plan(entry, search, self.session)
        if isinstance(plan, Rejection):
            first = next(iter(plan.reasons), None)
            text = first.text if first is not None else f"{entry.name} offers nothing here"
            return HardwareRejection("does_not_fit" if first is None else first.code, text)
        if plan.offload:
            host = (plan.memory.host.weights_bytes or 0) if plan.memory.host is not None else 0
            text = f"fits only with {format_gib(host, 0)} of weights in host memory, which no price is known of"
            return HardwareRejection("does_not_fit", text)
        if plan.starts and not plan.holds_all and plan.holds is not None:
            held = plan.holds.asked - plan.holds.waiting
            return HardwareRejection("does_not_fit", f"holds {held} of {plan.holds.asked} typical requests at once")
        judged = JudgedPlan()
        if is_simulated(search.workload):
            judged = judge_plan(plan, search.traffic, search.workload, self.session, remedies=False)
            slow = _reject_late(judged)
        else:
            slow = self._slow(plan.deployment, plan.memory, plan.speed)
        return slow or HardwareCandidate(
            plan.deployment,
            plan.memory,
            plan.speed,
            weight_format,
            entry,
            tuple(w.text for w in verdict.warnings),
            plan,
            judged=judged,
        )

    def _search(self, offer: DeviceOffer, count: int, quantization: str) -> SearchRequest:
        """The question to the planner: the deployment on so many of the priced device."""
        request = self.request
        work = request.workload
        return SearchRequest(
            model=self.found.model,
            path=self.found.path,
            quantization=quantization,
            traffic=self.traffic,
            machine=self.machine(offer, count),
            workload=replace(
                work,
                ttft_s=request.ttft_s or work.ttft_s,
                tpot_s=request.tpot_s or work.tpot_s,
                e2e_s=request.e2e_s or work.e2e_s,
                target_tps=request.target_tps or work.target_tps,
            ),
            facts=self.facts(offer, count),
            guide=self.guide,
            requires=(),
            asked=frozenset([request.engine] if request.engine else []),
        )

    def _slow(
        self, deployment: Deployment, estimate: MemoryEstimate, speed: SpeedEstimate | None
    ) -> HardwareRejection | None:
        """Whether a required rate is missed; None when it is met, or when nothing is known of the speed."""
        request, share = self.request, self.budget.slowest_share
        if speed is None:
            return None
        asked = pick_fields(request, "ttft_s", "tpot_s", "target_tps")
        limits = find_named_limits(replace(request.workload, **{k: x for k, x in asked.items() if x is not None}))
        named = 1 / limits["tpot_s"].most if "tpot_s" in limits else None
        slowest = self.budget.slowest_decode_tps.get(request.workload.use_case, 0.0) if named is None else named
        if slowest and speed.decode_tps is not None and speed.decode_tps.value < share * slowest:
            why = "are required" if named is not None else f"are the least for {request.workload.use_case}"
            rate = _rate(speed.decode_tps.value)
            return HardwareRejection(
                "too_slow", f"{rate} tokens/s where {slowest:g} {why}: {self._bandwidth(deployment, estimate)}"
            )
        first, most = speed.ttft_s, limits["ttft_s"].most if "ttft_s" in limits else None
        if first is not None and most is not None and first.value > most / share:
            text = f"first token after {first.value:.1f} s where {most:g} s are required"
            return HardwareRejection("too_slow", text)
        return None

    def _bandwidth(self, deployment: Deployment, estimate: MemoryEstimate) -> str:
        """Why decoding is as slow as it is, in figures."""
        device = (
            deployment.machine.usable_devices[0] if deployment.machine and deployment.machine.usable_devices else None
        )
        entry: Accelerator | None = self.session.rules.accelerators().get(device.accelerator or "") if device else None
        if entry is None or entry.bandwidth_gbs is None:
            return "decoding is bound by memory bandwidth"
        read = sum(r.weights_bytes or 0 for r in estimate.devices)
        active = self.found.model.params_active
        if active and active < self.found.model.params_total:
            read = int(read * active / self.found.model.params_total)
        return f"decoding is bound by memory bandwidth, {entry.bandwidth_gbs:g} GB/s for {format_gib(read)} a token"


def _reject_late(judged: JudgedPlan) -> HardwareRejection | None:
    """Why requests that arrive are not served in time; None where they are, and where that is not known."""
    answer, arrivals = judged.targets, judged.arrivals
    if answer is None or arrivals is None or answer.met is not False:
        return None
    if answer.rate is not None:
        return HardwareRejection("too_slow", f"serves {arrivals.most_rate.value:.3g} of {answer.rate:g} requests/s")
    return HardwareRejection("too_slow", answer.verdicts[0].words)


def _rate(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def find_tightest_device(estimate: MemoryEstimate) -> tuple[int | None, int | None]:
    """(needed, budget) bytes of the device with the least room; None where not known."""
    rows = [r for r in estimate.devices if r.total_bytes is not None and r.budget_bytes]
    if not rows:
        return None, None
    row = max(rows, key=lambda r: (r.total_bytes or 0) / (r.budget_bytes or 1))
    return row.total_bytes, row.budget_bytes


def place_together(
    searches: Sequence[HardwareSearch], offer: DeviceOffer, count: int, quantization: str, axis: Axis
) -> HardwareCandidate | HardwareRejection:
    """The first model in one format with the others next to it (`also`), each sized by what it needs alone."""
    first, others = searches[0], searches[1:]
    alone = [first.place(offer, count, quantization), *(_best(s, offer, count, axis) for s in others)]
    for search, found in zip(searches, alone, strict=True):
        if isinstance(found, HardwareRejection):
            return found if search is first else replace(found, text=f"{search.found.model.id}: {found.text}")
    fitting = [c for c in alone if isinstance(c, HardwareCandidate)]
    needs = [count_need(c.memory, s.traffic) for c, s in zip(fitting, searches, strict=True)]
    parts = share_machine(first.machine(offer, count), needs)
    placed = [
        s.place_on(offer, count, c.quantization.id, part, i)
        for i, (s, c, part) in enumerate(zip(searches, fitting, parts, strict=True))
    ]
    for search, result in zip(searches, placed, strict=True):
        if isinstance(result, HardwareRejection) or result.memory.fits is not True:
            other_models = ", ".join(s.found.model.id for s in searches if s is not search)
            return HardwareRejection("does_not_fit", f"{search.found.model.id} finds no room next to {other_models}")
    sure = [c for c in placed if isinstance(c, HardwareCandidate)]
    return replace(sure[0], also=tuple(sure[1:]))


def _best(search: HardwareSearch, offer: DeviceOffer, count: int, axis: Axis) -> HardwareCandidate | HardwareRejection:
    """Another model in the first of its formats that surely fits, else why the last does not."""
    entry = search.engine(offer, count)
    if isinstance(entry, HardwareRejection):
        return entry
    last: HardwareCandidate | HardwareRejection = HardwareRejection("does_not_fit", "no weight format of it is known")
    for name in search.formats(entry, axis):
        last = search.place(offer, count, name)
        if isinstance(last, HardwareCandidate) and last.memory.fits:
            return last
    return last


def search_other(name: str, request: Ask, session: Session, budget_rules: BudgetRules) -> HardwareSearch:
    """The search of another model that stays loaded: its own formats, the first one's users and use."""
    rules = session.rules
    found = resolve_model(name, rules)
    if found.model.layout is None:
        raise BadInput(f"{found.model.id}: its layers are not in the catalogue, so nothing can be sized")
    asked = replace(request, model=name, others=(), quantization=None)
    return HardwareSearch(asked, found, session, budget_rules)


def place_models(
    search: HardwareSearch, offer: DeviceOffer, n: int, name: str, axis: Axis
) -> HardwareCandidate | HardwareRejection:
    """The model of the search in one format, with the others next to it where there are any."""
    if not search.others:
        return search.place(offer, n, name)
    return place_together((search, *search.others), offer, n, name, axis)


def describe_resident(candidate: HardwareCandidate) -> ResidentModel:
    """What the answer says of another model."""
    return ResidentModel(
        model=candidate.deployment.model.id,
        engine=candidate.engine.id,
        quantization=candidate.quantization.id,
        settings=candidate.deployment.settings,
        holds=candidate.plan.holds,
        speed=candidate.speed,
    )
