"""What a fleet plan is: replicas on nodes, what is not served and what would serve it, what it costs."""

from __future__ import annotations

from typing import Any

from advisor.deployment import Holds, Setting, SpeedEstimate
from advisor.fleet.capacity import Confidence
from advisor.fleet.types import Fleet
from advisor.record import SCHEMA_VERSION, Record


class Replica(Record, frozen=True, kw_only=True):
    """One server: what it runs, where, and how much of the demand it takes.

    `load` and `capacity` are requests a second in a busy moment; without a rate, users at once.
    """

    name: str  # of the demand
    model: str
    engine: str
    engine_version: str | None
    quantization: str
    settings: dict[str, Setting]
    pool: str
    hardware: str | None  # of one node, in words
    nodes: tuple[str, ...]
    devices: int  # over all its nodes; 0 = it computes on processors
    device_indices: tuple[int, ...]  # on each of its nodes
    port: int
    context_length: int
    sequences: int  # requests of full length that it is sized for
    command: str
    load: float
    capacity: float
    headroom: float  # capacity / load - 1
    holds: Holds | None
    speed: SpeedEstimate | None  # with as many requests as it serves at once in a busy moment
    memory_share: float | None  # of the tightest device's budget
    changed: bool | None = None  # with --keep: whether it is new


class Unserved(Record, frozen=True, kw_only=True):
    """A model that the plan leaves out."""

    model: str
    name: str
    code: str  # does_not_fit, too_slow, no_room, engine, licence, unknown
    why: str
    what_would_help: str | None


class Measurement(Record, frozen=True, kw_only=True):
    """What to measure so that the plan of `safe` comes nearest to that of `likely`."""

    model: str
    hardware: str
    saves_per_hour: float | None  # None: with it the safe plan serves everything, which it does not without
    command: str


class FleetCost(Record, frozen=True, kw_only=True):
    """What the nodes that carry replicas cost an hour, at either confidence; None = not servable, or a price lacks."""

    likely: float | None
    safe: float | None
    currency: str | None


class SolverReport(Record, frozen=True, kw_only=True):
    """How the plan was found. `gap`: how much less any plan may cost, as a share; None = not known."""

    name: str
    gap: float | None
    seconds: float


class Changes(Record, frozen=True, kw_only=True):
    """Against the plan that was kept: replicas that go on, start, and stop."""

    kept: int
    started: int
    stopped: tuple[str, ...]  # `model on node`


class FleetPlan(Record, frozen=True, kw_only=True):
    """The answer to `advise fleet plan`."""

    confidence: Confidence
    replicas: tuple[Replica, ...]
    unserved: tuple[Unserved, ...]
    cost_per_hour: FleetCost
    nodes_used: int
    measure: Measurement | None
    solver: SolverReport
    changes: Changes | None
    fleet: Fleet
    notes: tuple[str, ...]

    @property
    def exit_status(self) -> int:
        """0 all served, 1 not, 2 where that hangs on what is not known."""
        if not self.unserved:
            return 0
        return 1 if any(u.code != "unknown" for u in self.unserved) else 2

    def to_dict(self) -> dict[str, Any]:
        """The public JSON of `advise fleet plan` (advisor/schemas/fleet-plan.json)."""
        return {
            "schema_version": SCHEMA_VERSION,
            "confidence": self.confidence,
            "replicas": [r.to_dict() for r in self.replicas],
            "unserved": [u.to_dict() for u in self.unserved],
            "cost_per_hour": self.cost_per_hour.to_dict(),
            "nodes_used": self.nodes_used,
            "measure": self.measure.to_dict() if self.measure else None,
            "solver": self.solver.to_dict(),
            "changes": self.changes.to_dict() if self.changes else None,
            "pools": [p.to_dict() for p in self.fleet.pools],
            "set_aside": [s.to_dict() for s in self.fleet.set_aside],
            "notes": list(self.notes),
        }
