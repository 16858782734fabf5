"""Workload options: every field is reached by name, wrong values are named, unknown ones are stated."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.advice.workload import FIELDS, build_workload, find_unknown_fields
from advisor.deployment import Workload
from advisor.errors import BadInput
from advisor.questions import make_asking, read_pairs
from advisor.questions.recommend import RecommendQuestion


def made(*more: str, **given: Any) -> Workload:
    asking = make_asking(RecommendQuestion, "cli")
    return build_workload(RecommendQuestion(**given), asking, None, read_pairs(more, "--workload"))


def test_fields_by_name() -> None:
    w = made(
        "stage=production",
        "tool_calling=true",
        "lora_rank=16",
        "context=32k",
        "shared-prefix=0.5",
        "cloud=forbidden",
        "format=mlx",
    )
    assert (w.stage, w.tool_calling, w.lora_rank, w.context, w.shared_prefix) == ("production", True, 16, 32768, 0.5)
    assert (w.cloud, w.checkpoint_format) == ("forbidden", "mlx")


def test_options() -> None:
    w = made(context=8192, concurrency=3, shared_prefix=0.8, cloud="allowed", lora_adapters=2)
    assert (w.context, w.concurrency, w.cloud, w.lora_adapters) == (8192, 3, "allowed", 2)
    assert w.shared_prefix is not None
    assert w.shared_prefix > 0.5


def test_every_field_can_be_given() -> None:
    samples = {
        "use_case": "rag", "priority": "ease", "stage": "prototype", "cloud": "allowed", "api": "anthropic",
        "endpoint": "http://x",
        "form_factor": "phone", "checkpoint_format": "gguf", "confidence": "safe",
    }  # fmt: skip
    for name in FIELDS:
        value = samples.get(name, "1")
        assert getattr(made(f"{name}={value}"), name) is not None


@pytest.mark.parametrize(
    "text", ["stage=prod", "tool_calling=maybe", "lora_rank=x", "context=0", "nothing", "=5", "shared_prefix=much"]
)
def test_wrong_values_are_named(text: str) -> None:
    with pytest.raises(BadInput) as e:
        made(text)
    assert text.split("=")[0] in e.value.message or text in e.value.message


def test_unknown_fields_are_said_and_not_used() -> None:
    assert any(
        "concurency" in t and "concurrency" in t for t in find_unknown_fields(Workload(extra={"concurency": "4"}))
    )
    assert not find_unknown_fields(made("hours_per_month=160"))
