"""A small model that can draft for a large one: of the same maker, of its family or type, with the same vocabulary.

What makes a pair is a rule, not a list, so that it holds for models that nobody paired: `small_models` of
rules/drafts.yaml. Which engine wants equal vocabularies and which takes near ones stands there, too.
"""

from __future__ import annotations

from advisor.catalog import Catalog
from advisor.catalog.types import Engine
from advisor.memory.draft_bound import load_draft_rules
from advisor.models.types import Model
from advisor.record import Value


class SmallDraft(Value, frozen=True):
    """A draft, and where its GGUF files are, if any are known."""

    model: str
    gguf: str | None


def find_small_draft(model: Model, entry: Engine, rules: Catalog) -> SmallDraft | None:
    """The draft for a model: the smallest of its family, else of its type; None without one, or with an own block."""
    known = load_draft_rules(rules).small_models
    if model.layout is None or model.mtp is not None or model.kind != "chat":
        return None
    maker, most = model.id.partition("/")[0], known.share * (model.params_active or model.params_total)
    near = known.vocabulary_within.get(entry.id, 0)
    rows = [
        r
        for r in rules.model_index()
        if r.kind == "chat" and not r.stub and r.params_total <= most and r.id.partition("/")[0] == maker
    ]
    for row in sorted(rows, key=lambda r: (r.family != model.family, r.params_total, r.id)):
        small = rules.find_model(row.id)
        alike = row.family == model.family or small.model_type == model.model_type
        if small.layout is None or not alike or small.id.lower().endswith("-base"):
            continue
        if abs(small.layout.vocab_size - model.layout.vocab_size) <= near:
            gguf = next(iter(small.gguf_repos), None)
            return SmallDraft(small.id, f"{gguf}:{known.gguf}" if gguf else None)
    return None
