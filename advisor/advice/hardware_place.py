"""One candidate of `advise hardware`: the deployment on so many cards, whether it fits, how fast it is, why not."""

from __future__ import annotations

from typing import Any, NamedTuple

from advisor import estimation, formats
from advisor.advice.hardware_types import Ask, Axis, Rules
from advisor.advice.price_list import Priced
from advisor.advice.question import main_guide
from advisor.advice.spread import spread
from advisor.catalog import Catalog
from advisor.catalog.resolve import Resolved
from advisor.catalog.types import Accelerator, Engine, Quantization
from advisor.decision.evaluate import evaluate
from advisor.decision.facts import facts
from advisor.decision.filters import judge
from advisor.deployment import Deployment, MemoryEstimate, SpeedEstimate
from advisor.engines import parallel
from advisor.engines.flags import own_flag
from advisor.errors import AdvisorError, BadInput
from advisor.machines.types import Machine
from advisor.models.native import native_format
from advisor.speed.roofline import decode
from advisor.units import gib

WHOLE_COMPUTERS = ("sff-system", "apu", "soc")  # several of them are several machines


class Placed(NamedTuple):
    """The deployment on this hardware."""

    deployment: Deployment
    memory: MemoryEstimate
    speed: SpeedEstimate | None
    quantization: Quantization
    engine: Engine
    why: tuple[str, ...]


class No(NamedTuple):
    """Why this hardware is not it."""

    code: str
    text: str


class Bench:
    """What is worked out once for a question: the guide, the machines of cards, the engine of a kind of machine."""

    def __init__(self, ask: Ask, found: Resolved, context: int, rules: Catalog, budget: Rules) -> None:
        self.ask, self.found, self.context, self.rules, self.budget = ask, found, context, rules, budget
        self.guide = main_guide(rules)
        self.asked = rules.engine(ask.engine) if ask.engine else None
        self._machines: dict[tuple[str, int, float | None], Machine] = {}
        self._facts: dict[tuple[str, int, float | None], dict[str, Any]] = {}
        self._engines: dict[tuple[str, int], Engine | No] = {}
        self._placed: dict[tuple[str, int, float | None, str], Placed | No] = {}

    def machine(self, p: Priced, count: int) -> Machine:
        """So many of the priced device. Raises BadInput for memory that no such device has."""
        key = (p.accelerator, count, p.memory_gb)
        if key not in self._machines:
            size = f" {p.memory_gb:g}GB" if p.memory_gb else ""
            self._machines[key] = estimation.machine_of(
                f"{count}x {p.accelerator}{size}, linux"
                if not p.accelerator.startswith("apple")
                else f"{p.accelerator}{size}",
                self.rules,
            )
        return self._machines[key]

    def engine(self, p: Priced, count: int) -> Engine | No:
        """The engine asked for, or the first that the guide puts forward and nothing forbids."""
        key = (p.accelerator, count)
        if key not in self._engines:
            self._engines[key] = self._engine(p, count)
        return self._engines[key]

    def _engine(self, p: Priced, count: int) -> Engine | No:
        seen = self.facts(p, count)
        names = (self.asked.id,) if self.asked else evaluate(self.guide, seen).engines
        first: No | None = None
        for name in names:
            entry = self.rules.engine(name)
            if entry.kind != "engine" and self.asked is None:
                continue
            verdict = judge(entry, seen, None, self.found.model, self.ask.workload, asked=[name] if self.asked else ())
            if not verdict.reasons:
                return entry
            first = first or No(verdict.reasons[0].code, verdict.reasons[0].text)
        return first or No("vendor_not_supported", "no engine is put forward for it")

    def facts(self, p: Priced, count: int) -> dict[str, Any]:
        """What the guide sees of these cards."""
        key = (p.accelerator, count, p.memory_gb)
        if key not in self._facts:
            self._facts[key] = facts(
                self.machine(p, count),
                self.found.model,
                self.ask.workload,
                self.rules.accelerators(),
                self.rules.engines(),
            )
        return self._facts[key]

    def formats(self, entry: Engine, axis: Axis) -> tuple[str, ...]:
        """Formats to try on an engine, in order: what was asked, what was published, else those of the axis."""
        model = self.found.model
        asked = self.ask.quantization
        if asked is not None or self.found.quantization is not None:
            try:
                return (
                    formats.quantization(asked or self.found.quantization, entry, model, self.rules).quantization.id,
                )
            except AdvisorError:
                return ()
        kin = formats.family(entry, self.rules)
        if kin == "gguf":
            native = formats.quantization(None, entry, model, self.rules).quantization.id
            return (native,) if native == "MXFP4_MOE" else self.budget.usual_formats.get("gguf", (native,))
        if kin in self.budget.usual_formats:
            return self.budget.usual_formats[kin]
        native_hf = native_format(model) if kin == "hf" else None
        return (native_hf,) if native_hf else self.budget.formats[axis]

    def place(self, p: Priced, count: int, quantization: str) -> Placed | No:
        """The deployment in one format, remembered: prices do not change it."""
        key = (p.accelerator, count, p.memory_gb, quantization)
        if key not in self._placed:
            self._placed[key] = self._place(p, count, quantization)
        return self._placed[key]

    def _place(self, p: Priced, count: int, quantization: str) -> Placed | No:
        entry = self.engine(p, count)
        if isinstance(entry, No):
            return entry
        q = self.rules.quantization(quantization)
        own_choice = self.ask.quantization is None and native_format(self.found.model) != q.id
        verdict = judge(
            entry, self.facts(p, count), q, self.found.model, self.ask.workload, asked=[entry.id] if self.asked else ()
        )
        if verdict.reasons:
            return No(verdict.reasons[0].code, verdict.reasons[0].text)
        weight_only = next((w for w in verdict.warnings if w.code == "weight_only"), None)
        if weight_only is not None and own_choice:
            return No("no_native_format", weight_only.text)
        d = spread(
            Deployment(
                model=self.found.model,
                engine=entry.id,
                quantization=q.id,
                machine=self.machine(p, count),
                context_length=self.context,
                sequences=self.ask.workload.concurrency,
                model_path=self.found.path,
            ),
            entry,
        )
        flag = own_flag(entry, "tp")
        used = int(d.settings.get(flag, count)) if flag else count
        if used != count:
            return No(
                "feature_missing",
                f"{_uneven(entry, d, count)} do not divide by {count}: {entry.name} would use {used} of them",
            )
        try:
            m = estimation.estimate(d, self.rules)
        except BadInput as e:
            return No("does_not_fit", e.message)
        if m.fits is False:
            return No("does_not_fit", "; ".join(m.short) or m.message or "more memory is wanted than there is")
        speed = decode(d, m, self.rules, d.sequences)
        slow = self._slow(d, m, speed)
        return slow or Placed(d, m, speed, q, entry, tuple(w.text for w in verdict.warnings))

    def _slow(self, d: Deployment, m: MemoryEstimate, speed: SpeedEstimate | None) -> No | None:
        """Whether a wanted rate is missed; None when it is met, or when nothing is known of the speed."""
        a, share = self.ask, self.budget.slowest_share
        if speed is None:
            return None
        said = a.min_decode_tps
        if a.tpot_s is not None:
            said = max(said or 0, 1 / a.tpot_s)
        wanted = self.budget.slowest_decode_tps.get(a.workload.use_case, 0.0) if said is None else said
        if wanted and speed.decode_tps is not None and speed.decode_tps.value < share * wanted:
            why = "are wanted" if said is not None else f"are the least for {a.workload.use_case}"
            rate = _rate(speed.decode_tps.value)
            return No("too_slow", f"{rate} tokens/s where {wanted:g} {why}: {self._bandwidth(d, m)}")
        if a.ttft_s is not None and speed.ttft_s is not None and speed.ttft_s.value > a.ttft_s / share:
            return No("too_slow", f"first token after {speed.ttft_s.value:.1f} s where {a.ttft_s:g} s are wanted")
        return None

    def _bandwidth(self, d: Deployment, m: MemoryEstimate) -> str:
        """Why decoding is as slow as it is, in figures."""
        device = d.machine.usable_devices[0] if d.machine and d.machine.usable_devices else None
        entry: Accelerator | None = self.rules.accelerators().get(device.accelerator or "") if device else None
        if entry is None or entry.bandwidth_gbs is None:
            return "decoding is bound by memory bandwidth"
        read = sum(r.weights_bytes or 0 for r in m.devices)
        active = self.found.model.params_active
        if active and active < self.found.model.params_total:
            read = int(read * active / self.found.model.params_total)
        return f"decoding is bound by memory bandwidth, {entry.bandwidth_gbs:g} GB/s for {gib(read)} a token"


def _uneven(entry: Engine, d: Deployment, count: int) -> str:
    """What of the model does not divide over so many cards, the first the engine names."""
    first = parallel.refusals(entry, d.model, count, parallel.launch_of(d, entry))[0]
    return parallel.PARTS[first.divides]


def _rate(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def tightest(m: MemoryEstimate) -> tuple[int | None, int | None]:
    """(needed, budget) bytes of the device with the least room; None where not known."""
    rows = [r for r in m.devices if r.total_bytes is not None and r.budget_bytes]
    if not rows:
        return None, None
    row = max(rows, key=lambda r: (r.total_bytes or 0) / (r.budget_bytes or 1))
    return row.total_bytes, row.budget_bytes


__all__ = ["WHOLE_COMPUTERS", "Bench", "No", "Placed", "tightest"]
