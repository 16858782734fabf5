"""No rule file and no block goes unread: each has a type, and what the type does not know is a fault."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from mini import mini
from shipped import files

from advisor.catalog.flaws import find_flaws
from advisor.catalog.load import AS_OF, TYPES, read_entries
from advisor.catalog.roots import rule_files, shipped_root
from advisor.lint.house import memory_type
from advisor.lint.kinds import FILES, find_kind
from advisor.lint.run import lint

NOT_SHIPPED = ("policy/*.yaml", "targets/*.yaml")  # what only overlays have
UNKNOWN = {"no_such_block": 1}


def test_every_yaml_file_has_a_decoder() -> None:
    names = [n for n, _ in rule_files(shipped_root())]
    assert len(names) > 200
    assert sorted(f.name for f in files()) == names
    assert [n for n in names if find_kind(n) is None] == []


def test_every_kind_of_file_is_shipped() -> None:
    used = {kind.pattern for f in files() if (kind := find_kind(f.name)) is not None}
    unused = [pattern for pattern in FILES if pattern not in used]
    assert unused == list(NOT_SHIPPED)


def test_every_document_is_decoded_and_an_unknown_block_is_a_fault() -> None:
    seen = 0
    for file in files():
        kind = find_kind(file.name)
        assert kind is not None
        if kind.type is not None:
            assert find_flaws(file.data, kind.type) == [], file.name
            assert [f.code for f in find_flaws(file.data | UNKNOWN, kind.type)] == ["unknown_key"], file.name
            seen += 1
    assert seen > 50


def test_every_entry_is_decoded_and_an_unknown_block_is_a_fault() -> None:
    seen = 0
    for file in files():
        kind = find_kind(file.name)
        if kind is None or kind.type is not None:
            continue
        found = list(read_entries(file.name, file.data))
        assert found, file.name
        for entry in found:
            assert find_flaws(entry.data, TYPES[entry.table]) == [], entry.id
            assert [f.code for f in find_flaws(entry.data | UNKNOWN, TYPES[entry.table])] == ["unknown_key"], entry.id
            seen += 1
        if not file.name.startswith("engines/"):
            wrong: list[object] = []
            list(read_entries(file.name, file.data | UNKNOWN, wrong.append))
            assert len(wrong) == 1
            assert set(file.data) - {AS_OF} <= {e.table for e in found} | {"vendor", "family"}
    assert seen > 700


def test_memory_of_every_engine_has_the_type_of_what_reads_it() -> None:
    seen = set()
    for file in files():
        if not file.name.startswith("engines/") or not file.data.get("memory"):
            continue
        kind = memory_type(msgspec.convert(file.data, TYPES["engines"]))
        assert kind is not None, file.name
        assert find_flaws(file.data["memory"], kind) == [], file.name
        assert find_flaws(file.data["memory"] | UNKNOWN, kind)[0].code == "unknown_key", file.name
        assert find_flaws(file.data["memory"] | {"source": 7}, kind)[0].code == "wrong_value", file.name
        seen.add(kind)
    assert len(seen) == 3  # a share of the device, as it grows, llama.cpp


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("choosin.yaml", "choosing.yaml"),
        ("hardwear/cards.yaml", "hardware/*.yaml"),
        ("checks/rule/mine.yaml", "checks/rules/*.yaml"),
        ("flags/sub/vllm.yaml", "flags/*.yaml"),
        ("choosing.yml", "choosing.yaml"),
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
