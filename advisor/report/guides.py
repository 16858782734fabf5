"""A guide's answer as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.decision.conditions import describe
from advisor.decision.types import Guide, Node, Tree
from advisor.report.text import bullets, paint, wrap

_MARKS = {True: "[x]", False: "[ ]", None: "[?]"}


def drawn(guide: Guide, tree: Tree, held: Mapping[str, bool | None]) -> str:
    """A tree with the path that was taken marked: [x] holds, [ ] does not, [?] is unknown, no mark: not looked at."""
    out = [paint(f"{guide.title}: {tree.title or tree.name}", "bold")]
    if tree.remark:
        out.append(wrap(tree.remark, "  "))
    order = "the first that holds counts" if tree.order == "first_match" else "all that hold count; no order is given"
    out.append(wrap(f"({order})", "  "))
    out += _nodes(tree.nodes, held, 1)
    if tree.gaps:
        out.append(wrap(f"no answer otherwise: {tree.gaps}", "  "))
    return "\n".join(out)


def _nodes(nodes: Sequence[Node], held: Mapping[str, bool | None], depth: int) -> list[str]:
    out = []
    for n in nodes:
        mark = _MARKS[held[n.id]] if n.id in held else "   "
        indent = "  " * depth
        leaf = ", ".join(n.engines) or n.says or ", ".join((*n.hardware, *n.overlay, *n.quantizations))
        text = f"{mark} {n.id}: {describe(n.condition) if n.condition else 'otherwise'}"
        out.append(wrap(text + (f" → {leaf}" if leaf and not n.nodes else ""), indent, indent + "      "))
        if n.verdict:
            out.append(wrap(f"our verdict: {n.verdict.word}. {n.verdict.text or ''}", indent + "      "))
        out += _nodes(n.nodes, held, depth + 1)
    return out


def answer(guide: dict[str, Any]) -> str:
    """What the source's own tree says, and our verdict beside it."""
    out = [paint(f"The guide {guide['name']} ({guide['tree']}) says:", "bold")]
    engines = ", ".join(guide["engines"])
    if engines:
        order = "" if guide["ranked"] else " (the source gives no precedence)"
        out.append(wrap(f"{engines}{order}", "  "))
    out += bullets(guide["says"])
    for key, label in (
        ("later", "later"),
        ("overlay", "beside it"),
        ("hardware", "hardware"),
        ("quantizations", "formats"),
    ):
        if guide[key]:
            out.append(wrap(f"{label}: {', '.join(guide[key])}", "  ", "    "))
    if guide["settings"]:
        out.append(wrap("settings: " + ", ".join(f"{k}={v}" for k, v in guide["settings"].items()), "  ", "    "))
    for v in guide["verdict"]:
        text = f": {v['text']}" if v["text"] else ""
        out.append(wrap(f"our verdict on {', '.join(v['claims'])}: {v['word']}{text}", "  ", "    "))
    for engine, reasons in guide["refused_here"].items():
        out.append(wrap(f"on this machine {engine} is refused: {'; '.join(reasons)}", "  ", "    "))
    out += bullets(guide["notes"])
    if guide["unanswered"]:
        out.append(wrap(f"not answered: {', '.join(guide['unanswered'])} (--answer KEY=VALUE)", "  ", "    "))
    return "\n".join(out)
