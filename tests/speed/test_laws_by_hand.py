"""Seconds of passes and loads, and layouts that are not plain: worked out by hand."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from judged_samples import one_pass, passes
from midway_speed import estimate_midway_speed
from speed_asking import RULES, ask, made

from advisor.models import types as t
from advisor.session import Session
from advisor.speed import laws
from advisor.speed.estimator import estimate_speed
from advisor.speed.laws import Efficiency, WaitFactors
from advisor.speed.work import (
    ModelWork,
    RequestLoad,
    attention_costs,
    cache_bytes,
    count_work,
    pair_products,
    score_bytes,
)

# --- laws

EACH = Efficiency(
    memory=0.8, experts=0.5, cache=0.4, latent=0.2, unpacking=0.5, host=0.25, products=0.5, attention=0.2, layer=0.001,
    moe_layer=0.002, other_mixer=0.003, exchange=0.0005, link=0.1, scan=2.0, vector=0.05,
)  # fmt: skip


def test_seconds_of_a_pass() -> None:
    """What is read and what is multiplied overlap, as the sum of their powers of 2.5; all else comes on top."""
    full = one_pass(
        weights_s=0.08, experts_s=0.04, cache_s=0.032, scores_s=0.016, host_s=0.01, products_s=0.05, attention_s=0.04,
        link_s=0.003, layers=4, moe_layers=2, other_mixers=3, exchanges=8, scan_s=0.032, vector_s=0.004,
        latent_s=0.016, widened_s=0.024,
    )  # fmt: skip
    read, multiplied = 0.08 / 0.8 + 0.04 / 0.4 + 0.032 / 0.32 + 0.016 / 0.16, 0.05 / 0.5 + 0.004 / 0.05 + 0.04 / 0.2
    both = (read**2.5 + multiplied**2.5) ** 0.4
    read_again, launched = (0.016 + 0.024) / 0.8 + 0.032 / 1.6, 4 * 0.001 + 2 * 0.002 + 3 * 0.003
    rest = read_again + launched + 8 * 0.0005 + 0.003 / 0.1 + 0.01 / 0.25
    assert laws.pass_seconds(full, EACH) == pytest.approx(both + rest)
    assert laws.pass_seconds(one_pass(weights_s=0.08), EACH) == pytest.approx(0.1)
    assert laws.pass_seconds(one_pass(weights_s=0.08, experts_s=0.04, unpacked=1), EACH) == pytest.approx(0.4)
    assert laws.pass_seconds(one_pass(products_s=0.05), EACH) == pytest.approx(0.1)
    assert laws.pass_seconds(one_pass(), EACH) == pytest.approx(0.0, abs=1e-11)
    added = 0.05 / 0.5 + 0.04 / 0.2 + 0.016 / 0.8 + 0.032 / 1.6 + 0.003 / 0.1
    assert laws.added_seconds(full, EACH) == pytest.approx(added)


def test_times_of_a_load() -> None:
    """Steps of 0.1 s, prompts of three chunks of 0.2 s, of which products alone are 0.15 s; eight run, of sixteen."""
    decode, prefill = one_pass(weights_s=0.08), one_pass(products_s=0.075, layers=50)
    waits = WaitFactors(mixing=0.5, queue=0.25, together=0.1, fixed=0.02, sequence=0.003)
    loaded = {"batch": 8.0, "running": 16.0, "asked": 20.0}
    steps = passes(decode, prefill, chunks=3.0, side_by_side=2.0, joins=0.75, delaying=14.0, **loaded)
    found = laws.compute_times(steps, 40.0, EACH, EACH, waits)
    assert found.step == pytest.approx(0.1)
    assert found.prompt == pytest.approx(0.6)
    joined = 0.75 * 3 * 0.15 + 0.25 * 0.6
    assert found.between == pytest.approx(0.1 + 7 * 0.003 + 14 * 0.5 * joined / 2 / 40)
    assert found.request == pytest.approx(40 * found.between + 0.6 + 0.02)
    # a tenth comes with seven others, of whom half are before it; the rest queues for the others' prompts
    busy = 7 * 0.5 * joined / 2 / found.request
    behind = 0.1 * 3.5 * (joined + 0.02) + 0.25 * joined * busy / 2 / (1 - busy + 1 / 8)
    wait = (20 / 16 - 1) * found.request
    assert found.first == pytest.approx(0.6 + 0.02 + 0.1 + behind + wait)
    # replicas that wait for each other's prompts do nothing else, mixed or not
    assert found.rate == pytest.approx(16 * 40 / (40 * (0.1 + 7 * 0.003) + 14 * joined / 2 + 0.6 + 0.02))
    few = passes(decode, prefill, few=one_pass(weights_s=0.12))
    assert laws.compute_times(few, 40.0, EACH, EACH, waits).step == pytest.approx(0.15)  # never faster than few
    fewer = passes(decode, prefill, few=one_pass(weights_s=0.04))
    assert laws.compute_times(fewer, 40.0, EACH, EACH, waits).step == pytest.approx(0.1)
    alone = laws.compute_times(passes(decode, prefill), 40.0, EACH, EACH, waits)
    assert alone.between == alone.step
    assert alone.first == pytest.approx(0.2 + 0.02 + 0.1)
    faster = laws.compute_times(passes(decode, prefill), 40.0, EACH, EACH, waits, 0.05)
    assert (faster.step, faster.between, faster.prompt) == (0.05, 0.05, alone.prompt)


# --- work of layouts that are not plain


def work_of(name: str, quantization: str, hardware: str = "8x B200 SXM") -> ModelWork:
    d, _ = made(name, quantization, hardware, "vllm", settings={"tensor-parallel-size": 8})
    found = count_work(d, RULES.quantization(quantization))
    assert found is not None
    return found


def test_a_layout_whose_tensors_are_not_known_is_counted() -> None:
    """Ling 2.6 Flash: three matrices of each expert; what is neither expert nor embedding is the rest."""
    model = RULES.find_model("inclusionAI/Ling-2.6-flash")
    layout = model.layout
    assert layout is not None
    moe = [g for g in layout.ffn if isinstance(g, t.Moe)]
    routed = sum(g.n * g.n_experts * 3 * layout.hidden_size * g.moe_intermediate for g in moe)
    head = layout.vocab_size * layout.hidden_size
    found = work_of("inclusionAI/Ling-2.6-flash", "BF16")
    assert found.expert_params == routed
    assert found.head_params == head
    # the model's own prediction block is no part of a pass
    assert found.dense_params == pytest.approx((model.params_text or model.params_total) - routed - 2 * head)
    assert found.dense_bytes == pytest.approx(2 * (found.dense_params + head))
    assert found.expert_bytes == pytest.approx(2 * routed)
    assert found.moe_layers == sum(g.n for g in moe)
    assert found.layers == layout.n_layers
    # 8 bit: the layers' projections, not the output matrix
    narrow = work_of("inclusionAI/Ling-2.6-flash", "FP8")
    bits = RULES.quantization("FP8").bits_nominal
    assert narrow.expert_bytes == pytest.approx(routed * bits / 8)
    assert narrow.dense_bytes == pytest.approx((found.dense_params * bits + head * 16) / 8)


def test_layers_that_read_a_compressed_past() -> None:
    """DeepSeek V4: a window of rows as they are, and next to it one row for each `compress_ratio` tokens, of which an
    index lets `top_k` through."""
    model = RULES.find_model("deepseek-ai/DeepSeek-V4-Flash")
    assert model.layout is not None
    groups = [g for g in model.layout.attention if isinstance(g, t.Compressed)]
    costs = attention_costs(model)
    assert sum(x.n for x in costs if x.window is not None) == model.layout.n_layers
    past = [g for g in groups if g.compress_ratio]
    assert len(costs) == len(groups) + len(past)
    depth = 100_000.0
    total, products = 0.0, 0.0
    for g in groups:
        rows = min(depth, g.window or depth)
        seen_index = 0.0
        if g.compress_ratio:
            kept = depth / g.compress_ratio
            rows += min(kept, (g.indexer.top_k or kept) if g.indexer else kept)
            seen_index = g.indexer.dim * kept if g.indexer and not g.indexer.shared else 0.0
        total += g.n * 2.0 * (g.head_dim * rows + seen_index)
        mean = min(depth + 0.5, g.window or depth + 0.5)
        if g.compress_ratio:
            kept = (depth + 0.5) / g.compress_ratio
            mean += min(kept, (g.indexer.top_k or kept) if g.indexer else kept)
        products += g.n * 2 * g.n_heads * g.head_dim * mean
    assert cache_bytes(model, depth, 2.0, 2.0) == pytest.approx(total)
    assert cache_bytes(model, depth, 2.0, 2.0, ranks=8) == pytest.approx(total)  # one row for all heads
    assert pair_products(model, 1, depth) == pytest.approx(products)


def test_layers_of_a_sparse_index() -> None:
    """DeepSeek V3.2: of a latent row of 512 + 64 elements 2,048 are let through; the index has keys of every token."""
    name = (
        "deepseek-ai/DeepSeek-V3.2-Exp"
        if any(m.id == "deepseek-ai/DeepSeek-V3.2-Exp" for m in RULES.model_index())
        else "deepseek-ai/DeepSeek-V3.2"
    )
    model = RULES.find_model(name)
    costs = attention_costs(model)
    assert {(x.k, x.v, x.most, x.index, x.latent, x.kv_heads) for x in costs} == {(576, 0, 2048, 128, True, 1)}
    n = sum(x.n for x in costs)
    assert n == 61
    assert cache_bytes(model, 1000, 2.0, 2.0) == n * 2 * (576 + 128) * 1000
    assert cache_bytes(model, 10_000, 2.0, 2.0) == n * 2 * (576 * 2048 + 128 * 10_000)
    assert pair_products(model, 1, 100_000) == n * 128 * (2 * 512 + 64) * 2048
    assert pair_products(model, 1, 100) == n * 128 * (2 * 512 + 64) * 100.5


def test_windows_of_scores() -> None:
    """Gemma 3 27B: 10 layers see everything, 52 their 1,024 tokens and those of the pass; 32 heads, 16 bytes each."""
    gemma = RULES.find_model("google/gemma-3-27b-it")
    assert score_bytes(gemma, 10, 4990) == 16 * 32 * 10 * (10 * 5000 + 52 * 1034)
    assert score_bytes(gemma, 10, 90) == 16 * 32 * 10 * 62 * 100
    assert pair_products(gemma, 10, 4995) == 32 * 256 * 10 * (10 * 5000 + 52 * 1024)


# --- loads


def test_midway_is_half_of_the_context_for_prompt_and_output() -> None:
    d, m = made("llama3.1:8b", "BF16", "H100 80GB SXM", "vllm", context=4001)
    for n in (1, 3):
        assert estimate_midway_speed(d, m, Session(RULES), n) == ask(d, m, concurrency=n, prompt=2000, output=2000)
    one = msgspec.structs.replace(m, context_length=1)
    assert estimate_midway_speed(d, one, Session(RULES)) == estimate_speed(
        d, one, Session(RULES), RequestLoad(prompt=1, output=1)
    )


def test_a_file_of_a_model_is_read_for_its_weights(tmp_path: Path) -> None:
    """A path that is no file is none: the weights are those of the catalogue."""
    d, _ = made("llama3.1:8b", "Q4_K_M", "RTX 4090")
    missing = msgspec.structs.replace(d, model_path=str(tmp_path / "none.gguf"))
    quantization = RULES.quantization("Q4_K_M")
    assert count_work(missing, quantization) == count_work(d, quantization)
