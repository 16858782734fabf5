"""Values of this package do not change, and what code makes names its fields."""

from __future__ import annotations

from records import list_changeable, list_positional, list_records, list_set

READ = {"DriverBranch", "DriverVersions", "ImageCuda", "LeastDriver", "SinceRelease"}  # from documents alone


def test_values_do_not_change() -> None:
    assert list_changeable("advisor.checks.facts") == set()


def test_fields_are_named_where_code_makes_a_value() -> None:
    assert list_positional("advisor.checks.facts") == READ
    assert not list_records("advisor.checks.facts") & READ


def test_what_is_left_out_is_nothing() -> None:
    assert list_set("advisor.checks.facts") == {}
