"""Constants by version: the entry taken is the one whose range holds the version."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog.launch_types import VersionedNumber
from advisor.engines.versions import is_before, pick_version, version_key

TWO = (VersionedNumber(number=0.9, before="0.21", source="old"), VersionedNumber(number=0.92, source="new"))


def test_pick_by_version() -> None:
    assert pick_version(TWO, "0.19.0").number == 0.9
    assert pick_version(TWO, "v0.20.2rc1").number == 0.9
    assert pick_version(TWO, "0.21").number == 0.92
    assert pick_version(TWO, "0.33.0").number == 0.92
    assert pick_version(TWO, None).number == 0.92
    assert pick_version(TWO, "nightly").number == 0.92


def test_versions_compare_as_numbers_not_text() -> None:
    assert version_key("0.9.2") < version_key("0.19") < version_key("0.21.0")
    assert version_key("v1.2rc3") == (1, 2)
    assert version_key("b11434") == (11434,)


def test_builds_and_versions_are_not_compared() -> None:
    assert is_before("0.7.3", "0.8")
    assert not is_before("0.8.0", "0.8")
    assert is_before("b1691", "b4000")
    assert not is_before("b4000", "b4000")
    assert not is_before("0.5.0", "b4000")  # a release is no build
    assert not is_before("b1691", "0.8")
    assert not is_before("nightly", "0.8")


def test_a_version_of_another_count_picks_the_newest() -> None:
    builds = (VersionedNumber(number=1, before="b9400", source="old"), VersionedNumber(number=2, source="new"))
    picked = {v: pick_version(builds, v).number for v in ("b9399", "9399", "b9400", "0.1.0-dev", "0.5.0")}
    assert picked == {"b9399": 1, "9399": 1, "b9400": 2, "0.1.0-dev": 2, "0.5.0": 2}


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=6, unique=True),
    st.tuples(st.integers(0, 40), st.integers(0, 40)),
)
def test_pick_takes_the_first_bound_above_the_version(bounds: list[tuple[int, int]], version: tuple[int, int]) -> None:
    values = [VersionedNumber(number=float(i), before=f"{a}.{b}", source="s") for i, (a, b) in enumerate(bounds)]
    values.append(VersionedNumber(number=-1.0, source="newest"))
    got = pick_version(values, f"{version[0]}.{version[1]}")
    above = [b for b in bounds if version < b]
    if not above:
        assert got.number == -1.0
    else:
        assert bounds[int(got.number)] == min(above)
