"""Conditions: reading them from plain data and evaluating them in three-valued logic (true, false, unknown)."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from advisor.decision.types import (
    OPERATORS,
    AllOf,
    AnyOf,
    Condition,
    ConditionOutcome,
    FactValues,
    Field,
    FieldTest,
    Not,
    Scalar,
    Value,
    find_value_problem,
    parse_version,
)
from advisor.near import near_matches
from advisor.unknowns import all_hold, any_holds

Path = tuple[str | int, ...]


class GuideFault(Exception):
    """Something wrong in a guide, at a path inside its document; `all` is the same with what else was found next to
    it."""

    def __init__(self, path: Path, text: str, more: Sequence[GuideFault] = ()) -> None:
        super().__init__(text)
        self.path = path
        self.text = text
        self.all = (self, *more)


def suggest_names(name: str, known: Iterable[str]) -> str:
    """` Did you mean: ...?` with near matches, or nothing."""
    near = near_matches(name, known)
    return f" Did you mean: {', '.join(near)}?" if near else ""


def parse_condition(
    raw: object,
    path: Path,
    fields: Mapping[str, Field],
    terms: Mapping[str, Condition],
    settings: Mapping[str, Scalar],
) -> Condition:
    """A condition from plain data: `{field: F, OP: V}`, `{all: [...]}`, `{any: [...]}`, `{not: C}` or a term's name.

    A value may be `{setting: NAME}`. Raises GuideFault.
    """
    if isinstance(raw, str):
        if raw not in terms:
            hint = suggest_names(raw, terms) or " A condition is {field: ..., is: ...} or the name of a term."
            raise GuideFault(path, f"unknown term {raw!r}.{hint}")
        return terms[raw]
    if not isinstance(raw, dict) or not raw:
        raise GuideFault(path, f"a condition is a mapping or the name of a term, not {raw!r}")
    if "field" in raw:
        return _parse_test(raw, path, fields, settings)
    if len(raw) != 1:
        raise GuideFault(path, "a condition has one of: field with an operator, all, any, not")
    ((word, body),) = raw.items()
    here = (*path, str(word))
    if word == "not":
        return Not(part=parse_condition(body, here, fields, terms, settings))
    if word not in ("all", "any"):
        raise GuideFault(path, f"unknown condition {word!r}.{suggest_names(str(word), ('all', 'any', 'not', 'field'))}")
    if not isinstance(body, list) or not body:
        raise GuideFault(here, f"{word} needs a list of conditions")
    parts: list[Condition] = []
    faults: list[GuideFault] = []
    for i, c in enumerate(body):
        try:
            parts.append(parse_condition(c, (*here, i), fields, terms, settings))
        except GuideFault as e:
            faults += e.all
    if faults:
        raise GuideFault(faults[0].path, faults[0].text, faults[1:])
    return AllOf(parts=tuple(parts)) if word == "all" else AnyOf(parts=tuple(parts))


def _parse_test(
    raw: dict[object, object], path: Path, fields: Mapping[str, Field], settings: Mapping[str, Scalar]
) -> FieldTest:
    name = raw["field"]
    field = fields.get(name) if isinstance(name, str) else None
    if field is None:
        raise GuideFault((*path, "field"), f"unknown field {name!r}.{suggest_names(str(name), fields)}")
    ops = [k for k in raw if k != "field"]
    if len(ops) != 1:
        raise GuideFault(path, f"field {field.name} needs exactly one operator ({', '.join(OPERATORS[field.type])})")
    op = str(ops[0])
    here = (*path, op)
    if op not in OPERATORS[field.type]:
        allowed = ", ".join(OPERATORS[field.type])
        raise GuideFault(here, f"operator {op!r} does not go with {field.name}, which is {field.type} ({allowed})")
    value = raw[ops[0]]
    if isinstance(value, dict):
        key = value.get("setting")
        if set(value) != {"setting"} or not isinstance(key, str) or key not in settings:
            raise GuideFault(here, f"unknown setting {key!r}.{suggest_names(str(key), settings)}")
        value = settings[key]
    return FieldTest(field=field.name, op=op, value=_parse_value(field, op, value, here))


def _parse_value(field: Field, op: str, value: object, path: Path) -> Value:
    if op == "exists":
        if not isinstance(value, bool):
            raise GuideFault(path, f"exists takes true or false, not {value!r}")
        return value
    if op == "in":
        if not isinstance(value, list) or not value:
            raise GuideFault(path, "in takes a list of values")
        items: list[Scalar] = []
        for i, item in enumerate(value):
            problem = find_value_problem(field, item)
            if problem:
                raise GuideFault((*path, i), problem)
            if item in items:
                raise GuideFault((*path, i), f"{item!r} is listed twice")
            items.append(item)
        return tuple(items)
    problem = find_value_problem(field, value)
    if problem:
        raise GuideFault(path, problem)
    assert isinstance(value, (bool, int, float, str))
    return value


def _comparable(value: Scalar, version: bool) -> Scalar | tuple[int, ...]:
    return parse_version(value) if version and isinstance(value, str) else value


_COMPARE: dict[str, Callable[[Any, Any], object]] = {
    "at_least": operator.ge, "at_most": operator.le, "above": operator.gt, "below": operator.lt,
    "matches": lambda seen, pattern: re.search(pattern, seen),
}  # fmt: skip


def value_meets_test(test: FieldTest, seen: Scalar | None, version: bool) -> bool | None:
    """Whether a test holds for the value seen; None when the value is unknown. Versions compare number by number."""
    if test.op == "exists":
        return (seen is not None) is test.value
    if seen is None:
        return None
    if version:
        try:
            parse_version(str(seen))
        except ValueError:  # a version nobody can read is an unknown one
            return None
    mine = _comparable(seen, version)
    if test.op == "in":
        assert isinstance(test.value, tuple)
        return any(mine == _comparable(v, version) for v in test.value)
    assert not isinstance(test.value, tuple)
    want = _comparable(test.value, version)
    if test.op == "is":
        return mine == want
    if test.op == "is_not":
        return mine != want
    if isinstance(mine, str) is not isinstance(want, str):
        return None  # a table of flags that an overlay replaced says another type than the one the test was read with
    # else `find_value_problem` made sure that both sides are of the field's ordered type
    return bool(_COMPARE[test.op](mine, want))


def evaluate_condition(condition: Condition | None, facts: FactValues, fields: Mapping[str, Field]) -> bool | None:
    """True, false or None (unknown) of a condition; no condition always holds."""
    return combine_tests(
        condition, lambda test: value_meets_test(test, facts.get(test.field), fields[test.field].type == "version")
    )


def combine_tests(condition: Condition | None, holds: Callable[[FieldTest], bool | None]) -> bool | None:
    """What `all`, `any` and `not` make of the answers to single tests; None is unknown."""
    if condition is None:
        return True
    if isinstance(condition, FieldTest):
        return holds(condition)
    if isinstance(condition, Not):
        inner = combine_tests(condition.part, holds)
        return None if inner is None else not inner
    combine = any_holds if isinstance(condition, AnyOf) else all_hold
    return combine(combine_tests(part, holds) for part in condition.parts)


def list_tests(condition: Condition | None) -> Iterator[FieldTest]:
    """Every single test of a condition, in the order written."""
    if isinstance(condition, FieldTest):
        yield condition
    elif isinstance(condition, Not):
        yield from list_tests(condition.part)
    elif condition is not None:
        for part in condition.parts:
            yield from list_tests(part)


def check_tests(
    condition: Condition | None, facts: FactValues, fields: Mapping[str, Field]
) -> tuple[ConditionOutcome, ...]:
    """Each test of a condition with what it saw and how it came out."""
    return tuple(
        ConditionOutcome(
            field=t.field,
            op=t.op,
            value=t.value,
            seen=facts.get(t.field),
            outcome=value_meets_test(t, facts.get(t.field), fields[t.field].type == "version"),
        )
        for t in list_tests(condition)
    )


def describe_condition(condition: Condition | None) -> str | None:
    """A condition in words; None for no condition."""
    if condition is None:
        return None
    if isinstance(condition, FieldTest):
        return f"{condition.field} {condition.op.replace('_', ' ')} {_show(condition.value)}"
    if isinstance(condition, Not):
        return f"not ({describe_condition(condition.part)})"
    word = " and " if isinstance(condition, AllOf) else " or "
    return word.join(
        f"({describe_condition(p)})"
        if isinstance(p, (AllOf, AnyOf)) and len(p.parts) > 1
        else str(describe_condition(p))
        for p in condition.parts
    )


def _show(value: Value) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(_show(v) for v in value) + ")"
    return str(value).lower() if isinstance(value, bool) else str(value)
