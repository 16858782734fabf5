"""The linter finds each kind of fault; every case breaks one thing in rules that are well otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from advisor.catalog.lint import lint
from rule_folder import CARDS, small, write

DENSE = """\
family: tiny
models:
- id: org/Dense
  params_total: 1184
  params_text: 1184
  params_active: 1104
  params_stored: 1184
  layout:
    n_layers: 2
    hidden_size: 8
    vocab_size: 10
    tie_embeddings: false
    attention:
    - {kind: sliding, n: 1, n_heads: 2, n_kv_heads: 1, head_dim: 4, window: 16}
    - {kind: full, n: 1, n_heads: 2, n_kv_heads: 1, head_dim: 4}
    ffn:
    - {kind: dense, n: 2, intermediate: 16}
    attention_order: [0, 1]
  source: [a test]
"""
# by hand: embeddings 2 x 80; per layer q 64, k 32, v 32, o 64, three 8 x 16 matrices 384, two norms 16; final norm 8
COUNT = 160 + 2 * (64 + 32 + 32 + 64 + 384 + 16) + 8
DENSE = DENSE.replace("1184", str(COUNT)).replace("1104", str(COUNT - 80))

ENGINE = """\
id: e
name: E
kind: engine
version: '1.0'
health: {status: active}
os:
  linux: {support: 'yes', src: [s]}
quantization:
  awq: {support: 'yes', src: [s]}
quantization_on:
- {quantization: awq, generation: ampere, level: weight_only, src: [s]}
images:
- {lane: cuda, repository: r, tag: 'v{version}', src: [s]}
sources:
  s: {title: a test}
"""
OFFER = "cloud_offers:\n- {provider: p, accelerator: card-a, name: X, date: '2026', source: a test}\n"


def folder(tmp_path: Path, **files: str) -> Path:
    root = small(tmp_path / "rules")
    whole = {"models/dense.yaml": DENSE, "engines/e.yaml": ENGINE, "prices/p.yaml": OFFER}
    whole.update({name.replace("__", "/") + ".yaml": text for name, text in files.items()})
    return write(root, whole)


def test_good_rules_have_no_findings(tmp_path: Path) -> None:
    assert lint([folder(tmp_path)]) == []


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (
            "models__dense",
            DENSE.replace("[0, 1]", "[0]"),
            "attention_order gives groups of [2, 0] layers, `n` says [1, 1]",
        ),
        ("models__dense", DENSE.replace("[0, 1]", "[0, 2]"), "names a group that is not there"),
        ("models__dense", DENSE.replace("[0, 1]", "[0, 1, 0]"), "longer than the layers"),
        ("models__dense", DENSE.replace("intermediate: 16", "intermediate: 17"), "params_text is"),
        ("models__dense", DENSE.replace(f"stored: {COUNT}", f"stored: {COUNT + 50}"), "more than 1 % apart"),
        ("models__dense", DENSE.replace(f"active: {COUNT - 80}", f"active: {COUNT}"), "params_active is"),
        ("models__dense", DENSE.replace("[a test]", "[]"), "names no source"),
        (
            "models__dense",
            DENSE.replace(
                "  source:",
                "  vision: {kind: pixtral, params: 5, hidden: 8, layers: 1, intermediate: 16, out: 8}\n  source:",
            ),
            "vision.params is 5",
        ),
        ("engines__e", ENGINE.replace("src: [s]}\nquantization:", "src: [t]}\nquantization:"), "unknown source 't'"),
        ("engines__e", ENGINE.replace(", src: [s]}\nquantization:", "}\nquantization:"), "os.linux names no source"),
        ("engines__e", ENGINE.replace("ampere", "ampeer"), "unknown generation 'ampeer', near: ampere"),
        ("engines__e", ENGINE + "runs: [f]\n", "unknown engine 'f'"),
        ("engines__e", ENGINE.replace("version: '1.0'\n", ""), "pins a version and the entry has no `version`"),
        ("prices__p", OFFER.replace("card-a", "card-z"), "unknown accelerator 'card-z', near:"),
        ("hardware__cards", CARDS.replace("1src", "sure", 1), "confidence is 'sure'"),
        ("hardware__cards", CARDS.replace("name: Card A", "name: Card A\n  pci_ids: [10DE-2684]"), "is no PCI id"),
        (
            "hardware__cards",
            CARDS.replace("name: Card A", "name: Card A\n  name_pattern: 'Card ('"),
            "no regular expression",
        ),
        (
            "hardware__cards",
            CARDS.replace("name: Card B", "name: Card B\n  aliases: [CARD a]"),
            "is also a name of card-a",
        ),
        (
            "hardware__cards",
            CARDS.replace("name: Card A", "name: Card A\n  name_pattern: Nothing\n  reported_names: [NV Card A]"),
            "does not match its own reported name",
        ),
        (
            "hardware__cards",
            CARDS.replace("name: Card A", "name: Card A\n  name_pattern: Card").replace(
                "name: Card B", "name: Card B\n  reported_names: [NV Card B]"
            ),
            "takes 'NV Card B', a driver name of card-b",
        ),
        (
            "hardware__cards",
            CARDS.replace("name: Card A", "name: Card A\n  name_pattern: X\n  reported_names: [X]").replace(
                "name: Card B", "name: Card B\n  name_pattern: X\n  reported_names: [X]"
            ),
            "nothing tells them apart",
        ),
        (
            "quantizations",
            "quantizations:\n- {id: Q, family: gguf, format: gguf, bits_nominal: 8, block_elements: 32, "
            "block_bytes: 34, covers: all, quality: 1, source: t}\n",
            "34 bytes for 32 weights are not 8",
        ),
        (
            "quantizations",
            "quantizations:\n- {id: Q, family: hf, format: f, bits_nominal: 8, capability: awk, covers: all,"
            " quality: 1, source: t}\n",
            "unknown capability 'awk', near: awq",
        ),
    ],
)
def test_each_fault_is_found(tmp_path: Path, file: str, text: str, said: str) -> None:
    found = lint([folder(tmp_path, **{file: text})])
    assert any(said in line for line in found), found
    assert all("\n" not in line for line in found)


def test_one_broken_file_does_not_hide_the_others(tmp_path: Path) -> None:
    root = folder(tmp_path, engines__e="id: [", models__dense=DENSE.replace("[a test]", "[]"))
    found = lint([root])
    assert any("engines/e.yaml" in line for line in found)
    assert any("models/dense.yaml" in line for line in found)
