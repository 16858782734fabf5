"""Answers of the source documents' own guides, next to the advisor's advice."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from advisor.advice.types import Advice, GuideAnswer
from advisor.catalog import Catalog
from advisor.decision.evaluate import evaluate_guide, evaluate_tree
from advisor.decision.facts import compute_facts
from advisor.decision.guides import find_tree, load_guide, parse_answers
from advisor.decision.types import FIELDS, FactValues, Guide, Tree
from advisor.deployment import Workload
from advisor.errors import BadInput, UnknownName
from advisor.machines.types import Machine
from advisor.near import near_matches
from advisor.record import pick_fields

# fields of a decision that the answer shows under the same name
SAME = (
    "tree", "engines", "ranked", "says", "later", "overlay", "settings", "hardware", "quantizations", "notes",
)  # fmt: skip


def guide_names(rules: Catalog) -> list[str]:
    """Names of all guides."""
    return sorted(p.removeprefix("guides/").rsplit(".", 1)[0] for p in rules.documents("guides/"))


def load_named_guide(name: str, rules: Catalog) -> Guide:
    """A guide by name. Raises UnknownName with near matches."""
    known = guide_names(rules)
    if name not in known:
        raise UnknownName("guide", name, near_matches(name, known) or known)
    path = f"guides/{name}.yaml"
    return load_guide(rules.document(path), path, rules.engines(), check=len(rules.roots) > 1)


def trace_named_guide(
    name: str, tree: str | None, answers: Mapping[str, str], machine: Machine | None, load_: Workload, rules: Catalog
) -> tuple[Guide, Tree, dict[str, bool | None]]:
    """A guide, one of its trees, and what each node came to: taken, not taken, unknown; nodes never reached are absent.

    Source guides take `answers` to their questions, the advisor's own looks at the machine and the workload.
    """
    guide = load_named_guide(name, rules)
    asked = find_tree(guide, tree)
    seen: FactValues
    if guide.kind == "advice":
        if answers:
            raise BadInput(
                f"guide {name} asks no questions: it looks at the machine (--on), the model and the workload"
            )
        seen = dict.fromkeys(FIELDS)
        if machine is not None:
            seen = compute_facts(machine, None, load_, rules.accelerators(), rules.engines())
    else:
        seen = parse_answers(asked, answers)
    steps = evaluate_tree(guide, asked, seen).trace
    return guide, asked, {s.rule.rsplit("/", 1)[1]: s.held for s in steps}


def add_guide_answer(advice: Advice, name: str, tree: str | None, answers: Mapping[str, str], rules: Catalog) -> Advice:
    """The advice with what the guide's own tree says in `guide`; filters do not change that, they stand next to it."""
    guide = load_named_guide(name, rules)
    if guide.kind == "advice":
        if answers:
            raise BadInput(f"guide {name} asks no questions: it looks at the machine, the model and the workload")
        return advice
    asked = find_tree(guide, tree)
    decision = evaluate_guide(guide, parse_answers(asked, answers), tree)
    refused = {r.engine: tuple(x.text for x in r.reasons) for r in advice.rejected}
    answer = GuideAnswer(
        name=name,
        path=decision.rules,
        verdict=decision.verdicts,
        unanswered=decision.unknown,
        refused_here={e: refused[e] for e in decision.engines if e in refused},
        **pick_fields(decision, *SAME),
    )
    return replace(advice, guide=answer, trace=(*decision.trace, *advice.trace))
