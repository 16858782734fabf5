"""docs/engines says what the rules and the templates say, and what it shows is what the program writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from reading import read_yaml

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from tools.pages import __main__ as pages
from tools.pages import engines

TOP = Path(__file__).resolve().parents[2]
RULES = catalog([shipped_root()])


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return engines.make_engine_pages(RULES)


def test_the_overview_is_that_of_the_rules() -> None:
    stored = (TOP / "docs/engines/README.md").read_text(encoding="utf-8")
    assert stored == engines.make_overview_page(RULES), "docs/engines/README.md is stale: make pages"


def test_the_site_gets_a_page_for_each_engine(made: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "docs/engines").mkdir(parents=True)
    assert pages.main(["--site", str(tmp_path)]) == 0
    assert {p.name: p.read_text(encoding="utf-8") for p in tmp_path.rglob("*.md")} == made
    for link in re.findall(r"\]\(([^)]+)\)", made["README.md"]):
        assert link in made


def test_every_engine_has_a_page_with_its_targets(made: dict[str, str]) -> None:
    """Against the YAML as it stands in the files, read without the catalogue."""
    targets = read_yaml((TOP / "rules/targets.yaml").read_text())["targets"]
    for path in (TOP / "rules/engines").glob("*.yaml"):
        entry = read_yaml(path.read_text())
        text = made[f"{entry['id']}.md"]
        assert text.startswith("<!--")
        assert f"# {entry['name']}\n" in text
        rows = dict(re.findall(r"(?m)^\| `([a-z-]+)` \| (`[^`]+`|–) \| .+ \|$", text.split("## Launch files")[1]))
        assert rows.keys() == targets.keys()
        for name in targets:
            assert (rows[name] != "–") == (name in entry.get("targets", [])), (entry["id"], name)


def test_reasons_stand_beside_every_setting(made: dict[str, str]) -> None:
    for name, text in made.items():
        if "## What is set" not in text:
            continue
        part = text.split("## What is set, and why")[1].split("## ")[0]
        rows = re.findall(r"(?m)^\| `([^`]+)` \| `([^`]*)` \| (.*) \|$", part)
        assert rows, name
        assert all(len(because) > 5 for _, _, because in rows), name
