"""Words that docs/style.md replaces stand in no document, rule, template, message, docstring or comment."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
STYLE = TOP / "docs/style.md"
# where a word is a name, or somebody else's
NAMES = re.compile(r"make beside|beside_bytes|scripts_beside|\bsaid:|`said`|\bbeside:|name: beside|\banew:|\{[^{}]*\}")
VOCABULARY = "level office door"  # words of synthetic prompts (advisor/bench/guidellm.py)


def read_words() -> list[str]:
    """The first column of the table of docs/style.md."""
    rows = re.findall(r"(?m)^\| ([^|]+) \| [^|]+ \|$", STYLE.read_text(encoding="utf-8"))
    return [word.strip() for row in rows if row not in ("not", "---") for word in row.split(",")]


def find_words(pattern: re.Pattern[str]) -> Iterator[str]:
    """Place and word of everything that people read; what has no such word as it stands is not taken apart."""
    for path in list_files():
        if pattern.search(path.read_text(encoding="utf-8")):
            for place, text in list_texts(path):
                yield from (f"{place}: {m[0]}" for m in pattern.finditer(NAMES.sub(" ", text)))


def list_files() -> list[Path]:
    documents = [
        *(TOP / "docs").glob("*.md"),
        *(TOP / "docs/contributing").glob("*.md"),
        TOP / "README.md",
        TOP / "CONTRIBUTING.md",
    ]
    others = [*(TOP / "rules").rglob("*.yaml"), *(p for p in (TOP / "templates").rglob("*") if p.is_file())]
    code = [*(TOP / "advisor").rglob("*.py"), *(TOP / "tools").rglob("*.py")]
    return sorted({*documents, *others, *code} - {STYLE})


def list_texts(path: Path) -> Iterator[tuple[str, str]]:
    """(place, text) of what people read in a file: of code its texts and comments."""
    if path.suffix != ".py":
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield f"{path.relative_to(TOP)}:{number}", line
        return
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            text = token.string
            of_words = token.type == tokenize.COMMENT or (token.type in STRINGS and " " in text)
            if of_words and VOCABULARY not in text:
                yield f"{path.relative_to(TOP)}:{token.start[0]}", text


STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}  # f-strings in parts from 3.12 on


def test_words_of_the_list_are_not_used() -> None:
    words = read_words()
    assert len(words) >= 15
    pattern = re.compile(rf"(?i)\b(?:{'|'.join(map(re.escape, words))})\b")
    found = list(find_words(pattern))
    assert found == [], f"docs/style.md has better words: {len(found)}"


def test_the_search_finds_them() -> None:
    """The list is read, and a word in a text is seen."""
    pattern = re.compile(rf"(?i)\b(?:{'|'.join(map(re.escape, read_words()))})\b")
    assert pattern.search("the fit is put forward beside it")
    assert not pattern.search(NAMES.sub(" ", "f'{said}' said: x"))
    assert any(p.parent == TOP / "advisor/cli" for p in list_files())
    assert list(list_texts(TOP / "advisor/cli/main.py"))
    assert next(find_words(re.compile("Apache-2.0"))).startswith("README.md:")
