"""What is asked of every engine alike."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from advisor.decision.policy import Policy
from advisor.decision.types import Guide
from advisor.deployment import Workload
from advisor.machines.types import Machine
from advisor.models.types import Model
from advisor.planning.traffic import Traffic
from advisor.record import Value


class FormatLimits(Value, frozen=True):
    """Formats no wider than so many bits, with this cache type."""

    most_bits: float
    cache: str


class SearchRequest(Value, frozen=True):
    """What is asked of every engine alike."""

    model: Model
    path: str | None
    quantization: str | None
    traffic: Traffic
    machine: Machine
    workload: Workload
    facts: Mapping[str, Any]
    guide: Guide
    requires: tuple[str, ...]
    asked: frozenset[str]  # engines the user insists on
    policy: Policy = Policy()
    port_offset: int = 0  # added to the engine's own port
    whole: Machine | None = None  # the machine whose part `machine` is
    limits: FormatLimits | None = None  # None: every format and cache type
    known: dict[Hashable, Any] | None = None  # answers that several searches for one user's question share
