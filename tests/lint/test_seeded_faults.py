"""Faults seeded into a copy of the shipped rules, all at once: one run tells each on its line, and nothing else.

Next to them lie new entries of a stranger who has read half of docs/contributing: every missing place is named.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from seeds import NEW, SEEDS, line_of, planted

from advisor.catalog.roots import shipped_root
from advisor.lint.run import lint


def test_there_are_many_of_many_kinds() -> None:
    assert len(SEEDS) >= 25
    assert len({s.code for s in SEEDS}) >= 12
    assert len({s.file.split("/")[0] for s in SEEDS}) >= 15


@pytest.mark.slow
def test_all_are_found_in_one_run_and_nothing_else(tmp_path: Path) -> None:
    folder = planted(shipped_root(), tmp_path / "rules")
    found = lint([folder])
    told = {f: str(Path(f.file).relative_to(folder.resolve())) for f in found}
    missed: list[object] = []
    explained = {f for f, name in told.items() if (name, f.code) == ("extra.yaml", "unknown_file")}
    assert len(explained) == 1
    for seed in SEEDS:
        line = line_of(seed, folder)
        hits = {f for f, name in told.items() if (name, f.code) == (seed.file, seed.code) and line in (None, f.line)}
        if not any(seed.says in f.message for f in hits):
            missed.append((seed, line, [f.text() for f, name in told.items() if name == seed.file]))
        explained |= hits
    for name, (_, wanted) in NEW.items():  # what a stranger forgot is named, all of it and no more
        mine = [f for f, file in told.items() if file == name]
        missed += [(name, w) for w in wanted if not any(f.code == w[0] and w[1] in f.message for f in mine)]
        assert len(mine) == len(wanted), [f.text() for f in mine]
        explained |= set(mine)
    assert missed == []
    assert [f.text() for f in found if f not in explained] == []  # a fault has no others in its train
    for f in found:
        assert f.line
        assert f.text().startswith(f"{f.file}:{f.line}: ")
        assert "\n" not in f.text()
    assert list(found) == sorted(found, key=lambda f: (f.file, f.line, f.message))
