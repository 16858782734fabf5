"""Texts that are not looked into, because no word in them can start an engine: never one that does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from checking import knowledge, launches
from click.testing import CliRunner
from programs import SHARED

from advisor.checks.read.context import ReaderContext
from advisor.checks.read.detect import read_launches
from advisor.checks.rules.load import list_rules
from advisor.cli.main import root
from advisor.errors import BadFile

TESTS = Path(__file__).resolve().parents[1]
from collect import read_table  # noqa: E402

BESIDE = TESTS.parents[1] / "shared"


def texts() -> Iterator[str]:
    know = knowledge()
    for rule in list_rules(know):
        yield from (text for text in (rule.entry.bad, rule.entry.good) if text)
    yield from (row["command"] for row in read_table())


def test_every_text_with_a_launch_holds_a_word() -> None:
    know, seen = knowledge(), 0
    for text in texts():
        try:
            found = read_launches(text, "some-file", 1, ReaderContext("some-file", know, {}, None))
        except BadFile:  # a snippet that only its name tells to be a template
            continue
        if found:
            seen += 1
            assert know.may_hold_launch(text), text
    assert seen >= 900


@pytest.mark.skipif(not (BESIDE / "corpus").exists(), reason=f"{SHARED}the corpus is not there")
@pytest.mark.slow
def test_every_file_of_other_projects_with_a_launch_does() -> None:
    know = knowledge()
    for path in sorted(p for folder in ("corpus", "gate") for p in (BESIDE / folder).rglob("*") if p.is_file()):
        if path.suffix in (".csv", ".md"):
            continue
        text = path.read_text(errors="replace")
        try:
            found = read_launches(text, path.name, 1, ReaderContext(path.name, know, {}, None))
        except BadFile:
            continue
        if found:
            assert know.may_hold_launch(text), path.name


def test_every_program_and_module_is_a_word_of_a_script() -> None:
    know = knowledge()
    for name in (*know.programs, *(f"python3 -m {m}" for m in know.modules)):
        assert know.may_start_engine(f"{name} serve x"), name
    assert launches("IMAGE=vllm/vllm-openai:v0.33.0\ndocker run $IMAGE Qwen/Qwen3-8B\n")
    assert not know.may_start_engine("echo hello | jq .x\n")


def test_broken_yaml_is_named_where_it_is_asked_for_or_starts_an_engine(tmp_path: Path) -> None:
    (tmp_path / "good.sh").write_text("vllm serve Qwen/Qwen3-8B --max-model-len 4096\n")
    (tmp_path / "other.yaml").write_text("a: [\n")
    ask = CliRunner().invoke
    in_folder = ask(root, ["check", str(tmp_path), "--no-fit"])
    assert "other.yaml" not in in_folder.output
    assert "other.yaml" in ask(root, ["check", str(tmp_path / "other.yaml"), "--no-fit"]).output
    (tmp_path / "other.yaml").write_text("image: ollama/ollama\nmodel: [\n")
    assert "other.yaml" in ask(root, ["check", str(tmp_path), "--no-fit"]).output
