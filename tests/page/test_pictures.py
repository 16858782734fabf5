"""Pictures of the documentation: made by the program, up to date, shown with their command, safe to look at."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest

from advisor.page.blocks import Bars, read_pointer
from tools.pages import pictures

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"
TAGS = ("svg", "title", "style", "rect", "text", "line", "circle")


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pictures.make_pictures()


def test_pictures_are_those_of_the_program(made: dict[str, str]) -> None:
    stored = {p.name: p.read_text(encoding="utf-8") for p in (ROOT / pictures.FOLDER).iterdir()}
    assert stored.keys() == made.keys()
    assert [name for name in made if stored[name] != made[name]] == [], "make pages"


def test_every_picture_is_shown_with_its_command_and_a_text(made: dict[str, str]) -> None:
    pages = {p.name: p.read_text(encoding="utf-8") for p in (ROOT / "docs").glob("*.md")}
    for name, picture in pictures.PICTURES.items():
        showing = [text for text in pages.values() if re.search(rf"!\[[^\]]{{20,}}\]\(pictures/{name}\)", text)]
        assert showing, name
        assert all(picture.command in text for text in showing), name


def test_a_picture_holds_nothing_but_shapes_and_words(made: dict[str, str]) -> None:
    """Where a page shows it from elsewhere it may ask for nothing, and run nothing."""
    for name, text in made.items():
        tree = ElementTree.fromstring(text)
        assert {e.tag for e in tree.iter()} <= {SVG + t for t in TAGS}
        outside = [
            v for e in tree.iter() for k, v in e.attrib.items() if k.startswith("on") or "://" in v or "href" in k
        ]
        assert outside == [], name
        assert "url(" not in text
        assert "@import" not in text


def test_a_terminal_holds_what_the_command_prints(made: dict[str, str]) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, command in pictures.TERMINALS.items():
        first, *lines = [e.text or "" for e in ElementTree.fromstring(made[name]).iter(f"{SVG}text")]
        assert first == f"$ {command}"
        assert lines == pictures.run(command).splitlines()
        assert max(map(len, (first, *lines))) <= 80
        assert f"](docs/pictures/{name})" in readme.partition("\n## ")[0]


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_widths_are_those_of_the_answer(name: str, made: dict[str, str]) -> None:
    """The bars are as long as the bytes of the JSON say; every figure of a plot stands in its list."""
    picture = pictures.PICTURES[name]
    answer = pictures.ask(picture.command)
    block = pictures.list_figures(shlex.split(picture.command)[1:], answer)[picture.figure]
    tree = ElementTree.fromstring(made[name])
    texts = " ".join(e.text or "" for e in tree.iter(f"{SVG}text"))
    if not isinstance(block, Bars):
        chosen = [p for i, p in enumerate(block.points) if i in block.best or p.chosen]
        assert chosen
        assert all(p.x.text in texts and p.y.text in texts for p in chosen)
        return
    inner = [e for e in tree.iter(f"{SVG}svg") if e is not tree]
    assert len(inner) == len(block.bars)
    scales = []
    for drawn, bar in zip(inner, block.bars, strict=True):
        widths = [float(r.attrib["width"].rstrip("%")) for r in drawn.iter(f"{SVG}rect")]
        parts = [read_pointer(answer, f.pointer) for _, f in bar.parts if f.value]
        assert len(widths) == len(parts)
        scales += [p / w for p, w in zip(parts, widths, strict=True) if w > 2]
    assert max(scales) / min(scales) < 1.01
