"""What advice is: ranked deployments, refused engines with reasons, the trace."""

from __future__ import annotations

from typing import Any

from advisor.decision.types import Reason, TraceStep
from advisor.deployment import Deployment, MemoryEstimate, Setting, SpeedEstimate, Workload
from advisor.estimation import answer
from advisor.machines.types import Machine
from advisor.record import Record


class Tried(Record, frozen=True, kw_only=True):
    """A weight format that was looked at and not taken."""

    quantization: str
    fits: bool | None
    text: str


class Ranked(Record, frozen=True, kw_only=True):
    """One deployment that is offered."""

    engine: str
    engine_name: str
    engine_version: str | None
    model: str | None
    quantization: str | None
    settings: dict[str, Setting]
    because: dict[str, str]  # per setting
    command: str | None
    memory: MemoryEstimate | None  # None: it runs elsewhere
    speed: SpeedEstimate | None
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()
    tried: tuple[Tried, ...] = ()
    points: dict[str, float] = {}  # by criterion (rules/ranking.yaml); the sum orders, least first
    deployment: Deployment | None


class Rejected(Record, frozen=True, kw_only=True):
    """An engine that is not offered, and why."""

    engine: str
    reasons: tuple[Reason, ...]


class Advice(Record, frozen=True, kw_only=True):
    """The answer to `advise recommend`. `chosen` is None when nothing fits; `remedies` then say what would."""

    machine: Machine
    workload: Workload
    chosen: Ranked | None
    alternatives: tuple[Ranked, ...]
    rejected: tuple[Rejected, ...]
    trace: tuple[TraceStep, ...]
    because: tuple[str, ...] = ()
    overlay: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    growth: tuple[str, ...] = ()  # when the choice stops being right, and what comes next
    guide: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The public JSON of `advise recommend` (advisor/schemas/recommend.json)."""
        return _advice(self)


def _ranked(x: Ranked) -> dict[str, Any]:
    """One offered deployment."""
    memory = None
    if x.memory is not None and x.deployment is not None:
        memory = answer(x.memory, x.deployment)
        for key in ("id", "model", "engine", "quantization", "speed"):
            memory.pop(key)
    return {
        "engine": x.engine,
        "engine_version": x.engine_version,
        "model": x.model,
        "quantization": x.quantization,
        "settings": x.settings,
        "command": x.command,
        "memory": memory,
        "speed": x.speed.to_dict() if x.speed else None,
        "reasons": list(x.reasons),
        "notes": list(x.notes),
        "tried": [t.to_dict() for t in x.tried],
        "points": x.points,
    }


def _advice(a: Advice) -> dict[str, Any]:
    """The whole answer of `advise recommend --json`."""
    body: dict[str, Any] = {
        "machine": a.machine.to_dict(),
        "workload": a.workload.to_dict(),
        "chosen": _ranked(a.chosen) if a.chosen else None,
        "alternatives": [_ranked(x) for x in a.alternatives],
        "rejected": [{"engine": r.engine, "reasons": [reason.to_dict() for reason in r.reasons]} for r in a.rejected],
        "trace": [
            {
                "rule": t.rule,
                "held": t.held,
                "conditions": [c.to_dict() for c in t.conditions],
                "because": t.because,
                "source": list(t.source),
            }
            for t in a.trace
        ],
        "because": list(a.because),
        "overlay": list(a.overlay),
        "warnings": list(a.warnings),
        "remedies": list(a.remedies),
        "growth": list(a.growth),
    }
    if a.guide is not None:
        body["guide"] = a.guide
    return body
