"""Whatever is done to rules, the linter answers with faults and never fails; it decodes what the program decodes."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from mini import mini
from shipped import files

from advisor.catalog.flaws import find_flaws
from advisor.catalog.load import TYPES, read_entries
from advisor.catalog.roots import shipped_root
from advisor.lint.kinds import find_kind
from advisor.lint.reading import find_original_place, prune_flaws
from advisor.lint.run import lint

VALUES: tuple[Any, ...] = (None, True, 7, -1, 1e30, "", "text", "2026-99-99", "(", [], [1], {}, {"a": 1}, "\x00")


def damaged(value: Any, chance: random.Random) -> Any:
    """The value with one part replaced, removed or renamed."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(list(value))
        deed = chance.random()
        if deed < 0.15:
            return {k: v for k, v in value.items() if k != key}
        if deed < 0.3:
            return {(f"{k}s" if k == key else k): v for k, v in value.items()}
        return {**value, key: damaged(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.85:
        i = chance.randrange(len(value))
        return [*value[:i], damaged(value[i], chance), *value[i + 1 :]]
    return chance.choice(VALUES)


def typed() -> list[tuple[Any, Any]]:
    """Plain data of the shipped rules, each with its type."""
    out: list[tuple[Any, Any]] = []
    for file in files():
        kind = find_kind(file.name)
        assert kind is not None
        if kind.type is not None:
            out.append((file.data, kind.type))
        else:
            out += [(e.data, TYPES[e.table]) for e in list(read_entries(file.name, file.data))[:1]]
    return out


@pytest.mark.slow
def test_what_has_no_flaw_decodes_and_what_decodes_has_none() -> None:
    """Against msgspec: the decoder of the program itself."""
    chance = random.Random(14)
    seen = {True: 0, False: 0}
    for data, kind in typed():
        for _ in range(4):
            broken = damaged(data, chance)
            found = [f for f in find_flaws(broken, kind) if f.code != "pattern"]
            try:
                msgspec.convert(broken, kind)
                decodes = True
            except msgspec.ValidationError:
                decodes = False
            assert decodes or found, broken
            # what the decoder passes over: keys that nobody reads, words of lists that are not closed in the type
            assert not decodes or all(f.code == "unknown_key" or " is not one of " in f.problem for f in found), found
            seen[bool(found)] += 1
            left = prune_flaws(broken, kind)
            assert left is None or find_flaws(left, kind) == []
    assert min(seen.values()) > 200


def test_places_in_pruned_data_are_those_of_the_file() -> None:
    data = [{"a": [1, "x", 2, "y", 3]}, 7, {"a": [4]}]
    left = prune_flaws(data, list[dict[str, list[int]]])
    assert left == [{"a": [1, 2, 3]}, {"a": [4]}]
    assert find_original_place(left, (0, "a", 2)) == (0, "a", 4)
    assert find_original_place(left, (1, "a", 0)) == (2, "a", 0)
    assert find_original_place(left, (1, "b")) == (2, "b")


def test_the_linter_answers_any_damage_of_a_small_folder(tmp_path: Path) -> None:
    chance = random.Random(15)
    for n in range(25):
        root = mini(tmp_path / str(n))
        for path in chance.sample(sorted(root.rglob("*.yaml")), 3):
            path.write_text(yaml.safe_dump(damaged(yaml.safe_load(path.read_text()), chance), allow_unicode=True))
        for fault in lint([root]):
            assert fault.message
            assert fault.code != "unchecked", fault.text()
            assert "\n" not in fault.text()


@pytest.mark.slow
def test_the_linter_answers_any_damage_of_the_shipped_rules(tmp_path: Path) -> None:
    chance = random.Random(16)
    names = [f.name for f in files()]
    for n in range(4):
        root = tmp_path / str(n)
        shutil.copytree(shipped_root(), root)
        documents = [x for x in names if not x.startswith("models/")]
        broken = {*chance.sample(documents, 12), *chance.sample(names, 6)}
        for name in broken:
            path = root / name
            path.write_text(yaml.safe_dump(damaged(yaml.safe_load(path.read_text()), chance), allow_unicode=True))
        faults = lint([root])
        assert faults
        assert [f.text() for f in faults if f.code == "unchecked"] == []
        shutil.rmtree(root)
