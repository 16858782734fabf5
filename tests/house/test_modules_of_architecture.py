"""docs/architecture.md says of every module what it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.pages.modules import make_module_list, write_module_list

TOP = Path(__file__).resolve().parents[2]


def test_every_module_stands_in_the_list_with_its_purpose() -> None:
    text = (TOP / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert text == write_module_list(TOP), "python -m tools.pages.modules writes the list anew"
    for path in (TOP / "advisor").rglob("*.py"):
        assert path.name == "__init__.py" or f"- `{path.name}`: " in text


def test_a_module_without_a_docstring_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "advisor"
    folder.mkdir()
    (folder / "__init__.py").write_text('"""All of it."""\n', encoding="utf-8")
    (folder / "one.py").write_text('"""What one is for. More."""\nX = 1\n', encoding="utf-8")
    assert "- `one.py`: What one is for\n" in make_module_list(tmp_path)
    (folder / "two.py").write_text("X = 2\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"two\.py: a docstring"):
        make_module_list(tmp_path)
