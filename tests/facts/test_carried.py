"""`advise facts --export` and `--import`: facts reach a machine that has no way out, and nothing else does."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from commands import advise
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import catalog
from advisor.catalog.own_models import FactsBundle, import_facts
from advisor.catalog.roots import imported_facts, rule_roots, shipped_root
from advisor.errors import AdvisorError
from advisor.lint.kinds import find_document_fault

CARD = """\
vendor: nvidia
accelerators:
- id: of-tomorrow
  name: RTX 9090
  form: card
  kind: discrete
  memory_bytes: 51539607552
  source: 'a bundle, 2036-01-01'
  confidence: doubtful
"""


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"


def run(*words: str, code: int = 0) -> str:
    result = advise("facts", *words)
    assert result.returncode == code, result.stderr
    return result.stdout + result.stderr


def signed(bundle: dict[str, Any]) -> bytes:
    """A bundle with its checksum, made without the code under test: canonical JSON, keys in order."""
    rest = {**bundle, "sha256": ""}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return json.dumps({**rest, "sha256": hashlib.sha256(text.encode()).hexdigest()}).encode()


def bundle(**files: str) -> dict[str, Any]:
    layer = {k.replace("__", "/") + ".yaml": v for k, v in files.items()}
    return {"advisor_facts": 1, "day": "2036-01-01", "made": "2036-01-02", "layers": [layer]}


@pytest.mark.slow
def test_what_is_exported_is_imported(tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = config / "advisor" / "rules" / "hardware"
    own.mkdir(parents=True)
    (own / "mine.yaml").write_text(CARD)
    file = tmp_path / "facts.json"
    run("--export", str(file))
    assert "already exists" in run("--export", str(file), code=2)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))  # the machine without a network
    assert "of-tomorrow" not in catalog(rule_roots()).accelerators()
    run("--import", str(file))
    there = catalog(rule_roots())
    assert there.accelerators()["of-tomorrow"].name == "RTX 9090"
    shipped = catalog([shipped_root()])
    assert set(shipped.model_ids()) == set(there.model_ids())
    assert there.accelerators().keys() - shipped.accelerators().keys() == {"of-tomorrow"}
    assert "--force replaces" in run("--import", str(file), code=2)
    run("--import", str(file), "--force")


@pytest.mark.slow
def test_the_users_own_rules_go_before_what_was_imported(tmp_path: Path, config: Path) -> None:
    file = tmp_path / "facts.json"
    file.write_bytes(signed(bundle(hardware__new=CARD)))
    run("--import", str(file))
    own = config / "advisor" / "rules" / "hardware"
    own.mkdir(parents=True)
    (own / "mine.yaml").write_text(CARD.replace("RTX 9090", "RTX 9091"))
    assert catalog(rule_roots()).accelerators()["of-tomorrow"].name == "RTX 9091"


@pytest.mark.slow
def test_older_facts_than_the_programs_are_not_taken_and_not_used(tmp_path: Path) -> None:
    file = tmp_path / "facts.json"
    file.write_bytes(signed({**bundle(hardware__new=CARD), "day": "2020-01-01"}))
    assert "--force takes them anyway" in run("--import", str(file), code=2)
    run("--import", str(file), "--force")
    assert "of-tomorrow" not in catalog(rule_roots()).accelerators()  # the shipped facts are newer


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sha256": "0" * 64}, "checksum does not match"),
        ({"advisor_facts": 0}, "export it again with a newer program"),
        ({"advisor_facts": 2}, "it needs a newer program"),
        ({"more": 1}, "is no bundle"),
        ({"layers": [{"../../evil.yaml": "x: 1"}]}, "no place of a rule file"),
        ({"layers": [{"/etc/evil.yaml": "x: 1"}]}, "no place of a rule file"),
        ({"layers": [{".hidden.yaml": "x: 1"}]}, "no place of a rule file"),
        ({"layers": [{"run.sh": "x"}]}, "no place of a rule file"),
        ({"day": "tomorrow"}, "is no bundle"),
    ],
)
def test_bad_bundles_are_one_line_and_leave_nothing(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    file = tmp_path / "facts.json"
    whole = {**bundle(hardware__new=CARD), **change}
    file.write_bytes(json.dumps(whole).encode() if "sha256" in change else signed(whole))
    out = run("--import", str(file), "--force", code=2)
    assert says in out
    assert len(out.strip().splitlines()) == 1
    assert not imported_facts().exists()


@pytest.mark.slow
def test_what_this_program_cannot_read_is_left_out_and_said(tmp_path: Path) -> None:
    file = tmp_path / "facts.json"
    newer = CARD.replace("  confidence", "  of_a_later_form: 1\n  confidence").replace("of-tomorrow", "of-later")
    unsafe = "x: !!python/object/apply:os.system ['true']\n"
    file.write_bytes(signed(bundle(hardware__new=CARD, hardware__later=newer, hardware__unsafe=unsafe, odd="a: 1\n")))
    out = run("--import", str(file))
    assert {x for x in ("hardware/later.yaml", "hardware/unsafe.yaml", "odd.yaml") if f"left out {x}" in out} == {
        "hardware/later.yaml", "hardware/unsafe.yaml", "odd.yaml"
    }  # fmt: skip
    assert {"of-tomorrow"} == set(catalog(rule_roots()).accelerators()) - set(catalog([shipped_root()]).accelerators())


@given(st.binary(max_size=400))
def test_no_bytes_make_it_fall(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "facts.json"
        file.write_bytes(data)
        with pytest.raises(AdvisorError):
            import_facts(file, "2026-01-01", True, find_document_fault)


def test_the_checksum_is_of_all_but_itself() -> None:
    made = FactsBundle(advisor_facts=1, day="2036-01-01", made="2036-01-02", layers=({"a.yaml": "ä: 1"},))
    theirs = json.loads(
        signed({"advisor_facts": 1, "day": "2036-01-01", "made": "2036-01-02", "layers": [{"a.yaml": "ä: 1"}]})
    )
    assert made.checksum() == theirs["sha256"]
