"""vLLM's parts, one by one, against logs that name them all (tests/data/vllm_itemised.csv)."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.deployment import Deployment, MemoryEstimate
from advisor.estimation import estimate, find_machine
from advisor.memory.working_memory import size_rotary_tables
from advisor.session import Session
from advisor.units import GIB
from tools.accuracy.rows import TableRow, read_rows

RULES = catalog([shipped_root()])
ROWS = read_rows(Path(__file__).parent.parent / "data" / "vllm_itemised.csv")
VERSION = "0.11.0"  # the file names none; between V1 and the smaller sampler


def estimated(row: TableRow) -> MemoryEstimate:
    return estimate(
        Deployment(
            model=RULES.find_model(row["model"]),
            engine="vllm",
            engine_version=VERSION,
            quantization=row["quantization"],
            machine=find_machine(f"{row['tp']}x H100 80GB SXM", RULES),
            settings={
                "tensor-parallel-size": int(row["tp"]),
                "max-model-len": int(row["context"]),
                "gpu-memory-utilization": 0.9,
            },
        ),
        Session(RULES),
    )


@pytest.mark.parametrize("row", ROWS, ids=[f"{r['model']}-tp{r['tp']}-{r['context']}" for r in ROWS])
def test_every_part_is_as_logged(row: TableRow) -> None:
    """The pool is what the parts leave."""
    first = estimated(row).devices[0]
    assert first.weights_bytes is not None
    assert first.compute_bytes is not None
    assert first.overhead_bytes is not None
    assert first.budget_bytes is not None
    tables = size_rotary_tables(RULES.find_model(row["model"]))  # loading counts them with the weights
    assert (first.weights_bytes + tables) / GIB == pytest.approx(float(row["weights"]), abs=0.06)
    assert first.compute_bytes / GIB == pytest.approx(float(row["activation"]), abs=0.04)
    assert (first.overhead_bytes - tables) / GIB == pytest.approx(float(row["outside"]), abs=0.02)
    pool = first.budget_bytes - first.weights_bytes - first.compute_bytes - first.overhead_bytes
    assert pool / GIB == pytest.approx(float(row["pool"]), abs=0.1)


def test_bytes_of_a_logit_follow_from_the_other_rows() -> None:
    """Each row's peak from the others: 38.4 bytes is no figure of one model."""
    each = []
    for row in ROWS:
        layout = RULES.find_model(row["model"]).layout
        assert layout is not None
        sampler = float(row["activation"]) * GIB - 2 * 8192 * layout.hidden_size
        each.append(sampler / (1024 * layout.vocab_size))
    for i, value in enumerate(each):
        rest = [x for j, x in enumerate(each) if j != i]
        assert value == pytest.approx(sum(rest) / len(rest), rel=0.011)
