"""What a guide adds to the launch of one engine: settings for the workload, each with its reason, and what to know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from advisor.decision.conditions import FactValues
from advisor.decision.evaluate import evaluate_tree
from advisor.decision.fields import Scalar, fill_value
from advisor.decision.types import Guide, TraceStep
from advisor.record import Value


class Additions(Value, frozen=True):
    """Settings in the engine's own words, why, and the steps that were looked at."""

    settings: dict[str, Scalar]
    because: dict[str, str]
    notes: tuple[str, ...]
    trace: tuple[TraceStep, ...]


def find_additions(guide: Guide, facts: FactValues, engine: str) -> Additions:
    """What the trees of role `settings` say for `engine`. A setting whose field is not known here is left out."""
    known = {**facts, "engine.chosen": engine}
    settings: dict[str, Scalar] = {}
    because: dict[str, str] = {}
    notes: list[str] = []
    trace: list[TraceStep] = []
    for tree in guide.trees:
        if tree.role != "settings":
            continue
        answer = evaluate_tree(guide, tree, known, "held")
        trace += answer.trace
        for leaf in answer.leaves:
            values = {k: fill_value(v, known) for k, v in leaf.settings.items()}
            if all(v is not None for v in values.values()):
                settings.update({k: v for k, v in values.items() if v is not None})
                because.update(dict.fromkeys(values, leaf.because or ""))
            notes += fill_notes(leaf.notes, known)
    return Additions(settings, because, tuple(dict.fromkeys(notes)), tuple(trace))


def fill_notes(notes: Iterable[str], known: Mapping[str, Scalar | None]) -> list[str]:
    """Notes with the fields in braces filled in; a note whose field is not known is left out."""
    texts = (fill_value(n, known) for n in notes)
    return [str(x) for x in texts if x is not None]
