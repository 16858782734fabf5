"""KV pools that engines logged when they started, each source predicted without what it taught (docs/accuracy.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from tools.accuracy import startup

Rows = tuple[list[startup.StartupRow], list[float]]


@pytest.fixture(scope="module")
def logged() -> Rows:
    """The rows, and the error of each by what the other sources say."""
    rows = startup.read_startup_rows(Path(__file__).parent.parent / "data", catalog([shipped_root()]))
    return rows, startup.predict_without_source(rows)


def test_vllms_pools_by_the_constants_of_the_other_sources(logged: Rows) -> None:
    found = startup.summarise(*logged, [r.engine == "vllm" for r in logged[0]])
    assert found.rows >= 100
    assert found.sources >= 30
    assert found.median_without <= 0.5
    assert found.inside >= 85


def test_vllms_pools_on_devices_with_memory_of_their_own(logged: Rows) -> None:
    found = startup.summarise(*logged, [r.engine == "vllm" and not r.unified for r in logged[0]])
    assert found.rows >= 100
    assert found.median_without <= 0.4
    assert found.median <= 0.2


def test_a_source_teaches_itself_nothing(logged: Rows) -> None:
    """The only source of a kind is predicted by the constant of a wider kind."""
    alone = [
        (r, e)
        for r, e in zip(*logged, strict=True)
        if not any(x.group != r.group and x.overheads[0] is r.overheads[0] for x in logged[0]) and not r.samples
    ]
    assert len(alone) >= 5
    for row, error in alone:
        wider = row.overheads[1] if len(row.overheads) > 1 else row.overheads[0]
        assert error == pytest.approx(row.error - (row.overheads[0].value - wider.value))
