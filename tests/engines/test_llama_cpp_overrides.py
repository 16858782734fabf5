"""`--override-tensor`: read as the engine reads it, and never slow to match."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import catalog
from advisor.engines.llama_cpp.settings import Override, parse_overrides, write_overrides
from advisor.errors import BadInput
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.memory.ggml import HOST
from advisor.session import Session

RULES = catalog()


def host_weights(**settings: object) -> int:
    request = EstimateRequest(
        model="openai/gpt-oss-20b", engine="llama.cpp", hardware="1x RTX 4090, 64GB RAM", context_length=8192,
        settings={"n-gpu-layers": "all", **settings},
    )  # fmt: skip
    found = estimate(resolve_request(request, RULES)[0], Session(RULES))
    assert found.host is not None
    return found.host.weights_bytes or 0


def test_the_patterns_of_cpu_moe_do_what_it_does() -> None:
    """llama.cpp turns --cpu-moe and --n-cpu-moe into these very patterns (common/arg.cpp)."""
    every = host_weights(**{"override-tensor": r"\.ffn_(up|down|gate|gate_up)_(ch|)exps=CPU"})
    assert every == host_weights(**{"cpu-moe": True})
    some = host_weights(**{"override-tensor": r"blk\.(0|1|2)\.ffn_(up|down|gate|gate_up)_(ch|)exps=CPU"})
    assert some == host_weights(**{"n-cpu-moe": 3})
    assert 0 < host_weights() < some < every


def test_the_first_pattern_that_matches_decides() -> None:
    kept = host_weights(**{"override-tensor": r"blk\.0\.=CUDA0,exps=CPU"})
    assert kept < host_weights(**{"override-tensor": "exps=CPU"})


@pytest.mark.parametrize(
    "value",
    [
        "exps", "exps=", "exps=GPU", "(=CPU", "(a+)+$=CPU", "(a|a)+$=CPU", "(.*)*x=CPU", ".*a.*b.*c.*d=CPU",
        "x" * 5000 + "=CPU", ",".join(["a.*b.*c.*d=CPU"] * 20), ",".join(["a=CPU"] * 300),
    ],
)  # fmt: skip
def test_what_is_no_override_or_slow_to_match_is_refused(value: str) -> None:
    with pytest.raises(BadInput, match="override-tensor"):
        parse_overrides(value)


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadInput, match="a device that is not there"):
        host_weights(**{"override-tensor": "exps=CUDA1"})


PATTERNS = st.from_regex(r"blk\\\.[0-9]{1,2}\\\.ffn_(up|down|gate)_exps", fullmatch=True)


@given(st.lists(st.builds(Override, PATTERNS, st.sampled_from([HOST, 0, 1]), st.none()), min_size=1, max_size=8))
def test_written_overrides_are_read_back(overrides: list[Override]) -> None:
    assert parse_overrides(write_overrides(overrides, ["CUDA0", "CUDA1"])) == tuple(overrides)


def test_layers_are_spelled_in_the_pattern() -> None:
    text = write_overrides([Override("ffn_down.*", 1, (3,)), Override("ffn_up_exps", HOST, (4, 5))], ["CUDA0", "CUDA1"])
    assert text == r"blk\.3\.ffn_down.*=CUDA1,blk\.(4|5)\.ffn_up_exps=CPU"


@given(st.text(alphabet="ab.*+?|()[]{}1,2\\d^$", max_size=40))
def test_any_pattern_is_read_or_refused(text: str) -> None:
    try:
        found = parse_overrides(text.replace(",", "") + "=CPU")
    except BadInput:
        return
    assert found[0] == Override(text.replace(",", ""), HOST)
