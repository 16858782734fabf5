"""What measurements on a machine do to predictions, by the formulas; what is kept, exported and refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from speed_asking import RULES, ask, made

from advisor import history
from advisor.deployment import Deployment, Interval, MemoryEstimate
from advisor.errors import BadFile
from advisor.history import SpeedMeasurement
from advisor.session import Session
from advisor.speed.efficiencies import EvidenceRules
from advisor.speed.estimator import estimate_speed
from advisor.speed.evidence import Evidence
from advisor.speed.measured_load import MeasuredLoad, compare_loads, predict_after
from advisor.speed.work import RequestLoad

KNOWN = EvidenceRules(
    source="s", engine=0.4, format=0.2, model=0.6, reach_of_load=5.0, same_pass=0.9, other_pass=0.2, noise=0.02,
    reach=1.87, usual=1.0, usual_count=1e12,
)  # fmt: skip
LOAD = RequestLoad(concurrency=2, prompt=512, output=128, depth=16)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_DATA_DIR", str(tmp_path / "data"))


def measured(ratio: float = 1.2, **more: Any) -> SpeedMeasurement:
    given: dict[str, Any] = {
        "date": "2026-01-02", "machine": "1x RTX 3090", "engine": "llama.cpp", "model": "m", "quantization": "Q4_K_M",
        "format": "k-quant", "layout": "tp1", "kind": "decode", "concurrency": 2, "prompt_tokens": 512,
        "output_tokens": 128, "depth_tokens": 16, "measured": 50.0, "ratio": ratio, "bound": 1.5, "tool": "bench",
    }  # fmt: skip
    return SpeedMeasurement(**given | more)


def given(*measurements: SpeedMeasurement) -> Evidence:
    return Evidence(measurements, "m", "Q4_K_M", "k-quant", "tp1", KNOWN)


def test_what_is_left_out_of_a_measurement() -> None:
    kept = SpeedMeasurement(
        date="2026-01-02", machine="x", engine="e", model="m", quantization="q", format="f", kind="decode",
        concurrency=1, prompt_tokens=1, output_tokens=1, measured=None, ratio=1.0, bound=1.1, tool="t",
    )  # fmt: skip
    assert (kept.engine_version, kept.layout, kept.depth_tokens, kept.settings) == (None, "", 0, {})
    load = MeasuredLoad(tool="t", concurrency=1, prompt_tokens=1, output_tokens=1)
    assert load.depth_tokens == 0
    assert {load.decode_tps, load.prefill_tps, load.ttft_s, load.tpot_s, load.output_tps} == {None}


@pytest.mark.parametrize(
    ("more", "shared"),
    [
        ({}, 0.4 + 0.2 + 0.6),
        ({"layout": "tp2"}, 0.4 + 0.2 + 0.6 * math.exp(-1 / 5)),
        ({"concurrency": 4}, 0.4 + 0.2 + 0.6 * math.exp(-math.log(2) / 5)),
        ({"model": "other"}, 0.4 + 0.2),
        ({"quantization": "Q4_K_S"}, 0.4 + 0.2),
        ({"model": "other", "format": "q8_0"}, 0.4),
        ({"kind": "tpot"}, 0.9 * 1.2),
        ({"kind": "closed"}, 0.9 * 1.2),
        ({"kind": "prefill"}, 0.2 * 1.2),
        ({"kind": "ttft"}, 0.2 * 1.2),
    ],
)
def test_one_measurement_moves_a_prediction_by_what_both_share(more: dict[str, Any], shared: float) -> None:
    """Both have a bound of 1.5: of a measured ratio of 1.2 the share c / (1.2 + 0.02) is expected again."""
    found = given(measured(**more)).adjust("decode", LOAD, 1.5)
    whole = 1.2 + 0.02
    assert math.log(found.factor) == pytest.approx(math.log(1.2) * shared / whole)
    left = whole - shared**2 / whole
    width = math.log(1.5)
    assert math.log(found.bound) == pytest.approx(min(width, 1.87 * width * math.sqrt(left)))


@pytest.mark.parametrize(("ratio", "wider"), [(1.01, False), (1.2, False), (3.0, True)])
def test_errors_on_this_machine_say_how_large_errors_are_here(ratio: float, wider: bool) -> None:
    """Two equal ones of another kind. Their mean square, in units of what is expected, is weighed with 0.5 of 2 others.

    Covariance of two equal measurements: 1.22 on the diagonal and 1.2 beside it, times the bound's logarithm squared.
    """
    rules = msgspec.structs.replace(KNOWN, usual=0.5, usual_count=2.0)
    two = (measured(ratio, kind="prefill"), measured(ratio, kind="prefill", date="2026-01-03"))
    found = Evidence(two, "m", "Q4_K_M", "k-quant", "tp1", rules).adjust("decode", LOAD, 1.5)
    width, error = math.log(1.5), math.log(ratio)
    squares = 2 * error**2 / (2.42 * width**2)
    size = (squares + 2 * 0.5) / 4
    left = 1.22 - 2 * (0.2 * 1.2) ** 2 / 2.42
    assert math.log(found.bound) == pytest.approx(
        width * min(max(1.0, math.sqrt(size / 0.5)), 1.87 * math.sqrt(size * left))
    )
    assert (found.bound > 1.5) is wider


def test_a_prompt_and_a_first_token_share_their_pass() -> None:
    found = given(measured(kind="prefill")).adjust("ttft", LOAD, 1.5)
    assert math.log(found.factor) == pytest.approx(math.log(1.2) * 0.9 * 1.2 / 1.22)


def test_the_wider_of_two_bounds_has_a_part_of_its_own() -> None:
    narrow, wide = math.log(1.2), math.log(1.5)
    found = given(measured(bound=1.2)).adjust("decode", LOAD, 1.5)
    assert math.log(found.factor) == pytest.approx(math.log(1.2) * 1.2 / 1.22)
    assert math.log(found.bound) == pytest.approx(
        min(wide, 1.87 * math.sqrt(1.22 * wide**2 - (1.2 * narrow**2) ** 2 / (1.22 * narrow**2)))
    )


def test_two_measurements_that_agree_say_more() -> None:
    """Two equal ones: covariance 1.2, noise of each 0.02, so the share is 2.4 / 2.42."""
    found = given(measured(), measured(date="2026-01-03")).adjust("decode", LOAD, 1.5)
    assert math.log(found.factor) == pytest.approx(math.log(1.2) * 2.4 / 2.42)


def test_the_nearest_forty_are_used() -> None:
    near = [measured(1.1) for _ in range(40)]
    far = [measured(9.0, model="other", format="q8_0", kind="prefill") for _ in range(9)]
    alone, both = given(*near).adjust("decode", LOAD, 1.5), given(*far, *near).adjust("decode", LOAD, 1.5)
    assert both == pytest.approx(alone)
    assert given(*far, *near[:39]).adjust("decode", LOAD, 1.5).factor != pytest.approx(
        given(*near[:39]).adjust("decode", LOAD, 1.5).factor, rel=1e-9
    )


def test_what_is_reported_of_the_evidence() -> None:
    one = given(measured()).note
    assert one == (
        "calibrated by 1 measurement of this machine (bench; 1 of this model; the last of 2026-01-02, m Q4_K_M)"
    )
    more = given(measured(), measured(date="2026-03-04", model="other", tool="load"), measured(date="2026-02-03")).note
    assert more == (
        "calibrated by 3 measurements of this machine (bench, load; 2 of this model; the last of 2026-03-04, other "
        "Q4_K_M)"
    )


# --- what is kept


def test_the_newest_four_hundred_are_kept() -> None:
    history.store_measurements([measured(prompt_tokens=i) for i in range(399)])
    assert len(history.load_measurements()) == 399
    history.store_measurements([measured(prompt_tokens=1000), measured(prompt_tokens=1001)])
    kept = history.load_measurements()
    assert len(kept) == 400
    assert [m.prompt_tokens for m in kept[:2]] == [1, 2]
    assert kept[-1].prompt_tokens == 1001


@pytest.mark.parametrize(
    "more",
    [{"machine": "x"}, {"engine": "x"}, {"model": "x"}, {"quantization": "x"}, {"layout": "x"}, {"kind": "tpot"},
     {"concurrency": 9}, {"prompt_tokens": 9}, {"output_tokens": 9}, {"depth_tokens": 9}],
)  # fmt: skip
def test_only_the_same_quantity_of_the_same_load_is_replaced(more: dict[str, Any]) -> None:
    history.store_measurements([measured()])
    history.store_measurements([measured(**more)])
    assert len(history.load_measurements()) == 2
    history.store_measurements([measured(9.0, date="2026-09-09", tool="x", format="x", bound=2.0)])
    kept = history.load_measurements()
    assert [m.ratio for m in kept] == [1.2, 9.0]


def test_runs_of_an_earlier_version_have_the_bounds_of_then() -> None:
    run = {
        "date": "2026-01-02", "machine": "x", "engine": "e", "model": "m", "quantization": "q", "format": "f",
        "prompt_tokens": 7, "output_tokens": 8, "decode": 1.3, "prefill": 0.8, "tool": "t",
    }  # fmt: skip
    history.measurements_path().parent.mkdir(parents=True)
    history.measurements_path().write_bytes(msgspec.json.encode({"runs": [run]}))
    decode, prefill = history.load_measurements()
    assert (decode.kind, decode.ratio, decode.bound) == ("decode", 1.3, 1.2)
    assert (prefill.kind, prefill.ratio, prefill.bound) == ("prefill", 0.8, 1.7)
    for m in (decode, prefill):
        assert (m.concurrency, m.prompt_tokens, m.output_tokens, m.measured, m.engine_version) == (1, 7, 8, None, None)
    assert history.forget_measurements() == 2
    assert history.forget_measurements() == 0


def test_a_large_file_is_refused_and_nothing_is_no_evidence() -> None:
    assert history.load_measurements() == ()
    history.measurements_path().parent.mkdir(parents=True)
    history.measurements_path().write_bytes(b" " * (2**20 + 1))
    with pytest.raises(BadFile):
        history.load_measurements()


# --- a measured load next to its prediction


def probed(**settings: Any) -> tuple[Deployment, MemoryEstimate]:
    d, m = made("8B", "Q4_K_M", "RTX 3090", settings=settings)
    assert d.machine is not None
    return msgspec.structs.replace(d, machine=msgspec.structs.replace(d.machine, source="probe", text=None)), m


def a_load(**more: Any) -> MeasuredLoad:
    return MeasuredLoad(tool="t", concurrency=2, prompt_tokens=700, output_tokens=50, depth_tokens=9, **more)


FIELDS = {"decode": "decode_tps", "prefill": "prefill_tps", "ttft": "ttft_s", "tpot": "tpot_s", "closed": "output_tps"}


def test_every_quantity_is_compared_with_its_own_prediction() -> None:
    """Measured is twice what was predicted: twice the rate, or half of it where seconds are measured."""
    d, m = probed()
    usual = estimate_speed(
        d, m, Session(RULES).without_history(), RequestLoad(concurrency=2, prompt=700, output=50, depth=9)
    )
    assert usual is not None
    predicted: dict[str, Interval] = {field: getattr(usual, field) for field in FIELDS.values()}
    found = compare_loads(d, m, Session(RULES), [a_load(**{f: 2 * x.value for f, x in predicted.items()})])
    assert found.unkept is None
    assert [c.kind for c in found.compared] == [k.kind for k in found.measurements] == list(FIELDS)
    for compared, kept in zip(found.compared, found.measurements, strict=True):
        before = predicted[FIELDS[compared.kind]]
        assert compared.before == before
        assert compared.measured == kept.measured == 2 * before.value
        assert compared.after is None
        assert kept.ratio == pytest.approx(0.5 if compared.kind in ("ttft", "tpot") else 2.0)
        assert kept.bound == pytest.approx(before.high / before.value)
        assert (kept.concurrency, kept.prompt_tokens, kept.output_tokens, kept.depth_tokens) == (2, 700, 50, 9)
        assert (compared.concurrency, compared.prompt_tokens) == (2, 700)
        assert (compared.output_tokens, compared.depth_tokens) == (50, 9)
        assert (kept.format, kept.layout, kept.engine, kept.tool) == ("k-quant", "tp1-pp1-dp1", "llama.cpp", "t")
    history.store_measurements(found.measurements)
    after = predict_after(d, m, Session(RULES), found.compared)
    for c in after:
        assert c.after is not None
        assert abs(math.log(c.after.value / c.measured)) < 0.3 * math.log(2), c.kind
        assert c.after.high / c.after.low < c.before.high / c.before.low


def test_what_was_not_measured_is_not_compared() -> None:
    d, m = probed()
    assert [c.kind for c in compare_loads(d, m, Session(RULES), [a_load(ttft_s=1.0)]).compared] == ["ttft"]
    none = compare_loads(d, m, Session(RULES), [a_load()])
    assert (none.compared, none.measurements) == ((), ())
    assert none.unkept == "the speed of this deployment is not modelled"


@pytest.mark.parametrize(("ratio", "kept"), [(39.9, True), (40.1, False), (1 / 39.9, True), (1 / 40.1, False)])
def test_forty_times_as_fast_or_slow_is_another_deployment(ratio: float, kept: bool) -> None:
    d, m = probed()
    usual = ask(d, m, concurrency=2, prompt=700, output=50, depth=9)
    assert usual.decode_tps is not None
    found = compare_loads(d, m, Session(RULES), [a_load(decode_tps=usual.decode_tps.value * ratio)])
    assert (found.unkept is None) is kept


def test_what_says_nothing_about_this_machine_is_not_kept() -> None:
    d, m = probed()
    told, _ = made("8B", "Q4_K_M", "RTX 3090")
    one = [a_load(ttft_s=1.0)]
    assert "say --on this" in (compare_loads(told, m, Session(RULES), one).unkept or "")
    spec = msgspec.structs.replace(d, settings={"spec-type": "ngram"})
    assert "speculative decoding" in (compare_loads(spec, m, Session(RULES), one).unkept or "")


def test_only_plain_settings_are_kept() -> None:
    settings = {
        "n-gpu-layers": "all", "parallel": 2, "api-key": "k", "host": "h", "chat-template": "a b", "lora-path": "x",
        "alias": "a" * 41, "ctx-size": 4096, "token": "t", "batched-tokens": "5",
    }  # fmt: skip
    d, m = probed()
    d = msgspec.structs.replace(d, settings=settings)
    kept = compare_loads(d, m, Session(RULES), [a_load(ttft_s=1.0)]).measurements[0]
    assert kept.settings == {"n-gpu-layers": "all", "parallel": "2", "ctx-size": "4096", "batched-tokens": "5"}
