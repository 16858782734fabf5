"""A request that names no release: bounds of every release in use; and what was seen to fail."""

from __future__ import annotations

from typing import Any

import pytest

import advisor
from advisor.catalog import catalog
from advisor.engines.versions import list_open
from advisor.record import Record

RELEASES = ("0.8.5", "0.11.0", "0.15.0", "0.19.0", "0.22.0", "0.27.0", "0.30.0", "0.33.0")


def ask(version: str | None, **more: Any) -> Any:
    question = {"model": "meta-llama/Llama-3.1-8B-Instruct", "engine": "vllm", "quantization": "BF16",
                "hardware": "1x RTX A5000", "engine_version": version, **more}  # fmt: skip
    return advisor.estimate({k: v for k, v in question.items() if v is not None})


@pytest.mark.parametrize(
    ("model", "quantization", "settings"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "BF16", {"max-model-len": 2048}),
        ("meta-llama/Llama-3.1-8B-Instruct", "BF16", {"max-model-len": 2048, "enforce-eager": True}),
        ("Qwen/Qwen3-30B-A3B", "AWQ", {"max-model-len": 8192, "max-num-batched-tokens": 4096}),
    ],
)
@pytest.mark.parametrize("hardware", ["1x RTX A5000", "1x H100 80GB SXM", "2x RTX 3090"])
def test_bounds_without_a_version_hold_those_of_every_release_in_use(
    model: str, quantization: str, settings: dict[str, Any], hardware: str
) -> None:
    tp = {"tensor-parallel-size": int(hardware[0])}
    more = {"model": model, "quantization": quantization, "settings": {**settings, **tp}, "hardware": hardware}
    open_ = ask(None, **more).devices[0]
    for version in RELEASES:
        row = ask(version, **more).devices[0]
        assert open_.low_bytes <= row.low_bytes, version
        assert open_.high_bytes >= row.high_bytes, version


def test_the_value_without_a_version_is_the_newest_release_s() -> None:
    newest = ask(catalog().engine("vllm").version).devices[0]
    assert ask(None).devices[0].total_bytes == newest.total_bytes


def test_a_log_without_its_version_lies_inside() -> None:
    """Llama-3.1-8B on an RTX A5000, eager, 2,048 tokens: 0.9 of the card less the logged pool of 5.29 GiB."""
    row = ask(None, settings={"max-model-len": 2048, "enforce-eager": True}, context_length=2048).devices[0]
    used = 0.9 * row.capacity_bytes - 5.29 * 2**30
    cache = row.kv_cache_bytes
    assert row.low_bytes - cache <= used <= row.high_bytes - cache


class Constant(Record, frozen=True):
    before: str | None


@pytest.mark.parametrize(
    ("version", "oldest", "taken"),
    [
        ("0.9", None, ["0.10"]),
        ("0.10", None, ["0.20"]),
        ("0.30", None, [None]),
        (None, None, [None]),
        (None, "0.8", ["0.10", "0.20", None]),  # rows that end with 0.8 hold below it only
        (None, "0.10", ["0.20", None]),
        (None, "0.9", ["0.10", "0.20", None]),
    ],
)
def test_rows_of_releases_in_use(version: str | None, oldest: str | None, taken: list[str | None]) -> None:
    rows = [Constant("0.20"), Constant("0.8"), Constant(None), Constant("0.10")]
    found = [x.before for x in list_open(rows, version, oldest)]
    assert found[-1] == taken[-1]
    assert sorted(found, key=str) == sorted(taken, key=str)


@pytest.mark.parametrize(
    ("version", "quantization", "hardware", "fits"),
    [
        ("0.14.0", "AWQ", "1x RTX PRO 6000 Blackwell Workstation", None),
        ("0.17.1", "AWQ", "1x RTX PRO 6000 Blackwell Workstation", None),
        ("0.13.0", "AWQ", "1x RTX PRO 6000 Blackwell Workstation", True),
        ("0.17.2", "AWQ", "1x RTX PRO 6000 Blackwell Workstation", True),
        ("0.14.0", "FP8", "1x RTX PRO 6000 Blackwell Workstation", True),
        ("0.14.0", "AWQ", "1x H100 80GB SXM", True),
        (None, "AWQ", "1x RTX PRO 6000 Blackwell Workstation", True),
    ],
)
def test_what_was_seen_to_fail_is_not_known_to_run(
    version: str | None, quantization: str, hardware: str, fits: bool | None
) -> None:
    answer = ask(version, quantization=quantization, hardware=hardware, context_length=8192)
    assert answer.fits is fits
    assert any("seen to freeze" in w for w in answer.warnings) is (fits is None)
