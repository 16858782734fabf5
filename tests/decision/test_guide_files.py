"""Guide files with mistakes: each gives one line with the file, the line and what would be right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from guide_files import load_guide_file
from hypothesis import given
from hypothesis import strategies as st

from advisor.decision.evaluate import evaluate_guide
from advisor.decision.guides import find_tree, find_unreachable, load_guide, parse_answers
from advisor.errors import AdvisorError, BadFile, BadInput, UnknownName

ENGINE_IDS = {"vllm", "llama.cpp", "ollama"}
GOOD = """\
name: mine
title: My guide
kind: advice
as_of: '2026-11-21'
sources:
  me: {title: Measured here}
settings:
  many_above: {value: 4, source: me}
terms:
  many: {field: workload.concurrency, above: {setting: many_above}}
trees:
- name: engine
  order: first_match
  nodes:
  - id: team
    if: {all: [many, {field: gpu.vendor, is: nvidia}]}
    then: [vllm]
    because: many users
    source: me
  - id: new-cuda
    if: {field: driver.cuda, at_least: '13.0'}
    then: [vllm]
    because: a new driver
    source: me
  - id: rest
    else: true
    then: [llama.cpp]
    because: it runs anywhere
    source: me
"""


def load(tmp_path: Path, text: str) -> Any:
    path = tmp_path / "guide.yaml"
    path.write_text(text, encoding="utf-8")
    return load_guide_file(path, ENGINE_IDS)


def test_the_guide_without_a_mistake_loads(tmp_path: Path) -> None:
    guide = load(tmp_path, GOOD)
    assert evaluate_guide(guide, {"workload.concurrency": 5, "gpu.vendor": "nvidia"}).engines == ("vllm",)
    assert evaluate_guide(guide, {"workload.concurrency": 4, "gpu.vendor": "nvidia"}).engines == ("llama.cpp",)
    assert list(find_unreachable(guide)) == []


# what is replaced, by what; line of the complaint; words in it
MISTAKES: list[tuple[str, str, str, int, str]] = [
    (
        "unknown field",
        "field: gpu.vendor,",
        "field: gpu.vendr,",
        16,
        "unknown field 'gpu.vendr'. Did you mean: gpu.vendor",
    ),
    ("value not in enum", "is: nvidia}", "is: nvida}", 16, "Did you mean: nvidia"),
    ("operator for type", "gpu.vendor, is: nvidia", "gpu.vendor, above: nvidia", 16, "does not go with gpu.vendor"),
    ("unknown operator", "gpu.vendor, is: nvidia", "gpu.vendor, equals: nvidia", 16, "(is, is_not, in, exists)"),
    ("number where text", "at_least: '13.0'", "at_least: 13.0", 21, "quote it"),
    ("no version", "at_least: '13.0'", "at_least: new", 21, "is a version such as '12.4'"),
    ("unknown term", "[many, {", "[mny, {", 16, "unknown term 'mny'. Did you mean: many"),
    ("unknown setting", "setting: many_above", "setting: much_above", 10, "Did you mean: many_above"),
    (
        "unknown engine",
        "then: [llama.cpp]",
        "then: [llama-cpp]",
        27,
        "unknown engine 'llama-cpp'. Did you mean: llama.cpp",
    ),
    ("unknown key", "because: many users", "becuse: many users", 18, "not a key here. Did you mean: because"),
    (
        "unknown source",
        "    because: a new driver\n    source: me",
        "    because: a\n    source: you",
        24,
        "unknown source",
    ),
    ("missing source", "many users\n    source: me\n", "many users\n", 15, "team has no source"),
    ("missing reason", "    because: many users\n", "", 15, "no reason"),
    ("no default", "    else: true", "    if: {field: nodes, is: 1}", 14, "no default"),
    ("neither if nor else", "    else: true\n", "", 25, "either `if` or `else: true`"),
    ("same id twice", "id: rest", "id: team", 25, "used twice"),
    ("after else", "if: {field: driver.cuda, at_least: '13.0'}", "else: true", 25, "new-cuda before it always holds"),
    ("says nothing", "    then: [llama.cpp]\n", "", 25, "says nothing"),
    ("bad kind", "kind: advice", "kind: advise", 3, "is not one of advice, source"),
    ("bad order", "order: first_match", "order: random", 13, "is not one of first_match, none"),
    ("setting without source", "{value: 4, source: me}", "{value: 4}", 8, "`source` is missing"),
    (
        "key twice",
        "    then: [vllm]\n    because: many",
        "    then: [vllm]\n    then: [vllm]\n    because: many",
        18,
        "twice",
    ),
    ("value as mapping", "is: nvidia}", "is: {a: b}}", 16, "unknown setting"),
    ("two operators", "is: nvidia}", "is: nvidia, is_not: amd}", 16, "exactly one operator"),
    ("empty all", "{all: [many, {field: gpu.vendor, is: nvidia}]}", "{all: []}", 16, "needs a list"),
]


@pytest.mark.parametrize(("what", "old", "new", "line", "words"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_a_mistake_is_named_with_its_line(tmp_path: Path, what: str, old: str, new: str, line: int, words: str) -> None:
    assert old in GOOD
    with pytest.raises(BadFile) as caught:
        load(tmp_path, GOOD.replace(old, new, 1))
    said = caught.value.line()
    assert "\n" not in said
    assert f"guide.yaml:{line}: " in said
    assert words in said


UNREACHABLE: list[tuple[str, str]] = [
    ("the same condition again", "if: {all: [many, {field: gpu.vendor, is: nvidia}]}"),
    (
        "a part of an earlier one",
        "if: {all: [{field: gpu.vendor, is: nvidia}, {field: workload.concurrency, at_least: 5}]}",
    ),
    ("nothing can be both", "if: {all: [{field: gpu.vendor, is: amd}, {field: gpu.vendor, is: intel}]}"),
    ("an empty range", "if: {all: [{field: nodes, above: 3}, {field: nodes, below: 4}]}"),
    ("an empty range of versions", "if: {all: [{field: python, at_least: '3.12'}, {field: python, below: '3.11'}]}"),
]


@pytest.mark.parametrize(("what", "condition"), UNREACHABLE, ids=[u[0] for u in UNREACHABLE])
def test_a_branch_that_nothing_reaches_is_refused(tmp_path: Path, what: str, condition: str) -> None:
    text = GOOD.replace("if: {field: driver.cuda, at_least: '13.0'}", condition)
    with pytest.raises(BadFile, match=r"guide\.yaml:20: .*new-cuda can never be reached"):
        load(tmp_path, text)


def test_complements_leave_only_the_unknown_to_the_default(tmp_path: Path) -> None:
    text = GOOD.replace("{all: [many, {field: gpu.vendor, is: nvidia}]}", "many").replace(
        "if: {field: driver.cuda, at_least: '13.0'}", "if: {not: many}"
    )
    guide = load(tmp_path, text)  # the default is reached when the concurrency is unknown, so this is right
    assert evaluate_guide(guide, {}).rules == ("mine/engine/rest",)


def test_child_conditions_count_what_stands_above(tmp_path: Path) -> None:
    nested = """\
  - id: rest
    else: true
    nodes:
    - id: inner
      if: {all: [many, {field: gpu.vendor, is: nvidia}]}
      then: [ollama]
      because: taken by team already
      source: me
    - id: inner-rest
      else: true
      then: [llama.cpp]
      because: it runs anywhere
      source: me
"""
    with pytest.raises(BadFile, match=r"guide\.yaml:28: inner can never be reached"):
        load(tmp_path, GOOD[: GOOD.index("  - id: rest")] + nested)


def test_a_tree_of_a_document_may_have_gaps_only_if_it_says_so(tmp_path: Path) -> None:
    text = """\
name: doc
title: A document
kind: source
as_of: '2026'
sources: {D: {title: A document}}
trees:
- name: tree
  order: none
  questions: {gpu: {type: enum, values: [nvidia, amd], ask: which GPU}}
  nodes:
  - id: one
    if: {field: gpu, is: nvidia}
    then: vllm
    source: D
    verdict: {claims: D-1, word: 'true'}
"""
    with pytest.raises(BadFile, match=r"guide\.yaml:7: .*no default"):
        load(tmp_path, text)
    guide = load(tmp_path, text.replace("  order: none\n", "  order: none\n  gaps: It says no more.\n"))
    assert evaluate_guide(guide, {"gpu": "amd"}).notes == ("It says no more.",)
    with pytest.raises(BadFile, match="has no verdict"):
        load(tmp_path, text.replace("    verdict: {claims: D-1, word: 'true'}\n", ""))
    with pytest.raises(BadFile, match=r"quote it"):
        load(tmp_path, text.replace("'true'", "true"))


def test_answers_are_read_as_the_question_wants(tmp_path: Path) -> None:
    guide = load_guide_file(Path(__file__).parents[2] / "rules" / "guides" / "inference-engine-comparison.yaml")
    tree = find_tree(guide)
    assert parse_answers(tree, {"has_gpu": "yes"})["has_gpu"] is True
    assert parse_answers(tree, {"has_gpu": "false"})["has_gpu"] is False
    assert parse_answers(tree, {})["production"] is None
    with pytest.raises(UnknownName, match="unknown question 'has_gp'") as caught:
        parse_answers(tree, {"has_gp": True})
    assert caught.value.near[0] == "has_gpu"
    with pytest.raises(BadInput, match="true or false"):
        parse_answers(tree, {"has_gpu": "maybe"})
    with pytest.raises(UnknownName, match="flowchart"):
        find_tree(guide, "flowchat")


def test_a_budget_is_read_as_a_number() -> None:
    name = "understanding-llms-and-modern-inference-engines.yaml"
    guide = load_guide_file(Path(__file__).parents[2] / "rules" / "guides" / name)
    tree = find_tree(guide, "budget")
    assert parse_answers(tree, {"eur_once": "9000"})["eur_once"] == 9000
    assert parse_answers(tree, {"eur_once": "1500.5"})["eur_once"] == 1500.5
    for wrong in ("much", "nan"):
        with pytest.raises(BadInput, match="is a number"):
            parse_answers(tree, {"eur_once": wrong})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_any_document_is_loaded_or_refused_with_one_line(raw: object) -> None:
    with pytest.raises(AdvisorError) as caught:
        load_guide(raw, "x.yaml")
    assert "\n" not in caught.value.line()


@given(st.data())
def test_a_guide_with_one_value_replaced_is_loaded_or_refused_with_one_line(data: st.DataObject) -> None:
    import yaml

    raw = yaml.safe_load(GOOD)
    paths = list(_paths(raw))
    path = data.draw(st.sampled_from(paths))
    holder = raw
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = data.draw(JSON)
    try:
        guide = load_guide(raw, "x.yaml", engine_ids=ENGINE_IDS)
    except BadFile as e:
        said = e.line()
    else:
        said = ""
        assert evaluate_guide(guide, {}).trace
    assert "\n" not in said


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Any:
    if path:
        yield path
    if isinstance(value, dict):
        for k, v in value.items():
            yield from _paths(v, (*path, k))
    elif isinstance(value, list):
        for i, v in enumerate(value):
            yield from _paths(v, (*path, i))
