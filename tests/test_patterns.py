"""Patterns that are compiled when they are first used do what compiled ones do."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.patterns import pattern_when_used

TEXT = r"(?P<name>[a-z]+)=(\d*)"


@given(st.text(alphabet="ab=1\n", max_size=30))
def test_all_methods_answer_as_those_of_the_pattern(text: str) -> None:
    late, now = pattern_when_used(TEXT, re.I), re.compile(TEXT, re.I)
    assert late.findall(text) == now.findall(text)
    assert late.sub("x", text) == now.sub("x", text)
    found, expected = late.search(text), now.search(text)
    assert (found and found.groupdict()) == (expected and expected.groupdict())


def test_flags_count_and_the_text_is_read_when_used() -> None:
    assert pattern_when_used("A", re.I).fullmatch("a")
    assert pattern_when_used("A").fullmatch("a") is None
    broken = pattern_when_used("(")
    with pytest.raises(re.error):
        broken.search("")
