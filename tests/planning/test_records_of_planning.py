"""Values of this package do not change, and what code makes names its fields."""

from __future__ import annotations

import math

from records import list_changeable, list_positional, list_records, list_set

from advisor.decision.policy import Policy
from advisor.planning.types import CardLayout

READ = {"GgufOrder", "Ranking", "TypicalTokens", "UtilityRules"}  # from documents alone


def test_values_do_not_change() -> None:
    assert list_changeable("advisor.planning") == set()


def test_fields_are_named_where_code_makes_a_value() -> None:
    assert list_positional("advisor.planning") == READ
    assert not list_records("advisor.planning") & READ


def test_what_is_left_out_is_nothing_or_the_usual() -> None:
    usual = {  # one copy on one node that starts, nothing split
        "tensor": [1], "pipeline": [1], "data": [1], "expert": [1], "nodes": [1], "copies": [1], "servers": [1],
        "starts": [True], "burst": [1.0], "layout": [CardLayout()], "policy": [Policy()],
        "alike": [1], "count": [1000], "longest": [10**9], "steps": [1], "slower": [1.0], "wider": [1.0],  # arrivals
        "until": [math.inf], "remedies": [True],  # all of them, and what would help where they miss a target
        "narrow": [True],  # formats, too
    }  # fmt: skip
    found = list_set("advisor.planning")
    assert found == usual
