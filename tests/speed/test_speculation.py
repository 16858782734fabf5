"""Speculative decoding: tokens of a round against drawing, every engine's words, costs by hand, published pairs."""

from __future__ import annotations

import csv
import json
import random
import statistics
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from speed_asking import RULES, ask, made

import advisor
from advisor.speed import speculation
from advisor.speed.efficiencies import Acceptance, load_engine_rules
from advisor.speed.speculation import RoundTimes, Speculation, count_tokens, seconds_per_token

PAIRS = Path(__file__).parent.parent / "data" / "speculation_pairs.csv"
KNOWN = load_engine_rules(RULES).speculation
ONE = RoundTimes(
    plain=0.1, check=0.12, mixers=0.0, draft=0.01, layers=1.0, requests=1.0, vendor="nvidia", hbm=False, sparse=False
)


@pytest.mark.parametrize(
    ("first", "then", "tokens"), [(0.0, 0.5, 3), (0.5, 0.5, 1), (0.8, 0.6, 4), (0.9, 0.95, 8), (1, 1, 5)]
)
def test_tokens_of_a_round_against_drawing(first: float, then: float, tokens: int) -> None:
    generator = random.Random(1)
    total, rounds = 0, 20_000
    for _ in range(rounds):
        run = 0
        while run < tokens and generator.random() < (then if run else first):
            run += 1
        total += run + 1
    accepts = Acceptance(first, then)
    assert count_tokens(Speculation("draft", tokens, tokens), accepts) == pytest.approx(total / rounds, rel=0.02)


def test_positions_are_those_of_a_published_run() -> None:
    """0.76, 0.60, 0.50, 0.41, 0.35, 0.30, 0.26, 0.22 of vLLM 48892 make 4.4 tokens; so do 0.76 and then 0.84."""
    assert count_tokens(Speculation("prediction", 8, 8), Acceptance(0.76, 0.84)) == pytest.approx(4.4, abs=0.2)


def test_a_tree_is_never_more_than_its_depth() -> None:
    chain, tree = Speculation("eagle3", 3, 3), Speculation("eagle3", 3, 60, 8)
    for accepts in (Acceptance(0.5, 0.5), Acceptance(1, 1)):
        assert count_tokens(chain, accepts) <= count_tokens(tree, accepts) <= 4


def test_seconds_of_a_round() -> None:
    """Three drafted tokens, a millisecond beside each: the check, three steps, and what vLLM adds."""
    cost, accepts = KNOWN.costs["vllm"], KNOWN.methods["eagle3"].accepts
    _, usual, _ = seconds_per_token(Speculation("eagle3", 3, 3), KNOWN, "vllm", ONE, "chat")
    whole = 0.12 + 3 * (0.01 + cost.step + cost.layer) + cost.round
    first, then = accepts["chat"]
    assert usual == pytest.approx(whole / (1 + first * (1 + then + then**2)))


def test_a_costly_draft_that_is_hardly_accepted_only_costs() -> None:
    dear = RoundTimes(
        plain=0.01, check=0.012, mixers=0, draft=0.01, layers=28, requests=1, vendor="nvidia", hbm=False, sparse=False
    )
    low, value, high = seconds_per_token(Speculation("draft", 4, 4), KNOWN, "vllm", dear, "chat")
    assert low < value < high
    assert value > 0.01


def test_code_is_guessed_better_than_chat() -> None:
    for name, method in KNOWN.methods.items():
        asked = Speculation(name, method.tokens, method.tokens)
        chat, code = (seconds_per_token(asked, KNOWN, "other", ONE, text)[1] for text in ("chat", "code"))
        assert code < chat


SGLANG = {"speculative-algorithm": "EAGLE", "speculative-draft-model-path": "org/eagle"}


@pytest.mark.parametrize(
    ("engine", "settings", "found"),
    [
        ("vllm", {"tensor-parallel-size": 4}, None),
        ("vllm", {"speculative-config": {"method": "ngram"}}, ("ngram", 4, 4)),
        ("vllm", {"speculative-config": {"method": "ngram", "num_speculative_tokens": 3}}, ("ngram", 3, 3)),
        ("vllm", {"speculative-config": {"method": "ngram", "num_speculative_tokens": 65}}, ("ngram", 4, 4)),
        ("vllm", {"speculative-config": {"method": "deepseek_mtp"}}, ("prediction", 1, 1)),
        ("vllm", {"speculative-config": {"method": "eagle3", "num_speculative_tokens": 2}}, ("eagle3", 2, 2)),
        ("vllm", {"speculative-config": {"method": "dflash", "model": "org/x"}}, ("block", 15, 15)),
        ("vllm", {"speculative-config": {"model": "org/EAGLE3-x", "num_speculative_tokens": 2}}, ("eagle3", 2, 2)),
        ("vllm", {"speculative-config": {"model": "org/small", "num_speculative_tokens": 5}}, ("draft", 5, 5)),
        ("vllm", {"speculative-config": {"method": "of_next_year"}}, ("unknown", 3, 3)),
        ("vllm", {"speculative-config": [1]}, None),
        ("sglang", SGLANG, ("eagle", 5, 7)),  # what it draws for Llama where nothing is set
        ("sglang", SGLANG | {"speculative-num-steps": 3, "speculative-eagle-topk": 1}, ("eagle", 3, 3)),
        ("sglang", SGLANG | {"speculative-num-steps": 7, "speculative-eagle-topk": 4,
                             "speculative-num-draft-tokens": 16}, ("eagle", 7, 15)),
        ("sglang", {"speculative-algorithm": "NEXTN"}, ("prediction", 3, 3)),
        ("sglang", {"speculative-algorithm": "DFLASH"}, ("block", 15, 15)),
        ("sglang", {"speculative-algorithm": "NGRAM"}, ("ngram", 11, 11)),
        ("sglang", {"speculative-algorithm": "STANDALONE", "speculative-num-steps": 4}, ("draft", 4, 4)),
        ("llama.cpp", {"spec-type": "draft-mtp"}, ("prediction", 3, 3)),
        ("llama.cpp", {"spec-type": "draft-mtp,ngram-mod", "spec-draft-n-max": 2}, ("prediction", 2, 2)),
        ("llama.cpp", {"spec-type": "ngram-simple"}, ("ngram", 48, 48)),
        ("llama.cpp", {"spec-type": "none"}, None),
        ("llama.cpp", {"model-draft": "org/small", "draft-max": 16}, ("draft", 16, 16)),
        ("lmdeploy", {"speculative-algorithm": "qwen3_5_mtp", "speculative-num-draft-tokens": 3}, ("prediction", 3, 3)),
        ("tensorrt-llm", {"speculative_config": {"decoding_type": "Eagle3", "max_draft_len": 3}}, ("eagle3", 3, 3)),
        ("max", {"speculative-method": "eagle", "num-speculative-tokens": 2}, ("eagle", 2, 2)),
        ("mlx-lm", {"draft-model": "org/small"}, ("draft", 3, 3)),
    ],
)  # fmt: skip
def test_every_engines_words(engine: str, settings: dict[str, Any], found: tuple[str, int, int] | None) -> None:
    hardware = "Apple M3 Max 64GB" if engine == "mlx-lm" else "1x H100 80GB SXM"
    d, _ = made("llama3.1:8b", None, hardware, engine)
    written = {k: json.dumps(v) if isinstance(v, (dict, list)) else v for k, v in settings.items()}
    asked = speculation.find_speculation(replace(d, settings=written), RULES.engine(engine), KNOWN)
    assert (asked and (asked.method, asked.steps, asked.checked)) == found


def test_sglang_eagle_without_a_path_drafts_by_the_checkpoint() -> None:
    d, _ = made("deepseek-v3.1", "FP8", "8x H200", "sglang", settings={"speculative-algorithm": "EAGLE"})
    asked = speculation.find_speculation(d, RULES.engine("sglang"), KNOWN)
    assert asked is not None
    assert asked.method == "prediction"


def gain(model: str, quant: str, hardware: str, engine: str, settings: dict[str, Any], **load: int) -> Any:
    found = ask(*made(model, quant, hardware, engine, settings=settings), **load).gain
    assert found is not None
    return found


EAGLE3 = {"speculative-config": json.dumps({"method": "eagle3", "model": "org/x", "num_speculative_tokens": 3})}
MTP = {"spec-type": "draft-mtp", "spec-draft-n-max": 2, "parallel": 1}


def test_the_gain_is_the_rate_over_the_rate_without_and_inside_what_a_round_can_give() -> None:
    found = gain("llama3.1:8b", "BF16", "1x H100 80GB SXM", "vllm", EAGLE3)
    rates = [ask(*made("llama3.1:8b", "BF16", "1x H100 80GB SXM", "vllm", settings=s)).decode_tps for s in ({}, EAGLE3)]
    assert rates[0] is not None
    assert rates[1] is not None
    assert found.value == pytest.approx(rates[1].value / rates[0].value)
    assert 1 < found.low < found.value < found.high <= 4


def test_users_take_the_gain_away() -> None:
    found = [
        gain("llama3.1:8b", "BF16", "1x H100 80GB SXM", "vllm", EAGLE3, concurrency=n, output=400) for n in (1, 32, 256)
    ]
    assert found[0].value > found[1].value > found[2].value
    assert max(x.low for x in found[1:]) <= 1


def test_weak_compute_and_sparse_models_gain_less() -> None:
    dense = gain("Qwen/Qwen3.6-27B", "Q4_K_M", "1x RTX 5090", "llama.cpp", MTP)
    apple = gain("Qwen/Qwen3.6-27B", "Q4_K_M", "1x Apple M3 Max 64GB", "llama.cpp", MTP)
    sparse = gain("Qwen/Qwen3.6-35B-A3B", "Q4_K_M", "1x RTX 5090", "llama.cpp", MTP)
    assert apple.value < dense.value
    assert sparse.value < dense.value
    assert max(apple.low, sparse.low) <= 1 < dense.low  # pairs of a sparse model lose; those of the dense one gain


def test_a_draft_that_nobody_knows_leaves_the_speed_and_is_named() -> None:
    config = {"method": "dflash", "model": "org/mine-DFlash", "num_speculative_tokens": 15}
    settings = {"speculative-config": json.dumps(config)}
    found = ask(*made("Qwen/Qwen3-8B", "BF16", "1x A100 80GB SXM", "vllm", settings=settings))
    assert found.decode_tps is not None
    assert found.gain is not None
    assert found.gain.high / found.gain.low > 2
    assert any("not in the catalogue" in n for n in found.notes)


def test_a_small_draft_widens_the_bounds() -> None:
    tp = {"tensor-parallel-size": 4}
    config = json.dumps({"model": "meta-llama/Llama-3.2-1B-Instruct", "num_speculative_tokens": 4})
    plain = ask(*made("70B", "BF16", "4x H100 80GB SXM", "vllm", settings=tp))
    drafted = ask(*made("70B", "BF16", "4x H100 80GB SXM", "vllm", settings=tp | {"speculative-config": config}))
    assert plain.decode_tps is not None
    assert drafted.decode_tps is not None
    assert drafted.decode_tps.low < plain.decode_tps.high  # it may not help at all
    assert drafted.decode_tps.high / drafted.decode_tps.low > plain.decode_tps.high / plain.decode_tps.low
    assert any("accepted" in n for n in drafted.notes)


def _settings(row: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Without and with, in the engine's own words."""
    n, k = int(row["hardware"].split("x")[0]), int(row["drafted"] or 0)
    flag = {"vllm": "tensor-parallel-size", "sglang": "tp-size"}.get(row["engine"])
    base: dict[str, Any] = {flag: n} if flag and n > 1 else {}
    own = json.loads(row["settings"] or "{}")
    named = {"model": row["draft"]} if row["draft"] else {}
    if row["engine"] == "llama.cpp":
        base |= {"n-gpu-layers": "all", "parallel": 1}
        how = {"spec-type": row["method"]} if row["method"] else {"model-draft": row["draft"]}
        return base, base | how | ({"spec-draft-n-max": k} if k else {})
    if row["engine"] == "sglang":
        return base, base | {"speculative-algorithm": row["method"], **own}
    if row["engine"] == "mlx-lm":
        return base, base | {"draft-model": row["draft"]}
    if row["engine"] == "tensorrt-llm":
        config = {"decoding_type": row["method"], "max_draft_len": k}
        return base, base | {"speculative_config": json.dumps(config)}
    return base, base | {
        "speculative-config": json.dumps({"method": row["method"], "num_speculative_tokens": k, **named})
    }


def test_published_pairs() -> None:
    """Figures of the rules as shipped. Each batch was predicted before anything was fitted to it: docs/speed.md."""
    rows = [r for r in csv.DictReader(PAIRS.read_text().splitlines()) if not r["notes"].startswith("doubtful")]
    errors, inside = [], []
    for r in rows:
        load = {
            "concurrency": int(r["concurrency"]),
            "prompt_tokens": int(r["prompt_tokens"] or 1),
            "output_tokens": int(r["output_tokens"] or 400),
            "depth_tokens": 0 if r["prompt_tokens"] else 64,
        }
        line = {k: r[k] for k in ("hardware", "engine", "model", "quantization")} | {"workload": load}
        plain, drafted = (advisor.estimate({**line, "settings": x}).speed for x in _settings(r))
        assert plain is not None
        assert drafted is not None
        assert drafted.gain is not None
        key = "output_tps" if r["quantity"] == "total" else "decode_tps"
        measured = float(r["with"]) / float(r["without"])
        errors.append(abs(getattr(drafted, key).value / getattr(plain, key).value / measured - 1))
        inside.append(drafted.gain.low <= measured <= drafted.gain.high)
    assert statistics.median(errors) < 0.15
    assert statistics.quantiles(errors, n=10)[-1] < 0.5
    assert statistics.mean(inside) > 0.7
