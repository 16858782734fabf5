"""What was measured on a machine: kept, used by later predictions, exported; whatever file lies in its place."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor import history
from advisor.catalog import catalog
from advisor.cli.main import run_command_line
from advisor.deployment import Deployment, Interval, SpeedEstimate
from advisor.errors import BadFile
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.history import SpeedMeasurement
from advisor.machines.types import Machine, fingerprint_machine
from advisor.session import Session
from advisor.speed import evidence
from advisor.speed.efficiencies import load_speed_rules
from advisor.speed.estimator import estimate_speed
from advisor.speed.measured_load import MeasuredLoad, compare_loads
from advisor.speed.work import RequestLoad
from tools.speed.rows import make_samples, predict_sample, read_measured_rows

RULES = catalog()


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_DATA_DIR", str(tmp_path / "data"))


def probed(model: str = "llama3.1:8b", hardware: str = "RTX 3090", quantization: str = "Q4_K_M") -> Deployment:
    """A deployment on hardware as if a probe had found it."""
    request = EstimateRequest(model=model, engine="llama.cpp", hardware=hardware, quantization=quantization,
                      context_length=4096, sequences=4)  # fmt: skip
    d, _ = resolve_request(request, RULES)
    assert d.machine is not None
    machine: Machine = msgspec.structs.replace(d.machine, source="probe", text=None)
    return msgspec.structs.replace(d, machine=machine)


def measured(d: Deployment, decode: float, prefill: float, **more: Any) -> list[SpeedMeasurement]:
    """Measurements of one request alone with these ratios of measured to predicted rate."""
    m, load = estimate(d, Session(RULES)), RequestLoad(prompt=512, output=128)
    usual = estimate_speed(d, m, Session(RULES).without_history(), load)
    assert usual is not None
    assert usual.decode_tps is not None
    assert usual.prefill_tps is not None
    loads = [
        MeasuredLoad(
            tool="test", concurrency=1, prompt_tokens=512, output_tokens=128,
            decode_tps=usual.decode_tps.value * decode, prefill_tps=usual.prefill_tps.value * prefill,
        )
    ]  # fmt: skip
    return [msgspec.structs.replace(x, **more) for x in compare_loads(d, m, Session(RULES), loads).measurements]


def predicted(d: Deployment, calibrated: bool = True, **load: int) -> SpeedEstimate:
    session = Session(RULES) if calibrated else Session(RULES).without_history()
    found = estimate_speed(d, estimate(d, session), session, RequestLoad(**load))
    assert found is not None
    return found


def width(interval: Interval | None) -> float:
    assert interval is not None
    return interval.high / interval.low


@settings(max_examples=40)
@given(decode=st.floats(0.3, 3), prefill=st.floats(0.3, 3))
def test_what_was_measured_is_predicted_again_with_narrow_bounds(decode: float, prefill: float) -> None:
    d = probed()
    history.store_measurements(measured(d, decode, prefill))
    before, after = predicted(d, calibrated=False), predicted(d)
    assert after.calibration is not None
    for name, ratio in (("decode_tps", decode), ("prefill_tps", prefill)):
        old, new = getattr(before, name), getattr(after, name)
        assert new.value / old.value == pytest.approx(ratio, rel=0.12)
        assert new.low <= old.value * ratio <= new.high
        off = max(abs(math.log(x)) for x in (decode, prefill)) / math.log(width(old))
        assert math.log(width(new)) < (0.5 if off < 1 else 1) * math.log(width(old))  # far off, little is as usual here


def test_the_same_model_says_more_than_its_kind_and_that_more_than_nothing() -> None:
    d = probed()
    usual = predicted(d)
    assert usual.calibration is None
    history.store_measurements(measured(d, 1.1, 1.0, model="other/model", quantization="Q5_K_M"))
    kind = predicted(d)
    history.store_measurements(measured(d, 1.1, 1.0))
    own = predicted(d)
    values = [x.decode_tps.value for x in (usual, kind, own) if x.decode_tps]
    assert values == sorted(values)
    assert values[0] < values[1] < values[2] < 1.15 * values[0]
    assert width(own.decode_tps) < width(kind.decode_tps) <= 1.0001 * width(usual.decode_tps)
    assert own.calibration is not None
    assert "4 measurements of this machine (test; 2 of this model; the last of" in own.calibration
    for other in (
        msgspec.structs.replace(d, engine="ollama"),
        probed(hardware="RTX 4090"),
        msgspec.structs.replace(d, machine=msgspec.structs.replace(d.machine, source="text")),
    ):
        assert predicted(other).calibration is None


def test_far_from_the_measured_load_bounds_are_wider_but_never_wider_than_without() -> None:
    d = probed()
    history.store_measurements(measured(d, 1.2, 1.0))
    widths = []
    for output in (128, 2048, 60_000):
        before, after = predicted(d, calibrated=False, output=output), predicted(d, output=output)
        assert width(after.decode_tps) <= width(before.decode_tps) * 1.0001
        widths.append(width(after.decode_tps))
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


def test_the_weights_are_those_of_conditional_normal_variables() -> None:
    """Against numpy, on covariances of all kinds."""
    import numpy as np

    generator = np.random.default_rng(0)
    for n in (1, 2, 7, 30):
        root = generator.normal(size=(n, n + 2))
        matrix, right = root @ root.T + 0.01 * np.eye(n), generator.normal(size=n)
        found = evidence._solve(matrix.tolist(), right.tolist())
        assert found == pytest.approx(np.linalg.solve(matrix, right).tolist(), rel=1e-6, abs=1e-9)


def test_a_later_measurement_of_the_same_load_replaces_the_earlier_one() -> None:
    d = probed()
    history.store_measurements(measured(d, 2.0, 1.0))
    history.store_measurements(measured(d, 3.0, 1.0))
    history.store_measurements(measured(d, 5.0, 1.0, concurrency=4))
    kept = history.load_measurements()
    assert [round(m.ratio, 6) for m in kept if m.kind == "decode"] == [3.0, 5.0]
    assert history.forget_measurements() == 4
    assert history.load_measurements() == ()


def test_runs_that_an_earlier_version_kept_still_count() -> None:
    d = probed()
    assert d.machine is not None
    run = {
        "date": "2026-11-20", "machine": fingerprint_machine(d.machine), "engine": d.engine, "model": d.model.id,
        "quantization": d.quantization, "format": "k-quant", "concurrency": 1, "prompt_tokens": 512,
        "output_tokens": 128, "ttft_s": 0.1, "tpot_s": 0.01, "output_tps": 90.0, "decode": 1.3, "prefill": 0.8,
        "mixing": None, "queue": None, "tool": "guidellm 0.8.1", "engine_version": None,
    }  # fmt: skip
    history.measurements_path().parent.mkdir(parents=True)
    history.measurements_path().write_text(json.dumps({"schema": 1, "runs": [run]}))
    before, after = predicted(d, calibrated=False), predicted(d)
    assert before.decode_tps is not None
    assert after.decode_tps is not None
    assert 1.1 < after.decode_tps.value / before.decode_tps.value < 1.3  # the bound of then was wider: less is shared
    history.store_measurements(measured(d, 1.1, 1.0))
    assert len(history.load_measurements()) == 4


def test_a_file_of_somebody_else_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    history.measurements_path().parent.mkdir(parents=True)
    history.measurements_path().write_text('{"runs": [{"date": 1}]}')
    with pytest.raises(BadFile, match="is no file of measured speeds"):
        history.load_measurements()
    assert run_command_line(["bench", "--list"]) == 2
    assert "--forget` removes it" in capsys.readouterr().err
    assert run_command_line(["bench", "--forget"]) == 0
    assert not history.measurements_path().exists()


@pytest.mark.parametrize(("decode", "said"), [(1e5, "too far from what was predicted"), (1e-3, "too far")])
def test_what_is_far_off_is_not_kept(decode: float, said: str) -> None:
    d = probed()
    load = MeasuredLoad(tool="test", concurrency=1, prompt_tokens=512, output_tokens=128, decode_tps=decode)
    found = compare_loads(d, estimate(d, Session(RULES)), Session(RULES), [load])
    assert found.unkept is not None
    assert said in found.unkept
    assert len(found.compared) == 1


def test_exported_rows_are_rows_of_the_calibration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Read as the fit reads them, they ask for the same deployment and predict what was predicted."""
    assert run_command_line(["bench", "--export", str(tmp_path / "rows.csv")]) == 2
    assert "nothing is kept" in capsys.readouterr().err
    assert not (tmp_path / "rows.csv").exists()
    d = probed()
    d = msgspec.structs.replace(d, settings={**d.settings, "api-key": "secret", "n-gpu-layers": "all"})
    history.store_measurements(measured(d, 1.3, 0.8))
    history.store_measurements(measured(d, 1.1, 1.0, model="/home/me/private.gguf"))
    file = tmp_path / "rows.csv"
    assert run_command_line(["bench", "--export", str(file)]) == 0
    assert "2 rows appended" in capsys.readouterr().err
    assert not [x for x in ("secret", "/home", "private") if x in file.read_text()]
    samples = make_samples(list(read_measured_rows(file)), RULES)
    table = load_speed_rules(RULES)
    ratios = {s.row.kind: s.row.value / predict_sample(s, table) for s in samples}
    assert ratios == {"decode": pytest.approx(1.3, rel=0.02), "prefill": pytest.approx(0.8, rel=0.02)}
    assert run_command_line(["bench", "--export", str(file)]) == 0  # what is there already is not written again
    assert "0 rows appended" in capsys.readouterr().err
    file.write_text("\n".join(file.read_text().splitlines()[:-1]))  # without a last line end
    assert run_command_line(["bench", "--export", str(file)]) == 0
    assert len(list(read_measured_rows(file))) == 2
    capsys.readouterr()
    other = tmp_path / "other.csv"
    other.write_text("mine\n")
    assert run_command_line(["bench", "--export", str(other)]) == 2
    assert "it is left as it is" in capsys.readouterr().err
    assert other.read_text() == "mine\n"
