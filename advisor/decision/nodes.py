"""Reading the nodes of a tree: branches, leaves, refinements, and what each must say."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from advisor.decision.conditions import GuideFault, Path, describe_condition, parse_condition, suggest_names
from advisor.decision.types import (
    FIELDS,
    Condition,
    Field,
    GuideNode,
    LeafVerdict,
    Names,
    Order,
    Role,
    Scalar,
    StatedVerdict,
    TreeNode,
    find_fields,
)
from advisor.record import Value

REASON_CODES = (
    *("archived", "os_unsupported", "compute_capability_below_floor", "gfx_not_listed", "vendor_not_supported"),
    *("cuda_runtime_too_old", "format_not_loadable", "quantization_not_supported", "feature_missing"),
    *("needs_accelerator", "does_not_fit", "concurrency", "not_for_production", "not_asked_for", "data_policy"),
)
_LISTS = ("later", "overlay", "hardware", "quantizations", "avoid", "requires", "prefers", "notes")


class NodeContext(Value, frozen=True):
    """What the nodes of one guide may refer to, and where what is wrong with them goes."""

    kind: Literal["advice", "source"]
    sources: Collection[str]
    modes: Collection[str]
    engine_ids: Collection[str] | None
    terms: Mapping[str, Condition]
    settings: Mapping[str, Scalar]
    find_line: Callable[[Path], int | None]
    ids: set[str]
    found: list[GuideFault]


def list_names(given: Names, path: Path) -> tuple[str, ...]:
    """The words of a list (a single word counts as one). Raises GuideFault for an empty word and one that stands
    twice."""
    names = (given,) if isinstance(given, str) else given
    for i, name in enumerate(names):
        if not name:
            raise GuideFault((*path, i), f"{path[-1]} holds {name!r}, which is not text (quote it)")
        if name in names[:i]:
            raise GuideFault((*path, i), f"{path[-1]} lists {name!r} twice")
    return names


def fold(text: str | None) -> str | None:
    """A text with its white space folded; None where there is none."""
    return " ".join(text.split()) or None if text else None


def parse_nodes(
    entries: Sequence[GuideNode],
    path: Path,
    context: NodeContext,
    fields: Mapping[str, Field],
    role: Role,
    order: Order,
    source: tuple[str, ...],
) -> tuple[TreeNode, ...]:
    """The siblings of one block without those that are wrong, which go to the context's list. `source` is what the
    branch above cites, for leaves that cite nothing themselves. Raises GuideFault for what is wrong with all of them.
    """
    if not entries:
        raise GuideFault(path, "nodes is a list with at least one node")
    nodes: list[TreeNode] = []
    for i, entry in enumerate(entries):
        here = (*path, i)
        try:
            node = _node(entry, here, context, fields, role, source)
            _check_sibling(node, nodes, here, order)
        except GuideFault as e:
            context.found.extend(e.all)
            continue
        nodes.append(node)
    whole = len(nodes) == len(entries)
    ends = context.kind == "advice" and role == "engine" and order == "first_match"
    if whole and ends and nodes[-1].condition is not None:
        raise GuideFault(path, f"the block of {nodes[0].id} has no default: end it with `else: true`")
    return tuple(nodes)


def _check_sibling(node: TreeNode, earlier: list[TreeNode], path: Path, order: Order) -> None:
    if earlier and earlier[-1].condition is None:
        raise GuideFault(path, f"{node.id} can never be reached: {earlier[-1].id} before it always holds")
    if order == "first_match":
        for other in earlier:
            if other.condition is not None and other.condition == node.condition:
                text = describe_condition(node.condition)
                raise GuideFault(path, f"{node.id} can never be reached: {other.id} has the same condition ({text})")


def _node(
    entry: GuideNode,
    path: Path,
    context: NodeContext,
    fields: Mapping[str, Field],
    role: Role,
    inherited: tuple[str, ...],
    refines: bool = False,
) -> TreeNode:
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", entry.id):
        raise GuideFault(path, f"a node needs an id of lower-case words joined by - or ., not {entry.id!r}")
    if entry.id in context.ids:
        raise GuideFault((*path, "id"), f"id {entry.id!r} is used twice")
    context.ids.add(entry.id)
    if (entry.condition is None) == (entry.otherwise is None):
        raise GuideFault(path, f"{entry.id} needs either `if` or `else: true`")
    condition = None
    if entry.condition is not None:
        condition = parse_condition(entry.condition, (*path, "if"), fields, context.terms, context.settings)
    source = cite_sources(entry.source, path, context.sources) or inherited
    children: tuple[TreeNode, ...] = ()
    if entry.nodes is not None:
        children = parse_nodes(entry.nodes, (*path, "nodes"), context, fields, role, entry.order, source)
    node = TreeNode(
        id=entry.id,
        condition=condition,
        engines=list_names(entry.then, (*path, "then")),
        nodes=children,
        order=entry.order,
        refine=tuple(
            _node(r, (*path, "refine", i), context, fields, role, source, refines=True)
            for i, r in enumerate(entry.refine)
        ),
        settings=entry.settings,
        code=fold(entry.code),
        says=fold(entry.says),
        because=fold(entry.because),
        source=source,
        verdict=_verdict(entry.verdict, (*path, "verdict")),
        line=context.find_line(path),
        **{name: list_names(getattr(entry, name), (*path, name)) for name in _LISTS},
    )
    if children or entry.nodes is None:  # else every one of them is wrong, and was reported
        _check_leaf(node, path, context, role, refines)
    return node


def _check_leaf(node: TreeNode, path: Path, context: NodeContext, role: Role, refines: bool) -> None:
    says_something = (
        node.engines or node.overlay or node.hardware or node.quantizations or node.requires or node.prefers
    ) or (node.says or node.notes or (role == "settings" and node.settings))
    if node.nodes:
        if node.engines or node.says or node.hardware or node.refine:
            raise GuideFault(path, f"{node.id} has nodes and an answer of its own; it can have only one of them")
        return
    if not says_something:
        raise GuideFault(path, f"{node.id} says nothing: it needs then, nodes, says or another answer")
    if role == "engine" and not refines and not (node.engines or node.says or node.hardware):
        raise GuideFault(path, f"{node.id} is a leaf of an engine tree and names neither engines nor what it says")
    if bool(node.settings) and role not in ("settings", "engine"):
        raise GuideFault(path, f"{node.id}: settings belong to a tree of role settings")
    _check_texts(node, path, context)
    if not node.source:
        raise GuideFault(path, f"{node.id} has no source")
    if context.kind == "advice" and not node.because:
        raise GuideFault(path, f"{node.id} gives no reason (because)")
    if context.kind == "source" and node.verdict is None:
        raise GuideFault(path, f"{node.id} has no verdict on the source's claim")
    if (role == "held_back") != (node.code is not None):
        raise GuideFault(path, f"{node.id}: a reason code belongs to the leaves of a held_back tree, and only to them")
    if node.code is not None and node.code not in REASON_CODES:
        raise GuideFault((*path, "code"), f"unknown reason code {node.code!r}.{suggest_names(node.code, REASON_CODES)}")
    if context.engine_ids is not None:
        _check_engines(node, path, context, context.engine_ids)


def _check_engines(node: TreeNode, path: Path, context: NodeContext, known: Collection[str]) -> None:
    """Engines that a leaf names are engines, or ways of serving where it names an overlay."""
    for key, given, extra in (
        ("then", node.engines, ()),
        ("later", node.later, ()),
        ("overlay", node.overlay, context.modes),
    ):
        for i, engine in enumerate(given):
            if engine not in known and engine not in extra:
                hint = suggest_names(engine, {*known, *extra})
                context.found.append(GuideFault((*path, key, i), f"unknown engine {engine!r}.{hint}"))


def _check_texts(node: TreeNode, path: Path, context: NodeContext) -> None:
    """Fields named in braces must be fields (advice only: sources are quoted as they stand)."""
    if context.kind != "advice":
        return
    texts: list[tuple[Path, Scalar]] = [((*path, "settings", k), v) for k, v in node.settings.items()]
    texts += [((*path, "notes", i), n) for i, n in enumerate(node.notes)]
    for where, text in texts:
        for field in find_fields(text):
            if field not in FIELDS:
                raise GuideFault(where, f"unknown field {{{field}}}.{suggest_names(field, FIELDS)}")


def cite_sources(given: Names, path: Path, sources: Collection[str]) -> tuple[str, ...]:
    """The sources that something in a guide names. Raises GuideFault for one that the guide does not have."""
    here = (*path, "source")
    cited = list_names(given, here)
    for i, key in enumerate(cited):
        if key not in sources:
            raise GuideFault((*here, i), f"unknown source {key!r}.{suggest_names(key, sources)}")
    return cited


def _verdict(stated: StatedVerdict | None, path: Path) -> LeafVerdict | None:
    if stated is None:
        return None
    claims = list_names(stated.claims, (*path, "claims"))
    if not claims:
        raise GuideFault(path, "a verdict names the claims it judges")
    return LeafVerdict(claims=claims, word=stated.word, text=fold(stated.text))
