"""Evaluating a guide: which leaves hold for given facts, and the full trace of what was looked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from advisor.decision.conditions import check_tests, evaluate_condition, list_tests
from advisor.decision.guides import find_tree
from advisor.decision.types import (
    FIELDS,
    Decision,
    FactValue,
    FactValues,
    Field,
    Guide,
    Order,
    Reason,
    Scalar,
    TraceStep,
    Tree,
    TreeNode,
    fill_value,
    find_value_problem,
)
from advisor.errors import BadInput
from advisor.memo import memoize_by_identity
from advisor.record import Value


class TreeAnswer(Value, frozen=True):
    """The leaves of one tree that were taken, refinements applied, and what was looked at."""

    leaves: tuple[TreeNode, ...]
    trace: tuple[TraceStep, ...]


def evaluate_guide(guide: Guide, facts: FactValues, tree: str | None = None) -> Decision:
    """What the guide says: the named tree (default: its first engine tree), then the trees that add to it.

    In a first-match block the first node whose condition holds is taken; an unknown condition is not taken and the
    trace names the unknown fields. In a block without order every node that holds is taken. A branch without an answer
    below it lets the search go on. Raises UnknownName for a tree, BadInput for a value of the wrong type.
    """
    main = find_tree(guide, tree)
    answer = evaluate_tree(guide, main, facts)
    engines = _union(n.engines for n in answer.leaves)
    leaves, trace = [*answer.leaves], [*answer.trace]
    held_back: dict[str, list[Reason]] = {}
    if guide.kind == "advice" and main.role == "engine":
        known = {**facts, "engine.chosen": engines[0] if engines else None}
        for extra in guide.trees:
            if extra.role in ("engine", "settings"):
                continue
            added = evaluate_tree(guide, extra, known)
            trace += added.trace
            if extra.role == "held_back":
                for leaf in added.leaves:
                    for engine in leaf.engines:
                        held_back.setdefault(engine, []).append(_reason(guide, extra, leaf))
            else:
                leaves += added.leaves
    return Decision(
        guide=guide.name,
        tree=main.name,
        rules=tuple(f"{guide.name}/{main.name}/{n.id}" for n in answer.leaves),
        engines=engines,
        ranked=len(engines) < 2 or (guide.kind == "advice" and len(answer.leaves) < 2),
        says=tuple(n.says for n in answer.leaves if n.says),
        **{name: _union(getattr(n, name) for n in leaves) for name in _ADDED_UP},
        settings={k: v for n in leaves for k, v in n.settings.items()},
        held_back={k: tuple(v) for k, v in held_back.items()},
        notes=(*_order_notes(main, answer), *fill_notes(_union(n.notes for n in leaves), facts)),
        verdicts=tuple(n.verdict for n in answer.leaves if n.verdict),
        unknown=_union(s.unknown for s in trace),
        trace=tuple(trace),
    )


_ADDED_UP = ("later", "overlay", "hardware", "quantizations", "avoid", "requires", "prefers")
KeptSteps = Literal["all", "held", "none"]  # of the steps that were looked at


def evaluate_tree(guide: Guide, tree: Tree, facts: FactValues, keep: KeptSteps = "all") -> TreeAnswer:
    """One tree alone, with those of its steps that are to be kept. Raises BadInput for a value of the wrong type.

    Facts are checked with `all` only: others ask again with facts that were checked before.
    """
    fields = tree.questions or FIELDS
    for name, field in fields.items() if keep == "all" else ():
        value = facts.get(name)
        problem = None if value is None else find_value_problem(field, value)
        if problem:
            raise BadInput(problem)
    if next((t for t in guide.trees if t.name == tree.name), None) is not tree:
        return _answer_tree(guide, tree, facts, keep)
    read = _list_read(guide, tree.name)
    return _answer_again(guide, tree.name, keep, tuple((name, facts[name]) for name in read if name in facts))


@memoize_by_identity
def _list_read(guide: Guide, name: str) -> tuple[str, ...]:
    """The facts that the conditions of a tree ask for."""
    tests = (t for node in walk_nodes(find_tree(guide, name).nodes) for t in list_tests(node.condition))
    return tuple(dict.fromkeys(t.field for t in tests))


@memoize_by_identity
def _answer_again(guide: Guide, name: str, keep: KeptSteps, facts: tuple[tuple[str, FactValue], ...]) -> TreeAnswer:
    """A tree's answer to the facts that it asks for: other models and machines differ in these less than in others."""
    return _answer_tree(guide, find_tree(guide, name), dict(facts), keep)


def _answer_tree(guide: Guide, tree: Tree, facts: FactValues, keep: KeptSteps) -> TreeAnswer:
    trace: list[TraceStep] = []
    look = _Evaluation(facts, tree.questions or FIELDS, f"{guide.name}/{tree.name}/", trace, keep)
    leaves = _block(tree.nodes, tree.order, look)
    return TreeAnswer(tuple(leaves), tuple(trace))


class EngineHints(Value, frozen=True):
    """What a guide says about one engine under consideration."""

    quantizations: tuple[str, ...]  # best first
    avoid: tuple[str, ...]
    notes: tuple[str, ...]


def find_engine_hints(guide: Guide, facts: FactValues, engine: str) -> EngineHints:
    """Quantizations to prefer and to avoid, and notes, for one engine under consideration."""
    known = {**facts, "engine.chosen": engine}
    leaves = [
        leaf
        for tree in guide.trees
        if tree.role in ("quantization", "note", "overlay")
        for leaf in evaluate_tree(guide, tree, known, "none").leaves
    ]
    return EngineHints(
        _union(n.quantizations for n in leaves),
        _union(n.avoid for n in leaves),
        tuple(fill_notes(_union(n.notes for n in leaves), known)),
    )


@memoize_by_identity
def list_thresholds(guide: Guide, field: str) -> tuple[float, ...]:
    """The numbers that conditions of a guide compare a field with, in order: between two of them no answer changes."""
    nodes = [n for tree in guide.trees for n in walk_nodes(tree.nodes)]
    tests = [t for n in nodes for t in list_tests(n.condition) if t.field == field]
    values = [v for t in tests for v in (t.value if isinstance(t.value, tuple) else (t.value,))]
    return tuple(sorted({float(v) for v in values if isinstance(v, (int, float))}))


def walk_nodes(nodes: Sequence[TreeNode]) -> Iterator[TreeNode]:
    """Every node below, refinements included."""
    for node in nodes:
        yield node
        yield from walk_nodes(node.nodes)
        yield from walk_nodes(node.refine)


class _Evaluation(Value, frozen=True):
    """What conditions are asked of, and where the steps go."""

    facts: FactValues
    fields: Mapping[str, Field]
    prefix: str
    trace: list[TraceStep]
    keep: KeptSteps


def _block(nodes: Sequence[TreeNode], order: Order, evaluation: _Evaluation) -> list[TreeNode]:
    found: list[TreeNode] = []
    for node in nodes:
        if node.condition is None and order == "none" and found:
            break  # the default of an unordered block is for when nothing else holds
        if not _holds_for(node, evaluation):
            continue
        if node.nodes:
            found += _block(node.nodes, node.order, evaluation)
        else:
            found.append(_apply_refinement(node, evaluation))
        if found and order == "first_match":
            break
    return found


def _holds_for(node: TreeNode, evaluation: _Evaluation) -> bool:
    held = evaluate_condition(node.condition, evaluation.facts, evaluation.fields)
    if evaluation.keep == "none" or (evaluation.keep == "held" and held is not True):
        return held is True
    seen = check_tests(node.condition, evaluation.facts, evaluation.fields)
    unknown = tuple(dict.fromkeys(c.field for c in seen if c.outcome is None)) if held is None else ()
    evaluation.trace.append(
        TraceStep(
            rule=evaluation.prefix + node.id,
            held=held,
            conditions=seen,
            because=node.because if held else (f"unknown: {', '.join(unknown)}" if unknown else None),
            source=node.source,
        )
    )
    return held is True


def _apply_refinement(leaf: TreeNode, evaluation: _Evaluation) -> TreeNode:
    """The leaf with what its first refinement that holds sets put in place of its own."""
    import msgspec

    for node in leaf.refine:
        if _holds_for(node, evaluation):
            keys = ("engines", "later", "overlay", "settings", "hardware", "says", "verdict", "because", "notes")
            return msgspec.structs.replace(leaf, **{k: getattr(node, k) for k in keys if getattr(node, k)})
    return leaf


def _union(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for items in lists for item in items))


def _reason(guide: Guide, tree: Tree, leaf: TreeNode) -> Reason:
    cited = [guide.sources[k] for k in leaf.source]
    return Reason(
        code=leaf.code or "",
        rule=f"{guide.name}/{tree.name}/{leaf.id}",
        text=leaf.because or "",
        source="; ".join(s.title for s in cited),
    )


def _order_notes(tree: Tree, answer: TreeAnswer) -> Iterator[str]:
    if tree.remark:
        yield tree.remark
    if not answer.leaves and tree.gaps:
        yield tree.gaps
    if len(answer.leaves) > 1:
        names = ", ".join(n.id for n in answer.leaves)
        yield f"{len(answer.leaves)} branches hold ({names}) and the source gives no order or precedence between them"


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
