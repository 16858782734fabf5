"""`advise calibrate`: what a file reports about memory, about speed, or about both."""

from __future__ import annotations

import re
from datetime import date

from advisor import history, residuals
from advisor.calibration.logged_deployment import (
    CalibrationRequest,
    find_logged_deployment,
    name_logged_model,
    read_file_format,
)
from advisor.calibration.read_log import LoggedPart, StartupLog, read_startup_log
from advisor.calibration.result_files import KINDS, ResultFile, read_result_file
from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.checks.knowledge import Knowledge
from advisor.deployment import Deployment, DeviceMemory, MemoryEstimate
from advisor.errors import AdvisorError, BadInput
from advisor.estimation import EstimateRequest, RememberedNames, estimate, find_machine, resolve_request
from advisor.history import MemoryResidual
from advisor.machines.types import Machine, fingerprint_machine
from advisor.record import Answer, Record
from advisor.session import Session
from advisor.speed.measured_load import ComparedSpeed, compare_loads, predict_after
from advisor.units import MIB, format_gib
from advisor.unknowns import sum_known
from advisor.yaml_places import make_text

OTHER_CACHE = 0.03  # a cache that differs by more is that of another deployment
OTHER_TOTAL = 0.4  # of what the engine may use of the device


class FileCalibration(Answer, frozen=True, kw_only=True):
    """What a file tells. None = nothing of that."""

    memory: LogCalibration | None
    speed: SpeedCalibration | None


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


class ComparedPart(Record, frozen=True, kw_only=True):
    """One figure of one place, bytes (or tokens): predicted with its bounds, and logged. None = not told."""

    place: str
    part: str
    predicted: int | None
    low: int | None = None
    high: int | None = None
    logged: int
    unit: str = "bytes"


class LogCalibration(Record, frozen=True, kw_only=True):
    """What a log says compared with what was predicted, and what is kept of it."""

    engine: str
    engine_version: str | None
    model: str
    quantization: str
    hardware: str
    settings: dict[str, str]  # those of the log that the estimate rests on
    parts: tuple[ComparedPart, ...]
    residual: MemoryResidual | None
    kept: str | None  # the file it is in
    unkept: str | None  # why it was not kept
    notes: tuple[str, ...] = ()


def calibrate(request: CalibrationRequest, session: Session) -> FileCalibration:
    """Reads a start-up log, a result file, or a log with both. Raises BadInput, UnknownName."""
    rules = session.rules
    result = read_result_file(request.text, rules.engines())
    if result is None:
        try:
            return FileCalibration(memory=calibrate_memory(request, session), speed=None)
        except BadInput as e:
            if request.text.lstrip()[:1] in ("{", "["):
                raise BadInput(f"this JSON is of no kind that is read: {KINDS}") from None
            raise e
    if not result.log:
        return FileCalibration(memory=None, speed=calibrate_speed(request, result, session))
    try:  # a log of a whole run: its start tells memory and the deployment
        memory = calibrate_memory(request, session)
        log = read_startup_log(request.text, rules.engines(), request.engine)
        deployment, _, _ = find_logged_deployment(request, log, rules)
    except AdvisorError:
        return FileCalibration(memory=None, speed=calibrate_speed(request, result, session))
    return FileCalibration(memory=memory, speed=calibrate_speed(request, result, session, deployment))


def calibrate_speed(
    request: CalibrationRequest, result: ResultFile, session: Session, deployment: Deployment | None = None
) -> SpeedCalibration:
    """Compares the loads of a file with their predictions, and keeps them where they are of this machine.

    `deployment`: where a log tells it. Raises BadInput where the file has no load, or does not tell its engine or
    model; UnknownName.
    """
    if not result.loads:
        raise BadInput(f"the file of {result.tool} has no load that can be compared")
    notes: tuple[str, ...] = ()
    if deployment is None:
        engine = request.engine or result.engine
        if engine is None:
            raise BadInput(f"the file of {result.tool} does not tell which engine ran: say it with --engine")
        longest = max(x.prompt_tokens + x.output_tokens + x.depth_tokens for x in result.loads)
        quantization = request.quantization
        if quantization is None and result.model_type:
            reported = re.search(r"([A-Z][A-Z0-9_]+(?: - (?:Small|Medium|Large))?)$", result.model_type[:200])
            quantization = read_file_format(reported[1]) if reported else None
        deployment, notes = resolve_request(
            EstimateRequest(
                model=request.model or _name_model(result, session.rules),
                engine=session.rules.engine(engine).id,
                engine_version=request.engine_version or result.engine_version,
                quantization=quantization,
                hardware="this",
                context_length=max(2048, longest),
                sequences=max(x.concurrency for x in result.loads),
                settings={**result.settings, **request.settings},
            ),
            session.rules,
            RememberedNames({"this": request.machine or find_machine("this", session.rules)}),
        )
    memory = estimate(deployment, session)
    loads = compare_loads(deployment, memory, session, result.loads)
    kept, compared = None, loads.compared
    if loads.unkept is None and request.keep:
        kept = history.store_measurements(loads.measurements)
        compared = predict_after(deployment, memory, Session(session.rules), compared)
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


def _name_model(result: ResultFile, rules: Catalog) -> str:
    """The catalogue's model that the file names. Raises BadInput."""
    if not result.model:
        raise BadInput(f"the file of {result.tool} does not name its model: say it with --model, and --quant")
    return name_logged_model([make_text(result.model)], "file", Knowledge(rules)).name


def calibrate_memory(request: CalibrationRequest, session: Session) -> LogCalibration:
    """Reads the log, estimates the deployment that it describes without earlier logs, compares, and keeps the residual.

    Raises BadInput where the log has no figures, or does not tell its model or hardware; UnknownName.
    """
    rules = session.rules
    log = read_startup_log(request.text, rules.engines(), request.engine)
    entry = rules.engine(log.engine)
    if not any(p.bytes for p in log.parts):
        wants = entry.startup_log.wants if entry.startup_log else ""
        raise BadInput(f"the log of {entry.name} says nothing of memory: what is read is {wants}")
    deployment, settings, notes = find_logged_deployment(request, log, rules)
    predicted = estimate(deployment, session.without_history())
    compared = _Comparison(log, entry, rules, predicted)
    parts = compared.parts()
    residual, unkept = _residual(log, deployment, predicted, compared, entry)
    kept = history.store_residual(residual) if residual is not None and request.keep else None
    return LogCalibration(
        engine=log.engine,
        engine_version=deployment.engine_version,
        model=deployment.model.id,
        quantization=deployment.quantization,
        hardware=fingerprint_machine(deployment.machine or Machine()),
        settings=settings,
        parts=parts,
        residual=residual,
        kept=str(kept) if kept else None,
        unkept=unkept or (None if request.keep else "--no-keep"),
        notes=notes,
    )


class _Comparison:
    """Logged figures by place compared with an estimate's rows."""

    def __init__(self, log: StartupLog, entry: Engine, rules: Catalog, predicted: MemoryEstimate) -> None:
        self.log = log
        self.predicted = predicted
        tables = [entry.startup_log, *([rules.engine(entry.startup_log.also).startup_log]
                                       if entry.startup_log and entry.startup_log.also else [])]  # fmt: skip
        self.host = next((t.host for t in tables if t is not None and t.host is not None), None)

        self.pooled = predicted.kv_cache.available_bytes is not None  # the engine reserves a pool

    def parts(self) -> tuple[ComparedPart, ...]:
        """All figures that the log tells and the estimate has a part for."""
        return self._compare_ranks() if self.pooled else self._compare_places()

    def rank_bytes(self, *parts: str) -> int | None:
        """The largest of the ranks' figures of one part, the first that the log tells; of a pool the smallest."""
        for name in parts:
            found = self.log.find_part(name)
            if found is not None and found.bytes:
                return min(found.bytes) if name == "pool" else max(found.bytes)
        return None

    def pool(self) -> int | None:
        """What the log says is left for cache and states of a rank."""
        pool = self.rank_bytes("pool")
        return None if pool is None else pool + (self.rank_bytes("state") or 0)

    def outside(self) -> int | None:
        """What lies outside the allocator, graphs that count for the budget among it."""
        consumed, weights, outside = (self.rank_bytes(p) for p in ("consumed", "weights", "outside"))
        if outside is None and consumed is not None and weights is not None:
            outside = consumed - weights
        return None if outside is None else outside + (self.rank_bytes("graphs") or 0)

    def _compare_ranks(self) -> tuple[ComparedPart, ...]:
        row = max(self.predicted.devices, key=lambda d: d.weights_bytes or 0, default=None)
        cache = self.predicted.kv_cache
        if row is None:
            return ()
        figures = (
            ("weights", row.weights_bytes, None, None, self.rank_bytes("weights")),
            ("activation peak", row.compute_bytes, None, None, self.rank_bytes("activation")),
            ("outside the allocator, graphs", row.overhead_bytes, None, None, self.outside()),
            ("KV cache pool", cache.available_bytes, cache.available_low_bytes, cache.available_high_bytes,
             self.pool()),
        )  # fmt: skip
        out = [
            ComparedPart(place="each GPU", part=part, predicted=value, low=low, high=high, logged=logged)
            for part, value, low, high, logged in figures
            if logged is not None
        ]
        pool = self.log.find_part("pool")
        if pool is not None and pool.tokens is not None:
            out.append(
                ComparedPart(place="pool", part="tokens", predicted=cache.tokens, logged=pool.tokens, unit="tokens")
            )
        return tuple(out)

    def place_bytes(self, index: int | None, *parts: str) -> int | None:
        """Bytes of the parts at a device (None = the host); None where the log tells none of them."""
        found = self._parts_at(index, *parts)
        return sum(sum(p.bytes) for p in found) if found else None

    def _parts_at(self, index: int | None, *parts: str) -> list[LoggedPart]:
        return [p for p in self.log.parts if p.part in parts and p.place is not None and self._find_device(p) == index]

    def weight_bytes(self, index: int | None, row: DeviceMemory) -> int | None:
        """Bytes of weights at a place. A mapped buffer reaches from the first to the last of its matrices in the file,
        with those of other places between them: what is predicted for it counts where that is less."""
        found = self._parts_at(index, "weights")
        spans = sum(sum(p.bytes) for p in found if (p.place or "").endswith("_Mapped"))
        own = sum(sum(p.bytes) for p in found) - spans
        predicted = row.mapped_bytes if index is None and row.mapped_bytes is not None else row.weights_bytes
        if not found:
            return None
        return own + min(spans, max(0, predicted)) if predicted is not None else own + spans

    def _find_device(self, part: LoggedPart) -> int | None:
        """The device that a place is; None for host memory."""
        if self.log.on_host(self.host, part):
            return None
        m = re.search(r"(\d+)$", re.sub(r"_(Mapped|Split)$", "", part.place or ""))
        return int(m[1]) if m else 0

    def _compare_places(self) -> tuple[ComparedPart, ...]:
        out: list[ComparedPart] = []
        for index, row in self.rows():
            figures = (
                ("weights", row.weights_bytes, self.weight_bytes(index, row)),
                ("KV cache", row.kv_cache_bytes, self.place_bytes(index, "kv_cache")),
                ("recurrent state", row.recurrent_state_bytes, self.place_bytes(index, "state")),
                ("compute", row.compute_bytes, self.place_bytes(index, "compute", "output")),
                ("context, kernels", row.overhead_bytes, self.place_bytes(index, "unaccounted")),
            )
            out += [
                ComparedPart(place=row.name, part=part, predicted=value, logged=logged)
                for part, value, logged in figures
                if logged is not None
            ]
            logged = [x for part, _, x in figures if x is not None and part != "context, kernels"]
            known = (row.weights_bytes, row.kv_cache_bytes, row.recurrent_state_bytes, row.compute_bytes)
            if logged:
                out.append(
                    ComparedPart(place=row.name, part="together", predicted=sum_known(known), logged=sum(logged))
                )
        return tuple(out)

    def rows(self) -> list[tuple[int | None, DeviceMemory]]:
        """(device, its row), the host last."""
        rows: list[tuple[int | None, DeviceMemory]] = list(enumerate(self.predicted.devices))
        return [*rows, *([(None, self.predicted.host)] if self.predicted.host is not None else [])]


def _residual(
    log: StartupLog, deployment: Deployment, predicted: MemoryEstimate, compared: _Comparison, entry: Engine
) -> tuple[MemoryResidual | None, str | None]:
    """(what is kept of the log, why nothing is)."""
    try:
        weights, rest = _find_pool_residual(predicted, compared) if compared.pooled else _find_buffer_residual(compared)
    except _NotKept as e:
        return None, str(e)
    residual = MemoryResidual(
        date=date.today().isoformat(),
        machine=fingerprint_machine(deployment.machine or Machine()),
        engine=deployment.engine,
        engine_version=deployment.engine_version,
        model=deployment.model.id,
        quantization=deployment.quantization,
        model_class=residuals.classify_model(deployment.model),
        ranks=len(predicted.devices),
        launch=residuals.describe_launch(deployment, entry),
        weights_bytes=weights,
        beside_bytes=rest,
    )
    return residual, None


class _NotKept(Exception):
    """Why a log is no calibration."""


def _find_pool_residual(predicted: MemoryEstimate, compared: _Comparison) -> tuple[int, int]:
    """(weights, everything else) logged less predicted: what the pool is smaller by is taken by one of them."""
    pool, available = compared.pool(), predicted.kv_cache.available_bytes
    row = max(predicted.devices, key=lambda d: d.weights_bytes or 0)
    if pool is None or available is None:
        raise _NotKept("the log does not say how much is left for the KV cache")
    logged = compared.rank_bytes("weights")
    weights = logged - row.weights_bytes if logged is not None and row.weights_bytes is not None else 0
    rest = available - pool - weights
    if row.budget_bytes and abs(weights) + abs(rest) > OTHER_TOTAL * row.budget_bytes:
        raise _NotKept(f"it is {format_gib(available - pool)} off: is this the deployment that was named?")
    return weights, rest


def _find_buffer_residual(compared: _Comparison) -> tuple[int, int]:
    """(weights, everything else) of the devices, without any of the host; a mean where there are several."""
    rows = [x for x in compared.rows() if x[0] is not None] or compared.rows()
    deltas = []
    for index, row in rows:
        weights, compute = compared.weight_bytes(index, row), compared.place_bytes(index, "compute", "output")
        cache = compared.place_bytes(index, "kv_cache")
        if weights is None or compute is None or row.weights_bytes is None or row.compute_bytes is None:
            continue
        expected = row.kv_cache_bytes or 0
        if cache is not None and abs(cache - expected) > OTHER_CACHE * expected + 16 * MIB:
            problem = f"its KV cache is {format_gib(cache)}, from the settings follow {format_gib(expected)}"
            raise _NotKept(f"{problem}: is this the deployment that was named?")
        unaccounted = compared.place_bytes(index, "unaccounted")
        context = unaccounted - (row.overhead_bytes or 0) if unaccounted is not None else 0
        deltas.append((weights - row.weights_bytes, compute - row.compute_bytes + context))
    if not deltas:
        raise _NotKept("the log does not tell weights and compute buffers of any device")
    return sum(w for w, _ in deltas) // len(deltas), sum(b for _, b in deltas) // len(deltas)
