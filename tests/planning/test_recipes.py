"""What the engines' own recipes add to a launch, against rows read from those recipes and the engines' registries."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from commands import advise
from msgspec.structs import replace

import advisor
from advisor.catalog import catalog
from advisor.catalog.documents import decode_document
from advisor.deployment import Deployment, Setting
from advisor.engines.registries import StartsFile
from advisor.estimation import find_machine
from advisor.planning.recipes import find_parsers, load_recipes, with_recipe

RULES = catalog()
DATA = Path(__file__).parents[1] / "data/recipe_parsers.csv"
ROWS = list(csv.DictReader(DATA.read_text(encoding="utf-8").splitlines()))
# variables that vLLM 0.33.0 no longer reads (its envs.py)
GONE = {"VLLM_ROCM_USE_AITER_MOE_SITUV2_A8W4", "VLLM_RPC_TIMEOUT"}
TUNING = {"AMDGCN_USE_BUFFER_OPS"}  # of another program, only faster


def deploy(model: str, hardware: str, engine: str = "vllm", quant: str = "BF16", **more: Setting) -> Deployment:
    found = RULES.find_model(model)
    return Deployment(
        model=found, engine=engine, quantization=quant, machine=find_machine(hardware, RULES), settings=dict(more)
    )


def test_every_model_with_a_recipe_gets_its_parsers() -> None:
    wrong = []
    for row in ROWS:
        found = find_parsers(row["engine"], RULES.find_model(row["model"]), RULES)
        ours = (found.tool_calls or "", found.reasoning or "") if found else ("", "")
        theirs = (row["tool_calls"], row["reasoning"])
        if any(want and want != got for want, got in zip(theirs, ours, strict=True)):
            wrong.append((row["engine"], row["model"], theirs, ours))
    assert wrong == []


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_every_parser_is_registered_in_the_newest_release(engine: str) -> None:
    facts, recipes = decode_document(RULES, f"starts/{engine}.yaml", StartsFile).facts, load_recipes(engine, RULES)
    assert recipes is not None
    assert {p.tool_calls for p in recipes.parsers if p.tool_calls} <= facts.tool_parsers.keys()
    assert {p.reasoning for p in recipes.parsers if p.reasoning} <= facts.reasoning_parsers.keys()


def test_variables_for_instinct_are_those_of_the_recipe_and_stay_there() -> None:
    wrong = []
    for row in ROWS:
        wanted = dict(x.split("=") for x in row["instinct"].split("; ") if x)
        on_amd = with_recipe(deploy(row["model"], "8x MI355X", row["engine"]), RULES, tools=True).settings
        elsewhere = with_recipe(deploy(row["model"], "8x H100", row["engine"]), RULES, tools=True).settings
        missing = {k: v for k, v in wanted.items() if k not in GONE | TUNING and on_amd.get(k) != v}
        leaked = [k for k in elsewhere if "ROCM" in k or k.startswith(("HIP_", "AITER_"))]
        gone = [k for k in on_amd if k in GONE]
        if missing or leaked or gone:
            wrong.append((row["model"], missing, leaked, gone))
    assert wrong == []


def test_nothing_is_written_over_what_is_set() -> None:
    own: dict[str, Setting] = {"tool_call_parser": "hermes", "block_size": 64, "VLLM_ROCM_USE_AITER_MOE": "0"}
    made = with_recipe(deploy("MiniMaxAI/MiniMax-M3", "8x MI355X", **own), RULES, tools=True)
    assert own.items() <= made.settings.items()
    assert not {"tool-call-parser", "block-size"} & made.settings.keys()
    assert made.settings["reasoning-parser"] == "minimax_m3"
    assert made.because["attention-backend"] == "the vLLM recipe of MiniMax-M3"


def test_a_release_without_the_parser_is_not_given_it() -> None:
    old = replace(deploy("inclusionAI/Ling-3.0-flash", "8x H100"), engine_version="0.21.0")
    assert "tool-call-parser" not in with_recipe(old, RULES, tools=True).settings
    new = with_recipe(replace(old, engine_version=None), RULES, tools=True)
    assert new.settings["tool-call-parser"] == "ling3"


def test_the_form_of_the_publisher_is_not_that_of_copies() -> None:
    own = with_recipe(deploy("mistralai/Mistral-Medium-3.5-128B", "8x H100", quant="FP8"), RULES, tools=True)
    assert own.settings["load_format"] == "mistral"
    copy = with_recipe(deploy("mistralai/Mistral-Medium-3.5-128B", "8x H100", quant="AWQ"), RULES, tools=True)
    assert "load_format" not in copy.settings


def test_templates_of_tools_are_for_plans_that_call_tools() -> None:
    gemma = deploy("google/gemma-4-31B-it", "1x H100")
    assert "chat-template" not in with_recipe(gemma, RULES, tools=False).settings
    assert with_recipe(gemma, RULES, tools=True).settings["chat-template"] == "examples/tool_chat_template_gemma4.jinja"


@pytest.mark.parametrize("model", ["deepseek-ai/DeepSeek-V4-Flash", "deepseek-ai/DeepSeek-V3.2"])
@pytest.mark.parametrize("tools", [False, True])
def test_a_model_without_a_template_gets_its_tokenizer_mode(model: str, tools: bool) -> None:
    """vLLM recipes 8959cf64 (2026-08-21): neither repository ships a Jinja template, the mode applies the encoding."""
    made = with_recipe(deploy(model, "8x B200", quant="FP8"), RULES, tools=tools)
    assert made.settings["tokenizer-mode"] == ("deepseek_v4" if "V4" in model else "deepseek_v32")


def test_a_template_that_the_package_lacks_is_fetched_first() -> None:
    plan = advisor.recommend("1x H100 80GB", model="google/gemma-4-31B-it", engine="vllm", use_case="agent").chosen
    assert plan is not None
    assert plan.command is not None
    first, second = plan.command.splitlines()[:2]
    path = plan.settings["chat-template"]
    assert first.startswith(f"curl -fsSL --create-dirs -o {path} https://")
    assert first.endswith(f"/v{plan.engine_version}/{path}")
    assert second.startswith("vllm serve")


def test_a_template_is_left_out_where_its_file_is_not(tmp_path: Path) -> None:
    asked = (
        "--on",
        "1x H100 80GB, linux",
        "--model",
        "google/gemma-4-31B-it",
        "--engine",
        "vllm",
        "--use-case",
        "agent",
    )
    for target, there in (("systemd", False), ("slurm", False), ("compose", True), ("command", True)):
        folder = tmp_path / target
        assert advise("render", "--target", target, *asked, "--output", str(folder)).returncode == 0
        text = "".join(f.read_text(encoding="utf-8") for f in folder.iterdir())
        assert ("Left out: --chat-template" in text) is not there, target
        assert "tool_chat_template_gemma4.jinja" in text.replace("Left out: --chat-template", ""), target


def test_an_agents_plan_without_a_parser_says_so() -> None:
    plan = advisor.recommend("1x H100 80GB", model="microsoft/phi-4", engine="vllm", use_case="agent").chosen
    assert plan is not None
    assert "no tool parser of vllm is known for microsoft/phi-4: tool calls may come back as text" in plan.notes


def test_adapters_that_wait_stay_in_host_memory() -> None:
    plan = advisor.recommend(
        "1x H100 80GB", model="meta-llama/Llama-3.1-8B-Instruct", engine="vllm", concurrency=4, lora_adapters=40
    ).chosen
    assert plan is not None
    assert (plan.settings["max-loras"], plan.settings["max-cpu-loras"]) == (4, 40)


@pytest.mark.parametrize(
    ("model", "hardware"),
    [
        ("MiniMaxAI/MiniMax-M3", "8x MI355X, 3TB RAM, linux"),
        ("openai/gpt-oss-120b", "8x MI300X, 3TB RAM, linux"),
        ("Qwen/Qwen3.5-397B-A17B", "8x B300, 3TB RAM, linux"),
        ("google/gemma-4-31B-it", "1x H100 80GB, 256GB RAM, linux"),
        ("mistralai/Mistral-Medium-3.5-128B", "8x MI325X, 3TB RAM, linux"),
    ],
)
def test_rendered_files_pass_our_own_check(model: str, hardware: str, tmp_path: Path) -> None:
    asked = ("--on", hardware, "--model", model, "--engine", "vllm", "--use-case", "agent", "--concurrency", "16")
    assert advise("render", "--target", "compose", *asked, "--output", str(tmp_path)).returncode == 0
    found = advise("check", str(tmp_path / "compose.yaml"), "--json")
    assert found.returncode == 0
    assert [f["rule"] for f in json.loads(found.stdout)["findings"] if f["severity"] != "info"] == []
