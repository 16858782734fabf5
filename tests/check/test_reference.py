"""The rules' pages are those of the rules, and the JSON is what the shipped schema says."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec

import advisor
from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.checks.report.answer import as_json
from tools.pages.check_rules import make_rule_pages

TOP = Path(__file__).resolve().parents[2]


def test_pages_are_not_stale() -> None:
    stored = {p.name: p.read_text(encoding="utf-8") for p in (TOP / "docs/reference/checks").glob("*.md")}
    assert stored == make_rule_pages(catalog([shipped_root()])), "make pages"


def test_json_schema(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text(
        "vllm serve Qwen/Qwen3-8B --swap-space 4\nvllm serve $X\nllama-server -m /x/a.gguf\n"
    )
    (tmp_path / "b.yaml").write_text("image: ollama/ollama\nmodel: [\n")
    schema = json.loads((Path(advisor.__file__).parent / "schemas" / "check.json").read_text())
    for on in ("1x H100 80GB SXM", None):
        body = json.loads(msgspec.json.encode(as_json(advisor.check(tmp_path, on=on))))
        jsonschema.Draft202012Validator(schema).validate(body)
        assert len(body["deployments"]) == 3
        assert body["problems"]
