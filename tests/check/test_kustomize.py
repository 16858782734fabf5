"""Kustomizations: objects as kubectl builds them, and what is reported about the launches that one changes.

tests/data/kustomize/built.yaml is what `kubectl kustomize over` of kubectl 1.20.2 (Debian 12) printed on 2026-11-23.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from checking import knowledge, rules_of

from advisor.checks.one_file import CheckOptions, FileResult, check_file, make_checker
from advisor.checks.read import kustomize
from advisor.checks.read.context import ReaderContext
from advisor.checks.rules.edits import apply_edits
from advisor.checks.rules.evaluate import Rulebook
from advisor.yaml_places import as_mapping, parse_documents

DATA = Path(__file__).resolve().parents[1] / "data" / "kustomize"


def check(path: Path) -> FileResult:
    options = CheckOptions(fit=False)
    return check_file(str(path), make_checker(Rulebook(knowledge()), options))


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list) else str(value)


def build(folder: Path, root: Path) -> dict[str, Any]:
    file = folder / "kustomization.yaml"
    (doc,) = parse_documents(file.read_text(), file)
    context = ReaderContext(str(file), knowledge(), {}, folder)
    built = kustomize._build(as_mapping(doc), folder, context, kustomize._Build(root.resolve(), [], []), 0)
    return {str(b.made["kind"]): plain(b.made) for b in built}


def test_objects_are_those_of_kubectl() -> None:
    wanted = {d["kind"]: plain(d) for d in yaml.load_all((DATA / "built.yaml").read_text(), yaml.BaseLoader)}
    assert build(DATA / "over", DATA) == wanted


def overlay(tmp_path: Path, text: str, base: str | None = None) -> Path:
    shutil.copytree(DATA / "base", tmp_path / "base")
    if base is not None:
        (tmp_path / "base/deployment.yaml").write_text(base)
    (tmp_path / ".git").mkdir()
    (tmp_path / "over").mkdir()
    path = tmp_path / "over/kustomization.yaml"
    path.write_text(text)
    return path


def test_only_what_the_overlay_brings_about_is_said(tmp_path: Path) -> None:
    path = overlay(tmp_path, "resources:\n- ../base\nimages:\n- name: vllm/vllm-openai\n  newTag: v0.33.0\n")
    found = check(path)
    assert rules_of(found) == {"swap-space-removed"}
    (finding,) = found.findings
    assert (finding.severity, finding.line) == ("error", 2)  # where the base is named
    assert "swap-space-removed" not in rules_of(check(tmp_path / "base/deployment.yaml"))
    (deployment,) = found.verdicts
    assert deployment.engine_version == "0.33.0"
    text = path.read_text()
    assert apply_edits(text, finding.edits) == text  # the words stand in another file


@pytest.mark.parametrize(
    "text",
    ["resources: [../base]\n", "resources: [../base]\nimages: [{name: busybox, newTag: '2'}]\nreplicas: []\n",
     "resources: [../base]\nimages: [{name: other, newTag: v9}]\n"],
)  # fmt: skip
def test_what_an_overlay_takes_over_is_judged_in_its_own_file(tmp_path: Path, text: str) -> None:
    assert rules_of(check(overlay(tmp_path, text))) == set()


def test_words_of_an_inline_patch_have_their_own_place(tmp_path: Path) -> None:
    text = """\
resources: [../base]
patches:
- target: {kind: Deployment, name: l.*m}
  patch: |-
    - op: add
      path: /spec/template/spec/containers/0/args/-
      value: --nonsense-flag
"""
    (finding,) = check(overlay(tmp_path, text)).findings
    assert (finding.rule, finding.line, finding.column) == ("flag-unknown", 7, 14)


def test_a_patch_that_deletes_or_repairs_leaves_nothing_to_say(tmp_path: Path) -> None:
    patch = "- |\n  apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: llm}\n  $patch: delete\n"
    deleted = f"resources: [../base]\npatchesStrategicMerge:\n{patch}"
    assert check(overlay(tmp_path, deleted)).verdicts == ()
    patch = "- {op: remove, path: /spec/template/spec/containers/0/args/2}\n" * 2
    (tmp_path / "over/repair.yaml").write_text(patch)
    repaired = tmp_path / "over/kustomization.yaml"
    repaired.write_text(
        "resources: [../base]\nimages: [{name: vllm/vllm-openai, newTag: v0.33.0}]\n"
        "patches: [{path: repair.yaml, target: {kind: Deployment}}]\n"
    )
    assert rules_of(check(repaired)) == set()


@pytest.mark.parametrize("name", ["../../outside", "/etc", "https://example.com/x.yaml", "missing", "../over"])
def test_what_is_not_in_the_tree_is_not_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").mkdir()
    shutil.copytree(DATA / "base", tmp_path / "outside/base")
    path = overlay(tmp_path / "tree", f"resources: ['{name}']\nimages: [{{name: vllm/vllm-openai, newTag: v0.33.0}}]\n")
    assert check(path).verdicts == ()


def test_fluxs_kustomization_is_another_kind(tmp_path: Path) -> None:
    text = (
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: a}\nspec: {path: ./base}\n"
    )
    assert check(overlay(tmp_path, text)).problem is None
