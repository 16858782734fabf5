"""Which nodes of a guide a table of facts reaches."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.decision.evaluate import evaluate_tree, walk_nodes
from advisor.decision.types import FactValues, Guide


def count_held_nodes(guide: Guide, many: Iterable[FactValues]) -> dict[str, int]:
    """How often each node held over many facts: coverage of a guide by its tests (0 = never)."""
    counts = {f"{guide.name}/{tree.name}/{node.id}": 0 for tree in guide.trees for node in walk_nodes(tree.nodes)}
    for facts in many:
        for tree in guide.trees:
            for step in evaluate_tree(guide, tree, facts).trace:
                if step.held:
                    counts[step.rule] += 1
    return counts
