"""What a fleet plan is: replicas on nodes, what is not served and what would serve it, what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from advisor.decoding import convert
from advisor.deployment import Holds, Setting, SpeedEstimate
from advisor.errors import BadFile
from advisor.files import parse_json, read_bytes
from advisor.fleet.candidates import Confidence
from advisor.fleet.types import PoolAnswer, SetAside
from advisor.record import Answer, Record

MOST_BYTES = 64 * 2**20
T = TypeVar("T")


class PlannedReplica(Record, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """One server: what it runs, and where. It is read back from plans; further fields are left alone.

    `load` and `capacity` are requests a second in a busy moment; without a rate, users at once.
    """

    name: str  # of the demand
    model: str
    engine: str
    engine_version: str | None = None
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
    card_share: float = 1.0  # of its one device, where others stand on it, too


class Replica(PlannedReplica, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server: what it runs, where, and how much of the demand it takes."""

    headroom: float  # capacity / load - 1
    holds: Holds | None
    speed: SpeedEstimate | None  # with as many requests as it serves at once in a busy moment
    memory_share: float | None  # of the tightest device's budget
    changed: bool | None = None  # with --keep: whether it is new


class Unserved(Record, frozen=True, kw_only=True):
    """A model that the plan leaves out."""

    model: str
    name: str
    code: str  # does_not_fit, too_slow, no_room, engine, licence, where, unknown
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


class FleetPlan(Answer, frozen=True, kw_only=True):
    """The answer to `advise fleet plan`. `replicas` is the plan at `confidence`; costs are those of the plans at
    either."""

    confidence: Confidence
    replicas: tuple[Replica, ...]
    unserved: tuple[Unserved, ...]
    cost_per_hour: FleetCost
    nodes_used: int
    least_nodes: int | None = None  # no plan that serves the same demands stands on fewer
    measure: Measurement | None
    solver: SolverReport
    changes: Changes | None
    pools: tuple[PoolAnswer, ...]
    set_aside: tuple[SetAside, ...]
    notes: tuple[str, ...]

    @property
    def exit_status(self) -> int:
        """0 all served, 1 not, 2 where that hangs on what is not known."""
        if not self.unserved:
            return 0
        return 1 if any(u.code != "unknown" for u in self.unserved) else 2


def read_plan(path: str, shape: type[T]) -> T:
    """What a shape has of a plan in JSON. Raises BadFile for what is none."""
    data = parse_json(read_bytes(path, MOST_BYTES), Path(path))
    try:
        return convert(data, shape)
    except msgspec.ValidationError as e:
        raise BadFile(path, f"is not a fleet plan (`advise fleet plan --json` writes one): {e}") from None
