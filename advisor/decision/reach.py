"""Whether every branch of a guide can be reached.

For each node a value of every field involved is searched for that makes the branches above it and itself hold and no
earlier sibling hold. Fields are cut into finitely many classes of values that no test can tell apart, so the search is
complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from advisor.decision.conditions import describe_condition, evaluate_condition, list_tests
from advisor.decision.fields import FIELDS, Field, Scalar, parse_version
from advisor.decision.types import Condition, FieldTest, Guide, Order, Tree, TreeNode

MAX_STEPS = 200_000  # per node; a guide needs far fewer


Example = dict[str, Scalar | None]


def find_unreachable(guide: Guide) -> Iterator[tuple[int | None, str]]:
    """Line and description of every node that nothing can reach."""
    for tree in guide.trees:
        for node, example in _block(tree.nodes, tree.order, (), (), tree.questions or FIELDS):
            if example is None:
                yield node.line, f"{node.id} can never be reached ({describe_condition(node.condition) or 'otherwise'})"


def find_examples(guide: Guide, tree: Tree) -> Iterator[tuple[str, Example]]:
    """For every node of a tree its rule id and facts that reach it (fields that do not matter are absent)."""
    for node, example in _block(tree.nodes, tree.order, (), (), tree.questions or FIELDS):
        if example is not None:
            yield f"{guide.name}/{tree.name}/{node.id}", example


def _block(
    nodes: Sequence[TreeNode],
    order: Order,
    above: tuple[Condition, ...],
    ruled_out: tuple[Condition, ...],
    fields: Mapping[str, Field],
) -> Iterator[tuple[TreeNode, Example | None]]:
    """Each node below with facts that reach it, or None. `ruled_out` must not hold for the search to get this far."""
    for i, node in enumerate(nodes):
        # Without order every node is looked at; only the default waits for the others.
        earlier = nodes[:i] if order == "first_match" or node.condition is None else ()
        sure = tuple(n.condition for n in earlier if n.condition is not None and _always_answers(n))
        maybe = tuple(n.condition for n in earlier if n.condition is not None and not _always_answers(n))
        wanted = above if node.condition is None else (*above, node.condition)
        before = (*ruled_out, *sure, *maybe)
        example = find_example(wanted, before, fields)
        if example is None and maybe:  # a branch above may hold and still give no answer
            before = (*ruled_out, *sure)
            example = find_example(wanted, before, fields)
        yield node, example
        if example is not None:
            yield from _block(node.nodes, node.order, wanted, before, fields)
            yield from _block(node.refine, "first_match", wanted, before, fields)


def _always_answers(node: TreeNode) -> bool:
    """Whether a node that holds always gives an answer: a leaf, or a branch that ends in a default."""
    return not node.nodes or (node.nodes[-1].condition is None and _always_answers(node.nodes[-1]))


def find_example(
    true: Sequence[Condition], not_true: Sequence[Condition], fields: Mapping[str, Field]
) -> dict[str, Scalar | None] | None:
    """Facts for which all of `true` hold and none of `not_true` does; None if there are none.

    When the search gets too long it is given up and the empty facts are returned: not shown to be unreachable.
    """
    tests = [t for c in (*true, *not_true) for t in list_tests(c)]
    names = list(dict.fromkeys(t.field for t in tests))
    classes = [list_representatives(fields[n], [t for t in tests if t.field == n]) for n in names]
    place = {n: i for i, n in enumerate(names)}
    due: list[list[tuple[Condition, bool]]] = [[] for _ in names]  # conditions decided once field i has a value
    for condition, want in [*((c, True) for c in true), *((c, False) for c in not_true)]:
        due[max(place[t.field] for t in list_tests(condition))].append((condition, want))
    facts: dict[str, Scalar | None] = {}
    steps = 0

    def search(i: int) -> bool:
        nonlocal steps
        if i == len(names):
            return True
        for value in classes[i]:
            steps += 1
            if steps > MAX_STEPS:
                raise _TooLong
            facts[names[i]] = value
            if all((evaluate_condition(c, facts, fields) is True) is want for c, want in due[i]) and search(i + 1):
                return True
        del facts[names[i]]
        return False

    try:
        return facts if search(0) else None
    except _TooLong:
        return {}


class _TooLong(Exception):
    pass


def list_representatives(field: Field, tests: Sequence[FieldTest]) -> list[Scalar | None]:
    """One value of every class that these tests can tell apart, unknown (None) last."""
    if field.type == "bool":
        return [True, False, None]
    if field.type == "enum":
        return [*field.values, None]
    named: list[Scalar] = []
    for field_test in tests:
        for v in field_test.value if isinstance(field_test.value, tuple) else (field_test.value,):
            if field_test.op != "exists" and v not in named:
                named.append(v)
    if field.type == "str":
        return [*named, "\0other", None]
    if field.type == "version":
        return [*_between_versions([str(v) for v in named]), None]
    numbers = sorted(v for v in named if isinstance(v, (int, float)))
    return [*_between_numbers(numbers, field.type == "int"), None]


def _between_numbers(numbers: Sequence[int | float], whole: bool) -> list[int | float]:
    """The numbers themselves and one in every gap around them."""
    if not numbers:
        return [1]
    values: list[int | float] = [numbers[0] - 1]
    for low, high in zip(numbers, [*numbers[1:], None], strict=True):
        values.append(low)
        if high is None:
            values.append(low + 1)
        elif not whole:
            values.append((low + high) / 2)
        elif high - low > 1:
            values.append(low + 1)
    return values


def _between_versions(versions: Sequence[str]) -> list[str]:
    """The versions themselves, one below all, and one right above each."""
    ordered = sorted(set(versions), key=parse_version)
    values = ["0.0.0.0.1"]
    for v in ordered:
        values += [v, f"{v}.0.0.0.1"]
    return values
