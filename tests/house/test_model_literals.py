"""No constant of memory is keyed by a model's name: what holds for one checkpoint has to follow from its layers.

Names may stand in `source`, which says where a figure was seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from code_facts import TOP, modules, texts
from reading import read_yaml

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root

SAYS = {"source", "notes", "because"}  # keys whose values are texts for readers
SIZE = re.compile(r"[\d.]+b")  # a class of sizes


def model_names() -> set[str]:
    rules = catalog([shipped_root()])
    models = [rules.find_model(name) for name in rules.model_ids()]
    names = {m.id.lower() for m in models} | {a.lower() for m in models for a in m.aliases}
    types = {str(x).lower() for m in models for x in (m.model_type, m.gguf_name, m.architecture, m.family)}
    return {n for n in names - types if not SIZE.fullmatch(n)}


def texts_of(value: Any) -> Iterator[str]:
    """Every key and text, but for what SAYS."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key not in SAYS:
                yield str(key)
                yield from texts_of(part)
    elif isinstance(value, list):
        for part in value:
            yield from texts_of(part)
    elif isinstance(value, str):
        yield value


def test_constants_of_memory_name_no_model() -> None:
    names, found = model_names(), []
    for path in [
        *sorted((TOP / "rules/engines").glob("*.yaml")),
        TOP / "rules/gguf.yaml",
        TOP / "rules/quantizations.yaml",
    ]:
        data = read_yaml(path.read_text(encoding="utf-8"))
        block = data.get("memory", {}) if path.parent.name == "engines" else data
        found += [(path.name, text) for text in texts_of(block) if text.lower() in names]
    assert not found


def test_memory_code_names_no_model() -> None:
    names = model_names()
    found = [
        (path, node.value)
        for path, tree in modules()
        if path.startswith(("advisor/memory/", "advisor/engines/", "advisor/models/"))
        for node in texts(tree)
        if str(node.value).lower() in names
    ]
    assert not found
