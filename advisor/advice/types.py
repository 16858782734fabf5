"""What advice is: ranked deployments, refused engines with reasons, the trace."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from advisor.decision.types import LeafVerdict, Reason, Scalar, TraceStep
from advisor.deployment import (
    Arrivals,
    Deployment,
    Holds,
    Interval,
    MemoryEstimate,
    Setting,
    SpeedEstimate,
    WhyNot,
    Workload,
)
from advisor.machines.types import Machine
from advisor.planning.targets import TargetAnswer
from advisor.planning.types import CardLayout, Plan, TriedFormat
from advisor.record import Answer, Record, RecordWithInner, Value
from advisor.units import format_gib
from advisor.unknowns import all_hold


class Quality(Record, frozen=True, kw_only=True):
    """How able the model is for the use, and what the weight format costs."""

    use: str
    ability: float
    spread: float
    boards: int
    independent: int
    thinks: bool
    loss_percent: tuple[float, float] | None
    answer_s: float | None  # a typical answer at this speed, thinking included
    plain_answer_s: float | None  # the same without thinking, where that can be turned off
    hallucination_percent: float | None = None  # of summaries of a given document (rag)
    effective_context: int | None = None  # longest length at which RULER's tasks still hold (rag)


class Licences(Record, frozen=True, kw_only=True):
    """Licences of the model and of the engine."""

    model: str | None
    model_class: str  # permissive, conditions, noncommercial, unknown
    engine: str | None
    gated: bool | None  # whether the model's terms have to be accepted before it can be downloaded


class StoredCopy(Record, frozen=True, kw_only=True):
    """A copy of a model that lies on this machine."""

    store: str  # ollama-store, hub-cache, lm-studio-folder, llama-cache
    name: str
    path: str
    bytes: int
    quantization: str | None


class ModelOption(Record, frozen=True, kw_only=True):
    """A model that fits here, and what is known of it for the use."""

    model: str
    quantization: str
    engine: str
    ability: float  # rules/abilities.yaml; thinking included where `thinks`
    spread: float  # one standard deviation
    boards: int  # tests it rests on; 0: size and age alone
    independent: int
    thinks: bool
    loss_percent: tuple[float, float] | None  # what the format costs of a test's score; None: not known
    decode_tps: float | None
    answer_s: float | None  # a typical answer, thinking included
    context_length: int | None
    licence: str | None
    licence_class: str
    download: bool  # whether a download of the format is known
    stored: StoredCopy | None = None  # a copy in this format that lies on this machine


class NearMiss(Record, frozen=True, kw_only=True):
    """What does not fit by a little, and what would make it fit."""

    what: str
    missing: str
    would_fit_if: str | None


class OfferedLaunch(Value, frozen=True):
    """What an offered deployment starts, as the program itself uses it: no part of the JSON."""

    engine_name: str
    plan: Plan | None = None  # None: it runs elsewhere
    because: dict[str, str] = {}  # per setting


class RankedDeployment(RecordWithInner, frozen=True, kw_only=True):
    """One offered deployment. `memory` is null for what runs elsewhere."""

    engine: str
    engine_version: str | None = None
    model: str | None
    quantization: str | None = None
    settings: dict[str, Setting] = {}
    command: str | None = None
    install: str | None = None  # one line that installs the engine; None = none is known, or not asked
    test: str | None = None  # one line that asks the server whether it answers
    memory: MemoryEstimate | None = None  # None: it runs elsewhere
    speed: SpeedEstimate | None = None
    copies: int = 1  # equal copies, the engine's own data parallel included; `speed` is the whole plan's
    layout: CardLayout | None = None
    starts: bool | None = None
    why_not: tuple[WhyNot, ...] = ()  # where `starts` is not true
    conditions: tuple[str, ...] = ()  # a plugin, a source build, a switch, with which it starts
    holds: Holds | None = None
    targets: TargetAnswer | None = None  # None: none was named
    arrivals: Arrivals | None = None  # of the chosen one, where requests arrive at a rate
    also: tuple[RankedDeployment, ...] = ()  # of the other models that stay loaded next to it
    kind: str | None = None  # among `choices`: ablest, quick, light
    gains: tuple[str, ...] = ()  # what it has over the chosen one
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()
    tried: tuple[TriedFormat, ...] = ()
    points: dict[str, float] = {}  # deprecated, empty: `utility` took its place
    utility: dict[str, float] = {}  # what it is worth, by term (rules/choosing.yaml); the sum orders, most first
    quality: Quality | None = None
    licence: Licences | None = None
    stored: StoredCopy | None = None

    @property
    def exit_status(self) -> int:
        """0 it starts in memory and meets the targets that are named, 1 it does not, 2 that cannot be determined. What
        runs elsewhere starts."""
        if self.memory is None:
            return 0
        met = self.targets.met if self.targets is not None else True
        return {True: 0, False: 1, None: 2}[all_hold((self.starts, met, self.memory.fits is not False))]

    @property
    def launch(self) -> OfferedLaunch:
        """What it starts. Raises LookupError for a deployment that was read from JSON."""
        return self.read_inner(OfferedLaunch)

    @property
    def plan(self) -> Plan:
        """The plan of what runs on this machine. Raises LookupError for what runs elsewhere."""
        if self.launch.plan is None:
            raise LookupError(f"{self.engine} runs elsewhere")
        return self.launch.plan

    @property
    def deployment(self) -> Deployment | None:
        """One of its servers with all names resolved; None: it runs elsewhere."""
        return self.launch.plan.deployment if self.launch.plan is not None else None

    @property
    def engine_name(self) -> str:
        """The engine's name as people write it."""
        return self.launch.engine_name


class SpeculationOffer(Record, frozen=True, kw_only=True):
    """Settings of speculative decoding that the chosen plan has room for, and that pay at the low end of their gain."""

    settings: dict[str, Setting]
    gain: Interval  # times the rate without; what is accepted depends on the text
    more_bytes: int  # on all devices of a copy and on its host

    @property
    def clauses(self) -> tuple[str, ...]:
        """In words, what matters most first."""
        flags = " ".join(f"--{k} {v}" for k, v in self.settings.items())
        low, value, high = (f"{x:.2g}" for x in (self.gain.low, self.gain.value, self.gain.high))
        gain = f"{value} times with speculative decoding ({low} to {high}, by the text)"
        return gain, f"{format_gib(self.more_bytes)} more", flags


class RejectedEngine(Record, frozen=True, kw_only=True):
    """An engine that is not offered, and why."""

    engine: str
    reasons: tuple[Reason, ...]


class GuideAnswer(Record, frozen=True, kw_only=True):
    """What the tree of a source's own guide says, and what became of its engines on this machine."""

    name: str
    tree: str
    engines: tuple[str, ...]
    ranked: bool  # False: the engines are named as equals
    says: tuple[str, ...]
    later: tuple[str, ...]
    overlay: tuple[str, ...]
    settings: dict[str, Scalar]
    hardware: tuple[str, ...]
    quantizations: tuple[str, ...]
    path: tuple[str, ...]  # rules of the leaves
    verdict: tuple[LeafVerdict, ...]  # ours
    notes: tuple[str, ...]
    unanswered: tuple[str, ...]  # fields that were asked for and are unknown
    refused_here: dict[str, tuple[str, ...]]  # engine -> reasons


NAMED_PLANS = ("fastest", "widest", "simplest")


class Advice(Answer, frozen=True, kw_only=True):
    """The answer to `advise recommend`. `chosen` is null when nothing fits; `remedies` then say what would."""

    machine: Machine
    workload: Workload
    chosen: RankedDeployment | None
    alternatives: tuple[RankedDeployment, ...]
    rejected: tuple[RejectedEngine, ...]
    trace: tuple[TraceStep, ...]
    because: tuple[str, ...] = ()
    overlay: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    growth: tuple[str, ...] = ()  # when the choice stops being right, and what comes next
    named: dict[str, int | None] = msgspec.field(default_factory=lambda: dict.fromkeys(NAMED_PLANS))  # index of each
    choices: tuple[RankedDeployment, ...] = ()  # up to three plans to choose from, `chosen` first
    near_misses: tuple[NearMiss, ...] = ()
    speculation: SpeculationOffer | None = None  # of the chosen plan, which does without
    models: tuple[ModelOption, ...] = ()  # other models that fit, where none was named
    guide: GuideAnswer | UnsetType = UNSET  # where a source's guide was asked
