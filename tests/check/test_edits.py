"""An edit is the words that change: it makes of one line the other, and leaves a line that is another by now."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from advisor.checks.rules.edits import apply_edits, make_edit


@given(st.text("ab -=,\\\"'#", max_size=40), st.text("ab -=,\\\"'#", max_size=40))
def test_an_edit_makes_of_one_line_the_other(before: str, after: str) -> None:
    made = apply_edits(before + "\n", [make_edit(1, before, after)])
    assert made == ("" if not after.strip() else after + "\n")


def test_a_line_that_has_changed_meanwhile_is_left_alone() -> None:
    edit = make_edit(1, "vllm serve m --swap-space 4 -tp 2", "vllm serve m -tp 2")
    assert apply_edits("vllm serve other --swap-space 4 -tp 2\n", [edit]) == "vllm serve other --swap-space 4 -tp 2\n"
