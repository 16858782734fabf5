"""Values of this package do not change, and what code makes names its fields."""

from __future__ import annotations

from records import list_changeable, list_positional, list_records

READ = {"GgufOrder", "TypicalTokens", "_PlansFile"}  # from documents alone


def test_values_do_not_change() -> None:
    assert list_changeable("advisor.planning") == set()


def test_fields_are_named_where_code_makes_a_value() -> None:
    assert list_positional("advisor.planning") == READ
    assert not list_records("advisor.planning") & READ
