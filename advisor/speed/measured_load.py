"""A load that was measured, compared with what is predicted for it: by the rules alone, and with the measurement
known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.deployment import Deployment, Interval, MemoryEstimate, SpeedEstimate
from advisor.history import SpeedMeasurement
from advisor.machines.types import Machine, fingerprint_machine
from advisor.record import Record, Value
from advisor.session import Session
from advisor.speed import evidence
from advisor.speed.efficiencies import format_class
from advisor.speed.estimator import estimate_speed, find_layout
from advisor.speed.work import RequestLoad

PLAIN = re.compile(r"[A-Za-z0-9_.+-]{1,40}")  # neither a path nor a list
SECRET = re.compile(r"key|token(?!s)|secret|password|user|host|file|path|dir", re.IGNORECASE)
SLOWEST, FASTEST = 1 / 40, 40.0  # a ratio beyond is no calibration: another deployment was measured
# kind of a quantity -> the field of a prediction and of a measured load that holds it
FIELDS = {"decode": "decode_tps", "prefill": "prefill_tps", "ttft": "ttft_s", "tpot": "tpot_s", "closed": "output_tps"}


class MeasuredLoad(Record, frozen=True, kw_only=True):
    """One load and what was measured of it, as a result file tells it. Tokens, tokens a second, seconds."""

    tool: str
    concurrency: int
    prompt_tokens: int
    output_tokens: int
    depth_tokens: int = 0
    decode_tps: float | None = None  # of one request
    prefill_tps: float | None = None
    ttft_s: float | None = None  # median, or mean where there is no other
    tpot_s: float | None = None
    output_tps: float | None = None  # of all requests


class ComparedSpeed(Record, frozen=True, kw_only=True):
    """One quantity of one load: measured, and predicted before and after it was known."""

    kind: str
    concurrency: int
    prompt_tokens: int
    output_tokens: int
    depth_tokens: int
    measured: float
    before: Interval
    after: Interval | None = None  # None = not kept


class ComparedLoads(Value, frozen=True):
    """What was compared, what can be kept of it, and why nothing can."""

    compared: tuple[ComparedSpeed, ...]
    measurements: tuple[SpeedMeasurement, ...]
    unkept: str | None


def compare_loads(
    deployment: Deployment, memory: MemoryEstimate, session: Session, loads: Sequence[MeasuredLoad]
) -> ComparedLoads:
    """Each measured quantity compared with its prediction by the rules alone.

    Quantities that the model does not predict for this deployment are left out. Raises BadInput as `estimate_speed`.
    """
    compared, measurements = [], []
    layout = find_layout(deployment, memory, session.rules)
    for measured in loads:
        predicted = estimate_speed(deployment, memory, session.without_history(), request_load(measured))
        for kind, field in FIELDS.items():
            value, before = getattr(measured, field), getattr(predicted, field) if predicted else None
            if value is None or before is None:
                continue
            compared.append(
                ComparedSpeed(
                    kind=kind, concurrency=measured.concurrency, prompt_tokens=measured.prompt_tokens,
                    output_tokens=measured.output_tokens, depth_tokens=measured.depth_tokens, measured=value,
                    before=before,
                )
            )  # fmt: skip
            measurements.append(_measurement(deployment, session.rules, layout, kind, measured, value, before))
    return ComparedLoads(tuple(compared), tuple(measurements), _why_not(deployment, measurements))


def predict_after(
    deployment: Deployment, memory: MemoryEstimate, session: Session, compared: Sequence[ComparedSpeed]
) -> tuple[ComparedSpeed, ...]:
    """The same quantities with what a session that has the kept measurements predicts for them."""
    out = []
    for c in compared:
        now: SpeedEstimate | None = estimate_speed(deployment, memory, session, request_load(c))
        out.append(replace(c, after=getattr(now, FIELDS[c.kind]) if now else None))
    return tuple(out)


def request_load(measured: MeasuredLoad | ComparedSpeed) -> RequestLoad:
    """The load that was measured, as the speed model takes it."""
    return RequestLoad(
        concurrency=measured.concurrency, prompt=measured.prompt_tokens, output=measured.output_tokens,
        depth=measured.depth_tokens,
    )  # fmt: skip


def _measurement(
    deployment: Deployment, rules: Catalog, layout: str, kind: str, load: MeasuredLoad, value: float, before: Interval
) -> SpeedMeasurement:
    return SpeedMeasurement(
        date=date.today().isoformat(),
        machine=fingerprint_machine(deployment.machine or Machine()),
        engine=deployment.engine,
        engine_version=deployment.engine_version,
        model=deployment.model.id,
        quantization=deployment.quantization,
        format=format_class(rules.quantization(deployment.quantization)),
        layout=layout,
        kind=kind,
        concurrency=load.concurrency,
        prompt_tokens=load.prompt_tokens,
        output_tokens=load.output_tokens,
        depth_tokens=load.depth_tokens,
        measured=value,
        ratio=before.value / value if kind in evidence.TIMES else value / before.value,
        bound=max(1.02, before.high / before.value),
        tool=load.tool,
        settings={
            name: str(value)
            for name, value in deployment.settings.items()
            if PLAIN.fullmatch(str(value)) and not SECRET.search(name)
        },
    )


def _why_not(deployment: Deployment, measurements: Sequence[SpeedMeasurement]) -> str | None:
    """Why measurements say nothing about this machine's passes; None where they do."""
    if not measurements:
        return "the speed of this deployment is not modelled"
    if deployment.machine is None or deployment.machine.source != "probe":
        return "it is kept for the machine it was run on: say --on this"
    if deployment.draft is not None or any("spec" in k for k in deployment.settings):
        return "speculative decoding: its acceptance hides the speed of a pass"
    if any(not SLOWEST < m.ratio < FASTEST for m in measurements):
        return "it is too far from what was predicted: is this the deployment that was named?"
    return None
