"""Values of this package do not change, and what code makes names its fields."""

from __future__ import annotations

from records import list_changeable, list_positional, list_records, list_set

# of a fit, one for each row: read only, and thrown away
PASSES = {"LoadPasses", "Pass"}
# read from documents alone
READ = {
    "ArrivalRules", "ChoiceErrors", "Coefficient", "EngineRules", "EvidenceRules", "HeldOutErrors", "HeldOutSpread",
    "OutsideSteps", "SpeedRules",
}  # fmt: skip


def test_values_do_not_change() -> None:
    assert list_changeable("advisor.speed") == PASSES


def test_fields_are_named_where_code_makes_a_value() -> None:
    assert list_positional("advisor.speed") == READ
    assert not list_records("advisor.speed") & READ


def test_what_is_left_out_is_nothing_or_the_usual() -> None:
    usual = {  # one request of 512 tokens and 128 more, on one device with all that a pass reads, 16 bit
        "concurrency": [1], "prompt": [512], "output": [128],
        "tensor": [1], "stages": [1], "replicas": [1], "expert_ranks": [1], "ranks": [1], "shares": [(1.0,)],
        "key_bytes": [2.0], "value_bytes": [2.0], "chunk": [512], "most_running": [10**9],
        "kv_heads": [1], "per_tokens": [1],
        "seed": [1],
        "expert_tile": [1], "weight": [1.0], "layers": ["dense"], "parts": [2], "splits_attention": [True],
        "branches": [1], "finds": [1.0], "matrix": [1.0], "use_case": ["chat"],
    }  # fmt: skip
    found = list_set("advisor.speed") | list_set("tools.speed")
    assert found == usual
