"""What llama.cpp and Transformers took of a real H100 and H200, model by model, is what the estimate says."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from advisor.catalog import catalog
from advisor.estimation import EstimateRequest, estimate, resolve_request
from advisor.session import Session

MIB = 2**20
DATA = Path(__file__).resolve().parents[1] / "data"
CARDS = {"1x H100 80GB SXM": "h100_llamacpp.csv", "1x H200 SXM 141GB": "h200_llamacpp.csv"}


def read_rows(name: str) -> list[dict[str, str]]:
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(x for x in lines if not x.startswith("#")))


ROWS = [{"card": card, **row} for card, name in CARDS.items() for row in read_rows(name)]
OF_TRANSFORMERS = read_rows("h100_transformers.csv")
BEFORE_START = 503316480  # bytes that the card has in use without any process
ABOVE_BOUNDS = {("Qwen/Qwen3-4B", "8", "4096")}  # its pool kept 2.6 GiB of the prompts' pass
# before reserving logits of one token a slot: the readings were made with those of a whole batch
WHOLE_BATCH = "b9000"
FURTHER_OFF = {"zai-org/GLM-4.5-Air": 205}  # MiB; within its bounds


def name_row(row: dict[str, str]) -> str:
    return f"{row['card'][3:7]}-{row['model'].rpartition('/')[2]}-{row['quantization']}"


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda r: f"{r['card'][3:7]}-{r['model'].rpartition('/')[2]}-{r['quantization']}"
)
def test_total_of_a_device_is_what_was_measured(row: dict[str, str]) -> None:
    request = EstimateRequest(
        model=row["model"], engine="llama.cpp", engine_version=WHOLE_BATCH, quantization=row["quantization"],
        hardware=row["card"],
        settings={"n-gpu-layers": "all", "flash-attn": "on", "ctx-size": int(row["context_length"]), "parallel": 1},
    )  # fmt: skip
    rules = catalog()
    device = estimate(resolve_request(request, rules)[0], Session(rules)).devices[0]
    before, loaded, ran = (float(row[f"{x}_mib"]) for x in ("before", "model", "ran"))
    assert device.weights_bytes is not None
    beside = loaded - before - device.weights_bytes / MIB  # context and kernels: the same for all models
    assert 526 <= beside <= 530
    # pools grow with use: 76 to 190 MiB
    assert abs(ran - before - device.total_bytes / MIB) <= FURTHER_OFF.get(row["model"], 130)
    assert device.low_bytes / MIB <= ran - before <= device.high_bytes / MIB


@pytest.mark.parametrize("row", OF_TRANSFORMERS, ids=lambda r: f"{r['model']}-{r['batch']}-{r['prompt_tokens']}")
def test_transformers_takes_what_was_measured(row: dict[str, str]) -> None:
    request = EstimateRequest(
        model=row["model"], engine="transformers", quantization="BF16", hardware="1x H100 80GB SXM",
        context_length=int(row["prompt_tokens"]) + 32, sequences=int(row["batch"]),
    )  # fmt: skip
    rules = catalog()
    device = estimate(resolve_request(request, rules)[0], Session(rules)).devices[0]
    assert device.weights_bytes == int(row["weights_bytes"])  # to the byte: PyTorch's own sum over parameters
    used = int(row["used_bytes"]) - BEFORE_START
    above = (row["model"], row["batch"], row["prompt_tokens"]) in ABOVE_BOUNDS
    assert (device.low_bytes <= used <= device.high_bytes) is not above
