"""Loading guides: plain data (or a YAML file) into typed trees, with every mistake named by file and line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path as FilePath
from typing import Any, get_args

import msgspec

from advisor.decision.conditions import (
    GuideFault,
    Path,
    Report,
    describe_condition,
    evaluate_condition,
    list_tests,
    parse_condition,
    suggest_names,
)
from advisor.decision.nodes import NodeContext, parse_nodes, read_text_or_none, read_words
from advisor.decision.types import (
    FIELDS,
    AllOf,
    Condition,
    Field,
    FieldTest,
    FieldType,
    Guide,
    GuideSource,
    Order,
    Role,
    Scalar,
    Tree,
    TreeNode,
    find_value_problem,
    parse_version,
)
from advisor.decoding import Json, convert
from advisor.errors import BadFile, BadInput, UnknownName
from advisor.near import near_matches

Lines = Mapping[Path, int]
_GUIDE_KEYS = ("name", "title", "kind", "as_of", "about", "sources", "settings", "terms", "modes", "trees")
_TREE_KEYS = ("name", "role", "order", "title", "remark", "gaps", "questions", "nodes")


def load_guide(
    raw: object,
    where: object,
    lines: Lines | None = None,
    engine_ids: Collection[str] | None = None,
    *,
    check: bool = True,
) -> Guide:
    """A guide from a plain document; `lines` gives the line of each path in it, where known.

    `engine_ids` are the ids that leaves may name (not checked when None). With `check`, branches that nothing can reach
    are looked for too. Raises BadFile with one line that says what is wrong.
    """
    try:
        guide = _guide(raw, str(where), lines or {}, engine_ids)
    except GuideFault as e:
        raise BadFile(where, f"{_format_path(e.path)}{e.text}", _line(lines or {}, e.path)) from None
    if check:
        for line, text in find_unreachable(guide):
            raise BadFile(where, text, line)
    return guide


def guide_problems(
    raw: object, lines: Lines, engine_ids: Collection[str] | None = None
) -> list[tuple[int | None, str]]:
    """Everything that is wrong with a guide, each with its line; empty when all is well."""
    found: list[GuideFault] = []
    try:
        guide = _guide(raw, "", lines, engine_ids, found.append)
    except GuideFault as e:
        found.append(e)
    if found:
        return [(_line(lines, e.path), f"{_format_path(e.path)}{e.text}") for e in found]
    return list(find_unreachable(guide))


def load_guide_file(path: FilePath | str, engine_ids: Collection[str] | None = None) -> Guide:
    """A guide from a YAML file. Raises BadFile with file and line."""
    from advisor.files import compose_yaml, parse_yaml, read_text

    text = read_text(path)
    lines: dict[Path, int] = {}
    _mark(compose_yaml(text, path), (), lines, path)
    return load_guide(parse_yaml(text, path), path, lines, engine_ids)


def find_tree(guide: Guide, name: str | None = None) -> Tree:
    """A tree by name; without a name the first engine tree. Raises UnknownName."""
    if name is None:
        return next((t for t in guide.trees if t.role == "engine"), guide.trees[0])
    for tree in guide.trees:
        if tree.name == name:
            return tree
    known = [t.name for t in guide.trees]
    raise UnknownName("tree", name, near_matches(name, known), f"Guide {guide.name} has: {', '.join(known)}.")


def _mark(node: Any, path: Path, lines: dict[Path, int], where: object) -> None:
    """Note the line of every value, and refuse a key that stands twice in one mapping (YAML would drop the first)."""
    import yaml

    if node is None:
        return
    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        for i, item in enumerate(node.value):
            _mark(item, (*path, i), lines, where)
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise BadFile(where, "a key is a plain word here", key.start_mark.line + 1)
            if key.value in seen:
                raise BadFile(where, f"key {key.value!r} stands twice", key.start_mark.line + 1)
            seen.add(key.value)
            here = (*path, key.value)
            _mark(value, here, lines, where)
            lines[here] = key.start_mark.line + 1


def _line(lines: Lines, path: Path) -> int | None:
    """The line of a path, or of the nearest thing around it."""
    for n in range(len(path), 0, -1):
        if path[:n] in lines:
            return lines[path[:n]]
    return lines.get(())


def _format_path(path: Path) -> str:
    text = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".")
    return f"{text}: " if text else ""


def _mapping(raw: object, path: Path, what: str) -> Json:
    if not isinstance(raw, dict):
        raise GuideFault(path, f"{what} is a mapping, not {type(raw).__name__}")
    for key in raw:
        if not isinstance(key, str):
            raise GuideFault(path, f"key {key!r} is not text (quote it)")
    return raw


def _refuse_other_keys(data: Mapping[str, object], known: tuple[str, ...], path: Path) -> None:
    for key in data:
        if key not in known:
            raise GuideFault((*path, key), f"unknown key {key!r}.{suggest_names(key, known)}")


def _text(data: Mapping[str, object], key: str, path: Path) -> str:
    value = read_text_or_none(data, key, path)
    if value is None:
        raise GuideFault(path, f"{key} is missing")
    return value


def _guide(
    raw: object, where: str, lines: Lines, engine_ids: Collection[str] | None, report: Report | None = None
) -> Guide:
    data = _mapping(raw, (), "a guide")
    _refuse_other_keys(data, _GUIDE_KEYS, ())
    kind = data.get("kind")
    if kind not in ("advice", "source"):
        raise GuideFault(("kind",), f"kind is advice or source, not {kind!r}")
    sources = {
        key: _convert(entry, GuideSource, ("sources", key)) for key, entry in _entries(data, "sources", required=True)
    }
    if not sources:
        raise GuideFault(("sources",), "a guide needs at least one source")
    settings = {key: _setting(entry, ("settings", key), sources) for key, entry in _entries(data, "settings")}
    terms: dict[str, Condition] = {}
    for key, entry in _entries(data, "terms"):
        with _going_on(report):
            terms[key] = AllOf(parts=())  # what stands for a term that is wrong
            terms[key] = parse_condition(entry, ("terms", key), FIELDS, terms, settings, report)
    trees = data.get("trees")
    if not isinstance(trees, list) or not trees:
        raise GuideFault(("trees",), "trees is a list with at least one tree")
    context = NodeContext(
        kind=kind,
        sources=frozenset(sources),
        modes=frozenset(key for key, _ in _entries(data, "modes")),
        engine_ids=None if engine_ids is None else frozenset(engine_ids),
        terms=terms,
        settings=settings,
        lines=lines,
        ids=set(),
        report=report,
    )
    built: list[Tree] = []
    for i, t in enumerate(trees):
        with _going_on(report):
            built.append(_tree(t, ("trees", i), context))
    seen: set[str] = set()
    for i, tree in enumerate(built):
        if tree.name in seen:
            raise GuideFault(("trees", i, "name"), f"two trees are named {tree.name!r}")
        seen.add(tree.name)
    return Guide(
        name=_text(data, "name", ()),
        title=_text(data, "title", ()),
        kind=kind,
        as_of=_text(data, "as_of", ()),
        about=read_text_or_none(data, "about", ()),
        sources=sources,
        trees=tuple(built),
        where=where,
    )


@contextmanager
def _going_on(report: Report | None) -> Iterator[None]:
    """A problem inside goes to `report`; without one it is raised."""
    try:
        yield
    except GuideFault as e:
        if report is None:
            raise
        report(e)


def _entries(data: Mapping[str, object], key: str, required: bool = False) -> list[tuple[str, Any]]:
    if key not in data:
        if required:
            raise GuideFault((), f"{key} is missing")
        return []
    return list(_mapping(data[key], (key,), key).items())


def _convert(raw: object, kind: type[GuideSource], path: Path) -> GuideSource:
    try:
        return convert(raw, kind)
    except msgspec.ValidationError as e:
        raise GuideFault(path, str(e)) from None


def _setting(raw: object, path: Path, sources: Mapping[str, GuideSource]) -> Scalar:
    data = _mapping(raw, path, "a setting")
    _refuse_other_keys(data, ("value", "source", "why"), path)
    value = data.get("value")
    if not isinstance(value, (bool, int, float, str)):
        raise GuideFault(path, "a setting needs a value")
    cited = read_words(data, "source", path)
    if not cited:
        raise GuideFault(path, "a setting needs a source")
    for key in cited:
        if key not in sources:
            raise GuideFault((*path, "source"), f"unknown source {key!r}.{suggest_names(key, sources)}")
    return value


def _question(name: str, raw: object, path: Path) -> Field:
    data = _mapping(raw, path, "a question")
    _refuse_other_keys(data, ("type", "values", "ask"), path)
    kind: FieldType = data.get("type", "bool")
    if kind not in ("bool", "int", "float", "enum"):
        raise GuideFault((*path, "type"), f"a question is bool, int, float or enum, not {kind!r}")
    values = read_words(data, "values", path)
    if (kind == "enum") != bool(values):
        raise GuideFault(path, "an enum question lists its values, and no other does")
    return Field(name=name, type=kind, doc=_text(data, "ask", path), values=values)


def _tree(raw: object, path: Path, context: NodeContext) -> Tree:
    data = _mapping(raw, path, "a tree")
    _refuse_other_keys(data, _TREE_KEYS, path)
    order: Order = data.get("order", "")
    if order not in get_args(Order):
        raise GuideFault((*path, "order"), f"order is first_match or none, not {order!r}")
    role: Role = data.get("role", "engine")
    if role not in get_args(Role):
        raise GuideFault((*path, "role"), f"role is one of {', '.join(get_args(Role))}, not {role!r}")
    name = _text(data, "name", path)
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
        raise GuideFault((*path, "name"), f"a tree's name is lower-case words joined by -, not {name!r}")
    questions = {
        str(key): _question(str(key), q, (*path, "questions", str(key)))
        for key, q in _mapping(data.get("questions", {}), (*path, "questions"), "questions").items()
    }
    if context.kind == "source" and not questions:
        raise GuideFault(path, "a tree of a source document lists its questions")
    gaps = read_text_or_none(data, "gaps", path)
    nodes = parse_nodes(data.get("nodes"), (*path, "nodes"), context, questions or FIELDS, role, order, ())
    whole = len(nodes) == len(data["nodes"])
    open_end = whole and order == "first_match" and nodes[-1].condition is not None
    no_default = open_end or (whole and order == "none" and all(n.condition for n in nodes))
    if role == "engine" and gaps is None and no_default:
        raise GuideFault(path, f"tree {name} has no default: end it with `else: true`, or say in `gaps` why not")
    return Tree(
        name=name,
        role=role,
        order=order,
        title=read_text_or_none(data, "title", path),
        remark=read_text_or_none(data, "remark", path),
        gaps=gaps,
        questions=questions,
        nodes=nodes,
        line=context.lines.get(path),
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
