"""Three-valued logic: every combination of two answers, by its truth table, and sums with unknowns."""

from __future__ import annotations

import pytest

from advisor.unknowns import all_hold, any_holds, sum_known


@pytest.mark.parametrize(
    ("first", "second", "both", "either"),
    [
        (True, True, True, True),
        (True, False, False, True),
        (True, None, None, True),
        (False, False, False, False),
        (False, None, False, None),
        (None, None, None, None),
    ],
)
def test_truth_table(first: bool | None, second: bool | None, both: bool | None, either: bool | None) -> None:
    for answers in ((first, second), (second, first)):
        assert all_hold(answers) is both
        assert any_holds(answers) is either


def test_nothing_asked() -> None:
    assert all_hold(()) is True
    assert any_holds(()) is False


def test_a_sum_with_an_unknown_is_unknown() -> None:
    assert sum_known([1, 2, 3]) == 6
    assert sum_known([0, None, 3]) is None
    assert sum_known([]) == 0
