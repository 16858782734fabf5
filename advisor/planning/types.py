"""What the planner works with: the question to all engines, a format that was tried, a layout of cards, a plan."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from advisor.catalog.types import Quantization
from advisor.decision.policy import Policy
from advisor.decision.types import FactValues, Guide
from advisor.deployment import Deployment, Holds, MemoryEstimate, SpeedEstimate, WhyNot, Workload
from advisor.machines.types import Machine
from advisor.models.types import Model
from advisor.planning.traffic import Traffic
from advisor.record import Record, Value

if TYPE_CHECKING:
    from advisor.decision.types import Reason


Ask = Callable[[Deployment], MemoryEstimate | None]  # the memory of a deployment; None where it allows no answer


class TriedFormat(Record, frozen=True, kw_only=True):
    """A weight format that was looked at and not taken."""

    quantization: str
    fits: bool | None
    text: str
    larger: bool = False  # wider than the one that was taken, and it does not fit
    needs_bytes: int | None = None  # of all devices of a node together, of the host's memory without any


class CardLayout(Record, frozen=True, kw_only=True):
    """How the cards share the work. `data` are the engine's own replicas; further servers are the plan's copies."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: int = 1  # ranks that hold whole experts
    dp_attention: bool = False  # replicas attend for their own requests and share the experts
    prefill: int = 0  # of the servers, those that read prompts only: the others write the answers
    nodes: int = 1
    devices: tuple[int, ...] = ()  # indices on the machine (of each node), all copies together


class Plan(Value, frozen=True):
    """A deployment of one engine that answers the question, or comes near. `deployment` is one of the copies."""

    deployment: Deployment
    memory: MemoryEstimate
    quantization: Quantization
    offload: bool  # part of it runs from host memory
    notes: tuple[str, ...]
    tried: tuple[TriedFormat, ...]
    added: tuple[str, ...] = ()  # what the guide says of the settings it added
    layout: CardLayout = CardLayout()
    servers: int = 1  # servers behind a router, equal but for the roles of a split
    prefill: Deployment | None = None  # one that reads prompts only, where `deployment` writes the answers
    starts: bool | None = True
    why_not: tuple[WhyNot, ...] = ()  # where `starts` is not true
    conditions: tuple[str, ...] = ()  # with which it starts
    holds: Holds | None = None
    speed: SpeedEstimate | None = None  # of the whole plan under its traffic
    on_time: bool | None = None  # whether the targets are met; None where no speed is known

    @property
    def copies(self) -> int:
        """Equal copies, the engine's own replicas included; of a split those that write answers."""
        return (self.servers - self.layout.prefill) * (1 if self.layout.dp_attention else self.layout.data)

    @property
    def holds_all(self) -> bool:
        """Whether nobody who asks has to wait for room."""
        return self.holds is None or self.holds.waiting == 0


class Rejection(Value, frozen=True):
    """Why an engine offers nothing here."""

    reasons: tuple[Reason, ...]
    needs_bytes: int | None = None  # the least that was tried, as `TriedFormat` has it


class SearchRequest(Value, frozen=True):
    """What is asked of every engine alike."""

    model: Model
    path: str | None
    quantization: str | None
    traffic: Traffic
    machine: Machine
    workload: Workload
    facts: FactValues
    guide: Guide
    requires: tuple[str, ...]
    asked: frozenset[str]  # engines the user insists on
    policy: Policy = Policy()
    port_offset: int = 0  # added to the engine's own port
    backend: str | None = None  # that is insisted on
    whole: Machine | None = None  # the machine whose part `machine` is
    from_disk: bool = False  # where nothing fits, a part of the file may stay on disk
    narrow: bool = True  # and the weights may have less than four bits
    cache: str | None = None  # the only cache type that is looked at; None: every one
    known: dict[Hashable, Any] | None = None  # answers that several searches for one user's question share
