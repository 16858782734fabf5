"""Tools for agents: short answers with a handle for the rest, errors as results, one folder and nothing written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import advisor
from advisor.agents.details import read_details
from advisor.agents.short_answers import LIMIT, KeptAnswers, fit, measure
from advisor.agents.tools import TOOLS, AgentClient, call_tool
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.operations import to_json

RULES = catalog([shipped_root()])
COMPOSE = "services: {v: {image: 'vllm/vllm-openai:v0.33.0', command: [Qwen/Qwen3-8B, --swap-space, '4'], gpus: all}}\n"


@pytest.fixture
def session(tmp_path: Path) -> AgentClient:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "compose.yaml").write_text(COMPOSE)
    (tmp_path / "secret.yaml").write_text(COMPOSE)
    (folder / "out.yaml").symlink_to(tmp_path / "secret.yaml")
    return AgentClient(RULES, folder, KeptAnswers())


def ask(session: AgentClient, name: str, /, **given: Any) -> dict[str, Any]:
    body, failed = call_tool(session, name, given)
    assert not failed, body
    assert measure(body) <= LIMIT
    return body


def refuse(session: AgentClient, name: str, /, **given: Any) -> dict[str, Any]:
    body, failed = call_tool(session, name, given)
    assert failed, body
    assert set(body["error"]) == {"code", "message", "near"}
    return body["error"]  # type: ignore[no-any-return]


@pytest.mark.slow
def test_the_answer_is_the_librarys(session: AgentClient) -> None:
    short = ask(session, "recommend", hardware="2x RTX 3090", model="70B", concurrency=4)
    whole = to_json(advisor.recommend("2x RTX 3090", model="70B", concurrency=4, rules=RULES))
    assert session.kept.answers[short["handle"]] == whole
    chosen = whole["chosen"]
    assert short["chosen"]["command"] == chosen["command"]
    device = short["chosen"]["memory"][0]
    assert device["needs_gib"] == pytest.approx(chosen["memory"]["devices"][0]["total_bytes"] / 2**30, abs=0.006)
    low, likely, high = short["chosen"]["speed"]["decode_tps"]
    assert low <= likely <= high
    explained = ask(session, "explain", model="8B", quantization="q4", hardware="RTX 4090")
    assert explained["fits"] is advisor.explain("8B", "q4", machine="RTX 4090", rules=RULES).to_dict()["fits"]
    bought = ask(session, "hardware", model="70B", users=4, budget="4000EUR")
    assert {"cheapest"} <= set(bought["named"])


def test_check_by_file_and_by_text(session: AgentClient) -> None:
    by_file = ask(session, "check", files=["compose.yaml"], hardware="1x H100 80GB SXM")
    by_text = ask(session, "check", text=COMPOSE, name="compose.yaml", hardware="1x H100 80GB SXM")
    for key in ("deployments", "findings", "counts"):
        assert by_file[key] == by_text[key]
    assert by_file["deployments"][0]["source"] == "compose.yaml"
    assert by_file["findings"][0]["rule"] == "swap-space-removed"


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("check", {"files": ["../secret.yaml"]}),
        ("check", {"files": ["out.yaml"]}),
        ("check", {"files": ["/etc/hostname"]}),
        ("explain", {"model": "/etc/hostname"}),
        ("explain", {"model": "../secret.yaml"}),
        ("recommend", {"model": "~/x.gguf", "hardware": "cpu, 64GB RAM"}),
        ("calibrate", {"log": "../secret.yaml"}),
    ],
)
def test_no_other_folder_is_read(session: AgentClient, name: str, given: dict[str, Any]) -> None:
    error = refuse(session, name, **given)
    assert "working folder" in error["message"]


@pytest.mark.parametrize(
    ("name", "given", "code", "near"),
    [
        ("explain", {"model": "no-such-model"}, "unknown_model", None),
        ("recomend", {}, "unknown_tool", "recommend"),
        ("recommend", {"hardwar": "this"}, "bad_input", "hardware"),
        ("recommend", {"use_case": "xyzzy", "hardware": "cpu"}, "bad_input", None),
        ("recommend", {"concurrency": 0}, "bad_input", None),
        ("recommend", {"concurrency": "8"}, "bad_input", None),
        ("recommend", {"concurrency": True}, "bad_input", None),
        ("explain", {}, "bad_input", None),
        ("check", {}, "bad_input", None),
        ("check", {"files": ["a"], "text": "b"}, "bad_input", None),
        ("check", {"files": ["missing.yaml"]}, "bad_input", None),
        ("check", {"text": "x" * 2**21}, "bad_input", None),
        ("details", {"handle": "a99"}, "unknown_handle", None),
        ("hardware", {"model": "70B", "budget": "a lot"}, "bad_input", None),
    ],
)
def test_errors_are_results(
    session: AgentClient, name: str, given: dict[str, Any], code: str, near: str | None
) -> None:
    error = refuse(session, name, **given)
    assert error["code"] == code
    assert near is None or near in error["near"]
    assert "\n" not in error["message"]


def test_the_whole_answer_can_be_read_in_pieces(session: AgentClient) -> None:
    handle = ask(session, "recommend", hardware="RTX 4090")["handle"]

    def read(pointer: str) -> Any:
        seen = ask(session, "details", handle=handle, pointer=pointer)
        if "value" in seen:
            text = seen["value"]
            while seen.get("next"):
                seen = ask(session, "details", handle=handle, pointer=pointer, start=seen["next"])
                text += seen["value"]
            return text
        if "keys" in seen and "of" not in seen:
            return {k: read(f"{pointer}/{k.replace('~', '~0').replace('/', '~1')}") for k in seen["keys"]}
        out: list[Any] = []
        start = 0
        while start is not None:
            seen = ask(session, "details", handle=handle, pointer=pointer, start=start)
            if "items" in seen:
                out += seen["items"]
                start = seen["next"]
            else:
                out.append(read(seen["pointer"]))
                start = start + 1 if start + 1 < seen["of"] else None
        return out

    assert read("") == session.kept.answers[handle]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=30),
    lambda v: st.lists(v, max_size=6) | st.dictionaries(st.text(max_size=6), v, max_size=6),
    max_leaves=60,
)


@given(st.dictionaries(st.text(min_size=1, max_size=6), JSON, max_size=8), st.integers(300, 2000))
def test_any_answer_is_made_to_fit(answer: dict[str, Any], limit: int) -> None:
    made = fit({"handle": "a1", **answer}, limit)
    assert measure(made) <= limit
    assert made["handle"] == answer.get("handle", "a1")


@given(JSON, st.text("/ab01~", max_size=8), st.integers(0, 20))
def test_any_pointer_is_followed_or_refused(value: Any, pointer: str, start: int) -> None:
    kept = KeptAnswers()
    handle = kept.keep(value)
    try:
        assert measure(read_details(kept, handle, pointer, start)) <= LIMIT
    except advisor.AdvisorError:
        return


def test_old_answers_go_first() -> None:
    kept = KeptAnswers(2)
    first, *others = (kept.keep(i) for i in range(3))
    assert first not in kept.answers
    assert set(others) == set(kept.answers)


def test_schemas_are_schemas_and_name_what_is_taken() -> None:
    for tool in TOOLS.values():
        jsonschema.Draft202012Validator.check_schema(tool.schema)
        assert set(tool.schema["required"]) <= set(tool.schema["properties"])
        assert json.dumps(tool.schema)


def test_nothing_is_written(session: AgentClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "ADVISOR_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    before = sorted(p for p in tmp_path.rglob("*"))
    ask(session, "check", files=["compose.yaml"])
    ask(session, "recommend", hardware="RTX 4090", model="8B")
    refuse(session, "calibrate", log="compose.yaml")
    assert sorted(p for p in tmp_path.rglob("*")) == before


def test_what_lies_above_the_working_folder_is_not_read(session: AgentClient) -> None:
    above = session.folder.parent
    (above / ".git").mkdir()  # the tree that the command line would read
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
        "  - {name: c, image: 'vllm/vllm-openai:v0.33.0', args: [Qwen/Qwen3-8B, --swap-space, '4']}\n"
    )
    (above / "kustomization.yaml").write_text("resources: [pod.yaml]\n")
    (above / "pod.yaml").write_text(pod)
    inner = session.folder / "kustomization.yaml"
    inner.write_text("resources: [..]\nimages: [{name: vllm/vllm-openai, newTag: v0.32.0}]\n")
    (session.folder / "compose.yaml").unlink()
    whole = advisor.check([inner], rules=RULES)
    assert whole.to_dict()["deployments"], "the command line reads the base"
    assert not ask(session, "check", files=["kustomization.yaml"])["deployments"]


def test_more_files_than_one_call_reads_are_refused(session: AgentClient) -> None:
    assert "51 files" in refuse(session, "check", files=["compose.yaml"] * 51)["message"]


def test_a_fleet_is_planned_from_files_of_the_folder(session: AgentClient) -> None:
    """The short answer is the plan's; models and traces out of the folder are refused."""
    nodes = {"nodes": [{"name": "n", "count": 2, "hardware": "2x L40S, 512GB RAM, linux", "price_per_hour": 1.7}]}
    (session.folder / "nodes.yaml").write_text(json.dumps(nodes))
    demand = session.folder / "models.yaml"
    demand.write_text(json.dumps({"models": [{"model": "llama3.1:8b", "rate": 1}]}))
    answer = ask(session, "fleet_plan", nodes="nodes.yaml", models="models.yaml")
    assert answer["cost_per_hour"]["likely"] == 1.7
    assert [r["nodes"] for r in answer["replicas"]] == [["n-1"]]
    trace = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,9,9\n"
    (session.folder.parent / "trace.csv").write_text(trace)
    for model in ({"model": str(session.folder.parent), "rate": 1}, {"model": "8B", "trace": "../trace.csv"}):
        demand.write_text(json.dumps({"models": [model]}))
        refuse(session, "fleet_plan", nodes="nodes.yaml", models="models.yaml")
