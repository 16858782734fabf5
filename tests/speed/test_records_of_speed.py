"""Values of this package do not change, and what code makes names its fields."""

from __future__ import annotations

from records import list_changeable, list_positional, list_records

# of a fit, one for each row: read only, and thrown away
PASSES = {"LoadPasses", "Pass"}
EARLIER = {"_EarlierFile", "_EarlierRun"}  # files of an earlier version
# read from documents alone
READ = {
    "ChoiceErrors", "Coefficient", "DraftAcceptance", "EngineRules", "EvidenceRules", "HeldOutErrors", "HeldOutSpread",
    "SpeedRules", *EARLIER,
}  # fmt: skip


def test_values_do_not_change() -> None:
    assert list_changeable("advisor.speed") == PASSES | EARLIER


def test_fields_are_named_where_code_makes_a_value() -> None:
    assert list_positional("advisor.speed") == READ
    assert not list_records("advisor.speed") & READ
