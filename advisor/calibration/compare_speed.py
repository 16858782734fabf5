"""A result file compared with the predictions for the same deployment, and the measurements that are kept of it."""

from __future__ import annotations

import re

from advisor.calibration.logged_deployment import CalibrationRequest, read_file_format
from advisor.calibration.server_figures import ResultFile
from advisor.catalog import Catalog
from advisor.checks.knowledge import Knowledge
from advisor.checks.resolve import launch_reader
from advisor.deployment import Deployment
from advisor.errors import BadInput
from advisor.estimation import EstimateRequest, RememberedNames, estimate, find_machine, resolve_request
from advisor.machines.types import Machine, fingerprint_machine
from advisor.record import Record
from advisor.speed import evidence
from advisor.speed.measured_load import ComparedSpeed, compare_loads, predict_after
from advisor.yaml_places import make_text


class SpeedCalibration(Record, frozen=True, kw_only=True):
    """What a result file says compared with what was predicted, before and after it was kept."""

    tool: str
    engine: str
    engine_version: str | None
    model: str
    quantization: str
    hardware: str
    compared: tuple[ComparedSpeed, ...]
    kept: str | None  # the file it is in
    unkept: str | None  # why it was not kept
    notes: tuple[str, ...] = ()


def calibrate_speed(
    request: CalibrationRequest, result: ResultFile, rules: Catalog, deployment: Deployment | None = None
) -> SpeedCalibration:
    """Compares the loads of a file with their predictions, and keeps them where they are of this machine.

    `deployment`: where a log tells it. Raises BadInput where the file has no load, or does not tell its engine or
    model; UnknownName.
    """
    if not result.loads:
        raise BadInput(f"the file of {result.tool} has no load that can be compared")
    notes: tuple[str, ...] = ()
    if deployment is None:
        deployment, notes = _find_deployment(request, result, rules)
    memory = estimate(deployment, rules)
    loads = compare_loads(deployment, memory, rules, result.loads)
    kept, compared = None, loads.compared
    if loads.unkept is None and request.keep:
        kept = evidence.store_measurements(loads.measurements)
        compared = predict_after(deployment, memory, rules, compared)
    return SpeedCalibration(
        tool=result.tool,
        engine=deployment.engine,
        engine_version=deployment.engine_version,
        model=deployment.model.id,
        quantization=deployment.quantization,
        hardware=fingerprint_machine(deployment.machine or Machine()),
        compared=compared,
        kept=str(kept) if kept else None,
        unkept=loads.unkept or (None if request.keep else "--no-keep"),
        notes=(*result.notes, *notes),
    )


def _find_deployment(
    request: CalibrationRequest, result: ResultFile, rules: Catalog
) -> tuple[Deployment, tuple[str, ...]]:
    engine = request.engine or result.engine
    if engine is None:
        raise BadInput(f"the file of {result.tool} does not tell which engine ran: say it with --engine")
    longest = max(x.prompt_tokens + x.output_tokens + x.depth_tokens for x in result.loads)
    quantization = request.quantization
    if quantization is None and result.model_type:
        told = re.search(r"([A-Z][A-Z0-9_]+(?: - (?:Small|Medium|Large))?)$", result.model_type[:200])
        quantization = read_file_format(told[1]) if told else None
    return resolve_request(
        EstimateRequest(
            model=request.model or _name_model(result, rules),
            engine=rules.engine(engine).id,
            engine_version=request.engine_version or result.engine_version,
            quantization=quantization,
            hardware="this",
            context_length=max(2048, longest),
            sequences=max(x.concurrency for x in result.loads),
            settings={**result.settings, **request.settings},
        ),
        rules,
        RememberedNames({"this": request.machine or find_machine("this", rules)}),
    )


def _name_model(result: ResultFile, rules: Catalog) -> str:
    """The catalogue's model that the file names. Raises BadInput."""
    if not result.model:
        raise BadInput(f"the file of {result.tool} does not name its model: say it with --model, and --quant")
    found = launch_reader.name_model(make_text(result.model), Knowledge(rules))
    if found is None:
        short = re.split(r"[\\/]", result.model.rstrip("/\\"))[-1][:80]
        raise BadInput(f"{short}, as the file calls its model, is not in the catalogue: say what it is with --model "
                       "(a name, a hub id, or the file or folder itself)")  # fmt: skip
    return found.name
