"""The page's files: what is served, its words, its size, and what makes it safe; without a browser."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import server

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.estimation import find_machine
from advisor.web.page import FILES, MODULES, PAGE_PATHS, USES, load_usual, make_file

FOLDER = Path(__file__).resolve().parents[2] / "templates" / "web"
WORDS: dict[str, dict[str, str]] = json.loads((FOLDER / "words.json").read_text(encoding="utf-8"))
SOURCES = {p.name: p.read_text(encoding="utf-8") for p in FOLDER.iterdir() if p.suffix in (".js", ".html")}
# keys that are put together of a part and a value
MADE = (
    "tab_",
    "title_",
    "use_",
    "kind_",
    "fit_",
    "verdict_",
    "named_",
    "target_",
    "check_",
    "severity_",
    "starts_",
    "fault_",
    "help_",
)


def test_every_word_of_the_page_is_there_and_every_word_is_used() -> None:
    text = "\n".join(SOURCES.values())
    asked = set(re.findall(r'(?:\bt|section|fact)\("(\w+)"', text)) | set(
        re.findall(r"words\.(\w+)", SOURCES["index.html"])
    )
    asked |= set(re.findall(r'data-t(?:-label|-placeholder)?="(\w+)"', text))
    assert asked - WORDS.keys() - {"name"} == set()
    unused = [k for k in WORDS if not re.search(rf'["`.]{k}\b', text) and not k.startswith(MADE)]
    assert unused == []
    assert {f"use_{u}" for u in USES} <= WORDS.keys()


def test_a_translation_has_the_words_and_the_places_of_the_english_ones() -> None:
    assert set(WORDS["name"]) == {"en", "de"}
    for key, words in WORDS.items():
        assert words["en"].strip(), key
        places = {name: set(re.findall(r"\{(\w+)\}", text)) for name, text in words.items()}
        assert all(p == places["en"] for p in places.values()), key
        assert set(words) <= set(WORDS["name"]), key


def test_modules_are_small_and_listed() -> None:
    modules = {p.stem for p in FOLDER.glob("*.js")}
    assert modules == set(MODULES)
    for name, text in SOURCES.items():
        assert len(text.splitlines()) <= 400, name
        if name.endswith(".js"):
            imported = re.findall(r'from "\./(\w+)\.js"', text)
            assert set(imported) <= modules, name


def test_text_is_inserted_as_text() -> None:
    """No way in for markup, styles or code; nothing from elsewhere."""
    for name, text in SOURCES.items():
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "style=",
            "srcdoc",
        ):
            assert word not in text, f"{name}: {word}"
        outside = set(re.findall(r"(?:https?:)?//[a-z][\w.]+", text)) - {"http://www.w3.org"}
        assert not [x for x in outside if x.startswith(("http", "//www"))], name
        assert not re.search(r"\son\w+=", text) or name.endswith(".js"), name


def test_usual_machines_and_models_are_known() -> None:
    rules, usual = catalog([shipped_root()]), load_usual()
    for words in usual["machines"]:
        machine = find_machine(words, rules)
        assert machine.memory.total_bytes, words
        assert machine.os, words
    assert [rules.find_model(m).id for m in usual["models"]] == usual["models"]


def test_files_are_served_as_what_they_are(local: server.Server) -> None:
    for path in PAGE_PATHS:
        status, text = server.ask(local, path)
        assert status == 200
        shown = text if isinstance(text, str) else json.dumps(text)
        made = make_file(path)[0]
        assert shown == made or json.loads(shown) == json.loads(made)
    assert len(FILES) == len(PAGE_PATHS)
    assert (
        sum(len(make_file(p)[0].encode()) for p in PAGE_PATHS) + len(json.dumps(server.ask(local, "/names.json")[1]))
        <= 150_000
    )


@pytest.mark.parametrize("path", ["/index.html", "/usual.json", "/panel-run.html", "/../page.css", "/icons/run.svg"])
def test_nothing_else_is_served(local: server.Server, path: str) -> None:
    assert server.ask(local, path)[0] == 404
