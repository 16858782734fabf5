"""Whatever stands in a rule file, reading it ends in entries or in one line that names the file and a line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from mini import DENSE, ENGINE, OFFER
from reading import read_yaml
from rule_folder import CARDS, MODELS

from advisor.catalog.load import read_rules
from advisor.errors import BadFile

FILES = {
    "hardware/cards.yaml": CARDS,
    "models/tiny.yaml": MODELS,
    "models/dense.yaml": DENSE,
    "engines/e.yaml": ENGINE,
    "prices/p.yaml": OFFER,
}
_scalars = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False), st.text(max_size=6))
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    found = [at]
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        found += places(inner, (*at, key))
    return found


def put(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    """The document with the value at one place replaced."""
    if not at:
        return new
    copy = value.copy()
    copy[at[0]] = put(value[at[0]], at[1:], new)
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
@settings(max_examples=60)
@given(data=st.data())
def test_one_changed_value(tmp_path: Path, file: str, data: st.DataObject) -> None:
    document = read_yaml(FILES[file])
    at = data.draw(st.sampled_from(places(document)))
    changed = put(document, at, data.draw(_values))
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(changed, allow_unicode=True, sort_keys=False), encoding="utf-8")
    try:
        read_rules([tmp_path])
    except BadFile as e:
        line = e.line()
        assert "\n" not in line
        assert re.match(re.escape(str(path)) + r"(:\d+)?: ", line), line


@settings(max_examples=100)
@given(text=st.one_of(st.text(max_size=80), st.text("{}[]:,-&*!'\"#\n ab?|>", max_size=40)))
def test_any_text(tmp_path: Path, text: str) -> None:
    path = tmp_path / "models" / "x.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        found = read_rules([tmp_path]).tables["models"]
    except BadFile as e:
        line = e.line()
    else:
        assert found == {}
        return
    assert line.startswith(str(path))
