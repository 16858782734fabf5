"""Real deployment files of other projects, where they lie beside the checkout."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import pytest

import advisor
from advisor.catalog import catalog
from advisor.checks.knowledge import Knowledge
from advisor.checks.rules import Rulebook
from advisor.checks.run import Options, check_file

CORPUS = Path(__file__).resolve().parents[2].parent / "shared" / "corpus"
pytestmark = pytest.mark.skipif(not (CORPUS / "index.csv").exists(), reason="../shared/corpus is not there")
CARDS = {
    "h100": "H100 80GB SXM", "h200": "H200 SXM 141GB", "l4": "L4", "gh200": "GH200 96GB", "b200": "B200 SXM",
    "gb200": "GB200", "gb300": "GB300", "b300": "B300 SXM6", "3090": "RTX 3090", "a100": "A100 SXM4 80GB",
}  # fmt: skip


def rows() -> list[dict[str, str]]:
    with (CORPUS / "index.csv").open() as f:
        return list(csv.DictReader(f))


def test_each_is_read_quickly() -> None:
    rules = catalog()
    know = Knowledge(rules)
    book = Rulebook(know)
    for r in rows():
        began = time.perf_counter()
        found = check_file(str(CORPUS / r["file"]), know, book, Options(), {})
        assert time.perf_counter() - began < 1, r["case_id"]
        assert found.problem is None or found.problem.message, r["case_id"]


def test_parallelism_is_read_right() -> None:
    named = [
        r
        for r in rows()
        if r["tp"] and r["has_launch"] == "yes" and r["kind"] not in ("vllm-recipe", "srt-slurm-recipe")
    ]
    right = 0
    for r in named:
        sizes = {d.ranks for d in advisor.check(CORPUS / r["file"], fit=False).deployments}
        right += any(s is not None and s % int(r["tp"]) == 0 for s in sizes)
    assert right >= 0.9 * len(named), (right, len(named))


def test_declared_hardware_is_not_refused() -> None:
    refused, judged = [], 0
    for r in rows():
        name = next((CARDS[p.strip().lower()] for p in r["declared_hw"].split(";") if p.strip().lower() in CARDS), None)
        if (
            name is None or r["has_launch"] != "yes" or r["kind"] == "vllm-recipe"
        ):  # recipes leave the number of cards open
            continue
        first = advisor.check(CORPUS / r["file"])
        count = max([int(r["gpu_count"] or 1), *(d.ranks or 1 for d in first.deployments)])
        report = (
            first
            if any(d.hardware for d in first.deployments)
            else advisor.check(CORPUS / r["file"], on=f"{count}x {name}")
        )
        judged += any(d.fits is not None for d in report.deployments)
        if any(d.fits is False for d in report.deployments):
            refused.append(r["case_id"])
    assert refused == []
    assert judged >= 15
