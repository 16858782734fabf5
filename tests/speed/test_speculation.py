"""Speculative decoding: the closed form against drawing, and what it does to an estimate."""

from __future__ import annotations

import json
import random

import pytest
from speed_asking import RULES, ask, made

from advisor.speed import estimator
from advisor.speed.efficiencies import load_engine_rules
from advisor.speed.estimator import Speculation, accepted_tokens, seconds_per_token


@pytest.mark.parametrize(("rate", "tokens"), [(0.0, 3), (0.5, 1), (0.7, 4), (0.9, 8), (1.0, 5)])
def test_tokens_of_a_round_against_drawing(rate: float, tokens: int) -> None:
    generator = random.Random(1)
    total, rounds = 0, 20_000
    for _ in range(rounds):
        run = 0
        while run < tokens and generator.random() < rate:
            run += 1
        total += run + 1
    assert accepted_tokens(rate, tokens) == pytest.approx(total / rounds, rel=0.02)


def test_a_costly_draft_that_is_never_accepted_only_costs() -> None:
    low, value, high = seconds_per_token(
        0.01, 0.002, Speculation("ngram", 4, load_engine_rules(RULES).speculation["ngram"])
    )
    assert low < value < high
    assert high == pytest.approx(0.018)  # nothing accepted at the low end: a whole round for one token


def test_settings_that_ask_for_it() -> None:
    def method(engine: str, settings: dict[str, object], model: str = "70B") -> tuple[str, int] | None:
        d, _ = made(model, None, "4x H100 80GB SXM", engine, settings=settings)
        found = estimator.find_speculation(d, RULES.engine(engine), RULES)
        return found and (found.method, found.tokens)

    tp = {"tensor-parallel-size": 4}
    assert method("vllm", tp) is None
    ngram = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
    assert method("vllm", tp | {"speculative-config": json.dumps(ngram)}) == ("ngram", 3)
    draft = {"model": "meta-llama/Llama-3.2-1B-Instruct", "num_speculative_tokens": 5}
    assert method("vllm", tp | {"speculative-config": json.dumps(draft)}) == ("draft", 5)


def test_a_small_draft_helps_one_request_and_widens_the_bounds() -> None:
    tp = {"tensor-parallel-size": 4}
    config = json.dumps({"model": "meta-llama/Llama-3.2-1B-Instruct", "num_speculative_tokens": 4})
    plain = ask(*made("70B", "BF16", "4x H100 80GB SXM", "vllm", settings=tp))
    drafted = ask(*made("70B", "BF16", "4x H100 80GB SXM", "vllm", settings=tp | {"speculative-config": config}))
    assert plain.decode_tps is not None
    assert drafted.decode_tps is not None
    assert 1.2 < drafted.decode_tps.value / plain.decode_tps.value < 4
    assert drafted.decode_tps.low < plain.decode_tps.high  # it may not help at all
    assert drafted.decode_tps.high / drafted.decode_tps.low > plain.decode_tps.high / plain.decode_tps.low
    assert any("accepted" in n for n in drafted.notes)


def test_a_large_batch_gains_less() -> None:
    """Checking costs products, and a large batch has none to spare."""
    tp = {"tensor-parallel-size": 4}
    config = json.dumps({"model": "meta-llama/Llama-3.2-1B-Instruct", "num_speculative_tokens": 4})

    def gain(concurrency: int) -> float:
        rates = []
        for settings in (tp, tp | {"speculative-config": config}):
            s = ask(*made("70B", "FP8", "4x H100 80GB SXM", "vllm", settings=settings), concurrency=concurrency)
            assert s.decode_tps is not None
            rates.append(s.decode_tps.value)
        return rates[1] / rates[0]

    assert gain(128) < 0.8 * gain(1)
