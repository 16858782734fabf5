"""Conditions: reading them from plain data and evaluating them in three-valued logic (true, false, unknown)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from advisor.decision.fields import OPERATORS, Field, Scalar, value_problem, version_key
from advisor.decision.types import All, AnyOf, Check, Condition, Not, Test, Value
from advisor.near import near_matches

Path = tuple[str | int, ...]
Facts = Mapping[str, Scalar | None]


class Problem(Exception):
    """Something wrong in a guide, at a path inside its document."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(text)
        self.path = path
        self.text = text


Report = Callable[[Problem], None]  # what takes a problem and lets reading go on


def did_you_mean(name: str, known: object) -> str:
    """` Did you mean: ...?` with near matches, or nothing."""
    near = near_matches(name, list(known)) if isinstance(known, (Mapping, set, frozenset, tuple, list)) else ()
    return f" Did you mean: {', '.join(near)}?" if near else ""


def parse_condition(
    raw: object,
    path: Path,
    fields: Mapping[str, Field],
    terms: Mapping[str, Condition],
    settings: Mapping[str, Scalar],
    report: Report | None = None,
) -> Condition:
    """A condition from plain data: `{field: F, OP: V}`, `{all: [...]}`, `{any: [...]}`, `{not: C}` or a term's name.

    A value may be `{setting: NAME}`. Raises Problem; with `report` that gets all problems but the last.
    """
    if isinstance(raw, str):
        if raw not in terms:
            hint = did_you_mean(raw, terms) or " A condition is {field: ..., is: ...} or the name of a term."
            raise Problem(path, f"unknown term {raw!r}.{hint}")
        return terms[raw]
    if not isinstance(raw, dict) or not raw:
        raise Problem(path, f"a condition is a mapping or the name of a term, not {raw!r}")
    if "field" in raw:
        return _parse_test(raw, path, fields, settings)
    if len(raw) != 1:
        raise Problem(path, "a condition has one of: field with an operator, all, any, not")
    ((word, body),) = raw.items()
    here = (*path, str(word))
    if word == "not":
        return Not(part=parse_condition(body, here, fields, terms, settings, report))
    if word not in ("all", "any"):
        raise Problem(path, f"unknown condition {word!r}.{did_you_mean(str(word), ('all', 'any', 'not', 'field'))}")
    if not isinstance(body, list) or not body:
        raise Problem(here, f"{word} needs a list of conditions")
    parts, problems = [], []
    for i, c in enumerate(body):
        try:
            parts.append(parse_condition(c, (*here, i), fields, terms, settings, report))
        except Problem as e:
            if report is None:
                raise
            problems.append(e)
    for problem in problems[:-1]:
        assert report is not None
        report(problem)
    if problems:
        raise problems[-1]
    return All(parts=tuple(parts)) if word == "all" else AnyOf(parts=tuple(parts))


def _parse_test(
    raw: dict[object, object], path: Path, fields: Mapping[str, Field], settings: Mapping[str, Scalar]
) -> Test:
    name = raw["field"]
    field = fields.get(name) if isinstance(name, str) else None
    if field is None:
        raise Problem((*path, "field"), f"unknown field {name!r}.{did_you_mean(str(name), fields)}")
    ops = [k for k in raw if k != "field"]
    if len(ops) != 1:
        raise Problem(path, f"field {field.name} needs exactly one operator ({', '.join(OPERATORS[field.type])})")
    op = str(ops[0])
    here = (*path, op)
    if op not in OPERATORS[field.type]:
        allowed = ", ".join(OPERATORS[field.type])
        raise Problem(here, f"operator {op!r} does not go with {field.name}, which is {field.type} ({allowed})")
    value = raw[ops[0]]
    if isinstance(value, dict):
        key = value.get("setting")
        if set(value) != {"setting"} or not isinstance(key, str) or key not in settings:
            raise Problem(here, f"unknown setting {key!r}.{did_you_mean(str(key), settings)}")
        value = settings[key]
    return Test(field=field.name, op=op, value=_parse_value(field, op, value, here))


def _parse_value(field: Field, op: str, value: object, path: Path) -> Value:
    if op == "exists":
        if not isinstance(value, bool):
            raise Problem(path, f"exists takes true or false, not {value!r}")
        return value
    if op == "in":
        if not isinstance(value, list) or not value:
            raise Problem(path, "in takes a list of values")
        items: list[Scalar] = []
        for i, item in enumerate(value):
            problem = value_problem(field, item)
            if problem:
                raise Problem((*path, i), problem)
            if item in items:
                raise Problem((*path, i), f"{item!r} is listed twice")
            items.append(item)
        return tuple(items)
    problem = value_problem(field, value)
    if problem:
        raise Problem(path, problem)
    assert isinstance(value, (bool, int, float, str))
    return value


def _key(value: Scalar, version: bool) -> Scalar | tuple[int, ...]:
    return version_key(value) if version and isinstance(value, str) else value


def holds(test: Test, seen: Scalar | None, version: bool) -> bool | None:
    """Whether a test holds for the value seen; None when the value is unknown. Versions compare number by number."""
    if test.op == "exists":
        return (seen is not None) is test.value
    if seen is None:
        return None
    if version:
        try:
            version_key(str(seen))
        except ValueError:  # a version nobody can read is an unknown one
            return None
    mine = _key(seen, version)
    if test.op == "in":
        assert isinstance(test.value, tuple)
        return any(mine == _key(v, version) for v in test.value)
    assert not isinstance(test.value, tuple)
    want = _key(test.value, version)
    if test.op == "is":
        return mine == want
    if test.op == "is_not":
        return mine != want
    if isinstance(mine, str) is not isinstance(want, str):
        return None  # a table of flags that an overlay replaced says another type than the one the test was read with
    # else `value_problem` made sure that both sides are of the field's ordered type
    if test.op == "at_least":
        return mine >= want  # type: ignore[operator]
    if test.op == "at_most":
        return mine <= want  # type: ignore[operator]
    if test.op == "above":
        return mine > want  # type: ignore[operator]
    return mine < want  # type: ignore[operator]


def outcome(condition: Condition | None, facts: Facts, fields: Mapping[str, Field]) -> bool | None:
    """True, false or None (unknown) of a condition; no condition always holds."""
    if condition is None:
        return True
    if isinstance(condition, Test):
        return holds(condition, facts.get(condition.field), fields[condition.field].type == "version")
    if isinstance(condition, Not):
        inner = outcome(condition.part, facts, fields)
        return None if inner is None else not inner
    results = [outcome(p, facts, fields) for p in condition.parts]
    decisive = isinstance(condition, AnyOf)  # one true decides an any, one false an all
    if decisive in results:
        return decisive
    return None if None in results else not decisive


def tests_of(condition: Condition | None) -> Iterator[Test]:
    """Every single test of a condition, in the order written."""
    if isinstance(condition, Test):
        yield condition
    elif isinstance(condition, Not):
        yield from tests_of(condition.part)
    elif condition is not None:
        for part in condition.parts:
            yield from tests_of(part)


def checks(condition: Condition | None, facts: Facts, fields: Mapping[str, Field]) -> tuple[Check, ...]:
    """Each test of a condition with what it saw and how it came out."""
    return tuple(
        Check(
            field=t.field,
            op=t.op,
            value=t.value,
            seen=facts.get(t.field),
            outcome=holds(t, facts.get(t.field), fields[t.field].type == "version"),
        )
        for t in tests_of(condition)
    )


def describe(condition: Condition | None) -> str | None:
    """A condition in words; None for no condition."""
    if condition is None:
        return None
    if isinstance(condition, Test):
        return f"{condition.field} {condition.op.replace('_', ' ')} {_show(condition.value)}"
    if isinstance(condition, Not):
        return f"not ({describe(condition.part)})"
    word = " and " if isinstance(condition, All) else " or "
    return word.join(
        f"({describe(p)})" if isinstance(p, (All, AnyOf)) and len(p.parts) > 1 else str(describe(p))
        for p in condition.parts
    )


def _show(value: Value) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(_show(v) for v in value) + ")"
    return str(value).lower() if isinstance(value, bool) else str(value)
