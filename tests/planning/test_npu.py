"""Neural processing units: what an engine drives them with, and what that limits."""

from __future__ import annotations

import pytest

from advisor.advice.recommend.answer import recommend
from advisor.advice.recommend_request import RecommendRequest
from advisor.advice.types import Advice, RankedDeployment
from advisor.catalog import catalog
from advisor.deployment import Workload
from advisor.engines.additions import find_npu, find_npu_build
from advisor.estimation import find_machine
from advisor.session import Session

RULES = catalog()
INTEL = "cpu, 32GB RAM, Core Ultra 7 155H, Intel NPU, linux"
RYZEN = "cpu, 32GB RAM, Ryzen AI 9 HX 370, Ryzen AI NPU, windows"


def ask(hardware: str, model: str, engine: str | None = None, npu: bool = True, **load: object) -> Advice:
    work = Workload(extra={"accelerator": "npu"} if npu else {}, **load)  # type: ignore[arg-type]
    return recommend(RecommendRequest(find_machine(hardware, RULES), work, model, engine=engine), Session(RULES))


def chosen(advice: Advice) -> RankedDeployment:
    assert advice.chosen is not None
    return advice.chosen


def test_openvino_runs_one_request_after_the_other() -> None:
    found = chosen(ask(INTEL, "llama3.1:8b", "openvino-model-server", concurrency=4))
    assert (found.settings["target_device"], found.quantization) == ("NPU", "INT4")
    assert found.holds is not None
    assert (found.holds.typical, found.holds.full_length, found.holds.waiting) == (1, 1, 3)


@pytest.mark.parametrize("context", [4096, 8192])
def test_the_longest_prompt_has_room(context: int) -> None:
    """It is fixed at start, at 1,024 tokens unless told: less than any use has."""
    found = chosen(ask(INTEL, "llama3.1:8b", context=context))
    assert found.settings["max_prompt_len"] == context
    assert f"--max_prompt_len {context}" in (found.command or "")


def test_without_being_asked_the_npu_is_left_alone() -> None:
    assert chosen(ask(INTEL, "llama3.1:8b", npu=False)).settings["target_device"] == "CPU"


def test_other_formats_are_refused_with_the_reason() -> None:
    work = Workload(extra={"accelerator": "npu"})
    asked = RecommendRequest(find_machine(INTEL, RULES), work, "llama3.1:8b", "INT8", engine="openvino-model-server")
    advice = recommend(asked, Session(RULES))
    assert advice.chosen is None
    texts = [r.text for e in advice.rejected if e.engine == "openvino-model-server" for r in e.reasons]
    assert any("INT4 on the NPU, not INT8" in t for t in texts)


@pytest.mark.parametrize(
    ("model", "build"), [("llama3.1:8b", "Meta-Llama-3.1-8B-Instruct-NPU"), ("Qwen/Qwen3-14B", None)]
)
def test_lemonade_says_which_build_it_has(model: str, build: str | None) -> None:
    found = chosen(ask(RYZEN, model))
    assert found.engine == "lemonade"
    notes = " ".join(n for a in (found,) for n in (*a.notes, *found.notes))
    assert (f"lemonade pull {build}" in notes) is (build is not None)
    assert ("no NPU build" in notes) is (build is None)


def test_units_are_found_by_their_settings_and_kinds() -> None:
    server, lemonade = RULES.engine("openvino-model-server"), RULES.engine("lemonade")
    assert find_npu(server, {"target_device": "GPU"}) is None
    assert find_npu(server, {}) is None
    assert find_npu(server, {"target_device": "NPU"}) is server.npu[0]
    assert find_npu(lemonade, {}) is None  # its builds are told by their names
    model = RULES.find_model("llama3.1:8b")
    assert find_npu_build(model, lemonade, "intel") is None
    assert find_npu_build(model, server, "intel") is None
    assert find_npu_build(model, lemonade, "ryzen_ai") is not None


def test_every_build_is_of_a_model_of_the_catalogue_and_larger_than_four_bits() -> None:
    for row in RULES.engine("lemonade").npu:
        for name, build in row.builds.items():
            bits = 8e9 * build.gb / RULES.find_model(name).params_total
            assert 4.5 < bits < 16, (name, bits)
