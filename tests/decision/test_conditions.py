"""Conditions in three-valued logic, against a second derivation: an unknown is decided by trying every value."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.decision.conditions import GuideFault, check_tests, describe_condition, evaluate_condition, parse_condition
from advisor.decision.guides import find_example
from advisor.decision.types import FIELDS, Condition, parse_version

BOOLS = ("cpu.avx2", "cpu.amx", "gpu.unified")
TESTS = st.one_of(
    st.builds(lambda f, v: {"field": f, "is": v}, st.sampled_from(BOOLS), st.booleans()),
    st.builds(lambda o, v: {"field": "nodes", o: v}, st.sampled_from(["at_least", "below", "is"]), st.integers(0, 3)),
)
RAW = st.recursive(
    TESTS,
    lambda inner: st.one_of(
        st.builds(lambda c: {"not": c}, inner),
        st.builds(lambda cs: {"all": cs}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda cs: {"any": cs}, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=6,
)
DOMAIN: dict[str, tuple[Any, ...]] = {**dict.fromkeys(BOOLS, (True, False)), "nodes": (-1, 0, 1, 2, 3, 4)}
KNOWN = st.fixed_dictionaries({f: st.sampled_from((*values, None)) for f, values in DOMAIN.items()})


def condition(raw: object) -> Condition:
    return parse_condition(raw, (), FIELDS, {}, {})


def plain(raw: Any, facts: dict[str, Any]) -> bool:
    """The meaning of a condition when everything is known, written down a second time."""
    if "not" in raw:
        return not plain(raw["not"], facts)
    if "all" in raw:
        return all(plain(c, facts) for c in raw["all"])
    if "any" in raw:
        return any(plain(c, facts) for c in raw["any"])
    (op,) = set(raw) - {"field"}
    have, want = facts[raw["field"]], raw[op]
    return bool({"is": have == want, "at_least": have >= want, "below": have < want}[op])


@given(RAW, KNOWN)
def test_an_outcome_that_is_known_holds_for_every_value_of_the_unknown(raw: Any, facts: dict[str, Any]) -> None:
    got = evaluate_condition(condition(raw), facts, FIELDS)
    unknown = [f for f, v in facts.items() if v is None]
    worlds = [
        plain(raw, {**facts, **dict(zip(unknown, values, strict=True))})
        for values in itertools.product(*(DOMAIN[f] for f in unknown))
    ]
    if got is not None:
        assert set(worlds) == {got}
    if not unknown:
        assert got is worlds[0]


@given(RAW)
def test_the_search_finds_facts_exactly_when_there_are_some(raw: Any) -> None:
    it = condition(raw)
    possible = any(plain(raw, dict(zip(DOMAIN, values, strict=True))) for values in itertools.product(*DOMAIN.values()))
    found = find_example([it], [], FIELDS)
    assert (found is not None) is possible
    if found is not None:
        assert evaluate_condition(it, found, FIELDS) is True


VERSIONS: list[tuple[str, Any, str, bool | None]] = [
    ("at_least", "13.0", "12.9", False),
    ("at_least", "13.0", "13", True),
    ("at_least", "13.0", "13.0.1", True),
    ("above", "9.9", "10.0", True),  # number by number, not letter by letter
    ("is", "13.0", "13", True),
    ("below", "580.95", "580.9", True),
    ("in", ["12.4", "13"], "13.0", True),
    ("at_least", "13.0", "soon", None),
]


@pytest.mark.parametrize(("op", "value", "seen", "expected"), VERSIONS)
def test_versions_compare_number_by_number(op: str, value: Any, seen: str, expected: bool | None) -> None:
    it = condition({"field": "driver.cuda", op: value})
    assert evaluate_condition(it, {"driver.cuda": seen}, FIELDS) is expected


def test_exists_is_never_unknown() -> None:
    assert evaluate_condition(condition({"field": "npu", "exists": True}), {}, FIELDS) is False
    assert evaluate_condition(condition({"field": "npu", "exists": False}), {}, FIELDS) is True
    assert evaluate_condition(condition({"field": "npu", "exists": True}), {"npu": "intel"}, FIELDS) is True


def test_a_condition_reads_as_a_sentence() -> None:
    raw = {
        "all": [
            {"field": "nodes", "above": 1},
            {"not": {"field": "os", "is": "windows"}},
            {"any": [{"field": "cpu.amx", "is": True}, {"field": "gpu.generation", "in": ["ada", "hopper"]}]},
        ]
    }
    words = "nodes above 1 and not (os is windows) and (cpu.amx is true or gpu.generation in (ada, hopper))"
    assert describe_condition(condition(raw)) == words


def test_every_test_is_in_the_trace_with_what_it_saw() -> None:
    it = condition({"any": [{"field": "nodes", "above": 1}, {"field": "cpu.amx", "is": True}]})
    seen = check_tests(it, {"nodes": 2}, FIELDS)
    assert [(c.field, c.op, c.value, c.seen, c.outcome) for c in seen] == [
        ("nodes", "above", 1, 2, True),
        ("cpu.amx", "is", True, None, None),
    ]


def test_terms_and_settings_are_put_in_place() -> None:
    many = parse_condition({"field": "workload.concurrency", "above": {"setting": "n"}}, (), FIELDS, {}, {"n": 4})
    assert parse_condition("many", (), FIELDS, {"many": many}, {}) == many
    assert describe_condition(many) == "workload.concurrency above 4"


def test_a_setting_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(GuideFault, match="is a number"):
        parse_condition({"field": "nodes", "above": {"setting": "n"}}, (), FIELDS, {}, {"n": "four"})


@pytest.mark.parametrize(("text", "key"), [("580.95.05", (580, 95, 5)), ("v0.33.0-rc2", (0, 33)), ("13.0", (13,))])
def test_version_keys(text: str, key: tuple[int, ...]) -> None:
    assert parse_version(text) == key
