"""Which rows the bounds of each quantity rest on, and what the commands about the speed model say of themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from speed_asking import RULES, ask, made

from advisor.engines import find_engine_module
from advisor.speed.efficiencies import find_error_bound, load_speed_rules
from advisor.speed.estimator import make_efficiency_keys
from advisor.speed.steps import plan_passes
from advisor.speed.work import RequestLoad
from tools.speed import calibrate, evidence_check, held_out

# quantity -> kinds of rows that its bound is looked for in, of one request and of several
KINDS = {
    "decode_tps": (("decode", "tpot"), ("static", "tpot", "closed")),
    "prefill_tps": (("prefill", "ttft"), ("prefill", "ttft")),
    "ttft_s": (("prefill", "ttft"), ("ttft",)),
    "tpot_s": (("decode", "tpot"), ("tpot", "static", "closed")),
    "output_tps": (("decode", "tpot"), ("closed", "offline", "tpot")),
}


@pytest.mark.parametrize(
    ("hardware", "engine", "quantization"),
    [("H100 80GB SXM", "vllm", "BF16"), ("RTX 4090", "llama.cpp", "Q4_K_M"), ("RX 7900 XTX", "llama.cpp", "Q4_K_M"),
     ("M3 Max 64GB", "mlx-lm", None), ("L40S", "sglang", "FP8")],
)  # fmt: skip
@pytest.mark.parametrize("many", [0, 1])
def test_bounds_of_each_quantity(hardware: str, engine: str, quantization: str | None, many: int) -> None:
    backend = "rocm" if hardware.startswith("RX") else None  # where it is not stated, Vulkan widens the bounds
    d, m = made("8B", quantization, hardware, engine, sequences=1 + 3 * many, backend=backend)
    load = RequestLoad(concurrency=1 + 3 * many)
    entry = find_engine_module(engine, RULES.engines())[1]
    planned = plan_passes(d, m, entry, RULES.quantization(d.quantization), RULES, load)
    assert planned is not None
    passes, plan = planned
    keys = make_efficiency_keys(d, RULES.quantization(d.quantization), plan, passes.link, RULES)
    table = load_speed_rules(RULES)
    found = ask(d, m, concurrency=load.concurrency)
    for quantity, kinds in KINDS.items():
        asked = kinds[many]
        if quantity == "output_tps" and many and passes.limited:  # as offline runs are: more requests than places
            asked = ("offline", "closed", "tpot")
        bound = find_error_bound(table, keys, *asked).factor
        interval = getattr(found, quantity)
        assert interval.high / interval.value == pytest.approx(bound), quantity
        assert interval.value / interval.low == pytest.approx(bound), quantity


def test_places_that_are_fewer_than_requests() -> None:
    """Bounds of what all requests get are then those of offline runs first."""
    d, m = made("8B", "BF16", "H100 80GB SXM", "vllm", settings={"max-num-seqs": 2})
    table, some, more = load_speed_rules(RULES), ask(d, m, concurrency=2), ask(d, m, concurrency=9)
    assert (some.limited, more.limited) == (False, True)
    kinds = [x.output_tps.high / x.output_tps.value for x in (some, more) if x.output_tps is not None]
    names = ("server/sm90", "server/nvidia")
    closed, offline = (
        next(table.spread[k][n].bound for n in names if n in table.spread[k]) for k in ("closed", "offline")
    )
    assert kinds == [pytest.approx(closed), pytest.approx(offline)]


@pytest.mark.parametrize(
    ("main", "name", "about"),
    [
        (calibrate.main, "calibrate", "Write rules/speed.yaml from measured rows"),
        (held_out.main, "held_out", "Judge the speed model by what its fit has not seen"),
        (evidence_check.main, "evidence_check", "Judge how measurements of a machine narrow its predictions"),
    ],
)
def test_commands_say_what_they_are(
    main: Callable[[Sequence[str]], int], name: str, about: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith(f"usage: python -m tools.speed.{name} [-h]")
    assert about in text
    with pytest.raises(SystemExit):
        main([])
