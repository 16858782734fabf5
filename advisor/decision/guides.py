"""Loading guides: plain data (or a YAML file) into typed trees, with every mistake named by file and line."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from advisor.decision.conditions import (
    GuideFault,
    Path,
    describe_condition,
    evaluate_condition,
    list_tests,
    parse_condition,
)
from advisor.decision.nodes import NodeContext, cite_sources, fold, list_names, parse_nodes
from advisor.decision.types import (
    FIELDS,
    AllOf,
    Condition,
    Field,
    FieldTest,
    Guide,
    GuideFile,
    GuideQuestion,
    GuideTree,
    Order,
    Scalar,
    Tree,
    TreeNode,
    find_value_problem,
    parse_version,
)
from advisor.decoding import convert
from advisor.errors import BadFile, BadInput, UnknownName
from advisor.near import near_matches

FindLine = Callable[[Path], "int | None"]  # the line of what stands at a path


def load_guide(
    raw: object,
    where: object,
    engine_ids: Collection[str] | None = None,
    *,
    find_line: FindLine = lambda _: None,
    check: bool = True,
) -> Guide:
    """A guide from a plain document; `find_line` gives the line of a path in it, where known.

    `engine_ids` are the ids that leaves may name (not checked when None). With `check`, branches that nothing can reach
    are looked for too. Raises BadFile with one line that says what is wrong.
    """
    found: list[GuideFault] = []
    guide = _build(_decode(raw, where, find_line), str(where), find_line, engine_ids, found)
    for line, text in _describe(found, find_line) or (find_unreachable(guide) if guide is not None and check else ()):
        raise BadFile(where, text, line)
    assert guide is not None
    return guide


def guide_problems(
    file: GuideFile, find_line: FindLine, engine_ids: Collection[str] | None = None
) -> list[tuple[int | None, str]]:
    """Everything that is wrong with a guide, each with its line; empty when all is well."""
    found: list[GuideFault] = []
    guide = _build(file, "", find_line, engine_ids, found)
    return _describe(found, find_line) or (list(find_unreachable(guide)) if guide is not None else [])


def find_tree(guide: Guide, name: str | None = None) -> Tree:
    """A tree by name; without a name the first engine tree. Raises UnknownName."""
    if name is None:
        return next((t for t in guide.trees if t.role == "engine"), guide.trees[0])
    for tree in guide.trees:
        if tree.name == name:
            return tree
    known = [t.name for t in guide.trees]
    raise UnknownName("tree", name, near_matches(name, known), f"Guide {guide.name} has: {', '.join(known)}.")


def _format_path(path: Path) -> str:
    text = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".")
    return f"{text}: " if text else ""


def _decode(raw: object, where: object, find_line: FindLine) -> GuideFile:
    try:
        return convert(raw, GuideFile)
    except msgspec.ValidationError:
        from advisor.catalog.flaws import find_flaws

        flaw = find_flaws(raw, GuideFile)[0]
        near = f". Did you mean: {', '.join(flaw.near)}?" if flaw.near else ""
        raise BadFile(where, f"{_format_path(flaw.at)}{flaw.problem}{near}", find_line(flaw.at)) from None


def _describe(found: Iterable[GuideFault], find_line: FindLine) -> list[tuple[int | None, str]]:
    return [(find_line(e.path), f"{_format_path(e.path)}{e.text}") for e in found]


def _build(
    file: GuideFile, where: str, find_line: FindLine, engine_ids: Collection[str] | None, found: list[GuideFault]
) -> Guide | None:
    """The guide without what is wrong in it, which goes to `found`; None where nothing can be made of it."""
    try:
        return _guide(file, where, find_line, engine_ids, found)
    except GuideFault as e:
        found += e.all
        return None


def _guide(
    file: GuideFile, where: str, find_line: FindLine, engine_ids: Collection[str] | None, found: list[GuideFault]
) -> Guide:
    if not file.sources:
        raise GuideFault(("sources",), "a guide needs at least one source")
    for key, setting in file.settings.items():
        if not cite_sources(setting.source, ("settings", key), file.sources):
            raise GuideFault(("settings", key), "a setting needs a source")
    settings = {key: setting.value for key, setting in file.settings.items()}
    terms: dict[str, Condition] = {}
    for key, entry in file.terms.items():
        try:
            terms[key] = AllOf(parts=())  # what stands for a term that is wrong
            terms[key] = parse_condition(entry, ("terms", key), FIELDS, terms, settings)
        except GuideFault as e:
            found += e.all
    if not file.trees:
        raise GuideFault(("trees",), "trees is a list with at least one tree")
    context = NodeContext(file.kind, file.sources, file.modes, engine_ids, terms, settings, find_line, set(), found)
    built: list[Tree] = []
    for i, tree in enumerate(file.trees):
        try:
            built.append(_tree(tree, ("trees", i), context))
        except GuideFault as e:
            found += e.all
    seen: set[str] = set()
    for i, made in enumerate(built):
        if made.name in seen:
            raise GuideFault(("trees", i, "name"), f"two trees are named {made.name!r}")
        seen.add(made.name)
    return Guide(
        name=fold(file.name) or "",
        title=fold(file.title) or "",
        kind=file.kind,
        as_of=fold(file.as_of) or "",
        about=fold(file.about),
        sources=file.sources,
        trees=tuple(built),
        where=where,
    )


def _question(name: str, question: GuideQuestion, path: Path) -> Field:
    values = list_names(question.values, (*path, "values"))
    if (question.type == "enum") != bool(values):
        raise GuideFault(path, "an enum question lists its values, and no other does")
    return Field(name=name, type=question.type, doc=fold(question.ask) or "", values=values)


def _tree(tree: GuideTree, path: Path, context: NodeContext) -> Tree:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", tree.name):
        raise GuideFault((*path, "name"), f"a tree's name is lower-case words joined by -, not {tree.name!r}")
    questions = {key: _question(key, q, (*path, "questions", key)) for key, q in tree.questions.items()}
    if context.kind == "source" and not questions:
        raise GuideFault(path, "a tree of a source document lists its questions")
    nodes = parse_nodes(tree.nodes, (*path, "nodes"), context, questions or FIELDS, tree.role, tree.order, ())
    whole = len(nodes) == len(tree.nodes)
    open_end = whole and tree.order == "first_match" and nodes[-1].condition is not None
    no_default = open_end or (whole and tree.order == "none" and all(n.condition for n in nodes))
    if tree.role == "engine" and tree.gaps is None and no_default:
        raise GuideFault(path, f"tree {tree.name} has no default: end it with `else: true`, or say in `gaps` why not")
    return Tree(
        name=tree.name,
        role=tree.role,
        order=tree.order,
        title=fold(tree.title),
        remark=fold(tree.remark),
        gaps=fold(tree.gaps),
        questions=questions,
        nodes=nodes,
    )


def parse_answers(tree: Tree, answers: Mapping[str, object]) -> dict[str, Scalar | None]:
    """Answers to a tree's questions, as typed values (`"true"`, `"yes"`, `"1400"` are read as the question wants).

    Questions without an answer are unknown. Raises UnknownName or BadInput.
    """

    facts: dict[str, Scalar | None] = dict.fromkeys(tree.questions)
    for key, value in answers.items():
        field = tree.questions.get(key)
        if field is None:
            known = ", ".join(tree.questions) or "none"
            raise UnknownName("question", key, near_matches(key, tree.questions), f"Tree {tree.name} asks: {known}.")
        typed = _typed(field, value)
        problem = find_value_problem(field, typed)
        if problem:
            raise BadInput(f"answer {key}: {problem}")
        facts[key] = typed  # type: ignore[assignment]  # value_problem checked it
    return facts


_WORDS: dict[str, bool] = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _typed(field: Field, value: object) -> object:
    if not isinstance(value, str):
        return value
    text = value.strip()
    if field.type == "bool":
        return _WORDS.get(text.lower(), value)
    if field.type in ("int", "float"):
        try:
            return int(text) if field.type == "int" or text.isdecimal() else float(text)
        except ValueError:
            return value
    return text


MAX_STEPS = 200_000  # per node; a guide needs far fewer


Example = dict[str, Scalar | None]


def find_unreachable(guide: Guide) -> Iterator[tuple[int | None, str]]:
    """Line and description of every node that nothing can reach.

    For each node a value of every field involved is searched for that makes the branches above it and itself hold and
    no earlier sibling hold. Fields are cut into finitely many classes of values that no test can tell apart, so the
    search is complete.
    """
    for tree in guide.trees:
        for node, example in _block(tree.nodes, tree.order, (), (), tree.questions or FIELDS):
            if example is None:
                yield node.line, f"{node.id} can never be reached ({describe_condition(node.condition) or 'otherwise'})"


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
        met = above if node.condition is None else (*above, node.condition)
        before = (*ruled_out, *sure, *maybe)
        example = find_example(met, before, fields)
        if example is None and maybe:  # a branch above may hold and still give no answer
            before = (*ruled_out, *sure)
            example = find_example(met, before, fields)
        yield node, example
        if example is not None:
            yield from _block(node.nodes, node.order, met, before, fields)
            yield from _block(node.refine, "first_match", met, before, fields)


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
