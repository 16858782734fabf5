"""The compiled form is what the YAML says, is used when nothing changed, and is never stale."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from programs import ELSEWHERE
from rule_folder import CARDS, small, write

from advisor.catalog import compiled_rules as module
from advisor.catalog.compiled_rules import compile_rules, encode_rules, hash_content, load_compiled_rules
from advisor.catalog.load import read_rules
from advisor.catalog.roots import shipped_root
from advisor.catalog.store import Catalog
from advisor.files import read_cache


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    root = small(tmp_path / "rules")
    time.sleep(0.25)  # a file changed within the last clock tick is not cached
    return root


def bandwidth(root: Path) -> float | None:
    return Catalog(load_compiled_rules([root])).accelerators()["card-a"].bandwidth_gbs


def built_anew(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts builds from YAML."""
    calls: list[int] = []

    def counting(roots: object) -> bytes:
        calls.append(1)
        return compile_rules(roots)  # type: ignore[arg-type]  # passed through unread

    monkeypatch.setattr(module, "compile_rules", counting)
    return calls


def plain_parts(parts: dict[str, msgspec.Raw]) -> dict[str, object]:
    return {name: msgspec.json.decode(raw) for name, raw in parts.items()}


@pytest.mark.slow
def test_compiled_equals_the_yaml() -> None:
    root = shipped_root()
    decoded = load_compiled_rules([root])  # built when the tests began
    rules = read_rules([root])
    for table, rows in rules.tables.items():
        section = getattr(decoded, table)
        plain = plain_parts(section) if isinstance(section, dict) else msgspec.json.decode(section)
        assert plain == rows
    assert plain_parts(decoded.documents) == rules.documents
    assert msgspec.json.decode(decoded.model_names) == rules.names["models"]


def test_second_use_reads_the_cache(cache: Path, rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = built_anew(monkeypatch)
    first = Catalog(load_compiled_rules([rules]))
    second = Catalog(load_compiled_rules([rules]))
    assert len(calls) == 1
    assert first.accelerators() == second.accelerators()
    assert first.find_model("tiny:1b") == second.find_model("tiny:1b")
    assert first.documents() == second.documents()


def test_an_edit_is_seen(cache: Path, rules: Path) -> None:
    assert bandwidth(rules) == 100
    write(rules, {"hardware/cards.yaml": CARDS.replace("bandwidth_gbs: 100", "bandwidth_gbs: 1000")})
    assert bandwidth(rules) == 1000


def test_an_edit_of_the_same_size_and_time_is_seen(cache: Path, rules: Path) -> None:
    file = rules / "hardware" / "cards.yaml"
    before = file.stat()
    assert bandwidth(rules) == 100
    file.write_text(CARDS.replace("bandwidth_gbs: 100", "bandwidth_gbs: 200"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = file.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert bandwidth(rules) == 200


def test_two_quick_edits_are_seen(cache: Path, rules: Path) -> None:
    """Within one clock tick times may not move, so what is read then is not kept."""
    file = rules / "hardware" / "cards.yaml"
    for value in (300, 400, 500, 600):
        file.write_text(CARDS.replace("bandwidth_gbs: 100", f"bandwidth_gbs: {value}"))
        assert bandwidth(rules) == value


def test_new_and_removed_files_are_seen(cache: Path, rules: Path) -> None:
    assert set(Catalog(load_compiled_rules([rules])).documents()) == {"guides/one.yaml"}
    write(rules, {"guides/two.yaml": "title: Two\n"})
    assert set(Catalog(load_compiled_rules([rules])).documents()) == {"guides/one.yaml", "guides/two.yaml"}
    (rules / "guides" / "one.yaml").unlink()
    assert set(Catalog(load_compiled_rules([rules])).documents()) == {"guides/two.yaml"}


def test_touching_alone_changes_nothing(cache: Path, rules: Path) -> None:
    assert bandwidth(rules) == 100
    (rules / "hardware" / "cards.yaml").touch()
    assert bandwidth(rules) == 100


def test_an_unwritable_cache_is_no_error(rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(blocked / "cache"))
    assert bandwidth(rules) == 100
    assert bandwidth(rules) == 100


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b'{"format": 1}', b"\xff\xfe", None])
def test_a_damaged_cache_file_is_rebuilt(cache: Path, rules: Path, junk: bytes | None) -> None:
    bandwidth(rules)
    files = list(cache.glob("rules-*"))
    assert len(files) == 1
    files[0].write_bytes(files[0].read_bytes()[:-1] if junk is None else junk)  # None: the last byte is lost
    assert bandwidth(rules) == 100
    assert len(files[0].read_bytes()) > 100


def test_a_cache_file_made_under_another_stamp_is_not_used(cache: Path, rules: Path) -> None:
    bandwidth(rules)
    file = next(cache.glob("rules-*"))
    index, _, parts = file.read_bytes().partition(b"\n")
    said = msgspec.json.decode(index)
    said["stamp"] += "x"
    file.write_bytes(msgspec.json.encode(said) + b"\n" + parts.replace(b'"bandwidth_gbs":100', b'"bandwidth_gbs":107'))
    assert bandwidth(rules) == 100


def test_few_old_files_are_kept(cache: Path, rules: Path) -> None:
    for i in range(7):
        write(rules, {"guides/one.yaml": f"title: {'x' * i}\n"})
        time.sleep(0.22)
        load_compiled_rules([rules])
    assert 1 <= len(list(cache.glob("rules-*"))) <= 4
    assert not list(cache.glob(".rules-*"))


def test_the_shipped_copy_serves_its_own_rules_only(
    cache: Path, rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "compiled.json"
    copy.write_bytes(compile_rules([rules]))
    monkeypatch.setattr(module, "shipped_root", lambda: rules)
    monkeypatch.setattr(module, "shipped_compiled", lambda: copy)
    calls = built_anew(monkeypatch)
    assert bandwidth(rules) == 100
    assert calls == []
    for file in cache.glob("*"):
        file.unlink()
    write(rules, {"hardware/cards.yaml": CARDS.replace("bandwidth_gbs: 100", "bandwidth_gbs: 900")})
    assert bandwidth(rules) == 900
    assert calls == [1]


def test_the_module_writes_the_copy_to_ship(rules: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = subprocess.run(
        [sys.executable, "-m", "advisor.catalog.compiled_rules", str(out), str(rules)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert out.read_bytes() == compile_rules([rules])


@pytest.mark.usefixtures("own_cache")
def test_start_up_imports_nothing_heavy() -> None:
    code = (
        "import sys, msgspec; before = set(sys.modules);"  # on Python 3.10 msgspec itself brings subprocess
        "from advisor.catalog import catalog; catalog().find_model('8B');"
        "catalog().find_model('8B');"
        "heavy = ('yaml', 'difflib', 'hashlib', 'subprocess', 'importlib.metadata');"
        "print([m for m in heavy if m in sys.modules and m not in before])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason=f"{ELSEWHERE}files have owners")
def test_a_cache_file_of_another_user_is_not_believed(
    cache: Path, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache folder may be shared: what another user put there is as good as absent."""
    bandwidth(rules)
    (file,) = cache.glob("rules-*")
    planted = file.read_bytes().replace(b'"bandwidth_gbs":100', b'"bandwidth_gbs":107')
    file.write_bytes(planted)
    assert bandwidth(rules) == 107, "one's own is"
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    assert bandwidth(rules) == 100
    assert read_cache(file, 2**20) is None


@pytest.mark.slow
def test_an_overlay_over_compiled_rules_is_what_all_the_yaml_gives(tmp_path: Path) -> None:
    """Entries, names, whole documents and a provider's offers of an overlay, over the shipped rules: the same bytes."""
    root = shipped_root()
    overlay = tmp_path / "mine"
    price = sorted((root / "prices").glob("*.yaml"))[0]
    engine = (root / "engines" / "vllm.yaml").read_text(encoding="utf-8").replace("name: vLLM\n", "name: Ours\n")
    for name, text in (
        (f"prices/{price.name}", price.read_text(encoding="utf-8")),
        ("engines/vllm.yaml", engine),
        ("budgets.yaml", (root / "budgets.yaml").read_text(encoding="utf-8") + "# ours\n"),
    ):
        (overlay / name).parent.mkdir(parents=True, exist_ok=True)
        (overlay / name).write_text(text, encoding="utf-8")
    roots = (root, overlay)
    assert compile_rules(roots) == encode_rules(read_rules(roots), hash_content(roots))
    assert Catalog(load_compiled_rules(roots)).engine("vllm").name == "Ours"
