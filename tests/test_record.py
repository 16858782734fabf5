"""Answers are their JSON; what they were made from hangs on them and is no part of it."""

from __future__ import annotations

import msgspec
import pytest

import advisor
from advisor.advice.types import Advice, OfferedLaunch, RankedDeployment
from advisor.errors import BadInput
from advisor.page.build import read_answer
from advisor.planning.types import Plan
from advisor.record import SCHEMA_VERSION


def offer() -> RankedDeployment:
    return RankedDeployment(engine="vllm", model="m", reasons=("r",)).keep(OfferedLaunch("vLLM"))


def test_what_it_was_made_from_is_no_part_of_it() -> None:
    plain = RankedDeployment(engine="vllm", model="m", reasons=("r",))
    assert offer() == plain
    assert offer().to_dict() == plain.to_dict()
    assert "inner" not in offer().to_dict()
    assert offer().engine_name == "vLLM"


def test_a_copy_with_other_values_keeps_it() -> None:
    copy = offer().with_fields(gains=("fast",))
    assert copy.gains == ("fast",)
    assert copy.engine_name == "vLLM"
    assert offer().gains == ()


def test_what_was_read_or_runs_elsewhere_has_none() -> None:
    read = msgspec.json.decode(msgspec.json.encode(offer()), type=RankedDeployment)
    with pytest.raises(LookupError):
        _ = read.engine_name
    with pytest.raises(LookupError):
        _ = offer().plan
    assert offer().deployment is None


def test_an_answer_says_its_schema_first_and_is_read_back() -> None:
    advice = advisor.recommend("RTX 4090, 64GB RAM, linux", model="8B", engine="llama.cpp")
    text = msgspec.json.encode(advice)
    assert next(iter(advice.to_dict().items())) == ("schema_version", SCHEMA_VERSION)
    assert msgspec.json.decode(text, type=Advice) == advice
    assert advice.chosen is not None
    assert isinstance(advice.chosen.plan, Plan)
    assert advice.chosen.deployment is advice.chosen.plan.deployment
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text.replace(b'"schema_version":1', b'"schema_version":2', 1), type=Advice)


def test_an_answer_without_a_page_is_refused_in_a_line() -> None:
    with pytest.raises(BadInput, match="no report"):
        read_answer(("hardware",), '{"schema_version":1,"source":"x","tiers":[]}')
