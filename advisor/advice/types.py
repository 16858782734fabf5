"""What advice is: ranked deployments, refused engines with reasons, the trace."""

from __future__ import annotations

from typing import Any

from advisor.decision.types import Reason, TraceStep
from advisor.deployment import Deployment, MemoryEstimate, Setting, SpeedEstimate, Workload
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
    guide: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The public JSON of `advise recommend` (advisor/schemas/recommend.json)."""
        from advisor.advice.public import advice

        return advice(self)
