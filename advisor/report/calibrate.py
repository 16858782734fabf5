"""`advise calibrate` as text."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.calibration.calibrate import ComparedPart, FileCalibration, LogCalibration, SpeedCalibration
from advisor.report.measured_speed import describe_compared
from advisor.report.text import align_table, bullets, paint, wrap_text
from advisor.residuals import MemoryResidual
from advisor.units import GIB, MIB


def describe_calibrations(found: FileCalibration) -> str:
    """What a file reports about memory and speed."""
    parts = []
    if found.memory is not None:
        parts.append(describe_calibration(found.memory))
    if found.speed is not None:
        parts.append(describe_speed_calibration(found.speed))
    return "\n\n".join(parts)


def describe_speed_calibration(calibration: SpeedCalibration) -> str:
    """Speeds that were measured compared with those predicted before and now."""
    engine = " ".join(w for w in (calibration.engine, calibration.engine_version) if w)
    out = [
        paint(f"{calibration.model} {calibration.quantization} on {engine}, by {calibration.tool}", "bold"),
        wrap_text(calibration.hardware, "  "),
        "",
        describe_compared(calibration.compared),
    ]
    return "\n".join([*out, *_after(calibration, "this machine and engine")])


def describe_calibration(calibration: LogCalibration) -> str:
    """What was predicted compared with what was logged, and what becomes of it."""
    engine = " ".join(w for w in (calibration.engine, calibration.engine_version) if w)
    out = [
        paint(f"{calibration.model} {calibration.quantization} on {engine}", "bold"),
        wrap_text(calibration.hardware, "  "),
    ]
    if calibration.settings:
        out.append(wrap_text(", ".join(f"{k} {v}" for k, v in calibration.settings.items()), "  "))
    large = any(p.logged >= GIB for p in calibration.parts if p.unit == "bytes")
    unit, name = (GIB, "GiB") if large else (MIB, "MiB")
    rows = [_row(p, unit) for p in calibration.parts]
    out += ["", align_table(rows, ("place", name, "predicted", "bounds", "logged", "difference"), "llrrrr")]
    return "\n".join([*out, *_after(calibration, "this machine, engine release and class of model")])


def _after(calibration: LogCalibration | SpeedCalibration, of: str) -> list[str]:
    """What becomes of it, and what was taken for granted."""
    out = []
    if calibration.kept is not None:
        said = (f"Kept in {calibration.kept}: answers for {of} use it from now on and say so; `advise calibrate "
                "--forget` removes it.")  # fmt: skip
        out += ["", wrap_text(said, "  ")]
    if calibration.unkept:
        out += ["", wrap_text(f"Not kept: {calibration.unkept.rstrip('.?')}.", "  ")]
    if calibration.notes:
        out += ["", "Notes:", *bullets(calibration.notes)]
    return out


def _row(part: ComparedPart, unit: int) -> list[str]:
    if part.unit == "tokens":
        delta = "" if part.predicted is None else f"{part.logged - part.predicted:+,}"
        return [part.place, part.part, "-" if part.predicted is None else f"{part.predicted:,}", "",
                f"{part.logged:,}", delta]  # fmt: skip
    bounds = "" if part.low is None or part.high is None else f"{part.low / unit:.2f}-{part.high / unit:.2f}"
    predicted = "-" if part.predicted is None else f"{part.predicted / unit:.2f}"
    delta = "" if part.predicted is None else f"{(part.logged - part.predicted) / unit:+.2f}"
    return [part.place[:24], part.part, predicted, bounds, f"{part.logged / unit:.2f}", delta]


def describe_residuals(kept: Sequence[MemoryResidual]) -> str:
    """All that is kept."""
    if not kept:
        return "No start-up log was read on this machine yet: `advise calibrate FILE`."
    rows = [
        [r.date, r.machine.partition(";")[0][:22], f"{r.engine} {r.engine_version or ''}".strip()[:18],
         f"{r.model.rpartition('/')[2][:20]} {r.quantization}"[:28], f"{r.weights_bytes / GIB:+.2f}",
         f"{r.beside_bytes / GIB:+.2f}"]
        for r in kept
    ]  # fmt: skip
    heads = ("date", "machine", "engine", "model", "weights", "beside")
    return align_table(rows, heads, "llllrr", indent="") + "\nGiB of each device, logged less predicted."
