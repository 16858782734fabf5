"""The schemas of all JSON output, made from the records that it is (advisor/schemas; a test holds them true)."""

from __future__ import annotations

import msgspec

from advisor.advice.compare import ComparisonAnswer, EngineSpeeds
from advisor.advice.explain import Explanation
from advisor.advice.hardware_types import HardwareAdvice
from advisor.advice.launch_files import LaunchFiles
from advisor.advice.migrate_types import Migration
from advisor.advice.types import Advice
from advisor.bench.run import BenchResult
from advisor.calibration.calibrate import FileCalibration
from advisor.checks.report.answer import CheckAnswer
from advisor.checks.upgrade_types import Upgrade
from advisor.decoding import Json
from advisor.deployment import Estimate
from advisor.estimation import EstimateRequest
from advisor.fleet.check import FleetCheck
from advisor.fleet.plan_types import FleetPlan
from advisor.fleet.types import FleetAnswer
from advisor.freshness import FactAges
from advisor.machines.types import Machine
from advisor.record import Record
from advisor.report.schemas import ErrorAnswer

SHAPES: dict[str, type[Record]] = {
    "request": EstimateRequest,
    "estimate": Estimate,
    "explain": Explanation,
    "recommend": Advice,
    "render": LaunchFiles,
    "check": CheckAnswer,
    "upgrade": Upgrade,
    "hardware": HardwareAdvice,
    "compare": ComparisonAnswer,
    "compare_speed": EngineSpeeds,
    "calibrate": FileCalibration,
    "facts": FactAges,
    "migrate": Migration,
    "probe": Machine,
    "bench": BenchResult,
    "fleet-show": FleetAnswer,
    "fleet-plan": FleetPlan,
    "fleet-check": FleetCheck,
    "error": ErrorAnswer,
}
WITH_DEFAULTS = ("request", "probe", "error")  # users write the first two, and bad lines have no `schema_version`


def make_schema(name: str) -> Json:
    """The JSON Schema (2020-12) of one shape. An answer has all of its fields, whatever a record takes for granted."""
    made = msgspec.json.schema(SHAPES[name])
    if name not in WITH_DEFAULTS:
        for definition in made["$defs"].values():
            _require_fields(definition)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"advise {name}", **made}


def _require_fields(definition: Json) -> None:
    """Make all fields required that are written always: those that may be absent have no default."""
    required = set(definition.get("required", ()))
    for field, kind in definition.get("properties", {}).items():
        if "default" in kind:
            del kind["default"]
            required.add(field)
    if required:
        definition["required"] = [f for f in definition["properties"] if f in required]


def write_schema(schema: Json) -> str:
    """A schema as its file has it."""
    return msgspec.json.format(msgspec.json.encode(schema), indent=1).decode() + "\n"


def make_schema_files() -> dict[str, str]:
    """File name -> content of every schema file."""
    return {f"{name}.json": write_schema(make_schema(name)) for name in SHAPES}
