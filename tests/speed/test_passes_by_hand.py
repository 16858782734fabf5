"""A pass, a load and its times worked out by hand: bytes over bandwidth, products over rates, queues and waits."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from judged_samples import one_pass, passes
from speed_asking import RULES, ask, made

from advisor.models import types as t
from advisor.speed import laws, speculation
from advisor.speed.curve import LEVELS
from advisor.speed.engine_rules import DraftAcceptance, load_engine_rules
from advisor.speed.estimator import estimate_speed
from advisor.speed.laws import Efficiency, WaitFactors
from advisor.speed.load import RequestLoad
from advisor.speed.parallel_plan import ParallelPlan
from advisor.speed.rates import PeakRates
from advisor.speed.roofline import estimate_midway_speed
from advisor.speed.speculation import Speculation
from advisor.speed.steps import (
    OVERLAPPED,
    PassTokens,
    _busiest,
    _count_chunks,
    _exchanges,
    _host,
    _link,
    plan_check_pass,
    plan_pass,
    plan_passes,
    touched_share,
)
from advisor.speed.work import ModelWork, attention_costs, cache_bytes, count_work, pair_products, score_bytes

LLAMA, _ = made("llama3.1:8b", "BF16", "H100 80GB SXM", "vllm")  # 32 layers, 8 of 32 heads for keys, each 128 wide
ROW = 32 * 8 * 128 * 2 * 2  # bytes of a token in the cache, 16 bit
WORK = ModelWork(
    dense_bytes=16e9, expert_bytes=0.0, dense_params=7e9, head_params=1e9, expert_params=0.0, experts=0, top_k=0,
    layers=32, moe_layers=0, hidden=4096,
)  # fmt: skip
MOE = msgspec.structs.replace(WORK, expert_bytes=32e9, expert_params=16e9, experts=64, top_k=4, moe_layers=30)
RATES = PeakRates(
    gbs=1000.0, tflops=100.0, link_gbs=50.0, direct=True, host_gbs=40.0, host_known=True, host_prompt_gbs=20.0,
    host_tflops=1.5,
)  # fmt: skip


def plan(**more: Any) -> ParallelPlan:
    given: dict[str, Any] = {"family": "server", "devices": 1} | more
    return ParallelPlan(**given)


def rates(**more: Any) -> PeakRates:
    return msgspec.structs.replace(RATES, **more)


def passed(
    work: ModelWork = WORK, how: ParallelPlan | None = None, peak: PeakRates = RATES, decode: bool = True,
    tokens: tuple[float, float, float] = (4.0, 1.0, 1000.0),
) -> Any:  # fmt: skip
    return plan_pass(LLAMA, work, how or plan(), peak, PassTokens(*tokens), decode)


def test_a_plan_that_is_given_nothing_is_one_device_with_all() -> None:
    found = plan()
    assert (found.tensor, found.stages, found.replicas, found.expert_ranks, found.shares) == (1, 1, 1, 1, (1.0,))
    assert (found.host_dense, found.host_experts, found.host_cache) == (0.0, 0.0, 0.0)
    assert (found.key_bytes, found.value_bytes, found.chunk) == (2.0, 2.0, 512)
    assert not any((found.server, found.pipelined, found.scores_in_memory, found.integer, found.wide_products))
    assert not any((found.experts_over_replicas, found.whole_experts))
    assert found.pool_tokens is None
    assert found.running(RequestLoad(concurrency=10**6)) == (10**6, False)
    assert found.layout == "tp1-pp1-dp1"
    usual = RequestLoad()
    assert (usual.concurrency, usual.prompt, usual.output, usual.depth) == (1, 512, 128, 0)


def test_a_decode_step_of_a_dense_model() -> None:
    """Four sequences with 1,000 tokens each: 16 GB of weights at 1,000 GB/s, 2 x 8e9 products of each."""
    found = passed()
    assert found.weights_s == pytest.approx(0.016)
    assert found.cache_s == pytest.approx(4 * ROW * 1000.5 / 1e12)
    assert found.products_s == pytest.approx(2 * 4 * 8e9 / 1e14)
    assert found.attention_s == pytest.approx(2 * 4 * 32 * 32 * 256 * 1000.5 / 1e14)
    assert (found.experts_s, found.scores_s, found.host_s, found.link_s) == (0.0, 0.0, 0.0, 0.0)
    assert (found.layers, found.moe_layers, found.exchanges) == (32, 0, 0)


def test_a_prompt_needs_the_output_matrix_for_its_last_token_only() -> None:
    found = passed(decode=False, tokens=(1.0, 512.0, 0.0))
    assert found.products_s == pytest.approx(2 * (512 * 7e9 + 1e9) / 1e14)
    assert found.attention_s == pytest.approx(2 * 32 * 32 * 256 * 256 * 512 / 1e14)
    assert found.weights_s == pytest.approx(0.016)
    assert passed(tokens=(1.0, 512.0, 0.0)).products_s == pytest.approx(2 * 512 * 8e9 / 1e14)


def test_ranks_that_split_every_layer() -> None:
    """Four ranks: a quarter of everything, and two sums over ranks a layer: of 4 x 4,096 16-bit values each rank sends
    2 x 3 / 4."""
    found, whole = passed(how=plan(devices=4, tensor=4)), passed()
    for name in ("weights_s", "products_s", "attention_s", "cache_s"):
        assert getattr(found, name) == pytest.approx(getattr(whole, name) / 4), name
    assert found.link_s == pytest.approx(2 * 2 * 4 * 4096 * 64 * 3 / 4 / 50e9)
    assert found.exchanges == 64
    assert passed(how=plan(devices=4, tensor=4), peak=rates(direct=False)).exchanges == 64 * 3  # steps of a ring
    assert passed(how=plan(devices=2, tensor=2), peak=rates(direct=False)).exchanges == 64
    assert passed(peak=rates(direct=False)).exchanges == 0


def test_experts_that_a_step_reads() -> None:
    """Each token goes through a sixteenth of 32 GB; four tokens together through 1 - 1 / (1 + 4 / 15)."""
    found = passed(MOE)
    picked = 1 - 1 / (1 + 4 / 15)
    assert found.experts_s == pytest.approx(32e9 * picked / 1e12)
    assert found.products_s == pytest.approx(2 * 4 * (8e9 + 1e9) / 1e14)
    assert found.moe_layers == 30
    one = passed(MOE, tokens=(1.0, 1.0, 1000.0))
    assert one.experts_s == pytest.approx(2e9 / 1e12)
    two = passed(MOE, plan(devices=2, tensor=2, expert_ranks=2))
    assert two.experts_s == pytest.approx(found.experts_s / 2)
    assert two.products_s == pytest.approx(found.products_s / 2)
    assert touched_share(1.0, 1.0) == 1.0
    assert touched_share(0.5, 1.0) == pytest.approx(0.5)
    assert touched_share(0.25, 3.0) == pytest.approx(0.5)


def test_replicas_that_share_experts() -> None:
    """Two replicas, attention on each: the experts of a rank see the tokens of both, and each token is sent to the
    ranks of its experts, 8 bit there and 16 bit back, of which every other is the own one."""
    how = plan(devices=2, replicas=2, expert_ranks=2, experts_over_replicas=True)
    found = passed(MOE, how)
    picked = 1 - 1 / (1 + 8 / 15)
    assert found.experts_s == pytest.approx(32e9 * picked / 2 / 1e12)
    assert found.products_s == pytest.approx(2 * (4 * 8e9 + 8 / 16 * 16e9 / 2) / 1e14)
    assert found.weights_s == pytest.approx(0.016)
    assert found.link_s == pytest.approx(3 * 4 * 2 * 4096 * 30 / 2 / 50e9)
    assert found.exchanges == 60
    assert passed(WORK, how).exchanges == 0
    # split as well: experts' layers are summed once only, and each rank sends its part of the tokens
    both = plan(devices=8, tensor=2, replicas=4, expert_ranks=8, experts_over_replicas=True)
    sent, count = _exchanges(MOE, both, 10.0)
    assert count == 2 * 32 - 30 + 60
    assert sent == pytest.approx(2 * 2 * 10 * 4096 * 34 / 2 + 3 * 10 / 2 * 4 * 4096 * 30 * 7 / 8)
    sent, count = _exchanges(MOE, plan(devices=2, tensor=2), 10.0)
    assert (sent, count) == (2 * 2 * 10 * 4096 * 64 / 2, 64.0)
    assert _exchanges(MOE, plan(), 10.0) == (0.0, 0.0)


def test_the_busiest_rank_of_whole_experts() -> None:
    """Eight tokens of four experts over four ranks: eight in the mean, and sqrt(2 ln 4 / 8) more on the busiest."""
    whole = plan(devices=4, tensor=4, expert_ranks=4, whole_experts=True)
    assert _busiest(MOE, whole, 8.0) == pytest.approx(1 + math.sqrt(2 * math.log(4) / 8))
    assert _busiest(MOE, plan(devices=4, tensor=4, expert_ranks=4), 8.0) == 1.0
    usual, busy = passed(MOE, plan(devices=4, tensor=4, expert_ranks=4)), passed(MOE, whole)
    assert busy.experts_s == pytest.approx(usual.experts_s * (1 + math.sqrt(2 * math.log(4) / 4)))
    many = passed(MOE, whole, tokens=(5000.0, 1.0, 10.0))
    assert many.experts_s == pytest.approx(32e9 / 4 / 1e12)  # never more than all


def test_a_part_on_the_host() -> None:
    """A quarter of the dense weights, half of the experts, a tenth of the cache: read at 40 GB/s, by a prompt at 20."""
    how = plan(host_dense=0.25, host_experts=0.5, host_cache=0.1, scores_in_memory=True)
    found, device = passed(MOE, how), passed(MOE, plan(scores_in_memory=True))
    for name, left in (("weights_s", 0.75), ("experts_s", 0.5), ("cache_s", 0.9), ("scores_s", 0.9)):
        assert getattr(found, name) == pytest.approx(getattr(device, name) * left), name
    read = 0.25 * 16e9 + 0.5 * device.experts_s * 1e12 + 0.1 * device.cache_s * 1e12
    assert found.host_s == pytest.approx(read / 40e9)
    assert found.products_s == device.products_s
    prompt = passed(MOE, how, decode=False)
    assert prompt.host_s == pytest.approx(read / 20e9)


def test_scores_without_flash_attention() -> None:
    """32 layers of 32 heads, 16 bytes a score: 10 new tokens after 90 see 100 cells, four sequences."""
    found = passed(how=plan(scores_in_memory=True), tokens=(4.0, 10.0, 90.0))
    assert score_bytes(LLAMA.model, 10, 90) == 16 * 32 * 32 * 100 * 10
    assert found.scores_s == pytest.approx(4 * 16 * 32 * 32 * 100 * 10 / 1e12)
    two = passed(how=plan(scores_in_memory=True, devices=2, tensor=2), tokens=(4.0, 10.0, 90.0))
    assert two.scores_s == pytest.approx(found.scores_s / 2)


def test_a_processor_alone_reads_and_multiplies() -> None:
    how = plan(host_dense=1.0, host_experts=1.0, host_cache=1.0)
    none = rates(gbs=0.0, tflops=0.0)
    found, device = passed(how=how, peak=none), passed()
    read = 16e9 + device.cache_s * 1e12
    products = (device.products_s + device.attention_s) * 1e14
    assert found.host_s == pytest.approx(read / 40e9 + products / 1.5e12)
    assert (found.weights_s, found.products_s, found.attention_s, found.layers, found.moe_layers) == (0, 0, 0, 0, 0)
    unknown = passed(how=how, peak=rates(gbs=0.0, tflops=0.0, host_tflops=None))
    assert unknown.host_s == pytest.approx(read / 40e9)
    assert passed(how=how, peak=RATES).host_s == pytest.approx(read / 40e9)  # a card multiplies


def test_words_for_links_and_hosts() -> None:
    assert _link(plan(), RATES) == "alone"
    assert _link(plan(stages=2), RATES) == "stages"
    assert _link(plan(tensor=2), RATES) == "direct"
    assert _link(plan(tensor=2), rates(direct=False)) == "pcie"
    assert _link(plan(expert_ranks=2, whole_experts=True), RATES) == "direct-experts"
    assert _link(plan(tensor=2, whole_experts=True), rates(direct=False)) == "pcie-experts"
    assert _host(plan(), RATES) == "none"
    for part in ("host_dense", "host_experts", "host_cache"):
        assert _host(plan(**{part: 0.1}), RATES) == "known"
        assert _host(plan(**{part: 0.1}), rates(host_known=False)) == "assumed"


def test_chunks_of_a_pipeline_overlap() -> None:
    """Of the chunks after the first a part is done while other stages work: 0.3 of them, of (stages - 1) / stages."""
    assert OVERLAPPED == 0.3
    assert _count_chunks(5.0, plan(pipelined=True, stages=2)) == pytest.approx(5 - 0.3 * 4 / 2)
    assert _count_chunks(5.0, plan(pipelined=True, stages=4)) == pytest.approx(5 - 0.3 * 4 * 3 / 4)
    assert _count_chunks(1.5, plan(pipelined=True, stages=2)) == pytest.approx(1.5 - 0.3 * 0.5 / 2)
    assert _count_chunks(5.0, plan(pipelined=True, stages=1)) == 5.0
    assert _count_chunks(5.0, plan(stages=2)) == 5.0
    assert _count_chunks(1.0, plan(pipelined=True, stages=2)) == 1.0
    assert _count_chunks(0.5, plan(pipelined=True, stages=2)) == 0.5


def test_the_passes_of_a_load() -> None:
    """vLLM on one H100: 4 requests of 1,000 tokens and 200 more after 100, in chunks of at most 256."""
    settings = {"max-num-batched-tokens": 256, "max-num-seqs": 2}
    d, m = made("llama3.1:8b", "BF16", "H100 80GB SXM", "vllm", settings=settings)
    load = RequestLoad(concurrency=4, prompt=1000, output=200, depth=100)
    made_ = plan_passes(d, m, RULES.engine("vllm"), RULES.quantization("BF16"), RULES, load)
    assert made_ is not None
    found, how = made_
    assert (found.running, found.batch, found.asked, found.limited) == (2.0, 2.0, 4.0, True)
    assert (found.side_by_side, found.joins, found.link, found.host) == (1.0, 1.0, "alone", "none")
    assert not found.products_unknown
    assert found.chunks == pytest.approx(1000 / 256)
    work = count_work(d, RULES.quantization("BF16"))
    assert work is not None
    card = RULES.accelerators()["h100-sxm-80gb" if "h100-sxm-80gb" in RULES.accelerators() else "h100-sxm"]
    gbs, tflops = card.bandwidth_gbs or 0, card.tflops["bf16"]
    assert found.decode.weights_s == pytest.approx(work.dense_bytes / gbs / 1e9)
    assert found.decode.cache_s == pytest.approx(2 * ROW * (100 + 1000 + 100 + 0.5) / gbs / 1e9)
    assert found.prefill.attention_s == pytest.approx(
        2 * 32 * 32 * 256 * (100 + (1000 - 256) / 2 + 128) * 256 / tflops / 1e12
    )
    check = plan_check_pass(d, m, RULES.engine("vllm"), RULES.quantization("BF16"), RULES, load, 3)
    assert check is not None
    assert check.products_s == pytest.approx(4 * found.decode.products_s)
    assert check.cache_s == pytest.approx(2 * ROW * (1200 + 2) / gbs / 1e9)
    assert how.chunk == 256
    short = plan_passes(
        d, m, RULES.engine("vllm"), RULES.quantization("BF16"), RULES, RequestLoad(prompt=100, output=10)
    )
    assert short is not None
    assert (short[0].chunks, short[0].limited) == (1.0, False)


def test_stages_of_a_server_work_side_by_side() -> None:
    found = {}
    for name, settings in (("whole", {}), ("stages", {"pipeline-parallel-size": 2})):
        d, m = made("llama3.1:8b", "BF16", f"{2 if settings else 1}x H100 80GB SXM", "vllm", settings=settings)
        made_ = plan_passes(d, m, RULES.engine("vllm"), RULES.quantization("BF16"), RULES, RequestLoad(concurrency=8))
        assert made_ is not None
        found[name] = made_[0]
    assert (found["stages"].side_by_side, found["whole"].side_by_side) == (2.0, 1.0)
    assert found["stages"].batch == 8.0
    assert found["stages"].decode.cache_s == pytest.approx(found["whole"].decode.cache_s / 2)
    assert found["stages"].decode.weights_s == pytest.approx(found["whole"].decode.weights_s)


def test_facts_that_are_not_known_give_no_passes() -> None:
    d, m = made("llama3.1:8b", "BF16", "H100 80GB SXM", "vllm")
    entry, quantization, load = RULES.engine("vllm"), RULES.quantization("BF16"), RequestLoad()
    assert d.machine is not None
    nameless = tuple(msgspec.structs.replace(x, accelerator=None) for x in d.machine.devices)
    unknown = msgspec.structs.replace(d, machine=msgspec.structs.replace(d.machine, devices=nameless))
    stub = msgspec.structs.replace(d, model=msgspec.structs.replace(d.model, layout=None))
    for other in (unknown, stub):
        assert plan_passes(other, m, entry, quantization, RULES, load) is None
        assert plan_check_pass(other, m, entry, quantization, RULES, load, 3) is None
    assert count_work(stub, quantization) is None
    assert attention_costs(stub.model) == ()


# --- laws

EACH = Efficiency(
    memory=0.8, experts=0.5, cache=0.4, host=0.25, products=0.5, attention=0.2, layer=0.001, moe_layer=0.002,
    exchange=0.0005, link=0.1,
)  # fmt: skip


def test_seconds_of_a_pass() -> None:
    """What is read and what is multiplied overlap, as the sum of their powers of 2.5; all else comes on top."""
    full = one_pass(
        weights_s=0.08, experts_s=0.04, cache_s=0.032, scores_s=0.016, host_s=0.01, products_s=0.05, attention_s=0.04,
        link_s=0.003, layers=4, moe_layers=2, exchanges=8,
    )  # fmt: skip
    read, multiplied = 0.08 / 0.8 + 0.04 / 0.4 + 0.032 / 0.32, 0.05 / 0.5 + 0.04 / 0.2
    both = (read**2.5 + multiplied**2.5) ** 0.4
    rest = 0.016 / 0.8 + 4 * 0.001 + 2 * 0.002 + 8 * 0.0005 + 0.003 / 0.1 + 0.01 / 0.25
    assert laws.pass_seconds(full, EACH) == pytest.approx(both + rest)
    assert laws.pass_seconds(one_pass(weights_s=0.08), EACH) == pytest.approx(0.1)
    assert laws.pass_seconds(one_pass(products_s=0.05), EACH) == pytest.approx(0.1)
    assert laws.pass_seconds(one_pass(), EACH) == pytest.approx(0.0, abs=1e-11)
    added = 0.05 / 0.5 + 0.04 / 0.2 + 0.016 / 0.8 + 0.003 / 0.1
    assert laws.added_seconds(full, EACH) == pytest.approx(added)


def test_times_of_a_load() -> None:
    """Steps of 0.1 s, prompts of three chunks of 0.2 s, of which products alone are 0.15 s; eight run, of sixteen."""
    decode, prefill = one_pass(weights_s=0.08), one_pass(products_s=0.075, layers=50)
    waits = WaitFactors(mixing=0.5, queue=0.25, fixed=0.02)
    steps = passes(decode, prefill, chunks=3.0, batch=8.0, running=16.0, asked=20.0, side_by_side=2.0, joins=0.75)
    found = laws.compute_times(steps, 40.0, EACH, EACH, waits)
    assert found.step == pytest.approx(0.1)
    assert found.prompt == pytest.approx(0.6)
    joined = 0.75 * 3 * 0.15 + 0.25 * 0.6
    assert found.between == pytest.approx(0.1 + 7 * 0.5 * joined / 2 / 40)
    assert found.request == pytest.approx(40 * found.between + 0.6 + 0.02)
    busy = 8 * joined / found.request
    wait = (20 / 16 - 1) * found.request
    assert found.first == pytest.approx(0.6 * (1 + 0.25 * 7 * busy / (1 + busy)) + 0.02 + 0.1 + wait)
    assert found.rate == pytest.approx(16 * 40 / found.request)
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
    """DeepSeek V4 Flash: three matrices of each expert; what is neither expert nor embedding is the rest."""
    model = RULES.find_model("deepseek-ai/DeepSeek-V4-Flash")
    layout = model.layout
    assert layout is not None
    moe = [g for g in layout.ffn if isinstance(g, t.Moe)]
    routed = sum(g.n * g.n_experts * 3 * layout.hidden_size * g.moe_intermediate for g in moe)
    head = layout.vocab_size * layout.hidden_size
    found = work_of("deepseek-ai/DeepSeek-V4-Flash", "BF16")
    assert found.expert_params == routed
    assert found.head_params == head
    # the model's own prediction block is no part of a pass
    assert found.dense_params == pytest.approx((model.params_text or model.params_total) - routed - 2 * head)
    assert found.dense_bytes == pytest.approx(2 * (found.dense_params + head))
    assert found.expert_bytes == pytest.approx(2 * routed)
    assert found.moe_layers == sum(g.n for g in moe)
    assert found.layers == layout.n_layers
    # 8 bit: the layers' projections, not the output matrix
    narrow = work_of("deepseek-ai/DeepSeek-V4-Flash", "FP8")
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
    assert score_bytes(gemma, 10, 4990, windows=False) == 16 * 32 * 10 * 62 * 5000
    assert pair_products(gemma, 10, 4995, windows=False) == 62 * 32 * 256 * 5000 * 10
    assert pair_products(gemma, 10, 4995) == 32 * 256 * 10 * (10 * 5000 + 52 * 1024)


# --- speculative decoding


def test_seconds_of_a_drafted_token() -> None:
    """Two drafted a round at 0.01 s, a check of 0.1 s: 0.12 s for 1 + a + a^2 tokens."""
    accepts = DraftAcceptance(tokens=4, low=0.5, value=0.8, high=1.0, source="s")
    low, value, high = speculation.seconds_per_token(0.1, 0.01, Speculation("draft", 2, accepts))
    assert low == pytest.approx(0.12 / 3)
    assert value == pytest.approx(0.12 / 2.44)
    assert high == pytest.approx(0.12 / 1.75)


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ('{"method": "ngram"}', ("ngram", 4)),
        ('{"method": "ngram", "num_speculative_tokens": 1}', ("ngram", 1)),
        ('{"method": "ngram", "num_speculative_tokens": 64}', ("ngram", 64)),
        ('{"method": "ngram", "num_speculative_tokens": 65}', ("ngram", 4)),
        ('{"method": "ngram", "num_speculative_tokens": 0}', ("ngram", 4)),
        ('{"method": "ngram", "num_speculative_tokens": "3"}', ("ngram", 4)),
        ('{"method": "deepseek_mtp"}', ("prediction", 1)),
        ('{"method": "eagle3", "num_speculative_tokens": 2}', ("prediction", 2)),
        ('{"method": "other"}', None),
        ("[1]", None),
        ("{", None),
        ("\\ud800", None),
    ],
)
def test_configurations_of_vllm(config: str, found: tuple[str, int] | None) -> None:
    d = msgspec.structs.replace(LLAMA, settings={"speculative-config": config})
    asked = speculation.find_speculation(d, RULES.engine("vllm"), RULES)
    assert (asked and (asked.method, asked.tokens)) == found
    if asked:
        assert asked.accepts == load_engine_rules(RULES).speculation[asked.method]


def test_a_count_of_its_own_wins() -> None:
    settings = {"speculative-config": '{"method": "ngram", "num_speculative_tokens": 3}', "num_speculative_tokens": 5}
    asked = speculation.find_speculation(msgspec.structs.replace(LLAMA, settings=settings), RULES.engine("vllm"), RULES)
    assert asked is not None
    assert asked.tokens == 5


def test_a_prediction_block_costs_a_layer() -> None:
    """vLLM with the model's own block, one token a round: 1 + 1 / layers of a check, for 1 + a tokens."""
    name, tp = "deepseek-ai/DeepSeek-R1", {"tensor-parallel-size": 8}
    mtp = '{"method": "deepseek_mtp", "num_speculative_tokens": 1}'
    plain = ask(*made(name, "FP8", "8x H200 SXM 141GB", "vllm", settings=tp), output=1)
    drafted = ask(*made(name, "FP8", "8x H200 SXM 141GB", "vllm", settings=tp | {"speculative-config": mtp}), output=1)
    assert plain.decode_tps is not None
    assert drafted.decode_tps is not None
    accepts = load_engine_rules(RULES).speculation["prediction"]
    gain = drafted.decode_tps.value / plain.decode_tps.value
    assert 1.2 < gain < (1 + accepts.value) / (1 + 1 / 61)  # two tokens are checked, which reads more experts
    # the bounds of the rate are wider by those of the acceptance
    up = drafted.decode_tps.high / drafted.decode_tps.value / (plain.decode_tps.high / plain.decode_tps.value)
    down = drafted.decode_tps.value / drafted.decode_tps.low / (plain.decode_tps.value / plain.decode_tps.low)
    assert up == pytest.approx((1 + accepts.high) / (1 + accepts.value))
    assert down == pytest.approx((1 + accepts.value) / (1 + accepts.low))
    assert drafted.tpot_s is not None
    assert plain.tpot_s is not None
    longer = drafted.tpot_s.high / drafted.tpot_s.value / (plain.tpot_s.high / plain.tpot_s.value)
    shorter = drafted.tpot_s.value / drafted.tpot_s.low / (plain.tpot_s.value / plain.tpot_s.low)
    assert longer == pytest.approx((1 + accepts.value) / (1 + accepts.low))
    assert shorter == pytest.approx((1 + accepts.high) / (1 + accepts.value))


# --- loads


def test_the_curve_doubles() -> None:
    assert LEVELS[0] == 1
    assert all(b == 2 * a for a, b in itertools.pairwise(LEVELS))
    assert LEVELS[-1] == 512


def test_midway_is_half_of_the_context_for_prompt_and_output() -> None:
    d, m = made("llama3.1:8b", "BF16", "H100 80GB SXM", "vllm", context=4001)
    for n in (1, 3):
        assert estimate_midway_speed(d, m, RULES, n) == ask(d, m, concurrency=n, prompt=2000, output=2000)
    one = msgspec.structs.replace(m, context_length=1)
    assert estimate_midway_speed(d, one, RULES) == estimate_speed(d, one, RULES, RequestLoad(prompt=1, output=1))


def test_a_file_of_a_model_is_read_for_its_weights(tmp_path: Path) -> None:
    """A path that is no file is none: the weights are those of the catalogue."""
    d, _ = made("llama3.1:8b", "Q4_K_M", "RTX 4090")
    missing = msgspec.structs.replace(d, model_path=str(tmp_path / "none.gguf"))
    quantization = RULES.quantization("Q4_K_M")
    assert count_work(missing, quantization) == count_work(d, quantization)
