"""What advice is: ranked deployments, refused engines with reasons, the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from advisor.deployment import Deployment, Holds, MemoryEstimate, Setting, SpeedEstimate, Workload
from advisor.machines.types import Machine
from advisor.planning.holding import Holding, estimate_as_json
from advisor.planning.types import CardLayout, TriedFormat
from advisor.record import SCHEMA_VERSION, Record

if TYPE_CHECKING:
    from advisor.decision.types import Reason, TraceStep


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


class TargetAnswer(Record, frozen=True, kw_only=True):
    """The targets that were named, and whether the plan is predicted to meet them; None = it cannot be determined."""

    ttft_s: float | None
    tpot_s: float | None
    met: bool | None
    confidence: str


class NearMiss(Record, frozen=True, kw_only=True):
    """What does not fit by a little, and what would make it fit."""

    what: str
    missing: str
    would_fit_if: str | None


class RankedDeployment(Record, frozen=True, kw_only=True):
    """One deployment that is offered."""

    engine: str
    engine_name: str
    engine_version: str | None
    model: str | None
    quantization: str | None
    settings: dict[str, Setting]
    because: dict[str, str]  # per setting
    command: str | None
    install: str | None = None  # one line that installs the engine; None = none is known, or not asked
    test: str | None = None  # one line that asks the server whether it answers
    memory: MemoryEstimate | None  # None: it runs elsewhere
    speed: SpeedEstimate | None
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()
    tried: tuple[TriedFormat, ...] = ()
    quality: Quality | None = None
    licence: Licences | None = None
    stored: StoredCopy | None = None
    points: dict[str, float] = {}  # by criterion (rules/ranking.yaml); the sum orders, least first
    deployment: Deployment | None  # one of the servers
    copies: int = 1  # equal copies, the engine's own data parallel included; `speed` is the whole plan's
    servers: int = 1  # of these, servers of their own behind a router
    layout: CardLayout | None = None
    prefill: Deployment | None = None  # a server that reads prompts only, where `deployment` writes the answers
    starts: bool | None = None
    holds: Holds | None = None
    on_time: bool | None = None  # whether the targets are met
    targets: TargetAnswer | None = None  # None: none was named
    also: tuple[RankedDeployment, ...] = ()  # of the other models that stay loaded next to it
    gains: tuple[str, ...] = ()  # what it has over the chosen one

    def to_dict(self) -> dict[str, Any]:
        """One offered deployment, as the public JSON has it."""
        return _ranked(self)


class RejectedEngine(Record, frozen=True, kw_only=True):
    """An engine that is not offered, and why."""

    engine: str
    reasons: tuple[Reason, ...]


class Advice(Record, frozen=True, kw_only=True):
    """The answer to `advise recommend`. `chosen` is None when nothing fits; `remedies` then say what would."""

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
    guide: dict[str, Any] | None = None
    named: dict[str, int] = {}  # fastest, widest, simplest -> index of an alternative
    near_misses: tuple[NearMiss, ...] = ()
    models: tuple[ModelOption, ...] = ()  # other models that fit, where none was named

    def to_dict(self) -> dict[str, Any]:
        """The public JSON of `advise recommend` (advisor/schemas/recommend.json)."""
        return _advice(self)


def _ranked(ranked: RankedDeployment) -> dict[str, Any]:
    """One offered deployment."""
    memory = None
    if ranked.memory is not None and ranked.deployment is not None:
        memory = estimate_as_json(ranked.memory, ranked.deployment, (), Holding(ranked.starts, ranked.holds))
        for key in ("id", "model", "engine", "quantization", "speed", "starts", "holds"):
            memory.pop(key)
    return {
        "engine": ranked.engine,
        "engine_version": ranked.engine_version,
        "model": ranked.model,
        "quantization": ranked.quantization,
        "settings": ranked.settings,
        "command": ranked.command,
        "install": ranked.install,
        "test": ranked.test,
        "memory": memory,
        "speed": ranked.speed.to_dict() if ranked.speed else None,
        "copies": ranked.copies,
        "layout": ranked.layout.to_dict() if ranked.layout else None,
        "starts": ranked.starts,
        "holds": ranked.holds.to_dict() if ranked.holds else None,
        "targets": ranked.targets.to_dict() if ranked.targets else None,
        "also": [_ranked(x) for x in ranked.also],
        "gains": list(ranked.gains),
        "reasons": list(ranked.reasons),
        "notes": list(ranked.notes),
        "tried": [t.to_dict() for t in ranked.tried],
        "points": ranked.points,
        "quality": ranked.quality.to_dict() if ranked.quality else None,
        "licence": ranked.licence.to_dict() if ranked.licence else None,
        "stored": ranked.stored.to_dict() if ranked.stored else None,
    }


def _advice(advice: Advice) -> dict[str, Any]:
    """The whole answer of `advise recommend --json`."""
    body: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "machine": advice.machine.to_dict(),
        "workload": advice.workload.to_dict(),
        "chosen": _ranked(advice.chosen) if advice.chosen else None,
        "alternatives": [_ranked(x) for x in advice.alternatives],
        "rejected": [
            {"engine": r.engine, "reasons": [reason.to_dict() for reason in r.reasons]} for r in advice.rejected
        ],
        "trace": [
            {
                "rule": t.rule,
                "held": t.held,
                "conditions": [c.to_dict() for c in t.conditions],
                "because": t.because,
                "source": list(t.source),
            }
            for t in advice.trace
        ],
        "because": list(advice.because),
        "overlay": list(advice.overlay),
        "warnings": list(advice.warnings),
        "remedies": list(advice.remedies),
        "growth": list(advice.growth),
        "named": {k: advice.named.get(k) for k in ("fastest", "widest", "simplest")},
        "near_misses": [n.to_dict() for n in advice.near_misses],
        "models": [m.to_dict() for m in advice.models],
    }
    if advice.guide is not None:
        body["guide"] = advice.guide
    return body
