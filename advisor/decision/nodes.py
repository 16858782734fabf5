"""Reading the nodes of a tree: branches, leaves, refinements, and what each must say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, get_args

from advisor.decision.conditions import GuideFault, Path, Report, describe_condition, parse_condition, suggest_names
from advisor.decision.types import (
    FIELDS,
    Condition,
    Field,
    LeafVerdict,
    Order,
    Role,
    Scalar,
    TreeNode,
    VerdictWord,
    find_fields,
)
from advisor.decoding import Json
from advisor.record import Value

REASON_CODES = (
    *("archived", "os_unsupported", "compute_capability_below_floor", "gfx_not_listed", "vendor_not_supported"),
    *("cuda_runtime_too_old", "format_not_loadable", "quantization_not_supported", "feature_missing"),
    *("needs_accelerator", "does_not_fit", "concurrency", "not_for_production", "not_asked_for", "data_policy"),
)
_LISTS = ("later", "overlay", "hardware", "quantizations", "avoid", "requires", "prefers", "notes")
_KEYS = (
    *("id", "if", "else", "then", "nodes", "order", "refine", *_LISTS),
    *("settings", "code", "says", "because", "source", "verdict"),
)


class NodeContext(Value, frozen=True):
    """What the nodes of one guide may refer to."""

    kind: Literal["advice", "source"]
    sources: frozenset[str]
    modes: frozenset[str]
    engine_ids: frozenset[str] | None
    terms: Mapping[str, Condition]
    settings: Mapping[str, Scalar]
    lines: Mapping[Path, int]
    ids: set[str]
    report: Report | None = None  # None: the first problem is raised


def read_words(data: Mapping[str, object], key: str, path: Path) -> tuple[str, ...]:
    """A list of words (a single word counts as one); empty when absent. Raises Problem."""
    value = data.get(key)
    if value is None:
        return ()
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        raise GuideFault((*path, key), f"{key} is a list of words")
    for i, item in enumerate(items):
        if not isinstance(item, str) or not item:
            raise GuideFault((*path, key, i), f"{key} holds {item!r}, which is not text (quote it)")
        if item in items[:i]:
            raise GuideFault((*path, key, i), f"{key} lists {item!r} twice")
    return tuple(items)


def read_text_or_none(data: Mapping[str, object], key: str, path: Path) -> str | None:
    """A text, white space folded; None when absent. Raises Problem."""
    value = data.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise GuideFault((*path, key), f"{key} is text, not {value!r} (quote it)")
    return " ".join(value.split())


def parse_nodes(
    raw: object,
    path: Path,
    context: NodeContext,
    fields: Mapping[str, Field],
    role: Role,
    order: Order,
    source: tuple[str, ...],
) -> tuple[TreeNode, ...]:
    """The siblings of one block. `source` is what the branch above cites, for leaves that cite nothing themselves."""
    if not isinstance(raw, list) or not raw:
        raise GuideFault(path, "nodes is a list with at least one node")
    nodes: list[TreeNode] = []
    for i, item in enumerate(raw):
        here = (*path, i)
        try:
            node = _node(item, here, context, fields, role, source)
            _check_sibling(node, nodes, here, order)
        except GuideFault as e:
            if context.report is None:
                raise
            context.report(e)
            continue
        nodes.append(node)
    whole = len(nodes) == len(raw)
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
    raw: object,
    path: Path,
    context: NodeContext,
    fields: Mapping[str, Field],
    role: Role,
    inherited: tuple[str, ...],
    refines: bool = False,
) -> TreeNode:
    if not isinstance(raw, dict):
        raise GuideFault(path, f"a node is a mapping, not {type(raw).__name__}")
    data: Json = raw
    for key in data:
        if key not in _KEYS:
            raise GuideFault((*path, str(key)), f"unknown key {key!r}.{suggest_names(str(key), _KEYS)}")
    node_id = read_text_or_none(data, "id", path)
    if node_id is None or not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", node_id):
        raise GuideFault(path, f"a node needs an id of lower-case words joined by - or ., not {data.get('id')!r}")
    if node_id in context.ids:
        raise GuideFault((*path, "id"), f"id {node_id!r} is used twice")
    context.ids.add(node_id)
    if ("if" in data) == ("else" in data):
        raise GuideFault(path, f"{node_id} needs either `if` or `else: true`")
    if data.get("else", True) is not True:
        raise GuideFault((*path, "else"), "else takes only true")
    condition = None
    if "if" in data:
        condition = parse_condition(data["if"], (*path, "if"), fields, context.terms, context.settings, context.report)
    source = _cited(data, path, context) or inherited
    order: Order = data.get("order", "first_match")
    if order not in get_args(Order):
        raise GuideFault((*path, "order"), f"order is first_match or none, not {order!r}")
    children: tuple[TreeNode, ...] = ()
    refine: tuple[TreeNode, ...] = ()
    if "nodes" in data:
        children = parse_nodes(data["nodes"], (*path, "nodes"), context, fields, role, order, source)
    if "refine" in data:
        if not isinstance(data["refine"], list):
            raise GuideFault((*path, "refine"), "refine is a list of nodes")
        refine = tuple(
            _node(r, (*path, "refine", i), context, fields, role, source, refines=True)
            for i, r in enumerate(data["refine"])
        )
    lists = {key: read_words(data, key, path) for key in _LISTS}
    node = TreeNode(
        id=node_id,
        condition=condition,
        engines=read_words(data, "then", path),
        nodes=children,
        order=order,
        refine=refine,
        settings=_settings(data, path),
        code=read_text_or_none(data, "code", path),
        says=read_text_or_none(data, "says", path),
        because=read_text_or_none(data, "because", path),
        source=source,
        verdict=_verdict(data, path),
        line=context.lines.get(path),
        **lists,
    )
    if children or "nodes" not in data:  # else every one of them is wrong, and was reported
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


def _check_engines(node: TreeNode, path: Path, context: NodeContext, known: frozenset[str]) -> None:
    """Engines that a leaf names are engines, or ways of serving where it names an overlay."""
    for key, given, extra in (
        ("then", node.engines, frozenset[str]()),
        ("later", node.later, frozenset[str]()),
        ("overlay", node.overlay, context.modes),
    ):
        for i, engine in enumerate(given):
            if engine not in known | extra:
                hint = suggest_names(engine, known | extra)
                problem = GuideFault((*path, key, i), f"unknown engine {engine!r}.{hint}")
                if context.report is None:
                    raise problem
                context.report(problem)


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


def _cited(data: Mapping[str, object], path: Path, context: NodeContext) -> tuple[str, ...]:
    cited = read_words(data, "source", path)
    for i, key in enumerate(cited):
        if key not in context.sources:
            raise GuideFault((*path, "source", i), f"unknown source {key!r}.{suggest_names(key, context.sources)}")
    return cited


def _settings(data: Mapping[str, object], path: Path) -> dict[str, Scalar]:
    raw = data.get("settings", {})
    if not isinstance(raw, dict):
        raise GuideFault((*path, "settings"), "settings is a mapping of flags to values")
    for key, value in raw.items():
        if not isinstance(key, str) or not isinstance(value, (bool, int, float, str)):
            raise GuideFault((*path, "settings", str(key)), f"setting {key!r} has no plain value")
    return dict(raw)


def _verdict(data: Mapping[str, object], path: Path) -> LeafVerdict | None:
    raw = data.get("verdict")
    if raw is None:
        return None
    here = (*path, "verdict")
    if not isinstance(raw, dict) or set(raw) - {"claims", "word", "text"}:
        raise GuideFault(here, "a verdict has claims, word and text")
    claims = read_words(raw, "claims", here)
    word: VerdictWord = raw.get("word", "")
    if word not in get_args(VerdictWord):
        raise GuideFault(
            (*here, "word"), f"a verdict is one of {', '.join(get_args(VerdictWord))} (quoted), not {word!r}"
        )
    if not claims:
        raise GuideFault(here, "a verdict names the claims it judges")
    return LeafVerdict(claims=claims, word=word, text=read_text_or_none(raw, "text", here))
