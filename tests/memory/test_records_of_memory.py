"""Values of this package do not change, and what code makes names its fields."""

from __future__ import annotations

from records import list_changeable, list_positional, list_records

READ: set[str] = set()


def test_values_do_not_change() -> None:
    assert list_changeable("advisor.memory") == set()


def test_fields_are_named_where_code_makes_a_value() -> None:
    assert list_positional("advisor.memory") == READ
    assert not list_records("advisor.memory") & READ
