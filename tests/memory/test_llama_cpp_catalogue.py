"""llama.cpp's memory against its own planner over the catalogue: a sample of tests/data/llamacpp_catalogue.csv.

The whole table is in docs/accuracy.md; tests/planner makes it.
"""

from __future__ import annotations

from pathlib import Path

import gguf_headers
import pytest

from advisor.catalog import catalog
from advisor.catalog.roots import shipped_root
from advisor.deployment import MemoryEstimate
from advisor.estimation import estimate, resolve_request
from advisor.models.types import Model
from advisor.session import Session
from tools.accuracy.llama_planner import (
    PlannerComparison,
    compare_planner_estimate,
    compare_planner_row,
    make_planner_request,
)
from tools.accuracy.rows import TableRow, read_rows

RULES = catalog([shipped_root()])
ROWS = read_rows(Path(__file__).parent.parent / "data" / "llamacpp_catalogue.csv")
FIRST = {r["architecture"]: i for i, r in reversed(list(enumerate(ROWS)))}
# one row in so many, the first of each architecture always
SAMPLE = [r for i, r in enumerate(ROWS) if i % 9 == 0 or FIRST[r["architecture"]] == i]


@pytest.fixture(scope="module")
def estimates() -> list[MemoryEstimate]:
    return [estimate(resolve_request(make_planner_request(r), RULES)[0], Session(RULES)) for r in SAMPLE]


@pytest.fixture(scope="module")
def found(estimates: list[MemoryEstimate]) -> list[tuple[TableRow, PlannerComparison]]:
    return [(r, compare_planner_estimate(r, ours)) for r, ours in zip(SAMPLE, estimates, strict=True)]


Found = list[tuple[TableRow, PlannerComparison]]


def is_whole(row: TableRow) -> bool:
    return row["gpus"] == "1" and row["layers"] == "all" and row["experts_on_host"] == "0"


def test_weights_cache_and_state_are_the_engines_own_bytes(found: Found) -> None:
    wrong = [(r["model"], c.weights, c.context) for r, c in found if not c.exact]
    assert not wrong


def test_scratch_is_near_wherever_a_model_lies(found: Found) -> None:
    assert sum(c.near for _, c in found) / len(found) >= 0.97


def test_totals_are_within_two_percent(found: Found) -> None:
    assert sum(c.total_near for _, c in found) / len(found) >= 0.97


def test_scratch_on_one_gpu_is_equal_wherever_it_is_called_exact(found: Found) -> None:
    """Within 1 % and 1 MiB: positions of models that see images, and padding, are some kilobytes."""
    whole = [(r, c) for r, c in found if is_whole(r) and c.basis == "exact"]
    assert len(whole) >= 200
    wrong = [
        (r["model"], c.scratch) for r, c in whole if abs(c.scratch[0] - c.scratch[1]) > 2**20 + 0.01 * c.scratch[1]
    ]
    assert not wrong


# share of the sample whose scratch is the engine's to the byte, on every device and on the host. These only grow
EXACT_ON_DEVICES, EXACT_ON_HOST = 0.83, 0.76


def test_scratch_is_the_engines_own_bytes(estimates: list[MemoryEstimate]) -> None:
    """Most rows to the byte. The planner counts the logits of its slots as output, not as scratch of the host."""
    devices, hosts = 0, 0
    for row, ours in zip(SAMPLE, estimates, strict=True):
        theirs = [int(piece.split("/")[2]) for piece in row["devices"].split(";")]
        devices += [d.compute_bytes for d in ours.devices] == theirs
        layout = RULES.find_model(row["model"]).layout
        assert layout is not None
        assert ours.host is not None
        logits = 4 * layout.vocab_size * int(row["slots"])
        hosts += (ours.host.compute_bytes or 0) - logits == int(row["host"].split("/")[2])
    assert devices / len(SAMPLE) >= EXACT_ON_DEVICES
    assert hosts / len(SAMPLE) >= EXACT_ON_HOST, hosts


def models() -> list[str]:
    """The first model of each architecture."""
    first: dict[str, str] = {}
    for row in ROWS:
        first.setdefault(row["architecture"], row["model"])
    return list(first.values())


@pytest.mark.parametrize("name", models())
def test_a_file_gives_what_its_model_does(name: str, tmp_path: Path) -> None:
    """A header-only 16-bit file, which llama.cpp's loader takes, read as any file of a user's."""
    model: Model = RULES.find_model(name)
    path = tmp_path / "model.gguf"
    types = gguf_headers.list_types(model)
    stored = model.gguf_architecture.tensors.stored_experts if model.gguf_architecture else None
    if stored is not None:
        types = {k: stored if "_exps.weight" in k else v for k, v in types.items()}
    gguf_headers.write_header(path, model, types)
    row = next(r for r in ROWS if r["model"] == name and is_whole(r))
    by_name, by_file = (compare_planner_row(row | {"quantization": "F16"}, RULES, x) for x in (None, str(path)))
    assert by_name is not None
    assert by_file is not None
    assert by_file.weights[0] == by_name.weights[0]
    assert by_file.context[0] == by_name.context[0]
    assert by_file.scratch[0] == pytest.approx(by_name.scratch[0], rel=0.01)
