"""A guide's answer as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor.advice.types import GuideAnswer
from advisor.decision.conditions import describe_condition
from advisor.decision.types import Guide, Tree, TreeNode
from advisor.report.text import bullets, paint, wrap_text

_MARKS = {True: "[x]", False: "[ ]", None: "[?]"}


def draw_tree(guide: Guide, tree: Tree, held: Mapping[str, bool | None]) -> str:
    """A tree with the path that was taken marked: [x] holds, [ ] does not, [?] is unknown, no mark: not looked at."""
    out = [paint(f"{guide.title}: {tree.title or tree.name}", "bold")]
    if tree.remark:
        out.append(wrap_text(tree.remark, "  "))
    order = "the first that holds counts" if tree.order == "first_match" else "all that hold count; no order is given"
    out.append(wrap_text(f"({order})", "  "))
    out += _nodes(tree.nodes, held, 1)
    if tree.gaps:
        out.append(wrap_text(f"no answer otherwise: {tree.gaps}", "  "))
    return "\n".join(out)


def _nodes(nodes: Sequence[TreeNode], held: Mapping[str, bool | None], depth: int) -> list[str]:
    out = []
    for tree_node in nodes:
        mark = _MARKS[held[tree_node.id]] if tree_node.id in held else "   "
        indent = "  " * depth
        leaf = (
            ", ".join(tree_node.engines)
            or tree_node.says
            or ", ".join((*tree_node.hardware, *tree_node.overlay, *tree_node.quantizations))
        )
        text = (
            f"{mark} {tree_node.id}: {describe_condition(tree_node.condition) if tree_node.condition else 'otherwise'}"
        )
        out.append(wrap_text(text + (f" → {leaf}" if leaf and not tree_node.nodes else ""), indent, indent + "      "))
        if tree_node.verdict:
            out.append(
                wrap_text(f"our verdict: {tree_node.verdict.word}. {tree_node.verdict.text or ''}", indent + "      ")
            )
        out += _nodes(tree_node.nodes, held, depth + 1)
    return out


def describe_guide_answer(guide: GuideAnswer) -> str:
    """What the source's own tree says, and our verdict next to it."""
    out = [paint(f"The guide {guide.name} ({guide.tree}) says:", "bold")]
    if guide.engines:
        order = "" if guide.ranked else " (the source gives no precedence)"
        out.append(wrap_text(f"{', '.join(guide.engines)}{order}", "  "))
    out += bullets(guide.says)
    for words, label in (
        (guide.later, "later"),
        (guide.overlay, "next to it"),
        (guide.hardware, "hardware"),
        (guide.quantizations, "formats"),
        ([f"{k}={v}" for k, v in guide.settings.items()], "settings"),
    ):
        if words:
            out.append(wrap_text(f"{label}: {', '.join(words)}", "  ", "    "))
    for v in guide.verdict:
        text = f": {v.text}" if v.text else ""
        out.append(wrap_text(f"our verdict on {', '.join(v.claims)}: {v.word}{text}", "  ", "    "))
    for engine, reasons in guide.refused_here.items():
        out.append(wrap_text(f"on this machine {engine} is refused: {'; '.join(reasons)}", "  ", "    "))
    out += bullets(guide.notes)
    if guide.unanswered:
        out.append(wrap_text(f"not answered: {', '.join(guide.unanswered)} (--answer KEY=VALUE)", "  ", "    "))
    return "\n".join(out)
