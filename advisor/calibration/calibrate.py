"""`advise calibrate`: what a file reports about memory, about speed, or about both."""

from __future__ import annotations

from advisor.calibration.compare import LogCalibration, calibrate_memory
from advisor.calibration.compare_speed import SpeedCalibration, calibrate_speed
from advisor.calibration.logged_deployment import CalibrationRequest, find_logged_deployment
from advisor.calibration.read_log import read_startup_log
from advisor.calibration.result_files import KINDS, read_result_file
from advisor.catalog import Catalog
from advisor.errors import AdvisorError, BadInput
from advisor.record import Answer


class FileCalibration(Answer, frozen=True, kw_only=True):
    """What a file tells. None = nothing of that."""

    memory: LogCalibration | None
    speed: SpeedCalibration | None


def calibrate(request: CalibrationRequest, rules: Catalog) -> FileCalibration:
    """Reads a start-up log, a result file, or a log with both. Raises BadInput, UnknownName."""
    result = read_result_file(request.text, rules.engines())
    if result is None:
        try:
            return FileCalibration(memory=calibrate_memory(request, rules), speed=None)
        except BadInput as e:
            if request.text.lstrip()[:1] in ("{", "["):
                raise BadInput(f"this JSON is of no kind that is read: {KINDS}") from None
            raise e
    if not result.log:
        return FileCalibration(memory=None, speed=calibrate_speed(request, result, rules))
    try:  # a log of a whole run: its start tells memory and the deployment
        memory = calibrate_memory(request, rules)
        log = read_startup_log(request.text, rules.engines(), request.engine)
        deployment, _, _ = find_logged_deployment(request, log, rules)
    except AdvisorError:
        return FileCalibration(memory=None, speed=calibrate_speed(request, result, rules))
    return FileCalibration(memory=memory, speed=calibrate_speed(request, result, rules, deployment))
