"""The shapes of all JSON output, and the schema files made from them (advisor/schemas/*.json; a test holds them true).

`python -m tools.pages` writes them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from advisor.advice.compare import Comparison, ComparisonLine, EngineSpeeds
from advisor.advice.explain import CardFit, LoadPoint, MemoryChange
from advisor.advice.hardware.money import Money
from advisor.advice.hardware_types import Axis, RejectedHardware, ResidentModel
from advisor.advice.limits import DeploymentLimits
from advisor.advice.migrate_types import Migration
from advisor.advice.types import Licences, ModelOption, NearMiss, Quality, StoredCopy, TargetAnswer
from advisor.bench.run import BenchResult
from advisor.calibration.calibrate import FileCalibration
from advisor.checks.report.answer import CheckAnswer
from advisor.decision.types import ConditionOutcome, Reason
from advisor.deployment import Basis, DeviceMemory, Holds, KvCache, Setting, SpeedEstimate, Workload
from advisor.engines.llama_cpp.verify import EngineVerification
from advisor.estimation import EstimateRequest
from advisor.fleet.capacity import Confidence
from advisor.fleet.check import DeployedDifference, LossAnswer
from advisor.fleet.plan_types import Changes, FleetCost, Measurement, Replica, SolverReport, Unserved
from advisor.fleet.types import SetAside, SourceKind
from advisor.freshness import FactAges
from advisor.machines.types import Machine
from advisor.planning.types import CardLayout, TriedFormat
from advisor.record import SCHEMA_VERSION, Record


class ErrorBody(Record, frozen=True, kw_only=True):
    """What is wrong: a stable code, one line, near matches of a name."""

    code: str
    message: str
    near: list[str]


class ErrorAnswer(Record, frozen=True, kw_only=True):
    """The answer of any command with --json at exit status 2, and of a bad line of `advise estimate`."""

    error: ErrorBody
    id: Any = None


class Memory(Record, frozen=True, kw_only=True):
    """Where every byte goes. `devices` in rank order, `host` = host memory; unknown values are null."""

    fits: bool | None
    context_length: int
    sequences: int
    devices: list[DeviceMemory]
    host: DeviceMemory | None
    kv_cache: KvCache
    basis: dict[str, Basis]
    not_modelled: list[str]
    warnings: list[str]
    short: list[str]
    message: str | None
    refused: bool
    calibration: str | None


class EstimateAnswer(Memory, frozen=True, kw_only=True):
    """One line of `advise estimate`, and one element of `estimates` in `advise explain --json`."""

    id: Any
    model: str
    engine: str
    quantization: str
    speed: SpeedEstimate | None
    starts: bool | None
    holds: Holds | None


class ExplainAnswer(Record, frozen=True, kw_only=True):
    """`advise explain --json`."""

    model: str
    quantization: str
    engine: str
    machine: Machine | None
    fits: bool | None
    file_bytes: int | None
    bits_per_weight: float | None
    estimates: list[EstimateAnswer]
    fits_on: list[CardFit]
    changes: list[MemoryChange]
    limits: DeploymentLimits | None
    speed: list[LoadPoint]
    planned: RankedAnswer | None
    verified: EngineVerification | None
    warnings: list[str]


class RankedAnswer(Record, frozen=True, kw_only=True):
    """One offered deployment. `memory` is null for what runs elsewhere."""

    engine: str
    engine_version: str | None
    model: str | None
    quantization: str | None
    settings: dict[str, Setting]
    command: str | None
    install: str | None
    test: str | None
    memory: Memory | None
    speed: SpeedEstimate | None
    copies: int
    layout: CardLayout | None
    starts: bool | None
    holds: Holds | None
    targets: TargetAnswer | None
    also: list[RankedAnswer]
    gains: list[str]
    reasons: list[str]
    notes: list[str]
    tried: list[TriedFormat]
    points: dict[str, float]
    quality: Quality | None
    licence: Licences | None
    stored: StoredCopy | None


class RejectedAnswer(Record, frozen=True, kw_only=True):
    """An engine that is not offered."""

    engine: str
    reasons: list[Reason]


class TraceAnswer(Record, frozen=True, kw_only=True):
    """One rule that was looked at. `held` null = a field it asks about is unknown."""

    rule: str
    held: bool | None
    conditions: list[ConditionOutcome]
    because: str | None
    source: list[str]


class RecommendAnswer(Record, frozen=True, kw_only=True):
    """`advise recommend --json`. `chosen` is null when nothing fits; `remedies` then say what would."""

    machine: Machine
    workload: Workload
    chosen: RankedAnswer | None
    alternatives: list[RankedAnswer]
    rejected: list[RejectedAnswer]
    trace: list[TraceAnswer]
    because: list[str]
    overlay: list[str]
    warnings: list[str]
    remedies: list[str]
    growth: list[str]
    named: dict[str, int | None]
    near_misses: list[NearMiss]
    models: list[ModelOption]
    guide: dict[str, Any] | None = None


class OptionAnswer(Record, frozen=True, kw_only=True):
    """One thing to buy or rent. Amounts in `currency`; `fits` null = too close to call."""

    hardware: str
    accelerator: str
    count: int
    cards_used: int
    axis: Axis
    fits: bool | None
    engine: str
    quantization: str
    settings: dict[str, Setting]
    currency: str
    price: float | None
    price_date: str
    price_kind: str
    price_source: str
    provider: str | None
    hourly: float | None
    monthly_cost: float | None
    break_even_hours: float | None
    break_even_source: str | None
    api_break_even_tokens: float | None
    power_watts: float | None
    psu_watts: float | None
    needed_bytes: int | None
    available_bytes: int | None
    headroom_share: float | None
    max_sequences: int | None
    copies: int
    starts: bool | None
    holds: Holds | None
    tokens_per_money: float | None
    maturity: str
    needs: str
    speed: SpeedEstimate | None
    why: list[str]
    also: list[ResidentModel]


class HardwareAnswer(Record, frozen=True, kw_only=True):
    """`advise hardware --json`. `options` is empty when nothing fits; `beyond` then says what would."""

    model: str
    others: list[str]
    quantizations: list[str]
    context_length: int
    users: int
    budget: Money | None
    rent: Money | None
    hours_per_month: float
    currency: str
    options: list[OptionAnswer]
    named: dict[str, int | None]
    rejected: list[RejectedHardware]
    beyond: list[str]
    here: str | None
    notes: list[str]


class CompareAnswer(Record, frozen=True, kw_only=True):
    """`advise compare --json`. `sources` holds the source documents' tables with `--all`."""

    id: str
    title: str
    engines: list[str]
    names: list[str]
    lines: list[ComparisonLine]
    hardware: str | None
    refused: dict[str, list[str]]
    as_of: str
    sources: list[Comparison]


class PoolAnswer(Record, frozen=True, kw_only=True):
    """Equal nodes. Nodes with several kinds of devices stand in one pool for each; these have the same `group`."""

    id: str
    group: str
    nodes: int
    node_names: list[str]
    hardware: str | None
    accelerator: str | None
    vendor: str | None
    device_memory_bytes: int | None
    mig_profile: str | None
    host_memory_bytes: int | None
    devices: int
    devices_free: int | None
    resource: str | None
    needs_probe: bool
    price_per_hour: float | None
    labels: dict[str, str]
    notes: list[str]


class FleetShowAnswer(Record, frozen=True, kw_only=True):
    """`advise fleet show --json`. Every node is in a pool, or set aside with the reason."""

    source: SourceKind
    pools: list[PoolAnswer]
    set_aside: list[SetAside]
    currency: str | None
    notes: list[str]


class FleetPlanAnswer(Record, frozen=True, kw_only=True):
    """`advise fleet plan --json`. `replicas` is the plan at `confidence`; costs are those of the plans at either."""

    confidence: Confidence
    replicas: list[Replica]
    unserved: list[Unserved]
    cost_per_hour: FleetCost
    nodes_used: int
    measure: Measurement | None
    solver: SolverReport
    changes: Changes | None
    pools: list[PoolAnswer]
    set_aside: list[SetAside]
    notes: list[str]


class FleetCheckAnswer(Record, frozen=True, kw_only=True):
    """`advise fleet check --json`. `survives` and `differences` are null where that was not asked."""

    placeable: bool
    unserved: list[Unserved]
    cost_per_hour: FleetCost
    lose: int
    survives: bool | None
    losses: list[LossAnswer]
    differences: list[DeployedDifference] | None
    notes: list[str]


SHAPES: dict[str, type] = {
    "request": EstimateRequest,
    "estimate": EstimateAnswer,
    "explain": ExplainAnswer,
    "recommend": RecommendAnswer,
    "check": CheckAnswer,
    "hardware": HardwareAnswer,
    "compare": CompareAnswer,
    "compare_speed": EngineSpeeds,
    "calibrate": FileCalibration,
    "facts": FactAges,
    "migrate": Migration,
    "probe": Machine,
    "bench": BenchResult,
    "fleet-show": FleetShowAnswer,
    "fleet-plan": FleetPlanAnswer,
    "fleet-check": FleetCheckAnswer,
    "error": ErrorAnswer,
}


def make_schema(name: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of one shape."""
    made = msgspec.json.schema(SHAPES[name])
    if name not in ("request", "probe"):
        top = made["$defs"][made["$ref"].rpartition("/")[2]]
        top["properties"]["schema_version"] = {"type": "integer", "const": SCHEMA_VERSION}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"advise {name}", **made}


def make_schema_files() -> dict[str, str]:
    """File name -> content of every schema file."""
    return {
        f"{name}.json": msgspec.json.format(msgspec.json.encode(make_schema(name), order="sorted"), indent=1).decode()
        + "\n"
        for name in SHAPES
    }
