"""Faults seeded into a copy of the shipped rules, all at once: each is found, on its line, and nothing else is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from seeds import SEEDS, line_of, planted

from advisor.catalog.roots import shipped_root
from advisor.lint.faults import Fault
from advisor.lint.run import lint

SOURCE = shipped_root()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted(SOURCE, tmp_path_factory.mktemp("seeded") / "rules")


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, list[Fault]]:
    """Faults of one run by file, relative to the folder."""
    out: dict[str, list[Fault]] = {}
    for fault in lint([folder]):
        out.setdefault(str(Path(fault.file).relative_to(folder.resolve())), []).append(fault)
    return out


def test_there_are_many_of_many_kinds() -> None:
    assert len(SEEDS) >= 25
    assert len({s.code for s in SEEDS}) >= 12
    assert len({s.file.split("/")[0] for s in SEEDS}) >= 15


@pytest.mark.parametrize("seed", SEEDS, ids=lambda s: f"{s.file}: {s.new.strip()[:40]}")
def test_each_is_found_on_its_line(seed, folder: Path, found: dict[str, list[Fault]]) -> None:  # type: ignore[no-untyped-def]
    line = line_of(seed, folder)
    hits = [f for f in found[seed.file] if f.code == seed.code and (line is None or f.line == line)]
    assert hits, f"line {line}; said: {[f.text() for f in found[seed.file]]}"
    assert any(seed.says in f.message for f in hits), [f.message for f in hits]


def test_nothing_else_is_said(found: dict[str, list[Fault]]) -> None:
    """A fault has no others in its train."""
    said = [f for faults in found.values() for f in faults if f.file.rpartition("/")[2] != "extra.yaml"]
    assert len(said) == len(SEEDS), [f.text() for f in said]
    assert [f.code for f in found["extra.yaml"]] == ["unknown_file"]


def test_every_message_is_one_line_with_file_and_line(found: dict[str, list[Fault]]) -> None:
    for faults in found.values():
        assert [f.line or 0 for f in faults] == sorted(f.line or 0 for f in faults)
        for f in faults:
            assert f.line
            assert "\n" not in f.text()
            assert f.text().startswith(f"{f.file}:{f.line}: ")
