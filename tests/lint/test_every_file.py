"""No rule file and no block goes unread: each has a type, and what the type does not know is a fault."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from mini import mini

from advisor.catalog.roots import rule_files, shipped_root
from advisor.catalog.tables import AS_OF, TYPES, entries
from advisor.engines import module_name
from advisor.lint.house import memory_type
from advisor.lint.kinds import KINDS, kind_of
from advisor.lint.reading import RuleFile, read_folder
from advisor.lint.run import lint
from advisor.lint.shape import flaws

NOT_SHIPPED = ("policy/*.yaml",)  # what only overlays have
FILES: list[RuleFile] = [f for f, _ in read_folder(shipped_root())]


def test_every_yaml_file_has_a_decoder() -> None:
    names = [n for n, _ in rule_files(shipped_root())]
    assert len(names) > 200
    assert sorted(f.name for f in FILES) == names
    assert [n for n in names if kind_of(n) is None] == []


def test_every_kind_of_file_is_shipped() -> None:
    used = {kind_of(f.name) for f in FILES}
    assert [
        k.pattern for k in KINDS if k not in used and k.pattern not in NOT_SHIPPED and not k.pattern.endswith(".yml")
    ] == []


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_every_block_is_decoded_and_an_unknown_one_is_a_fault(file: RuleFile) -> None:
    kind = kind_of(file.name)
    assert kind is not None
    if kind.type is not None:
        assert flaws(file.data, kind.type()) == []
        assert [f.code for f in flaws({**file.data, "no_such_block": 1}, kind.type())] == ["unknown_key"]
        return
    found = list(entries(file.name, file.data))
    assert found
    for entry in found:
        assert flaws(entry.data, TYPES[entry.table]) == []
        assert [f.code for f in flaws({**entry.data, "no_such_block": 1}, TYPES[entry.table])] == ["unknown_key"]
    if not file.name.startswith("engines/"):
        wrong: list[object] = []
        list(entries(file.name, {**file.data, "no_such_block": []}, wrong.append))
        assert len(wrong) == 1
        assert set(file.data) - {AS_OF} <= {e.table for e in found} | {"vendor", "family"}


@pytest.mark.parametrize("file", [f for f in FILES if f.name.startswith("engines/")], ids=lambda f: f.name)
def test_memory_of_every_engine_has_the_type_of_its_module(file: RuleFile) -> None:
    entry = msgspec.convert(file.data, TYPES["engines"])
    if not entry.memory:
        return
    kind = memory_type(entry)
    assert kind is not None, module_name(entry.id)
    assert flaws(entry.memory, kind) == []
    assert flaws({**entry.memory, "no_such_constant": 1}, kind)[0].code == "unknown_key"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("pick.yaml", "picks.yaml"),
        ("hardwear/cards.yaml", "hardware/*.yaml"),
        ("checks/rule/mine.yaml", "checks/rules/*.yaml"),
        ("flags/sub/vllm.yaml", "flags/*.yaml"),
        ("picks.yml", "picks.yaml"),
    ],
)
def test_a_file_that_nothing_reads_is_a_fault(tmp_path: Path, name: str, near: str) -> None:
    root = mini(tmp_path)
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("a: 1\n")
    (only,) = lint([root])
    assert (only.code, Path(only.file).name) == ("unknown_file", path.name)
    assert near in only.near
